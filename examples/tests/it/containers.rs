//! The greeter and its caller in containers: each with namespaces of its own, as another user, and with one folder of the
//! host's mounted, the one with the service manager's socket.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use handoff_ipc::runtime::Runtime;
use handoff_ipc::servicemanager::{Manager, ManagerServer, Policy, SocketAccess};
use handoff_testkit::{require, require_root, require_tool, require_user_namespaces};

/// Killed with the namespaces that it is the first process of.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// What a container's first process does: mounts the socket's folder, hides what else the host shares (temporary files,
/// POSIX shared memory), becomes the program.
const INIT: &str = "
set -e
mkdir -p \"$1/inside\"
mount -t tmpfs none \"$1/inside\"
mkdir \"$1/inside/run\" \"$1/inside/bin\"
mount --bind \"$1/names\" \"$1/inside/run\"
mount --bind \"$1/bin\" \"$1/inside/bin\"
mount -t tmpfs -o ro,size=4k none /dev/shm
mount --rbind \"$1/inside\" /mnt
mount -t tmpfs none /tmp
test ! -e \"$1\"
shift
export HANDOFF_SOCKET=/mnt/run/servicemanager.sock
";

/// A host: a service manager at a socket that everybody may connect to, and the program.
struct Host {
    folder: tempfile::TempDir,
    _serving: ManagerServer,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("host-").tempdir_in("/tmp").expect("a folder");
        for name in ["", "names", "bin", "inside"] {
            fs::create_dir_all(folder.path().join(name)).expect("made");
            fs::set_permissions(folder.path().join(name), Permissions::from_mode(0o755)).expect("ours");
        }
        fs::copy(env!("CARGO_BIN_EXE_greeter_by_hand"), folder.path().join("bin/greeter")).expect("copied");
        let socket = folder.path().join("names/servicemanager.sock");
        let manager = Manager::new(Policy::open());
        let serving = manager.serve(&socket, SocketAccess::Everybody).expect("a manager");
        Self { folder, _serving: serving }
    }

    /// Waits until the service of a container that was killed has lost its name.
    fn await_end(&self) {
        let builder = Runtime::builder().socket(self.folder.path().join("names/servicemanager.sock"));
        let services = builder.connect().expect("the manager").services().clone();
        while services.get("sample.greeter").is_ok() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A container that root starts, as Docker does: the user inside is the same user outside.
    /// (Who becomes another user is no longer killed with its parent, and has to ask for it again: prctl(2).)
    fn with_root(&self, user: u32, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--ipc", "--uts", "--net", "--fork", "--kill-child", "sh", "-c"]);
        let become_user = format!(
            "exec setpriv --pdeathsig KILL --reuid {user} --regid {user} --clear-groups /mnt/bin/greeter \"$@\""
        );
        command.arg(format!("{INIT}{become_user}")).arg("sh").arg(self.folder.path()).args(arguments);
        command
    }

    /// A container that an ordinary user starts, as rootless Podman does: root inside is that user outside, and inside
    /// no other user has a number.
    fn rootless(&self, user: u32, arguments: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        let id = user.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
        command.args(["unshare", "--user", "--map-root-user", "--mount", "--pid", "--ipc", "--uts", "--net"]);
        command.args(["--fork", "--kill-child", "sh", "-c"]);
        command
            .arg(format!("{INIT}exec /mnt/bin/greeter \"$@\""))
            .arg("sh")
            .arg(self.folder.path())
            .args(arguments);
        command
    }
}

fn serve(mut command: Command) -> Running {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the container starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    let running = Running(child);
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    assert!(line.starts_with("sample.greeter is there"), "{line:?}");
    running
}

fn said(mut command: Command) -> String {
    let output = command.output().expect("the container starts");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).expect("text");
    assert!(output.status.success(), "{said}");
    said
}

/// The number that a process sees for a user who has none in its namespace (user_namespaces(7)).
fn overflow_user() -> String {
    fs::read_to_string("/proc/sys/kernel/overflowuid").expect("every kernel has it").trim().to_owned()
}

/// What a tool that is not there is skipped for.
fn tools() -> Result<(), String> {
    require_root()?;
    require_file("/mnt")?;
    ["unshare", "setpriv"].iter().try_for_each(|tool| require_tool(tool).map(drop))
}

fn require_file(path: &str) -> Result<PathBuf, String> {
    handoff_testkit::require_file(Path::new(path))
}

#[test]
fn containers_of_two_users_call_each_other_over_one_mounted_socket() {
    require!(tools());
    let host = Host::new();
    let _server = serve(host.with_root(12_345, &["serve"]));
    let greeted = said(host.with_root(23_456, &["greet", "Ada", "Grace"]));
    assert_eq!(
        greeted, "Hello Ada (user 23456)\nHello Grace (user 23456)\n2 greeted so far\n",
        "the user is the caller's, as the kernel says"
    );
}

#[test]
fn rootless_containers_call_each_other_and_no_root_inside_is_taken_for_root() {
    require!(tools());
    require!(require_user_namespaces());
    let host = Host::new();
    let stranger = overflow_user();
    {
        let _server = serve(host.rootless(12_345, &["serve"]));
        // Root in there is another user out here, and nobody in another container.
        let greeted = said(host.rootless(23_456, &["greet", "Ada"]));
        assert_eq!(greeted, format!("Hello Ada (user {stranger})\n1 greeted so far\n"));
        // One of its own user's is the container's root, wherever it runs.
        let own = said(host.with_root(12_345, &["greet", "Ada"]));
        assert_eq!(own, "Hello Ada (user 0)\n2 greeted so far\n");
    }
    host.await_end();
    // A service on the host sees who it is outside.
    let _server = serve(host.with_root(34_567, &["serve"]));
    let greeted = said(host.rootless(23_456, &["greet", "Ada"]));
    assert_eq!(greeted, "Hello Ada (user 23456)\n1 greeted so far\n");
}

#[test]
fn a_service_that_dies_with_its_container_leaves_the_name_to_the_next() {
    require!(tools());
    let host = Host::new();
    drop(serve(host.with_root(12_345, &["serve"])));
    host.await_end();
    let _next = serve(host.with_root(12_345, &["serve"]));
    let greeted = said(host.with_root(23_456, &["greet", "Ada"]));
    assert_eq!(greeted, "Hello Ada (user 23456)\n1 greeted so far\n");
}
