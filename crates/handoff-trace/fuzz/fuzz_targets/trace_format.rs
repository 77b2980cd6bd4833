//! Event formats and page descriptions of any text, and fields read from any record.
#![no_main]

use handoff_trace::format::EventFormat;
use handoff_trace::ring::PageLayout;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &[u8])| {
    let (text, record) = input;
    if let Ok(format) = EventFormat::parse("sched", text) {
        for field in &format.fields {
            let _ = (field.place.number(record), field.place.bytes(record));
        }
    }
    if let Ok(layout) = PageLayout::parse(text) {
        let _ = handoff_trace::ring::Page::parse(&layout, record).map(|page| page.records().count());
    }
});
