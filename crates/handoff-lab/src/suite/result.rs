//! What `handoff run` found, as it is kept in JSON.

use super::sweep::Sweep;
use super::tests_of_calls::{AddInts, Latency};
use super::{Group, Kind, calls, floors};
use crate::doctor::Diagnosis;
use crate::interleave::Row;
use handoff_workloads::measurement::Measurement;
use handoff_workloads::rpc::EngineKind;
use serde::{Deserialize, Serialize};

/// Everything that one run of the suite found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteResult {
    /// The version of this form: [`SuiteResult::SCHEMA`].
    pub schema: u32,
    pub version: String,
    /// When it began, in UTC, as RFC 3339 has it.
    pub started: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The command that repeats it.
    pub command: String,
    /// The seed of the order of runs.
    pub seed: u64,
    pub rounds: usize,
    /// Whether it was stopped early.
    pub interrupted: bool,
    /// The machine before the first run.
    pub before: Diagnosis,
    /// The machine after the last run.
    pub after: Diagnosis,
    /// What happened to the machine in each round, in words; empty for a quiet one.
    pub round_flags: Vec<Vec<String>>,
    pub groups: Vec<GroupResult>,
    /// How calls grow with their payload, by engine.
    #[serde(default)]
    pub sweeps: Vec<Sweep>,
    /// The latency test, by engine.
    #[serde(default)]
    pub latencies: Vec<Latency>,
    #[serde(default)]
    pub add_ints: Vec<AddInts>,
    /// What could not run here.
    pub skipped: Vec<SkippedEntry>,
}

impl SuiteResult {
    /// The present version of the form.
    pub const SCHEMA: u32 = 1;

    /// What could not run, by its reason: one reason often stops several.
    pub fn skipped_by_reason(&self) -> Vec<(&str, Vec<&str>)> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for entry in &self.skipped {
            match reasons.iter_mut().find(|(reason, _)| *reason == entry.reason) {
                Some((_, names)) => names.push(&entry.name),
                None => reasons.push((&entry.reason, vec![&entry.name])),
            }
        }
        reasons
    }

    /// The rounds in which something happened to the machine.
    pub fn disturbed_rounds(&self) -> usize {
        self.round_flags.iter().filter(|flags| !flags.is_empty()).count()
    }
}

/// Subjects that do the same job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupResult {
    /// What they have in common.
    #[serde(flatten)]
    pub group: Group,
    /// The name of the floor, if it could run.
    pub floor: Option<String>,
    /// The subjects, in the order of the suite.
    pub subjects: Vec<SubjectResult>,
}

/// What does the floor's job in less than this share of its time shows that the floor was held up.
const FLOOR_HELD_UP: f64 = 0.9;

impl GroupResult {
    /// That something was faster than the floor although it does the whole job, in words. A floor that yields or spins loses
    /// whole time slices to other programs, where one that sleeps is preferred when it wakes.
    pub fn held_up_floor(&self) -> Option<String> {
        let faster: Vec<&str> = self
            .subjects
            .iter()
            .filter(|subject| subject.does_the_job())
            .filter(|subject| subject.row.as_ref().is_some_and(|row| row.ratio < FLOOR_HELD_UP))
            .map(|subject| subject.name.as_str())
            .collect();
        (!faster.is_empty()).then(|| {
            format!(
                "Faster than the floor here: {}. Other programs probably ran while the floor yielded or spun; measure \
                 again on a quieter machine.",
                faster.join("; ")
            )
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubjectResult {
    /// Its name inside of the group.
    pub name: String,
    pub kind: Kind,
    /// The median of its rounds, in nanoseconds.
    pub median_ns: f64,
    /// The median of each round, in the order of the rounds.
    pub rounds_ns: Vec<f64>,
    /// All samples of all rounds, warm-up included.
    pub samples: Measurement,
    /// The comparison with the floor.
    pub row: Option<Row>,
}

impl SubjectResult {
    /// False for what shows a part of the job alone: a copy, or a call that hands nothing over.
    pub fn does_the_job(&self) -> bool {
        self.name != floors::COPY_ALONE && self.name != calls::name(EngineKind::Local)
    }
}

/// Something that could not run here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedEntry {
    pub name: String,
    pub reason: String,
}
