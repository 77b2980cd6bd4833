//! The report of `handoff run`, made from a real short run, in a real browser.

use handoff_lab::report::suite::html;
use handoff_lab::suite::{Options, SuiteResult, floors};
use handoff_testkit::{require, require_tool};
use std::time::Duration;

fn run() -> SuiteResult {
    let options = Options {
        rounds: 6,
        batch: Duration::from_millis(2),
        seed: 3,
        command: "handoff run --rounds 6".into(),
        stop: None,
    };
    floors::suite(Duration::from_millis(2)).run(&options, &mut |_| {}).expect("the floors run here")
}

#[test]
fn the_report_is_readable_on_every_screen_and_needs_no_network() {
    let chromium = require!(require_tool("chromium"));
    let mut result = run();
    // Names that come from outside must not become markup.
    result.before.machine[0].value = "<img src=x onerror=alert(1)>&\"'".into();
    let html = html(&result).expect("the report is made");
    let charts = result.groups.iter().filter(|group| group.floor.is_some()).count() + result.groups.len();
    for seen in crate::common::look(&chromium, "run", &html) {
        assert_eq!(seen.charts, charts);
        assert!(seen.text.contains("<img src=x onerror=alert(1)>&\"'"), "{}", seen.text);
        for group in &result.groups {
            assert!(seen.text.contains(&group.group.title));
            for subject in &group.subjects {
                assert!(seen.text.contains(&subject.name), "{} is missing", subject.name);
            }
        }
        assert!(seen.text.contains("handoff run --rounds 6"));
    }
}

#[test]
fn a_real_run_orders_its_percentiles() {
    let result = run();
    assert!(!result.groups.is_empty());
    for subject in result.groups.iter().flat_map(|group| &group.subjects) {
        let samples = subject.samples.summary();
        assert_eq!(subject.rounds_ns.len(), 6, "{}", subject.name);
        // The median of rounds is inside of all samples (three digits of a histogram).
        assert!(samples.min * 0.99 <= subject.median_ns && subject.median_ns <= samples.max * 1.01);
        assert!(samples.p50 <= samples.p99 && samples.p99 <= samples.max);
    }
    // Compared as text: the last digit of a float may change on the way.
    let json = serde_json::to_string(&result).expect("serialises");
    let back: SuiteResult = serde_json::from_str(&json).expect("reads back");
    assert_eq!(back.groups.len(), result.groups.len());
    assert_eq!(back.before, result.before);
}
