//! A buffer that both processes have, and an eventfd each way.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use handoff_ipc::SharedMemory;
use handoff_workloads::transports::{MAX_PAYLOAD, sum};
use rustix::event::{EventfdFlags, eventfd};

use crate::{Ask, handed};

/// Behind the payload: its length, and the sum.
const TAIL: usize = MAX_PAYLOAD;

fn failed(error: handoff_ipc::Error) -> io::Error {
    io::Error::other(error)
}

fn raise(event: &OwnedFd) -> io::Result<()> {
    rustix::io::write(event, &1_u64.to_ne_bytes())?;
    Ok(())
}

fn wait(event: &OwnedFd) -> io::Result<()> {
    rustix::io::read(event, &mut [0_u8; 8])?;
    Ok(())
}

pub(crate) fn serve(address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    let memory = SharedMemory::new(MAX_PAYLOAD + 4096).map_err(failed)?;
    let (asked, answered) = (eventfd(0, EventfdFlags::CLOEXEC)?, eventfd(0, EventfdFlags::CLOEXEC)?);
    handed::serve(address, &[&memory, &asked, &answered], ready)?;
    loop {
        wait(&asked)?;
        let mut length = [0; 8];
        memory.bytes().slice(TAIL, 8).ok_or(io::ErrorKind::InvalidData)?.copy_to(&mut length);
        let message =
            memory.bytes().slice(0, usize::from_ne_bytes(length)).ok_or(io::ErrorKind::InvalidData)?;
        memory.write_at(TAIL + 8, &[sum(message)]).map_err(failed)?;
        raise(&answered)?;
    }
}

pub(crate) fn connect(address: &Path) -> io::Result<Ask> {
    let [memory, asked, answered] = handed::connect(address)?;
    let memory = SharedMemory::from_fd(memory, MAX_PAYLOAD + 4096).map_err(failed)?;
    Ok(Box::new(move |message| {
        memory.write_at(0, message).map_err(failed)?;
        memory.write_at(TAIL, &message.len().to_ne_bytes()).map_err(failed)?;
        raise(&asked)?;
        wait(&answered)?;
        memory.bytes().get(TAIL + 8).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }))
}
