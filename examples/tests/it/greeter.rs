//! The greeter in two processes, as its tutorial has it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use handoff_ipc::runtime::{Runtime, SOCKET_VARIABLE};

/// A child that does not outlive its test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn greeter(socket: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_greeter"));
    command.env(SOCKET_VARIABLE, socket);
    command
}

fn serve(socket: &Path) -> Server {
    let mut child = greeter(socket).arg("serve").stdout(Stdio::piped()).spawn().expect("greeter starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("greeter says that it is there");
    assert!(line.starts_with("sample.greeter is there"), "{line:?}");
    Server(child)
}

fn greet(socket: &Path, names: &[&str]) -> Output {
    greeter(socket).arg("greet").args(names).output().expect("greeter runs")
}

#[test]
fn two_processes_find_and_call_each_other() {
    let manager = Runtime::private().expect("a manager");
    let socket = manager.socket().expect("it has a socket");
    let _server = serve(socket);

    let output = greet(socket, &["Ada", "Grace"]);
    let said = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("Hello Ada (user "), "{said}");
    assert!(lines[1].starts_with("Hello Grace (user "), "{said}");
    assert_eq!(lines[2], "2 greeted so far");
    assert!(output.status.success());

    // An exception crosses, with its message, and is not counted.
    let output = greet(socket, &[""]);
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("nobody has an empty name"), "{error}");
    assert!(String::from_utf8_lossy(&greet(socket, &["Mary"]).stdout).contains("3 greeted so far"));
}

#[test]
fn without_a_manager_it_says_what_to_do() {
    let output = greet(Path::new("/nowhere/servicemanager.sock"), &["Ada"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(error.contains("handoff servicemanager"), "{error}");
}
