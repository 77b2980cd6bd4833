//! What added code may mean in another tree: the members that it reads, and functions that come to write them in one of
//! the two trees only.
//!
//! Words are read, not C: members are told by their names, whatever type they are of, and calls through pointers by the
//! functions that are assigned to a member of that name. What is found is a list of hints for a person.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::lacking::{code_of, walk};
use super::scope::{Language, ScopeKind, Scopes};
use super::words::{is_identifier, split};
use crate::members::accesses;
use crate::patch::{Op, Series};

/// A function further than this from one that writes the member is not looked at.
const STEPS: usize = 3;
/// Nor is one that comes to a writer in the other tree with so many calls more.
const SLACK: usize = 2;
/// What more functions than this call says nothing of one of them.
const CALLERS: usize = 60;
/// A name that more functions than this write is one of many things.
const WRITERS: usize = 40;
/// How many functions are named for each member.
const SHOWN: usize = 10;

/// A member that added lines read, and the functions that write it in one of the trees only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberHint {
    /// The member.
    pub member: String,
    /// The files whose added lines read it.
    pub read_in: Vec<String>,
    /// The functions, first those that lie between the change and the member: the fewest calls from both.
    pub differences: Vec<Difference>,
    /// How many more there are.
    pub left_out: usize,
}

/// A function of both trees that writes a member, itself or by what it calls, in one of them only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The function.
    pub function: String,
    /// The tree in which it does.
    pub only: Side,
    /// Its file there, and its first line.
    pub place: (String, usize),
    /// What it calls on the way, the last of which writes the member.
    pub way: Vec<String>,
}

/// One of the two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The tree that is ported to.
    Tree,
    /// The tree that the series was made for.
    Source,
}

impl fmt::Display for MemberHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hint: added lines in {} read `{}`", self.read_in.join(", "), self.member)?;
        for one in &self.differences {
            let place = match one.only {
                Side::Tree => "here, but not in the source,",
                Side::Source => "in the source, but not here,",
            };
            write!(f, "\n  {place} `{}` ({}, line {})", one.function, one.place.0, one.place.1)?;
            match &one.way[..] {
                [] => f.write_str(" writes it")?,
                way => write!(f, " comes to write it: {}", way.join(" -> "))?,
            }
        }
        if self.left_out > 0 {
            write!(f, "\n  and {} more functions", self.left_out)?;
        }
        Ok(())
    }
}

/// Who writes what the series' added lines read, where that differs between the tree at `onto` and the tree at `source`.
pub fn hints(series: &Series, onto: &Path, source: &Path) -> Vec<MemberHint> {
    let read = members_read(series);
    if read.is_empty() {
        return Vec::new();
    }
    let folders = folders(series);
    let (here, there) = (Code::of(onto, &folders), Code::of(source, &folders));
    let named = functions_named(series);
    let (steps_here, steps_there) = (here.steps_from(&named), there.steps_from(&named));
    let mut out = Vec::new();
    for (member, read_in) in read {
        let (mine, theirs) = (here.writers(&member), there.writers(&member));
        if mine.len() > WRITERS || theirs.len() > WRITERS {
            continue;
        }
        let crowded = |name: &str| here.callers_of(name) > CALLERS || there.callers_of(name) > CALLERS;
        let mut found: BTreeMap<(&str, Side), (usize, Difference)> = BTreeMap::new();
        // From each function that writes the member, or calls through a pointer to one that does, alone: a way that only
        // one tree has is seen beside others that both have.
        let (mine, theirs) = (here.ends(&mine, &steps_here), there.ends(&theirs, &steps_there));
        let ends: BTreeSet<&String> = mine.keys().chain(theirs.keys()).collect();
        for end in ends {
            let reach =
                |steps| (here.reach(end, &mine, steps, &crowded), there.reach(end, &theirs, steps, &crowded));
            // A function that comes there in a few calls more than in the other tree is none that differs.
            let ((near_mine, near_theirs), (mine, theirs)) = (reach(STEPS), reach(STEPS + SLACK));
            for (code, steps, ways, others, other, only) in [
                (&here, &steps_here, &near_mine, &theirs, &there, Side::Tree),
                (&there, &steps_there, &near_theirs, &mine, &here, Side::Source),
            ] {
                let differs = |name: &str| {
                    ways.contains_key(name)
                        && !others.contains_key(name)
                        && other.functions.contains_key(name)
                };
                for name in ways.keys().filter(|name| differs(name)) {
                    // Who only calls one that differs has nothing of its own to tell, nor who calls through the same member
                    // in both trees, where another function may be assigned to it.
                    let is_others = ways[name].as_ref().is_some_and(|(next, member)| match member {
                        Some(member) => differs(next) || other.functions[name].through.contains(member),
                        None => differs(next),
                    });
                    if is_others {
                        continue;
                    }
                    let way = way_of(name, ways);
                    let (name, function) = code.functions.get_key_value(name).expect("it is on a way");
                    let distance = steps.get(name.as_str()).map_or(usize::MAX, |steps| steps + way.len());
                    let one = Difference { function: name.clone(), only, place: function.place.clone(), way };
                    let known = found.entry((name, only)).or_insert_with(|| (distance, one.clone()));
                    if one.way.len() < known.1.way.len() {
                        *known = (distance, one);
                    }
                }
            }
        }
        // Who comes to write it in each tree in its own way does so in both.
        let both: BTreeSet<&str> = found
            .keys()
            .map(|(name, _)| *name)
            .filter(|name| [Side::Tree, Side::Source].iter().all(|side| found.contains_key(&(*name, *side))))
            .collect();
        found.retain(|(name, _), _| !both.contains(name));
        let mut found: Vec<(usize, Difference)> = found.into_values().collect();
        found.sort_by(|(a, one), (b, other)| {
            (a, one.only, &one.function).cmp(&(b, other.only, &other.function))
        });
        if !found.is_empty() {
            let all = found.len();
            let (tree, source): (Vec<_>, Vec<_>) =
                found.into_iter().map(|(_, one)| one).partition(|one| one.only == Side::Tree);
            let differences: Vec<_> =
                [tree, source].into_iter().flat_map(|side| side.into_iter().take(SHOWN)).collect();
            let left_out = all - differences.len();
            out.push(MemberHint { member, read_in: read_in.into_iter().collect(), differences, left_out });
        }
    }
    out
}

/// The members that added lines read and the series does not declare, with the files.
fn members_read(series: &Series) -> BTreeMap<String, BTreeSet<String>> {
    let mut read: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut declared: BTreeSet<String> = BTreeSet::new();
    for file in series.patches.iter().flat_map(|patch| &patch.files) {
        let path = file.path().as_str();
        if Language::of(path) != Language::C {
            continue;
        }
        for hunk in &file.hunks {
            let mut comment = false;
            for line in &hunk.lines {
                let code = code_of(&line.text, &mut comment);
                if line.op != Op::Add {
                    continue;
                }
                for (member, _) in accesses(&code).into_iter().filter(|(_, written)| !written) {
                    read.entry(member.to_owned()).or_default().insert(path.to_owned());
                }
                // `int tsq_flags;` in a structure: nobody else can write it.
                let words: Vec<&str> = split(&code).filter(|word| !word.trim().is_empty()).collect();
                if let [first, .., name, ";"] = words[..]
                    && is_identifier(first)
                    && is_identifier(name)
                    && !words.iter().any(|word| matches!(*word, "=" | "(" | "return" | "goto" | "."))
                {
                    declared.insert(name.to_owned());
                }
            }
        }
    }
    read.retain(|member, _| !declared.contains(member));
    read
}

/// The functions that hunks name or whose calls stand in them: where the change's own way begins.
fn functions_named(series: &Series) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let hunks = series.patches.iter().flat_map(|patch| &patch.files).flat_map(|file| &file.hunks);
    for hunk in hunks {
        let mut comment = false;
        let lines = hunk.lines.iter().map(|line| code_of(&line.text, &mut comment));
        for line in lines.chain([hunk.heading.clone()]) {
            let words: Vec<&str> = split(&line).filter(|word| !word.trim().is_empty()).collect();
            let calls = words.windows(2).filter(|pair| pair[1] == "(" && is_identifier(pair[0]));
            out.extend(calls.map(|pair| pair[0].to_owned()));
        }
    }
    out
}

/// The parts of the tree in which the change's neighbours live.
fn folders(series: &Series) -> BTreeSet<String> {
    let mut out = BTreeSet::from(["include".to_owned()]);
    for file in series.patches.iter().flat_map(|patch| &patch.files) {
        let parts: Vec<&str> = file.path().as_str().split('/').collect();
        match parts[..] {
            // Drivers are many, and have little to do with each other.
            ["drivers" | "arch" | "sound" | "tools", second, _, ..] => {
                _ = out.insert(format!("{}/{second}", parts[0]))
            }
            [first, _, ..] => _ = out.insert(first.to_owned()),
            _ => {}
        }
    }
    out
}

/// What a function does, by its words.
#[derive(Default)]
struct Function {
    place: (String, usize),
    calls: HashSet<String>,
    /// Members through which it calls.
    through: HashSet<String>,
    writes: HashSet<String>,
}

/// What the functions of a tree do.
struct Code {
    functions: HashMap<String, Function>,
    /// Function to those that call it by name.
    callers: HashMap<String, Vec<String>>,
    /// Member to the functions that call through it.
    through: HashMap<String, Vec<String>>,
    /// Function to the members that it is assigned to.
    assigned: HashMap<String, BTreeSet<String>>,
}

/// The next function on the way to one that writes, and the member through which it is called; nothing for the writer.
type Ways = BTreeMap<String, Option<(String, Option<String>)>>;

impl Code {
    fn of(root: &Path, folders: &BTreeSet<String>) -> Self {
        let mut functions: HashMap<String, Function> = HashMap::new();
        let mut values: HashMap<String, BTreeSet<String>> = HashMap::new();
        for folder in folders {
            walk(&root.join(folder), &mut |path, content| {
                if Language::of(path) == Language::C {
                    read_file(&format!("{folder}/{path}"), content, &mut functions, &mut values);
                }
                true
            });
        }
        let (mut callers, mut through) = (HashMap::new(), HashMap::new());
        for (name, function) in &functions {
            for called in function.calls.iter().filter(|called| functions.contains_key(*called)) {
                callers.entry(called.clone()).or_insert_with(Vec::new).push(name.clone());
            }
            for member in &function.through {
                through.entry(member.clone()).or_insert_with(Vec::new).push(name.clone());
            }
        }
        let mut assigned: HashMap<String, BTreeSet<String>> = HashMap::new();
        for (member, names) in values {
            // A member that holds anything says nothing of one function.
            for name in names.into_iter().filter(|name| functions.contains_key(name)) {
                assigned.entry(name).or_default().insert(member.clone());
            }
        }
        callers.values_mut().chain(through.values_mut()).for_each(|names| names.sort());
        Self { functions, callers, through, assigned }
    }

    fn writers(&self, member: &str) -> Vec<String> {
        let writes = self.functions.iter().filter(|(_, function)| function.writes.contains(member));
        let mut names: Vec<String> = writes.map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }

    fn callers_of(&self, name: &str) -> usize {
        self.callers.get(name).map_or(0, Vec::len)
    }

    /// How many calls each function is away from these.
    fn steps_from<'a>(&'a self, names: &'a BTreeSet<String>) -> HashMap<&'a str, usize> {
        let mut holds: HashMap<&str, Vec<&str>> = HashMap::new();
        for (name, members) in &self.assigned {
            for member in members {
                holds.entry(member).or_default().push(name);
            }
        }
        let names = names.iter().map(String::as_str).filter(|name| self.functions.contains_key(*name));
        let mut queue: VecDeque<(&str, usize)> = names.map(|name| (name, 0)).collect();
        let mut steps: HashMap<&str, usize> = queue.iter().copied().collect();
        while let Some((name, count)) = queue.pop_front() {
            let Some(function) = self.functions.get(name) else { continue };
            let indirect = function.through.iter().filter_map(|member| holds.get(member.as_str()));
            let indirect = indirect.filter(|held| held.len() <= CALLERS).flatten().copied();
            for called in function.calls.iter().map(String::as_str).chain(indirect) {
                if self.functions.contains_key(called) && !steps.contains_key(called) {
                    steps.insert(called, count + 1);
                    queue.push_back((called, count + 1));
                }
            }
        }
        steps
    }

    /// The functions that write, and those that call one of them through a member: what is called there, and that member.
    /// Of several that may be called there, the one that is nearest to the change.
    fn ends(&self, writers: &[String], steps: &HashMap<&str, usize>) -> Ways {
        let mut ends: Ways = writers.iter().map(|name| (name.clone(), None)).collect();
        let mut writers: Vec<&String> = writers.iter().collect();
        writers.sort_by_key(|name| steps.get(name.as_str()).copied().unwrap_or(usize::MAX));
        for writer in writers {
            for member in self.assigned.get(writer).into_iter().flatten() {
                let callers = self.through.get(member).filter(|callers| callers.len() <= CALLERS);
                for caller in callers.into_iter().flatten() {
                    let way = || Some((writer.clone(), Some(member.clone())));
                    ends.entry(caller.clone()).or_insert_with(way);
                }
            }
        }
        ends
    }

    /// The functions from which one of these ends is reached in a few calls, itself among them.
    fn reach(&self, end: &str, ends: &Ways, most: usize, crowded: &dyn Fn(&str) -> bool) -> Ways {
        let Some(last) = ends.get(end) else { return Ways::new() };
        let mut ways = Ways::from([(end.to_owned(), last.clone())]);
        if let Some((writer, _)) = last {
            ways.entry(writer.clone()).or_insert(None);
        }
        let mut queue = VecDeque::from([(end, usize::from(last.is_some()))]);
        while let Some((name, steps)) = queue.pop_front() {
            if steps == most || crowded(name) {
                continue;
            }
            for caller in self.callers.get(name).into_iter().flatten() {
                if !ways.contains_key(caller) {
                    ways.insert(caller.clone(), Some((name.to_owned(), None)));
                    queue.push_back((caller, steps + 1));
                }
            }
        }
        ways
    }
}

fn way_of(name: &str, ways: &Ways) -> Vec<String> {
    let (mut out, mut at) = (Vec::new(), name);
    while let Some(Some((next, member))) = ways.get(at) {
        out.push(match member {
            Some(member) => format!("`{next}()` through `->{member}`"),
            None => format!("`{next}()`"),
        });
        at = next;
    }
    out
}

fn read_file(
    path: &str,
    content: &str,
    functions: &mut HashMap<String, Function>,
    values: &mut HashMap<String, BTreeSet<String>>,
) {
    let mut comment = false;
    let lines: Vec<String> = content.split('\n').map(|line| code_of(line, &mut comment)).collect();
    let scopes = Scopes::of_file(&lines, Language::C);
    for scope in &scopes.all {
        let lines = &lines[scope.start..=scope.end.min(lines.len() - 1)];
        if scope.kind == ScopeKind::Function && !scope.name.is_empty() {
            let function = functions.entry(scope.name.clone()).or_default();
            if function.place.0.is_empty() {
                function.place = (path.to_owned(), scope.start + 1);
            }
            for (number, line) in lines.iter().enumerate() {
                read_line(line, (number > 0).then_some(&mut *function), values);
            }
        } else {
            lines.iter().for_each(|line| read_line(line, None, values));
        }
    }
}

/// The calls and writes of a line, and the functions that it assigns to members.
fn read_line(line: &str, function: Option<&mut Function>, values: &mut HashMap<String, BTreeSet<String>>) {
    let words: Vec<&str> = split(line).filter(|word| !word.trim().is_empty()).collect();
    for at in 0..words.len() {
        let reached =
            at > 0 && (words[at - 1] == "." || words[at - 1] == ">" && at > 1 && words[at - 2] == "-");
        if let (true, Some(&"="), Some(value), Some(&(";" | ",") | &"}") | None) =
            (reached, words.get(at + 1), words.get(at + 2), words.get(at + 3))
            && is_identifier(value)
        {
            values.entry(words[at].to_owned()).or_default().insert((*value).to_owned());
        }
    }
    let Some(function) = function else { return };
    for (at, word) in words.iter().enumerate().filter(|(_, word)| is_identifier(word)) {
        if words.get(at + 1) != Some(&"(") {
            continue;
        }
        let reached =
            at > 0 && (words[at - 1] == "." || words[at - 1] == ">" && at > 1 && words[at - 2] == "-");
        let list = if reached { &mut function.through } else { &mut function.calls };
        list.insert((*word).to_owned());
    }
    for (member, _) in accesses(line).into_iter().filter(|(_, written)| *written) {
        function.writes.insert(member.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::{Limits, parse};
    use crate::port::lacking::tests::tree;

    const QUEUE: &str = "void q_done(struct item *i)\n{\n\tatomic_sub(i->size, &i->owner->q_held);\n}\n\n\
        void q_take(struct item *i)\n{\n\ti->release = q_done;\n\tatomic_add(i->size, &i->owner->q_held);\n}\n";
    const DROP: &str =
        "static inline void item_drop(struct item *i)\n{\n\tif (i->release)\n\t\ti->release(i);\n}\n";
    const PATCH: &str = "--- a/net/push.c\n+++ b/net/push.c\n@@ -1,3 +1,6 @@\n int push(struct q *q)\n {\n+\t/* q->q_other is not meant */\n+\tif (atomic_read(&q->q_held) > q->own_goal)\n+\t\treturn 0;\n \treturn 1;\n--- a/net/q.h\n+++ b/net/q.h\n@@ -1,2 +1,3 @@\n struct q {\n+\tint own_goal;\n };\n";

    #[test]
    fn an_early_release_is_hinted_at() {
        let send = |body: &str| {
            format!(
                "int dev_send(struct item *i)\n{{\n{body}\treturn 0;\n}}\n\nvoid dev_free(struct item *i)\n{{\n\titem_drop(i);\n}}\n"
            )
        };
        let source = tree(&[("net/q.c", QUEUE), ("include/item.h", DROP), ("net/dev.c", &send(""))]);
        let early = "static void drop_early(struct item *i)\n{\n\titem_drop(i);\n}\n\n";
        let onto = tree(&[
            ("net/q.c", QUEUE),
            ("include/item.h", DROP),
            ("net/dev.c", &format!("{early}{}", send("\tdrop_early(i);\n"))),
        ]);
        let series = parse(PATCH.as_bytes(), &Limits::default()).unwrap();
        let found = hints(&series, onto.path(), source.path());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].member.as_str(), found[0].differences.len()), ("q_held", 1), "{found:?}");
        let difference = &found[0].differences[0];
        assert_eq!((difference.function.as_str(), difference.only), ("dev_send", Side::Tree));
        assert_eq!(difference.place, ("net/dev.c".to_owned(), 6));
        assert_eq!(difference.way, ["`drop_early()`", "`item_drop()`", "`q_done()` through `->release`"]);
        assert!(
            found[0].to_string().starts_with("hint: added lines in net/push.c read `q_held`"),
            "{}",
            found[0]
        );
        // The same tree differs in nothing.
        assert_eq!(hints(&series, source.path(), source.path()), []);
        // The other way round it is the source that does.
        let found = hints(&series, source.path(), onto.path());
        assert_eq!(found[0].differences[0].only, Side::Source);
    }

    #[test]
    fn a_way_of_one_tree_is_seen_beside_one_that_both_have() {
        let send = |early: &str| {
            format!("int dev_send(struct item *i)\n{{\n{early}\treturn i->dev->start(i);\n}}\n")
        };
        let driver = "int drv_start(struct item *i)\n{\n\tq_take(i);\n\treturn 0;\n}\n\n\
            struct dev drv = {\n\t.start = drv_start,\n};\n";
        let files = |early: &str| {
            tree(&[
                ("net/q.c", QUEUE),
                ("include/item.h", DROP),
                ("net/drv.c", driver),
                ("net/dev.c", &send(early)),
            ])
        };
        let (source, onto) = (files(""), files("\titem_drop(i);\n"));
        let series = parse(PATCH.as_bytes(), &Limits::default()).unwrap();
        let found = hints(&series, onto.path(), source.path());
        assert_eq!(found.len(), 1, "{found:?}");
        let [one] = &found[0].differences[..] else { panic!("{found:?}") };
        assert_eq!((one.function.as_str(), one.only), ("dev_send", Side::Tree));
        assert_eq!(one.way, ["`item_drop()`", "`q_done()` through `->release`"]);
    }

    #[test]
    fn what_both_trees_call_through_a_member_is_no_difference_where_one_assigns_more_to_it() {
        let timer = "void t_run(struct timer *t)\n{\n\tt->function(t);\n}\n";
        let mine = "void q_late(struct timer *t)\n{\n\tt->owner->q_held = 0;\n}\n\n\
            void q_arm(struct timer *t)\n{\n\tt->function = q_late;\n}\n";
        let onto = tree(&[("net/t.c", timer), ("net/q.c", QUEUE), ("net/late.c", mine)]);
        let source = tree(&[("net/t.c", timer), ("net/q.c", QUEUE)]);
        let series = parse(PATCH.as_bytes(), &Limits::default()).unwrap();
        assert_eq!(hints(&series, onto.path(), source.path()), []);
    }

    #[test]
    fn what_lies_on_the_changes_own_way_comes_first() {
        let writer = |name: &str| format!("void {name}(struct q *q)\n{{\n\tq->q_held = 0;\n}}\n\n");
        let idle = |name: &str| format!("void {name}(struct q *q)\n{{\n\tq->n = 0;\n}}\n\n");
        let push = "int push(struct q *q)\n{\n\tz_near(q);\n\treturn 1;\n}\n";
        let file = |write: &dyn Fn(&str) -> String| {
            let far: String = (0..20).map(|n| write(&format!("far_{n:02}"))).collect();
            tree(&[("net/push.c", push), ("net/q.c", &format!("{QUEUE}{far}{}", write("z_near")))])
        };
        let (onto, source) = (file(&writer), file(&idle));
        let series = parse(PATCH.as_bytes(), &Limits::default()).unwrap();
        let found = hints(&series, onto.path(), source.path());
        let names: Vec<&str> = found[0].differences.iter().map(|one| one.function.as_str()).collect();
        assert_eq!((names[..2].join(" "), names.len()), ("z_near far_00".to_owned(), SHOWN), "{names:?}");
        assert_eq!(found[0].left_out, 11);
    }

    #[test]
    fn a_name_that_everybody_writes_tells_nothing() {
        let many: String =
            (0..50).map(|n| format!("void w_{n}(struct q *q)\n{{\n\tq->q_held = {n};\n}}\n\n")).collect();
        let onto = tree(&[("net/q.c", &many)]);
        let source = tree(&[("net/q.c", &many.replace("q->q_held = 7;", "return;"))]);
        let series = parse(PATCH.as_bytes(), &Limits::default()).unwrap();
        assert_eq!(hints(&series, onto.path(), source.path()), []);
    }
}
