//! A file that tells what is about to be changed: whoever comes after a process that was killed can put it back.
//!
//! One JSON value a line, appended before the change that it tells of is made. The file is locked (`flock(2)`) as long
//! as its process lives, so a lock that can be had says that its process is gone. One that cannot be had says little: a
//! child between its fork and its program has the lock, too, and may outlive a parent that was killed. The folder is
//! [`PrivateFolder`]'s: what stands in a journal is done with the rights of whoever reads it.

use crate::error::{Error, Result};
use crate::private_folder::PrivateFolder;
use crate::process::Status;
use crate::tid::Tid;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, OFlags, flock, fstat};
use rustix::io::Errno;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A line is some hundred bytes; a file with more than this is no journal.
const LONGEST: u64 = 256 << 20;

/// A journal's file, open and locked.
#[derive(Debug)]
pub struct JournalFile {
    folder: Arc<PrivateFolder>,
    name: String,
    file: File,
    /// A part of a line stands at its end, which could not be cut off.
    is_torn: bool,
}

/// What processes left that are gone.
#[derive(Debug, Default)]
pub struct LeftJournals {
    /// Each is locked.
    pub files: Vec<JournalFile>,
    /// Journals of processes that live, which are left alone.
    pub running: usize,
    /// Why others cannot be used.
    pub refused: Vec<Error>,
    /// The folder's lock: before this is dropped nobody starts a journal, who would note as a value to put back
    /// what is not put back yet.
    _turn: Option<OwnedFd>,
}

fn error(path: &Path, what: &str, source: impl Into<io::Error>) -> Error {
    Error::Journal { path: path.to_owned(), what: what.to_owned(), source: source.into() }
}

/// What came of locking a journal that was there.
#[derive(Debug, PartialEq, Eq)]
enum Lock {
    Had,
    /// Its process lives.
    InUse,
    /// Its process removed it after it was opened.
    Removed,
}

/// How long a child that was about to run a program may keep the lock of a parent that is gone.
const INHERITED: Duration = Duration::from_secs(5);

fn try_lock(file: &File) -> io::Result<Lock> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) if fstat(file)?.st_nlink == 0 => Ok(Lock::Removed),
        Ok(()) => Ok(Lock::Had),
        Err(Errno::WOULDBLOCK) => Ok(Lock::InUse),
        Err(error) => Err(error.into()),
    }
}

fn is_gone(process: Tid) -> bool {
    Status::of(process).map_or(true, |status| status.has_ended)
}

/// Locks the journal of a process. If that is gone, only a child of it can have the lock, which is waited for until `end`.
fn lock_left(file: &File, process: Option<Tid>, end: Instant) -> io::Result<Lock> {
    loop {
        match try_lock(file)? {
            Lock::InUse if process.is_some_and(is_gone) && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            lock => return Ok(lock),
        }
    }
}

impl JournalFile {
    fn new(folder: Arc<PrivateFolder>, name: String, file: File) -> Self {
        Self { folder, name, file, is_torn: false }
    }

    /// Opens and locks the one journal of this name in a folder, which is made with this mode if it is not there.
    /// `in_use` says what to do if another process has it.
    pub fn open(folder: &Path, mode: u32, name: &str, in_use: &str) -> Result<Self> {
        let path = folder.join(name);
        let folder =
            PrivateFolder::create(folder, mode).map_err(|e| error(&path, "cannot be kept there", e))?;
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
        loop {
            let file = folder.file(name, flags).map_err(|e| error(&path, "cannot be opened", e))?;
            match try_lock(&file).map_err(|e| error(&path, "cannot be locked", e))? {
                Lock::Had => return Ok(Self::new(Arc::new(folder), name.to_owned(), file)),
                Lock::InUse => return Err(error(&path, in_use, Errno::WOULDBLOCK)),
                Lock::Removed => {}
            }
        }
    }

    /// Starts a journal of this process in a folder, which is made for this user alone if it is not there. Its name
    /// begins and ends as said.
    pub fn start(folder: &Path, [begin, end]: [&str; 2]) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{begin}{}-{number}{end}", std::process::id());
        let path = folder.join(&name);
        let folder =
            PrivateFolder::create(folder, 0o700).map_err(|e| error(&path, "cannot be kept there", e))?;
        // Not taken for one of a process that is gone before it is locked, and not before what those left is back.
        let _turn = folder.lock().map_err(|e| error(&path, "cannot be locked", e))?;
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        let file = folder.file(&name, flags).map_err(|e| error(&path, "cannot be made", e))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|e| error(&path, "cannot be locked", e))?;
        Ok(Self::new(Arc::new(folder), name, file))
    }

    /// Locks the journals in a folder whose names begin and end as said, of processes that are gone. A missing folder
    /// means that there are none. Each is to be [removed](Self::remove) once everything in it is put back. Until the
    /// result is dropped, whoever [starts](Self::start) one there waits: this thread would for ever.
    pub fn left(folder: &Path, [begin, ends]: [&str; 2]) -> Result<LeftJournals> {
        let private = match PrivateFolder::open(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LeftJournals::default()),
            opened => Arc::new(opened.map_err(|e| error(folder, "cannot be used", e))?),
        };
        let turn = private.lock().map_err(|e| error(folder, "cannot be locked", e))?;
        let mut left = LeftJournals { _turn: Some(turn), ..LeftJournals::default() };
        let end = Instant::now() + INHERITED;
        for name in private.names().map_err(|e| error(folder, "cannot be listed", e))? {
            let name = name.to_string_lossy().into_owned();
            let Some(own) = name.strip_prefix(begin).and_then(|name| name.strip_suffix(ends)) else {
                continue;
            };
            let process = own.split('-').next().and_then(|pid| Tid::new(pid.parse().ok()?));
            let file = match private.file(&name, OFlags::RDWR | OFlags::APPEND) {
                Ok(file) => file,
                // Its process has just removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => {
                    left.refused.push(error(&folder.join(&name), "cannot be opened", source));
                    continue;
                }
            };
            match lock_left(&file, process, end) {
                Ok(Lock::Had) => left.files.push(Self::new(Arc::clone(&private), name, file)),
                Ok(Lock::InUse) => left.running += 1,
                Ok(Lock::Removed) => {}
                Err(source) => left.refused.push(error(&folder.join(&name), "cannot be locked", source)),
            }
        }
        Ok(left)
    }

    /// The folder that it is in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Adds a line. If that fails, nothing may be changed.
    pub fn append(&mut self, entry: &impl Serialize) -> Result<()> {
        let mut line = if self.is_torn { vec![b'\n'] } else { Vec::new() };
        serde_json::to_writer(&mut line, entry).map_err(|e| self.error("cannot be written", e))?;
        line.push(b'\n');
        let before = self.file.metadata().map_err(|e| self.error("cannot be written", e))?.len();
        let written = self.file.write_all(&line);
        // On a full disk a part may be there: the next line must not be glued to it.
        self.is_torn = written.is_err() && (self.file.set_len(before).is_err() || self.is_torn);
        written.map_err(|e| self.error("cannot be written", e))
    }

    /// Everything in it. A last line that was cut short is of a change that was not made.
    pub fn read(&mut self) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        self.file.seek(SeekFrom::Start(0)).map_err(|e| self.error("cannot be read", e))?;
        (&self.file).take(LONGEST).read_to_end(&mut text).map_err(|e| self.error("cannot be read", e))?;
        Ok(text)
    }

    /// Empties it: everything was put back.
    pub fn empty(&mut self) -> Result<()> {
        self.file.set_len(0).map_err(|e| self.error("cannot be emptied", e))?;
        self.is_torn = false;
        Ok(())
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.file.metadata().is_ok_and(|data| data.len() == 0)
    }

    /// Empties and removes it. Whoever has opened it meanwhile finds nothing in it.
    pub fn remove(&mut self) -> Result<()> {
        self.empty()?;
        match self.folder.remove(&self.name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.error("cannot be removed", error))
            }
            _ => Ok(()),
        }
    }

    fn error(&self, what: &str, source: impl Into<io::Error>) -> Error {
        error(&self.folder.path().join(&self.name), what, source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_root};
    use std::process::Command;
    use std::sync::mpsc::{RecvTimeoutError, channel};

    const NAMES: [&str; 2] = ["test-", ".journal"];

    #[test]
    fn nobody_starts_a_journal_before_what_was_left_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        drop(JournalFile::start(folder.path(), NAMES).unwrap());
        let mut left = JournalFile::left(folder.path(), NAMES).unwrap();
        let (tell, hear) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| tell.send(JournalFile::start(folder.path(), NAMES).is_ok()).unwrap());
            assert_eq!(hear.recv_timeout(Duration::from_millis(200)), Err(RecvTimeoutError::Timeout));
            left.files.iter_mut().for_each(|file| file.remove().unwrap());
            drop(left);
            assert_eq!(hear.recv_timeout(Duration::from_secs(30)), Ok(true));
        });
    }

    #[test]
    fn a_journal_that_is_gone_or_in_use_is_told_from_one_that_cannot_be_locked() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = JournalFile::start(folder.path(), NAMES).unwrap();
        let path = folder.path().join(&journal.name);
        let opened = File::open(&path).unwrap();
        assert_eq!(try_lock(&opened).unwrap(), Lock::InUse);
        journal.remove().unwrap();
        journal.remove().expect("somebody else did");
        assert_eq!(try_lock(&journal.file).unwrap(), Lock::Removed);
        assert_eq!(try_lock(&File::create_new(&path).unwrap()).unwrap(), Lock::Had);
        // No lock can be had by a descriptor that was opened for its path only.
        let no_file = rustix::fs::open(folder.path(), OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        assert!(try_lock(&File::from(no_file)).is_err());
    }

    #[test]
    fn a_child_of_a_killed_process_keeps_its_journal_from_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let mut gone = Command::new("true").spawn().unwrap();
        // Not waited for yet: its id is still its own.
        while !is_gone(Tid::new(gone.id() as i32).unwrap()) {
            std::thread::yield_now();
        }
        let locked = |pid: u32| {
            let file = File::create_new(folder.path().join(format!("test-{pid}-0.journal"))).unwrap();
            assert_eq!(try_lock(&file).unwrap(), Lock::Had);
            file
        };
        let (inherited, own) = (locked(gone.id()), locked(std::process::id()));
        let child = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(inherited);
        });
        let left = JournalFile::left(folder.path(), NAMES).unwrap();
        assert_eq!((left.files.len(), left.running), (1, 1));
        child.join().unwrap();
        drop(own);
        gone.wait().unwrap();
    }

    #[test]
    fn a_line_after_one_that_the_disk_had_no_room_for_is_whole() {
        require!(require_root());
        let folder = tempfile::tempdir().unwrap();
        // One page.
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1,mode=700", "handoff-test"]).arg(folder.path());
        require!(mount.output().is_ok_and(|run| run.status.success()).then_some(()).ok_or("needs mount(8)"));
        let mut journal = JournalFile::start(folder.path(), NAMES).unwrap();
        let unmounted = Command::new("umount").arg("--lazy").arg(folder.path()).status().unwrap();
        assert!(unmounted.success());
        journal.append(&1).unwrap();
        assert!(journal.append(&"x".repeat(1 << 20)).is_err());
        journal.append(&2).unwrap();
        assert_eq!(journal.read().unwrap(), b"1\n2\n");
        // What cannot be cut off is a line of its own.
        journal.file.write_all(b"\"x").unwrap();
        journal.is_torn = true;
        journal.append(&3).unwrap();
        journal.append(&4).unwrap();
        assert_eq!(journal.read().unwrap(), b"1\n2\n\"x\n3\n4\n");
    }
}
