//! `cargo xtask bench NAME --against REVISION`: whether a change made a figure worse.
//!
//! Two runs on one machine an hour apart differ by more than most changes do. So the bench is built twice, here and from
//! the other revision, and the two programs run in turns: each pair gives one ratio for each figure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::{Bench, Row, Written};
use crate::process::{cargo, output, root, run, target_dir};

/// Above this a figure is called worse, once its whole interval is.
const WORSE: f64 = 1.03;
/// The fewest pairs whose median has an interval of 95%.
const FEWEST: usize = 6;

/// Measures each bench in pairs with `revision`; false if a figure is worse.
pub(super) fn measure(benches: &[&Bench], revision: &str, pairs: usize) -> Result<bool> {
    ensure!(pairs >= FEWEST, "--pairs is at least {FEWEST}: the median of fewer has no interval of 95%");
    ensure!(!benches.is_empty(), "--against compares times: `port` and `instructions` have none");
    let other = Checkout::of(revision)?;
    let mut good = true;
    for bench in benches {
        let before = program(bench, &other.folder, &target_dir().join("against/build"))?;
        let now = program(bench, root(), &target_dir())?;
        let mut figures = BTreeMap::<String, Figure>::new();
        for pair in 0..pairs {
            println!("{}: pair {} of {pairs}", bench.name, pair + 1);
            // Each comes first in every other pair: what the first leaves behind meets both.
            let (rows_before, rows_now) = if pair % 2 == 0 {
                let before = rows(&before)?;
                (before, rows(&now)?)
            } else {
                let now = rows(&now)?;
                (rows(&before)?, now)
            };
            for row in rows_now {
                let same = rows_before.iter().find(|old| old.name == row.name && old.subject == row.subject);
                if let Some(old) = same {
                    let figure = figures.entry(row.name).or_default();
                    figure.before.push(old.subject_median_ns);
                    figure.now.push(row.subject_median_ns);
                }
            }
        }
        ensure!(!figures.is_empty(), "{} has no figure in common with {revision}", bench.name);
        good &= tell(&bench.name, &other.commit, &figures);
    }
    Ok(good)
}

/// One figure in nanoseconds, pair by pair.
#[derive(Debug, Default)]
struct Figure {
    before: Vec<f64>,
    now: Vec<f64>,
}

impl Figure {
    /// The median of now divided by before, and the interval that has it with 95%.
    fn ratio(&self) -> (f64, [f64; 2]) {
        let ratios = self.now.iter().zip(&self.before).map(|(now, before)| now / before);
        let ratios = sorted(ratios.collect());
        let outside = outside(ratios.len());
        (median(&ratios), [ratios[outside], ratios[ratios.len() - 1 - outside]])
    }
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// How many of `n` sorted values lie outside on each side of the 95% interval of their median: each value is above the
/// median or below with even chances, so the count of those below is binomial.
fn outside(n: usize) -> usize {
    let mut chance = 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let (mut sum, mut outside) = (chance, 0);
    while outside + 1 < n / 2 {
        chance *= (n - outside) as f64 / (outside + 1) as f64;
        sum += chance;
        if 2.0 * sum > 0.05 {
            break;
        }
        outside += 1;
    }
    outside
}

/// Prints a bench's figures; false if one is worse.
fn tell(bench: &str, commit: &str, figures: &BTreeMap<String, Figure>) -> bool {
    let mut good = true;
    println!("\n{bench}: now against {commit}, medians of pairs");
    println!("{:<52} {:>12} {:>12} {:>7}  95% of the ratio", "figure", "before, ns", "now, ns", "ratio");
    for (name, figure) in figures {
        let (ratio, [low, high]) = figure.ratio();
        let [before, now] = [&figure.before, &figure.now].map(|each| median(&sorted(each.clone())));
        let verdict = match () {
            () if low > WORSE => "WORSE",
            () if high < 1.0 => "better",
            () if high <= WORSE => "no worse",
            () => "unclear: measure more pairs",
        };
        good &= low <= WORSE;
        println!("{name:<52} {before:>12.0} {now:>12.0} {ratio:>7.3}  {low:.3} .. {high:.3}  {verdict}");
    }
    good
}

/// Another revision's files, for as long as they are measured.
struct Checkout {
    folder: PathBuf,
    commit: String,
}

impl Checkout {
    fn of(revision: &str) -> Result<Self> {
        let commit = format!("{revision}^{{commit}}");
        let commit = output(git().args(["rev-parse", "--verify", "--short"]).arg(commit))
            .with_context(|| format!("there is no revision `{revision}`: name a commit, branch or tag"))?;
        let checkout = Self { folder: target_dir().join("against/tree"), commit: commit.trim().to_owned() };
        // What a run that was killed has left.
        checkout.remove();
        run(git()
            .args(["worktree", "add", "--detach", "--quiet"])
            .arg(&checkout.folder)
            .arg(&checkout.commit))?;
        Ok(checkout)
    }

    /// Without a word: there may be none.
    fn remove(&self) {
        let mut remove = git();
        remove.args(["worktree", "remove", "--force"]).arg(&self.folder);
        drop(remove.stderr(Stdio::null()).status());
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        self.remove();
    }
}

fn git() -> Command {
    let mut git = Command::new("git");
    git.current_dir(root());
    git
}

/// Builds a bench from the files in `folder`; gives its program.
fn program(bench: &Bench, folder: &Path, target: &Path) -> Result<PathBuf> {
    let mut build = cargo();
    build.current_dir(folder).env("CARGO_TARGET_DIR", target).env("CARGO_INCREMENTAL", "0");
    build.args(["bench", "--no-run", "--package", &bench.package, "--bench", &bench.name]);
    if !bench.features.is_empty() {
        build.args(["--features", &bench.features.join(",")]);
    }
    println!("builds {} in {}", bench.name, folder.display());
    let told = output(build.args(["--message-format", "json-render-diagnostics"]))?;
    let artifacts = told.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut named = artifacts.filter(|artifact| artifact["target"]["name"] == bench.name.as_str());
    let program = named.find_map(|artifact| artifact["executable"].as_str().map(PathBuf::from));
    program.with_context(|| format!("cargo names no program for the bench {}", bench.name))
}

/// Runs a bench once, in the few rounds of a look.
fn rows(program: &Path) -> Result<Vec<Row>> {
    let run = Command::new(program).arg("--bench").current_dir(root()).output();
    let run = run.with_context(|| format!("cannot run {}", program.display()))?;
    let said = String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.success(), "{} failed: {}\n{said}", program.display(), run.status);
    for warning in said.lines().filter(|line| line.starts_with("warning:")) {
        println!("  {warning}");
    }
    let text = String::from_utf8(run.stdout)?;
    let written = match serde_json::from_str(&text) {
        Ok(rows) => rows,
        Err(_) => serde_json::from_str::<Written>(&text).context("the bench's rows are not as agreed")?.rows,
    };
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_is_that_of_the_sign_test() {
        // From tables of the sign test: at most so many of n may be of the rarer sign at 5%, two-sided.
        for (n, rarer) in [(6, 0), (8, 0), (9, 1), (12, 2), (15, 3), (20, 5), (25, 7)] {
            assert_eq!(outside(n), rarer, "{n}");
        }
    }

    #[test]
    fn a_figure_is_worse_when_its_whole_interval_is() {
        let figure = |factor: f64| {
            let before: Vec<f64> = (0..20_u32).map(|pair| 1000.0 + f64::from(pair)).collect();
            let noise = |pair: usize| 1.0 + 0.002 * (pair % 5) as f64;
            let now = before.iter().enumerate().map(|(pair, before)| before * factor * noise(pair)).collect();
            Figure { before, now }
        };
        let (ratio, [low, high]) = figure(1.1).ratio();
        assert!(low < ratio && ratio < high && low > 1.099 && high < 1.11, "{low} {ratio} {high}");
        let table = |factor| BTreeMap::from([("a call".to_owned(), figure(factor))]);
        assert!(tell("call", "abc", &table(1.0)));
        assert!(tell("call", "abc", &table(0.9)));
        assert!(!tell("call", "abc", &table(1.04)));
    }
}
