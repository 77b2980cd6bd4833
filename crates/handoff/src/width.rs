//! How wide text may be.

/// Columns of help and pages where no terminal says how many it has.
const USUAL: usize = 100;

/// The columns that text for people may fill: those of the terminal (or of the variable COLUMNS), 100 at most.
pub(crate) fn columns() -> usize {
    let stated = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns: &usize| *columns > 0);
    let terminal = || Some(usize::from(terminal_size::terminal_size()?.0.0)).filter(|columns| *columns > 0);
    stated().or_else(terminal).unwrap_or(USUAL).clamp(20, USUAL)
}

/// `text` in lines of at most `columns`; those after the first begin with `indent` blanks. A word is never cut.
pub(crate) fn wrapped(text: &str, first: usize, indent: usize, columns: usize) -> String {
    let (mut lines, mut column) = (String::new(), first);
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > indent.max(first) && column + 1 + length > columns {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > first || !lines.is_empty() {
            lines.push(' ');
            column += 1;
        }
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
        for columns in 20..100 {
            let text = "Say what could spoil a figure on this machine, and how to change it".repeat(3);
            let text = wrapped(&text, 7, 7, columns);
            assert!(text.lines().skip(1).all(|line| line.len() <= columns), "{columns}: {text}");
        }
    }
}
