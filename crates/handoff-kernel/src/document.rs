//! A document of headings, text, tables and pictures, as Markdown and as one HTML file.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// A piece of a document; text may hold `code` between backquotes and **strong** words between stars.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Block {
    /// A heading of this level, from 1.
    Heading(usize, String),
    Text(String),
    /// The words of others.
    Quote(String),
    /// Lines that keep their form, such as code and logs.
    Lines(String),
    /// Lines of a unified diff.
    Diff(String),
    /// What a person has to write.
    Prompt(String),
    List(Vec<String>),
    /// Columns' heads, and rows.
    Table(Vec<String>, Vec<Vec<String>>),
    Image(String),
}

impl Block {
    /// A table without the columns in which no row has anything.
    pub fn table(heads: &[&str], rows: Vec<Vec<String>>) -> Self {
        let is_empty = |column: usize| rows.iter().all(|row| row.get(column).is_none_or(String::is_empty));
        let kept: Vec<usize> =
            (0..heads.len()).filter(|&column| rows.is_empty() || !is_empty(column)).collect();
        let cells = |row: Vec<String>| kept.iter().filter_map(|&column| row.get(column).cloned()).collect();
        let heads = kept.iter().map(|&column| heads[column].to_owned()).collect();
        Self::Table(heads, rows.into_iter().map(cells).collect())
    }
}

/// Lets headings begin that many levels lower, for a document inside another.
#[must_use]
pub fn lowered(blocks: Vec<Block>, by: usize) -> Vec<Block> {
    let lower = |block| match block {
        Block::Heading(level, text) => Block::Heading((level + by).min(6), text),
        other => other,
    };
    blocks.into_iter().map(lower).collect()
}

/// The document as Markdown; pictures stand in it as SVG.
#[must_use]
pub fn markdown(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        match block {
            Block::Heading(level, text) => _ = write!(out, "{} {text}\n\n", "#".repeat(*level)),
            Block::Text(text) => _ = write!(out, "{text}\n\n"),
            Block::Quote(text) => {
                for line in text.lines() {
                    let _ = writeln!(out, "> {}", line.replace('<', "&lt;"));
                }
                out.push('\n');
            }
            Block::Lines(text) => {
                _ = write!(out, "```text\n{}\n```\n\n", text.trim_end().replace("```", "` ` `"));
            }
            Block::Diff(text) => {
                _ = write!(out, "```diff\n{}\n```\n\n", text.trim_end().replace("```", "` ` `"));
            }
            Block::Prompt(text) => _ = write!(out, "> **To be written by a person:** {text}\n\n"),
            Block::List(items) => {
                items.iter().for_each(|item| _ = writeln!(out, "- {item}"));
                out.push('\n');
            }
            Block::Table(head, rows) => {
                let _ = writeln!(out, "| {} |", head.join(" | "));
                let _ = writeln!(out, "|{}", "---|".repeat(head.len()));
                for row in rows {
                    let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
                    let _ = writeln!(out, "| {} |", cells.join(" | "));
                }
                out.push('\n');
            }
            Block::Image(image) => _ = writeln!(out, "{image}"),
        }
    }
    out
}

/// What all pages look like, in light and in dark, on a desk and on a phone.
pub(crate) const STYLE: &str = include_str!("document.css");

/// The document as one HTML file that opens offline.
#[must_use]
pub fn html(title: &str, blocks: &[Block]) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><style>{STYLE}</style></head><body>\n",
        escape(title)
    );
    for block in blocks {
        match block {
            Block::Heading(level, text) => _ = writeln!(out, "<h{level}>{}</h{level}>", inline(text)),
            Block::Text(text) => _ = writeln!(out, "<p>{}</p>", inline(text)),
            Block::Quote(text) => _ = writeln!(out, "<blockquote>{}</blockquote>", escape(text)),
            Block::Lines(text) => _ = writeln!(out, "<pre>{}</pre>", escape(text.trim_end())),
            Block::Diff(text) => {
                _ = writeln!(out, "<pre>{}</pre>", text.lines().map(diff_line).collect::<String>());
            }
            Block::Prompt(text) => {
                _ = writeln!(
                    out,
                    "<p class=\"prompt\"><b>To be written by a person:</b> {}</p>",
                    inline(text)
                );
            }
            Block::List(items) => {
                let items: String = items.iter().map(|item| format!("<li>{}</li>", inline(item))).collect();
                let _ = writeln!(out, "<ul>{items}</ul>");
            }
            Block::Table(head, rows) => {
                let head: String = head.iter().map(|cell| format!("<th>{}</th>", inline(cell))).collect();
                let _ = writeln!(out, "<div class=\"scroll\"><table><tr>{head}</tr>");
                for row in rows {
                    let cells: String = row.iter().map(|cell| format!("<td>{}</td>", inline(cell))).collect();
                    let _ = writeln!(out, "<tr>{cells}</tr>");
                }
                out.push_str("</table></div>\n");
            }
            Block::Image(image) => _ = writeln!(out, "<div class=\"image\">{image}</div>"),
        }
    }
    out.push_str("</body></html>\n");
    out
}

/// A line of a diff, in its colour.
pub(crate) fn diff_line(line: &str) -> String {
    let class = match line.bytes().next() {
        Some(b'+') => " more",
        Some(b'-') => " less",
        _ => "",
    };
    format!("<span class=\"line{class}\">{}</span>", escape(line))
}

/// Text of others inside a sentence: nothing in it may become markup.
#[must_use]
pub fn plain(text: &str) -> String {
    text.replace('`', "'").replace('<', "‹").replace('>', "›").replace("**", "*")
}

/// A number of things: `1 file`, `2 files`.
#[must_use]
pub fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// Text of others as code.
#[must_use]
pub fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'"))
}

/// Escapes text and turns backquotes and double stars into elements.
fn inline(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in text.split('`').enumerate() {
        if index % 2 == 1 {
            let _ = write!(out, "<code>{}</code>", escape(part));
            continue;
        }
        for (index, piece) in part.split("**").enumerate() {
            let piece = escape(piece);
            if index % 2 == 1 {
                let _ = write!(out, "<b>{piece}</b>");
            } else {
                out.push_str(&piece);
            }
        }
    }
    out
}

/// Text for XML and HTML, attributes included.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_in_which_nothing_stands_is_left_out() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let table =
            Block::table(&["date", "commit", "subject"], vec![row(["", "f54b", "a"]), row(["", "", "b"])]);
        let Block::Table(heads, rows) = table else { panic!("a table") };
        assert_eq!(
            (heads, rows),
            (
                vec!["commit".to_owned(), "subject".to_owned()],
                vec![vec!["f54b".to_owned(), "a".to_owned()], vec![String::new(), "b".to_owned()],]
            )
        );
        let Block::Table(heads, _) = Block::table(&["date"], Vec::new()) else { panic!("a table") };
        assert_eq!(heads, ["date"], "a table without rows says what it would have");
    }
}
