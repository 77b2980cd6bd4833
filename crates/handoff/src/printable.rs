//! What may reach a terminal: characters, lines, and colours.
//!
//! Much of what a command prints was written by others: names of processes, of services, of their interfaces and groups,
//! what a service says of itself. Nothing of it may move the cursor, clear the screen, name the window or turn the text
//! around, wherever in a table or an error it stands. So it is looked at where it is printed, and in no other place.

use std::fmt::Write as _;

/// `text` with a question mark for each character that is not to be seen. Line feeds, tabs and colours stay (ECMA-48's SGR).
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        let is_kept = match character {
            '\n' | '\t' => true,
            '\u{1b}' => is_color(&text[at + 1..]),
            other => !other.is_control() && !turns_text(other),
        };
        safe.push(if is_kept { character } else { '?' });
    }
    safe
}

/// JSON whose strings have the same characters as numbers. Those below 32 it never has as they are, but for line feeds
/// between its values.
pub(crate) fn escaped(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        if turns_text(character) || character.is_control() && character != '\n' {
            let _ = write!(safe, "\\u{:04x}", u32::from(character));
        } else {
            safe.push(character);
        }
    }
    safe
}

/// Whether what follows an escape character only colours what is behind it.
fn is_color(rest: &str) -> bool {
    rest.strip_prefix('[').is_some_and(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m')
    })
}

/// Unicode's explicit directions, with which text is read otherwise than it stands.
fn turns_text(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::style;

    #[test]
    fn colours_and_lines_stay_and_nothing_else_that_cannot_be_seen() {
        let own = format!("{}\n\tgrün\n", style::paint(style::BAD, "no"));
        assert_eq!(printable(&own), own);
        for (said, shown) in [
            // Clears the screen, moves the cursor, names the window, and its forms of one character.
            ("a\u{1b}[2Jb", "a?[2Jb"),
            ("a\u{1b}[1;1Hb", "a?[1;1Hb"),
            ("a\u{1b}]0;b\u{7}c", "a?]0;b?c"),
            ("a\u{9b}2J\u{1b}c\u{1b}", "a?2J?c?"),
            ("a\rb\u{8}c\0\u{7f}", "a?b?c??"),
            // Turns the text around.
            ("a\u{202e}b\u{2066}c", "a?b?c"),
        ] {
            assert_eq!(printable(said), shown);
        }
    }

    #[test]
    fn json_has_the_same_strings_afterwards() {
        let said = ["a\u{9b}2J\u{1b}c\u{7f}", "a\u{202e}b\n", "grün \"\\"];
        let json = escaped(&serde_json::to_string_pretty(&said).unwrap());
        assert!(!json.chars().any(|c| turns_text(c) || c.is_control() && c != '\n'), "{json:?}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), said);
    }
}
