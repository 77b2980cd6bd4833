//! The report of `handoff run`.

use super::chart::{IntervalRow, Intervals, Lines, Mark, Series, distribution, percent, times};
use super::scale::{Kind as Axis, bytes, nanoseconds};
use super::{ReportError, page};
use crate::doctor::Level;
use crate::suite::sweep::Sweep;
use crate::suite::{GroupResult, Kind, SubjectResult, SuiteResult};
use minijinja::Value;
use serde::Serialize;

#[derive(Serialize)]
struct Context<'a> {
    result: &'a SuiteResult,
    groups: Vec<GroupView<'a>>,
    sweep: Option<Value>,
    greatest: Vec<String>,
    skipped: Vec<(&'a str, Vec<&'a str>)>,
    serious: usize,
    warnings: usize,
    disturbed: usize,
}

#[derive(Serialize)]
struct GroupView<'a> {
    group: &'a GroupResult,
    sentence: String,
    ratios: Value,
    distributions: Value,
}

pub fn html(result: &SuiteResult) -> Result<String, ReportError> {
    let groups = result
        .groups
        .iter()
        .map(|group| GroupView {
            group,
            sentence: sentence(group),
            ratios: Value::from_safe_string(ratios(group).svg()),
            distributions: Value::from_safe_string(distributions(group).svg()),
        })
        .collect();
    page::render(
        include_str!("suite.html"),
        Context {
            result,
            groups,
            sweep: (!result.sweeps.is_empty()).then(|| Value::from_safe_string(sweep(result).svg())),
            greatest: result.sweeps.iter().filter_map(greatest).collect(),
            skipped: result.skipped_by_reason(),
            serious: result.before.count(Level::Serious),
            warnings: result.before.count(Level::Warning),
            disturbed: result.disturbed_rounds(),
        },
    )
}

fn colour(kind: Kind, index: usize) -> usize {
    match kind {
        Kind::Floor => 6,
        Kind::Call => 1,
        Kind::Primitive => [0, 2, 3, 4, 5, 7][index % 6],
    }
}

/// The group's figures in one sentence: what the floor takes, and what the calls take of it.
pub fn sentence(group: &GroupResult) -> String {
    let floor = group.subjects.iter().find(|subject| subject.kind == Kind::Floor);
    let Some(floor) = floor else {
        return "The floor of this group cannot run here, so that there are times but no ratios.".to_owned();
    };
    let start = format!("The floor, {}, takes {}.", floor.name, nanoseconds(floor.median_ns));
    let best = |kind: Kind| {
        group
            .subjects
            .iter()
            .filter(|subject| subject.kind == kind && subject.does_the_job())
            .filter_map(|subject| Some((subject, subject.row.as_ref()?)))
            .min_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio))
    };
    let told = match best(Kind::Call).or_else(|| best(Kind::Primitive)) {
        Some((subject, row)) => format!(
            "{start} The best of the others, {}, takes {}: {} [{}, {}] of it.",
            subject.name,
            nanoseconds(subject.median_ns),
            times(row.ratio),
            times(row.ci95[0]),
            times(row.ci95[1]),
        ),
        None => start,
    };
    match group.held_up_floor() {
        Some(doubt) => format!("{told} {doubt}"),
        None => told,
    }
}

fn ratios(group: &GroupResult) -> Intervals {
    let against = group.floor.as_deref().unwrap_or("the floor");
    Intervals {
        title: format!("{}: time of each relative to {against}", group.group.title),
        axis: format!("time relative to {against}, with its 95% interval"),
        rows: group
            .subjects
            .iter()
            .enumerate()
            .filter_map(|(index, subject)| {
                let row = subject.row.as_ref()?;
                Some(IntervalRow {
                    label: subject.name.clone(),
                    value: row.ratio,
                    interval: Some((row.ci95[0], row.ci95[1])),
                    colour: colour(subject.kind, index),
                })
            })
            .collect(),
        reference: Some(1.0),
        band: None,
        kind: Axis::Log,
        format: times,
    }
}

fn sweep(result: &SuiteResult) -> Lines {
    Lines {
        title: "Time of a call by its payload".to_owned(),
        x_axis: "payload each way".to_owned(),
        y_axis: "median round trip".to_owned(),
        series: result
            .sweeps
            .iter()
            .enumerate()
            .map(|(index, sweep)| Series {
                name: format!("{} engine", sweep.engine),
                points: sweep.points.iter().map(|point| (point.payload as f64, point.median_ns)).collect(),
                colour: [0, 1, 2][index % 3],
            })
            .collect(),
        x_kind: Axis::Binary,
        y_kind: Axis::Log,
        x_format: bytes,
        y_format: nanoseconds,
        mark: Mark::Line,
        paired: false,
    }
}

/// The greatest throughput of an engine, in words.
pub fn greatest(sweep: &Sweep) -> Option<String> {
    let point = sweep.greatest()?;
    let rate = bytes(point.bytes_per_second);
    Some(format!("{} engine: at most {rate}/s each way, with {}", sweep.engine, bytes(point.payload as f64)))
}

fn distributions(group: &GroupResult) -> Lines {
    let steps = |subject: &SubjectResult| {
        let summary = subject.samples.summary();
        // The tail beyond 99.9% would take most of the axis; the table has the maximum.
        let counted: Vec<f64> = spread(subject).into_iter().filter(|ns| *ns <= summary.p999).collect();
        distribution(&counted)
    };
    Lines {
        title: format!("{}: distribution of single round trips", group.group.title),
        x_axis: "round trip".to_owned(),
        y_axis: "share of round trips that take at most so long (without the slowest 0.1%)".to_owned(),
        series: group
            .subjects
            .iter()
            .enumerate()
            .map(|(index, subject)| Series {
                name: subject.name.clone(),
                points: steps(subject),
                colour: colour(subject.kind, index),
            })
            .collect(),
        x_kind: Axis::Log,
        y_kind: Axis::Linear,
        x_format: nanoseconds,
        y_format: percent,
        mark: Mark::Step,
        paired: false,
    }
}

/// At most some thousand values with the distribution of all samples.
fn spread(subject: &SubjectResult) -> Vec<f64> {
    use handoff_workloads::measurement::Values;
    match subject.samples.values() {
        Values::Samples(samples) => samples.clone(),
        Values::Histogram(histogram) => {
            let all: u64 = histogram.buckets.iter().map(|(_, count)| *count).sum();
            let per_point = all.div_ceil(2000).max(1);
            let mut values = Vec::new();
            let mut pending = 0;
            for (value, count) in &histogram.buckets {
                pending += count;
                while pending >= per_point {
                    values.push(*value as f64);
                    pending -= per_point;
                }
            }
            values
        }
    }
}
