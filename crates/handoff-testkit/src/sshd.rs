//! A real sshd for tests, with keys, configuration and an unprivileged port of its own.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A loaded machine takes long.
const LIMIT: Duration = Duration::from_secs(120);

/// Where a daemon runs, and how.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The command that starts it in other namespaces; nothing for those of the test.
    pub wrapper: &'a [&'a str],
    /// The address that it is reached by.
    pub address: &'a str,
    /// More lines for its configuration.
    pub settings: &'a str,
}

impl Default for Place<'_> {
    fn default() -> Self {
        Place { wrapper: &[], address: "127.0.0.1", settings: "" }
    }
}

/// A real sshd. It ends when this is dropped.
#[derive(Debug)]
pub struct Sshd {
    folder: PathBuf,
    address: String,
    port: u16,
    daemon: Child,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        drop(self.daemon.kill());
        drop(self.daemon.wait());
    }
}

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().expect("it runs");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Makes a pair of keys, `path` and `path.pub`.
pub fn key(path: &Path) {
    run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", path.to_str().expect("text")]);
}

impl Sshd {
    /// Starts the daemon `sshd` with a port of its own, and keys and configuration in `folder`; [`Sshd::config`] reaches it as `device`.
    pub fn start(sshd: &Path, folder: &Path) -> Self {
        Self::start_in(Place::default(), sshd, folder)
    }

    /// The same somewhere else.
    pub fn start_in(place: Place<'_>, sshd: &Path, folder: &Path) -> Self {
        key(&folder.join("host"));
        key(&folder.join("user"));
        fs::copy(folder.join("user.pub"), folder.join("authorized")).expect("copied");
        // Where privileges are separated; the package makes it at boot only.
        drop(fs::create_dir_all("/run/sshd"));
        // Another may take a free port before the daemon does.
        let mut said = String::new();
        let (port, daemon) = (0..5)
            .find_map(|_| listen(place, sshd, folder, &mut said))
            .unwrap_or_else(|| panic!("sshd does not listen: {said}"));
        let sshd = Sshd { folder: folder.to_owned(), address: place.address.to_owned(), port, daemon };
        let host_key = fs::read_to_string(sshd.at("host.pub")).expect("made");
        sshd.know(&host_key);
        sshd
    }

    /// The user's configuration, in which the host is called `device`.
    pub fn config(&self) -> PathBuf {
        self.at("config")
    }

    /// A file of its folder: `host`, `user`, `authorized`, and `.pub` of keys.
    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Lets the user's configuration know this host key, and no other.
    pub fn know(&self, host_key: &str) {
        let words: Vec<&str> = host_key.split(' ').collect();
        fs::write(
            self.at("known"),
            format!("[{}]:{} {} {}\n", self.address, self.port, words[0], words[1].trim()),
        )
        .expect("written");
        let config = format!(
            "Host device\n  HostName {2}\n  Port {}\n  IdentityFile {1}/user\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {1}/known\n  GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n",
            self.port,
            self.folder.display(),
            self.address
        );
        fs::write(self.at("config"), config).expect("written");
    }
}

/// Starts the daemon on a free port, and waits until it says that it listens; nothing if it ends before.
fn listen(place: Place<'_>, sshd: &Path, folder: &Path, said: &mut String) -> Option<(u16, Child)> {
    let port = TcpListener::bind(("127.0.0.1", 0)).expect("a port").local_addr().expect("bound").port();
    let config = format!(
        "Port {port}\nListenAddress {1}\nHostKey {0}/host\nAuthorizedKeysFile {0}/authorized\nStrictModes no\n\
         PasswordAuthentication no\nPermitRootLogin yes\nPidFile none\nUsePAM no\n{2}\n",
        folder.display(),
        place.address,
        place.settings
    );
    let file = folder.join("sshd_config");
    fs::write(&file, config).expect("written");
    let mut command = match place.wrapper {
        [] => Command::new(sshd),
        [program, rest @ ..] => {
            let mut command = Command::new(program);
            command.args(rest).arg(sshd);
            command
        }
    };
    let mut daemon =
        command.args(["-D", "-e", "-f"]).arg(file).stderr(Stdio::piped()).spawn().expect("sshd starts");
    let lines = BufReader::new(daemon.stderr.take().expect("a pipe")).lines();
    let (sender, told) = mpsc::channel();
    std::thread::spawn(move || {
        // To its end, so that the daemon can go on to say things when nobody listens.
        for line in lines.map_while(Result::ok) {
            drop(sender.send(line));
        }
    });
    loop {
        match told.recv_timeout(LIMIT) {
            Ok(line) if line.contains("Server listening on") => return Some((port, daemon)),
            Ok(line) => *said += &format!("{line}\n"),
            Err(_) => {
                drop(daemon.kill());
                drop(daemon.wait());
                return None;
            }
        }
    }
}
