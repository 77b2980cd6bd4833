//! The kitchen in two processes: many calls at once, few threads.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use handoff_ipc::runtime::{Runtime, SOCKET_VARIABLE};

/// A child that does not outlive its test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn kitchen(socket: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kitchen"));
    command.env(SOCKET_VARIABLE, socket);
    command
}

#[test]
fn a_hundred_orders_are_open_at_once_and_take_no_threads() {
    let manager = Runtime::private().expect("a manager");
    let socket = manager.socket().expect("it has a socket");
    let mut server = Server(kitchen(socket).arg("serve").stdout(Stdio::piped()).spawn().expect("it starts"));
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says so");
    assert!(line.starts_with("sample.kitchen is there"), "{line:?}");

    let output = kitchen(socket).args(["order", "100"]).output().expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let most = said.strip_prefix("100 dishes, up to ").and_then(|rest| rest.split(' ').next());
    let most: usize = most.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{said}"));
    assert!(most > 30, "a pool of threads would have served 16 at a time: {said}");
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.0.id())).expect("it lives").count();
    assert!(threads < 20, "{threads} threads");
}
