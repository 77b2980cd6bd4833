//! Reads any bytes as a parcel, by any order of reads.
//!
//! The first 16 bytes choose what is read; the rest is the parcel, as a hostile peer would fill it.
#![no_main]

use handoff_ipc::fuzzing::read_any;
use handoff_ipc::parcel::{Reader, SharedBytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((reads, bytes)) = input.split_at_checked(16) else { return };
    let mut reader = Reader::new(SharedBytes::from_slice(bytes));
    for read in reads {
        let before = reader.remaining();
        let outcome = read_any(&mut reader, (*read).into());
        assert!(reader.remaining() <= before, "a read never goes back");
        if outcome.is_err() {
            return;
        }
    }
});
