//! A series placed without a checkout: on a branch of its own, or as patches in a folder.

use std::fs;
use std::path::Path;

use handoff_kernel::patch::{Input, Limits, Series, load, parse};
use handoff_kernel::port::aside::{Onto, look, to_branch, to_folder};
use handoff_kernel::port::commit::CommitError;
use handoff_kernel::port::{HunkOutcome, Options, port};
use handoff_testkit::{require, require_tool};
use tempfile::TempDir;

use crate::port_commit::{git, mail, repository, series};

fn head(folder: &Path) -> Onto {
    Onto::commit(folder, "HEAD").expect("the repository has a commit")
}

/// Everything that a checkout is made of.
fn state(folder: &Path) -> String {
    let index = fs::read(folder.join(".git/index")).unwrap();
    format!("{}{}{index:?}", git(folder, &["status", "--porcelain"]), git(folder, &["rev-parse", "HEAD"]))
}

/// Two patches of the same lines: the second only fits what the first makes.
fn chain() -> Series {
    let diff =
        |lines: &str, counts: &str| format!("--- a/x.c\n+++ b/x.c\n@@ {counts} @@ int f(void)\n{lines}");
    let text = format!(
        "{}{}{}",
        mail('a', "first", &diff(" \tone(a);\n+\tmore(a);\n \ttwo(b);\n", "-3,2 +3,3")),
        mail('b', "second", &diff(" \tone(a);\n-\tmore(a);\n+\tless(a);\n \ttwo(b);\n", "-3,3 +3,3")),
        mail('c', "third", "--- /dev/null\n+++ b/new/new.c\n@@ -0,0 +1 @@\n+int new;\n"),
    );
    parse(text.as_bytes(), &Limits::default()).unwrap()
}

#[test]
fn a_branch_is_made_without_a_checkout() {
    require!(require_tool("git"));
    let folder = repository();
    fs::write(folder.path().join("x.c"), "work in progress\n").unwrap();
    let before = state(folder.path());
    let report = to_branch(&chain(), &head(folder.path()), "ported", &Options::default()).unwrap();
    assert_eq!(report.stopped, None, "{report}");
    assert_eq!(report.commits.len(), 3, "{report}");
    assert_eq!(state(folder.path()), before);
    let show = |what: &str| git(folder.path(), &["show", what]);
    assert!(show("ported:x.c").contains("\tone(a);\n\tless(a);\n\ttwo(b);\n"));
    assert_eq!(show("ported:new/new.c"), "int new;\n");
    let log = git(folder.path(), &["log", "--reverse", "--format=%an %s", "HEAD..ported"]);
    assert_eq!(log, "An Author first\nAn Author second\nAn Author third\n");
    let id = "b".repeat(40);
    assert!(git(folder.path(), &["log", "ported"]).contains(&format!("(backported from commit {id})")));
    assert!(git(folder.path(), &["fsck", "--strict"]).is_empty());
    // Nobody's branch is overwritten, and no name becomes an option.
    let again = to_branch(&chain(), &head(folder.path()), "ported", &Options::default());
    assert!(matches!(again, Err(CommitError::BranchExists(_))), "{again:?}");
    for name in ["-f", "a..b", ""] {
        assert!(to_branch(&chain(), &head(folder.path()), name, &Options::default()).is_err(), "{name}");
    }
}

#[test]
fn a_branch_ends_in_front_of_the_first_conflict() {
    require!(require_tool("git"));
    let folder = repository();
    let report = to_branch(&series(), &head(folder.path()), "ported", &Options::default()).unwrap();
    assert_eq!(report.stopped.as_deref(), Some("second"), "{report}");
    assert_eq!(report.remaining, 1);
    assert_eq!(git(folder.path(), &["log", "--format=%s", "HEAD..ported"]), "first\n");
    // Without a single commit there is no branch.
    let second = Series { patches: series().patches[1..].to_vec(), ..Series::default() };
    let report = to_branch(&second, &head(folder.path()), "none", &Options::default()).unwrap();
    assert_eq!(report.branch, None, "{report}");
    assert_eq!(git(folder.path(), &["branch", "--list", "none"]), "");
}

#[test]
fn the_series_is_written_as_it_fits() {
    require!(require_tool("git"));
    let folder = repository();
    let out = TempDir::new().unwrap();
    let quilt = out.path().join("patches");
    let report = to_folder(&series(), &head(folder.path()), &quilt, &Options::default()).unwrap();
    assert_eq!(report.report.counts.conflict, 1, "{report}");
    let listed = fs::read_to_string(quilt.join("series")).unwrap();
    assert_eq!(listed, "0001-first.patch\n0003-third.patch\n");
    let rejects = fs::read_to_string(quilt.join("0002-second.rej")).unwrap();
    assert!(rejects.contains("-\tdrei(e, x);\n") && rejects.starts_with("--- a/x.c\n"), "{rejects}");
    // What was written applies where it was placed, to git and to us.
    for patch in listed.lines() {
        git(folder.path(), &["am", "-q", quilt.join(patch).to_str().unwrap()]);
    }
    assert_eq!(
        git(folder.path(), &["log", "-1", "--format=%an %aI %s"]),
        "An Author 2015-03-03T10:00:00+01:00 third\n"
    );
    let fresh = repository();
    let again = load(&Input::Path(quilt.clone()), &Limits::default()).unwrap();
    let report = port(&again, fresh.path(), &Options::default()).unwrap();
    assert!(report.hunks().all(|hunk| hunk.outcome == HunkOutcome::Applied), "{report}");
    assert_eq!(git(fresh.path(), &["diff", "HEAD", "--stat", "--", "x.c"]).lines().count(), 2);
    // A folder with something in it is not mixed with it.
    let used = to_folder(&series(), &head(folder.path()), &quilt, &Options::default());
    assert!(matches!(used, Err(CommitError::FolderInUse(_))), "{used:?}");
}

#[test]
fn a_folder_is_as_good_as_a_commit_and_stays_as_it_is() {
    require!(require_tool("git"));
    let folder = repository();
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let before = state(folder.path());
    let of = |onto: &Onto, out: &TempDir| {
        to_folder(&chain(), onto, &out.path().join("q"), &Options::default()).unwrap();
        let mut files: Vec<_> =
            fs::read_dir(out.path().join("q")).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        files.iter().map(|file| fs::read_to_string(file).unwrap()).collect::<Vec<_>>()
    };
    let plain = of(&Onto::Folder(folder.path().to_owned()), &one);
    assert_eq!(plain.len(), 4);
    assert_eq!(plain, of(&head(folder.path()), &two));
    assert_eq!(state(folder.path()), before);
}

#[test]
fn a_link_in_a_commit_is_not_followed() {
    require!(require_tool("git"));
    let folder = repository();
    std::os::unix::fs::symlink("x.c", folder.path().join("link.c")).unwrap();
    std::os::unix::fs::symlink("/", folder.path().join("root")).unwrap();
    git(folder.path(), &["add", "-A"]);
    git(folder.path(), &["commit", "-q", "-m", "links"]);
    let change = "--- a/link.c\n+++ b/link.c\n@@ -1,2 +1,3 @@\n int f(void)\n+/* more */\n {\n--- /dev/null\n+++ b/root/new.c\n@@ -0,0 +1 @@\n+int new;\n";
    let report = look(
        &parse(change.as_bytes(), &Limits::default()).unwrap(),
        &head(folder.path()),
        &Options::default(),
    )
    .unwrap();
    assert_eq!(report.counts.conflict, 2, "{report}");
    assert!(report.to_string().contains("symbolic link"), "{report}");
}

#[test]
fn what_is_no_commit_is_told_apart() {
    require!(require_tool("git"));
    let folder = repository();
    for name in ["nosuch", "--all", "HEAD:x.c", ""] {
        assert_eq!(Onto::commit(folder.path(), name), None, "{name}");
    }
}
