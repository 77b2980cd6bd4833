//! The wake graph as a page of text, and the live table of `handoff sched top`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::diagnose::duration;
use crate::event::Tid;
use crate::model::graph::{Graph, Node, Shape};

/// The most lines of a list that are printed.
const LINES: usize = 20;

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: BTreeMap<Tid, &str> =
            self.nodes.iter().map(|node| (node.tid, node.name.as_str())).collect();
        let shape = match self.shape {
            Shape::Pairs => "tasks wake few others",
            Shape::Hubs => "1:N, hubs wake many",
            Shape::Mesh => "N:N, many wake many",
        };
        writeln!(f, "{} wake-ups in {}: {shape}", self.wakes, duration(self.span_ns))?;
        if self.lost > 0 {
            writeln!(f, "{} events were lost: every count below is too low", self.lost)?;
        }
        writeln!(
            f,
            "flips a wake-up {:.3}; wide by the rule of 3.12: {}, since 4.3: {}, of {} (factor {})",
            self.flips_per_wake, self.wide.linux_3_12, self.wide.linux_4_3, self.wide.asked, self.factor
        )?;
        writeln!(
            f,
            "\n{:<24} {:>9} {:>9} {:>8} {:>7} {:>8} {:>6} {:>6} {:>8} {:>9} {:>9}",
            "task", "ran", "waited", "wakes", "wakees", "flips", "moved", "preem.", "woken", "p50", "p99"
        )?;
        for node in self.nodes.iter().filter(|node| node.tid != 0).take(LINES) {
            writeln!(
                f,
                "{:<24} {:>9} {:>9} {:>8} {:>7} {:>8} {:>6} {:>6} {:>8} {:>9} {:>9}",
                format!("{}{} {}", if node.hub { "*" } else { "" }, node.name, node.tid),
                duration(node.running_ns),
                duration(node.runnable_ns),
                node.wakes,
                node.wakees,
                node.flips,
                node.migrations,
                node.preemptions,
                node.woken,
                duration(node.latency.p50),
                duration(node.latency.p99)
            )?;
        }
        if self.nodes.iter().any(|node| node.hub) {
            writeln!(f, "(* is a hub)")?;
        }
        writeln!(
            f,
            "\n{:<48} {:>8} {:>9} {:>9} {:>9} {:>9}",
            "who wakes whom", "count", "same CPU", "p50", "p99", "max"
        )?;
        for edge in self.edges.iter().take(LINES) {
            let name = |tid: Tid| format!("{} {tid}", names.get(&tid).unwrap_or(&"?"));
            let waker = edge.waker.map_or_else(|| "(interrupt)".to_owned(), name);
            writeln!(
                f,
                "{:<48} {:>8} {:>8.0}% {:>9} {:>9} {:>9}",
                format!("{waker} -> {}", name(edge.wakee)),
                edge.count,
                edge.same_cpu_ratio() * 100.0,
                duration(edge.latency.p50),
                duration(edge.latency.p99),
                duration(edge.latency.max)
            )?;
        }
        let more = self.edges.len().saturating_sub(LINES);
        if more > 0 {
            writeln!(f, "({more} more edges: --format json has all)")?;
        }
        Ok(())
    }
}

/// One moment of `handoff sched top`: rates of the last interval.
#[derive(Debug, Clone, Serialize)]
pub struct Live {
    /// How long the interval was, in nanoseconds.
    pub span_ns: u64,
    pub lost: u64,
    /// The tasks, busiest first.
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub tid: Tid,
    pub name: String,
    /// Its part of one CPU, 0 to 1.
    pub running: f64,
    /// The part of the time that it waited for a CPU.
    pub waiting: f64,
    /// How often it came to run, a second.
    pub switches: f64,
    /// How often it woke others, a second.
    pub wakes: f64,
    /// How often it was woken, a second.
    pub woken: f64,
    /// How often it was preempted, a second.
    pub preemptions: f64,
    /// How often it was moved, a second.
    pub migrations: f64,
    /// From being woken to running: the median, in nanoseconds.
    pub latency_p50_ns: u64,
    /// The same, 99th percentile.
    pub latency_p99_ns: u64,
}

impl Live {
    /// The rates that a graph of one interval gives.
    pub fn of(graph: &Graph) -> Self {
        let span = graph.span_ns.max(1) as f64;
        let rows = graph.nodes.iter().filter(|node| node.tid != 0).map(|node| Row::of(node, span)).collect();
        Self { span_ns: graph.span_ns, lost: graph.lost, rows }
    }
}

impl Row {
    fn of(node: &Node, span: f64) -> Self {
        let rate = |count: u64| count as f64 * 1e9 / span;
        Self {
            tid: node.tid,
            name: node.name.clone(),
            running: node.running_ns as f64 / span,
            waiting: node.runnable_ns as f64 / span,
            switches: rate(node.switches),
            wakes: rate(node.wakes),
            woken: rate(node.woken),
            preemptions: rate(node.preemptions),
            migrations: rate(node.migrations),
            latency_p50_ns: node.latency.p50,
            latency_p99_ns: node.latency.p99,
        }
    }
}

impl fmt::Display for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = if self.lost > 0 { format!(", {} events lost", self.lost) } else { String::new() };
        writeln!(f, "the last {}: {} tasks{lost}", duration(self.span_ns), self.rows.len())?;
        write!(
            f,
            "{:<24} {:>6} {:>6} {:>9} {:>9} {:>9} {:>8} {:>8} {:>9} {:>9}",
            "task", "ran", "waited", "switch/s", "wakes/s", "woken/s", "preem./s", "moved/s", "p50", "p99"
        )?;
        for row in self.rows.iter().take(LINES) {
            write!(
                f,
                "\n{:<24} {:>5.1}% {:>5.1}% {:>9.0} {:>9.0} {:>9.0} {:>8.0} {:>8.0} {:>9} {:>9}",
                format!("{} {}", row.name, row.tid),
                row.running * 100.0,
                row.waiting * 100.0,
                row.switches,
                row.wakes,
                row.woken,
                row.preemptions,
                row.migrations,
                duration(row.latency_p50_ns),
                duration(row.latency_p99_ns)
            )?;
        }
        Ok(())
    }
}
