//! Where lines go that are added without any being removed: what holds them from above and below.

use super::super::align::{Expected, Label};
use super::super::includes;
use super::super::outcome::Edit;
use super::super::scope::{Language, ScopeKind};
use super::super::structure::opens as opens_of;
use super::super::wanted::Group;
use super::{AnchoredEdit, Anchors};
use crate::document::counted;

/// On which side of an insertion a line stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Above,
    Below,
}

/// An insertion's place and how well it is held.
struct Held {
    at: usize,
    /// True if the lines on both sides are where the hunk expects them.
    firm: bool,
    /// True if other lines stand between those two.
    parted: bool,
    confidence: f64,
    note: Option<String>,
}

impl Anchors<'_> {
    /// Lines that are added without any being removed.
    ///
    /// A diff may show the same insertion shifted by lines that repeat; the variant whose
    /// neighbours hold it best is taken.
    pub(super) fn insertion(&self, group: &Group) -> Result<AnchoredEdit, String> {
        let side = self.wraps(group);
        let variants: Vec<(Held, usize, Vec<String>)> = self
            .variants(group)
            .into_iter()
            .filter_map(|(at, added)| Some((self.held(at, side, &added)?, at, added)))
            .filter(|(held, _, added)| held.firm || is_whole(added))
            .collect();
        // A shifted variant may hide that other lines stand where lines are added.
        let parted = variants.iter().any(|(held, ..)| held.parted);
        let mut best: Option<(Held, usize, Vec<String>)> = None;
        for (held, index, added) in variants.into_iter().filter(|(held, ..)| held.parted || !parted) {
            if best.as_ref().is_none_or(|(other, ..)| held.confidence > other.confidence + 0.02) {
                best = Some((held, index, added));
            }
        }
        if best.as_ref().is_none_or(|(held, ..)| !held.firm)
            && let Some(row) = includes::row(group, &self.wanted.expected, self.source)
        {
            let edit = Edit { line: row + 1, removed: 0, added: group.added.clone() };
            let (support, notes) = (self.around(group.at), vec![includes::WHY.to_owned()]);
            return Ok(AnchoredEdit { edit, index: group.at, confidence: 0.6, support, notes });
        }
        let Some((held, index, added)) = best else {
            return Err(self.what_lacks(group));
        };
        let mut notes: Vec<String> = held.note.into_iter().collect();
        let at = self.above_comment(held.at, &added);
        let mut confidence = held.confidence;
        let added = self.adapt(group, added, &mut notes, &mut confidence);
        let support = self.around(group.at);
        Ok(AnchoredEdit { edit: Edit { line: at + 1, removed: 0, added }, index, confidence, support, notes })
    }

    /// What the trusted lines next to an insertion say, taken together.
    fn around(&self, at: usize) -> f64 {
        let side = |index: Option<usize>| {
            index.filter(|&index| self.trusted(index)).map_or(0.0, |i| self.strength[i])
        };
        let above = (0..at).rev().find(|&index| !self.wanted.expected[index].line.is_blank());
        let below = (at..self.map.len()).find(|&index| !self.wanted.expected[index].line.is_blank());
        side(above).max(side(below))
    }

    /// The insertion and the same one shifted up and down over lines that repeat.
    fn variants(&self, group: &Group) -> Vec<(usize, Vec<String>)> {
        let mut out = vec![(group.at, group.added.clone())];
        let is_free = |index: usize| {
            !self.wanted.groups.iter().any(|other| {
                other.at != group.at && index >= other.at && index < other.at + other.removed.max(1)
            })
        };
        let (mut at, mut added) = (group.at, group.added.clone());
        while at > 0
            && out.len() < 200
            && is_free(at - 1)
            && added.last() == Some(&self.wanted.expected[at - 1].text)
        {
            added.rotate_right(1);
            at -= 1;
            out.push((at, added.clone()));
        }
        let (mut at, mut added) = (group.at, group.added.clone());
        while at < self.wanted.expected.len()
            && out.len() < 400
            && is_free(at)
            && added.first() == Some(&self.wanted.expected[at].text)
        {
            added.rotate_left(1);
            at += 1;
            out.push((at, added.clone()));
        }
        out
    }

    /// The side on which lines stand that the hunk puts something around: below what opens a conditional or a brace,
    /// above what closes it.
    fn wraps(&self, group: &Group) -> Option<Side> {
        let opens = opens_of(&group.added);
        let pure = |other: &&Group| other.removed == 0;
        let mut others = self.wanted.groups.iter().filter(pure);
        if opens > 0 {
            others.any(|other| other.at > group.at && opens_of(&other.added) < 0).then_some(Side::Below)
        } else if opens < 0 {
            others.any(|other| other.at < group.at && opens_of(&other.added) > 0).then_some(Side::Above)
        } else {
            None
        }
    }

    /// What holds an insertion in front of expected line `at`; `side` is the side to which it belongs if other
    /// lines stand there.
    fn held(&self, at: usize, side: Option<Side>, added: &[String]) -> Option<Held> {
        let count = self.wanted.expected.len();
        let is_blank = |index: &usize| self.wanted.expected[*index].line.is_blank();
        // Blank lines hold nothing, but how many there are says on which side of them lines go.
        let blanks_above = (0..at).rev().take_while(is_blank).count();
        let blanks_below = (at..count).take_while(is_blank).count();
        let above = (at - blanks_above).checked_sub(1);
        let below = (at + blanks_below < count).then_some(at + blanks_below);
        let behind = |line: usize| {
            let blanks = (line + 1..self.source.text.len()).take_while(|&l| self.source.lines[l].is_blank());
            line + 1 + blanks.count().min(blanks_above)
        };
        let before = |line: usize| {
            line - (0..line).rev().take_while(|&l| self.source.lines[l].is_blank()).count().min(blanks_below)
        };
        let strength = |index: Option<usize>| index.map_or(0.0, |index| self.strength[index]);
        let alike = |index: Option<usize>| index.and_then(|index| self.map[index]).map_or(0.0, |pair| pair.1);
        match (above.and_then(|index| self.line_of(index)), below.and_then(|index| self.line_of(index))) {
            (Some(up), Some(down)) if up < down => {
                let between = (up + 1..down).filter(|&line| !self.source.lines[line].is_blank()).count();
                if between == 0 {
                    let confidence = 0.9 + 0.08 * alike(above).min(alike(below));
                    let place =
                        if blanks_below == 0 && blanks_above > 0 { down } else { behind(up).min(down) };
                    return Some(Held { at: place, firm: true, parted: false, confidence, note: None });
                }
                if side.is_none()
                    && let Some(place) = self.in_order(at, up, down, added)
                {
                    let note =
                        format!("the added lines were sorted in among {} more", counted(between, "line"));
                    return Some(Held {
                        at: place,
                        firm: false,
                        parted: true,
                        confidence: 0.75,
                        note: Some(note),
                    });
                }
                // What was added at the end of a definition belongs to its end, but in front of a row that ends it.
                let ends = self.wanted.expected[at..]
                    .iter()
                    .find(|line| !line.line.is_blank() && !is_sentinel(&line.text))
                    .is_some_and(|line| line.text.starts_with('}'))
                    && self
                        .wanted
                        .scopes
                        .at(at.min(count - 1))
                        .is_some_and(|scope| scope.kind != ScopeKind::Function);
                let sentinel = (up + 1..down)
                    .filter(|&line| !self.source.lines[line].is_blank())
                    .all(|line| is_sentinel(&self.source.text[line]));
                let last = ends && !sentinel || self.ends_file(at, down);
                let take_above = match side {
                    Some(side) => side == Side::Above,
                    None if self.is_first_inside(at, added) => true,
                    None => sentinel || strength(above) >= strength(below) && !last,
                };
                let confidence = if between <= 3 {
                    0.75
                } else if between <= 12 {
                    0.65
                } else {
                    0.55
                };
                Some(Held {
                    at: if take_above { behind(up) } else { before(down) },
                    firm: false,
                    parted: true,
                    confidence,
                    note: Some(format!(
                        "{} more where lines are added; they were put {}",
                        counted(between, "line"),
                        if take_above { "in front" } else { "behind" }
                    )),
                })
            }
            (Some(_), Some(_)) => None,
            (Some(up), None) => self.one_side(above?, at, behind(up), true),
            (None, Some(down)) => self.one_side(below?, at, before(down), false),
            (None, None) => self.bracketed(at).or_else(|| self.beside(at)),
        }
    }

    /// True if the lines are added as the first ones of what the line above opens, in a file laid out by indentation.
    fn is_first_inside(&self, at: usize, added: &[String]) -> bool {
        let indent = |text: &str| text.len() - text.trim_start().len();
        let above = at.checked_sub(1).map_or("", |index| self.wanted.expected[index].text.as_str());
        let opens = above.trim_end().ends_with([':', '{', '(', '[']);
        let deeper =
            added.first().is_some_and(|line| !line.trim().is_empty() && indent(line) > indent(above));
        self.source.language == Language::Indented && opens && deeper
    }

    /// Where added lines belong between rows `up` and `down` of a list that is kept in order: imports, names of tests.
    fn in_order(&self, at: usize, up: usize, down: usize, added: &[String]) -> Option<usize> {
        let expected = |index: usize| self.wanted.expected.get(index).map_or("", |line| line.text.as_str());
        let around = [expected(at.checked_sub(1)?), expected(at)];
        let own: Vec<&str> = added.iter().map(String::as_str).collect();
        let indent = |line: &&str| line.len() - line.trim_start().len();
        // `from a import b` stands where `a.b` does.
        let key = |line: &str| line.trim().replace(" import ", ".");
        let ascends = |lines: &[&str]| lines.windows(2).all(|pair| key(pair[0]) < key(pair[1]));
        let item = |line: &&str| !line.trim().is_empty() && !line.trim_end().ends_with(['{', '}', ':']);
        let first_word = |line: &&str| line.split_whitespace().next().map(str::to_owned);
        // What opens a list has no place in its order.
        let opens =
            around[0].trim_end().ends_with([':', '{', '(', '[']) && indent(&around[0]) < indent(&own[0]);
        let up = up + usize::from(opens);
        let rows: Vec<&str> = self.source.text[up..down].iter().map(String::as_str).collect();
        let listed: Vec<&str> = rows.iter().chain(&own).copied().collect();
        let alike = |of: &dyn Fn(&&str) -> usize| listed.iter().all(|line| of(line) == of(&listed[0]));
        let same_word = listed.iter().all(|line| first_word(line) == first_word(&listed[0]));
        let above = opens || ascends(&[around[0], own[0]]);
        let below = ascends(&[own[0], around[1]]) && rows.last().is_none_or(|row| ascends(&[row, around[1]]));
        // A rule of signs above a list is no part of it.
        let both = above && ascends(&[own[0], around[1]]) && around[0].contains(char::is_alphanumeric);
        let is_list = (same_word && above
            || both && !listed.iter().any(|line| line.trim_end().ends_with(';')))
            && (below || !opens)
            && listed.iter().all(item)
            && alike(&indent)
            && ascends(&rows)
            && ascends(&own);
        let place = rows.iter().rposition(|row| key(row) < key(own[0]))?;
        // Added lines that belong on two sides of a row go there as one, and so belong nowhere.
        let fits = rows.get(place + 1).is_none_or(|row| key(own[own.len() - 1]) < key(row));
        (is_list && fits).then_some(up + place + 1)
    }

    /// True if the hunk ends its file, and what it has from expected line `at` on ends the tree's file from `down` on.
    fn ends_file(&self, at: usize, down: usize) -> bool {
        let here = self.source.lines[down..].iter().filter(|line| !line.is_blank());
        let there = self.wanted.expected[at..].iter().map(|line| &line.line).filter(|line| !line.is_blank());
        self.wanted.to_end && here.map(|line| &line.key).eq(there.map(|line| &line.key))
    }

    /// Lines that say little, but are neighbours there as here, close to one that can be trusted.
    fn beside(&self, at: usize) -> Option<Held> {
        const REACH: usize = 4;
        let row = |index: usize| self.map.get(index).copied().flatten().map(|(row, _)| row);
        let (above, below) = (row(at.checked_sub(1)?)?, row(at)?);
        if below != above + 1 {
            return None;
        }
        let near = |index: usize| {
            self.line_of(index).is_some_and(|line| line.abs_diff(above) <= index.abs_diff(at) + REACH)
        };
        let range = at.saturating_sub(REACH)..(at + REACH).min(self.map.len());
        range.into_iter().any(near).then(|| Held {
            at: below,
            firm: true,
            parted: false,
            confidence: 0.65,
            note: Some("the lines next to the added ones say little".to_owned()),
        })
    }

    /// Only the line on one side is where the hunk expects it.
    fn one_side(&self, index: usize, at: usize, place: usize, above: bool) -> Option<Held> {
        let strength = self.strength[index];
        let alike = self.map[index].map_or(0.0, |pair| pair.1);
        let side = if above { "below" } else { "above" };
        // The other side may be held by a line further away, with nothing in between.
        if let Some(held) = self.bracketed(at) {
            return Some(Held { at: place, confidence: held.confidence.max(0.7), ..held });
        }
        let edge = if above { at == self.wanted.expected.len() } else { at == 0 };
        let confidence = (0.45 + 0.3 * strength.min(1.0)) * alike + if edge { 0.05 } else { 0.0 };
        Some(Held {
            at: place,
            firm: false,
            parted: false,
            confidence,
            note: Some(format!("the line {side} the added lines is not here")),
        })
    }

    /// Lines further away hold the place if nothing stands between them in the tree.
    fn bracketed(&self, at: usize) -> Option<Held> {
        // What holds lines inside a definition is inside of it, too.
        let scope_of = |index: usize| self.wanted.scopes.of_line.get(index).copied().flatten();
        let home = at.checked_sub(1).and_then(scope_of).filter(|&home| scope_of(at) == Some(home));
        let holds = |&index: &usize| self.trusted(index) && (home.is_none() || scope_of(index) == home);
        let above = self.line_of((0..at).rev().find(holds)?)?;
        let end = self.wanted.to_end.then_some(self.source.text.len());
        let below =
            (at..self.wanted.expected.len()).find(holds).and_then(|index| self.line_of(index)).or(end)?;
        if above >= below {
            return None;
        }
        let between = (above + 1..below).filter(|&line| !self.source.lines[line].is_blank()).count();
        // Blank lines hold nothing, but on which side of them the lines go is known.
        let is_blank = |index: &usize| self.wanted.expected[*index].line.is_blank();
        let blanks = (0..at).rev().take_while(is_blank).count();
        let place = (above + 1 + blanks).min(below);
        (between == 0).then(|| Held {
            at: place,
            firm: false,
            parted: false,
            confidence: 0.7,
            note: Some("lines next to the added ones are not here".to_owned()),
        })
    }

    /// An insertion in front of a definition belongs in front of its comment, too.
    fn above_comment(&self, at: usize, added: &[String]) -> usize {
        let starts = self.source.scopes.at(at).is_some_and(|scope| scope.start == at);
        let own = added.iter().find(|line| !line.trim().is_empty());
        let inside = own.is_none_or(|line| line.starts_with([' ', '\t']));
        if !starts || at == 0 || inside {
            return at;
        }
        if !self.source.text[at - 1].trim_end().ends_with("*/") {
            return at;
        }
        let mut start = at - 1;
        while start > 0 && !self.source.text[start].trim_start().starts_with("/*") {
            start -= 1;
        }
        if self.source.text[start].starts_with("/*") { start } else { at }
    }

    /// True if the hunk only adds lines near the end of a list, and knows that end although no row above is here: what
    /// follows the added lines up to `};` is here word for word, and one of these lines nowhere else.
    pub(in super::super) fn ends_list(&self) -> bool {
        let [group] = &self.wanted.groups[..] else { return false };
        let below = &self.wanted.expected[group.at..];
        let Some(end) = below.iter().position(|line| line.text.trim_end() == "};") else { return false };
        let same = |index: usize| self.map[index].filter(|pair| pair.1 >= 1.0).map(|pair| pair.0);
        let rows: Option<Vec<usize>> = (group.at..=group.at + end).map(same).collect();
        let says = |line: &Expected| line.line.weight() >= 0.5 && self.source.count(&line.line) == 1;
        group.removed == 0
            && rows.is_some_and(|rows| rows.windows(2).all(|pair| pair[1] == pair[0] + 1))
            && !matches!(below[0].label, Label::Missing(_))
            && below[..end].iter().any(says)
    }

    /// What a person needs to know of an insertion that nothing holds.
    fn what_lacks(&self, group: &Group) -> String {
        let around = [group.at.checked_sub(1), Some(group.at)];
        let lacking: Vec<String> = around
            .into_iter()
            .flatten()
            .filter_map(|index| self.wanted.expected.get(index))
            .filter(|line| !line.line.is_blank())
            .map(|line| format!("`{}`", line.text.trim()))
            .collect();
        if lacking.is_empty() {
            "nothing here holds the added lines in their place".to_owned()
        } else {
            format!("the added lines belong next to {}, which is not here", lacking.join(" and "))
        }
    }
}

/// True for a row that ends a table: `{ }`, `{ 0 }`, `NULL`.
fn is_sentinel(line: &str) -> bool {
    let words: String = line.split("/*").next().unwrap_or("").split_whitespace().collect();
    matches!(words.trim_end_matches(','), "{}" | "{0}" | "{NULL}" | "NULL" | "0" | "{{}}" | "{{0}}")
}

/// True if the lines open the braces that they close, and close those that they open.
fn is_whole(lines: &[String]) -> bool {
    let mut depth = 0i32;
    for c in lines.iter().flat_map(|line| line.chars()) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}
