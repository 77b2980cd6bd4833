//! The service that all RPC workloads call, and the proxy through which they do.

use std::time::Duration;

use handoff_ipc::{Binder, Code, Error, Proxy, Result, Scheduling, Service, Transaction};
use handoff_placement::{Priority, Tid};
use serde::{Deserialize, Serialize};

use crate::latency::Lateness;
use crate::spin;
use crate::sys::clock::now;

const ECHO: Code = 1;
const WHERE: Code = 2;
const ADD: Code = 3;
const WORK: Code = 4;
const LATE: Code = 5;
const STAMP: Code = 6;
const OBJECTS: Code = 7;

/// Answers with what it was sent, with where it runs, with a sum, or after some work.
#[derive(Debug)]
pub(crate) struct Probe {
    /// How its threads are scheduled.
    pub(crate) scheduling: Scheduling,
    /// What makes a call late that asks for it.
    lateness: Option<Lateness>,
}

impl Probe {
    pub(crate) fn new(inherit: bool) -> Self {
        Probe { scheduling: Scheduling { floor: None, inherit }, lateness: None }
    }

    /// With what makes calls late that ask for it.
    pub(crate) fn with_lateness(mut self, lateness: Option<Lateness>) -> Self {
        self.lateness = lateness;
        self
    }
}

impl Service for Probe {
    fn descriptor(&self) -> &str {
        ProbeProxy::DESCRIPTOR
    }

    fn scheduling(&self) -> Scheduling {
        self.scheduling
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let code = transaction.code();
        let Transaction { data, reply, .. } = transaction;
        let received = if code == STAMP { now() } else { 0 };
        match code {
            ECHO => reply.write_shared(data.read_bytes()?),
            WHERE | LATE => {
                if let (LATE, Some(lateness)) = (code, &self.lateness) {
                    lateness.happen();
                }
                let location = ThreadLocation::here()?;
                reply.write(&location.cpu)?;
                reply.write(&location.pid)?;
                reply.write(&location.tid)?;
                reply.write(&location.priority.cast_signed())
            }
            ADD => {
                let (a, b): (i32, i32) = (data.read()?, data.read()?);
                reply.write(&a.wrapping_add(b))?;
                reply.write(&cpu_here())
            }
            WORK => {
                let steps: i64 = data.read()?;
                spin::compute(steps.unsigned_abs());
                Ok(())
            }
            STAMP => {
                reply.write_shared(data.read_bytes()?)?;
                reply.write(&Tid::current().as_raw())?;
                reply.write(&received.cast_signed())?;
                reply.write(&now().cast_signed())
            }
            OBJECTS => {
                let count: i32 = data.read()?;
                (0..count).try_for_each(|_| reply.write_binder(Some(&Binder::new(Probe::new(false)))))
            }
            _ => Err(transaction.unknown(self.descriptor())),
        }
    }
}

/// When a call was where, as far as the programs on both sides see it: nanoseconds of [`now`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamps {
    /// The client is about to call.
    pub(crate) send: u64,
    pub(crate) served_from: u64,
    /// The service is done but for the reply's way back.
    pub(crate) served_to: u64,
    /// The reply is being read.
    pub(crate) received: u64,
    /// The client has its answer.
    pub(crate) exit: u64,
    /// The thread that served it.
    pub(crate) server: i32,
}

/// Where and how urgently a thread runs at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ThreadLocation {
    pub(crate) cpu: i32,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    /// Policy, priority and nice: [`Priority::pack`].
    priority: u32,
}

impl ThreadLocation {
    pub(crate) fn here() -> Result<Self> {
        let priority = Priority::current()
            .map_err(|error| Error::io("cannot read the priority", std::io::Error::other(error)))?;
        Ok(ThreadLocation {
            cpu: cpu_here(),
            pid: std::process::id().cast_signed(),
            tid: Tid::current().as_raw(),
            priority: priority.pack(),
        })
    }

    /// Policy, priority and nice.
    pub(crate) fn priority(&self) -> Priority {
        Priority::unpack(self.priority).unwrap_or(Priority::other(0))
    }
}

/// The CPU that the calling thread runs on.
pub(crate) fn cpu_here() -> i32 {
    i32::try_from(rustix::thread::sched_getcpu()).unwrap_or(-1)
}

/// Calls a [`Probe`].
#[derive(Debug, Clone)]
pub(crate) struct ProbeProxy(pub(crate) Binder);

impl Proxy for ProbeProxy {
    const DESCRIPTOR: &'static str = "handoff.workloads.IProbe";

    fn wrap(binder: Binder) -> Self {
        ProbeProxy(binder)
    }
}

impl ProbeProxy {
    /// Sends bytes there and back; they are looked at where they arrive, not copied once more.
    #[inline]
    pub(crate) fn echo(&self, payload: &[u8]) -> Result<()> {
        self.0.transaction(ECHO).call(
            |request| request.write_bytes(payload),
            |reply| {
                let back = reply.read_bytes()?;
                let same_end =
                    payload.len().checked_sub(1).is_none_or(|last| back.get(last) == Some(payload[last]));
                if back.len() == payload.len() && same_end {
                    return Ok(());
                }
                Err(Error::Protocol(format!("{} bytes came back for {}", back.len(), payload.len())))
            },
        )
    }

    /// Where the call was served.
    #[inline]
    pub(crate) fn where_served(&self) -> Result<ThreadLocation> {
        self.location(WHERE)
    }

    /// The same, after what was planted to make it late.
    pub(crate) fn where_served_late(&self) -> Result<ThreadLocation> {
        self.location(LATE)
    }

    #[inline]
    fn location(&self, code: Code) -> Result<ThreadLocation> {
        self.0.transaction(code).call(
            |_| Ok(()),
            |reply| {
                Ok(ThreadLocation {
                    cpu: reply.read()?,
                    pid: reply.read()?,
                    tid: reply.read()?,
                    priority: reply.read::<i32>()?.cast_unsigned(),
                })
            },
        )
    }

    /// A sum, and the CPU on which it was made.
    #[inline]
    pub(crate) fn add(&self, a: i32, b: i32) -> Result<(i32, i32)> {
        self.0.transaction(ADD).call(
            |request| {
                request.write(&a)?;
                request.write(&b)
            },
            |reply| Ok((reply.read()?, reply.read()?)),
        )
    }

    /// [`ProbeProxy::echo`], with the times at which it was where.
    pub(crate) fn stamped(&self, payload: &[u8]) -> Result<Stamps> {
        let send = now();
        let (received, server, served_from, served_to) = self.0.transaction(STAMP).call(
            |request| request.write_bytes(payload),
            |reply| {
                let received = now();
                reply.read_bytes()?;
                let server: i32 = reply.read()?;
                let (from, to): (i64, i64) = (reply.read()?, reply.read()?);
                Ok((received, server, from.cast_unsigned(), to.cast_unsigned()))
            },
        )?;
        Ok(Stamps { send, served_from, served_to, received, exit: now(), server })
    }

    /// So many new objects of the server.
    pub(crate) fn objects(&self, count: u32) -> Result<Vec<Binder>> {
        let missing = || Error::Protocol("the reply has fewer objects than were asked for".into());
        self.0.transaction(OBJECTS).call(
            |request| request.write(&count.cast_signed()),
            |reply| (0..count).map(|_| reply.read_binder()?.ok_or_else(missing)).collect(),
        )
    }

    /// Keeps the server busy for so many steps of [`spin::compute`], or gives up.
    pub(crate) fn work(&self, steps: u32) -> Result<()> {
        self.0.transaction(WORK).call(|request| request.write(&i64::from(steps)), |_| Ok(()))
    }
}

/// No call of a workload takes longer, unless the server hangs.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(300);
