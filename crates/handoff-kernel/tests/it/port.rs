//! Ports the corpus, and whatever must not happen to a tree.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::corpus;
use handoff_kernel::patch::{Limits, Series, parse};
use handoff_kernel::port::{FileAction, How, HunkOutcome, Options, PortReport, port};
use handoff_testkit::{require, require_tool};
use proptest::prelude::*;
use tempfile::TempDir;

fn quiet() -> Options {
    Options { markers: false, ..Options::default() }
}

fn series(text: &str) -> Series {
    parse(text.as_bytes(), &Limits::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn tree(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

fn read(folder: &TempDir, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).unwrap()
}

#[test]
fn the_corpus_is_ported_without_a_silent_mistake() {
    require!(require_tool("git"));
    let mut seen = 0;
    for case in corpus::cases() {
        let folder = TempDir::new().unwrap();
        corpus::copy(&case.folder.join("tree"), folder.path());
        let patches = parse(&case.patch, &Limits::default()).unwrap();
        let report = port(&patches, folder.path(), &quiet()).unwrap();
        let shown = format!("{}:\n{report}", case.name);
        for (file, number, outcomes) in &case.expect {
            let files = report.patches.iter().flat_map(|patch| &patch.files);
            let hunk = files
                .filter(|report| report.path == *file)
                .flat_map(|file| &file.hunks)
                .find(|hunk| hunk.number == *number)
                .unwrap_or_else(|| panic!("no hunk {number} of {file}\n{shown}"));
            assert!(outcomes.iter().any(|outcome| outcome == hunk.outcome.word()), "{outcomes:?}\n{shown}");
            match hunk.outcome {
                HunkOutcome::Fuzzy => {
                    assert!(!hunk.differences.is_empty(), "fuzzy without a reason\n{shown}")
                }
                HunkOutcome::Conflict => assert!(hunk.needs.is_some(), "a conflict without a need\n{shown}"),
                _ => {}
            }
            seen += 1;
        }
        // Where both a conflict and a place that says its doubts are right, so is either tree.
        if case.expect.iter().all(|(_, _, outcomes)| outcomes.len() == 1) {
            let (is, want) = (corpus::files(folder.path()), corpus::files(&case.folder.join("want")));
            for (name, content) in &want {
                let is = is.get(name).map(|is| String::from_utf8_lossy(is).into_owned());
                assert_eq!(is.as_deref(), Some(&*String::from_utf8_lossy(content)), "{name}\n{shown}");
            }
            assert_eq!(is.len(), want.len(), "{shown}");
        }
    }
    assert!(seen >= 20, "the corpus has {seen} hunks");
}

#[test]
fn a_dry_run_writes_nothing_and_reports_the_same() {
    require!(require_tool("git"));
    for case in corpus::cases() {
        let folder = TempDir::new().unwrap();
        corpus::copy(&case.folder.join("tree"), folder.path());
        let before = corpus::files(folder.path());
        let patches = parse(&case.patch, &Limits::default()).unwrap();
        let dry = port(&patches, folder.path(), &Options { dry_run: true, ..Options::default() }).unwrap();
        assert_eq!(corpus::files(folder.path()), before, "{}", case.name);
        let wet = port(&patches, folder.path(), &Options::default()).unwrap();
        assert_eq!(dry.counts, wet.counts, "{}", case.name);
        assert_eq!(dry.written, wet.written, "{}", case.name);
    }
}

#[test]
fn the_file_that_the_patch_was_made_for_helps() {
    require!(require_tool("git"));
    for case in corpus::cases() {
        let folder = TempDir::new().unwrap();
        corpus::copy(&case.folder.join("tree"), folder.path());
        let patches = parse(&case.patch, &Limits::default()).unwrap();
        let options = Options { source: Some(case.folder.join("a")), ..quiet() };
        let report = port(&patches, folder.path(), &options).unwrap();
        let shown = format!("{}:\n{report}", case.name);
        let conflicts = |report: &PortReport| report.counts.conflict;
        let without =
            port(&patches, &case.folder.join("tree"), &Options { dry_run: true, ..quiet() }).unwrap();
        // It may show that a definition with the same lines is another one, too.
        let certain = case.expect.iter().all(|(_, _, outcomes)| outcomes.len() == 1);
        assert!(!certain || conflicts(&report) <= conflicts(&without), "{shown}");
        if case.expect.iter().all(|(_, _, outcomes)| outcomes.len() == 1) {
            let (is, want) = (corpus::files(folder.path()), corpus::files(&case.folder.join("want")));
            let placed = report.hunks().all(|hunk| hunk.outcome != HunkOutcome::Conflict);
            assert!(!placed || is == want || without.counts.conflict > 0, "{shown}");
        }
    }
}

const FILE: &str = "int a;\n\nint f(void)\n{\n\tone(a);\n\ttwo(a);\n\tthree(a);\n\treturn 0;\n}\n";
const CHANGE: &str =
    "--- a/x.c\n+++ b/x.c\n@@ -5,3 +5,4 @@ int f(void)\n \tone(a);\n \ttwo(a);\n+\tmore(a);\n \tthree(a);\n";

#[test]
fn a_hunk_in_its_place_is_applied() {
    let folder = tree(&[("x.c", FILE)]);
    let report = port(&series(CHANGE), folder.path(), &Options::default()).unwrap();
    let hunk = report.hunks().next().unwrap();
    assert_eq!(
        (hunk.outcome, hunk.how, hunk.asked, hunk.placed),
        (HunkOutcome::Applied, How::Exact, 7, Some(7))
    );
    assert_eq!(hunk.enclosing.as_ref().unwrap().name, "f");
    assert_eq!(read(&folder, "x.c"), FILE.replace("\ttwo(a);\n", "\ttwo(a);\n\tmore(a);\n"));
    let again = port(&series(CHANGE), folder.path(), &Options::default()).unwrap();
    assert_eq!(again.hunks().next().unwrap().outcome, HunkOutcome::Present);
    assert!(again.written.is_empty());
}

#[test]
fn the_report_says_asked_and_placed() {
    let folder = tree(&[("x.c", &format!("int b;\nint c;\n{FILE}"))]);
    let report = port(&series(CHANGE), folder.path(), &Options::default()).unwrap();
    assert!(
        report.to_string().contains("hunk 1: moved, asked for line 7, belongs at 9 (+2), in `f`"),
        "{report}"
    );
    let json = serde_json::to_value(&report).unwrap();
    let hunk = &json["patches"][0]["files"][0]["hunks"][0];
    assert_eq!((hunk["outcome"].as_str(), hunk["distance"].as_i64()), (Some("moved"), Some(2)));
}

#[test]
fn conflicts_leave_markers_or_a_reject_file() {
    let near = tree(&[("x.c", &FILE.replace("\ttwo(a);\n", "\tother();\n\tand_more();\n"))]);
    let patch = CHANGE
        .replace("+\tmore(a);\n", "")
        .replace(" \ttwo(a);", "-\ttwo(a);\n+\tdeux(a);")
        .replace("+5,4", "+5,3");
    let report = port(&series(&patch), near.path(), &Options::default()).unwrap();
    assert_eq!(report.counts.conflict, 1, "{report}");
    let text = read(&near, "x.c");
    assert!(
        text.contains("<<<<<<< tree\n") && text.contains("\n=======\n") && text.contains("\n>>>>>>> "),
        "{text}"
    );

    let far = tree(&[("x.c", "int other;\n")]);
    let report = port(&series(&patch), far.path(), &Options::default()).unwrap();
    assert_eq!(report.counts.conflict, 1);
    assert_eq!(read(&far, "x.c"), "int other;\n");
    assert!(read(&far, "x.c.rej").contains("-\ttwo(a);\n"));
}

#[test]
fn files_are_made_moved_changed_and_removed() {
    let folder = tree(&[("old.c", FILE), ("gone.c", "x\ny\n"), ("run.sh", "#!/bin/sh\n")]);
    let patch = "\
diff --git a/old.c b/sub/new.c
similarity index 90%
rename from old.c
rename to sub/new.c
--- a/old.c
+++ b/sub/new.c
@@ -5,3 +5,4 @@ int f(void)
 \tone(a);
 \ttwo(a);
+\tmore(a);
 \tthree(a);
diff --git a/gone.c b/gone.c
deleted file mode 100644
--- a/gone.c
+++ /dev/null
@@ -1,2 +0,0 @@
-x
-y
diff --git a/made/it.sh b/made/it.sh
new file mode 100755
--- /dev/null
+++ b/made/it.sh
@@ -0,0 +1 @@
+true
\\ No newline at end of file
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
";
    let report = port(&series(patch), folder.path(), &Options::default()).unwrap();
    assert!(report.is_clean(), "{report}");
    let actions: Vec<_> = report.patches[0].files.iter().map(|file| file.action).collect();
    assert_eq!(actions, [FileAction::Rename, FileAction::Delete, FileAction::Create, FileAction::Modify]);
    assert!(!folder.path().join("old.c").exists() && !folder.path().join("gone.c").exists());
    assert!(read(&folder, "sub/new.c").contains("more(a)"));
    assert_eq!(read(&folder, "made/it.sh"), "true");
    for name in ["made/it.sh", "run.sh"] {
        let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "{name}");
    }
    let left: Vec<String> = corpus::files(folder.path()).into_keys().collect();
    assert_eq!(left, ["made/it.sh", "run.sh", "sub/new.c"], "no temporary file stays");
}

#[test]
fn other_content_is_not_removed_or_overwritten() {
    let folder = tree(&[("gone.c", "x\nz\n"), ("made.c", "mine\n")]);
    let patch = "--- a/gone.c\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n--- /dev/null\n+++ b/made.c\n@@ -0,0 +1 @@\n+theirs\n";
    let report = port(&series(patch), folder.path(), &Options::default()).unwrap();
    assert_eq!(report.counts.conflict, 2);
    assert_eq!((read(&folder, "gone.c").as_str(), read(&folder, "made.c").as_str()), ("x\nz\n", "mine\n"));
}

#[test]
fn nothing_is_written_through_a_symbolic_link() {
    let outside = tree(&[("x.c", FILE)]);
    let folder = tree(&[("y.c", FILE)]);
    symlink(outside.path(), folder.path().join("out")).unwrap();
    symlink(outside.path().join("x.c"), folder.path().join("x.c")).unwrap();
    let both = format!("{}{CHANGE}", CHANGE.replace("x.c", "y.c"));
    for patch in [
        both,
        CHANGE.replace("/x.c", "/out/x.c"),
        "--- /dev/null\n+++ b/out/new.c\n@@ -0,0 +1 @@\n+a\n".to_owned(),
        "diff --git a/y.c b/out/y.c\nrename from y.c\nrename to out/y.c\n".to_owned(),
    ] {
        let report = port(&series(&patch), folder.path(), &Options::default()).unwrap();
        assert!(report.counts.conflict > 0, "{report}");
        assert!(report.to_string().contains("a patch must not follow"), "{report}");
        assert_eq!(read(&outside, "x.c"), FILE);
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        // The other file does not depend on it.
        let placed = report.counts.applied == 1;
        assert_eq!(read(&folder, "y.c") != FILE, placed, "{report}");
        fs::write(folder.path().join("y.c"), FILE).unwrap();
    }
}

#[test]
fn patches_of_a_series_build_on_each_other() {
    let folder = tree(&[("x.c", FILE)]);
    let second = CHANGE
        .replace("@@ -5,3 +5,4 @@", "@@ -6,3 +6,4 @@")
        .replace(" \tone(a);\n \ttwo(a);\n+\tmore(a);", " \ttwo(a);\n \tmore(a);\n+\tmost(a);");
    let mail = |patch: &str, number: usize| {
        format!(
            "From {} Mon Sep 17 00:00:00 2001\nSubject: [PATCH {number}/2] part {number}\n\n---\n{patch}-- \n2.39\n\n",
            "a".repeat(40)
        )
    };
    let text = format!("{}{}", mail(CHANGE, 1), mail(&second, 2));
    let report = port(&series(&text), folder.path(), &Options::default()).unwrap();
    assert_eq!(report.counts.applied, 2, "{report}");
    assert!(read(&folder, "x.c").contains("\tmore(a);\n\tmost(a);\n\tthree(a);"));
    assert_eq!(report.patches[1].subject, "part 2");
}

#[test]
fn bytes_that_are_no_utf_8_survive() {
    let folder = TempDir::new().unwrap();
    let mut content = b"/* Andr\xe9 */\n".to_vec();
    content.extend_from_slice(FILE.as_bytes());
    fs::write(folder.path().join("x.c"), &content).unwrap();
    port(&series(CHANGE), folder.path(), &Options::default()).unwrap();
    let after = fs::read(folder.path().join("x.c")).unwrap();
    assert!(after.starts_with(b"/* Andr\xe9 */\n") && after.len() > content.len());
}

/// A file of functions with telling lines, and a hunk in one of them.
fn function(name: usize, lines: usize) -> Vec<String> {
    let mut out = vec![format!("static int f{name}(struct q *q)"), "{".to_owned()];
    out.extend((0..lines).map(|line| format!("\tcall_{name}_{line}(q, {line});")));
    out.extend(["\treturn 0;".to_owned(), "}".to_owned(), String::new()]);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn noise_elsewhere_never_moves_a_change_to_a_wrong_place(
        order in Just(vec![0usize, 1, 2, 3]).prop_shuffle(),
        target in 0usize..4,
        at in 0usize..8,
        noise in proptest::collection::vec((0usize..60, "[a-z]{3,8}"), 0..12),
    ) {
        let source: Vec<String> = (0..4).flat_map(|name| function(name, 8)).collect();
        let anchor = format!("\tcall_{target}_{at}(q, {at});");
        let index = source.iter().position(|line| *line == anchor).unwrap();
        let (from, to) = (index - 2, index + 3);
        let mut patch = format!("--- a/x.c\n+++ b/x.c\n@@ -{},{} +{},{} @@ static int f{target}(struct q *q)\n", from + 1, to - from, from + 1, to - from + 1);
        for (number, line) in source.iter().enumerate().take(to).skip(from) {
            patch.push_str(&format!(" {line}\n"));
            if number == index {
                patch.push_str("+\tadded(q);\n");
            }
        }
        let mut onto: Vec<String> = order.iter().flat_map(|&name| function(name, 8)).collect();
        for (at, word) in &noise {
            // Into bodies only: a line in front of a brace would be no C any more.
            let bodies: Vec<usize> = (0..onto.len()).filter(|&line| onto[line].starts_with('\t')).collect();
            onto.insert(bodies[at % bodies.len()], format!("\t{word}(q);"));
        }
        let folder = tree(&[("x.c", &(onto.join("\n") + "\n"))]);
        let report = port(&series(&patch), folder.path(), &quiet()).unwrap();
        let hunk = report.hunks().next().unwrap();
        let after = read(&folder, "x.c");
        let lines: Vec<&str> = after.lines().collect();
        if hunk.outcome == HunkOutcome::Conflict {
            prop_assert!(!after.contains("added(q)"));
        } else {
            let place = lines.iter().position(|line| *line == "\tadded(q);").unwrap();
            let above = lines.iter().position(|line| *line == anchor).unwrap();
            let below = lines[above + 1..].iter().position(|line| line.contains("call_") || line.contains("return")).unwrap() + above + 1;
            prop_assert!(above < place && place < below, "{report}\n{after}");
        }
        // Nothing else changed.
        let rest: Vec<&str> = lines.iter().copied().filter(|line| *line != "\tadded(q);").collect();
        prop_assert_eq!(rest, onto.iter().map(String::as_str).collect::<Vec<_>>());
    }

    #[test]
    fn any_patch_on_any_file_is_survived(
        file in "([ab{}()#;=\\t/*\"'\\\\]{0,6}\n){0,30}",
        before in proptest::collection::vec("[ab{}()#;=\\t/*\"'\\\\]{0,6}", 0..6),
        added in proptest::collection::vec("[ab{}()#;=\\t/*\"'\\\\]{0,6}", 1..4),
        heading in "[ab{}()= \\[\\]:]{0,12}",
        start in 0usize..40,
    ) {
        let start = if before.is_empty() { start } else { start + 1 };
        let mut patch = format!("--- a/x.c\n+++ b/x.c\n@@ -{start},{} +{},{} @@ {heading}\n", before.len(), start.max(1), before.len() + added.len());
        before.iter().for_each(|line| patch.push_str(&format!(" {line}\n")));
        added.iter().for_each(|line| patch.push_str(&format!("+{line}\n")));
        let folder = tree(&[("x.c", &file)]);
        if let Ok(parsed) = parse(patch.as_bytes(), &Limits::default()) {
            let report = port(&parsed, folder.path(), &quiet()).unwrap();
            if report.counts.conflict > 0 && Path::new(folder.path()).join("x.c").exists() {
                prop_assert_eq!(read(&folder, "x.c"), file);
            }
        }
    }
}
