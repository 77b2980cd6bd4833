//! The result of the latency test, with the keys of `libhwbinder_latency`.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::{Mismatch, Pairwise, Parameters, Reaction, Worst};
use crate::cformat::general;
use crate::deadline::Miss;
use crate::error::Result;
use crate::measurement::{Better, Clock, Measurement, Summary, Unit};
use crate::outcome::Outcome;
use crate::rpc::{self, Context, EngineKind};

/// The result of one run. It prints as `libhwbinder_latency` does, and serialises with the same keys.
#[derive(Debug, Clone)]
pub struct LatencyReport {
    parameters: Parameters,
    pairs: Vec<PairReport>,
    raw: bool,
    verbose: Vec<String>,
    halted: Option<PathBuf>,
    misses: Vec<Miss>,
}

/// What one pair of processes saw.
#[derive(Debug, Clone, PartialEq)]
pub struct PairReport {
    /// `I`: transactions.
    pub transactions: u64,
    /// `S`: transactions that were served on their caller's CPU.
    pub in_sync: u64,
    pub other: Transactions,
    /// Callers at `SCHED_FIFO` 99.
    pub fifo: Transactions,
    /// Where the server did not have its caller's priority.
    pub mismatches: Vec<Mismatch>,
    /// The slowest transaction, and what is known of why.
    pub worst: Option<Worst>,
}

/// The transactions of one kind of caller.
#[derive(Debug, Clone, PartialEq)]
pub struct Transactions {
    pub count: u64,
    /// How many took longer than the deadline.
    pub missed: u64,
    /// Summary in milliseconds.
    pub summary: Summary,
    /// Each, in nanoseconds, in order.
    pub raw: Vec<u64>,
}

/// Below this share of transactions in sync, the scheduler does not honour the sync flag.
const GOOD_SYNC: f64 = 0.6;

impl Transactions {
    fn new(name: &str, raw: Vec<u64>, deadline_us: u64) -> Result<Self> {
        let deadline = deadline_us.saturating_mul(1000);
        let missed = raw.iter().filter(|&&ns| ns > deadline).count() as u64;
        let milliseconds = raw.iter().map(|&ns| ns as f64 / 1e6).collect();
        let measured = Measurement::from_samples(
            name,
            Unit::Milliseconds,
            Clock::Monotonic,
            Better::Lower,
            milliseconds,
        )?;
        Ok(Transactions { count: raw.len() as u64, missed, summary: *measured.summary(), raw })
    }

    /// `meetR`: the share that met the deadline.
    pub fn met_ratio(&self) -> f64 {
        1.0 - self.missed as f64 / self.count as f64
    }
}

impl PairReport {
    fn new(result: Pairwise, deadline_us: u64) -> Result<(Self, Vec<String>)> {
        let transactions = (result.other.len() + result.fifo.len()) as u64;
        let pair = PairReport {
            transactions,
            in_sync: transactions.saturating_sub(result.not_sync),
            other: Transactions::new("latency/other", result.other, deadline_us)?,
            fifo: Transactions::new("latency/fifo", result.fifo, deadline_us)?,
            mismatches: result.mismatches,
            worst: result.worst,
        };
        Ok((pair, result.verbose))
    }

    /// `R`: the share that was served on its caller's CPU.
    pub fn sync_ratio(&self) -> f64 {
        self.in_sync as f64 / self.transactions as f64
    }

    /// `SYNC`: whether that share is more than 0.6.
    pub fn sync(&self) -> &'static str {
        if self.sync_ratio() > GOOD_SYNC { "GOOD" } else { "POOR" }
    }
}

impl LatencyReport {
    /// `main` is what `-v` says of the process that started the others.
    pub(super) fn new(parameters: &Parameters, results: Vec<Pairwise>, main: Option<String>) -> Result<Self> {
        let (mut pairs, mut verbose) = (Vec::new(), Vec::from_iter(main));
        for result in results {
            let (pair, said) = PairReport::new(result, parameters.deadline_us)?;
            pairs.push(pair);
            verbose.extend(said);
        }
        let parameters = parameters.clone();
        Ok(LatencyReport { parameters, pairs, raw: false, verbose, halted: None, misses: Vec::new() })
    }

    pub(super) fn with_reaction(mut self, reaction: Reaction) -> Self {
        match reaction {
            Reaction::Record(recorder, _) => self.misses = recorder.finish(),
            Reaction::Halt(_, file, true) => self.halted = Some(file),
            Reaction::Halt(..) | Reaction::Count => {}
        }
        self
    }

    /// The same, printing and serialising every transaction as well (`-raw_data`).
    #[must_use]
    pub fn with_raw_data(mut self) -> Self {
        self.raw = true;
        self
    }

    /// One for each pair of processes.
    pub fn pairs(&self) -> &[PairReport] {
        &self.pairs
    }

    /// Where each transaction ran, if it was asked for (`-v`).
    pub fn verbose(&self) -> &[String] {
        &self.verbose
    }

    /// The misses that were recorded, in order, with their causes.
    pub fn misses(&self) -> &[Miss] {
        &self.misses
    }

    /// Whether the test ended before all its iterations, because as many misses were kept as are wanted
    /// or the trace was halted.
    pub fn ended_early(&self) -> bool {
        let all = 2 * u64::from(self.parameters.iterations);
        self.pairs.iter().any(|pair| pair.transactions < all)
    }

    /// The trace that was halted because a FIFO caller missed its deadline. The test ended there, too.
    pub fn halted(&self) -> Option<&Path> {
        self.halted.as_deref()
    }

    /// Whether every transaction was served at its caller's policy, priority and nice.
    pub fn passed(&self) -> bool {
        self.pairs.iter().all(|pair| pair.mismatches.is_empty())
    }

    /// What differed, one sentence each, with the pair that it was seen in.
    pub fn mismatches(&self) -> impl Iterator<Item = String> {
        self.pairs.iter().enumerate().flat_map(|(pair, report)| {
            report.mismatches.iter().map(move |mismatch| {
                let Mismatch { caller, what, caller_had, server_had, times } = mismatch;
                format!(
                    "P{pair}: the server had {what} {server_had} where its {caller} caller had {caller_had}, \
                     in {times} transactions"
                )
            })
        })
    }

    /// The same as typed measurements: `latency/other` and `latency/fifo`, all pairs together, in
    /// nanoseconds, and `latency/in_sync`.
    pub fn outcome(&self) -> Result<Outcome> {
        let map = self.parameters.to_map();
        let all = |of: fn(&PairReport) -> &Transactions| -> Vec<f64> {
            self.pairs.iter().flat_map(|pair| of(pair).raw.iter().map(|&ns| ns as f64)).collect()
        };
        let sync = self.pairs.iter().map(PairReport::sync_ratio).collect();
        let measurement = |name: &str, unit, better, values| -> Result<Measurement> {
            let name = format!("latency/{name}");
            Ok(Measurement::from_samples(name, unit, Clock::Monotonic, better, values)?.with_parameters(&map))
        };
        let measurements = vec![
            measurement("other", Unit::Nanoseconds, Better::Lower, all(|pair| &pair.other))?,
            measurement("fifo", Unit::Nanoseconds, Better::Lower, all(|pair| &pair.fifo))?,
            measurement("in_sync", Unit::Ratio, Better::Higher, sync)?,
        ];
        let notes = self.mismatches().collect();
        Ok(Outcome {
            workload: "latency".to_owned(),
            parameters: map,
            measurements,
            counters: Vec::new(),
            notes,
        })
    }

    /// Why priorities were not inherited, where that lies in the engine and not in a fault.
    pub fn why_not_inherited(&self) -> Option<&'static str> {
        let Parameters { engine, inherit, inherit_user, .. } = self.parameters;
        if self.passed() || !inherit {
            return None;
        }
        match engine {
            EngineKind::Binder if !inherit_user => Some(
                "no Binder driver of mainline kernels lends a caller's policy and real-time priority, as Android's \
                 kernels do: the driver in C lends its nice value, the one in Rust nothing. `--inherit user` lays the \
                 runtime's own inheritance over it",
            ),
            EngineKind::Shm if self.parameters.context() != Context::Hardware => Some(
                "the service lives in a context whose callers lend their nice value only, by choice: in the \
                 hwbinder context they lend all",
            ),
            _ => None,
        }
    }

    /// Why the slowest transaction of all was slow, in one sentence, as far as it is known.
    pub fn why_worst(&self) -> Option<String> {
        let (pair, worst) = (self.pairs.iter().enumerate())
            .filter_map(|(pair, report)| Some((pair, report.worst.as_ref()?)))
            .max_by_key(|(_, worst)| worst.took_ns)?;
        Some(format!("P{pair}: {worst}"))
    }

    fn verdict(&self) -> &'static str {
        if self.passed() { "PASS" } else { "FAIL" }
    }
}

impl fmt::Display for LatencyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parameters { pairs, iterations, deadline_us, engine, .. } = &self.parameters;
        writeln!(f, "{{")?;
        writeln!(
            f,
            r#""cfg":{{"pair":{pairs},"iterations":{iterations},"deadline_us":{deadline_us},"engine":"{engine}"}},"#
        )?;
        for (index, pair) in self.pairs.iter().enumerate() {
            writeln!(
                f,
                r#""P{index}":{{"SYNC":"{}","S":{},"I":{},"R":{},"#,
                pair.sync(),
                pair.in_sync,
                pair.transactions,
                general(pair.sync_ratio(), 5)
            )?;
            let kinds = [("other", &pair.other), ("fifo", &pair.fifo)];
            for (name, kind) in kinds {
                let key = format!("\"{name}_ms\":");
                let two = |value| general(value, 2);
                writeln!(
                    f,
                    r#"  {key:<11}{{ "avg":{:<6}, "wst":{:<6}, "bst":{:<6}, "miss":{}, "meetR":{}}},"#,
                    two(kind.summary.mean),
                    two(kind.summary.max),
                    two(kind.summary.min),
                    kind.missed,
                    general(kind.met_ratio(), 5)
                )?;
            }
            for (place, (name, kind)) in kinds.into_iter().enumerate() {
                let Summary { p50, p90, p95, p99, .. } = kind.summary;
                let [p50, p90, p95, p99] = [p50, p90, p95, p99].map(|value| general(value, 5));
                let comma = if place == 0 || self.raw { "," } else { "" };
                let key = format!("\"{name}dis\":");
                writeln!(f, r#"  {key:<11}{{ "p50":{p50}, "p90":{p90}, "p95":{p95}, "p99":{p99} }}{comma}"#)?;
            }
            if self.raw {
                for (name, kind, comma) in [("other", &pair.other, ","), ("fifo", &pair.fifo, "")] {
                    let values: Vec<String> =
                        kind.raw.iter().map(|&ns| general(ns as f64 / 1e6, 6)).collect();
                    writeln!(f, r#"  "{name}_data":[{}]{comma}"#, values.join(","))?;
                }
            }
            writeln!(f, "}},")?;
        }
        writeln!(f, r#""inheritance": "{}""#, self.verdict())?;
        write!(f, "}}")
    }
}

/// `avg`, `wst`, ... of one kind of caller.
#[derive(Serialize)]
struct Milliseconds {
    avg: f64,
    wst: f64,
    bst: f64,
    miss: u64,
    #[serde(rename = "meetR")]
    met: f64,
}

#[derive(Serialize)]
struct Percentiles {
    p50: f64,
    p90: f64,
    p95: f64,
    p99: f64,
}

#[derive(Serialize)]
struct Pair<'a> {
    #[serde(rename = "SYNC")]
    sync: &'a str,
    #[serde(rename = "S")]
    in_sync: u64,
    #[serde(rename = "I")]
    transactions: u64,
    #[serde(rename = "R")]
    ratio: f64,
    other_ms: Milliseconds,
    fifo_ms: Milliseconds,
    otherdis: Percentiles,
    fifodis: Percentiles,
    #[serde(skip_serializing_if = "Option::is_none")]
    other_data: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fifo_data: Option<Vec<f64>>,
    mismatches: &'a [Mismatch],
    #[serde(skip_serializing_if = "Option::is_none")]
    worst: Option<Slowest<'a>>,
}

/// The slowest transaction, with the sentence that text has.
#[derive(Serialize)]
struct Slowest<'a> {
    #[serde(flatten)]
    of: &'a Worst,
    why: String,
}

#[derive(Serialize)]
struct Configuration<'a> {
    pair: usize,
    iterations: u32,
    deadline_us: u64,
    engine: &'a str,
    context: &'a str,
    /// The Binder driver, where the calls go through it.
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<&'static str>,
    inherit: bool,
    inherit_user: bool,
    follow: bool,
}

impl Serialize for LatencyReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let milliseconds = |of: &Transactions| Milliseconds {
            avg: of.summary.mean,
            wst: of.summary.max,
            bst: of.summary.min,
            miss: of.missed,
            met: of.met_ratio(),
        };
        let percentiles = |of: &Transactions| {
            let Summary { p50, p90, p95, p99, .. } = of.summary;
            Percentiles { p50, p90, p95, p99 }
        };
        let raw = |of: &Transactions| self.raw.then(|| of.raw.iter().map(|&ns| ns as f64 / 1e6).collect());
        let mut map = serializer.serialize_map(None)?;
        let Parameters { pairs: pair, iterations, deadline_us, engine, inherit, follow, .. } =
            self.parameters;
        let (engine, context, inherit_user) =
            (engine.name(), self.parameters.context().device(), self.parameters.inherit_user);
        map.serialize_entry(
            "cfg",
            &Configuration {
                pair,
                iterations,
                deadline_us,
                engine,
                context,
                driver: rpc::driver_name(self.parameters.engine),
                inherit,
                inherit_user,
                follow,
            },
        )?;
        for (index, pair) in self.pairs.iter().enumerate() {
            let entry = Pair {
                sync: pair.sync(),
                in_sync: pair.in_sync,
                transactions: pair.transactions,
                ratio: pair.sync_ratio(),
                other_ms: milliseconds(&pair.other),
                fifo_ms: milliseconds(&pair.fifo),
                otherdis: percentiles(&pair.other),
                fifodis: percentiles(&pair.fifo),
                other_data: raw(&pair.other),
                fifo_data: raw(&pair.fifo),
                mismatches: &pair.mismatches,
                worst: pair.worst.as_ref().map(|of| Slowest { of, why: of.to_string() }),
            };
            map.serialize_entry(&format!("P{index}"), &entry)?;
        }
        map.serialize_entry("inheritance", self.verdict())?;
        if let Some(trace) = &self.halted {
            map.serialize_entry("halted", trace)?;
        }
        if !self.misses.is_empty() {
            map.serialize_entry("misses", &self.misses)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(mismatches: Vec<Mismatch>) -> LatencyReport {
        let pair = || Pairwise {
            other: vec![100_000, 200_000, 3_000_000, 150_000],
            fifo: vec![50_000, 60_000, 70_000, 80_000],
            not_sync: 2,
            mismatches: mismatches.clone(),
            verbose: vec![],
            missed: None,
            worst: None,
        };
        let parameters = Parameters { iterations: 4, pairs: 2, ..Parameters::default() };
        LatencyReport::new(&parameters, vec![pair(), pair()], None).expect("values")
    }

    #[test]
    fn the_text_has_the_layout_of_the_original() {
        let expected = r#"{
"cfg":{"pair":2,"iterations":4,"deadline_us":2500,"engine":"shm"},
"P0":{"SYNC":"GOOD","S":6,"I":8,"R":0.75,
  "other_ms":{ "avg":0.86  , "wst":3     , "bst":0.1   , "miss":1, "meetR":0.75},
  "fifo_ms": { "avg":0.065 , "wst":0.08  , "bst":0.05  , "miss":0, "meetR":1},
  "otherdis":{ "p50":0.15, "p90":3, "p95":3, "p99":3 },
  "fifodis": { "p50":0.06, "p90":0.08, "p95":0.08, "p99":0.08 }
},
"#;
        let text = known(vec![]).to_string();
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with("\"inheritance\": \"PASS\"\n}"), "{text}");
    }

    #[test]
    fn text_and_json_agree() {
        for report in [known(vec![]), known(vec![]).with_raw_data()] {
            let text: serde_json::Value =
                serde_json::from_str(&report.to_string()).expect("the text is JSON");
            let json = serde_json::to_value(&report).expect("serialises");
            assert_eq!(text["P1"]["S"], json["P1"]["S"]);
            assert_eq!(text["P0"]["other_ms"]["meetR"], json["P0"]["other_ms"]["meetR"]);
            assert_eq!(text["P0"]["fifodis"], json["P0"]["fifodis"]);
            assert_eq!(text["P0"]["fifo_data"], json["P0"]["fifo_data"]);
            assert_eq!(text["inheritance"], json["inheritance"]);
        }
    }

    #[test]
    fn a_mismatch_fails_and_is_named() {
        let mismatch = Mismatch {
            caller: "fifo".into(),
            what: "policy".into(),
            caller_had: "SCHED_FIFO".into(),
            server_had: "SCHED_OTHER".into(),
            times: 256,
        };
        let report = known(vec![mismatch]);
        assert!(!report.passed());
        assert_eq!(
            report.mismatches().next().expect("one"),
            "P0: the server had policy SCHED_OTHER where its fifo caller had SCHED_FIFO, in 256 transactions"
        );
        assert_eq!(report.outcome().expect("values").notes.len(), 2);
    }
}
