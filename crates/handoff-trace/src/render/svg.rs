//! The wake graph as a picture: tasks on a circle, an arc for each edge.

use std::collections::HashMap;
use std::f64::consts::TAU;
use std::fmt::Write as _;

use crate::diagnose::duration;
use crate::event::Tid;
use crate::model::graph::{Edge, Graph};

/// The most tasks drawn; more would be a black disc.
const MAX_NODES: usize = 80;

const SIZE: f64 = 900.0;
const CENTRE: f64 = SIZE / 2.0;
const RADIUS: f64 = 300.0;

/// The graph as one SVG element that needs nothing else; the mouse over an edge or a task shows its
/// figures. The busiest 80 tasks are drawn, and the text says if there are more.
pub fn svg(graph: &Graph) -> String {
    let shown: Vec<_> = graph.nodes.iter().filter(|node| node.tid != 0).take(MAX_NODES).collect();
    let place: HashMap<Tid, (f64, f64, f64)> = shown
        .iter()
        .enumerate()
        .map(|(index, node)| {
            let angle = TAU * index as f64 / shown.len() as f64;
            (node.tid, (CENTRE + RADIUS * angle.cos(), CENTRE + RADIUS * angle.sin(), angle))
        })
        .collect();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {SIZE} {SIZE}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<style>.e{{fill:none;stroke:#4472c4;opacity:.45}}.e:hover{{stroke:#c00;opacity:1}}\
         .h{{fill:#c00}}.n{{fill:#333}}</style>\n"
    );
    let most = graph.edges.first().map_or(1, |edge| edge.count).max(1) as f64;
    for edge in &graph.edges {
        let Some(((x1, y1, _), (x2, y2, _))) =
            edge.waker.and_then(|waker| place.get(&waker).copied().zip(place.get(&edge.wakee).copied()))
        else {
            continue;
        };
        let width = 0.6 + 5.4 * (edge.count as f64 / most).sqrt();
        // Arcs bend towards the centre, and to one side, so that both directions are seen.
        let (mx, my) =
            ((x1 + x2 + CENTRE) / 3.0 + (y2 - y1) * 0.08, (y1 + y2 + CENTRE) / 3.0 - (x2 - x1) * 0.08);
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "<path class=\"e\" d=\"M{x1:.1} {y1:.1}Q{mx:.1} {my:.1} {x2:.1} {y2:.1}\" stroke-width=\"{width:.1}\">\
             <title>{}</title></path>",
            escaped(&edge_title(graph, edge))
        );
    }
    for node in &shown {
        let (x, y, angle) = place[&node.tid];
        let (class, radius) = if node.hub { ("h", 7.0) } else { ("n", 4.0) };
        let turn = angle.to_degrees();
        // Text on the left half is turned round so that it can be read.
        let (turn, anchor, shift) =
            if angle.cos() < 0.0 { (turn + 180.0, "end", -12.0) } else { (turn, "start", 12.0) };
        let _ = writeln!(
            out,
            "<g><title>{}</title><circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>\
             <text x=\"{:.1}\" y=\"{y:.1}\" dy=\".35em\" text-anchor=\"{anchor}\" \
             transform=\"rotate({turn:.1} {x:.1} {y:.1})\">{} {}</text></g>",
            escaped(&format!(
                "{} (task {}): ran {}, {} wake-ups of {} tasks, {} flips, woken {} times, p99 {}",
                node.name,
                node.tid,
                duration(node.running_ns),
                node.wakes,
                node.wakees,
                node.flips,
                node.woken,
                duration(node.latency.p99)
            )),
            x + shift,
            escaped(&node.name),
            node.tid
        );
    }
    let more = graph.nodes.iter().filter(|node| node.tid != 0).count().saturating_sub(MAX_NODES);
    let more = if more > 0 { format!("; {more} less busy tasks are not drawn") } else { String::new() };
    let _ = writeln!(
        out,
        "<text x=\"10\" y=\"20\">{} wake-ups in {}; hubs are red{more}</text>\n</svg>",
        graph.wakes,
        duration(graph.span_ns)
    );
    out
}

fn edge_title(graph: &Graph, edge: &Edge) -> String {
    let name = |tid: Tid| {
        let name = graph.nodes.iter().find(|node| node.tid == tid).map_or("?", |node| node.name.as_str());
        format!("{name} {tid}")
    };
    format!(
        "{} wakes {}: {} times, {:.0}% same CPU, p50 {}, p99 {}",
        edge.waker.map_or_else(|| "an interrupt".to_owned(), name),
        name(edge.wakee),
        edge.count,
        edge.same_cpu_ratio() * 100.0,
        duration(edge.latency.p50),
        duration(edge.latency.p99)
    )
}

/// Text as XML wants it. Control characters, which XML cannot hold, become spaces.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timeline;
    use crate::testing::{blocks, wakeup, waking};
    use crate::trace::Trace;

    #[test]
    fn each_edge_and_task_is_drawn_and_escaped() {
        let events = vec![waking(1, 0, 1, 2, 1), wakeup(2, 0, 1, 2, 1), blocks(5, 1, 0, 2)];
        let trace = Trace::from_events(events, [(1, "<script>\u{1}&".to_owned())], 2);
        let text = svg(&Graph::of(&trace, &Timeline::of(&trace), 2, |_| true));
        assert_eq!(text.matches("<path").count(), 1);
        assert_eq!(text.matches("<circle").count(), 2);
        assert!(text.contains("&lt;script&gt; &amp; 1 wakes task 2 2: 1 times"), "{text}");
        assert!(!text.contains("<script>"));
    }
}
