//! `handoff kernel port`: bring patches to another tree.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use handoff_guest::Stopper;
use handoff_kernel::build::{Base, BuildError, KernelBuild};
use handoff_kernel::document::counted;
use handoff_kernel::patch::{Input, Limits, Series, load};
use handoff_kernel::port::aside::{self, Onto};
use handoff_kernel::port::commit::{self, CommitReport};
use handoff_kernel::port::review::{self, Decision, Decisions};
use handoff_kernel::port::{
    How, Lacking, MemberHint, Options as PortOptions, PortReport, hints, lacking, port,
};
use handoff_kernel::prerequisite::{self, Chosen, Explanation, choose, explain};
use serde::Serialize;

use crate::interrupt::until_interrupted;
use crate::output::{Output, Verdict, style};
use crate::results;

const EXAMPLES: &str = "\
Examples:
  handoff kernel port autocorking.patch --onto linux-3.4 --dry-run
  handoff kernel port patches/ --onto linux-3.4              a folder, a quilt series or a mailbox
  handoff kernel port v3.12..v3.13 --source linux --onto linux-3.4
  handoff kernel port abc123^! --source linux --onto linux-3.4 --with-prerequisites
  handoff kernel port v3.12..v3.13 --source linux --onto linux-3.4 --build-each build
  handoff kernel port fixes.mbox --onto . --commit            a commit for each patch; then --continue, --skip or --abort
  handoff kernel port fixes.mbox --onto v6.1 --branch fixes-6.1      onto a tag, without a checkout
  handoff kernel port fixes.mbox --onto v6.1 --write fixes-6.1/      the series as it fits v6.1, for quilt or git am
  handoff kernel port fix.patch --onto . --dry-run --review fix.html   look at what is doubtful, in a browser
  handoff kernel port fix.patch --onto . --decisions decisions.json   do what was decided there
  handoff kernel port fix.patch --onto . --lacking            name what its added lines use and the tree lacks
  handoff kernel port fix.patch --onto . --confidence 0.8 --format json

  b4 am -o - MESSAGE-ID | handoff kernel port - --onto linux-3.4

Exit status:
  0  every hunk stands in its place word for word, or did already
  3  every hunk has a place, but something differs: read those that are fuzzy
  1  at least one is in conflict: its markers stand in the file, or it is in a .rej file; or a build failed";

/// Bring patches to another tree: every hunk says where it went, or what it needs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// A patch, a mail, a mailbox (also packed), a folder of patches, a quilt series file, a commit, a range of
    /// commits, or `-` for standard input.
    #[arg(value_name = "SERIES", required_unless_present_any = ["resume", "skip", "abort"])]
    series: Option<String>,
    /// The tree that is changed; or a branch, tag or commit of --source or of the current folder's repository, which
    /// is not checked out: say where the result goes with --branch or --write.
    #[arg(long, value_name = "DIR|REF")]
    onto: PathBuf,
    /// The tree or repository that the patches were made for: git merges with it where it can.
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// Bring the commits too that hunks in conflict build on, chosen from the history of --source; with
    /// `--confidence 1` those of fuzzy hunks too.
    #[arg(long, requires = "source")]
    with_prerequisites: bool,
    /// Build a kernel in this folder after each patch, and explain what does not compile: with the
    /// configuration that is there, or for guests if there is none.
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
    build_each: Option<PathBuf>,
    /// Commit each patch, with its author and where it came from; stop at the first conflict.
    #[arg(long, conflicts_with_all = ["dry_run", "build_each"])]
    commit: bool,
    /// Make this branch, with a commit for each patch, and touch no work tree: for --onto REF.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["dry_run", "build_each", "commit", "resume", "skip", "abort", "write"])]
    branch: Option<String>,
    /// Write the series as it fits there into this new folder, as quilt and git am read it; the tree stays as it is.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dry_run", "build_each", "commit", "resume", "skip", "abort"])]
    write: Option<PathBuf>,
    /// Commit what you made of the patch that stopped, and go on with its series.
    #[arg(long = "continue", conflicts_with_all = ["series", "dry_run", "build_each"])]
    resume: bool,
    /// Leave the patch that stopped out, and go on with its series.
    #[arg(long, conflicts_with_all = ["series", "dry_run", "build_each", "resume"])]
    skip: bool,
    /// Take the series that stopped back.
    #[arg(long, conflicts_with_all = ["series", "dry_run", "build_each", "resume", "skip"])]
    abort: bool,
    /// Also name what added lines use and the tree does not have: functions, fields, macros, CONFIG_ symbols; with
    /// where --source has them.
    #[arg(long, conflicts_with_all = ["commit", "resume", "skip", "abort"])]
    lacking: bool,
    /// Also name functions that write the members which added lines read, in --source or in the tree only: hints at code
    /// that compiles and means something else.
    #[arg(long, requires = "source", conflicts_with_all = ["commit", "resume", "skip", "abort", "branch", "write"])]
    hints: bool,
    /// Write a page that shows each doubtful hunk beside its place, to accept, refuse or edit it: one HTML file, for a
    /// browser, without a network.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["build_each", "skip", "abort"])]
    review: Option<PathBuf>,
    /// Do what was decided on a review page: the file that the page saves.
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
    /// Leave conflicts out instead of writing markers and .rej files.
    #[arg(long)]
    no_markers: bool,
    /// Take placements that are less certain than this (0 to 1) for conflicts.
    #[arg(long, value_name = "SHARE", default_value_t = PortOptions::default().confidence)]
    confidence: f64,
    /// Leading folders that a plain diff's paths have too many, as for `patch -p`.
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().strip)]
    strip: usize,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        ensure!((0.0..=1.0).contains(&self.confidence), "--confidence is a share from 0 to 1");
        let options = PortOptions {
            dry_run: self.dry_run,
            markers: !self.no_markers,
            source: self.source.clone(),
            confidence: self.confidence,
            review: self.review.is_some(),
            decisions: self.decisions.as_deref().map_or(Ok(Vec::new()), read_decisions)?,
        };
        if self.abort {
            commit::abort(&self.onto)?;
            return Ok(Verdict::Pass);
        }
        if self.resume {
            return self.committed(output, &commit::resume(&self.onto, &options)?);
        }
        if self.skip {
            return self.committed(output, &commit::skip(&self.onto, &options)?);
        }
        let series = self.series.as_deref().context("a series is needed")?;
        let repository = self.source.as_deref().unwrap_or(Path::new("."));
        let limits = Limits { strip: self.strip, keep_going: true, ..Limits::default() };
        let series = load(&Input::guess(series, repository), &limits)?;
        if series.reordered {
            output.note(format_args!(
                "the mails stood in another order; they are taken by the numbers in their subjects"
            ));
        }
        for decision in review::without_hunk(&options.decisions, &series) {
            output.warn(format_args!(
                "a decision on `{}` (`{}`) is for no hunk of this series",
                decision.file, decision.subject
            ));
        }
        let onto = self.find_onto()?;
        if self.branch.is_some() || self.write.is_some() || onto != Onto::Folder(self.onto.clone()) {
            return self.put_aside(output, &series, &onto, &options);
        }
        let (series, prerequisites) = self.with_what_it_needs(series, &options)?;
        if self.commit {
            if !prerequisites.is_empty() {
                output.note(format_args!("{} come first", counted(prerequisites.len(), "prerequisite")));
            }
            return self.committed(output, &commit::port_and_commit(&series, &self.onto, &options)?);
        }
        if let Some(changed) = commit::changed_files(&self.onto).filter(|changed| !changed.is_empty()) {
            output.warn(format_args!(
                "the tree has {} with changes that are not committed; what is ported is mixed with them",
                counted(changed.len(), "file")
            ));
        }
        let mut ported = match &self.build_each {
            Some(folder) => self.port_and_build(&series, &options, folder, prerequisites)?,
            None => Ported::of(port(&series, &self.onto, &options)?, prerequisites),
        };
        if self.lacking {
            ported.lacking = lacking(&series, &self.onto, self.source.as_deref());
        }
        if let (true, Some(source)) = (self.hints, &self.source) {
            ensure!(
                source.is_dir() && !source.join("HEAD").is_file(),
                "--hints reads the files of --source: name a folder in which they are checked out"
            );
            ported.hints = hints(&series, &self.onto, source);
            if ported.hints.is_empty() {
                output.note(format_args!(
                    "no hints: in both trees the same functions write the members that added lines read"
                ));
            }
        }
        self.write_review(output, &ported.report)?;
        output.result(&ported)?;
        Ok(verdict(ported.is_clean(), ported.report.is_doubtful()))
    }

    /// What the series is placed on: a folder, or else a commit of a repository.
    fn find_onto(&self) -> anyhow::Result<Onto> {
        if self.onto.is_dir() {
            return Ok(Onto::Folder(self.onto.clone()));
        }
        let repositories = self.source.iter().map(PathBuf::as_path).chain([Path::new(".")]);
        let name = self.onto.to_str().context("--onto is neither a folder nor the name of a commit")?;
        let found =
            repositories.filter(|folder| folder.is_dir()).find_map(|folder| Onto::commit(folder, name));
        found.with_context(|| {
            format!(
                "{name} is neither a folder nor a branch, tag or commit of --source or of the repository here"
            )
        })
    }

    /// Places the series without touching a work tree.
    fn put_aside(
        &self,
        output: &Output,
        series: &Series,
        onto: &Onto,
        options: &PortOptions,
    ) -> anyhow::Result<Verdict> {
        ensure!(
            !self.commit
                && self.build_each.is_none()
                && !self.lacking
                && !self.hints
                && !self.with_prerequisites,
            "--commit, --build-each, --lacking, --hints and --with-prerequisites need a tree that is checked out, without --branch \
             and --write: give its folder as --onto"
        );
        if let Some(branch) = &self.branch {
            ensure!(
                matches!(onto, Onto::Commit { .. }),
                "--branch is for --onto REF, a commit that is not checked out; in a work tree, --commit commits on its branch"
            );
            return self.committed(output, &aside::to_branch(series, onto, branch, options)?);
        }
        if let Some(folder) = &self.write {
            let wrote = aside::to_folder(series, onto, folder, options)?;
            self.write_review(output, &wrote.report)?;
            output.result(&wrote)?;
            return Ok(verdict(wrote.report.is_clean(), wrote.report.is_doubtful()));
        }
        ensure!(
            self.dry_run,
            "{} is not checked out, so its files cannot be changed: --branch NAME commits the series on a new branch, --write \
             DIR writes it as patches, --dry-run only says what would be done",
            self.onto.display()
        );
        let report = aside::look(series, onto, options)?;
        self.write_review(output, &report)?;
        output.result(&report)?;
        Ok(verdict(report.is_clean(), report.is_doubtful()))
    }

    fn committed(&self, output: &Output, report: &CommitReport) -> anyhow::Result<Verdict> {
        self.write_review(output, &report.report)?;
        output.result(report)?;
        Ok(verdict(report.stopped.is_none(), report.report.is_doubtful()))
    }

    /// Writes the review page, if it was asked for, and says how many of the decisions found no hunk.
    fn write_review(&self, output: &Output, report: &PortReport) -> anyhow::Result<()> {
        if self.decisions.is_some() {
            let made = report.hunks().filter(|hunk| hunk.how == How::Person).count();
            output.note(format_args!("{} placed as the review decided", counted(made, "hunk")));
        }
        let Some(path) = &self.review else { return Ok(()) };
        results::write(path, report.review_page())?;
        output.note(format_args!(
            "{} to judge: open {} in a browser, then port again with the file that it saves as --decisions",
            counted(report.hunks().filter(|hunk| hunk.view.is_some()).count(), "hunk"),
            path.display()
        ));
        Ok(())
    }

    /// The series with the commits in front of it that it needs.
    fn with_what_it_needs(
        &self,
        series: Series,
        options: &PortOptions,
    ) -> anyhow::Result<(Series, Vec<Chosen>)> {
        let Some(source) = self.source.as_deref().filter(|_| self.with_prerequisites) else {
            return Ok((series, Vec::new()));
        };
        let found = choose(&series, source, &self.onto, options, prerequisite::Limits::default())?;
        crate::output::progress(style::paint(
            style::DIM,
            format_args!(
                "{} prerequisites; hunks of the series in conflict: {} without them, {} with them",
                found.chosen.len(),
                found.conflicts.0,
                found.conflicts.1
            ),
        ));
        Ok((found.series, found.chosen))
    }

    /// The build after each patch.
    fn build_in(&self, folder: &Path) -> anyhow::Result<KernelBuild> {
        let (build, config) = (KernelBuild::new(&self.onto, folder), folder.join(".config"));
        if config.is_file() {
            return Ok(build.base(Base::File(config)));
        }
        Ok(build.fragments(&["guest".to_owned()])?)
    }

    /// Ports one patch after the other, and builds after each; stops at the first that fails.
    fn port_and_build(
        &self,
        series: &Series,
        options: &PortOptions,
        folder: &Path,
        prerequisites: Vec<Chosen>,
    ) -> anyhow::Result<Ported> {
        let stopper = Stopper::new();
        let build = self.build_in(folder)?.stopper(&stopper);
        let mut ported: Option<Ported> = None;
        for patch in &series.patches {
            let one = Series { patches: vec![patch.clone()], ..Series::default() };
            let report = port(&one, &self.onto, options)?;
            let clean = report.is_clean();
            let all = match &mut ported {
                None => ported.insert(Ported::of(report, prerequisites.clone())),
                Some(all) => {
                    all.report.append(report);
                    all
                }
            };
            if !clean {
                break;
            }
            crate::output::progress(style::paint(
                style::DIM,
                format_args!("building after `{}`", patch.subject),
            ));
            let built = until_interrupted(&stopper, || Ok(build.run()));
            match built? {
                Ok(built) => all.builds.push(EachBuild {
                    subject: patch.subject.clone(),
                    seconds: Some(built.elapsed.as_secs_f64()),
                    compiled: built.compiled,
                    error: None,
                    explanation: None,
                }),
                Err(BuildError::Compile { first, more, hint, log }) => {
                    let explanation = explain(&first, series, self.source.as_deref(), &self.onto);
                    let error = BuildError::Compile { first, more, hint, log };
                    all.builds.push(EachBuild {
                        subject: patch.subject.clone(),
                        seconds: None,
                        compiled: 0,
                        error: Some(error.to_string()),
                        explanation,
                    });
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        ported.context("the series has no patch")
    }
}

fn verdict(clean: bool, doubtful: bool) -> Verdict {
    match (clean, doubtful) {
        (false, _) => Verdict::Fail,
        (true, true) => Verdict::Doubt,
        (true, false) => Verdict::Pass,
    }
}

/// The decisions that a review page saved.
fn read_decisions(path: &Path) -> anyhow::Result<Vec<Decision>> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let read: Decisions = serde_json::from_slice(&text)
        .with_context(|| format!("{} is no file that a review page saved", path.display()))?;
    Ok(read.decisions)
}

/// What became of a series, with what was brought and built besides.
#[derive(Debug, Serialize)]
struct Ported {
    #[serde(flatten)]
    report: PortReport,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    prerequisites: Vec<Chosen>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    builds: Vec<EachBuild>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lacking: Vec<Lacking>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<MemberHint>,
}

/// A build after one patch.
#[derive(Debug, Serialize)]
struct EachBuild {
    subject: String,
    /// How long it took, if it went well.
    seconds: Option<f64>,
    compiled: usize,
    error: Option<String>,
    explanation: Option<Explanation>,
}

impl Ported {
    fn of(report: PortReport, prerequisites: Vec<Chosen>) -> Self {
        Self { report, prerequisites, builds: Vec::new(), lacking: Vec::new(), hints: Vec::new() }
    }

    fn is_clean(&self) -> bool {
        self.report.is_clean() && self.builds.iter().all(|build| build.error.is_none())
    }
}

impl fmt::Display for Ported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for one in &self.prerequisites {
            let id = one.commit.id.get(..12).unwrap_or(&one.commit.id);
            writeln!(f, "needs {id} {}: {}", one.commit.subject, one.because)?;
        }
        write!(f, "{}", self.report)?;
        for one in &self.lacking {
            write!(f, "\n`{}` is nowhere here, and {} uses it", one.name, one.used_in.join(", "))?;
            if let Some((path, line)) = &one.source {
                write!(f, "; the source has it in {path}, line {line}")?;
            }
        }
        for hint in &self.hints {
            write!(f, "\n{hint}")?;
        }
        for build in &self.builds {
            match (&build.error, build.seconds) {
                (Some(error), _) => write!(f, "\nafter `{}`: {error}", build.subject)?,
                (None, seconds) => write!(
                    f,
                    "\nafter `{}`: built, {} compiled in {:.1} s",
                    build.subject,
                    counted(build.compiled, "file"),
                    seconds.unwrap_or_default()
                )?,
            }
            if let Some(explanation) = &build.explanation {
                write!(f, "\n{explanation}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_built_in_keeps_its_configuration() {
        let area = tempfile::tempdir().expect("a folder");
        let options = Options {
            series: None,
            onto: area.path().to_owned(),
            source: None,
            with_prerequisites: false,
            build_each: None,
            commit: false,
            branch: None,
            write: None,
            review: None,
            decisions: None,
            resume: false,
            skip: false,
            abort: false,
            lacking: false,
            hints: false,
            dry_run: false,
            no_markers: false,
            confidence: 0.5,
            strip: 1,
        };
        let of = |folder: &Path| format!("{:?}", options.build_in(folder).expect("a build"));
        let fresh = of(area.path());
        assert!(fresh.contains("base: Tiny") && fresh.contains("CONFIG_ANDROID_BINDERFS"), "{fresh}");
        std::fs::write(area.path().join(".config"), "CONFIG_GCOV_KERNEL=y\n").expect("written");
        let kept = of(area.path());
        assert!(kept.contains("base: File(") && !kept.contains("CONFIG_ANDROID_BINDERFS"), "{kept}");
    }
}
