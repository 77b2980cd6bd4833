//! Draws a call graph: layers from left to right, what changed in colour.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::graph::{Graph, Mark};
use crate::document::escape;

const ROW: usize = 34;
const HEIGHT: usize = 24;
const GAP: usize = 70;
const LETTER: usize = 7;

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
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
         <path d=\"M0 0L8 4L0 8z\" fill=\"#667\"/></marker></defs>\n"
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
            Mark::Added => "#1a7f37",
            Mark::Removed => "#b3261e",
            _ => "#99a",
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
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\"{dashes} marker-end=\"url(#tip)\"><title>{}</title></path>",
            escape(&title)
        );
    }
    for (index, vertex) in shown.iter().enumerate() {
        let Some(&(x, y, width)) = places.get(vertex.name.as_str()) else { continue };
        let (fill, stroke) = match vertex.mark {
            Mark::Same => ("#f4f5f8", "#889"),
            Mark::Added => ("#d9f2df", "#1a7f37"),
            Mark::Changed => ("#fff1cc", "#a86b00"),
            Mark::Removed => ("#fbdedb", "#b3261e"),
        };
        let thick = if vertex.entry.is_some() { 2 } else { 1 };
        let title = match &vertex.entry {
            Some(entry) => format!("{}: entry, {entry}", vertex.file),
            None => vertex.file.clone(),
        };
        let _ = writeln!(
            out,
            "<g><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\" rx=\"4\" fill=\"{fill}\" \
             stroke=\"{stroke}\" stroke-width=\"{thick}\"/><text x=\"{}\" y=\"{}\">{}</text></g>",
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
    for (fill, stroke, text) in [
        ("#d9f2df", "#1a7f37", "added"),
        ("#fff1cc", "#a86b00", "changed"),
        ("#fbdedb", "#b3261e", "removed"),
        ("#f4f5f8", "#889", "unchanged"),
    ] {
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{fill}\" stroke=\"{stroke}\"/><text x=\"{}\" y=\"{y}\">{text}</text>",
            y - 10,
            x + 17
        );
        x += 90;
    }
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\">dashed: through a table of operations</text>");
}
