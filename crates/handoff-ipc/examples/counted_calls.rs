//! Many calls of one kind, one after the other: what `cargo xtask bench instructions` has callgrind count.
//!
//! `counted_calls KIND CALLS` makes so many; without arguments it prints the kinds,
//! each with how many calls make a steady count. Caller and callee are two engines of
//! one process: the main thread calls, and all others are the callee's. What lies between is the same as between two
//! processes.

use std::sync::mpsc;

use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, InterfaceId, Runtime, Service, SharedMemory, Transaction};
use handoff_placement::fast::{current_cpu, pin_current};
use handoff_placement::{Policy, Priority, Tid};

/// Oneway calls that are on their way at once.
const QUEUED: u32 = 64;

const INTERFACE: InterfaceId = InterfaceId::new("handoff.benches.ICounted");
const ECHO: u32 = 1;
const LOOK: u32 = 2;
const TELL: u32 = 3;

type BoxResult<T> = Result<T, Box<dyn std::error::Error>>;

/// Sends bytes back, looks at shared memory, or tells when it was told so often.
struct Counted(mpsc::Sender<()>);

impl Service for Counted {
    fn descriptor(&self) -> &str {
        INTERFACE.descriptor()
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> handoff_ipc::Result<()> {
        let Transaction { call, data, reply } = transaction;
        match call.code() {
            ECHO => reply.write_shared(data.read_bytes()?),
            LOOK => {
                let memory: SharedMemory = data.read()?;
                reply.write(&i32::from(memory.bytes().get(0).unwrap_or(0)))
            }
            TELL => {
                let left: i64 = data.read()?;
                if left == 0 {
                    // Its receiver is there as long as anybody calls.
                    let _ = self.0.send(());
                }
                Ok(())
            }
            _ => Err(transaction.unknown(self.descriptor())),
        }
    }
}

fn echo(object: &Binder, bytes: &[u8]) -> handoff_ipc::Result<()> {
    let call = object.transaction(ECHO).interface(INTERFACE);
    let back = call.call(|data| data.write_bytes(bytes), |reply| Ok(reply.read_bytes()?.len()))?;
    assert_eq!(back, bytes.len());
    Ok(())
}

fn look(object: &Binder, memory: &SharedMemory) -> handoff_ipc::Result<()> {
    let call = object.transaction(LOOK).interface(INTERFACE);
    let byte: i32 = call.call(|data| data.write(memory), |reply| reply.read())?;
    assert_eq!(byte, 7);
    Ok(())
}

/// Every kind, as the book names it, and how many calls make its count steady.
const KINDS: [(u32, &str); 6] = [
    (65_536, "blocking, 8 B"),
    (65_536, "blocking, 64 B"),
    (65_536, "blocking, 1 KiB"),
    (65_536, "oneway, 8 B"),
    (65_536, "local, 8 B"),
    (8_192, "shared memory by handle"),
];

fn main() -> BoxResult<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, calls] = &arguments[..] else {
        KINDS.iter().for_each(|(calls, kind)| println!("{calls} {kind}"));
        return Ok(());
    };
    let calls = 0..calls.parse::<u32>()?;
    // One CPU, where no thread that wakes preempts the one that woke it: each side always finds the other where it
    // found it before, and executes the same instructions.
    pin_current(current_cpu())?;
    Priority { policy: Policy::Batch, rt: 0, nice: 0 }.apply(Tid::current())?;

    let (told, tells) = mpsc::channel();
    let local = Binder::new(Counted(told));
    let callee = Runtime::private()?;
    callee.services().add("counted", local.clone(), ServiceOptions::default())?;
    let socket = callee.socket().ok_or("a private manager has a socket")?;
    let caller = Runtime::builder().socket(socket).follow_callers(false).connect()?;
    let remote = caller.services().get("counted")?;

    let bytes = [7; 1 << 10];
    let echoes = |object: &Binder, size| calls.clone().try_for_each(|_| echo(object, &bytes[..size]));
    match kind.as_str() {
        "blocking, 8 B" => echoes(&remote, 8)?,
        "blocking, 64 B" => echoes(&remote, 64)?,
        "blocking, 1 KiB" => echoes(&remote, 1 << 10)?,
        "local, 8 B" => echoes(&local, 8)?,
        "oneway, 8 B" => {
            for left in calls.rev().map(|call| i64::from(call % QUEUED)) {
                remote.transaction(TELL).interface(INTERFACE).oneway(|data| data.write(&left))?;
                if left == 0 {
                    tells.recv()?;
                }
            }
        }
        "shared memory by handle" => {
            let memory = SharedMemory::new(64 << 10)?;
            memory.write_at(0, &[7])?;
            calls.clone().try_for_each(|_| look(&remote, &memory))?;
        }
        _ => return Err(format!("there is no kind {kind:?}").into()),
    }
    Ok(())
}
