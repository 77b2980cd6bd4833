//! Files that a patch copies and renames: each is the file as it was in front of the patch.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use handoff_kernel::port::{FileAction, HunkOutcome};

use crate::port_honest::{hunk, quiet, read, run, tree};

const A: &str = "int one;\nint two;\nint three;\n";
const CHANGE_A: &str = "diff --git a/a.c b/a.c\n--- a/a.c\n+++ b/a.c\n@@ -1,3 +1,3 @@\n int one;\n-int two;\n+int other;\n int three;\n";

#[test]
fn a_copy_is_made_of_the_file_in_front_of_the_patch() {
    // As `git diff -C` has it: the file that is copied is changed, too.
    let copy = "diff --git a/a.c b/b.c\nsimilarity index 100%\ncopy from a.c\ncopy to b.c\n";
    for patch in [format!("{CHANGE_A}{copy}"), format!("{copy}{CHANGE_A}")] {
        let folder = tree(&[("a.c", A)]);
        let report = run(&folder, &patch, &quiet());
        assert!(report.is_clean(), "{report}");
        assert_eq!(read(&folder, "b.c"), A, "{report}");
        assert_eq!(read(&folder, "a.c"), A.replace("two", "other"));
    }
}

#[test]
fn another_file_may_take_the_place_of_a_renamed_one() {
    let patch = "diff --git a/a.c b/a.c\nnew file mode 100644\n--- /dev/null\n+++ b/a.c\n@@ -0,0 +1 @@\n+int new;\n\
        diff --git a/a.c b/b.c\nsimilarity index 100%\nrename from a.c\nrename to b.c\n";
    let folder = tree(&[("a.c", A)]);
    let report = run(&folder, patch, &quiet());
    assert!(report.is_clean(), "{report}");
    assert_eq!((read(&folder, "a.c").as_str(), read(&folder, "b.c").as_str()), ("int new;\n", A));
    let paths: Vec<&str> = report.patches[0].files.iter().map(|file| &*file.path).collect();
    assert_eq!(paths, ["a.c", "b.c"], "the report keeps the order of the patch");
}

#[test]
fn a_renamed_file_may_take_the_name_of_another_renamed_one() {
    let rename = |from: &str, to: &str| {
        format!("diff --git a/{from} b/{to}\nsimilarity index 100%\nrename from {from}\nrename to {to}\n")
    };
    let folder = tree(&[("a.c", A), ("b.c", "int b;\n")]);
    let report = run(&folder, &format!("{}{}", rename("a.c", "b.c"), rename("b.c", "c.c")), &quiet());
    assert!(report.is_clean(), "{report}");
    assert!(!folder.path().join("a.c").exists());
    assert_eq!((read(&folder, "b.c").as_str(), read(&folder, "c.c").as_str()), (A, "int b;\n"));
}

#[test]
fn a_rename_of_a_file_with_another_path_here_is_doubtful() {
    let patch = "diff --git a/old/q_first.c b/old/q_second.c\nsimilarity index 90%\nrename from old/q_first.c\nrename to old/q_second.c\n\
        --- a/old/q_first.c\n+++ b/old/q_second.c\n@@ -1,3 +1,3 @@\n int one;\n-int two;\n+int other;\n int three;\n";
    let folder = tree(&[("new/q_first.c", A)]);
    let report = run(&folder, patch, &quiet());
    let hunk = hunk(&report, 1);
    assert_eq!(hunk.outcome, HunkOutcome::Fuzzy, "{report}");
    assert!(
        hunk.differences.iter().any(|one| one.contains("was not renamed to `old/q_second.c`")),
        "{report}"
    );
    // Done already: nothing to doubt, and the note says so.
    let folder = tree(&[("old/q_second.c", A)]);
    let report = run(&folder, patch, &quiet());
    assert!(report.is_clean() && !report.is_doubtful(), "{report}");
    assert!(report.to_string().contains("it was renamed from `old/q_first.c` already"), "{report}");
}

#[test]
fn a_new_file_that_is_here_already_gets_its_mode() {
    let patch = "diff --git a/run.sh b/run.sh\nnew file mode 100755\n--- /dev/null\n+++ b/run.sh\n@@ -0,0 +1 @@\n+true\n";
    let folder = tree(&[("run.sh", "true\n")]);
    let report = run(&folder, patch, &quiet());
    let file = &report.patches[0].files[0];
    assert_eq!((file.outcome, file.action), (HunkOutcome::Present, FileAction::Modify), "{report}");
    let mode = fs::metadata(folder.path().join("run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
}
