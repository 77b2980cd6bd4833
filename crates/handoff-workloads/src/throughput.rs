//! The throughput test: how long an echo of N bytes takes, from 4 bytes to 1 MiB.
//!
//! The work, the names and the output are those of `libhwbinder_benchmark` and the Google Benchmark library that it
//! is built on: each size is called as often as fills the minimum time, `real_time` is a round trip, and
//! `cpu_time` is the CPU time that both sides were scheduled.

mod filter;
pub mod google;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, in_range};
use crate::rpc::{self, Context, EngineKind, Session};
use filter::Filter;

/// Most calls of one repetition, as in Google Benchmark.
const MAX_ITERATIONS: u32 = 1_000_000_000;

/// What the throughput test is asked to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// What carries the calls; one family of benchmarks each.
    pub engines: Vec<EngineKind>,
    /// Payloads, in bytes.
    pub sizes: Vec<usize>,
    /// Only benchmarks whose name matches this regular expression; with a `-` in front, all others.
    pub filter: String,
    /// That of the services; [`rpc::usual_context`] of each engine if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// Least time that the calls of one repetition take together, in seconds.
    pub min_time: f64,
    /// Repetitions of each benchmark; with more than one, their mean, median, standard deviation and
    /// coefficient of variation are told too.
    pub repetitions: u32,
    /// The callee may be served beside its caller where that is cheaper.
    pub follow: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            engines: vec![EngineKind::default()],
            sizes: sizes(4, rpc::MAX_PAYLOAD),
            filter: String::new(),
            context: None,
            min_time: 0.5,
            repetitions: 1,
            follow: true,
        }
    }
}

/// `from` doubled until it is past `to`.
pub fn sizes(from: usize, to: usize) -> Vec<usize> {
    std::iter::successors(Some(from.max(1)), |size| size.checked_mul(2))
        .take_while(|&size| size <= to)
        .collect()
}

/// One repetition of one benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub engine: EngineKind,
    /// The world of the service, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// Bytes each way.
    pub size: usize,
    pub iterations: u32,
    /// Which repetition, from 0.
    pub repetition: u32,
    /// Nanoseconds a call.
    pub real_time: f64,
    /// Nanoseconds of CPU time a call, both sides together.
    pub cpu_time: f64,
}

impl Run {
    /// `BM_sendVec_shm/4`: the names that the original gives, where it has one.
    pub fn name(&self) -> String {
        name(self.engine, self.context, self.size)
    }

    /// Payload bytes a second, counted one way as the original counts them.
    pub fn bytes_per_second(&self) -> f64 {
        self.size as f64 / self.real_time * 1e9
    }
}

fn name(engine: EngineKind, context: Option<Context>, size: usize) -> String {
    let family = match (engine, context) {
        (EngineKind::Local, _) => "passthrough",
        (EngineKind::Shm, _) => "shm",
        (EngineKind::Rpc, _) => "rpc",
        (EngineKind::Binder, Some(Context::Hardware)) => "binderize",
        (EngineKind::Binder, Some(Context::Vendor)) => "vndbinder",
        (EngineKind::Binder, Some(Context::Framework) | None) => "binder",
    };
    format!("BM_sendVec_{family}/{size}")
}

/// All runs of a throughput test, in the order in which they were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputReport {
    pub parameters: Parameters,
    /// One for each engine, size and repetition.
    pub runs: Vec<Run>,
}

impl ThroughputReport {
    /// The run with the highest throughput.
    pub fn fastest(&self) -> Option<&Run> {
        self.runs.iter().max_by(|a, b| a.bytes_per_second().total_cmp(&b.bytes_per_second()))
    }
}

impl Parameters {
    /// Checks everything that can be known before a process is started.
    pub fn check(&self) -> Result<()> {
        if self.engines.is_empty() {
            return Err(Error::parameter("engine", "none; at least one is measured"));
        }
        if self.sizes.is_empty() {
            return Err(Error::parameter("max-size", "no payload is left; the smallest has 4 bytes"));
        }
        for &payload in &self.sizes {
            rpc::Parameters { payload, ..rpc::Parameters::default() }.check()?;
            if payload == 0 {
                return Err(Error::parameter("size", "0 bytes; at least 1 is sent"));
            }
        }
        if !(self.min_time > 0.0 && self.min_time <= 120.0) {
            let problem = format!("{} s; more than 0 and at most 120", self.min_time);
            return Err(Error::parameter("benchmark_min_time", problem));
        }
        in_range("benchmark_repetitions", self.repetitions, 1..=10_000)?;
        if self.selected()?.is_empty() {
            let problem = format!("no benchmark matches {:?}", self.filter);
            return Err(Error::parameter("benchmark_filter", problem));
        }
        Ok(())
    }

    /// The benchmarks that will be run, by name.
    pub fn names(&self) -> Result<Vec<String>> {
        Ok(self.selected()?.into_iter().map(|(engine, size)| name(engine, self.context, size)).collect())
    }

    fn selected(&self) -> Result<Vec<(EngineKind, usize)>> {
        let filter = Filter::new(&self.filter)?;
        let all = self.engines.iter().flat_map(|&engine| self.sizes.iter().map(move |&size| (engine, size)));
        Ok(all.filter(|&(engine, size)| filter.selects(&name(engine, self.context, size))).collect())
    }
}

/// Runs it, or as much of it as there is time for until `stop` is set. `progress` is called with each run as soon as it has
/// ended.
pub fn run_until(
    parameters: &Parameters,
    stop: &AtomicBool,
    mut progress: impl FnMut(&Run),
) -> Result<ThroughputReport> {
    parameters.check()?;
    let mut runs = Vec::new();
    let mut current: Option<(EngineKind, Session)> = None;
    'sizes: for (engine, size) in parameters.selected()? {
        let session = match &mut current {
            Some((same, session)) if *same == engine => session,
            other => {
                let Parameters { context, follow, .. } = *parameters;
                let calls = rpc::Parameters { engine, context, follow, ..rpc::Parameters::default() };
                &mut other.insert((engine, Session::start(&calls)?)).1
            }
        };
        session.set_payload(size)?;
        let least = Duration::from_secs_f64(parameters.min_time);
        let mut iterations = None;
        for repetition in 0..parameters.repetitions {
            if stop.load(Ordering::Relaxed) {
                break 'sizes;
            }
            let (count, real, cpu) = measure(session, least, iterations)?;
            iterations = Some(count);
            let each = |time: Duration| time.as_nanos() as f64 / f64::from(count);
            let (real_time, cpu_time) = (each(real), each(cpu));
            let context = parameters.context;
            let run = Run { engine, context, size, iterations: count, repetition, real_time, cpu_time };
            progress(&run);
            runs.push(run);
        }
    }
    Ok(ThroughputReport { parameters: parameters.clone(), runs })
}

/// Calls as often as fills `least`, or as often as the repetition before: how often, and how long it took.
fn measure(session: &mut Session, least: Duration, known: Option<u32>) -> Result<(u32, Duration, Duration)> {
    let mut iterations = known.unwrap_or(1);
    loop {
        let calls = session.calls(iterations)?;
        let real = Duration::from_nanos(calls.samples[0]);
        if known.is_some() || real >= least || iterations >= MAX_ITERATIONS {
            return Ok((iterations, real, calls.cpu));
        }
        iterations = next_iterations(iterations, real, least);
    }
}

/// How often to try next: 40% more than should fill the time, and at most ten times as often while too
/// little is known (the rule of Google Benchmark's `BenchmarkRunner::PredictNumItersNeeded`).
fn next_iterations(iterations: u32, took: Duration, least: Duration) -> u32 {
    let took = took.as_secs_f64().max(1e-9);
    let wanted = least.as_secs_f64();
    let factor = wanted * 1.4 / took;
    let factor = if took / wanted > 0.1 { factor } else { factor.min(10.0) };
    let next = (f64::from(iterations) * factor).max(f64::from(iterations) + 1.0);
    next.min(f64::from(MAX_ITERATIONS)).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_double() {
        assert_eq!(sizes(4, 65_536).len(), 15);
        assert_eq!(sizes(4, 20), [4, 8, 16]);
        assert_eq!(Parameters::default().sizes.last(), Some(&(1 << 20)));
    }

    #[test]
    fn iterations_grow_until_they_fill_the_time() {
        let least = Duration::from_millis(500);
        assert_eq!(next_iterations(1, Duration::from_micros(10), least), 10, "little is known: ten times");
        assert_eq!(next_iterations(1000, Duration::from_millis(100), least), 7000, "40% more than needed");
        assert_eq!(next_iterations(5, Duration::from_secs(1), least), 6, "always more");
        assert_eq!(next_iterations(MAX_ITERATIONS, Duration::ZERO, least), MAX_ITERATIONS);
    }

    #[test]
    fn each_benchmark_fills_its_time() {
        crate::rpc::play_here();
        let parameters = Parameters {
            engines: vec![EngineKind::Local, EngineKind::Shm],
            sizes: vec![4, 4096],
            min_time: 0.01,
            repetitions: 2,
            ..Parameters::default()
        };
        let mut seen = 0;
        let report = run_until(&parameters, &AtomicBool::new(false), |_| seen += 1).expect("it runs");
        assert_eq!((seen, report.runs.len()), (8, 8));
        for run in &report.runs {
            assert!(run.real_time > 0.0 && run.cpu_time > 0.0, "{run:?}");
            // One iteration would do on a machine that is held up for so long; repetitions take its number.
            let fills = run.real_time * f64::from(run.iterations) >= 0.01e9;
            assert!(fills || run.repetition > 0, "{run:?}");
        }
        let first = &report.runs[0];
        assert_eq!(first.iterations, report.runs[1].iterations, "repetitions are alike");
        assert_eq!(
            (first.name().as_str(), report.runs[4].name().as_str()),
            ("BM_sendVec_passthrough/4", "BM_sendVec_shm/4")
        );
        assert_eq!(report.fastest().expect("one").size, 4096);
    }

    #[test]
    fn a_filter_chooses_by_name() {
        let names = |filter: &str| {
            Parameters { filter: filter.into(), ..Parameters::default() }.names().expect("a filter")
        };
        assert_eq!(names("/(4|8)$"), ["BM_sendVec_shm/4", "BM_sendVec_shm/8"]);
        assert_eq!(names("shm/1024$"), ["BM_sendVec_shm/1024"]);
        assert_eq!(names("-/[0-9]{2,}$"), ["BM_sendVec_shm/4", "BM_sendVec_shm/8"]);
        let nothing = Parameters { filter: "nothing".into(), ..Parameters::default() };
        assert!(nothing.check().expect_err("refused").to_string().contains("no benchmark matches"));
    }
}
