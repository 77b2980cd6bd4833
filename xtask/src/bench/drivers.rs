//! `cargo xtask bench drivers`: mainline's Binder driver in Rust beside the one in C, in kernels of one tree.
//!
//! `handoff lab run` runs the experiments, each boot a figure, and judges them. The book's tables are written from that, and
//! what each boot gave is kept in `benches/results/drivers/`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use super::page::Table;
use super::results_folder;
use crate::kernels;
use crate::process::{cargo, output, root, run, target_dir};

/// What the bench is called.
pub(super) const NAME: &str = "drivers";
/// The crate that has the program which runs the experiments.
pub(super) const PACKAGE: &str = "handoff-cli";

/// Where the experiments have the kernels, in the repository.
const KERNELS: &str = "target/kernels";

/// An experiment in `experiments/`, whose name is that of its table, too.
struct Experiment {
    name: &'static str,
    /// Whether the guests' clock counts instructions: then so many nanoseconds are one.
    nanoseconds_an_instruction: Option<f64>,
}

const EXPERIMENTS: [Experiment; 3] = [
    Experiment { name: "binder-c-or-rust", nanoseconds_an_instruction: Some(2.0) },
    Experiment { name: "binder-c-or-rust-objects", nanoseconds_an_instruction: Some(2.0) },
    Experiment { name: "binder-c-or-rust-time", nanoseconds_an_instruction: None },
];

/// What is read of the lab's result.
#[derive(Debug, Deserialize)]
struct Judged {
    title: String,
    arms: [String; 2],
    primary: Metric,
    secondary: Vec<Metric>,
    unusable: Vec<String>,
    rounds: Vec<Round>,
}

#[derive(Debug, Deserialize)]
struct Metric {
    name: String,
    unit: String,
    /// Of the baseline, of the baseline again and of the change.
    medians: [f64; 3],
    judgement: Judgement,
}

#[derive(Debug, Deserialize)]
struct Judgement {
    verdict: String,
    change: Estimate,
    noise: Estimate,
}

#[derive(Debug, Deserialize)]
struct Estimate {
    ratio: f64,
    interval: Interval,
    rounds: usize,
}

/// An end that too few rounds cannot give is absent.
#[derive(Debug, Deserialize)]
struct Interval {
    low: Option<f64>,
    high: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Round {
    samples: BTreeMap<String, Sample>,
}

#[derive(Debug, Deserialize)]
struct Sample {
    values: BTreeMap<String, f64>,
}

/// A sweep gives a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum LabResult {
    One(Box<Judged>),
    Sweep(Vec<Judged>),
}

/// What is kept of an experiment: each judged metric in each boot.
#[derive(Debug, PartialEq, Serialize)]
struct Kept<'a> {
    title: &'a str,
    metrics: Vec<Values<'a>>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Values<'a> {
    name: &'a str,
    unit: &'a str,
    /// By arm, in the order of rounds.
    boots: BTreeMap<String, Vec<f64>>,
}

impl Judged {
    fn metrics(&self) -> impl Iterator<Item = &Metric> {
        std::iter::once(&self.primary).chain(&self.secondary)
    }

    fn kept(&self) -> Kept<'_> {
        let [baseline, change] = &self.arms;
        let arms = [("a", baseline.clone()), ("again", format!("{baseline} again")), ("b", change.clone())];
        let boots = |metric: &Metric, arm: &str| {
            let samples = self.rounds.iter().filter_map(|round| round.samples.get(arm));
            samples.filter_map(|sample| sample.values.get(&metric.name).copied()).collect()
        };
        let mut metrics = Vec::new();
        for metric in self.metrics() {
            let boots = arms.iter().map(|(arm, name)| (name.clone(), boots(metric, arm))).collect();
            metrics.push(Values { name: &metric.name, unit: &metric.unit, boots });
        }
        Kept { title: &self.title, metrics }
    }
}

/// Runs the experiments, keeps what each boot gave, and gives the tables.
pub(super) fn measure() -> Result<Vec<Table>> {
    let images = kernels::ensure()?;
    run(cargo().args(["build", "--release", "--package", PACKAGE]))?;
    let folder = target_dir().join(NAME);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let table = |experiment: &Experiment| {
        let judged = judged(experiment, &images, &folder)?;
        keep(experiment.name, &judged)?;
        experiment.table(&judged)
    };
    EXPERIMENTS.iter().map(table).collect()
}

fn judged(experiment: &Experiment, images: &Path, folder: &Path) -> Result<Vec<Judged>> {
    let name = format!("{}.toml", experiment.name);
    let source = root().join("experiments").join(&name);
    let text =
        std::fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
    ensure!(text.contains(KERNELS), "{} names no kernel in {KERNELS}", source.display());
    // The target folder may be another one.
    let file = folder.join(name);
    let text = text.replace(KERNELS, &images.display().to_string());
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    let mut lab = Command::new(target_dir().join("release/handoff"));
    lab.args(["lab", "run", "--format", "json", "--output"]).arg(folder).arg(&file);
    println!("runs {}: boots take some seconds each", experiment.name);
    read(&output(&mut lab)?)
}

fn read(text: &str) -> Result<Vec<Judged>> {
    let result = serde_json::from_str(text).context("the lab's result is not as agreed")?;
    Ok(match result {
        LabResult::One(one) => vec![*one],
        LabResult::Sweep(all) => all,
    })
}

fn keep(name: &str, judged: &[Judged]) -> Result<()> {
    let kept: Vec<Kept<'_>> = judged.iter().map(Judged::kept).collect();
    let folder = results_folder().join(NAME);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = folder.join(format!("{name}.json"));
    let json = serde_json::to_string(&kept)? + "\n";
    std::fs::write(&file, json).with_context(|| format!("cannot write {}", file.display()))
}

impl Experiment {
    fn table(&self, judged: &[Judged]) -> Result<Table> {
        let first = judged.first().context("the lab ran nothing")?;
        let [baseline, change] = &first.arms;
        let ratio = format!("{change} / {baseline}");
        let again = format!("{baseline} again / {baseline}");
        let columns = ["", baseline, change, &ratio, &again, "rounds", "verdict"].map(str::to_owned);
        let mut rows = Vec::new();
        for judged in judged {
            // What cannot be judged would be missing from the table in silence.
            ensure!(judged.unusable.is_empty(), "{}: {}", judged.title, judged.unusable.join("; "));
            // A sweep says in its titles which point each is.
            let point = judged.title.split_once(", ").map(|(_, point)| format!("{point}: "));
            let point = point.unwrap_or_default();
            rows.extend(judged.metrics().map(|metric| self.row(&point, metric)));
        }
        Ok(Table {
            page: "reference/binder-c-or-rust.md".into(),
            mark: self.name.into(),
            columns: columns.to_vec(),
            rows,
        })
    }

    fn row(&self, point: &str, metric: &Metric) -> Vec<String> {
        let [baseline, _, change] = metric.medians.map(|median| self.value(median, &metric.unit));
        let Judgement { verdict, change: estimate, noise } = &metric.judgement;
        let end = |end: Option<f64>| end.map_or_else(|| "open".to_owned(), |end| format!("{end:.3}"));
        let Interval { low, high } = &estimate.interval;
        vec![
            format!("{point}`{}`", metric.name),
            baseline,
            change,
            format!("{:.3} [{}, {}]", estimate.ratio, end(*low), end(*high)),
            format!("{:.3}", noise.ratio),
            estimate.rounds.to_string(),
            match verdict.as_str() {
                "inconclusive" => "not enough evidence".to_owned(),
                word => word.replace('_', " "),
            },
        ]
    }

    fn value(&self, value: f64, unit: &str) -> String {
        match (self.nanoseconds_an_instruction, unit) {
            (Some(each), "ns") => thousands(value / each),
            (None, "ns") => format!("{:.1} us", value / 1000.0),
            _ => format!("{} {unit}", thousands(value)),
        }
    }
}

/// A whole number in groups of three digits.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = r#"{
        "schema": 1, "title": "Drivers", "arms": ["C", "Rust"], "unusable": [],
        "primary": {"name": "call", "unit": "ns", "medians": [2469136, 2469136, 2716050], "judgement": {
            "verdict": "not_active", "noise": {"ratio": 1, "interval": {"low": null, "high": null}, "rounds": 6},
            "change": {"ratio": 1.1, "interval": {"low": 1.09, "high": 1.11}, "rounds": 6}}},
        "secondary": [{"name": "memory", "unit": "B", "medians": [512, 513, 256], "judgement": {
            "verdict": "inconclusive", "noise": {"ratio": 1.002, "interval": {"low": 1, "high": 1.1}, "rounds": 6},
            "change": {"ratio": 0.5, "interval": {"low": null, "high": 0.51}, "rounds": 6}}}],
        "rounds": [{"samples": {"a": {"values": {"call": 1, "memory": 4, "wall": 9}},
            "again": {"values": {"call": 2, "memory": 5}}, "b": {"values": {"call": 3, "memory": 6}}}}]}"#;

    #[test]
    fn a_result_is_a_row_for_each_metric() {
        let judged = read(RESULT).expect("as agreed");
        let table = EXPERIMENTS[0].table(&judged).expect("all is judged");
        let rows: Vec<Vec<&str>> =
            table.rows.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
        assert_eq!(
            rows[0],
            ["`call`", "1,234,568", "1,358,025", "1.100 [1.090, 1.110]", "1.000", "6", "not active"]
        );
        assert_eq!(
            rows[1],
            ["`memory`", "512 B", "256 B", "0.500 [open, 0.510]", "1.002", "6", "not enough evidence"]
        );
        let time = EXPERIMENTS[2].table(&judged).expect("all is judged");
        assert_eq!(time.rows[0][1], "2469.1 us");
    }

    #[test]
    fn points_of_a_sweep_are_told_apart_and_nothing_is_left_out_unsaid() {
        let sweep = format!("[{}]", RESULT.replace("\"Drivers\"", "\"Drivers, objects = 10\""));
        let table = EXPERIMENTS[1].table(&read(&sweep).expect("as agreed")).expect("all is judged");
        assert_eq!(table.rows[0][0], "objects = 10: `call`");
        let unusable = RESULT.replace("\"unusable\": []", "\"unusable\": [\"x was not measured\"]");
        let error = EXPERIMENTS[0].table(&read(&unusable).expect("as agreed")).expect_err("refused");
        assert!(error.to_string().contains("x was not measured"), "{error}");
    }

    #[test]
    fn each_boot_is_kept_for_each_judged_metric() {
        let judged = read(RESULT).expect("as agreed");
        let kept = judged[0].kept();
        let boots = |index: usize| {
            let named = ["C", "C again", "Rust"].map(|arm| kept.metrics[index].boots[arm].clone());
            (kept.metrics[index].name, named)
        };
        assert_eq!(boots(0), ("call", [vec![1.0], vec![2.0], vec![3.0]]));
        assert_eq!(boots(1), ("memory", [vec![4.0], vec![5.0], vec![6.0]]));
        assert_eq!(kept.metrics.len(), 2, "what is not judged is not kept");
    }
}
