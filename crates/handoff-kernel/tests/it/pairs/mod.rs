//! Hunks whose right place is known because two lines of a kernel got the same change.
//!
//! A stable fix goes into several lines: where the diff of an older line has a change with the very same removed and
//! added lines as a hunk of the newer line's diff, the people who maintain the older line have shown where that hunk
//! belongs there. A hunk counts only if all of its changes are found so, each of them once.

#[allow(dead_code, reason = "the example `pairs` reads diffs, no repository")]
pub(crate) mod picks;
pub(crate) mod tally;
pub(crate) mod tools;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;

pub(crate) use handoff_kernel::patch::Hunk;
use handoff_kernel::patch::{FilePatch, Limits, Op, parse, text};

/// A hunk, the file that it goes to, and what the file is to be.
pub(crate) struct Pair {
    /// The file, and the line at which the hunk stood in the newer tree.
    pub(crate) name: String,
    /// The path of the file.
    pub(crate) path: String,
    /// The hunk as a patch of one file.
    pub(crate) patch: Vec<u8>,
    /// The patch with all hunks of that file, and the number of this one among them, from 0.
    pub(crate) whole: (Rc<[u8]>, usize),
    /// The file of the older tree.
    pub(crate) before: Vec<u8>,
    /// The file as it should be.
    pub(crate) after: Vec<u8>,
    /// The file that the hunk was made for, where it is at hand.
    pub(crate) base: Option<Rc<[u8]>>,
}

/// Lines that are changed together: where, what goes, and what comes.
struct Group<'a> {
    /// The first line before the change, from 0.
    at: usize,
    removed: Vec<&'a str>,
    added: Vec<&'a str>,
    /// The lines of the hunk next to it.
    above: Option<&'a str>,
    below: Option<&'a str>,
}

impl Group<'_> {
    fn same(&self, other: &Group<'_>) -> bool {
        self.removed == other.removed && self.added == other.added
    }

    /// True if a line next to the change is the same, too.
    fn same_side(&self, other: &Group<'_>) -> bool {
        let same = |one: Option<&str>, other: Option<&str>| one.is_some() && one == other;
        same(self.above, other.above) || same(self.below, other.below)
    }
}

/// The changes of a hunk, if its first line is line `start` (from 0).
fn groups(hunk: &Hunk, start: usize) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let (mut at, mut open, mut above) = (start, false, None);
    for line in &hunk.lines {
        let text = line.text.as_str();
        if line.op == Op::Context {
            if let Some(group) = groups.last_mut().filter(|_| open) {
                group.below = Some(text);
            }
            (at, open, above) = (at + 1, false, Some(text));
            continue;
        }
        if !open {
            groups.push(Group { at, removed: Vec::new(), added: Vec::new(), above, below: None });
            open = true;
        }
        let Some(group) = groups.last_mut() else { continue };
        if line.op == Op::Remove {
            group.removed.push(text);
            at += 1;
        } else {
            group.added.push(text);
        }
    }
    groups
}

/// Where the lines that a hunk expects stand in a file: the place nearest to the one that it names.
fn place(hunk: &Hunk, lines: &[&str]) -> Option<usize> {
    let before: Vec<&str> = hunk.before().map(|line| line.text.as_str()).collect();
    let asked = hunk.old_start.saturating_sub(1);
    (0..=lines.len().checked_sub(before.len())?)
        .filter(|&at| lines[at..at + before.len()] == before[..])
        .min_by_key(|at| at.abs_diff(asked))
}

/// The hunks of `newer` that `older`, a change of the tree at `tree`, has too.
pub(crate) fn pairs(
    newer: &[u8],
    older: &[u8],
    tree: &Path,
) -> Result<Vec<Pair>, Box<dyn std::error::Error>> {
    let limits = Limits { bytes: 1 << 30, keep_going: true, ..Limits::default() };
    let (newer, older) = (parse(newer, &limits)?, parse(older, &limits)?);
    let mut known: BTreeMap<&str, Vec<&FilePatch>> = BTreeMap::new();
    for file in older.patches.iter().flat_map(|patch| &patch.files) {
        known.entry(file.path().as_str()).or_default().push(file);
    }
    let mut out = Vec::new();
    for file in newer.patches.iter().flat_map(|patch| &patch.files) {
        let path = file.path().as_str();
        let Some(theirs) = known.get(path) else { continue };
        let Ok(before) = fs::read(tree.join(path)) else { continue };
        let content = text::decode(&before);
        let lines: Vec<&str> = content.lines().collect();
        let there: Vec<Group<'_>> = theirs
            .iter()
            .flat_map(|file| &file.hunks)
            .filter_map(|hunk| Some(groups(hunk, place(hunk, &lines)?)))
            .flatten()
            .collect();
        let all: Vec<Group<'_>> =
            file.hunks.iter().flat_map(|hunk| groups(hunk, hunk.old_start.saturating_sub(1))).collect();
        let whole: Rc<[u8]> = patch_of(path, &file.hunks).into();
        for (number, hunk) in file.hunks.iter().enumerate() {
            let Some(edits) = found(hunk, &all, &there) else { continue };
            // Where the older tree has the lines after the change, its diff moves them on; where none are left, the
            // file goes.
            let wanted: Vec<&str> = hunk.after().map(|line| line.text.as_str()).collect();
            if wanted.is_empty() || lines.windows(wanted.len()).any(|run| run == wanted) {
                continue;
            }
            let mut after: Vec<&str> = Vec::new();
            let mut at = 0;
            for edit in edits {
                after.extend(&lines[at..edit.at]);
                after.extend(&edit.added);
                at = edit.at + edit.removed.len();
            }
            after.extend(&lines[at..]);
            let mut after = text::encode(&after.join("\n"));
            if before.ends_with(b"\n") {
                after.push(b'\n');
            }
            out.push(Pair {
                name: format!("{path}:{}", hunk.old_start),
                path: path.to_owned(),
                patch: patch_of(path, std::slice::from_ref(hunk)),
                whole: (Rc::clone(&whole), number),
                before: before.clone(),
                after,
                base: None,
            });
        }
    }
    Ok(out)
}

/// The changes of the older line that are those of a hunk, in the order of the file.
fn found<'a, 'b>(hunk: &Hunk, all: &[Group<'_>], there: &'a [Group<'b>]) -> Option<Vec<&'a Group<'b>>> {
    let mut edits: Vec<&Group<'_>> = Vec::new();
    for group in groups(hunk, hunk.old_start.saturating_sub(1)) {
        let ours: Vec<&Group<'_>> = all.iter().filter(|other| other.same(&group)).collect();
        let theirs: Vec<&Group<'_>> = there.iter().filter(|other| other.same(&group)).collect();
        // The same change several times: they are told apart by their order, if both lines have all of them, each
        // beside the same line.
        let number = ours.iter().position(|other| other.at == group.at)?;
        let is_other = ours.len() > 1 && !theirs.get(number).is_some_and(|other| other.same_side(&group));
        if is_other
            || ours.len() != theirs.len()
            || edits.last().is_some_and(|last| last.at >= theirs[number].at)
        {
            return None;
        }
        edits.push(theirs[number]);
    }
    Some(edits)
}

/// Hunks as a patch of one file.
fn patch_of(path: &str, hunks: &[Hunk]) -> Vec<u8> {
    let hunks: String = hunks.iter().map(hunk_lines).collect();
    text::encode(&format!("diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n{hunks}"))
}

fn hunk_lines(hunk: &Hunk) -> String {
    let (mut old, mut new, mut body) = (0, 0, String::new());
    for line in &hunk.lines {
        let mark = match line.op {
            Op::Context => ' ',
            Op::Remove => '-',
            Op::Add => '+',
        };
        old += usize::from(line.op != Op::Add);
        new += usize::from(line.op != Op::Remove);
        body.push(mark);
        body.push_str(&line.text);
        body.push('\n');
        if line.no_newline {
            body.push_str("\\ No newline at end of file\n");
        }
    }
    let heading = if hunk.heading.is_empty() { String::new() } else { format!(" {}", hunk.heading) };
    format!("@@ -{},{old} +{},{new} @@{heading}\n{body}", hunk.old_start, hunk.new_start)
}
