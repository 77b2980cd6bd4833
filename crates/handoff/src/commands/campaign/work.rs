//! `handoff campaign task`: one task, for a batch system. What runs on the device is `handoff agent`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use handoff_campaign::CampaignError;
use handoff_campaign::record::{Claim, Folder, Record, State};
use handoff_campaign::slurm::AGAIN;
use handoff_campaign::work::{Event, TaskOutcome, Worker, own_program};

use crate::interrupt;
use crate::output::{Output, Verdict};

/// How long the worker before may take to end.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Work on one task of a campaign that was submitted: what Slurm starts.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  handoff campaign task results/campaigns/rack 12 --base .      what Slurm starts on a node")]
pub(super) struct Task {
    /// The campaign's folder.
    folder: PathBuf,
    /// The task's number.
    number: usize,
    /// The folder that the paths of programs in the campaign's file are found from.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    base: PathBuf,
}

impl Task {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let folder = Folder::open(&self.folder)?;
        let plan = folder.plan()?;
        let most = plan.tasks.len();
        let task = plan.task(self.number).ok_or(CampaignError::NoTask { number: self.number, most })?;
        let record = folder.task(task);
        if matches!(record.state(), State::Done | State::Failed) {
            output.note("the task has ended already");
            return Ok(Verdict::of(record.state() == State::Done));
        }
        let Some(mut claim) = patiently(&record)? else {
            output.note("another worker has the task");
            again();
        };
        let program = own_program().context("cannot tell which program this is")?;
        let worker = Worker { plan: &plan, folder: &self.base, program: &program, stop: interrupt::flag() };
        let outcome = worker.run(task, &mut claim, &|event| match event {
            Event::Started { known } => output.note(format_args!("started, {known} rounds are there")),
            Event::Round { number } => output.note(format_args!("round {number}")),
            Event::Waits { why } => output.note(format_args!("waits: {why}")),
            Event::Ended(outcome) => output.note(format_args!("{outcome:?}")),
        })?;
        Ok(match outcome {
            TaskOutcome::Stopped => again(),
            outcome => Verdict::of(matches!(outcome, TaskOutcome::Done(_))),
        })
    }
}

/// The one before may be on its way out.
fn patiently(record: &Record) -> anyhow::Result<Option<Claim>> {
    let start = Instant::now();
    loop {
        let claim = record.claim()?;
        if claim.is_some() || start.elapsed() > TIMEOUT || interrupt::interrupted() {
            return Ok(claim);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Ends so that the job is queued again.
fn again() -> ! {
    std::process::exit(i32::from(AGAIN))
}
