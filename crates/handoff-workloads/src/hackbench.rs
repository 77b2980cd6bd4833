//! hackbench: groups of tasks that all send to all, to load the scheduler.
//!
//! In each group every writer sends `loops` messages to every reader, over one pipe or socket pair a
//! reader; the time is from the common start until the last task has ended. With `readers ==
//! writers` it is the hackbench of rt-tests; with few writers and many readers it is the variant with
//! which the wake-affine studies loaded one waker with many wakees (`--writers 5 --readers 50`).

mod tasks;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::measurement::{Better, Clock, Parameter, Unit};
use crate::outcome::Outcome;
use crate::sys::gate::Gate;
use crate::sys::limits::OpenFiles;
use crate::sys::perf::CounterSet;
use crate::sys::shared::SharedRegion;

/// Most tasks of one run.
pub const MAX_TASKS: usize = 100_000;

/// What hackbench is asked to do. The default is that of rt-tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// Groups, which have nothing to do with each other.
    pub groups: usize,
    /// Tasks of a group that send.
    pub writers: usize,
    /// Tasks of a group that receive.
    pub readers: usize,
    /// Messages that each writer sends to each reader of its group.
    pub loops: usize,
    pub size: usize,
    /// What the messages travel through.
    pub transport: Transport,
    pub tasks: Tasks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// A pair of connected Unix stream sockets for each reader.
    #[default]
    Sockets,
    /// A pipe for each reader.
    Pipes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tasks {
    /// A process of its own.
    #[default]
    Processes,
    /// A thread of this process.
    Threads,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            groups: 10,
            writers: 20,
            readers: 20,
            loops: 100,
            size: 100,
            transport: Transport::default(),
            tasks: Tasks::default(),
        }
    }
}

impl Parameters {
    pub fn task_count(&self) -> usize {
        self.groups.saturating_mul(self.writers.saturating_add(self.readers))
    }

    pub fn message_count(&self) -> usize {
        self.groups.saturating_mul(self.writers).saturating_mul(self.readers).saturating_mul(self.loops)
    }

    /// Checks everything that can be known before a task is started.
    pub fn check(&self) -> Result<()> {
        let at_least_one = [
            ("groups", self.groups),
            ("writers", self.writers),
            ("readers", self.readers),
            ("loops", self.loops),
            ("size", self.size),
        ];
        for (name, value) in at_least_one {
            if value == 0 {
                return Err(Error::parameter(name, "0; at least 1 is needed"));
            }
        }
        if self.size > 1 << 20 {
            return Err(Error::parameter(
                "size",
                format!("{} bytes; a message has at most 1048576", self.size),
            ));
        }
        if self.task_count() > MAX_TASKS {
            let problem = format!("{} tasks; at most {MAX_TASKS} are run", self.task_count());
            return Err(Error::parameter("groups", problem));
        }
        if self.message_count() > 1 << 40 {
            return Err(Error::parameter("loops", "more than 2^40 messages"));
        }
        Ok(())
    }
}

/// Runs it once. Measures `hackbench/time`, `hackbench/messages` (a second) and `hackbench/cpu_time`.
pub fn run(parameters: &Parameters) -> Result<Outcome> {
    parameters.check()?;
    let channels = parameters.groups * parameters.readers;
    let handles = match parameters.tasks {
        Tasks::Processes => parameters.task_count(),
        Tasks::Threads => 0,
    };
    let _room = OpenFiles::allow("hackbench", 2 * channels + handles + 64)?;
    let region = SharedRegion::new(Gate::SIZE).map_err(|error| Error::io("cannot share memory", error))?;
    let gate = Gate::new(&region, 0);
    let counting = CounterSet::of_this_thread();
    let (elapsed, usage) = match parameters.tasks {
        Tasks::Processes => tasks::processes(parameters, gate)?,
        Tasks::Threads => tasks::threads(parameters, gate)?,
    };
    let seconds = elapsed.as_secs_f64();
    let rate = parameters.message_count() as f64 / seconds;
    let mut outcome = Outcome::of("hackbench", Parameter::of_fields(parameters));
    outcome.add("time", Unit::Seconds, Clock::Monotonic, Better::Lower, vec![seconds])?;
    outcome.add("messages", Unit::PerSecond, Clock::Monotonic, Better::Higher, vec![rate])?;
    let (cpu, system) = (usage.cpu().as_secs_f64(), usage.system.as_secs_f64());
    outcome.add("cpu_time", Unit::Seconds, Clock::ProcessCpu, Better::Lower, vec![cpu])?;
    outcome.add("system_time", Unit::Seconds, Clock::ProcessCpu, Better::Lower, vec![system])?;
    outcome.counters = counting.read();
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(transport: Transport, tasks: Tasks) -> Parameters {
        Parameters { groups: 2, writers: 2, readers: 5, loops: 10, size: 64, transport, tasks }
    }

    #[test]
    fn every_kind_runs_and_says_what_it_used() {
        for transport in [Transport::Sockets, Transport::Pipes] {
            for tasks in [Tasks::Processes, Tasks::Threads] {
                let outcome = run(&small(transport, tasks)).expect("it runs");
                let time = outcome.measurement("hackbench/time").expect("measured").summary().mean;
                let rate = outcome.measurement("hackbench/messages").expect("measured").summary().mean;
                assert!(time > 0.0);
                assert!((rate * time - 200.0).abs() < 1e-6, "2 groups x 2 x 5 x 10 messages");
                assert!(outcome.measurement("hackbench/cpu_time").expect("measured").summary().mean > 0.0);
                if let Some(switches) = outcome.counter("context-switches") {
                    assert!(switches >= 14, "each of 14 tasks waited at the gate: {switches}");
                }
            }
        }
    }

    #[test]
    fn messages_larger_than_a_pipe_get_through() {
        let parameters = Parameters {
            groups: 1,
            writers: 2,
            readers: 2,
            loops: 3,
            size: 200_000,
            ..small(Transport::Pipes, Tasks::Processes)
        };
        run(&parameters).expect("it runs");
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Parameters| run(&parameters).expect_err("refused").to_string();
        let good = Parameters::default();
        assert!(refused(Parameters { groups: 0, ..good.clone() }).contains("groups: 0"));
        assert!(refused(Parameters { readers: usize::MAX, ..good.clone() }).contains("tasks"));
        assert!(refused(Parameters { loops: usize::MAX, ..good.clone() }).contains("2^40"));
        assert!(refused(Parameters { size: 2 << 20, ..good.clone() }).contains("1048576"));
        // 50,000 readers fit into the number of tasks, but not into the files that a process may open.
        let many = refused(Parameters { groups: 100, writers: 1, readers: 900, ..good });
        assert!(many.contains("ulimit -Hn"), "{many}");
    }

    #[test]
    fn unknown_keys_are_errors() {
        let error = serde_json::from_str::<Parameters>(r#"{"reader": 5}"#).expect_err("no such key");
        assert!(error.to_string().contains("readers"), "{error}");
    }
}
