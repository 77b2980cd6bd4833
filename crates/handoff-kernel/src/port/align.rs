//! Alignment: which line of the tree is which line that the hunk expects.
//!
//! Dynamic programming after Needleman and Wunsch with the affine gaps of Gotoh (1982), global in
//! the hunk's lines and local in the file's: lines of the file in front of and behind the hunk cost
//! nothing, lines between its matches a little, and each line that the hunk expects and the file
//! lacks as much as the line says about the place.

use std::borrow::Cow;

use super::scope::{Language, ScopeKind};
use super::source::Source;
use super::words::Line;

/// What is known of where a hunk's line belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// Inside one of these scopes of the file.
    Known(Vec<usize>),
    /// Inside a scope of this kind that the file does not have.
    Missing(ScopeKind),
    /// Inside a scope that the hunk does not name.
    Unknown,
    /// Between the scopes.
    Top,
}

/// A line that the hunk expects.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// The text as it stands in the patch.
    pub text: String,
    /// Its words.
    pub line: Line,
    /// Where it belongs.
    pub label: Label,
}

/// Where each expected line was found.
#[derive(Clone, Debug)]
pub(super) struct Alignment {
    /// For each expected line, the line of the file and how alike the two are.
    pub map: Vec<Option<(usize, f64)>>,
    /// What the alignment is worth.
    pub score: f64,
    /// What the best other one, with none of the same lines, is worth.
    pub runner_up: f64,
    /// What a perfect one would be worth.
    pub perfect: f64,
}

/// Lines less alike than this are different lines.
pub(super) const ALIKE: f64 = 0.6;
/// More cells than this are not worth the time: no person writes such a hunk.
const CELLS: usize = 60_000_000;
/// More pairs of lines than this are looked for again each time: a few tens of megabytes.
const PAIRS: usize = 2_000_000;
const GAP_OPEN: f64 = 0.25;
const GAP_LINE: f64 = 0.008;

/// Aligns the expected lines with the file; `near` (a line) decides between equals.
///
/// `None` if the two are too large to be compared.
pub(super) fn align(expected: &[Expected], source: &Source, near: usize) -> Option<Alignment> {
    if expected.len().saturating_mul(source.lines.len()) > CELLS {
        return None;
    }
    let grid = Grid::new(expected, source);
    let mut taken = vec![false; source.lines.len()];
    let (map, score) = grid.best(&taken, near);
    for (index, pair) in map.iter().enumerate() {
        if let Some((line, _)) = pair
            && grid.weight[index] >= 0.15
        {
            taken[*line] = true;
        }
    }
    let runner_up = if map.iter().any(Option::is_some) { grid.best(&taken, near).1 } else { 0.0 };
    let perfect = grid.weight.iter().sum();
    let mut map = map;
    settle_gaps(&mut map, expected, source);
    Some(Alignment { map, score, runner_up, perfect })
}

/// Moves lines that the file has in addition to where they are whole blocks.
///
/// Rows of a table end alike, so the score does not say after which of the repeated lines the
/// additional rows start. They start where their braces are balanced.
fn settle_gaps(map: &mut [Option<(usize, f64)>], expected: &[Expected], source: &Source) {
    for index in 0..map.len().saturating_sub(1) {
        let (Some((above, _)), Some((below, _))) = (map[index], map[index + 1]) else { continue };
        let gap = below - above - 1;
        if gap == 0 || whole_blocks(source, above + 1, below) {
            continue;
        }
        // Downwards: the lines behind the gap also stand right in front of it.
        let down = (1..map.len() - index)
            .take_while(|&by| {
                map[index + by].is_some_and(|(row, _)| row == below + by - 1)
                    && source.text[above + by] == expected[index + by].text
                    && source.text[below + by - 1] == expected[index + by].text
            })
            .find(|&by| whole_blocks(source, above + 1 + by, below + by));
        // Upwards: the lines in front of the gap also stand right behind it.
        let up = (0..=index)
            .take_while(|&by| {
                map[index - by].is_some_and(|(row, _)| row + by == above)
                    && below > by
                    && source.text[below - by - 1] == expected[index - by].text
                    && source.text[above - by] == expected[index - by].text
            })
            .map(|by| by + 1)
            .find(|&by| whole_blocks(source, above + 1 - by, below - by));
        if let Some(by) = down {
            for step in 1..=by {
                map[index + step] = Some((above + step, 1.0));
            }
        } else if let Some(by) = up {
            for step in 0..by {
                map[index - step] = Some((below - 1 - step, 1.0));
            }
        }
    }
}

/// True if lines `from..to` open all braces that they close, and close all that they open.
fn whole_blocks(source: &Source, from: usize, to: usize) -> bool {
    let mut depth = 0i32;
    for line in &source.lines[from..to] {
        for word in line.words() {
            match word {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth < 0 {
                return false;
            }
        }
    }
    depth == 0
}

struct Grid<'a> {
    expected: &'a [Expected],
    source: &'a Source,
    weight: Vec<f64>,
    /// The first and last line of the file that any expected line may be.
    rows: (usize, usize),
    /// For each expected line, the lines of the file that it may be, as columns, and what each is worth: the grid is gone
    /// through twice. None where they would be too many to keep.
    pairs: Vec<Option<Vec<(usize, f64)>>>,
}

impl<'a> Grid<'a> {
    fn new(expected: &'a [Expected], source: &'a Source) -> Self {
        let weight = expected.iter().map(|line| weight(line, source)).collect();
        let mut rows = (0, source.lines.len());
        if expected.iter().all(|line| matches!(line.label, Label::Known(_))) {
            let scopes = expected.iter().flat_map(|line| match &line.label {
                Label::Known(scopes) => scopes.as_slice(),
                _ => &[],
            });
            let (mut first, mut last) = (source.lines.len(), 0);
            for &scope in scopes {
                first = first.min(source.scopes.all[scope].start);
                last = last.max(source.scopes.all[scope].end + 1);
            }
            rows = (first.min(last), last);
        }
        let mut grid = Self { expected, source, weight, rows, pairs: Vec::new() };
        let mut kept = 0;
        for index in 0..expected.len() {
            let pairs = (kept < PAIRS).then(|| grid.pairs_of(index));
            kept += pairs.as_ref().map_or(0, Vec::len);
            grid.pairs.push(pairs);
        }
        grid
    }

    fn pairs_of(&self, index: usize) -> Vec<(usize, f64)> {
        let (first, last) = self.rows;
        (first..last).filter_map(|row| Some((row - first + 1, self.pair(index, row)?))).collect()
    }

    /// What it is worth to take line `row` of the file for expected line `index`.
    fn pair(&self, index: usize, row: usize) -> Option<f64> {
        let wanted = &self.expected[index];
        let factor = compatible(&wanted.label, self.source, row)?;
        let found = &self.source.lines[row];
        if !wanted.line.may_be(found, ALIKE) {
            return None;
        }
        let alike = wanted.line.similarity(found);
        if alike >= 1.0 {
            // A brace is the same brace only at the same depth.
            if wanted.line.is_bare() && !wanted.line.is_blank() && wanted.text != self.source.text[row] {
                return Some(self.weight[index] * 0.3);
            }
            return Some(self.weight[index] * factor);
        }
        if wanted.line.is_blank() && found.is_blank() {
            return Some(self.weight[index]);
        }
        (alike >= ALIKE).then(|| self.weight[index] * factor * (2.5 * alike - 1.5))
    }

    fn best(&self, taken: &[bool], near: usize) -> (Vec<Option<(usize, f64)>>, f64) {
        const DIAGONAL: u8 = 1;
        const SKIP_EXPECTED: u8 = 2;
        const FROM_GAP: u8 = 3;
        const GAP_EXTENDED: u8 = 8;
        let (first, last) = self.rows;
        let (height, width) = (self.expected.len(), last - first);
        let mut trace = vec![0u8; (height + 1) * (width + 1)];
        let mut above = vec![0.0f64; width + 1];
        for index in 0..height {
            let skip = 0.35 * self.weight[index];
            let mut row = vec![f64::NEG_INFINITY; width + 1];
            row[0] = above[0] - skip;
            trace[(index + 1) * (width + 1)] = SKIP_EXPECTED;
            let mut gap = f64::NEG_INFINITY;
            let is_last = index + 1 == height;
            let pairs = match &self.pairs[index] {
                Some(pairs) => Cow::Borrowed(pairs),
                None => Cow::Owned(self.pairs_of(index)),
            };
            let mut pairs = pairs.iter().peekable();
            for column in 1..=width {
                let line = first + column - 1;
                let cell = (index + 1) * (width + 1) + column;
                let (mut score, mut from) = (above[column] - skip, SKIP_EXPECTED);
                if let Some((_, worth)) = pairs.next_if(|pair| pair.0 == column)
                    && !taken[line]
                    && above[column - 1] + worth >= score
                {
                    score = above[column - 1] + worth;
                    from = DIAGONAL;
                }
                // Behind the last expected line the rest of the file costs nothing, but then the
                // alignment has ended there and no gap is needed.
                if !is_last {
                    let opened = row[column - 1] - GAP_OPEN;
                    let extended = gap - GAP_LINE;
                    if extended > opened {
                        gap = extended;
                        trace[cell] |= GAP_EXTENDED;
                    } else {
                        gap = opened;
                    }
                    if gap > score {
                        score = gap;
                        from = FROM_GAP;
                    }
                }
                row[column] = score;
                trace[cell] |= from;
            }
            above = row;
        }
        let mut end = 0;
        for column in 0..=width {
            let better = above[column] - above[end];
            let distance = |column: usize| (first + column).abs_diff(near + height);
            if better > 1e-9 || better > -1e-9 && distance(column) < distance(end) {
                end = column;
            }
        }
        let score = above[end];
        let mut map = vec![None; height];
        let (mut index, mut column) = (height, end);
        let mut in_gap = false;
        while index > 0 && column > 0 {
            let cell = trace[index * (width + 1) + column];
            if in_gap {
                in_gap = cell & GAP_EXTENDED != 0;
                column -= 1;
                continue;
            }
            match cell & 7 {
                DIAGONAL => {
                    let line = first + column - 1;
                    let alike = self.expected[index - 1].line.similarity(&self.source.lines[line]);
                    map[index - 1] = Some((line, alike));
                    index -= 1;
                    column -= 1;
                }
                FROM_GAP => {
                    in_gap = cell & GAP_EXTENDED != 0;
                    column -= 1;
                }
                _ => index -= 1,
            }
        }
        (map, score)
    }
}

/// Whether line `row` of the file may be a line with this label, and how willingly.
pub(super) fn compatible(label: &Label, source: &Source, row: usize) -> Option<f64> {
    let scope = source.scopes.of_line[row];
    match (label, scope) {
        (Label::Known(scopes), Some(scope)) => scopes.contains(&scope).then_some(1.0),
        (Label::Known(_), None) => None,
        (Label::Missing(kind), Some(scope)) => (source.scopes.all[scope].kind == *kind).then_some(0.8),
        (Label::Missing(_), None) => None,
        (Label::Unknown, Some(_)) => Some(1.0),
        (Label::Unknown, None) => Some(0.9),
        (Label::Top, None) => Some(1.0),
        (Label::Top, Some(scope)) => {
            let scope = &source.scopes.all[scope];
            match scope.kind {
                ScopeKind::Statement => Some(0.9),
                // The first line of an entry, of which the hunk has no more.
                _ if scope.start == row && source.language == Language::Indented => Some(1.0),
                _ => None,
            }
        }
    }
}

/// How much an expected line says about its place in this file.
fn weight(expected: &Expected, source: &Source) -> f64 {
    let base = expected.line.weight();
    if base < 0.15 {
        return base;
    }
    let count = f64::from(source.count(&expected.line).max(1));
    base / (1.0 + 0.35 * count.ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::from_lines(text.lines().map(str::to_owned).collect(), false, Language::C)
    }

    fn expected(text: &str, label: &Label) -> Vec<Expected> {
        text.lines()
            .map(|line| Expected { text: line.to_owned(), line: Line::new(line), label: label.clone() })
            .collect()
    }

    fn lines(alignment: &Alignment) -> Vec<Option<usize>> {
        alignment.map.iter().map(|pair| pair.map(|(line, _)| line)).collect()
    }

    #[test]
    fn the_file_may_have_more_lines() {
        let file = source("int f(void)\n{\n\tfirst(a, b);\n\tother(x, y);\n\tsecond(c, d);\n}\n");
        let found = align(&expected("\tfirst(a, b);\n\tsecond(c, d);", &Label::Unknown), &file, 0).unwrap();
        assert_eq!(lines(&found), [Some(2), Some(4)]);
    }

    #[test]
    fn the_file_may_lack_lines() {
        let file = source("int f(void)\n{\n\tfirst(a, b);\n\tsecond(c, d);\n}\n");
        let wanted = expected("\tfirst(a, b);\n\tmissing(x, y, z);\n\tsecond(c, d);", &Label::Unknown);
        assert_eq!(lines(&align(&wanted, &file, 0).unwrap()), [Some(2), None, Some(3)]);
    }

    #[test]
    fn pairs_that_are_too_many_to_keep_are_found_as_well() {
        let (file, wanted) = ("\tsame(a, b);\n".repeat(1500), "\tsame(a, b);\n".repeat(1400));
        let (file, wanted) = (source(&file), expected(&wanted, &Label::Top));
        assert!(Grid::new(&wanted, &file).pairs.last().is_some_and(Option::is_none));
        let found = align(&wanted, &file, 60).expect("not too large");
        assert_eq!(lines(&found), (60..1460).map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn a_scope_keeps_lines_to_itself() {
        let file = source("int a[] = {\n\tROW(1),\n\tEND\n};\nint b[] = {\n\tROW(1),\n\tEND\n};\n");
        let found = align(&expected("\tROW(1),\n\tEND", &Label::Known(vec![1])), &file, 0).unwrap();
        assert_eq!(lines(&found), [Some(5), Some(6)]);
    }

    #[test]
    fn additional_rows_are_whole() {
        let row = |name: &str| format!("\t{{\n\t\t.name = {name},\n\t\t.mode = 1,\n\t\t.f = g\n\t}},\n");
        let file = source(&format!("struct t a[] = {{\n{}{}{}}};\n", row("first"), row("more"), row("last")));
        let wanted = expected(
            "\t\t.name = first,\n\t\t.mode = 1,\n\t\t.f = g\n\t},\n\t{\n\t\t.name = last,",
            &Label::Known(vec![0]),
        );
        let found = align(&wanted, &file, 0).unwrap();
        assert_eq!(lines(&found), [Some(2), Some(3), Some(4), Some(5), Some(11), Some(12)]);
    }

    #[test]
    fn equals_have_an_equal_runner_up() {
        let file = source("int a[] = {\n\tROW(1),\n\tEND\n};\nint b[] = {\n\tROW(1),\n\tEND\n};\n");
        let found = align(&expected("\tROW(1),\n\tEND", &Label::Unknown), &file, 5).unwrap();
        assert_eq!(lines(&found), [Some(5), Some(6)]);
        assert!(found.runner_up > 0.99 * found.score);
    }
}
