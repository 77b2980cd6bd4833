//! How `handoff` behaves as a process among others: pipes, files and exit statuses.

use std::process::{Command, Stdio};

#[test]
fn a_reader_that_leaves_is_no_error() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["completions", "bash"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .expect("handoff runs");
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// As on a full disk, where nobody needs to be root.
#[test]
fn a_file_that_cannot_be_written_to_its_end_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" new clock --git https://example.org/handoff.git";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_handoff")])
        .current_dir(folder.path())
        .output()
        .expect("handoff runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    let file = told.lines().find_map(|line| line.strip_prefix("error: cannot write "));
    let file = folder.path().join(file.expect("the file is named"));
    assert!(file.parent().is_some_and(std::path::Path::is_dir) && !file.exists(), "{told}");
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let status = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .arg("man")
        .arg(folder.path().join("man1"))
        .stdout(Stdio::null())
        .status()
        .expect("handoff runs");
    assert!(status.success());
    for page in ["handoff.1", "handoff-man.1", "handoff-completions.1"] {
        let text = std::fs::read_to_string(folder.path().join("man1").join(page)).expect(page);
        assert!(text.contains(".SH"), "{page} is a manual page");
    }
}
