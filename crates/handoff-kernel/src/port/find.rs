//! Which file of the tree a patch means, where it has another path there.

use std::collections::HashMap;

use super::PortError;
use super::outcome::{HunkOutcome, Placement};
use super::place::{ENOUGH, place};
use super::source::{Source, marked_blocks};
use super::tree::Tree;
use super::wanted::Wanted;
use super::words::Line;
use crate::patch::{FilePatch, Hunk, PatchPath, text};

/// A file with the same name is the one that is meant if it has this share of what the hunks expect.
const RESEMBLES: f64 = 0.5;
/// ... or this, if no other has the name or its path differs by what often moves only.
const ALONE: f64 = 0.2;

/// What was found.
pub(super) enum Found {
    /// The file, and whether it has another path here.
    File(PatchPath, bool),
    /// Only files that may be meant, the likeliest first.
    Candidates(Vec<PatchPath>),
}

/// The file of this tree that a patch means.
pub(super) fn find(file: &FilePatch, tree: &mut Tree) -> Result<Found, PortError> {
    for path in [&file.old_path, &file.new_path].into_iter().flatten() {
        if tree.read(path)?.is_some() {
            let renamed = Some(path) != file.old_path.as_ref();
            return Ok(Found::File(path.clone(), renamed));
        }
    }
    let paths: Vec<&PatchPath> = [&file.old_path, &file.new_path].into_iter().flatten().collect();
    let names: Vec<String> = paths.iter().flat_map(|path| other_names(path)).collect();
    let mut scored: Vec<(f64, PatchPath)> = Vec::new();
    let telling = TellingLines::new(file);
    for candidate in tree.files_named(&names) {
        let Some(bytes) = tree.read(&candidate)? else { continue };
        let score = telling.share_in(&text::decode(&bytes));
        scored.push((score, candidate));
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let usual = |candidate: &PatchPath| paths.iter().any(|path| moves_to(path, candidate));
    let known: Vec<&(f64, PatchPath)> = scored.iter().filter(|(_, path)| usual(path)).collect();
    if let [(score, path)] = known[..]
        && *score >= ALONE
    {
        return Ok(Found::File(path.clone(), true));
    }
    let same_name = |path: &PatchPath| paths.iter().any(|other| other.file_name() == path.file_name());
    Ok(match scored.as_slice() {
        [(best, path)] if *best >= RESEMBLES || *best >= ALONE && same_name(path) => {
            Found::File(path.clone(), true)
        }
        [(best, path), (second, _), ..] if *best >= RESEMBLES && *best >= second + 0.15 => {
            Found::File(path.clone(), true)
        }
        _ => Found::Candidates(
            scored
                .into_iter()
                .filter(|(score, path)| *score > 0.0 || usual(path))
                .map(|(_, path)| path)
                .collect(),
        ),
    })
}

/// The names that a file may have had: `kernel/sched/fair.c` was `kernel/sched_fair.c` once.
fn other_names(path: &PatchPath) -> Vec<String> {
    let folder = path.folder().rsplit('/').next().unwrap_or("");
    let name = path.file_name();
    let mut names = vec![name.to_owned(), format!("{folder}_{name}"), format!("{folder}-{name}")];
    if let Some((_, rest)) = name.split_once('_') {
        names.push(rest.to_owned());
    }
    // The core of what became a folder had the folder's name.
    if let Some((_, end)) = name.rsplit_once('.') {
        names.push(format!("{folder}.{end}"));
    }
    names
}

/// True if two paths differ by the folders that drivers and headers leave and enter: `include/uapi` and
/// `drivers/staging`.
fn moves_to(path: &PatchPath, other: &PatchPath) -> bool {
    const FOLDERS: [&str; 3] = ["uapi", "staging", "generated"];
    let plain = |path: &PatchPath| -> Vec<String> {
        path.as_str().split('/').filter(|part| !FOLDERS.contains(part)).map(str::to_owned).collect()
    };
    plain(path) == plain(other)
}

/// What the hunks of a file expect, by what the lines say: hundreds of files may have the name of one that is missing.
struct TellingLines {
    /// By their keys: which line it is in the order of the hunks, the first of those that are the same.
    by_key: HashMap<u64, usize>,
    /// What all lines with the words of that one say.
    weights: Vec<f64>,
}

impl TellingLines {
    fn new(file: &FilePatch) -> Self {
        let (mut by_key, mut weights) = (HashMap::new(), Vec::new());
        for line in file.hunks.iter().flat_map(Hunk::before) {
            let line = Line::new(&line.text);
            if line.is_bare() {
                continue;
            }
            let index = *by_key.entry(line.key).or_insert(weights.len());
            if index == weights.len() {
                weights.push(0.0);
            }
            weights[index] += line.weight();
        }
        Self { by_key, weights }
    }

    /// How much of it a file has outside of conflict markers.
    fn share_in(&self, text: &str) -> f64 {
        let lines: Vec<&str> = text.split('\n').collect();
        let mut is_there = vec![false; self.weights.len()];
        let mut row = 0;
        for (from, to) in marked_blocks(&lines).into_iter().chain([(lines.len(), lines.len())]) {
            for line in &lines[row..from] {
                if let Some(&index) = self.by_key.get(&Line::key_of(line)) {
                    is_there[index] = true;
                }
            }
            row = to;
        }
        let all: f64 = self.weights.iter().sum();
        let there: f64 = self
            .weights
            .iter()
            .zip(is_there)
            .filter(|(_, is_there)| *is_there)
            .map(|(weight, _)| weight)
            .sum();
        if all > 0.0 { there / all } else { 0.0 }
    }
}

/// Looks for the hunk's definition in the other files of the folder.
pub(super) fn in_another_file(
    hunk: &Hunk,
    source: &Source,
    path: &PatchPath,
    tree: &mut Tree,
) -> Result<Option<(PatchPath, Placement)>, PortError> {
    let wanted = Wanted::new(hunk, source, path.as_str());
    let Some(scope) = wanted.scope() else { return Ok(None) };
    if source.scopes.named(&scope.name).iter().any(|other| source.scopes.all[*other].kind == scope.kind) {
        return Ok(None);
    }
    let name = scope.name.clone();
    let files = tree.definitions(path, &name);
    let [other] = files.as_slice() else { return Ok(None) };
    let Some(bytes) = tree.read(other)? else { return Ok(None) };
    let there = Source::new(&bytes, other.as_str());
    let wanted = Wanted::new(hunk, &there, other.as_str());
    let mut placement = place(&wanted, &there, 0);
    if matches!(placement.outcome, HunkOutcome::Conflict | HunkOutcome::Present) {
        return Ok(None);
    }
    placement.outcome = HunkOutcome::Fuzzy;
    placement.confidence = placement.confidence.min(0.85);
    placement.differences.insert(0, format!("`{name}` stands in `{other}` here"));
    Ok((placement.confidence >= ENOUGH).then(|| (other.clone(), placement)))
}
