//! Where lines are removed, perhaps with others in their place.

use super::super::align::{ALIKE, Expected, Label};
use super::super::merge::three_way;
use super::super::outcome::Edit;
use super::super::wanted::Group;
use super::{AnchoredEdit, Anchors, TRUST};
use crate::document::counted;

/// Lines less alike than this do not stand for each other, wherever they are.
const STANDS_IN: f64 = 0.4;

impl Anchors<'_> {
    /// Lines that are removed, perhaps with others in their place.
    pub(super) fn replacement(&self, group: &Group) -> Result<AnchoredEdit, String> {
        let range = group.at..group.at + group.removed;
        let mut notes = Vec::new();
        let mut lines: Vec<usize> = Vec::new();
        let mut alike = 1.0f64;
        let mut held = 0.0f64;
        for index in range.clone() {
            let wanted = &self.wanted.expected[index];
            match self.map[index] {
                Some((line, similar)) => {
                    lines.push(line);
                    alike = alike.min(similar);
                    held = held.max(self.strength[index]);
                }
                None if wanted.line.is_blank() => {}
                None => {
                    if let Some(spot) = self.already_gone(group).or_else(|| self.stand_in(group)) {
                        return Ok(spot);
                    }
                    return Err(format!("the line to be removed is not here: `{}`", wanted.text.trim()));
                }
            }
        }
        if let Some(blank) = self.blank_above(group, &lines) {
            lines.insert(0, blank);
        }
        let (Some(&first), Some(&last)) = (lines.first(), lines.last()) else {
            return Err("the lines to be removed are not here".to_owned());
        };
        if held < TRUST {
            return Err("the lines to be removed say too little to be found".to_owned());
        }
        let between = (first..=last)
            .filter(|line| !lines.contains(line) && !self.source.lines[*line].is_blank())
            .count();
        if between > 0 {
            return Err(format!("{} more between those to be removed", counted(between, "line")));
        }
        let mut added = group.added.clone();
        let mut confidence = 0.95;
        let exact = range.clone().all(|index| {
            self.map[index].is_none_or(|(line, _)| self.source.text[line] == self.wanted.expected[index].text)
        });
        if !exact {
            let base: Vec<&str> =
                range.clone().map(|index| self.wanted.expected[index].text.as_str()).collect();
            let ours: Vec<&str> = self.source.text[first..=last].iter().map(String::as_str).collect();
            if alike < 1.0 {
                let merged = three_way(&base.join("\n"), &ours.join("\n"), &added.join("\n"));
                let Some(merged) = merged.filter(|_| !added.is_empty()) else {
                    if let Some(spot) = self.stand_in(group) {
                        return Ok(spot);
                    }
                    return Err(format!(
                        "`{}` is `{}` here: change it by hand",
                        base.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" "),
                        ours.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
                    ));
                };
                notes.push(format!(
                    "`{}` is `{}` here; the change was made inside it",
                    base.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" "),
                    ours.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
                ));
                added = merged.split('\n').map(str::to_owned).collect();
                confidence = 0.55 + 0.3 * (alike - ALIKE) / (1.0 - ALIKE);
                return Ok(AnchoredEdit {
                    edit: Edit { line: first + 1, removed: last - first + 1, added },
                    index: group.at,
                    confidence,
                    support: held,
                    notes,
                });
            }
            notes.push("white space differs in the lines that are replaced".to_owned());
            confidence = 0.85;
        }
        let added = self.adapt(group, added, &mut notes, &mut confidence);
        let edit = Edit { line: first + 1, removed: last - first + 1, added };
        Ok(AnchoredEdit { edit, index: group.at, confidence, support: held, notes })
    }

    /// The blank line (from 0) right above what is removed, if the hunk removes one there, too: where the line between
    /// two blank ones is not here, the file has one of them, and that goes.
    fn blank_above(&self, group: &Group, rows: &[usize]) -> Option<usize> {
        let blank = |index: usize| self.wanted.expected[index].line.is_blank();
        let row = |index: usize| self.map[index].map(|(row, _)| row);
        let goes = blank(group.at) && row(group.at).is_none();
        let stays_away = group.added.first().is_none_or(|line| !line.trim().is_empty());
        let kept = (0..group.at).rev().find(|&index| row(index).is_some()).filter(|&index| blank(index))?;
        let between = (kept + 1..group.at).any(|index| !blank(index));
        (goes && stays_away && between && row(kept)? + 1 == *rows.first()?).then(|| row(kept)).flatten()
    }

    /// Lines that are only removed, and of which none is here any more.
    fn already_gone(&self, group: &Group) -> Option<AnchoredEdit> {
        let range = group.at..group.at + group.removed;
        let gone = group.added.is_empty()
            && range.clone().all(|index| {
                // Where the definition is not here, nothing says that the lines ever were. Between conflict markers
                // lines are not looked for.
                let Expected { label, text, line } = &self.wanted.expected[index];
                if matches!(label, Label::Missing(_)) || self.source.hides(text) {
                    return false;
                }
                line.is_bare() || self.map[index].is_none() && self.source.count(line) == 0
            });
        let line = self.near()?;
        gone.then(|| AnchoredEdit {
            edit: Edit { line, removed: 0, added: Vec::new() },
            index: group.at,
            confidence: 0.6,
            support: 0.0,
            notes: vec!["the lines to be removed are not here, so nothing is left to do".to_owned()],
        })
    }

    /// Lines that stand where those to be removed stood: the lines around them are held on both sides word
    /// for word, and nothing else is in between. What they say otherwise is lost, and said.
    fn stand_in(&self, group: &Group) -> Option<AnchoredEdit> {
        let range = group.at..group.at + group.removed;
        let expected = &self.wanted.expected;
        let telling = |index: &usize| !expected[*index].line.is_blank();
        let solid = |index: usize| {
            let inside = matches!(expected[index].label, Label::Known(_)) && self.trusted(index);
            let same = self.map[index].filter(|(_, alike)| inside && *alike >= 1.0);
            same.map(|(row, _)| row)
        };
        let up = (0..group.at).rev().find(telling).and_then(solid);
        let down = (range.end..expected.len()).find(telling).and_then(solid);
        let telling_row = |row: &usize| !self.source.lines[*row].is_blank();
        let rows: Vec<usize> = match (up, down) {
            (Some(up), Some(down)) if up < down && self.home(up) == self.home(down) => {
                (up + 1..down).filter(telling_row).collect()
            }
            (Some(_), Some(_)) | (None, None) => return None,
            // Held on one side only: lines that were found to be those to be removed, right beside it.
            (up, down) => {
                let found: Option<Vec<usize>> =
                    range.clone().filter(telling).map(|index| self.map[index].map(|(row, _)| row)).collect();
                let found = found?;
                let (first, last) = (*found.first()?, *found.last()?);
                let (from, to) = (up.map_or(first, |up| up + 1), down.unwrap_or(last + 1));
                let beside: Vec<usize> = (from..to).filter(telling_row).collect();
                if beside != found {
                    return None;
                }
                found
            }
        };
        let wanted: Vec<usize> = range.filter(telling).collect();
        let same = |index: usize, row: usize| expected[index].line.key == self.source.lines[row].key;
        let trim = |lines: Vec<&str>| lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        let was = trim(wanted.iter().map(|&index| expected[index].text.as_str()).collect());
        let is = trim(rows.iter().map(|&row| self.source.text[row].as_str()).collect());
        let note = if rows.len() == wanted.len() {
            let pairs = || wanted.iter().copied().zip(rows.iter().copied());
            let like = |(index, row): (usize, usize)| {
                expected[index].line.similarity(&self.source.lines[row]) >= STANDS_IN
            };
            let exact = pairs().filter(|&(index, row)| same(index, row)).count();
            if group.added.is_empty()
                || !pairs().all(like)
                || wanted.len() > 8 && exact * 4 < wanted.len() * 3
            {
                return None;
            }
            format!("`{was}` is `{is}` here; the patch's lines were put in its place: look what is lost")
        } else {
            // Some of the lines are not here, and nothing but the others is.
            let mut left = wanted.iter();
            let part = rows.iter().all(|&row| left.any(|&index| same(index, row)));
            if rows.len() * 2 < wanted.len() || !part {
                return None;
            }
            format!("of `{was}` only `{is}` is here")
        };
        let (first, last) = (*rows.first()?, *rows.last()?);
        let (mut notes, mut confidence) = (vec![note], 0.55);
        let added = self.adapt(group, group.added.clone(), &mut notes, &mut confidence);
        let edit = Edit { line: first + 1, removed: last - first + 1, added };
        Some(AnchoredEdit { edit, index: group.at, confidence, support: TRUST, notes })
    }

    /// The definition that encloses a line of the tree.
    fn home(&self, row: usize) -> Option<usize> {
        self.source.scopes.of_line[row]
    }
}
