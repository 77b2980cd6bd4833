//! Entries that a patch adds as the first or the last of a file: change logs, lists of tests, tables of a manual.
//!
//! The entries beside them are other ones in each line of a project, so that the lines of the hunk say little of the
//! place. That it is the file's beginning or end says it.

use super::outcome::{Edit, How, Outcome, Placement};
use super::place::whole;
use super::source::Source;
use super::wanted::Wanted;
use super::words::Line;

/// Whole entries that were added at the end of a file go there where its last line is the same.
pub(super) fn at_end(wanted: &Wanted, source: &Source) -> Option<Placement> {
    let last = source.lines.iter().rposition(|line| !line.is_blank())?;
    let expected = wanted.expected.iter().rev().find(|line| !line.line.is_blank())?;
    let why = "only the last line of the file is as expected; it was added behind it";
    (source.text[last] == expected.text).then(|| appended(wanted, source, why)).flatten()
}

/// Whole entries that were added at the end of a file go there, too, where what they were added behind is followed by
/// others.
pub(super) fn behind_all(wanted: &Wanted, source: &Source) -> Option<Placement> {
    appended(wanted, source, "other lines follow here; the added ones went to the end of the file")
}

fn appended(wanted: &Wanted, source: &Source, why: &str) -> Option<Placement> {
    let [group] = &wanted.groups[..] else { return None };
    let appended = group.removed == 0 && group.at == wanted.expected.len();
    let starts = group.added.iter().find(|line| !line.trim().is_empty())?;
    if !appended || starts.starts_with([' ', '\t']) {
        return None;
    }
    Some(added(wanted, source, stands_at(&group.added, source), source.text.len() + 1, why))
}

/// The one group of added lines put in front of line `line`, unless it stands at `there` already.
fn added(wanted: &Wanted, source: &Source, there: Option<usize>, line: usize, why: &str) -> Placement {
    let mut placement = whole(wanted, source, 0);
    placement.how = How::Alignment;
    placement.confidence = 0.6;
    placement.enclosing = None;
    if there.is_some() {
        placement.outcome = Outcome::Present;
        placement.near = there;
        placement.edits.clear();
        placement.differences.push("what is added stands here already, with another neighbour".to_owned());
    } else {
        placement.outcome = Outcome::Fuzzy;
        let added = wanted.groups.iter().flat_map(|group| group.added.iter().cloned()).collect();
        placement.edits = vec![Edit { line, removed: 0, added }];
        placement.differences.push(why.to_owned());
    }
    placement
}

/// An entry that was added in front of all others goes there where the file begins with one of its kind.
pub(super) fn at_start(wanted: &Wanted, source: &Source) -> Option<Placement> {
    let [group] = &wanted.groups[..] else { return None };
    let first = source.text.iter().find(|line| !line.trim().is_empty())?;
    let starts = group.added.iter().find(|line| !line.trim().is_empty())?;
    if !wanted.begins_file() || !is_alike(starts, first) {
        return None;
    }
    let expected = wanted.expected.first().map_or("", |line| &line.text);
    let begins = format!("the file begins with `{}` here, not with `{}`", first.trim(), expected.trim());
    let there = stands_at(&group.added, source);
    let mut placement = added(wanted, source, there, 1, "it was added at the beginning");
    let last = placement.differences.len() - 1;
    placement.differences.insert(last, begins);
    Some(placement)
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
