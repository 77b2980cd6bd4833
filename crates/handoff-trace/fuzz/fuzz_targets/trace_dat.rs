//! Reads any bytes as a `trace.dat` file, and what can be read as ring-buffer pages and events.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(raw) = handoff_trace::dat::from_bytes(bytes, Path::new("input")) {
        drop(raw.decode());
        // What was read can be written, and read again.
        let again = handoff_trace::dat::to_bytes(&raw);
        drop(handoff_trace::dat::from_bytes(&again, Path::new("again")).expect("we wrote it"));
    }
});
