//! Hunks whose right place is known by how their trees were made.

use std::collections::BTreeMap;

use handoff_kernel::patch::{Limits, parse};
use handoff_kernel::port::{HunkOutcome, Options, port};
use handoff_testkit::{repeats, require, require_tool};
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
                HunkOutcome::Conflict => "gave up",
                HunkOutcome::Fuzzy => "wrong, said",
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

/// How a patch and a tree may be written otherwise than git writes them.
#[derive(Clone, Copy, Debug)]
enum Form {
    Context(usize),
    TreeWithReturns,
    PatchWithReturns,
    NoLastNewline,
    WithoutHeadings,
}

const FORMS: [Form; 8] = [
    Form::Context(0),
    Form::Context(1),
    Form::Context(2),
    Form::Context(5),
    Form::TreeWithReturns,
    Form::PatchWithReturns,
    Form::NoLastNewline,
    Form::WithoutHeadings,
];

/// The lines of a file, each with CR LF.
fn with_returns(content: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(content).replace('\n', "\r\n").into_bytes()
}

/// Without the end of its last line.
fn cut(content: &[u8]) -> Vec<u8> {
    content.strip_suffix(b"\n").unwrap_or(content).to_vec()
}

impl Form {
    fn patch(self, case: &corpus::Case) -> Vec<u8> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match self {
            Self::Context(lines) => corpus::patch(&case.folder, lines),
            Self::PatchWithReturns => {
                let content = |line: &str| {
                    line.starts_with([' ', '+', '-'])
                        && !line.starts_with("+++ ")
                        && !line.starts_with("--- ")
                };
                let lines = text(&case.patch);
                let lines =
                    lines.lines().map(|line| format!("{line}{}\n", if content(line) { "\r" } else { "" }));
                lines.collect::<String>().into_bytes()
            }
            Self::WithoutHeadings => {
                let lines = text(&case.patch);
                let head = |line: &str| match line.strip_prefix("@@ ").and_then(|rest| rest.split_once(" @@"))
                {
                    Some((numbers, _)) => format!("@@ {numbers} @@\n"),
                    None => format!("{line}\n"),
                };
                lines.lines().map(head).collect::<String>().into_bytes()
            }
            Self::TreeWithReturns | Self::NoLastNewline => case.patch.clone(),
        }
    }

    fn tree(self, content: &[u8]) -> Vec<u8> {
        match self {
            Self::TreeWithReturns => with_returns(content),
            Self::NoLastNewline => cut(content),
            _ => content.to_vec(),
        }
    }
}

#[test]
fn no_form_of_a_patch_is_placed_wrongly_in_silence() {
    require!(require_tool("git"));
    let root = TempDir::new().unwrap();
    let mut tally: BTreeMap<String, BTreeMap<&str, usize>> = BTreeMap::new();
    let mut told = Vec::new();
    // A quick run looks at each form of every third case.
    for case in corpus::made(root.path()).iter().step_by(repeats(1, 3)) {
        for form in FORMS {
            let folder = TempDir::new().unwrap();
            for (name, content) in corpus::files(&case.folder.join("tree")) {
                let file = folder.path().join(name);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, form.tree(&content)).unwrap();
            }
            let series = parse(&form.patch(case), &Limits::default()).unwrap();
            let options = Options { markers: false, ..Options::default() };
            let report = port(&series, folder.path(), &options).unwrap();
            let want = corpus::files(&case.folder.join("want"));
            let want: BTreeMap<_, _> =
                want.into_iter().map(|(name, bytes)| (name, form.tree(&bytes))).collect();
            let right = corpus::files(folder.path()) == want;
            let verdict = match (right, report.is_clean(), report.is_doubtful()) {
                (true, true, _) => "right",
                (_, false, _) => "gave up",
                (false, _, true) => "wrong, said",
                (false, _, false) => "wrong, unsaid",
            };
            *tally.entry(format!("{form:?}")).or_default().entry(verdict).or_default() += 1;
            if verdict.starts_with("wrong") {
                told.push(format!("{} {form:?}: {verdict}\n{report}", case.name));
            }
        }
    }
    let shown = told.join("\n");
    println!("{tally:#?}\n{shown}");
    let unsaid = tally.values().filter_map(|verdicts| verdicts.get("wrong, unsaid")).sum::<usize>();
    assert_eq!(unsaid, 0, "{shown}");
}
