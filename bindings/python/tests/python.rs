//! Lays the package out as a wheel would, and runs its tests with pytest.

use handoff_testkit::{require, require_tool};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("libhandoff_python") && name.ends_with(".so")
    };
    let found = fs::read_dir(&deps).unwrap().map(|entry| entry.unwrap().path()).filter(is_ours);
    let newest = found.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    newest.unwrap_or_else(|| panic!("cargo made no libhandoff_python*.so in {}", deps.display()))
}

#[test]
fn the_package_keeps_its_promises() {
    let python = require!(require_tool("python3"));
    let has_pytest = Command::new(&python).args(["-c", "import pytest"]).output().unwrap().status.success();
    if !has_pytest {
        handoff_testkit::skip(handoff_testkit::test_name!(), "needs pytest for python3");
        return;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("handoff");
    fs::create_dir(&package).unwrap();
    for file in ["__init__.py", "_native.pyi", "py.typed"] {
        fs::copy(here.join("python/handoff").join(file), package.join(file)).unwrap();
    }
    fs::copy(library(), package.join("_native.abi3.so")).unwrap();
    let output = Command::new(&python)
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .arg(here.join("tests/test_handoff.py"))
        .env("PYTHONPATH", folder.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("5 passed"), "{said}");
}
