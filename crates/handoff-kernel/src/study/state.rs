//! What a study has done so far, in a file, so that it goes on where it stopped.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::StudyError;
use crate::document::Block;

const FILE: &str = "study.json";

/// A step of a study; each needs those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Fetch or copy the tree, and apply what both kernels get.
    Source,
    /// Understand the feature's patches.
    Analyse,
    /// Build the kernel without the feature.
    BuildWithout,
    /// Bring the feature's patches to the tree.
    Port,
    /// Build the kernel with the feature.
    BuildWith,
    /// Boot both, and prove that the feature is executed in one of them and has an effect.
    Prove,
    /// Compare both under the load.
    Measure,
}

impl Step {
    /// All steps in their order.
    pub const ALL: [Self; 7] = [
        Self::Source,
        Self::Analyse,
        Self::BuildWithout,
        Self::Port,
        Self::BuildWith,
        Self::Prove,
        Self::Measure,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Analyse => "analyse",
            Self::BuildWithout => "build-without",
            Self::Port => "port",
            Self::BuildWith => "build-with",
            Self::Prove => "prove",
            Self::Measure => "measure",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|step| step.name() == text)
            .ok_or_else(|| format!("{text:?} is no step: one of {names}"))
    }
}

/// What a step gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// What it depended on; another one, and the step is done again.
    pub(super) key: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// What came of it, in one line.
    pub summary: String,
    /// Whether it is as it should be: a proof that fails ends no study, but is no success.
    pub good: bool,
    /// Whether it is over; one that is not goes on in the next run.
    #[serde(default = "yes")]
    pub finished: bool,
    /// Its part of the document.
    pub blocks: Vec<Block>,
}

fn yes() -> bool {
    true
}

/// The steps that are done.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) done: BTreeMap<Step, Done>,
    #[serde(skip)]
    file: PathBuf,
}

impl State {
    /// Reads the state of a work folder; an unreadable one is an empty one.
    pub(super) fn open(work: &Path) -> Self {
        let file = work.join(FILE);
        let state = std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        Self { file, ..state.unwrap_or_default() }
    }

    /// Writes a step down, before the next one begins.
    pub(super) fn keep(&mut self, step: Step, done: Done) -> Result<(), StudyError> {
        self.done.insert(step, done);
        self.save()
    }

    /// Forgets a step and those after it.
    pub(super) fn forget(&mut self, from: Step) -> Result<(), StudyError> {
        self.done.retain(|step, _| *step < from);
        self.save()
    }

    fn save(&self) -> Result<(), StudyError> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let write = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer(&mut file, self)?;
            file.flush()?;
            file.persist(&self.file).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(StudyError::io("write", &self.file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_kept_and_forgotten_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let done = |key: &str| Done {
            key: key.to_owned(),
            seconds: 1.0,
            summary: String::new(),
            good: true,
            finished: true,
            blocks: vec![Block::Text("x".to_owned())],
        };
        let mut state = State::open(folder.path());
        for step in Step::ALL {
            state.keep(step, done("k")).expect("written");
        }
        assert_eq!(State::open(folder.path()).done.len(), Step::ALL.len());
        state.forget(Step::Port).expect("written");
        let left: Vec<Step> = State::open(folder.path()).done.into_keys().collect();
        assert_eq!(left, [Step::Source, Step::Analyse, Step::BuildWithout]);
        std::fs::write(folder.path().join(FILE), "damaged").expect("written");
        assert!(State::open(folder.path()).done.is_empty());
    }

    #[test]
    fn steps_have_names() {
        for step in Step::ALL {
            assert_eq!(step.name().parse::<Step>(), Ok(step));
        }
        assert!("none".parse::<Step>().is_err());
    }
}
