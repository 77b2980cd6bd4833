//! The greeter in two processes, as its tutorial has it: of a generated interface and by hand, in any pair.

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

const GENERATED: &str = env!("CARGO_BIN_EXE_greeter");
const BY_HAND: &str = env!("CARGO_BIN_EXE_greeter_by_hand");

fn greeter(program: &str, socket: &Path) -> Command {
    let mut command = Command::new(program);
    command.env(SOCKET_VARIABLE, socket);
    command
}

fn serve(program: &str, socket: &Path) -> Server {
    let mut child =
        greeter(program, socket).arg("serve").stdout(Stdio::piped()).spawn().expect("greeter starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("greeter says that it is there");
    assert!(line.starts_with("sample.greeter is there"), "{line:?}");
    Server(child)
}

fn greet(program: &str, socket: &Path, names: &[&str]) -> Output {
    greeter(program, socket).arg("greet").args(names).output().expect("greeter runs")
}

/// Both names are greeted, and the empty one is refused with the service's own words.
fn greets(client: &str, socket: &Path) {
    let output = greet(client, socket, &["Ada", "Grace"]);
    let said = String::from_utf8(output.stdout).expect("text");
    let mut lines = said.lines();
    assert!(lines.next().is_some_and(|line| line.starts_with("Hello Ada (user ")), "{said}");
    assert!(lines.next().is_some_and(|line| line.starts_with("Hello Grace (user ")), "{said}");

    let output = greet(client, socket, &[""]);
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("nobody has an empty name"), "{error}");
}

#[test]
fn two_processes_find_and_call_each_other() {
    let manager = Runtime::private().expect("a manager");
    let socket = manager.socket().expect("it has a socket");
    let _server = serve(GENERATED, socket);
    greets(GENERATED, socket);
    // By hand it asks for a count, too, which the generated interface does not have.
    greets(BY_HAND, socket);
}

#[test]
fn a_stub_written_by_hand_serves_a_generated_proxy() {
    let manager = Runtime::private().expect("a manager");
    let socket = manager.socket().expect("it has a socket");
    let _server = serve(BY_HAND, socket);
    greets(GENERATED, socket);
    greets(BY_HAND, socket);
    // Two clients greeted two people each; who has no name was not counted.
    let output = greet(BY_HAND, socket, &["Mary"]);
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("5 greeted so far\n"), "{output:?}");
}

#[test]
fn without_a_manager_it_says_what_to_do() {
    for program in [GENERATED, BY_HAND] {
        let output = greet(program, Path::new("/nowhere/servicemanager.sock"), &["Ada"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success());
        assert!(error.contains("handoff servicemanager"), "{error}");
    }
}

#[test]
fn the_adder_of_the_book_adds() {
    let output = Command::new(env!("CARGO_BIN_EXE_adder")).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(told, "2 + 3 = 5\nwithin a deadline: 42\n");
}
