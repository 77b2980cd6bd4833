//! The page: each doubtful hunk with the patch, its source and the tree side by side, and what a person says of it.

use std::fmt::Write as _;

use serde::Serialize;

use super::super::report::{FileReport, HunkReport, PatchReport, PortReport};
use super::{HunkView, Passage};
use crate::document::{STYLE, counted, diff_line, escape};

/// What the page's script knows of a hunk: all of a decision but the choice.
#[derive(Serialize)]
struct Choosable<'a> {
    subject: &'a str,
    file: &'a str,
    hunk: &'a str,
    line: usize,
    was: &'a [String],
    becomes: Option<Vec<String>>,
}

impl PortReport {
    /// The review page: one HTML file that opens offline and saves a person's decisions as a file.
    ///
    /// It has something to show only if the series was ported with [`Options::review`](super::super::Options::review).
    pub fn review_page(&self) -> String {
        let mut cards = String::new();
        let mut hunks = Vec::new();
        for patch in &self.patches {
            for file in &patch.files {
                for hunk in &file.hunks {
                    let Some(view) = &hunk.view else { continue };
                    let becomes = view.becomes();
                    card(&mut cards, hunks.len(), patch, file, hunk, view);
                    hunks.push(Choosable {
                        subject: &patch.subject,
                        file: &file.path,
                        hunk: &view.hunk,
                        line: view.tree.line,
                        was: &view.tree.lines,
                        becomes,
                    });
                }
            }
        }
        let sure = self.hunks().count() - hunks.len();
        // In a script element only `<` could end it.
        let data = serde_json::to_string(&hunks).unwrap_or_default().replace('<', "\\u003c");
        let onto = escape(&self.onto.display().to_string());
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Review of hunks for {onto}</title>\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'\"><style>{STYLE}{}</style></head><body>\n<h1>Hunks to judge, for {onto}</h1>\n",
            include_str!("page.css")
        );
        let _ = write!(
            out,
            "<p>{} here; {} without doubt and not shown. Accept a hunk if it stands where it should, refuse it to have it in a \
             <code>.rej</code> file, or edit the lines. Then save the decisions and give the file to \
             <code>handoff kernel port</code>, with the same series and tree, as <code>--decisions</code>.</p>\n\
             <p class=\"bar\"><button id=\"save\">Save the decisions</button> <span id=\"count\" role=\"status\"></span> \
             <label><input type=\"checkbox\" id=\"open\"> show only what is not decided</label></p>\n\
             <noscript><p>Deciding needs JavaScript; without it the page can be read.</p></noscript>\n",
            counted(hunks.len(), "hunk"),
            sure
        );
        if hunks.is_empty() {
            out.push_str("<p>Nothing is left to judge.</p>\n");
        }
        out.push_str(&cards);
        let _ = write!(
            out,
            "<script type=\"application/json\" id=\"hunks\">{data}</script>\n<script>{}</script>\n</body></html>\n",
            include_str!("page.js")
        );
        out
    }
}

fn card(
    out: &mut String,
    id: usize,
    patch: &PatchReport,
    file: &FileReport,
    hunk: &HunkReport,
    view: &HunkView,
) {
    let path = hunk.onto.as_ref().or(file.onto.as_ref()).unwrap_or(&file.path);
    let sure = match view.edits {
        Some(_) => format!(", confidence {:.0}%", hunk.confidence * 100.0),
        None => String::new(),
    };
    let _ = writeln!(
        out,
        "<section class=\"card {word}\" id=\"h{id}\"><h2><code>{}</code>, hunk {} <span class=\"tag\">{word}{sure}</span></h2>",
        escape(path),
        hunk.number,
        word = hunk.outcome.word(),
    );
    if !patch.subject.is_empty() {
        let _ = writeln!(out, "<p class=\"dim\">{}</p>", escape(&patch.subject));
    }
    let items: String = hunk
        .differences
        .iter()
        .chain(&hunk.needs)
        .chain(&file.notes)
        .map(|text| format!("<li>{}</li>", escape(text)))
        .collect();
    let _ = writeln!(out, "<ul>{items}</ul>\n<div class=\"sides\">");
    let side = |out: &mut String, title: &str, lines: &str| {
        let _ = writeln!(out, "<div><h3>{title}</h3><pre tabindex=\"0\">{lines}</pre></div>");
    };
    side(out, "The patch", &view.hunk.lines().map(diff_line).collect::<String>());
    if let Some(source) = &view.source {
        side(out, "What it was made for", &numbered(source));
    }
    let (title, lines) = match &view.edits {
        Some(edits) if edits.is_empty() => ("This tree: nothing changes", numbered(&view.tree)),
        Some(_) => ("This tree, with the hunk", change(view)),
        None if hunk.near.is_some() => ("This tree, where it probably belongs", numbered(&view.tree)),
        None => ("This tree, at the line that the patch names", numbered(&view.tree)),
    };
    side(out, title, &lines);
    let accept = if view.edits.is_some() { "" } else { " disabled" };
    let choice = |value: &str, more: &str| {
        format!("<label><input type=\"radio\" name=\"c{id}\" value=\"{value}\"{more}> {value}</label> ")
    };
    let _ = writeln!(
        out,
        "</div>\n<p class=\"choice\">{}{}{}<button type=\"button\" class=\"undo\">undecided</button></p>\n\
         <textarea hidden spellcheck=\"false\" wrap=\"off\" aria-label=\"What the tree's lines become\"></textarea></section>",
        choice("accept", accept),
        choice("refuse", ""),
        choice("edit", ""),
    );
}

fn numbered(passage: &Passage) -> String {
    let row = |(at, line): (usize, &String)| {
        format!("<span class=\"line\"><i>{}</i>{}</span>", passage.line + at, escape(line))
    };
    passage.lines.iter().enumerate().map(row).collect()
}

/// The tree's lines with those that go and those that come.
fn change(view: &HunkView) -> String {
    let mut out = String::new();
    let mut row = |number: Option<usize>, class: &str, line: &str| {
        let number = number.map_or(String::new(), |number| number.to_string());
        let _ = write!(out, "<span class=\"line {class}\"><i>{number}</i>{}</span>", escape(line));
    };
    let edits = view.edits.as_deref().unwrap_or_default();
    for (number, line) in (view.tree.line..).zip(&view.tree.lines) {
        for edit in edits.iter().filter(|edit| edit.line == number) {
            edit.added.iter().for_each(|line| row(None, "more", line));
        }
        let goes = edits.iter().any(|edit| (edit.line..edit.line + edit.removed).contains(&number));
        row(Some(number), if goes { "less" } else { "" }, line);
    }
    let end = view.tree.line + view.tree.lines.len();
    for edit in edits.iter().filter(|edit| edit.line >= end) {
        edit.added.iter().for_each(|line| row(None, "more", line));
    }
    out
}
