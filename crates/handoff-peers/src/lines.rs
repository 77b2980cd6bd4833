//! A buffer that both processes have, and a number each way in it: whoever waits looks at the number all the time.
//!
//! It is the least that two processes can do for a request that is answered. Nobody sleeps, checks the other one or
//! notices its end.

use std::io;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

use handoff_ipc::SharedMemory;
use handoff_workloads::transports::{MAX_PAYLOAD, sum};

use crate::{Ask, fill, handed};

/// Where the number of the last request is, in the line in which its length and payload begin.
const ASKED: usize = 0;
const LENGTH: usize = 8;
const PAYLOAD: usize = 16;
/// Where the number of the last answer is, in a line of its own, with the sum behind it.
const ANSWERED: usize = SIZE - 64;
const SIZE: usize = MAX_PAYLOAD + 4096;

fn invalid() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

/// Looks at a number until it is that one.
fn await_number(memory: &SharedMemory, at: usize, number: u8) -> io::Result<()> {
    while memory.bytes().get(at).ok_or_else(invalid)? != number {
        std::hint::spin_loop();
    }
    fence(Ordering::Acquire);
    Ok(())
}

/// Tells the other side that what was written before is there.
fn publish(memory: &SharedMemory, at: usize, number: u8) -> io::Result<()> {
    fence(Ordering::Release);
    memory.write_at(at, &[number]).map_err(io::Error::other)
}

pub(crate) fn serve(address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    let memory = SharedMemory::new(SIZE).map_err(io::Error::other)?;
    handed::serve(address, &[&memory], ready)?;
    let mut number = 0_u8;
    loop {
        number = number.wrapping_add(1);
        await_number(&memory, ASKED, number)?;
        let mut length = [0; 8];
        memory.bytes().slice(LENGTH, 8).ok_or_else(invalid)?.copy_to(&mut length);
        let message = memory.bytes().slice(PAYLOAD, usize::from_ne_bytes(length)).ok_or_else(invalid)?;
        memory.write_at(ANSWERED + 1, &[sum(message)]).map_err(io::Error::other)?;
        publish(&memory, ANSWERED, number)?;
    }
}

pub(crate) fn connect(address: &Path) -> io::Result<Ask> {
    connect_with(address, |memory, message| memory.write_at(PAYLOAD, message).map_err(io::Error::other))
}

pub(crate) fn connect_in_place(address: &Path) -> io::Result<Ask> {
    connect_with(address, |memory, message| fill(memory, PAYLOAD, message))
}

fn connect_with(
    address: &Path,
    put: impl Fn(&SharedMemory, &[u8]) -> io::Result<()> + 'static,
) -> io::Result<Ask> {
    let [memory] = handed::connect(address)?;
    let memory = SharedMemory::from_fd(memory, SIZE).map_err(io::Error::other)?;
    let mut number = 0_u8;
    Ok(Box::new(move |message| {
        number = number.wrapping_add(1);
        put(&memory, message)?;
        memory.write_at(LENGTH, &message.len().to_ne_bytes()).map_err(io::Error::other)?;
        publish(&memory, ASKED, number)?;
        await_number(&memory, ANSWERED, number)?;
        memory.bytes().get(ANSWERED + 1).ok_or_else(invalid)
    }))
}
