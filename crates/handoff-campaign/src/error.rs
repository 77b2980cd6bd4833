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
    #[error("cannot {what} {}", path.display())]
    Io { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{} is damaged", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error("there is no campaign in {}: `handoff campaign submit` makes it", .0.display())]
    Nothing(PathBuf),
    #[error(
        "{} has a campaign {name:?} of another file: give the new one another name, or another folder with --output",
        folder.display()
    )]
    Changed { name: String, folder: PathBuf },
    #[error("the campaign has no task {number}: they are 1 to {most}")]
    NoTask { number: usize, most: usize },
    #[error(
        "round {round} arrived twice, with different results: something else writes to the device's folder"
    )]
    Contradiction { round: usize },
    #[error("another run has {} and does not end", .0.display())]
    Busy(PathBuf),
    #[error(transparent)]
    File(#[from] handoff_lab::experiment::file::FileError),
    /// The device's end: what an earlier run left.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The device's end: a run of an arm.
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Report(#[from] handoff_lab::report::ReportError),
    #[error(transparent)]
    Noise(#[from] handoff_lab::simulate::RecordingError),
    #[error("{program} failed: {said}")]
    Slurm {
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
