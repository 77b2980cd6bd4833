use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::diagnose::slowest_wakes;
use crate::event::{Context, LeftAs};
use crate::model::timeline::Timeline;

const KERNELS: &str = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 7/7   #P:2
#
#           TASK-PID    TGID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |       |   |||||     |         |
##### CPU 1 buffer started ####
          <idle>-0     (-------) [001] d..2.   100.000001: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=hog next_pid=90 next_prio=120
          client-70    (     70) [000] d..2.   100.000010: sched_waking: comm=server pid=80 prio=120 target_cpu=001
          client-70    (     70) [000] d..2.   100.000011: sched_wakeup: comm=server pid=80 prio=120 target_cpu=001
          client-70    (     70) [000] .....   100.000012: tracing_mark_write: B|70|call: outer
          client-70    (     70) [000] d..2.   100.000020: sched_switch: prev_comm=client prev_pid=70 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
CPU:1 [LOST 12 EVENTS]
             hog-90    (-------) [001] d..2.   100.004000: sched_switch: prev_comm=hog prev_pid=90 prev_prio=120 prev_state=R ==> next_comm=server next_pid=80 next_prio=120
          <idle>-0     (-------) [000] .....   100.005000: tracing_mark_write: E|70
          client-70    (     70) [000] .....   100.006000: tracing_mark_write: E|70
          client-70    (     70) [000] .....   100.006500: sched_switch: damaged
";

fn trace(text: &str) -> Trace {
    from_text(text, Path::new("x")).expect("a trace")
}

#[test]
fn what_the_kernel_prints_is_a_trace() {
    let trace = trace(KERNELS);
    assert_eq!(trace.events().len(), 8);
    let first = trace.events()[1];
    assert_eq!((first.time, first.tid, first.cpu, first.context), (100_000_010_000, 70, 0, Context(0)));
    let state = trace.events().iter().find_map(|event| match event.what {
        EventKind::Switch { prev: 70, prev_state, .. } => Some(prev_state),
        _ => None,
    });
    assert_eq!(state, Some(LeftAs(1)));
    assert_eq!((trace.last_name(80).as_str(), trace.last_name(90).as_str()), ("server", "hog"));
    assert_eq!((trace.process(70), trace.process(90)), (Some(70), None));
    assert_eq!((trace.lost(), trace.unknown()), (12, 1));
    assert_eq!(trace.coverage()[1].from, 100_000_001_000);
    let slices: Vec<_> = trace.slices().iter().map(|slice| (slice.name.as_str(), slice.tid)).collect();
    assert_eq!(slices, [("call: outer", 70)], "another task's end is not this one's");

    let timeline = Timeline::of(&trace);
    let slow = slowest_wakes(&trace, &timeline, 1, |tid| tid == 80);
    assert!(slow[0].to_string().contains("`hog`"), "{}", slow[0]);
}

#[test]
fn a_page_of_systrace_holds_the_same_lines() {
    let page = format!(
        "<!DOCTYPE html>\n<html><script>var a = 1 < 2;</script>\
         <script class=\"trace-data\" type=\"application/text\">\n{KERNELS}</script>\n\
         <script class=\"trace-data\" type=\"application/text\">PROCESS DUMP\n</script></html>"
    );
    assert_eq!(trace(&page).events(), trace(KERNELS).events());
    let cut = &page[..page.len() / 2];
    assert!(from_text(cut, Path::new("x")).is_err_and(|error| error.to_string().contains("cut short")));
}

#[test]
fn a_text_without_events_says_what_is_missing() {
    let error = from_text("# tracer: nop\n", Path::new("x.txt")).expect_err("no events").to_string();
    assert!(error.contains("x.txt") && error.contains("sched_switch"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]
    #[test]
    fn damaged_text_does_no_harm(at in 0..KERNELS.len(), with in "[ -~\\n]{0,3}|\\PC", cut in 0..200usize) {
        let mut text = KERNELS.to_owned();
        text.truncate(text.len() - cut);
        let at = at.min(text.len());
        text.replace_range(at..(at + with.len()).min(text.len()), &with);
        if let Ok(trace) = from_text(&text, Path::new("x")) {
            prop_assert!(trace.events().is_sorted_by_key(|event| event.time));
            let _ = slowest_wakes(&trace, &Timeline::of(&trace), 3, |_| true);
        }
    }

    #[test]
    fn any_line_does_no_harm(text in "\\PC{0,200}") {
        let _ = from_text(&text, Path::new("x"));
        let _ = Line::parse(&text);
        let _ = Body::parse("sched_switch", &text);
        let _ = Body::parse("sched_waking", &text);
        let _ = Body::parse("sched_process_fork", &text);
    }
}
