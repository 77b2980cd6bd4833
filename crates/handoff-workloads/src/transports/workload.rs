//! One transport as a workload of its own, for experiments that set two of them against each other.

use serde::{Deserialize, Serialize};

use super::{Row, SurveyPlan, Transport, USUAL_PAYLOAD, open};
use crate::error::{Error, Result};
use crate::measurement::{Measurement, Parameter};
use crate::outcome::Outcome;
use crate::place::Placement;
use crate::rpc::EngineKind;

/// What is sent, how, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    pub transport: Transport,
    pub payload: usize,
    /// Where sender and receiver run.
    pub placement: Placement,
    /// Turns; each has messages alone and then a stream.
    pub turns: u32,
    /// Messages of a turn that are sent alone.
    pub samples: u32,
    /// Messages of a turn's stream.
    pub stream: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            transport: Transport::Call(EngineKind::Shm),
            payload: USUAL_PAYLOAD,
            placement: Placement::Unpinned,
            turns: 10,
            samples: 200,
            stream: 1000,
        }
    }
}

impl Parameters {
    fn plan(&self) -> SurveyPlan {
        let Parameters { payload, turns, samples, stream, .. } = *self;
        SurveyPlan { payloads: vec![payload], rounds: turns, samples, stream }
    }

    fn engine(&self) -> EngineKind {
        // Any sets the others up.
        self.transport.engine().unwrap_or(EngineKind::Shm)
    }

    /// Checks everything that can be known before a process is started.
    pub fn check(&self) -> Result<()> {
        if self.engine() == EngineKind::Local {
            let problem = "the local engine has one process; `direct` is the call within one";
            return Err(Error::parameter("transport", problem));
        }
        if self.payload > self.transport.largest() {
            let problem = format!(
                "{} bytes; {} carries up to {}",
                self.payload,
                self.transport,
                self.transport.largest()
            );
            return Err(Error::parameter("payload", problem));
        }
        self.plan().check()?;
        self.placement.check()
    }
}

/// Runs it once. Measures `transports/caller`, `transports/completion`, `transports/rate` and
/// `transports/cpu`.
pub fn run(parameters: &Parameters) -> Result<Outcome> {
    parameters.check()?;
    let mut opened = open(parameters.placement, &[parameters.engine()])?;
    if let Some((engine, why)) = opened.missing.first() {
        return Err(Error::parameter("transport", format!("{engine}: {why}")));
    }
    let transport = opened
        .transports
        .iter_mut()
        .find(|transport| transport.kind() == Some(parameters.transport))
        .ok_or_else(|| Error::parameter("transport", format!("{} is not here", parameters.transport)))?;
    let plan = parameters.plan();
    let turns = (0..plan.rounds).map(|_| plan.turn(transport.as_mut(), parameters.payload));
    let turns = turns.collect::<Result<Vec<_>>>()?;
    let row = Row::of(transport.as_ref(), parameters.payload, &turns)?;
    let mut map = row.caller.parameters().clone();
    map.insert("placement".to_owned(), Parameter::from(parameters.placement.to_string()));
    let measurements = [row.caller, row.completion, row.rate, row.cpu];
    Ok(Outcome {
        workload: "transports".to_owned(),
        measurements: measurements.map(|measurement: Measurement| measurement.with_parameters(&map)).into(),
        parameters: map,
        counters: Vec::new(),
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(transport: Transport) -> Parameters {
        Parameters { transport, turns: 2, samples: 10, stream: 20, ..Parameters::default() }
    }

    #[test]
    fn all_calls_measure_the_same_quantities() {
        crate::rpc::play_here();
        for transport in Transport::of_engine(EngineKind::Shm) {
            let outcome = run(&of(transport)).expect("it runs");
            for (name, values) in [("caller", 20), ("completion", 20), ("rate", 2), ("cpu", 2)] {
                let measured = outcome.measurement(&format!("transports/{name}")).expect(name);
                assert_eq!(measured.summary().count, values, "{transport} {name}");
            }
            assert_eq!(outcome.parameters["transport"], Parameter::from(transport.to_string()));
        }
    }

    #[test]
    fn a_transport_is_named_as_in_a_file() {
        let read = |text: &str| serde_json::from_str::<Parameters>(text);
        let oneway = read(r#"{"transport": {"oneway": "shm"}}"#).expect("a transport");
        assert_eq!(oneway.transport, Transport::Oneway(EngineKind::Shm));
        let generated = read(r#"{"transport": {"generated-call": "binder"}}"#).expect("a transport");
        assert_eq!(generated.transport, Transport::GeneratedCall(EngineKind::Binder));
        assert_eq!(read(r#"{"transport": "direct"}"#).expect("one").transport, Transport::Direct);
        assert!(read(r#"{"transport": {"twoway": "shm"}}"#).is_err());
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Parameters| parameters.check().expect_err("refused").to_string();
        assert!(refused(of(Transport::Call(EngineKind::Local))).contains("one process"));
        let large = Parameters { payload: 1 << 20, ..of(Transport::Oneway(EngineKind::Shm)) };
        assert!(refused(large).contains("carries up to"));
        assert!(refused(Parameters { turns: 0, ..of(Transport::Direct) }).contains("rounds"));
    }
}
