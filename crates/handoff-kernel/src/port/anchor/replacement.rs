//! Where lines are removed, perhaps with others in their place.

use super::super::align::ALIKE;
use super::super::merge::three_way;
use super::super::outcome::Edit;
use super::super::wanted::Group;
use super::{Anchors, Spot, TRUST};

impl Anchors<'_> {
    /// Lines that are removed, perhaps with others in their place.
    pub(super) fn replacement(&self, group: &Group) -> Result<Spot, String> {
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
                    if let Some(spot) = self.already_gone(group) {
                        return Ok(spot);
                    }
                    return Err(format!("the line to be removed is not here: `{}`", wanted.text.trim()));
                }
            }
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
            return Err(format!("{between} other lines stand between those to be removed"));
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
                return Ok(Spot {
                    edit: Edit { line: first + 1, removed: last - first + 1, added },
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
        Ok(Spot { edit, confidence, support: held, notes })
    }

    /// Lines that are only removed, and of which none is here any more.
    fn already_gone(&self, group: &Group) -> Option<Spot> {
        let range = group.at..group.at + group.removed;
        let gone = group.added.is_empty()
            && range.clone().all(|index| {
                let line = &self.wanted.expected[index].line;
                line.is_bare() || self.map[index].is_none() && self.source.count(line) == 0
            });
        let line = self.near()?;
        gone.then(|| Spot {
            edit: Edit { line, removed: 0, added: Vec::new() },
            confidence: 0.6,
            support: 0.0,
            notes: vec!["the lines to be removed are not here, so nothing is left to do".to_owned()],
        })
    }
}
