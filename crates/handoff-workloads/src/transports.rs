//! Transports: ways for a payload to get from one process to another, side by side.
//!
//! Each message is summed up by whoever receives it, byte by byte, as in the published comparison of
//! direct, synchronous and oneway calls that this repeats. For each transport there is the time until
//! the sender goes on, the time until the receiver is done (what a oneway call really takes), messages
//! per second in a stream, and the CPU time that both processes spend on a message of it.
//!
//! An [`OpenTransport`] is one transport that is ready to be measured. `handoff-lab` takes turns between several; other
//! people's come from `handoff-peers`.

mod advice;
mod generated;
mod open;
pub(crate) mod receiver;
pub(crate) mod sender;
mod workload;

pub use advice::{Advice, advise};
pub use open::{OpenTransports, open};
pub use receiver::sum;
pub use workload::{Parameters, run};

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::measurement::{Better, Clock, Measurement, Parameter, Summary, Unit};
use crate::rpc::{self, EngineKind};

/// Largest payload, in bytes.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// Bytes of the published comparison.
pub const USUAL_PAYLOAD: usize = 1000;

/// Most samples of a turn.
pub const MAX_SAMPLES: u32 = 1 << 14;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// A function call in one process.
    Direct,
    /// A message queue whose reader looks again and again.
    FmqSpinning,
    /// A message queue whose reader sleeps.
    FmqBlocking,
    /// A buffer that both have, and an event flag.
    SharedMemory,
    /// A call that waits for its reply.
    Call(EngineKind),
    /// A call that nobody waits for.
    Oneway(EngineKind),
    /// A call of the interface that the interface compiler made, with a parcelable.
    GeneratedCall(EngineKind),
    /// A oneway call of that interface.
    GeneratedOneway(EngineKind),
}

impl Transport {
    /// Every one that uses no engine but to be set up.
    pub const WITHOUT_ENGINE: [Transport; 4] =
        [Transport::Direct, Transport::FmqSpinning, Transport::FmqBlocking, Transport::SharedMemory];

    /// The calls of an engine.
    pub fn of_engine(engine: EngineKind) -> [Transport; 4] {
        [
            Transport::Call(engine),
            Transport::GeneratedCall(engine),
            Transport::Oneway(engine),
            Transport::GeneratedOneway(engine),
        ]
    }

    /// The engine, if it is a call of one.
    pub fn engine(self) -> Option<EngineKind> {
        match self {
            Transport::Call(engine)
            | Transport::Oneway(engine)
            | Transport::GeneratedCall(engine)
            | Transport::GeneratedOneway(engine) => Some(engine),
            _ => None,
        }
    }

    /// Largest message that it carries, in bytes.
    pub fn largest(self) -> usize {
        match self {
            // Half of a ring of 2 MiB, less room for objects.
            Transport::Oneway(EngineKind::Shm) | Transport::GeneratedOneway(EngineKind::Shm) => 960 << 10,
            // The driver keeps half of a process's buffer of about 1 MiB for calls that wait.
            Transport::Oneway(EngineKind::Binder) | Transport::GeneratedOneway(EngineKind::Binder) => {
                480 << 10
            }
            Transport::Call(EngineKind::Binder) | Transport::GeneratedCall(EngineKind::Binder) => 960 << 10,
            _ => MAX_PAYLOAD,
        }
    }

    /// True if the sender has the receiver's answer when it goes on.
    pub fn answers(self) -> bool {
        matches!(self, Transport::Direct | Transport::Call(_) | Transport::GeneratedCall(_))
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Transport::Direct => f.pad("direct call"),
            Transport::FmqSpinning => f.pad("FMQ, spinning"),
            Transport::FmqBlocking => f.pad("FMQ, blocking"),
            Transport::SharedMemory => f.pad("shared memory + event"),
            Transport::Call(engine) => f.pad(&format!("{engine} call")),
            Transport::Oneway(engine) => f.pad(&format!("{engine} oneway")),
            Transport::GeneratedCall(engine) => f.pad(&format!("{engine} call, generated")),
            Transport::GeneratedOneway(engine) => f.pad(&format!("{engine} oneway, generated")),
        }
    }
}

/// What one turn of a transport gave.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// Nanoseconds until the sender went on, for each message sent alone.
    pub caller: Vec<u64>,
    /// Nanoseconds until the receiver had summed the message up; empty if only the answer is seen.
    pub completion: Vec<u64>,
    pub messages: u32,
    /// Nanoseconds from the first message of the stream to the end of the last.
    pub elapsed: u64,
    /// CPU nanoseconds of both sides meanwhile.
    pub cpu: u64,
}

/// A transport that is ready to be measured.
pub trait OpenTransport {
    fn name(&self) -> String;

    /// The version of what it is made of, where that is not this program.
    fn version(&self) -> Option<String> {
        None
    }

    /// What the name stands for, if it is one of ours.
    fn kind(&self) -> Option<Transport> {
        None
    }

    /// True if the sender has the receiver's answer when it goes on.
    fn answers(&self) -> bool {
        true
    }

    /// Largest message that it carries, in bytes; larger ones are left out.
    fn largest(&self) -> usize {
        MAX_PAYLOAD
    }

    /// Sends `samples` messages alone and then a stream of `stream` messages.
    fn turn(&mut self, payload: usize, samples: u32, stream: u32) -> Result<Batch>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurveyPlan {
    /// Sizes of a message, in bytes.
    pub payloads: Vec<usize>,
    /// Turns that each transport gets with each payload.
    pub rounds: u32,
    /// Messages sent alone in a turn.
    pub samples: u32,
    /// Messages of a turn's stream.
    pub stream: u32,
}

impl SurveyPlan {
    /// Checks everything that can be known before it is measured.
    pub fn check(&self) -> Result<()> {
        if self.payloads.is_empty() {
            return Err(Error::parameter("payload", "none is given"));
        }
        if let Some(bad) = self.payloads.iter().find(|size| **size == 0 || **size > MAX_PAYLOAD) {
            return Err(Error::parameter("payload", format!("{bad} bytes; 1 to {MAX_PAYLOAD} are sent")));
        }
        if self.samples == 0 || self.samples > MAX_SAMPLES || self.stream == 0 || self.stream > 2000 {
            let problem = format!("{} alone and {} in a stream", self.samples, self.stream);
            let problem = format!("{problem}; 1 to {MAX_SAMPLES} and 1 to 2000 are sent");
            return Err(Error::parameter("messages", problem));
        }
        if self.rounds == 0 {
            return Err(Error::parameter("rounds", "0; at least 1 is measured"));
        }
        Ok(())
    }

    /// Has a transport its turn with one payload. A stream of large messages is shorter.
    pub fn turn(&self, transport: &mut dyn OpenTransport, payload: usize) -> Result<Batch> {
        let stream = self.stream.min(64 + (64 << 20) / (payload as u32 + 1));
        transport
            .turn(payload, self.samples, stream)
            .map_err(|error| Error::io(transport.name(), std::io::Error::other(error.to_string())))
    }
}

/// What one transport showed with one payload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub name: String,
    /// Its version, if it is not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Which of ours it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// True if the sender has the receiver's answer when it goes on.
    pub answers: bool,
    pub payload: usize,
    /// Nanoseconds until the sender goes on.
    pub caller: Measurement,
    /// Nanoseconds until the receiver is done. For a peer, whose answer alone is seen, the same as
    /// `caller`.
    pub completion: Measurement,
    /// Messages per second in a stream, one value a turn.
    pub rate: Measurement,
    /// CPU nanoseconds of both sides for a message of the stream, one value a turn.
    pub cpu: Measurement,
}

impl Row {
    /// Sums up what the turns of a transport gave with one payload.
    pub fn of(transport: &dyn OpenTransport, payload: usize, turns: &[Batch]) -> Result<Row> {
        let mut map = BTreeMap::from([
            ("transport".to_owned(), Parameter::from(transport.name())),
            ("payload".to_owned(), payload.into()),
        ]);
        let driver = transport.kind().and_then(Transport::engine).and_then(rpc::driver_name);
        map.extend(driver.map(|driver| ("driver".to_owned(), driver.into())));
        let times = |name: &str, pick: fn(&Batch) -> &[u64]| {
            let values = turns.iter().flat_map(pick).map(|&ns| ns as f64).collect();
            measurement(name, Unit::Nanoseconds, Clock::Monotonic, Better::Lower, values, &map)
        };
        let each = |value: fn(&Batch) -> f64| turns.iter().map(value).collect::<Vec<f64>>();
        let caller = times("caller", |turn| &turn.caller)?;
        let completion = match turns.iter().all(|turn| turn.completion.is_empty()) {
            true => times("completion", |turn| &turn.caller)?,
            false => times("completion", |turn| &turn.completion)?,
        };
        let rate = each(|turn| f64::from(turn.messages) * 1e9 / turn.elapsed.max(1) as f64);
        let cpu = each(|turn| turn.cpu as f64 / f64::from(turn.messages.max(1)));
        Ok(Row {
            name: transport.name(),
            version: transport.version(),
            transport: transport.kind(),
            answers: transport.answers(),
            payload,
            caller,
            completion,
            rate: measurement("rate", Unit::PerSecond, Clock::Monotonic, Better::Higher, rate, &map)?,
            cpu: measurement("cpu", Unit::Nanoseconds, Clock::ProcessCpu, Better::Lower, cpu, &map)?,
        })
    }

    /// Nanoseconds until all is done, as the sender can know it: its own return from a call, the
    /// receiver's end for what is only sent.
    pub fn done(&self) -> &Summary {
        if self.answers { self.caller.summary() } else { self.completion.summary() }
    }
}

fn measurement(
    name: &str,
    unit: Unit,
    clock: Clock,
    better: Better,
    values: Vec<f64>,
    map: &BTreeMap<String, Parameter>,
) -> Result<Measurement> {
    let name = format!("transports/{name}");
    Ok(Measurement::from_samples(name, unit, clock, better, values)?.with_parameters(map))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(payloads: &[usize]) -> SurveyPlan {
        SurveyPlan { payloads: payloads.to_vec(), rounds: 2, samples: 10, stream: 20 }
    }

    #[test]
    fn impossible_plans_are_refused() {
        let refused = |plan: SurveyPlan| plan.check().expect_err("refused").to_string();
        assert!(refused(plan(&[])).contains("none"));
        assert!(refused(plan(&[0])).contains("1 to 1048576"));
        assert!(refused(plan(&[MAX_PAYLOAD + 1])).contains("1 to 1048576"));
        assert!(refused(SurveyPlan { stream: 4000, ..plan(&[8]) }).contains("2000"));
        assert!(refused(SurveyPlan { rounds: 0, ..plan(&[8]) }).contains("rounds"));
    }
}
