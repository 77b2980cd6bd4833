//! A series as commits: authors, notes, and a stop at the first conflict that is continued, skipped or taken back.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use handoff_kernel::patch::{Limits, Series, parse};
use handoff_kernel::port::Options;
use handoff_kernel::port::commit::{CommitError, abort, changed_files, port_and_commit, resume, skip};
use handoff_testkit::{require, require_tool};
use tempfile::TempDir;

pub(crate) fn git(folder: &Path, words: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(folder).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const FILE: &str = "int f(void)\n{\n\tone(a);\n\ttwo(b);\n\tthree(c);\n\tfour(d);\n\treturn 0;\n}\n";

pub(crate) fn repository() -> TempDir {
    let folder = TempDir::new().unwrap();
    git(folder.path(), &["init", "-q"]);
    git(folder.path(), &["config", "user.name", "Porter"]);
    git(folder.path(), &["config", "user.email", "porter@example.org"]);
    git(folder.path(), &["config", "commit.gpgsign", "false"]);
    fs::write(folder.path().join("x.c"), FILE).unwrap();
    git(folder.path(), &["add", "-A"]);
    git(folder.path(), &["commit", "-q", "-m", "start"]);
    folder
}

pub(crate) fn mail(id: char, subject: &str, diff: &str) -> String {
    format!(
        "From {} Mon Sep 17 00:00:00 2001\nFrom: An Author <author@example.org>\nDate: Tue, 3 Mar 2015 10:00:00 +0100\nSubject: [PATCH] {subject}\n\nWhy it is good.\n\nSigned-off-by: An Author <author@example.org>\n---\n{diff}-- \n2.39\n\n",
        id.to_string().repeat(40)
    )
}

/// Three patches: the second has no place.
pub(crate) fn series() -> Series {
    let hunk = |name: &str, start: usize, lines: &str| {
        let count = |skip: char| lines.lines().filter(|line| !line.starts_with(skip)).count();
        format!(
            "--- a/{name}\n+++ b/{name}\n@@ -{start},{} +{start},{} @@ int f(void)\n{lines}",
            count('+'),
            count('-')
        )
    };
    let first = hunk("x.c", 3, " \tone(a);\n+\tmore(a);\n \ttwo(b);\n \tthree(c);\n");
    let second = hunk("x.c", 5, " \ttwo(b);\n-\tdrei(e, x);\n-\tvier(e, y);\n+\tfunf(c);\n \tfour(d);\n");
    let third = "--- /dev/null\n+++ b/new.c\n@@ -0,0 +1 @@\n+int new;\n";
    let text = format!(
        "{}{}{}",
        mail('a', "first", &first),
        mail('b', "second", &second),
        mail('c', "third", third)
    );
    parse(text.as_bytes(), &Limits::default()).unwrap()
}

fn subjects(folder: &Path) -> Vec<String> {
    git(folder, &["log", "--format=%s"]).lines().map(str::to_owned).collect()
}

#[test]
fn each_patch_is_a_commit_of_its_author() {
    require!(require_tool("git"));
    let folder = repository();
    let all = series();
    let series =
        Series { patches: vec![all.patches[0].clone(), all.patches[2].clone()], ..Series::default() };
    let report = port_and_commit(&series, folder.path(), &Options::default()).unwrap();
    assert_eq!(report.commits.len(), 2, "{report}");
    assert_eq!(subjects(folder.path()), ["third", "first", "start"]);
    let shown = git(folder.path(), &["log", "-1", "--format=%an <%ae> %ai%n%B", "HEAD~1"]);
    assert!(shown.starts_with("An Author <author@example.org> 2015-03-03 10:00:00 +0100\n"), "{shown}");
    assert!(shown.contains("Why it is good."), "{shown}");
    assert!(shown.contains(&format!("\n(backported from commit {})\n", "a".repeat(40))), "{shown}");
    assert_eq!(changed_files(folder.path()), Some(Vec::new()));
    // A second time there is nothing to do.
    let report = port_and_commit(&series, folder.path(), &Options::default()).unwrap();
    assert!(report.commits.iter().all(|commit| commit.id.is_none()), "{report}");
}

#[test]
fn a_commit_says_what_was_doubtful() {
    require!(require_tool("git"));
    let folder = repository();
    fs::write(folder.path().join("x.c"), FILE.replace("two(b)", "two(b, 1)")).unwrap();
    git(folder.path(), &["commit", "-q", "-a", "-m", "drift"]);
    let series = Series { patches: vec![series().patches[0].clone()], ..Series::default() };
    port_and_commit(&series, folder.path(), &Options::default()).unwrap();
    let message = git(folder.path(), &["log", "-1", "--format=%B"]);
    assert!(message.contains("[x.c, hunk 1: context line `two(b);` is `two(b, 1);` here]"), "{message}");
}

#[test]
fn a_conflict_stops_the_series_until_it_is_resolved() {
    require!(require_tool("git"));
    let folder = repository();
    let report = port_and_commit(&series(), folder.path(), &Options::default()).unwrap();
    assert_eq!((report.stopped.as_deref(), report.remaining), (Some("second"), 1), "{report}");
    assert_eq!(subjects(folder.path()), ["first", "start"]);
    let again = port_and_commit(&series(), folder.path(), &Options::default());
    assert!(matches!(again, Err(CommitError::UnderWay)));
    assert!(matches!(resume(folder.path(), &Options::default()), Err(CommitError::Unresolved(_))));
    // A person resolves it.
    drop(fs::remove_file(folder.path().join("x.c.rej")));
    fs::write(folder.path().join("x.c"), FILE.replace("three(c)", "funf(c)")).unwrap();
    let report = resume(folder.path(), &Options::default()).unwrap();
    assert_eq!(report.stopped, None, "{report}");
    assert_eq!(subjects(folder.path()), ["third", "second", "first", "start"]);
    assert!(
        git(folder.path(), &["log", "-1", "--format=%B", "HEAD~1"])
            .contains("[conflicts were resolved by hand]")
    );
    assert!(matches!(resume(folder.path(), &Options::default()), Err(CommitError::Nothing)));
}

#[test]
fn a_patch_that_stopped_is_left_out_or_all_is_taken_back() {
    require!(require_tool("git"));
    let folder = repository();
    port_and_commit(&series(), folder.path(), &Options::default()).unwrap();
    let report = skip(folder.path(), &Options::default()).unwrap();
    assert_eq!(report.stopped, None, "{report}");
    assert_eq!(subjects(folder.path()), ["third", "first", "start"]);
    assert_eq!(git(folder.path(), &["status", "--porcelain"]), "");

    let folder = repository();
    fs::write(folder.path().join("mine.txt"), "mine\n").unwrap();
    port_and_commit(&series(), folder.path(), &Options::default()).unwrap();
    abort(folder.path()).unwrap();
    assert_eq!(subjects(folder.path()), ["start"]);
    assert_eq!(fs::read_to_string(folder.path().join("x.c")).unwrap(), FILE);
    assert_eq!(git(folder.path(), &["status", "--porcelain"]), "?? mine.txt\n");
}

#[test]
fn changes_of_ones_own_are_not_mixed_in() {
    require!(require_tool("git"));
    let folder = repository();
    fs::write(folder.path().join("x.c"), format!("{FILE}int mine;\n")).unwrap();
    let error = port_and_commit(&series(), folder.path(), &Options::default()).unwrap_err();
    assert!(matches!(&error, CommitError::Dirty(files) if *files == ["x.c"]), "{error}");
    assert_eq!(changed_files(folder.path()), Some(vec!["x.c".to_owned()]));
    assert_eq!(subjects(folder.path()), ["start"]);
    assert_eq!(changed_files(TempDir::new().unwrap().path()), None);
}

/// How a series may be found that did not come to its end.
#[derive(Clone, Copy, Debug)]
enum Found {
    Staged,
    HalfWritten,
    Committed,
}

/// A repository in which a series was ended at the second of its two patches, which changes two files.
fn ended(found: Found) -> TempDir {
    let folder = repository();
    let hook = folder.path().join(".git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    // git ends the series where a kill could, too: the files are written and staged.
    fs::write(&hook, "#!/bin/sh\n! git rev-parse -q --verify HEAD~1 >/dev/null\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let both = "--- a/x.c\n+++ b/x.c\n@@ -5,3 +5,4 @@ int f(void)\n \tthree(c);\n \tfour(d);\n+\tfive(e);\n \treturn 0;\n--- /dev/null\n+++ b/new.c\n@@ -0,0 +1 @@\n+int new;\n";
    let mut two = series();
    two.patches.truncate(1);
    two.patches.extend(parse(mail('d', "both", both).as_bytes(), &Limits::default()).unwrap().patches);
    let error = port_and_commit(&two, folder.path(), &Options::default()).unwrap_err();
    assert!(matches!(error, CommitError::Git { .. }), "{error}");
    fs::remove_file(hook).unwrap();
    match found {
        Found::Staged => {}
        Found::HalfWritten => {
            git(folder.path(), &["reset", "-q"]);
            git(folder.path(), &["checkout", "-q", "x.c"]);
            fs::write(folder.path().join(".handoff-portAbCdEf"), "int ne").unwrap();
        }
        Found::Committed => drop(git(folder.path(), &["commit", "-q", "-m", "both"])),
    }
    let again = port_and_commit(&series(), folder.path(), &Options::default());
    assert!(matches!(again, Err(CommitError::UnderWay)));
    folder
}

#[test]
fn a_series_that_was_ended_is_taken_up_or_back() {
    require!(require_tool("git"));
    for found in [Found::Staged, Found::HalfWritten, Found::Committed] {
        let is = |folder: &TempDir, subjects_now: &[&str]| {
            assert_eq!(subjects(folder.path()), subjects_now, "{found:?}");
            assert_eq!(git(folder.path(), &["status", "--porcelain", "--ignored"]), "", "{found:?}");
            let left = resume(folder.path(), &Options::default());
            assert!(matches!(left, Err(CommitError::Nothing)), "{found:?}");
        };
        let folder = ended(found);
        let report = resume(folder.path(), &Options::default()).unwrap();
        assert_eq!(report.stopped, None, "{report}");
        is(&folder, &["both", "first", "start"]);
        let files = git(folder.path(), &["show", "--format=", "--name-only", "HEAD"]);
        assert_eq!(files, "new.c\nx.c\n", "{found:?}");

        let folder = ended(found);
        skip(folder.path(), &Options::default()).unwrap();
        match found {
            Found::Committed => is(&folder, &["both", "first", "start"]),
            _ => is(&folder, &["first", "start"]),
        }

        let folder = ended(found);
        abort(folder.path()).unwrap();
        is(&folder, &["start"]);
        assert_eq!(fs::read_to_string(folder.path().join("x.c")).unwrap(), FILE);
    }
}

#[test]
fn the_name_of_a_file_is_no_pattern() {
    require!(require_tool("git"));
    let folder = repository();
    fs::write(folder.path().join("mine.txt"), "mine\n").unwrap();
    let star = "--- /dev/null\n+++ b/*\n@@ -0,0 +1 @@\n+star\n";
    let series = parse(mail('e', "star", star).as_bytes(), &Limits::default()).unwrap();
    port_and_commit(&series, folder.path(), &Options::default()).unwrap();
    assert_eq!(git(folder.path(), &["show", "--format=", "--name-only", "HEAD"]), "*\n");
    assert_eq!(git(folder.path(), &["status", "--porcelain"]), "?? mine.txt\n");
}
