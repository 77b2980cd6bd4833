//! How wide text may be.

use std::io::IsTerminal;

/// Columns of help and pages where no terminal says how many it has.
const USUAL: usize = 100;

/// The columns that text for people may fill: those of the terminal (or of the variable COLUMNS), 100 at most.
pub(crate) fn columns() -> usize {
    stated().unwrap_or(USUAL).clamp(20, USUAL)
}

fn stated() -> Option<usize> {
    let variable = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns: &usize| *columns > 0);
    let terminal = || Some(usize::from(terminal_size::terminal_size()?.0.0)).filter(|columns| *columns > 0);
    variable().or_else(terminal)
}

/// What is printed on `stream`: on a terminal each line that is too long for it goes on below, further to the right.
/// A terminal by itself would cut words, and a table would lose its columns.
pub(crate) fn fitted(text: String, stream: &impl IsTerminal) -> String {
    match stated().filter(|_| stream.is_terminal()) {
        Some(columns) => fit(&text, columns.max(20)),
        None => text,
    }
}

fn fit(text: &str, columns: usize) -> String {
    let line = |line: &str| {
        if is_within(line, columns) {
            return line.to_owned();
        }
        let words = line.trim_start_matches(' ');
        let (blanks, _) = line.split_at(line.len() - words.len());
        let indent = (blanks.len() + 4).min(columns / 2);
        format!("{blanks}{}", wrapped(words, blanks.len(), indent, columns))
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// The text below the options of a command's help: examples and statuses, a line each, with what it means behind two blanks
/// or more. A meaning that is too long goes on in its own column, or where that is too narrow below its line. Clap would
/// begin each such line at the left, among the commands.
pub(crate) fn annotated(text: &str, columns: usize) -> String {
    let line = |line: &str| {
        if is_within(line, columns) {
            return line.to_owned();
        }
        let words = line.trim_start_matches(' ');
        let indent = line.len() - words.len();
        let Some((command, meaning)) = words.split_once("  ") else { return fit(line, columns) };
        let meaning = meaning.trim_start_matches(' ');
        let column = line.len() - meaning.len();
        if column + NARROWEST <= columns {
            return line[..column].to_owned() + &wrapped(meaning, column, column, columns);
        }
        let below = (indent + 4).min(columns / 2);
        let command = fit(&line[..indent + command.len()], columns);
        format!("{command}\n{}{}", " ".repeat(below), wrapped(meaning, below, below, columns))
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// The narrowest column of text that is still readable.
const NARROWEST: usize = 24;

/// Whether a line is not too long. Mostly its bytes say so already: each text of each command is looked at whenever the
/// program starts.
fn is_within(line: &str, columns: usize) -> bool {
    line.len() <= columns || visible(line) <= columns
}

/// How many characters are seen: those that colour the text are not.
fn visible(text: &str) -> usize {
    if !text.contains('\x1b') {
        return text.chars().count();
    }
    anstream::adapter::strip_str(text).map(|part| part.chars().count()).sum()
}

/// `text` in lines of at most `columns`; those after the first begin with `indent` blanks. A word is never cut.
pub(crate) fn wrapped(text: &str, first: usize, indent: usize, columns: usize) -> String {
    let (mut lines, mut column, mut after_break) = (String::new(), first, false);
    for word in text.split(' ') {
        let length = visible(word);
        if column > indent.max(first) && column + 1 + length > columns {
            lines.truncate(lines.trim_end_matches(' ').len());
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            column = indent;
            after_break = true;
        } else if after_break && word.is_empty() {
            continue; // More blanks where the line was broken.
        } else if column > first || !lines.is_empty() {
            lines.push(' ');
            column += 1;
        }
        after_break &= word.is_empty();
        lines.push_str(word);
        column += length;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_before_the_last_column_and_words_stay_whole() {
        assert_eq!(wrapped("one two three", 0, 2, 80), "one two three");
        assert_eq!(wrapped("one two three", 0, 2, 8), "one two\n  three");
        assert_eq!(wrapped("one two three", 4, 4, 8), "one\n    two\n    three");
        assert_eq!(wrapped("incomprehensible x", 4, 4, 8), "incomprehensible\n    x");
        assert_eq!(wrapped("", 4, 4, 8), "");
        assert_eq!(wrapped("one   two   three", 0, 2, 8), "one\n  two\n  three");
        for columns in 20..100 {
            let text = "Say what could spoil a figure on this machine, and how to change it".repeat(3);
            let text = wrapped(&text, 7, 7, columns);
            assert!(text.lines().skip(1).all(|line| line.len() <= columns), "{columns}: {text}");
        }
    }

    #[test]
    fn an_example_keeps_its_meaning_apart_from_the_commands() {
        let text = "Examples:\n  handoff run --quick          ten seconds, with wider intervals\n  \
                    handoff run                  about a minute";
        assert_eq!(annotated(text, 80), text);
        assert_eq!(
            annotated(text, 56),
            "Examples:\n  handoff run --quick          ten seconds, with wider\n                               \
             intervals\n  handoff run                  about a minute"
        );
        assert_eq!(
            annotated(text, 40),
            "Examples:\n  handoff run --quick\n      ten seconds, with wider intervals\n  handoff run\n      \
             about a minute"
        );
        assert_eq!(
            annotated("  2    it could not be done at all", 32),
            "  2    it could not be done at\n       all"
        );
        assert_eq!(annotated("The exit status is that of it", 20), "The exit status is\n    that of it");
    }

    #[test]
    fn a_table_fits_a_narrow_terminal() {
        let table = "  metric      A      B     B / A  interval\n\n  wall (s)  0.1  0.2  +100%  +90% to +110%, regressed";
        assert_eq!(fit(table, 80), table);
        let narrow = fit(table, 40);
        assert!(narrow.lines().all(|line| line.len() <= 40), "{narrow}");
        assert_eq!(
            narrow,
            "  metric      A      B     B / A\n      interval\n\n  wall (s)  0.1  0.2  +100%  +90% to\n      +110%, regressed"
        );
        let coloured = "\u{1b}[1mbold\u{1b}[0m text";
        assert_eq!(fit(coloured, 9), coloured, "colours take no room");
    }
}
