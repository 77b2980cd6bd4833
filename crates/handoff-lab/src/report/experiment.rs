//! The report of `handoff lab run`: HTML, Markdown for a pull request, and text for a terminal.

use std::fmt::Write as _;

use minijinja::Value;
use serde::Serialize;

use super::chart::{IntervalRow, Intervals, Lines, Mark, Series, change, distribution, percent, plain};
use super::scale::{Kind as Axis, compact, number};
use super::{ReportError, page};
use crate::experiment::result::{Ending, ExperimentResult, MetricResult};
use crate::stats::judge::{Caveat, Severity, Verdict};

#[derive(Serialize)]
struct Context<'a> {
    result: &'a ExperimentResult,
    tone: &'static str,
    ending: &'static str,
    verdict: &'static str,
    metrics: Vec<MetricView<'a>>,
    interval: Value,
    disturbed: usize,
}

#[derive(Serialize)]
struct MetricView<'a> {
    metric: &'a MetricResult,
    verdict: &'static str,
    primary: bool,
    rounds: Value,
    distributions: Value,
    outliers: Vec<usize>,
}

pub fn html(result: &ExperimentResult) -> Result<String, ReportError> {
    let metrics = result
        .metrics()
        .enumerate()
        .map(|(index, metric)| MetricView {
            metric,
            verdict: metric.judgement.verdict.word(),
            primary: index == 0,
            rounds: Value::from_safe_string(rounds(result, metric).svg()),
            distributions: Value::from_safe_string(distributions(result, metric).svg()),
            outliers: metric.judgement.outliers.iter().map(|index| index + 1).collect(),
        })
        .collect();
    page::render(
        include_str!("experiment.html"),
        Context {
            result,
            tone: tone(result.verdict()),
            ending: result.ending.describe(),
            verdict: result.verdict().word(),
            metrics,
            interval: Value::from_safe_string(intervals(result).svg()),
            disturbed: result.disturbed(),
        },
    )
}

fn tone(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Improved | Verdict::Equivalent => "good",
        Verdict::Inconclusive => "warn",
        Verdict::Regressed | Verdict::NotActive | Verdict::Withheld => "bad",
    }
}

fn intervals(result: &ExperimentResult) -> Intervals {
    let mut rows = Vec::new();
    for metric in result.metrics() {
        let judged = &metric.judgement;
        for (label, estimate, colour) in [
            (format!("{}: B / A", short_name(&metric.name)), &judged.change, 1),
            (format!("{}: A' / A", short_name(&metric.name)), &judged.noise, 6),
        ] {
            let interval = estimate.interval;
            rows.push(IntervalRow {
                label,
                value: estimate.ratio,
                interval: interval.is_bounded().then_some((interval.low, interval.high)),
                colour,
            });
        }
    }
    let margin = result.primary.question.margin;
    Intervals::of_changes("Change of each metric with its interval", rows, margin)
}

/// The name without its workload, which all metrics of a run share.
fn short_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// More rounds than this are more than a chart can show: it has every second then, or every third, ...
const MOST_DRAWN: usize = 1000;

fn rounds(result: &ExperimentResult, metric: &MetricResult) -> Lines {
    let triples = result.triples(&metric.name);
    let every = triples.len().div_ceil(MOST_DRAWN).max(1);
    let points = |pick: fn(&crate::stats::judge::Round) -> f64| -> Vec<(f64, f64)> {
        let drawn = triples.iter().enumerate().step_by(every);
        drawn.map(|(index, round)| ((index + 1) as f64, pick(round))).collect()
    };
    let [a, b] = &result.header.arms;
    let which = if every == 1 { "each round".to_owned() } else { format!("one of {every} rounds") };
    Lines {
        title: format!("{} in {which}", metric.name),
        x_axis: if every == 1 { "round".to_owned() } else { format!("round, one of {every}") },
        y_axis: metric.name_with_unit(),
        series: vec![
            Series { name: format!("A: {a}"), points: points(|r| r.a), colour: 0 },
            Series { name: format!("B: {b}"), points: points(|r| r.b), colour: 1 },
            Series { name: "A': the same as A".to_owned(), points: points(|r| r.again), colour: 6 },
        ],
        x_kind: Axis::Whole,
        y_kind: Axis::Log,
        x_format: whole,
        y_format: plain,
        mark: Mark::Dots,
        paired: true,
    }
}

fn distributions(result: &ExperimentResult, metric: &MetricResult) -> Lines {
    let triples = result.triples(&metric.name);
    let [a, b] = &result.header.arms;
    let of = |values: Vec<f64>| distribution(&values);
    Lines {
        title: format!("{}: distribution of runs", metric.name),
        x_axis: metric.name_with_unit(),
        y_axis: "share of runs that are at most so large".to_owned(),
        series: vec![
            Series {
                name: format!("A and A': {a}"),
                points: of(triples.iter().flat_map(|r| [r.a, r.again]).collect()),
                colour: 0,
            },
            Series { name: format!("B: {b}"), points: of(triples.iter().map(|r| r.b).collect()), colour: 1 },
        ],
        x_kind: Axis::Log,
        y_kind: Axis::Linear,
        x_format: plain,
        y_format: percent,
        mark: Mark::Step,
        paired: false,
    }
}

fn whole(value: f64) -> String {
    if value.fract() == 0.0 { number(value) } else { String::new() }
}

/// What weakens the verdict on the primary metric (what withholds it is in its sentence), and what weakens
/// those on secondary ones beyond that.
fn caveats(result: &ExperimentResult) -> Vec<(Option<&str>, &Caveat)> {
    let primary = &result.primary.judgement.caveats;
    let weakens = |caveat: &&Caveat| caveat.severity == Severity::Weakens;
    let mut all: Vec<(Option<&str>, &Caveat)> =
        primary.iter().filter(weakens).map(|caveat| (None, caveat)).collect();
    for metric in &result.secondary {
        let new = metric.judgement.caveats.iter().filter(weakens).filter(|caveat| !primary.contains(caveat));
        all.extend(new.map(|caveat| (Some(metric.name.as_str()), caveat)));
    }
    all
}

fn interval(metric: &MetricResult) -> String {
    let interval = metric.judgement.change.interval;
    if interval.is_bounded() {
        format!("{} to {}", change(interval.low), change(interval.high))
    } else {
        "none".to_owned()
    }
}

/// The result for a terminal.
pub fn text(result: &ExperimentResult) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!("{}: {}", result.header.title, result.verdict().word()));
    line(String::new());
    line(result.primary.sentence.clone());
    for (metric, caveat) in caveats(result) {
        line(format!("  ! {}{}", metric.map_or_else(String::new, |name| format!("{name}: ")), caveat.text));
    }
    line(String::new());
    line(format!("  A   {}", result.header.arms[0]));
    line(format!("  B   {}", result.header.arms[1]));
    // Two commands are their arms' names.
    let names = result.header.arms.clone().map(Some);
    for difference in result.header.changes.iter().filter(|difference| difference.values != names) {
        line(format!("      {difference}"));
    }
    line("  A'  A again: how far it is from A is this machine's noise".to_owned());
    line(String::new());
    let width = result.metrics().map(|metric| metric.name_with_unit().len()).max().unwrap_or(6).max(6);
    line(format!("  {:width$}  {:>10} {:>10} {:>10}  {:>8}  interval", "metric", "A", "A'", "B", "B / A"));
    for metric in result.metrics() {
        let [a, again, b] = metric.medians.map(compact);
        let ratio = change(metric.judgement.change.ratio);
        line(format!(
            "  {:width$}  {a:>10} {again:>10} {b:>10}  {ratio:>8}  {}, {}",
            metric.name_with_unit(),
            interval(metric),
            metric.judgement.verdict.word()
        ));
    }
    for reason in &result.unusable {
        line(format!("  not judged: {reason}"));
    }
    for proof in &result.proofs {
        line(format!("  proof of {}: {}", proof.arm, proof_words(proof)));
    }
    line(String::new());
    line(format!(
        "{} rounds on {} in {:.0} s, {}; seed {}.",
        result.rounds.len(),
        result.header.place,
        result.seconds,
        result.ending.describe(),
        result.header.seed
    ));
    if result.disturbed() > 0 {
        line(format!(
            "Something happened to the machine in {} of the runs; the report says what.",
            result.disturbed()
        ));
    }
    out.trim_end().to_owned()
}

fn proof_words(proof: &crate::experiment::result::ProofResult) -> String {
    let seen = proof.range.map_or_else(
        || "not counted".to_owned(),
        |(low, high)| {
            if low == high {
                format!("was {}", compact(low))
            } else {
                format!("was {} to {}", compact(low), compact(high))
            }
        },
    );
    let held = if proof.failures == 0 { "held".to_owned() } else { format!("failed in {}", proof.failures) };
    format!("{}: {held} ({seen} in {} runs)", proof.what, proof.runs)
}

/// The result for a pull request.
pub fn markdown(result: &ExperimentResult) -> String {
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    let mut out = format!("### {}: {}\n\n", cell(&result.header.title), result.verdict().word());
    let mut add = |text: std::fmt::Arguments<'_>| out.write_fmt(text).expect("a string takes everything");
    add(format_args!("{}\n\n", cell(&result.primary.sentence)));
    for (metric, caveat) in caveats(result) {
        let name = metric.map_or_else(String::new, |name| format!("{name}: "));
        add(format_args!("- {}{}\n", cell(&name), cell(&caveat.text)));
    }
    let [a, b] = &result.header.arms;
    add(format_args!("\n| metric | A: {} | A' | B: {} | B / A | interval | verdict |\n", cell(a), cell(b)));
    add(format_args!("|---|--:|--:|--:|--:|---|---|\n"));
    for metric in result.metrics() {
        let [a, again, b] = metric.medians.map(compact);
        let ratio = change(metric.judgement.change.ratio);
        let word = metric.judgement.verdict.word();
        let interval = interval(metric);
        let name = cell(&metric.name_with_unit());
        add(format_args!("| {name} | {a} | {again} | {b} | {ratio} | {interval} | {word} |\n"));
    }
    for proof in &result.proofs {
        add(format_args!("\nProof of {}: {}.\n", cell(&proof.arm), cell(&proof_words(proof))));
    }
    let how = result.ending.describe();
    let (rounds, place, seconds) = (result.rounds.len(), &result.header.place, result.seconds);
    add(format_args!("\n{rounds} rounds on {place} in {seconds:.0} s, {how}; `{}`\n", result.header.command));
    if result.ending == Ending::Interrupted {
        add(format_args!("\nThe run was interrupted: these are its complete rounds.\n"));
    }
    out
}
