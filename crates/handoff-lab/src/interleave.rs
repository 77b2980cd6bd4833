//! Subjects and their floors in turns: each round runs every subject once, in a shuffled order.
//!
//! Whatever the machine does meanwhile (a slower clock, a neighbour) hits subject and floor alike, so
//! that the ratio of a round means something where its times do not.
//!
//! ```
//! use handoff_lab::interleave::{Interleave, Subject};
//!
//! let mut work = vec![0_u8; 4096];
//! let mut time = |bytes: usize| {
//!     let start = std::time::Instant::now();
//!     for _ in 0..200 {
//!         work[..bytes].fill(std::hint::black_box(1));
//!     }
//!     Ok(start.elapsed().as_nanos() as f64 / 200.0)
//! };
//! let time = std::cell::RefCell::new(&mut time);
//! let outcome = Interleave { rounds: 8, ..Interleave::default() }.run(
//!     vec![
//!         Subject::new("fill 1 KiB", || time.borrow_mut()(1024)),
//!         Subject::new("fill 4 KiB", || time.borrow_mut()(4096)).against("fill 1 KiB"),
//!     ],
//!     &mut |_| {},
//! )?;
//! let row = &outcome.rows(0.95)[0];
//! assert_eq!((row.subject.as_str(), row.rounds), ("fill 4 KiB", 8));
//! # Ok::<(), handoff_lab::interleave::InterleaveError>(())
//! ```

use crate::doctor::SystemSample;
use crate::stats::describe::{Summary, median};
use crate::stats::judge::Estimate;
use crate::stats::random::Random;
use handoff_placement::Root;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a subject may fail with.
pub type SubjectError = Box<dyn Error + Send + Sync>;

/// Something that is measured: a call, or a floor.
pub struct Subject<'a> {
    name: String,
    floors: Vec<Comparison>,
    run: Box<dyn FnMut() -> Result<f64, SubjectError> + 'a>,
}

#[derive(Debug, Clone)]
struct Comparison {
    name: Option<String>,
    floor: String,
    goal: Option<f64>,
    moonshot: Option<f64>,
}

impl<'a> Subject<'a> {
    /// `run` measures once and gives one value, as a rule the median of some hundred calls in
    /// nanoseconds; it must be above 0. It is called once a round.
    pub fn new(name: impl Into<String>, run: impl FnMut() -> Result<f64, SubjectError> + 'a) -> Self {
        Self { name: name.into(), floors: Vec::new(), run: Box::new(run) }
    }

    /// Compares it with the subject of this name. May be said several times.
    #[must_use]
    pub fn against(mut self, floor: impl Into<String>) -> Self {
        self.floors.push(Comparison { name: None, floor: floor.into(), goal: None, moonshot: None });
        self
    }

    /// Names the last comparison, instead of `subject / floor`.
    #[must_use]
    pub fn called(mut self, name: impl Into<String>) -> Self {
        if let Some(last) = self.floors.last_mut() {
            last.name = Some(name.into());
        }
        self
    }

    /// The ratio that is asked for of the last comparison at most, and the one that would be remarkable.
    #[must_use]
    pub fn goal(mut self, goal: f64, moonshot: Option<f64>) -> Self {
        if let Some(last) = self.floors.last_mut() {
            last.goal = Some(goal);
            last.moonshot = moonshot;
        }
        self
    }
}

impl std::fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("name", &self.name).field("floors", &self.floors).finish()
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum InterleaveError {
    #[error("{subject} failed in round {round}")]
    Subject {
        subject: String,
        /// The round, counted from 1; 0 is the warm-up.
        round: usize,
        source: SubjectError,
    },
    #[error("{subject} measured {value} in round {round}; a value must be a number above 0")]
    Value {
        subject: String,
        /// The round, counted from 1.
        round: usize,
        value: f64,
    },
    #[error("{subject} is to be compared with {floor}, which is not measured in this run")]
    NoFloor { subject: String, floor: String },
    #[error("two subjects are called {0}")]
    Twice(String),
}

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The subject that runs next.
    pub subject: &'a str,
    /// Runs that are done, warm-up included.
    pub done: usize,
    pub of: usize,
}

/// One run of one subject.
#[derive(Debug, Clone, Copy)]
pub struct ScheduledRun {
    /// The subject's number, counted from 0.
    pub subject: usize,
    /// The round, counted from 1; 0 is the warm-up.
    pub round: usize,
    /// Runs that are done, warm-up included.
    pub done: usize,
    pub of: usize,
}

/// What the subjects gave in the rounds that are whole.
#[derive(Debug)]
pub struct Rounds<T> {
    /// Whether it was stopped early.
    pub interrupted: bool,
    /// The values of each round, in the order of the subjects.
    pub values: Vec<Vec<T>>,
    /// What happened to the machine in each round, in words; empty for a quiet one.
    pub flags: Vec<Vec<String>>,
}

/// How to run subjects in turns.
#[derive(Debug, Clone)]
pub struct Interleave<'a> {
    /// Rounds that count. At least 6, or there is no 95% interval.
    pub rounds: usize,
    /// Rounds before them that do not count.
    pub warm_up: usize,
    /// Decides the order inside of each round.
    pub seed: u64,
    /// When this becomes true, the run ends after the present subject and gives its whole rounds.
    pub stop: Option<&'a AtomicBool>,
}

impl Default for Interleave<'_> {
    fn default() -> Self {
        Self { rounds: 20, warm_up: 1, seed: 1, stop: None }
    }
}

/// Gives the order of the subjects in one round after the other, each shuffled anew.
pub(crate) fn orders<T: Clone>(seed: u64, subjects: Vec<T>) -> impl FnMut() -> Vec<T> {
    let mut random = Random::new(seed);
    move || {
        let mut order = subjects.clone();
        random.shuffle(&mut order);
        order
    }
}

impl Interleave<'_> {
    /// Measures each of so many subjects once a round, and keeps what `measure` gives of whole rounds.
    ///
    /// # Errors
    ///
    /// The first of `measure`, unless it was told to stop: what is stopped in the middle may fail.
    pub fn rounds<T, E>(
        &self,
        subjects: usize,
        mut measure: impl FnMut(ScheduledRun) -> Result<T, E>,
    ) -> Result<Rounds<T>, E> {
        let of = subjects * (self.rounds + self.warm_up);
        let mut done = 0;
        let (mut values, mut flags) = (Vec::new(), Vec::new());
        let root = Root::host();
        let stopped = || self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        let mut order = orders(self.seed, (0..subjects).collect());
        'rounds: for round in 0..self.warm_up + self.rounds {
            // Rounds that count are numbered from 1.
            let round = (round + 1).saturating_sub(self.warm_up);
            let before = SystemSample::read(&root);
            let mut measured = Vec::with_capacity(subjects);
            for subject in order() {
                if stopped() {
                    break 'rounds;
                }
                match measure(ScheduledRun { subject, round, done, of }) {
                    Ok(value) => measured.push((subject, value)),
                    Err(_) if stopped() => break 'rounds,
                    Err(error) => return Err(error),
                }
                done += 1;
            }
            if round > 0 {
                measured.sort_by_key(|(subject, _)| *subject);
                values.push(measured.into_iter().map(|(_, value)| value).collect());
                flags.push(SystemSample::read(&root).since(&before).flags());
            }
        }
        Ok(Rounds { interrupted: stopped(), values, flags })
    }

    /// Runs all subjects.
    ///
    /// # Errors
    ///
    /// If a floor is missing or a name occurs twice, which is known before anything runs, or if a
    /// subject fails.
    pub fn run(
        &self,
        mut subjects: Vec<Subject<'_>>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<InterleaveOutcome, InterleaveError> {
        check(&subjects)?;
        let measured = self.rounds(subjects.len(), |ScheduledRun { subject, round, done, of }| {
            let Subject { name, run, .. } = &mut subjects[subject];
            progress(Progress { subject: name, done, of });
            let value =
                run().map_err(|source| InterleaveError::Subject { subject: name.clone(), round, source })?;
            if value.is_finite() && value > 0.0 {
                Ok(value)
            } else {
                Err(InterleaveError::Value { subject: name.clone(), round, value })
            }
        })?;
        let series = |(index, subject): (usize, Subject<'_>)| Series {
            name: subject.name,
            values: measured.values.iter().map(|round| round[index]).collect(),
            compared: subject.floors.into(),
        };
        Ok(InterleaveOutcome {
            seed: self.seed,
            interrupted: measured.interrupted,
            subjects: subjects.into_iter().enumerate().map(series).collect(),
            flags: measured.flags,
        })
    }
}

fn check(subjects: &[Subject<'_>]) -> Result<(), InterleaveError> {
    let mut names: Vec<&str> = subjects.iter().map(|subject| subject.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(InterleaveError::Twice(pair[0].to_owned()));
    }
    for subject in subjects {
        if let Some(missing) = subject.floors.iter().find(|c| !names.contains(&c.floor.as_str())) {
            return Err(InterleaveError::NoFloor {
                subject: subject.name.clone(),
                floor: missing.floor.clone(),
            });
        }
    }
    Ok(())
}

/// The values of one subject.
#[derive(Debug, Clone)]
pub struct Series {
    pub name: String,
    /// One value a round, in the order of the rounds.
    pub values: Vec<f64>,
    compared: Box<[Comparison]>,
}

/// All values of a run.
#[derive(Debug, Clone)]
pub struct InterleaveOutcome {
    /// The seed of the order.
    pub seed: u64,
    /// Whether it was stopped early.
    pub interrupted: bool,
    /// What happened to the machine in each round, in words; empty for a quiet one.
    pub flags: Vec<Vec<String>>,
    /// The subjects, in the order given.
    pub subjects: Vec<Series>,
}

/// One comparison as benchmarks keep it: a subject against its floor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub name: String,
    pub subject: String,
    /// What it is compared with.
    pub floor: String,
    /// Median of the subject's rounds, in nanoseconds.
    pub subject_median_ns: f64,
    /// Median of the floor's rounds, in nanoseconds.
    pub floor_median_ns: f64,
    /// Hodges-Lehmann estimate of subject divided by floor, from the ratios of the rounds.
    pub ratio: f64,
    /// Its exact signed-rank interval.
    pub ci95: [f64; 2],
    pub rounds: usize,
    /// The ratio that is asked for at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<f64>,
    /// The ratio that would be remarkable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moonshot: Option<f64>,
}

impl InterleaveOutcome {
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.subjects.iter().find(|series| series.name == name)
    }

    /// The ratio of two subjects by name; `None` unless both were measured.
    pub fn ratio(&self, subject: &str, floor: &str, level: f64) -> Option<Estimate> {
        let (subject, floor) = (self.series(subject)?, self.series(floor)?);
        let logs: Vec<f64> = subject.values.iter().zip(&floor.values).map(|(s, f)| (s / f).ln()).collect();
        (!logs.is_empty()).then(|| Estimate::of(&logs, level))
    }

    /// A row for each comparison that was asked for. Fewer than six rounds give no interval at 95%;
    /// the row then has the extremes of the rounds instead.
    pub fn rows(&self, level: f64) -> Vec<Row> {
        let mut rows = Vec::new();
        for series in &self.subjects {
            for comparison in &series.compared {
                let Some(floor) = self.series(&comparison.floor) else { continue };
                let Some(estimate) = self.ratio(&series.name, &floor.name, level) else { continue };
                let interval = estimate.interval;
                let ratios: Vec<f64> =
                    series.values.iter().zip(&floor.values).map(|(subject, floor)| subject / floor).collect();
                let range = Summary::of(&ratios);
                let ends = if interval.is_bounded() {
                    [interval.low, interval.high]
                } else {
                    [range.min, range.max]
                };
                rows.push(Row {
                    name: comparison
                        .name
                        .clone()
                        .unwrap_or_else(|| format!("{} / {}", series.name, floor.name)),
                    subject: series.name.clone(),
                    floor: floor.name.clone(),
                    subject_median_ns: median(&series.values),
                    floor_median_ns: median(&floor.values),
                    ratio: estimate.ratio,
                    ci95: ends,
                    rounds: estimate.rounds,
                    goal: comparison.goal,
                    moonshot: comparison.moonshot,
                });
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn constant(value: f64) -> impl FnMut() -> Result<f64, SubjectError> {
        move || Ok(value)
    }

    #[test]
    fn a_drift_of_the_machine_does_not_move_the_ratio() {
        let clock = RefCell::new(0.0);
        let drifting = |factor: f64| {
            let clock = &clock;
            move || {
                *clock.borrow_mut() += 1.0;
                Ok(factor * (100.0 + *clock.borrow()))
            }
        };
        let outcome = Interleave { rounds: 30, ..Interleave::default() }
            .run(
                vec![
                    Subject::new("floor", drifting(1.0)),
                    Subject::new("call", drifting(1.5))
                        .against("floor")
                        .called("a call")
                        .goal(1.6, Some(1.1)),
                ],
                &mut |_| {},
            )
            .expect("runs");
        let row = &outcome.rows(0.95)[0];
        assert_eq!((row.name.as_str(), row.rounds, row.goal), ("a call", 30, Some(1.6)));
        assert!((row.ratio - 1.5).abs() < 0.02 && row.ci95[1] - row.ci95[0] < 0.03, "{row:?}");
        assert!(row.subject_median_ns > row.floor_median_ns);
    }

    #[test]
    fn every_round_has_an_order_of_its_own_and_each_subject_once() {
        let log = RefCell::new(Vec::new());
        let logged = |name: &'static str| {
            let log = &log;
            move || {
                log.borrow_mut().push(name);
                Ok(1.0)
            }
        };
        let run = Interleave { rounds: 20, warm_up: 1, seed: 3, stop: None };
        let subjects = ["a", "b", "c"].map(|name| Subject::new(name, logged(name)));
        let outcome = run.run(subjects.into(), &mut |_| {}).expect("runs");
        assert_eq!(outcome.subjects[0].values.len(), 20);
        let orders: std::collections::BTreeSet<Vec<_>> =
            log.borrow().chunks(3).map(<[&str]>::to_vec).collect();
        assert!(orders.len() >= 4, "{orders:?}");
        for order in &orders {
            let mut names = order.clone();
            names.sort_unstable();
            assert_eq!(names, ["a", "b", "c"]);
        }
    }

    #[test]
    fn mistakes_are_found_before_anything_runs() {
        let never = || -> Result<f64, SubjectError> { panic!("nothing may run") };
        let run = Interleave::default();
        let error = run.run(vec![Subject::new("a", never).against("b")], &mut |_| {}).expect_err("no b");
        assert!(matches!(error, InterleaveError::NoFloor { .. }));
        let twice = vec![Subject::new("a", never), Subject::new("a", never)];
        assert!(matches!(run.run(twice, &mut |_| {}), Err(InterleaveError::Twice(_))));
    }

    #[test]
    fn failures_and_nonsense_are_named() {
        let run = Interleave { warm_up: 0, ..Interleave::default() };
        let failing = Subject::new("a", || Err("no luck".into()));
        let error = run.run(vec![failing], &mut |_| {}).expect_err("fails");
        assert_eq!(error.to_string(), "a failed in round 1");
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = run.run(vec![Subject::new("a", constant(value))], &mut |_| {});
            assert!(matches!(error, Err(InterleaveError::Value { .. })), "{value}");
        }
    }

    #[test]
    fn a_stop_keeps_whole_rounds() {
        let stop = AtomicBool::new(false);
        let run = Interleave { rounds: 10, warm_up: 0, seed: 1, stop: Some(&stop) };
        let calls = RefCell::new(0);
        let counted = || {
            *calls.borrow_mut() += 1;
            stop.store(*calls.borrow() == 7, Ordering::Relaxed);
            Ok(1.0)
        };
        let subjects = vec![Subject::new("a", counted), Subject::new("b", constant(1.0)).against("a")];
        let outcome = run.run(subjects, &mut |_| {}).expect("runs");
        assert!(outcome.interrupted);
        let lengths: Vec<_> = outcome.subjects.iter().map(|series| series.values.len()).collect();
        assert_eq!(lengths[0], lengths[1]);
        assert!(lengths[0] < 10);
    }

    #[test]
    fn what_fails_because_it_is_stopped_is_no_fault() {
        let stop = AtomicBool::new(false);
        let run = Interleave { rounds: 10, warm_up: 1, seed: 1, stop: Some(&stop) };
        let outcome = run.rounds(3, |run| {
            stop.store(run.done == 10, Ordering::Relaxed);
            if run.done < 10 { Ok(run.subject) } else { Err("killed") }
        });
        let outcome = outcome.expect("what is whole");
        assert!(outcome.interrupted);
        // The warm-up, two rounds, and one run of the third.
        assert_eq!(outcome.values, [[0, 1, 2], [0, 1, 2]]);
        assert_eq!(outcome.flags.len(), 2);
        assert_eq!(
            Interleave::default().rounds(1, |_| Err::<(), _>("killed")).expect_err("a fault"),
            "killed"
        );
    }
}
