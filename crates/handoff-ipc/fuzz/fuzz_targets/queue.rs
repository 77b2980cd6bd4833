//! Attaches to the queue that any bytes describe, and uses it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // An error is an answer; the target fails by a panic or a fault only.
    let _ = handoff_ipc::fuzzing::queue_descriptor(input);
});
