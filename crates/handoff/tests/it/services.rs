//! `handoff servicemanager` and `handoff service`, as processes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Error, ParcelService, Runtime, Service, ShellCommand, Transaction};
use rustix::process::{Pid, Signal, kill_process};

/// Adds, and remembers what it was told oneway.
pub(crate) struct Adder;

impl Service for Adder {
    fn descriptor(&self) -> &str {
        "test.IAdder"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> handoff_ipc::Result<()> {
        let Transaction { data, reply, .. } = transaction;
        match transaction.call.code() {
            1 => {
                let (a, b): (i32, i32) = (data.read()?, data.read()?);
                reply.write(&(a + b))
            }
            2 => {
                std::thread::sleep(Duration::from_secs(60));
                Ok(())
            }
            _ => Err(transaction.unknown(self.descriptor())),
        }
    }

    fn dump(&self, args: &[String]) -> String {
        format!("adds, and was asked for {args:?}\n")
    }

    /// `sum` adds the lines of its input; anything else is unknown.
    fn shell_command(&self, command: &mut ShellCommand) -> i32 {
        if command.args != ["sum"] {
            writeln!(command.error, "no such command: {:?}", command.args).unwrap();
            return 64;
        }
        let lines = BufReader::new(&command.input).lines();
        let sum: i32 = lines.map(|line| line.unwrap().parse::<i32>().unwrap()).sum();
        writeln!(command.output, "{sum}").unwrap();
        0
    }
}

/// A policy that lets everybody in.
pub(crate) const OPEN: &str = "others = \"open\"";

pub(crate) struct Manager {
    child: Child,
    notices: UnixDatagram,
    folder: tempfile::TempDir,
}

impl Manager {
    pub(crate) fn start(policy: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let notices = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        notices.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        std::fs::write(folder.path().join("policy.toml"), policy).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_handoff"))
            .args(["servicemanager", "--policy"])
            .arg(folder.path().join("policy.toml"))
            .arg("--socket")
            .arg(folder.path().join("names.sock"))
            .env("NOTIFY_SOCKET", folder.path().join("notify"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let manager = Manager { child, notices, folder };
        assert_eq!(manager.notice(), "READY=1");
        manager
    }

    fn notice(&self) -> String {
        let mut buffer = [0; 256];
        let len = self.notices.recv(&mut buffer).expect("a notice to systemd");
        String::from_utf8_lossy(&buffer[..len]).trim().to_owned()
    }

    pub(crate) fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("names.sock")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn service(&self, arguments: &[&str]) -> Output {
        service(&self.socket(), arguments)
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn service(socket: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_handoff"))
        .arg("service")
        .args(arguments)
        .env("HANDOFF_SOCKET", socket)
        .output()
        .unwrap()
}

pub(crate) fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn failure(output: &Output, status: i32) -> String {
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn json(output: &Output) -> serde_json::Value {
    serde_json::from_str(&text(output)).unwrap()
}

#[test]
fn a_service_is_given_commands() {
    let manager = Manager::start(OPEN);
    let runtime = Runtime::builder().socket(manager.socket()).connect().unwrap();
    runtime.services().add("adder", Binder::new(Adder), ServiceOptions::default()).unwrap();
    let without = ParcelService::new("test.INothing", |_, _: handoff_ipc::parcel::Parcel| Ok(None));
    runtime.services().add("without", Binder::new(without), ServiceOptions::default()).unwrap();
    let mut sum = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["service", "shell", "adder", "sum"])
        .env("HANDOFF_SOCKET", manager.socket())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    sum.stdin.take().unwrap().write_all(b"40\n2\n").unwrap();
    assert_eq!(text(&sum.wait_with_output().unwrap()), "42\n");
    // Its own status, and arguments that look like options of ours: behind the first word, or behind `--`.
    let refused = failure(&manager.service(&["shell", "adder", "help", "--help", "-x"]), 64);
    assert_eq!(refused, "no such command: [\"help\", \"--help\", \"-x\"]\n");
    let refused = failure(&manager.service(&["shell", "adder", "--", "--help"]), 64);
    assert_eq!(refused, "no such command: [\"--help\"]\n");
    let refused = failure(&manager.service(&["shell", "without", "sum"]), (-38i32 as u8).into());
    assert_eq!(refused, "test.INothing has no shell commands\n");
    assert!(failure(&manager.service(&["shell", "nobody", "sum"]), 2).contains("nobody"));
}

#[test]
fn a_person_looks_at_services_and_calls_them() {
    let manager = Manager::start(OPEN);
    let runtime = Runtime::builder().socket(manager.socket()).connect().unwrap();
    runtime.services().add("adder", Binder::new(Adder), ServiceOptions::hardware()).unwrap();

    let list = text(&manager.service(&["list"]));
    let line = list.lines().find(|line| line.starts_with("adder")).unwrap();
    let me = std::process::id().to_string();
    assert!(line.contains("test.IAdder") && line.contains("hardware") && line.contains(&me), "{list}");
    assert!(list.contains("manager") && list.contains("android.os.IServiceManager"), "{list}");
    let rows = json(&manager.service(&["list", "a*", "--domain", "hardware", "--format", "json"]));
    assert_eq!((rows.as_array().unwrap().len(), &rows[0]["name"]), (1, &"adder".into()));
    assert_eq!(
        json(&manager.service(&["list", "--domain", "vendor", "--format", "json"])),
        serde_json::json!([])
    );

    assert!(text(&manager.service(&["check", "adder"])).contains(&me));
    let absent = manager.service(&["check", "subtracter"]);
    assert_eq!(failure(&absent, 1), "");
    assert!(String::from_utf8_lossy(&absent.stdout).contains("not registered"));
    assert!(text(&manager.service(&["wait", "adder"])).contains("adder"));
    assert!(
        failure(&manager.service(&["wait", "x", "--timeout", "0.05"]), 1).contains("nobody registered x")
    );

    let call = |words: &str| manager.service(&words.split(' ').collect::<Vec<_>>());
    assert_eq!(text(&call("call adder 1 i32 40 i32 -2 --reply i32")).trim(), "38");
    assert_eq!(
        text(&call("call adder 1 i32 0x10 i32 1")).trim(),
        "0x0000  11000000                             ...."
    );
    assert_eq!(
        text(&call("call manager 1 str adder --reply service")).trim(),
        "an object of \"test.IAdder\""
    );
    assert_eq!(text(&call("call adder 1 i32 1 i32 1 --oneway")), "");
    let answer = json(&call("call adder 1 i32 1 i32 2 --reply i32 --format json"));
    assert_eq!(answer, serde_json::json!({ "values": [3], "rest": "" }));
    assert!(failure(&call("call adder 9"), 2).contains("no transaction with code 9"));
    assert!(failure(&call("call adder 1 i32 1"), 2).contains("could not read the request"));
    assert!(failure(&call("call adder 2 --timeout 0.05"), 2).contains("deadline"));
    let unknown = failure(&call("call nobody 1"), 2);
    assert!(
        unknown.contains("no service is registered as \"nobody\"") && unknown.contains("help:"),
        "{unknown}"
    );

    assert_eq!(
        text(&manager.service(&["dump", "adder", "-a", "b"])),
        "adds, and was asked for [\"-a\", \"b\"]\n"
    );
    assert!(text(&manager.service(&["dump", "manager"])).contains("2 names"));
    assert!(text(&manager.service(&["stats", "adder"])).contains(&format!("process {me}")));
    let stats = json(&manager.service(&["stats", "--format", "json"]));
    assert_eq!(stats["pid"], manager.child.id());
    assert!(stats["served"].as_u64().unwrap() > 0, "{stats}");
}

#[test]
fn the_manager_reads_its_policy_again_and_leaves_nothing_behind() {
    let mut manager = Manager::start(OPEN);
    let runtime = Runtime::builder().socket(manager.socket()).connect().unwrap();
    let services = runtime.services();
    services.add("adder", Binder::new(Adder), ServiceOptions::default()).unwrap();
    let file = manager.folder.path().join("policy.toml");
    // A mistake changes nothing.
    std::fs::write(&file, "others = \"shut\"").unwrap();
    manager.signal(Signal::HUP);
    std::fs::write(&file, "others = \"closed\"").unwrap();
    // Which of the two writes each signal meets is not ours to say: the last one must win.
    let refused = (0..600).any(|_| {
        manager.signal(Signal::HUP);
        std::thread::sleep(Duration::from_millis(50));
        matches!(services.get("adder"), Err(Error::PermissionDenied(_)))
    });
    assert!(refused, "the new policy never held");
    manager.signal(Signal::TERM);
    assert_eq!(manager.notice(), "STOPPING=1");
    assert!(manager.child.wait().unwrap().success());
    assert!(!manager.socket().exists());
}

#[test]
fn what_is_no_socket_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "mine").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for named in [&file, &link] {
        let refused = Command::new(env!("CARGO_BIN_EXE_handoff"))
            .args(["servicemanager", "--socket"])
            .arg(named)
            .output()
            .unwrap();
        let said = failure(&refused, 2);
        assert!(said.contains("it is there, and no socket") && said.contains("--socket"), "{said}");
        assert_eq!(std::fs::read_to_string(named).unwrap(), "mine");
    }
}

#[test]
fn a_folder_that_is_made_for_a_socket_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("made/names.sock");
    let mut manager = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["servicemanager", "--socket"])
        .arg(&socket)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said: Vec<String> =
        BufReader::new(manager.stderr.take().unwrap()).lines().take(2).map(Result::unwrap).collect();
    kill_process(Pid::from_child(&manager), Signal::TERM).unwrap();
    assert!(manager.wait().unwrap().success());
    assert_eq!(said[0], format!("made the folder {}", folder.path().join("made").display()));
    assert!(said[1].starts_with("service manager at "), "{said:?}");
}

#[test]
fn a_second_manager_is_refused() {
    let manager = Manager::start(OPEN);
    let second = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["servicemanager", "--socket"])
        .arg(manager.socket())
        .output()
        .unwrap();
    let said = failure(&second, 2);
    assert!(said.contains("another service manager serves") && said.contains("--socket"), "{said}");
    assert!(text(&manager.service(&["check", "manager"])).contains("manager"), "the first is unharmed");
}
