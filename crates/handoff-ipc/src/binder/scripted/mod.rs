//! Any bytes as what the kernel's driver says to this process, for a fuzz target and its tests.
//!
//! `model.rs` stands in for the kernel: it says what the bytes have it say, hears what this process says,
//! and keeps account of both. `delivery.rs` makes parcels, with real descriptors in them. Here is the process:
//! a service that reads and answers whatever arrives, and what has to hold when everything was said.

mod delivery;
mod input;
pub(crate) mod model;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use rustix::fs::{MemfdFlags, fstat, memfd_create};

use self::input::{DESCRIPTOR, Input};
use self::model::Script;
use super::driver::Driver;
use super::process::Process;
use super::serve;
use super::thread_state;
use crate::code::Code;
use crate::context::Context;
use crate::fuzzing::{KINDS, read_any};
use crate::locked::lock;
use crate::object::LocalNode;
use crate::object::{Binder, Reference, Service, Transaction};
use crate::parcel::{Handle, Reader, Writer};
use crate::{ExceptionCode, Result, Status};

/// Objects that are there from the beginning.
const OBJECTS: usize = 3;
/// Bytes that are looked at; what is behind them changes nothing.
const LONGEST: usize = 16 << 10;

/// A number that several choices are made by.
struct Choice(u32);

impl Choice {
    fn next(&mut self, of: u32) -> u32 {
        let chosen = self.0 % of;
        self.0 /= of;
        chosen
    }
}

/// A service that does what the number of its transaction says.
struct Scripted {
    // What callers gave it, and it did not give back.
    kept: Arc<Mutex<Vec<Binder>>>,
    complaints: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    fn act(&self, code: Code, data: &mut Reader<'_>, reply: &mut Writer<'_>) -> Result<()> {
        let mut choice = Choice(code);
        let action = choice.next(14);
        let given = lock(&self.kept).last().cloned();
        match (action, given) {
            (0, _) => reply.write_i32(1)?,
            (1, _) => reply.write_string16("an answer")?,
            // Long enough to be gathered where the context does so.
            (2, _) => reply.write_bytes(&[7; 2000])?,
            (3, _) => reply.write_fd(std::io::stderr())?,
            (4, _) => reply.write_binder(Some(&Binder(Reference::Local(LocalNode::new(self.another())))))?,
            (5, given) => reply.write_binder(given.as_ref())?,
            (6, _) => return Err(Status::new(ExceptionCode::IllegalArgument, "no").into()),
            (7, Some(given)) => {
                // Nested: whatever the script says next arrives while this call waits.
                let answer = given
                    .transaction(choice.next(KINDS) + 1)
                    .call(|w| w.write(&5), |r| read_any(r, choice.next(KINDS)));
                reply.write_i32(answer.is_ok().into())?;
            }
            (8, Some(given)) => given.transaction(1).oneway(|w| w.write_bytes(&[1; 700]))?,
            (9, Some(given)) => given.link_to_death(|| ())?.keep(),
            (10, Some(given)) => drop(given.on_freeze(|_| ())),
            (11, _) => lock(&self.kept).clear(),
            (12, _) => reply.write_shared(data.read_bytes()?)?,
            (13, _) => reply.write_handle(Handle {
                fds: vec![rustix::io::dup(std::io::stderr()).map_err(|e| crate::Error::io("dup", e))?],
                ints: vec![1, 2],
            })?,
            _ => {}
        }
        while choice.0 > 0 {
            let kind = choice.next(KINDS + 1);
            if kind == KINDS {
                let found = data.read_binder()?;
                lock(&self.kept).extend(found);
            } else {
                read_any(data, kind)?;
            }
        }
        Ok(())
    }

    fn another(&self) -> Arc<Self> {
        Arc::new(Scripted { kept: Arc::clone(&self.kept), complaints: Arc::clone(&self.complaints) })
    }
}

impl Service for Scripted {
    fn descriptor(&self) -> &str {
        DESCRIPTOR
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let code = transaction.code();
        let Transaction { data, reply, .. } = transaction;
        // The runtime would make an exception of it, and the test would pass.
        let acted = catch_unwind(AssertUnwindSafe(|| self.act(code, data, reply)));
        acted.unwrap_or_else(|_| {
            lock(&self.complaints).push(format!("transaction {code} panicked"));
            Ok(())
        })
    }
}

/// Has a script said to a process, and says what was wrong in how the process behaved.
pub(crate) fn run(bytes: &[u8]) -> Vec<String> {
    let mut input = Input(&bytes[..bytes.len().min(LONGEST)]);
    let (how, calls) = (input.byte(), input.byte());
    let context = match how & 3 {
        0 | 1 => Context::Framework,
        2 => Context::Hardware,
        _ => Context::Vendor,
    };
    let complaints = Arc::default();
    // Each descriptor that arrives is of this file, which nothing else in the process has open.
    let file = memfd_create("handoff-scripted", MemfdFlags::CLOEXEC).expect("a file");
    let number = fstat(&file).expect("a file's number").st_ino;
    let script = Arc::new(Script::new(input.0, file, Arc::clone(&complaints)));
    let driver = Driver::scripted(Arc::clone(&script)).expect("memory of a driver");
    let process = Process::new(driver, context);
    // No thread beside this one hears what is said.
    process.is_polled();
    if how & 4 != 0 {
        process.lend_priorities();
    }
    let service = Scripted { kept: Arc::default(), complaints: Arc::clone(&complaints) };
    let service = Arc::new(service);
    let nodes: Vec<_> = (0..OBJECTS).map(|_| LocalNode::new(Arc::clone(&service) as _)).collect();
    for node in &nodes {
        script.knows(process.pin(node));
    }
    // A thread of its own has nothing to say to the drivers of other runs, and says the last of this one's
    // when it ends.
    let ended = std::thread::scope(|scope| {
        let conversation = scope.spawn(|| {
            if how & 8 != 0 {
                talk_first(&process, calls.into());
            }
            while !script.is_over() {
                // What cannot be read is told, and what comes after it is read.
                drop(serve::get_and_execute(&process));
            }
            lock(&service.kept).clear();
        });
        conversation.join()
    });
    if ended.is_err() {
        lock(&complaints).push("the thread that talks to the driver panicked".into());
    }
    nodes.iter().for_each(|node| process.unpin(node.id()));
    if Arc::into_inner(process).is_none() {
        lock(&complaints).push("something still has the driver open".into());
    }
    script.close();
    // A thread of the pool that served the last call may still be at its end.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let mut open = open_files().filter(|found| *found == number).count();
    while open > 0 && std::time::Instant::now() < end {
        std::thread::yield_now();
        open = open_files().filter(|found| *found == number).count();
    }
    if open > 0 {
        lock(&complaints).push(format!("{open} descriptors that arrived were not closed"));
    }
    std::mem::take(&mut lock(&complaints))
}

/// Numbers of the files that this process has open.
fn open_files() -> impl Iterator<Item = u64> {
    let folder = std::fs::read_dir("/proc/self/fd").expect("a list of descriptors");
    let number = |entry: std::io::Result<std::fs::DirEntry>| std::fs::metadata(entry.ok()?.path()).ok();
    folder.filter_map(number).map(|file| std::os::unix::fs::MetadataExt::ino(&file))
}

/// Calls an object of another process, to which the script is the answer.
fn talk_first(process: &Arc<Process>, how: u32) {
    let remote = Binder::from_remote(thread_state::proxy(process, 1 + how % 2));
    let code = 1 + how / 2;
    // Every outcome is right, as long as it is one.
    let _ = if how % 3 == 0 {
        remote.transaction(code).oneway(|w| w.write_string16("something"))
    } else {
        remote.transaction(code).call(
            |w| {
                w.write_binder(Some(&remote))?;
                w.write_bytes(&[3; 600])?;
                w.write_fd(std::io::stderr())
            },
            |reply| read_any(reply, how % KINDS),
        )
    };
    drop(remote.link_to_death(|| ()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, InterfaceId};
    use proptest::prelude::*;

    #[test]
    fn what_the_fuzzer_begins_with_does_no_harm() {
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/binder");
        let seeds: Vec<_> = std::fs::read_dir(seeds).unwrap().map(|seed| seed.unwrap().path()).collect();
        assert!(seeds.len() >= 20, "{}", seeds.len());
        for seed in seeds {
            assert_eq!(run(&std::fs::read(&seed).unwrap()), Vec::<String>::new(), "{}", seed.display());
        }
    }

    #[test]
    fn an_unread_descriptor_is_closed_whatever_was_expected() {
        // The service reads an object reference, descriptors, a handle.
        let wanted = |first: u32, second: u32| 11 + 14 * (first + (KINDS + 1) * second);
        for code in [wanted(11, 12), wanted(12, 12), wanted(KINDS, 12), wanted(13, 7)] {
            // A descriptor and a number; a descriptor that the table of objects has twice; three descriptors.
            for objects in [&[4, 12, 1, 0][..], &[4, 7, 52, 0, 0, 0, 0, 0], &[4, 4, 4, 0]] {
                let mut bytes = vec![0, 0, 8, 0, 0];
                bytes.extend(code.to_le_bytes());
                bytes.push(0);
                bytes.extend(objects);
                assert_eq!(run(&bytes), Vec::<String>::new(), "{bytes:?}");
            }
        }
    }

    /// What a script says for a reply with these values.
    fn reply(values: &[&[u8]]) -> Vec<u8> {
        // The transaction is complete; a reply of no code, that nothing is wrong with.
        [&[1, 10, 16, 0, 0, 0, 0, 0, 0][..], &values.concat(), &[0]].concat()
    }

    /// A text of four letters in such a reply.
    fn text(letters: &str) -> Vec<u8> {
        [&[9, 4], letters.as_bytes()].concat()
    }

    #[test]
    fn a_call_that_means_another_interface_is_not_sent() {
        let [own, base] = ["a.IB", "a.IA"].map(text);
        let chain = reply(&[&[12, 2], &own, &base]);
        // The object's name is asked for once, all that it is whenever that is not what is meant.
        let said = [reply(&[&own]), chain.clone(), chain].concat();
        let file = memfd_create("handoff-scripted", MemfdFlags::CLOEXEC).unwrap();
        let complaints = Arc::default();
        let script = Arc::new(Script::new(&said, file, Arc::clone(&complaints)));
        let process = Process::new(Driver::scripted(Arc::clone(&script)).unwrap(), Context::Framework);
        process.is_polled();
        std::thread::scope(|scope| {
            let calls = scope.spawn(|| {
                let remote = Binder::from_remote(crate::binder::thread_state::proxy(&process, 1));
                let call = |meant| {
                    remote.transaction(1).interface(InterfaceId::new(meant)).call(|_| Ok(()), |_| Ok(()))
                };
                let Err(Error::WrongInterface { expected, found }) = call("a.IX") else { panic!("sent") };
                assert_eq!((expected.as_str(), found.as_str()), ("a.IX", "a.IB"));
                assert!(!script.is_over());
                // These are sent, and nobody answers any longer.
                for meant in ["a.IA", "a.IB"] {
                    let unanswered = call(meant).unwrap_err();
                    assert!(!matches!(unanswered, Error::WrongInterface { .. }), "{unanswered}");
                    assert!(script.is_over());
                }
            });
            calls.join().unwrap();
        });
        assert_eq!(*lock(&complaints), Vec::<String>::new());
    }

    #[test]
    fn memory_of_calls_that_are_sent_for_other_threads_does_not_pile_up() {
        let file = memfd_create("handoff-scripted", MemfdFlags::CLOEXEC).unwrap();
        let script = Arc::new(Script::new(&[], file, Arc::default()));
        let process = Process::new(Driver::scripted(Arc::clone(&script)).unwrap(), Context::Framework);
        process.is_polled();
        let (kept, most) = std::thread::scope(|scope| {
            let sends = || {
                thread_state::flush(&process);
                for _ in 0..1000 {
                    thread_state::Buffer { bytes: Vec::with_capacity(100), secret: false }.put_back();
                }
                thread_state::spares()
            };
            scope.spawn(sends).join().unwrap()
        });
        assert_eq!(kept, most);
        script.close();
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
        #[test]
        fn whatever_is_said_everything_is_answered_given_back_and_closed(
            bytes in proptest::collection::vec(any::<u8>(), 0..600)
        ) {
            prop_assert_eq!(run(&bytes), Vec::<String>::new());
        }
    }
}
