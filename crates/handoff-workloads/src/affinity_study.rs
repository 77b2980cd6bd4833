//! The affinity study: CPU-bound tasks as the kernel places them, on one slow core, and on a fast core
//! each.
//!
//! Each run is a process of its own, so that pinning "the whole process" is just that. The process
//! waits for a word before it starts, so that it is placed before it works.

mod energy;

pub use energy::EnergySource;

use crate::error::{Error, Result};
use energy::Meter;
use handoff_placement::process::run_time_ns;
use handoff_placement::{
    AffinityGuard, ControlGroup, CpuId, CpuSet, Limits, Pin, Root, Scope, Tid, Topology, affinity, fast,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::hint::black_box;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Where the tasks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// As the kernel places them.
    Free,
    /// The whole process on one slow core.
    OneSlowCore,
    /// Each task on a fast core of its own.
    FastCoreEach,
}

impl Scenario {
    /// The three, in the order of the study.
    pub const ALL: [Self; 3] = [Self::Free, Self::OneSlowCore, Self::FastCoreEach];
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Free => "as the kernel places them",
            Self::OneSlowCore => "process on one slow core",
            Self::FastCoreEach => "each task on a fast core",
        })
    }
}

/// What is run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyPlan {
    /// Tasks at a time.
    pub tasks: usize,
    /// Additions that each task makes.
    pub iterations: u64,
    /// The slow core.
    pub slow: CpuId,
    /// The share of a core that a quota leaves of the slow one; `None` if it is slow by itself.
    pub emulated: Option<f64>,
    /// A fast core for each task.
    pub fast: Vec<CpuId>,
    /// All CPUs that may be used: their number is the 100% of the CPU peak, times 100.
    pub usable: CpuSet,
}

impl StudyPlan {
    /// Chooses the cores: by class where there are classes; else the quota makes one slow, to `emulate`
    /// of its speed.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] if there are fewer fast cores than tasks.
    pub fn new(machine: &Topology, tasks: usize, iterations: u64, emulate: f64) -> Result<Self> {
        let usable = affinity(Tid::current())?.intersection(&machine.online);
        let of = |class: Option<&handoff_placement::Class>| {
            class.map(|class| class.cpus.intersection(&usable)).unwrap_or_default()
        };
        // From the fastest class down, one of each core first, so that SMT siblings do not share.
        let singles = machine.one_per_core();
        let by_speed = machine.classes.iter().rev().map(|class| class.cpus.intersection(&usable));
        let fast: Vec<CpuId> = by_speed
            .flat_map(|cpus| {
                let first = cpus.intersection(&singles);
                first.iter().chain(cpus.difference(&singles).iter()).collect::<Vec<_>>()
            })
            .take(tasks)
            .collect();
        let slow = if machine.is_asymmetric() { of(machine.little()).first() } else { usable.iter().last() };
        let (Some(slow), true) = (slow, fast.len() == tasks && tasks > 0) else {
            let reason = format!("{tasks} tasks want a core each, and {} may be used", usable.len());
            return Err(Error::NotSupported { workload: "affinity-study", reason });
        };
        let emulated = (!machine.is_asymmetric()).then_some(emulate);
        Ok(Self { tasks, iterations, slow, emulated, fast, usable })
    }
}

/// How long a piece of work of so many additions takes here, for choosing a number of them.
#[must_use]
pub fn calibrate(wanted: Duration) -> u64 {
    const PIECE: u64 = 2_000_000;
    let piece = || {
        black_box(sum(PIECE));
    };
    let best = (0..5).map(|_| time(piece)).min().unwrap_or(wanted);
    let piece = best.as_secs_f64().max(1e-6);
    ((wanted.as_secs_f64() / piece) * PIECE as f64) as u64
}

/// The work of the study: the sum of 0 to n, one addition at a time.
fn sum(iterations: u64) -> u64 {
    (0..iterations).fold(0, |sum, i| black_box(u64::wrapping_add(sum, i)))
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// One run of one scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sample {
    pub scenario: Scenario,
    /// Time of each task, in milliseconds.
    pub task_ms: Vec<f64>,
    /// Highest use of CPUs over a tenth of a second, in percent of one CPU.
    pub peak_percent: f64,
    /// Moves of the tasks between CPUs, where the kernel counts them.
    pub migrations: Option<u64>,
    /// CPUs that each task was seen on.
    pub seen_on: Vec<CpuSet>,
    /// Energy in joules, where the machine counts it.
    pub energy_j: Option<f64>,
    /// What the energy is that of.
    pub energy_source: Option<EnergySource>,
    /// Did the tasks run in a control group of their own, apart from the rest of the machine?
    pub isolated: bool,
}

/// What a worker reports of a task.
#[derive(Debug, Serialize, Deserialize)]
struct TaskReport {
    ms: f64,
    migrations: Option<u64>,
    seen_on: CpuSet,
}

/// Runs one scenario once. `worker` is the command that ends in [`worker()`], without its arguments.
///
/// # Errors
///
/// If the worker cannot be started or placed, or ends early.
pub fn run(plan: &StudyPlan, scenario: Scenario, mut worker: Command) -> Result<Sample> {
    let group = group(plan, scenario)?;
    let fast: Vec<String> = match scenario {
        Scenario::FastCoreEach => plan.fast.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    worker.arg(plan.tasks.to_string()).arg(plan.iterations.to_string()).args(fast);
    let mut child = Worker(
        worker
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| Error::io("cannot start the worker", e))?,
    );
    let pid = i32::try_from(child.0.id()).ok().and_then(Tid::new).ok_or_else(|| unread("no pid"))?;
    let ended = |e: io::Error| Error::io("the worker ended early", e);
    let output = child.0.stdout.take().ok_or_else(|| unread("no output"))?;
    let mut output = BufReader::new(output);
    let mut line = String::new();
    output.read_line(&mut line).map_err(ended)?;
    // Its threads are there and wait: the whole process can be placed now.
    let _pin = match scenario {
        Scenario::OneSlowCore => Some(Pin::apply(Scope::Process, pid, &CpuSet::of(plan.slow))?),
        _ => None,
    };
    if let Some(group) = &group {
        group.take(pid)?;
    }
    let mut meter = Meter::start(&Root::host(), Instant::now());
    child.0.stdin.take().map_or(Ok(()), |mut input| input.write_all(b"go\n")).map_err(ended)?;
    let (reports, peak_percent) = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut line = String::new();
            output.read_line(&mut line).map(|_| line)
        });
        let mut peak = Peak::new(pid);
        while !reader.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
            peak.look();
            if let Some(meter) = &mut meter {
                meter.look(Instant::now());
            }
        }
        (reader.join(), peak.highest)
    });
    let line = reports.map_err(|_| unread("its output cannot be read"))?.map_err(ended)?;
    let energy = meter.and_then(|mut meter| meter.joules(Instant::now()));
    let reports: Vec<TaskReport> =
        serde_json::from_str(&line).map_err(|e| Error::io("the worker did not report its times", e))?;
    drop(child);
    Ok(Sample {
        scenario,
        task_ms: reports.iter().map(|task| task.ms).collect(),
        peak_percent,
        migrations: reports.iter().map(|task| task.migrations).sum(),
        seen_on: reports.into_iter().map(|task| task.seen_on).collect(),
        energy_j: energy.map(|(joules, _)| joules),
        energy_source: energy.map(|(_, source)| source),
        isolated: group.is_some(),
    })
}

fn unread(why: &str) -> Error {
    Error::io("the worker", io::Error::other(why))
}

/// A group with much weight, so that what else runs does not spoil the times; and with a quota where a
/// slow core is emulated. Without the right to make one, only the emulation is an error.
fn group(plan: &StudyPlan, scenario: Scenario) -> Result<Option<ControlGroup>> {
    let quota = plan.emulated.filter(|_| scenario == Scenario::OneSlowCore);
    // A short period is less of a stop and go than the usual 100 ms.
    let limits = Limits { quota, period_us: Some(10_000), weight: Some(10_000), cpus: None };
    match ControlGroup::create(&format!("handoff-study-{}", std::process::id()), &limits) {
        Ok(group) => Ok(Some(group)),
        Err(error) if quota.is_some() => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// The worker: makes the threads, says that it is ready, waits for a line, works, and reports.
///
/// With `cpus`, task n pins itself to the n-th of them while it works.
///
/// # Errors
///
/// If a thread cannot be pinned, or nobody reads the report.
pub fn worker(tasks: usize, iterations: u64, cpus: &[CpuId]) -> Result<()> {
    let start = Barrier::new(tasks + 1);
    let reports = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..tasks)
            .map(|index| {
                let (start, cpu) = (&start, cpus.get(index).copied());
                scope.spawn(move || {
                    start.wait();
                    start.wait();
                    task(iterations, cpu)
                })
            })
            .collect();
        start.wait();
        println!("ready");
        let mut go = String::new();
        // Whoever started it and went away wants no work done.
        let told = io::stdin().read_line(&mut go).is_ok_and(|length| length > 0);
        if !told {
            std::process::exit(1);
        }
        start.wait();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(unread("a task panicked"))));
        joined.collect::<Result<Vec<TaskReport>>>()
    })?;
    let line = serde_json::to_string(&reports).map_err(|e| Error::io("the worker's report", e))?;
    println!("{line}");
    Ok(())
}

fn task(iterations: u64, cpu: Option<CpuId>) -> Result<TaskReport> {
    const CHUNKS: u64 = 200;
    let _pinned = cpu.map(|cpu| AffinityGuard::pin(&CpuSet::of(cpu))).transpose()?;
    let migrations_before = migrations();
    let mut seen_on = CpuSet::new();
    let passed = time(|| {
        for chunk in 0..CHUNKS {
            // The remainder goes to the first chunks.
            black_box(sum(iterations / CHUNKS + u64::from(chunk < iterations % CHUNKS)));
            seen_on.insert(fast::current_cpu());
        }
    });
    let migrations =
        migrations_before.zip(migrations()).and_then(|(before, after)| after.checked_sub(before));
    Ok(TaskReport { ms: passed.as_secs_f64() * 1e3, migrations, seen_on })
}

/// Moves of the calling thread between CPUs so far (`CONFIG_SCHED_DEBUG`).
fn migrations() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/sched").ok()?;
    let line = text.lines().find(|line| line.starts_with("se.nr_migrations"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// The highest use of CPUs of a process over any tenth of a second.
struct Peak {
    pid: Tid,
    looks: std::collections::VecDeque<Look>,
    highest: f64,
}

/// What the process had used at some moment between two readings of the clock.
struct Look {
    before: Instant,
    used_ns: u64,
}

impl Peak {
    fn new(pid: Tid) -> Self {
        Self { pid, looks: std::collections::VecDeque::new(), highest: 0.0 }
    }

    fn look(&mut self) {
        const WINDOW: Duration = Duration::from_millis(100);
        let before = Instant::now();
        let Some(used_ns) = run_time_ns(self.pid) else { return };
        // Looking may take long on a busy machine: the longest that can have passed overstates nothing.
        let after = Instant::now();
        self.looks.push_back(Look { before, used_ns });
        while let Some(first) = self.looks.front().filter(|first| before - first.before >= WINDOW) {
            let passed = after - first.before;
            let share = used_ns.saturating_sub(first.used_ns) as f64 / passed.as_nanos() as f64;
            self.highest = self.highest.max(share * 100.0);
            self.looks.pop_front();
        }
    }
}

/// Ends the worker when it is dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_sum() {
        assert_eq!(sum(1001), 500_500);
        assert!(calibrate(Duration::from_millis(10)) > 0);
    }

    #[test]
    fn a_plan_takes_fast_cores_and_emulates_slow_ones_only_where_there_are_none() {
        let machine = Topology::read().unwrap();
        let plan = StudyPlan::new(&machine, 1, 100, 0.4).unwrap();
        assert_eq!((plan.fast.len(), plan.emulated.is_some()), (1, !machine.is_asymmetric()));
        let error = StudyPlan::new(&machine, 100_000, 100, 0.4).unwrap_err().to_string();
        assert!(error.contains("100000 tasks want a core each"), "{error}");
        assert!(StudyPlan::new(&machine, 0, 100, 0.4).is_err());
    }

    #[test]
    fn a_pinned_task_is_seen_on_its_cpu_only() {
        let cpu = affinity(Tid::current()).unwrap().first().unwrap();
        let report = std::thread::spawn(move || task(100_000, Some(cpu)).unwrap()).join().unwrap();
        assert_eq!(report.seen_on, CpuSet::of(cpu));
        assert!(report.ms > 0.0);
    }
}
