//! Any bytes as what the kernel's Binder driver says to a process that serves and calls: returns, and
//! transactions with objects and descriptors in them.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// The leak checker takes a thread of the pool that is just starting for a leak. What matters is counted by
/// the target itself: parcels, descriptors, references, and the driver.
// SAFETY: the sanitizer looks for this name and this signature, and nothing else does.
#[unsafe(no_mangle)]
extern "C" fn __lsan_is_turned_off() -> i32 {
    1
}

fuzz_target!(|input: &[u8]| {
    let complaints = handoff_ipc::fuzzing::binder(input);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
});
