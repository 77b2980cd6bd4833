//! A crate that is published compiles from its archive: it reads no file of the workspace around it, and tells a registry
//! what it is.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::arrows::metadata;
use super::tree::{Source, root, sources};

/// What a build reads outside its crate, and does without where it is missing.
const OPTIONAL: [(&str, &str); 1] = [("crates/handoff-peers/build.rs", "../../Cargo.lock")];

/// The packages that a registry may have.
fn published() -> Vec<Value> {
    let packages = metadata()["packages"].as_array().expect("a list of packages").clone();
    let may = |package: &Value| package["publish"].as_array().is_none_or(|registries| !registries.is_empty());
    let published: Vec<_> = packages.into_iter().filter(may).collect();
    assert!(published.len() > 10, "only {} packages are published", published.len());
    published
}

/// A package's folder, below the root.
fn folder(package: &Value) -> PathBuf {
    let manifest = Path::new(package["manifest_path"].as_str().expect("a manifest"));
    let folder = manifest.parent().expect("a manifest is in a folder");
    folder.strip_prefix(root()).expect("it is below the root").to_owned()
}

/// The literals of `include!`, `include_str!`, `include_bytes!` and `#[path]`: the compiler reads them beside the file.
fn included(text: &str) -> Vec<&str> {
    let macros = ["include!(", "include_str!(", "include_bytes!("];
    let mut found = Vec::new();
    for mark in macros.into_iter().chain(["#[path = "]) {
        for rest in text.split(mark).skip(1) {
            let literal = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"'));
            found.extend(literal.map(|(path, _)| path));
        }
    }
    found
}

/// The literals of a build script that climb: cargo runs it in the crate's folder.
fn climbing(text: &str) -> Vec<&str> {
    text.split('"').skip(1).step_by(2).filter(|literal| literal.split('/').any(|part| part == "..")).collect()
}

/// `from` joined with `path`, without `..`; `None` above the root.
fn joined(from: &Path, path: &str) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in from.join(path).components() {
        match part {
            Component::ParentDir => plain.pop().then_some(())?,
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    Some(plain)
}

/// What of a file, which may be a crate's build script, is read outside of `krate`.
fn outside(krate: &Path, source: &Source) -> Vec<String> {
    let beside = source.path.parent().unwrap_or(Path::new(""));
    let is_script = source.path == krate.join("build.rs");
    let mut read: Vec<_> = included(&source.text).into_iter().map(|path| (beside, path)).collect();
    if is_script {
        read.extend(climbing(&source.text).into_iter().map(|path| (krate, path)));
    }
    let name = source.path.display().to_string();
    read.retain(|(from, path)| {
        !OPTIONAL.contains(&(name.as_str(), path))
            && !joined(from, path).is_some_and(|file| file.starts_with(krate))
    });
    read.into_iter().map(|(_, path)| format!("{name} reads {path}")).collect()
}

#[test]
fn a_published_crate_reads_nothing_outside_of_it() {
    let sources = sources();
    let mut wrong = Vec::new();
    for package in published() {
        let krate = folder(&package);
        // Its tests are not compiled from the archive.
        let compiled = |source: &&Source| {
            source.path == krate.join("build.rs")
                || ["src", "benches", "examples"].iter().any(|part| source.path.starts_with(krate.join(part)))
        };
        let files: Vec<_> = sources.iter().filter(compiled).collect();
        assert!(!files.is_empty(), "{} has no sources", krate.display());
        wrong.extend(
            files.into_iter().filter(|file| file.has_extension("rs")).flat_map(|file| outside(&krate, file)),
        );
    }
    assert!(
        wrong.is_empty(),
        "an archive has the crate's own files only; move the file into the crate:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn what_leaves_a_crate_is_found() {
    let krate = Path::new("crates/a");
    let found =
        |path: &str, text: &str| outside(krate, &Source { path: path.into(), text: text.to_owned() }).len();
    for (path, text, leaves) in [
        ("crates/a/build.rs", "x.source(\"../../examples/aidl\")", true),
        ("crates/a/build.rs", "x.source(\"interfaces\")", false),
        ("crates/a/src/lib.rs", "include_str!(\"../README.md\")", false),
        ("crates/a/src/lib.rs", "include_str!(\n    \"../../README.md\"\n)", true),
        ("crates/a/src/b/c.rs", "include_bytes!(\"../../data/x\")", false),
        ("crates/a/src/b/c.rs", "include!(\"../../../x\")", true),
        ("crates/a/src/lib.rs", "#[path = \"../../b/src/x.rs\"]", true),
        ("crates/a/src/lib.rs", "let shown = \"../../x\";", false),
    ] {
        assert_eq!(found(path, text), usize::from(leaves), "{path}: {text}");
    }
}

#[test]
fn a_published_crate_tells_a_registry_what_it_is() {
    let mut wrong = Vec::new();
    for package in published() {
        let name = package["name"].as_str().expect("a name");
        let krate = root().join(folder(&package));
        let mut lacks = |what: &str, has: bool| {
            if !has {
                wrong.push(format!("{name}: {what}"));
            }
        };
        for field in ["description", "license", "readme"] {
            lacks(field, package[field].as_str().is_some_and(|text| !text.is_empty()));
        }
        for field in ["keywords", "categories"] {
            // The registry takes five at most.
            lacks(field, package[field].as_array().is_some_and(|words| (1..=5).contains(&words.len())));
        }
        lacks("[package.metadata.docs.rs]", package["metadata"]["docs"]["rs"].is_object());
        let readme = std::fs::read_to_string(krate.join("README.md")).unwrap_or_default();
        lacks("README.md that begins with its name", readme.starts_with("# handoff"));
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            lacks(licence, krate.join(licence).is_file());
        }
    }
    assert!(wrong.is_empty(), "what a registry and its readers look for is missing:\n{}", wrong.join("\n"));
}

/// Cargo follows a link to a file and leaves out what git ignores: the list is what a user gets.
#[test]
fn an_archive_has_the_interfaces_and_the_licences() {
    let list = Command::new("cargo")
        .args(["package", "--list", "--allow-dirty", "--package", "handoff-workloads"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
    let text = String::from_utf8(list.stdout).expect("text");
    let files: BTreeSet<&str> = text.lines().collect();
    let interface = "interfaces/vendor/sample/benchmark/IBenchmark.aidl";
    for file in ["build.rs", "README.md", "LICENSE-MIT", interface] {
        assert!(files.contains(file), "{file} is not among {files:?}");
    }
}
