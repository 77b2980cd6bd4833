//! What is left to a person: markers in the file where the tree's lines are known, `.rej` files elsewhere.

use super::outcome::{Edit, Placement};
use super::source::Source;
use super::tree::Tree;
use super::wanted::Wanted;
use crate::patch::{FilePatch, Hunk, Op, Patch, PatchPath, text};

/// A hunk in conflict as a three-way block: the tree's lines, those that the patch expects, and those it wants.
///
/// `None` where it is not known which of the tree's lines those are. Lines that all three sides share at the
/// edges stay outside of the block.
pub(super) fn markers(
    hunk: &Hunk,
    number: usize,
    patch: &Patch,
    placement: &Placement,
    source: &Source,
    path: &PatchPath,
) -> Option<Edit> {
    let region = placement.region?;
    let wanted = Wanted::new(hunk, source, path.as_str());
    let first = wanted.groups.first()?.at;
    let end = wanted.groups.last().map(|group| group.at + group.removed)?;
    let (from, to) = region.expected.unwrap_or((first, end));
    let (mut low, mut high) = region.rows;
    if low > high || high > source.text.len() || from > first || to < end || to > wanted.expected.len() {
        return None;
    }
    // Another conflict's block has no lines of the tree's own.
    if (low..high).any(|line| source.marked_block(line).is_some()) {
        return None;
    }
    let mut base: Vec<String> = wanted.expected[from..to].iter().map(|line| line.text.clone()).collect();
    let mut theirs = wanted.changed(from, to);
    let tree = &source.text;
    while low < high && base.first() == Some(&tree[low]) && theirs.first() == base.first() {
        low += 1;
        base.remove(0);
        theirs.remove(0);
    }
    while low < high && base.last() == Some(&tree[high - 1]) && theirs.last() == base.last() {
        high -= 1;
        base.pop();
        theirs.pop();
    }
    let what = if patch.subject.is_empty() { "patch" } else { &patch.subject };
    let needs = placement.needs.as_deref().unwrap_or("");
    let mut added = vec!["<<<<<<< tree".to_owned()];
    added.extend_from_slice(&tree[low..high]);
    added.push("||||||| the patch expects".to_owned());
    added.append(&mut base);
    added.push("=======".to_owned());
    added.append(&mut theirs);
    added.push(format!(">>>>>>> {what}, hunk {number}: {}", needs.replace('\n', " ")));
    Some(Edit { line: low + 1, removed: high - low, added })
}

/// True if two edits touch the same lines.
pub(super) fn overlap(a: &Edit, b: &Edit) -> bool {
    let (first, second) = if (a.line, a.removed) <= (b.line, b.removed) { (a, b) } else { (b, a) };
    second.line < first.line + first.removed
}

/// Adds hunks to the `.rej` file beside `path`, behind what an earlier patch left in it.
pub(super) fn reject(file: &FilePatch, hunks: &[&Hunk], path: &PatchPath, tree: &mut Tree) {
    let Ok(to) = PatchPath::new(&format!("{path}.rej")) else { return };
    if hunks.is_empty() {
        return;
    }
    let mut out = tree.read(&to).ok().flatten().unwrap_or_default();
    let hunks = rejected(file, hunks);
    // The same patch once more leaves the same hunks.
    if !out.ends_with(&hunks) {
        out.extend(hunks);
    }
    tree.set(&to, out, None);
}

/// Hunks of a file as they stood in the patch, with the file's header.
pub(super) fn rejected(file: &FilePatch, hunks: &[&Hunk]) -> Vec<u8> {
    let name = |side: char, path: &Option<PatchPath>| {
        path.as_ref().map_or("/dev/null".to_owned(), |path| format!("{side}/{path}"))
    };
    let header = format!("--- {}\n+++ {}\n", name('a', &file.old_path), name('b', &file.new_path));
    let mut out = text::encode(&header);
    hunks.iter().for_each(|hunk| out.extend(text::encode(&as_text(hunk))));
    out
}

/// A hunk as it stood in the patch.
pub(super) fn as_text(hunk: &Hunk) -> String {
    let mut out = format!(
        "@@ -{},{} +{},{} @@",
        hunk.old_start,
        hunk.before().count(),
        hunk.new_start,
        hunk.after().count(),
    );
    if !hunk.heading.is_empty() {
        out.push(' ');
        out.push_str(&hunk.heading);
    }
    out.push('\n');
    for line in &hunk.lines {
        out.push(match line.op {
            Op::Context => ' ',
            Op::Remove => '-',
            Op::Add => '+',
        });
        out.push_str(&line.text);
        out.push('\n');
        if line.no_newline {
            out.push_str("\\ No newline at end of file\n");
        }
    }
    out
}
