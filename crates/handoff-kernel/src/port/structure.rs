//! What must hold of a file around each placement: conditionals and brackets that are closed as before.

use super::outcome::{HunkOutcome, Placement};
use super::scope::Language;
use super::source::Source;
use crate::patch::{FilePatch, Hunk, Op};

/// How many more conditionals and braces some lines open than they close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Balance {
    conditions: i64,
    braces: i64,
}

impl Balance {
    fn of<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let mut balance = Self::default();
        for line in lines {
            match directive(line) {
                Some(Directive::If) => balance.conditions += 1,
                Some(Directive::End) => balance.conditions -= 1,
                Some(_) => {}
                None => {
                    balance.braces +=
                        code(line).map(|c| i64::from(c == '{') - i64::from(c == '}')).sum::<i64>();
                }
            }
        }
        balance
    }

    fn plus(self, other: Self) -> Self {
        Self { conditions: self.conditions + other.conditions, braces: self.braces + other.braces }
    }

    fn minus(self, other: Self) -> Self {
        Self { conditions: self.conditions - other.conditions, braces: self.braces - other.braces }
    }

    fn is_even(self) -> bool {
        self == Self::default()
    }

    fn name(self) -> &'static str {
        if self.conditions == 0 { "braces" } else { "`#if` and `#endif`" }
    }
}

/// A preprocessor line that opens, parts or closes a conditional.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Directive {
    If,
    ElseIf,
    Else,
    End,
}

fn directive(line: &str) -> Option<Directive> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    match &rest[..end] {
        "if" | "ifdef" | "ifndef" => Some(Directive::If),
        "elif" | "elifdef" | "elifndef" => Some(Directive::ElseIf),
        "else" => Some(Directive::Else),
        "endif" => Some(Directive::End),
        _ => None,
    }
}

/// The characters of a line outside of strings, character constants and comments that it closes itself.
pub(super) fn code(line: &str) -> impl Iterator<Item = char> + '_ {
    let mut quote: Option<char> = None;
    let mut escaped = false;
    let end = ["//", "/*"].iter().filter_map(|mark| line.find(mark)).min().unwrap_or(line.len());
    let head = if line.trim_start().starts_with("* ") { "" } else { &line[..end] };
    head.chars().filter(move |&c| {
        if let Some(open) = quote {
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == open {
                quote = None;
            }
            return false;
        }
        if c == '"' || c == '\'' {
            quote = Some(c);
            return false;
        }
        true
    })
}

fn changed(hunk: &Hunk, op: Op) -> impl Iterator<Item = &str> {
    hunk.lines.iter().filter(move |line| line.op == op).map(|line| line.text.as_str())
}

/// What a hunk changes of the balance where the patch was made.
fn of_hunk(hunk: &Hunk) -> Balance {
    Balance::of(changed(hunk, Op::Add)).minus(Balance::of(changed(hunk, Op::Remove)))
}

/// What a placement changes of it here.
fn of_placement(placement: &Placement, source: &Source) -> Balance {
    placement.edits.iter().fold(Balance::default(), |sum, edit| {
        let from = (edit.line - 1).min(source.text.len());
        let to = (from + edit.removed).min(source.text.len());
        sum.plus(Balance::of(edit.added.iter().map(String::as_str)))
            .minus(Balance::of(source.text[from..to].iter().map(String::as_str)))
    })
}

/// The hunks whose placement leaves a conditional or a brace open or closes one too many, with the reason.
///
/// Hunks in conflict are left to a person, with the balance that they bring.
pub(super) fn unbalanced(
    file: &FilePatch,
    placements: &[Placement],
    source: &Source,
) -> Vec<(usize, String)> {
    let placed = |placement: &Placement| placement.outcome != HunkOutcome::Conflict;
    let off: Vec<Balance> = file
        .hunks
        .iter()
        .zip(placements)
        .map(|(hunk, placement)| match placed(placement) {
            true => of_placement(placement, source).minus(of_hunk(hunk)),
            false => Balance::default(),
        })
        .collect();
    let sum = off.iter().fold(Balance::default(), |sum, off| sum.plus(*off));
    if sum.is_even() {
        return Vec::new();
    }
    let concerns =
        |off: &Balance| sum.conditions != 0 && off.conditions != 0 || sum.braces != 0 && off.braces != 0;
    (0..off.len())
        .filter(|&index| concerns(&off[index]))
        .map(|index| (index, format!("the file's {} would not match each other any more", off[index].name())))
        .collect()
}

/// True if a patch closes as many conditionals of the file as it opens, and none before it opened one: a part of a
/// patch may well close in front what another part opens.
pub(super) fn keeps_conditions(file: &FilePatch) -> bool {
    let lines = || file.hunks.iter().flat_map(|hunk| &hunk.lines);
    let moves = lines().any(|line| line.op == Op::Remove && directive(&line.text) == Some(Directive::End));
    let added = lines().filter(|line| line.op == Op::Add);
    let mut depth = 0i64;
    let in_order = added.map(|line| opened(&line.text)).all(|opened| {
        depth += opened;
        depth >= 0
    });
    (moves || in_order) && file.hunks.iter().map(|hunk| of_hunk(hunk).conditions).sum::<i64>() == 0
}

/// How many conditionals a line opens.
fn opened(line: &str) -> i64 {
    match directive(line) {
        Some(Directive::If) => 1,
        Some(Directive::End) => -1,
        _ => 0,
    }
}

/// How many conditionals and braces lines open, taken together.
pub(super) fn opens(lines: &[String]) -> i64 {
    let conditions: i64 = lines.iter().map(|line| opened(line)).sum();
    conditions + Balance::of(lines.iter().map(String::as_str)).braces
}

/// How often the conditionals of a file are closed without being open, parted twice, or left open.
pub(super) fn mistakes<'a>(lines: impl IntoIterator<Item = &'a str>) -> usize {
    // For each open conditional, whether its `#else` was seen.
    let mut open: Vec<bool> = Vec::new();
    let mut count = 0;
    for line in lines {
        match directive(line) {
            Some(Directive::If) => open.push(false),
            Some(Directive::ElseIf) => count += usize::from(open.last().is_none_or(|seen| *seen)),
            Some(Directive::Else) => match open.last_mut() {
                Some(seen) => count += usize::from(std::mem::replace(seen, true)),
                None => count += 1,
            },
            Some(Directive::End) => count += usize::from(open.pop().is_none()),
            None => {}
        }
    }
    count + open.len()
}

/// True if the changed lines of a hunk open, part or close a conditional.
pub(super) fn has_directive(hunk: &Hunk) -> bool {
    hunk.lines.iter().any(|line| line.op != Op::Context && directive(&line.text).is_some())
}

/// What stands between the changes of one hunk must part and close the same conditionals here as there.
pub(super) fn parted_otherwise(hunk: &Hunk, placement: &Placement, source: &Source) -> bool {
    if !has_directive(hunk) || placement.edits.len() < 2 {
        return false;
    }
    let first = hunk.lines.iter().position(|line| line.op != Op::Context).unwrap_or(0);
    let last = hunk.lines.iter().rposition(|line| line.op != Op::Context).unwrap_or(0);
    let there = hunk.lines[first..=last].iter().filter(|line| line.op == Op::Context);
    let (mut from, mut here) = (None, Vec::new());
    for edit in &placement.edits {
        if let Some(from) = from {
            here.extend(source.text.get(from..edit.line - 1).into_iter().flatten().map(String::as_str));
        }
        from = Some(edit.line - 1 + edit.removed);
    }
    let parts = |lines: Vec<&str>| -> Vec<Directive> { lines.into_iter().filter_map(directive).collect() };
    net(&parts(there.map(|line| line.text.as_str()).collect())) != net(&parts(here))
}

/// The directives that belong to a conditional which is open around the lines.
fn net(parts: &[Directive]) -> (Vec<Directive>, usize) {
    let mut depth = 0usize;
    let mut outer = Vec::new();
    for &part in parts {
        match part {
            Directive::If => depth += 1,
            Directive::End if depth > 0 => depth -= 1,
            _ if depth == 0 => outer.push(part),
            _ => {}
        }
    }
    (outer, depth)
}

impl std::fmt::Debug for Directive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::If => "#if",
            Self::ElseIf => "#elif",
            Self::Else => "#else",
            Self::End => "#endif",
        })
    }
}

/// True if line `at` stands behind a parenthesis that is not closed yet, or inside a comment.
///
/// It is looked for upwards to where a statement, a definition or a comment must have ended.
pub(super) fn is_inside<S: AsRef<str>>(lines: &[S], at: usize, language: Language) -> bool {
    const REACH: usize = 40;
    if language != Language::C {
        return false;
    }
    let mut depth = 0i64;
    for line in lines[..at.min(lines.len())].iter().rev().take(REACH) {
        let line = line.as_ref();
        let (open, close) = (line.rfind("/*"), line.rfind("*/"));
        if close.is_none() && open.is_some() || open > close {
            return true;
        }
        if close.is_some() && open.is_none() {
            // Above it is the comment, and in front of that what was there before.
            return depth > 0;
        }
        let text: String = code(line).collect();
        let trimmed = text.trim();
        if depth <= 0
            && (trimmed.is_empty() || trimmed.ends_with([';', '{', '}', ':']) || directive(line).is_some())
        {
            return false;
        }
        depth += text.chars().map(|c| i64::from(c == '(') - i64::from(c == ')')).sum::<i64>();
        if depth > 0 {
            return true;
        }
    }
    false
}

/// True if what stands from line `at` of a hunk on closes a parenthesis or a comment that opens above the hunk.
pub(super) fn closes_below<S: AsRef<str>>(lines: &[S], at: usize) -> bool {
    let mut depth = 0i64;
    for line in &lines[at.min(lines.len())..] {
        let line = line.as_ref();
        if let Some(close) = line.find("*/") {
            return line.find("/*").is_none_or(|open| close < open);
        }
        for c in code(line) {
            depth += i64::from(c == '(') - i64::from(c == ')');
            if depth < 0 {
                return true;
            }
            if depth == 0 && matches!(c, ';' | '{' | '}') {
                return false;
            }
        }
        if line.contains("/*") {
            return false;
        }
    }
    false
}

/// How many `#if` of these lines no `#endif` among them closes.
pub(super) fn conditionals_open<S: AsRef<str>>(lines: &[S]) -> i64 {
    lines.iter().fold(0, |open: i64, line| (open + opened(line.as_ref())).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_counted() {
        let count = |text: &str| mistakes(text.lines());
        assert_eq!(count("#if A\n#else\n#endif\n"), 0);
        assert_eq!(count("#if A\n# elif B\n#else\n#endif\n"), 0);
        assert_eq!(count("#ifdef A\n#else\n#else\n#endif\n"), 1);
        assert_eq!(count("#ifndef A\n#endif\n#endif\n#if B\n"), 2);
        assert_eq!(count("#iffy\nint else;\n"), 0);
    }

    #[test]
    fn braces_in_strings_and_comments_do_not_count() {
        assert_eq!(Balance::of(["f(\"{\", '{'); /* { */", " * {", "\t{ // }"]).braces, 1);
    }

    #[test]
    fn the_middle_of_a_prototype_is_inside() {
        let lines: Vec<&str> =
            "int f(int a,\n      int b);\nint g(void);\n/* a\n * b */\nx = y(\n\tz);".lines().collect();
        let inside: Vec<bool> = (0..=lines.len()).map(|at| is_inside(&lines, at, Language::C)).collect();
        assert_eq!(inside, [false, true, false, false, true, false, true, false]);
    }

    #[test]
    fn what_a_hunk_closes_opens_above_it() {
        let closes = |text: &str, at| closes_below(&text.lines().collect::<Vec<_>>(), at);
        assert!(closes("\ta,\n\tb);\n\tf();", 1));
        assert!(closes(" * text\n */\n", 0));
        assert!(!closes("\ta,\n\tb);\n\tf();", 2));
        assert!(!closes("\tx = y;\n\tf(a,\n\t  b);", 0));
        assert!(!closes("/* x */\n\tb);", 0));
    }
}
