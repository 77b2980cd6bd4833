//! Reads any bytes as a ring of oneway calls.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // An error is an answer; the target fails by a panic only.
    let _ = handoff_ipc::fuzzing::oneway_ring(input);
});
