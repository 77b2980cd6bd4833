//! The two tests that everything else is judged by, once on each engine: latency and add-ints.

use handoff_workloads::rpc::EngineKind;
use handoff_workloads::{add_ints, latency};
use serde::{Deserialize, Serialize};

use super::{Calls, SkippedEntry};

/// What the latency test says of an engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub engine: String,
    /// Whether the runtime has priorities inherited, over whatever the driver does.
    #[serde(default)]
    pub inherit_user: bool,
    pub other: Callers,
    /// Callers at `SCHED_FIFO` 99.
    pub fifo: Callers,
    /// The share of transactions that were served on their caller's CPU.
    pub sync_ratio: f64,
    /// Whether every transaction was served at its caller's policy, priority and nice.
    pub inheritance: bool,
    /// What differed, a sentence each; the first few.
    pub mismatches: Vec<String>,
    /// Why priorities were not inherited, where that lies in the engine.
    #[serde(default)]
    pub why: Option<String>,
}

impl Latency {
    /// The engine, and who has priorities inherited where that is not the engine.
    pub fn label(&self) -> String {
        format!("{} engine{}", self.engine, if self.inherit_user { ", --inherit user" } else { "" })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Callers {
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub worst_ms: f64,
    /// The share that met the deadline of 2.5 ms.
    pub met: f64,
}

/// What add-ints says of an engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AddInts {
    pub engine: String,
    /// The fastest call, in nanoseconds.
    pub min_ns: f64,
    /// The mean call, in nanoseconds.
    pub mean_ns: f64,
    /// The slowest call, in nanoseconds.
    pub max_ns: f64,
}

/// Both tests on each engine that is present; what cannot run is said.
///
/// On the kernel's driver, where the service's context leaves it at the nice value, the latency test is also
/// run with the runtime's own inheritance. `iterations` are those of the latency test, of two transactions each.
pub fn run(
    calls: &Calls,
    iterations: u32,
    stopped: &dyn Fn() -> bool,
) -> (Vec<Latency>, Vec<AddInts>, Vec<SkippedEntry>) {
    let (mut latencies, mut sums, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    let context = calls.context;
    // A direct call has no second thread to inherit a priority.
    for &engine in calls.engines.iter().filter(|engine| **engine != EngineKind::Local) {
        for inherit_user in [false, true] {
            if stopped() || (inherit_user && engine != EngineKind::Binder) {
                continue;
            }
            let parameters = latency::Parameters {
                engine,
                context,
                inherit_user,
                iterations,
                ..latency::Parameters::default()
            };
            match latency::run(&parameters) {
                Ok(report) => latencies.extend(summary(&parameters, &report)),
                Err(error) => skipped.push(SkippedEntry {
                    name: format!("latency/{engine}{}", if inherit_user { ", --inherit user" } else { "" }),
                    reason: error.to_string(),
                }),
            }
        }
        if stopped() {
            break;
        }
        // A short pause keeps the run short; the CPU spins meanwhile, as in the original.
        let parameters = add_ints::Parameters {
            engine,
            context,
            iterations,
            delay: 1e-4,
            ..add_ints::Parameters::default()
        };
        match add_ints::run(&parameters) {
            Ok(report) => {
                let calls = report.outcome().measurements[0].summary();
                sums.push(AddInts {
                    engine: engine.name().to_owned(),
                    min_ns: calls.min,
                    mean_ns: calls.mean,
                    max_ns: calls.max,
                });
            }
            Err(error) => {
                skipped.push(SkippedEntry { name: format!("add-ints/{engine}"), reason: error.to_string() })
            }
        }
    }
    (latencies, sums, skipped)
}

fn summary(parameters: &latency::Parameters, report: &latency::LatencyReport) -> Option<Latency> {
    let pair = report.pairs().first()?;
    let callers = |transactions: &latency::Transactions| Callers {
        p50_ms: transactions.summary.p50,
        p99_ms: transactions.summary.p99,
        worst_ms: transactions.summary.max,
        met: transactions.met_ratio(),
    };
    Some(Latency {
        engine: parameters.engine.name().to_owned(),
        inherit_user: parameters.inherit_user,
        other: callers(&pair.other),
        fifo: callers(&pair.fifo),
        sync_ratio: pair.sync_ratio(),
        inheritance: report.passed(),
        mismatches: report.mismatches().take(3).collect(),
        why: report.why_not_inherited().map(str::to_owned),
    })
}
