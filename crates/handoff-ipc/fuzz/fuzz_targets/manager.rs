//! Makes any requests to a service manager, with objects or without.
//!
//! Each request is a code, a form, a length and that many bytes. The manager must answer each, and
//! must still know the name that it was given at the start.
#![no_main]

use handoff_ipc::parcel::Writer;
use handoff_ipc::servicemanager::{Manager, Policy};
use handoff_ipc::{Binder, Code, Result, Service, Transaction};
use libfuzzer_sys::fuzz_target;

// `IServiceManager` of Android 16.
const GET: Code = 1;
const ADD: Code = 5;
const REMOVE: Code = 15;
/// One past the last of Android's own.
const END: u8 = 17;

struct Nothing;

impl Service for Nothing {
    fn descriptor(&self) -> &str {
        "fuzz.INothing"
    }

    fn on_transact(&self, _: &mut Transaction<'_>) -> Result<()> {
        Ok(())
    }
}

fuzz_target!(|input: &[u8]| {
    let manager = Manager::new(Policy { names_per_user: 8, watches_per_user: 8, ..Policy::open() });
    let (binder, mine) = (manager.binder(), Binder::new(Nothing));
    let add = |to: &mut Writer<'_>| {
        to.write_string16("kept")?;
        to.write_binder(Some(&mine))?;
        to.write_i32(0)?;
        to.write_i32(8)
    };
    binder.transaction(ADD).call(add, |_| Ok(())).expect("a name for the first object");
    let mut rest = input;
    while let Some(([code, form, len], more)) = rest.split_first_chunk::<3>() {
        let (bytes, more) = more.split_at(usize::from(*len).min(more.len()));
        rest = more;
        let code = if *code < END { u32::from(*code) } else { 96 + u32::from(*code % 16) };
        let write = |to: &mut Writer<'_>| {
            if form & 1 != 0 {
                to.write_string16(&String::from_utf8_lossy(bytes))?;
            }
            if form & 2 != 0 {
                to.write_binder((form & 4 != 0).then_some(&mine))?;
            }
            if form & 8 != 0 {
                to.write_binder(None)?;
            }
            if form & 16 != 0 { to.write_raw(bytes) } else { Ok(()) }
        };
        // Taking the name back is the one request that may change it.
        let takes_back = code == REMOVE && bytes == b"kept";
        if !takes_back {
            // An error is an answer; the target fails by a panic only.
            let _ = binder.transaction(code).call(write, |_| Ok(()));
        }
    }
    let found: Option<Binder> =
        binder.transaction(GET).call(|to| to.write_string16("kept"), |reply| reply.read()).expect("an answer");
    assert!(found.is_some(), "the first name is still there");
});
