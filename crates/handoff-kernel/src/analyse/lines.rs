//! The changed lines of each function: by where they stand, not by what a hunk's heading says.

use std::collections::BTreeMap;

use super::Facts;
use crate::patch::{Limits, Op, parse};
use crate::port::Versions;
use crate::port::git::{Sides, diff};

/// How many lines of a function's change are shown.
const SHOWN: usize = 120;

/// What changes in a function.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    /// How many of its lines are added or removed.
    pub count: usize,
    /// Its part of the diff.
    pub diff: Vec<String>,
}

/// The changes of each function, by its file and name.
///
/// # Errors
///
/// Why the diff of the files could not be made or read: git is not installed, for example.
pub(super) fn by_function(
    files: &BTreeMap<String, Versions>,
    was: &BTreeMap<String, Facts>,
    is: &BTreeMap<String, Facts>,
) -> Result<BTreeMap<(String, String), Change>, String> {
    const MODE: u32 = 0o644;
    let side = |bytes: &'_ Vec<u8>| -> bool { !bytes.is_empty() };
    let sides: Vec<Sides<'_>> = files
        .iter()
        .filter(|(path, _)| super::is_code(path))
        .map(|(path, (before, after))| Sides {
            path,
            before: side(before).then_some((&**before, MODE)),
            after: side(after).then_some((&**after, MODE)),
        })
        .collect();
    let mut out: BTreeMap<(String, String), Change> = BTreeMap::new();
    let changed = diff(&sides).map_err(|error| error.to_string())?;
    if changed.is_empty() {
        return Ok(out);
    }
    let limits = Limits { bytes: usize::MAX, keep_going: true, ..Limits::default() };
    let series = parse(&changed, &limits).map_err(|error| error.to_string())?;
    let empty = Facts::default();
    for file in series.patches.iter().flat_map(|patch| &patch.files) {
        let path = file.path().as_str();
        let old = file.old_path.as_ref().map_or(path, |path| path.as_str());
        let (was, is) = (was.get(old).unwrap_or(&empty), is.get(path).unwrap_or(&empty));
        for hunk in &file.hunks {
            let (mut before, mut after) = (hunk.old_start, hunk.new_start);
            for line in &hunk.lines {
                let (facts, at, sign) = match line.op {
                    Op::Remove => (was, before, '-'),
                    Op::Add => (is, after, '+'),
                    Op::Context => (is, after, ' '),
                };
                before += usize::from(line.op != Op::Add);
                after += usize::from(line.op != Op::Remove);
                let Some(function) = facts.functions.iter().find(|one| (one.start..=one.end).contains(&at))
                else {
                    continue;
                };
                let change = out.entry((path.to_owned(), function.name.clone())).or_default();
                change.count += usize::from(line.op != Op::Context);
                if change.diff.len() < SHOWN {
                    change.diff.push(format!("{sign}{}", line.text));
                } else if change.diff.len() == SHOWN {
                    change.diff.push(" (more lines follow)".to_owned());
                }
            }
        }
    }
    out.retain(|_, change| change.count > 0);
    Ok(out)
}
