//! The call graph around a change: from the entry functions down to a chosen depth.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;

use super::facts::Facts;

/// How a function differs between the two versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    Same,
    Added,
    /// Its body or signature is another one.
    Changed,
    Removed,
}

/// A function of the graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vertex {
    /// Its name; for a graph of files the path.
    pub name: String,
    /// The file that defines it.
    pub file: String,
    pub mark: Mark,
    /// Its layer: entry functions have the lowest.
    pub layer: usize,
    pub entry: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Edge {
    pub from: String,
    pub to: String,
    /// The member through which it is called, for a table of operations.
    pub through: Option<String>,
    /// Whether this call is new, gone, or as before.
    pub mark: Mark,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Graph {
    /// The functions, by layer.
    pub vertices: Vec<Vertex>,
    pub edges: Vec<Edge>,
    /// True if there were too many functions and files are shown instead.
    pub by_file: bool,
    /// How many unchanged functions beside the ways to the changed ones are left out.
    pub folded: usize,
}

/// All that is known of one version of the code.
#[derive(Default)]
pub(super) struct Code {
    /// Function to the file that defines it.
    pub defined: BTreeMap<String, String>,
    /// Function to those that it calls, with the member for calls through a table.
    pub calls: BTreeMap<String, BTreeMap<String, Option<String>>>,
    /// Function to the names that it calls and no file that was read defines: functions of other files, and macros.
    pub elsewhere: BTreeMap<String, BTreeSet<String>>,
    /// Function to those that call it.
    pub callers: BTreeMap<String, BTreeSet<String>>,
    /// Function to why it is entered from elsewhere.
    pub entries: BTreeMap<String, String>,
}

impl Code {
    /// Joins the facts of all files: names are resolved, calls through tables as well.
    pub(super) fn new<'a>(files: impl Iterator<Item = (&'a str, &'a Facts)> + Clone) -> Self {
        let mut code = Self::default();
        let mut targets: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut rows: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
        for (path, facts) in files.clone() {
            for function in &facts.functions {
                code.defined.entry(function.name.clone()).or_insert_with(|| path.to_owned());
                if function.name.starts_with("sys_") {
                    code.entries.insert(function.name.clone(), "a system call".to_owned());
                }
            }
            for (table, member, function) in &facts.tables {
                targets.entry(member).or_default().insert(function);
                rows.entry(function).or_default().entry(member).or_default().insert(table);
            }
        }
        for (function, members) in rows {
            code.entries.entry(function.to_owned()).or_insert_with(|| in_tables(&members));
        }
        for (_, facts) in files {
            for name in &facts.exports {
                code.entries.entry(name.clone()).or_insert_with(|| "exported to modules".to_owned());
            }
            for function in &facts.functions {
                let calls = code.calls.entry(function.name.clone()).or_default();
                for name in &function.calls {
                    if code.defined.contains_key(name) {
                        calls.insert(name.clone(), None);
                    } else {
                        code.elsewhere.entry(function.name.clone()).or_default().insert(name.clone());
                    }
                }
                for member in &function.indirect {
                    // A member with dozens of implementations says nothing of this feature's flow.
                    for name in targets
                        .get(member.as_str())
                        .into_iter()
                        .flatten()
                        .filter(|_| targets[member.as_str()].len() <= 8)
                    {
                        if code.defined.contains_key(*name) {
                            calls.entry((*name).to_owned()).or_insert_with(|| Some(member.clone()));
                        }
                    }
                }
            }
        }
        for (from, calls) in &code.calls {
            for to in calls.keys() {
                code.callers.entry(to.clone()).or_default().insert(from.clone());
            }
        }
        code.entries.retain(|name, _| code.defined.contains_key(name));
        code
    }

    /// Why a function is an entry; one that nobody calls is.
    pub(super) fn entry(&self, name: &str) -> Option<String> {
        let known = self.entries.get(name).cloned();
        known.or_else(|| (!self.callers.contains_key(name)).then(|| "no caller in these files".to_owned()))
    }
}

/// The members and tables through which a function is called.
fn in_tables(members: &BTreeMap<&str, BTreeSet<&str>>) -> String {
    const SHOWN: usize = 4;
    let one = |(member, tables): (&&str, &BTreeSet<&str>)| {
        let names: Vec<String> = tables.iter().take(SHOWN).map(|table| format!("`{table}`")).collect();
        let more = match tables.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("`.{member}` of {}{more}", names.join(", "))
    };
    members.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The graph around the marked functions; of more than `most` functions only the marked ones are shown, with their
/// shortest ways down from an entry, and if these are far too many still, files stand for them.
pub(super) fn around(
    before: &Code,
    after: &Code,
    marks: &BTreeMap<String, Mark>,
    depth: usize,
    most: usize,
) -> Graph {
    let mut shown: BTreeSet<String> = BTreeSet::new();
    for name in marks.keys() {
        for code in [before, after] {
            if code.defined.contains_key(name) {
                shown.extend(way_up(code, name));
                shown.extend(way_down(code, name, depth));
            }
        }
    }
    let mut edges: BTreeMap<(String, String), Edge> = BTreeMap::new();
    for (code, other, mark) in [(after, before, Mark::Added), (before, after, Mark::Removed)] {
        for from in &shown {
            for (to, through) in
                code.calls.get(from).into_iter().flatten().filter(|(to, _)| shown.contains(*to))
            {
                // Calls of each other among unchanged functions are not of this change.
                if !marks.contains_key(from) && !marks.contains_key(to) && !on_a_way(code, from, to, marks) {
                    continue;
                }
                let kept = other.calls.get(from).is_some_and(|calls| calls.contains_key(to));
                let mark = if kept { Mark::Same } else { mark };
                let edge = Edge { from: from.clone(), to: to.clone(), through: through.clone(), mark };
                edges.entry((from.clone(), to.clone())).or_insert(edge);
            }
        }
    }
    let edges: Vec<Edge> = edges.into_values().collect();
    let linked: BTreeSet<&str> =
        edges.iter().flat_map(|edge| [edge.from.as_str(), edge.to.as_str()]).collect();
    shown.retain(|name| linked.contains(name.as_str()) || marks.contains_key(name));
    let vertices = shown
        .iter()
        .map(|name| Vertex {
            name: name.clone(),
            file: after.defined.get(name).or_else(|| before.defined.get(name)).cloned().unwrap_or_default(),
            mark: marks.get(name).copied().unwrap_or(Mark::Same),
            layer: 0,
            entry: after
                .entry(name)
                .filter(|_| !edges.iter().any(|edge| edge.to == *name) || after.entries.contains_key(name)),
        })
        .collect();
    let mut graph = Graph { vertices, edges, by_file: false, folded: 0 };
    if graph.vertices.len() > most {
        let folded = fold(&graph, marks);
        // Names that no screen holds say less than their files.
        graph = if folded.vertices.len() > 3 * most { by_file(graph) } else { folded };
    }
    layers(&mut graph);
    graph
}

/// The callers of a function up to the next entries, nearest first.
fn way_up(code: &Code, name: &str) -> BTreeSet<String> {
    const STEPS: usize = 4;
    const CALLERS: usize = 5;
    let mut seen: BTreeSet<String> = BTreeSet::from([name.to_owned()]);
    let mut queue = VecDeque::from([(name.to_owned(), 0)]);
    while let Some((name, step)) = queue.pop_front() {
        if step == STEPS || step > 0 && code.entries.contains_key(&name) {
            continue;
        }
        for caller in code.callers.get(&name).into_iter().flatten().take(CALLERS) {
            if seen.insert(caller.clone()) {
                queue.push_back((caller.clone(), step + 1));
            }
        }
    }
    seen
}

fn way_down(code: &Code, name: &str, depth: usize) -> BTreeSet<String> {
    let mut seen = BTreeSet::from([name.to_owned()]);
    let mut queue = VecDeque::from([(name.to_owned(), 0)]);
    while let Some((name, step)) = queue.pop_front() {
        if step == depth {
            continue;
        }
        for called in code.calls.get(&name).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(called.clone()) {
                queue.push_back((called.clone(), step + 1));
            }
        }
    }
    seen
}

/// True if a call leads up from a changed function: its target calls one, at most four steps on.
fn on_a_way(code: &Code, from: &str, to: &str, marks: &BTreeMap<String, Mark>) -> bool {
    let reaches = |name: &str| way_down(code, name, 3).iter().any(|name| marks.contains_key(name));
    from != to && reaches(to)
}

/// The marked functions and, for each, the shortest way down to it from an entry.
fn fold(graph: &Graph, marks: &BTreeMap<String, Mark>) -> Graph {
    let mut callers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for edge in &graph.edges {
        callers.entry(&edge.to).or_default().push(&edge.from);
    }
    let entries: BTreeSet<&str> =
        graph.vertices.iter().filter(|vertex| vertex.entry.is_some()).map(|vertex| &*vertex.name).collect();
    let mut kept: BTreeSet<&str> = marks.keys().map(String::as_str).collect();
    for name in marks.keys().map(String::as_str) {
        let mut below: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = VecDeque::from([name]);
        let mut top = entries.contains(name).then_some(name);
        while let (None, Some(at)) = (top, queue.pop_front()) {
            for &caller in callers.get(at).into_iter().flatten() {
                if caller == name || below.contains_key(caller) {
                    continue;
                }
                below.insert(caller, at);
                queue.push_back(caller);
                if entries.contains(caller) {
                    top = Some(caller);
                    break;
                }
            }
        }
        while let Some(at) = top {
            kept.insert(at);
            top = below.get(at).copied();
        }
    }
    let vertices: Vec<Vertex> =
        graph.vertices.iter().filter(|vertex| kept.contains(&*vertex.name)).cloned().collect();
    let both = |edge: &&Edge| kept.contains(&*edge.from) && kept.contains(&*edge.to);
    Graph {
        folded: graph.vertices.len() - vertices.len(),
        edges: graph.edges.iter().filter(both).cloned().collect(),
        vertices,
        by_file: false,
    }
}

/// The same graph with files in place of functions.
fn by_file(graph: Graph) -> Graph {
    let file_of: BTreeMap<&str, &str> =
        graph.vertices.iter().map(|vertex| (vertex.name.as_str(), vertex.file.as_str())).collect();
    let mut edges: BTreeMap<(String, String), Edge> = BTreeMap::new();
    for edge in &graph.edges {
        let (Some(&from), Some(&to)) = (file_of.get(edge.from.as_str()), file_of.get(edge.to.as_str()))
        else {
            continue;
        };
        if from == to {
            continue;
        }
        let joined = edges.entry((from.to_owned(), to.to_owned())).or_insert_with(|| Edge {
            from: from.to_owned(),
            to: to.to_owned(),
            through: None,
            mark: edge.mark,
        });
        if edge.mark == Mark::Same {
            joined.mark = Mark::Same;
        }
    }
    let mut vertices: BTreeMap<String, Vertex> = BTreeMap::new();
    for vertex in &graph.vertices {
        let entry = vertices.entry(vertex.file.clone()).or_insert_with(|| Vertex {
            name: vertex.file.clone(),
            file: vertex.file.clone(),
            mark: Mark::Same,
            layer: 0,
            entry: None,
        });
        if vertex.mark != Mark::Same {
            entry.mark = Mark::Changed;
        }
    }
    let (vertices, edges) = (vertices.into_values().collect(), edges.into_values().collect());
    Graph { vertices, edges, by_file: true, folded: 0 }
}

/// Puts each function one layer below the lowest of its callers; circles are cut where they close.
fn layers(graph: &mut Graph) {
    let names: BTreeMap<String, usize> =
        graph.vertices.iter().enumerate().map(|(index, vertex)| (vertex.name.clone(), index)).collect();
    let count = graph.vertices.len();
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut above = vec![0usize; count];
    for edge in &graph.edges {
        if let (Some(&from), Some(&to)) = (names.get(&edge.from), names.get(&edge.to))
            && from != to
        {
            below[from].push(to);
            above[to] += 1;
        }
    }
    let mut layer = vec![0usize; count];
    let mut done = vec![false; count];
    for _ in 0..count {
        // Of what is left, take one without callers, or the one with the fewest: a circle is cut there.
        let Some(next) =
            (0..count).filter(|&index| !done[index]).min_by_key(|&index| (above[index], layer[index], index))
        else {
            break;
        };
        done[next] = true;
        for &to in &below[next] {
            above[to] = above[to].saturating_sub(1);
            if !done[to] {
                layer[to] = layer[to].max(layer[next] + 1);
            }
        }
    }
    for (vertex, layer) in graph.vertices.iter_mut().zip(layer) {
        vertex.layer = layer;
    }
    graph.vertices.sort_by(|a, b| (a.layer, &a.name).cmp(&(b.layer, &b.name)));
}
