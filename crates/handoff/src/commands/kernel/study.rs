//! `handoff kernel study`: the whole chain from patches to a verdict, in one document.

use std::fmt;
use std::path::PathBuf;

use anyhow::Context as _;
use handoff_guest::Stopper;
use handoff_kernel::study::{self, Step, Study, StudyOutcome};
use serde::Serialize;

use crate::interrupt::until_interrupted;
use crate::output::{Output, Verdict, style};

const EXAMPLES: &str = "\
Examples:
  handoff kernel study experiments/wake-wide-study.toml
  handoff kernel study experiments/wake-wide-study.toml               again: goes on where it stopped
  handoff kernel study mine.toml --until port                        the steps up to that one
  handoff kernel study mine.toml --again prove                       that step and those after it once more
  handoff kernel study mine.toml --work ~/studies/mine --html mine.html

Steps: source, analyse, build-without, port, build-with, prove, measure. Each is written down when it is
done; a step is done again when what it depends on in the file or the patches has changed.

Exit status: 0 if every step is as it should be, 1 if the proof failed or no verdict was possible.";

/// Study a feature: analyse, port, build without and with it, prove, measure, and write the document
///
/// A boot is one figure: boots wait until the host is quiet, and are rejected if it was not.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The study's file
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,

    /// The folder for trees, builds and results [default: study/NAME in handoff's cache folder]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,

    /// Stop after this step
    #[arg(long, value_name = "STEP", default_value_t = Step::Measure)]
    until: Step,

    /// Do this step and those after it again, even if nothing has changed
    #[arg(long, value_name = "STEP")]
    again: Option<Step>,

    /// Copy this handoff into the guests instead of the one that runs here
    #[arg(long, value_name = "FILE")]
    handoff: Option<PathBuf>,

    /// Jobs at once of a build [default: one a CPU]
    #[arg(long, short, value_name = "N")]
    jobs: Option<usize>,

    /// Write the document here, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// What came of it, for people and for programs.
#[derive(Debug, Serialize)]
struct StudyReport {
    title: String,
    steps: Vec<StepReport>,
    markdown: PathBuf,
    html: PathBuf,
}

#[derive(Debug, Serialize)]
struct StepReport {
    step: Step,
    summary: String,
    good: bool,
    seconds: f64,
    /// It was done by an earlier run.
    kept: bool,
}

impl fmt::Display for StudyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.title)?;
        for step in &self.steps {
            let mark = if step.good { "ok" } else { "NOT" };
            write!(f, "\n  {mark:<4}{:<14} {}", step.step.name(), step.summary)?;
        }
        write!(f, "\ndocument: {}\n          {}", self.html.display(), self.markdown.display())
    }
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let study = Study::read(&self.file)?;
        study::check(&study, &self.file)?;
        let stopper = Stopper::new();
        let handoff = match &self.handoff {
            Some(file) => file.clone(),
            None => std::env::current_exe().context("cannot find this program to copy it")?,
        };
        let work = match &self.work {
            Some(folder) => folder.clone(),
            None => self.default_work()?,
        };
        let options = study::Options {
            work: work.clone(),
            handoff,
            stopper: &stopper,
            until: self.until,
            again: self.again,
            jobs: self.jobs,
            tell: &|what| output.note(style::paint(style::DIM, what)),
        };
        let command = format!("handoff kernel study {}", self.file.display());
        let outcome = until_interrupted(&stopper, || {
            Ok(study::run(&study, &options, &mut |study, boots| {
                study::measure(study, boots, &work, &command, &stopper)
            })?)
        })?;
        if let Some(file) = &self.html {
            std::fs::copy(&outcome.html, file).with_context(|| format!("cannot write {}", file.display()))?;
        }
        output.result(&report(&study, &outcome))?;
        Ok(Verdict::of(outcome.is_good()))
    }

    fn default_work(&self) -> anyhow::Result<PathBuf> {
        let name = self.file.file_stem().context("the study's file has no name")?;
        let cache =
            super::analyse::cache_folder().context("no cache folder is known: name one with --work")?;
        Ok(cache.join("study").join(name))
    }
}

fn report(study: &Study, outcome: &StudyOutcome) -> StudyReport {
    let steps = outcome.steps.iter().map(|(step, done)| StepReport {
        step: *step,
        summary: done.summary.clone(),
        good: done.good,
        seconds: done.seconds,
        kept: outcome.kept.contains(step),
    });
    StudyReport {
        title: study.title.clone(),
        steps: steps.collect(),
        markdown: outcome.markdown.clone(),
        html: outcome.html.clone(),
    }
}
