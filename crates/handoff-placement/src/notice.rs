//! Tells a running policy who is in the foreground, and who offers a service.
//!
//! A session manager, an application or the IPC runtime calls these; without a daemon they fail, and
//! a caller that does not mind ignores that. [`Notice`] is for one that must not wait either.

use crate::tid::Tid;
use rustix::fd::AsFd;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::geteuid;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the policy of the whole machine keeps its socket and its journal.
pub const SYSTEM_FOLDER: &str = "/run/handoff";

/// The longest line, in bytes, that a policy reads from its socket.
pub const LONGEST_LINE: usize = 256;

/// The longest answer, in bytes: every process of a machine fits.
const LONGEST_ANSWER: u64 = 64 << 20;

/// The variable that names another folder.
pub const FOLDER_VARIABLE: &str = "HANDOFF_POLICY";

/// Where a policy keeps its socket and its journal: `$HANDOFF_POLICY`, else `/run/handoff` for root and a
/// folder of the user's own for others.
#[must_use]
pub fn default_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty()) {
        return PathBuf::from(folder);
    }
    if geteuid().is_root() {
        return PathBuf::from(SYSTEM_FOLDER);
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) => PathBuf::from(folder).join("handoff"),
        None => std::env::temp_dir().join(format!("handoff-{}", rustix::process::getuid().as_raw())),
    }
}

/// The socket in a folder.
#[must_use]
pub fn socket(folder: &Path) -> PathBuf {
    folder.join("policy.sock")
}

/// Says that a process came to the foreground, or left it. It is answered after the process was placed.
///
/// # Errors
///
/// If no policy is running there, or it refuses.
pub fn foreground(folder: &Path, pid: Tid, is_foreground: bool) -> io::Result<String> {
    request(folder, &format!("foreground {pid} {}", if is_foreground { "on" } else { "off" }))
}

/// Says that a process offers a service under a name.
///
/// # Errors
///
/// If no policy is running there, or it refuses.
pub fn service(folder: &Path, pid: Tid, name: &str) -> io::Result<String> {
    request(folder, &format!("service {pid} {name}"))
}

/// What is told of the process that tells it, to whichever policy may care, without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice<'a> {
    /// It came to the foreground, or left it.
    Foreground(bool),
    /// It offers a service under this name.
    Service(&'a str),
}

impl Notice<'_> {
    /// Tells this user's policy and that of the whole machine (or only that which `$HANDOFF_POLICY` names);
    /// gives how many of them listen.
    ///
    /// It costs a few system calls where none runs, and never waits for an answer.
    pub fn tell(self) -> usize {
        let mut folders = vec![default_folder()];
        if std::env::var_os(FOLDER_VARIABLE).is_none() && folders[0] != Path::new(SYSTEM_FOLDER) {
            folders.push(SYSTEM_FOLDER.into());
        }
        folders.iter().filter(|folder| self.tell_at(folder).is_ok()).count()
    }

    /// Tells the policy in a folder, without waiting for its answer.
    ///
    /// # Errors
    ///
    /// If none listens there, or it has too much to read already.
    pub fn tell_at(self, folder: &Path) -> io::Result<()> {
        let me = std::process::id();
        let line = match self {
            Self::Foreground(true) => format!("foreground {me} on"),
            Self::Foreground(false) => format!("foreground {me} off"),
            Self::Service(name) => format!("service {me} {name}"),
        };
        check(&line)?;
        // A blocking connect waits while a policy that hangs has a full queue.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&stream, &SocketAddrUnix::new(socket(folder))?)?;
        is_believed(&stream, folder)?;
        UnixStream::from(stream).write_all(format!("{line}\n").as_bytes())
    }
}

/// The processes that are placed, as JSON.
pub fn status(folder: &Path) -> io::Result<String> {
    request(folder, "status")
}

/// What the policy knows of one process, placed or not, as JSON: one object like those of [`status`].
pub fn process(folder: &Path, pid: Tid) -> io::Result<String> {
    request(folder, &format!("process {pid}"))
}

/// Sends one line; gives what was answered after `ok`.
fn request(folder: &Path, line: &str) -> io::Result<String> {
    check(line)?;
    let mut stream = UnixStream::connect(socket(folder))?;
    is_believed(&stream, folder)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream.take(LONGEST_ANSWER)).read_line(&mut answer)?;
    let answer = answer.trim_end();
    match answer.split_once(' ').unwrap_or((answer, "")) {
        ("ok", rest) => Ok(rest.to_owned()),
        ("error", reason) => Err(io::Error::other(reason.to_owned())),
        _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the policy ended before it answered")),
    }
}

/// A folder in `/tmp` may be anybody's. The kernel says who listens there.
fn is_believed(stream: impl AsFd, folder: &Path) -> io::Result<()> {
    let uid = socket_peercred(stream)?.uid;
    if uid.is_root() || uid == geteuid() {
        return Ok(());
    }
    let text = format!(
        "the policy in {} is that of user {}: only root's and your own are listened to; name another folder in \
         {FOLDER_VARIABLE}",
        folder.display(),
        uid.as_raw()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

fn check(line: &str) -> io::Result<()> {
    if line.contains(['\n', '\0']) || line.len() > LONGEST_LINE {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a name is too long or has a line break"));
    }
    Ok(())
}
