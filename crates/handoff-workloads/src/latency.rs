//! The latency test: does a call meet its deadline, stay on its CPU, and take its caller's priority along?
//!
//! The work and the words are those of `libhwbinder_latency` and `schd-dbg`. Each iteration is two
//! transactions: one from a thread made for it at `SCHED_FIFO` 99, one from the client's normal thread.
//! Client process *n* calls server process *n* only, and all pairs run at the same time.
//!
//! Where it differs, on purpose: percentiles are exact; the deadline is applied to both kinds of caller;
//! inheritance compares policy and nice as well as priority, and says what differed.

mod client;
mod halt;
mod report;

pub use client::Mismatch;
pub(crate) use client::{Pairwise, Plan, Transaction, become_urgent, call};
pub use report::{PairReport, Report, Transactions};

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::measurement::Parameter;
use crate::place::allowed_cpus;
use crate::rpc::role::AskClient;
use crate::rpc::service::CALL_LIMIT;
use crate::rpc::{self, Engine, Processes};

/// Most iterations of one run.
pub const MAX_ITERATIONS: u32 = 1 << 20;

/// What the latency test is asked to do. The default is that of `libhwbinder_latency`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// What carries the calls.
    pub engine: Engine,
    /// Pairs of processes.
    pub pairs: usize,
    /// Iterations, of two transactions each.
    pub iterations: u32,
    /// A transaction that takes longer misses, in microseconds.
    pub deadline_us: u64,
    /// The service takes over its caller's priority.
    pub inherit: bool,
    /// The callee may be served beside its caller where that is cheaper.
    pub follow: bool,
    /// Say where each transaction ran.
    pub verbose: bool,
    /// Stop the kernel's trace, which must be running, and the test at the first FIFO caller that misses
    /// its deadline.
    pub trace: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            engine: Engine::default(),
            pairs: 1,
            iterations: 100,
            deadline_us: 2500,
            inherit: true,
            follow: true,
            verbose: false,
            trace: false,
        }
    }
}

impl Parameters {
    /// Checks everything that can be known before a process is started.
    ///
    /// # Errors
    ///
    /// If a value is out of its range.
    pub fn check(&self) -> Result<()> {
        if self.pairs == 0 || self.pairs > 1000 {
            return Err(Error::parameter("pair", format!("{}; 1 to 1000 are run", self.pairs)));
        }
        if self.iterations == 0 || self.iterations > MAX_ITERATIONS {
            return Err(Error::parameter("i", format!("{}; 1 to {MAX_ITERATIONS} are run", self.iterations)));
        }
        if self.deadline_us == 0 {
            return Err(Error::parameter("deadline_us", "0; a transaction takes at least some time"));
        }
        Ok(())
    }

    /// What to tell before the run if it loads more CPUs than there are: its figures then say nothing of
    /// the IPC.
    pub fn overload(&self) -> Option<String> {
        let cpus = allowed_cpus().ok()?.len();
        (self.pairs > cpus).then(|| {
            format!(
                "{} pairs overload the {cpus} CPUs that may be used: they wait for a CPU, not for each other, \
                 so latency and SYNC say nothing of the IPC; use at most {} (CPUs - 1), or {cpus} with care",
                self.pairs,
                cpus.saturating_sub(1).max(1)
            )
        })
    }

    fn to_map(&self) -> BTreeMap<String, Parameter> {
        BTreeMap::from([
            ("engine".to_owned(), self.engine.name().into()),
            ("pairs".to_owned(), self.pairs.into()),
            ("iterations".to_owned(), self.iterations.into()),
            ("deadline_us".to_owned(), self.deadline_us.into()),
            ("inherit".to_owned(), self.inherit.into()),
            ("follow".to_owned(), self.follow.into()),
        ])
    }
}

/// Runs it once.
///
/// # Errors
///
/// If a parameter is out of its range, `SCHED_FIFO` is not permitted, a call fails or a process dies.
pub fn run(parameters: &Parameters) -> Result<Report> {
    parameters.check()?;
    let Parameters { engine, inherit, follow, .. } = *parameters;
    let calls = rpc::Parameters { engine, inherit, follow, ..rpc::Parameters::default() };
    let mut pairs =
        (0..parameters.pairs).map(|_| Processes::start(&calls, None, 1)).collect::<Result<Vec<_>>>()?;
    let plan = Plan {
        iterations: parameters.iterations,
        verbose: parameters.verbose,
        halt_after: parameters.trace.then(|| Duration::from_micros(parameters.deadline_us)),
    };
    // All are connected before the first one starts, and run together.
    for pair in &mut pairs {
        pair.clients[0].tell(&AskClient::Latency(plan.clone()))?;
    }
    let mut results = Vec::with_capacity(pairs.len());
    for pair in &mut pairs {
        results.push(pair.clients[0].answer::<Pairwise>(CALL_LIMIT * 12)?);
    }
    let main = if parameters.verbose { Some(client::describe_this("main")?) } else { None };
    Report::new(parameters, results, main)
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_realtime};

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Parameters| run(&parameters).expect_err("refused").to_string();
        let good = Parameters::default();
        assert!(refused(Parameters { pairs: 0, ..good.clone() }).contains("pair: 0"));
        assert!(refused(Parameters { iterations: 0, ..good.clone() }).contains("i: 0"));
        assert!(refused(Parameters { deadline_us: 0, ..good }).contains("deadline_us: 0"));
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
    fn a_trace_that_does_not_run_is_an_error() {
        require!(require_realtime());
        let running = ["/sys/kernel/tracing/tracing_on", "/sys/kernel/debug/tracing/tracing_on"]
            .into_iter()
            .any(|file| std::fs::read_to_string(file).is_ok_and(|state| state.trim() == "1"));
        if running {
            return handoff_testkit::skip("a_trace_that_does_not_run_is_an_error", "a trace is running");
        }
        crate::rpc::play_here();
        let error = run(&Parameters { trace: true, ..Parameters::default() }).expect_err("refused");
        assert!(error.to_string().contains("trace is not running"), "{error}");
    }

    #[test]
    fn a_call_within_one_process_always_has_its_callers_priority() {
        require!(require_realtime());
        crate::rpc::play_here();
        let parameters =
            Parameters { engine: Engine::Local, iterations: 30, verbose: true, ..Parameters::default() };
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
