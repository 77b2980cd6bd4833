//! Reads any bytes as a patch, a series of them, or a mailbox.
#![no_main]

use handoff_kernel::patch::{Limits, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { bytes: 1 << 16, line_bytes: 1 << 12, hunk_lines: 1 << 10, strip: 1, keep_going: false };
    match parse(bytes, &limits) {
        Ok(series) => {
            for file in series.patches.iter().flat_map(|patch| &patch.files) {
                for hunk in &file.hunks {
                    assert!(hunk.before().count() <= limits.hunk_lines);
                    assert!(hunk.after().count() <= limits.hunk_lines);
                }
            }
        }
        Err(error) => assert!(error.line >= 1, "{error}"),
    }
});
