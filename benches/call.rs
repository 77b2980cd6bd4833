//! What a whole call costs, through proxy and stub, beside the cheapest thing that could do the same.
//!
//! `cargo xtask bench call` runs it; without `--rows FILE` it measures a few rounds and prints them.
//! Every round takes one batch of every subject and floor, in an order of its own.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use handoff_benches::{Pair, call, subject, timed};
use handoff_ipc::{EngineKind, Service, SharedMemory, Transaction};
use handoff_lab::interleave::Subject;
use handoff_workloads::Placement;
use handoff_workloads::floor::{self, Primitive};

const SMALL: usize = 8;
const LARGE: usize = 64 << 10;

fn main() -> ExitCode {
    handoff_workloads::play_if_peer();
    handoff_benches::run(subjects)
}

/// Every call with its floor, and what is asked of it.
fn subjects() -> Result<Vec<Subject<'static>>> {
    let one_cpu = Placement::same_cpu()?;
    let futex = "futex ping-pong";
    let copies = "futex ping-pong and one copy each way";
    let mut subjects = vec![
        floor(futex, Primitive::Futex, SMALL, one_cpu)?,
        call("shm call, one CPU", EngineKind::Shm, SMALL, one_cpu)?
            .against(futex)
            .called("blocking, both on one CPU, 8 B")
            .goal(1.25, Some(1.05)),
        call("shm call, nothing pinned", EngineKind::Shm, SMALL, Placement::Unpinned)?
            .against(futex)
            .called("default settings, nothing pinned, 8 B")
            .goal(2.0, None),
        floor(copies, Primitive::Futex, LARGE, one_cpu)?,
        call("shm call, one CPU, 64 KiB", EngineKind::Shm, LARGE, one_cpu)?
            .against(copies)
            .called("blocking, both on one CPU, 64 KiB")
            .goal(1.2, None),
    ];
    let small = "a handle to 4 MiB";
    subjects.push(handle(small, 4 << 20)?);
    subjects.push(
        handle("a handle to 256 MiB", 256 << 20)?
            .against(small)
            .called("shared memory by handle: 256 MiB against 4 MiB")
            .goal(1.2, None),
    );
    match Placement::two_cpus() {
        Ok(two_cpus) => {
            let line = "cache-line ping-pong";
            subjects.push(floor(line, Primitive::CacheLine, SMALL, two_cpus)?);
            subjects.push(
                call("shm call, two CPUs", EngineKind::Shm, SMALL, two_cpus)?
                    .against(line)
                    .called("both running, two CPUs, 8 B")
                    .goal(1.6, Some(1.2)),
            );
        }
        Err(error) => eprintln!("warning: no figures of two CPUs: {error}"),
    }
    Ok(subjects)
}

/// Takes a handle, maps the memory and looks at one byte of it.
struct Look;

impl Service for Look {
    fn descriptor(&self) -> &str {
        "handoff.benches.ILook"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> handoff_ipc::Result<()> {
        let Transaction { data, reply, .. } = transaction;
        let memory: SharedMemory = data.read()?;
        reply.write(&i32::from(memory.bytes().get(0).unwrap_or(0)))
    }
}

/// A call that carries shared memory of `len` bytes, to an engine of this process's own: what is
/// measured is the way of the handle, which is the same between two processes.
fn handle(name: &str, len: usize) -> Result<Subject<'static>> {
    let look = Pair::start(Look)?;
    let memory = SharedMemory::new(len)?;
    memory.write_at(0, &[7])?;
    subject(name, move |samples, trips| {
        Ok(timed(samples, trips, || {
            let byte: i32 = look.proxy().transaction(1).call(|w| w.write(&memory), |r| r.read())?;
            assert_eq!(byte, 7);
            Ok(())
        })?)
    })
}

fn floor(name: &str, primitive: Primitive, payload: usize, placement: Placement) -> Result<Subject<'static>> {
    let parameters = floor::Parameters { primitive, payload, placement };
    let mut session = floor::Session::start(&parameters).with_context(|| format!("cannot start {name}"))?;
    subject(name, move |samples, trips| Ok(session.batch(samples, trips)?))
}
