//! All workloads by name, for experiment files and for programs that start one of them.

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::Result;
use crate::outcome::Outcome;
use crate::{
    add_ints, floor, hackbench, latency, rpc, sched_pipe, spin, tcp_rr, tcp_stream, transports, wake_fanout,
};

/// One workload with its parameters.
///
/// Serialised as `{"workload": "hackbench", "parameters": {"groups": 10}}`; parameters that are left
/// out have their defaults, and unknown ones are errors.
///
/// ```
/// use handoff_workloads::Workload;
///
/// let workload: Workload = serde_json::from_str(
///     r#"{"workload": "hackbench", "parameters": {"groups": 1, "loops": 5, "writers": 2, "readers": 3}}"#,
/// )?;
/// let outcome = workload.run()?;
/// assert!(outcome.measurement("hackbench/time").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "workload", content = "parameters", rename_all = "kebab-case")]
pub enum Workload {
    /// Small calls with a pause before each: [`add_ints`].
    AddInts(add_ints::Parameters),
    /// Whole calls of one payload: [`rpc`].
    Call(rpc::Plan),
    /// A bare primitive: [`floor`].
    Floor(floor::Plan),
    /// Groups of tasks that all send to all: [`hackbench`].
    Hackbench(hackbench::Parameters),
    /// Normal and urgent callers, their deadlines and their priorities: [`latency`].
    Latency(latency::Parameters),
    /// A token through two pipes: [`sched_pipe`].
    SchedPipe(sched_pipe::Parameters),
    /// Tasks that only compute: [`spin`].
    Spin(spin::Parameters),
    /// Request and response over TCP: [`tcp_rr`].
    TcpRr(tcp_rr::Parameters),
    /// Small messages over TCP: [`tcp_stream`].
    TcpStream(tcp_stream::Parameters),
    /// One way for a payload to reach another process: [`transports`].
    Transports(transports::Parameters),
    /// One waker, many wakees: [`wake_fanout`].
    WakeFanout(wake_fanout::Parameters),
}

impl Workload {
    /// The names by which [`Workload::parse`] knows them.
    pub const NAMES: [&str; 11] = [
        "add-ints",
        "call",
        "floor",
        "hackbench",
        "latency",
        "sched-pipe",
        "spin",
        "tcp-rr",
        "tcp-stream",
        "transports",
        "wake-fanout",
    ];

    /// The names of the measurements of a run, without `NAME/` in front; `None` where they depend on the parameters.
    pub fn measures(&self) -> Option<&'static [&'static str]> {
        Some(match self {
            Workload::Hackbench(_) => &["time", "messages", "cpu_time", "system_time"],
            Workload::Latency(_) => &["other", "fifo", "in_sync"],
            Workload::SchedPipe(_) => &["time", "operations", "round_trip"],
            Workload::Spin(_) => &["time", "item", "cpu_time", "cpu_utilisation"],
            Workload::TcpRr(_) => &["round_trip", "transactions", "cpu_time"],
            Workload::TcpStream(_) => {
                &["throughput", "sender_cpu_per_mb", "receiver_cpu_per_mb", "sender_cpu"]
            }
            Workload::Transports(_) => &["caller", "completion", "rate", "cpu"],
            Workload::WakeFanout(_) => &["time", "round", "latency", "cpu_time"],
            Workload::AddInts(_) | Workload::Call(_) | Workload::Floor(_) => return None,
        })
    }

    /// Reads the parameters of the workload called `name` from any format, so that an error tells
    /// where in the file it is.
    pub fn parse<'de, D: Deserializer<'de>>(name: &str, parameters: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        Ok(match name {
            "add-ints" => Workload::AddInts(Deserialize::deserialize(parameters)?),
            "call" => Workload::Call(Deserialize::deserialize(parameters)?),
            "floor" => Workload::Floor(Deserialize::deserialize(parameters)?),
            "hackbench" => Workload::Hackbench(Deserialize::deserialize(parameters)?),
            "latency" => Workload::Latency(Deserialize::deserialize(parameters)?),
            "sched-pipe" => Workload::SchedPipe(Deserialize::deserialize(parameters)?),
            "spin" => Workload::Spin(Deserialize::deserialize(parameters)?),
            "tcp-rr" => Workload::TcpRr(Deserialize::deserialize(parameters)?),
            "tcp-stream" => Workload::TcpStream(Deserialize::deserialize(parameters)?),
            "transports" => Workload::Transports(Deserialize::deserialize(parameters)?),
            "wake-fanout" => Workload::WakeFanout(Deserialize::deserialize(parameters)?),
            _ => {
                let names = Self::NAMES.join(", ");
                return Err(D::Error::custom(format!("there is no workload {name:?}; there are {names}")));
            }
        })
    }

    /// The name, as in [`Workload::NAMES`].
    pub fn name(&self) -> &'static str {
        match self {
            Workload::AddInts(_) => "add-ints",
            Workload::Call(_) => "call",
            Workload::Floor(_) => "floor",
            Workload::Hackbench(_) => "hackbench",
            Workload::Latency(_) => "latency",
            Workload::SchedPipe(_) => "sched-pipe",
            Workload::Spin(_) => "spin",
            Workload::TcpRr(_) => "tcp-rr",
            Workload::TcpStream(_) => "tcp-stream",
            Workload::Transports(_) => "transports",
            Workload::WakeFanout(_) => "wake-fanout",
        }
    }

    /// Checks everything that can be known before anything is started.
    pub fn check(&self) -> Result<()> {
        match self {
            Workload::AddInts(parameters) => parameters.check(),
            Workload::Call(plan) => plan.check(),
            Workload::Floor(plan) => plan.check(),
            Workload::Hackbench(parameters) => parameters.check(),
            Workload::Latency(parameters) => parameters.check(),
            Workload::SchedPipe(parameters) => parameters.check(),
            Workload::Spin(parameters) => parameters.check(),
            Workload::TcpRr(parameters) => parameters.check(),
            Workload::TcpStream(parameters) => parameters.check(),
            Workload::Transports(parameters) => parameters.check(),
            Workload::WakeFanout(parameters) => parameters.check(),
        }
    }

    /// Runs it once, on this machine.
    pub fn run(&self) -> Result<Outcome> {
        match self {
            Workload::AddInts(parameters) => Ok(add_ints::run(parameters)?.outcome().clone()),
            Workload::Call(plan) => plan.run(),
            Workload::Floor(plan) => plan.run(),
            Workload::Hackbench(parameters) => hackbench::run(parameters),
            Workload::Latency(parameters) => latency::run(parameters)?.outcome(),
            Workload::SchedPipe(parameters) => sched_pipe::run(parameters),
            Workload::Spin(parameters) => spin::run(parameters),
            Workload::TcpRr(parameters) => tcp_rr::run(parameters),
            Workload::TcpStream(parameters) => tcp_stream::run(parameters),
            Workload::Transports(parameters) => transports::run(parameters),
            Workload::WakeFanout(parameters) => wake_fanout::run(parameters),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default_of(name: &str) -> Workload {
        let empty: serde_json::Value = serde_json::from_str("{}").expect("JSON");
        Workload::parse(name, empty).unwrap_or_else(|error| panic!("{name} has no defaults: {error}"))
    }

    #[test]
    fn every_name_leads_to_a_workload_with_good_defaults() {
        for name in Workload::NAMES {
            let workload = default_of(name);
            assert_eq!(workload.name(), name);
            workload.check().expect("the defaults are possible");
            let written = serde_json::to_string(&workload).expect("serialises");
            assert!(written.starts_with(&format!(r#"{{"workload":"{name}""#)), "{written}");
            assert_eq!(serde_json::from_str::<Workload>(&written).expect("reads back"), workload);
        }
    }

    #[test]
    fn runs_measure_what_is_said_of_them() {
        crate::rpc::play_here();
        for (name, parameters) in [
            ("hackbench", r#"{"loops": 5, "groups": 1}"#),
            ("sched-pipe", r#"{"loops": 20}"#),
            ("spin", r#"{"items": 3, "steps": 100}"#),
            ("tcp-rr", r#"{"transactions": 20}"#),
            ("tcp-stream", r#"{"seconds": 0.2}"#),
            ("transports", r#"{"turns": 1, "samples": 5, "stream": 5}"#),
            ("wake-fanout", r#"{"wakees": 2, "rounds": 5}"#),
        ] {
            let value: serde_json::Value = serde_json::from_str(parameters).expect("JSON");
            let workload = Workload::parse(name, value).unwrap_or_else(|error| panic!("{name}: {error}"));
            let outcome = workload.run().unwrap_or_else(|error| panic!("{name}: {error}"));
            let measured: Vec<&str> = outcome.measurements.iter().map(|one| one.name()).collect();
            let said = workload.measures().expect("it is known").iter();
            assert_eq!(measured, said.map(|base| format!("{name}/{base}")).collect::<Vec<_>>());
        }
    }

    #[test]
    fn calls_run_by_name() {
        crate::rpc::play_here();
        for (name, parameters, measured) in [
            ("call", r#"{"samples": 20, "payload": 100}"#, "call/round_trip"),
            ("add-ints", r#"{"iterations": 20, "delay": 0}"#, "add-ints/time"),
        ] {
            let value: serde_json::Value = serde_json::from_str(parameters).expect("JSON");
            let outcome = Workload::parse(name, value).expect("known").run().expect("it runs");
            assert_eq!(outcome.measurement(measured).expect("measured").summary().count, 20);
        }
    }

    #[test]
    fn what_is_unknown_is_an_error() {
        let parse = |name, json: &str| {
            let value: serde_json::Value = serde_json::from_str(json).expect("JSON");
            Workload::parse(name, value).expect_err("refused").to_string()
        };
        assert!(parse("hackbnch", "{}").contains("there are add-ints, call"));
        assert!(parse("spin", r#"{"step": 1}"#).contains("unknown field `step`"));
        assert!(parse("tcp-stream", r#"{"link": {"path": "wire"}}"#).contains("loopback"));
        assert!(parse("floor", r#"{"placement": "nowhere"}"#).contains("unpinned"));
    }
}
