//! The locator: from a hunk and a file to the lines to change, or to the reason why not.
//!
//! Precision comes first. A hunk that stands in the file word for word, once, inside the definition
//! that it names, is placed. Anything else is placed only where the lines around each change hold
//! it from both sides, or strongly from one, and is then reported as fuzzy with what differs.

use super::align::{Alignment, Label, align, compatible};
use super::anchor::Anchors;
use super::exact::{nearest_first, occurrences, stands_at};
use super::outcome::{Edit, Enclosing, How, HunkOutcome, Placement, Region};
use super::present::{Beside, already_there, either, kept_lines, stands_beside};
use super::scope::{Language, ScopeKind};
use super::source::Source;
use super::structure::{closes_below, is_inside};
use super::wanted::Wanted;
use super::words::Line;
use super::{ends, heading};
use crate::document::counted;

/// A place at most so many lines from where the patch has it is taken before its twins,
const NEAR: usize = 64;
/// ... if they are at least so many times further away,
const FAR: usize = 6;
/// ... where less than so many lines count as that many: twins close to each other are told apart by nothing.
const CLOSE: usize = 8;

/// So many twins are told apart by the hunks around them.
const TWINS: usize = 1000;

/// A hunk with fewer lines of context is certain of its own place only: `git diff -U1` writes two.
const LITTLE: usize = 3;
/// ... and so is one with fewer that are not blank.
const LITTLE_TEXT: usize = 2;

/// Lines this much alike are the same one, with a detail that differs.
const SAME_THING: f64 = 0.8;

/// Below this a hunk is a conflict.
pub(super) const ENOUGH: f64 = 0.5;

/// Places a hunk; `near` is the line (from 0) at which it is looked for first.
pub(super) fn place(wanted: &Wanted, source: &Source, near: usize) -> Placement {
    if wanted.expected.is_empty() {
        if source.text.is_empty() {
            return whole(wanted, source, 0);
        }
        return Placement::conflict("the hunk has no context lines by which its place could be found");
    }
    let exact = occurrences(wanted, source, near);
    let (inside, elsewhere) = choose(wanted, source, &exact, near);
    let present = already_there(wanted, source, near);
    if let Some(placement) = exact_placement(wanted, source, near, &inside) {
        return match present {
            Some(present) => either(wanted, near, placement, present),
            None => placement,
        };
    }
    if let Some(placement) = present {
        return placement;
    }
    place_aligned(wanted, source, near, &elsewhere)
}

/// Places a hunk of which only the lines before the change are looked for.
pub(super) fn place_unless_present(wanted: &Wanted, source: &Source, near: usize) -> Placement {
    let (inside, elsewhere) = choose(wanted, source, &occurrences(wanted, source, near), near);
    exact_placement(wanted, source, near, &inside)
        .unwrap_or_else(|| place_aligned(wanted, source, near, &elsewhere))
}

/// Parts the places where the expected lines stand word for word: those that may be meant, and the others.
///
/// Where the file's own heading at a place is that of the hunk, it says more than what the hunk's lines
/// let guess of the enclosing definition.
fn choose(wanted: &Wanted, source: &Source, exact: &[usize], near: usize) -> (Vec<usize>, Vec<usize>) {
    let agrees = |at: &usize| heading::agrees(source, *at, &wanted.heading) == Some(true);
    let (inside, mut elsewhere): (Vec<usize>, Vec<usize>) =
        exact.iter().partition(|&&at| strictly_compatible(wanted, source, at));
    let same_heading: Vec<usize> = exact.iter().copied().filter(agrees).collect();
    // There may be as many places as lines, and each list is in the order of the file.
    let is_in = |list: &[usize], at: &usize| list.binary_search(at).is_ok();
    let both: Vec<usize> = inside.iter().copied().filter(|at| is_in(&same_heading, at)).collect();
    let mut chosen = match (&both[..], &same_heading[..], &inside[..]) {
        ([_, ..], _, _) => both,
        ([], [_, ..], []) => same_heading.clone(),
        // What the hunk's own lines tell of definitions is true wherever they all stand: only a heading could name another.
        ([], [], []) if exact.len() == 1 && wanted.heading.trim().is_empty() => exact.to_vec(),
        // Where a file is no C, its headings may be any line: text that stands there once says more, unless the
        // definition that they name is here.
        ([], [], []) if source.language != Language::C && exact.len() == 1 && !is_named(wanted) => {
            exact.to_vec()
        }
        _ => inside,
    };
    // A prototype has the lines of its definition and the same heading, and is no definition: the nearer one is not passed over.
    let distance = |at: usize| at.abs_diff(near);
    let nearest = same_heading.iter().copied().min_by_key(|&at| distance(at));
    if let Some(rival) = nearest
        && chosen.iter().all(|&at| distance(rival) < distance(at))
    {
        chosen.push(rival);
        chosen.sort_unstable();
    }
    // What stood at the end of its file is looked for there first, whatever stands above it.
    if wanted.to_end && exact.iter().any(|&at| is_end(wanted, source, at)) {
        chosen = exact.iter().copied().filter(|&at| is_end(wanted, source, at)).collect();
    }
    elsewhere.retain(|at| !is_in(&chosen, at));
    (chosen, elsewhere)
}

/// True if nothing but blank lines follows the expected lines at `at`.
pub(super) fn is_end(wanted: &Wanted, source: &Source, at: usize) -> bool {
    source.lines[(at + wanted.expected.len()).min(source.lines.len())..].iter().all(Line::is_blank)
}

/// True if a place stands below another heading and inside other definitions than the hunk names.
fn is_elsewhere(wanted: &Wanted, source: &Source, at: usize) -> bool {
    heading::agrees(source, at, &wanted.heading) == Some(false) && !strictly_compatible(wanted, source, at)
}

fn place_aligned(wanted: &Wanted, source: &Source, near: usize, elsewhere: &[usize]) -> Placement {
    if let Some(at_start) = ends::at_start(wanted, source) {
        return at_start;
    }
    let Some(alignment) = align(&wanted.expected, source, near) else {
        return Placement::conflict("the hunk and the file are too large to be compared: split the hunk");
    };
    let mut placement = aligned(wanted, source, &alignment);
    if placement.outcome == HunkOutcome::Conflict
        && let Some(found) = ends::at_end(wanted, source).or_else(|| ends::among_headers(wanted, source))
    {
        return found;
    }
    if placement.outcome == HunkOutcome::Conflict
        && source.language == Language::Indented
        && elsewhere.is_empty()
        && (unnamed(wanted) || gone_from_its_definition(wanted, source))
        && let Some(found) = with_less_context(wanted, source)
    {
        return found;
    }
    if placement.outcome == HunkOutcome::Conflict
        && let &[at] = elsewhere
        && source.language == Language::Indented
        // Where most of its lines stand in the definition that it names, they do not mean another one.
        && (unnamed(wanted) || gone_from_its_definition(wanted, source))
    {
        let named = wanted.scope().zip(enclosing_name(source, at + wanted.groups[0].at));
        let why = named.filter(|(scope, other)| scope.name != *other).map_or_else(
            || "its lines do not stand in the definition that it names".to_owned(),
            |(scope, other)| format!("its lines are not in `{}` here; they stand in `{other}`", scope.name),
        );
        placement = place_at(wanted, source, at, &why);
        placement.confidence = 0.6;
    } else if placement.outcome == HunkOutcome::Conflict
        && let &[at] = elsewhere
    {
        let other = enclosing_name(source, at + wanted.groups[0].at);
        match unnamed(wanted) {
            // The definition has another name here, but nothing else is different; or the one of that name is here,
            // but its lines have moved into another one, word for word.
            named
                if strength(wanted, source) >= 1.2 && (named || gone_from_its_definition(wanted, source)) =>
            {
                placement = whole(wanted, source, at);
                placement.outcome = HunkOutcome::Fuzzy;
                placement.confidence = if named { 0.75 } else { 0.6 };
                placement.differences.push(match (wanted.scope(), other) {
                    (Some(scope), Some(other)) if !named => {
                        format!("its lines are not in `{}` here, they stand in `{other}`", scope.name)
                    }
                    (Some(scope), Some(other)) => {
                        format!("`{}` is not here; its lines stand in `{other}`", scope.name)
                    }
                    (Some(scope), None) => {
                        format!("`{}` is not here; its lines stand outside of it", scope.name)
                    }
                    (None, _) => "the enclosing definition is not known".to_owned(),
                });
            }
            _ => {
                placement.near.get_or_insert(at + 1);
                if let (Some(scope), Some(other)) = (wanted.scope(), other)
                    && scope.name != other
                    && !matches!(scope.kind, ScopeKind::Entry)
                {
                    placement.differences.push(format!(
                        "the same lines stand in `{other}` (line {}), but the change is for `{}`",
                        at + 1,
                        scope.name
                    ));
                }
            }
        }
    } else if placement.outcome == HunkOutcome::Conflict
        && elsewhere.len() > 1
        && let Some(scope) = wanted.scope()
        && !matches!(scope.kind, ScopeKind::Entry)
    {
        let (by_distance, places) = nearest_first(elsewhere, near);
        placement.near.get_or_insert(by_distance[0] + 1);
        placement
            .differences
            .push(format!("the same lines stand at lines {places}, but the change is for `{}`", scope.name));
    }
    placement
}

/// Places a hunk that stands word for word, once, without up to two lines of context at each end.
///
/// Where a file is no C, what encloses a line is guessed from its indentation, and a here-document or a comment in the
/// first column may part it otherwise than in the file that the patch was made for.
fn with_less_context(wanted: &Wanted, source: &Source) -> Option<Placement> {
    const LESS: usize = 2;
    let expected: Vec<&str> = wanted.expected.iter().map(|line| line.text.as_str()).collect();
    let leading = wanted.groups.first()?.at;
    let trailing = expected.len() - wanted.groups.last().map(|group| group.at + group.removed)?;
    let mut cuts: Vec<(usize, usize)> = (0..=LESS)
        .flat_map(|above| (0..=LESS).map(move |below| (above, below)))
        .filter(|(above, below)| *above < leading && *below < trailing && above + below > 0)
        .collect();
    cuts.sort_by_key(|(above, below)| above + below);
    for (above, below) in cuts {
        let core = above..expected.len() - below;
        let says: f64 = wanted.expected[core.clone()]
            .iter()
            .map(|line| line.line.weight() / f64::from(source.count(&line.line).max(1)))
            .sum();
        match stands_at(&expected[core], source)[..] {
            [] => {}
            [at] if says >= 1.0 && at >= above => {
                let why = format!("it stands here without {} of its context", counted(above + below, "line"));
                let mut placement = place_at(wanted, source, at - above, &why);
                placement.confidence = 0.6;
                return Some(placement);
            }
            _ => return None,
        }
    }
    None
}

/// True if hardly any of the lines that say something stand in the definition that the hunk names.
fn gone_from_its_definition(wanted: &Wanted, source: &Source) -> bool {
    let (mut there, mut all) = (0.0, 0.0);
    for line in &wanted.expected {
        let Label::Known(scopes) = &line.label else { continue };
        let rows =
            scopes.iter().map(|&scope| &source.scopes.all[scope]).flat_map(|scope| scope.start..=scope.end);
        all += line.line.weight();
        if rows.into_iter().any(|row| source.lines[row].similarity(&line.line) >= super::align::ALIKE) {
            there += line.line.weight();
        }
    }
    all > 0.0 && there < 0.5 * all
}

fn strictly_compatible(wanted: &Wanted, source: &Source, at: usize) -> bool {
    wanted.expected.iter().enumerate().all(|(index, line)| {
        !matches!(line.label, Label::Missing(_)) && compatible(&line.label, source, at + index).is_some()
            || line.line.is_blank()
    })
}

/// True if the file has a function or a type that the hunk names.
fn is_named(wanted: &Wanted) -> bool {
    !unnamed(wanted) && wanted.scope().is_some_and(|scope| scope.kind != ScopeKind::Entry)
}

/// True if no definition that the hunk names exists in the file.
fn unnamed(wanted: &Wanted) -> bool {
    !wanted.expected.iter().any(|line| matches!(line.label, Label::Known(_)))
}

/// True if the hunk has hardly a line that it leaves as it is.
pub(super) fn has_little_context(wanted: &Wanted) -> bool {
    let is_removed = |index: usize| {
        wanted.groups.iter().any(|group| (group.at..group.at + group.removed).contains(&index))
    };
    let kept = wanted.expected.iter().enumerate().filter(|(index, _)| !is_removed(*index));
    let (lines, text) =
        kept.fold((0, 0), |(lines, text), (_, line)| (lines + 1, text + usize::from(!line.line.is_blank())));
    lines < LITTLE || text < LITTLE_TEXT
}

/// How much the expected lines say about their place in this file.
fn strength(wanted: &Wanted, source: &Source) -> f64 {
    wanted.expected.iter().map(|line| line.line.weight() / f64::from(source.count(&line.line).max(1))).sum()
}

fn exact_placement(wanted: &Wanted, source: &Source, near: usize, inside: &[usize]) -> Option<Placement> {
    match *inside {
        [] => None,
        [at] => {
            let mut placement = whole(wanted, source, at);
            let named = wanted.expected.iter().any(|line| matches!(line.label, Label::Known(_)))
                || heading::agrees(source, at, &wanted.heading) == Some(true);
            // A few braces that happen to stand once in the file are no proof of the place.
            if !named && strength(wanted, source) < 0.5 && at != near {
                placement.outcome = HunkOutcome::Fuzzy;
                placement.confidence = 0.55;
                placement.differences.push("the lines say little about the place".to_owned());
            } else if has_little_context(wanted) && at != near && !wanted.to_end {
                // The change may have been made already, or its place may be gone: then such lines stand elsewhere.
                placement.outcome = HunkOutcome::Fuzzy;
                placement.confidence = 0.7;
                placement
                    .differences
                    .push("the hunk has little context, and its lines stand elsewhere".to_owned());
            }
            if wanted.begins_file() && source.lines[..at].iter().any(|line| !line.is_blank()) {
                if let Some(at_start) = ends::at_start(wanted, source) {
                    return Some(at_start);
                }
                placement.outcome = HunkOutcome::Fuzzy;
                placement.confidence = 0.55;
                placement.differences.push(
                    "the change was for the beginning of the file; here more lines stand above".to_owned(),
                );
            }
            let elsewhere = is_elsewhere(wanted, source, at);
            if elsewhere
                && (source.language == Language::Indented || wanted.to_end && is_end(wanted, source, at))
            {
                placement.outcome = HunkOutcome::Fuzzy;
                placement.confidence = placement.confidence.min(0.8);
                placement
                    .differences
                    .push(format!("its lines stand below another heading than `{}`", wanted.heading));
            } else if wanted.to_end && !is_end(wanted, source, at) {
                if source.language == Language::Indented
                    && let Some(at_end) = ends::behind_all(wanted, source)
                {
                    return Some(at_end);
                }
                placement.outcome = HunkOutcome::Fuzzy;
                placement.confidence = 0.55;
                placement
                    .differences
                    .push("the change was for the end of the file; here more lines follow".to_owned());
            }
            Some(placement)
        }
        _ => {
            let (by_distance, places) = nearest_first(inside, near);
            let at = by_distance[0];
            let (nearest, second) = (at.abs_diff(near), by_distance[1].abs_diff(near));
            if at == near || nearest <= NEAR && second >= FAR * nearest.max(CLOSE) {
                let mut placement = whole(wanted, source, at);
                placement.outcome = HunkOutcome::Fuzzy;
                placement.confidence = 0.6;
                let taken = if at == near { "the line" } else { "the one next to the line" };
                placement.differences.push(format!(
                    "the same lines stand at lines {places}; {taken} that the patch names was taken"
                ));
                return Some(placement);
            }
            let mut placement =
                Placement::conflict(format!("the same lines stand at lines {places}: choose one"));
            placement.near = Some(at + 1);
            placement.region = Some(region_of_groups(wanted, at));
            if inside.len() <= TWINS {
                placement.twins = inside.to_vec();
            }
            Some(placement)
        }
    }
}

/// The lines between the first and the last change, where all lines stand as expected.
fn region_of_groups(wanted: &Wanted, at: usize) -> Region {
    let first = wanted.groups.first().map_or(0, |group| group.at);
    let end = wanted.groups.last().map_or(first, |group| group.at + group.removed);
    Region { rows: (at + first, at + end), expected: None }
}

/// Takes one of the places where the expected lines stand word for word.
pub(super) fn place_at(wanted: &Wanted, source: &Source, at: usize, why: &str) -> Placement {
    let mut placement = whole(wanted, source, at);
    placement.outcome = HunkOutcome::Fuzzy;
    placement.confidence = 0.75;
    placement.differences.push(why.to_owned());
    placement
}

/// All groups at the place where the expected lines stand word for word.
pub(super) fn whole(wanted: &Wanted, source: &Source, at: usize) -> Placement {
    let edits: Vec<Edit> = wanted
        .groups
        .iter()
        .map(|group| Edit { line: at + group.at + 1, removed: group.removed, added: group.added.clone() })
        .collect();
    let outcome = if at == wanted.asked { HunkOutcome::Applied } else { HunkOutcome::Moved };
    Placement {
        outcome,
        how: How::Exact,
        confidence: 1.0,
        enclosing: enclosing(source, &edits),
        edits,
        differences: Vec::new(),
        needs: None,
        near: None,
        region: None,
        twins: Vec::new(),
    }
}

/// Places each group by the alignment of the lines around it.
fn aligned(wanted: &Wanted, source: &Source, alignment: &Alignment) -> Placement {
    let anchors = Anchors::new(wanted, source, alignment);
    let mut edits = Vec::new();
    let mut confidence = 1.0f64;
    let mut support = f64::MAX;
    let mut differences = anchors.differences();
    let near = anchors.near();
    // What the hunk itself removes does not stay: it may be added anew at another place.
    let going: Vec<usize> = wanted
        .groups
        .iter()
        .flat_map(|group| group.at..group.at + group.removed)
        .filter_map(|index| alignment.map[index].map(|(row, _)| row))
        .collect();
    let stays = |row: &usize| !going.contains(row) && !source.lines[*row].is_bare();
    let same = alignment.map.iter().flatten().filter(|(_, alike)| *alike >= SAME_THING);
    let kept: Vec<usize> = same.map(|(row, _)| *row).filter(stays).collect();
    for group in 0..wanted.groups.len() {
        match anchors.spot(group) {
            Ok(mut spot) => {
                confidence = confidence.min(spot.confidence);
                support = support.min(spot.support);
                match stands_beside(&spot.edit, source, &going, &kept) {
                    Some(Beside::Apart) => {
                        let needs =
                            "what is added stands a few lines away already: look whether it is to be moved";
                        let mut placement = Placement::conflict(needs);
                        placement.differences = differences;
                        placement.near = near;
                        placement.region = anchors.region();
                        return placement;
                    }
                    Some(Beside::Adjacent) => {
                        differences.push(format!(
                            "what is added stands here already: `{}`",
                            spot.edit.added.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
                        ));
                        spot.edit.added.clear();
                        confidence = confidence.min(0.7);
                    }
                    None if wanted.groups[group].removed == 0
                        && splits(wanted, spot.index, &spot.edit, source) =>
                    {
                        let Some(line) = start_of_comment(wanted, spot.index, &spot.edit, source) else {
                            let needs =
                                "the added lines would stand inside a declaration, a call or a comment here";
                            let mut placement = Placement::conflict(needs);
                            placement.differences = differences;
                            placement.near = near;
                            placement.region = anchors.region();
                            return placement;
                        };
                        spot.edit.line = line;
                        confidence = confidence.min(0.65);
                    }
                    None => {}
                }
                differences.extend(spot.notes);
                if spot.edit.removed > 0 || !spot.edit.added.is_empty() {
                    edits.push(spot.edit);
                }
            }
            Err(needs) => {
                let mut placement = Placement::conflict(needs);
                placement.differences = differences;
                placement.near = near;
                placement.region = anchors.region();
                placement.enclosing = near.and_then(|line| enclosing_of(source, line - 1));
                return placement;
            }
        }
    }
    let overlap = edits.windows(2).any(|pair| pair[1].line < pair[0].line + pair[0].removed);
    // The lines must be those that the hunk means, and no other place may be as good.
    let fit = alignment.score / alignment.perfect.max(0.01);
    let rival = alignment.runner_up / alignment.score.max(0.01);
    let named = !unnamed(wanted);
    // A line that is removed and stands in the file once, word for word, needs nothing around it.
    let is_own = |group: &super::wanted::Group| {
        group.removed > 0
            && (group.at..group.at + group.removed).all(|index| {
                let line = &wanted.expected[index].line;
                alignment.map[index].is_some_and(|(_, alike)| alike >= 1.0) && source.count(line) == 1
            })
    };
    let ends_list = anchors.ends_list();
    let own = ends_list || support >= 0.6 && wanted.groups.iter().all(is_own);
    // Lines that say a lot hold a change even where the rest of the hunk is not here.
    let needed = match (named, support >= 0.6) {
        _ if ends_list => f64::NEG_INFINITY,
        _ if own => -0.5,
        (true, true) => -0.2,
        (true, false) => 0.1,
        (false, true) => 0.25,
        (false, false) => 0.55,
    };
    let refusal = if overlap {
        Some("its changes would overlap here".to_owned())
    } else if fit < needed {
        Some(missing(wanted, source, fit))
    } else if !own && rival > if named || has_own_context(wanted, source, alignment) { 0.93 } else { 0.8 } {
        Some("another place fits as well: choose one".to_owned())
    } else if !named && !own && (alignment.score < 0.6 || anchors.exact_share() < 0.25) {
        Some(missing(wanted, source, fit))
    } else if confidence < ENOUGH {
        Some("the lines around the change are too different".to_owned())
    } else {
        None
    };
    if let Some(needs) = refusal {
        let mut placement = Placement::conflict(needs);
        placement.differences = differences;
        placement.near = near;
        placement.region = anchors.region();
        placement.enclosing = near.and_then(|line| enclosing_of(source, line - 1));
        return placement;
    }
    let last = edits.last().map_or(0, |edit| edit.line - 1 + edit.removed);
    let trailing = wanted.groups.last().map_or(0, |group| wanted.expected.len() - group.at - group.removed);
    if wanted.to_end
        && !edits.is_empty()
        && source.lines[last.min(source.lines.len())..].iter().filter(|line| !line.is_blank()).count()
            > trailing
    {
        if source.language == Language::Indented
            && let Some(at_end) = ends::behind_all(wanted, source)
        {
            return at_end;
        }
        confidence = confidence.min(0.55);
        differences.push("the change was for the end of the file; here more lines follow".to_owned());
    }
    if fit < 0.4 || !named && fit < 0.7 {
        confidence = confidence.min(0.6);
    }
    if rival > 0.7 && !ends_list {
        confidence = confidence.min(0.6);
        differences.push("another place fits nearly as well".to_owned());
    }
    if differences.is_empty() {
        differences.push("blank lines or white space differ".to_owned());
    }
    let enclosing = enclosing(source, &edits);
    if let (Some(scope), Some(here)) = (wanted.scope(), &enclosing)
        && !here.is_of(&scope.name)
        && scope.kind != ScopeKind::Statement
        && (source.language == Language::C || !named)
    {
        confidence = confidence.min(0.65);
        differences
            .insert(0, format!("`{}` is not here; its lines were found in `{}`", scope.name, here.name));
    }
    differences.dedup();
    if edits.is_empty() {
        return Placement {
            outcome: HunkOutcome::Present,
            how: How::Alignment,
            confidence,
            edits,
            differences,
            needs: None,
            enclosing: near.and_then(|line| enclosing_of(source, line - 1)),
            near,
            region: None,
            twins: Vec::new(),
        };
    }
    Placement {
        outcome: HunkOutcome::Fuzzy,
        how: How::Alignment,
        confidence: (confidence * 100.0).round() / 100.0,
        enclosing,
        edits,
        differences,
        needs: None,
        near: None,
        region: None,
        twins: Vec::new(),
    }
}

/// True if a line that the hunk keeps, and that says something, stands at the found place and nowhere else.
fn has_own_context(wanted: &Wanted, source: &Source, alignment: &Alignment) -> bool {
    kept_lines(wanted).any(|(index, _)| {
        let line = &wanted.expected[index].line;
        let found = alignment.map[index].is_some_and(|(_, alike)| alike >= 1.0);
        found && line.weight() >= 0.7 && source.count(line) == 1
    })
}

/// True if an insertion would stand in the middle of something here, but does not where it was made.
fn splits(wanted: &Wanted, at: usize, edit: &Edit, source: &Source) -> bool {
    let expected: Vec<&str> = wanted.expected.iter().map(|line| line.text.as_str()).collect();
    is_inside(&source.text, edit.line - 1, source.language)
        && !is_inside(&expected, at, source.language)
        && !closes_below(&expected, at)
}

/// The first line (from 1) of the comment in whose middle an insertion would stand, if the hunk has the insertion in
/// front of a comment.
fn start_of_comment(wanted: &Wanted, at: usize, edit: &Edit, source: &Source) -> Option<usize> {
    const REACH: usize = 12;
    let opens = |text: &str| text.trim_start().starts_with("/*") && !text.contains("*/");
    wanted.expected.get(at).filter(|line| opens(&line.text))?;
    let row = edit.line - 1;
    let start = (row.saturating_sub(REACH)..row)
        .rev()
        .find(|&line| !source.text[line].trim_start().starts_with('*'))?;
    opens(&source.text[start]).then_some(start + 1)
}

fn missing(wanted: &Wanted, source: &Source, fit: f64) -> String {
    match wanted.scope() {
        Some(scope) if source.scopes.named(&scope.name).is_empty() => {
            format!("`{}` does not exist in this file", scope.name)
        }
        _ => format!("only {:.0}% of what the hunk expects is here", fit.max(0.0) * 100.0),
    }
}

fn enclosing(source: &Source, edits: &[Edit]) -> Option<Enclosing> {
    let edit = edits.first()?;
    let at = edit.line - 1;
    // An insertion right in front of a definition is outside of it.
    let outside = edit.removed == 0 && source.scopes.at(at).is_some_and(|scope| scope.start == at);
    if outside { None } else { enclosing_of(source, at) }
}

fn enclosing_of(source: &Source, at: usize) -> Option<Enclosing> {
    let scope = source.scopes.at(at)?;
    let kind: ScopeKind = scope.kind;
    (!scope.name.is_empty()).then(|| Enclosing { kind, name: scope.name.clone() })
}

fn enclosing_name(source: &Source, at: usize) -> Option<String> {
    enclosing_of(source, at).map(|enclosing| enclosing.name)
}
