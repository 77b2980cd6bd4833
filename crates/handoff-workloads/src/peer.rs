//! Second processes that run the IPC runtime: how they are started, told what to do, and ended.
//!
//! A peer has threads and a heap, so it cannot be forked from a process that has threads itself. It is
//! this very program, started again: its `main` calls [`play_if_peer`](crate::play_if_peer) first, which never returns in a
//! peer. Parent and peer talk over the peer's standard input, a socket, on which each message is a
//! length and JSON. When the parent ends, however it ends, the socket closes and the peer exits.

use std::ffi::OsString;
use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Whether this program can be started again as a peer.
static PLAYS: AtomicBool = AtomicBool::new(false);

/// Arguments with which this program is started as a peer.
static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

const NO_PARENT: &str = "cannot talk to the parent process";

/// No message is longer; what says that it is comes from something else than a peer.
const LONGEST: u32 = 256 << 20;

/// Plays the role that stands in the environment as `name`, and does not return, if this process was started with one.
/// Each crate with roles of its own has a name and a `play_if_peer` that calls this.
pub fn play<R: DeserializeOwned>(name: &str, play: impl FnOnce(R, Channel) -> Result<()>) {
    PLAYS.store(true, Ordering::Relaxed);
    let Some(role) = std::env::var_os(name) else { return };
    let played = role
        .into_string()
        .map_err(|_| Error::parameter("role", "is not text"))
        .and_then(|text| {
            serde_json::from_str(&text).map_err(|error| Error::parameter("role", error.to_string()))
        })
        .and_then(|role: R| play(role, Channel::to_parent()?));
    match played {
        Ok(()) => std::process::exit(0),
        // Who started it was ended, by Ctrl-C for one: nobody is to be told.
        Err(Error::Io { what, source })
            if what == NO_PARENT && matches!(source.kind(), UnexpectedEof | BrokenPipe | ConnectionReset) =>
        {
            std::process::exit(0)
        }
        Err(error) => {
            eprintln!("a process of a workload failed: {error}");
            std::process::exit(1);
        }
    }
}

/// Starts peers with these arguments: for a test, whose `main` is not its own. The arguments name one
/// test function that calls [`play_if_peer`](crate::play_if_peer) and nothing else.
pub fn play_in_test(test: &str) {
    PLAYS.store(true, Ordering::Relaxed);
    ARGUMENTS.get_or_init(|| {
        ["--ignored", "--exact", test, "--nocapture", "--test-threads=1"].map(OsString::from).to_vec()
    });
}

/// One end of the talk between a peer and its parent.
#[derive(Debug)]
pub struct Channel(UnixStream);

impl Channel {
    /// The parent's end, in a peer. Starts a thread that ends the process when the parent is gone.
    fn to_parent() -> Result<Self> {
        let cannot = |error: io::Error| Error::io(NO_PARENT, error);
        let socket: OwnedFd = io::stdin().as_fd().try_clone_to_owned().map_err(cannot)?;
        let watched = socket.try_clone().map_err(cannot)?;
        let watch = move || {
            // Data is for the other thread; only the end of the talk is waited for here.
            let mut polled = [PollFd::new(&watched, PollFlags::RDHUP)];
            while poll(&mut polled, None).is_err() {}
            std::process::exit(0);
        };
        thread::Builder::new()
            .name("parent-watch".into())
            .stack_size(64 << 10)
            .spawn(watch)
            .map_err(cannot)?;
        Ok(Channel(socket.into()))
    }

    /// Answers the parent: with what it asked for, or with why there is none.
    pub fn say<T: Serialize>(&mut self, result: Result<T>) -> Result<()> {
        let answered = self.send(&PeerAnswer::from(result));
        answered.map_err(|error| Error::io(NO_PARENT, error))
    }

    /// The next question of the parent.
    pub fn asked<T: DeserializeOwned>(&mut self) -> Result<T> {
        self.receive().map_err(|error| Error::io(NO_PARENT, error))
    }

    pub(crate) fn send<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        let length = u32::try_from(text.len()).ok().filter(|&length| length <= LONGEST);
        let length = length.ok_or_else(|| io::Error::other("the message is too long"))?;
        self.0.write_all(&length.to_le_bytes())?;
        self.0.write_all(&text)
    }

    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        if length > LONGEST {
            return Err(io::Error::other("the message is too long"));
        }
        let mut text = vec![0; length as usize];
        self.0.read_exact(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }
}

/// What a peer answers: what was asked for, or why there is none.
#[derive(Debug, Serialize, Deserialize)]
enum PeerAnswer<T> {
    Done(T),
    Failed(String),
}

impl<T> From<Result<T>> for PeerAnswer<T> {
    fn from(result: Result<T>) -> Self {
        match result {
            Ok(value) => PeerAnswer::Done(value),
            Err(error) => PeerAnswer::Failed(error.to_string()),
        }
    }
}

/// A peer, seen from its parent. It ends when this is dropped.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    channel: Channel,
    role: &'static str,
}

impl Peer {
    /// Starts a peer, whose program calls [`play`] with the same `variable`, waits until it is ready, and gives what it
    /// says then.
    pub fn start_as<R: Serialize, A: DeserializeOwned>(
        variable: &str,
        name: &'static str,
        role: &R,
    ) -> Result<(Self, A)> {
        if !PLAYS.load(Ordering::Relaxed) {
            return Err(Error::NotSupported {
                workload: "calls between processes",
                reason: "this program does not call handoff_workloads::play_if_peer() first in its main"
                    .into(),
            });
        }
        let cannot = |error: io::Error| Error::io(format!("cannot start the {name} process"), error);
        let (ours, theirs) = UnixStream::pair().map_err(cannot)?;
        let text = serde_json::to_string(role).map_err(|error| cannot(error.into()))?;
        let program = std::env::current_exe().map_err(cannot)?;
        let child = Command::new(program)
            .args(ARGUMENTS.get().into_iter().flatten())
            .env(variable, text)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            // Ctrl-C is for the parent, which asks its peers for what they have; they end with it in any case.
            .process_group(0)
            .spawn()
            .map_err(cannot)?;
        let mut peer = Peer { child, channel: Channel(ours), role: name };
        let ready = peer.answer(START_LIMIT)?;
        Ok((peer, ready))
    }

    /// Asks for something and waits for the answer, at most `limit`.
    pub fn ask<Q: Serialize, A: DeserializeOwned>(&mut self, question: &Q, limit: Duration) -> Result<A> {
        self.tell(question)?;
        self.answer(limit)
    }

    /// Asks without waiting.
    pub fn tell<Q: Serialize>(&mut self, question: &Q) -> Result<()> {
        self.channel.send(question).map_err(|error| self.explain(error, Duration::ZERO))
    }

    /// Waits for the answer to what was asked.
    pub fn answer<A: DeserializeOwned>(&mut self, limit: Duration) -> Result<A> {
        self.channel
            .0
            .set_read_timeout(Some(limit))
            .map_err(|error| Error::io("cannot set a time limit", error))?;
        match self.channel.receive() {
            Ok(PeerAnswer::Done(value)) => Ok(value),
            Ok(PeerAnswer::Failed(why)) => {
                Err(Error::io(format!("the {} process failed", self.role), io::Error::other(why)))
            }
            Err(error) => Err(self.explain(error, limit)),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn explain(&mut self, error: io::Error, limit: Duration) -> Error {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                Error::TimedOut { what: format!("the {} process", self.role), limit }
            }
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                // Its end of the socket is closed, so it is on its way out.
                let how = self.child.wait().map_or_else(
                    |error| error.to_string(),
                    |status| match status.code() {
                        Some(code) => format!("ended with status {code}"),
                        None => format!("was ended by {status}"),
                    },
                );
                Error::PeerDied { role: self.role.to_owned(), how }
            }
            _ => Error::io(format!("cannot talk to the {} process", self.role), error),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Both fail only if it has ended and was waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// How long a peer may take to get ready.
const START_LIMIT: Duration = Duration::from_secs(60);
