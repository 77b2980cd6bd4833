//! The feature document of a kernel change: what it does to interfaces, code, flow and modules.
//!
//! What a machine can see is found and shown with its reason. What it cannot know, above all why a
//! change was made, is left as a marked question, with the commit message's own words beside it.
//!
//! ```no_run
//! use handoff_kernel::analyse::{Options, analyse};
//! use handoff_kernel::patch::{Input, Limits, load};
//!
//! let series = load(&Input::Path("autocorking.patch".into()), &Limits::default())?;
//! let analysis = analyse(&series, "linux".as_ref(), &Options::default())?;
//! std::fs::write("autocorking.html", analysis.html())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "c-sources")]
mod blank;
mod cache;
mod document;
mod facts;
mod graph;
mod history;
mod interface;
mod key;
mod lines;
mod maintainers;
#[cfg(feature = "c-sources")]
mod reader;
mod svg;
mod sysctl;
mod unread;

/// Stands for the parser in a build without it: [`analyse`] has returned before.
#[cfg(not(feature = "c-sources"))]
mod reader {
    pub(super) fn read(_: &[u8]) -> super::Facts {
        super::Facts::default()
    }
}

pub use facts::{Facts, Function};
pub use graph::{Edge, Graph, Mark, Vertex};
pub use history::{Related, Relation};
pub use interface::{InterfaceChange, Kind, What};
pub use key::{KeyFunction, Rule};
pub use maintainers::Subsystem;
pub use unread::Unread;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::patch::{Op, Series, text};
use crate::port::{PortError, Versions, preview};
use cache::Cache;
use graph::Code;

#[derive(Clone, Debug)]
pub struct Options {
    /// How many calls below a changed function are shown.
    pub depth: usize,
    /// More functions than this are shown as files.
    pub most: usize,
    /// Where facts of files are kept between runs; `None` keeps none.
    pub cache: Option<PathBuf>,
    /// Further folders or files of the tree whose callers and callees are looked at.
    pub also: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { depth: 1, most: 40, cache: None, also: Vec::new() }
    }
}

/// What a patch says of itself.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    pub commit: Option<String>,
    pub author: Option<String>,
    pub date: Option<String>,
    pub subject: String,
    pub message: String,
}

/// A line of the diffstat.
#[derive(Clone, Debug, Serialize)]
pub struct Stat {
    pub file: String,
    pub added: usize,
    pub removed: usize,
    /// Hunks that do not fit the tree: what they change is not in the rest of the analysis.
    pub unfit: usize,
}

/// A function that a change touches.
#[derive(Clone, Debug, Serialize)]
pub struct ChangedFunction {
    pub name: String,
    /// The file that defines it.
    pub file: String,
    /// What happened to it.
    pub mark: Mark,
    /// Its first line after the change (before it, if it is gone).
    pub line: usize,
    /// How many lines of it are added or removed.
    pub lines: usize,
}

/// All that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    pub patches: Vec<About>,
    pub stats: Vec<Stat>,
    /// The functions that are added, changed or removed.
    pub functions: Vec<ChangedFunction>,
    /// The interface changes by kind.
    pub interfaces: Vec<InterfaceChange>,
    pub graph: Graph,
    pub key_functions: Vec<KeyFunction>,
    /// What the change says in `Documentation/`: the file, and the lines that are added.
    pub documentation: Vec<(String, String)>,
    /// Whose code it is.
    pub subsystems: Vec<Subsystem>,
    /// Commits that have to do with it.
    pub related: Vec<Related>,
    /// Files that were read, their functions, and how many of these hold what the parser could not read.
    pub read: (usize, usize, usize),
    /// What was not read, or in part only.
    pub unread: Vec<Unread>,
    /// True if the tree already holds the change.
    pub present: bool,
}

/// Analyses a series against the tree that it applies to, or that already holds it.
///
/// # Errors
///
/// [`PortError`] if the tree cannot be read, or in a build without the feature `c-sources`. Hunks that do not fit
/// are counted, not an error.
pub fn analyse(series: &Series, tree: &Path, options: &Options) -> Result<Analysis, PortError> {
    if cfg!(not(feature = "c-sources")) {
        return Err(PortError::NotBuilt);
    }
    let mut look = preview(series, tree)?;
    let mut present = false;
    if look.report.counts.applied + look.report.counts.moved == 0 && look.report.counts.present > 0 {
        // The tree already holds it: what was before is the tree without it.
        look = preview(&series.reversed(), tree)?;
        for (before, after) in look.files.values_mut() {
            std::mem::swap(before, after);
        }
        present = true;
    }
    let mut stats: BTreeMap<String, Stat> = BTreeMap::new();
    for file in series.patches.iter().flat_map(|patch| &patch.files) {
        let name = file.path().to_string();
        let stat = stats.entry(name.clone()).or_insert(Stat { file: name, added: 0, removed: 0, unfit: 0 });
        stat.added += file.hunks.iter().map(crate::patch::Hunk::added).sum::<usize>();
        stat.removed += file.hunks.iter().map(crate::patch::Hunk::removed).sum::<usize>();
    }
    for file in look.report.patches.iter().flat_map(|patch| &patch.files) {
        let unfit =
            file.hunks.iter().filter(|hunk| hunk.outcome == crate::port::HunkOutcome::Conflict).count();
        if let Some(stat) = stats.get_mut(&file.path) {
            stat.unfit += unfit;
        }
    }

    let mut cache = Cache::open(options.cache.as_deref());
    let (around, mut not_read) = surroundings(tree, &look.files, &options.also);
    let side = |pick: fn(&Versions) -> &Vec<u8>| {
        let changed = look.files.iter().map(|(path, pair)| (path.clone(), pick(pair).clone()));
        changed.filter(|(path, _)| is_code(path)).chain(around.iter().cloned()).collect::<Vec<_>>()
    };
    let (was, is) = (cache.facts(&side(|pair| &pair.0)), cache.facts(&side(|pair| &pair.1)));
    cache.save();
    let before = Code::new(was.iter().map(|(path, facts)| (path.as_str(), facts)));
    let after = Code::new(is.iter().map(|(path, facts)| (path.as_str(), facts)));

    let empty = Facts::default();
    let mut interfaces = Vec::new();
    let mut functions: Vec<ChangedFunction> = Vec::new();
    let mut signatures = BTreeMap::new();
    for (path, (old, new)) in &look.files {
        let (was, is) = (was.get(path).unwrap_or(&empty), is.get(path).unwrap_or(&empty));
        interfaces.extend(interface::changes(path, old, new, was, is));
        functions.extend(changed_functions(path, was, is));
        for function in was.functions.iter().chain(&is.functions) {
            signatures.insert(function.name.clone(), function.signature.clone());
        }
    }
    sysctl::complete(&mut interfaces, &was, &is);
    // A function or a variable is listed once, by its definition; a header only declares it.
    // What only gets a prototype, or loses it, was and stays the function that it is.
    let defined = |files: &BTreeMap<String, Facts>, name: &str| {
        files.values().any(|facts| facts.function(name).is_some())
    };
    interfaces.retain(|one| {
        one.kind != Kind::Function
            || !one.is_declaration()
            || one.what == What::Changed
            || !(defined(&was, &one.name) && defined(&is, &one.name))
    });
    let order = |one: &InterfaceChange| (one.kind, one.what, one.name.clone(), one.is_declaration());
    interfaces.sort_by_cached_key(order);
    interfaces.dedup_by(|a, b| {
        let same = a.kind == b.kind && a.name == b.name && a.what == b.what;
        same && matches!(a.kind, Kind::Function | Kind::Variable)
    });
    let changes = lines::by_function(&look.files, &was, &is).unwrap_or_else(|why| {
        not_read.extend(functions.iter().map(|one| {
            let functions = vec![(one.name.clone(), one.line)];
            Unread {
                file: one.file.clone(),
                functions,
                why: format!("its changed lines are not known: {why}"),
            }
        }));
        BTreeMap::new()
    });
    not_read.extend(unread::of_patches(series, &look.files));
    not_read.extend(unread::of_functions(&is));
    // What the change touches comes first, and whole files.
    let is_beside = |one: &Unread| !stats.contains_key(&one.file) && !one.functions.is_empty();
    not_read.sort_by_cached_key(|one| (is_beside(one), one.clone()));
    for function in &mut functions {
        let change = changes.get(&(function.file.clone(), function.name.clone()));
        function.lines = change.map_or(0, |change| change.count);
    }
    let marks: BTreeMap<String, Mark> =
        functions.iter().map(|function| (function.name.clone(), function.mark)).collect();
    let lines = functions.iter().map(|function| (function.name.clone(), function.lines)).collect();

    let files: Vec<String> = stats.keys().cloned().collect();
    let maintainers = fs::read(tree.join("MAINTAINERS")).unwrap_or_default();
    let mut related = Vec::new();
    for patch in &series.patches {
        related.extend(history::named(&patch.message));
        related.extend(history::after(tree, patch.commit.as_deref(), &patch.subject, &files));
    }
    related.dedup();
    Ok(Analysis {
        patches: series
            .patches
            .iter()
            .map(|patch| About {
                commit: patch.commit.clone(),
                author: patch.author.clone(),
                date: patch.date.clone(),
                subject: patch.subject.clone(),
                message: patch.message.clone(),
            })
            .collect(),
        graph: graph::around(&before, &after, &marks, options.depth, options.most),
        key_functions: key::choose(&before, &after, &marks, &lines, &signatures, &changes),
        documentation: documentation(series),
        subsystems: maintainers::covering(&String::from_utf8_lossy(&maintainers), &files),
        read: (
            is.len(),
            is.values().map(|facts| facts.functions.len()).sum(),
            is.values().map(|facts| facts.unread.len()).sum(),
        ),
        unread: not_read,
        stats: stats.into_values().collect(),
        functions,
        interfaces,
        related,
        present,
    })
}

fn is_code(path: &str) -> bool {
    path.ends_with(".c") || path.ends_with(".h")
}

/// Files with their content, and what could not be read.
type FilesAround = (Vec<(String, Vec<u8>)>, Vec<Unread>);

/// The other C files of the folders that hold changed ones, and what was asked for.
fn surroundings(tree: &Path, changed: &BTreeMap<String, Versions>, also: &[String]) -> FilesAround {
    let mut folders: BTreeSet<String> = changed
        .keys()
        .filter(|path| path.ends_with(".c"))
        .filter_map(|path| path.rsplit_once('/').map(|(folder, _)| folder.to_owned()))
        .collect();
    folders.extend(also.iter().map(|folder| folder.trim_end_matches('/').to_owned()));
    let (mut out, mut not_read) = (Vec::new(), Vec::new());
    for folder in folders {
        let at = tree.join(text::to_path(&folder));
        let Ok(entries) = fs::read_dir(&at) else {
            match fs::read(&at) {
                Ok(bytes) => out.push((folder, bytes)),
                // A patch may make the folder.
                Err(_) if changed.keys().any(|path| path.starts_with(&format!("{folder}/"))) => {}
                Err(error) => not_read.push(Unread::file(folder, error.to_string())),
            }
            continue;
        };
        for name in entries.flatten().map(|entry| text::of_path(&entry.file_name())) {
            let path = format!("{folder}/{name}");
            if !is_code(&name) || changed.contains_key(&path) {
                continue;
            }
            match fs::read(tree.join(text::to_path(&path))) {
                Ok(bytes) => out.push((path, bytes)),
                Err(error) => not_read.push(Unread::file(path, error.to_string())),
            }
        }
    }
    out.sort();
    out.dedup_by(|a, b| a.0 == b.0);
    (out, not_read)
}

fn changed_functions(path: &str, was: &Facts, is: &Facts) -> Vec<ChangedFunction> {
    let mut out = Vec::new();
    let mut push = |function: &Function, mark| {
        out.push(ChangedFunction {
            name: function.name.clone(),
            file: path.to_owned(),
            mark,
            line: function.start,
            lines: 0,
        });
    };
    // A function may be defined several times, under different conditions: each is compared with all of its name.
    let stays = |function: &Function, others: &Facts| {
        let same = |other: &Function| other.body == function.body && other.signature == function.signature;
        others.functions.iter().any(|other| other.name == function.name && same(other))
    };
    for function in is.functions.iter().filter(|function| !stays(function, was)) {
        let known = was.function(&function.name).is_some();
        push(function, if known { Mark::Changed } else { Mark::Added });
    }
    for function in was.functions.iter().filter(|function| !stays(function, is)) {
        match is.function(&function.name) {
            Some(left) => push(left, Mark::Changed),
            None => push(function, Mark::Removed),
        }
    }
    out.sort_by(|a, b| (&a.name, a.line).cmp(&(&b.name, b.line)));
    out.dedup_by(|a, b| a.name == b.name);
    out.sort_by(|a, b| (a.line, &a.name).cmp(&(b.line, &b.name)));
    out
}

/// What a series adds to the documents of a kernel.
fn documentation(series: &Series) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    for file in series.patches.iter().flat_map(|patch| &patch.files) {
        let path = file.path().as_str();
        if !path.starts_with("Documentation/") || path.contains("/devicetree/") {
            continue;
        }
        let added = file.hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.op == Op::Add);
        let text = added.map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
        if !text.trim().is_empty() {
            out.push((path.to_owned(), text));
        }
    }
    out
}
