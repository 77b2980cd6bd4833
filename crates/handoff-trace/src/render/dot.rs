//! The wake graph in Graphviz' language.

use std::fmt::Write as _;

use crate::diagnose::duration;
use crate::model::graph::Graph;

/// The graph as a DOT file: thicker edges for more wake-ups, hubs with a double line.
pub fn dot(graph: &Graph) -> String {
    let mut out =
        String::from("digraph wakes {\n  node [shape=box fontname=sans];\n  edge [fontname=sans];\n");
    for node in &graph.nodes {
        let hub = if node.hub { " peripheries=2" } else { "" };
        let label =
            format!("{}\n{}, ran {}, {} flips", node.name, node.tid, duration(node.running_ns), node.flips);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  t{} [label={}{hub}];", node.tid, quoted(&label));
    }
    if graph.edges.iter().any(|edge| edge.waker.is_none()) {
        out.push_str("  irq [label=\"interrupts\" shape=ellipse];\n");
    }
    let most = graph.edges.first().map_or(1, |edge| edge.count).max(1) as f64;
    for edge in &graph.edges {
        let waker = edge.waker.map_or_else(|| "irq".to_owned(), |tid| format!("t{tid}"));
        let width = 0.5 + 4.5 * (edge.count as f64 / most).sqrt();
        let label = format!(
            "{}, {:.0}% same CPU\np50 {}, p99 {}",
            edge.count,
            edge.same_cpu_ratio() * 100.0,
            duration(edge.latency.p50),
            duration(edge.latency.p99)
        );
        let _ = writeln!(out, "  {waker} -> t{} [penwidth={width:.1} label={}];", edge.wakee, quoted(&label));
    }
    out.push_str("}\n");
    out
}

/// A DOT string: quotes and backslashes escaped, newlines as `\n`.
fn quoted(text: &str) -> String {
    let inner = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{inner}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timeline;
    use crate::testing::{blocks, wakeup, waking};
    use crate::trace::Trace;

    #[test]
    fn names_cannot_break_out_of_their_quotes() {
        let events = vec![waking(1, 0, 1, 2, 1), wakeup(2, 0, 1, 2, 1), blocks(5, 1, 0, 2)];
        let trace = Trace::from_events(events, [(1, "a\"]; x -> y [\\".to_owned())], 2);
        let text = dot(&Graph::of(&trace, &Timeline::of(&trace), 2, |_| true));
        assert!(text.contains(r#"t1 [label="a\"]; x -> y [\\\n1, ran"#), "{text}");
        assert!(text.contains("t1 -> t2 [penwidth=5.0 label=\"1, 0% same CPU"), "{text}");
    }
}
