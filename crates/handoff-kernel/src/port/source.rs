//! A source file, ready to be compared: its lines, their words, and what encloses them.

use std::cell::OnceCell;
use std::collections::HashMap;

use super::heading::Headings;
use super::scope::{Language, Scopes};
use super::words::Line;
use crate::patch::text;

/// A file of the tree.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// The lines without their ends.
    pub text: Vec<String>,
    /// True if the last line has no end.
    pub no_final_newline: bool,
    /// The lines as words.
    pub lines: Vec<Line>,
    /// What encloses each line.
    pub scopes: Scopes,
    /// How it is laid out.
    pub language: Language,
    /// Where a line stands, by [`Line::key`].
    rows: HashMap<u64, Vec<u32>>,
    /// Blocks between conflict markers: the first line and the one behind the last, from 0.
    pub marked: Vec<(usize, usize)>,
    /// The lines of those blocks as they are.
    hidden: HashMap<usize, String>,
    /// The lines that are headings of hunks.
    headings: OnceCell<Headings>,
}

/// Stands for a line inside conflict markers: no patch has such a line, so none is found there.
const MARKED: &str = "#\u{0}conflict";

impl Source {
    /// Reads a file's bytes; `path` tells the language.
    pub(super) fn new(bytes: &[u8], path: &str) -> Self {
        let content = text::decode(bytes);
        let mut lines: Vec<String> = content.split('\n').map(str::to_owned).collect();
        let no_final_newline = lines.last().is_some_and(|last| !last.is_empty());
        if !no_final_newline {
            lines.pop();
        }
        Self::from_lines(lines, no_final_newline, Language::of(path))
    }

    /// The lines as they are, those inside conflict markers too.
    pub(super) fn all_lines(&self) -> Vec<String> {
        let mut lines = self.text.clone();
        for (&line, text) in &self.hidden {
            lines[line].clone_from(text);
        }
        lines
    }

    /// True if a line with this text stands between conflict markers.
    pub(super) fn hides(&self, text: &str) -> bool {
        self.hidden.values().any(|hidden| hidden == text)
    }

    /// The block of conflict markers that holds a line.
    pub(super) fn marked_block(&self, line: usize) -> Option<(usize, usize)> {
        self.marked.iter().copied().find(|(from, to)| (*from..*to).contains(&line))
    }

    /// Takes lines that are already split.
    pub(super) fn from_lines(text: Vec<String>, no_final_newline: bool, language: Language) -> Self {
        let mut text = text;
        let marked = marked_blocks(&text);
        let mut hidden = HashMap::new();
        let scopes = if marked.is_empty() {
            Scopes::of_file(&text, language)
        } else {
            // The tree's side is what the file was: its braces count, the other sides' do not.
            let mut seen: Vec<&str> = text.iter().map(String::as_str).collect();
            for &(from, to) in &marked {
                let tree = from + 1..side_end(&text, from, to);
                (from..to).filter(|line| !tree.contains(line)).for_each(|line| seen[line] = "");
            }
            let scopes = Scopes::of_file(&seen, language);
            for line in marked.iter().flat_map(|&(from, to)| from..to) {
                hidden.insert(line, std::mem::replace(&mut text[line], MARKED.to_owned()));
            }
            scopes
        };
        let lines: Vec<Line> = text.iter().map(|line| Line::new(line)).collect();
        let mut rows: HashMap<u64, Vec<u32>> = HashMap::new();
        for (row, line) in (0..).zip(&lines) {
            rows.entry(line.key).or_default().push(row);
        }
        let headings = OnceCell::new();
        Self { text, no_final_newline, lines, scopes, language, rows, marked, hidden, headings }
    }

    /// The file's bytes.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = text::encode(&self.all_lines().join("\n"));
        if !self.no_final_newline && !self.text.is_empty() {
            out.push(b'\n');
        }
        out
    }

    /// The lines that are headings of hunks.
    pub(super) fn headings(&self) -> &Headings {
        self.headings.get_or_init(|| Headings::of(&self.text))
    }

    /// How often a line with these words occurs.
    pub(super) fn count(&self, line: &Line) -> u32 {
        self.rows(line).len() as u32
    }

    /// The rows of lines with these words, in their order.
    pub(super) fn rows(&self, line: &Line) -> &[u32] {
        self.rows.get(&line.key).map_or(&[], Vec::as_slice)
    }
}

/// The blocks from `<<<<<<< ` to `>>>>>>> ` with a `=======` in between.
pub(super) fn marked_blocks<S: AsRef<str>>(lines: &[S]) -> Vec<(usize, usize)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, bool)> = None;
    for (number, line) in lines.iter().enumerate() {
        let line = line.as_ref();
        if line.starts_with("<<<<<<< ") {
            open = open.or(Some((number, false)));
        } else if line.starts_with("=======") {
            open = open.map(|(from, _)| (from, true));
        } else if line.starts_with(">>>>>>> ")
            && let Some((from, true)) = open
        {
            blocks.push((from, number + 1));
            open = None;
        }
    }
    blocks
}

/// Where the tree's side of a block ends.
fn side_end(lines: &[String], from: usize, to: usize) -> usize {
    let ends = |line: &String| line.starts_with("||||||| ") || line.starts_with("=======");
    (from + 1..to).find(|&line| ends(&lines[line])).unwrap_or(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reading_and_writing_are_inverse(bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'{'), Just(b'}'), Just(b'#'), Just(b'('), any::<u8>()], 0..200)) {
            prop_assert_eq!(Source::new(&bytes, "a.c").bytes(), bytes.clone());
            prop_assert_eq!(Source::new(&bytes, "Kconfig").bytes(), bytes);
        }
    }
}
