//! The report of an experiment, made from a real run of two commands, in a real browser.

use std::time::Duration;

use handoff_lab::experiment::executor::Local;
use handoff_lab::experiment::file::{Arm, Experiment, Metric, Rounds};
use handoff_lab::experiment::result::{Ending, ExperimentResult};
use handoff_lab::experiment::runner::{Event, Options, RunError, run};
use handoff_lab::report::experiment::{html, markdown, text};
use handoff_lab::stats::sequential::Stopping;
use handoff_testkit::{require, require_tool};

fn experiment(a: &str, b: &str) -> Experiment {
    let arm = |name: &str, seconds: &str| {
        Arm::of_command(name, vec!["sleep".to_owned(), seconds.to_owned()], Vec::new())
    };
    let metric = |name: &str| Metric { name: name.to_owned(), better: None, margin: 0.02 };
    Experiment {
        title: "Sleeping <b>longer</b>".to_owned(),
        question: "Is a longer sleep longer?".to_owned(),
        arms: [arm("short & sweet", a), arm("long", b)],
        metric: metric("wall"),
        secondary: vec![metric("max-rss"), metric("major-faults")],
        // From eight on, two runs of the same arm differ at 1% once in a hundred runs, by chance.
        rounds: Rounds { stopping: Stopping::Fixed { rounds: 6 }, ..Rounds::default() },
        guests: None,
        text: "title = \"Sleeping\"".to_owned(),
    }
}

fn options() -> Options<'static> {
    Options { command: "handoff lab ab 'sleep 0.02' 'sleep 0.6'".to_owned(), ..Options::default() }
}

fn here(folder: &tempfile::TempDir) -> Local<'static> {
    Local::new("handoff", folder.path(), None).expect("a journal")
}

fn result() -> ExperimentResult {
    let folder = tempfile::tempdir().expect("a folder");
    let result =
        run(&experiment("0.02", "0.6"), options(), &mut here(&folder), &mut |_| Ok(())).expect("runs");
    assert_eq!(std::fs::read_dir(folder.path()).expect("the journal's folder").count(), 0);
    result
}

#[test]
fn the_report_is_readable_on_every_screen_and_needs_no_network() {
    let chromium = require!(require_tool("chromium"));
    let result = result();
    let html = html(&result).expect("the report is made");
    let metrics = 1 + result.secondary.len();
    for seen in crate::common::look(&chromium, "experiment", &html) {
        assert_eq!(seen.charts, 1 + 2 * metrics);
        for says in
            ["Sleeping <b>longer</b>", "short & sweet", "regressed", "handoff lab ab 'sleep 0.02'", "A'"]
        {
            assert!(seen.text.contains(says), "{says:?} is not in:\n{}", seen.text);
        }
    }
}

#[test]
fn text_and_markdown_say_the_same() {
    let result = result();
    assert_eq!(result.ending, Ending::Finished);
    assert_eq!(result.rounds.len(), 6);
    for written in [text(&result), markdown(&result)] {
        assert!(written.contains(&result.primary.sentence), "{written}");
        assert!(written.contains("regressed") && written.contains("6 rounds"), "{written}");
    }
    assert!(
        result.unusable.iter().any(|reason| reason.starts_with("major-faults is 0")),
        "{:?}",
        result.unusable
    );
    assert!(markdown(&result).contains("| wall (s) |"));
}

#[test]
fn a_run_that_is_resumed_deals_the_orders_of_the_run_that_it_would_have_been() {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = experiment("0.01", "0.01");
    let whole = run(&experiment, options(), &mut here(&folder), &mut |_| Ok(())).expect("runs");
    let first = whole.rounds[..3].to_vec();
    let mut seen = Vec::new();
    let going_on = Options { resume: first, ..options() };
    let resumed = run(&experiment, going_on, &mut here(&folder), &mut |event| {
        if let Event::Round { record, .. } = event {
            seen.push(record.number);
        }
        Ok(())
    })
    .expect("goes on");
    assert_eq!(seen, [4, 5, 6]);
    let orders =
        |result: &ExperimentResult| result.rounds.iter().map(|r| r.order.clone()).collect::<Vec<_>>();
    assert_eq!(orders(&resumed), orders(&whole));
}

#[test]
fn a_budget_ends_a_run_and_a_metric_that_nobody_measures_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut short = experiment("0.01", "0.01");
    short.rounds.stopping = Stopping::Fixed { rounds: 10_000 };
    short.rounds.budget = Duration::from_secs(4);
    let result = run(&short, options(), &mut here(&folder), &mut |_| Ok(())).expect("runs");
    assert_eq!(result.ending, Ending::Budget);
    assert!(!result.rounds.is_empty());
    short.metric.name = "sped".to_owned();
    let error = run(&short, options(), &mut here(&folder), &mut |_| Ok(())).expect_err("no such metric");
    assert!(
        matches!(&error, RunError::NoMetric { known, .. } if known.contains(&"wall".to_owned())),
        "{error}"
    );
}
