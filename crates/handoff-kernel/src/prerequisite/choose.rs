//! Commits without which hunks have no place, from the history of the tree that they were made for.
//!
//! Of each hunk in conflict the lines are taken that the tree does not have; the commits that brought
//! these lines in are candidates. They are put in front of the series, and what then is in conflict is
//! looked at again. At the end each commit that is not needed for any hunk of the series is left out.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use super::history::{Commit, History, HistoryError};
use crate::patch::{self, Input, InputError, Patch, Series, load};
use crate::port::{HunkOutcome, Options, PortError, PortReport, port};

/// How far to look.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Commits that are chosen at most.
    pub commits: usize,
    /// How often what is still in conflict is looked at again.
    pub rounds: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { commits: 40, rounds: 12 }
    }
}

/// A commit that the series needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Chosen {
    #[serde(flatten)]
    pub commit: Commit,
    /// The hunk for which it was looked for, and the line that lacked.
    pub because: String,
}

/// A series with what it needs in front of it.
#[derive(Debug, Clone)]
pub struct Prerequisites {
    /// The chosen commits, then the series.
    pub series: Series,
    /// Which they are, the oldest first.
    pub chosen: Vec<Chosen>,
    /// Hunks of the series that were in conflict without them, and are with them.
    pub conflicts: (usize, usize),
}

/// Why no commits could be chosen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChooseError {
    /// The repository has no history, or not this one.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A commit cannot be read as a patch.
    #[error(transparent)]
    Patch(#[from] InputError),
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Finds the commits of `repository` that `series` needs on the tree at `onto`; nothing is written.
///
/// Patches of the series that name no commit of the repository are taken to be made for its newest one.
pub fn choose(
    series: &Series,
    repository: &Path,
    onto: &Path,
    options: &Options,
    limits: Limits,
) -> Result<Prerequisites, ChooseError> {
    let history = History::open(repository)?;
    let options =
        Options { dry_run: true, markers: false, source: Some(repository.to_owned()), ..options.clone() };
    let try_with = |chosen: &[Chosen]| -> Result<(Series, PortReport), ChooseError> {
        let mut all = Series::default();
        for one in chosen {
            all.patches.extend(patches_of(repository, &one.commit.id)?);
        }
        all.patches.extend(series.patches.iter().cloned());
        let report = port(&all, onto, &options)?;
        Ok((all, report))
    };
    let own: BTreeSet<String> = series.patches.iter().filter_map(|patch| patch.commit.clone()).collect();
    let (mut all, mut report) = try_with(&[])?;
    let before = conflicts_of(&report, series.patches.len());
    let mut chosen: Vec<Chosen> = Vec::new();
    for _ in 0..limits.rounds {
        if report.counts.conflict == 0 || chosen.len() >= limits.commits {
            break;
        }
        let seen: BTreeSet<&String> = chosen.iter().map(|one| &one.commit.id).chain(&own).collect();
        let mut found = candidates(&history, &all, &report, onto);
        found.retain(|(id, _)| !seen.contains(id) && !history.is_root(id));
        found.truncate(limits.commits - chosen.len());
        if found.is_empty() {
            break;
        }
        let ids: Vec<String> = found
            .iter()
            .map(|(id, _)| id.clone())
            .chain(chosen.iter().map(|one| one.commit.id.clone()))
            .collect();
        let because = |id: &String| {
            let earlier = chosen.iter().find(|one| one.commit.id == *id).map(|one| one.because.clone());
            earlier.or_else(|| found.iter().find(|(other, _)| other == id).map(|(_, why)| why.clone()))
        };
        let ordered = history.in_order(&ids)?;
        let next: Vec<Chosen> = ordered
            .into_iter()
            .map(|commit| Chosen { because: because(&commit.id).unwrap_or_default(), commit })
            .collect();
        chosen = next;
        (all, report) = try_with(&chosen)?;
    }
    // A line may have come with a commit that no hunk needs as a whole.
    let mut after = conflicts_of(&report, series.patches.len());
    let mut index = 0;
    while index < chosen.len() {
        let mut without = chosen.clone();
        without.remove(index);
        let (shorter, report_without) = try_with(&without)?;
        let left = conflicts_of(&report_without, series.patches.len());
        if left <= after && report_without.counts.conflict <= report.counts.conflict {
            (all, report, chosen, after) = (shorter, report_without, without, left);
        } else {
            index += 1;
        }
    }
    Ok(Prerequisites { series: all, chosen, conflicts: (before, after) })
}

fn patches_of(repository: &Path, id: &str) -> Result<Vec<Patch>, InputError> {
    let input = Input::Range { repository: repository.to_owned(), range: format!("{id}^!") };
    Ok(load(&input, &patch::Limits::default())?.patches)
}

/// Hunks in conflict in the last patches of a report.
fn conflicts_of(report: &PortReport, last: usize) -> usize {
    let own = report.patches.len().saturating_sub(last);
    let hunks = report.patches[own..].iter().flat_map(|patch| &patch.files).flat_map(|file| &file.hunks);
    hunks.filter(|hunk| hunk.outcome == HunkOutcome::Conflict).count()
}

/// Commits that brought lines which hunks in conflict expect and the tree does not have, each with why.
fn candidates(
    history: &History<'_>,
    all: &Series,
    report: &PortReport,
    onto: &Path,
) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for (patch, patch_report) in all.patches.iter().zip(&report.patches) {
        let Some(revision) = history.before(patch.commit.as_deref()) else { continue };
        for (file, file_report) in patch.files.iter().zip(&patch_report.files) {
            let Some(path) = &file.old_path else { continue };
            let here = file_report.onto.as_deref().unwrap_or(path.as_str());
            let text = std::fs::read(onto.join(here)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let present: BTreeSet<&str> = text.lines().map(str::trim).collect();
            for (hunk, hunk_report) in file.hunks.iter().zip(&file_report.hunks) {
                if hunk_report.outcome != HunkOutcome::Conflict {
                    continue;
                }
                let count = hunk.before().count();
                let Ok(origins) =
                    history.origins(&revision, path.as_str(), hunk.old_start.max(1), count.max(1))
                else {
                    continue;
                };
                for (commit, line) in origins {
                    let line = line.trim();
                    let telling = line.chars().filter(|c| c.is_alphanumeric()).count() >= 3;
                    if telling && !present.contains(line) && !found.iter().any(|(id, _)| *id == commit) {
                        let because = format!("hunk {} of `{path}` expects `{line}`", hunk_report.number);
                        found.push((commit, because));
                    }
                }
            }
        }
    }
    found
}
