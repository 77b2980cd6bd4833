//! The object that each process gives to the manager along with its services: what its engine did.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::calling::Proxy;
use crate::code::Code;
use crate::engine::{Engine, EngineStats, HeldResources};
use crate::object::{Binder, Service, Transaction};
use crate::parcel::{Parcelable, Reader, Writer};
use crate::{Error, Result};

const DESCRIPTOR: &str = "handoff.IProcess";
const REPORT: Code = 1;

/// What a process tells of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessReport {
    /// Its process id, in its own namespace.
    pub pid: u32,
    /// How long its runtime has existed.
    pub age: Duration,
    /// What its engine did.
    pub stats: EngineStats,
}

impl Parcelable for ProcessReport {
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        let (stats, held) = (&self.stats, &self.stats.held);
        to.write_sized(|to| {
            to.write(&self.pid)?;
            to.write(&(self.age.as_nanos() as u64))?;
            [
                stats.calls,
                stats.served,
                stats.served_oneway,
                stats.spun,
                stats.slept,
                stats.beside,
                stats.priority_changes,
                stats.raised,
                stats.inherit_denied,
                stats.threads,
                stats.links,
                stats.oneway_spam,
                stats.unknown_returns,
                stats.refused,
                stats.messages,
                held.descriptors,
                held.mappings,
                held.bytes,
                held.exports,
                held.introductions,
                held.threads,
            ]
            .iter()
            .try_for_each(|count| to.write(count))
        })
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        from.read_sized(|from| {
            Ok(ProcessReport {
                pid: from.read()?,
                age: Duration::from_nanos(from.read()?),
                stats: EngineStats {
                    calls: from.read()?,
                    served: from.read()?,
                    served_oneway: from.read()?,
                    spun: from.read()?,
                    slept: from.read()?,
                    beside: from.read()?,
                    priority_changes: from.read()?,
                    raised: from.read()?,
                    inherit_denied: from.read()?,
                    threads: from.read()?,
                    links: from.read()?,
                    oneway_spam: read_newer(from)?,
                    unknown_returns: read_newer(from)?,
                    refused: read_newer(from)?,
                    messages: read_newer(from)?,
                    held: HeldResources {
                        descriptors: read_newer(from)?,
                        mappings: read_newer(from)?,
                        bytes: read_newer(from)?,
                        exports: read_newer(from)?,
                        introductions: read_newer(from)?,
                        threads: read_newer(from)?,
                    },
                },
            })
        })
    }
}

/// A count that processes of older builds do not send.
fn read_newer(from: &mut Reader<'_>) -> Result<u64> {
    if from.remaining() > 0 { from.read() } else { Ok(0) }
}

/// Proxy of a process's own object.
#[derive(Debug, Clone)]
pub struct Process(Binder);

impl Process {
    /// What the process tells of itself, if it answers within `timeout`.
    ///
    /// # Errors
    /// As [`CallBuilder::call`](crate::CallBuilder::call).
    pub fn report(&self, timeout: Duration) -> Result<ProcessReport> {
        self.0.transaction(REPORT).deadline(timeout).call(|_| Ok(()), |reply| reply.read())
    }
}

impl Proxy for Process {
    const DESCRIPTOR: &'static str = DESCRIPTOR;

    fn wrap(binder: Binder) -> Self {
        Process(binder)
    }
}

pub(crate) struct ProcessObject {
    engine: Weak<dyn Engine>,
    since: Instant,
}

impl ProcessObject {
    pub(crate) fn binder(engine: &Arc<dyn Engine>) -> Binder {
        // Weak: the engine's links hold what was handed to others, this object among it.
        Binder::new(ProcessObject { engine: Arc::downgrade(engine), since: Instant::now() })
    }
}

impl Service for ProcessObject {
    fn descriptor(&self) -> &str {
        DESCRIPTOR
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let Transaction { reply, .. } = transaction;
        match transaction.call.code() {
            REPORT => reply.write(&ProcessReport {
                pid: std::process::id(),
                age: self.since.elapsed(),
                stats: self.engine.upgrade().ok_or(Error::Dead)?.stats(),
            }),
            _ => Err(transaction.unknown(DESCRIPTOR)),
        }
    }
}
