//! What processes and the machine had before they were changed, kept in a file: whoever comes after a process that
//! was killed can give it back.
//!
//! How the file is kept, and who may write it, is [`JournalFile`]'s.

use crate::controller::TurnedOn;
use crate::error::{Error, Result};
use crate::group::{Change, ControlGroup, Limits};
use crate::journal_file::JournalFile;
use crate::process::{ProcessKey, Scope, autogroup_nice, boot_id, set_autogroup_nice, tree_of};
use crate::snapshot::{RestoreOutcome, Snapshot};
use crate::tid::Tid;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

/// The journal of the policy that runs: there is one.
const POLICY: &str = "policy.journal";

/// Journals of processes that place others start so, and end so.
const PLACEMENT: [&str; 2] = ["placement-", ".journal"];

/// Names of groups that we make start so; nothing else is ever removed.
const GROUP: &str = "handoff-";

/// Names of the groups that a policy makes start so.
pub const POLICY_GROUP: &str = "handoff-policy-";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Entry {
    /// When the machine was booted: what was changed before that is undone.
    Boot(String),
    /// A process is about to be placed; this is what it has.
    Before(Box<Snapshot>),
    /// The nice of a process's session is about to be changed.
    Autogroup { pid: i32, start: u64, nice: i8 },
    /// A group is about to be made.
    Group(Vec<PathBuf>),
    /// A controller is about to be turned on.
    Controller(TurnedOn),
}

/// A journal, open and locked.
#[derive(Debug)]
pub struct Journal {
    file: JournalFile,
    /// Of one process: it goes with it, and what is in it is given back then.
    is_own: bool,
}

/// What [`Journal::recover`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryReport {
    /// Processes that have back all that they had.
    pub restored: usize,
    /// Processes of which the kernel refused something.
    pub partly: usize,
    /// Processes that ended meanwhile.
    pub gone: usize,
    /// Control groups that were removed.
    pub groups: usize,
    /// Lines that could not be read: a write that was cut short.
    pub unreadable: usize,
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (have, had) = if self.restored == 1 { ("process has", "it") } else { ("processes have", "they") };
        let ended = if self.gone == 1 { "has ended" } else { "have ended" };
        write!(f, "{} {have} back what {had} had, {} {ended}", self.restored, self.gone)?;
        for (count, one, several) in [
            (self.partly, "was refused something", "were refused something"),
            (self.groups, "control group was removed", "control groups were removed"),
            (self.unreadable, "line could not be read", "lines could not be read"),
        ] {
            match count {
                0 => {}
                1 => write!(f, ", 1 {one}")?,
                _ => write!(f, ", {count} {several}")?,
            }
        }
        Ok(())
    }
}

impl RecoveryReport {
    /// Was there anything in the journal?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn count(&mut self, outcome: RestoreOutcome) {
        match outcome {
            RestoreOutcome::Whole => self.restored += 1,
            RestoreOutcome::Partly { .. } => self.partly += 1,
            RestoreOutcome::Gone => self.gone += 1,
        }
    }

    fn add(&mut self, other: &Self) {
        self.restored += other.restored;
        self.partly += other.partly;
        self.gone += other.gone;
        self.groups += other.groups;
        self.unreadable += other.unreadable;
    }
}

impl Journal {
    /// Opens and locks the policy's journal in a folder, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// [`Error::Journal`] if it cannot be written, another user could have written to the folder, or another daemon
    /// holds it.
    pub fn open(folder: &Path) -> Result<Self> {
        // Any user may connect to the socket of the whole machine's policy.
        let mode = if rustix::process::geteuid().is_root() { 0o755 } else { 0o700 };
        let in_use = "is in use: a policy is running; stop that one first";
        Ok(Self { file: JournalFile::open(folder, mode, POLICY, in_use)?, is_own: false })
    }

    /// Starts a journal of this process in a folder, which is made for this user alone if it is not there. Unless it
    /// is [closed](Journal::close), what is in it is given back when it is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Journal`] if it cannot be written, or another user could have written to the folder.
    pub fn start(folder: &Path) -> Result<Self> {
        Ok(Self { file: JournalFile::start(folder, PLACEMENT)?, is_own: true })
    }

    /// Notes what a process has, before it is changed.
    ///
    /// # Errors
    ///
    /// If the journal cannot be written: then nothing may be changed.
    pub fn before(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.note(&Entry::Before(Box::new(snapshot.clone())))
    }

    /// Notes what everything in a scope has, before it is changed.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchThread`]; [`Error::Journal`] if it cannot be written.
    pub fn before_scope(&mut self, scope: Scope, id: Tid) -> Result<()> {
        match scope {
            Scope::Thread => self.before(&Snapshot::take_thread(id)?),
            Scope::Process => self.before(&Snapshot::take(id)?),
            Scope::Tree => {
                self.before(&Snapshot::take(id)?)?;
                for process in tree_of(id)?.into_iter().filter(|process| *process != id) {
                    match Snapshot::take(process) {
                        Err(Error::NoSuchThread(_)) => {}
                        taken => self.before(&taken?)?,
                    }
                }
                Ok(())
            }
        }
    }

    /// Notes the nice of a process's session (its autogroup), before it is changed. Where there is none, there is
    /// nothing to note.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchThread`]; [`Error::Journal`] if it cannot be written.
    pub fn before_autogroup(&mut self, pid: Tid) -> Result<()> {
        let key = ProcessKey::of(pid)?;
        let Ok(nice) = autogroup_nice(pid) else { return Ok(()) };
        self.note(&Entry::Autogroup { pid: pid.as_raw(), start: key.start, nice })
    }

    /// [`ControlGroup::create`], with each change noted before it is made.
    pub fn make_group(&mut self, name: &str, limits: &Limits) -> Result<ControlGroup> {
        ControlGroup::create_noting(name, limits, &mut |change| match change {
            Change::Folder(folder) => self.note(&Entry::Group(vec![folder.to_owned()])),
            Change::Controller(turned_on) => self.note(&Entry::Controller(turned_on.clone())),
        })
    }

    /// Adds an entry. The first one says when the machine was booted, whoever has emptied the journal before: the
    /// policy's may be in a folder that outlives a boot.
    fn note(&mut self, entry: &Entry) -> Result<()> {
        if self.file.is_empty() {
            self.file.append(&Entry::Boot(boot_id()))?;
        }
        self.file.append(entry)
    }

    fn read(&mut self) -> Result<Contents> {
        Ok(Contents::parse(&self.file.read()?))
    }

    /// Gives every process in the journal back what it had first, removes the groups, turns off what was turned on,
    /// and empties it.
    ///
    /// # Errors
    ///
    /// [`Error::Journal`] if it cannot be read or emptied.
    pub fn recover(&mut self) -> Result<RecoveryReport> {
        let contents = self.read()?;
        let mut recovered = RecoveryReport { unreadable: contents.unreadable, ..RecoveryReport::default() };
        for snapshot in contents.snapshots {
            recovered.count(snapshot.restore());
        }
        for (key, nice) in contents.autogroups.into_iter().rev().filter(|(key, _)| key.is_alive()) {
            if autogroup_nice(key.pid).is_ok_and(|now| now != nice) {
                let _ = set_autogroup_nice(key.pid, nice);
            }
        }
        let adopted = ControlGroup::adopt(contents.groups);
        recovered.groups = adopted.folders().count();
        drop(adopted);
        self.leave_used(&contents.controllers)?;
        Ok(recovered)
    }

    /// Empties the journal, but for controllers that groups of others use by now: whoever reads it next turns them
    /// off when it can.
    fn leave_used(&mut self, controllers: &[TurnedOn]) -> Result<bool> {
        let used: Vec<&TurnedOn> = controllers.iter().filter(|on| !on.turn_off()).collect();
        self.file.empty()?;
        if used.is_empty() {
            return Ok(false);
        }
        for on in used {
            self.note(&Entry::Controller(on.clone()))?;
        }
        Ok(true)
    }

    /// Forgets everything: it was given back.
    pub fn empty(&mut self) -> Result<()> {
        let contents = self.read()?;
        self.leave_used(&contents.controllers).map(drop)
    }

    /// Ends a journal that was [started](Journal::start), and leaves what was changed as it is now.
    ///
    /// # Errors
    ///
    /// [`Error::Journal`] if it cannot be emptied.
    pub fn close(mut self) -> Result<()> {
        self.is_own = false;
        let contents = self.read()?;
        if !self.leave_used(&contents.controllers)? {
            self.file.remove()?;
        }
        Ok(())
    }

    /// Gives back what processes left that had [started](Journal::start) a journal in this folder and are gone, and
    /// says why other journals could not be used: one that could have been written by another user, or that cannot be
    /// read or emptied. A missing folder means that there is nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Journal`] if the folder cannot be used, or another user could have written to it.
    pub fn recover_left(folder: &Path) -> Result<(RecoveryReport, Vec<Error>)> {
        let mut all = RecoveryReport::default();
        let mut left = JournalFile::left(folder, PLACEMENT)?;
        for file in left.files {
            let mut journal = Self { file, is_own: false };
            let closed = journal.recover().and_then(|recovered| {
                all.add(&recovered);
                journal.close()
            });
            left.refused.extend(closed.err());
        }
        Ok((all, left.refused))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // What cannot be given back now stays in the file for whoever comes next.
        if self.is_own && self.recover().is_ok() && self.file.is_empty() {
            let _ = self.file.remove();
        }
    }
}

/// What a journal says.
#[derive(Default)]
struct Contents {
    snapshots: Vec<Snapshot>,
    autogroups: Vec<(ProcessKey, i8)>,
    groups: Vec<PathBuf>,
    controllers: Vec<TurnedOn>,
    unreadable: usize,
}

impl Contents {
    fn parse(text: &[u8]) -> Self {
        let mut contents = Self::default();
        for line in BufReader::new(text).lines() {
            match line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
                // Nothing that is changed outlives a boot, and numbers of processes start anew.
                Some(Entry::Boot(then)) if then != boot_id() => return Self::default(),
                Some(Entry::Boot(_)) => {}
                // The first entry of a process is what it had before anybody placed it.
                Some(Entry::Before(new))
                    if contents.snapshots.iter().any(|old| old.process() == new.process()) => {}
                Some(Entry::Before(new)) => contents.snapshots.push(*new),
                Some(Entry::Autogroup { pid, start, nice }) => {
                    contents.autogroups.extend(Tid::new(pid).map(|pid| (ProcessKey { pid, start }, nice)));
                }
                Some(Entry::Group(folders)) => {
                    contents.groups.extend(folders.into_iter().filter(|folder| is_ours(folder)));
                }
                Some(Entry::Controller(on)) => contents.controllers.push(on),
                None => contents.unreadable += 1,
            }
        }
        contents
    }
}

fn is_ours(folder: &Path) -> bool {
    folder.is_absolute()
        && folder.components().all(|part| !matches!(part, std::path::Component::ParentDir))
        && folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(GROUP.as_bytes()))
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
