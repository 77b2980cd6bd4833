//! The client's side of the latency test.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use handoff_ipc::shm;
use handoff_placement::{Policy, Priority, Tid};
use serde::{Deserialize, Serialize};

use super::halt::RunningTrace;
use crate::error::{Error, Result};
use crate::rpc::role::{call_failed, nanoseconds};
use crate::rpc::service::{ProbeProxy, Spot, cpu_here};

/// What a client is asked to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) iterations: u32,
    pub(crate) verbose: bool,
    /// Stop the trace, and the test, when a FIFO caller waits for longer.
    pub(crate) halt_after: Option<Duration>,
}

/// What it answers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pairwise {
    /// Nanoseconds of each transaction of the normal thread.
    pub(crate) other: Vec<u64>,
    /// Nanoseconds of each transaction of the FIFO threads.
    pub(crate) fifo: Vec<u64>,
    /// Transactions that were served on another CPU than their caller's.
    pub(crate) not_sync: u64,
    /// Where the server did not have its caller's priority.
    pub(crate) mismatches: Vec<Mismatch>,
    /// Where everything ran, in words.
    pub(crate) verbose: Vec<String>,
    /// The trace that was stopped because a deadline was missed.
    pub(crate) halted: Option<PathBuf>,
}

/// Something of the priority that the server's thread did not have as its caller did.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mismatch {
    /// Which caller: `fifo` or `other`.
    pub caller: String,
    /// What differs: `policy`, `priority` or `nice`.
    pub what: String,
    /// What the caller had.
    pub caller_had: String,
    /// What the server's thread had.
    pub server_had: String,
    /// In how many transactions.
    pub times: u64,
}

/// The urgent callers: the highest priority there is, as in the original.
const URGENT: Priority = Priority::fifo(99);

/// Plays the client.
pub(crate) fn call(probe: &ProbeProxy, plan: &Plan) -> Result<Pairwise> {
    let mut tally = Tally::default();
    let trace = plan.halt_after.map(|limit| RunningTrace::find().map(|trace| (trace, limit))).transpose()?;
    let main = Spot::here().map_err(|error| call_failed(&error))?;
    if plan.verbose {
        // The first call finds out which process serves.
        let service = probe.where_served().map_err(|error| call_failed(&error))?;
        tally.say("service", &service);
        tally.say("client", &main);
    }
    for _ in 0..plan.iterations {
        let fifo = thread::scope(|scope| {
            let urgent = || -> Result<Transaction> {
                become_urgent()?;
                Transaction::make(probe)
            };
            let started = thread::Builder::new().name("fifo-caller".into()).spawn_scoped(scope, urgent);
            let thread = started.map_err(|error| Error::io("cannot start the FIFO caller", error))?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        if let Some((trace, _)) = trace.as_ref().filter(|(_, limit)| u128::from(fifo.took) > limit.as_nanos())
        {
            tally.result.halted = Some(trace.halt()?);
        }
        tally.add("fifo", &fifo, plan.verbose);
        let other = Transaction::make(probe)?;
        tally.add("other", &other, plan.verbose);
        if tally.result.halted.is_some() {
            break;
        }
    }
    Ok(tally.finish())
}

/// Makes the calling thread FIFO 99.
pub(crate) fn become_urgent() -> Result<()> {
    URGENT.apply(Tid::current()).map_err(|error| {
        let reason = format!("{error}; run it as root, or allow it with `ulimit -r 99`");
        Error::NotSupported { workload: "a SCHED_FIFO caller", reason }
    })?;
    shm::priority_changed();
    Ok(())
}

/// One transaction, seen from both sides.
pub(crate) struct Transaction {
    pub(crate) caller: Spot,
    pub(crate) server: Spot,
    pub(crate) took: u64,
}

impl Transaction {
    /// Makes it on this thread.
    pub(crate) fn make(probe: &ProbeProxy) -> Result<Self> {
        let failed = |error| call_failed(&error);
        let mut caller = Spot::here().map_err(failed)?;
        caller.cpu = cpu_here();
        let start = Instant::now();
        let server = probe.where_served().map_err(failed)?;
        let took = nanoseconds(start.elapsed());
        Ok(Transaction { caller, server, took })
    }

    /// What the server's thread did not have as the caller did: what, the caller's, the server's.
    pub(crate) fn mismatches(&self) -> impl Iterator<Item = (&'static str, String, String)> {
        let (caller, server) = (self.caller.priority(), self.server.priority());
        let policy = (caller.policy != server.policy).then(|| {
            ("policy", policy_name(caller.policy).to_owned(), policy_name(server.policy).to_owned())
        });
        let priority =
            (caller.rt != server.rt).then(|| ("priority", caller.rt.to_string(), server.rt.to_string()));
        let nice =
            (caller.nice != server.nice).then(|| ("nice", caller.nice.to_string(), server.nice.to_string()));
        [policy, priority, nice].into_iter().flatten()
    }
}

#[derive(Default)]
struct Tally {
    result: Pairwise,
    mismatches: BTreeMap<(&'static str, &'static str, String, String), u64>,
}

impl Tally {
    fn add(&mut self, caller: &'static str, transaction: &Transaction, verbose: bool) {
        let times = if caller == "fifo" { &mut self.result.fifo } else { &mut self.result.other };
        times.push(transaction.took);
        if transaction.caller.cpu != transaction.server.cpu {
            self.result.not_sync += 1;
        }
        for (what, had, got) in transaction.mismatches() {
            *self.mismatches.entry((caller, what, had, got)).or_default() += 1;
        }
        if verbose {
            self.say(if caller == "fifo" { "fifo-caller" } else { "other-caller" }, &transaction.caller);
            self.say("server-thread", &transaction.server);
        }
    }

    fn say(&mut self, role: &str, spot: &Spot) {
        self.result.verbose.push(describe(role, spot));
    }

    fn finish(mut self) -> Pairwise {
        let listed =
            |((caller, what, caller_had, server_had), times): ((&str, &str, String, String), u64)| Mismatch {
                caller: caller.to_owned(),
                what: what.to_owned(),
                caller_had,
                server_had,
                times,
            };
        self.result.mismatches = self.mismatches.into_iter().map(listed).collect();
        self.result
    }
}

/// As `libhwbinder_latency -v` says it.
fn describe(role: &str, spot: &Spot) -> String {
    let priority = spot.priority();
    let number =
        if priority.policy.is_realtime() { i32::from(priority.rt) } else { i32::from(priority.nice) };
    format!(
        "--------------------------------------------------\n{role:<12} pid: {} tid: {} cpu: {} {} {number}",
        spot.pid,
        spot.tid,
        spot.cpu,
        policy_name(priority.policy)
    )
}

/// [`describe`] for the calling thread.
pub(super) fn describe_this(role: &str) -> Result<String> {
    Ok(describe(role, &Spot::here().map_err(|error| call_failed(&error))?))
}

/// The kernel's name of a policy.
fn policy_name(policy: Policy) -> &'static str {
    match policy {
        Policy::Other => "SCHED_OTHER",
        Policy::Fifo => "SCHED_FIFO",
        Policy::RoundRobin => "SCHED_RR",
        Policy::Batch => "SCHED_BATCH",
        Policy::Idle => "SCHED_IDLE",
        Policy::Deadline => "SCHED_DEADLINE",
        Policy::Ext => "SCHED_EXT",
    }
}
