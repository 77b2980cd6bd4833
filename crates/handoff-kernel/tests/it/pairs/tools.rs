//! What each tool makes of a hunk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use handoff_kernel::patch::{Limits, parse};
use handoff_kernel::port::{HunkOutcome, Options, PortReport, port};

use super::Pair;

/// What became of a hunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Right,
    /// In the wrong place, with a word of doubt.
    WrongSaid,
    /// In the wrong place, as if that were certain.
    WrongUnsaid,
    GaveUp,
}

impl Verdict {
    fn of(gave_up: bool, right: bool, doubt: bool) -> Self {
        match (gave_up, right, doubt) {
            (true, ..) => Self::GaveUp,
            (_, true, _) => Self::Right,
            (_, _, true) => Self::WrongSaid,
            _ => Self::WrongUnsaid,
        }
    }
}

/// A tool's name, and how it is run in a folder of its own; `None` if it is not installed.
type Tool = (&'static str, fn(&Pair, &Path) -> Option<Verdict>);

pub(crate) const OTHERS: [Tool; 5] = [
    ("git apply", git_apply),
    ("git merge-file", git_merge),
    ("patch -F2", |pair, folder| patch(pair, folder, "-F2")),
    ("patch -F3", |pair, folder| patch(pair, folder, "-F3")),
    ("wiggle", wiggle),
];

/// Ports a hunk into the tree at `tree`, which is not written to.
pub(crate) fn handoff(pair: &Pair, tree: &Path) -> (Verdict, PortReport) {
    let report = ported(&pair.patch, tree, None);
    (judged(pair, &report, 0), report)
}

/// Ports a hunk with the file that it was made for, where that is at hand.
pub(crate) fn with_base(pair: &Pair, tree: &Path) -> Option<Verdict> {
    let base = pair.base.as_ref()?;
    let folder = tempfile::tempdir().ok()?;
    let file = folder.path().join(&pair.path);
    fs::create_dir_all(file.parent()?).ok()?;
    fs::write(file, base).ok()?;
    let report = ported(&pair.patch, tree, Some(folder.path().to_owned()));
    Some(judged(pair, &report, 0))
}

/// Ports a patch of one file into the tree at `tree`, which is not written to.
pub(crate) fn ported(patch: &[u8], tree: &Path, source: Option<PathBuf>) -> PortReport {
    let series = parse(patch, &Limits::default()).expect("a patch of one file");
    let options = Options { dry_run: true, markers: false, source, ..Options::default() };
    port(&series, tree, &options).expect("a tree")
}

/// Judges one hunk of what [`ported`] told.
pub(crate) fn judged(pair: &Pair, report: &PortReport, number: usize) -> Verdict {
    let file = &report.patches[0].files[0];
    let hunk = &file.hunks[number];
    let into = hunk.onto.as_ref().or(file.onto.as_ref()).unwrap_or(&file.path);
    let mut lines: Vec<&[u8]> = pair.before.split(|byte| *byte == b'\n').collect();
    for edit in hunk.edits.iter().rev() {
        let rows = edit.line - 1..edit.line - 1 + edit.removed;
        lines.splice(rows, edit.added.iter().map(|line| line.as_bytes()));
    }
    let encoded = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
    let is: Vec<String> = lines.into_iter().map(encoded).collect();
    let want: Vec<String> = pair.after.split(|byte| *byte == b'\n').map(encoded).collect();
    let right = *into == pair.path && is == want;
    Verdict::of(hunk.outcome == HunkOutcome::Conflict, right, hunk.outcome == HunkOutcome::Fuzzy)
}

/// Writes the file and the patch into a folder.
fn lay_out(pair: &Pair, folder: &Path) -> Option<()> {
    let file = folder.join(&pair.path);
    fs::create_dir_all(file.parent()?).ok()?;
    fs::write(file, &pair.before).ok()?;
    fs::write(folder.join("x.patch"), &pair.patch).ok()
}

fn is_right(pair: &Pair, folder: &Path) -> bool {
    fs::read(folder.join(&pair.path)).is_ok_and(|is| is == pair.after)
}

fn run(folder: &Path, program: &str, words: &[&str]) -> Option<Output> {
    let mut command = Command::new(program);
    command.current_dir(folder).env("LC_ALL", "C").env("GIT_CEILING_DIRECTORIES", "/").args(words);
    command.stdin(Stdio::null()).output().ok()
}

fn git_apply(pair: &Pair, folder: &Path) -> Option<Verdict> {
    lay_out(pair, folder)?;
    let output = run(folder, "git", &["apply", "x.patch"])?;
    Some(Verdict::of(!output.status.success(), is_right(pair, folder), false))
}

/// The merge of a file that `git apply -3`, `git am -3` and `git cherry-pick` make.
fn git_merge(pair: &Pair, folder: &Path) -> Option<Verdict> {
    let base = pair.base.as_ref()?;
    lay_out(pair, folder)?;
    let [theirs, was] = ["theirs", "was"].map(|name| folder.join(name));
    fs::create_dir_all(theirs.join(&pair.path).parent()?).ok()?;
    fs::write(theirs.join(&pair.path), base).ok()?;
    fs::write(&was, base).ok()?;
    let applied = run(&theirs, "git", &["apply", "../x.patch"])?;
    let (ours, theirs, was) = (folder.join(&pair.path), theirs.join(&pair.path), was);
    let files = [&ours, &was, &theirs].map(|path| path.to_str());
    let [Some(ours), Some(was), Some(theirs)] = files else { return None };
    let output = run(folder, "git", &["merge-file", "-q", ours, was, theirs])?;
    let gave_up = !applied.status.success() || !output.status.success();
    Some(Verdict::of(gave_up, is_right(pair, folder), false))
}

fn patch(pair: &Pair, folder: &Path, fuzz: &str) -> Option<Verdict> {
    lay_out(pair, folder)?;
    let words = ["-p1", "-N", "-f", "--no-backup-if-mismatch", "-r", "-", fuzz, "-i", "x.patch"];
    let output = run(folder, "patch", &words)?;
    let doubt = String::from_utf8_lossy(&output.stdout).contains(" with fuzz ");
    Some(Verdict::of(!output.status.success(), is_right(pair, folder), doubt))
}

fn wiggle(pair: &Pair, folder: &Path) -> Option<Verdict> {
    lay_out(pair, folder)?;
    let output = run(folder, "wiggle", &["--merge", "--patch", "--replace", "--strip=1", "x.patch"])?;
    Some(Verdict::of(!output.status.success(), is_right(pair, folder), false))
}
