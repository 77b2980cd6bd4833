//! The picture of a terminal in the README is what the program prints now, of the data in this repository.
//!
//! `HANDOFF_BLESS=1 cargo test -p handoff-cli --test it pictures` draws it anew.

use std::fmt::Write as _;
use std::process::Command;

const PICTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/terminal.svg");
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../handoff-lab/tests/data");
const COMMAND: &str = "handoff lab analyse wake_affine_hackbench_seconds.csv --before before --after after";

/// Columns of the terminal.
const COLUMNS: usize = 100;

/// A terminal with these lines: 8.4 units a column, 20 a line.
fn drawn(lines: &[String]) -> String {
    let (width, height) = (COLUMNS * 84 / 10 + 32, lines.len() * 20 + 32);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" \
         font-size=\"14\" fill=\"#d8dee9\">\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1b1f27\"/>\n"
    );
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let text = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let length = line.chars().count() as f64 * 8.4;
        writeln!(
            svg,
            "<text x=\"16\" y=\"{}\" xml:space=\"preserve\" textLength=\"{length:.1}\" \
             lengthAdjust=\"spacingAndGlyphs\">{text}</text>",
            number * 20 + 34
        )
        .expect("a string");
    }
    svg + "</svg>\n"
}

/// `text` in lines of a terminal's width; a word is never cut.
fn broken(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (number, word) in text.split(' ').enumerate() {
        let last = lines.last_mut().expect("there is one");
        if last.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(format!("    {word}"));
        } else {
            last.push_str(if number == 0 { "" } else { " " });
            last.push_str(word);
        }
    }
    lines
}

#[test]
fn the_terminal_in_the_readme_shows_what_is_printed() {
    let output = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(COMMAND.split(' ').skip(1))
        .current_dir(DATA)
        .env("HANDOFF_CONFIG", "")
        .output()
        .expect("handoff runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("text");
    // The table has two groups, of which one is enough.
    let group = printed.split("\n\nreaders = 100").next().expect("a group");
    let mut lines = vec![format!("$ {COMMAND}")];
    lines.extend(group.lines().flat_map(broken));
    let picture = drawn(&lines);
    if std::env::var_os("HANDOFF_BLESS").is_some() {
        std::fs::write(PICTURE, &picture).expect("written");
    }
    let kept = std::fs::read_to_string(PICTURE).unwrap_or_default();
    assert!(
        kept == picture,
        "docs/book/src/terminal.svg is older than what it shows: HANDOFF_BLESS=1 draws it anew"
    );
}
