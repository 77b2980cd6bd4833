//! What can go wrong with a campaign, beside a mistake in its file.

use std::path::PathBuf;

use handoff_lab::experiment::executor::ArmError;
use handoff_lab::experiment::journal::JournalError;
use handoff_lab::experiment::runner::RunError;
use handoff_lab::store::StoreError;

/// The result of everything in this crate that can fail.
pub type Result<T, E = CampaignError> = std::result::Result<T, E>;

/// Why a campaign could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// A file or folder of its record.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What is in its record is not what was put there.
    #[error("{} is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// There is no such campaign.
    #[error("there is no campaign in {}: `handoff campaign submit` makes it", .0.display())]
    Nothing(PathBuf),
    /// Another campaign has its name.
    #[error(
        "{} has a campaign {name:?} of another file: give the new one another name, or another folder with --output",
        folder.display()
    )]
    Changed {
        /// Its name.
        name: String,
        /// Where it is.
        folder: PathBuf,
    },
    /// A task that is not in the plan.
    #[error("the campaign has no task {number}: they are 1 to {most}")]
    NoTask {
        /// What was asked for.
        number: usize,
        /// The last one.
        most: usize,
    },
    /// A round came that contradicts one that is kept.
    #[error(
        "round {round} came once more, and is another one than before: something else writes to the device's folder"
    )]
    Contradiction {
        /// The round.
        round: usize,
    },
    /// The device's end: somebody else has its folder.
    #[error("another run has {} and does not end", .0.display())]
    Busy(PathBuf),
    /// The device's end: the experiment.
    #[error(transparent)]
    File(#[from] handoff_lab::experiment::file::FileError),
    /// The device's end: what an earlier run left.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The device's end: a run of an arm.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A page of the report.
    #[error(transparent)]
    Report(#[from] handoff_lab::report::ReportError),
    /// The recorded noise.
    #[error(transparent)]
    Noise(#[from] handoff_lab::simulate::RecordingError),
    /// Slurm.
    #[error("{program} failed: {said}")]
    Slurm {
        /// Which of its programs.
        program: &'static str,
        /// What it said, and what to do.
        said: String,
    },
    /// The device's end: the machine that the experiment asks for.
    #[error(transparent)]
    Machine(#[from] ArmError),
}

impl CampaignError {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| CampaignError::Io { what, path, source }
    }
}
