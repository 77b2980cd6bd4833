//! Recordings of other tools as any bytes: Perfetto files and text, and all that is made of events.
#![no_main]

use std::path::Path;

use handoff_trace::diagnose::slowest_wakes;
use handoff_trace::{Graph, Timeline, file, perfetto};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(trace) = file::from_bytes(bytes, Path::new("fuzzed")) else { return };
    let timeline = Timeline::of(&trace);
    let _ = Graph::of(&trace, &timeline, 2, |_| true);
    let _ = slowest_wakes(&trace, &timeline, 3, |_| true);
    let again = perfetto::to_bytes(&trace, &timeline, perfetto::Options::default());
    let again = perfetto::from_bytes(&again, Path::new("ours"));
    // What has nothing but events that are not written there is none again.
    assert!(again.is_ok_and(|again| again.unknown() == 0) || trace.events().len() < 10);
});
