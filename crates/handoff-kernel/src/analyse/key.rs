//! Key functions, by the three rules of the feature study: entries, the feature's core, and where it
//! meets other modules.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::graph::{Code, Mark};
use super::lines::Change;

/// Why a function is a key function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// The feature is entered through it.
    Entry,
    /// It does the feature's work.
    Core,
    /// The feature meets another module in it.
    Interaction,
}

/// A key function and the reasons for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyFunction {
    pub name: String,
    /// The file that defines it.
    pub file: String,
    pub mark: Mark,
    /// Its signature after the change (before it, if it is gone).
    pub signature: String,
    /// Each rule by which it was chosen, with what was seen.
    pub reasons: Vec<(Rule, String)>,
    /// The functions that it calls after the change.
    pub calls: Vec<String>,
    /// The names that it calls and no file that was read defines: functions of other files, and macros with small letters.
    pub calls_elsewhere: Vec<String>,
    /// Calls that the change adds.
    pub new_calls: Vec<String>,
    /// The members that added lines read, and those that they write.
    pub members: (Vec<String>, Vec<String>),
    /// Its part of the diff.
    pub diff: Vec<String>,
}

/// Chooses key functions among the marked ones and the entries above them.
pub(super) fn choose(
    before: &Code,
    after: &Code,
    marks: &BTreeMap<String, Mark>,
    lines: &BTreeMap<String, usize>,
    signatures: &BTreeMap<String, String>,
    changes: &BTreeMap<(String, String), Change>,
) -> Vec<KeyFunction> {
    let mut out = Vec::new();
    let most = lines.values().copied().max().unwrap_or(0);
    for (name, &mark) in marks {
        let code = if mark == Mark::Removed { before } else { after };
        let file = code.defined.get(name).cloned().unwrap_or_default();
        let mut reasons = Vec::new();
        match code.entry(name) {
            Some(entry) if code.entries.contains_key(name) => {
                reasons.push((Rule::Entry, format!("it is {entry}")))
            }
            _ => {
                if let Some((top, entry)) = nearest_entry(code, name, marks) {
                    reasons.push((Rule::Entry, format!("first changed function below `{top}` ({entry})")));
                }
            }
        }
        // Which function stands in a table of operations is decided at run time.
        let is_direct = |from: &str, to: &str| code.calls[from].get(to).is_some_and(Option::is_none);
        let changed_callers: Vec<&String> = code
            .callers
            .get(name)
            .into_iter()
            .flatten()
            .filter(|caller| marks.contains_key(*caller) && is_direct(caller, name))
            .collect();
        if mark == Mark::Added && !changed_callers.is_empty() {
            let callers =
                changed_callers.iter().map(|caller| format!("`{caller}`")).collect::<Vec<_>>().join(", ");
            reasons.push((Rule::Core, format!("new, and called by the changed {callers}")));
        } else if lines.get(name).copied().unwrap_or(0) * 2 >= most && most > 0 {
            reasons.push((Rule::Core, format!("{} of its lines change, among the most of all", lines[name])));
        }
        let folder =
            |path: &str| path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
        let home = folder(&file);
        let foreign = |names: &mut dyn Iterator<Item = &String>| -> BTreeSet<String> {
            names
                .filter_map(|other| code.defined.get(other).map(|path| (other, folder(path))))
                .filter(|(_, other)| *other != home && !other.starts_with("include"))
                .map(|(other, folder)| format!("`{other}` ({folder})"))
                .collect()
        };
        let called = || code.calls.get(name).into_iter().flat_map(BTreeMap::keys);
        let callers = || code.callers.get(name).into_iter().flatten();
        for (others, verb) in [
            (foreign(&mut called().filter(|to| is_direct(name, to))), "calls"),
            (foreign(&mut called().filter(|to| !is_direct(name, to))), "calls through a table, perhaps,"),
            (foreign(&mut callers().filter(|from| is_direct(from, name))), "is called by"),
            (
                foreign(&mut callers().filter(|from| !is_direct(from, name))),
                "is called through a table, perhaps, by",
            ),
        ] {
            if !others.is_empty() {
                let some: Vec<String> = others.into_iter().take(4).collect();
                reasons.push((Rule::Interaction, format!("{verb} {}", some.join(", "))));
            }
        }
        if reasons.is_empty() {
            continue;
        }
        let calls: Vec<String> = called().filter(|to| is_direct(name, to)).cloned().collect();
        let old = before.calls.get(name);
        let new_calls = calls
            .iter()
            .filter(|call| mark == Mark::Changed && old.is_some_and(|old| !old.contains_key(*call)))
            .cloned()
            .collect();
        let is_small = |name: &&String| name.contains(|c: char| c.is_ascii_lowercase());
        let calls_elsewhere =
            code.elsewhere.get(name).into_iter().flatten().filter(is_small).cloned().collect();
        reasons.sort();
        let diff =
            changes.get(&(file.clone(), name.clone())).map_or(Vec::new(), |change| change.diff.clone());
        let added: Vec<&str> = diff.iter().filter_map(|line| line.strip_prefix('+')).collect();
        out.push(KeyFunction {
            name: name.clone(),
            file,
            mark,
            signature: signatures.get(name).cloned().unwrap_or_default(),
            reasons,
            calls,
            calls_elsewhere,
            new_calls,
            members: crate::members::of(&added),
            diff,
        });
    }
    out.sort_by(|a, b| (a.reasons[0].0, &a.name).cmp(&(b.reasons[0].0, &b.name)));
    out
}

/// The nearest entry above, if no other changed function lies on the way.
fn nearest_entry(code: &Code, name: &str, marks: &BTreeMap<String, Mark>) -> Option<(String, String)> {
    let mut seen = BTreeSet::from([name.to_owned()]);
    let mut level = vec![name.to_owned()];
    for _ in 0..4 {
        let mut next = Vec::new();
        for caller in level.iter().filter_map(|name| code.callers.get(name)).flatten() {
            if marks.contains_key(caller) || !seen.insert(caller.clone()) {
                continue;
            }
            if let Some(entry) = code.entries.get(caller) {
                return Some((caller.clone(), entry.clone()));
            }
            next.push(caller.clone());
        }
        level = next;
    }
    None
}
