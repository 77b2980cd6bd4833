//! What became of a hunk, in the words in which it is reported.

use serde::Serialize;

use super::scope::ScopeKind;

/// What became of a hunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HunkOutcome {
    /// Placed where the patch asked for, all its lines as expected.
    Applied,
    /// Placed at another line, all its lines as expected.
    Moved,
    /// The tree already is as the patch wants it.
    Present,
    /// Placed although something differs; [`HunkReport::differences`](super::HunkReport) says what.
    Fuzzy,
    /// Not placed.
    Conflict,
}

impl HunkOutcome {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Moved => "moved",
            Self::Present => "present",
            Self::Fuzzy => "fuzzy",
            Self::Conflict => "conflict",
        }
    }
}

/// How a hunk was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// All its lines stand in the tree as they are, in one place only.
    Exact,
    /// git merged the three versions of the file, and the enclosing definition is the right one.
    Git,
    /// Its lines were aligned with those of the enclosing definition.
    Alignment,
    /// A whole file was written or removed.
    File,
    /// A person decided it in the review.
    Person,
    /// Not at all.
    None,
}

/// What encloses a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Enclosing {
    /// What it is.
    pub kind: ScopeKind,
    /// Its name.
    pub name: String,
}

impl Enclosing {
    /// True for the scope of this name, for what stands inside of it, and for `Class.name`.
    pub(super) fn is_of(&self, name: &str) -> bool {
        let rest = |rest: &str, end: &dyn Fn(&str) -> bool| rest.is_empty() || end(rest);
        self.name.strip_prefix(name).is_some_and(|after| rest(after, &|after| after.starts_with('.')))
            || self
                .name
                .strip_suffix(name)
                .is_some_and(|before| rest(before, &|before| before.ends_with('.')))
    }
}

/// A change of a file: lines of the file before this patch, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Edit {
    /// The first line that is removed, or in front of which lines are added.
    pub line: usize,
    /// How many lines are removed.
    pub removed: usize,
    /// The lines that are added.
    pub added: Vec<String>,
}

/// Where a hunk was placed, or why it was not.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    pub outcome: HunkOutcome,
    pub how: How,
    /// From 0 to 1.
    pub confidence: f64,
    pub edits: Vec<Edit>,
    /// What is not as the hunk expects it.
    pub differences: Vec<String>,
    /// What a person has to do.
    pub needs: Option<String>,
    /// Where the change stands in the tree.
    pub enclosing: Option<Enclosing>,
    /// For a conflict: the line of the tree (from 1) at which it probably belongs.
    pub near: Option<usize>,
    /// For a conflict: the lines of the tree that stand for lines of the hunk.
    pub region: Option<Region>,
    /// For a conflict between places that are the same: where the expected lines stand, from 0.
    pub twins: Vec<usize>,
}

/// Lines of the tree (from 0) and the expected lines of the hunk that they stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub rows: (usize, usize),
    /// `None` for those from the first to the last change.
    pub expected: Option<(usize, usize)>,
}

impl Placement {
    pub(super) fn conflict(needs: impl Into<String>) -> Self {
        Self {
            outcome: HunkOutcome::Conflict,
            how: How::None,
            confidence: 0.0,
            edits: Vec::new(),
            differences: Vec::new(),
            needs: Some(needs.into()),
            enclosing: None,
            near: None,
            region: None,
            twins: Vec::new(),
        }
    }
}
