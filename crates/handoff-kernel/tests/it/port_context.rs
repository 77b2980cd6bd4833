//! Hunks that say enough of their place although much around it is other: shapes that real fixes have.

use handoff_kernel::port::Options;
use handoff_testkit::{require, require_tool};

use crate::port_honest::{read, run, tree};

#[test]
fn what_cannot_be_a_file_fails_alone_and_nothing_is_half_written() {
    require!(require_tool("mkfifo"));
    let new = |path: &str| format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n");
    let change = |path: &str| format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1,2 @@\n one\n+more\n");
    // A folder, a pipe (reading it waits for ever), a part of the path that is a file, and one that the series makes.
    for bad in [
        new("d"),
        change("d"),
        new("pipe"),
        change("pipe"),
        new("b.txt/y"),
        format!("{}{}", new("q"), new("q/r")),
        format!("{}{}", new("q/r"), new("q")),
    ] {
        for dry_run in [true, false] {
            let folder = tree(&[("a.txt", "one\n"), ("b.txt", "one\n"), ("d/x.txt", "one\n")]);
            let pipe = folder.path().join("pipe");
            assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            let options = Options { dry_run, ..Options::default() };
            let report = run(&folder, &format!("{bad}{}", change("a.txt")), &options);
            assert_eq!(report.counts.conflict, 1, "{bad}: {report}");
            let expect = if dry_run { "one\n" } else { "one\nmore\n" };
            assert_eq!(read(&folder, "a.txt"), expect, "{bad}: {report}");
            assert_eq!(read(&folder, "b.txt"), "one\n", "{bad}");
        }
    }
}
