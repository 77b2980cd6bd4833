//! The wake graph: who wakes whom, how often, from where to where, and how long it takes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use crate::event::Tid;
use crate::model::flips::{Flips, Rule};
use crate::model::percentiles::Percentiles;
use crate::model::timeline::{State, TaskLine, Timeline};
use crate::trace::Trace;

/// A task that wakes at least so many different tasks may be a hub.
const HUB_WAKEES: usize = 4;

/// A hub wakes at least so many times as many tasks as there are wakers for those. Where 5 senders
/// each write to 50 receivers, 50 tasks have 5 wakers; where 20 write to 20, 20 have 20.
const HUB_RATIO: f64 = 3.0;

/// A hub comes back to those whom it wakes: more often than this, on average. A parent that starts
/// its children wakes each at most twice.
const HUB_RETURNS: u64 = 2;

/// A waker counts as one only if it makes so much of the wake-ups: of 20 senders that write to 20 on
/// two CPUs few find the receivers asleep often, but all do at times; strays are rarer than that.
const WAKER_SHARE: f64 = 0.01;

#[derive(Debug, Clone, Serialize)]
pub struct Graph {
    /// How long the trace is, in nanoseconds.
    pub span_ns: u64,
    /// Wake-ups in all, interrupts' included.
    pub wakes: u64,
    /// Events lost: with any, all counts here are too low.
    pub lost: u64,
    /// The number of CPUs that share the last-level cache, which the wake-wide rule compares with.
    pub factor: usize,
    /// What shape the waking has.
    pub shape: Shape,
    /// Flips of all tasks for each wake-up that the rule sees: near 1 if every waker wakes another
    /// task each time, near 0 if each keeps to one partner.
    pub flips_per_wake: f64,
    /// Of those wake-ups, how many would go wide by the rule of 3.12, and by that since 4.3.
    pub wide: WideCounts,
    /// The tasks, by running time, longest first.
    pub nodes: Vec<Node>,
    /// The edges, by count, most first.
    pub edges: Vec<Edge>,
}

/// How many wake-ups each rule would place wide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct WideCounts {
    /// Wake-ups that the rules are asked about.
    pub asked: u64,
    /// Wide by the rule of 3.12.
    #[serde(rename = "3.12")]
    pub linux_3_12: u64,
    /// Wide by the rule since 4.3.
    #[serde(rename = "4.3")]
    pub linux_4_3: u64,
}

impl WideCounts {
    fn count(&mut self, by_old: bool, by_new: bool) {
        self.asked += 1;
        self.linux_3_12 += u64::from(by_old);
        self.linux_4_3 += u64::from(by_new);
    }
}

/// What shape the waking has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// No task wakes many others.
    Pairs,
    /// Few tasks wake many, each of which is woken by few: `1:N`.
    Hubs,
    /// Many tasks wake many: `N:N`.
    Mesh,
}

#[derive(Debug, Clone, Serialize)]
pub struct Node {
    pub tid: Tid,
    /// Its last name.
    pub name: String,
    /// Whether it wakes many tasks again and again, for which there are few other wakers.
    pub hub: bool,
    pub running_ns: u64,
    /// Nanoseconds it waited for a CPU.
    pub runnable_ns: u64,
    pub blocked_ns: u64,
    /// How often it came to run.
    pub switches: u64,
    /// How often it had to leave while it wanted to go on.
    pub preemptions: u64,
    /// How often it was moved to another CPU.
    pub migrations: u64,
    /// How often it woke others, and how many different ones.
    pub wakes: u64,
    /// How many different tasks it woke.
    pub wakees: usize,
    /// How often it was woken.
    pub woken: u64,
    /// By how many different tasks.
    pub wakers: usize,
    /// How often it woke another task than the time before; as the kernel does, interrupts that woke
    /// somebody while it ran are laid to it.
    pub flips: u64,
    /// Its `wakee_flips` at the end of the trace, as the kernel (since 4.3) counts.
    pub wakee_flips: u64,
    /// Its `wakee_flips` at the end of the trace, as Linux 3.12 counted.
    pub wakee_flips_3_12: u64,
    /// Its wake-ups that each rule would place wide.
    pub wide: WideCounts,
    /// From being woken to running, in nanoseconds.
    pub latency: Percentiles,
}

#[derive(Debug, Clone, Serialize)]
pub struct Edge {
    /// The waker; none if it was an interrupt.
    pub waker: Option<Tid>,
    pub wakee: Tid,
    pub count: u64,
    /// How often the wakee then ran on the CPU of its waker.
    pub same_cpu: u64,
    /// How often it ran elsewhere than before.
    pub moved: u64,
    /// How often it had not even left its CPU.
    pub early: u64,
    /// From being woken to running, in nanoseconds.
    pub latency: Percentiles,
}

impl Edge {
    /// The part of the wake-ups after which the wakee ran on its waker's CPU, 0 to 1.
    pub fn same_cpu_ratio(&self) -> f64 {
        let ran = self.latency.count;
        if ran == 0 { 0.0 } else { self.same_cpu as f64 / ran as f64 }
    }
}

/// An edge while it grows.
#[derive(Default)]
struct EdgeBuilder {
    count: u64,
    same_cpu: u64,
    moved: u64,
    early: u64,
    latencies: Vec<u64>,
}

/// A node's part of the wake-ups while it grows.
#[derive(Default)]
struct Partners {
    wakes: u64,
    wakees: BTreeSet<Tid>,
    woken: u64,
    wakers: BTreeSet<Tid>,
    wide: WideCounts,
    latencies: Vec<u64>,
}

impl Graph {
    /// The graph of a trace, for the tasks that `keep` wants (and whom they wake, or are woken by);
    /// `factor` is the number of CPUs that share the last-level cache.
    pub fn of(trace: &Trace, timeline: &Timeline, factor: usize, keep: impl Fn(Tid) -> bool) -> Self {
        let mut old = Flips::new(Rule::Linux312, factor);
        let mut new = Flips::new(Rule::Linux43, factor);
        let mut edges: HashMap<(Option<Tid>, Tid), EdgeBuilder> = HashMap::new();
        let mut partners: BTreeMap<Tid, Partners> = BTreeMap::new();
        let mut wide = WideCounts::default();
        let mut wakes = 0;
        for wake in &timeline.wakes {
            // The kernel counts all, so the counters must see all.
            let verdict = old.wake(wake).zip(new.wake(wake));
            let waker = (!wake.interrupt).then_some(wake.waker);
            if !waker.is_some_and(&keep) && !keep(wake.wakee) {
                continue;
            }
            wakes += 1;
            let edge = edges.entry((waker, wake.wakee)).or_default();
            edge.count += 1;
            edge.early += u64::from(wake.early);
            let woken = partners.entry(wake.wakee).or_default();
            woken.woken += 1;
            if let Some(waker) = waker {
                woken.wakers.insert(waker);
            }
            if let (Some(latency), Some((_, cpu))) = (wake.latency(), wake.ran) {
                edge.same_cpu += u64::from(cpu == wake.waker_cpu);
                edge.moved += u64::from(cpu != wake.prev_cpu);
                edge.latencies.push(latency);
                woken.latencies.push(latency);
            }
            if let Some((by_old, by_new)) = verdict {
                wide.count(by_old, by_new);
            }
            if let Some(waker) = waker {
                let made = partners.entry(waker).or_default();
                made.wakes += 1;
                made.wakees.insert(wake.wakee);
                if let Some((by_old, by_new)) = verdict {
                    made.wide.count(by_old, by_new);
                }
            }
        }

        let hubs = hubs(&partners, &edges);
        let shape = shape(&partners, &hubs);
        let empty = TaskLine::default();
        let mut flips = 0;
        let mut nodes = Vec::new();
        for (tid, of) in partners {
            flips += new.total(tid);
            let line = timeline.tasks.get(&tid).unwrap_or(&empty);
            nodes.push(node(trace, line, tid, of, hubs.contains(&tid), &old, &new));
        }
        nodes.sort_by_key(|node| (std::cmp::Reverse(node.running_ns), node.tid));
        let mut edges: Vec<_> =
            edges.into_iter().map(|((waker, wakee), grown)| edge(waker, wakee, grown)).collect();
        edges.sort_by_key(|edge| (std::cmp::Reverse(edge.count), edge.waker, edge.wakee));
        let flips_per_wake = if wide.asked == 0 { 0.0 } else { flips as f64 / wide.asked as f64 };
        Self {
            span_ns: timeline.span.1 - timeline.span.0,
            wakes,
            lost: trace.lost(),
            factor,
            shape,
            flips_per_wake,
            wide,
            nodes,
            edges,
        }
    }
}

fn node(trace: &Trace, line: &TaskLine, tid: Tid, of: Partners, hub: bool, old: &Flips, new: &Flips) -> Node {
    let time =
        |is: fn(&State) -> bool| line.intervals.iter().filter(|i| is(&i.state)).map(|i| i.length()).sum();
    Node {
        tid,
        name: trace.last_name(tid),
        hub,
        running_ns: time(|state| matches!(state, State::Running { .. })),
        runnable_ns: time(|state| matches!(state, State::Runnable { .. })),
        blocked_ns: time(|state| matches!(state, State::Blocked { .. })),
        switches: line.switches,
        preemptions: line.preemptions,
        migrations: line.migrations.len() as u64,
        wakes: of.wakes,
        wakees: of.wakees.len(),
        woken: of.woken,
        wakers: of.wakers.len(),
        flips: new.total(tid),
        wakee_flips: new.now(tid),
        wakee_flips_3_12: old.now(tid),
        wide: of.wide,
        latency: Percentiles::of(of.latencies),
    }
}

fn edge(waker: Option<Tid>, wakee: Tid, grown: EdgeBuilder) -> Edge {
    Edge {
        waker,
        wakee,
        count: grown.count,
        same_cpu: grown.same_cpu,
        moved: grown.moved,
        early: grown.early,
        latency: Percentiles::of(grown.latencies),
    }
}

/// Tasks that wake many, for which there are few wakers. The idle task is none: it passes on what
/// interrupts and other CPUs ask for.
fn hubs(
    partners: &BTreeMap<Tid, Partners>,
    edges: &HashMap<(Option<Tid>, Tid), EdgeBuilder>,
) -> BTreeSet<Tid> {
    let mut wakers_of: BTreeMap<Tid, Vec<(Tid, u64)>> = BTreeMap::new();
    for ((waker, wakee), edge) in edges {
        if let Some(waker) = waker {
            wakers_of.entry(*wakee).or_default().push((*waker, edge.count));
        }
    }
    // The wakers of all its wakees together, without strays.
    let wakers = |of: &Partners| -> f64 {
        let mut counts: BTreeMap<Tid, u64> = BTreeMap::new();
        for (waker, count) in of.wakees.iter().filter_map(|tid| wakers_of.get(tid)).flatten() {
            *counts.entry(*waker).or_default() += count;
        }
        let least = counts.values().sum::<u64>() as f64 * WAKER_SHARE;
        counts.values().filter(|count| **count as f64 >= least).count() as f64
    };
    partners
        .iter()
        .filter(|(tid, of)| **tid != 0 && of.wakees.len() >= HUB_WAKEES)
        .filter(|(_, of)| of.wakes > HUB_RETURNS * of.wakees.len() as u64)
        .filter(|(_, of)| of.wakees.len() as f64 >= HUB_RATIO * wakers(of))
        .map(|(tid, _)| *tid)
        .collect()
}

/// If tasks that wake many make most wake-ups it is 1:N or N:N; and 1:N if a third of those are made
/// by hubs.
fn shape(partners: &BTreeMap<Tid, Partners>, hubs: &BTreeSet<Tid>) -> Shape {
    let many = |of: &&Partners| of.wakees.len() >= HUB_WAKEES;
    let busy = partners.iter().filter(|(tid, _)| **tid != 0).map(|(_, of)| of);
    let (all, wide) =
        busy.fold((0, 0), |(all, wide), of| (all + of.wakes, wide + if many(&of) { of.wakes } else { 0 }));
    let by_hubs: u64 = hubs.iter().filter_map(|tid| partners.get(tid)).map(|of| of.wakes).sum();
    if wide * 2 < all || all == 0 {
        Shape::Pairs
    } else if by_hubs * 3 >= wide {
        Shape::Hubs
    } else {
        Shape::Mesh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{blocks, trace, wakeup, waking};

    fn graph(events: Vec<crate::Event>) -> Graph {
        let trace = trace(events);
        Graph::of(&trace, &Timeline::of(&trace), 2, |_| true)
    }

    /// `waker` on CPU 0 wakes `wakee` on CPU 1, which runs 5 ns later and sleeps again.
    fn hand_off(time: u64, waker: Tid, wakee: Tid) -> Vec<crate::Event> {
        vec![
            waking(time, 0, waker, wakee, 1),
            wakeup(time + 1, 0, waker, wakee, 1),
            blocks(time + 5, 1, 0, wakee),
            blocks(time + 9, 1, wakee, 0),
        ]
    }

    #[test]
    fn edges_have_counts_places_and_latencies() {
        let mut events = hand_off(10, 1, 2);
        events.extend(hand_off(30, 1, 2));
        let graph = graph(events);
        let edge = &graph.edges[0];
        assert_eq!((edge.waker, edge.wakee, edge.count, edge.same_cpu), (Some(1), 2, 2, 0));
        assert_eq!((edge.latency.p50, edge.latency.count), (5, 2));
        assert!(edge.same_cpu_ratio() < f64::EPSILON);
        assert_eq!(graph.shape, Shape::Pairs);
        let woken = graph.nodes.iter().find(|node| node.tid == 2).expect("there");
        assert_eq!((woken.running_ns, woken.woken, woken.wakers, woken.switches), (8, 2, 1, 2));
    }

    #[test]
    fn one_that_wakes_many_is_a_hub() {
        let events = (0..40).flat_map(|step| hand_off(20 * step, 1, 2 + (step % 5) as Tid)).collect();
        let graph = graph(events);
        assert_eq!(graph.shape, Shape::Hubs);
        let hubs: Vec<_> = graph.nodes.iter().filter(|node| node.hub).map(|node| node.tid).collect();
        assert_eq!(hubs, [1]);
        assert!((graph.flips_per_wake - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn all_who_wake_all_are_a_mesh() {
        let mut events = Vec::new();
        for step in 0..200u64 {
            let (waker, wakee) = (1 + (step % 7) as Tid, 1 + (step / 7 % 7) as Tid);
            if waker != wakee {
                events.extend(hand_off(20 * step, waker, wakee));
            }
        }
        let graph = graph(events);
        assert_eq!(graph.shape, Shape::Mesh);
        assert!(graph.nodes.iter().all(|node| !node.hub));
    }

    #[test]
    fn only_the_tasks_asked_for_are_in_it() {
        let mut events = hand_off(10, 1, 2);
        events.extend(hand_off(30, 3, 4));
        let trace = trace(events);
        let graph = Graph::of(&trace, &Timeline::of(&trace), 2, |tid| tid == 4);
        assert_eq!(graph.edges.len(), 1);
        assert_eq!((graph.edges[0].waker, graph.wakes), (Some(3), 1));
    }
}
