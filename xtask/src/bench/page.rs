//! A table of its own that a bench has, between two marks of a page of the book.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::process::root;

/// A table of text, as it is in the book.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// The page, below `docs/book/src`.
    pub(super) page: String,
    /// The name in its marks: `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
    pub(super) mark: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    /// A table that would break its page is refused before it is kept.
    pub(super) fn check(&self) -> Result<()> {
        let inside =
            !self.page.is_empty() && !self.page.split('/').any(|part| part.is_empty() || part == "..");
        ensure!(inside, "a table goes to a page of the book, not to {:?}", self.page);
        let whole = self.rows.iter().all(|row| row.len() == self.columns.len());
        ensure!(whole && !self.columns.is_empty(), "the table {} has rows of different lengths", self.mark);
        let plain = |text: &String| !text.contains(['|', '\n']);
        let cells = self.rows.iter().flatten().chain(&self.columns).chain([&self.mark]);
        ensure!(
            cells.into_iter().all(plain),
            "the table {} has a cell with a bar or a line's end",
            self.mark
        );
        Ok(())
    }

    /// Writes the table into its page again.
    pub(super) fn write(&self) -> Result<()> {
        let (file, text) = self.text()?;
        let (before, after) = self.around(&text)?;
        let new = format!("{before}\n\n{}\n{after}", self.markdown());
        std::fs::write(&file, new).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Whether the page shows it as it is.
    #[cfg(test)]
    pub(super) fn is_shown(&self) -> Result<bool> {
        let (_, text) = self.text()?;
        let (before, after) = self.around(&text)?;
        Ok(text == format!("{before}\n\n{}\n{after}", self.markdown()))
    }

    fn text(&self) -> Result<(PathBuf, String)> {
        let file = root().join("docs/book/src").join(&self.page);
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Ok((file, text))
    }

    /// What is before the table, with the first mark, and after it, with the second.
    fn around<'a>(&self, text: &'a str) -> Result<(&'a str, &'a str)> {
        let [begin, end] = ["begin", "end"].map(|side| format!("<!-- {}: {side} -->", self.mark));
        let found = text.find(&begin).map(|place| place + begin.len());
        let places = found.and_then(|from| Some((from, from + text[from..].find(&end)?)));
        let (from, to) =
            places.with_context(|| format!("{} lacks the marks {begin} and {end}", self.page))?;
        Ok((&text[..from], &text[to..]))
    }

    fn markdown(&self) -> String {
        let mut text = format!("| {} |\n|{}\n", self.columns.join(" | "), "---|".repeat(self.columns.len()));
        for row in &self.rows {
            // Writing to a String cannot fail.
            _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            page: "design/x.md".into(),
            mark: "x".into(),
            columns: vec!["a".into(), "b".into()],
            rows: vec![vec!["1".into(), "2".into()]],
        }
    }

    #[test]
    fn a_table_is_as_markdown_has_it_and_stands_between_its_marks() {
        assert_eq!(table().markdown(), "| a | b |\n|---|---|\n| 1 | 2 |\n");
        let page = "before <!-- x: begin --> old <!-- x: end --> after";
        let expected = ("before <!-- x: begin -->", "<!-- x: end --> after");
        assert_eq!(table().around(page).expect("both marks"), expected);
        assert!(table().around("<!-- x: end --> <!-- x: begin -->").is_err());
    }

    #[test]
    fn what_would_break_a_page_is_refused() {
        assert!(table().check().is_ok());
        assert!(Table { page: "../x.md".into(), ..table() }.check().is_err());
        assert!(Table { rows: vec![vec!["1".into()]], ..table() }.check().is_err());
        assert!(Table { rows: vec![vec!["1".into(), "|".into()]], ..table() }.check().is_err());
    }
}
