//! spin: tasks that only compute, to see what placement and company do to a CPU-bound program.
//!
//! Each task is a process that works through the same number of items, each a chain of dependent
//! additions and multiplications which touches no memory. An item that takes longer than the others was
//! interrupted; a task that takes longer had a slower or a shared CPU.

use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, in_range};
use crate::measurement::{Better, Clock, Parameter, Unit};
use crate::outcome::Outcome;
use crate::place::{self, Placement};
use crate::sys::gate::Gate;
use crate::sys::perf::CounterSet;
use crate::sys::shared::SharedRegion;
use crate::sys::team::Team;

/// Most items of all tasks together.
const MAX_ITEMS: usize = 4 << 20;

/// What spin is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    pub tasks: usize,
    /// Items that each works through.
    pub items: usize,
    /// Steps of an item; 1000 take about 1.5 us.
    pub steps: u64,
    /// CPUs to pin the tasks to, in turn: `[0]` puts all on CPU 0, `[0, 1]` every second one on CPU 1.
    /// Empty: not pinned.
    pub cpus: Vec<usize>,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters { tasks: 1, items: 1000, steps: 100_000, cpus: Vec::new() }
    }
}

impl Parameters {
    /// Checks everything that can be known before a task is started.
    pub fn check(&self) -> Result<()> {
        in_range("tasks", self.tasks, 1..=10_000)?;
        if self.items == 0 || self.items.saturating_mul(self.tasks) > MAX_ITEMS {
            let problem = format!("{} items of {} tasks; 1 to {MAX_ITEMS} in all", self.items, self.tasks);
            return Err(Error::parameter("items", problem));
        }
        if self.steps == 0 {
            return Err(Error::parameter("steps", "0; at least 1 is needed"));
        }
        self.cpus.iter().try_for_each(|&cpu| Placement::SameCpu(cpu).check())
    }

    fn pin(&self, task: usize) -> Placement {
        match self.cpus.as_slice() {
            [] => Placement::Unpinned,
            cpus => Placement::SameCpu(cpus[task % cpus.len()]),
        }
    }
}

/// Runs it once. Measures `spin/time` (one value a task), `spin/item` (every item of every task),
/// `spin/cpu_time` (one value a task) and `spin/cpu_utilisation` (CPU time of all by time of the longest:
/// 2 when two tasks had a CPU each).
pub fn run(parameters: &Parameters) -> Result<Outcome> {
    parameters.check()?;
    let &Parameters { tasks, items, steps, .. } = parameters;
    let cannot = |error: std::io::Error| Error::io("cannot start a task of spin", error);
    let samples_at = Gate::SIZE;
    let region = SharedRegion::new(samples_at + 8 * tasks * items).map_err(cannot)?;
    let gate = Gate::new(&region, 0);
    let counting = CounterSet::of_this_thread();
    let mut team = Team::new();
    for task in 0..tasks {
        let mask = parameters.pin(task).client();
        let body = || {
            let ready = place::apply(mask.as_ref()).and_then(|()| gate.pass());
            if ready.is_err() {
                return 1;
            }
            let mut before = Instant::now();
            for item in 0..items {
                compute(steps);
                let after = Instant::now();
                let took = after.duration_since(before).as_nanos() as u64;
                region.u64(samples_at + 8 * (task * items + item)).store(took, Ordering::Relaxed);
                before = after;
            }
            0
        };
        // In the child: arithmetic, readings of the clock and stores to shared memory only.
        team.fork("task", &[], body).map_err(cannot)?;
    }
    gate.wait_for(tasks, &mut team)?;
    let start = gate.open()?;
    let exits = team.finish()?;
    let elapsed = start.elapsed();
    let took = |index| region.u64(samples_at + 8 * index).load(Ordering::Relaxed) as f64;
    let samples: Vec<f64> = (0..tasks * items).map(took).collect();
    let times = samples.chunks(items).map(|task| task.iter().sum::<f64>() / 1e9).collect();
    let cpu: Vec<f64> = exits.iter().map(|exit| exit.usage.cpu().as_secs_f64()).collect();
    let utilisation = cpu.iter().sum::<f64>() / elapsed.as_secs_f64();
    let mut outcome = Outcome::of("spin", Parameter::of_fields(parameters));
    outcome.add("time", Unit::Seconds, Clock::Monotonic, Better::Lower, times)?;
    outcome.add("item", Unit::Nanoseconds, Clock::Monotonic, Better::Lower, samples)?;
    outcome.add("cpu_time", Unit::Seconds, Clock::ProcessCpu, Better::Lower, cpu)?;
    outcome.add("cpu_utilisation", Unit::Ratio, Clock::ProcessCpu, Better::Neither, vec![utilisation])?;
    outcome.counters = counting.read();
    Ok(outcome)
}

/// `steps` steps, each of which needs the one before: a linear congruential generator (D. E. Knuth's
/// MMIX constants).
pub(crate) fn compute(steps: u64) {
    let mut state = black_box(1_u64);
    for _ in 0..steps {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    black_box(state);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_task_does_all_of_its_items() {
        let parameters = Parameters { tasks: 3, items: 40, steps: 1000, cpus: vec![] };
        let outcome = run(&parameters).expect("it runs");
        let summary = |name: &str| *outcome.measurement(name).expect("measured").summary();
        assert_eq!((summary("spin/item").count, summary("spin/time").count), (120, 3));
        assert!((summary("spin/item").mean * 120.0 / 1e9 - summary("spin/time").mean * 3.0).abs() < 1e-9);
        assert!(summary("spin/item").min > 0.0);
    }

    #[test]
    fn two_tasks_on_one_cpu_use_no_more_than_one() {
        let cpu = place::allowed_cpus().expect("a CPU")[0];
        let parameters = Parameters { tasks: 2, items: 50, steps: 100_000, cpus: vec![cpu] };
        let used = run(&parameters).expect("it runs");
        let used = used.measurement("spin/cpu_utilisation").expect("measured").summary().mean;
        assert!(used > 0.0 && used < 1.1, "{used} CPUs of one");
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Parameters| run(&parameters).expect_err("refused").to_string();
        let good = Parameters::default();
        assert!(refused(Parameters { tasks: 0, ..good.clone() }).contains("tasks: 0"));
        assert!(refused(Parameters { items: usize::MAX, ..good.clone() }).contains("in all"));
        assert!(refused(Parameters { steps: 0, ..good.clone() }).contains("steps: 0"));
        assert!(refused(Parameters { cpus: vec![0, 4000], ..good }).contains("CPU 4000"));
    }
}
