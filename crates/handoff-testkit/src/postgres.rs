//! A PostgreSQL server for a test: its own folder and socket, no port, gone with it.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where Debian puts the programs of all versions.
const VERSIONS: &str = "/usr/lib/postgresql";

#[derive(Debug)]
pub struct Postgres {
    folder: PathBuf,
    bin: PathBuf,
    user: Option<(u32, u32)>,
    daemon: Child,
}

/// The folder with the programs of PostgreSQL's server.
pub fn require_postgres() -> Result<PathBuf, String> {
    let versions =
        fs::read_dir(VERSIONS).map(|entries| entries.flatten().map(|entry| entry.path().join("bin")));
    let mut found: Vec<PathBuf> =
        versions.into_iter().flatten().filter(|bin| bin.join("initdb").exists()).collect();
    found.sort();
    found.pop().ok_or_else(|| "needs PostgreSQL's server (the package postgresql)".to_owned())
}

impl Postgres {
    /// Makes a cluster in a folder, which must not be there yet, and starts its server. Its superuser is
    /// `postgres`, and whoever reaches the socket is believed.
    #[must_use]
    pub fn start(bin: &Path, folder: &Path) -> Self {
        fs::create_dir_all(folder).expect("a folder");
        // It refuses to run as root.
        let user = is_root().then(|| user("postgres").expect("the package has made the user"));
        if let Some((uid, gid)) = user {
            chown(folder, Some(uid), Some(gid)).expect("given to the user");
        }
        let mut initdb = command(&bin.join("initdb"), user);
        initdb.args([
            "--auth=trust",
            "--username=postgres",
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C",
            "-D",
        ]);
        let made = initdb.arg(folder.join("data")).stdout(Stdio::null()).output().expect("initdb runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let daemon = serve(bin, folder, user);
        let server = Self { folder: folder.to_owned(), bin: bin.to_owned(), user, daemon };
        server.wait();
        server
    }

    pub fn address(&self, database: &str) -> String {
        format!("postgresql:///{database}?host={}&user=postgres", self.folder.display())
    }

    /// Carries out a statement in a database with the server's own client, and gives what it prints.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let output = Command::new(self.bin.join("psql"))
            .args(["--no-psqlrc", "--tuples-only", "--no-align", "-v", "ON_ERROR_STOP=1", "-c", statement])
            .arg(self.address(database))
            .output()
            .expect("psql runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Ends the server at once, as a power loss would, and starts it again.
    pub fn restart(&mut self) {
        self.end();
        self.daemon = serve(&self.bin, &self.folder, self.user);
        self.wait();
    }

    fn wait(&self) {
        let end = Instant::now() + Duration::from_secs(300);
        let ready = || {
            let mut asks = Command::new(self.bin.join("pg_isready"));
            asks.arg("-q").arg("-h").arg(&self.folder).status().is_ok_and(|status| status.success())
        };
        while !ready() {
            assert!(Instant::now() < end, "the server does not come up");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn end(&mut self) {
        // SIGQUIT: at once, with all of its processes.
        drop(Command::new("kill").args(["-QUIT", &self.daemon.id().to_string()]).status());
        drop(self.daemon.wait());
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.end();
    }
}

fn serve(bin: &Path, folder: &Path, user: Option<(u32, u32)>) -> Child {
    let mut daemon = command(&bin.join("postgres"), user);
    daemon.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
    daemon.args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=16MB"]);
    daemon.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the server starts")
}

fn command(program: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").stdin(Stdio::null());
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command
}

fn is_root() -> bool {
    crate::require_root().is_ok()
}

/// User and group by a name of `passwd(5)`.
fn user(name: &str) -> Option<(u32, u32)> {
    let text = fs::read_to_string("/etc/passwd").ok()?;
    let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}
