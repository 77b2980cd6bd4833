//! `trace.dat` files of any bytes.
#![no_main]

use std::path::Path;

use handoff_trace::dat;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(raw) = dat::from_bytes(bytes, Path::new("fuzzed")) {
        let _ = raw.decode();
        let again = dat::from_bytes(&dat::to_bytes(&raw), Path::new("ours"));
        assert!(again.is_ok(), "what was read is written so that it can be read");
    }
});
