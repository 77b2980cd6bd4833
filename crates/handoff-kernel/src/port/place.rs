//! The locator: from a hunk and a file to the lines to change, or to the reason why not.
//!
//! Precision comes first. A hunk that stands in the file word for word, once, inside the definition
//! that it names, is placed. Anything else is placed only where the lines around each change hold
//! it from both sides, or strongly from one, and is then reported as fuzzy with what differs.

use super::align::{Alignment, Label, align, compatible};
use super::anchor::Anchors;
use super::outcome::{Edit, Enclosing, How, Outcome, Placement};
use super::scope::ScopeKind;
use super::source::Source;
use super::wanted::Wanted;

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
    let exact = occurrences(wanted, source);
    let (inside, elsewhere): (Vec<usize>, Vec<usize>) =
        exact.iter().partition(|&&at| strictly_compatible(wanted, source, at));
    let present = already_there(wanted, source, near);
    if let Some(placement) = exact_placement(wanted, source, near, &inside) {
        // At the edge of a hunk, its lines stand there before and after the change.
        let same = |present: &Placement| present.near == placement.edits.first().map(|edit| edit.line);
        return present.filter(same).unwrap_or(placement);
    }
    if let Some(placement) = present {
        return placement;
    }
    let Some(alignment) = align(&wanted.expected, source, near) else {
        return Placement::conflict("the hunk and the file are too large to be compared: split the hunk");
    };
    let mut placement = aligned(wanted, source, &alignment);
    if placement.outcome == Outcome::Conflict
        && let [at] = elsewhere[..]
    {
        let other = enclosing_name(source, at + wanted.groups[0].at);
        match unnamed(wanted) {
            // The definition has another name here, but nothing else is different.
            true if strength(wanted, source) >= 1.2 => {
                placement = whole(wanted, source, at);
                placement.outcome = Outcome::Fuzzy;
                placement.confidence = 0.75;
                placement.differences.push(match (wanted.scope(), other) {
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
                {
                    placement.differences.push(format!(
                        "the same lines stand in `{other}` (line {}), but the change is for `{}`",
                        at + 1,
                        scope.name
                    ));
                }
            }
        }
    }
    placement
}

/// Where the expected lines stand word for word.
fn occurrences(wanted: &Wanted, source: &Source) -> Vec<usize> {
    let count = wanted.expected.len();
    if count > source.text.len() {
        return Vec::new();
    }
    (0..=source.text.len() - count)
        .filter(|&at| wanted.expected.iter().zip(&source.text[at..]).all(|(line, text)| line.text == *text))
        .collect()
}

fn strictly_compatible(wanted: &Wanted, source: &Source, at: usize) -> bool {
    wanted.expected.iter().enumerate().all(|(index, line)| {
        !matches!(line.label, Label::Missing(_)) && compatible(&line.label, source, at + index).is_some()
            || line.line.is_blank()
    })
}

/// True if no definition that the hunk names exists in the file.
fn unnamed(wanted: &Wanted) -> bool {
    !wanted.expected.iter().any(|line| matches!(line.label, Label::Known(_)))
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
            let named = wanted.expected.iter().any(|line| matches!(line.label, Label::Known(_)));
            // A few braces that happen to stand once in the file are no proof of the place.
            if !named && strength(wanted, source) < 0.5 && at != near {
                placement.outcome = Outcome::Fuzzy;
                placement.confidence = 0.55;
                placement.differences.push("the lines say little about the place".to_owned());
            }
            Some(placement)
        }
        _ => {
            let mut by_distance: Vec<usize> = inside.to_vec();
            by_distance.sort_by_key(|at| at.abs_diff(near));
            let (first, second) = (by_distance[0].abs_diff(near), by_distance[1].abs_diff(near));
            let places = by_distance.iter().map(|at| (at + 1).to_string()).collect::<Vec<_>>().join(", ");
            if first * 4 <= second && second >= 8 || first == 0 {
                let mut placement = whole(wanted, source, by_distance[0]);
                placement.outcome = Outcome::Fuzzy;
                placement.confidence = 0.6;
                placement
                    .differences
                    .push(format!("the same lines stand at lines {places}; the nearest was taken"));
                return Some(placement);
            }
            let mut placement =
                Placement::conflict(format!("the same lines stand at lines {places}: choose one"));
            placement.near = Some(by_distance[0] + 1);
            Some(placement)
        }
    }
}

/// All groups at the place where the expected lines stand word for word.
fn whole(wanted: &Wanted, source: &Source, at: usize) -> Placement {
    let edits: Vec<Edit> = wanted
        .groups
        .iter()
        .map(|group| Edit { line: at + group.at + 1, removed: group.removed, added: group.added.clone() })
        .collect();
    let outcome = if at == wanted.asked { Outcome::Applied } else { Outcome::Moved };
    Placement {
        outcome,
        how: How::Exact,
        confidence: 1.0,
        enclosing: enclosing(source, &edits),
        edits,
        differences: Vec::new(),
        needs: None,
        near: None,
    }
}

/// The change may have been made already.
fn already_there(wanted: &Wanted, source: &Source, near: usize) -> Option<Placement> {
    let telling: f64 = wanted
        .groups
        .iter()
        .flat_map(|group| &group.added)
        .map(|line| super::words::Line::new(line).weight())
        .sum();
    if wanted.after.is_empty() || wanted.after.len() > source.text.len() || telling < 0.4 {
        return None;
    }
    let mut places: Vec<usize> = (0..=source.text.len() - wanted.after.len())
        .filter(|&at| wanted.after.iter().zip(&source.text[at..]).all(|(line, text)| line == text))
        .collect();
    places.sort_by_key(|at| at.abs_diff(near));
    // The first expected line keeps its place in both versions unless it is changed itself.
    let first = wanted.expected.iter().position(|line| !line.line.is_blank())?;
    let at = *places.iter().find(|&&at| {
        wanted.groups.first().is_some_and(|group| group.at <= first)
            || compatible(&wanted.expected[first].label, source, at + first).is_some()
    })?;
    let mut placement = whole(wanted, source, at);
    placement.outcome = Outcome::Present;
    placement.edits.clear();
    placement.near = Some(at + wanted.groups.first().map_or(0, |group| group.at) + 1);
    Some(placement)
}

/// Places each group by the alignment of the lines around it.
fn aligned(wanted: &Wanted, source: &Source, alignment: &Alignment) -> Placement {
    let anchors = Anchors::new(wanted, source, alignment);
    let mut edits = Vec::new();
    let mut confidence = 1.0f64;
    let mut support = f64::MAX;
    let mut differences = anchors.differences();
    let near = anchors.near();
    for group in 0..wanted.groups.len() {
        match anchors.spot(group) {
            Ok(spot) => {
                confidence = confidence.min(spot.confidence);
                support = support.min(spot.support);
                differences.extend(spot.notes);
                if spot.edit.removed > 0 || !spot.edit.added.is_empty() {
                    edits.push(spot.edit);
                }
            }
            Err(needs) => {
                let mut placement = Placement::conflict(needs);
                placement.differences = differences;
                placement.near = near;
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
    // Lines that say a lot hold a change even where the rest of the hunk is not here.
    let needed = match (named, support >= 0.6) {
        (true, true) => -0.2,
        (true, false) => 0.1,
        (false, true) => 0.25,
        (false, false) => 0.55,
    };
    let refusal = if overlap {
        Some("its changes would overlap here".to_owned())
    } else if fit < needed {
        Some(missing(wanted, source, fit))
    } else if rival > if named { 0.93 } else { 0.8 } {
        Some("another place fits as well: choose one".to_owned())
    } else if !named && (alignment.score < 0.6 || anchors.exact_share() < 0.25) {
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
        placement.enclosing = near.and_then(|line| enclosing_of(source, line - 1));
        return placement;
    }
    if fit < 0.4 || !named && fit < 0.7 {
        confidence = confidence.min(0.6);
    }
    if rival > 0.7 {
        confidence = confidence.min(0.6);
        differences.push("another place fits nearly as well".to_owned());
    }
    if differences.is_empty() {
        differences.push("blank lines or white space differ".to_owned());
    }
    let enclosing = enclosing(source, &edits);
    if let (Some(scope), Some(here)) = (wanted.scope(), &enclosing)
        && scope.name != here.name
        && scope.kind != ScopeKind::Statement
    {
        confidence = confidence.min(0.65);
        differences
            .insert(0, format!("`{}` is not here; its lines were found in `{}`", scope.name, here.name));
    }
    differences.dedup();
    if edits.is_empty() {
        return Placement {
            outcome: Outcome::Present,
            how: How::Alignment,
            confidence,
            edits,
            differences,
            needs: None,
            enclosing: near.and_then(|line| enclosing_of(source, line - 1)),
            near,
        };
    }
    Placement {
        outcome: Outcome::Fuzzy,
        how: How::Alignment,
        confidence: (confidence * 100.0).round() / 100.0,
        enclosing,
        edits,
        differences,
        needs: None,
        near: None,
    }
}

fn missing(wanted: &Wanted, source: &Source, fit: f64) -> String {
    match wanted.scope() {
        Some(scope) if !source.scopes.all.iter().any(|other| other.name == scope.name) => {
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
