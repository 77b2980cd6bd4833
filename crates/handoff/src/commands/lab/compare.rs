//! `handoff lab compare`: two results that were measured apart from each other.

use std::fmt;
use std::path::Path;

use handoff_lab::analyse::sets::{Comparison, compare, series_of};
use handoff_lab::import::Series;
use serde::Serialize;

use super::import::read;
use super::kept::Where;
use crate::output::{Advice as _, Output, Verdict, style};

/// Compare two results that were measured apart from each other: runs, imports or files.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  handoff lab compare 3 5                two runs of the store
  handoff lab compare i1 i2              two imports
  handoff lab compare old.json new.json  files of hyperfine, Google Benchmark or perf stat -j

Results that were measured apart get no verdict; `handoff lab ab` measures two commands in turns.")]
pub(super) struct Compare {
    /// A run (3), an import (i3) or a file.
    before: String,
    /// What to compare with it.
    after: String,
    #[command(flatten)]
    place: Where,
}

impl Compare {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let ((first, before), (second, after)) = (self.set(&self.before)?, self.set(&self.after)?);
        let comparison = compare([first, second], [&before, &after]);
        anyhow::ensure!(
            !comparison.rows.is_empty(),
            "the two have nothing in common: {} has {}, {} has {}",
            comparison.sets[0],
            names(&comparison.only_in[0]),
            comparison.sets[1],
            names(&comparison.only_in[1])
        );
        output.result(&Page(comparison))?;
        Ok(Verdict::Pass)
    }

    /// The name and the values of a run, an import or a file.
    fn set(&self, what: &str) -> anyhow::Result<(String, Vec<Series>)> {
        if let Ok(run) = what.parse::<i64>() {
            let result = self.place.store()?.result(run)?;
            return Ok((format!("run {run}, {}", result.header.title), series_of(&result)));
        }
        if let Some(import) = what.strip_prefix('i').and_then(|number| number.parse::<i64>().ok()) {
            let (title, series) = self.place.store()?.import(import)?;
            return Ok((format!("import {import}, {title}"), series));
        }
        let file = Path::new(what);
        if !file.exists() {
            return Err(anyhow::anyhow!("{what} is no run, no import and no file")).advise(
                "name a file, or a number that `handoff lab history` lists: 3 for a run, i3 for an import",
            );
        }
        let imported = read(file)?;
        Ok((what.to_owned(), imported.series))
    }
}

fn names(names: &[String]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [first @ .., _] if first.len() >= 4 => {
            format!("{} and {} more", names[..4].join(", "), names.len() - 4)
        }
        few => few.join(", "),
    }
}

/// A number with four digits or more, and no decimals that mean nothing.
fn four_digits(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { (3 - value.abs().log10().floor() as i32).clamp(0, 12) };
    format!("{value:.*}", digits as usize)
}

#[derive(Serialize)]
#[serde(transparent)]
struct Page(Comparison);

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { sets, rows, only_in, remark } = &self.0;
        let heading = style::HEADING;
        writeln!(f, "{heading}{} against {}{heading:#}\n", sets[1], sets[0])?;
        let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(8);
        for row in rows {
            let [before, after] = row.medians;
            let (before, after) = (four_digits(before), four_digits(after));
            write!(f, "  {:width$}  {before:>11} {after:>11} {:<4} ", row.name, row.unit)?;
            if let (Some(ratio), Some(interval)) = (row.ratio, row.interval) {
                let percent = |ratio: f64| (ratio - 1.0) * 100.0;
                let (low, high) = (percent(interval.low), percent(interval.high));
                write!(f, " {:+6.1}% [{low:+.1}%, {high:+.1}%]", percent(ratio))?;
            }
            writeln!(f, "  {} ({} and {} values)", row.finding.word(), row.counts[0], row.counts[1])?;
        }
        for (set, only) in sets.iter().zip(only_in).filter(|(_, only)| !only.is_empty()) {
            writeln!(f, "  only in {set}: {}", only.join(", "))?;
        }
        write!(f, "\n{remark}")
    }
}

#[cfg(test)]
mod tests {
    use super::four_digits;

    #[test]
    fn numbers_have_no_decimals_that_mean_nothing() {
        let values = [0.050_451, 0.1, 12.345_6, 1_234.5, 5_226_496.0, 0.0, -3.241_59, 2e-9];
        let shown = ["0.05045", "0.1000", "12.35", "1234", "5226496", "0", "-3.242", "0.000000002000"];
        assert_eq!(values.map(four_digits), shown);
    }
}
