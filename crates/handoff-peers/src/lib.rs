//! Other people's IPC beside ours, for comparison only.
//!
//! Each is used as its documentation recommends for a request that is answered: the client sends the
//! payload, the server adds its bytes up with the same function as ours and answers with the sum, and
//! the client waits. Client and server are two processes, placed as ours are, timed by the same clock.
//!
//! What the kernel has needs nothing. The libraries are behind the feature `libraries`, which nothing
//! builds by default: they are much to compile. `tachyon` is a feature of its own, since it needs a compiler of C++23
//! (`CXX=clang++-19`) and libclang.
//!
//! [`Kind::OURS`] is a call of `handoff-ipc`, asked and timed by the same code.
//!
//! A program that uses this crate calls [`play_if_peer`] first in its `main`.

mod handed;
mod kernel;
#[cfg(feature = "libraries")]
mod libraries;
mod lines;
mod ours;
mod process;
mod queues;
mod stream;

use std::fmt;
use std::io;
use std::path::Path;

use handoff_ipc::SharedMemory;
use serde::{Deserialize, Serialize};

pub use process::{Clients, Held, PeerTransport, Spaced, Usage, open, open_in_place, play_if_peer};
pub use queues::{QueueKind, Ring};

/// One way of other people's, or ours in the same harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Two named pipes.
    Pipe,
    /// A Unix stream socket, each message behind its length.
    UnixStream,
    /// A Unix socket that keeps messages apart.
    UnixSeqpacket,
    /// TCP over loopback without Nagle's algorithm, each message behind its length.
    Tcp,
    /// POSIX message queues.
    PosixMq,
    /// A buffer that both have, and two eventfds.
    EventFd,
    /// iceoryx2: request and response, with events.
    Iceoryx2,
    /// D-Bus without a bus: `zbus`, peer to peer.
    Zbus,
    /// gRPC over a Unix socket: `tonic`, with raw bytes as messages, which is less than protobuf does.
    Tonic,
    /// Cap'n Proto RPC over a Unix socket: `capnp-rpc`.
    Capnp,
    /// `ipc-channel`, as Servo uses it: byte channels.
    IpcChannel,
    /// ZeroMQ: REQ and REP over a Unix socket.
    ZeroMq,
    /// A buffer that both have and a number each way, at which the other one looks all the time.
    Lines,
    /// iceoryx2: request and response, without events: both sides look all the time.
    Iceoryx2Polling,
    /// `tachyon-ipc`: its calls over two rings, at which both sides look all the time.
    Tachyon,
    /// A call of `handoff-ipc` on the `shm` engine, with its defaults.
    Handoff,
}

impl Kind {
    pub const OURS: Kind = Kind::Handoff;

    /// All of other people's, whether this build has them or not.
    pub const ALL: [Kind; 12] = [
        Kind::Pipe,
        Kind::UnixStream,
        Kind::UnixSeqpacket,
        Kind::Tcp,
        Kind::PosixMq,
        Kind::EventFd,
        Kind::Iceoryx2,
        Kind::Zbus,
        Kind::Tonic,
        Kind::Capnp,
        Kind::IpcChannel,
        Kind::ZeroMq,
    ];

    /// Those of other people's whose sides never sleep: for two CPUs that have nothing else to do.
    pub const SPINNING: [Kind; 3] = [Kind::Lines, Kind::Iceoryx2Polling, Kind::Tachyon];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Pipe => "pipe",
            Kind::UnixStream => "Unix stream",
            Kind::UnixSeqpacket => "Unix seqpacket",
            Kind::Tcp => "TCP loopback",
            Kind::PosixMq => "POSIX mq",
            Kind::EventFd => "eventfd + memory",
            Kind::Iceoryx2 => "iceoryx2",
            Kind::Zbus => "zbus p2p",
            Kind::Tonic => "tonic (gRPC)",
            Kind::Capnp => "capnp-rpc",
            Kind::IpcChannel => "ipc-channel",
            Kind::ZeroMq => "ZeroMQ",
            Kind::Lines => "memory, spinning",
            Kind::Iceoryx2Polling => "iceoryx2, polling",
            Kind::Tachyon => "tachyon",
            Kind::Handoff => "handoff call",
        }
    }

    /// The version that this build has: of the kernel for what the kernel has.
    pub fn version(self) -> String {
        match self {
            Kind::Iceoryx2 | Kind::Iceoryx2Polling => locked("iceoryx2"),
            Kind::Tachyon => locked("tachyon-ipc"),
            Kind::Zbus => locked("zbus"),
            Kind::Tonic => locked("tonic"),
            Kind::Capnp => locked("capnp-rpc"),
            Kind::IpcChannel => locked("ipc-channel"),
            Kind::ZeroMq => locked("zmq"),
            Kind::Handoff => env!("CARGO_PKG_VERSION").to_owned(),
            _ => format!("Linux {}", rustix::system::uname().release().to_string_lossy()),
        }
    }

    /// Largest message, in bytes.
    pub fn largest(self) -> usize {
        match self {
            // What the kernel allows without a privilege.
            Kind::PosixMq => 8192,
            // A message is one buffer, of which the kernel grants a socket about 200 KiB.
            Kind::UnixSeqpacket => 128 << 10,
            // What its rings have room for.
            Kind::Tachyon => 64 << 10,
            _ => handoff_workloads::transports::MAX_PAYLOAD,
        }
    }

    /// How many clients one server takes.
    pub fn most_clients(self) -> usize {
        match self {
            // One pair of pipes, of queues, of rings, or one buffer.
            Kind::Pipe | Kind::PosixMq | Kind::EventFd | Kind::Lines | Kind::Tachyon => 1,
            // What its service was made for, so that one who connects late still finds room.
            Kind::Iceoryx2 | Kind::Iceoryx2Polling => 16,
            _ => usize::MAX,
        }
    }

    /// Serves for ever at `address`; calls `ready` once clients can connect.
    fn serve(self, address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
        match self {
            Kind::Pipe => kernel::pipe::serve(address, ready),
            Kind::UnixStream => kernel::sockets::serve_unix(address, ready),
            Kind::UnixSeqpacket => kernel::sockets::serve_seqpacket(address, ready),
            Kind::Tcp => kernel::sockets::serve_tcp(address, ready),
            Kind::PosixMq => kernel::mq::serve(address, ready),
            Kind::EventFd => kernel::eventfd::serve(address, ready),
            Kind::Lines => lines::serve(address, ready),
            Kind::Handoff => ours::serve(address, ready),
            #[cfg(feature = "libraries")]
            other => libraries::serve(other, address, ready),
            #[cfg(not(feature = "libraries"))]
            other => Err(not_built(other)),
        }
    }

    /// Asks with a payload that is made where the server reads it, in memory that both have: nothing copies it.
    fn connect_in_place(self, address: &Path) -> io::Result<Ask> {
        match self {
            Kind::Lines => lines::connect_in_place(address),
            Kind::Handoff => ours::connect_in_place(address),
            #[cfg(feature = "libraries")]
            other => libraries::connect_in_place(other, address),
            #[cfg(not(feature = "libraries"))]
            other => Err(not_built(other)),
        }
    }

    fn connect(self, address: &Path) -> io::Result<Ask> {
        match self {
            Kind::Pipe => kernel::pipe::connect(address),
            Kind::UnixStream => kernel::sockets::connect_unix(address),
            Kind::UnixSeqpacket => kernel::sockets::connect_seqpacket(address),
            Kind::Tcp => kernel::sockets::connect_tcp(address),
            Kind::PosixMq => kernel::mq::connect(address),
            Kind::EventFd => kernel::eventfd::connect(address),
            Kind::Lines => lines::connect(address),
            Kind::Handoff => ours::connect(address),
            #[cfg(feature = "libraries")]
            other => libraries::connect(other, address),
            #[cfg(not(feature = "libraries"))]
            other => Err(not_built(other)),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Bytes that [`fill`] writes at once.
const PIECE: usize = 4096;

/// Sends a payload and gives the sum that the server answers with.
type Ask = Box<dyn FnMut(&[u8]) -> io::Result<u8>>;

fn not_built(kind: Kind) -> io::Error {
    let feature = if kind == Kind::Tachyon { "tachyon" } else { "libraries" };
    io::Error::other(format!("{kind} is not part of this build; build with the feature `{feature}`"))
}

/// The version in the lock file that this program was built from.
fn locked(package: &str) -> String {
    let name = format!("name = \"{package}\"\nversion = \"");
    let lock = include_str!(concat!(env!("OUT_DIR"), "/Cargo.lock"));
    let version = lock.split_once(&name).and_then(|(_, rest)| rest.split_once('"'));
    version.map_or_else(|| "unknown".to_owned(), |(version, _)| version.to_owned())
}

/// Makes a payload at that place: so many of the byte that all bytes of `message` are. The piece that is written again and
/// again stays in the nearest cache, as a value of a register would be at hand.
fn fill(memory: &SharedMemory, at: usize, message: &[u8]) -> io::Result<()> {
    let piece = &message[..message.len().min(PIECE)];
    (0..message.len()).step_by(PIECE).try_for_each(|from| {
        let piece = &piece[..piece.len().min(message.len() - from)];
        memory.write_at(at + from, piece).map_err(io::Error::other)
    })
}

/// What every server does with a message.
fn sum(message: &[u8]) -> u8 {
    handoff_workloads::transports::sum(message.into())
}
