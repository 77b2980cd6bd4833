//! Names that the tree has otherwise: `inet->daddr` there, `inet->inet_daddr` here.

use std::collections::BTreeMap;

use super::source::Source;
use super::wanted::Wanted;
use super::words::{Line, is_identifier, split};

/// Names that the aligned lines have consistently otherwise.
pub(super) struct Renames {
    pairs: BTreeMap<String, String>,
}

impl Renames {
    /// Compares each expected line with the line that it was found to be.
    pub(super) fn new(wanted: &Wanted, source: &Source, map: &[Option<(usize, f64)>]) -> Self {
        let mut seen: BTreeMap<String, Option<String>> = BTreeMap::new();
        let mut witnesses: BTreeMap<String, usize> = BTreeMap::new();
        // Another function may well use the old name.
        let home =
            wanted.groups.first().and_then(|group| wanted.scopes.of_line.get(group.at).copied().flatten());
        for (index, (expected, pair)) in wanted.expected.iter().zip(map).enumerate() {
            let Some((row, _)) = pair else { continue };
            if wanted.scopes.of_line[index] != home {
                continue;
            }
            let (was, is) = (expected.line.words(), source.lines[*row].words());
            if was.len() != is.len() {
                // `skb` there and `*pskb` here is more than another name.
                for word in was.filter(|word| is_identifier(word) && !is.clone().any(|is| is == *word)) {
                    seen.insert(word.to_string(), None);
                }
                continue;
            }
            for (was, is) in was.zip(is) {
                if !is_identifier(was) || is_keyword(was) || is_keyword(is) {
                    continue;
                }
                *witnesses.entry(was.to_string()).or_default() += 1;
                let other = (was != is && is_identifier(is)).then(|| is.to_string());
                let entry = seen.entry(was.to_string()).or_insert_with(|| other.clone());
                if *entry != other {
                    // Once so and once otherwise is no renaming.
                    *entry = None;
                }
            }
        }
        // One of many flags beside another one is no new name of it.
        let is_constant = |name: &str| !name.bytes().any(|b| b.is_ascii_lowercase());
        let is_called = |name: &str| {
            let calls = |line: &Line| {
                line.words().zip(line.words().skip(1)).any(|(word, next)| word == name && next == "(")
            };
            wanted.expected.iter().any(|expected| calls(&expected.line))
        };
        let told = |was: &str| {
            !is_constant(was) && !is_called(was) || witnesses.get(was).is_some_and(|&lines| lines > 1)
        };
        let pairs =
            seen.into_iter().filter_map(|(was, is)| Some((was, is?))).filter(|(was, _)| told(was)).collect();
        Self { pairs }
    }

    /// Writes added lines in the tree's names, where the definition around line `at` has the new
    /// name and not the old one; says what was changed.
    pub(super) fn apply(&self, added: &mut [String], source: &Source, at: usize) -> Vec<String> {
        let Some(scope) = source.scopes.at(at.min(source.text.len().saturating_sub(1))) else {
            return Vec::new();
        };
        let has = |name: &str| {
            (scope.start..=scope.end).any(|line| source.lines[line].words().any(|word| word == name))
        };
        let mut notes = Vec::new();
        for (was, is) in &self.pairs {
            // What the added lines call by the other name already is not the same thing.
            let both = added.iter().any(|line| split(line).any(|word| word == is));
            if has(was) || !has(is) || both {
                continue;
            }
            let mut changed = false;
            for line in added.iter_mut() {
                if split(line).any(|word| word == was) {
                    *line = split(line).map(|word| if word == was { is.as_str() } else { word }).collect();
                    changed = true;
                }
            }
            if changed {
                notes.push(format!("`{was}` is called `{is}` here"));
            }
        }
        notes
    }
}

/// A type that changed in a declaration is no new name.
fn is_keyword(word: &str) -> bool {
    const WORDS: [&str; 40] = [
        "auto", "bool", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
        "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "return",
        "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void",
        "volatile", "while", "u8", "u16", "u32", "u64", "size_t", "true",
    ];
    WORDS.contains(&word)
        || matches!(word, "false" | "NULL" | "s8" | "s16" | "s32" | "s64" | "__be16" | "__be32")
}

#[cfg(test)]
mod tests {
    use super::super::scope::Language;
    use super::*;
    use crate::patch::{Limits, parse};

    fn renamed(file: &str, patch: &str, map: &[Option<(usize, f64)>], added: &str) -> (String, Vec<String>) {
        let source = Source::from_lines(file.lines().map(str::to_owned).collect(), false, Language::C);
        let series = parse(patch.as_bytes(), &Limits::default()).unwrap();
        let wanted = Wanted::new(&series.patches[0].files[0].hunks[0], &source, "a.c");
        let mut lines = vec![added.to_owned()];
        let notes = Renames::new(&wanted, &source, map).apply(&mut lines, &source, 2);
        (lines.remove(0), notes)
    }

    const PATCH: &str = "--- a/a.c\n+++ b/a.c\n@@ -3,2 +3,3 @@ int f(void)\n \tone(new_name, x);\n+\tmore(new_name);\n \ttwo(new_name);\n";

    #[test]
    fn a_consistent_new_name_is_taken_over() {
        let file = "int f(void)\n{\n\tone(old_name, x);\n\ttwo(old_name);\n}\n";
        let (line, notes) = renamed(file, PATCH, &[Some((2, 0.8)), Some((3, 0.8))], "\tmore(new_name);");
        assert_eq!(line, "\tmore(old_name);");
        assert_eq!(notes, ["`new_name` is called `old_name` here"]);
    }

    #[test]
    fn a_name_that_is_sometimes_kept_is_not() {
        let file = "int f(void)\n{\n\tone(old_name, x);\n\ttwo(new_name);\n}\n";
        let (line, notes) = renamed(file, PATCH, &[Some((2, 0.8)), Some((3, 1.0))], "\tmore(new_name);");
        assert_eq!((line.as_str(), notes.len()), ("\tmore(new_name);", 0));
    }
}
