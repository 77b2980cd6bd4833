//! sched-pipe: two processes that hand a token back and forth through two pipes.
//!
//! The same work as `perf bench sched pipe`: each operation is one round trip, with two wake-ups. It
//! is the pipe floor, run for a given number of operations and told as a rate.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::deadline::{RecordedRun, Watch};
use crate::error::{Error, Result};
use crate::floor::{self, MAX_SAMPLES, Primitive, Session};
use crate::measurement::{Better, Clock, Parameter, Unit};
use crate::outcome::Outcome;
use crate::place::Placement;
use crate::sys::perf::CounterSet;

/// What sched-pipe is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    pub loops: u32,
    /// Bytes of the token.
    pub size: usize,
    /// Where the two processes run.
    pub placement: Placement,
    /// A deadline for each sample (a round trip, or several where there are more than are kept one by
    /// one); what led to the first miss is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<Watch>,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters { loops: 100_000, size: 4, placement: Placement::Unpinned, watch: None }
    }
}

impl Parameters {
    /// Checks everything that can be known before a process is started.
    pub fn check(&self) -> Result<()> {
        if self.loops == 0 {
            return Err(Error::parameter("loops", "0; at least 1 is needed"));
        }
        self.watch.as_ref().map_or(Ok(()), Watch::check)?;
        self.floor().check()
    }

    fn floor(&self) -> floor::Parameters {
        floor::Parameters { primitive: Primitive::Pipe, payload: self.size, placement: self.placement }
    }
}

/// Runs it once. Measures `sched-pipe/time` (all operations), `sched-pipe/operations` (a second) and
/// `sched-pipe/round_trip` (samples).
pub fn run(parameters: &Parameters) -> Result<Outcome> {
    parameters.check()?;
    let loops = parameters.loops;
    let counting = CounterSet::of_this_thread();
    let watched = RecordedRun::start(parameters.watch.as_ref())?;
    let mut session = Session::start_watched(&parameters.floor(), watched.as_ref())?;
    let trips = loops.div_ceil(MAX_SAMPLES);
    let samples = loops / trips;
    let rest = loops % trips;
    let start = Instant::now();
    let mut values = session.batch(samples, trips)?;
    if rest > 0 {
        values.extend(session.batch(1, rest)?);
    }
    let seconds = start.elapsed().as_secs_f64();
    drop(session);
    let rate = f64::from(loops) / seconds;
    let mut outcome = Outcome::of("sched-pipe", Parameter::of_fields(parameters));
    let mut add =
        |quantity, unit, better, values| outcome.add(quantity, unit, Clock::Monotonic, better, values);
    add("time", Unit::Seconds, Better::Lower, vec![seconds])?;
    add("operations", Unit::PerSecond, Better::Higher, vec![rate])?;
    add("round_trip", Unit::Nanoseconds, Better::Lower, values)?;
    outcome.counters = counting.read();
    outcome.notes = watched.map_or(Ok(Vec::new()), |watched| watched.finish("a round trip"))?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_operations_are_made_and_counted() {
        let outcome = run(&Parameters { loops: 500, ..Parameters::default() }).expect("it runs");
        let trips = outcome.measurement("sched-pipe/round_trip").expect("measured").summary();
        assert_eq!(trips.count, 500);
        let time = outcome.measurement("sched-pipe/time").expect("measured").summary().mean;
        assert!(trips.mean * 500.0 <= time * 1e9, "the trips take no longer than all of it");
        if let Some(switches) = outcome.counter("context-switches") {
            assert!(switches >= 500, "each trip blocks: {switches}");
        }
    }

    #[test]
    fn more_loops_than_samples_are_grouped() {
        let loops = MAX_SAMPLES + 1;
        let parameters =
            Parameters { loops, placement: Placement::same_cpu().expect("a CPU"), size: 1, watch: None };
        let outcome = run(&parameters).expect("it runs");
        let trips = outcome.measurement("sched-pipe/round_trip").expect("measured").summary();
        assert_eq!(trips.count, u64::from(loops / 2 + 1));
        assert!(run(&Parameters { loops: 0, ..Parameters::default() }).is_err());
    }
}
