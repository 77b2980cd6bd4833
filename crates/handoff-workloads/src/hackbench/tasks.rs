//! The tasks of hackbench, as processes or as threads.

use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::thread;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};

use super::{Parameters, Transport};
use crate::error::{Error, Result};
use crate::floor::{receive, send};
use crate::sys::gate::Gate;
use crate::sys::team::Team;
use crate::sys::usage::Usage;

/// Enough for a loop of reads or writes.
const STACK: usize = 128 << 10;

/// The two ends through which one reader is reached.
struct Channel {
    send: OwnedFd,
    receive: OwnedFd,
}

impl Channel {
    fn new(transport: Transport) -> Result<Self> {
        let made = match transport {
            Transport::Pipes => pipe_with(PipeFlags::CLOEXEC).map(|(receive, send)| (send, receive)),
            Transport::Sockets => {
                socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            }
        };
        let (send, receive) = made.map_err(|error| Error::io("cannot make a channel", error))?;
        Ok(Channel { send, receive })
    }
}

/// What one task does. System calls and its own buffer only.
fn write_all_loops(channels: &[Channel], loops: usize, buffer: &[u8]) -> rustix::io::Result<()> {
    for _ in 0..loops {
        for channel in channels {
            send(&channel.send, buffer)?;
        }
    }
    Ok(())
}

fn read_all(channel: &Channel, messages: usize, buffer: &mut [u8]) -> rustix::io::Result<()> {
    for _ in 0..messages {
        receive(&channel.receive, buffer)?;
    }
    Ok(())
}

fn status(result: rustix::io::Result<()>) -> i32 {
    i32::from(result.is_err())
}

/// Each task a forked process: gives the time from the start to the last one's end.
pub(super) fn processes(parameters: &Parameters, gate: Gate<'_>) -> Result<(Duration, Usage)> {
    let mut team = Team::new();
    let mut buffer = vec![0x5a_u8; parameters.size];
    let cannot = |error: std::io::Error| {
        Error::io("cannot fork a task (see `ulimit -u`, TasksMax= and pids.max if this is a limit)", error)
    };
    for _ in 0..parameters.groups {
        let channels: Vec<Channel> =
            (0..parameters.readers).map(|_| Channel::new(parameters.transport)).collect::<Result<_>>()?;
        for channel in &channels {
            let messages = parameters.writers * parameters.loops;
            let body = || status(gate.pass().and_then(|()| read_all(channel, messages, &mut buffer)));
            // In the child: system calls on its descriptor and copies into `buffer` only.
            team.fork("reader", &[channel.receive.as_raw_fd()], body).map_err(cannot)?;
        }
        let ends: Vec<RawFd> = channels.iter().map(|channel| channel.send.as_raw_fd()).collect();
        for _ in 0..parameters.writers {
            let body =
                || status(gate.pass().and_then(|()| write_all_loops(&channels, parameters.loops, &buffer)));
            // In the child: system calls on its descriptors only.
            team.fork("writer", &ends, body).map_err(cannot)?;
        }
        // Dropping the channels here leaves each end with the tasks that use it.
    }
    gate.wait_for(parameters.task_count(), &mut team)?;
    let start = gate.open()?;
    let exits = team.finish()?;
    let elapsed = start.elapsed();
    let mut usage = Usage::default();
    exits.iter().for_each(|exit| usage.add(&exit.usage));
    Ok((elapsed, usage))
}

/// Each task a thread: gives the time from the start to the last one's end.
pub(super) fn threads(parameters: &Parameters, gate: Gate<'_>) -> Result<(Duration, Usage)> {
    let &Parameters { writers, loops, size, .. } = parameters;
    let groups: Vec<Vec<Channel>> = (0..parameters.groups)
        .map(|_| (0..parameters.readers).map(|_| Channel::new(parameters.transport)).collect())
        .collect::<Result<_>>()?;
    let works = groups.iter().flat_map(|channels| {
        let reader = |channel| Work::Read { channel, messages: writers * loops, size };
        let writer = move |_| Work::Write { channels, loops, size };
        channels.iter().map(reader).chain((0..writers).map(writer))
    });
    thread::scope(|scope| {
        let mut tasks = Vec::with_capacity(parameters.task_count());
        for work in works {
            let task = move || {
                gate.pass()?;
                work.run()?;
                Ok(Usage::of_this_thread())
            };
            match thread::Builder::new().stack_size(STACK).spawn_scoped(scope, task) {
                Ok(task) => tasks.push(task),
                Err(error) => {
                    gate.cancel()?;
                    return Err(Error::io("cannot start a thread (see `ulimit -u` and pids.max)", error));
                }
            }
        }
        gate.wait_for(tasks.len(), &mut Team::new())?;
        let start = gate.open()?;
        let ended: Vec<_> = tasks.into_iter().map(thread::ScopedJoinHandle::join).collect();
        Ok((start.elapsed(), sum(ended)?))
    })
}

enum Work<'a> {
    Read { channel: &'a Channel, messages: usize, size: usize },
    Write { channels: &'a [Channel], loops: usize, size: usize },
}

impl Work<'_> {
    fn run(self) -> rustix::io::Result<()> {
        match self {
            Work::Read { channel, messages, size } => read_all(channel, messages, &mut vec![0; size]),
            Work::Write { channels, loops, size } => write_all_loops(channels, loops, &vec![0x5a; size]),
        }
    }
}

fn sum(ended: Vec<thread::Result<rustix::io::Result<Usage>>>) -> Result<Usage> {
    let mut total = Usage::default();
    for task in ended {
        let died = || Error::PeerDied { role: "thread".into(), how: "panicked".into() };
        let usage = task.map_err(|_| died())?;
        total.add(&usage.map_err(|error| Error::io("a thread of hackbench failed", error))?);
    }
    Ok(total)
}
