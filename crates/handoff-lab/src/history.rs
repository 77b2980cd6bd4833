//! A metric over many runs: over commits, kernels or devices, with the changes of its level and what began them.
//!
//! A run is one value: the median of its rounds. Each device is a line of its own, since a run on another
//! device is no change of the metric. [`crate::stats::change`] says how changes are found.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::stats::Interval;
use crate::stats::change::{ChangePoint, Search};
use crate::stats::describe::median;
use crate::stats::holm;
use crate::stats::judge::Direction;
use crate::stats::unpaired::{hodges_lehmann_ratio, mann_whitney};
use crate::store::{Arm, RunValues, Store, StoreError};

/// What of a run is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// The baseline: the runs of A and A'.
    Baseline,
    /// The runs of B.
    Change,
    /// B by A of each round, which a machine that changed from one run to the next does not move.
    Ratio,
}

impl Quantity {
    pub fn describe(self) -> &'static str {
        match self {
            Self::Baseline => "A",
            Self::Change => "B",
            Self::Ratio => "B / A",
        }
    }

    /// The value of a run; nothing if it has none above 0.
    fn of(self, measured: &RunValues) -> Option<f64> {
        let by = |arms: &[Arm]| -> Vec<f64> {
            let of_arm = measured.values.iter().filter(|(_, arm, _)| arms.contains(arm));
            of_arm.map(|(_, _, value)| *value).collect()
        };
        let values = match self {
            Self::Baseline => by(&[Arm::A, Arm::Control]),
            Self::Change => by(&[Arm::B]),
            Self::Ratio => {
                let mut rounds: BTreeMap<usize, [Option<f64>; 2]> = BTreeMap::new();
                for (round, arm, value) in &measured.values {
                    match arm {
                        Arm::A => rounds.entry(*round).or_default()[0] = Some(*value),
                        Arm::B => rounds.entry(*round).or_default()[1] = Some(*value),
                        Arm::Control => {}
                    }
                }
                rounds.into_values().filter_map(|[a, b]| Some(b? / a?)).collect()
            }
        };
        let value = median(&values);
        (value.is_finite() && value > 0.0).then_some(value)
    }
}

/// What is asked of a history.
#[derive(Debug, Clone)]
pub struct Query {
    /// The title of the runs; that of the latest one if nothing is said.
    pub title: Option<String>,
    pub metric: String,
    /// What of a run is drawn.
    pub what: Quantity,
    /// The label that tells what a run is of; `commit` if the runs have it, and their numbers if not.
    pub by: Option<String>,
    /// No more than so many of the latest runs.
    pub last: usize,
    /// The share below which a change does not matter.
    pub margin: f64,
    /// How changes are looked for.
    pub search: Search,
}

#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is no run in the store")]
    Empty,
    #[error("no run is called {title:?}; there are: {}", known.join(", "))]
    Title { title: String, known: Vec<String> },
    #[error("no run of {title:?} has a value of {metric:?} above 0; its metrics are {}", known.join(", "))]
    Metric { title: String, metric: String, known: Vec<String> },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Its number, as commands take it.
    pub run: String,
    /// When it began, in UTC.
    pub when: String,
    pub label: String,
    /// The median of its rounds.
    pub value: f64,
    /// How many values that is of.
    pub values: usize,
}

/// A change of the level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    pub began: String,
    /// The first and the last that it may have begun with instead, at 95%.
    pub between: [String; 2],
    /// The last one before it.
    pub after: String,
    /// Whether the run before it is of the same: then not what is named changed, but the machine or the runs.
    pub inside: bool,
    /// Whether it got better, if anybody knows which way that is.
    pub better: Option<bool>,
    /// Whether it is larger than the margin.
    pub matters: bool,
    #[serde(flatten)]
    pub point: ChangePoint,
}

/// The runs of one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The device; empty if it is not known.
    pub device: String,
    /// Its runs, the oldest first.
    pub points: Vec<Point>,
    /// The changes, the oldest first.
    pub changes: Vec<Change>,
    /// The median of its runs.
    pub median: f64,
    /// This device by all others together; nothing if there is no other.
    pub against_others: Option<Others>,
}

/// A device beside all others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Others {
    pub ratio: f64,
    pub interval: Interval,
    /// The p-value of Mann and Whitney, adjusted for all devices by Holm's method.
    pub p: f64,
}

impl Line {
    /// The parts between the changes.
    pub fn segments(&self) -> Vec<&[Point]> {
        let mut bounds = vec![0];
        bounds.extend(self.changes.iter().map(|change| change.point.at));
        bounds.push(self.points.len());
        bounds.windows(2).map(|ends| &self.points[ends[0]..ends[1]]).collect()
    }
}

/// A metric over many runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct History {
    /// The title of the runs.
    pub title: String,
    pub metric: String,
    /// Its unit; empty for a ratio.
    pub unit: String,
    /// What of a run is drawn.
    pub what: Quantity,
    /// The label that tells runs apart.
    pub by: String,
    /// The chance of a false change for each device.
    pub alpha: f64,
    /// The share below which a change does not matter.
    pub margin: f64,
    pub lines: Vec<Line>,
}

/// Draws a history from a store.
///
/// # Errors
///
/// If the store cannot be read, or has nothing of what is asked.
pub fn draw(store: &Store, asked: &Query) -> Result<History, HistoryError> {
    let titles = store.titles()?;
    let title = match &asked.title {
        Some(title) if titles.contains(title) => title.clone(),
        Some(title) => return Err(HistoryError::Title { title: title.clone(), known: titles }),
        None => titles.into_iter().next().ok_or(HistoryError::Empty)?,
    };
    let measured = store.measured(&title, &asked.metric, asked.last)?;
    let known = store.known(&title, &asked.metric)?;
    let has_commits = || measured.iter().any(|run| run.labels.contains_key("commit"));
    let by = asked.by.clone().unwrap_or_else(|| if has_commits() { "commit" } else { "run" }.to_owned());
    let mut devices: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for run in &measured {
        let Some(value) = asked.what.of(run) else { continue };
        let device = run.labels.get("device").cloned().unwrap_or_default();
        let label = run.labels.get(&by).cloned().unwrap_or_else(|| format!("run {}", run.owner));
        let (number, values) = (run.owner.to_string(), run.values.len());
        let point = Point { run: number, when: run.when.clone(), label, value, values };
        devices.entry(device).or_default().push(point);
    }
    if devices.is_empty() {
        let known = store.metrics(&title)?;
        return Err(HistoryError::Metric { title, metric: asked.metric.clone(), known });
    }
    let better = known.better;
    let lines = devices.into_iter().map(|(device, points)| line(device, points, asked, better)).collect();
    Ok(History {
        title,
        metric: asked.metric.clone(),
        unit: if asked.what == Quantity::Ratio { String::new() } else { known.unit },
        what: asked.what,
        by,
        alpha: asked.search.alpha,
        margin: asked.margin,
        lines: beside_each_other(lines),
    })
}

fn line(device: String, points: Vec<Point>, asked: &Query, better: Option<Direction>) -> Line {
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    let label = |at: usize| points[at.min(points.len() - 1)].label.clone();
    let change = |point: ChangePoint| Change {
        began: label(point.at),
        between: point.between.map(label),
        after: label(point.at - 1),
        inside: label(point.at - 1) == label(point.at),
        better: better.map(|better| (better == Direction::Higher) == (point.ratio > 1.0)),
        matters: point.exceeds(asked.margin),
        point,
    };
    let changes = asked.search.find(&values).into_iter().map(change).collect();
    Line { device, changes, median: median(&values), against_others: None, points }
}

/// Compares each device with all others.
fn beside_each_other(mut lines: Vec<Line>) -> Vec<Line> {
    if lines.len() < 2 {
        return lines;
    }
    let values = |line: &Line| -> Vec<f64> { line.points.iter().map(|point| point.value).collect() };
    let beside = |at: usize| {
        let others: Vec<f64> = lines
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at)
            .flat_map(|(_, line)| values(line))
            .collect();
        let own = values(&lines[at]);
        let (ratio, interval) = hodges_lehmann_ratio(&others, &own, 0.95);
        Others { ratio, interval, p: p_of(&others, &own) }
    };
    let all: Vec<Others> = (0..lines.len()).map(beside).collect();
    let adjusted = holm::adjust(&all.iter().map(|others| others.p).collect::<Vec<_>>());
    for ((line, others), p) in lines.iter_mut().zip(all).zip(adjusted) {
        line.against_others = Some(Others { p, ..others });
    }
    lines
}

fn p_of(others: &[f64], own: &[f64]) -> f64 {
    let test = mann_whitney(others, own);
    test.exact.unwrap_or(test.asymptotic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::result::tests::{result, rounds};
    use crate::store::Owner;

    /// A store with a run for each (commit, device, factor).
    fn store(folder: &std::path::Path, runs: &[(&str, &str, f64)]) -> Store {
        let mut store = Store::open(&folder.join("store.sqlite")).expect("made");
        let mut random = crate::stats::random::Random::new(3);
        for (commit, device, factor) in runs {
            let run = store.begin(&result().header).expect("begun");
            let noise = (0.01 * random.normal()).exp();
            for mut record in rounds(3, 0.9, 1.0) {
                for sample in record.samples.values_mut() {
                    sample.values.entry("time".to_owned()).and_modify(|value| *value *= factor * noise);
                }
                store.keep(run, &record).expect("kept");
            }
            let labels = [("commit", *commit), ("device", *device)];
            let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
            store.label(Owner::Run(run), &labels.into()).expect("kept");
            store.finish(run, &result()).expect("kept");
        }
        store
    }

    fn asked(what: Quantity) -> Query {
        Query {
            title: None,
            metric: "time".into(),
            what,
            by: None,
            last: 500,
            margin: 0.02,
            search: Search::default(),
        }
    }

    const COMMITS: [&str; 16] =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];

    #[test]
    fn the_commit_that_began_a_change_is_named_and_other_devices_are_lines_of_their_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut runs: Vec<(&str, &str, f64)> = Vec::new();
        for (at, commit) in COMMITS.into_iter().enumerate() {
            runs.push((commit, "one", if at >= 9 { 1.2 } else { 1.0 }));
            runs.push((commit, "two", 3.0));
        }
        let store = store(folder.path(), &runs);
        let history = draw(&store, &asked(Quantity::Baseline)).expect("drawn");
        assert_eq!((history.by.as_str(), history.unit.as_str(), history.lines.len()), ("commit", "s", 2));
        let [one, two] = history.lines.as_slice() else { panic!("{history:?}") };
        assert_eq!((one.device.as_str(), one.points.len()), ("one", 16));
        let change = &one.changes[0];
        assert_eq!((one.changes.len(), change.began.as_str(), change.after.as_str()), (1, "j", "i"));
        assert_eq!((change.better, change.matters, change.inside), (Some(false), true, false));
        assert!(two.changes.is_empty());
        assert!(two.against_others.as_ref().is_some_and(|others| others.ratio > 2.0 && others.p < 0.05));
        // What is compared inside of a round did not change.
        let ratio = draw(&store, &asked(Quantity::Ratio)).expect("drawn");
        assert!(ratio.lines.iter().all(|line| line.changes.is_empty() && (line.median - 0.9).abs() < 0.05));
        let text = crate::report::history::text(&history);
        assert!(
            text.contains("time got worse with j") && text.contains("i was the last before it"),
            "{text}"
        );
        assert!(text.contains('^') && text.contains('█'), "{text}");
        let page = crate::report::history::html(&history).expect("a page");
        assert!(page.contains("time got worse with j") && page.contains("On two"), "{page}");
    }

    #[test]
    fn a_change_between_runs_of_one_commit_is_not_laid_to_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let runs: Vec<(&str, &str, f64)> =
            (0..20).map(|at| ("same", "one", if at < 10 { 1.0 } else { 0.5 })).collect();
        let history = draw(&store(folder.path(), &runs), &asked(Quantity::Change)).expect("drawn");
        let change = &history.lines[0].changes[0];
        assert!(change.inside && change.better == Some(true));
        let text = crate::report::history::text(&history);
        assert!(text.contains("between two runs of same") && text.contains("is not the commit"), "{text}");
    }

    #[test]
    fn what_is_not_there_is_said_with_what_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let empty = Store::open(&folder.path().join("empty.sqlite")).expect("made");
        assert!(matches!(draw(&empty, &asked(Quantity::Ratio)), Err(HistoryError::Empty)));
        let store = store(folder.path(), &[("a", "one", 1.0)]);
        let wrong = Query { metric: "tme".into(), ..asked(Quantity::Ratio) };
        assert!(draw(&store, &wrong).expect_err("no such metric").to_string().contains("other, time"));
        let wrong = Query { title: Some("u".into()), ..asked(Quantity::Ratio) };
        assert!(draw(&store, &wrong).expect_err("no such runs").to_string().contains("there are: t"));
        let few = draw(&store, &asked(Quantity::Ratio)).expect("drawn");
        assert!(crate::report::history::text(&few).contains("1 run is too few"));
    }
}
