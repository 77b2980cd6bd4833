//! Ports the corpus with each tool that is installed, and prints how often each was right.
//!
//! `cargo run -p handoff-kernel --example port_bench`, and with `--json FILE` it writes the figures down as
//! `cargo xtask bench port` keeps them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use handoff_kernel::patch::{Limits, parse};
use handoff_kernel::port::{HunkOutcome, Options, port};
use serde_json::json;

#[path = "../tests/it/corpus/mod.rs"]
mod corpus;

use corpus::Case;

/// What a tool made of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The tree is as it should be.
    Right,
    /// The tool said that it could not, or had doubts where doubts are right.
    GaveUp,
    /// The tree is not as it should be, but the tool said that the placement is doubtful.
    WrongSaid,
    /// The tool claims success, and the tree is not as it should be.
    Wrong,
    /// The tool is not installed.
    Absent,
}

type Tool = (&'static str, fn(&Case, &Path) -> Option<Claim>);

/// What a tool says of its own work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    Success,
    Doubt,
    Failure,
}

const TOOLS: [Tool; 7] = [
    ("handoff", handoff),
    ("handoff --source", handoff_with_source),
    ("patch", |case, tree| run_patch(case, tree, "-F2")),
    ("patch -F3", |case, tree| run_patch(case, tree, "-F3")),
    ("git apply", git_apply),
    ("git am -3", git_am),
    ("wiggle", wiggle),
];

fn main() {
    let mut cases = corpus::cases();
    let folder = tempfile::tempdir().expect("a folder for the cases that are made");
    cases.extend(corpus::made(folder.path()));
    println!("| case | {} |", TOOLS.map(|(name, _)| name).join(" | "));
    println!("|---|{}", "---|".repeat(TOOLS.len()));
    let mut totals = [[0usize; 4]; TOOLS.len()];
    for case in &cases {
        let mut row = format!("| {} |", case.name);
        for (index, (_, tool)) in TOOLS.iter().enumerate() {
            let (column, word) = match judge(case, *tool) {
                Verdict::Right => (Some(0), "right"),
                Verdict::GaveUp => (Some(1), "gave up"),
                Verdict::WrongSaid => (Some(2), "doubtful"),
                Verdict::Wrong => (Some(3), "WRONG"),
                Verdict::Absent => (None, "-"),
            };
            if let Some(column) = column {
                totals[index][column] += 1;
            }
            row.push_str(&format!(" {word} |"));
        }
        println!("{row}");
    }
    println!("\n| tool | right | gave up | doubtful, said so | wrong, unsaid |\n|---|---|---|---|---|");
    let mut tools = Vec::new();
    // A tool that is not installed has no row.
    for ((name, _), counts) in TOOLS.iter().zip(totals).filter(|(_, counts)| counts.iter().sum::<usize>() > 0)
    {
        let [right, gave_up, doubtful, wrong] = counts;
        println!("| {name} | {right} | {gave_up} | {doubtful} | {wrong} |");
        tools.push(json!({
            "name": name, "right": right, "gave_up": gave_up, "doubtful": doubtful, "wrong": wrong,
        }));
    }
    if let Some(file) = std::env::args().skip_while(|word| word != "--json").nth(1) {
        let text = json!({ "cases": cases.len(), "tools": tools }).to_string();
        fs::write(&file, text).unwrap_or_else(|error| panic!("cannot write {file}: {error}"));
    }
}

fn judge(case: &Case, tool: fn(&Case, &Path) -> Option<Claim>) -> Verdict {
    let folder = tempfile::tempdir().expect("a folder for the tree");
    corpus::copy(&case.folder.join("tree"), folder.path());
    let Some(claim) = tool(case, folder.path()) else { return Verdict::Absent };
    let mut is = corpus::files(folder.path());
    is.retain(|name, _| !name.ends_with(".orig") && !name.ends_with(".rej") && !name.ends_with(".porig"));
    let want = corpus::files(&case.folder.join("want"));
    let doubtful = case.expect.iter().any(|(_, _, outcomes)| outcomes.iter().any(|word| word == "conflict"));
    match claim {
        // Where a person has to decide, a claim of success is wrong whatever the tree looks like.
        Claim::Success if is == want && !doubtful => Verdict::Right,
        Claim::Success => Verdict::Wrong,
        Claim::Doubt if doubtful => Verdict::GaveUp,
        Claim::Doubt if is == want => Verdict::Right,
        Claim::Doubt => Verdict::WrongSaid,
        Claim::Failure if doubtful => Verdict::Right,
        Claim::Failure => Verdict::GaveUp,
    }
}

fn handoff(case: &Case, tree: &Path) -> Option<Claim> {
    run_handoff(case, tree, Options { markers: false, ..Options::default() })
}

fn handoff_with_source(case: &Case, tree: &Path) -> Option<Claim> {
    run_handoff(
        case,
        tree,
        Options { markers: false, source: Some(case.folder.join("a")), ..Options::default() },
    )
}

fn run_handoff(case: &Case, tree: &Path, options: Options) -> Option<Claim> {
    let series = parse(&case.patch, &Limits::default()).expect("the corpus holds good patches");
    let report = port(&series, tree, &options).expect("the tree can be read and written");
    Some(match report.hunks().map(|hunk| hunk.outcome).max() {
        Some(HunkOutcome::Conflict) => Claim::Failure,
        Some(HunkOutcome::Fuzzy) => Claim::Doubt,
        _ if report.is_doubtful() => Claim::Doubt,
        _ => Claim::Success,
    })
}

/// `patch` says "with fuzz" where lines around the change differ.
fn run_patch(case: &Case, tree: &Path, fuzz: &str) -> Option<Claim> {
    let file = tree.with_extension("patch");
    fs::write(&file, &case.patch).ok()?;
    let output = Command::new("patch")
        .current_dir(tree)
        .env("LC_ALL", "C")
        .args(["-p1", "-N", "--no-backup-if-mismatch", fuzz, "-i"])
        .arg(&file)
        .stdin(Stdio::null())
        .output();
    let _ = fs::remove_file(&file);
    let output = output.ok()?;
    let fuzzy = String::from_utf8_lossy(&output.stdout).contains(" with fuzz ");
    Some(match claim(output.status.success()) {
        Claim::Success if fuzzy => Claim::Doubt,
        claim => claim,
    })
}

fn claim(success: bool) -> Claim {
    if success { Claim::Success } else { Claim::Failure }
}

fn git(tree: &Path, arguments: &[&str]) -> Option<bool> {
    let status = Command::new("git")
        .current_dir(tree)
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.ok().map(|status| status.success())
}

fn git_apply(case: &Case, tree: &Path) -> Option<Claim> {
    let file = tree.with_extension("patch");
    fs::write(&file, &case.patch).ok()?;
    let path = file.to_str()?;
    let success = git(tree, &["apply", path]);
    let _ = fs::remove_file(&file);
    Some(claim(success?))
}

/// With the blobs of both versions at hand, which is the best that git can get.
fn git_am(case: &Case, tree: &Path) -> Option<Claim> {
    let work = tempfile::tempdir().ok()?;
    git(work.path(), &["init", "-q"])?;
    for (side, subject) in [("a", "before"), ("b", "change")] {
        corpus::copy(&case.folder.join(side), work.path());
        git(work.path(), &["add", "-A"])?;
        git(work.path(), &["commit", "-q", "-m", subject])?;
    }
    git(work.path(), &["format-patch", "-q", "--full-index", "-1", "-o", "out"])?;
    git(work.path(), &["checkout", "-q", "--orphan", "onto"])?;
    git(work.path(), &["rm", "-q", "-r", "-f", "."])?;
    corpus::copy(tree, work.path());
    git(work.path(), &["add", "-A", "--", ":!out"])?;
    git(work.path(), &["commit", "-q", "-m", "tree"])?;
    let success = git(work.path(), &["am", "-q", "-3", "out/0001-change.patch"])?;
    let _ = fs::remove_dir_all(work.path().join("out"));
    for name in corpus::files(tree).keys() {
        fs::remove_file(tree.join(name)).ok()?;
    }
    corpus::copy(work.path(), tree);
    Some(claim(success))
}

fn wiggle(case: &Case, tree: &Path) -> Option<Claim> {
    let file = tree.with_extension("patch");
    fs::write(&file, &case.patch).ok()?;
    let status = Command::new("wiggle")
        .current_dir(tree)
        .args(["--merge", "--patch", "--replace", "--strip=1"])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let _ = fs::remove_file(&file);
    Some(claim(status.ok()?.success()))
}
