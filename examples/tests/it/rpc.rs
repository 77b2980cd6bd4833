//! The example of Binder RPC as its page shows it, and every part of the interface language over that wire.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;

use crate::everything::{self, Everything, LONG};

use handoff_examples::interfaces::sample::everything::{EverythingProxy, EverythingStub};
use handoff_ipc::rpc::{RpcServer, RpcSession};
use handoff_ipc::{Error, Proxy as _};

const ROLE: &str = "HANDOFF_TEST_RPC_SERVER";

/// A child that does not outlive its test.
struct Server(Child);

impl Server {
    /// Of a program that says so when it serves.
    fn start(command: &mut Command, says: &str) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the server starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let found = lines.by_ref().map_while(Result::ok).any(|line| line.contains(says));
        assert!(found, "the server does not serve");
        std::thread::spawn(move || lines.for_each(drop));
        Server(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
#[ignore = "a process of another test"]
fn role_main() {
    let Some(socket) = std::env::var_os(ROLE) else { return };
    let _server = RpcServer::builder(std::path::PathBuf::from(socket))
        .serve(EverythingStub::new(Everything).binder())
        .expect("it listens");
    println!("ready");
    loop {
        std::thread::park();
    }
}

#[test]
fn the_greeter_needs_no_service_manager() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("greeter.sock");
    let greeter = || Command::new(env!("CARGO_BIN_EXE_rpc_greeter"));
    let _server = Server::start(greeter().arg("serve").arg(&socket), "the greeter is at");
    let output = greeter().arg("greet").arg(&socket).args(["Ada", "Grace"]).output().expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(said.contains("Hello Ada (user ") && said.contains("Hello Grace (user "), "{said}");
    let nowhere = greeter().arg("greet").arg(folder.path().join("other.sock")).output().expect("it runs");
    let error = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(!nowhere.status.success() && error.contains("no RPC server answers"), "{error}");
}

#[test]
fn generated_code_calls_another_process_and_hears_of_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("everything.sock");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--ignored", "--exact", "rpc::role_main", "--nocapture"]).env(ROLE, &socket);
    let server = Server::start(&mut command, "ready");
    let session = RpcSession::connect(socket).expect("a session");
    let root = session.root().expect("a root object");
    let proxy = EverythingProxy::from_binder(root.clone()).expect("of the interface");
    everything::values(&proxy);
    everything::styled(&proxy);
    everything::both_ways(&proxy);
    // A callback that is oneway, objects there and back, descriptors both ways.
    everything::objects_and_files(&proxy);
    everything::errors_and_versions(&proxy);
    let (tell, told) = channel();
    root.link_to_death(move || tell.send(()).expect("somebody waits")).expect("a recipient").keep();
    drop(server);
    told.recv_timeout(LONG).expect("its end is told");
    assert!(matches!(root.ping(), Err(Error::Dead)));
}
