//! What holds a change in its place: the aligned lines around it, and how far each can be trusted.

mod insertion;
mod replacement;
mod strength;

use std::collections::BTreeMap;

use crate::document::counted;
use strength::strengths;

use super::align::Alignment;
use super::outcome::{Edit, Region};
use super::rename::Renames;
use super::scope::{column, is_label};
use super::source::Source;
use super::wanted::{Group, Wanted};

/// The white space at the start of a line.
fn lead(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// A run of aligned lines that says less than this holds nothing.
const TRUST: f64 = 0.33;

/// Where a group of changed lines goes.
#[derive(Debug)]
pub(super) struct AnchoredEdit {
    pub edit: Edit,
    /// The expected line that it stands at: lines that repeat may shift an insertion.
    pub index: usize,
    pub confidence: f64,
    /// How much the lines that hold it say.
    pub support: f64,
    pub notes: Vec<String>,
}

/// The aligned lines around the changes of a hunk.
pub(super) struct Anchors<'a> {
    wanted: &'a Wanted,
    source: &'a Source,
    map: &'a [Option<(usize, f64)>],
    /// For each expected line, what the run of neighbours that it was found with says.
    strength: Vec<f64>,
    renames: Renames,
}

impl<'a> Anchors<'a> {
    pub(super) fn new(wanted: &'a Wanted, source: &'a Source, alignment: &'a Alignment) -> Self {
        let map = alignment.map.as_slice();
        let strength = strengths(wanted, source, map);
        let renames = Renames::new(wanted, source, map);
        Self { wanted, source, map, strength, renames }
    }

    /// The line (from 1) at which the first change probably belongs.
    pub(super) fn near(&self) -> Option<usize> {
        let at = self.wanted.groups.first()?.at;
        let distance = |index: usize| index.abs_diff(at);
        (0..self.map.len())
            .filter(|&index| self.map[index].is_some() && self.strength[index] >= TRUST)
            .min_by_key(|&index| distance(index))
            .and_then(|index| self.map[index].map(|(line, _)| (line + at + 1).saturating_sub(index).max(1)))
            .map(|line| line.min(self.source.text.len()))
    }

    /// The lines of the tree between those around the changes that can be trusted.
    pub(super) fn region(&self) -> Option<Region> {
        /// More lines than this in addition are no place any more.
        const MORE: usize = 30;
        let first = self.wanted.groups.first()?.at;
        let end = self.wanted.groups.last().map(|group| group.at + group.removed)?;
        let found = |index: usize| self.line_of(index).map(|row| (index, row));
        let up = (0..first).rev().find_map(found);
        let down = (end..self.map.len()).find_map(found);
        let length = self.source.text.len();
        let (rows, expected) = match (up, down) {
            (Some((above, up)), Some((below, down))) if up < down && down - up <= below - above + MORE => {
                ((up + 1, down), (above + 1, below))
            }
            (Some((above, up)), None) => ((up + 1, (up + end - above).min(length)), (above + 1, end)),
            (None, Some((below, down))) => ((down.saturating_sub(below - first), down), (first, below)),
            _ => return None,
        };
        Some(Region { rows, expected: Some(expected) })
    }

    /// How the lines that are only context differ.
    pub(super) fn differences(&self) -> Vec<String> {
        let mut out = Vec::new();
        let removed = |index: usize| {
            self.wanted.groups.iter().any(|group| (group.at..group.at + group.removed).contains(&index))
        };
        for (index, wanted) in self.wanted.expected.iter().enumerate() {
            if removed(index) || wanted.line.is_bare() {
                continue;
            }
            match self.map[index] {
                None => out.push(format!("context line `{}` is not here", wanted.text.trim())),
                Some((line, alike)) if alike < 1.0 => out.push(format!(
                    "context line `{}` is `{}` here",
                    wanted.text.trim(),
                    self.source.text[line].trim()
                )),
                Some(_) => {}
            }
        }
        let mut extra = 0;
        let mut last: Option<usize> = None;
        for &(line, _) in self.map.iter().flatten() {
            if let Some(last) = last {
                extra += (last + 1..line).filter(|&between| !self.source.lines[between].is_blank()).count();
            }
            last = Some(line);
        }
        if extra > 0 {
            out.push(format!("{} more between its lines here", counted(extra, "line")));
        }
        out
    }

    /// How much of what the found lines say is said by lines that are the same word for word.
    pub(super) fn exact_share(&self) -> f64 {
        let (mut exact, mut all) = (0.0, 0.0);
        for (expected, pair) in self.wanted.expected.iter().zip(self.map) {
            if let Some((_, alike)) = pair {
                all += expected.line.weight();
                exact += if *alike >= 1.0 { expected.line.weight() } else { 0.0 };
            }
        }
        if all > 0.0 { exact / all } else { 0.0 }
    }

    /// The place of a group, or what it needs.
    pub(super) fn spot(&self, group: usize) -> Result<AnchoredEdit, String> {
        let group = &self.wanted.groups[group];
        if group.removed == 0 { self.insertion(group) } else { self.replacement(group) }
    }

    fn trusted(&self, index: usize) -> bool {
        self.map[index].is_some() && self.strength[index] >= TRUST
    }

    fn line_of(&self, index: usize) -> Option<usize> {
        self.trusted(index).then(|| self.map[index].map(|(line, _)| line)).flatten()
    }

    /// Brings added lines to the tree's depth of indentation and names.
    fn adapt(
        &self,
        group: &Group,
        added: Vec<String>,
        notes: &mut Vec<String>,
        confidence: &mut f64,
    ) -> Vec<String> {
        let mut added = added;
        // What stands in the first column stands there at any depth: a definition, a declaration.
        let first_column = |line: &String| {
            line.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '}')) && !is_label(line)
        };
        let spaces = self.white_space();
        let others: Vec<usize> =
            (0..added.len()).filter(|&line| spaces.contains_key(lead(&added[line]))).collect();
        if !others.is_empty() {
            notes
                .push("white space at the start of lines differs; the added lines got the tree's".to_owned());
            *confidence = confidence.min(0.8);
            for line in others {
                let text = added[line].trim_start();
                added[line] = format!("{}{text}", spaces[lead(&added[line])]);
            }
        }
        let deeper = self.indentation(group).filter(|_| spaces.is_empty() && !added.iter().any(first_column));
        if let Some(deeper) = deeper {
            notes.push(format!("indented by {deeper:+} tabs"));
            *confidence = confidence.min(0.8);
            for line in &mut added {
                if line.trim().is_empty() || line.starts_with('#') {
                    continue;
                }
                if deeper > 0 {
                    line.insert_str(0, &"\t".repeat(deeper.unsigned_abs()));
                } else {
                    let tabs = line.bytes().take_while(|&b| b == b'\t').count().min(deeper.unsigned_abs());
                    line.drain(..tabs);
                }
            }
        }
        let at = self.near().map_or(0, |line| line - 1);
        for note in self.renames.apply(&mut added, self.source, at) {
            notes.push(note);
            *confidence = confidence.min(0.7);
        }
        added
    }

    /// Spaces at the start of the hunk's lines where the tree has tabs, up to the same column: a mail program made them.
    fn white_space(&self) -> BTreeMap<&str, &str> {
        let rows = self.wanted.expected.iter().zip(self.map);
        let same = rows.filter_map(|(expected, pair)| {
            Some((lead(&expected.text), pair.filter(|pair| pair.1 >= 1.0)?.0))
        });
        same.map(|(was, row)| (was, lead(&self.source.text[row])))
            .filter(|(was, is)| column(was) == column(is) && !was.contains('\t') && is.contains('\t'))
            .collect()
    }

    /// How many tabs deeper the tree has the lines around the change, if all agree.
    fn indentation(&self, group: &Group) -> Option<isize> {
        let tabs = |text: &str| text.bytes().take_while(|&b| b == b'\t').count().cast_signed();
        let telling = |index: &usize| {
            self.map[*index].is_some_and(|(_, alike)| alike >= 1.0)
                && !self.wanted.expected[*index].line.is_bare()
        };
        // The lines that are replaced, or the nearest ones on both sides.
        let replaced = group.at..group.at + group.removed;
        let above = (0..group.at).rev().find(telling);
        let below = (replaced.end..self.map.len()).find(telling);
        let mut deeper = None;
        for index in replaced.filter(telling).chain(above).chain(below) {
            let Some((line, _)) = self.map[index] else { continue };
            let difference = tabs(&self.source.text[line]) - tabs(&self.wanted.expected[index].text);
            if *deeper.get_or_insert(difference) != difference {
                return None;
            }
        }
        deeper.filter(|&difference| difference != 0)
    }
}
