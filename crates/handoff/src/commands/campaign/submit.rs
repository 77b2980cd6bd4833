//! `handoff campaign submit`: carry it out, or go on with it.

use std::fs::File;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use handoff_campaign::local::{Engine as Local, Over, TaskEvent};
use handoff_campaign::plan::CampaignPlan;
use handoff_campaign::record::Folder;
use handoff_campaign::slurm::Engine as Slurm;
use handoff_campaign::status::status;
use handoff_campaign::work::{Event, TaskOutcome, own_program};
use indicatif::ProgressBar;

use super::CampaignFile;
use super::collect::Page;
use crate::output::{Output, Verdict, counted};
use crate::{interrupt, progress};

/// How long workers may take to stop their devices.
const GRACE: Duration = Duration::from_secs(40);

/// Run a campaign, or go on with it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  handoff campaign submit rack.toml              from here, until it is done
  handoff campaign submit rack.toml              once more: goes on where it was stopped or killed
  handoff campaign submit rack.toml --retry      tries tasks again that have failed
  handoff campaign submit rack.toml --detach     in the background; `handoff campaign status` tells
  handoff campaign submit rack.toml --engine slurm")]
pub(super) struct Submit {
    #[command(flatten)]
    named: CampaignFile,
    /// Who starts the tasks.
    #[arg(long, value_enum, default_value = "local")]
    engine: Which,
    /// Try tasks again that have failed; their rounds stay.
    #[arg(long)]
    retry: bool,
    /// Go on in the background (engine local).
    #[arg(long)]
    detach: bool,
    /// This process is the one in the background.
    #[arg(long, hide = true, conflicts_with = "detach")]
    detached: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// This process, with a worker for each device
    Local,
    /// Slurm, with an array of jobs for each device
    Slurm,
}

impl Submit {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let plan = self.named.plan()?;
        let folder = Folder::make(&self.named.results.made()?, &plan)?;
        if self.retry {
            for task in &plan.tasks {
                folder.task(*task).retry()?;
            }
        }
        if self.engine == Which::Slurm {
            return self.slurm(&plan, &folder, output);
        }
        if self.detach {
            return self.detach(&folder, output);
        }
        if self.detached {
            // A session of its own: the terminal may be closed.
            rustix::process::setsid().context("cannot leave the terminal")?;
        }
        self.here(plan, folder, output)
    }

    fn slurm(&self, plan: &CampaignPlan, folder: &Folder, output: &Output) -> anyhow::Result<Verdict> {
        let program = own_program().context("cannot tell which program this is")?;
        let base = self.named.base()?;
        let arrays = Slurm { plan, folder, programs: &base, program: &program }.submit()?;
        for array in &arrays {
            output.note(format_args!("job {}: {} tasks on {}", array.job, array.tasks.len(), array.target));
        }
        if arrays.is_empty() {
            output.note("nothing is left that Slurm does not have already");
        }
        output.result(&Page { all: false, status: &status(plan, folder)? })?;
        Ok(Verdict::Pass)
    }

    /// Starts the same in the background.
    fn detach(&self, folder: &Folder, output: &Output) -> anyhow::Result<Verdict> {
        let log = folder.path().join("log.txt");
        let file = File::options().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("cannot write {}", log.display()))?;
        let mut command =
            std::process::Command::new(own_program().context("cannot tell which program this is")?);
        command.args(["campaign", "submit", "--detached", "--output"]).arg(self.named.results.folder()?);
        command.arg("--").arg(&self.named.file).stdin(Stdio::null());
        command.stdout(file.try_clone().context("cannot use a file twice")?).stderr(file);
        let child = command.spawn().context("cannot start in the background")?;
        output.line(format_args!(
            "process {} goes on with it; its log is {}; `kill -TERM {0}` stops it",
            child.id(),
            log.display()
        ))?;
        Ok(Verdict::Pass)
    }

    fn here(&self, plan: CampaignPlan, folder: Folder, output: &Output) -> anyhow::Result<Verdict> {
        let plan = Arc::new(plan);
        for names in plan.shared() {
            output.note(format_args!("{} are one machine: they take turns", names.join(", ")));
        }
        let stop = interrupt::flag();
        let engine = Local {
            plan: Arc::clone(&plan),
            folder: folder.clone(),
            programs: self.named.base()?,
            program: own_program().context("cannot tell which program this is")?,
            stop,
        };
        let before = status(&plan, &folder)?;
        let bar = progress::bar(Some(plan.tasks.len() as u64), "{bar:24} {pos}/{len} tasks  {msg}");
        bar.set_position((before.done + before.failed) as u64);
        let running = engine.start().context("cannot start the workers")?;
        let mut stopping_since: Option<Instant> = None;
        loop {
            match running.next_within(Duration::from_millis(200)) {
                Ok(Some(told)) => show(&plan, &told, &bar, output),
                Ok(None) => bar.tick(),
                Err(Over) => break,
            }
            if stop.load(Ordering::Relaxed)
                && stopping_since.get_or_insert_with(Instant::now).elapsed() > GRACE
            {
                output.warn("a device does not stop; it will when it notices that nobody listens");
                break;
            }
        }
        bar.finish_and_clear();
        running.end()?;
        let collected = self.named.collect(&plan, &folder)?;
        let after = status(&plan, &folder)?;
        output.result(&Page { all: false, status: &after })?;
        output.note(format_args!(
            "new in {}: {}; `handoff campaign report {}` combines them",
            self.named.results.folder()?.join("lab.sqlite").display(),
            counted(collected.new, "result"),
            self.named.file.display()
        ));
        Ok(Verdict::of(after.done == plan.tasks.len()))
    }
}

/// Tells what happened: on a terminal in the bar, otherwise a line for what matters.
fn show(plan: &CampaignPlan, told: &TaskEvent, bar: &ProgressBar, output: &Output) {
    let device = &plan.targets[told.task.target].name;
    let title = &plan.points[told.task.point].title;
    let number = told.task.number;
    let line = match &told.event {
        Event::Started { known: 0 } => return bar.set_message(format!("{device}: {title}")),
        Event::Started { known } => format!("task {number} on {device} goes on after {known} rounds"),
        Event::Round { number: round } => {
            return bar.set_message(format!("{device}: {title}, round {round}"));
        }
        Event::Waits { why } => format!("task {number} waits: {why}"),
        Event::Ended(outcome) => {
            if matches!(outcome, TaskOutcome::Done(_) | TaskOutcome::Failed(_)) {
                bar.inc(1);
            }
            match outcome {
                TaskOutcome::Done(verdict) => {
                    format!("task {number} on {device}: {}; {title}", verdict.word())
                }
                TaskOutcome::Failed(why) => format!("task {number} on {device} failed: {why}; {title}"),
                TaskOutcome::Absent(why) => format!("{device} cannot be used, its tasks wait: {why}"),
                TaskOutcome::Stopped => {
                    format!("task {number} on {device} was stopped; `submit` goes on with it")
                }
            }
        }
    };
    bar.suspend(|| output.note(line));
}
