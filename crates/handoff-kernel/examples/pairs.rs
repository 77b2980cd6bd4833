//! Ports the hunks that two lines of a kernel have in common, and judges each by where the older line has it.
//!
//! `cargo run -p handoff-kernel --example pairs -- NEWER.diff OLDER.diff TREE`: both are diffs between two releases
//! of a line, and `TREE` is the older line's release before its diff. `--tools` runs `patch`, `git apply` and `wiggle`
//! on the same hunks, and `--verbose` names each hunk that is not right. `--whole` ports all hunks of a file together,
//! as in a patch, and still judges each.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

#[path = "../tests/it/pairs/mod.rs"]
mod pairs;

use handoff_kernel::port::{Outcome, PortReport};
use pairs::tools::{OTHERS, Verdict, handoff, judged, ported};

/// Verdicts of one tool: on all hunks, and on those that `git apply` refuses.
type Row = BTreeMap<(bool, Verdict), usize>;

fn main() -> ExitCode {
    let (flags, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let [newer, older, tree] = words.as_slice() else {
        eprintln!("usage: pairs NEWER.diff OLDER.diff TREE [--tools | --whole] [--verbose]");
        return ExitCode::from(2);
    };
    let tree = Path::new(tree);
    let read = |path: &String| fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let all = match pairs::pairs(&read(newer), &read(older), tree) {
        Ok(all) => all,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let is_set = |flag: &str| flags.iter().any(|other| other == flag);
    let (tools, verbose, whole) = (is_set("--tools"), is_set("--verbose"), is_set("--whole"));
    let mut last: Option<(Rc<[u8]>, PortReport)> = None;
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for pair in &all {
        let mut verdicts: Vec<(&str, Verdict)> = Vec::new();
        let count = if tools { OTHERS.len() } else { 1 };
        for (name, tool) in &OTHERS[..count] {
            let folder = tempfile::tempdir().expect("a folder");
            verdicts.extend(tool(pair, folder.path()).map(|verdict| (*name, verdict)));
        }
        let hard = verdicts.iter().any(|(name, verdict)| *name == "git apply" && *verdict == Verdict::GaveUp);
        let number = if whole { pair.whole.1 } else { 0 };
        let (verdict, report) = if whole {
            let (_, report) = match last.take() {
                Some(same) if Rc::ptr_eq(&same.0, &pair.whole.0) => last.insert(same),
                _ => last.insert((Rc::clone(&pair.whole.0), ported(&pair.whole.0, tree))),
            };
            (judged(pair, report, number), report.clone())
        } else {
            handoff(pair, tree)
        };
        verdicts.push(("handoff", verdict));
        for (name, verdict) in &verdicts {
            for hard in [false, true].into_iter().take(1 + usize::from(hard)) {
                *rows.entry(name).or_default().entry((hard, *verdict)).or_default() += 1;
            }
        }
        let hunk = report.hunks().nth(number);
        let fuzzy = hunk.filter(|hunk| hunk.outcome == Outcome::Fuzzy);
        if let (true, Verdict::Right, Some(hunk)) = (verbose, verdict, fuzzy) {
            println!("--- {verdict:?}, with doubt: {}: {}", pair.name, hunk.differences.join("; "));
        }
        if verbose && verdict != Verdict::Right {
            let better = verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Right);
            let better: Vec<&str> = better.map(|(name, _)| *name).collect();
            let patch = String::from_utf8_lossy(&pair.patch);
            println!("=== {verdict:?} {} (right: {})\n{report}\n{patch}", pair.name, better.join(", "));
        }
    }
    println!(
        "{} hunks\n\n| tool | right | wrong, said | wrong, unsaid | gave up | hard: right | wrong | gave up |",
        all.len()
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (name, row) in &rows {
        let of = |hard, verdict| row.get(&(hard, verdict)).copied().unwrap_or(0);
        println!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} |",
            of(false, Verdict::Right),
            of(false, Verdict::WrongSaid),
            of(false, Verdict::WrongUnsaid),
            of(false, Verdict::GaveUp),
            of(true, Verdict::Right),
            of(true, Verdict::WrongSaid) + of(true, Verdict::WrongUnsaid),
            of(true, Verdict::GaveUp),
        );
    }
    ExitCode::SUCCESS
}
