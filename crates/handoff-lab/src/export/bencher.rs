//! Bencher's metric format (bencher.dev, "BMF"), which follows metrics from commit to commit: benchmarks, each with its
//! measures.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::experiment::ArmId;
use crate::experiment::result::ExperimentResult;
use crate::stats::describe::Summary;

/// One figure. The format has no units: the measure's name says it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Value {
    pub value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_value: Option<f64>,
}

/// Measures by their benchmark.
pub type File = BTreeMap<String, BTreeMap<String, Value>>;

/// An experiment: a benchmark for the ratio B / A with its interval, which is the figure to follow, and one for each arm with
/// the median and the quartiles of its runs.
pub fn of_experiment(result: &ExperimentResult) -> File {
    let title = &result.header.title;
    let [a, b] = &result.header.arms;
    let (ratio, a, b) = (format!("{title}: B / A"), format!("{title}: A, {a}"), format!("{title}: B, {b}"));
    let mut file = File::new();
    let mut add = |benchmark: &str, measure: &str, value| {
        file.entry(benchmark.to_owned()).or_default().insert(measure.to_owned(), value);
    };
    for metric in result.metrics() {
        let change = &metric.judgement.change;
        let interval = change.interval.is_bounded().then_some(change.interval);
        let value = Value {
            value: change.ratio,
            lower_value: interval.map(|interval| interval.low),
            upper_value: interval.map(|interval| interval.high),
        };
        add(&ratio, &metric.name, value);
        for (benchmark, ids) in [(&a, &[ArmId::A, ArmId::Control][..]), (&b, &[ArmId::B][..])] {
            let samples =
                result.rounds.iter().flat_map(|round| ids.iter().filter_map(|id| round.samples.get(id)));
            let runs: Vec<f64> =
                samples.filter_map(|sample| sample.values.get(&metric.name).copied()).collect();
            let runs = Summary::of(&runs);
            let value = Value { value: runs.median, lower_value: Some(runs.q1), upper_value: Some(runs.q3) };
            add(benchmark, &metric.name_with_unit(), value);
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::result::tests::result;

    #[test]
    fn the_ratio_has_its_interval_and_each_arm_its_quartiles() {
        let result = result();
        let file = of_experiment(&result);
        assert_eq!(file.keys().collect::<Vec<_>>(), ["t: A, off", "t: B / A", "t: B, on"]);
        let ratio = file["t: B / A"]["time"];
        let interval = result.primary.judgement.change.interval;
        assert_eq!((ratio.lower_value, ratio.upper_value), (Some(interval.low), Some(interval.high)));
        assert!((0.85..0.95).contains(&ratio.value), "{ratio:?}");
        let [off, on] = ["t: A, off", "t: B, on"].map(|arm| file[arm]["time (s)"]);
        assert!(off.lower_value < Some(off.value) && Some(off.value) < off.upper_value, "{off:?}");
        assert!((1.9..2.1).contains(&off.value) && (1.7..1.9).contains(&on.value), "{off:?} {on:?}");
    }

    #[test]
    fn an_interval_without_bounds_is_left_out() {
        let mut result = result();
        result.primary.judgement.change.interval.high = f64::INFINITY;
        let json = serde_json::to_value(of_experiment(&result)).expect("JSON");
        let ratio = json["t: B / A"]["time"].as_object().expect("a figure");
        assert_eq!(ratio.keys().collect::<Vec<_>>(), ["value"]);
    }
}
