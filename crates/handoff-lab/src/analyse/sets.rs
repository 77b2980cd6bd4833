//! Two sets of results that were measured apart from each other: two runs of the lab, or the files of other
//! programs. They can be described and told apart, but no verdict can be had: whatever else was different
//! between the two is in the difference as well.

use serde::Serialize;

use crate::experiment::ArmId;
use crate::experiment::result::ExperimentResult;
use crate::import::Series;
use crate::stats::describe::median;
use crate::stats::judge::Direction;
use crate::stats::unpaired::{hodges_lehmann_ratio, mann_whitney};
use crate::stats::{Interval, holm};

/// With fewer values on a side nothing can be told apart at 5%.
const LEAST: usize = 4;

/// All that two sets say together.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    pub sets: [String; 2],
    pub rows: Vec<Row>,
    pub only_in: [Vec<String>; 2],
    /// What must be known of all rows.
    pub remark: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub name: String,
    pub unit: String,
    /// How many values each set has.
    pub counts: [usize; 2],
    pub medians: [f64; 2],
    /// Hodges-Lehmann ratio of the second to the first, where a ratio can be made.
    pub ratio: Option<f64>,
    pub interval: Option<Interval>,
    /// Mann and Whitney's p-value, adjusted for all rows by Holm's method.
    pub p: Option<f64>,
    pub finding: Finding,
}

/// What a row comes to. None of them is a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The second set is better, whatever made it so.
    Better,
    /// The second set is worse, whatever made it so.
    Worse,
    /// They differ, and nobody said which way is better.
    Differs,
    /// They cannot be told apart.
    NoDifference,
    /// One side has fewer than four values, or one that is not above 0.
    TooLittle,
}

impl Finding {
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Differs => "differs",
            Self::NoDifference => "no difference seen",
            Self::TooLittle => "too few values",
        }
    }
}

/// Compares two sets, quantity by quantity. Two that have one subject each (`./old: wall` and `./new: wall`, the
/// usual files of hyperfine) are compared whatever the subjects are called.
pub fn compare(names: [String; 2], sets: [&[Series]; 2]) -> Comparison {
    if let Some([first, second]) = one_subject_each(sets) {
        return compare_by_name(names, [&first, &second]);
    }
    compare_by_name(names, sets)
}

/// The series under the names of their metrics, if each set has one subject and these are not the same.
fn one_subject_each(sets: [&[Series]; 2]) -> Option<[Vec<Series>; 2]> {
    fn subject(set: &[Series]) -> Option<&str> {
        let mut subjects = set.iter().map(|series| series.name.rsplit_once(": ").map(|(subject, _)| subject));
        let first = subjects.next()??;
        subjects.all(|other| other == Some(first)).then_some(first)
    }
    let [before, after] = [subject(sets[0])?, subject(sets[1])?];
    let rename = |series: &Series| {
        let metric = series.name.rsplit_once(": ").map_or(series.name.as_str(), |(_, metric)| metric);
        Series { name: metric.to_owned(), ..series.clone() }
    };
    (before != after).then(|| sets.map(|set| set.iter().map(rename).collect()))
}

fn compare_by_name(names: [String; 2], sets: [&[Series]; 2]) -> Comparison {
    let same = |a: &Series, b: &Series| a.name == b.name && a.unit == b.unit;
    let mut rows: Vec<Row> = Vec::new();
    for first in sets[0] {
        if let Some(second) = sets[1].iter().find(|second| same(first, second)) {
            rows.push(row(first, second));
        }
    }
    let told: Vec<usize> = (0..rows.len()).filter(|index| rows[*index].p.is_some()).collect();
    let adjusted = holm::adjust(&told.iter().filter_map(|index| rows[*index].p).collect::<Vec<_>>());
    for (index, p) in told.into_iter().zip(adjusted) {
        rows[index].p = Some(p);
        if p > 0.05 {
            rows[index].finding = Finding::NoDifference;
        }
    }
    let only = |mine: &[Series], other: &[Series]| {
        mine.iter().filter(|a| !other.iter().any(|b| same(a, b))).map(|a| a.name.clone()).collect()
    };
    Comparison {
        sets: names,
        only_in: [only(sets[0], sets[1]), only(sets[1], sets[0])],
        rows,
        remark: "The two were measured at different times, so a difference may come from the machine rather than from what \
                 was changed. `handoff lab ab` measures both in turns."
            .to_owned(),
    }
}

fn row(first: &Series, second: &Series) -> Row {
    let (before, after) = (first.values.as_slice(), second.values.as_slice());
    let usable = |values: &[f64]| values.len() >= LEAST && values.iter().all(|value| *value > 0.0);
    let mut row = Row {
        name: first.name.clone(),
        unit: first.unit.clone(),
        counts: [before.len(), after.len()],
        medians: [median(before), median(after)],
        ratio: None,
        interval: None,
        p: None,
        finding: Finding::TooLittle,
    };
    if !(usable(before) && usable(after)) {
        return row;
    }
    let (ratio, interval) = hodges_lehmann_ratio(before, after, 0.95);
    let test = mann_whitney(before, after);
    row.ratio = Some(ratio);
    row.interval = Some(interval);
    row.p = Some(test.exact.unwrap_or(test.asymptotic));
    // Whether the p-value bears it is known when all rows are.
    row.finding = match (first.better.or(second.better), ratio < 1.0) {
        (Some(Direction::Lower), true) | (Some(Direction::Higher), false) => Finding::Better,
        (Some(_), _) => Finding::Worse,
        (None, _) => Finding::Differs,
    };
    row
}

/// The values of a run of the lab: both runs of A together, and those of B. Arms are called A and B and not by
/// their names, which often are commands with a build in their path.
pub fn series_of(result: &ExperimentResult) -> Vec<Series> {
    let mut all = Vec::new();
    for metric in std::iter::once(&result.primary).chain(&result.secondary) {
        for (arm, ids) in [("A", &[ArmId::A, ArmId::Control][..]), ("B", &[ArmId::B][..])] {
            let samples =
                result.rounds.iter().flat_map(|round| ids.iter().filter_map(|id| round.samples.get(id)));
            all.push(Series {
                name: format!("{arm}: {}", metric.name),
                unit: metric.unit.clone(),
                better: Some(metric.question.direction),
                values: samples.filter_map(|sample| sample.values.get(&metric.name)).copied().collect(),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, better: Option<Direction>, values: &[f64]) -> Series {
        Series { name: name.into(), unit: "s".into(), better, values: values.into() }
    }

    #[test]
    fn rows_are_matched_told_apart_and_adjusted() {
        let low: Vec<f64> = (0..10).map(|i| 1.0 + f64::from(i) * 0.01).collect();
        let high: Vec<f64> = low.iter().map(|v| v * 2.0).collect();
        let lower = Some(Direction::Lower);
        let first = [
            series("time", lower, &low),
            series("rate", Some(Direction::Higher), &low),
            series("count", None, &low),
            series("same", lower, &low),
            series("few", lower, &low[..3]),
            series("zero", lower, &[0.0, 1.0, 1.0, 1.0]),
            series("gone", lower, &low),
        ];
        let second = [
            series("time", lower, &high),
            series("rate", Some(Direction::Higher), &high),
            series("count", None, &high),
            series("same", lower, &low),
            series("few", lower, &high),
            series("zero", lower, &high),
            series("new", lower, &high),
        ];
        let comparison = compare(["a".into(), "b".into()], [&first, &second]);
        let findings: Vec<Finding> = comparison.rows.iter().map(|row| row.finding).collect();
        assert_eq!(
            findings,
            [
                Finding::Worse,
                Finding::Better,
                Finding::Differs,
                Finding::NoDifference,
                Finding::TooLittle,
                Finding::TooLittle
            ]
        );
        assert!(comparison.rows[0].ratio.is_some_and(|ratio| (ratio - 2.0).abs() < 0.05));
        assert_eq!(comparison.only_in, [vec!["gone".to_owned()], vec!["new".to_owned()]]);
        assert!(comparison.remark.contains("at different times"));
    }

    #[test]
    fn one_difference_among_many_rows_must_be_clear() {
        // Five against five values differ at p = .008 at best, which is nothing among twenty rows.
        let (low, high) = ([1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.1, 2.2, 2.3, 2.4]);
        let named = |index: usize, values: &[f64]| series(&index.to_string(), Some(Direction::Lower), values);
        let first: Vec<Series> = (0..20).map(|index| named(index, &low)).collect();
        let mut second = first.clone();
        second[0] = named(0, &high);
        let alone = compare(["a".into(), "b".into()], [&first[..1], &second[..1]]);
        assert_eq!(alone.rows[0].finding, Finding::Worse);
        let many = compare(["a".into(), "b".into()], [&first, &second]);
        assert_eq!(many.rows[0].finding, Finding::NoDifference, "{:?}", many.rows[0]);
    }
}
