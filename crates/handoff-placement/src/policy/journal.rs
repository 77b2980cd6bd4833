//! What every placed process had before, kept in a file: whoever comes after a daemon that was killed
//! can give it back.
//!
//! One JSON value a line, appended before the thing that it tells of is done. The file is locked by
//! whoever writes it.

use crate::error::{Error, Result};
use crate::group::ControlGroup;
use crate::private_folder::PrivateFolder;
use crate::snapshot::{Restored, Snapshot};
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

const NAME: &str = "policy.journal";

/// Names of the groups that a policy makes start so; nothing else is ever removed.
pub(super) const GROUP_PREFIX: &str = "handoff-policy-";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Entry {
    /// A process is about to be placed; this is what it has.
    Before(Box<Snapshot>),
    /// A group was made.
    Group(Vec<PathBuf>),
}

/// The journal, open and locked.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

/// What [`Journal::recover`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Recovered {
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

impl Recovered {
    /// Was there anything in the journal?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Journal {
    /// Opens and locks the journal in a folder, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// [`Error::Journal`] if it cannot be written, or another daemon holds it.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(NAME);
        let fail = |what: &str, source| Error::Journal { path: path.clone(), what: what.to_owned(), source };
        // Any user may connect to the socket of the whole machine's policy.
        let mode = if rustix::process::geteuid().is_root() { 0o755 } else { 0o700 };
        let private = PrivateFolder::create(folder, mode).map_err(|e| fail("cannot be kept there", e))?;
        // Nobody else may have written entries: they say what is given to processes.
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
        let file = private.file(NAME, flags).map_err(|e| fail("cannot be opened", e))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|e| fail("is in use: a policy is running; stop that one first", io::Error::from(e)))?;
        Ok(Self { path, file })
    }

    /// Notes what a process has, before it is changed.
    pub(super) fn before(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.append(&Entry::Before(Box::new(snapshot.clone())))
    }

    /// Notes a group that was made.
    pub(super) fn group(&mut self, group: &ControlGroup) -> Result<()> {
        self.append(&Entry::Group(group.folders().map(Path::to_owned).collect()))
    }

    fn append(&mut self, entry: &Entry) -> Result<()> {
        let mut line = serde_json::to_vec(entry).map_err(|e| self.error("cannot be written", e.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|e| self.error("cannot be written", e))
    }

    fn error(&self, what: &str, source: io::Error) -> Error {
        Error::Journal { path: self.path.clone(), what: what.to_owned(), source }
    }

    /// Gives every process in the journal back what it had first, removes the groups, and empties it.
    ///
    /// # Errors
    ///
    /// [`Error::Journal`] if it cannot be read or emptied.
    pub fn recover(&mut self) -> Result<Recovered> {
        let mut recovered = Recovered::default();
        let mut text = Vec::new();
        self.file.seek(SeekFrom::Start(0)).map_err(|e| self.error("cannot be read", e))?;
        // A journal is some hundred bytes a process; more than this is not one.
        (&self.file).take(256 << 20).read_to_end(&mut text).map_err(|e| self.error("cannot be read", e))?;
        let mut groups = Vec::new();
        let mut snapshots: Vec<Snapshot> = Vec::new();
        for line in BufReader::new(text.as_slice()).lines() {
            match line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
                // The first entry of a process is what it had before anybody placed it.
                Some(Entry::Before(new)) if snapshots.iter().any(|old| old.process() == new.process()) => {}
                Some(Entry::Before(new)) => snapshots.push(*new),
                Some(Entry::Group(folders)) => {
                    groups.extend(folders.into_iter().filter(|folder| is_ours(folder)))
                }
                None => recovered.unreadable += 1,
            }
        }
        for snapshot in snapshots {
            match snapshot.restore() {
                Restored::Whole => recovered.restored += 1,
                Restored::Partly { .. } => recovered.partly += 1,
                Restored::Gone => recovered.gone += 1,
            }
        }
        let adopted = ControlGroup::adopt(groups);
        recovered.groups = adopted.folders().count();
        drop(adopted);
        self.empty()?;
        Ok(recovered)
    }

    /// Forgets everything: it was given back.
    pub(super) fn empty(&mut self) -> Result<()> {
        self.file.set_len(0).map_err(|e| self.error("cannot be emptied", e))
    }
}

fn is_ours(folder: &Path) -> bool {
    folder.is_absolute()
        && folder.components().all(|part| !matches!(part, std::path::Component::ParentDir))
        && folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(GROUP_PREFIX.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Priority, Tid};
    use handoff_testkit::{require, require_root};

    #[test]
    fn a_journal_gives_back_what_was_first_and_survives_a_cut_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Tid::new(child.id() as i32).unwrap();
        let nice = Priority::of(pid).unwrap();
        {
            let mut journal = Journal::open(folder.path()).unwrap();
            journal.before(&Snapshot::take(pid).unwrap()).unwrap();
            Priority::other(14).apply(pid).unwrap();
            journal.before(&Snapshot::take(pid).unwrap()).unwrap();
            Priority::other(19).apply(pid).unwrap();
            let busy = Journal::open(folder.path()).unwrap_err().to_string();
            assert!(busy.contains("is in use"), "{busy}");
            journal.file.write_all(b"{\"before\":{\"pid\":1,\"sta").unwrap();
        }
        let mut journal = Journal::open(folder.path()).unwrap();
        let recovered = journal.recover().unwrap();
        assert_eq!(recovered.unreadable, 1);
        if crate::can_raise_to(nice) {
            assert_eq!((recovered.restored, Priority::of(pid).unwrap()), (1, nice));
        }
        assert!(journal.recover().unwrap().is_empty(), "it is emptied");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_folder_of_another_user_is_refused() {
        require!(require_root());
        let top = tempfile::tempdir().unwrap();
        let theirs = top.path().join("handoff-0");
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(theirs.join(NAME), "").unwrap();
        std::os::unix::fs::chown(&theirs, Some(1001), Some(1001)).unwrap();
        let refused = Journal::open(&theirs).unwrap_err();
        let why = std::error::Error::source(&refused).unwrap().to_string();
        assert!(why.contains("belongs to user 1001"), "{why}");
    }

    #[test]
    fn an_entry_leads_to_no_file_that_is_no_group() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("cgroup.procs");
        std::fs::write(&victim, "mine").unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Tid::new(child.id() as i32).unwrap();
        let before = serde_json::to_value(Entry::Before(Box::new(Snapshot::take(pid).unwrap()))).unwrap();
        let mut planted = before;
        for group in planted["before"]["groups"].as_object_mut().unwrap().values_mut() {
            *group = folder.path().to_str().unwrap().into();
        }
        let mut journal = Journal::open(folder.path()).unwrap();
        journal.file.write_all(format!("{planted}\n").as_bytes()).unwrap();
        let recovered = journal.recover().unwrap();
        assert_eq!(recovered.restored + recovered.partly, 1);
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn only_groups_of_a_policy_are_removed() {
        for (folder, ours) in [
            ("/sys/fs/cgroup/handoff-policy-x", true),
            ("/sys/fs/cgroup/system.slice", false),
            ("handoff-policy-x", false),
            ("/sys/fs/cgroup/../../home/handoff-policy-x", false),
        ] {
            assert_eq!(is_ours(Path::new(folder)), ours, "{folder}");
        }
    }
}
