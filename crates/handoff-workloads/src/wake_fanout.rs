//! wake-fanout: one waker and N wakees, and how long each takes from being woken to running.
//!
//! In each round the waker wakes every wakee, one after the other, and sleeps until the last of them
//! has done its work and wakes it. This is the 1 : N relation for which `wake_affine` and `wake_wide`
//! decide where wakees run.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::thread::futex;
use serde::{Deserialize, Serialize};

use crate::deadline::{RecordedRun, Watch};
use crate::error::{Error, Result, in_range};
use crate::measurement::{Better, Clock, Parameter, Unit};
use crate::outcome::Outcome;
use crate::spin;
use crate::sys::clock::now;
use crate::sys::gate::Gate;
use crate::sys::perf::CounterSet;
use crate::sys::shared::SharedRegion;
use crate::sys::team::Team;
use crate::sys::usage::Usage;

/// Most wake-ups of one run, all wakees together.
const MAX_WAKES: usize = 4 << 20;

/// What wake-fanout is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    pub wakees: usize,
    /// Times that all of them are woken.
    pub rounds: usize,
    /// Steps that a wakee computes each time; 1000 take about 1.5 us.
    pub work: u64,
    /// A deadline for each wake-up; what led to the first miss is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<Watch>,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters { wakees: 8, rounds: 2000, work: 1000, watch: None }
    }
}

impl Parameters {
    /// Checks everything that can be known before a task is started.
    pub fn check(&self) -> Result<()> {
        in_range("wakees", self.wakees, 1..=10_000)?;
        if self.rounds == 0 || self.rounds.saturating_mul(self.wakees) > MAX_WAKES {
            let problem =
                format!("{} of {} wakees; 1 to {MAX_WAKES} wake-ups in all", self.rounds, self.wakees);
            return Err(Error::parameter("rounds", problem));
        }
        self.watch.as_ref().map_or(Ok(()), Watch::check)
    }
}

/// The shared words: gate, how many are still at work, then a cell for each wakee, then the samples.
struct Board {
    region: SharedRegion,
    wakees: usize,
    rounds: usize,
}

const BUSY: usize = Gate::SIZE;
const CELLS: usize = Gate::SIZE + 64;
const CELL: usize = 64;

impl Board {
    fn new(parameters: &Parameters) -> std::io::Result<Self> {
        let Parameters { wakees, rounds, .. } = *parameters;
        let region = SharedRegion::new(CELLS + CELL * wakees + 8 * rounds * (wakees + 1))?;
        Ok(Board { region, wakees, rounds })
    }

    fn busy(&self) -> &AtomicU32 {
        self.region.u32(BUSY)
    }

    /// The round that a wakee is woken for.
    fn round(&self, wakee: usize) -> &AtomicU32 {
        self.region.u32(CELLS + CELL * wakee)
    }

    /// When the waker woke it.
    fn woken_at(&self, wakee: usize) -> &std::sync::atomic::AtomicU64 {
        self.region.u64(CELLS + CELL * wakee + 8)
    }

    /// Samples: wakee by wakee, then the rounds.
    fn sample(&self, task: usize, round: usize) -> &std::sync::atomic::AtomicU64 {
        self.region.u64(CELLS + CELL * self.wakees + 8 * (task * self.rounds + round))
    }

    fn samples(&self, tasks: std::ops::Range<usize>) -> Vec<f64> {
        let of_task = |task| (0..self.rounds).map(move |round| (task, round));
        tasks
            .flat_map(of_task)
            .map(|(task, round)| self.sample(task, round).load(Ordering::Relaxed) as f64)
            .collect()
    }

    fn wake_all_for_each_round(&self) -> rustix::io::Result<()> {
        for round in 0..self.rounds {
            let start = now();
            self.busy().store(self.wakees as u32, Ordering::Release);
            for wakee in 0..self.wakees {
                self.woken_at(wakee).store(now(), Ordering::Relaxed);
                self.round(wakee).store(round as u32 + 1, Ordering::Release);
                futex::wake(self.round(wakee), futex::Flags::empty(), 1)?;
            }
            loop {
                match self.busy().load(Ordering::Acquire) {
                    0 => break,
                    busy => sleep_on(self.busy(), busy)?,
                }
            }
            self.sample(self.wakees, round).store(now() - start, Ordering::Relaxed);
        }
        Ok(())
    }

    fn be_woken(&self, wakee: usize, work: u64, watched: Option<&RecordedRun>) -> rustix::io::Result<()> {
        for round in 0..self.rounds {
            while self.round(wakee).load(Ordering::Acquire) as usize == round {
                sleep_on(self.round(wakee), round as u32)?;
            }
            let (woken, runs) = (self.woken_at(wakee).load(Ordering::Relaxed), now());
            if let Some(Err(error)) = watched.map(|watched| watched.check(0, woken, runs)) {
                return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
            }
            self.sample(wakee, round).store(runs.saturating_sub(woken), Ordering::Relaxed);
            spin::compute(work);
            if self.busy().fetch_sub(1, Ordering::AcqRel) == 1 {
                futex::wake(self.busy(), futex::Flags::empty(), 1)?;
            }
        }
        Ok(())
    }
}

fn sleep_on(word: &AtomicU32, seen: u32) -> rustix::io::Result<()> {
    match futex::wait(word, futex::Flags::empty(), seen, None) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Runs it once. Measures `wake-fanout/time` (all rounds), `wake-fanout/round` (each round),
/// `wake-fanout/latency` (each wake-up) and `wake-fanout/cpu_time`.
pub fn run(parameters: &Parameters) -> Result<Outcome> {
    parameters.check()?;
    let cannot = |error: std::io::Error| Error::io("cannot start a task of wake-fanout", error);
    let board = Board::new(parameters).map_err(cannot)?;
    let gate = Gate::new(&board.region, 0);
    let counting = CounterSet::of_this_thread();
    let watched = RecordedRun::start(parameters.watch.as_ref())?;
    let fds: Vec<_> = watched.iter().map(RecordedRun::fd).collect();
    let mut team = Team::new();
    for wakee in 0..parameters.wakees {
        let woken = || board.be_woken(wakee, parameters.work, watched.as_ref());
        let body = || i32::from(gate.pass().and_then(|()| woken()).is_err());
        // In the child: arithmetic, futexes, a write to the recorder's switch, readings of the clock and shared memory only.
        team.fork("wakee", &fds, body).map_err(cannot)?;
    }
    let body = || i32::from(gate.pass().and_then(|()| board.wake_all_for_each_round()).is_err());
    // In the child: as for the wakees.
    team.fork("waker", &[], body).map_err(cannot)?;
    gate.wait_for(parameters.wakees + 1, &mut team)?;
    let start = gate.open()?;
    let exits = team.finish()?;
    let elapsed = start.elapsed();
    let cpu = Usage::sum(exits.iter().map(|exit| &exit.usage)).cpu();
    let mut outcome = Outcome::of("wake-fanout", Parameter::of_fields(parameters));
    let mut add = |quantity, unit, clock, values| outcome.add(quantity, unit, clock, Better::Lower, values);
    let wakees = parameters.wakees;
    add("time", Unit::Seconds, Clock::Monotonic, vec![elapsed.as_secs_f64()])?;
    add("round", Unit::Nanoseconds, Clock::Monotonic, board.samples(wakees..wakees + 1))?;
    add("latency", Unit::Nanoseconds, Clock::Monotonic, board.samples(0..wakees))?;
    add("cpu_time", Unit::Seconds, Clock::ProcessCpu, vec![cpu.as_secs_f64()])?;
    outcome.counters = counting.read();
    outcome.notes = watched.map_or(Ok(Vec::new()), |watched| watched.finish("a wake-up"))?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wakee_is_woken_in_every_round() {
        let parameters = Parameters { wakees: 5, rounds: 60, work: 10, watch: None };
        let outcome = run(&parameters).expect("it runs");
        let summary = |name: &str| *outcome.measurement(name).expect("measured").summary();
        assert_eq!((summary("wake-fanout/round").count, summary("wake-fanout/latency").count), (60, 300));
        assert!(summary("wake-fanout/latency").min > 0.0, "a wake-up that took no time was not measured");
        let rounds = summary("wake-fanout/round").mean * 60.0 / 1e9;
        assert!(rounds <= summary("wake-fanout/time").mean, "the rounds are part of the time");
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Parameters| run(&parameters).expect_err("refused").to_string();
        let good = Parameters::default();
        assert!(refused(Parameters { wakees: 0, ..good.clone() }).contains("wakees: 0"));
        assert!(refused(Parameters { rounds: usize::MAX, ..good }).contains("in all"));
    }
}
