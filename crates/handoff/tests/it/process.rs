//! How `handoff` behaves as a process among others: pipes, files and exit statuses.

use std::path::Path;
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

/// What the program says where no file may have more than 512 bytes: as on a full disk, where nobody
/// needs to be root.
fn with_full_disk(folder: &Path, arguments: &str) -> String {
    let script = format!("trap '' XFSZ; ulimit -f 1; exec \"$0\" {arguments}");
    let output = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_handoff")])
        .current_dir(folder)
        .output()
        .expect("handoff runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    told
}

/// The file that could not be written.
fn named(told: &str) -> &str {
    let file = told.lines().find_map(|line| line.strip_prefix("error: cannot write "));
    file.unwrap_or_else(|| panic!("no file is named: {told}"))
}

#[test]
fn a_file_that_cannot_be_written_to_its_end_is_removed() {
    for line in ["new clock --git https://example.org/handoff.git", "man pages"] {
        let folder = tempfile::tempdir().expect("a folder");
        let told = with_full_disk(folder.path(), line);
        let file = folder.path().join(named(&told));
        assert!(file.parent().is_some_and(Path::is_dir) && !file.exists(), "{told}");
    }
}

#[test]
fn what_was_there_stays_if_what_replaces_it_cannot_be_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let interface =
        "interface IHello { String greet(String name); }\n".to_owned() + &"// a line\n".repeat(200);
    std::fs::write(folder.path().join("IHello.aidl"), &interface).expect("written");
    std::fs::write(folder.path().join("hello.rs"), "// old\n").expect("written");
    let read = |file: &str| std::fs::read_to_string(folder.path().join(file)).expect(file);
    assert_eq!(named(&with_full_disk(folder.path(), "aidl build IHello.aidl --out hello.rs")), "hello.rs");
    assert_eq!(read("hello.rs"), "// old\n");
    assert_eq!(named(&with_full_disk(folder.path(), "aidl fmt IHello.aidl")), "IHello.aidl");
    assert_eq!(read("IHello.aidl"), interface);
    assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 2, "nothing else is left");
}

#[test]
fn json_is_refused_where_there_is_none() {
    let output = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["completions", "bash", "--format", "json"])
        .output()
        .expect("handoff runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{told}");
    assert!(told.contains("it has no JSON"), "{told}");
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

#[test]
fn a_file_has_its_name_only_once_it_is_whole() {
    // Killed by a signal in the middle of a page: nothing can be removed then.
    let folder = tempfile::tempdir().expect("a folder");
    // Of 512 bytes each: most pages are shorter, and a few longer.
    let script = "ulimit -f 11; exec \"$0\" man pages";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_handoff")])
        .current_dir(folder.path())
        .output()
        .expect("handoff runs");
    assert_eq!(output.status.code(), None, "a page is longer than the limit: {output:?}");
    let pages: Vec<_> = std::fs::read_dir(folder.path().join("pages"))
        .expect("made")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert!(!pages.is_empty(), "some were written");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let nameless = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::WRONLY;
    let leaves_nothing = rustix::fs::open(folder.path(), nameless, mode).is_ok();
    for page in pages {
        if page.extension().is_none_or(|extension| extension != "1") {
            assert!(!leaves_nothing, "{} is left of a page", page.display());
            continue;
        }
        let text = std::fs::read_to_string(&page).expect("text");
        assert!(text.contains(".SH \"FILES\""), "{} is half a page", page.display());
    }
}

#[test]
fn help_that_cannot_be_printed_is_an_error() {
    for line in [["--help"], ["--version"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("every Linux has it");
        let output = Command::new(env!("CARGO_BIN_EXE_handoff"))
            .args(line)
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .expect("handoff runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {told}");
        assert!(told.starts_with("error: cannot write to standard output"), "{told}");
    }
}

#[test]
fn help_is_readable_whatever_the_environment_says_of_columns() {
    let help = |columns: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_handoff"))
            .args(["campaign", "--help"])
            .env("COLUMNS", columns)
            .output()
            .expect("handoff runs");
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("text")
    };
    let usual = help("100");
    assert!(usual.contains("Run experiments on many devices"), "{usual}");
    for wrong in ["0", "abc", "", "-1"] {
        assert_eq!(help(wrong), usual, "COLUMNS={wrong}");
    }
    // No example begins at the left, where only the commands and headings are.
    let narrow = help("60");
    let examples = narrow.split_once("Examples:\n").expect("examples").1;
    assert!(examples.lines().all(|line| line.len() <= 60), "{narrow}");
    for line in examples.lines().filter(|line| !line.starts_with("  handoff ")) {
        assert!(line.starts_with("      "), "{line:?} in\n{narrow}");
    }
}

#[test]
fn a_file_in_the_place_of_a_folder_is_named_as_one() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file"), "").expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["man", "file"])
        .current_dir(folder.path())
        .output()
        .expect("handoff runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(told.contains("because: Not a directory"), "{told}");
}
