//! Records the system while a command runs, or for a while.

use std::ffi::OsString;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::capture::{Capture, Config};
use crate::error::{Result, TraceError};
use crate::event::Tid;
use crate::trace::RawTrace;
use crate::tracefs::TraceFs;

/// How often it looks whether the command has ended.
const POLL: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub struct Recording {
    pub raw: RawTrace,
    /// The process of the command, if there was one.
    pub command: Option<Tid>,
    /// How the command ended; none if it was still running when the recording was stopped.
    pub status: Option<ExitStatus>,
}

/// Records until `command` ends (if there is one), `limit` is over (if there is one) or `stop` is set,
/// whatever is first. A command that still runs then is killed. What the command prints goes to
/// standard error.
pub fn record(
    config: &Config,
    command: &[OsString],
    limit: Option<Duration>,
    stop: &AtomicBool,
) -> Result<Recording> {
    let capture = Capture::start(&TraceFs::find()?, config)?;
    let mut child = RecordedCommand::start(command)?;
    let end = limit.map(|limit| Instant::now() + limit);
    let mut status = None;
    while !stop.load(Ordering::Relaxed) && end.is_none_or(|end| Instant::now() < end) {
        if let Some(child) = &mut child {
            status = child.ended()?;
            if status.is_some() {
                break;
            }
        }
        std::thread::sleep(POLL);
    }
    let raw = capture.finish()?;
    Ok(Recording { raw, command: child.as_ref().map(|child| child.child.id() as Tid), status })
}

/// A child that does not outlive the recording.
struct RecordedCommand {
    child: Child,
    text: String,
}

impl RecordedCommand {
    fn start(command: &[OsString]) -> Result<Option<Self>> {
        let Some((program, args)) = command.split_first() else { return Ok(None) };
        let text = command.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ");
        // Standard output is for the result of the recording, which may be JSON.
        match Command::new(program).args(args).stdout(std::io::stderr()).spawn() {
            Ok(child) => Ok(Some(Self { child, text })),
            Err(source) => Err(TraceError::Command { action: "start", command: text, source }),
        }
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(|source| TraceError::Command {
            action: "wait for",
            command: self.text.clone(),
            source,
        })
    }
}

impl Drop for RecordedCommand {
    fn drop(&mut self) {
        // Killing one that has ended, and was waited for, does nothing.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
