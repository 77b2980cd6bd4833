//! One experiment at a time on a machine. The machine itself keeps the lock (`flock`), for a command that
//! waits for the end of its input: it ends with this process or with the link, however they end, so no
//! lock is left behind. A link that is cut and a holder without power say no end: so the holder says
//! something now and then, and a command that hears nothing for too long gives the lock up.

use std::fs::File;
use std::io::{PipeWriter, Write as _};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::address::Address;
use crate::command::quoted;
use crate::error::{Result, TargetError};
use crate::folder::LOCK;
use crate::target::{Stream, Target};

/// Enough for a connection.
const LIMIT: Duration = Duration::from_secs(60);

/// How long a machine keeps the lock of a holder that it hears nothing of: longer than ssh takes to notice a
/// lost link on the holder's side, so that the holder has given up before another has the machine.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);

/// How often a holder is heard in that time.
const BEATS: u32 = 6;

/// The status with which the holder says that another has the lock.
const TAKEN: i32 = 75;

/// The status with which it says that there is nothing to take the lock on.
const UNUSABLE: i32 = 74;

/// Keeps a target for one experiment, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    /// The holder is heard until this is gone. None where nobody else has the target.
    alive: Option<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

/// What the holder says first.
enum LockReply {
    Locked,
    Ended(Result<i32>, String),
}

impl Lock {
    /// A target that nobody else can reach.
    pub(crate) fn of_ours_alone() -> Self {
        Lock { alive: None, threads: Vec::new() }
    }

    /// Takes the lock with a connection of its own; who holds it stands in the user's `private` folder. The machine gives it up after `silence`, in whole seconds.
    pub(crate) fn take(mut target: Box<dyn Target + Send>, private: &str, silence: Duration) -> Result<Self> {
        let address = target.address();
        let (read, input) =
            std::io::pipe().map_err(|error| TargetError::io("make a pipe for a lock", error))?;
        let (say, hear) = channel();
        let script = script(target.folder().as_deref(), private, silence);
        let mut read = File::from(OwnedFd::from(read));
        let (alive, until) = channel();
        let holder = spawn("target-lock", move || hold(target.as_mut(), &script, &mut read, &say))?;
        let mut lock = Lock { alive: Some(alive), threads: vec![holder] };
        lock.threads.push(spawn("target-lock-beat", move || beat(input, &until, silence / BEATS))?);
        match hear.recv_timeout(LIMIT) {
            Ok(LockReply::Locked) => Ok(lock),
            Ok(LockReply::Ended(Ok(TAKEN), holder)) => {
                let holder = if holder.is_empty() { "somebody".to_owned() } else { holder };
                Err(TargetError::Locked { target: address.to_string(), holder })
            }
            Ok(LockReply::Ended(Ok(_), said)) => {
                Err(TargetError::Step { target: address.to_string(), what: "keep a lock", said })
            }
            Ok(LockReply::Ended(Err(error), _)) => Err(error),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let why = format!("the lock was not answered for within {LIMIT:?}");
                Err(TargetError::Lost { target: address.to_string(), why })
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        drop(self.alive.take());
        // The beats' thread closes what the holder reads.
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(|error| TargetError::io("start a thread for a lock", error))
}

/// Is heard until nobody wants the lock any more, or nobody listens.
fn beat(mut input: PipeWriter, until: &Receiver<()>, every: Duration) {
    while until.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        if input.write_all(b".").is_err() {
            return;
        }
    }
}

/// Holds the lock until its input ends, or is silent for too long. A machine without `timeout` knows only the
/// end.
///
/// The lock is on a folder that every user can open, whoever made it: nothing in it is read or written. A file
/// that somebody left under its name does as well, but not what another's link points to; what cannot be opened, or
/// might make us wait, is named. Android has no `/tmp`.
fn script(named: Option<&str>, private: &str, silence: Duration) -> String {
    let who =
        format!("process {} on {}", std::process::id(), rustix::system::uname().nodename().to_string_lossy());
    let (folder, who, silence) = (quoted(private), quoted(&who), silence.as_secs().max(1));
    let lock = match named {
        Some(folder) => format!("lock={}", quoted(folder)),
        None => format!("lock={LOCK}; [ -d /tmp ] || lock=/data/local/tmp/handoff"),
    };
    format!(
        "{lock}\nmkdir -m 755 \"$lock\" 2>/dev/null\n\
         if ! [ -d \"$lock\" ] && {{ [ -h \"$lock\" ] || ! [ -f \"$lock\" ]; }}; then\n\
         echo \"$lock, on which the lock is taken, is neither a folder nor a file: remove it\"; exit {UNUSABLE}\nfi\n\
         exec 9<\"$lock\" || exit {UNUSABLE}\n\
         if ! flock -n 9; then cat {folder}/holder 2>/dev/null || echo another user; exit {TAKEN}; fi\n\
         echo {who} >{folder}/holder\necho locked\n\
         if command -v timeout >/dev/null; then\n\
         while [ -n \"$(timeout {silence} dd bs=1 count=1 2>/dev/null 9>&-)\" ]; do :; done\n\
         else cat >/dev/null; fi\n\
         rm -f {folder}/holder\n"
    )
}

fn hold(target: &mut dyn Target, script: &str, input: &mut File, say: &Sender<LockReply>) {
    let mut said = Vec::new();
    let ended = target.shell(script, Some(input), None, &mut |stream, bytes| {
        if stream == Stream::Stdout && bytes.starts_with(b"locked\n") {
            // Nobody listens any more if it took too long.
            drop(say.send(LockReply::Locked));
        } else if said.len() < 1000 {
            said.extend_from_slice(bytes);
        }
    });
    drop(say.send(LockReply::Ended(ended, String::from_utf8_lossy(&said).trim().to_owned())));
}

/// Whether others can reach a target at all.
pub(crate) fn is_shared(address: &Address) -> bool {
    !matches!(address, Address::Guest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_tool};
    use std::fs;
    use std::path::Path;
    use std::process::{Command, Stdio};

    /// What a holder says whose lock is at `place`, and how it ends.
    fn said(place: &Path) -> (String, i32) {
        let private = tempfile::tempdir().expect("a folder");
        let text = |path: &Path| path.to_str().expect("text").to_owned();
        let script = script(Some(&text(place)), &text(private.path()), SILENCE);
        let ended = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().expect("sh");
        (String::from_utf8_lossy(&ended.stdout).into_owned(), ended.status.code().expect("a status"))
    }

    #[test]
    fn whatever_somebody_left_in_the_locks_place_is_locked_or_named() {
        require!(require_tool("flock"));
        let top = tempfile::tempdir().expect("a folder");
        let place = |name: &str| top.path().join(name);
        assert_eq!(said(&place("new")), ("locked\n".to_owned(), 0));
        fs::write(place("file"), "somebody's").expect("written");
        assert_eq!(said(&place("file")), ("locked\n".to_owned(), 0));
        assert_eq!(fs::read(place("file")).expect("kept"), b"somebody's");
        assert!(Command::new("mkfifo").arg(place("fifo")).status().expect("mkfifo").success());
        std::os::unix::fs::symlink(place("file"), place("link")).expect("linked");
        for (name, says) in
            [("fifo", "fifo, on which the lock is taken"), ("link", "link, on which the lock is taken")]
        {
            let (reason, status) = said(&place(name));
            assert!(status == UNUSABLE && reason.contains(says), "{reason}");
        }
    }
}
