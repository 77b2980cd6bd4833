//! A process on this side whose output is handed over as it comes: the shell, or ssh.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::target::{Sink, Stream};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndStatus {
    /// With this status; 128 and the signal if one ended it.
    Status(i32),
    /// It was killed because it took too long.
    TooLong,
}

/// Runs it, in a process group of its own that ends with it or at the limit.
pub(crate) fn run(
    mut command: Command,
    input: Option<&mut File>,
    limit: Option<Duration>,
    sink: &mut Sink<'_>,
) -> io::Result<EndStatus> {
    let input = match input {
        Some(file) => Stdio::from(file.try_clone()?),
        None => Stdio::null(),
    };
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    tracing::debug!("starting {command:?}");
    let mut child = command.spawn()?;
    let (sender, pieces) = sync_channel(64);
    let out = child.stdout.take().map(|from| pump(Stream::Stdout, from, sender.clone()));
    let err = child.stderr.take().map(|from| pump(Stream::Stderr, from, sender));
    let end = limit.map(|limit| Instant::now() + limit);
    let mut late = false;
    loop {
        let piece = match end.filter(|_| !late) {
            None => pieces.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(end) => pieces.recv_timeout(end.saturating_duration_since(Instant::now())),
        };
        match piece {
            Ok((stream, bytes)) => sink(stream, &bytes),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                late = true;
                kill_process_group(Pid::from_child(&child), Signal::KILL)?;
            }
        }
    }
    for thread in [out, err].into_iter().flatten() {
        drop(thread.join());
    }
    let status = child.wait()?;
    if late {
        return Ok(EndStatus::TooLong);
    }
    let by_signal = status.signal().map(|signal| 128 + signal);
    Ok(EndStatus::Status(status.code().or(by_signal).unwrap_or(-1)))
}

fn pump(
    stream: Stream,
    mut from: impl Read + Send + 'static,
    to: SyncSender<(Stream, Vec<u8>)>,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        loop {
            match from.read(&mut bytes) {
                Ok(0) => return,
                Ok(count) if to.send((stream, bytes[..count].to_vec())).is_err() => return,
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
                _ => {}
            }
        }
    })
}
