//! Floors: what the bare primitives of this machine take, to compare a call with.
//!
//! Each is a round trip between two processes that do nothing else: hand a payload over, get it
//! back. [`Session`] keeps the two processes and runs one batch at a time, so that a runner can
//! interleave floors with what it compares them to; [`run`] is the short form.

mod fds;
mod memory;
mod session;

pub(crate) use fds::{receive, send};
pub use session::{MAX_SAMPLES, Session};

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, in_range};
use crate::measurement::{Better, Clock, Measurement, Parameter, Unit};
use crate::outcome::Outcome;
use crate::place::Placement;
use crate::sys::perf::CounterSet;

/// Largest payload of a floor, in bytes.
pub const MAX_PAYLOAD: usize = 16 << 20;

/// What carries the payload and the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Primitive {
    /// Shared memory; each side wakes the other and sleeps by `futex`.
    Futex,
    /// Shared memory; each side spins on a word until it changes.
    CacheLine,
    /// Shared memory; each side calls `sched_yield` until the word changes.
    SchedYield,
    Pipe,
    /// A pair of connected Unix stream sockets.
    UnixStream,
    /// A pair of connected Unix seqpacket sockets.
    UnixSeqpacket,
    /// No peer: one copy of the payload between two private buffers, to know what copying costs.
    Memcpy,
}

impl Primitive {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Primitive; 7] = [
        Primitive::Futex,
        Primitive::CacheLine,
        Primitive::SchedYield,
        Primitive::Pipe,
        Primitive::UnixStream,
        Primitive::UnixSeqpacket,
        Primitive::Memcpy,
    ];

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Primitive::Futex => "futex",
            Primitive::CacheLine => "cache-line",
            Primitive::SchedYield => "sched-yield",
            Primitive::Pipe => "pipe",
            Primitive::UnixStream => "unix-stream",
            Primitive::UnixSeqpacket => "unix-seqpacket",
            Primitive::Memcpy => "memcpy",
        }
    }

    /// Round trips that one sample should hold: 1 where a trip takes much longer than reading the clock.
    pub const fn usual_trips(self) -> u32 {
        match self {
            Primitive::CacheLine | Primitive::Memcpy => 100,
            Primitive::SchedYield => 10,
            _ => 1,
        }
    }

    /// Why the primitive says nothing at this placement, if so.
    pub fn unsuited(self, placement: Placement) -> Option<&'static str> {
        match (self, placement) {
            (Primitive::CacheLine, Placement::SameCpu(_)) => {
                Some("two processes that spin on one CPU wait for the scheduler's slice, not for each other")
            }
            (Primitive::Memcpy, Placement::TwoCpus(..)) => Some("a copy has no second process"),
            _ => None,
        }
    }
}

impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Primitive {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Primitive::ALL.into_iter().find(|primitive| primitive.name() == text).ok_or_else(|| {
            let names = Primitive::ALL.map(Primitive::name).join(", ");
            Error::parameter("floor", format!("{text:?} is none of {names}"))
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Parameters {
    pub primitive: Primitive,
    /// Bytes that travel each way. Over shared memory the client copies them in, and the server
    /// copies them from the request to the reply: one copy each way, as a call has it.
    pub payload: usize,
    /// Where the two processes run.
    pub placement: Placement,
}

impl Parameters {
    /// Checks everything that can be known before a process is started.
    pub fn check(&self) -> Result<()> {
        let limit = match self.primitive {
            Primitive::UnixSeqpacket => 128 << 10,
            _ => MAX_PAYLOAD,
        };
        if self.payload == 0 || self.payload > limit {
            let problem = format!("{} bytes; {} carries 1 to {limit}", self.payload, self.primitive);
            return Err(Error::parameter("payload", problem));
        }
        if let Some(reason) = self.primitive.unsuited(self.placement) {
            return Err(Error::parameter(
                "placement",
                format!("{} with {}: {reason}", self.primitive, self.placement),
            ));
        }
        if self.primitive == Primitive::CacheLine {
            Placement::two_cpus()?;
        }
        self.placement.check()
    }

    /// Sums up what a [`Session`] gave in samples of `trips` round trips.
    pub fn measurement(&self, trips: u32, values: Vec<f64>) -> Result<Measurement> {
        let name = format!("floor/{}", self.primitive);
        let measured =
            Measurement::from_samples(name, Unit::Nanoseconds, Clock::Monotonic, Better::Lower, values)?;
        Ok(measured.with_parameters(&Parameter::of_fields(self)).with_parameter("trips_per_sample", trips))
    }
}

/// Runs `samples` samples of `trips` round trips each, and gives nanoseconds a round trip.
pub fn run(parameters: &Parameters, samples: u32, trips: u32) -> Result<Measurement> {
    let values = Session::start(parameters)?.batch(samples, trips)?;
    parameters.measurement(trips, values)
}

/// A floor as a workload of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    pub primitive: Primitive,
    /// Bytes that travel each way.
    pub payload: usize,
    /// Where the two processes run.
    pub placement: Placement,
    pub samples: u32,
    /// Round trips of a sample; 0 for [`Primitive::usual_trips`].
    pub trips: u32,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            primitive: Primitive::Futex,
            payload: 8,
            placement: Placement::Unpinned,
            samples: 10_000,
            trips: 0,
        }
    }
}

impl Sampling {
    fn parameters(&self) -> Parameters {
        let Sampling { primitive, payload, placement, .. } = *self;
        Parameters { primitive, payload, placement }
    }

    /// Checks everything that can be known before a process is started.
    pub fn check(&self) -> Result<()> {
        in_range("samples", self.samples, 1..=MAX_SAMPLES)?;
        self.parameters().check()
    }

    pub fn run(&self) -> Result<Outcome> {
        self.check()?;
        let trips = if self.trips == 0 { self.primitive.usual_trips() } else { self.trips };
        let counting = CounterSet::of_this_thread();
        let measured = run(&self.parameters(), self.samples, trips)?;
        let mut outcome = Outcome::of("floor", measured.parameters().clone());
        outcome.push(measured);
        outcome.counters = counting.read();
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_counts_its_switches() {
        let plan = Sampling { samples: 200, primitive: Primitive::Pipe, ..Sampling::default() };
        let outcome = plan.run().expect("it runs");
        assert_eq!(outcome.measurements[0].summary().count, 200);
        if let Some(switches) = outcome.counter("context-switches") {
            assert!(switches >= 200, "{switches}");
        }
        assert!(Sampling { samples: 0, ..plan }.run().is_err());
    }
}
