//! Compiles the class and its check with `javac`, and runs it in a virtual machine.

use handoff_testkit::{require, require_tool};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("libhandoff_java") && name.ends_with(".so")
    };
    let found = fs::read_dir(&deps).unwrap().map(|entry| entry.unwrap().path()).filter(is_ours);
    let newest = found.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    newest.unwrap_or_else(|| panic!("cargo made no libhandoff_java*.so in {}", deps.display()))
}

#[test]
fn the_class_keeps_its_promises() {
    let javac = require!(require_tool("javac"));
    let java = require!(require_tool("java"));
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    fs::copy(library(), folder.path().join("libhandoff_java.so")).unwrap();
    // 11 is what Android's desugaring and old servers take.
    let output = Command::new(javac)
        .args(["--release", "11", "-Xlint:all", "-Werror", "-d"])
        .arg(folder.path())
        .arg(here.join("java/dev/handoff/ThreadAffinity.java"))
        .arg(here.join("tests/Check.java"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut path = std::ffi::OsString::from("-Djava.library.path=");
    path.push(folder.path());
    let output = Command::new(java)
        .args(["-Xcheck:jni", "-XX:TieredStopAtLevel=1"])
        .arg(path)
        .arg("-cp")
        .arg(folder.path())
        .arg("Check")
        .output()
        .unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("kept: ").count(), 12, "{said}");
}
