//! The whole chain: understand a feature, build a kernel without it and one with it, prove that it is
//! executed, compare both, and write one document.
//!
//! A study is a file ([`Study`]) and a work folder. Each [`Step`] is written down when it is done, with
//! what it depended on, so that a study that was stopped goes on where it stopped, and one whose file
//! has changed does again only what the change reaches. The two kernels are built in one folder, one
//! after the other, so that the second build compiles only what the feature touches.
//!
//! What compares the two is the lab's runner, for which each run of an arm is a boot (`measure.rs`). Whoever runs a
//! study may hand in another function for [`Step::Measure`], which gets both kernels as [`Boot`]s.

mod boot;
mod boots;
mod file;
mod measure;
mod state;
mod steps;
mod tree;

pub use boot::Boot;
pub use file::{Build, Feature, ProofPlan, Quiet, Source, Study, StudyGuest};
pub use measure::{check, measure};
pub use state::{Done, Step};

use std::io;
use std::path::{Path, PathBuf};

use crate::build::BuildError;
use crate::document::{self, Block};
use crate::patch::InputError;
use crate::port::PortError;
use crate::prove::ProveError;
use handoff_guest::{GuestError, Stopper};
use handoff_lab::experiment::file::FileError;

/// How to run a study.
pub struct Options<'a> {
    /// The folder for everything that comes of it; builds stay where they were made.
    pub work: PathBuf,
    /// The handoff that is copied into the guests.
    pub handoff: PathBuf,
    pub stopper: &'a Stopper,
    /// Stop after this step.
    pub until: Step,
    /// Do this step and those after it again.
    pub again: Option<Step>,
    /// Jobs of a build; as many as CPUs otherwise.
    pub jobs: Option<usize>,
    /// Is told what is being done.
    pub tell: &'a dyn Fn(&str),
}

/// What came of the measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The verdict, in one line.
    pub summary: String,
    /// Whether there is an answer to the question at all.
    pub good: bool,
    /// Whether it is over: what a busy host cut short goes on in the next run.
    pub finished: bool,
    /// Its part of the document.
    pub blocks: Vec<Block>,
}

/// Compares the kernel without the feature with the one with it.
pub type Measure<'a> = dyn FnMut(&Study, [&Boot; 2]) -> Result<Measured, StudyError> + 'a;

/// What came of a study, so far.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyOutcome {
    pub steps: Vec<(Step, Done)>,
    /// Steps that were done before and needed not be done again.
    pub kept: Vec<Step>,
    pub markdown: PathBuf,
    /// The document as one HTML file.
    pub html: PathBuf,
}

impl StudyOutcome {
    /// True if every step that was done is as it should be.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.steps.iter().all(|(_, done)| done.good)
    }
}

/// Why a study stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    #[error("{}: {reason}", file.display())]
    File { file: PathBuf, reason: String },
    /// It is not written as a study's file is.
    #[error(transparent)]
    Syntax(#[from] FileError),
    #[error("another study works in {}: wait for it, or name another folder with --work", work.display())]
    Busy { work: PathBuf },
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Patches(#[from] InputError),
    /// The patches cannot be brought to the tree.
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("{} does not fit the tree, which was left as it was; bring it there with `handoff kernel port` first:\n{report}", patches.display())]
    Conflict { patches: PathBuf, report: String },
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// A guest could not do what its agent was asked.
    #[error(transparent)]
    Target(#[from] handoff_targets::TargetError),
    #[error("the guest's setup script ended with {status}: {}", said.trim())]
    Setup { status: i32, said: String },
    #[error(transparent)]
    Prove(#[from] ProveError),
    #[error("{0}")]
    Measure(String),
}

impl StudyError {
    /// Makes a function for `map_err` that says what was tried on which file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// Runs a study, or goes on with one, and writes its document.
///
/// # Errors
///
/// [`StudyError`]; the steps that were done by then are kept, and the document of them is written.
pub fn run(
    study: &Study,
    options: &Options<'_>,
    measure: &mut Measure<'_>,
) -> Result<StudyOutcome, StudyError> {
    if cfg!(not(feature = "c-sources")) && options.until >= Step::Analyse {
        // Before a tree is fetched, which takes minutes.
        return Err(PortError::NotBuilt.into());
    }
    std::fs::create_dir_all(&options.work).map_err(StudyError::io("make", &options.work))?;
    let work = options.work.canonicalize().map_err(StudyError::io("find", &options.work))?;
    let _alone = alone(&work)?;
    let mut state = state::State::open(&work);
    if let Some(step) = options.again {
        state.forget(step)?;
    }
    let mut chain = steps::Chain::new(study, options, &work, &mut state)?;
    let result = chain.run(measure);
    let kept = chain.kept.clone();
    let stopped = result.as_ref().err().zip(chain.at);
    let steps: Vec<(Step, Done)> = state.done.iter().map(|(step, done)| (*step, done.clone())).collect();
    let blocks = blocks(study, &steps, stopped);
    let write = |name: &str, text: String| {
        let path = work.join(name);
        std::fs::write(&path, text).map_err(StudyError::io("write", &path)).map(|()| path)
    };
    let markdown = write("study.md", document::markdown(&blocks))?;
    let html = write("study.html", document::html(&study.title, &blocks))?;
    result?;
    Ok(StudyOutcome { steps, kept, markdown, html })
}

/// Makes sure that no other process works in the folder, until the file is dropped.
fn alone(work: &Path) -> Result<std::fs::File, StudyError> {
    let path = work.join("lock");
    let file = std::fs::File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(StudyError::io("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(StudyError::Busy { work: work.to_owned() }),
        Err(std::fs::TryLockError::Error(error)) => Err(StudyError::io("lock", &path)(error)),
    }
}

/// The document of the steps that are done, and of the one that stopped the study.
fn blocks(study: &Study, steps: &[(Step, Done)], stopped: Option<(&StudyError, Step)>) -> Vec<Block> {
    let mut out = vec![Block::Heading(1, document::plain(&study.title))];
    if !study.question.is_empty() {
        out.push(Block::Text(format!("**Question:** {}", document::plain(&study.question))));
    }
    let rows = Step::ALL.iter().map(|step| {
        let done = steps.iter().find(|(done, _)| done == step).map(|(_, done)| done);
        vec![
            step.to_string(),
            match (done, stopped) {
                (Some(done), _) => document::plain(&done.summary),
                (None, Some((_, at))) if at == *step => "**stopped**: see below".to_owned(),
                _ => "not done".to_owned(),
            },
            done.map_or_else(String::new, |done| format!("{:.1} s", done.seconds)),
        ]
    });
    out.push(Block::table(&["step", "what came of it", "took"], rows.collect()));
    out.extend(steps.iter().flat_map(|(_, done)| done.blocks.clone()));
    if let Some((error, step)) = stopped {
        out.push(Block::Heading(2, format!("Stopped at {step}")));
        out.push(Block::Lines(error.to_string()));
    }
    out
}
