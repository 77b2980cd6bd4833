//! The heading of a hunk, as `git diff` and `diff -p` compute it: the nearest line above that starts in the
//! first column with a letter.
//!
//! git's C driver leaves labels out, the plain rule does not; a patch does not say which of the two made it.

use super::scope::{definition, entry_name, is_label};
use super::source::Source;

/// GNU diff cuts a heading after 40 characters, git after 80 bytes.
const CUT: usize = 39;

/// Whether the heading of a hunk that started at line `at` of the file would be `heading`; `None` if the
/// patch has no headings.
pub(super) fn agrees(source: &Source, at: usize, heading: &str) -> Option<bool> {
    let heading = heading.trim();
    if heading.is_empty() {
        return None;
    }
    let same = |row: usize| {
        let line = source.text[row].trim_end();
        line == heading || heading.len() >= CUT && line.starts_with(heading)
    };
    Some(source.headings().above(at).into_iter().flatten().any(same))
}

/// The lines of a file that are headings: for the first `n` lines, the last one among them by either rule.
#[derive(Clone, Debug)]
pub(super) struct Headings(Vec<[Option<u32>; 2]>);

impl Headings {
    pub(super) fn of(text: &[String]) -> Self {
        let mut all = vec![[None; 2]];
        for (row, line) in text.iter().enumerate() {
            let [mut any, mut no_label] = all[row];
            if starts(line) {
                any = u32::try_from(row).ok();
                no_label = if is_access_or_label(line) { no_label } else { any };
            }
            all.push([any, no_label]);
        }
        Self(all)
    }

    /// The rows of the headings that a hunk at line `at` may have.
    fn above(&self, at: usize) -> [Option<usize>; 2] {
        self.0[at.min(self.0.len() - 1)].map(|row| row.map(|row| row as usize))
    }
}

/// A question about a line.
type Test<'a> = &'a dyn Fn(&str) -> bool;

/// The scopes of the lines below a line with this heading and above the next one, in a file laid out by indentation.
///
/// git's driver for a language names the nearest definition, also an indented one; the plain rule does not.
pub(super) fn below(source: &Source, heading: &str) -> Vec<usize> {
    let heading = heading.trim();
    if heading.is_empty() {
        return Vec::new();
    }
    let same =
        |line: &str| line.trim() == heading || heading.len() >= CUT && line.trim().starts_with(heading);
    let name = |line: &str| definition(line).map_or_else(|| entry_name(line.trim()), |(_, name)| name);
    let wanted = name(heading);
    let is_definition = |line: &str| definition(line).is_some();
    let named = |line: &str| name(line) == wanted;
    let scopes = |starts: Test<'_>, is: Test<'_>| {
        let mut found: Vec<usize> = Vec::new();
        let mut inside = false;
        for (line, scope) in source.text.iter().zip(&source.scopes.of_line) {
            if starts(line) {
                inside = is(line);
            }
            found.extend(scope.filter(|scope| inside && found.last() != Some(scope)));
        }
        found.sort_unstable();
        found.dedup();
        found
    };
    let rules: [(Test<'_>, Test<'_>); 4] =
        [(&starts, &same), (&is_definition, &same), (&starts, &named), (&is_definition, &named)];
    rules.iter().map(|(starts, is)| scopes(starts, is)).find(|found| !found.is_empty()).unwrap_or_default()
}

/// git's rule without a driver: a letter, `_` or `$` in the first column.
fn starts(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$'))
}

/// What git's C driver skips: a name and a colon, perhaps with a comment behind it.
fn is_access_or_label(line: &str) -> bool {
    is_label(line)
        || line.split_once(':').is_some_and(|(name, rest)| {
            let rest = rest.trim_start();
            name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                && (rest.is_empty() || rest.starts_with("/*") || rest.starts_with("//"))
        })
}

#[cfg(test)]
mod tests {
    use super::super::scope::Language;
    use super::*;

    fn source(text: &str) -> Source {
        Source::from_lines(text.lines().map(str::to_owned).collect(), false, Language::C)
    }

    #[test]
    fn the_nearest_line_in_the_first_column_counts() {
        let file = source("struct a;\nint f(void)\n{\n\tone();\nout:\n\ttwo();\n}\n\n/* next */\n");
        assert_eq!(agrees(&file, 3, "int f(void)"), Some(true));
        // Behind the function its line still is the heading, and with a label in between either counts.
        assert_eq!(agrees(&file, 8, "int f(void)"), Some(true));
        assert_eq!(agrees(&file, 8, "out:"), Some(true));
        assert_eq!(agrees(&file, 3, "struct a;"), Some(false));
        assert_eq!(agrees(&file, 1, "struct a;"), Some(true));
        assert_eq!(agrees(&file, 3, ""), None);
    }

    #[test]
    fn a_heading_that_was_cut_is_a_prefix() {
        let long = "static int a_function_with_a_rather_long_name(struct argument *first,";
        let file = source(&format!("{long}\n\t\tint second)\n{{\n\tone();\n}}\n"));
        assert_eq!(agrees(&file, 3, &long[..40]), Some(true));
        assert_eq!(agrees(&file, 3, "static int a"), Some(false));
    }
}
