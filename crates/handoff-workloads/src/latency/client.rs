//! The client's side of the latency test.

use std::collections::BTreeMap;
use std::thread;

use handoff_placement::{Policy, Priority, Tid};
use handoff_trace::diagnose::Window;
use serde::{Deserialize, Serialize};

use super::Fault;
use super::why::{Counters, Ledger, TaskTime, Worst};
use crate::deadline::{MissedDeadline, Slices, Tripwire, Wire};
use crate::error::call_failed;
use crate::error::{Error, Result};
use crate::rpc::service::{ProbeProxy, ThreadLocation, cpu_here};
use crate::sys::clock::now;

/// What a client is asked to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ClientRequest {
    /// How many iterations; fewer are made if a deadline is missed.
    pub(crate) iterations: u32,
    pub(crate) verbose: bool,
    /// What a missed deadline stops. The test of this client ends there, too.
    pub(crate) wire: Option<Wire>,
    /// Only urgent callers have that deadline, as in the original.
    pub(crate) urgent_only: bool,
    /// What makes some urgent calls late.
    pub(crate) fault: Option<Fault>,
}

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
    /// The miss that ended it.
    pub(crate) missed: Option<MissedDeadline>,
    pub(crate) worst: Option<Worst>,
}

impl Pairwise {
    /// Adds what the same client did afterwards.
    pub(crate) fn append(&mut self, later: Pairwise) {
        self.other.extend(later.other);
        self.fifo.extend(later.fifo);
        self.not_sync += later.not_sync;
        self.verbose.extend(later.verbose);
        for mismatch in later.mismatches {
            let same =
                |known: &&mut Mismatch| Mismatch { times: mismatch.times, ..(*known).clone() } == mismatch;
            match self.mismatches.iter_mut().find(same) {
                Some(known) => known.times += mismatch.times,
                None => self.mismatches.push(mismatch),
            }
        }
        self.missed = later.missed.or(self.missed.take());
        let both = self.worst.take().into_iter().chain(later.worst);
        self.worst = both.max_by_key(|worst| worst.took_ns);
    }
}

/// Something of the priority that the server's thread did not have as its caller did.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mismatch {
    /// Which caller: `fifo` or `other`.
    pub caller: String,
    /// What differs: `policy`, `priority` or `nice`.
    pub what: String,
    pub caller_had: String,
    /// What the server's thread had.
    pub server_had: String,
    pub times: u64,
}

/// The urgent callers: the highest priority there is, as in the original.
const URGENT: Priority = Priority::fifo(99);

pub(crate) fn call(probe: &ProbeProxy, plan: &ClientRequest) -> Result<Pairwise> {
    let mut tally = Tally::default();
    let tripwire = plan.wire.as_ref().map(Wire::open).transpose()?;
    let tripwire = tripwire.as_ref();
    let main = ThreadLocation::here().map_err(|error| call_failed(&error))?;
    if plan.verbose {
        // The first call finds out which process serves.
        let service = probe.where_served().map_err(|error| call_failed(&error))?;
        tally.say("service", &service);
        tally.say("client", &main);
    }
    let own = Counters::own();
    for iteration in 0..plan.iterations {
        let late = plan.fault.is_some_and(|fault| fault.makes_late(iteration));
        tally.ledger.settle();
        let (fifo, missed) = thread::scope(|scope| {
            let urgent = || -> Result<(TimedTransaction, bool)> {
                become_urgent()?;
                TimedTransaction::make(probe, late, tripwire, &Counters::own())
            };
            let started = thread::Builder::new().name("fifo-caller".into()).spawn_scoped(scope, urgent);
            let thread = started.map_err(|error| Error::io("cannot start the FIFO caller", error))?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        tally.add("fifo", &fifo, plan.verbose, missed);
        let of_both = tripwire.filter(|_| !plan.urgent_only && !missed);
        tally.ledger.settle();
        let (other, missed) = TimedTransaction::make(probe, false, of_both, &own)?;
        tally.add("other", &other, plan.verbose, missed);
        // Also where another client has missed a deadline: what follows is not recorded.
        if tripwire.is_some_and(Tripwire::is_cut) {
            break;
        }
    }
    Ok(tally.finish())
}

/// Makes the calling thread FIFO 99, before its first call.
pub(crate) fn become_urgent() -> Result<()> {
    URGENT.apply(Tid::current()).map_err(|error| {
        let reason = format!("{error}; run it as root, or allow it with `ulimit -r 99`");
        Error::NotSupported { workload: "a SCHED_FIFO caller", reason }
    })
}

/// One transaction, seen from both sides.
pub(crate) struct Transaction {
    pub(crate) caller: ThreadLocation,
    pub(crate) server: ThreadLocation,
    /// When it began and when its reply was there, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Transaction {
    /// Makes it on this thread.
    pub(crate) fn make(probe: &ProbeProxy) -> Result<Self> {
        Self::make_by(|| probe.where_served())
    }

    fn make_by(call: impl FnOnce() -> handoff_ipc::Result<ThreadLocation>) -> Result<Self> {
        let failed = |error| call_failed(&error);
        let mut caller = ThreadLocation::here().map_err(failed)?;
        caller.cpu = cpu_here();
        let start = now();
        let server = call().map_err(failed)?;
        let end = now();
        Ok(Transaction { caller, server, start, end })
    }

    /// How long it took, in nanoseconds.
    pub(crate) fn took(&self) -> u64 {
        self.end - self.start
    }

    /// Who called whom, and when.
    pub(crate) fn window(&self) -> Window {
        let Transaction { caller, server, start, end } = self;
        Window { caller: caller.tid, callee: Some(server.tid), start: *start, end: *end }
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

/// A transaction of the latency test.
struct TimedTransaction {
    transaction: Transaction,
    /// What its caller used up meanwhile.
    spent: Option<TaskTime>,
}

impl TimedTransaction {
    /// Makes it on this thread, and says whether it was so late that it cut the wire.
    fn make(probe: &ProbeProxy, late: bool, wire: Option<&Tripwire>, own: &Counters) -> Result<(Self, bool)> {
        let before = own.read();
        let call = || if late { probe.where_served_late() } else { probe.where_served() };
        let transaction = Transaction::make_by(call)?;
        let missed = wire.map_or(Ok(false), |wire| wire.check(transaction.start, transaction.end))?;
        let spent = own.read().zip(before).map(|(after, before)| after.since(before));
        Ok((TimedTransaction { transaction, spent }, missed))
    }
}

#[derive(Default)]
struct Tally {
    result: Pairwise,
    mismatches: BTreeMap<(&'static str, &'static str, String, String), u64>,
    slices: Slices,
    ledger: Ledger,
}

impl Tally {
    fn add(&mut self, caller: &'static str, watched: &TimedTransaction, verbose: bool, missed: bool) {
        let TimedTransaction { transaction, spent } = watched;
        let times = if caller == "fifo" { &mut self.result.fifo } else { &mut self.result.other };
        times.push(transaction.took());
        let window = transaction.window();
        self.slices.add(caller, window);
        let server = (transaction.server.pid, transaction.server.tid);
        self.ledger.note(caller, transaction.took(), *spent, server);
        if missed {
            let what = format!("a call of the {caller} caller");
            let slices = self.slices.take();
            self.result.missed = Some(MissedDeadline { what, window, slices });
        }
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

    fn say(&mut self, role: &str, location: &ThreadLocation) {
        self.result.verbose.push(describe(role, location));
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
        self.result.worst = self.ledger.finish();
        self.result
    }
}

/// As `libhwbinder_latency -v` says it.
fn describe(role: &str, location: &ThreadLocation) -> String {
    let priority = location.priority();
    let number =
        if priority.policy.is_realtime() { i32::from(priority.rt) } else { i32::from(priority.nice) };
    format!(
        "--------------------------------------------------\n{role:<12} pid: {} tid: {} cpu: {} {} {number}",
        location.pid,
        location.tid,
        location.cpu,
        policy_name(priority.policy)
    )
}

/// [`describe`] for the calling thread.
pub(super) fn describe_this(role: &str) -> Result<String> {
    Ok(describe(role, &ThreadLocation::here().map_err(|error| call_failed(&error))?))
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
