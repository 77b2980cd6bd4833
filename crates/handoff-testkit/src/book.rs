//! The command lines that the book and the other pages show, for tests that try them.

use std::path::{Path, PathBuf};

/// A Markdown file of the repository, of which its blocks and command lines can be had.
#[derive(Debug)]
pub struct Page {
    /// Its path in the repository.
    pub name: String,
    pub text: String,
}

/// The top of this repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The book, what a visitor of the repository reads first, and the pages of the crates.
pub fn pages() -> Vec<Page> {
    let mut files = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    let entries = |folder: &Path| {
        let entries =
            std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        entries.map(|entry| entry.expect("an entry").path()).collect::<Vec<_>>()
    };
    files.extend(entries(&root().join("crates")).into_iter().map(|folder| folder.join("README.md")));
    for entry in entries(&root().join("docs/book/src")) {
        if entry.is_dir() { files.extend(entries(&entry)) } else { files.push(entry) }
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "md") && file.exists());
    files.sort();
    let page = |file: PathBuf| Page {
        name: file.strip_prefix(root()).expect("it is below").display().to_string(),
        text: std::fs::read_to_string(&file).expect("a page"),
    };
    files.into_iter().map(page).collect()
}

impl Page {
    /// The blocks of a language, as `toml`: what stands between the fences.
    pub fn blocks<'a>(&'a self, language: &'a str) -> impl Iterator<Item = &'a str> {
        let begin = format!("```{language}\n");
        let mut rest = self.text.as_str();
        std::iter::from_fn(move || {
            let (_, block) = rest.split_once(begin.as_str())?;
            let (block, behind) = block.split_once("```").unwrap_or((block, ""));
            rest = behind;
            Some(block)
        })
    }

    /// The command lines: all lines of blocks of a shell, and in recorded sessions those behind a prompt.
    pub fn command_lines(&self) -> Vec<String> {
        let typed = self.blocks("sh").flat_map(|block| joined(block, ""));
        let shown = self.blocks("console,ignore").flat_map(|block| joined(block, "$ "));
        typed.chain(shown).chain(self.compared_lines()).collect()
    }

    /// Those of blocks whose text is compared with what they print.
    pub fn compared_lines(&self) -> impl Iterator<Item = String> {
        self.blocks("console").flat_map(|block| joined(block, "$ "))
    }
}

/// Lines with this prompt, each with those that go on with it.
fn joined(block: &str, prompt: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in block.lines() {
        let (text, goes_on_after) = line.strip_suffix('\\').map_or((line, false), |line| (line, true));
        match (goes_on, text.strip_prefix(prompt)) {
            (true, _) => lines.last_mut().expect("it began").push_str(text.trim_start()),
            (false, Some(text)) if !text.trim().is_empty() && !text.starts_with('#') => {
                lines.push(text.to_owned())
            }
            _ => continue,
        }
        goes_on = goes_on_after;
    }
    lines
}

/// The words of each program that a line starts, without `sudo` and variables in front. Quotes and comments are as in a
/// shell; what a shell puts in the place of a word, `$(...)`, stands there as it is. Files that are written are no programs.
pub fn programs(line: &str) -> Vec<Vec<String>> {
    let (mut programs, mut words) = (Vec::new(), Vec::new());
    let (mut word, mut has_word, mut quote) = (String::new(), false, None);
    for c in line.chars().chain([' ']) {
        match (quote, c) {
            (Some(close), c) if c == close => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => (quote, has_word) = (Some(c), true),
            (None, '(') => quote = Some(')'),
            (None, '#') if !has_word => break,
            (None, ' ' | '|' | '&' | ';' | '>' | '<') => {
                if has_word {
                    words.push(std::mem::take(&mut word));
                }
                has_word = false;
                if c == '>' || c == '<' {
                    words.push(c.to_string());
                } else if c != ' ' {
                    programs.push(std::mem::take(&mut words));
                }
            }
            (None, c) => {
                word.push(c);
                has_word = true;
            }
        }
    }
    programs.push(words);
    let is_in_front =
        |word: &str| word == "sudo" || word.split_once('=').is_some_and(|(name, _)| is_variable(name));
    for words in &mut programs {
        let front = words.iter().take_while(|word| is_in_front(word)).count();
        words.drain(..front);
    }
    for words in &mut programs {
        if let Some(file) = words.iter().position(|word| word == ">" || word == "<") {
            words.truncate(file);
        }
    }
    programs.retain(|words| !words.is_empty());
    programs
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_programs_are_found() {
        let text =
            "a\n\n```sh\none 1 \\\n    2\n# said\n\ntwo\n```\n\n```console,ignore\n$ three\nfour\n```\n"
                .to_owned();
        let page = Page { name: "a.md".into(), text };
        assert_eq!(page.command_lines(), ["one 1 2", "two", "three"]);
        assert_eq!(page.blocks("sh").count(), 1);
        let is = |line, wanted: &[&[&str]]| assert_eq!(programs(line), wanted, "{line}");
        is("sudo A=1 a 'b c' d#e # f", &[&["a", "b c", "d#e"]]);
        is("echo '{\"a\": 1}' | b - && c \"\" &", &[&["echo", "{\"a\": 1}"], &["b", "-"], &["c", ""]]);
        is("A=$(b c) d e=$(f -g)", &[&["d", "e=$f -g"]]);
        is("a b > c/d 2> e", &[&["a", "b"]]);
        assert!(pages().iter().any(|page| page.name == "docs/book/src/introduction.md"));
    }
}
