//! What the benches of this folder share: the command line that `cargo xtask bench` calls, a batch of
//! measurements as one subject of an interleaved run, and a service behind an engine of its own.

#[cfg(feature = "peers")]
pub mod spaced;
pub mod tables;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, EngineKind, Runtime, Service};
use handoff_lab::interleave::{Interleave, InterleaveOutcome, Subject, SubjectError};
use handoff_lab::stats::describe::median;
use handoff_workloads::{Placement, rpc};

/// How long one batch of one subject takes, about.
const BATCH: Duration = Duration::from_millis(60);
/// Rounds of figures that are kept.
pub const ROUNDS: usize = 40;
/// Rounds of a look: the fewest that have a 95% interval.
pub const LOOK: usize = 6;
/// Rounds before those, whose values are thrown away.
pub const WARM_UP: usize = 2;

/// Subjects that are measured in turns, and in how many rounds where the figures are kept.
pub type Series = (usize, Vec<Subject<'static>>);

/// Runs a bench: every round takes one batch of every subject and floor, in an order of its own. With
/// `--rows FILE` the rows are kept there, else a few rounds are measured and printed.
pub fn run(subjects: impl FnOnce() -> Result<Vec<Subject<'static>>>) -> ExitCode {
    run_each(|| Ok(vec![(ROUNDS, subjects()?)]))
}

/// [`run`], one series after the other.
pub fn run_each(series: impl FnOnce() -> Result<Vec<Series>>) -> ExitCode {
    exit(series().and_then(|series| measure(rows_file(), series)))
}

/// What `main` gives: an error is told on standard error.
pub fn exit(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(file: Option<PathBuf>, series: Vec<Series>) -> Result<()> {
    let mut rows = Vec::new();
    for (rounds, subjects) in series {
        let rounds = if file.is_some() { rounds } else { rounds.min(LOOK) };
        rows.extend(in_turns(rounds, subjects)?.rows(0.95));
    }
    keep(file, &rows)
}

/// Measures subjects in turns, and says how far it is and whether the machine was idle.
///
/// # Errors
/// If a subject fails.
pub fn in_turns(rounds: usize, subjects: Vec<Subject<'static>>) -> Result<InterleaveOutcome> {
    let interleave = Interleave { rounds, warm_up: WARM_UP, ..Interleave::default() };
    let outcome = interleave.run(subjects, &mut |progress| {
        if progress.done % 20 == 0 {
            eprintln!("{} of {} batches", progress.done, progress.of);
        }
    })?;
    let disturbed = outcome.flags.iter().filter(|flags| !flags.is_empty()).count();
    if disturbed > 0 {
        eprintln!(
            "warning: something else ran in {disturbed} of {rounds} rounds: measure on an idle machine"
        );
    }
    Ok(outcome)
}

/// While so many threads run that never sleep.
pub fn beside_hogs<T>(count: usize, measure: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let measured = measure();
        over.store(true, Ordering::Relaxed);
        measured
    })
}

/// Writes what a bench gives to the file that `--rows` names, or prints it.
///
/// # Errors
/// If the file cannot be written.
pub fn keep(file: Option<PathBuf>, given: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(given)?;
    match file {
        Some(file) => std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display())),
        None => {
            println!("{text}");
            Ok(())
        }
    }
}

/// The file that `--rows` names.
pub fn rows_file() -> Option<PathBuf> {
    let mut arguments = std::env::args_os().skip(1);
    arguments.find(|argument| argument == "--rows").and_then(|_| arguments.next()).map(PathBuf::from)
}

/// A subject whose value is the median of a batch, which takes about 60 ms. A sample holds so many
/// trips that reading the clock does not show in it. `batch` is given the number of samples and of
/// trips in each, and gives nanoseconds a trip.
///
/// # Errors
/// If the trial batch fails.
pub fn subject(
    name: &str,
    mut batch: impl FnMut(u32, u32) -> Result<Vec<f64>, SubjectError> + 'static,
) -> Result<Subject<'static>> {
    let trial = batch(100, 8).map_err(|error| anyhow::anyhow!("{name} failed: {error}"))?;
    let trip = median(&trial).max(1.0);
    let trips = (1000.0 / trip).ceil().clamp(1.0, 1024.0);
    let samples = (BATCH.as_nanos() as f64 / (trip * trips)).clamp(20.0, 4096.0);
    Ok(Subject::new(name, move || Ok(median(&batch(samples as u32, trips as u32)?))))
}

/// A call on an engine, and its reply of as many bytes, between two processes or inside one.
///
/// # Errors
/// If its processes do not start, or the trial batch fails.
pub fn call(
    name: &str,
    engine: EngineKind,
    payload: usize,
    placement: Placement,
) -> Result<Subject<'static>> {
    let parameters = rpc::Parameters { engine, payload, placement, ..rpc::Parameters::default() };
    let mut session = rpc::Session::start(&parameters).with_context(|| format!("cannot start {name}"))?;
    subject(name, move |samples, trips| Ok(session.batch(samples, trips)?))
}

/// A subject that was measured before, such as in guests, which took the turns: a value for each round.
pub fn recorded(name: &str, values: Vec<f64>) -> Subject<'static> {
    let mut values = values.into_iter();
    Subject::new(name, move || values.next().ok_or_else(|| SubjectError::from("no more rounds")))
}

/// Nanoseconds a trip of each sample.
///
/// # Errors
/// Those of a trip.
pub fn timed(samples: u32, trips: u32, mut trip: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let mut times = Vec::with_capacity(samples as usize);
    for _ in 0..samples {
        let begin = Instant::now();
        for _ in 0..trips {
            trip()?;
        }
        times.push(begin.elapsed().as_nanos() as f64 / f64::from(trips));
    }
    Ok(times)
}

/// A service behind one engine of this process and its proxy at another: what lies between is the same
/// as between two processes.
#[derive(Debug)]
pub struct Pair {
    // Not public: a closure that calls would take the proxy alone, and leave the engines to their end.
    proxy: Binder,
    _engines: [Runtime; 2],
}

impl Pair {
    /// Serves `service` to itself.
    ///
    /// # Errors
    /// If an engine does not start.
    pub fn start(service: impl Service + 'static) -> Result<Self> {
        let callee = Runtime::private()?;
        callee.services().add("subject", Binder::new(service), ServiceOptions::default())?;
        let socket = callee.socket().context("a private manager has a socket")?;
        let caller = Runtime::builder().socket(socket).connect()?;
        let proxy = caller.services().get("subject")?;
        Ok(Self { proxy, _engines: [callee, caller] })
    }

    pub fn proxy(&self) -> &Binder {
        &self.proxy
    }
}
