//! What holds a change in its place: the aligned lines around it, and how far each can be trusted.

use super::align::{ALIKE, Alignment, Label};
use super::merge::three_way;
use super::outcome::Edit;
use super::rename::Renames;
use super::scope::ScopeKind;
use super::source::Source;
use super::wanted::{Group, Wanted};

/// A run of aligned lines that says less than this holds nothing.
const TRUST: f64 = 0.33;

/// Where a group of changed lines goes.
#[derive(Debug)]
pub(super) struct Spot {
    pub edit: Edit,
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
            out.push(format!("{extra} more lines stand between its lines here"));
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
    pub(super) fn spot(&self, group: usize) -> Result<Spot, String> {
        let group = &self.wanted.groups[group];
        if group.removed == 0 { self.insertion(group) } else { self.replacement(group) }
    }

    fn trusted(&self, index: usize) -> bool {
        self.map[index].is_some() && self.strength[index] >= TRUST
    }

    fn line_of(&self, index: usize) -> Option<usize> {
        self.trusted(index).then(|| self.map[index].map(|(line, _)| line)).flatten()
    }

    /// Lines that are added without any being removed.
    ///
    /// A diff may show the same insertion shifted by lines that repeat; the variant whose
    /// neighbours hold it best is taken.
    fn insertion(&self, group: &Group) -> Result<Spot, String> {
        let variants: Vec<(Held, Vec<String>)> = self
            .variants(group)
            .into_iter()
            .filter_map(|(at, added)| Some((self.held(at)?, added)))
            .filter(|(held, added)| held.firm || is_whole(added))
            .collect();
        // A shifted variant may hide that other lines stand where lines are added.
        let parted = variants.iter().any(|(held, _)| held.parted);
        let mut best: Option<(Held, Vec<String>)> = None;
        for (held, added) in variants.into_iter().filter(|(held, _)| held.parted || !parted) {
            if best.as_ref().is_none_or(|(other, _)| held.confidence > other.confidence + 0.02) {
                best = Some((held, added));
            }
        }
        let Some((held, added)) = best else {
            return Err(self.what_lacks(group));
        };
        let mut notes: Vec<String> = held.note.into_iter().collect();
        let at = self.above_comment(held.at, &added);
        let mut confidence = held.confidence;
        let added = self.adapt(group, added, &mut notes, &mut confidence);
        let support = self.around(group.at);
        Ok(Spot { edit: Edit { line: at + 1, removed: 0, added }, confidence, support, notes })
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

    /// What holds an insertion in front of expected line `at`.
    fn held(&self, at: usize) -> Option<Held> {
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
                // What was added at the end of a definition belongs to its end.
                let last = (at + blanks_below..count.min(at + blanks_below + 2))
                    .any(|index| self.wanted.expected[index].text.starts_with('}'))
                    && self
                        .wanted
                        .scopes
                        .at(at.min(count - 1))
                        .is_some_and(|scope| scope.kind != ScopeKind::Function);
                let take_above = strength(above) >= strength(below) && !last;
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
                        "{between} lines more stand where lines are added; they were put {}",
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
        (between == 0).then(|| Held {
            at: above + 1,
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

    /// Lines that are removed, perhaps with others in their place.
    fn replacement(&self, group: &Group) -> Result<Spot, String> {
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

    /// Brings added lines to the tree's depth of indentation and names.
    fn adapt(
        &self,
        group: &Group,
        added: Vec<String>,
        notes: &mut Vec<String>,
        confidence: &mut f64,
    ) -> Vec<String> {
        let mut added = added;
        if let Some(deeper) = self.indentation(group) {
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

/// What each aligned line's run of neighbours says about the place.
///
/// A run is what the hunk and the file have in the same order without anything but blank lines in
/// between. A line that occurs several times where the hunk may belong says accordingly less.
fn strengths(wanted: &Wanted, source: &Source, map: &[Option<(usize, f64)>]) -> Vec<f64> {
    let mut strength = vec![0.0; map.len()];
    let mut start = 0;
    while start < map.len() {
        if map[start].is_none() {
            start += 1;
            continue;
        }
        let mut end = start;
        let mut sum = own_strength(wanted, source, start, map[start]);
        while end + 1 < map.len() {
            let (Some((last, _)), Some((next, _))) = (map[end], map[end + 1]) else { break };
            if (last + 1..next).any(|line| !source.lines[line].is_blank()) {
                break;
            }
            end += 1;
            sum += own_strength(wanted, source, end, map[end]);
        }
        strength[start..=end].fill(sum);
        start = end + 1;
    }
    strength
}

fn own_strength(wanted: &Wanted, source: &Source, index: usize, pair: Option<(usize, f64)>) -> f64 {
    let Some((row, alike)) = pair else { return 0.0 };
    let expected = &wanted.expected[index];
    let mut weight = expected.line.weight();
    let mut count = f64::from(source.count(&expected.line).max(1));
    if let Label::Known(scopes) = &expected.label {
        // The first and last lines of a definition that is known by its name stand there once.
        let edge = scopes.iter().any(|&scope| source.scopes.all[scope].end == row);
        if edge && expected.text.starts_with('}') && source.text[row].starts_with('}') {
            weight = 0.5;
        }
        let within = |line: usize| {
            scopes.iter().any(|&s| {
                let scope = &source.scopes.all[s];
                (scope.start..=scope.end).contains(&line)
            })
        };
        let rows = scopes.iter().map(|&s| &source.scopes.all[s]).map(|s| (s.start, s.end));
        let (first, last) = rows.fold((usize::MAX, 0), |(a, b), (c, d)| (a.min(c), b.max(d)));
        let inside = (first..=last)
            .filter(|&line| within(line) && source.lines[line].key == expected.line.key)
            .filter(|&line| !edge || source.text[line] == expected.text)
            .count();
        count = (inside as f64).max(1.0);
    }
    let doubt = if alike >= 1.0 { 1.0 } else { ((alike - ALIKE) / (1.0 - ALIKE)).max(0.0) * 0.8 };
    weight * doubt / count
}
