//! Reads any bytes as the header of a reply, exceptions included, as a hostile service sends it.
#![no_main]

use handoff_ipc::{Error, ExceptionCode, fuzzing};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    match fuzzing::reply(input) {
        Ok(left) => assert_eq!(left + 4, input.len()),
        Err(Error::Status(status)) => assert_ne!(status.exception(), ExceptionCode::None),
        Err(_) => {}
    }
    if let Some(raw) = input.first_chunk::<4>() {
        assert!(!fuzzing::status(i32::from_le_bytes(*raw)).to_string().is_empty());
    }
});
