//! A real priority inversion: an urgent caller, a server that is busy with others, and CPU hogs.
//!
//! Everything shares one CPU. Normal clients keep the server's threads busy with long calls, hogs
//! keep the CPU busy, and a `SCHED_FIFO` client makes a short call every now and then. Without
//! inheritance its call is served at the server's normal priority, so it waits for the hogs; with
//! inheritance the server's thread takes over the caller's priority, and the call takes no longer than what
//! the thread was in the middle of.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::deadline::{MissedDeadline, Recorder, Recording, Slices, Wire};
use crate::error::{Error, Result, in_range};
use crate::latency::{Mismatch, Transaction, become_urgent};
use crate::measurement::{Better, Clock, Measurement, Unit};
use crate::place::{self, Placement};
use crate::rpc::play::AskWorkload;
use crate::rpc::role::AskClient;
use crate::rpc::service::{CALL_LIMIT, ProbeProxy};
use crate::rpc::{self, Context, EngineKind, Processes, ServerOptions};
use crate::spin;
use crate::sys::team::Team;

/// What the inversion test is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    pub engine: EngineKind,
    /// That of the service; [`rpc::usual_context`] if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// On the `binder` engine, the runtime has priorities inherited, whatever the driver does.
    pub inherit_user: bool,
    /// Urgent calls with inheritance off, and as many with it on.
    pub iterations: u32,
    /// Pause between two urgent calls, in microseconds.
    pub period_us: u64,
    /// Normal clients, and threads of the server: each client keeps one of them busy.
    pub clients: usize,
    /// Steps of a normal client's call; 1000 take about 1.5 us.
    pub work: u32,
    pub hogs: usize,
    /// A call that takes longer misses, in microseconds.
    pub deadline_us: u64,
    /// The CPU that all share; the first allowed one if absent.
    pub cpu: Option<usize>,
    /// What led to the first miss of each arm is kept so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            engine: EngineKind::default(),
            context: None,
            inherit_user: false,
            iterations: 300,
            period_us: 2000,
            clients: 2,
            work: 100_000,
            hogs: 2,
            deadline_us: 2500,
            cpu: None,
            recording: None,
        }
    }
}

impl Parameters {
    /// Checks everything that can be known before a process is started.
    pub fn check(&self) -> Result<()> {
        if self.engine == EngineKind::Local {
            return Err(Error::parameter("engine", "local: a call within one process cannot be inverted"));
        }
        in_range("i", self.iterations, 1..=1 << 20)?;
        if self.period_us < 100 || self.period_us > 10_000_000 {
            let problem = format!("{} us; 100 (so that others run at all) to 10000000", self.period_us);
            return Err(Error::parameter("period_us", problem));
        }
        if self.clients > 64 || self.hogs > 64 {
            return Err(Error::parameter("clients", "at most 64 clients and 64 hogs are run"));
        }
        self.cpu.map_or(Ok(()), |cpu| Placement::SameCpu(cpu).check())?;
        self.recording.as_ref().map_or(Ok(()), Recording::check)
    }
}

/// What the urgent client is asked to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct UrgentRequest {
    iterations: u32,
    period: Duration,
    wire: Option<Wire>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct UrgentTimes {
    times: Vec<u64>,
    missed: Option<MissedDeadline>,
    mismatches: Vec<Mismatch>,
}

/// The result: the same load twice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InversionReport {
    /// Urgent calls with inheritance off.
    pub off: Arm,
    /// Urgent calls with inheritance on.
    pub on: Arm,
    /// What each call was held against, in microseconds.
    pub deadline_us: u64,
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Arm {
    /// `inversion/fifo`: every urgent call.
    pub calls: Measurement,
    /// How many took longer than the deadline.
    pub missed: u64,
    /// Where the server did not have its caller's priority.
    pub mismatches: Vec<Mismatch>,
    /// What was found out of the first miss, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl InversionReport {
    /// Whether inheritance did what it is for: each call was served at its caller's priority, and the
    /// worst of them took less than the worst without.
    pub fn passed(&self) -> bool {
        self.on.mismatches.is_empty() && self.on.calls.summary().max < self.off.calls.summary().max
    }
}

impl fmt::Display for InversionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "SCHED_FIFO caller, busy server and CPU hogs on one CPU; milliseconds")?;
        writeln!(
            f,
            "{:<14}{:>9}{:>9}{:>9}{:>9}{:>9}{:>8}  served at the caller's priority",
            "inheritance", "min", "p50", "p90", "p99", "worst", "missed"
        )?;
        for (name, arm) in [("off", &self.off), ("on", &self.on)] {
            let summary = arm.calls.summary();
            write!(f, "{name:<14}")?;
            for value in [summary.min, summary.p50, summary.p90, summary.p99, summary.max] {
                write!(f, "{:>9.3}", value / 1e6)?;
            }
            let served = arm.mismatches.iter().map(|mismatch| mismatch.times).max().unwrap_or(0);
            let served = summary.count.saturating_sub(served);
            writeln!(f, "{:>8}  {served} of {}", arm.missed, summary.count)?;
        }
        for (name, arm) in [("off", &self.off), ("on", &self.on)] {
            for note in &arm.notes {
                writeln!(f, "inheritance {name}: {note}")?;
            }
        }
        let (off, on) = (self.off.calls.summary().max, self.on.calls.summary().max);
        write!(f, "worst case with inheritance: {:.2} of that without; ", on / off)?;
        f.write_str(if self.passed() { "PASS" } else { "FAIL" })
    }
}

/// Runs it: first with inheritance off, then on.
pub fn run(parameters: &Parameters) -> Result<InversionReport> {
    parameters.check()?;
    let cpu = match parameters.cpu {
        Some(cpu) => cpu,
        None => place::allowed_cpus()?[0],
    };
    let off = arm(parameters, cpu, false)?;
    let on = arm(parameters, cpu, true)?;
    Ok(InversionReport { off, on, deadline_us: parameters.deadline_us })
}

fn arm(parameters: &Parameters, cpu: usize, inherit: bool) -> Result<Arm> {
    let placement = Placement::SameCpu(cpu);
    let Parameters { engine, context, .. } = *parameters;
    let inherit_user = inherit && parameters.inherit_user;
    let calls =
        rpc::Parameters { engine, context, placement, inherit, inherit_user, ..rpc::Parameters::default() };
    let serving = ServerOptions { threads: Some(parameters.clients.max(1)), ..ServerOptions::default() };
    let limit = Duration::from_micros(parameters.deadline_us);
    let recorder = parameters.recording.as_ref().map(|of| Recorder::start(of, limit)).transpose()?;
    let mut processes = Processes::start(&calls, serving, parameters.clients + 1)?;
    let (urgent, busy) = processes
        .clients
        .split_first_mut()
        .ok_or_else(|| Error::io("cannot start the clients", std::io::ErrorKind::NotFound))?;
    for client in busy {
        client.tell(&AskClient::Busy { steps: parameters.work })?;
    }
    let _hogs = hogs(parameters.hogs, placement)?;
    let period = Duration::from_micros(parameters.period_us);
    let wire = recorder.as_ref().map(Recorder::wire);
    let plan = UrgentRequest { iterations: parameters.iterations, period, wire };
    let limit = CALL_LIMIT + period * parameters.iterations;
    let UrgentTimes { times, missed: first, mismatches } = urgent.ask(&AskWorkload::Urgent(plan), limit)?;
    let notes = recorder.map_or(Ok(Vec::new()), |recorder| recorder.conclude(first))?;
    let deadline = parameters.deadline_us.saturating_mul(1000);
    let missed = times.iter().filter(|&&ns| ns > deadline).count() as u64;
    let values = times.into_iter().map(|ns| ns as f64).collect();
    let mut map = rpc::engine_map(engine, calls.context());
    map.extend([
        ("inherit".to_owned(), inherit.into()),
        ("period_us".to_owned(), parameters.period_us.into()),
        ("clients".to_owned(), parameters.clients.into()),
        ("work".to_owned(), parameters.work.into()),
        ("hogs".to_owned(), parameters.hogs.into()),
        ("cpu".to_owned(), cpu.into()),
    ]);
    let calls = Measurement::from_samples(
        "inversion/fifo",
        Unit::Nanoseconds,
        Clock::Monotonic,
        Better::Lower,
        values,
    )?;
    Ok(Arm { calls: calls.with_parameters(&map), missed, mismatches, notes })
}

/// Processes that compute on the shared CPU until the team is dropped.
fn hogs(count: usize, placement: Placement) -> Result<Team> {
    let mut team = Team::new();
    let mask = placement.client();
    for _ in 0..count {
        let body = || {
            if place::apply(mask.as_ref()).is_err() {
                return 1;
            }
            loop {
                spin::compute(1_000_000);
            }
        };
        // In the child: one system call and arithmetic only.
        team.fork("hog", &[], body).map_err(|error| Error::io("cannot start a CPU hog", error))?;
    }
    Ok(team)
}

/// The urgent client's side: on a thread of its own, so that the process stays normal.
pub(crate) fn call(probe: &ProbeProxy, plan: &UrgentRequest) -> Result<UrgentTimes> {
    let urgent = || -> Result<UrgentTimes> {
        become_urgent()?;
        let mut times = Vec::with_capacity(plan.iterations as usize);
        let mut mismatches: BTreeMap<(&'static str, String, String), u64> = BTreeMap::new();
        let mut first = None;
        let mut tripwire = plan.wire.as_ref().map(Wire::open).transpose()?;
        let mut slices = Slices::default();
        let mut next = Instant::now();
        for _ in 0..plan.iterations {
            next += plan.period;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            next = next.max(Instant::now());
            let transaction = Transaction::make(probe)?;
            times.push(transaction.took());
            if let Some(wire) = &tripwire {
                slices.add("urgent", transaction.window());
                if wire.check(transaction.start, transaction.end)? {
                    let (what, slices) = ("an urgent call".to_owned(), slices.take());
                    first = Some(MissedDeadline { what, window: transaction.window(), slices });
                    // The recording has ended; what follows is only measured.
                    tripwire = None;
                }
            }
            for mismatch in transaction.mismatches() {
                *mismatches.entry(mismatch).or_default() += 1;
            }
        }
        let listed = |((what, caller_had, server_had), times): ((&str, String, String), u64)| Mismatch {
            caller: "fifo".to_owned(),
            what: what.to_owned(),
            caller_had,
            server_had,
            times,
        };
        Ok(UrgentTimes { times, missed: first, mismatches: mismatches.into_iter().map(listed).collect() })
    };
    std::thread::scope(|scope| {
        let started = std::thread::Builder::new().name("fifo-caller".into()).spawn_scoped(scope, urgent);
        let thread = started.map_err(|error| Error::io("cannot start the FIFO caller", error))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_realtime};

    #[test]
    fn inheritance_is_seen_when_on_and_missed_when_off() {
        require!(require_realtime());
        crate::rpc::play_here();
        let parameters = Parameters { iterations: 30, work: 20_000, hogs: 1, ..Parameters::default() };
        let report = run(&parameters).expect("it runs");
        assert_eq!((report.off.calls.summary().count, report.on.calls.summary().count), (30, 30));
        assert_eq!(report.on.mismatches, [], "{report}");
        let off: u64 = report.off.mismatches.iter().filter(|m| m.what == "policy").map(|m| m.times).sum();
        assert_eq!(off, 30, "without inheritance no call is served at FIFO: {report}");
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Parameters| run(&parameters).expect_err("refused").to_string();
        let good = Parameters::default();
        assert!(refused(Parameters { engine: EngineKind::Local, ..good.clone() }).contains("one process"));
        assert!(refused(Parameters { period_us: 0, ..good.clone() }).contains("period_us"));
        assert!(refused(Parameters { cpu: Some(4000), ..good }).contains("CPU 4000"));
    }
}
