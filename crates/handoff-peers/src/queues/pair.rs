//! A queue of ours whose writer is another process.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use handoff_ipc::parcel::Reader as Parcel;
use handoff_ipc::queue::{Descriptor, MessageQueue, Reader, Synchronized};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Code, Runtime, Service, Transaction};
use handoff_workloads::Error;
use handoff_workloads::peer::{Channel, Peer, play};
use serde::{Deserialize, Serialize};

use super::race::{cpus, pin, read, write};
use super::{BATCH, Message, fmq};

/// In the environment of the writing process: its role.
const ROLE: &str = "HANDOFF_PEERS_RING";
const NAME: &str = "handoff.peers.IRing";
const TAKE: Code = 1;
/// Nothing takes longer, unless a process hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// What the writing process is.
#[derive(Debug, Serialize, Deserialize)]
struct Role {
    socket: PathBuf,
    cpu: Option<usize>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Ask {
    messages: u64,
    batch: usize,
}

/// Gives the queue to whom it asks.
struct Giver(MessageQueue<Message, Synchronized>);

impl Service for Giver {
    fn descriptor(&self) -> &str {
        NAME
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> handoff_ipc::Result<()> {
        let Transaction { reply, .. } = transaction;
        reply.write(&self.0.descriptor()?)
    }
}

/// Plays the writer, and does not return, if this process was started as one.
pub(crate) fn play_if_writer() {
    play(ROLE, |role: Role, mut parent| {
        let queue = pin(role.cpu).and_then(|()| attach(role.socket).map_err(io::Error::other));
        match queue {
            Ok(queue) => serve(&queue, parent),
            Err(error) => parent.say::<()>(Err(Error::io("cannot attach to the queue", error))),
        }
    });
}

fn attach(socket: PathBuf) -> handoff_ipc::Result<MessageQueue<Message, Synchronized>> {
    let runtime = Runtime::builder().socket(socket).connect()?;
    let take = |parcel: &mut Parcel<'_>| parcel.read::<Descriptor<Message, Synchronized>>();
    MessageQueue::attach(runtime.services().get(NAME)?.transaction(TAKE).call(|_| Ok(()), take)?)
}

fn serve(queue: &MessageQueue<Message, Synchronized>, mut parent: Channel) -> handoff_workloads::Result<()> {
    let cannot = |error| Error::io("cannot write to the queue", io::Error::other(error));
    let mut end = queue.writer().map_err(cannot)?;
    let never = AtomicBool::new(false);
    parent.say(Ok(()))?;
    loop {
        let Ask { messages, batch } = parent.asked()?;
        match batch {
            1 => write::<1>(messages, |batch| end.write(batch).is_ok(), &never),
            _ => write::<BATCH>(messages, |batch| end.write(batch).is_ok(), &never),
        }
        parent.say(Ok(()))?;
    }
}

/// The reading end, and the process that writes.
pub(super) struct Pair {
    reader: Reader<Message, Synchronized>,
    writer: Peer,
    // Serves the writer while it connects.
    _runtime: Runtime,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pair(process {} writes)", self.writer.pid())
    }
}

impl Pair {
    pub(super) fn start() -> io::Result<Self> {
        let (queue, runtime) = (fmq()?, Runtime::private().map_err(io::Error::other)?);
        let reader = queue.reader().map_err(io::Error::other)?;
        let added = runtime.services().add(NAME, Binder::new(Giver(queue)), ServiceOptions::default());
        added.map_err(io::Error::other)?;
        let socket = runtime.socket().ok_or_else(|| io::Error::other("a private manager has a socket"))?;
        let role = Role { socket: socket.into(), cpu: cpus().map(|[_, writer]| writer) };
        let (writer, ()) = Peer::start_as(ROLE, "queue's writer", &role).map_err(io::Error::other)?;
        Ok(Pair { reader, writer, _runtime: runtime })
    }

    pub(super) fn rate<const N: usize>(&mut self, messages: u64) -> io::Result<f64> {
        self.writer.tell(&Ask { messages, batch: N }).map_err(io::Error::other)?;
        let reader = &mut self.reader;
        // On a thread of its own, which may be left pinned.
        let rate = thread::scope(|scope| {
            let reading = scope.spawn(|| {
                pin(cpus().map(|[reader, _]| reader))?;
                read::<N>(messages, |batch| reader.read(batch).is_ok())
            });
            reading.join().map_err(|_| io::Error::other("the reading end of a ring died"))?
        })?;
        self.writer.answer::<()>(LIMIT).map_err(io::Error::other)?;
        Ok(rate)
    }
}
