//! add-ints: the time of one small call, with a pause before each, as `binderAddInts` measures it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use handoff_placement::Tid;
use handoff_trace::diagnose::Window;
use serde::{Deserialize, Serialize};

use crate::cformat::general;
use crate::deadline::{MissedDeadline, Recorder, Slices, Watch, Wire};
use crate::error::call_failed;
use crate::error::{Error, Result, in_range};
use crate::measurement::{Better, Clock, Unit};
use crate::outcome::Outcome;
use crate::place::Placement;
use crate::rpc::play::AskWorkload;
use crate::rpc::service::{CALL_LIMIT, ProbeProxy};
use crate::rpc::{self, Context, EngineKind, Processes, ServerOptions};
use crate::sys::clock::now;

/// Most calls of one run.
pub const MAX_ITERATIONS: u32 = 4 << 20;

/// What add-ints is asked to do. The default is that of `binderAddInts`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    pub engine: EngineKind,
    /// That of the service; [`rpc::usual_context`] if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    pub iterations: u32,
    /// Pause before each call, in seconds. It is a spin, not a sleep: the CPU stays awake.
    pub delay: f64,
    /// CPU of the server; not bound if absent.
    pub server_cpu: Option<usize>,
    /// CPU of the client; not bound if absent.
    pub client_cpu: Option<usize>,
    /// A deadline for each call; what led to the first miss is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<Watch>,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            engine: EngineKind::default(),
            context: None,
            iterations: 1000,
            delay: 1e-3,
            server_cpu: None,
            client_cpu: None,
            watch: None,
        }
    }
}

impl Parameters {
    /// Checks everything that can be known before a process is started.
    pub fn check(&self) -> Result<()> {
        in_range("iterations", self.iterations, 1..=MAX_ITERATIONS)?;
        if !(self.delay >= 0.0 && self.delay <= 3600.0) {
            return Err(Error::parameter("delay", format!("{} s; 0 to an hour is possible", self.delay)));
        }
        for cpu in [self.server_cpu, self.client_cpu].into_iter().flatten() {
            Placement::SameCpu(cpu).check()?;
        }
        self.watch.as_ref().map_or(Ok(()), Watch::check)
    }

    fn to_map(&self) -> BTreeMap<String, crate::measurement::Parameter> {
        let context = self.context.unwrap_or(rpc::usual_context(self.engine));
        let mut map = rpc::engine_map(self.engine, context);
        map.extend([
            ("iterations".to_owned(), self.iterations.into()),
            ("delay".to_owned(), self.delay.into()),
            ("server_cpu".to_owned(), cpu_name(self.server_cpu).into()),
            ("client_cpu".to_owned(), cpu_name(self.client_cpu).into()),
        ]);
        map
    }
}

/// What a client is asked to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ClientRequest {
    iterations: u32,
    delay: Duration,
    server_cpu: Option<usize>,
    wire: Option<Wire>,
}

/// What it answers: nanoseconds of each call, and the first miss.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CallTimes(Vec<u64>, Option<MissedDeadline>);

/// The result, which prints as `binderAddInts` does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct AddIntsReport {
    outcome: Outcome,
    #[serde(skip)]
    parameters: Parameters,
}

impl AddIntsReport {
    /// `add-ints/time`: every call.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }
}

impl fmt::Display for AddIntsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "serverCPU:  {}", cpu_name(self.parameters.server_cpu))?;
        writeln!(f, "clientCPU:  {}", cpu_name(self.parameters.client_cpu))?;
        writeln!(f, "iterations: {}", self.parameters.iterations)?;
        writeln!(f, "iterDelay: {}", general(self.parameters.delay, 6))?;
        let summary = self.outcome.measurements[0].summary();
        let seconds = |ns: f64| general(ns / 1e9, 6);
        write!(
            f,
            "Time per iteration min: {} avg: {} max: {}",
            seconds(summary.min),
            seconds(summary.mean),
            seconds(summary.max)
        )
    }
}

fn cpu_name(cpu: Option<usize>) -> String {
    cpu.map_or_else(|| "unbound".to_owned(), |cpu| cpu.to_string())
}

pub fn run(parameters: &Parameters) -> Result<AddIntsReport> {
    parameters.check()?;
    let Parameters { engine, context, .. } = *parameters;
    let calls = rpc::Parameters { engine, context, ..rpc::Parameters::default() };
    let cpus = (parameters.client_cpu, parameters.server_cpu);
    let recorder = parameters.watch.as_ref().map(Watch::start).transpose()?;
    let mut processes = Processes::start_on(&calls, cpus, ServerOptions::default(), 1)?;
    let plan = ClientRequest {
        iterations: parameters.iterations,
        delay: Duration::from_secs_f64(parameters.delay),
        server_cpu: parameters.server_cpu,
        wire: recorder.as_ref().map(Recorder::wire),
    };
    let limit = CALL_LIMIT + plan.delay * parameters.iterations;
    let CallTimes(samples, missed) = processes.clients[0].ask(&AskWorkload::AddInts(plan), limit)?;
    let notes = recorder.map_or(Ok(Vec::new()), |recorder| recorder.conclude(missed))?;
    let samples = samples.into_iter().map(|ns| ns as f64).collect();
    let mut outcome = Outcome::of("add-ints", parameters.to_map());
    outcome.add("time", Unit::Nanoseconds, Clock::Monotonic, Better::Lower, samples)?;
    outcome.notes = notes;
    Ok(AddIntsReport { outcome, parameters: parameters.clone() })
}

pub(crate) fn call(probe: &ProbeProxy, plan: &ClientRequest) -> Result<CallTimes> {
    let mut times = Vec::with_capacity(plan.iterations as usize);
    let mut missed = None;
    let mut tripwire = plan.wire.as_ref().map(Wire::open).transpose()?;
    let mut slices = Slices::default();
    for iteration in 0..plan.iterations.cast_signed() {
        spin_for(plan.delay);
        let (a, b) = (iteration, iteration.wrapping_mul(3) + 1);
        let start = now();
        let (sum, cpu) = probe.add(a, b).map_err(|error| call_failed(&error))?;
        let end = now();
        times.push(end - start);
        if let Some(wire) = &tripwire {
            let window = Window { caller: Tid::current().as_raw(), callee: None, start, end };
            slices.add("add", window);
            if wire.check(start, end)? {
                missed = Some(MissedDeadline { what: "a call".to_owned(), window, slices: slices.take() });
                // The recording has ended; what follows is only measured.
                tripwire = None;
            }
        }
        if sum != a.wrapping_add(b) {
            return Err(Error::io(format!("{a} + {b} came back as {sum}"), std::io::ErrorKind::InvalidData));
        }
        match plan.server_cpu {
            Some(bound) if usize::try_from(cpu) != Ok(bound) => {
                let what = format!("the server was bound to CPU {bound} and is on CPU {cpu}");
                return Err(Error::io(what, std::io::ErrorKind::InvalidData));
            }
            _ => {}
        }
    }
    Ok(CallTimes(times, missed))
}

fn spin_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_cpus};

    #[test]
    fn every_call_is_timed_and_printed_as_binder_add_ints_does() {
        crate::rpc::play_here();
        let report =
            run(&Parameters { iterations: 50, delay: 1e-5, ..Parameters::default() }).expect("it runs");
        assert_eq!(report.outcome().measurements[0].summary().count, 50);
        let text = report.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            &lines[..4],
            ["serverCPU:  unbound", "clientCPU:  unbound", "iterations: 50", "iterDelay: 1e-05"]
        );
        assert!(
            lines[4].starts_with("Time per iteration min: 0.0") || lines[4].contains("e-"),
            "{}",
            lines[4]
        );
    }

    #[test]
    fn a_bound_server_stays_on_its_cpu() {
        require!(require_cpus(2));
        crate::rpc::play_here();
        let cpus = crate::allowed_cpus().expect("CPUs");
        for (server, client) in [(cpus[1], cpus[0]), (cpus[0], cpus[0])] {
            let parameters = Parameters {
                iterations: 200,
                delay: 0.0,
                server_cpu: Some(server),
                client_cpu: Some(client),
                ..Parameters::default()
            };
            run(&parameters).expect("the server is where it was bound");
        }
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Parameters| run(&parameters).expect_err("refused").to_string();
        let good = Parameters::default();
        assert!(refused(Parameters { iterations: 0, ..good.clone() }).contains("iterations: 0"));
        assert!(refused(Parameters { delay: -1.0, ..good.clone() }).contains("delay"));
        assert!(refused(Parameters { server_cpu: Some(4000), ..good }).contains("CPU 4000"));
    }
}
