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
    /// The functions, the nearest to the member first.
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
    let mut out = Vec::new();
    for (member, read_in) in read {
        let (mine, theirs) = (here.writers(&member), there.writers(&member));
        if mine.len() > WRITERS || theirs.len() > WRITERS {
            continue;
        }
        let crowded = |name: &str| here.callers_of(name) > CALLERS || there.callers_of(name) > CALLERS;
        let (mine, theirs) = (here.reach(&mine, &crowded), there.reach(&theirs, &crowded));
        let mut found: Vec<(usize, Difference)> = Vec::new();
        for (code, ways, others, other, only) in
            [(&here, &mine, &theirs, &there, Side::Tree), (&there, &theirs, &mine, &here, Side::Source)]
        {
            let differs = |name: &str| {
                ways.contains_key(name) && !others.contains_key(name) && other.functions.contains_key(name)
            };
            for name in ways.keys().filter(|name| differs(name)) {
                // Who only calls one that differs has nothing of its own to tell.
                if ways[name].as_ref().is_some_and(|(next, _)| differs(next)) {
                    continue;
                }
                let way = way_of(name, ways);
                let place = code.functions[name].place.clone();
                found.push((way.len(), Difference { function: name.clone(), only, place, way }));
            }
        }
        found.sort_by(|a, b| {
            let near = |one: &Difference| {
                !folders.iter().any(|folder| one.place.0.starts_with(&format!("{folder}/")))
            };
            (a.0, near(&a.1), a.1.only, &a.1.function).cmp(&(b.0, near(&b.1), b.1.only, &b.1.function))
        });
        if !found.is_empty() {
            let left_out = found.len().saturating_sub(SHOWN);
            let differences = found.into_iter().take(SHOWN).map(|(_, one)| one).collect();
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

    /// The functions from which a writer is reached in a few calls.
    fn reach(&self, writers: &[String], crowded: &dyn Fn(&str) -> bool) -> Ways {
        let mut ways: Ways = writers.iter().map(|name| (name.clone(), None)).collect();
        let mut queue: VecDeque<(String, usize)> = writers.iter().map(|name| (name.clone(), 0)).collect();
        while let Some((name, steps)) = queue.pop_front() {
            if steps == STEPS || crowded(&name) {
                continue;
            }
            let direct = self.callers.get(&name).into_iter().flatten().map(|caller| (caller, None));
            let members = self.assigned.get(&name).into_iter().flatten();
            let indirect = members.flat_map(|member| {
                let callers = self.through.get(member).filter(|callers| callers.len() <= CALLERS);
                callers.into_iter().flatten().map(move |caller| (caller, Some(member.clone())))
            });
            for (caller, member) in direct.chain(indirect) {
                if !ways.contains_key(caller) {
                    ways.insert(caller.clone(), Some((name.clone(), member)));
                    queue.push_back((caller.clone(), steps + 1));
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
    fn a_name_that_everybody_writes_tells_nothing() {
        let many: String =
            (0..50).map(|n| format!("void w_{n}(struct q *q)\n{{\n\tq->q_held = {n};\n}}\n\n")).collect();
        let onto = tree(&[("net/q.c", &many)]);
        let source = tree(&[("net/q.c", &many.replace("q->q_held = 7;", "return;"))]);
        let series = parse(PATCH.as_bytes(), &Limits::default()).unwrap();
        assert_eq!(hints(&series, onto.path(), source.path()), []);
    }
}
