//! What a published table of runs before and after a change supports, and what it does not.
//!
//! [`table`] reads it; [`analyse`] computes everything that could be asked of two columns and then says in
//! words what it comes to: whether the difference is one, how large, what the study could have seen, and
//! which of its habits forbid to lay it to the change (drift, rows dropped, an order nobody told). [`sets`]
//! is the same question of two results in the store or of other programs.

pub mod sets;
pub mod table;
mod words;

use crate::stats::describe::{Summary, mean, median};
use crate::stats::permute::{PValue, means_differ, sign_flip};
use crate::stats::power::{effect_of, power_of_groups, values_per_arm};
use crate::stats::rank::spearman;
use crate::stats::shape::Drift;
use crate::stats::unpaired::{MannWhitney, TTest, hodges_lehmann_ratio, mann_whitney, welch};
use crate::stats::{Interval, bootstrap, effect, paired};
use serde::Serialize;
use table::Group;

const RESAMPLES: usize = 20_000;

/// Everything about one group of a table.
#[derive(Debug, Clone, Serialize)]
pub struct Analysis {
    /// What tells the group apart; empty if there is one.
    pub key: String,
    /// The column to compare with.
    pub before: Summary,
    /// The column of the change.
    pub after: Summary,
    /// Change of the means, as a share.
    pub change_of_means: f64,
    pub ratio_of_medians: f64,
    /// Hodges-Lehmann ratio of two unpaired groups.
    pub ratio: f64,
    pub interval: Interval,
    pub welch: TTest,
    /// Bootstrap interval of the ratio of means.
    pub bootstrap_means: Interval,
    /// Bootstrap interval of the ratio of medians.
    pub bootstrap_medians: Interval,
    /// Permutation of the difference of means.
    pub permutation: PValue,
    pub mann_whitney: MannWhitney,
    /// What comes out if rows are taken for pairs.
    pub paired: PairedTests,
    pub hedges_g: f64,
    pub cliffs_delta: f64,
    /// The chance that as many runs find a difference of this size.
    pub power: f64,
    /// Runs an arm that find a difference of this size in 4 of 5 studies.
    pub runs_needed: Option<usize>,
    /// Trend of the first column over its rows.
    pub drift_before: Drift,
    /// Trend of the second column over its rows.
    pub drift_after: Drift,
    /// What becomes of it without the two most extreme rows.
    pub without_extremes: Option<WithoutExtremes>,
    /// Rows whose claimed reduction is not that of their values, counted from 1.
    pub wrong_claims: Vec<WrongClaim>,
    /// What to know, in plain sentences.
    pub remarks: Vec<String>,
    /// What it comes to, in a sentence or two.
    pub conclusion: String,
}

/// Tests that take each row for a pair.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PairedTests {
    pub t: TTest,
    pub sign_flip: PValue,
    pub wilcoxon: f64,
    /// Spearman's correlation of the columns: real pairs resemble each other.
    pub correlation: f64,
    /// Its p-value.
    pub correlation_p: f64,
}

/// The table without the row of the greatest increase and that of the greatest decrease.
#[derive(Debug, Clone, Serialize)]
pub struct WithoutExtremes {
    /// The two rows, counted from 1.
    pub rows: [usize; 2],
    /// Their changes, as shares.
    pub changes: [f64; 2],
    pub change_of_means: f64,
    /// Hodges-Lehmann ratio without them.
    pub ratio: f64,
    /// Welch's p-value without them.
    pub p: f64,
}

/// A claimed figure that does not follow from its row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WrongClaim {
    /// The row, counted from 1.
    pub row: usize,
    /// What the table says, in percent.
    pub claimed: f64,
    /// What follows from the row, in percent.
    pub computed: f64,
}

/// Analyses one group. Its columns have at least four values each, all above 0 (as [`table::read`] sees to).
pub fn analyse(group: &Group) -> Analysis {
    let (before, after) = (group.before.as_slice(), group.after.as_slice());
    let (ratio, interval) = hodges_lehmann_ratio(before, after, 0.95);
    let welch = welch(before, after, 0.95);
    let size = effect_of(&welch, before.len());
    let differences: Vec<f64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
    let (correlation, correlation_p) = spearman(before, after);
    let mut analysis = Analysis {
        key: group.key.clone(),
        before: Summary::of(before),
        after: Summary::of(after),
        change_of_means: mean(after) / mean(before) - 1.0,
        ratio_of_medians: median(after) / median(before),
        ratio,
        interval,
        welch,
        bootstrap_means: bootstrap::ratio(before, after, bootstrap::mean, RESAMPLES, 0.95, 1),
        bootstrap_medians: bootstrap::ratio(before, after, bootstrap::median, RESAMPLES, 0.95, 1),
        permutation: means_differ(before, after),
        mann_whitney: mann_whitney(before, after),
        paired: PairedTests {
            t: paired::t_test(&differences, 0.95),
            sign_flip: sign_flip(&differences),
            wilcoxon: paired::wilcoxon(&differences),
            correlation,
            correlation_p,
        },
        hedges_g: effect::hedges_g(before, after),
        cliffs_delta: effect::cliffs_delta(before, after),
        power: power_of_groups(size, before.len(), 0.05),
        runs_needed: values_per_arm(size, 0.05, 0.8),
        drift_before: Drift::of(before),
        drift_after: Drift::of(after),
        without_extremes: without_extremes(before, after),
        wrong_claims: group.claimed.as_ref().map_or_else(Vec::new, |claimed| wrong(group, claimed)),
        remarks: Vec::new(),
        conclusion: String::new(),
    };
    analysis.remarks = words::remarks(group, &analysis);
    analysis.conclusion = words::conclusion(&analysis);
    analysis
}

fn without_extremes(before: &[f64], after: &[f64]) -> Option<WithoutExtremes> {
    let changes: Vec<f64> = after.iter().zip(before).map(|(a, b)| a / b - 1.0).collect();
    let by_change = |a: &usize, b: &usize| changes[*a].total_cmp(&changes[*b]);
    let lowest = (0..changes.len()).min_by(by_change)?;
    let highest = (0..changes.len()).max_by(by_change)?;
    if before.len() < 6 || lowest == highest {
        return None;
    }
    let keep = |values: &[f64]| -> Vec<f64> {
        values.iter().enumerate().filter(|(i, _)| *i != lowest && *i != highest).map(|(_, v)| *v).collect()
    };
    let (before, after) = (keep(before), keep(after));
    let mut rows = [lowest, highest];
    rows.sort_unstable();
    Some(WithoutExtremes {
        rows: rows.map(|row| row + 1),
        changes: rows.map(|row| changes[row]),
        change_of_means: mean(&after) / mean(&before) - 1.0,
        ratio: hodges_lehmann_ratio(&before, &after, 0.95).0,
        p: welch(&before, &after, 0.95).p,
    })
}

fn wrong(group: &Group, claimed: &[f64]) -> Vec<WrongClaim> {
    let rows = group.before.iter().zip(&group.after).zip(claimed).enumerate();
    rows.map(|(index, ((before, after), claimed))| WrongClaim {
        row: index + 1,
        claimed: *claimed,
        computed: (before - after) / before * 100.0,
    })
    // A tenth of a percent covers any way of rounding to one decimal.
    .filter(|claim| (claim.claimed - claim.computed).abs() > 0.1)
    .collect()
}
