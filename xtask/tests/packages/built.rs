//! What `cargo xtask dist` builds for these tests, and the service manager that their programs find.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The packages that `--only` names, for this machine. What is optimised, and linked for other distributions, is the same
/// but takes much longer to build; cargo builds again only what changed.
pub(super) fn dist(only: &str) -> Vec<PathBuf> {
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86-64" };
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["dist", "--profile", "dev", "--lean", "--arch", arch, "--only", only]);
    let said = run(&mut command);
    let files = said.lines().rev().map_while(|line| line.split_once(" KiB  "));
    let mut files: Vec<PathBuf> = files.map(|(_, file)| file.into()).collect();
    files.reverse();
    assert!(files.iter().all(|file| file.is_file()) && !files.is_empty(), "{said}");
    let sums = files[0].with_file_name("SHA256SUMS");
    let sums = fs::read_to_string(sums).expect("the sums");
    for file in &files {
        let name = format!("  {}", file.file_name().expect("a name").to_str().expect("text"));
        assert!(sums.lines().any(|line| line.ends_with(&name)), "no sum of{name}");
    }
    files
}

pub(super) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a command that has to succeed; gives what it printed.
#[track_caller]
pub(super) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A file or folder of the workspace.
pub(super) fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The folder that cargo builds in.
pub(super) fn target() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_xtask"));
    program.ancestors().nth(2).expect("target/debug/xtask").to_owned()
}

/// A child that does not outlive its test.
pub(super) struct Running(pub(super) Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A service manager, and the folder that its socket is in.
pub(super) struct Manager {
    pub(super) folder: tempfile::TempDir,
    _running: Running,
}

impl Manager {
    pub(super) fn start(program: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(program);
        command
            .args(["servicemanager", "--access", "everybody", "--socket"])
            .arg(folder.path().join("servicemanager.sock"));
        let running = Running(command.stderr(Stdio::null()).spawn().expect("the program starts"));
        let manager = Self { folder, _running: running };
        let end = Instant::now() + Duration::from_secs(60);
        while !manager.socket().exists() {
            assert!(Instant::now() < end, "the service manager does not serve");
            std::thread::sleep(Duration::from_millis(10));
        }
        // Others than this user look for the socket in it, too.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(manager.folder.path(), mode).expect("the folder is ours");
        manager
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("servicemanager.sock")
    }

    /// The example of each language, both sides of it: `serve`, then `greet NAME`.
    pub(super) fn greets(&self, serve: &mut Command, greet: &mut Command) {
        let socket = self.socket();
        for command in [&mut *serve, &mut *greet] {
            // Cargo's leads to the libraries that it built, which the packages must not need.
            command.env("HANDOFF_SOCKET", &socket).env_remove("LD_LIBRARY_PATH");
        }
        serve.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut serving = Running(serve.spawn().unwrap_or_else(|error| panic!("{serve:?}: {error}")));
        let mut line = String::new();
        let stdout = serving.0.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert_eq!(line.trim(), "sample.greeter is there");
        let greeted = run(greet);
        assert!(greeted.contains("Hello Ada (user ") && greeted.contains("1 greeted so far"), "{greeted}");
    }
}

#[test]
fn what_is_missing_is_said_before_anything_is_built() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = std::env::var_os("PATH").expect("a path");
    for program in ["cargo", "rustc"] {
        let found =
            std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
        let found = found.expect("this was built by it");
        std::os::unix::fs::symlink(found, folder.path().join(program)).expect("linked");
    }
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86-64" };
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["dist", "--arch", arch, "--only", "program,maven"]).env("PATH", folder.path());
    let output = command.output().expect("xtask runs");
    let said = said(&output);
    assert!(!output.status.success() && said.contains("maven cannot be built here: needs mvn"), "{said}");
    assert!(!said.contains("== program"), "{said}");
}
