//! A source file, ready to be compared: its lines, their words, and what encloses them.

use std::collections::HashMap;

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
    /// How often a line occurs, by [`Line::key`].
    counts: HashMap<u64, u32>,
}

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

    /// Takes lines that are already split.
    pub(super) fn from_lines(text: Vec<String>, no_final_newline: bool, language: Language) -> Self {
        let lines: Vec<Line> = text.iter().map(|line| Line::new(line)).collect();
        let scopes = Scopes::of_file(&text, language);
        let mut counts = HashMap::new();
        for line in &lines {
            *counts.entry(line.key).or_insert(0) += 1;
        }
        Self { text, no_final_newline, lines, scopes, counts }
    }

    /// The file's bytes.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = text::encode(&self.text.join("\n"));
        if !self.no_final_newline && !self.text.is_empty() {
            out.push(b'\n');
        }
        out
    }

    /// How often a line with these words occurs.
    pub(super) fn count(&self, line: &Line) -> u32 {
        self.counts.get(&line.key).copied().unwrap_or(0)
    }
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
