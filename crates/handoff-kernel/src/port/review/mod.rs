//! A person's part: a page that shows each doubtful hunk beside its source and its place, and the decisions made on it.

mod page;

use serde::{Deserialize, Serialize};

use super::conflict::as_text;
use super::file::{asked_line, edited};
use super::outcome::{Edit, How, HunkOutcome, Placement};
use super::source::Source;
use crate::patch::{FilePatch, Hunk, Patch, Series};

/// How many lines are shown on each side of what changes.
const AROUND: usize = 8;

/// What a person said of the hunks of a series.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decisions {
    /// The decisions, at most one for each hunk.
    pub decisions: Vec<Decision>,
}

/// What a person said of one hunk. It holds for these lines of the tree only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The subject of the patch.
    pub subject: String,
    /// The file as the patch names it.
    pub file: String,
    /// The hunk as the patch has it.
    pub hunk: String,
    /// What to do.
    pub choice: Choice,
    /// The line of the tree (from 1) at which `was` starts.
    pub line: usize,
    /// The lines of the tree that were looked at.
    pub was: Vec<String>,
    /// What they become. A hunk that is refused needs none; one that is accepted is placed as it is without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub becomes: Option<Vec<String>>,
}

/// What a person can say of a hunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// It stands in the right place.
    Accept,
    /// It does not; it goes into a `.rej` file.
    Refuse,
    /// The lines become something else.
    Edit,
}

/// Lines of a file and where they start, from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Passage {
    /// The number of the first line.
    pub line: usize,
    /// The lines.
    pub lines: Vec<String>,
}

impl Passage {
    fn of(source: &Source, from: usize, to: usize) -> Self {
        let all = source.all_lines();
        let to = to.min(all.len());
        let from = from.min(to);
        Self { line: from + 1, lines: all[from..to].to_vec() }
    }
}

/// What there is to see of a hunk that a person should judge.
#[derive(Clone, Debug)]
pub struct HunkView {
    /// The hunk as the patch has it.
    pub hunk: String,
    /// The lines that it was made for, with those around them, where that file is at hand.
    pub source: Option<Passage>,
    /// The lines of the tree at which it belongs, or probably does.
    pub tree: Passage,
    /// The changes that were made to them; `None` if it has no place.
    pub edits: Option<Vec<Edit>>,
}

impl HunkView {
    /// A view of a hunk that is not certain; `None` for one that is.
    pub(super) fn new(
        hunk: &Hunk,
        placement: &Placement,
        source: &Source,
        base: Option<&Source>,
        asked: usize,
    ) -> Option<Self> {
        let placed = match placement.outcome {
            HunkOutcome::Applied | HunkOutcome::Moved => return None,
            HunkOutcome::Present if placement.confidence >= 1.0 => return None,
            HunkOutcome::Conflict => false,
            HunkOutcome::Present | HunkOutcome::Fuzzy => true,
        };
        let near = placement.near.unwrap_or(asked).max(1) - 1;
        let (from, to) = match (&placement.edits[..], placement.region) {
            ([first, .., last], _) => (first.line - 1, last.line - 1 + last.removed),
            ([edit], _) => (edit.line - 1, edit.line - 1 + edit.removed),
            ([], Some(region)) => region.rows,
            ([], None) => (near, near + 1),
        };
        let start = hunk.old_start.saturating_sub(1);
        let end = start + hunk.before().count();
        Some(Self {
            hunk: as_text(hunk),
            source: base.map(|base| Passage::of(base, start.saturating_sub(AROUND), end + AROUND)),
            tree: Passage::of(source, from.saturating_sub(AROUND), to + AROUND),
            edits: placed.then(|| placement.edits.clone()),
        })
    }

    /// What the tree's lines become.
    pub(super) fn becomes(&self) -> Option<Vec<String>> {
        let shifted: Vec<Edit> = self
            .edits
            .as_ref()?
            .iter()
            .map(|edit| Edit { line: edit.line + 1 - self.tree.line, ..edit.clone() })
            .collect();
        Some(edited(&self.tree.lines, &shifted.iter().collect::<Vec<_>>()))
    }
}

/// The decisions on the hunks of one file's part of a patch.
pub(super) fn on<'a>(decisions: &'a [Decision], file: &FilePatch, patch: &Patch) -> Vec<&'a Decision> {
    let path = file.path().as_str();
    decisions.iter().filter(|one| one.file == path && one.subject == patch.subject).collect()
}

/// Does with a placement what was decided on its hunk; says so if the decision was made on other lines.
pub(super) fn decide(
    decisions: &[&Decision],
    hunk: &Hunk,
    placement: &mut Placement,
    source: &Source,
) -> Option<String> {
    let own = as_text(hunk);
    let decision = decisions.iter().find(|one| one.hunk == own)?;
    let asked = asked_line(hunk);
    let Some(at) = place_of(decision, source) else {
        return Some(
            "the decision on it was made on lines that are not here as they were: look at it again"
                .to_owned(),
        );
    };
    if decision.choice == Choice::Refuse {
        *placement = Placement::conflict("it was refused in the review");
        return None;
    }
    match &decision.becomes {
        Some(becomes) => {
            let same = HunkView::new(hunk, placement, source, None, asked)
                .is_some_and(|view| view.tree.line == at + 1 && view.becomes().as_ref() == Some(becomes));
            if !same {
                placement.edits = difference(&decision.was, becomes, at).into_iter().collect();
            }
        }
        // A decision that was typed by hand.
        None => {
            let looked_at = at + 1..=at + decision.was.len() + 1;
            let lies_there = |edit: &Edit| {
                looked_at.contains(&edit.line) && looked_at.contains(&(edit.line + edit.removed))
            };
            if decision.choice == Choice::Edit
                || placement.outcome == HunkOutcome::Conflict
                || !placement.edits.iter().all(lies_there)
            {
                return Some("the decision on it does not say what the lines become".to_owned());
            }
        }
    }
    placement.outcome = match placement.edits.first() {
        None => HunkOutcome::Present,
        Some(edit) if edit.line == asked => HunkOutcome::Applied,
        Some(_) => HunkOutcome::Moved,
    };
    let word = if decision.choice == Choice::Edit { "edited" } else { "accepted" };
    (placement.how, placement.confidence) = (How::Person, 1.0);
    (placement.needs, placement.region) = (None, None);
    placement.near.get_or_insert(at + 1);
    placement.differences.push(format!("it was {word} in the review"));
    None
}

/// The decisions that are on no hunk of a series: it was changed since, or a decision was mistyped.
pub fn without_hunk<'a>(decisions: &'a [Decision], series: &Series) -> Vec<&'a Decision> {
    let files = || series.patches.iter().flat_map(|patch| patch.files.iter().map(move |file| (patch, file)));
    let mut left: Vec<&Decision> = decisions.iter().collect();
    for (patch, file) in files() {
        let hunks: Vec<String> = file.hunks.iter().map(as_text).collect();
        left.retain(|one| {
            one.file != file.path().as_str() || one.subject != patch.subject || !hunks.contains(&one.hunk)
        });
    }
    left
}

/// Where the lines that a decision was made on stand: where they stood, or else in one place only.
fn place_of(decision: &Decision, source: &Source) -> Option<usize> {
    let all = source.all_lines();
    // The file may have been written by hand, with any number in it.
    let stands = |at: usize| {
        let end = at.checked_add(decision.was.len());
        end.and_then(|end| all.get(at..end)).is_some_and(|lines| *lines == decision.was[..])
    };
    let asked = decision.line.checked_sub(1)?;
    if stands(asked) {
        return Some(asked);
    }
    let mut places = (0..all.len()).filter(|&at| !decision.was.is_empty() && stands(at));
    let place = places.next()?;
    places.next().is_none().then_some(place)
}

/// The stretch in which lines differ, as a change of the lines at `at` (from 0).
fn difference(was: &[String], becomes: &[String], at: usize) -> Option<Edit> {
    let head = was.iter().zip(becomes).take_while(|(a, b)| a == b).count();
    let room = was.len().min(becomes.len()) - head;
    let tail = was.iter().rev().zip(becomes.iter().rev()).take(room).take_while(|(a, b)| a == b).count();
    let (removed, added) = (was.len() - tail - head, &becomes[head..becomes.len() - tail]);
    (removed > 0 || !added.is_empty()).then(|| Edit { line: at + head + 1, removed, added: added.to_vec() })
}
