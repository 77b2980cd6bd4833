//! The standard suite of `handoff run`: floors and calls of this machine in one interleaved run.
//!
//! A suite is a list of [`Entry`]s in groups. Within a group everything does the same job (carry 8 bytes
//! to another process on the same CPU and back, say), and one entry is the floor: the cheapest thing that
//! could do it. [`floors`] lists what the bare machine offers, [`calls`] whole calls on each engine, and
//! [`Suite::run`] runs all of it in turns. [`sweep`] and [`tests_of_calls`] come after it.

pub mod calls;
pub mod floors;
mod result;
pub mod sweep;
pub mod tests_of_calls;

pub use calls::Calls;
pub use result::{GroupResult, SkippedEntry, SubjectResult, SuiteResult};

use crate::clock::timestamp;
use crate::doctor::Machine;
use crate::interleave::{Interleave, InterleaveError, InterleaveOutcome, Progress, Subject, SubjectError};
use crate::stats::describe::median;
use handoff_workloads::Placement;
use handoff_workloads::measurement::{BadMeasurement, Better, Clock, Measurement, Unit};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What an entry is, which decides how it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The cheapest thing that could do the group's job.
    Floor,
    /// Another primitive of the kernel.
    Primitive,
    /// A whole call through proxy and stub.
    Call,
}

/// What a group of entries has in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// A stable name, such as `one-cpu`.
    pub id: String,
    /// For people, such as `Both on one CPU, 8 B`.
    pub title: String,
    /// What it tells, in a sentence or two.
    pub explains: String,
}

/// Takes one batch and gives nanoseconds a round trip, one value a sample.
pub type Batch = Box<dyn FnMut() -> Result<Vec<f64>, SubjectError>>;

/// Starts whatever an entry needs, such as its processes.
pub type Start = Box<dyn FnOnce() -> Result<Batch, SubjectError>>;

pub struct Entry {
    /// The id of its group.
    pub group: String,
    /// Its name inside of the group.
    pub name: String,
    pub kind: Kind,
    /// Starts it. An error here leaves the entry out and says why; it does not end the run.
    pub start: Start,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("group", &self.group).field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
pub struct Suite {
    /// The calls that sweep, latency test and add-ints follow for. They need a program that plays the peers
    /// of `handoff_workloads`.
    pub tests: Calls,
    /// The groups, in the order in which they are shown.
    pub groups: Vec<Group>,
    pub entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
pub struct Options<'a> {
    pub rounds: usize,
    /// How long one batch of one entry takes about.
    pub batch: Duration,
    /// Decides the order inside of each round.
    pub seed: u64,
    /// The command that a reader repeats it with.
    pub command: String,
    /// When this becomes true, the run ends early with the whole rounds it has.
    pub stop: Option<&'a AtomicBool>,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    #[error(transparent)]
    Interleave(#[from] InterleaveError),
    #[error("nothing of the suite can run on this machine: {0}")]
    Nothing(String),
    #[error("stopped before the first round was complete")]
    Stopped,
    /// The values of an entry are no measurement.
    #[error(transparent)]
    Measurement(#[from] BadMeasurement),
}

/// Keeps all samples of an entry to three digits, as few bytes.
type Pool = RefCell<Histogram<u64>>;

/// No round trip takes longer: an hour, in nanoseconds.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// An entry that was started.
struct StartedEntry {
    group: String,
    name: String,
    kind: Kind,
    batch: RefCell<Batch>,
    pool: Pool,
}

impl StartedEntry {
    /// The name in the interleaved run, where each must be unique.
    fn key(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }

    fn round(&self) -> Result<f64, SubjectError> {
        let samples = (self.batch.borrow_mut())()?;
        let mut pool = self.pool.borrow_mut();
        for sample in &samples {
            pool.saturating_record(sample.round().max(1.0) as u64);
        }
        Ok(median(&samples))
    }
}

impl Suite {
    /// Runs everything that this machine can.
    ///
    /// # Errors
    ///
    /// If nothing can be started, an entry fails after it was started, or the run was stopped before one
    /// round was complete.
    pub fn run(
        self,
        options: &Options<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<SuiteResult, SuiteError> {
        let started = timestamp();
        let clock = Instant::now();
        let before = Machine::here().diagnose();
        let (running, mut skipped) = start(self.entries);
        if running.is_empty() {
            let why: Vec<String> =
                skipped.iter().map(|entry| format!("{}: {}", entry.name, entry.reason)).collect();
            return Err(SuiteError::Nothing(why.join("; ")));
        }
        let interleave =
            Interleave { rounds: options.rounds, warm_up: 1, seed: options.seed, stop: options.stop };
        let outcome = interleave.run(subjects(&running), progress)?;
        if outcome.subjects.iter().all(|series| series.values.is_empty()) {
            return Err(SuiteError::Stopped);
        }
        let groups = self
            .groups
            .into_iter()
            .map(|group| group_result(group, &running, &outcome))
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .filter(|group| !group.subjects.is_empty())
            .collect();
        // The processes of the entries are done.
        drop(running);
        let mut tests = Tests::default();
        let stopped = || options.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        if !self.tests.engines.is_empty() && !stopped() {
            tests = run_tests(&self.tests, options, &interleave, &mut skipped, progress)?;
        }
        Ok(SuiteResult {
            schema: SuiteResult::SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started,
            seconds: clock.elapsed().as_secs_f64(),
            command: options.command.clone(),
            seed: options.seed,
            rounds: outcome.flags.len(),
            interrupted: outcome.interrupted || stopped(),
            sweeps: tests.sweeps,
            latencies: tests.latencies,
            add_ints: tests.add_ints,
            before,
            after: Machine::here().diagnose(),
            round_flags: outcome.flags,
            groups,
            skipped,
        })
    }
}

#[derive(Default)]
struct Tests {
    sweeps: Vec<sweep::Sweep>,
    latencies: Vec<tests_of_calls::Latency>,
    add_ints: Vec<tests_of_calls::AddInts>,
}

fn run_tests(
    calls: &Calls,
    options: &Options<'_>,
    interleave: &Interleave<'_>,
    skipped: &mut Vec<SkippedEntry>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Tests, InterleaveError> {
    // A sweep shows a shape, and needs fewer rounds for it than a ratio does.
    let rounds = options.rounds.div_ceil(4).max(3);
    let few = Interleave { rounds, ..interleave.clone() };
    let (sweeps, without) = sweep::run(calls, &few, options.batch / 6, progress)?;
    skipped.extend(without);
    progress(Progress { subject: "latency and add-ints", done: 0, of: 1 });
    let stopped = || options.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
    let iterations = u32::try_from(options.rounds * 30).unwrap_or(1000).min(1000);
    let (latencies, add_ints, without) = tests_of_calls::run(calls, iterations, &stopped);
    skipped.extend(without);
    Ok(Tests { sweeps, latencies, add_ints })
}

/// Chooses the CPUs of an entry when it is started, or says why the machine has none for it.
type ChoosePlacement = fn() -> handoff_workloads::Result<Placement>;

fn unpinned() -> handoff_workloads::Result<Placement> {
    Ok(Placement::Unpinned)
}

/// How many samples of how many trips fill the time: a sample takes at least a microsecond, so that
/// reading the clock does not show in it.
fn batch_size(trial: &[f64], batch: Duration) -> (u32, u32) {
    let trip = median(trial).max(1.0);
    let trips = (1000.0 / trip).ceil().clamp(1.0, 1024.0);
    let samples = (batch.as_nanos() as f64 / (trip * trips)).clamp(5.0, 4096.0);
    (samples as u32, trips as u32)
}

fn start(entries: Vec<Entry>) -> (Vec<StartedEntry>, Vec<SkippedEntry>) {
    let (mut running, mut skipped) = (Vec::new(), Vec::new());
    for entry in entries {
        let pool = Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are in order");
        match (entry.start)() {
            Ok(batch) => running.push(StartedEntry {
                group: entry.group,
                name: entry.name,
                kind: entry.kind,
                batch: RefCell::new(batch),
                pool: RefCell::new(pool),
            }),
            Err(error) => {
                skipped.push(SkippedEntry {
                    name: format!("{}/{}", entry.group, entry.name),
                    reason: error.to_string(),
                });
            }
        }
    }
    (running, skipped)
}

fn floor_of<'a>(running: &'a [StartedEntry], group: &str) -> Option<&'a StartedEntry> {
    running.iter().find(|entry| entry.group == group && entry.kind == Kind::Floor)
}

fn subjects(running: &[StartedEntry]) -> Vec<Subject<'_>> {
    running
        .iter()
        .map(|entry| {
            let subject = Subject::new(entry.key(), || entry.round());
            match floor_of(running, &entry.group) {
                Some(floor) if entry.kind != Kind::Floor => subject.against(floor.key()),
                _ => subject,
            }
        })
        .collect()
}

fn group_result(
    group: Group,
    running: &[StartedEntry],
    outcome: &InterleaveOutcome,
) -> Result<GroupResult, BadMeasurement> {
    let rows = outcome.rows(0.95);
    let mut subjects = Vec::new();
    for entry in running.iter().filter(|entry| entry.group == group.id) {
        let key = entry.key();
        let Some(series) = outcome.series(&key).filter(|series| !series.values.is_empty()) else { continue };
        let samples = Measurement::from_histogram(
            key.as_str(),
            Unit::Nanoseconds,
            Clock::Monotonic,
            Better::Lower,
            &entry.pool.borrow(),
        )?;
        subjects.push(SubjectResult {
            name: entry.name.clone(),
            kind: entry.kind,
            median_ns: median(&series.values),
            rounds_ns: series.values.clone(),
            samples,
            row: rows.iter().find(|row| row.subject == key).cloned(),
        });
    }
    Ok(GroupResult { floor: floor_of(running, &group.id).map(|floor| floor.name.clone()), group, subjects })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, kind: Kind, start: Start) -> Entry {
        Entry { group: "g".into(), name: name.into(), kind, start }
    }

    fn group() -> Group {
        Group { id: "g".into(), title: "G".into(), explains: "e".into() }
    }

    fn constant(value: f64) -> Start {
        Box::new(move || Ok(Box::new(move || Ok(vec![value; 5]))))
    }

    fn options() -> Options<'static> {
        Options {
            rounds: 8,
            batch: Duration::from_millis(1),
            seed: 1,
            command: "handoff run".into(),
            stop: None,
        }
    }

    #[test]
    fn what_cannot_start_is_said_and_the_rest_runs() {
        let suite = Suite {
            tests: Calls::default(),
            groups: vec![group()],
            entries: vec![
                entry("floor", Kind::Floor, constant(100.0)),
                entry("call", Kind::Call, constant(150.0)),
                entry("other", Kind::Primitive, Box::new(|| Err("no such driver".into()))),
            ],
        };
        let result = suite.run(&options(), &mut |_| {}).expect("runs");
        assert_eq!(
            result.skipped,
            [SkippedEntry { name: "g/other".into(), reason: "no such driver".into() }]
        );
        let group = &result.groups[0];
        assert_eq!(group.floor.as_deref(), Some("floor"));
        let row = group.subjects[1].row.as_ref().expect("compared");
        assert!((row.ratio - 1.5).abs() < 1e-9 && row.rounds == 8);
        assert_eq!(group.subjects[1].samples.summary().count, 9 * 5, "warm-up included");
        let text = serde_json::to_string(&result).expect("serialises");
        assert_eq!(serde_json::from_str::<SuiteResult>(&text).expect("reads back"), result);
    }

    #[test]
    fn what_does_less_than_the_floor_is_neither_the_best_nor_a_sign_that_the_floor_was_held_up() {
        let run = |entries: Vec<Entry>| {
            let suite = Suite { tests: Calls::default(), groups: vec![group()], entries };
            suite.run(&options(), &mut |_| {}).expect("runs").groups.remove(0)
        };
        let told = |entries: Vec<Entry>| run(entries).held_up_floor();
        let floor = || entry("floor", Kind::Floor, constant(100.0));
        let less = || entry(floors::COPY_ALONE, Kind::Primitive, constant(10.0));
        let direct = || entry("direct call, no hand-off", Kind::Primitive, constant(10.0));
        assert_eq!(
            told(vec![floor(), less(), direct(), entry("other", Kind::Primitive, constant(97.0))]),
            None
        );
        let held_up = told(vec![floor(), less(), entry("futex", Kind::Primitive, constant(50.0))]);
        assert!(held_up.is_some_and(|text| text.starts_with("Faster than the floor here: futex. ")));
        let group = run(vec![floor(), less(), direct(), entry("other", Kind::Primitive, constant(120.0))]);
        let sentence = crate::report::suite::sentence(&group);
        assert!(sentence.contains("The best of the others, other, takes 120 ns"), "{sentence}");
    }

    #[test]
    fn nothing_to_run_is_an_error_with_the_reasons() {
        let suite = Suite {
            tests: Calls::default(),
            groups: vec![group()],
            entries: vec![entry("a", Kind::Floor, Box::new(|| Err("no CPU".into())))],
        };
        let error = suite.run(&options(), &mut |_| {}).expect_err("nothing runs");
        assert!(error.to_string().contains("g/a: no CPU"), "{error}");
    }

    #[test]
    fn a_stop_before_the_first_round_is_an_error() {
        let stop = AtomicBool::new(true);
        let suite = Suite {
            tests: Calls::default(),
            groups: vec![group()],
            entries: vec![entry("a", Kind::Floor, constant(1.0))],
        };
        let options = Options { stop: Some(&stop), ..options() };
        assert!(matches!(suite.run(&options, &mut |_| {}), Err(SuiteError::Stopped)));
    }
}
