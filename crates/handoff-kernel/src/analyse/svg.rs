//! Draws a call graph: layers from left to right, what changed in colour.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::graph::{Graph, Mark};
use crate::document::escape;

const ROW: usize = 34;
const HEIGHT: usize = 24;
const GAP: usize = 70;
const LETTER: usize = 7;
/// Colours for light and dark; the picture also stands alone.
const STYLE: &str = ".paper{fill:#fff}text{fill:#1b1f24}.tip{fill:#667}.call-same{stroke:#99a}.call-added{stroke:#1a7f37}\
    .call-removed{stroke:#b3261e}.box-same{fill:#f4f5f8;stroke:#889}.box-added{fill:#d9f2df;stroke:#1a7f37}\
    .box-changed{fill:#fff1cc;stroke:#a86b00}.box-removed{fill:#fbdedb;stroke:#b3261e}\
    @media(prefers-color-scheme:dark){.paper{fill:#14171b}text{fill:#e8eaed}.box-same{fill:#1d2127}.box-added{fill:#17381f}\
    .box-changed{fill:#40300f}.box-removed{fill:#47201d}.call-added{stroke:#6fcf8a}.call-removed{stroke:#ff8a80}}";

/// The graph as an SVG image that needs nothing else.
///
/// Where calls appear or go, the two versions stand below each other, before and after.
pub(super) fn draw(graph: &Graph) -> String {
    let flow_changes = graph.edges.iter().any(|edge| matches!(edge.mark, Mark::Added | Mark::Removed));
    let parts: Vec<(&str, String, usize, usize)> = if flow_changes && !graph.by_file {
        [("before", Mark::Added), ("after", Mark::Removed)]
            .into_iter()
            .map(|(title, without)| {
                let (body, width, height) = part(graph, Some(without));
                (title, body, width, height)
            })
            .collect()
    } else {
        let (body, width, height) = part(graph, None);
        vec![("", body, width, height)]
    };
    // Side by side while that fits a page, else one below the other.
    let total: usize = parts.iter().map(|part| part.2 + 40).sum();
    let beside = total <= 1400;
    let width = if beside { total } else { parts.iter().map(|part| part.2).max().unwrap_or(0) + 40 };
    // Room for the legend.
    let width = width.max(680);
    let tallest = parts.iter().map(|part| part.3).max().unwrap_or(0);
    let height = if beside { tallest } else { parts.iter().map(|part| part.3 + 30).sum() } + 70;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"11\" role=\"img\" aria-label=\"call graph\">\n\
         <style>{STYLE}</style><rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
         <path d=\"M0 0L8 4L0 8z\" class=\"tip\"/></marker></defs>\n"
    );
    let (mut x, mut y) = (20, 30);
    for (title, body, part_width, part_height) in parts {
        if !title.is_empty() {
            let _ = writeln!(out, "<text x=\"{x}\" y=\"{}\" font-weight=\"bold\">{title}</text>", y - 12);
        }
        let _ = writeln!(out, "<g transform=\"translate({x} {y})\">\n{body}</g>");
        if beside {
            x += part_width + 40;
        } else {
            y += part_height + 30;
        }
    }
    legend(&mut out, height - 14);
    out.push_str("</svg>\n");
    out
}

/// One version; `without` leaves out what only the other one has.
fn part(graph: &Graph, without: Option<Mark>) -> (String, usize, usize) {
    let shown: Vec<_> = graph.vertices.iter().filter(|vertex| Some(vertex.mark) != without).collect();
    let mut columns: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, vertex) in shown.iter().enumerate() {
        columns.entry(vertex.layer).or_default().push(index);
    }
    let label = |index: usize| {
        let name = &shown[index].name;
        if graph.by_file { name.clone() } else { format!("{name}()") }
    };
    let mut places: BTreeMap<&str, (usize, usize, usize)> = BTreeMap::new();
    let mut x = 0;
    let mut height = HEIGHT;
    for column in columns.values() {
        let widest =
            column.iter().map(|&index| label(index).chars().count() * LETTER + 14).max().unwrap_or(0);
        for (row, &index) in column.iter().enumerate() {
            places.insert(&shown[index].name, (x, row * ROW, widest));
            height = height.max(row * ROW + HEIGHT);
        }
        x += widest + GAP;
    }
    let width = x.saturating_sub(GAP).max(200);
    let mut out = String::new();
    for edge in graph.edges.iter().filter(|edge| Some(edge.mark) != without) {
        let (Some(&(fx, fy, fw)), Some(&(tx, ty, _))) =
            (places.get(edge.from.as_str()), places.get(edge.to.as_str()))
        else {
            continue;
        };
        let colour = match edge.mark {
            Mark::Added => "added",
            Mark::Removed => "removed",
            _ => "same",
        };
        let (x1, y1, x2, y2) = (fx + fw, fy + HEIGHT / 2, tx, ty + HEIGHT / 2);
        let bend = (x1 + x2) / 2;
        let path = if x2 > x1 {
            format!("M{x1} {y1}C{bend} {y1} {bend} {y2} {x2} {y2}")
        } else {
            // Backwards, for a circle: around below.
            format!("M{x1} {y1}C{} {} {} {} {x2} {y2}", x1 + 30, y1 + 30, x2.saturating_sub(30), y2 + 30)
        };
        let dashes = if edge.through.is_some() { " stroke-dasharray=\"4 3\"" } else { "" };
        let title = match &edge.through {
            Some(member) => format!("{} calls {} through .{member}", edge.from, edge.to),
            None => format!("{} calls {}", edge.from, edge.to),
        };
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" class=\"call-{colour}\"{dashes} marker-end=\"url(#tip)\"><title>{}</title></path>",
            escape(&title)
        );
    }
    for (index, vertex) in shown.iter().enumerate() {
        let Some(&(x, y, width)) = places.get(vertex.name.as_str()) else { continue };
        let class = match vertex.mark {
            Mark::Same => "same",
            Mark::Added => "added",
            Mark::Changed => "changed",
            Mark::Removed => "removed",
        };
        let thick = if vertex.entry.is_some() { 2 } else { 1 };
        let title = match &vertex.entry {
            Some(entry) => format!("{}: entry, {entry}", vertex.file),
            None => vertex.file.clone(),
        };
        let _ = writeln!(
            out,
            "<g><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\" rx=\"4\" class=\"box-{class}\" \
             stroke-width=\"{thick}\"/><text x=\"{}\" y=\"{}\">{}</text></g>",
            escape(&title),
            x + 7,
            y + 16,
            escape(&label(index))
        );
    }
    (out, width, height)
}

fn legend(out: &mut String, y: usize) {
    let mut x = 20;
    for (class, text) in
        [("added", "added"), ("changed", "changed"), ("removed", "removed"), ("same", "unchanged")]
    {
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\" class=\"box-{class}\"/><text x=\"{}\" y=\"{y}\">{text}</text>",
            y - 10,
            x + 17
        );
        x += 90;
    }
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\">dashed: through a table of operations</text>");
}
