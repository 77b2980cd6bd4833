//! A call of ours, for the same harness as the peers: a service that adds up bytes, with the defaults.

use std::io;
use std::path::Path;

use handoff_ipc::servicemanager::{Context, ServiceOptions};
use handoff_ipc::{Binder, Code, ExceptionCode, Runtime, Service, SharedMemory, Status, Transaction};
use handoff_placement::Priority;
use handoff_workloads::transports::MAX_PAYLOAD;

use crate::{Ask, fill};

const NAME: &str = "handoff.peers.ISum";
/// In the context whose callers lend their real-time priority.
const URGENT_NAME: &str = "handoff.peers.ISum/urgent";
const SUM: Code = 1;
const OBJECTS: Code = 2;
/// Takes memory, and gives an object that adds up what lies in it.
const TAKE: Code = 3;
/// Objects of one reply.
const AT_ONCE: usize = 1000;

struct Sum;

impl Service for Sum {
    fn descriptor(&self) -> &str {
        NAME
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> handoff_ipc::Result<()> {
        let Transaction { call, data, reply, .. } = transaction;
        match call.code() {
            OBJECTS => {
                let count = data.read::<u32>()? as usize;
                (0..count.min(AT_ONCE)).try_for_each(|_| reply.write(&Binder::new(Sum)))
            }
            TAKE => reply.write(&Binder::new(SumOf(data.read()?))),
            _ => reply.write(&handoff_workloads::transports::sum(data.read_bytes()?)),
        }
    }
}

/// Adds up what a client made in memory that both have.
struct SumOf(SharedMemory);

impl Service for SumOf {
    fn descriptor(&self) -> &str {
        "handoff.peers.ISumOf"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> handoff_ipc::Result<()> {
        let length = transaction.data.read::<u32>()? as usize;
        let too_long = || Status::new(ExceptionCode::IllegalArgument, "more than the memory holds");
        let message = self.0.bytes().slice(0, length).ok_or_else(too_long)?;
        transaction.reply.write(&handoff_workloads::transports::sum(message))
    }
}

pub(crate) fn serve(address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    let runtime = Runtime::private().map_err(io::Error::other)?;
    for (name, options) in
        [(NAME, ServiceOptions::default()), (URGENT_NAME, ServiceOptions::of(Context::Hardware))]
    {
        runtime.services().add(name, Binder::new(Sum), options).map_err(io::Error::other)?;
    }
    let socket = runtime.socket().ok_or_else(|| io::Error::other("a private manager has a socket"))?;
    std::os::unix::fs::symlink(socket, address)?;
    ready();
    runtime.join_thread_pool();
    Ok(())
}

/// What a client of the server at `address` asks.
fn found(address: &Path) -> io::Result<(Runtime, Binder)> {
    let own = Priority::current().map_err(io::Error::other)?;
    let name = if own.policy.is_realtime() { URGENT_NAME } else { NAME };
    let runtime =
        Runtime::builder().socket(std::fs::read_link(address)?).connect().map_err(io::Error::other)?;
    let sum = runtime.services().get(name).map_err(io::Error::other)?;
    Ok((runtime, sum))
}

pub(crate) fn connect_in_place(address: &Path) -> io::Result<Ask> {
    let (runtime, sum) = found(address)?;
    let memory = SharedMemory::new(MAX_PAYLOAD).map_err(io::Error::other)?;
    let taken = sum.transaction(TAKE).call(|to| to.write(&memory), |from| from.read::<Binder>());
    let taken = taken.map_err(io::Error::other)?;
    Ok(Box::new(move |message| {
        let _runtime = &runtime;
        fill(&memory, 0, message)?;
        let length = message.len() as u32;
        taken.transaction(SUM).call(|to| to.write(&length), |from| from.read()).map_err(io::Error::other)
    }))
}

pub(crate) fn connect(address: &Path) -> io::Result<Ask> {
    let (runtime, sum) = found(address)?;
    Ok(Box::new(move |message| {
        // It holds the connection.
        let _runtime = &runtime;
        sum.transaction(SUM).call(|to| to.write_bytes(message), |from| from.read()).map_err(io::Error::other)
    }))
}

/// Objects of the server, over a connection of their own, which holds as long as they do.
pub(crate) fn objects(address: &Path, count: usize) -> io::Result<Vec<(Runtime, Vec<Binder>)>> {
    let runtime =
        Runtime::builder().socket(std::fs::read_link(address)?).connect().map_err(io::Error::other)?;
    let sum = runtime.services().get(NAME).map_err(io::Error::other)?;
    let mut objects = Vec::with_capacity(count);
    while objects.len() < count {
        let now = AT_ONCE.min(count - objects.len());
        let all = sum.transaction(OBJECTS).call(
            |to| to.write(&(now as u32)),
            |from| (0..now).map(|_| from.read::<Binder>()).collect::<handoff_ipc::Result<Vec<_>>>(),
        );
        objects.extend(all.map_err(io::Error::other)?);
    }
    Ok(vec![(runtime, objects)])
}
