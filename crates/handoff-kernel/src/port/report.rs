//! The report: what became of each patch, file and hunk.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::outcome::{Edit, Enclosing, How, HunkOutcome};
use super::review::HunkView;
use crate::document::counted;
use crate::patch::Refusal;

/// What became of a series.
#[derive(Clone, Debug, Serialize)]
pub struct PortReport {
    /// The tree.
    pub onto: PathBuf,
    /// True if nothing was written.
    pub dry_run: bool,
    /// How many hunks had which outcome.
    pub counts: Counts,
    /// The files that were (or would be) written or removed.
    pub written: Vec<String>,
    /// The patches, in order.
    pub patches: Vec<PatchReport>,
}

/// How many hunks had which outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// As asked.
    pub applied: usize,
    /// Word for word at another line.
    pub moved: usize,
    /// Nothing left to do.
    pub present: usize,
    /// With differences.
    pub fuzzy: usize,
    /// Not placed.
    pub conflict: usize,
}

impl Counts {
    /// Counts one more hunk.
    pub fn add(&mut self, outcome: HunkOutcome) {
        match outcome {
            HunkOutcome::Applied => self.applied += 1,
            HunkOutcome::Moved => self.moved += 1,
            HunkOutcome::Present => self.present += 1,
            HunkOutcome::Fuzzy => self.fuzzy += 1,
            HunkOutcome::Conflict => self.conflict += 1,
        }
    }

    /// All hunks.
    pub fn total(&self) -> usize {
        self.applied + self.moved + self.present + self.fuzzy + self.conflict
    }
}

/// What became of a patch.
#[derive(Clone, Debug, Serialize)]
pub struct PatchReport {
    /// Its subject.
    pub subject: String,
    /// Its commit.
    pub commit: Option<String>,
    /// The file that it came from.
    pub source: Option<String>,
    /// Its files.
    pub files: Vec<FileReport>,
}

/// What is done to a file as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileAction {
    /// Its lines change.
    Modify,
    /// It is made.
    Create,
    /// It is removed.
    Delete,
    /// It gets another name.
    Rename,
    /// Nothing: it is not there, or as it should be.
    Nothing,
}

/// What became of a file's part of a patch.
#[derive(Clone, Debug, Serialize)]
pub struct FileReport {
    /// The path that the patch names.
    pub path: String,
    /// The path in this tree, when it is another one.
    pub onto: Option<String>,
    /// What is done.
    pub action: FileAction,
    /// Whether that is as asked; a file with hunks has its outcome in them.
    pub outcome: HunkOutcome,
    /// What is to be said of the file as a whole.
    pub notes: Vec<String>,
    /// Its hunks.
    pub hunks: Vec<HunkReport>,
}

/// What became of a hunk.
#[derive(Clone, Debug, Serialize)]
pub struct HunkReport {
    /// Its number in the file's part of the patch, from 1.
    pub number: usize,
    /// The line of the patch that holds its header.
    pub patch_line: usize,
    /// What became of it.
    pub outcome: HunkOutcome,
    /// How it was placed.
    pub how: How,
    /// From 0 (a guess) to 1 (word for word, in one place).
    pub confidence: f64,
    /// The line that the patch names for its first change.
    pub asked: usize,
    /// The line of the tree, before this patch, at which the first change is made.
    pub placed: Option<usize>,
    /// `placed` - `asked`.
    pub distance: Option<isize>,
    /// The file, where it is not that of the other hunks.
    pub onto: Option<String>,
    /// What encloses the change in the tree.
    pub enclosing: Option<Enclosing>,
    /// What is not as the hunk expects it.
    pub differences: Vec<String>,
    /// What a person has to do, for a conflict.
    pub needs: Option<String>,
    /// For a conflict: the line of the tree near which it belongs.
    pub near: Option<usize>,
    /// The changes that were made.
    pub edits: Vec<Edit>,
    /// What there is to see of it, if it is doubtful and was asked for.
    #[serde(skip)]
    pub view: Option<HunkView>,
}

impl PortReport {
    pub(super) fn new(onto: &Path, dry_run: bool) -> Self {
        Self {
            onto: onto.to_owned(),
            dry_run,
            counts: Counts::default(),
            written: Vec::new(),
            patches: Vec::new(),
        }
    }

    /// Adds the report of what was ported after this.
    pub fn append(&mut self, later: Self) {
        self.patches.extend(later.patches);
        self.written.extend(later.written);
        self.written.sort();
        self.written.dedup();
        self.counts.applied += later.counts.applied;
        self.counts.moved += later.counts.moved;
        self.counts.present += later.counts.present;
        self.counts.fuzzy += later.counts.fuzzy;
        self.counts.conflict += later.counts.conflict;
    }

    pub(super) fn finish(&mut self, written: Vec<String>) {
        self.written = written;
        let mut counts = Counts::default();
        for file in self.patches.iter().flat_map(|patch| &patch.files) {
            if file.hunks.is_empty() {
                counts.add(file.outcome);
            }
        }
        self.hunks().for_each(|hunk| counts.add(hunk.outcome));
        self.counts = counts;
    }

    /// All hunks of all patches.
    pub fn hunks(&self) -> impl Iterator<Item = &HunkReport> {
        self.patches.iter().flat_map(|patch| &patch.files).flat_map(|file| &file.hunks)
    }

    /// True if a hunk was placed, or found to be there, although something differs.
    pub fn is_doubtful(&self) -> bool {
        self.counts.fuzzy > 0
            || self.hunks().any(|hunk| hunk.outcome == HunkOutcome::Present && hunk.confidence < 1.0)
    }

    /// True if nothing is left to a person.
    pub fn is_clean(&self) -> bool {
        self.counts.conflict == 0
    }
}

impl fmt::Display for PortReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for patch in &self.patches {
            if !patch.subject.is_empty() {
                let id = patch
                    .commit
                    .as_deref()
                    .map_or(String::new(), |id| format!("{} ", &id[..id.len().min(12)]));
                writeln!(f, "{id}{}", patch.subject)?;
            }
            for file in &patch.files {
                file.write(f)?;
            }
        }
        let Counts { applied, moved, present, fuzzy, conflict } = self.counts;
        write!(f, "{}: {applied} applied, {moved} moved", counted(self.counts.total(), "hunk"))?;
        if present > 0 {
            write!(f, ", {present} already there")?;
        }
        write!(f, ", {fuzzy} fuzzy (read them), {conflict} in conflict (yours to place)")?;
        if self.dry_run {
            write!(f, "\nnothing was written (--dry-run)")?;
        }
        Ok(())
    }
}

impl FileReport {
    /// The report on a file's part that could not be read.
    pub(super) fn refused(refusal: &Refusal) -> Self {
        Self {
            path: refusal.path.clone(),
            onto: None,
            action: FileAction::Nothing,
            outcome: HunkOutcome::Conflict,
            notes: vec![format!("line {} of the patch: {}", refusal.line, refusal.problem)],
            hunks: Vec::new(),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {}", self.path)?;
        if let Some(onto) = &self.onto {
            write!(f, " -> {onto}")?;
        }
        match self.action {
            FileAction::Modify => {}
            FileAction::Create => f.write_str(" (new)")?,
            FileAction::Delete => f.write_str(" (removed)")?,
            FileAction::Rename => f.write_str(" (renamed)")?,
            FileAction::Nothing if self.hunks.is_empty() => write!(f, " ({})", self.outcome.word())?,
            FileAction::Nothing => {}
        }
        f.write_char('\n')?;
        for note in &self.notes {
            writeln!(f, "    {note}")?;
        }
        self.hunks.iter().try_for_each(|hunk| hunk.write(f))
    }
}

impl HunkReport {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "    hunk {}: {}", self.number, self.outcome.word())?;
        let inside = |f: &mut fmt::Formatter<'_>| match &self.enclosing {
            Some(enclosing) => write!(f, ", in `{}`", enclosing.name),
            None => Ok(()),
        };
        match (self.outcome, self.placed) {
            (HunkOutcome::Conflict, _) => {
                write!(f, ", asked for line {}", self.asked)?;
                if let Some(near) = self.near {
                    write!(f, ", belongs near {near}")?;
                    inside(f)?;
                }
            }
            (_, Some(placed)) => {
                if placed == self.asked {
                    write!(f, " at line {placed}")?;
                } else {
                    write!(f, ", asked for line {}, belongs at {placed}", self.asked)?;
                    write!(f, " ({:+})", self.distance.unwrap_or(0))?;
                }
                inside(f)?;
            }
            (_, None) => {}
        }
        if let Some(onto) = &self.onto {
            write!(f, ", in {onto}")?;
        }
        if self.outcome == HunkOutcome::Fuzzy {
            write!(f, ", confidence {:.0}%", self.confidence * 100.0)?;
        }
        f.write_char('\n')?;
        const SHOWN: usize = 8;
        for difference in self.differences.iter().take(SHOWN) {
            writeln!(f, "      {difference}")?;
        }
        if self.differences.len() > SHOWN {
            writeln!(f, "      and {} more differences", self.differences.len() - SHOWN)?;
        }
        if let Some(needs) = &self.needs {
            writeln!(f, "      needs: {needs}")?;
        }
        Ok(())
    }
}
