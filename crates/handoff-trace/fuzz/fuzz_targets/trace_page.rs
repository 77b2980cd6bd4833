//! Ring-buffer pages of any bytes, through the decoder and all that is made of events.
#![no_main]

use handoff_trace::ring::PageLayout;
use handoff_trace::{Graph, RawTrace, Timeline};
use libfuzzer_sys::fuzz_target;

/// Formats as a kernel prints them, with small numbers that a fuzzer finds.
fn formats() -> Vec<(String, String)> {
    let common = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";
    let make = |name: &str, id: u16, fields: &[(&str, u16, u16)]| {
        let own: String = fields
            .iter()
            .map(|(field, offset, size)| {
                format!("\tfield:{field};\toffset:{offset};\tsize:{size};\tsigned:1;\n")
            })
            .collect();
        ("sched".to_owned(), format!("name: {name}\nID: {id}\nformat:\n{common}{own}"))
    };
    let wake = [
        ("__data_loc char[] comm", 8, 4),
        ("pid_t pid", 12, 4),
        ("int prio", 16, 4),
        ("int target_cpu", 20, 4),
    ];
    vec![
        make(
            "sched_switch",
            1,
            &[
                ("char prev_comm[4]", 8, 4),
                ("pid_t prev_pid", 12, 4),
                ("int prev_prio", 16, 4),
                ("long prev_state", 20, 4),
                ("char next_comm[4]", 24, 4),
                ("pid_t next_pid", 28, 4),
                ("int next_prio", 32, 4),
            ],
        ),
        make("sched_waking", 2, &wake),
        make("sched_wakeup", 3, &wake),
        make("another", 4, &[("int number", 8, 4), ("char text[]", 12, 0)]),
    ]
}

fuzz_target!(|bytes: &[u8]| {
    // The first half of the pages is one CPU's, the second another's.
    let page = PageLayout::USUAL_64_BIT.page_size();
    let (one, other) = bytes.split_at(bytes.len() / page / 2 * page);
    let raw = RawTrace {
        layout: PageLayout::USUAL_64_BIT,
        header_page: String::new(),
        header_event: String::new(),
        formats: formats(),
        pages: vec![one.to_vec(), other.to_vec()],
        stats: Vec::new(),
        clock: "mono".to_owned(),
        flight: false,
        names: Default::default(),
        processes: Default::default(),
        context: Default::default(),
    };
    let Ok(trace) = raw.decode() else { return };
    let timeline = Timeline::of(&trace);
    let _ = Graph::of(&trace, &timeline, 2, |_| true);
    let _ = handoff_trace::diagnose::slowest_wakes(&trace, &timeline, 3, |_| true);
});
