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
