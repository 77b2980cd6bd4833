//! `handoff lab bisect`: the commit that began a regression.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use handoff_lab::bisect::{
    BisectError, BisectResult, Culprit, Event, Request, Step, StepVerdict, bisect, clean_up, folder,
};
use handoff_lab::experiment::executor::Local;
use handoff_lab::experiment::file::Arm;
use serde_json::json;

use super::experiment::progress_bar;
use super::pair::{How, share};
use super::place::put_back_first;
use crate::interrupt;
use crate::output::{Advice as _, Format, Output, Verdict};
use crate::results::{self, Results};
use crate::state;

/// Find the commit that began a regression: a git bisect whose every step is a verdict.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  handoff lab bisect v1.0 main --build 'make -j4' -- ./bench --size 100
  handoff lab bisect HEAD~40 HEAD --metric cpu --margin 0.05 -- python3 bench.py
  handoff lab bisect v1 v2 --build make --figure 'rate=([0-9.]+) calls/s' --better higher -- ./bench
  handoff lab bisect v1.0 main --build make --resume -- ./bench     after Ctrl-C

Commits are built and run in worktrees of their own; yours is not touched. Each is measured in turns with GOOD, and
commits that do not build, do not run or stay in doubt are skipped. --budget and --rounds are for one commit.
Exit status 1: BAD is not shown to be worse than GOOD.")]
pub(super) struct Bisect {
    /// A commit that is good, by any name.
    good: String,
    /// A later commit that is worse.
    bad: String,
    /// What to measure, in the folder of each commit.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Builds a commit; a line for the shell, in its folder.
    #[arg(long, value_name = "COMMAND")]
    build: Option<String>,
    /// A folder of the repository.
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    repo: PathBuf,
    /// The share of change that tells bad from good; half of what BAD is worse by if nothing is said.
    #[arg(long, value_parser = share)]
    threshold: Option<f64>,
    /// Go on with the commits that an earlier search for the same has judged.
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    results: Results,
    #[command(flatten)]
    how: How,
}

impl Bisect {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let state = state::folder();
        put_back_first(&state, output)?;
        let folder = folder()?;
        let (repository, trees) = (self.repo.clone(), folder.path().to_owned());
        let _clean = interrupt::clean_up(move || clean_up(&repository, &trees));
        let mut notes = Notes::open(self)?;
        let asked = self.asked(folder.path().to_owned(), std::mem::take(&mut notes.steps))?;
        let bar = progress_bar();
        let mut unkept = None;
        let mut hear = |event: Event<'_>| match event {
            Event::Build(commit) => {
                bar.set_position(0);
                bar.set_message(format!("building {commit}"));
            }
            Event::Measure(commit, rounds) => {
                bar.set_position(rounds as u64);
                bar.set_message(format!("measuring {commit}"));
            }
            Event::Step(step) => {
                bar.suspend(|| output.note(line(step)));
                unkept = unkept.take().or_else(|| notes.keep(step).err());
            }
        };
        bar.set_length(asked.looks.last().copied().unwrap_or(0) as u64);
        let program = std::env::current_exe().context("cannot tell where this program is")?;
        let mut here = Local::new(program, &state, Some(interrupt::flag()))?;
        let found = bisect(&asked, &mut here, interrupt::flag(), &mut hear);
        bar.finish_and_clear();
        if let Some(error) = unkept {
            output.warn(format_args!("--resume will not know all commits: {error:#}"));
        }
        let found = match found {
            Err(error @ BisectError::Git { .. }) => {
                return Err(error)
                    .advise("run it in the repository of what became worse, with two of its commits");
            }
            found => found?,
        };
        match output.format() {
            Format::Json => output.json(&found)?,
            Format::Text => output.line(format_args!("{}", page(&found)))?,
        }
        Ok(Verdict::of(matches!(found.answer, Culprit::First { .. } | Culprit::Among { .. })))
    }

    fn asked(&self, folder: PathBuf, known: Vec<Step>) -> anyhow::Result<Request> {
        let arms =
            [&self.good, &self.bad].map(|name| Arm::of_command(name, self.command.clone(), Vec::new()));
        let title = format!("{} against {}", self.bad, self.good);
        let mut template = self.how.experiment(title, "Is this commit worse than the good one?", arms);
        template.secondary.clear();
        Ok(Request {
            repository: self.repo.clone(),
            good: self.good.clone(),
            bad: self.bad.clone(),
            folder,
            build: self.build.clone(),
            command: self.command.clone(),
            figures: self.how.figures()?,
            template,
            better: self.how.direction(),
            looks: self.how.rounds().map_or_else(|| vec![10, 20, 40], |rounds| vec![rounds]),
            threshold: self.threshold,
            known,
        })
    }
}

/// The commits that were judged, a line each, for `--resume`.
struct Notes {
    path: PathBuf,
    steps: Vec<Step>,
}

impl Notes {
    /// Begins them, or reads those of an earlier search for the same.
    fn open(options: &Bisect) -> anyhow::Result<Self> {
        let name = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "_");
        let file = format!("bisect-{}-{}.jsonl", name(&options.good), name(&options.bad));
        let path = options.results.made()?.join(file);
        let question = json!({
            "repository": std::fs::canonicalize(&options.repo).unwrap_or_else(|_| options.repo.clone()),
            "command": options.command,
            "build": options.build,
            "how": format!("{:?}", options.how),
            "threshold": options.threshold,
        });
        if options.resume {
            let text =
                results::read(&path).advise("run it without --resume: there is no search to go on with")?;
            let mut lines = text.lines();
            let asked: Option<serde_json::Value> =
                lines.next().and_then(|line| serde_json::from_str(line).ok());
            anyhow::ensure!(
                asked.as_ref() == Some(&question),
                "{} is of a search for something else; run it without --resume",
                path.display()
            );
            // A torn last line is a commit that will be measured again.
            let steps = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
            return Ok(Self { path, steps });
        }
        results::write(&path, format!("{question}\n"))?;
        Ok(Self { path, steps: Vec::new() })
    }

    fn keep(&self, step: &Step) -> anyhow::Result<()> {
        let line = serde_json::to_string(step)?;
        let mut file = OpenOptions::new().append(true).open(&self.path)?;
        writeln!(file, "{line}").with_context(|| format!("cannot write {}", self.path.display()))
    }
}

fn line(step: &Step) -> String {
    let figures = match (step.ratio, step.interval) {
        (Some(ratio), Some(interval)) => {
            let percent = |ratio: f64| (ratio - 1.0) * 100.0;
            let ends = if interval.is_bounded() {
                format!("[{:+.1}%, {:+.1}%]", percent(interval.low), percent(interval.high))
            } else {
                "[no interval]".to_owned()
            };
            format!("{:+7.1}% {ends}, {} rounds", percent(ratio), step.rounds)
        }
        _ => String::new(),
    };
    let why = if step.judged == StepVerdict::Skipped { format!("  {}", step.why) } else { String::new() };
    format!("  {:<8}{figures:<38}  {}{why}", step.judged.word(), step.commit)
}

fn page(found: &BisectResult) -> String {
    let metric = &found.metric;
    let answer = match &found.answer {
        Culprit::First { commit } => format!("{commit} made {metric} worse"),
        Culprit::Among { commits } => {
            let all: Vec<String> = commits.iter().map(|commit| format!("\n  {commit}")).collect();
            format!(
                "One of these made {metric} worse; the commits between could not be judged:{}",
                all.concat()
            )
        }
        Culprit::NoRegression => {
            format!("{metric} of {} is not worse than that of {}", found.bad, found.good)
        }
        Culprit::NotShown => format!(
            "{metric} of {} is not shown to be worse than that of {}; take more rounds, or a quieter metric",
            found.bad, found.good
        ),
    };
    let mut text = format!("{answer}\n\nAgainst {}", found.good);
    if let Some(threshold) = found.threshold {
        text += &format!(", bad beyond {:+.1}%", (threshold - 1.0) * 100.0);
    }
    text += ":\n";
    for step in &found.steps {
        text += &format!("{}\n", line(step));
    }
    text.trim_end().to_owned()
}
