//! One experiment at a time on a machine. The machine itself keeps the lock (`flock`), for a command that
//! waits for the end of its input: it ends with this process or with the link, however they end, so no
//! lock is left behind.

use std::fs::File;
use std::io::PipeWriter;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::address::Address;
use crate::command::quoted;
use crate::error::{Result, TargetError};
use crate::target::{Stream, Target};

/// Enough for a connection.
const LIMIT: Duration = Duration::from_secs(60);

/// The status with which the holder says that another has the lock.
const TAKEN: i32 = 75;

/// Keeps a target for one experiment, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    /// The end of the holder's input: it ends when this is closed. None where nobody else has the target.
    input: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

/// What the holder says first.
enum Said {
    Locked,
    Ended(Result<i32>, String),
}

impl Lock {
    /// A target that nobody else can reach.
    pub(crate) fn of_ours_alone() -> Self {
        Lock { input: None, thread: None }
    }

    /// Takes the lock with a connection of its own.
    pub(crate) fn take(mut target: Box<dyn Target + Send>) -> Result<Self> {
        let address = target.address();
        let (read, input) =
            std::io::pipe().map_err(|error| TargetError::io("make a pipe for a lock", error))?;
        let (say, hear) = channel();
        let script = script(&target.folder());
        let mut read = File::from(OwnedFd::from(read));
        let hold = move || hold(target.as_mut(), &script, &mut read, &say);
        let thread = thread::Builder::new()
            .name("target-lock".to_owned())
            .spawn(hold)
            .map_err(|error| TargetError::io("start a thread for a lock", error))?;
        let lock = Lock { input: Some(input), thread: Some(thread) };
        match hear.recv_timeout(LIMIT) {
            Ok(Said::Locked) => Ok(lock),
            Ok(Said::Ended(Ok(TAKEN), holder)) => {
                let holder = if holder.is_empty() { "somebody".to_owned() } else { holder };
                Err(TargetError::Locked { target: address.to_string(), holder })
            }
            Ok(Said::Ended(Ok(_), said)) => {
                Err(TargetError::Step { target: address.to_string(), what: "keep a lock", said })
            }
            Ok(Said::Ended(Err(error), _)) => Err(error),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let why = format!("the lock was not answered for within {LIMIT:?}");
                Err(TargetError::Lost { target: address.to_string(), why })
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        drop(self.input.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Holds the lock until its input ends.
fn script(folder: &str) -> String {
    let who =
        format!("process {} on {}", std::process::id(), rustix::system::uname().nodename().to_string_lossy());
    let (folder, who) = (quoted(folder), quoted(&who));
    format!(
        "mkdir -p {folder} && exec 9>>{folder}/lock || exit 74\n\
         if ! flock -n 9; then cat {folder}/holder 2>/dev/null; exit {TAKEN}; fi\n\
         echo {who} >{folder}/holder\necho locked\ncat >/dev/null\nrm -f {folder}/holder\n"
    )
}

fn hold(target: &mut dyn Target, script: &str, input: &mut File, say: &Sender<Said>) {
    let mut said = Vec::new();
    let ended = target.shell(script, Some(input), None, &mut |stream, bytes| {
        if stream == Stream::Out && bytes.starts_with(b"locked\n") {
            // Nobody listens any more if it took too long.
            drop(say.send(Said::Locked));
        } else if said.len() < 1000 {
            said.extend_from_slice(bytes);
        }
    });
    drop(say.send(Said::Ended(ended, String::from_utf8_lossy(&said).trim().to_owned())));
}

/// Whether others can reach a target at all.
pub(crate) fn is_shared(address: &Address) -> bool {
    !matches!(address, Address::Guest)
}
