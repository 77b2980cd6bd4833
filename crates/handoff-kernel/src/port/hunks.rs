//! The hunks of one file together: each is placed, and then all are checked against each other.

use super::braces;
use super::exact::{occurrences, stands_at};
use super::outcome::{Edit, How, HunkOutcome, Placement, Region};
use super::place::{has_little_context, is_end, place, place_at, place_unless_present, whole};
use super::scope::{Language, ScopeKind, Scopes};
use super::source::Source;
use super::structure;
use super::wanted::Wanted;
use super::{git, heading};
use crate::patch::{FilePatch, Hunk, Op, PatchPath};

/// How many lines of the file that a patch was made for are used as context on each side.
const WIDE: usize = 12;

/// Places the hunks of a file; what cannot be right together is in conflict.
pub(super) fn place_all(
    file: &FilePatch,
    source: &Source,
    path: &PatchPath,
    base: Option<&Source>,
    confidence: f64,
) -> Vec<Placement> {
    if let Some(mut placements) = as_it_stands(file, source, path) {
        if source.language == Language::C {
            check_definitions(file, &mut placements, source);
        }
        return placements;
    }
    let mut drift = 0isize;
    let mut nears = Vec::new();
    let mut placements: Vec<Placement> = Vec::new();
    for (number, hunk) in file.hunks.iter().enumerate() {
        let wanted = wanted_of(file, number, source, path);
        let near = wanted.asked.saturating_add_signed(drift);
        let mut placement = place(&wanted, source, near);
        let sure =
            matches!(placement.outcome, HunkOutcome::Applied | HunkOutcome::Moved | HunkOutcome::Present);
        if !sure && let Some(base) = base {
            placement = with_base(hunk, base, source, path, &placement, drift);
        }
        if let (Some(edit), true) = (placement.edits.first(), placement.confidence > 0.7) {
            drift = edit.line.cast_signed() - 1 - wanted.asked_change().cast_signed();
        }
        // What is there already has its own lines in the tree, and moves what comes behind it.
        if let (HunkOutcome::Present, Some(line), true) =
            (placement.outcome, placement.near, placement.confidence > 0.7)
        {
            drift = line.cast_signed() - 1 - wanted.asked_change().cast_signed();
            drift += hunk.added().cast_signed() - hunk.removed().cast_signed();
        }
        nears.push(near);
        placements.push(placement);
    }
    tell_twins_apart(file, &mut placements, source, path);
    check_together(&mut placements);
    for placement in &mut placements {
        if placement.outcome == HunkOutcome::Fuzzy && placement.confidence < confidence {
            let needs = format!("its confidence, {:.2}, is below what is asked for", placement.confidence);
            demote(placement, needs);
        }
    }
    check_moves(file, &mut placements);
    if source.language == Language::C {
        check_structure(file, &mut placements, source, path, &nears);
        check_definitions(file, &mut placements, source);
    }
    placements
}

/// The hunks of a file that is the one the patch was made for, as far as they tell: each stands word for word at the line
/// that it names and below its heading, and the lines of one stand nowhere else. Then nothing else is looked for: the same
/// lines may stand in another place, too, and what the patch leaves is what its author left.
fn as_it_stands(file: &FilePatch, source: &Source, path: &PatchPath) -> Option<Vec<Placement>> {
    if !source.marked.is_empty() {
        return None;
    }
    let (mut is_sure, mut end) = (false, 0);
    let mut placements = Vec::with_capacity(file.hunks.len());
    for (number, hunk) in file.hunks.iter().enumerate() {
        let wanted = wanted_of(file, number, source, path);
        let (at, count) = (wanted.asked, wanted.expected.len());
        let lines = source.text.get(at..at + count).filter(|lines| !lines.is_empty())?;
        let stands = lines.iter().zip(&wanted.expected).all(|(line, expected)| *line == expected.text);
        let ends_otherwise =
            wanted.lacks_final_newline.is_some() || wanted.to_end && !is_end(&wanted, source, at);
        if !stands || ends_otherwise || at < end {
            return None;
        }
        end = at + count;
        if heading::agrees(source, at, &hunk.heading) == Some(false) || is_made_around(&wanted, source, at) {
            return None;
        }
        is_sure = is_sure || !has_little_context(&wanted) && occurrences(&wanted, source, at) == [at];
        placements.push(whole(&wanted, source, at));
    }
    is_sure.then_some(placements)
}

/// True if what the hunk makes stands where its old lines do: lines that repeat leave the old ones there, too.
fn is_made_around(wanted: &Wanted, source: &Source, at: usize) -> bool {
    let after: Vec<&str> = wanted.after.iter().map(String::as_str).collect();
    let reach = after.len().max(wanted.expected.len());
    !after.is_empty() && stands_at(&after, source).iter().any(|other| other.abs_diff(at) <= reach)
}

/// A hunk of the file, which ends the file only if no other follows, whatever its context looks like.
fn wanted_of(file: &FilePatch, number: usize, source: &Source, path: &PatchPath) -> Wanted {
    let mut wanted = Wanted::new(&file.hunks[number], source, path.as_str());
    wanted.to_end &= number + 1 == file.hunks.len();
    wanted
}

/// Places that are the same are told apart by the hunks above and below, which keep their order, and hunks
/// that are the same as each other by their own.
fn tell_twins_apart(file: &FilePatch, placements: &mut [Placement], source: &Source, path: &PatchPath) {
    let mut index = 0;
    while index < placements.len() {
        let same =
            placements[index..].iter().take_while(|other| other.twins == placements[index].twins).count();
        let run = index..index + same.max(1);
        let twins = placements[index].twins.clone();
        index = run.end;
        if twins.is_empty() {
            continue;
        }
        let fixed = |placement: &&Placement| placement.confidence > 0.7 && !placement.edits.is_empty();
        let above =
            placements[..run.start].iter().rev().find(fixed).and_then(|placement| placement.edits.last());
        let below = placements[run.end..].iter().find(fixed).and_then(|placement| placement.edits.first());
        let (low, high) = (above.map(|edit| edit.line + edit.removed), below.map(|edit| edit.line));
        let between =
            |at: &&usize| low.is_none_or(|low| **at + 1 >= low) && high.is_none_or(|high| **at < high);
        let left: Vec<usize> = twins.iter().filter(between).copied().collect();
        if left.len() != run.len() {
            continue;
        }
        for (at, number) in left.into_iter().zip(run) {
            let wanted = wanted_of(file, number, source, path);
            let why = "the same lines stand in other places; the hunks around it tell which is meant";
            placements[number] = place_at(&wanted, source, at, why);
        }
    }
}

/// With the file that the patch was made for: git's merge first, then the locator with more context.
fn with_base(
    hunk: &Hunk,
    base: &Source,
    source: &Source,
    path: &PatchPath,
    first: &Placement,
    drift: isize,
) -> Placement {
    if let Some(merged) = git::merge(hunk, base, source) {
        return merged;
    }
    let wide = git::widen(hunk, base, WIDE);
    let wanted = Wanted::new(&wide, source, path.as_str());
    let placed = place(&wanted, source, wanted.asked.saturating_add_signed(drift));
    // A definition that the patch's own tree has beside the changed one is not that one renamed.
    let leading = hunk.lines.iter().take_while(|line| line.op == Op::Context).count();
    let row = hunk.old_start.saturating_sub(1) + leading;
    let around = [Some(row), row.checked_sub(1)].map(|row| row.and_then(|row| base.scopes.at(row)));
    let is_around = |name: &str| {
        let inside =
            |one: &str, other: &str| one.strip_prefix(other).is_some_and(|rest| rest.starts_with('.'));
        let mut names = around.iter().flatten().map(|scope| scope.name.as_str());
        names.any(|own| own == name || inside(own, name) || inside(name, own))
    };
    let twin = |placement: &Placement| {
        let here = placement.enclosing.as_ref().filter(|_| placement.outcome == HunkOutcome::Fuzzy);
        here.is_some_and(|here| !is_around(&here.name) && !base.scopes.named(&here.name).is_empty())
    };
    if twin(first) || twin(&placed) {
        let mut placement = first.clone();
        demote(&mut placement, "the definition is not here, only another one with the same lines");
        return placement;
    }
    let is_better = first.outcome == HunkOutcome::Conflict || placed.confidence > first.confidence;
    if placed.outcome == HunkOutcome::Conflict || !is_better {
        return first.clone();
    }
    placed
}

/// What seems to be there already may be what another hunk takes away from there.
fn check_moves(file: &FilePatch, placements: &mut [Placement]) {
    let lines = |hunk: &Hunk, op: Op| -> Vec<String> {
        let changed = hunk.lines.iter().filter(|line| line.op == op);
        changed.map(|line| line.text.trim().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    let removed: Vec<Vec<String>> = file.hunks.iter().map(|hunk| lines(hunk, Op::Remove)).collect();
    for index in 0..placements.len() {
        if placements[index].outcome != HunkOutcome::Present || placements[index].how != How::Alignment {
            continue;
        }
        let added = lines(&file.hunks[index], Op::Add);
        let takes = |other: usize| {
            other != index
                && placements[other].outcome != HunkOutcome::Present
                && removed[other].windows(added.len().max(1)).any(|run| run == added)
        };
        if let Some(other) = (0..placements.len()).find(|&other| takes(other)) {
            let needs = format!("what it adds stands here already, but hunk {} takes it away", other + 1);
            demote(&mut placements[index], needs);
        }
    }
}

/// A function that is defined twice in a file, outside of all conditionals, does not compile, whatever its lines are.
fn check_definitions(file: &FilePatch, placements: &mut [Placement], source: &Source) {
    let is_taken_away = |name: &str| {
        let mut lines = file.hunks.iter().flat_map(|hunk| &hunk.lines);
        lines.any(|line| line.op == Op::Remove && line.text.contains(name))
    };
    let is_outside =
        |lines: &[String], row: usize| structure::conditionals_open(&lines[..row.min(lines.len())]) == 0;
    let function_here = |name: &str| {
        let mut here = source.scopes.named(name).iter().map(|&index| &source.scopes.all[index]);
        here.find(|here| here.kind == ScopeKind::Function && is_outside(&source.text, here.start))
    };
    let second = |edit: &Edit| {
        // They may begin inside of a comment.
        let defined = Scopes::of_hunk(&edit.added, "", Language::C).all;
        let mut functions = defined.into_iter().filter(|scope| {
            scope.kind == ScopeKind::Function
                && !scope.name.is_empty()
                && is_outside(&edit.added, scope.start)
                && !is_taken_away(&scope.name)
        });
        let (name, first) = functions
            .find_map(|scope| function_here(&scope.name).map(|here| (scope.name, here.start + 1)))?;
        let is_plain = is_outside(&edit.added, edit.added.len()) && is_outside(&source.text, edit.line - 1);
        is_plain.then_some((name, first))
    };
    for placement in placements.iter_mut().filter(|placement| placement.outcome != HunkOutcome::Present) {
        if let Some((name, line)) = placement.edits.iter().find_map(second) {
            demote(placement, format!("it defines `{name}`, which is defined here already (line {line})"));
        }
    }
}

/// Makes a conflict of a placement; its lines are those of the conflict.
fn demote(placement: &mut Placement, needs: impl Into<String>) {
    placement.near = placement.edits.first().map(|edit| edit.line);
    placement.region = placement
        .edits
        .first()
        .zip(placement.edits.last())
        .map(|(first, last)| Region { rows: (first.line - 1, last.line - 1 + last.removed), expected: None });
    placement.outcome = HunkOutcome::Conflict;
    placement.how = How::None;
    placement.confidence = 0.0;
    placement.edits.clear();
    placement.needs = Some(needs.into());
}

/// Hunks that would change the same lines cannot both be right.
pub(super) fn check_together(placements: &mut [Placement]) {
    let mut spans: Vec<(usize, usize, usize)> = placements
        .iter()
        .enumerate()
        .flat_map(|(index, placement)| {
            placement.edits.iter().map(move |edit| (edit.line, edit.line + edit.removed, index))
        })
        .collect();
    spans.sort_unstable();
    let mut last: Option<(usize, usize)> = None;
    for (line, end, index) in spans {
        if placements[index].edits.is_empty() {
            continue;
        }
        if let Some((until, other)) = last
            && line < until
            && other != index
        {
            let weaker =
                if placements[index].confidence <= placements[other].confidence { index } else { other };
            demote(&mut placements[weaker], "another hunk changes the same lines");
            if weaker == index {
                continue;
            }
        }
        last = match last {
            Some((until, other)) if until > end && !placements[other].edits.is_empty() => {
                Some((until, other))
            }
            _ => Some((end, index)),
        };
    }
    // Inside of one definition the hunks keep their order.
    for index in 1..placements.len() {
        let above = index - 1;
        let same = placements[index].enclosing.is_some()
            && placements[index].enclosing == placements[above].enclosing;
        if same
            && let (Some(a), Some(b)) = (placements[above].edits.first(), placements[index].edits.first())
            && a.line > b.line
        {
            let weaker =
                if placements[index].confidence <= placements[above].confidence { index } else { above };
            demote(&mut placements[weaker], "the hunks would change their order inside one definition");
        }
    }
}

/// The file's conditionals and braces must be closed after the change as they were before.
fn check_structure(
    file: &FilePatch,
    placements: &mut [Placement],
    source: &Source,
    path: &PatchPath,
    nears: &[usize],
) {
    for (hunk, placement) in file.hunks.iter().zip(&mut *placements) {
        if placement.outcome == HunkOutcome::Fuzzy && structure::parted_otherwise(hunk, placement, source) {
            demote(placement, "other `#else` or `#endif` lines stand between its changes here");
        } else if let Some(needs) = braces::misplaced(hunk, placement, source) {
            demote(placement, needs);
        }
    }
    // What seems to be there already may be something else that looks alike: a lone `#endif`, a brace.
    for (index, _) in structure::unbalanced(file, placements, source) {
        if placements[index].outcome == HunkOutcome::Present {
            let wanted = wanted_of(file, index, source, path);
            placements[index] = place_unless_present(&wanted, source, nears[index]);
        }
    }
    check_together(placements);
    for (index, needs) in structure::unbalanced(file, placements, source) {
        demote(&mut placements[index], needs);
    }
    let directives =
        file.hunks.iter().zip(&*placements).any(|(hunk, placement)| {
            structure::has_directive(hunk) && placement.outcome != HunkOutcome::Present
        });
    let open = file.hunks.iter().zip(&*placements).any(|(hunk, placement)| {
        structure::has_directive(hunk) && placement.outcome == HunkOutcome::Conflict
    });
    if !directives || open || !structure::keeps_conditions(file) {
        return;
    }
    let mut edits: Vec<_> = placements.iter().flat_map(|placement| &placement.edits).collect();
    edits.sort_by_key(|edit| (edit.line, edit.removed));
    let after = super::file::edited(&source.text, &edits);
    let before = structure::mistakes(source.text.iter().map(String::as_str));
    if structure::mistakes(after.iter().map(String::as_str)) <= before {
        return;
    }
    for (hunk, placement) in file.hunks.iter().zip(placements) {
        if structure::has_directive(hunk) && placement.outcome != HunkOutcome::Conflict {
            demote(placement, "the file's `#if`, `#else` and `#endif` would not match each other any more");
        }
    }
}
