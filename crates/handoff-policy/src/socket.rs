//! How foreground changes reach the daemon: one line a connection, over a Unix socket.
//!
//! `foreground PID on|off`, `service PID NAME` and `status` are answered with `ok ...` or `error ...`.
//! The kernel says who asks: root and the daemon's own user may speak for any process, others only for
//! their own.

use handoff_placement::Tid;
use rustix::net::sockopt::socket_peercred;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of the longest request.
pub(super) const LONGEST: usize = handoff_placement::notice::LONGEST_LINE;

/// Connections that may wait at once, and how long: a client that stays silent is dropped.
const MOST: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    Foreground { pid: Tid, on: bool },
    Service { pid: Tid, name: String },
    Status,
}

impl Request {
    fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap_or_default();
        let mut pid = || {
            let word = words.next().unwrap_or_default();
            word.parse()
                .ok()
                .and_then(Tid::new)
                .ok_or_else(|| format!("`{}` is not a process", printable(word)))
        };
        let request = match verb {
            "foreground" => {
                let pid = pid()?;
                match words.next() {
                    Some("on") => Self::Foreground { pid, on: true },
                    Some("off") => Self::Foreground { pid, on: false },
                    _ => return Err("say `foreground PID on` or `foreground PID off`".to_owned()),
                }
            }
            "service" => {
                let pid = pid()?;
                let name = words.next().ok_or("say `service PID NAME`")?.to_owned();
                Self::Service { pid, name }
            }
            "status" => Self::Status,
            _ => return Err(format!("`{}` is not foreground, service or status", printable(verb))),
        };
        if words.next().is_some() {
            Err("there is more on the line than is understood".to_owned())
        } else {
            Ok(request)
        }
    }

    /// The process that it speaks for.
    fn pid(&self) -> Option<Tid> {
        match self {
            Self::Foreground { pid, .. } | Self::Service { pid, .. } => Some(*pid),
            Self::Status => None,
        }
    }
}

fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

/// A client that has not said its line yet.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) stream: UnixStream,
    line: Vec<u8>,
    since: Instant,
}

/// The socket, and who is connected.
#[derive(Debug)]
pub(super) struct Server {
    path: PathBuf,
    pub(super) listener: UnixListener,
    pub(super) clients: Vec<Client>,
}

impl Server {
    /// Listens in a folder. Whoever holds the journal's lock may take the place of a dead socket.
    pub(super) fn listen(path: PathBuf) -> io::Result<Self> {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        // Any user may speak for processes of his own.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
        Ok(Self { path, listener, clients: Vec::new() })
    }

    pub(super) fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() < MOST && stream.set_nonblocking(true).is_ok() {
                self.clients.push(Client { stream, line: Vec::new(), since: Instant::now() });
            }
        }
    }

    /// Reads what clients have said; gives whole requests, each with the stream to answer on.
    pub(super) fn requests(&mut self) -> Vec<(Request, UnixStream)> {
        let mut whole = Vec::new();
        let mut waiting = Vec::new();
        for mut client in self.clients.drain(..) {
            match client.read() {
                None if client.since.elapsed() < PATIENCE => waiting.push(client),
                None => {}
                Some(Ok(request)) => whole.push((request, client.stream)),
                Some(Err(reason)) => answer(&client.stream, Err(&reason)),
            }
        }
        self.clients = waiting;
        whole
    }

    /// When the most silent client is to be dropped.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.clients.iter().map(|client| client.since + PATIENCE).min()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Client {
    /// `None` while the line is not complete.
    fn read(&mut self) -> Option<Result<Request, String>> {
        // More than a line, so that one that is too long is read before it is answered.
        let mut buffer = [0; 4 * LONGEST];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Some(Err("the line ended early".to_owned())),
                Ok(length) => self.line.extend(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Some(Err(error.to_string())),
            }
            if self.line.len() > LONGEST || self.line.contains(&b'\n') {
                break;
            }
        }
        let Some(end) = self.line.iter().position(|&byte| byte == b'\n') else {
            return (self.line.len() > LONGEST).then(|| Err("the line is too long".to_owned()));
        };
        let line = String::from_utf8_lossy(&self.line[..end]).into_owned();
        Some(Request::parse(&line).and_then(|request| self.may_ask(&request).map(|()| request)))
    }

    fn may_ask(&self, request: &Request) -> Result<(), String> {
        let asks = socket_peercred(&self.stream).map_err(|e| format!("nobody knows who asks: {e}"))?.uid;
        if asks.is_root() || asks == rustix::process::geteuid() {
            return Ok(());
        }
        let Some(pid) = request.pid() else { return Ok(()) };
        let owner = fs::metadata(Path::new("/proc").join(pid.to_string())).map(|process| process.uid());
        match owner {
            Ok(owner) if owner == asks.as_raw() => Ok(()),
            _ => Err(format!("user {} may not speak for process {pid}", asks.as_raw())),
        }
    }
}

/// Answers and hangs up. A client that does not listen is no worry of ours.
pub(super) fn answer(mut stream: &UnixStream, result: Result<&str, &str>) {
    let (word, rest) = match result {
        Ok(text) => ("ok", text),
        Err(reason) => ("error", reason),
    };
    let _ = stream.write_all(format!("{word} {}\n", rest.replace('\n', " ")).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_read_or_refused_with_a_reason() {
        let pid = Tid::new(7).unwrap();
        assert_eq!(Request::parse("foreground 7 on"), Ok(Request::Foreground { pid, on: true }));
        assert_eq!(Request::parse(" service 7 maps "), Ok(Request::Service { pid, name: "maps".to_owned() }));
        assert_eq!(Request::parse("status"), Ok(Request::Status));
        for (line, says) in [
            ("", "not foreground"),
            ("foreground", "not a process"),
            ("foreground 0 on", "not a process"),
            ("foreground -7 on", "not a process"),
            ("foreground 7", "on` or"),
            ("foreground 7 on and on", "more on the line"),
            ("service 7", "service PID NAME"),
        ] {
            let error = Request::parse(line).unwrap_err();
            assert!(error.contains(says), "{line:?}: {error}");
        }
    }

    #[test]
    fn long_and_broken_lines_are_answered_and_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let mut server = Server::listen(path.clone()).unwrap();
        let say = |bytes: &[u8]| {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        };
        let long = say(&[b'x'; LONGEST + 10]);
        let silent = say(b"");
        let good = say(b"status\n");
        server.accept();
        assert_eq!(server.clients.len(), 3);
        let requests = server.requests();
        assert!(matches!(requests[..], [(Request::Status, _)]));
        assert_eq!(server.clients.len(), 1, "the silent one may still speak");
        let mut said = String::new();
        (&long).read_to_string(&mut said).unwrap();
        assert_eq!(said, "error the line is too long\n");
        drop((silent, good));
        assert!(server.requests().is_empty() && server.clients.is_empty());
        drop(server);
        assert!(!path.exists());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn any_line_is_read_or_refused(line in "(foreground|service|status)? ?-?[0-9]{0,12} ?[a-z]{0,4}|\\PC{0,20}") {
            let _ = Request::parse(&line);
        }
    }
}
