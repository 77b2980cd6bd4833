//! The review: what a person decides of doubtful hunks on the page is what is done.

use std::fs;
use std::path::Path;

use handoff_kernel::patch::{Limits, Series, parse};
use handoff_kernel::port::commit::port_and_commit;
use handoff_kernel::port::review::{Choice, Decision, Decisions, without_hunk};
use handoff_kernel::port::{How, HunkOutcome, Options, PortReport, port};
use handoff_testkit::browser::{Window, ask};
use handoff_testkit::{require, require_tool};
use tempfile::TempDir;

const TREE: &str = "int first(struct q *q)\n{\n\tone(q);\n\tlocal_thing(q, 7);\n\ttwo(q);\n\tthree(q);\n\treturn 0;\n}\n\nint second(struct q *q)\n{\n\tfour(q);\n\tfive(q->other, 3);\n\tsix(q);\n\treturn 1;\n}\n";

/// The first hunk is fuzzy in the tree, the second in conflict, the third in place.
fn series() -> Series {
    let text = "From: A </script> <a@example.org>\nSubject: [PATCH] q: count </script><img src=x>\n\nWhy.\n---\n--- a/q.c\n+++ b/q.c\n@@ -2,5 +2,6 @@ int first(struct q *q)\n {\n \tone(q);\n+\tcount(q);\n \ttwo(q);\n \tthree(q);\n \treturn 0;\n@@ -11,7 +12,6 @@ int second(struct q *q)\n {\n \tfour(q);\n-\tnine(q, GFP_KERNEL);\n-\tten(q, GFP_KERNEL);\n+\tfunf(q, GFP_ATOMIC, \"</script>\");\n \tsix(q);\n \treturn 1;\n }\n--- a/z.c\n+++ b/z.c\n@@ -1,2 +1,3 @@\n int a;\n+int b;\n int c;\n";
    parse(text.as_bytes(), &Limits::default()).unwrap()
}

fn tree() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("q.c"), TREE).unwrap();
    fs::write(folder.path().join("z.c"), "int a;\nint c;\n").unwrap();
    folder
}

fn looked_at(folder: &TempDir) -> PortReport {
    let options = Options { dry_run: true, review: true, ..Options::default() };
    let report = port(&series(), folder.path(), &options).unwrap();
    let outcomes: Vec<HunkOutcome> = report.hunks().map(|hunk| hunk.outcome).collect();
    assert_eq!(outcomes, [HunkOutcome::Fuzzy, HunkOutcome::Conflict, HunkOutcome::Applied], "{report}");
    report
}

fn decided(folder: &TempDir, decisions: Vec<Decision>) -> PortReport {
    port(&series(), folder.path(), &Options { decisions, ..Options::default() }).unwrap()
}

/// What the page's own script saves after `act` was done in it, by a browser.
fn saved(chromium: &Path, html: &str, act: &str, width: u32, dark: bool) -> (Decisions, serde_json::Value) {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "{act}; return {{ decisions: decisions(), \
         overflows: document.documentElement.scrollWidth > innerWidth, images: document.images.length, \
         decided: document.getElementById('count').textContent }};"
    );
    let window = Window { chromium, folder: folder.path(), name: "review-decided", width, dark };
    let seen: serde_json::Value = serde_json::from_slice(&ask(&window, html, &script)).unwrap();
    let decisions = serde_json::from_value(serde_json::json!({ "decisions": seen["decisions"] })).unwrap();
    (decisions, seen)
}

#[test]
fn what_is_decided_in_a_browser_is_done() {
    let chromium = require!(require_tool("chromium"));
    let folder = tree();
    let html = looked_at(&folder).review_page();
    assert!(!html.contains("<img") && html.matches("</script>").count() == 2, "{html}");
    let act = "document.querySelector('#h0 input[value=accept]').click(); \
               const area = document.querySelector('#h1 textarea'); \
               if (!document.querySelector('#h1 input[value=accept]').disabled) throw 'a conflict cannot be accepted'; \
               document.querySelector('#h1 input[value=edit]').click(); \
               area.value = area.value.replace('five(q->other, 3);', 'funf(q->other, \"<\\/script>ä\");'); \
               area.dispatchEvent(new Event('input'))";
    let (decisions, seen) = saved(&chromium, &html, act, 1400, false);
    assert_eq!(seen["decided"], "2 of 2 decided, not saved");
    let report = decided(&folder, decisions.decisions);
    assert!(report.is_clean() && !report.is_doubtful(), "{report}");
    assert_eq!(report.hunks().filter(|hunk| hunk.how == How::Person).count(), 2, "{report}");
    let after = fs::read_to_string(folder.path().join("q.c")).unwrap();
    let counted = TREE.replace("\tone(q);\n", "\tone(q);\n\tcount(q);\n");
    let placed = fs::read_to_string(tree().path().join("q.c")).unwrap();
    assert_eq!(placed, TREE);
    assert_eq!(
        after.replace("\tcount(q);\n", ""),
        TREE.replace("five(q->other, 3);", "funf(q->other, \"</script>ä\");")
    );
    assert_eq!(after.matches("\tcount(q);\n").count(), counted.matches("\tcount(q);\n").count());
}

#[test]
fn the_page_is_readable_on_every_screen() {
    let chromium = require!(require_tool("chromium"));
    let html = looked_at(&tree()).review_page();
    crate::browser::look(&chromium, "review", &html);
    let refuse = "document.querySelector('#h0 input[value=refuse]').click()";
    let (_, phone) = saved(&chromium, &html, refuse, 390, true);
    assert_eq!((&phone["overflows"], &phone["images"]), (&false.into(), &0.into()), "{phone}");
}

/// Decisions as the page makes them, without a browser.
fn decisions(folder: &TempDir, choice: &str) -> Vec<Decision> {
    let html = looked_at(folder).review_page();
    let (_, rest) = html.split_once("id=\"hunks\">").unwrap();
    let mut hunks: Vec<serde_json::Value> =
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    for hunk in &mut hunks {
        hunk["choice"] = choice.into();
        if hunk["becomes"].is_null() {
            hunk["becomes"] = serde_json::json!([]);
        }
    }
    hunks.into_iter().map(|hunk| serde_json::from_value(hunk).unwrap()).collect()
}

#[test]
fn what_is_refused_goes_into_a_rej_file() {
    let folder = tree();
    let refused = decisions(&folder, "refuse");
    let report = decided(&folder, refused);
    assert_eq!(report.counts.conflict, 2, "{report}");
    assert_eq!(fs::read_to_string(folder.path().join("q.c")).unwrap(), TREE);
    let rejected = fs::read_to_string(folder.path().join("q.c.rej")).unwrap();
    assert!(
        rejected.contains("+\tcount(q);\n") && rejected.contains("-\tnine(q, GFP_KERNEL);\n"),
        "{rejected}"
    );
    assert_eq!(fs::read_to_string(folder.path().join("z.c")).unwrap(), "int a;\nint b;\nint c;\n");
}

#[test]
fn a_decision_holds_for_the_lines_that_were_looked_at() {
    let folder = tree();
    let accepted = decisions(&folder, "accept");
    // The lines moved: the decision moves with them.
    fs::write(folder.path().join("q.c"), format!("int more;\nint lines;\n{TREE}")).unwrap();
    let report = decided(&folder, vec![accepted[0].clone()]);
    assert_eq!(report.hunks().next().unwrap().how, How::Person, "{report}");
    // They are others: it is said, and the hunk is as doubtful as before.
    let folder = tree();
    fs::write(folder.path().join("q.c"), TREE.replace("local_thing(q, 7)", "local_thing(q, 8)")).unwrap();
    let report = decided(&folder, vec![accepted[0].clone()]);
    assert_ne!(report.hunks().next().unwrap().how, How::Person, "{report}");
    assert!(
        report.to_string().contains("hunk 1: the decision on it was made on lines that are not here"),
        "{report}"
    );
    // The patch is another one: no decision of it is taken for this one.
    let folder = tree();
    let mut other = accepted[0].clone();
    other.hunk = other.hunk.replace("count", "discount");
    let report = decided(&folder, vec![other]);
    assert_ne!(report.hunks().next().unwrap().how, How::Person, "{report}");
}

#[test]
fn decisions_are_kept_in_the_commit() {
    require!(require_tool("git"));
    let folder = tree();
    let git = |words: &[&str]| crate::port_commit::git(folder.path(), words);
    git(&["init", "-q"]);
    git(&["config", "user.name", "Porter"]);
    git(&["config", "user.email", "porter@example.org"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "start"]);
    let mut decisions = decisions(&folder, "accept");
    decisions[1].choice = Choice::Edit;
    decisions[1].becomes =
        Some(decisions[1].was.iter().map(|line| line.replace("five(q->other, 3)", "funf(q)")).collect());
    let report =
        port_and_commit(&series(), folder.path(), &Options { decisions, ..Options::default() }).unwrap();
    assert_eq!(report.stopped, None, "{report}");
    let log = git(&["log", "-1", "--format=%B"]);
    assert!(log.contains("[q.c, hunk 1: ") && log.contains("; it was accepted in the review]"), "{log}");
    assert!(log.contains("[q.c, hunk 2: ") && log.contains("it was edited in the review]"), "{log}");
    assert!(git(&["show", "HEAD:q.c"]).contains("\tfunf(q);\n"));
}

#[test]
fn a_file_of_decisions_may_hold_any_number() {
    let folder = tree();
    for line in [0, 1, 10_000, usize::MAX] {
        let mut one = decisions(&folder, "edit")[0].clone();
        (one.line, one.was, one.becomes) = (line, vec!["no such line".to_owned()], Some(Vec::new()));
        let options = Options { dry_run: true, decisions: vec![one], ..Options::default() };
        let report = port(&series(), folder.path(), &options).unwrap();
        assert!(report.to_string().contains("lines that are not here"), "{report}");
    }
}

#[test]
fn decisions_that_contradict_each_other_do_not_both_hold() {
    let folder = tree();
    let mut both = decisions(&folder, "edit");
    // A file that was written by hand: both hunks replace the same lines.
    for (number, one) in both.iter_mut().enumerate() {
        (one.line, one.was) = (3, vec!["\tone(q);".to_owned()]);
        one.becomes = Some(vec![format!("\tone_{number}(q);")]);
    }
    let report = decided(&folder, both);
    assert_eq!(report.counts.conflict, 1, "{report}");
    let after = fs::read_to_string(folder.path().join("q.c")).unwrap();
    assert_eq!(after.matches("\tone_").count(), 1, "{after}");
}

#[test]
fn a_decision_that_was_typed_without_its_lines_deletes_nothing() {
    let folder = tree();
    let typed = |choice: &str, number: usize| {
        let mut one = serde_json::to_value(&decisions(&folder, choice)[number]).unwrap();
        one.as_object_mut().unwrap().remove("becomes");
        serde_json::from_value::<Decision>(one).unwrap()
    };
    // The place that was found is accepted as it is.
    let (accepted, edited, nowhere) = (typed("accept", 0), typed("edit", 0), typed("accept", 1));
    let report = decided(&folder, vec![accepted.clone()]);
    assert_eq!(report.hunks().next().unwrap().how, How::Person, "{report}");
    let after = fs::read_to_string(folder.path().join("q.c")).unwrap();
    assert_eq!(
        after.replace("\tcount(q);\n", "").matches("q)").count(),
        TREE.matches("q)").count(),
        "{after}"
    );
    assert!(after.contains("\tcount(q);\n"), "{after}");
    // There is nothing that could be accepted, or no word on what the lines become.
    for (decision, number) in [(edited, 0), (nowhere, 1)] {
        let folder = tree();
        let report = decided(&folder, vec![decision]);
        assert_ne!(report.hunks().nth(number).unwrap().how, How::Person, "{report}");
        assert!(report.to_string().contains("does not say what the lines become"), "{report}");
    }
    let mut mistyped = accepted;
    assert!(without_hunk(std::slice::from_ref(&mistyped), &series()).is_empty());
    mistyped.file = "p.c".to_owned();
    assert_eq!(without_hunk(std::slice::from_ref(&mistyped), &series()), [&mistyped]);
}
