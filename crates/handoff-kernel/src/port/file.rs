//! One file's part of a patch: finds the file, places its hunks, and hands the result to the tree.

use std::collections::BTreeMap;

use super::git::{self, Bases};
use super::outcome::{Edit, How, Outcome, Placement};
use super::place::{ENOUGH, place};
use super::report::{FileAction, FileReport, HunkReport};
use super::source::Source;
use super::tree::Tree;
use super::wanted::Wanted;
use super::words::Line;
use super::{Options, PortError};
use crate::patch::{ChangeKind, FilePatch, Hunk, Op, Patch, PatchPath, text};

/// How many lines of the file that a patch was made for are used as context on each side.
const WIDE: usize = 12;

pub(super) fn port_file(
    file: &FilePatch,
    patch: &Patch,
    tree: &mut Tree,
    bases: &Bases,
    options: &Options,
) -> Result<FileReport, PortError> {
    let mut report = FileReport {
        path: file.path().to_string(),
        onto: None,
        action: FileAction::Nothing,
        outcome: Outcome::Applied,
        notes: Vec::new(),
        hunks: Vec::new(),
    };
    match file.kind {
        ChangeKind::Create => create(file, tree, &mut report)?,
        ChangeKind::Delete => delete(file, tree, options, &mut report)?,
        ChangeKind::Modify | ChangeKind::Rename | ChangeKind::Copy => {
            modify(file, patch, tree, bases, options, &mut report)?;
        }
    }
    Ok(report)
}

/// A report on a hunk that stands for a whole file.
fn whole_file(file: &FilePatch, outcome: Outcome, needs: Option<String>) -> Vec<HunkReport> {
    let confidence = if outcome == Outcome::Conflict { 0.0 } else { 1.0 };
    file.hunks
        .iter()
        .map(|hunk| HunkReport {
            number: 1,
            patch_line: hunk.line,
            outcome,
            how: if outcome == Outcome::Conflict { How::None } else { How::File },
            confidence,
            asked: 1,
            placed: (outcome == Outcome::Applied).then_some(1),
            distance: (outcome == Outcome::Applied).then_some(0),
            onto: None,
            enclosing: None,
            differences: Vec::new(),
            needs: needs.clone(),
            near: None,
            edits: Vec::new(),
        })
        .collect()
}

fn create(file: &FilePatch, tree: &mut Tree, report: &mut FileReport) -> Result<(), PortError> {
    let path = file.path();
    let mut content = String::new();
    for line in file.hunks.iter().flat_map(Hunk::after) {
        content.push_str(&line.text);
        if !line.no_newline {
            content.push('\n');
        }
    }
    let bytes = text::encode(&content);
    match tree.read(path)? {
        None => {
            tree.set(path, bytes, file.new_mode.map(|mode| mode & 0o777));
            report.action = FileAction::Create;
            report.hunks = whole_file(file, Outcome::Applied, None);
        }
        Some(there) if there == bytes => {
            report.outcome = Outcome::Present;
            report.hunks = whole_file(file, Outcome::Present, None);
        }
        Some(_) => {
            report.outcome = Outcome::Conflict;
            let needs = "the tree has another file of this name: merge them by hand".to_owned();
            report.hunks = whole_file(file, Outcome::Conflict, Some(needs));
        }
    }
    Ok(())
}

fn delete(
    file: &FilePatch,
    tree: &mut Tree,
    options: &Options,
    report: &mut FileReport,
) -> Result<(), PortError> {
    let path = file.path();
    let Some(bytes) = tree.read(path)? else {
        report.outcome = Outcome::Present;
        report.notes.push("the file is not here, so nothing is left to do".to_owned());
        report.hunks = whole_file(file, Outcome::Present, None);
        return Ok(());
    };
    let source = Source::new(&bytes, path.as_str());
    let same = file.hunks.iter().flat_map(Hunk::before).map(|line| &line.text).eq(&source.text);
    if same {
        tree.remove(path);
        report.action = FileAction::Delete;
        report.hunks = whole_file(file, Outcome::Applied, None);
    } else {
        let _ = options;
        report.outcome = Outcome::Conflict;
        let needs = "the file has other content here: look whether all of it may go".to_owned();
        report.hunks = whole_file(file, Outcome::Conflict, Some(needs));
    }
    Ok(())
}

fn modify(
    file: &FilePatch,
    patch: &Patch,
    tree: &mut Tree,
    bases: &Bases,
    options: &Options,
    report: &mut FileReport,
) -> Result<(), PortError> {
    let Some((path, renamed)) = find(file, tree)? else {
        report.outcome = Outcome::Conflict;
        let needs = "there is neither this file nor one with its lines under another path".to_owned();
        report.notes.push(needs.clone());
        report.hunks = whole_file(file, Outcome::Conflict, Some(needs));
        for (number, (hunk, hunk_report)) in file.hunks.iter().zip(&mut report.hunks).enumerate() {
            hunk_report.number = number + 1;
            hunk_report.asked =
                hunk.old_start + hunk.lines.iter().take_while(|l| l.op == Op::Context).count();
        }
        return Ok(());
    };
    let bytes = tree.read(&path)?.unwrap_or_default();
    let source = Source::new(&bytes, path.as_str());
    let base = bases.of(file);
    let mut placements = place_all(file, &source, &path, base.as_ref());
    if renamed {
        report.notes.push(format!("`{}` is called `{path}` here", file.path()));
    }
    if path != *file.path() {
        report.onto = Some(path.to_string());
    }
    check_together(&mut placements);
    for placement in &mut placements {
        if placement.outcome == Outcome::Fuzzy && placement.confidence < options.confidence {
            demote(
                placement,
                format!("its confidence, {:.2}, is below what is asked for", placement.confidence),
            );
        }
    }
    // Hunks whose definition is not in this file may belong into another one of the folder.
    let mut elsewhere: BTreeMap<usize, (PatchPath, Placement)> = BTreeMap::new();
    for (index, hunk) in file.hunks.iter().enumerate() {
        if placements[index].outcome == Outcome::Conflict
            && let Some(found) = in_another_file(hunk, &source, &path, tree)?
        {
            elsewhere.insert(index, found);
        }
    }
    let mut target = path.clone();
    let result = apply(file, patch, &source, &placements, &elsewhere, options, &path, tree)?;
    let changed = result != bytes;
    let mode = file.new_mode.filter(|_| file.old_mode != file.new_mode).map(|mode| mode & 0o777);
    if file.kind == ChangeKind::Rename && Some(&path) == file.old_path.as_ref() {
        let new = file.path().clone();
        if tree.read(&new)?.is_some() {
            report.outcome = Outcome::Conflict;
            report.notes.push(format!("`{new}` already exists, so `{path}` keeps its name"));
        } else {
            let mode = mode.or_else(|| tree.mode(&path));
            tree.remove(&path);
            tree.set(&new, result, mode);
            report.action = FileAction::Rename;
            target = new;
            report.onto = None;
        }
    } else if file.kind == ChangeKind::Copy && Some(&path) == file.old_path.as_ref() {
        if tree.read(file.path())?.is_some() {
            report.outcome = Outcome::Conflict;
            report.notes.push(format!("`{}` already exists and was not overwritten by a copy", file.path()));
        } else {
            tree.set(file.path(), result, mode.or_else(|| tree.mode(&path)));
            report.action = FileAction::Create;
            target = file.path().clone();
            report.onto = None;
        }
    } else if changed || mode.is_some_and(|mode| tree.mode(&path) != Some(mode)) {
        tree.set(&path, result, mode);
        report.action = FileAction::Modify;
    } else if file.hunks.is_empty() {
        report.outcome = Outcome::Present;
    }
    write_elsewhere(file, &elsewhere, tree)?;
    for (index, hunk) in file.hunks.iter().enumerate() {
        let (onto, placement) = match elsewhere.get(&index) {
            Some((path, placement)) => (Some(path.to_string()), placement),
            None => (None, &placements[index]),
        };
        report.hunks.push(hunk_report(index, hunk, placement, onto));
    }
    if let Some(worst) = report.hunks.iter().map(|hunk| hunk.outcome).max() {
        report.outcome = report.outcome.max(worst);
    }
    let _ = target;
    Ok(())
}

fn hunk_report(index: usize, hunk: &Hunk, placement: &Placement, onto: Option<String>) -> HunkReport {
    let asked = hunk.old_start + hunk.lines.iter().take_while(|line| line.op == Op::Context).count();
    let placed = placement.edits.first().map(|edit| edit.line).or(match placement.outcome {
        Outcome::Present => placement.near,
        _ => None,
    });
    HunkReport {
        number: index + 1,
        patch_line: hunk.line,
        outcome: placement.outcome,
        how: placement.how,
        confidence: placement.confidence,
        asked,
        placed,
        distance: placed.map(|placed| placed.cast_signed() - asked.cast_signed()),
        onto,
        enclosing: placement.enclosing.clone(),
        differences: placement.differences.clone(),
        needs: placement.needs.clone(),
        near: if placement.outcome == Outcome::Conflict { placement.near } else { None },
        edits: placement.edits.clone(),
    }
}

/// The file of this tree that a patch means, and whether it has another name here.
fn find(file: &FilePatch, tree: &mut Tree) -> Result<Option<(PatchPath, bool)>, PortError> {
    for path in [&file.old_path, &file.new_path].into_iter().flatten() {
        if tree.read(path)?.is_some() {
            let renamed = Some(path) != file.old_path.as_ref();
            return Ok(Some((path.clone(), renamed)));
        }
    }
    let mut names: Vec<String> = Vec::new();
    for path in [&file.old_path, &file.new_path].into_iter().flatten() {
        names.push(path.file_name().to_owned());
        // `kernel/sched/fair.c` was `kernel/sched_fair.c` once, and the other way round.
        let folder = path.folder().rsplit('/').next().unwrap_or("");
        names.push(format!("{folder}_{}", path.file_name()));
        names.push(format!("{folder}-{}", path.file_name()));
        if let Some((_, rest)) = path.file_name().split_once('_') {
            names.push(rest.to_owned());
        }
        // The core of what became a folder had the folder's name.
        if let Some((_, end)) = path.file_name().rsplit_once('.') {
            names.push(format!("{folder}.{end}"));
        }
    }
    let mut scored: Vec<(f64, PatchPath)> = Vec::new();
    for candidate in tree.files_named(&names) {
        let Some(bytes) = tree.read(&candidate)? else { continue };
        let score = resemblance(file, &Source::new(&bytes, candidate.as_str()));
        scored.push((score, candidate));
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    match scored.as_slice() {
        [(best, path)] if *best >= 0.5 => Ok(Some((path.clone(), true))),
        [(best, path), (second, _), ..] if *best >= 0.5 && *best >= second + 0.15 => {
            Ok(Some((path.clone(), true)))
        }
        _ => Ok(None),
    }
}

/// How much of what the hunks expect a file has, by what the lines say.
fn resemblance(file: &FilePatch, source: &Source) -> f64 {
    let (mut there, mut all) = (0.0, 0.0);
    for line in file.hunks.iter().flat_map(Hunk::before) {
        let line = Line::new(&line.text);
        if line.is_bare() {
            continue;
        }
        all += line.weight();
        if source.count(&line) > 0 {
            there += line.weight();
        }
    }
    if all > 0.0 { there / all } else { 0.0 }
}

fn place_all(file: &FilePatch, source: &Source, path: &PatchPath, base: Option<&Source>) -> Vec<Placement> {
    let mut drift = 0isize;
    file.hunks
        .iter()
        .map(|hunk| {
            let near = |asked: usize| asked.saturating_add_signed(drift);
            let wanted = Wanted::new(hunk, source, path.as_str());
            let asked = wanted.asked_change();
            let mut placement = place(&wanted, source, near(wanted.asked));
            let sure = matches!(placement.outcome, Outcome::Applied | Outcome::Moved | Outcome::Present);
            if !sure && let Some(base) = base {
                placement = with_base(hunk, base, source, path, &placement, drift);
            }
            if let (Some(edit), true) = (placement.edits.first(), placement.confidence > 0.7) {
                drift = edit.line.cast_signed() - 1 - asked.cast_signed();
            }
            placement
        })
        .collect()
}

/// With the file that the patch was made for: git's merge first, then the locator with more context.
fn with_base(
    hunk: &Hunk,
    base: &Source,
    source: &Source,
    path: &PatchPath,
    first: &Placement,
    drift: isize,
) -> Placement {
    if let Some(merged) = git::merge(hunk, base, source) {
        return merged;
    }
    let wide = git::widen(hunk, base, WIDE);
    let wanted = Wanted::new(&wide, source, path.as_str());
    let placed = place(&wanted, source, wanted.asked.saturating_add_signed(drift));
    // A definition that the patch's own tree has beside the changed one is not that one renamed.
    let twin = |placement: &Placement| {
        let here = placement.enclosing.as_ref().filter(|_| placement.outcome == Outcome::Fuzzy);
        let other = here.zip(wanted.scope()).is_some_and(|(here, scope)| here.name != scope.name);
        other && here.is_some_and(|here| base.scopes.all.iter().any(|scope| scope.name == here.name))
    };
    if twin(first) || twin(&placed) {
        let mut placement = first.clone();
        demote(&mut placement, "the definition is not here, only another one with the same lines".to_owned());
        return placement;
    }
    if placed.outcome == Outcome::Conflict || placed.confidence < first.confidence {
        return first.clone();
    }
    placed
}

fn demote(placement: &mut Placement, needs: String) {
    placement.near = placement.edits.first().map(|edit| edit.line);
    placement.outcome = Outcome::Conflict;
    placement.how = How::None;
    placement.edits.clear();
    placement.needs = Some(needs);
}

/// Hunks that would change the same lines cannot both be right.
fn check_together(placements: &mut [Placement]) {
    for index in 1..placements.len() {
        for other in 0..index {
            let clash = placements[other].edits.iter().any(|a| {
                placements[index].edits.iter().any(|b| {
                    let (first, second) = if a.line <= b.line { (a, b) } else { (b, a) };
                    second.line < first.line + first.removed
                })
            });
            if clash {
                let weaker =
                    if placements[index].confidence <= placements[other].confidence { index } else { other };
                demote(&mut placements[weaker], "another hunk changes the same lines".to_owned());
            }
        }
        // Inside of one definition the hunks keep their order.
        let above = index - 1;
        let same = placements[index].enclosing.is_some()
            && placements[index].enclosing == placements[above].enclosing;
        if same
            && let (Some(a), Some(b)) = (placements[above].edits.first(), placements[index].edits.first())
            && a.line > b.line
        {
            let weaker =
                if placements[index].confidence <= placements[above].confidence { index } else { above };
            demote(
                &mut placements[weaker],
                "the hunks would change their order inside one definition".to_owned(),
            );
        }
    }
}

/// Looks for the hunk's definition in the other files of the folder.
fn in_another_file(
    hunk: &Hunk,
    source: &Source,
    path: &PatchPath,
    tree: &mut Tree,
) -> Result<Option<(PatchPath, Placement)>, PortError> {
    let wanted = Wanted::new(hunk, source, path.as_str());
    let Some(scope) = wanted.scope() else { return Ok(None) };
    if source.scopes.all.iter().any(|other| other.name == scope.name && other.kind == scope.kind) {
        return Ok(None);
    }
    let name = scope.name.clone();
    let files = tree.definitions(path, &name);
    let [other] = files.as_slice() else { return Ok(None) };
    let Some(bytes) = tree.read(other)? else { return Ok(None) };
    let there = Source::new(&bytes, other.as_str());
    let wanted = Wanted::new(hunk, &there, other.as_str());
    let mut placement = place(&wanted, &there, 0);
    if matches!(placement.outcome, Outcome::Conflict | Outcome::Present) {
        return Ok(None);
    }
    placement.outcome = Outcome::Fuzzy;
    placement.confidence = placement.confidence.min(0.85);
    placement.differences.insert(0, format!("`{name}` stands in `{other}` here"));
    Ok((placement.confidence >= ENOUGH).then(|| (other.clone(), placement)))
}

fn write_elsewhere(
    file: &FilePatch,
    elsewhere: &BTreeMap<usize, (PatchPath, Placement)>,
    tree: &mut Tree,
) -> Result<(), PortError> {
    let mut by_file: BTreeMap<&PatchPath, Vec<&Edit>> = BTreeMap::new();
    for (path, placement) in elsewhere.values() {
        by_file.entry(path).or_default().extend(&placement.edits);
    }
    for (path, mut edits) in by_file {
        let Some(bytes) = tree.read(path)? else { continue };
        let source = Source::new(&bytes, path.as_str());
        edits.sort_by_key(|edit| edit.line);
        let lines = edited(&source.text, &edits);
        let result = Source::from_lines(
            lines,
            source.no_final_newline,
            super::scope::Language::of(file.path().as_str()),
        );
        tree.set(path, result.bytes(), None);
    }
    Ok(())
}

/// The lines with the edits made; edits are in order and do not overlap.
fn edited(lines: &[String], edits: &[&Edit]) -> Vec<String> {
    let mut out = Vec::with_capacity(lines.len());
    let mut at = 0;
    for edit in edits {
        let line = edit.line - 1;
        out.extend_from_slice(&lines[at..line.max(at).min(lines.len())]);
        out.extend(edit.added.iter().cloned());
        at = (line + edit.removed).max(at).min(lines.len());
    }
    out.extend_from_slice(&lines[at..]);
    out
}

#[expect(clippy::too_many_arguments, reason = "one call, and a struct for it would only rename them")]
fn apply(
    file: &FilePatch,
    patch: &Patch,
    source: &Source,
    placements: &[Placement],
    elsewhere: &BTreeMap<usize, (PatchPath, Placement)>,
    options: &Options,
    path: &PatchPath,
    tree: &mut Tree,
) -> Result<Vec<u8>, PortError> {
    let mut edits: Vec<Edit> =
        placements.iter().flat_map(|placement| placement.edits.iter().cloned()).collect();
    let mut rejected = String::new();
    if options.markers {
        for (index, (hunk, placement)) in file.hunks.iter().zip(placements).enumerate() {
            if placement.outcome != Outcome::Conflict || elsewhere.contains_key(&index) {
                continue;
            }
            match placement.near {
                Some(near) => edits.push(Edit {
                    line: outside_edits(near.min(source.text.len() + 1), &edits),
                    removed: 0,
                    added: markers(hunk, index, patch, placement),
                }),
                None => rejected.push_str(&reject(hunk)),
            }
        }
    }
    edits.sort_by_key(|edit| (edit.line, edit.removed));
    let lines = edited(&source.text, &edits.iter().collect::<Vec<_>>());
    if !rejected.is_empty()
        && let Ok(reject_path) = PatchPath::new(&format!("{path}.rej"))
    {
        let text = format!("--- a/{path}\n+++ b/{path}\n{rejected}");
        tree.set(&reject_path, text::encode(&text), None);
    }
    let newline =
        file.hunks.last().zip(placements.last()).map_or(source.no_final_newline, |(hunk, placement)| {
            let at_end = placement
                .edits
                .last()
                .is_some_and(|edit| edit.line - 1 + edit.removed + 3 >= source.text.len());
            let last = hunk.lines.iter().rev().find(|line| line.op != Op::Remove);
            match last {
                Some(last) if at_end && hunk.lines.iter().any(|line| line.no_newline) => last.no_newline,
                _ => source.no_final_newline,
            }
        });
    let mut out = text::encode(&lines.join("\n"));
    if !newline && !lines.is_empty() {
        out.push(b'\n');
    }
    Ok(out)
}

/// Markers go in front of an edit that covers their line.
fn outside_edits(line: usize, edits: &[Edit]) -> usize {
    edits
        .iter()
        .find(|edit| edit.line < line && line < edit.line + edit.removed)
        .map_or(line, |edit| edit.line)
}

/// What a compiler cannot overlook: the lines that the patch expects and those that it wants.
fn markers(hunk: &Hunk, index: usize, patch: &Patch, placement: &Placement) -> Vec<String> {
    let what = if patch.subject.is_empty() { "patch" } else { &patch.subject };
    let needs = placement.needs.as_deref().unwrap_or("");
    let mut out = vec!["<<<<<<< tree".to_owned(), "||||||| the patch expects".to_owned()];
    out.extend(hunk.before().map(|line| line.text.clone()));
    out.push("=======".to_owned());
    out.extend(hunk.after().map(|line| line.text.clone()));
    out.push(format!(">>>>>>> {what}, hunk {}: {needs}", index + 1));
    out
}

/// A hunk as it stood in the patch.
fn reject(hunk: &Hunk) -> String {
    let mut out = format!(
        "@@ -{},{} +{},{} @@ {}\n",
        hunk.old_start,
        hunk.before().count(),
        hunk.new_start,
        hunk.after().count(),
        hunk.heading
    );
    for line in &hunk.lines {
        out.push(match line.op {
            Op::Context => ' ',
            Op::Remove => '-',
            Op::Add => '+',
        });
        out.push_str(&line.text);
        out.push('\n');
    }
    out
}
