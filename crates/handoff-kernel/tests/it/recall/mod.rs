//! Judges where hunks were placed by the history between the two releases.
//!
//! A hunk is *traceable* if all lines that it expects stand in the old tree, side by side: then what it should
//! become is known to the byte. It is *half traceable* if only some do, but all that it removes: then it is known
//! between which lines the change belongs. If a line that it removes is not in the old tree, a person has to
//! decide, though the place is known as well. Of any other the history does not say anything, and a placement
//! without a word of doubt is counted as such.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use handoff_kernel::patch::{FilePatch, Hunk, Limits, Op, Patch, Series, parse, text};
use handoff_kernel::port::{Edit, HunkOutcome, HunkReport, Options, port};

/// How much the history says of a hunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Known {
    Traceable,
    Half,
    /// Half traceable, but something that the hunk removes is not in the old tree.
    Removed,
    Nothing,
}

/// What became of a hunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Right,
    GaveUp,
    /// Placed elsewhere, with a word of doubt.
    WrongSaid,
    /// Placed elsewhere, as if that were certain.
    WrongUnsaid,
}

/// How many hunks are of each kind.
#[derive(Default)]
pub(crate) struct Tally(BTreeMap<(Known, Verdict), usize>);

impl Tally {
    pub(crate) fn of(&self, known: Known, verdict: Verdict) -> usize {
        self.0.get(&(known, verdict)).copied().unwrap_or_default()
    }

    pub(crate) fn wrong_unsaid(&self) -> usize {
        let judged = [Known::Traceable, Known::Half, Known::Removed];
        judged.map(|known| self.of(known, Verdict::WrongUnsaid)).iter().sum()
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "| hunks | all | right | gave up | wrong, but said | wrong, unsaid |")?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        for (known, name) in [
            (Known::Traceable, "traceable"),
            (Known::Half, "half traceable"),
            (Known::Removed, "half traceable, without a line to be removed"),
        ] {
            let [right, gave_up, said, unsaid] =
                [Verdict::Right, Verdict::GaveUp, Verdict::WrongSaid, Verdict::WrongUnsaid]
                    .map(|verdict| self.of(known, verdict));
            let all = right + gave_up + said + unsaid;
            writeln!(f, "| {name} | {all} | {right} | {gave_up} | {said} | {unsaid} |")?;
        }
        let [gave_up, said, unsaid] = [Verdict::GaveUp, Verdict::WrongSaid, Verdict::WrongUnsaid]
            .map(|verdict| self.of(Known::Nothing, verdict));
        write!(
            f,
            "\nOf {} others the history says nothing: {gave_up} given up, {said} placed with doubt, {unsaid} \
             without.",
            gave_up + said + unsaid
        )
    }
}

/// Whatever went wrong.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// Judges each hunk between the last two releases of a repository; `tell` is told of those that are not right.
pub(crate) fn judge_all(
    repository: &Path,
    releases: &[&str],
    paths: &[String],
    tell: &dyn Fn(&str),
) -> Result<Tally, Failure> {
    let [oldest, .., from, to] = releases else {
        return Err("name at least three releases: OLDEST,FROM,TO".into());
    };
    let git = Git { repository, paths };
    let history = History::read(&git, &releases[..releases.len() - 1])?;
    let area = tempfile::tempdir()?;
    git.unpack(oldest, area.path())?;
    let changes = git.diff(&["--diff-filter=M", "-U3", from, to])?;
    let series = parse(&changes, &Limits::default())?;
    let mut tally = Tally::default();
    for file in series.patches.iter().flat_map(|patch| &patch.files) {
        let newer = text::decode(&git.show(from, file.path().as_str())?);
        for hunk in &file.hunks {
            let (known, verdict, placed) = judge(file, hunk, &history, newer.lines().count(), area.path())?;
            *tally.0.entry((known, verdict)).or_default() += 1;
            let word = match (known, verdict) {
                (Known::Nothing, Verdict::WrongUnsaid) => {
                    "placed without doubt, and the history does not know"
                }
                (Known::Nothing, _) | (_, Verdict::Right) => continue,
                (_, Verdict::GaveUp) => "given up",
                (_, Verdict::WrongSaid) => "wrong, but said",
                (_, Verdict::WrongUnsaid) => "WRONG, unsaid",
            };
            let why = placed.needs.as_ref().or(placed.differences.first());
            let why = why.map_or("", String::as_str);
            let decide = if known == Known::Removed { " (a line to be removed is not there)" } else { "" };
            tell(&format!("{}:{}: {word}{decide}: {why}", file.path(), hunk.old_start));
        }
    }
    Ok(tally)
}

/// Ports one hunk, and compares what came of it with what the history says.
fn judge(
    file: &FilePatch,
    hunk: &Hunk,
    history: &History,
    lines: usize,
    tree: &Path,
) -> Result<(Known, Verdict, HunkReport), Failure> {
    let one = FilePatch { hunks: vec![hunk.clone()], blobs: None, ..file.clone() };
    let series =
        Series { patches: vec![Patch { files: vec![one], ..Patch::default() }], ..Series::default() };
    let options = Options { dry_run: true, markers: false, ..Options::default() };
    let report = port(&series, tree, &options)?;
    let ported = &report.patches[0].files[0];
    let placed = ported.hunks[0].clone();
    let outcome = placed.outcome;
    let verdict = |right: bool| match outcome {
        HunkOutcome::Conflict => Verdict::GaveUp,
        _ if right => Verdict::Right,
        HunkOutcome::Fuzzy => Verdict::WrongSaid,
        _ => Verdict::WrongUnsaid,
    };
    let path = file.path().as_str();
    let Some(old_path) = history.path(path) else { return Ok((Known::Nothing, verdict(false), placed)) };
    let into = placed.onto.as_deref().or(ported.onto.as_deref()).unwrap_or(&ported.path);
    let there = into == old_path;
    let before: Vec<Option<usize>> =
        (hunk.old_start..).take(hunk.before().count()).map(|line| history.line(path, line)).collect();
    let Ok(old) = fs::read(tree.join(&old_path)) else { return Ok((Known::Nothing, verdict(false), placed)) };
    let old = text::decode(&old);
    let old: Vec<&str> = old.lines().collect();
    if let Some(first) = side_by_side(&before) {
        let after = hunk.after().map(|line| line.text.as_str());
        let want: Vec<&str> = old[..first - 1]
            .iter()
            .copied()
            .chain(after)
            .chain(old[first - 1 + before.len()..].iter().copied())
            .collect();
        let right = there && edited(&old, &placed.edits) == want;
        return Ok((Known::Traceable, verdict(right), placed));
    }
    let Some((low, high)) = between(hunk, path, history, lines) else {
        return Ok((Known::Nothing, verdict(false), placed));
    };
    let right = there && is_between(&placed, low, high);
    let removed = hunk.before().zip(&before).all(|(line, old)| line.op != Op::Remove || old.is_some());
    Ok((if removed { Known::Half } else { Known::Removed }, verdict(right), placed))
}

/// The first of lines that all are known and stand side by side.
fn side_by_side(lines: &[Option<usize>]) -> Option<usize> {
    let first = (*lines.first()?)?;
    lines.iter().zip(first..).all(|(line, want)| *line == Some(want)).then_some(first)
}

/// The lines of the old tree between which the change belongs, if a line of the hunk's context is one.
fn between(hunk: &Hunk, path: &str, history: &History, lines: usize) -> Option<(usize, usize)> {
    let leading = hunk.lines.iter().take_while(|line| line.op == Op::Context).count();
    let trailing = hunk.lines.iter().rev().take_while(|line| line.op == Op::Context).count();
    let (first, end) = (hunk.old_start + leading, hunk.old_start + hunk.before().count() - trailing);
    let above = (1..first).rev().find_map(|line| Some((line, history.line(path, line)?)));
    let below = (end..=lines).find_map(|line| Some((line, history.line(path, line)?)));
    let ((near_above, low), (near_below, high)) = (above?, below?);
    let touches = near_above >= hunk.old_start || near_below < end + trailing;
    (touches && low < high).then_some((low, high))
}

fn is_between(placed: &HunkReport, low: usize, high: usize) -> bool {
    placed.edits.iter().all(|edit| low < edit.line && edit.line + edit.removed <= high)
}

/// The lines of a file after edits of it.
fn edited<'a>(lines: &[&'a str], edits: &'a [Edit]) -> Vec<&'a str> {
    let mut out: Vec<&str> = lines.to_vec();
    let mut edits: Vec<&Edit> = edits.iter().collect();
    edits.sort_by_key(|edit| std::cmp::Reverse(edit.line));
    for edit in edits {
        let start = (edit.line - 1).min(out.len());
        let end = (start + edit.removed).min(out.len());
        out.splice(start..end, edit.added.iter().map(String::as_str));
    }
    out
}

/// What changed between neighbouring releases, the newest pair first.
struct History(Vec<BTreeMap<String, Change>>);

/// What became of a file: its path before, and its places.
#[derive(Default)]
struct Change {
    /// `None` if it was new.
    before: Option<String>,
    /// First line and number of lines before, and after.
    places: Vec<[usize; 4]>,
}

impl History {
    fn read(git: &Git<'_>, releases: &[&str]) -> Result<Self, Failure> {
        let pairs = releases.windows(2).rev();
        let steps = pairs.map(|pair| Ok(changes(&text::decode(&git.diff(&["-U0", pair[0], pair[1]])?))));
        steps.collect::<Result<_, Failure>>().map(Self)
    }

    /// The file's path in the oldest release.
    fn path(&self, path: &str) -> Option<String> {
        self.0.iter().try_fold(path.to_owned(), |path, step| match step.get(&path) {
            Some(change) => change.before.clone(),
            None => Some(path),
        })
    }

    /// The number in the oldest release of a line of the newest, if it is the same line.
    fn line(&self, path: &str, line: usize) -> Option<usize> {
        let start = (path.to_owned(), line);
        let end = self.0.iter().try_fold(start, |(path, line), step| match step.get(&path) {
            Some(change) => Some((change.before.clone()?, change.line(line)?)),
            None => Some((path, line)),
        });
        end.map(|(_, line)| line)
    }
}

impl Change {
    /// The number before of a line after, unless it is new.
    fn line(&self, line: usize) -> Option<usize> {
        let mut before = line;
        for [_, removed, start, added] in self.places.iter().copied() {
            // Without added lines the place is behind its line.
            let end = if added == 0 { start + 1 } else { start + added };
            if line < end {
                if added > 0 && line >= start {
                    return None;
                }
                break;
            }
            before = before + removed - added;
        }
        Some(before)
    }
}

/// Reads a diff without context, by the paths afterwards.
fn changes(diff: &str) -> BTreeMap<String, Change> {
    let mut out = BTreeMap::new();
    let (mut path, mut change, mut skip) = (None::<String>, Change::default(), 0);
    for line in diff.lines() {
        if skip > 0 {
            skip -= 1;
        } else if line.starts_with("diff --git ") {
            out.extend(path.take().map(|path| (path, std::mem::take(&mut change))));
            change = Change::default();
        } else if let Some(from) = line.strip_prefix("rename from ").or(line.strip_prefix("--- a/")) {
            change.before = Some(from.to_owned());
        } else if let Some(to) = line.strip_prefix("rename to ").or(line.strip_prefix("+++ b/")) {
            path = Some(to.to_owned());
        } else if let Some(place) = line.strip_prefix("@@ -").and_then(place) {
            skip = place[1] + place[3];
            change.places.push(place);
        }
    }
    out.extend(path.map(|path| (path, change)));
    out
}

/// `1,2 +3,4 @@`: where a count is missing, it is 1.
fn place(header: &str) -> Option<[usize; 4]> {
    let (before, rest) = header.split_once(" +")?;
    let (after, _) = rest.split_once(" @@")?;
    let numbers = |range: &str| -> Option<[usize; 2]> {
        let (start, count) = range.split_once(',').unwrap_or((range, "1"));
        Some([start.parse().ok()?, count.parse().ok()?])
    };
    let ([a, b], [c, d]) = (numbers(before)?, numbers(after)?);
    Some([a, b, c, d])
}

/// A repository, of which only some paths are looked at.
struct Git<'a> {
    repository: &'a Path,
    paths: &'a [String],
}

impl Git<'_> {
    fn run(&self, words: &[&str]) -> Result<Vec<u8>, Failure> {
        let output = Command::new("git")
            .arg("-C")
            .arg(self.repository)
            .args(["-c", "core.quotePath=off", "-c", "diff.renameLimit=0"])
            .args(words)
            .stdin(Stdio::null())
            .output()?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(format!("git {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()).into())
    }

    fn diff(&self, words: &[&str]) -> Result<Vec<u8>, Failure> {
        let head = ["diff", "--no-color", "--no-ext-diff", "-M", "--src-prefix=a/", "--dst-prefix=b/"];
        let paths = self.paths.iter().map(String::as_str);
        let all: Vec<&str> =
            head.into_iter().chain(words.iter().copied()).chain(["--"]).chain(paths).collect();
        self.run(&all)
    }

    fn show(&self, release: &str, path: &str) -> Result<Vec<u8>, Failure> {
        self.run(&["show", &format!("{release}:{path}")])
    }

    /// Writes the files of a release into a folder.
    fn unpack(&self, release: &str, folder: &Path) -> Result<(), Failure> {
        let paths = self.paths.iter().map(String::as_str);
        let listed: Vec<&str> =
            ["ls-tree", "-r", "--name-only", release, "--"].into_iter().chain(paths).collect();
        let listed = text::decode(&self.run(&listed)?);
        for path in listed.lines() {
            let target: PathBuf = folder.join(path);
            fs::create_dir_all(target.parent().unwrap_or(folder))?;
            // What a shallow copy of the repository lacks is no file of the tree.
            if let Ok(content) = self.show(release, path) {
                fs::write(target, content)?;
            }
        }
        Ok(())
    }
}
