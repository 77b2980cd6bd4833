//! What the figures of a table come to, in words.

use super::Analysis;
use super::table::Group;
use crate::stats::shape::Drift;

/// `-8.5%`.
fn change(share: f64) -> String {
    format!("{:+.1}%", share * 100.0)
}

/// A p-value as people write it.
fn p(value: f64) -> String {
    match value {
        tiny if tiny < 1e-4 => format!("{tiny:.0e}"),
        small if small < 0.01 => format!("{small:.4}"),
        other => format!("{other:.3}"),
    }
}

fn is_difference(analysis: &Analysis) -> bool {
    !analysis.interval.contains(1.0)
}

/// Everything that a reader of the table must know, the most telling first.
pub(super) fn remarks(group: &Group, analysis: &Analysis) -> Vec<String> {
    let mut remarks = vec![difference(analysis)];
    remarks.extend(dropped_rows(analysis));
    remarks.extend(wrong_claims(analysis));
    for (column, drift) in [("before", analysis.drift_before), ("after", analysis.drift_after)] {
        remarks.extend(drifts(column, drift));
    }
    remarks.push(
        "The table does not tell in which order the runs were taken. If all runs of one column came before all \
         of the other, as they do where a kernel is booted once for each, anything else that changed in between \
         is in the difference as well."
            .to_owned(),
    );
    remarks.extend(pairing(analysis));
    remarks.extend(share(group));
    remarks
}

fn difference(analysis: &Analysis) -> String {
    let change_of_means = change(analysis.change_of_means);
    let (low, high) = (analysis.interval.low - 1.0, analysis.interval.high - 1.0);
    let runs = analysis.before.count;
    if is_difference(analysis) {
        return format!(
            "The two columns differ: the means by {change_of_means}, the typical run by {} with a 95% interval of \
             {} to {} (exact permutation p {}).",
            change(analysis.ratio - 1.0),
            change(low),
            change(high),
            p(analysis.permutation.p)
        );
    }
    let needed = analysis.runs_needed.map_or_else(
        || "no practical number of runs would show it".to_owned(),
        |needed| format!("{needed} runs an arm would have been needed"),
    );
    format!(
        "The change of {change_of_means} is not supported: the 95% interval of the typical run is {} to {}, which \
         holds no change at all (exact permutation p {}). Were it real, {runs} runs an arm would have found it with a \
         chance of {:.0}% only; for 80%, {needed}.",
        change(low),
        change(high),
        p(analysis.permutation.p),
        analysis.power * 100.0
    )
}

/// Whether the answer hinges on two rows.
fn dropped_rows(analysis: &Analysis) -> Option<String> {
    let without = analysis.without_extremes.as_ref()?;
    let significant = analysis.welch.p < 0.05;
    if (without.p < 0.05) == significant {
        return None;
    }
    let turns = if significant { "disappears" } else { "becomes \u{201c}significant\u{201d}" };
    Some(format!(
        "The answer hinges on two rows: without rows {} and {} ({} and {}) the change of the means is {} and {turns} \
         (Welch p {}). Dropping points after one has seen them makes a result, it does not find one; and a single row \
         such as {} shows the noise, not what the change can do.",
        without.rows[0],
        without.rows[1],
        change(without.changes[0]),
        change(without.changes[1]),
        change(without.change_of_means),
        p(without.p),
        change(without.changes[0]),
    ))
}

fn wrong_claims(analysis: &Analysis) -> Option<String> {
    if analysis.wrong_claims.is_empty() {
        return None;
    }
    let rows: Vec<String> = analysis
        .wrong_claims
        .iter()
        .map(|claim| format!("{} ({:.1}%, not {:.1}%)", claim.row, claim.computed, claim.claimed))
        .collect();
    let count = rows.len();
    let entries = if count == 1 { "One entry".to_owned() } else { format!("{count} entries") };
    let verb = if count == 1 { "is" } else { "are" };
    Some(format!("{entries} of the claimed column {verb} wrong: rows {}.", rows.join(", ")))
}

fn drifts(column: &str, drift: Drift) -> Option<String> {
    drift.is_clear().then(|| {
        let way = if drift.rho > 0.0 { "upward" } else { "downward" };
        format!(
            "The {column} column drifts {way} from row to row (Spearman {:.3}, p {}): the machine changed while it was \
             measured, so part of the difference may be when the runs were taken.",
            drift.rho,
            p(drift.p)
        )
    })
}

/// Whether rows are pairs.
fn pairing(analysis: &Analysis) -> Option<String> {
    let pairs = &analysis.paired;
    let (paired, unpaired) = (pairs.wilcoxon < 0.05, analysis.mann_whitney.exact.is_some_and(|p| p < 0.05));
    (pairs.correlation_p > 0.05 || pairs.correlation < 0.0).then(|| {
        let temptation = if paired == unpaired {
            String::new()
        } else {
            format!(
                ", and here that choice decides: Wilcoxon's paired p is {}, Mann and Whitney's unpaired p {}",
                p(pairs.wilcoxon),
                p(analysis.mann_whitney.exact.unwrap_or(analysis.mann_whitney.asymptotic))
            )
        };
        format!(
            "Rows do not belong together: the columns do not rise and fall with each other (Spearman {:.2}, p {}), so \
             pairing them by number is arbitrary{temptation}. The figures above take them as two separate groups.",
            pairs.correlation,
            p(pairs.correlation_p)
        )
    })
}

/// Whether the values look like shares of a CPU.
fn share(group: &Group) -> Option<String> {
    let all_shares = group.before.iter().chain(&group.after).all(|value| *value < 1.0);
    all_shares.then(|| {
        "All values are below 1, as shares are. If this is CPU utilisation, it is a weak metric by itself: it falls as \
         well when less work is done. It needs the throughput beside it, or better the CPU time for each unit of work."
            .to_owned()
    })
}

/// One or two sentences.
pub(super) fn conclusion(analysis: &Analysis) -> String {
    let drifting = analysis.drift_before.is_clear() || analysis.drift_after.is_clear();
    let typical = change(analysis.ratio - 1.0);
    match (is_difference(analysis), drifting) {
        (false, _) => format!(
            "Not supported. These runs cannot tell a change of {} from none.",
            change(analysis.change_of_means)
        ),
        (true, true) => format!(
            "The difference ({typical}) is real, but it cannot be laid to the change alone: a column drifts, and nothing \
             says that the runs were interleaved."
        ),
        (true, false) => format!(
            "The difference ({typical}) is real. That the change made it does not follow from the table, which does not \
             say that the runs were interleaved."
        ),
    }
}
