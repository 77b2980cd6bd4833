//! One file's part of a patch: finds the file, places its hunks, and hands the result to the tree.

use std::collections::BTreeMap;

use super::conflict;
use super::find::{Found, find, in_another_file};
use super::git::Bases;
use super::hunks::{check_together, place_all};
use super::outcome::{Edit, How, HunkOutcome, Placement};
use super::report::{FileAction, FileReport, HunkReport};
use super::review::{self, HunkView};
use super::source::Source;
use super::tree::Tree;
use super::{Options, PortError};
use crate::patch::{ChangeKind, FilePatch, Hunk, Op, Patch, PatchPath, text};

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
        outcome: HunkOutcome::Applied,
        notes: Vec::new(),
        hunks: Vec::new(),
    };
    let ported = match file.kind {
        ChangeKind::Create => create(file, tree, options, &mut report),
        ChangeKind::Delete => delete(file, tree, options, &mut report),
        ChangeKind::Modify | ChangeKind::Rename | ChangeKind::Copy => {
            modify(file, patch, tree, bases, options, &mut report)
        }
    };
    match ported {
        // Nothing is written there, and the other files do not depend on it.
        Err(error @ (PortError::Link { .. } | PortError::InTheWay { .. })) => {
            report.outcome = HunkOutcome::Conflict;
            report.action = FileAction::Nothing;
            report.hunks = whole_file(file, HunkOutcome::Conflict, Some(error.to_string()));
            report.notes.push(error.to_string());
            Ok(report)
        }
        other => other.map(|()| report),
    }
}

/// A report on a hunk that stands for a whole file.
fn whole_file(file: &FilePatch, outcome: HunkOutcome, needs: Option<String>) -> Vec<HunkReport> {
    let confidence = if outcome == HunkOutcome::Conflict { 0.0 } else { 1.0 };
    file.hunks
        .iter()
        .map(|hunk| HunkReport {
            number: 1,
            patch_line: hunk.line,
            outcome,
            how: if outcome == HunkOutcome::Conflict { How::None } else { How::File },
            confidence,
            asked: 1,
            placed: (outcome == HunkOutcome::Applied).then_some(1),
            distance: (outcome == HunkOutcome::Applied).then_some(0),
            onto: None,
            enclosing: None,
            differences: Vec::new(),
            needs: needs.clone(),
            near: None,
            edits: Vec::new(),
            view: None,
        })
        .collect()
}

fn create(
    file: &FilePatch,
    tree: &mut Tree,
    options: &Options,
    report: &mut FileReport,
) -> Result<(), PortError> {
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
            report.hunks = whole_file(file, HunkOutcome::Applied, None);
        }
        Some(there) if there == bytes => {
            report.outcome = HunkOutcome::Present;
            report.hunks = whole_file(file, HunkOutcome::Present, None);
            let runs = |mode: u32| mode & 0o111 != 0;
            if let Some((mode, here)) = file.new_mode.zip(tree.mode(path))
                && runs(mode) != runs(here)
            {
                report.notes.push(format!("the file is here already, and got the mode {:o}", mode & 0o777));
                report.action = FileAction::Modify;
                tree.set(path, bytes, Some(mode & 0o777));
            }
        }
        Some(_) => {
            let needs = "the tree has another file of this name: merge them by hand".to_owned();
            leave_out(file, path, needs, tree, options, report);
        }
    }
    Ok(())
}

/// All of a file's part is left to a person: its hunks go into a `.rej` file.
fn leave_out(
    file: &FilePatch,
    path: &PatchPath,
    needs: String,
    tree: &mut Tree,
    options: &Options,
    report: &mut FileReport,
) {
    report.outcome = HunkOutcome::Conflict;
    if file.hunks.is_empty() && !report.notes.contains(&needs) {
        report.notes.push(needs.clone());
    }
    report.hunks = whole_file(file, HunkOutcome::Conflict, Some(needs));
    for (number, (hunk, hunk_report)) in file.hunks.iter().zip(&mut report.hunks).enumerate() {
        hunk_report.number = number + 1;
        hunk_report.asked = asked_line(hunk);
    }
    if options.markers {
        conflict::reject(file, &file.hunks.iter().collect::<Vec<_>>(), path, tree);
    }
}

fn delete(
    file: &FilePatch,
    tree: &mut Tree,
    options: &Options,
    report: &mut FileReport,
) -> Result<(), PortError> {
    let (path, elsewhere) = match find(file, tree)? {
        Found::File(path, elsewhere) => (path, elsewhere),
        Found::Candidates(candidates) => {
            name_candidates(&candidates, report);
            report.outcome = HunkOutcome::Present;
            report.notes.push("the file is not here, so nothing is left to do".to_owned());
            report.hunks = whole_file(file, HunkOutcome::Present, None);
            return Ok(());
        }
    };
    if elsewhere {
        report.notes.push(format!("`{}` is called `{path}` here", file.path()));
        report.onto = Some(path.to_string());
    }
    let bytes = tree.read(&path)?.unwrap_or_default();
    let source = Source::new(&bytes, path.as_str());
    let same = file.hunks.iter().flat_map(Hunk::before).map(|line| &line.text).eq(&source.text);
    if same {
        tree.remove(&path);
        report.action = FileAction::Delete;
        report.hunks = whole_file(file, HunkOutcome::Applied, None);
        if elsewhere {
            report.outcome = HunkOutcome::Fuzzy;
            for hunk in &mut report.hunks {
                hunk.outcome = HunkOutcome::Fuzzy;
                hunk.confidence = 0.75;
                hunk.differences.push(format!("the file that is removed is `{path}` here"));
            }
        }
    } else {
        let needs = if elsewhere {
            format!("`{path}` has other content than the file to be removed: look whether all of it may go")
        } else {
            "the file has other content here: look whether all of it may go".to_owned()
        };
        leave_out(file, &path, needs, tree, options, report);
    }
    Ok(())
}

fn name_candidates(candidates: &[PatchPath], report: &mut FileReport) {
    const SHOWN: usize = 3;
    if !candidates.is_empty() {
        let names: Vec<String> = candidates.iter().take(SHOWN).map(|path| format!("`{path}`")).collect();
        report.notes.push(format!("files that may be meant: {}", names.join(", ")));
    }
}

/// The patch with the ends of line that the file has, if all of its lines have the other ones.
fn with_line_ends(file: &FilePatch, source: &Source, report: &mut FileReport) -> Option<FilePatch> {
    let returns = source.text.iter().filter(|line| line.ends_with('\r')).count();
    let dos = returns * 10 > source.text.len() * 9;
    let lines = || file.hunks.iter().flat_map(|hunk| &hunk.lines);
    let with = lines().filter(|line| line.text.ends_with('\r')).count();
    if dos && with == 0 && !source.text.is_empty() {
        report.notes.push("the file has CR LF line ends, and the patch was given them".to_owned());
    } else if returns == 0 && with > 0 && with == lines().count() {
        report
            .notes
            .push("the patch has CR LF line ends and the file has not: they were left out".to_owned());
    } else {
        return None;
    }
    let mut file = file.clone();
    for line in file.hunks.iter_mut().flat_map(|hunk| &mut hunk.lines) {
        if dos {
            line.text.push('\r');
        } else {
            line.text.pop();
        }
    }
    Some(file)
}

fn modify(
    file: &FilePatch,
    patch: &Patch,
    tree: &mut Tree,
    bases: &Bases,
    options: &Options,
    report: &mut FileReport,
) -> Result<(), PortError> {
    let (path, renamed) = match find(file, tree)? {
        Found::File(path, renamed) => (path, renamed),
        Found::Candidates(candidates) => {
            let needs = "there is neither this file nor one with its lines under another path".to_owned();
            report.notes.push(needs.clone());
            name_candidates(&candidates, report);
            leave_out(file, file.path(), needs, tree, options, report);
            return Ok(());
        }
    };
    let moves =
        matches!(file.kind, ChangeKind::Rename | ChangeKind::Copy) && Some(&path) == file.old_path.as_ref();
    if moves && tree.read(file.path())?.is_some() {
        let verb = if file.kind == ChangeKind::Rename { "renamed" } else { "copied" };
        let needs =
            format!("`{}` already exists, so `{path}` was not {verb}: merge them by hand", file.path());
        report.notes.push(needs.clone());
        leave_out(file, file.path(), needs, tree, options, report);
        return Ok(());
    }
    let bytes = tree.read(&path)?.unwrap_or_default();
    let source = Source::new(&bytes, path.as_str());
    let converted = with_line_ends(file, &source, report);
    let file = converted.as_ref().unwrap_or(file);
    let mut blocks = options.markers;
    if !source.marked.is_empty() && !tree.is_pending(&path) {
        // Blocks in blocks could not be told apart.
        blocks = false;
        let lines: Vec<String> =
            source.marked.iter().map(|(from, to)| format!("{}-{to}", from + 1)).collect();
        report.notes.push(format!(
            "conflict markers stand here already, at lines {}: nothing is changed between them",
            lines.join(", ")
        ));
    }
    let base = bases.of(file);
    let mut placements = place_all(file, &source, &path, base.as_ref(), options.confidence);
    let is_done = path == *file.path();
    if let (true, true, Some(old)) = (renamed, is_done, &file.old_path) {
        let verb = if file.kind == ChangeKind::Copy { "copied" } else { "renamed" };
        report.notes.push(format!("it was {verb} from `{old}` already"));
    } else if renamed {
        report.notes.push(format!("`{}` is called `{path}` here", file.path()));
    }
    if matches!(file.kind, ChangeKind::Rename | ChangeKind::Copy) && !moves && !is_done {
        // The hunks have a place, but the file keeps its name.
        for placement in placements.iter_mut().filter(|placement| placement.outcome != HunkOutcome::Conflict)
        {
            placement.outcome = placement.outcome.max(HunkOutcome::Fuzzy);
            placement.confidence = placement.confidence.min(0.75);
            placement.differences.push(format!("`{path}` was not renamed to `{}`", file.path()));
        }
    }
    if path != *file.path() {
        report.onto = Some(path.to_string());
    }
    // Hunks whose definition is not in this file may belong into another one of the folder.
    let mut elsewhere: BTreeMap<usize, (PatchPath, Placement)> = BTreeMap::new();
    for (index, hunk) in file.hunks.iter().enumerate() {
        if placements[index].outcome == HunkOutcome::Conflict
            && let Some(found) = in_another_file(hunk, &source, &path, tree)?
        {
            elsewhere.insert(index, found);
        }
    }
    let elsewhere_of = |path: &PatchPath, tree: &Tree| -> Result<Source, PortError> {
        Ok(Source::new(&tree.read(path)?.unwrap_or_default(), path.as_str()))
    };
    let decided = review::on(&options.decisions, file, patch);
    if !decided.is_empty() {
        for (index, hunk) in file.hunks.iter().enumerate() {
            let stale = match elsewhere.get_mut(&index) {
                Some((path, placement)) => {
                    review::decide(&decided, hunk, placement, &elsewhere_of(path, tree)?)
                }
                None => review::decide(&decided, hunk, &mut placements[index], &source),
            };
            report.notes.extend(stale.map(|stale| format!("hunk {}: {stale}", index + 1)));
            if elsewhere.get(&index).is_some_and(|(_, placed)| placed.outcome == HunkOutcome::Conflict) {
                elsewhere.remove(&index);
            }
        }
        check_together(&mut placements);
    }
    let mut views: BTreeMap<usize, HunkView> = BTreeMap::new();
    if options.review {
        for (index, hunk) in file.hunks.iter().enumerate() {
            let asked = asked_line(hunk);
            let view = match elsewhere.get(&index) {
                Some((path, placement)) => {
                    HunkView::new(hunk, placement, &elsewhere_of(path, tree)?, base.as_ref(), asked)
                }
                None => HunkView::new(hunk, &placements[index], &source, base.as_ref(), asked),
            };
            views.extend(view.map(|view| (index, view)));
        }
    }
    let (result, rejected) = apply(file, patch, &source, &placements, &elsewhere, blocks, &path);
    if options.markers {
        conflict::reject(file, &rejected, &path, tree);
    }
    let changed = result != bytes;
    let mode = file.new_mode.filter(|_| file.old_mode != file.new_mode).map(|mode| mode & 0o777);
    if moves {
        let mode = mode.or_else(|| tree.mode(&path));
        if file.kind == ChangeKind::Rename {
            tree.remove(&path);
            report.action = FileAction::Rename;
        } else {
            report.action = FileAction::Create;
        }
        tree.set(file.path(), result, mode);
        report.onto = None;
    } else if changed || mode.is_some_and(|mode| tree.mode(&path) != Some(mode)) {
        tree.set(&path, result, mode);
        report.action = FileAction::Modify;
    } else if file.hunks.is_empty() {
        report.outcome = HunkOutcome::Present;
    }
    write_elsewhere(file, &elsewhere, tree)?;
    for (index, hunk) in file.hunks.iter().enumerate() {
        let (onto, placement) = match elsewhere.get(&index) {
            Some((path, placement)) => (Some(path.to_string()), placement),
            None => (None, &placements[index]),
        };
        let mut one = hunk_report(index, hunk, placement, onto);
        one.view = views.remove(&index);
        report.hunks.push(one);
    }
    if let Some(worst) = report.hunks.iter().map(|hunk| hunk.outcome).max() {
        report.outcome = report.outcome.max(worst);
    }
    Ok(())
}

/// The line (from 1) of the first change in the file that a hunk was made for.
pub(super) fn asked_line(hunk: &Hunk) -> usize {
    hunk.old_start + hunk.lines.iter().take_while(|line| line.op == Op::Context).count()
}

fn hunk_report(index: usize, hunk: &Hunk, placement: &Placement, onto: Option<String>) -> HunkReport {
    let asked = asked_line(hunk);
    let placed = placement.edits.first().map(|edit| edit.line).or(match placement.outcome {
        HunkOutcome::Present => placement.near,
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
        near: if placement.outcome == HunkOutcome::Conflict { placement.near } else { None },
        edits: placement.edits.clone(),
        view: None,
    }
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
        let lines = edited(&source.all_lines(), &edits);
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
pub(super) fn edited(lines: &[String], edits: &[&Edit]) -> Vec<String> {
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

/// The file with its edits and with markers for conflicts, and the hunks for which no lines are known.
fn apply<'a>(
    file: &'a FilePatch,
    patch: &Patch,
    source: &Source,
    placements: &[Placement],
    elsewhere: &BTreeMap<usize, (PatchPath, Placement)>,
    blocks: bool,
    path: &PatchPath,
) -> (Vec<u8>, Vec<&'a Hunk>) {
    let mut edits: Vec<Edit> =
        placements.iter().flat_map(|placement| placement.edits.iter().cloned()).collect();
    let mut rejected = Vec::new();
    for (index, (hunk, placement)) in file.hunks.iter().zip(placements).enumerate() {
        if placement.outcome != HunkOutcome::Conflict || elsewhere.contains_key(&index) {
            continue;
        }
        let block = blocks
            .then(|| conflict::markers(hunk, index + 1, patch, placement, source, path))
            .flatten()
            .filter(|block| !edits.iter().any(|edit| conflict::overlap(edit, block)));
        match block {
            Some(block) => edits.push(block),
            None => rejected.push(hunk),
        }
    }
    edits.sort_by_key(|edit| (edit.line, edit.removed));
    let lines = edited(&source.all_lines(), &edits.iter().collect::<Vec<_>>());
    let last = file.hunks.last().zip(placements.last()).and_then(|(hunk, placement)| {
        let trailing = hunk.lines.iter().rev().take_while(|line| line.op == Op::Context).count();
        let edit = placement.edits.last()?;
        let at_end = edit.line - 1 + edit.removed + trailing >= source.text.len();
        hunk.lacks_final_newline().filter(|_| at_end)
    });
    let newline = last.unwrap_or(source.no_final_newline);
    let mut out = text::encode(&lines.join("\n"));
    if !newline && !lines.is_empty() {
        out.push(b'\n');
    }
    (out, rejected)
}
