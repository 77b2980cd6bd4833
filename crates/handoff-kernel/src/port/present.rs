//! Whether a change is there already: all of it, or lines beside where they would be added.

use super::align::compatible;
use super::exact::stands_at;
use super::heading;
use super::outcome::{Edit, HunkOutcome, Placement};
use super::place::whole;
use super::source::Source;
use super::wanted::Wanted;
use super::words::Line;

/// The change may have been made already.
pub(super) fn already_there(wanted: &Wanted, source: &Source, near: usize) -> Option<Placement> {
    let telling: f64 =
        wanted.groups.iter().flat_map(|group| &group.added).map(|line| Line::new(line).says()).sum();
    if wanted.after.is_empty() || wanted.after.len() > source.text.len() || telling < 0.4 {
        return None;
    }
    // Text may be the same, and its last line still lack its end, or have one.
    let ends = |at: usize| {
        let last = at + wanted.after.len() == source.text.len();
        !last || wanted.lacks_final_newline.is_none_or(|lacks| lacks == source.no_final_newline)
    };
    let after: Vec<&str> = wanted.after.iter().map(String::as_str).collect();
    let mut places = stands_at(&after, source);
    places.retain(|&at| ends(at));
    places.sort_by_key(|at| at.abs_diff(near));
    // The first expected line keeps its place in both versions unless it is changed itself.
    let first = wanted.expected.iter().position(|line| !line.line.is_blank())?;
    let at = *places.iter().find(|&&at| {
        heading::agrees(source, at, &wanted.heading) == Some(true)
            || (wanted.groups.first().is_some_and(|group| group.at <= first)
                || compatible(&wanted.expected[first].label, source, at + first).is_some())
                && kept_lines(wanted).all(|(index, after)| {
                    wanted.expected[index].line.is_blank()
                        || compatible(&wanted.expected[index].label, source, at + after).is_some()
                })
    })?;
    let mut placement = whole(wanted, source, at);
    placement.outcome = HunkOutcome::Present;
    placement.edits.clear();
    placement.near = Some(at + wanted.groups.first().map_or(0, |group| group.at) + 1);
    Some(placement)
}

/// The lines stand here without the change and, at this or another place, with it.
///
/// Lines that repeat, such as the end of an error path, look like the place of a change that was made already a few
/// lines above: without the neighbourhood that the hunk names, neither is certain.
pub(super) fn either(
    wanted: &Wanted,
    near: usize,
    mut placement: Placement,
    mut present: Placement,
) -> Placement {
    let (Some(without), Some(with)) = (placement.edits.first().map(|edit| edit.line), present.near) else {
        return placement;
    };
    // At the edge of a hunk, its lines stand there before and after the change.
    if with == without {
        return present;
    }
    // `near` is where the hunk's first line belongs, from 0.
    let belongs = near + wanted.groups.first().map_or(0, |group| group.at) + 1;
    if without == belongs || placement.outcome == HunkOutcome::Conflict {
        return placement;
    }
    if with.abs_diff(belongs) <= without.abs_diff(belongs) {
        present.confidence = 0.9;
        present.differences.push(format!("the lines without the change stand here, too, at line {without}"));
        return present;
    }
    placement.outcome = HunkOutcome::Fuzzy;
    placement.confidence = placement.confidence.min(0.8);
    placement.differences.push(format!("the lines with the change stand here already, at line {with}"));
    placement
}

/// The expected lines that the change keeps, and their numbers among the lines after it.
pub(super) fn kept_lines(wanted: &Wanted) -> impl Iterator<Item = (usize, usize)> + '_ {
    let shift = |index: usize| -> Option<usize> {
        let mut after = index;
        for group in wanted.groups.iter().take_while(|group| group.at <= index) {
            if index < group.at + group.removed {
                return None;
            }
            after = after + group.added.len() - group.removed;
        }
        Some(after)
    };
    (0..wanted.expected.len()).filter_map(move |index| Some((index, shift(index)?)))
}

/// Where lines that are to be added stand already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    /// Above or below their place, where the hunk keeps no line in between.
    Adjacent,
    /// Beyond a line that the hunk keeps: they may be those that another hunk moves.
    Apart,
}

/// Whether the lines that are added stand above or below already, and say what they are.
///
/// A single line has to stand beside its place; several may have up to a few lines in between.
pub(super) fn stands_beside(edit: &Edit, source: &Source, going: &[usize], kept: &[usize]) -> Option<Beside> {
    const REACH: usize = 12;
    let added: Vec<Line> =
        edit.added.iter().map(|line| Line::new(line)).filter(|line| !line.is_blank()).collect();
    if edit.removed > 0 || added.iter().map(Line::says).sum::<f64>() < 0.5 {
        return None;
    }
    let blank = |row: &usize| source.lines[*row].is_blank() || going.contains(row);
    let at = (edit.line - 1).min(source.lines.len());
    let reach = if added.len() < 3 { 0 } else { REACH };
    let above: Vec<usize> =
        (0..at).rev().filter(|row| !blank(row)).take(added.len() + reach).collect::<Vec<_>>();
    let below = (at..source.lines.len()).filter(|row| !blank(row)).take(added.len() + reach);
    let middle = above.len();
    let rows: Vec<usize> = above.into_iter().rev().chain(below).collect();
    let scope = |row: usize| source.scopes.of_line[row];
    let same = |run: &[usize]| {
        run.iter().zip(&added).all(|(&row, line)| source.lines[row].key == line.key)
            && run.iter().all(|&row| scope(row) == scope(run[0]))
            // A line beside its like: such a row is the hunk's own, and says nothing of the one that is added.
            && !run.iter().all(|row| kept.contains(row))
    };
    let found: Vec<usize> = (0..(rows.len() + 1).saturating_sub(added.len()))
        .filter(|&start| same(&rows[start..start + added.len()]))
        .collect();
    let touches = |start: &usize| {
        let end = start + added.len();
        let between = if *start > middle { &rows[middle..*start] } else { &rows[end.min(middle)..middle] };
        !between.iter().any(|row| kept.contains(row))
    };
    match found.iter().any(touches) {
        true => Some(Beside::Adjacent),
        false => (!found.is_empty()).then_some(Beside::Apart),
    }
}
