//! Peers that send what no compiler's code would: C++ refuses it, and neither reads nor keeps what it must not.

use std::cell::Cell;
use std::fs::File;
use std::path::Path;
use std::process::Command;

use handoff_ipc::parcel::Parcel;
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Error, ParcelService, Result};
use handoff_testkit::{repeats, require, require_tool};

use crate::built::{From, Workshop, run};
use crate::{everything, peers};

const SANITIZED: [&str; 3] =
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

/// Numbers that differ from call to call, and are the same in each run (xorshift of Marsaglia's).
struct Chance(Cell<u32>);

impl Chance {
    fn below(&self, end: usize) -> usize {
        let mut drawn = self.0.get();
        drawn ^= drawn << 13;
        drawn ^= drawn >> 17;
        drawn ^= drawn << 5;
        self.0.set(drawn);
        drawn as usize % end
    }

    /// A length, a flag or a number: small, or at an edge.
    fn word(&self) -> i32 {
        [-1, 0, 0, 1, 1, 1, 2, 3, 4, 64, 0x7fff_ffff, i32::MIN, 0x0010_0000][self.below(13)]
    }

    /// Words, texts, objects and descriptors, as they come.
    fn parcel(&self, object: &Binder) -> Result<Parcel> {
        let mut parcel = Parcel::new();
        for _ in 0..self.below(30) {
            parcel.write(|to| match self.below(16) {
                0 => to.write_binder(Some(object)),
                1 => to.write_binder(None),
                2 => {
                    to.write(&1)?;
                    to.write(&0)?;
                    to.write_fd(File::open("/dev/null").map_err(|error| Error::io("/dev/null", error))?)
                }
                3 => to.write(&"text".to_owned()),
                _ => to.write(&self.word()),
            })?;
        }
        Ok(parcel)
    }

    /// What was sent, with some words changed, or cut.
    fn changed(&self, mut parcel: Parcel) -> Parcel {
        let (bytes, objects) = parcel.parts_mut();
        for _ in 0..=self.below(3) {
            let words = bytes.as_chunks_mut::<4>().0;
            let at = self.below(words.len().max(1));
            if let Some(word) = words.get_mut(at) {
                *word = self.word().to_le_bytes();
            }
        }
        if self.below(4) == 0 {
            bytes.truncate(self.below(bytes.len().max(1)) & !3);
        }
        let size = bytes.len();
        objects.retain(|(at, _)| at + 24 <= size);
        parcel
    }
}

/// Calls every method of the lamp, but the one that ends its process, with parcels that nobody should send.
fn attack(workshop: &Workshop) {
    let lamp = workshop.manager.services().get("sample.hal.ILamp/default").unwrap();
    let own = Binder::new(ParcelService::new("test.IOwn", |_, _| Ok(None)));
    let (chance, mut refused) = (Chance(Cell::new(7)), 0);
    for round in 0..repeats(20_000, 1000) {
        let code = [1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 99][round % 16];
        let request = chance.parcel(&own).unwrap();
        let answer = lamp.transaction(code).call(|to| request.send(to), Parcel::receive);
        assert!(!matches!(answer, Err(Error::Dead)), "method {code} ended the service");
        refused += u32::from(answer.is_err());
    }
    assert!(refused > 100, "{refused}");
}

/// A service that answers with what it was sent, changed.
fn liar() -> Binder {
    let chance = Chance(Cell::new(9));
    let chance = std::sync::Mutex::new(chance);
    Binder::new(ParcelService::new("sample.everything.IEverything", move |_, request: Parcel| {
        Ok(Some(chance.lock().unwrap().changed(request)))
    }))
}

/// Runs the sample's client beside an attacker, and a client of values of all types that the liar answers, and then Rust.
fn both(workshop: &Workshop, flags: &[&str], wrap: impl Fn(&Path) -> Command) {
    let server = workshop.compile("server.cpp", From::Ours, flags);
    let client = workshop.compile("client.cpp", From::Ours, flags);
    let serving = workshop.serve(&mut wrap(&server));
    attack(workshop);
    let said = run(&mut wrap(&client));
    // The library may say more beside it: which interface an object has instead.
    assert!(said.contains("all is well\n"), "{said}");
    serving.ends_well();
    let everything = everything::program(workshop, flags);
    workshop.manager.services().add("liar", liar(), ServiceOptions::default()).unwrap();
    let said = run(wrap(&everything).arg("liar"));
    assert!(said.ends_with("all is well\n"), "{said}");
    peers::call_rust(workshop, &mut wrap(&everything));
}

#[test]
fn nothing_is_read_or_kept_that_must_not_be_under_sanitizers() {
    let compiler = require!(require_tool("g++"));
    let workshop = Workshop::new(compiler);
    both(&workshop, &SANITIZED, |program| workshop.command(program));
}

#[test]
fn nothing_is_read_or_kept_that_must_not_be_under_memcheck() {
    let compiler = require!(require_tool("g++"));
    let valgrind = require!(require_tool("valgrind"));
    let workshop = Workshop::new(compiler);
    both(&workshop, &[], |program| {
        let mut command = workshop.command(&valgrind);
        command.args([
            "--quiet",
            "--error-exitcode=9",
            "--leak-check=full",
            "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite",
        ]);
        command.arg(program);
        command
    });
}
