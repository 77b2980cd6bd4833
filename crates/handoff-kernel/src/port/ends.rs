//! Entries that a patch adds as the first or the last of a file, or of a list in order: change logs, lists of tests,
//! tables of a manual, headers.
//!
//! The entries beside them are other ones in each line of a project, so that the lines of the hunk say little of the
//! place. That it is the file's beginning or end says it.

use super::align::Expected;
use super::includes;
use super::outcome::{Edit, How, HunkOutcome, Placement};
use super::place::{ENOUGH, whole};
use super::scope::{Language, definition};
use super::source::Source;
use super::wanted::Wanted;
use super::words::Line;

/// So many lines of context a diff has where the file has them.
const FULL_CONTEXT: usize = 3;

/// What was added at the end of a file goes there where its last line is the same; whole entries also where no line
/// of the hunk is here.
pub(super) fn at_end(wanted: &Wanted, source: &Source) -> Option<Placement> {
    let last = source.lines.iter().rposition(|line| !line.is_blank())?;
    let expected = wanted.expected.iter().rev().find(|line| !line.line.is_blank())?;
    if source.text[last] == expected.text {
        let why = "only the last line of the file is as expected; it was added behind it";
        return appended(wanted, source, why);
    }
    let is_here = |line: &Expected| line.line.weight() >= 0.4 && source.count(&line.line) > 0;
    if source.language != Language::Indented
        || wanted.expected.len() < FULL_CONTEXT
        || !is_entry(wanted) && !is_in_last_class(wanted, source, last)
        || wanted.expected.iter().any(is_here)
    {
        return None;
    }
    let why = "no line around it is here; it was added at the end of the file, as the patch does";
    let mut placement = appended(wanted, source, why)?;
    placement.confidence = ENOUGH;
    Some(placement)
}

/// Whole entries that were added at the end of a file go there, too, where what they were added behind is followed by
/// others.
pub(super) fn behind_all(wanted: &Wanted, source: &Source) -> Option<Placement> {
    let why = "other lines follow here; the added ones went to the end of the file";
    is_entry(wanted).then(|| appended(wanted, source, why)).flatten()
}

/// True if the first added line starts in the first column: what is added is no part of what stands above it.
fn is_entry(wanted: &Wanted) -> bool {
    let first = wanted.groups.iter().flat_map(|group| &group.added).find(|line| !line.trim().is_empty());
    first.is_some_and(|line| !line.starts_with([' ', '\t']))
}

/// True if the first added line defines something inside of what the heading names, and that ends the file.
fn is_in_last_class(wanted: &Wanted, source: &Source, last: usize) -> bool {
    let first = wanted.groups.iter().flat_map(|group| &group.added).find(|line| !line.trim().is_empty());
    let name = |line: &str| definition(line).map(|(_, name)| name);
    let class = name(&wanted.heading);
    first.is_some_and(|line| name(line).is_some())
        && source.scopes.at(last).zip(class).is_some_and(|(scope, class)| {
            scope.name.strip_prefix(&class).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
}

fn appended(wanted: &Wanted, source: &Source, why: &str) -> Option<Placement> {
    let [group] = &wanted.groups[..] else { return None };
    let appended = group.removed == 0 && group.at == wanted.expected.len();
    let says = group.added.iter().any(|line| !line.trim().is_empty());
    (appended && says)
        .then(|| added(wanted, source, stands_at(&group.added, source), source.text.len() + 1, why))
}

/// Added `#include` lines go into the file's block of headers of their folder.
pub(super) fn among_headers(wanted: &Wanted, source: &Source) -> Option<Placement> {
    let [group] = &wanted.groups[..] else { return None };
    let row = includes::row(group, &wanted.expected, source)?;
    Some(added(wanted, source, None, row + 1, includes::WHY))
}

/// The one group of added lines put in front of line `line`, unless it stands at `there` already.
fn added(wanted: &Wanted, source: &Source, there: Option<usize>, line: usize, why: &str) -> Placement {
    let mut placement = whole(wanted, source, 0);
    placement.how = How::Alignment;
    placement.confidence = 0.6;
    placement.enclosing = None;
    if there.is_some() {
        placement.outcome = HunkOutcome::Present;
        placement.near = there;
        placement.edits.clear();
        placement.differences.push("what is added stands here already, with another neighbour".to_owned());
    } else {
        placement.outcome = HunkOutcome::Fuzzy;
        let added = wanted.groups.iter().flat_map(|group| group.added.iter().cloned()).collect();
        placement.edits = vec![Edit { line, removed: 0, added }];
        placement.differences.push(why.to_owned());
    }
    placement
}

/// An entry that was added in front of all others goes there where the file begins with one of its kind.
///
/// A release's own line may stand above that one here, indented: `--- 9.8.6 released ---`. What is added is for the
/// next release, so it goes above that line.
pub(super) fn at_start(wanted: &Wanted, source: &Source) -> Option<Placement> {
    const LINES_OF_A_RELEASE: usize = 4;
    let [group] = &wanted.groups[..] else { return None };
    let mut lines = source.text.iter().filter(|line| !line.trim().is_empty()).take(LINES_OF_A_RELEASE + 1);
    let starts = group.added.iter().find(|line| !line.trim().is_empty())?;
    let first = lines.next()?;
    let entry = if first.starts_with([' ', '\t']) {
        lines.find(|line| !line.starts_with([' ', '\t']))?
    } else {
        first
    };
    if !wanted.begins_file() || !is_alike(starts, entry) {
        return None;
    }
    let expected = wanted.expected.first().map_or("", |line| &line.text);
    if let Some(line) = in_front_of_older(starts, source) {
        let why = "it was sorted in among the versions that the file has";
        return Some(added(wanted, source, stands_at(&group.added, source), line, why));
    }
    let begins = format!("the file begins with `{}` here, not with `{}`", first.trim(), expected.trim());
    let there = stands_at(&group.added, source);
    let mut placement = added(wanted, source, there, 1, "it was added at the beginning");
    let last = placement.differences.len() - 1;
    placement.differences.insert(last, begins);
    Some(placement)
}

/// The line (from 1) of the first entry that is older than `entry`, where both begin with versions and those of the file
/// descend: `4965.`, `4949.`; `2023.08.2,`, `2023.02.6,`.
fn in_front_of_older(entry: &str, source: &Source) -> Option<usize> {
    let own = version(entry)?;
    let mut newer = 0;
    for (row, line) in source.text.iter().enumerate() {
        let Some(other) = version(line) else { continue };
        if other <= own {
            return (newer > 0 && other < own).then_some(row + 1);
        }
        newer += 1;
    }
    None
}

/// The numbers of the version with which a line begins.
fn version(line: &str) -> Option<Vec<u64>> {
    let word = line.split_whitespace().next().filter(|_| !line.starts_with([' ', '\t']))?;
    let word = word.trim_end_matches([',', ':']);
    let has_dots = word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let numbers = word.split('.').filter(|number| !number.is_empty()).map(|number| number.parse().ok());
    has_dots.then(|| numbers.collect::<Option<Vec<u64>>>()).flatten().filter(|numbers| !numbers.is_empty())
}

/// True if two lines begin with the same word, or with words of one kind that have a number: a date, a version.
fn is_alike(one: &str, other: &str) -> bool {
    let kind = |line: &str| -> Option<(String, bool)> {
        let word = line.split_whitespace().next().filter(|_| !line.starts_with([' ', '\t']))?;
        let mut kind = String::new();
        for c in word.chars() {
            let c = match c {
                c if c.is_ascii_digit() => '0',
                c if c.is_alphabetic() => 'a',
                c => c,
            };
            if !kind.ends_with(c) {
                kind.push(c);
            }
        }
        Some((kind, word.contains(|c: char| c.is_ascii_digit())))
    };
    let word = |line: &str| line.split_whitespace().next().map(str::to_owned);
    match (kind(one), kind(other)) {
        (Some(a), Some(b)) => word(one) == word(other) || a == b && a.1,
        _ => false,
    }
}

/// The line (from 1) at which these lines stand in the file, one below the other, blank ones left aside.
///
/// Lines that each stand in the file often, such as the end of every entry, are no proof that this one is there.
fn stands_at(added: &[String], source: &Source) -> Option<usize> {
    let added: Vec<Line> = added.iter().map(|line| Line::new(line)).filter(|line| !line.is_blank()).collect();
    if !added.iter().any(|line| line.says() >= 0.4 && source.count(line) == 1) {
        return None;
    }
    let rows: Vec<usize> = (0..source.lines.len()).filter(|row| !source.lines[*row].is_blank()).collect();
    let same = |run: &&[usize]| run.iter().zip(&added).all(|(row, line)| source.lines[*row].key == line.key);
    rows.windows(added.len().max(1)).find(same).map(|run| run[0] + 1)
}
