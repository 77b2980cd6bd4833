//! Programs outside of the workspace: the tutorial "A service of your own", as its reader types it, and a project of somebody
//! else.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use handoff_ipc::Runtime;
use handoff_testkit::book::pages;

const PAGE: &str = "docs/book/src/tutorials/own-service.md";

#[test]
fn ten_commands_lead_from_a_clone_to_a_service() {
    let page = pages().into_iter().find(|page| page.name == PAGE).expect("the page");
    let commands: Vec<&str> = page.blocks("sh").flat_map(str::lines).collect();
    assert!(commands.len() <= 10, "{commands:?}");
    let code: usize = page.blocks("rust,ignore").chain(page.blocks("aidl")).map(code_lines).sum();
    assert!(code <= 60, "the project has {code} lines of code");

    // The clone and the installed program are what this test is of.
    let [clone, install, rest @ ..] = commands.as_slice() else { panic!("{commands:?}") };
    assert!(clone.starts_with("git clone ") && install.starts_with("cargo install --path "), "{commands:?}");
    let home = tempfile::tempdir().expect("a folder");
    let program = Path::new(env!("CARGO_BIN_EXE_handoff"));
    // The clone leads to this checkout: the program may lie elsewhere, as an installed one does. The project takes the
    // versions that this machine has; a reader's Cargo asks the registry.
    let (checkout, clone) = (concat!(env!("CARGO_MANIFEST_DIR"), "/../.."), home.path().join("handoff"));
    std::fs::create_dir(&clone).expect("made");
    for entry in std::fs::read_dir(checkout).expect("listed").map(|entry| entry.expect("an entry")) {
        let there = entry.path().canonicalize().expect("a path");
        std::os::unix::fs::symlink(there, clone.join(entry.file_name())).expect("linked");
    }
    let script = rest.join("\n").replace("cargo test", "cp ../handoff/Cargo.lock .\ncargo test");
    // An error is told in words.
    let script = script + "\n! cargo run -q -- greet ''";
    let output = Command::new("bash")
        .args(["-ec", &format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}\n")])
        .current_dir(home.path())
        .env("PATH", format!("{}:{}", program.parent().expect("a folder").display(), env!("PATH")))
        .env("HANDOFF_SOCKET", home.path().join("names.sock"))
        .env("HANDOFF_CONFIG", "")
        .env("CARGO_NET_OFFLINE", "true")
        .env("CARGO_TARGET_DIR", home.path().join("target"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .output()
        .expect("bash runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    for told in page.blocks("text") {
        assert!(out.contains(told), "{told} is not in\n{out}\n{err}");
    }
    assert!(out.contains("it_greets_and_counts ... ok"), "{out}");
    assert!(err.contains("nobody has an empty name") && !err.contains("Status {"), "{err}");
    assert!(!err.contains("warning: unused") && !err.contains("dead_code"), "{err}");
}

/// Starts the outsider's program, which prints to a pipe.
fn shop(program: &Path, socket: &Path, role: &str) -> (Child, impl Iterator<Item = String>) {
    let mut child = Command::new(program)
        .arg(role)
        .env("HANDOFF_SOCKET", socket)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    (child, lines.map(|line| line.expect("text")))
}

#[test]
fn a_project_of_somebody_else_has_all_that_an_interface_can_carry() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/outsider");
    let home = tempfile::tempdir().expect("a folder");
    let project = home.path().join("shop");
    let copied = Command::new("cp").args(["-r", folder]).arg(&project).status().expect("cp runs");
    assert!(copied.success());
    // Its paths lead to this checkout, and it has the versions of dependencies that this machine has.
    let manifest = std::fs::read_to_string(project.join("Cargo.toml")).expect("a manifest");
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
    std::fs::write(project.join("Cargo.toml"), manifest.replace("../../../", crates)).expect("written");
    let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
    std::fs::copy(lock, project.join("Cargo.lock")).expect("copied");
    let target = home.path().join("target");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--offline"])
        .current_dir(&project)
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("warning"), "{said}");

    let runtime = Runtime::private().expect("a manager");
    let (socket, program) = (runtime.socket().expect("a socket"), target.join("debug/shop"));
    let (mut serving, mut opened) = shop(&program, socket, "serve");
    assert_eq!(opened.next().as_deref(), Some("open"));
    let (mut buying, mut told) = shop(&program, socket, "buy");
    let lines: Vec<String> = told.by_ref().take_while(|line| line != "bought").collect();
    let refused = "refused: IllegalArgument exception: nothing is no order";
    let wanted = ["price 21", refused, "ready: tea", "receipt: 3 x tea", "price, awaited: 21"];
    assert_eq!(lines, wanted);
    serving.kill().expect("it lived");
    serving.wait().expect("it ends");
    assert_eq!(told.next().as_deref(), Some("the shop has closed"));
    assert!(buying.wait().expect("it ends").success());
}

fn code_lines(block: &str) -> usize {
    let is_code = |line: &&str| {
        let line = line.trim();
        !(line.is_empty() || line.starts_with("//") || line.starts_with("/*"))
    };
    block.lines().filter(is_code).count()
}
