//! Reads any bytes as a parcel, by any order of reads.
//!
//! The first 16 bytes choose what is read; the rest is the parcel, as a hostile peer would fill it.
#![no_main]

use handoff_ipc::parcel::{Reader, SharedBytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((reads, bytes)) = input.split_at_checked(16) else { return };
    let mut reader = Reader::new(SharedBytes::from_slice(bytes));
    for read in reads {
        let before = reader.remaining();
        let outcome = match read % 14 {
            0 => reader.read_i32().map(drop),
            1 => reader.read_i64().map(drop),
            2 => reader.read::<bool>().map(drop),
            3 => reader.read::<f32>().map(drop),
            4 => reader.read::<f64>().map(drop),
            5 => reader.read_string16().map(drop),
            6 => reader.read_string8().map(drop),
            7 => reader.read_bytes().map(|bytes| assert!(bytes.len() <= before)),
            8 => reader.read::<Vec<i32>>().map(|items| assert!(items.len() <= before)),
            9 => reader.read::<Vec<String>>().map(|items| assert!(items.len() <= before)),
            10 => reader.read::<Option<String>>().map(drop),
            11 => reader.read_binder().map(drop),
            12 => reader.read_fd().map(drop),
            _ => reader.read_sized(|fields| fields.read_i32()).map(drop),
        };
        assert!(reader.remaining() <= before, "a read never goes back");
        if outcome.is_err() {
            return;
        }
    }
});
