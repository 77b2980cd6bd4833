//! Tells a running policy who is in the foreground, and who offers a service.
//!
//! A session manager, an application or the IPC runtime calls these; without a daemon they fail, and
//! a caller that does not mind ignores that.

use crate::tid::Tid;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a policy keeps its socket and its journal: `/run/handoff` for root, otherwise a folder of the
/// user's own.
#[must_use]
pub fn default_folder() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/run/handoff");
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

/// The processes that are placed, as JSON.
///
/// # Errors
///
/// If no policy is running there.
pub fn status(folder: &Path) -> io::Result<String> {
    request(folder, "status")
}

/// Sends one line; gives what was answered after `ok`.
fn request(folder: &Path, line: &str) -> io::Result<String> {
    if line.contains(['\n', '\0']) || line.len() > super::socket::LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a name is too long or has a line break"));
    }
    let mut stream = UnixStream::connect(socket(folder))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    let answer = answer.trim_end();
    match answer.split_once(' ').unwrap_or((answer, "")) {
        ("ok", rest) => Ok(rest.to_owned()),
        ("error", reason) => Err(io::Error::other(reason.to_owned())),
        _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the policy ended before it answered")),
    }
}
