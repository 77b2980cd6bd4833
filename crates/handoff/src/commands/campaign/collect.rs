//! `handoff campaign status` and `collect`: what is there.

use std::fmt;

use handoff_campaign::record::State;
use handoff_campaign::slurm::join;
use handoff_campaign::status::{Status as All, TaskStatus, status};
use serde::Serialize;

use super::CampaignFile;
use crate::output::{Output, Verdict, counted, style};

/// Say how far a campaign is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  handoff campaign status rack.toml
  handoff campaign status rack.toml --all       the tasks that are done as well
  handoff campaign status rack.toml --format json")]
pub(super) struct Status {
    #[command(flatten)]
    named: CampaignFile,
    /// List the tasks that are done as well.
    #[arg(long)]
    all: bool,
}

impl Status {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let (plan, folder) = self.named.submitted()?;
        let mut status = status(&plan, &folder)?;
        if let Err(error) = join(&folder, &mut status) {
            output.warn(error);
        }
        output.result(&Page { all: self.all, status: &status })?;
        Ok(Verdict::of(status.failed == 0))
    }
}

/// How far it is, for people and programs.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct Page<'a> {
    #[serde(skip)]
    pub(super) all: bool,
    pub(super) status: &'a All,
}

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let All { name, waiting, running, done, failed, rounds, tasks } = self.status;
        let heading = style::HEADING;
        write!(
            f,
            "{heading}{name}: {done} of {} tasks done{heading:#}, {running} running, {waiting} waiting, {failed} \
             failed; {rounds} rounds",
            tasks.len()
        )?;
        for task in tasks.iter().filter(|task| self.all || task.state != State::Done) {
            write!(f, "\n  {}", line(task))?;
        }
        Ok(())
    }
}

fn line(task: &TaskStatus) -> String {
    let state = match (task.state, &task.verdict) {
        (State::Done, Some(verdict)) => verdict.as_str(),
        (State::Done, None) => "done",
        (State::Running, _) => "running",
        (State::Waiting, _) => "waiting",
        (State::Failed, _) => "failed",
    };
    let mut text = format!(
        "{:>6}  {:<20} {state:<20} {:>3} of {:>3} rounds  {}",
        task.number, task.target, task.rounds, task.most_rounds, task.title
    );
    if let Some(engine) = &task.engine {
        text += &format!("; {engine}");
    }
    if let Some(latest) = task.latest.as_ref().filter(|_| task.state != State::Done) {
        text += &format!("\n          {latest}");
    }
    text
}

/// Put the results that are there into the store.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  handoff campaign collect rack.toml      at any time, any number of times
  handoff lab history                     what is in the store then")]
pub(super) struct Collect {
    #[command(flatten)]
    named: CampaignFile,
}

impl Collect {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let (plan, folder) = self.named.submitted()?;
        let collected = self.named.collect(&plan, &folder)?;
        output.result(&CollectResult(collected))?;
        Ok(Verdict::Pass)
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct CollectResult(handoff_campaign::collect::CollectCounts);

impl fmt::Display for CollectResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handoff_campaign::collect::CollectCounts { new, known, missing } = self.0;
        write!(
            f,
            "{} new in the store, {known} there before; {} without one yet",
            counted(new, "result"),
            counted(missing, "task")
        )
    }
}
