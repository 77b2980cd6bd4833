//! The header is what the code says, and a C program that includes it is compiled, linked and run.

use handoff_testkit::{built_library, require, require_tool};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_header_is_up_to_date() {
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).unwrap();
    let source = here().join("src/lib.rs");
    let bindings = cbindgen::Builder::new().with_config(config).with_src(source).generate().unwrap();
    let mut generated = Vec::new();
    bindings.write(&mut generated);
    let header = here().join("include/handoff.h");
    if std::env::var_os("HANDOFF_BLESS").is_some() {
        fs::write(&header, &generated).unwrap();
    }
    let kept = fs::read(&header).unwrap_or_default();
    assert!(kept == generated, "run this test with HANDOFF_BLESS=1 to write {}", header.display());
}

/// A folder as `make install` would leave it: header, libraries, pkg-config file.
fn installed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at("include")).unwrap();
    fs::create_dir_all(at("lib/pkgconfig")).unwrap();
    fs::copy(here().join("include/handoff.h"), at("include/handoff.h")).unwrap();
    fs::copy(built_library("handoff_c", ".so"), at("lib/libhandoff_c.so")).unwrap();
    fs::copy(built_library("handoff_c", ".a"), at("lib/libhandoff_c.a")).unwrap();
    let template = fs::read_to_string(here().join("handoff.pc.in")).unwrap();
    let filled = template
        .replace("@prefix@", folder.path().to_str().unwrap())
        .replace("@version@", env!("CARGO_PKG_VERSION"));
    fs::write(at("lib/pkgconfig/handoff.pc"), filled).unwrap();
    folder
}

/// Compiles the example with more arguments; gives the program.
fn compile(compiler: &Path, folder: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let output = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(here().join("examples/place.c"))
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

fn run_and_check(program: &Path, libraries: &Path) {
    let output = Command::new(program).env("LD_LIBRARY_PATH", libraries).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for line in ["placed on 1, runs on 1", "restored: 1", "did you mean `big`?"] {
        assert!(said.contains(line), "{line} is missing:\n{said}");
    }
}

#[test]
fn a_c_program_links_the_shared_library() {
    let compiler = require!(require_tool("cc"));
    let folder = installed();
    let (include, lib) = (folder.path().join("include"), folder.path().join("lib"));
    let flags = [format!("-I{}", include.display()), format!("-L{}", lib.display())];
    let program = compile(&compiler, folder.path(), "shared", &[&flags[0], &flags[1], "-lhandoff_c"]);
    run_and_check(&program, &lib);
}

#[test]
fn a_c_program_links_the_static_library_by_pkg_config() {
    let compiler = require!(require_tool("cc"));
    let pkg_config = require!(require_tool("pkg-config"));
    let folder = installed();
    let lib = folder.path().join("lib");
    fs::remove_file(lib.join("libhandoff_c.so")).unwrap();
    let output = Command::new(pkg_config)
        .args(["--cflags", "--libs", "--static", "handoff"])
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let flags = String::from_utf8(output.stdout).unwrap();
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let program = compile(&compiler, folder.path(), "static", &flags);
    run_and_check(&program, &lib);
}

#[test]
fn the_header_is_cpp_too() {
    let compiler = require!(require_tool("c++"));
    let output = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++"])
        .arg(here().join("include/handoff.h"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
