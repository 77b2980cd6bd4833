//! Patches as they are exchanged: unified diffs, `git format-patch` files and mailboxes of them.
//!
//! The parser is strict, because a patch comes from elsewhere: whatever it cannot vouch for is
//! refused with the number of the line, and no path that it lets through can leave a tree.
//!
//! ```
//! use handoff_kernel::patch::{ChangeKind, Limits, parse};
//!
//! let series = parse(
//!     b"--- a/kernel/sched/fair.c\n+++ b/kernel/sched/fair.c\n@@ -1,2 +1,3 @@\n int a;\n+int b;\n int c;\n",
//!     &Limits::default(),
//! )?;
//! let file = &series.patches[0].files[0];
//! assert_eq!(file.kind, ChangeKind::Modify);
//! assert_eq!(file.new_path.as_ref().unwrap().as_str(), "kernel/sched/fair.c");
//! assert_eq!(file.hunks[0].added(), 1);
//! # Ok::<(), handoff_kernel::patch::PatchError>(())
//! ```

mod diff;
mod load;
mod mail;
mod path;
#[cfg(test)]
mod tests;
pub mod text;
mod transfer;

pub use diff::parse;
pub use load::{Input, InputError, load};
pub use path::PatchPath;

use serde::{Deserialize, Serialize};

/// What is refused as too large to be a patch that a person reviewed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the whole input.
    pub bytes: usize,
    pub line_bytes: usize,
    /// Lines of one hunk, as its header claims them.
    pub hunk_lines: usize,
    /// Leading components that are removed from the paths of a diff without `diff --git` (`-p` of
    /// `patch`); a git diff always loses its `a/` and `b/`.
    pub strip: usize,
    /// A file's part that cannot be read is left out and named in [`Patch::refused`], and the others are read.
    pub keep_going: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 64 << 20, line_bytes: 64 << 10, hunk_lines: 1_000_000, strip: 1, keep_going: false }
    }
}

/// Patches that are applied one after the other.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// The patches, first to be applied first.
    pub patches: Vec<Patch>,
    /// True if the mails of a mailbox stood in another order than that of their numbers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reordered: bool,
}

impl Series {
    /// The mails of one mailbox in the order of `[PATCH n/m]`, if each has such a number of one series.
    fn in_order(mut self) -> Self {
        let numbers: Option<Vec<(u32, u32)>> = self.patches.iter().map(|patch| patch.number).collect();
        let Some(numbers) = numbers else { return self };
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        let one_series = sorted.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 == pair[1].1)
            && self.patches.windows(2).all(|pair| pair[0].series == pair[1].series);
        if one_series && sorted != numbers {
            self.patches.sort_by_key(|patch| patch.number);
            self.reordered = true;
        }
        self
    }

    fn extend(&mut self, other: Self) {
        self.patches.extend(other.patches);
        self.reordered |= other.reordered;
    }

    /// The series that takes this one back.
    pub fn reversed(&self) -> Self {
        let mut patches = self.patches.clone();
        patches.reverse();
        for patch in &mut patches {
            patch.files.reverse();
            patch.files.iter_mut().for_each(FilePatch::reverse);
        }
        Self { patches, reordered: self.reordered }
    }
}

/// One commit's worth of change.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Patch {
    /// The file that it came from, when it came from one.
    pub source: Option<String>,
    /// The commit's id, when the patch names it.
    pub commit: Option<String>,
    /// `Name <address>`, when there is a mail header.
    pub author: Option<String>,
    /// The date as the mail header has it.
    pub date: Option<String>,
    /// The subject, without `[PATCH n/m]`; empty for a bare diff.
    pub subject: String,
    /// The `n` and `m` of `[PATCH n/m]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<(u32, u32)>,
    /// The words beside that number, such as `PATCH net-next v2`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub series: String,
    /// The commit message below the subject, without the diffstat.
    pub message: String,
    /// What happens to each file.
    pub files: Vec<FilePatch>,
    /// The files whose part cannot be ported as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refusal>,
}

/// A file's part of a patch that was left out, and why.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Refusal {
    /// Line of the input at which reading it was given up, from 1.
    pub line: usize,
    /// The file as the patch names it.
    pub path: String,
    /// What is wrong with it.
    pub problem: String,
}

/// What a patch does to a file as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// The file stays where it is.
    Modify,
    /// The file did not exist.
    Create,
    Delete,
    /// The file gets another name.
    Rename,
    /// The file is copied, and the copy changed.
    Copy,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FilePatch {
    /// Line of the input on which this file's part starts, from 1.
    pub line: usize,
    /// What happens to the file as a whole.
    pub kind: ChangeKind,
    /// Its path before; `None` for a new file.
    pub old_path: Option<PatchPath>,
    /// Its path after; `None` for a deleted file.
    pub new_path: Option<PatchPath>,
    /// The mode before, when the patch says it.
    pub old_mode: Option<u32>,
    /// The mode after, when the patch says it.
    pub new_mode: Option<u32>,
    /// The (often abbreviated) blob ids before and after, when the patch has an `index` line.
    pub blobs: Option<(String, String)>,
    /// The changes, in the order of the file.
    pub hunks: Vec<Hunk>,
}

impl FilePatch {
    fn reverse(&mut self) {
        std::mem::swap(&mut self.old_path, &mut self.new_path);
        std::mem::swap(&mut self.old_mode, &mut self.new_mode);
        if let Some((old, new)) = &mut self.blobs {
            std::mem::swap(old, new);
        }
        self.kind = match self.kind {
            ChangeKind::Create | ChangeKind::Copy => ChangeKind::Delete,
            ChangeKind::Delete => ChangeKind::Create,
            kind => kind,
        };
        if self.kind == ChangeKind::Delete {
            self.new_path = None;
        }
        for hunk in &mut self.hunks {
            std::mem::swap(&mut hunk.old_start, &mut hunk.new_start);
            for line in &mut hunk.lines {
                line.op = match line.op {
                    Op::Context => Op::Context,
                    Op::Remove => Op::Add,
                    Op::Add => Op::Remove,
                };
            }
        }
    }

    /// The path by which people call this file: the new one, or the old one of a deleted file.
    pub fn path(&self) -> &PatchPath {
        self.new_path.as_ref().or(self.old_path.as_ref()).expect("the parser gives each file a path")
    }
}

/// What a line of a hunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// In the file before and after.
    Context,
    /// Only in the file before.
    Remove,
    /// Only in the file after.
    Add,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HunkLine {
    pub op: Op,
    /// Its text without the end of line; see [`text`] for bytes that are no UTF-8.
    pub text: String,
    /// True if the file has no end of line after it.
    pub no_newline: bool,
}

/// One place of a file and its change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hunk {
    /// Line of the input that holds the `@@` header, from 1.
    pub line: usize,
    /// First line of the place in the old file, from 1; 0 if it is empty.
    pub old_start: usize,
    /// First line of the place in the new file, from 1; 0 if it is empty.
    pub new_start: usize,
    /// The text behind the second `@@`: mostly the line that starts the enclosing function.
    pub heading: String,
    /// Context, removed and added lines.
    pub lines: Vec<HunkLine>,
}

impl Hunk {
    /// The lines of the file before the change.
    pub fn before(&self) -> impl Iterator<Item = &HunkLine> {
        self.lines.iter().filter(|line| line.op != Op::Add)
    }

    /// The lines of the file after the change.
    pub fn after(&self) -> impl Iterator<Item = &HunkLine> {
        self.lines.iter().filter(|line| line.op != Op::Remove)
    }

    /// Whether the file ends without an end of line after the change, where the hunk speaks of it.
    pub(crate) fn lacks_final_newline(&self) -> Option<bool> {
        let last = self.after().last()?.no_newline;
        self.lines.iter().any(|line| line.no_newline).then_some(last)
    }

    /// How many lines it adds.
    pub fn added(&self) -> usize {
        self.lines.iter().filter(|line| line.op == Op::Add).count()
    }

    /// How many lines it removes.
    pub fn removed(&self) -> usize {
        self.lines.iter().filter(|line| line.op == Op::Remove).count()
    }
}

/// Why an input was refused, with the line at which it was.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}: {problem}")]
pub struct PatchError {
    /// Line of the input, from 1.
    pub line: usize,
    pub problem: Problem,
}

/// What can be wrong with a patch.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Problem {
    #[error("the patch has {0} bytes, more than the {1} allowed: split it")]
    TooLarge(usize, usize),
    #[error("this line has {0} bytes, more than the {1} allowed in a source file's line")]
    LineTooLong(usize, usize),
    #[error("the hunk claims {0} lines, more than the {1} allowed")]
    HunkTooLong(usize, usize),
    #[error("a zero byte: this is no text patch")]
    ZeroByte,
    #[error(
        "the patch has CR LF line ends, so it was damaged on its way: convert it (`dos2unix`) and look whether its content still is right"
    )]
    Crlf,
    #[error("a binary change, which cannot be ported as text: copy the file by hand")]
    Binary,
    #[error("a combined diff of a merge, which says no single change: export the merged commits instead")]
    Combined,
    #[error("a context diff (`diff -c`), which is not read: make the patch with `diff -u` or `git diff`")]
    Context,
    #[error("a file that only one side has, without its content: make the patch with `diff -N`")]
    OneSide,
    #[error("mode {0:o} is no ordinary file: symbolic links and submodules are not taken from a patch")]
    Mode(u32),
    #[error(
        "a submodule, which is a commit of another repository: check that commit out in its folder by hand"
    )]
    Submodule,
    #[error("`{0}` is no file mode")]
    BadMode(String),
    #[error("the path `{path}` {why}")]
    Path {
        /// The path as the patch has it.
        path: String,
        why: &'static str,
    },
    #[error("the path `{path}` {why}")]
    Name {
        /// The path as the patch has it.
        path: String,
        why: &'static str,
    },
    #[error("`{0}` is no hunk header: `@@ -line,count +line,count @@` is needed")]
    Header(String),
    #[error(
        "the hunk ends here, but its header promised {old} more old and {new} more new lines: the patch was cut or edited by hand"
    )]
    Short { old: usize, new: usize },
    #[error(
        "the hunk has more lines than its header says: the patch was edited by hand; make it again with `git diff`"
    )]
    Long,
    #[error("the hunk changes nothing")]
    NoChange,
    #[error("this hunk starts at line {0}, inside or before the one in front of it")]
    Order(usize),
    #[error("a hunk, but no `---` and `+++` lines name a file in front of it")]
    NoFile,
    #[error("`---` without a `+++` line under it")]
    NoPlus,
    #[error("the headers name different files: `{0}` and `{1}`")]
    Mismatch(String, String),
    #[error("a {0} file cannot have such a hunk")]
    Impossible(&'static str),
    #[error("`\\ No newline at end of file` without a line to which it could belong")]
    Newline,
    #[error(
        "the mail's body is encoded as {0}: decode it with `git mailinfo` or `b4 am`, or make the patch with `git format-patch`"
    )]
    Encoded(String),
    #[error("there is no change in it: neither `diff --git` nor `---`/`+++` and `@@` lines")]
    Empty,
}
