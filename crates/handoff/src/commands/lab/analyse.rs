//! `handoff lab analyse`: what a published table supports.

use std::fmt;
use std::path::PathBuf;

use handoff_lab::analyse::table::{Columns, read};
use handoff_lab::analyse::{Analysis, analyse};
use serde::Serialize;

use crate::output::{Output, Verdict, style};

const EXAMPLES: &str = "\
Examples:
  handoff lab analyse runs.csv --before old --after new
  handoff lab analyse runs.csv --before old --after new --by readers
  handoff lab analyse runs.csv --before old --after new --claimed reduction   check a computed column
  handoff lab analyse runs.csv --before old --after new --format json";

/// Say what a table of runs before and after a change supports, and what it does not.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// A CSV file with a header, a row a run.
    file: PathBuf,
    /// The column to compare with.
    #[arg(long, value_name = "COLUMN")]
    before: String,
    /// The column of the change.
    #[arg(long, value_name = "COLUMN")]
    after: String,
    /// Columns whose values tell groups apart; found by themselves if none is named.
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    by: Option<Vec<String>>,
    /// A column with reductions in percent that somebody computed, to be checked.
    #[arg(long, value_name = "COLUMN")]
    claimed: Option<String>,
}

impl Options {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let columns = Columns {
            before: self.before.clone(),
            after: self.after.clone(),
            by: self.by.clone(),
            claimed: self.claimed.clone(),
        };
        let groups = read(&self.file, &columns)?;
        output.result(&Page(groups.iter().map(analyse).collect()))?;
        Ok(Verdict::Pass)
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Page(Vec<Analysis>);

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, group) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f, "\n")?;
            }
            one(f, group)?;
        }
        Ok(())
    }
}

fn one(f: &mut fmt::Formatter<'_>, group: &Analysis) -> fmt::Result {
    let heading = style::HEADING;
    if !group.key.is_empty() {
        writeln!(f, "{heading}{}{heading:#}", group.key)?;
    }
    writeln!(f, "{heading}{}{heading:#}\n", group.conclusion)?;
    for remark in &group.remarks {
        writeln!(f, "- {remark}")?;
    }
    let span =
        |interval: &handoff_lab::stats::Interval| format!("{:.4} .. {:.4}", interval.low, interval.high);
    writeln!(f)?;
    for (what, value) in [
        ("runs", format!("{} and {}", group.before.count, group.after.count)),
        (
            "means",
            format!(
                "{:.6} and {:.6} ({:+.3}%)",
                group.before.mean,
                group.after.mean,
                group.change_of_means * 100.0
            ),
        ),
        ("standard deviations", format!("{:.6} and {:.6}", group.before.sd, group.after.sd)),
        ("ratio of medians", format!("{:.5}", group.ratio_of_medians)),
        ("Hodges-Lehmann ratio", format!("{:.4} [{}]", group.ratio, span(&group.interval))),
        ("bootstrap, ratio of means", span(&group.bootstrap_means)),
        ("bootstrap, ratio of medians", span(&group.bootstrap_medians)),
        ("Welch", format!("t {:.5}, df {:.3}, p {:.4e}", group.welch.t, group.welch.df, group.welch.p)),
        ("exact permutation", format!("p {:.6e}", group.permutation.p)),
        (
            "Mann-Whitney",
            format!(
                "exact p {}, asymptotic p {:.4e}",
                group.mann_whitney.exact.map_or_else(|| "-".to_owned(), |p| format!("{p:.4e}")),
                group.mann_whitney.asymptotic
            ),
        ),
        (
            "if rows were pairs",
            format!(
                "t p {:.4e}, sign-flip p {:.4e}, Wilcoxon p {:.4e}",
                group.paired.t.p, group.paired.sign_flip.p, group.paired.wilcoxon
            ),
        ),
        ("Hedges' g, Cliff's delta", format!("{:.5}, {:.5}", group.hedges_g, group.cliffs_delta)),
        (
            "drift, before and after",
            format!(
                "Spearman {:.3} (p {:.4}) and {:.3} (p {:.4})",
                group.drift_before.rho, group.drift_before.p, group.drift_after.rho, group.drift_after.p
            ),
        ),
    ] {
        writeln!(f, "  {what:<28} {value}")?;
    }
    let needed = group.runs_needed.map_or_else(|| "no practical number".to_owned(), |runs| runs.to_string());
    write!(
        f,
        "  {:<28} {:.0}%; runs an arm for 80%: {needed}",
        "power for this difference",
        group.power * 100.0
    )
}
