//! The figure above the table: each kept ratio as a bar below its name, with the floor and the goal.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::{Results, Row};
use crate::process::root;

/// Where the longest bar ends, in pixels; its label comes after.
const BARS_END: f64 = 690.0;
const WIDTH: f64 = 760.0;
const ROW_HEIGHT: f64 = 46.0;
const TOP: f64 = 40.0;
/// Longer bars end at the edge, and their number alone tells how long: one would make all others short.
const MOST: f64 = 4.0;

/// Colours for light and for dark pages.
const STYLE: &str = "\
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .dim { fill: #59636e } \
.bar { fill: #2f81f7 } .floor { stroke: #59636e; stroke-width: 1.5 } \
.goal { stroke: #bf8700; stroke-width: 3 } .ci { stroke: #1f2328; stroke-width: 1.5 } \
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .dim { fill: #9198a1 } \
.floor { stroke: #9198a1 } .goal { stroke: #d29922 } .ci { stroke: #e6edf3 } }";

/// The file of the figure.
pub(super) fn file() -> PathBuf {
    root().join("docs/book/src/reference/figures.svg")
}

pub(super) fn write(kept: &[Results]) -> Result<()> {
    let file = file();
    std::fs::write(&file, of(kept)).with_context(|| format!("cannot write {}", file.display()))
}

/// The figure as SVG.
pub(super) fn of(kept: &[Results]) -> String {
    let rows: Vec<&Row> = kept.iter().flat_map(|results| &results.rows).collect();
    let most = rows.iter().map(|row| row.ci95[1].max(row.goal.unwrap_or(0.0))).fold(1.0, f64::max).min(MOST);
    let at = |ratio: f64| BARS_END * ratio.min(most) / most;
    let height = TOP + ROW_HEIGHT * rows.len() as f64 + 10.0;

    // Writing to a String cannot fail.
    let mut svg = String::new();
    _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Time of each call as a multiple of its floor\">\n<style>{STYLE}</style>"
    );
    let floor = at(1.0);
    _ = writeln!(
        svg,
        "<text x=\"0\" y=\"18\" class=\"dim\">time as a multiple of the floor (grey line), with its 95% interval and the \
         goal (yellow line)</text>"
    );
    for (index, row) in rows.iter().enumerate() {
        let top = TOP + ROW_HEIGHT * index as f64;
        let (name, bar) = (top + 14.0, top + 20.0);
        let (text, middle, line, bottom) = (bar + 13.0, bar + 8.0, bar - 1.0, bar + 17.0);
        let (width, low, high) = (at(row.ratio), at(row.ci95[0]), at(row.ci95[1]));
        let end = high.max(width).max(floor).max(row.goal.map_or(0.0, at));
        _ = writeln!(
            svg,
            "<text x=\"0\" y=\"{name}\">{}</text>\n\
             <rect class=\"bar\" x=\"0\" y=\"{bar}\" width=\"{width:.1}\" height=\"16\" rx=\"2\"/>\n\
             <path class=\"floor\" d=\"M{floor:.1} {line}V{bottom}\"/>\n\
             <path class=\"ci\" d=\"M{low:.1} {middle}H{high:.1}\"/>\n\
             <text x=\"{:.1}\" y=\"{text}\">{:.2}</text>",
            escaped(&row.name),
            end + 10.0,
            row.ratio,
        );
        if let Some(goal) = row.goal {
            let at = at(goal);
            _ = writeln!(
                svg,
                "<path class=\"goal\" d=\"M{at:.1} {line}V{bottom}\"><title>goal {goal}</title></path>"
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{machine, row};
    use super::*;

    #[test]
    fn every_row_has_a_bar_inside_the_figure() {
        let rows = vec![row("a < b", 1.02), row("late", 3.4)];
        let svg = of(&[Results { bench: "call".into(), machine: machine(), rows, tables: Vec::new() }]);
        assert_eq!(svg.matches("class=\"bar\"").count(), 2);
        assert_eq!(svg.matches("class=\"goal\"").count(), 2);
        assert!(svg.contains("a &lt; b") && svg.contains(">3.40<"), "{svg}");
        let widths =
            svg.split("width=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
        assert!(widths.into_iter().all(|width| width <= BARS_END), "{svg}");
    }

    #[test]
    fn no_figure_is_a_figure_too() {
        assert!(of(&[]).starts_with("<svg") && of(&[]).ends_with("</svg>\n"));
    }
}
