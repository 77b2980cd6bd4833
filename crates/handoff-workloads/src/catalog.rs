//! All workloads by name, for experiment files and for programs that start one of them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::Result;
use crate::outcome::Outcome;
use crate::{
    add_ints, floor, hackbench, latency, objects, rpc, sched_pipe, several, spin, tcp_rr, tcp_stream,
    transports, wake_fanout,
};

/// The list of workloads: what each one's parameters are, what it measures, and how it is run.
macro_rules! workloads {
    ($($(#[$doc:meta])* $name:literal $kind:ident($parameters:ty), $measures:expr, $run:expr;)+) => {
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
        #[serde(tag = "workload", content = "parameters")]
        pub enum Workload {
            $($(#[$doc])* #[serde(rename = $name)] $kind($parameters),)+
        }

        impl Workload {
            /// The names by which [`Workload::parse`] knows them.
            pub const NAMES: &[&str] = &[$($name),+];

            /// The name, as in [`Workload::NAMES`].
            pub fn name(&self) -> &'static str {
                match self { $(Self::$kind(_) => $name,)+ }
            }

            /// The names of the measurements of a run, without `NAME/` in front.
            pub fn measures(&self) -> Vec<&'static str> {
                match self { $(Self::$kind(parameters) => $measures(parameters),)+ }
            }

            /// Reads the parameters of the workload called `name` from any format, so that an error tells
            /// where in the file it is.
            ///
            /// # Errors
            ///
            /// If there is no such workload, or a parameter is unknown or of a wrong type.
            pub fn parse<'de, D: Deserializer<'de>>(name: &str, parameters: D) -> Result<Self, D::Error> {
                match name {
                    $($name => Deserialize::deserialize(parameters).map(Self::$kind),)+
                    _ => {
                        let names = Self::NAMES.join(", ");
                        Err(D::Error::custom(format!("there is no workload {name:?}; there are {names}")))
                    }
                }
            }

            /// Checks everything that can be known before anything is started.
            ///
            /// # Errors
            ///
            /// If a parameter is out of its range.
            pub fn check(&self) -> Result<()> {
                match self { $(Self::$kind(parameters) => parameters.check(),)+ }
            }

            /// Runs it once, on this machine.
            pub fn run(&self) -> Result<Outcome> {
                match self { $(Self::$kind(parameters) => $run(parameters),)+ }
            }
        }
    };
}

workloads! {
    /// Small calls with a pause before each: [`add_ints`].
    "add-ints" AddInts(add_ints::Parameters), |_| vec!["time"],
        |parameters| add_ints::run(parameters).map(|report| report.outcome().clone());
    /// Whole calls of one payload: [`rpc`].
    "call" Call(rpc::Parameters), |_| vec!["round_trip"], rpc::Parameters::run;
    /// A bare primitive: [`floor`].
    "floor" Floor(floor::Sampling), |plan: &floor::Sampling| vec![plan.primitive.name()], floor::Sampling::run;
    /// Groups of tasks that all send to all: [`hackbench`].
    "hackbench" Hackbench(hackbench::Parameters), |_| vec!["time", "messages", "cpu_time", "system_time"], hackbench::run;
    /// Normal and urgent callers, their deadlines and their priorities: [`latency`].
    "latency" Latency(latency::Parameters), |_| vec!["other", "fifo", "in_sync"],
        |parameters| latency::run(parameters)?.outcome();
    /// Many objects of one process in another: [`objects`].
    "objects" Objects(objects::Parameters),
        |_| vec!["take", "take_first", "take_last", "call", "link", "deaths", "kernel_memory"], objects::run;
    /// A token through two pipes: [`sched_pipe`].
    "sched-pipe" SchedPipe(sched_pipe::Parameters), |_| vec!["time", "operations", "round_trip"], sched_pipe::run;
    /// Several of these in one run, each of which measures what it measures alone: [`several`].
    "several" Several(several::Parameters), |_| Vec::new(), several::run;
    /// Tasks that only compute: [`spin`].
    "spin" Spin(spin::Parameters), |_| vec!["time", "item", "cpu_time", "cpu_utilisation"], spin::run;
    /// Request and response over TCP: [`tcp_rr`].
    "tcp-rr" TcpRr(tcp_rr::Parameters), |_| vec!["round_trip", "transactions", "cpu_time"], tcp_rr::run;
    /// Small messages over TCP: [`tcp_stream`].
    "tcp-stream" TcpStream(tcp_stream::Parameters),
        |_| vec!["throughput", "sender_cpu_per_mb", "receiver_cpu_per_mb", "sender_cpu"], tcp_stream::run;
    /// One way for a payload to reach another process: [`transports`].
    "transports" Transports(transports::Parameters), |_| vec!["caller", "completion", "rate", "cpu"], transports::run;
    /// One waker, many wakees: [`wake_fanout`].
    "wake-fanout" WakeFanout(wake_fanout::Parameters), |_| vec!["time", "round", "latency", "cpu_time"], wake_fanout::run;
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
        for &name in Workload::NAMES {
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
            ("add-ints", r#"{"iterations": 5, "delay": 0}"#),
            ("call", r#"{"samples": 5}"#),
            ("floor", r#"{"samples": 5, "primitive": "pipe"}"#),
            ("hackbench", r#"{"loops": 5, "groups": 1}"#),
            ("objects", r#"{"objects": 20, "calls": 5}"#),
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
            let said = workload.measures();
            assert_eq!(measured, said.iter().map(|base| format!("{name}/{base}")).collect::<Vec<_>>());
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
