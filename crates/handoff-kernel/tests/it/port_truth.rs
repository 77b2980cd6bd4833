//! Hunks whose right place is known by how their trees were made.

use std::collections::BTreeMap;

use handoff_kernel::patch::{Limits, parse};
use handoff_kernel::port::{Options, Outcome, port};
use handoff_testkit::{require, require_tool};
use tempfile::TempDir;

use crate::corpus;

#[test]
fn made_hunks_go_where_they_belong() {
    require!(require_tool("git"));
    let root = TempDir::new().unwrap();
    let cases = corpus::made(root.path());
    let mut tally: BTreeMap<&str, usize> = BTreeMap::new();
    let mut told = Vec::new();
    let mut hunks = 0;
    for case in &cases {
        let folder = TempDir::new().unwrap();
        corpus::copy(&case.folder.join("tree"), folder.path());
        let series = parse(&case.patch, &Limits::default()).unwrap();
        let options = Options { markers: false, ..Options::default() };
        let report = port(&series, folder.path(), &options).unwrap();
        let right = corpus::files(folder.path()) == corpus::files(&case.folder.join("want"));
        for hunk in report.hunks() {
            hunks += 1;
            let allowed =
                case.expect.iter().any(|(_, _, words)| words.iter().any(|word| word == hunk.outcome.word()));
            let verdict = match hunk.outcome {
                _ if right && allowed => "right",
                Outcome::Conflict => "gave up",
                Outcome::Fuzzy => "wrong, said",
                _ => "wrong, unsaid",
            };
            *tally.entry(verdict).or_default() += 1;
            if verdict != "right" {
                told.push(format!("{}: {verdict}\n{report}", case.name));
            }
        }
    }
    let of = |verdict: &str| tally.get(verdict).copied().unwrap_or(0);
    let shown = told.join("\n");
    println!("{tally:?}\n{shown}");
    assert!(hunks >= 300, "{hunks}");
    assert_eq!(of("wrong, unsaid"), 0, "{tally:?}\n{shown}");
    assert!(of("wrong, said") * 100 <= hunks, "{tally:?}\n{shown}");
    assert!(of("right") * 1000 >= hunks * 988, "{tally:?}\n{shown}");
}

#[test]
fn the_file_that_a_made_hunk_is_for_never_misleads() {
    require!(require_tool("git"));
    let root = TempDir::new().unwrap();
    for case in corpus::made(root.path()).iter().filter(|case| case.name.starts_with("Gone")) {
        let series = parse(&case.patch, &Limits::default()).unwrap();
        let options = Options { dry_run: true, source: Some(case.folder.join("a")), ..Options::default() };
        let report = port(&series, &case.folder.join("tree"), &options).unwrap();
        assert_eq!(report.counts.conflict, 1, "{}: {report}", case.name);
    }
}
