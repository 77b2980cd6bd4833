//! Statements without braces: what a placement must not put behind them, in front of them or take from them.
//!
//! `if (x)` without braces holds one statement. A hunk from where the `if` has braces brings a second one, which
//! here would run whatever `x` is. A hunk that takes the only statement away makes the next one conditional.

use super::outcome::{Edit, Placement};
use super::scope::{column, is_label};
use super::source::Source;
use super::structure::code;
use crate::patch::{Hunk, HunkLine, Op};

/// So many lines around the edits are read.
const AROUND: usize = 40;

/// A header and a statement take at most so many lines.
const LONG: usize = 40;

/// What indentation says and braces do not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// A line behind the only statement of a header is indented as if it were part of it.
    Behind,
    /// A header has no statement of its own.
    Empty,
    /// A line inside of braces is indented as what opens them.
    Within,
}

/// A fault and the row of the header that it concerns: `if (x)` or alike.
type Finding = (Fault, usize);

/// Why a placement in C would change which statements belong to an `if`, a loop or an `else`, if it would.
pub(super) fn misplaced(hunk: &Hunk, placement: &Placement, source: &Source) -> Option<String> {
    let (first, last) = (placement.edits.first()?, placement.edits.last()?);
    let from = (first.line - 1).saturating_sub(AROUND).min(source.text.len());
    let to = (last.line - 1 + last.removed + AROUND).clamp(from, source.text.len());
    let tree: Vec<&str> = source.text[from..to].iter().map(String::as_str).collect();
    let after = edited(&tree, from, &placement.edits);
    let lines: Vec<&str> = after.iter().map(|(text, _)| *text).collect();
    let added: Vec<bool> = after.iter().map(|(_, row)| row.is_none()).collect();
    let found = findings(&lines, &added);
    if found.is_empty() {
        return None;
    }
    // What the tree has so already, or the patch's author has, is no doing of the placement.
    let own: Vec<&HunkLine> = hunk.after().collect();
    let own_lines: Vec<&str> = own.iter().map(|line| line.text.as_str()).collect();
    let own_added: Vec<bool> = own.iter().map(|line| line.op == Op::Add).collect();
    let was: Vec<(Fault, &str)> = named(&tree, &findings(&tree, &vec![false; tree.len()]));
    let theirs = named(&own_lines, &findings(&own_lines, &own_added));
    let now = named(&lines, &found);
    let count = |of: &[(Fault, &str)], one: &(Fault, &str)| of.iter().filter(|other| *other == one).count();
    let new = now.iter().position(|one| count(&now, one) > count(&was, one).max(count(&theirs, one)))?;
    let (fault, row) = found[new];
    let line = after[row].1.map_or_else(String::new, |row| format!(" (line {})", row + 1));
    let header = now[new].1.trim_end_matches('{').trim_end();
    Some(match fault {
        Fault::Behind => format!(
            "`{header}`{line} has no braces here and holds one statement only: what is added would stand outside of it"
        ),
        Fault::Empty => {
            format!("`{header}`{line} has no braces here and would lose the only statement that it holds")
        }
        Fault::Within => {
            format!("`{header}`{line} has braces here, and what belongs behind them would stand between them")
        }
    })
}

/// Findings with the header's text, by which those of two versions are told apart.
fn named<'a>(lines: &[&'a str], found: &[Finding]) -> Vec<(Fault, &'a str)> {
    found.iter().map(|&(fault, row)| (fault, lines[row].trim())).collect()
}

/// The lines with the edits made, and for each that was not added its row in the file.
fn edited<'a>(tree: &[&'a str], from: usize, edits: &'a [Edit]) -> Vec<(&'a str, Option<usize>)> {
    let kept = |rows: std::ops::Range<usize>| rows.map(|row| (tree[row], Some(from + row)));
    let (mut out, mut at) = (Vec::new(), 0);
    for edit in edits {
        let start = (edit.line - 1).saturating_sub(from).clamp(at, tree.len());
        out.extend(kept(at..start));
        out.extend(edit.added.iter().map(|line| (line.as_str(), None)));
        at = (start + edit.removed).min(tree.len());
    }
    out.extend(kept(at..tree.len()));
    out
}

/// What indentation says otherwise than braces, header by header.
fn findings(lines: &[&str], added: &[bool]) -> Vec<Finding> {
    let text = Text::new(lines);
    let mut found: Vec<Finding> = (0..lines.len()).filter_map(|row| Some((text.fault(row)?, row))).collect();
    let within = (0..lines.len()).filter(|&row| added[row]).filter_map(|row| text.within(row));
    found.extend(within.map(|row| (Fault::Within, row)));
    found
}

/// Lines of C without what is in comments and strings.
struct Text<'a> {
    lines: &'a [&'a str],
    code: Vec<String>,
}

impl<'a> Text<'a> {
    fn new(lines: &'a [&'a str]) -> Self {
        let mut in_comment = false;
        let without_comments = |line: &&str| {
            let (open, close) = (line.rfind("/*"), line.rfind("*/"));
            let was = in_comment;
            in_comment = open.is_some() && open > close || was && close.is_none();
            let rest = match line.split_once("*/") {
                _ if !was => line,
                Some((_, rest)) => rest,
                None => "",
            };
            code(rest).collect::<String>().trim().to_owned()
        };
        Self { code: lines.iter().map(without_comments).collect(), lines }
    }

    /// The next row with code; `None` where a directive stands in between, which may hide anything.
    fn next(&self, row: usize) -> Option<usize> {
        let next = (row + 1..self.code.len()).find(|&row| !self.code[row].is_empty())?;
        (!self.code[next].starts_with('#') && !self.code[next].ends_with('\\')).then_some(next)
    }

    fn column(&self, row: usize) -> usize {
        column(self.lines[row])
    }

    /// True for a line that stands further to the left than what it belongs to.
    fn is_mark(&self, row: usize) -> bool {
        let code = &self.code[row];
        let word = |word: &str| code.strip_prefix(word).is_some_and(|rest| !rest.starts_with(is_word));
        is_label(code) || word("case") || word("default") || code.starts_with(['}', ')', '#'])
    }

    /// What is wrong with the statement below the header at `row`, if there is one and it has no braces.
    fn fault(&self, row: usize) -> Option<Fault> {
        let end = self.header(row).filter(|header| !header.braces)?.end;
        let body = self.next(end)?;
        if self.code[body].starts_with('{') || self.is_mark(body) {
            // A closing brace ends what is around the header.
            return (self.code[body].starts_with('}')).then_some(Fault::Empty);
        }
        // `else` and `if` on two lines are one header.
        let is_else_if = self.code[row].ends_with("else") && self.code[body].starts_with("if");
        if self.column(body) <= self.column(row) {
            let is_one = is_else_if && self.column(body) == self.column(row);
            return (!is_one).then_some(Fault::Empty);
        }
        let next = self.next(self.statement(body, 0)?)?;
        let is_deeper = self.column(next) > self.column(row);
        (is_deeper && !self.is_mark(next) && !self.code[next].starts_with("else")).then_some(Fault::Behind)
    }

    /// The row of the header whose braces hold the line at `row`, if it is indented as if they did not.
    fn within(&self, row: usize) -> Option<usize> {
        if self.code[row].is_empty() || self.is_mark(row) || self.code[row].ends_with('\\') {
            return None;
        }
        let mut depth = 0i64;
        for above in (row.saturating_sub(LONG)..row).rev() {
            let code = &self.code[above];
            if code.starts_with('#') || code.ends_with('\\') {
                return None;
            }
            depth += braces(code);
            if depth > 0 {
                let header = self.start(above)?;
                let deeper = (above + 1..row).rev().find(|&row| !self.code[row].is_empty())?;
                let is_out = self.column(row) <= self.column(header);
                return (is_out && self.column(deeper) > self.column(header)).then_some(header);
            }
        }
        None
    }

    /// The row at which the header that ends at `end` starts.
    fn start(&self, end: usize) -> Option<usize> {
        (end.saturating_sub(LONG)..=end)
            .rev()
            .find(|&row| self.header(row).is_some_and(|header| header.braces && header.end == end))
    }

    /// The header of an `if`, a loop or an `else` that starts at `row`.
    fn header(&self, row: usize) -> Option<Header> {
        let code = &self.code[row];
        let closes = code.starts_with('}');
        let code = code.trim_start_matches('}').trim_start();
        let (word, rest) = code.split_at(code.find(|c| !is_word(c)).unwrap_or(code.len()));
        let rest = match word {
            "else" if rest.trim_start().starts_with("if") => rest.trim_start().strip_prefix("if")?,
            "else" => return Header::of(rest, row),
            // The end of a `do`.
            "while" if closes => return None,
            "if" | "for" | "while" => rest,
            _ if word.contains("for_each") => rest,
            _ => return None,
        };
        if !rest.trim_start().starts_with('(') {
            return None;
        }
        let mut depth = 0i64;
        for end in row..(row + LONG).min(self.code.len()) {
            let text = if end == row { rest } else { &self.code[end] };
            if end > row && text.starts_with('#') || text.ends_with('\\') {
                return None;
            }
            for (at, c) in text.char_indices() {
                depth += i64::from(c == '(') - i64::from(c == ')');
                if depth == 0 && c == ')' {
                    return Header::of(&text[at + 1..], end);
                }
            }
        }
        None
    }

    /// The last row of the statement that starts at `row`.
    fn statement(&self, row: usize, depth: usize) -> Option<usize> {
        if depth > LONG {
            return None;
        }
        let end = match self.header(row) {
            Some(header) if header.braces => self.closing(header.end)?,
            Some(header) => {
                let body = self.next(header.end)?;
                self.statement(body, depth + 1)?
            }
            None => return self.simple(row),
        };
        if self.code[end].trim_start_matches('}').trim_start().starts_with("else") && end > row {
            return self.statement(end, depth + 1);
        }
        match self.next(end) {
            Some(next) if self.code[next].starts_with("else") => self.statement(next, depth + 1),
            _ => Some(end),
        }
    }

    /// The row at which the brace is closed that is opened at the end of `row`.
    fn closing(&self, row: usize) -> Option<usize> {
        let mut depth = 1;
        (row + 1..self.code.len()).find(|&row| {
            // `} else {` closes one and opens another.
            let closes = self.code[row].starts_with('}') && depth == 1;
            depth += braces(&self.code[row]);
            closes || depth <= 0
        })
    }

    /// The last row of a statement that is no `if` and no loop.
    fn simple(&self, row: usize) -> Option<usize> {
        let mut depth = 0i64;
        for end in row..(row + LONG).min(self.code.len()) {
            let code = &self.code[end];
            if code.starts_with('#') {
                return None;
            }
            depth += code
                .chars()
                .map(|c| i64::from(matches!(c, '(' | '{')) - i64::from(matches!(c, ')' | '}')))
                .sum::<i64>();
            if depth <= 0 && code.ends_with([';', '}']) {
                return Some(end);
            }
        }
        None
    }
}

/// The first line of an `if`, a loop or an `else`, up to what it holds.
struct Header {
    /// Its last row.
    end: usize,
    braces: bool,
}

impl Header {
    /// A header that ends at row `end`, in front of `rest`.
    fn of(rest: &str, end: usize) -> Option<Self> {
        match rest.trim() {
            "" => Some(Self { end, braces: false }),
            rest => rest.starts_with('{').then_some(Self { end, braces: true }),
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn braces(code: &str) -> i64 {
    code.chars().map(|c| i64::from(c == '{') - i64::from(c == '}')).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The headers at fault, with what is wrong with each.
    fn faults(text: &str) -> Vec<(usize, &'static str)> {
        let lines: Vec<&str> = text.lines().map(|line| line.strip_prefix('+').unwrap_or(line)).collect();
        let added: Vec<bool> = text.lines().map(|line| line.starts_with('+')).collect();
        findings(&lines, &added)
            .into_iter()
            .map(|(fault, row)| {
                let word = match fault {
                    Fault::Behind => "behind",
                    Fault::Empty => "empty",
                    Fault::Within => "within",
                };
                (row, word)
            })
            .collect()
    }

    #[test]
    fn a_second_statement_needs_braces() {
        assert_eq!(faults("\tif (x)\n\t\ta();\n+\t\tb();\n\tc();\n"), [(0, "behind")]);
        assert_eq!(faults("\tif (x)\n+\t\tb();\n\t\ta();\n\tc();\n"), [(0, "behind")]);
        assert_eq!(faults("\tif (x &&\n\t    y)\n\t\ta(1,\n\t\t  2);\n+\t\tb();\n"), [(0, "behind")]);
        assert_eq!(faults("\telse\n\t\ta();\n\n\t\t/* why */\n+\t\tb();\n"), [(0, "behind")]);
        assert_eq!(faults("\tlist_for_each_entry(a, b, c)\n\t\ta();\n+\t\tb();\n"), [(0, "behind")]);
        assert_eq!(
            faults("\tif (x)\n\t\tfor (;;)\n\t\t\ta();\n+\t\tb();\n\tc();\n"),
            [(0, "behind")],
            "the loop is the only statement"
        );
    }

    #[test]
    fn one_statement_needs_none() {
        for text in [
            "\tif (x)\n\t\ta();\n+\tb();\n",
            "\tif (x) {\n\t\ta();\n+\t\tb();\n\t}\n",
            "\tif (x)\n\t\ta();\n+\telse\n+\t\tb();\n\tc();\n",
            "\tif (x)\n\t{\n\t\ta();\n\t\tb();\n\t}\n",
            "\tif (x) return;\n\ta();\n",
            "\tif (x)\n\t\tif (y) {\n\t\t\ta();\n\t\t} else {\n\t\t\tb();\n\t\t}\n\tc();\n",
            "\tif (x)\n\t\tfor (;;) {\n\t\t\ta();\n\t\t\tb();\n\t\t}\n\telse\n\t\tc();\n\td();\n",
            "\tdo {\n\t\ta();\n\t} while (x);\n\t\tb();\n",
            "\tif (x)\n#ifdef A\n\t\ta();\n#else\n\t\tb();\n#endif\n\tc();\n",
            "\tswitch (x) {\n\tcase 1:\n\t\tif (y)\n\t\t\ta();\n+\tcase 2:\n\t\tb();\n\t}\n",
            "\tif (x) /* why */\n\t\ta(\"}; {\");\n+\tb();\n",
            "\twhile (x--)\n\t\t;\n+\tb();\n",
            "\tif (x)\n\t\tgoto out;\n+\ta();\nout:\n\t\tb();\n",
        ] {
            assert!(faults(text).is_empty(), "{text}{:?}", faults(text));
        }
    }

    #[test]
    fn what_is_taken_away_leaves_nothing() {
        assert_eq!(faults("\tif (x)\n\tc();\n"), [(0, "empty")]);
        assert_eq!(faults("\tif (a) {\n\t\tif (x)\n\t}\n"), [(1, "empty")]);
    }

    #[test]
    fn what_stands_behind_braces_is_not_put_between_them() {
        assert_eq!(faults("\tif (x) {\n\t\ta();\n+\tb();\n\t\tc();\n\t}\n"), [(0, "within")]);
        assert_eq!(faults("\tif (x) {\n\t\ta();\n\t}\n+\tb();\n"), []);
        assert_eq!(faults("\tif (x) {\n\t\ta();\n+\t} else {\n+\t\tb();\n\t}\n"), []);
        assert_eq!(faults("\tif (x &&\n\t    y) {\n\t\ta();\n+\tb();\n\t}\n"), [(0, "within")]);
    }
}
