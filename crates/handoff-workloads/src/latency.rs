//! The latency test: does a call meet its deadline, stay on its CPU, and take its caller's priority along?
//!
//! The work and the words are those of `libhwbinder_latency` and `schd-dbg`. Each iteration is two
//! transactions: one from a thread made for it at `SCHED_FIFO` 99, one from the client's normal thread.
//! Client process *n* calls server process *n* only, and all pairs run at the same time.
//!
//! Where it differs, on purpose: percentiles are exact; the deadline is applied to both kinds of caller;
//! inheritance compares policy and nice as well as priority, and says what differed.

mod client;
mod fault;
mod report;
mod why;

pub use client::Mismatch;
pub(crate) use client::{ClientRequest, Pairwise, Transaction, become_urgent, call};
pub(crate) use fault::Lateness;
pub use fault::{Cause, Fault};
pub use report::{LatencyReport, PairReport, Transactions};
pub use why::{TaskTime, Worst};

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::deadline::{MissedDeadline, OnMiss, Recorder, Wire, running_trace};
use crate::error::{Error, Result, in_range};
use crate::measurement::Parameter;
use crate::place::allowed_cpus;
use crate::rpc::play::AskWorkload;
use crate::rpc::service::CALL_LIMIT;
use crate::rpc::{self, Context, EngineKind, Processes, ServerOptions};
use fault::Hogs;

/// Most iterations of one run.
pub const MAX_ITERATIONS: u32 = 1 << 20;

/// Iterations between two looks at whether the test is to stop.
const BATCH: u32 = 500;

/// What the latency test is asked to do. The default is that of `libhwbinder_latency`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    pub engine: EngineKind,
    /// That of the service; [`rpc::usual_context`] if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    pub pairs: usize,
    /// Iterations, of two transactions each.
    pub iterations: u32,
    /// A transaction that takes longer misses, in microseconds.
    pub deadline_us: u64,
    /// The service takes over its caller's priority.
    pub inherit: bool,
    /// On the `binder` engine, the runtime has priorities inherited, whatever the driver does.
    pub inherit_user: bool,
    /// The callee may be served beside its caller where that is cheaper.
    pub follow: bool,
    /// Say where each transaction ran.
    pub verbose: bool,
    /// What is done about a missed deadline.
    pub on_miss: OnMiss,
    /// A cause of lateness that is injected on purpose.
    pub fault: Option<Fault>,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            engine: EngineKind::default(),
            context: None,
            pairs: 1,
            iterations: 100,
            deadline_us: 2500,
            inherit: true,
            inherit_user: false,
            follow: true,
            verbose: false,
            on_miss: OnMiss::Count,
            fault: None,
        }
    }
}

impl Parameters {
    /// Checks everything that can be known before a process is started.
    pub fn check(&self) -> Result<()> {
        in_range("pair", self.pairs, 1..=1000)?;
        in_range("i", self.iterations, 1..=MAX_ITERATIONS)?;
        if self.deadline_us == 0 {
            return Err(Error::parameter("deadline_us", "0; a transaction takes at least some time"));
        }
        self.on_miss.check()
    }

    /// The world of the service.
    pub fn context(&self) -> Context {
        self.context.unwrap_or(rpc::usual_context(self.engine))
    }

    /// What to tell before the run if it loads more CPUs than there are: its figures then say nothing of
    /// the IPC.
    pub fn overload(&self) -> Option<String> {
        let cpus = allowed_cpus().ok()?.len();
        (self.pairs > cpus).then(|| {
            format!(
                "{} pairs overload the {cpus} CPUs that may be used. They wait for a CPU, not for each other, \
                 so latency and SYNC say nothing of the IPC; use at most {} (CPUs - 1), or {cpus} with care",
                self.pairs,
                cpus.saturating_sub(1).max(1)
            )
        })
    }

    fn to_map(&self) -> BTreeMap<String, Parameter> {
        let mut map = rpc::engine_map(self.engine, self.context());
        map.extend([
            ("pairs".to_owned(), self.pairs.into()),
            ("iterations".to_owned(), self.iterations.into()),
            ("deadline_us".to_owned(), self.deadline_us.into()),
            ("inherit".to_owned(), self.inherit.into()),
            ("inherit_user".to_owned(), self.inherit_user.into()),
            ("follow".to_owned(), self.follow.into()),
        ]);
        map
    }
}

pub fn run(parameters: &Parameters) -> Result<LatencyReport> {
    run_until(parameters, &AtomicBool::new(false))
}

/// [`run`], which ends early once `stop` is set and reports the iterations that were made. It looks between batches
/// of 500 iterations, so that the look costs the calls nothing.
pub fn run_until(parameters: &Parameters, stop: &AtomicBool) -> Result<LatencyReport> {
    parameters.check()?;
    let Parameters { engine, context, inherit, inherit_user, follow, fault, .. } = *parameters;
    let mut reaction = Reaction::prepare(parameters)?;
    let mut parameters = parameters.clone();
    let calls =
        rpc::Parameters { engine, context, inherit, inherit_user, follow, ..rpc::Parameters::default() };
    let serving = ServerOptions { fault, ..ServerOptions::default() };
    let mut pairs =
        (0..parameters.pairs).map(|_| Processes::start(&calls, serving, 1)).collect::<Result<Vec<_>>>()?;
    let _hogs = Hogs::start(fault)?;
    let mut results: Vec<Pairwise> = pairs.iter().map(|_| Pairwise::default()).collect();
    // In batches, each of which a miss may interrupt.
    loop {
        let left = |result: &Pairwise| parameters.iterations.saturating_sub(result.fifo.len() as u32);
        // All are connected before the first one starts, and run together.
        for (pair, result) in pairs.iter_mut().zip(&results).filter(|(_, result)| left(result) > 0) {
            pair.clients[0].tell(&AskWorkload::Latency(ClientRequest {
                iterations: left(result).min(BATCH),
                verbose: parameters.verbose,
                wire: reaction.wire(),
                urgent_only: matches!(reaction, Reaction::Halt(..)),
                fault,
            }))?;
        }
        for (pair, result) in pairs.iter_mut().zip(&mut results).filter(|(_, result)| left(result) > 0) {
            result.append(pair.clients[0].answer::<Pairwise>(CALL_LIMIT * 12)?);
        }
        let missed = results.iter_mut().enumerate().filter_map(|(pair, result)| {
            let MissedDeadline { what, window, slices } = result.missed.take()?;
            Some(MissedDeadline { what: format!("{what} of pair {pair}"), window, slices })
        });
        // The first of them stopped the recording.
        let first = missed.min_by_key(|missed| missed.window.end);
        if !reaction.goes_on_after(first)? || results.iter().all(|result| left(result) == 0) {
            break;
        }
        if stop.load(Ordering::Relaxed) {
            parameters.iterations =
                results.iter().map(|result| result.fifo.len() as u32).min().unwrap_or(parameters.iterations);
            break;
        }
    }
    let parameters = &parameters;
    let main = if parameters.verbose { Some(client::describe_this("main")?) } else { None };
    // The recorder's files can be closed now: nobody is left who could stop it.
    drop(pairs);
    Ok(LatencyReport::new(parameters, results, main)?.with_reaction(reaction))
}

/// What is done about a miss, while the test runs.
#[derive(Debug)]
enum Reaction {
    Count,
    /// The recorder, and how many misses it is to keep.
    Record(Box<Recorder>, u32),
    /// The wire to the trace, the file that holds it, and whether it was halted.
    Halt(Wire, PathBuf, bool),
}

impl Reaction {
    fn prepare(parameters: &Parameters) -> Result<Self> {
        let limit = Duration::from_micros(parameters.deadline_us);
        Ok(match &parameters.on_miss {
            OnMiss::Count => Reaction::Count,
            OnMiss::Record { recording, keep } => {
                Reaction::Record(Box::new(Recorder::start(recording, limit)?), *keep)
            }
            OnMiss::Halt(folder) => {
                let (wire, file) = running_trace(folder.as_deref(), limit)?;
                Reaction::Halt(wire, file, false)
            }
        })
    }

    fn wire(&self) -> Option<Wire> {
        match self {
            Reaction::Count => None,
            Reaction::Record(recorder, _) => Some(recorder.wire()),
            Reaction::Halt(wire, ..) => Some(wire.clone()),
        }
    }

    /// Keeps the miss, if there was one; says whether the test goes on if it is not done.
    fn goes_on_after(&mut self, missed: Option<MissedDeadline>) -> Result<bool> {
        match (self, missed) {
            (Reaction::Record(recorder, wanted), Some(missed)) => {
                recorder.keep(missed)?;
                Ok(recorder.kept() < *wanted as usize)
            }
            (Reaction::Halt(.., halted), Some(_)) => {
                *halted = true;
                Ok(false)
            }
            _ => Ok(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline::Recording;
    use handoff_testkit::{require, require_realtime, require_root};

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Parameters| run(&parameters).expect_err("refused").to_string();
        let good = Parameters::default();
        assert!(refused(Parameters { pairs: 0, ..good.clone() }).contains("pair: 0"));
        assert!(refused(Parameters { iterations: 0, ..good.clone() }).contains("i: 0"));
        assert!(refused(Parameters { deadline_us: 0, ..good }).contains("deadline_us: 0"));
    }

    #[test]
    fn a_test_that_is_stopped_reports_what_it_made() {
        require!(require_realtime());
        crate::rpc::play_here();
        let parameters = Parameters { iterations: 3 * BATCH, ..Parameters::default() };
        let report = run_until(&parameters, &AtomicBool::new(true)).expect("it ran");
        let value: serde_json::Value = serde_json::to_value(&report).expect("JSON");
        assert!(value.to_string().contains(&format!("\"iterations\":{BATCH}")), "{value}");
        assert!(!report.ended_early(), "it made all that it says it made");
    }

    #[test]
    fn more_pairs_than_cpus_are_warned_of() {
        let cpus = allowed_cpus().expect("CPUs").len();
        let with = |pairs| Parameters { pairs, ..Parameters::default() }.overload();
        assert_eq!(with(cpus), None);
        assert!(with(cpus + 1).expect("too many").contains("overload"));
    }

    #[test]
    fn inheritance_passes_on_shared_memory_and_fails_when_it_is_off() {
        require!(require_realtime());
        crate::rpc::play_here();
        let on = Parameters { iterations: 60, pairs: 2, ..Parameters::default() };
        let report = run(&on).expect("it runs");
        assert_eq!(report.pairs().len(), 2);
        for pair in report.pairs() {
            assert_eq!((pair.transactions, pair.other.count, pair.fifo.count), (120, 60, 60));
            assert!(pair.in_sync <= 120);
        }
        assert!(report.passed(), "{report}");

        let report = run(&Parameters { inherit: false, ..on }).expect("it runs");
        assert!(!report.passed());
        let mismatch = &report.pairs()[0].mismatches[0];
        assert_eq!(mismatch.caller, "fifo");
        assert!(report.to_string().contains(r#""inheritance": "FAIL""#));
    }

    #[test]
    fn a_trace_is_halted_at_an_urgent_miss_if_it_runs() {
        require!(require_root());
        require!(require_realtime());
        crate::rpc::play_here();
        // A trace of our own: that of the machine is not touched.
        let tracefs = handoff_trace::TraceFs::find().expect("root can always trace");
        let instance = handoff_trace::tracefs::Instance::create(&tracefs).expect("root may");
        let on_miss = OnMiss::Halt(Some(instance.path().to_owned()));
        let parameters = Parameters { on_miss, deadline_us: 1, ..Parameters::default() };
        let error = run(&parameters).expect_err("it does not run").to_string();
        assert!(error.contains("trace is not running"), "{error}");
        instance.set("tracing_on", "1").expect("written");
        let report = run(&parameters).expect("it runs");
        assert_eq!(report.halted(), Some(instance.path().join("trace").as_path()));
        assert_eq!(instance.get("tracing_on").expect("read").trim(), "0");
        assert!(report.ended_early() && report.misses().is_empty());
    }

    #[test]
    fn misses_are_kept_until_there_are_enough() {
        require!(require_root());
        require!(require_realtime());
        crate::rpc::play_here();
        let folder = tempfile::tempdir().expect("a folder");
        let recording = Recording { folder: folder.path().to_owned(), buffer_kib: 1024 };
        let on_miss = OnMiss::Record { recording, keep: 3 };
        let parameters = Parameters { on_miss, deadline_us: 1, pairs: 2, ..Parameters::default() };
        let report = run(&parameters).expect("it runs");
        assert_eq!(report.misses().len(), 3);
        assert!(report.ended_early() && report.halted().is_none());
        for (number, miss) in (1..).zip(report.misses()) {
            let diagnosis = &miss.kept.diagnosis;
            assert!(miss.took_ns > 1000 && miss.deadline_ns == 1000, "{miss}");
            assert_eq!(diagnosis.window.length(), miss.took_ns);
            assert_eq!(diagnosis.causes.iter().map(|cause| cause.ns).sum::<u64>(), miss.took_ns);
            assert_eq!(miss.kept.trace, folder.path().join(format!("miss-{number}.dat")));
            assert!(miss.kept.html.exists() && miss.kept.perfetto.exists());
            assert!(miss.to_string().starts_with("deadline triggered: halt & stop trace\nlog:"));
        }
        let json = serde_json::to_value(&report).expect("serialises");
        assert_eq!(json["misses"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn a_call_within_one_process_always_has_its_callers_priority() {
        require!(require_realtime());
        crate::rpc::play_here();
        let parameters =
            Parameters { engine: EngineKind::Local, iterations: 30, verbose: true, ..Parameters::default() };
        let report = run(&parameters).expect("it runs");
        assert!(report.passed());
        let said = report.verbose().join("\n");
        assert!(
            said.contains("main ") && said.contains("service ") && said.contains("other-caller"),
            "{said}"
        );
        assert!(said.contains("fifo-caller") && said.contains("SCHED_FIFO 99"), "{said}");
    }
}
