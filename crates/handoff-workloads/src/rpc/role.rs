//! What a second process is told to be, and what it is asked then. `play.rs` is how it plays that.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::host::Address;
use super::service::Stamps;
use super::{EngineKind, Parameters, ServerOptions};
use crate::error::Result;
use crate::peer::Peer;

/// In the environment of a peer, and of nothing else: its role as JSON.
pub(super) const ROLE: &str = "HANDOFF_WORKLOAD_PEER";

/// The role of a peer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    Server(Server),
    Client(Client),
    TransportReceiver(TransportReceiver),
    TransportSender(TransportSender),
}

impl Role {
    fn name(&self) -> &'static str {
        match self {
            Role::Server(_) => "server",
            Role::Client(_) => "client",
            Role::TransportReceiver(_) => "receiver",
            Role::TransportSender(_) => "sender",
        }
    }

    /// Starts a peer that plays it, waits until it is ready, and gives what it says then.
    pub(crate) fn start<A: DeserializeOwned>(&self) -> Result<(Peer, A)> {
        Peer::start_as(ROLE, self.name(), self)
    }
}

/// A process that serves calls until its parent ends it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Server {
    pub(crate) calls: Parameters,
    pub(crate) serving: ServerOptions,
    pub(crate) cpu: Option<usize>,
}

/// A process that makes calls when it is told to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) calls: Parameters,
    /// The server; the client serves itself if absent.
    pub(crate) address: Option<Address>,
    pub(crate) serving: ServerOptions,
    pub(crate) cpu: Option<usize>,
}

/// A process that receives by every transport until its parent ends it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TransportReceiver {
    pub(crate) engines: Vec<EngineKind>,
    pub(crate) cpu: Option<usize>,
}

/// A process that sends by every transport when it is told to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TransportSender {
    pub(crate) addresses: Vec<(EngineKind, Address)>,
    pub(crate) cpu: Option<usize>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum AskServer {
    /// CPU time of the process so far, in nanoseconds.
    CpuTime,
    /// To stamp the points inside of the engine from now on. Answers with nothing.
    StartPhases,
    /// To stop that: [`EnginePoint`]s for an answer.
    StopPhases,
}

/// A point inside of the engine, as it is sent: the number of its `handoff_ipc::shm::phases::Point`, and its
/// nanoseconds.
pub(crate) type EnginePoint = (u8, u64);

/// What a client is asked, whatever the workload; `play::AskWorkload` is the rest.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum AskClient {
    /// Echo calls: [`Batch`] for an answer.
    Echo { payload: usize, samples: u32, trips: u32 },
    /// Calls with stamps: [`StampedCalls`] for an answer.
    Stamped { payload: usize, calls: u32 },
    /// As [`AskServer::StartPhases`].
    StartPhases,
    /// As [`AskServer::StopPhases`].
    StopPhases,
    /// To hold so many objects of the server and call some of them: [`ObjectTimes`] for an answer and, once all have died, the
    /// nanoseconds at which it heard of the last one.
    Hold { objects: u32, calls: u32 },
    /// Long calls without a pause, until it is ended. There is no answer.
    Busy { steps: u32 },
}

/// First answer to [`AskClient::Hold`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ObjectTimes {
    /// Nanoseconds an object of each reply that brought some.
    pub(crate) take: Vec<f64>,
    /// Nanoseconds of each call.
    pub(crate) call: Vec<u64>,
    /// Nanoseconds an object to ask for its death notice.
    pub(crate) link: f64,
}

/// Answer to [`AskClient::Echo`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Batch {
    /// Nanoseconds of each sample.
    pub(crate) samples: Vec<u64>,
    /// CPU time that the client's process used meanwhile, in nanoseconds.
    pub(crate) cpu: u64,
}

/// Answer to [`AskClient::Stamped`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StampedCalls {
    /// The thread that made the calls.
    pub(crate) client: i32,
    pub(crate) calls: Vec<Stamps>,
}
