//! The pictures in the README are what the program prints and writes now, of the data in this repository.
//!
//! `HANDOFF_BLESS=1 cargo test -p handoff-cli --test it pictures` draws them anew.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use handoff_testkit::browser::{self, Window};
use handoff_testkit::{require, require_tool};

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

/// The report of `handoff run`, and the result that it is of.
const REPORT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/report.png");
const RESULT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/run.json.gz");

/// Pixels of the picture: the page's head and its first figures.
const REPORT_SIZE: (u32, u32) = (960, 1000);

fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}

/// The comment of a picture (PNG's chunk tEXt) that says which page it shows. The picture itself tells nothing: other
/// fonts draw the same page in other pixels.
fn comment(page: &str) -> Vec<u8> {
    let text = format!("Comment\0page {:08x}", checksum(page.as_bytes()));
    let chunk = [b"tEXt", text.as_bytes()].concat();
    let length = u32::try_from(text.len()).expect("short").to_be_bytes();
    [&length[..], &chunk, &checksum(&chunk).to_be_bytes()].concat()
}

fn draw_report(chromium: &Path, page: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let shot = folder.path().join("shot.png");
    let window =
        Window { chromium, folder: folder.path(), name: "report", width: REPORT_SIZE.0, dark: false };
    browser::picture(&window, page, REPORT_SIZE.1, &shot);
    let drawn = std::fs::read(&shot).expect("a picture");
    // The signature and the header come first.
    let (head, rest) = drawn.split_at(8 + 25);
    std::fs::write(REPORT, [head, &comment(page), rest].concat()).expect("written");
}

#[test]
fn the_report_in_the_readme_shows_what_is_written() {
    let result = std::fs::File::open(RESULT).expect("the result");
    let result = serde_json::from_reader(std::io::BufReader::new(flate2::read::GzDecoder::new(result)))
        .expect("a result of handoff run");
    let page = handoff_lab::report::suite::html(&result).expect("a page");
    if std::env::var_os("HANDOFF_BLESS").is_some() {
        draw_report(&require!(require_tool("chromium")), &page);
    }
    let (kept, wanted) = (std::fs::read(REPORT).unwrap_or_default(), comment(&page));
    assert!(
        kept.windows(wanted.len()).any(|bytes| bytes == wanted),
        "docs/book/src/report.png is older than what it shows: HANDOFF_BLESS=1 draws it anew"
    );
}
