//! The journal: what was changed, on disk before it is changed, so that a later process can put it back.
//!
//! One [`JournalFile`] a process, a line a change, in the state folder. The file is removed when everything is
//! back. A file whose process is gone is what a SIGKILL left: [`restore`] puts it back, unless the machine was booted
//! since, which did that already.
//!
//! Whoever can write a journal can have its lines written to the kernel by the user who restores it. So the
//! folder and the files must be of the user who reads them, root has one folder whatever the environment says, and
//! a line can name kernel settings only ([`Undo::apply`]).

use std::path::{Path, PathBuf};

use handoff_placement::process::{Status, boot_id};
use handoff_placement::{JournalFile, Root, Tid};
use serde::{Deserialize, Serialize};

use super::setting::{Setting, SettingError, Undo};
use super::with_causes;

/// Why the journal cannot be kept, or something not put back.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Placement(#[from] handoff_placement::Error),
    #[error("not put back: {}; `handoff lab restore` tries again", failures.join("; "))]
    Left { failures: Vec<String> },
}

/// The names of journals begin and end so.
const NAMES: [&str; 2] = ["journal-", ".jsonl"];

/// Who wrote a journal: its first line. Versions that did not lock their journals are known to live by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    pid: u32,
    /// Start of the process in ticks since boot, so that a reused pid is not taken for it.
    started: u64,
    boot: String,
}

impl Owner {
    fn this() -> Self {
        let pid = std::process::id();
        Self { pid, started: start_of(pid).unwrap_or(0), boot: boot_id() }
    }

    /// Whether another process than this one wrote it, and lives. What this one left, it may put back.
    fn is_another(&self) -> bool {
        self.pid != std::process::id() && start_of(self.pid) == Some(self.started)
    }
}

/// When a process started that has not ended, in clock ticks since boot.
fn start_of(pid: u32) -> Option<u64> {
    let pid = i32::try_from(pid).ok().and_then(Tid::new)?;
    Status::of(pid).ok().filter(|status| !status.has_ended).map(|status| status.start)
}

/// Root's own folder; where there is no `/var`, as on Android, one that lasts until the machine is booted anew,
/// as the settings do.
const ROOT: [&str; 2] = ["/var/lib/handoff", "/dev/handoff"];

/// The folder for what must outlive a process: `/var/lib/handoff` for root, else `$XDG_STATE_HOME/handoff` or
/// `~/.local/state/handoff`.
///
/// What root puts back was written by root: its environment may be that of another user (`sudo -E`, a prolog of a
/// batch system), so it is not asked.
pub fn state_folder() -> PathBuf {
    folder_for(rustix::process::geteuid().is_root(), |name| std::env::var_os(name).map(PathBuf::from))
}

fn folder_for(is_root: bool, variable: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let root = if Path::new("/var").is_dir() { ROOT[0] } else { ROOT[1] };
    if is_root {
        return PathBuf::from(root);
    }
    let variable = |name: &str| variable(name).filter(|path| path.is_absolute());
    variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
        .map_or_else(|| PathBuf::from(root), |folder| folder.join("handoff"))
}

/// The changes of this process, the last of which is put back first.
#[derive(Debug)]
pub struct Journal {
    file: JournalFile,
    undo: Vec<Undo>,
}

impl Journal {
    /// Starts a journal in `folder`, which is made for this user alone if it is not there.
    pub fn start(folder: &Path) -> Result<Self, JournalError> {
        let mut file = JournalFile::start(folder, NAMES)?;
        file.append(&Owner::this())?;
        Ok(Self { file, undo: Vec::new() })
    }

    pub(super) fn folder(&self) -> &Path {
        self.file.folder()
    }

    /// Changes one thing: first the journal, then the machine.
    ///
    /// # Errors
    ///
    /// If the journal cannot be written (then nothing was changed), or the kernel refuses.
    pub fn set(&mut self, setting: &Setting) -> Result<(), JournalError> {
        let undo = setting.undo()?;
        self.file.append(&undo)?;
        self.undo.push(undo);
        Ok(setting.apply()?)
    }

    /// Puts everything back, the last change first, and goes on with an empty journal.
    ///
    /// # Errors
    ///
    /// If something cannot be put back; the rest is.
    pub fn put_back(&mut self) -> Result<(), JournalError> {
        if self.undo.is_empty() {
            return Ok(());
        }
        let mut failures = Vec::new();
        let mut left = Vec::new();
        for undo in self.undo.drain(..).rev() {
            if let Err(error) = undo.apply() {
                failures.push(with_causes(&error));
                left.push(undo);
            }
        }
        left.reverse();
        self.undo = left;
        if !failures.is_empty() {
            return Err(JournalError::Left { failures });
        }
        self.file.empty()?;
        Ok(self.file.append(&Owner::this())?)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // What cannot be put back now stays in the file for `restore`.
        if self.put_back().is_ok() {
            let _ = self.file.remove();
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreReport {
    /// Files and the values that were written back.
    pub written: Vec<Undo>,
    /// Control groups that were removed.
    pub groups: Vec<PathBuf>,
    /// Processes that `handoff pin` had placed, or a run had in its group.
    #[serde(default)]
    pub processes: usize,
    /// Journals of processes that still run, which were left alone.
    pub running: usize,
    /// Journals of an earlier boot, which needed nothing.
    pub rebooted: usize,
}

/// Puts back what processes left that are gone. A missing folder means that there is nothing.
///
/// # Errors
///
/// If another user can write to the folder; if something cannot be put back or a journal is another user's: it is
/// kept, and the rest is put back.
pub fn restore(folder: &Path) -> Result<RestoreReport, JournalError> {
    let (placed, refused) = handoff_placement::Journal::recover_left(folder)?;
    let processes = placed.restored + placed.partly;
    let left = JournalFile::left(folder, NAMES)?;
    let mut restored = RestoreReport {
        groups: remove_groups(),
        processes,
        running: left.running,
        ..RestoreReport::default()
    };
    let mut failures: Vec<String> = refused.iter().chain(&left.refused).map(|e| with_causes(e)).collect();
    for mut file in left.files {
        let text = match file.read() {
            Ok(text) => text,
            Err(error) => {
                failures.push(with_causes(&error));
                continue;
            }
        };
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.lines();
        let owner: Option<Owner> = lines.next().and_then(|line| serde_json::from_str(line).ok());
        match owner {
            Some(owner) if owner.boot != boot_id() => restored.rebooted += 1,
            Some(owner) if owner.is_another() => {
                restored.running += 1;
                continue;
            }
            // A torn first line was never followed by a change.
            None => {}
            Some(_) => {
                // A torn last line is a change that was not made yet.
                let undo: Vec<Undo> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
                let mut whole = true;
                for undo in undo.into_iter().rev() {
                    match undo.apply() {
                        Ok(()) => restored.written.push(undo),
                        Err(error) => {
                            whole = false;
                            failures.push(with_causes(&error));
                        }
                    }
                }
                if !whole {
                    continue;
                }
            }
        }
        failures.extend(file.remove().err().map(|error| with_causes(&error)));
    }
    if failures.is_empty() { Ok(restored) } else { Err(JournalError::Left { failures }) }
}

/// The start of the name of a run's control group; its process id follows.
pub(super) const GROUP: &str = "handoff-lab-";

/// Removes the groups of runs that are gone. Their processes have died with them.
fn remove_groups() -> Vec<PathBuf> {
    let hierarchies = handoff_placement::cgroup::hierarchies(&Root::host());
    let folders = hierarchies.iter().filter_map(|hierarchy| std::fs::read_dir(&hierarchy.mount).ok());
    let left = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let pid: Option<u32> = name.strip_prefix(GROUP).and_then(|pid| pid.parse().ok());
        pid.is_some_and(|pid| start_of(pid).is_none())
    };
    folders
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(left)
        .filter(|path| remove_group(path))
        .collect()
}

/// Processes that were killed take a moment to leave their group.
fn remove_group(path: &Path) -> bool {
    (0..40).any(|_| {
        let removed = std::fs::remove_dir(path).is_ok();
        if !removed {
            std::thread::sleep(std::time::Duration::from_millis(25));
        }
        removed
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_root};

    /// Sysctls that change nothing of note for the moment of a test: two that one test changes each, as tests may run beside
    /// each other in processes of their own, and one that none does.
    const FIRST: &str = "kernel.printk_ratelimit_burst";
    const SECOND: &str = "vm.stat_interval";
    const SAME: &str = "kernel.printk_delay";

    fn file(name: &str) -> std::path::PathBuf {
        std::path::Path::new("/proc/sys").join(name.replace('.', "/"))
    }

    fn read(name: &str) -> String {
        std::fs::read_to_string(file(name)).expect("a sysctl").trim().to_owned()
    }

    fn setting(name: &str, value: &str) -> Setting {
        Setting::Sysctl { name: name.into(), value: value.into() }
    }

    #[test]
    fn what_is_set_is_put_back_in_reverse_and_the_journal_goes() {
        require!(require_root());
        let folder = tempfile::tempdir().expect("a folder");
        let old = read(FIRST);
        let mut journal = Journal::start(folder.path()).expect("starts");
        journal.set(&setting(FIRST, "17")).expect("set");
        journal.set(&setting(FIRST, "18")).expect("set again");
        assert_eq!(read(FIRST), "18");
        assert_eq!(restore(folder.path()).expect("restores").running, 1, "our own journal is left alone");
        assert_eq!(read(FIRST), "18");
        journal.put_back().expect("put back");
        assert_eq!(read(FIRST), old);
        journal.set(&setting(FIRST, "19")).expect("set");
        drop(journal);
        assert_eq!(read(FIRST), old);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn what_a_dead_process_left_is_put_back_once() {
        require!(require_root());
        let folder = tempfile::tempdir().expect("a folder");
        let old = read(SECOND);
        let mut journal = Journal::start(folder.path()).expect("starts");
        journal.set(&setting(SECOND, "23")).expect("set");
        // As after a SIGKILL: nothing is put back, and nobody has the file's lock.
        let text = journal.file.read().expect("the journal");
        let torn = r#"{"path":"/proc/sys/kernel/prin"#;
        journal.file.remove().expect("removed");
        std::mem::forget(journal);
        let left = [text.as_slice(), torn.as_bytes()].concat();
        std::fs::write(folder.path().join("journal-1-0.jsonl"), left).expect("written");
        let restored = restore(folder.path()).expect("restores");
        assert_eq!(restored.written, [Undo { path: file(SECOND), value: old.clone() }]);
        assert_eq!(read(SECOND), old);
        assert_eq!(restore(folder.path()).expect("nothing left").written, []);
    }

    #[test]
    fn a_reboot_needs_nothing_and_a_damaged_journal_does_no_harm() {
        let folder = tempfile::tempdir().expect("a folder");
        let owner = Owner { pid: u32::MAX, started: 1, boot: "another".into() };
        let line = serde_json::to_string(&owner).expect("serialises");
        let undo = r#"{"path":"/proc/sys/kernel/printk_ratelimit_burst","value":"99"}"#;
        std::fs::write(folder.path().join("journal-1-0.jsonl"), format!("{line}\n{undo}\n"))
            .expect("written");
        std::fs::write(folder.path().join("journal-2-0.jsonl"), "\u{0}garbage").expect("written");
        std::fs::write(folder.path().join("other.txt"), "mine").expect("written");
        let restored = restore(folder.path()).expect("restores");
        assert_eq!((restored.rebooted, restored.written.len()), (1, 0));
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "other files stay");
        assert_eq!(restore(Path::new("/no/such/folder")).expect("nothing").written, []);
    }

    #[test]
    fn a_journal_that_cannot_be_used_keeps_no_other_one_from_being_put_back() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["placement-1-0.journal", "journal-1-0.jsonl"] {
            std::fs::create_dir(folder.path().join(name)).expect("made");
        }
        let usable = folder.path().join("journal-2-0.jsonl");
        std::fs::write(&usable, "").expect("written");
        let refused = restore(folder.path()).expect_err("two are of no use").to_string();
        assert!(
            refused.contains("placement-1-0.journal") && refused.contains("journal-1-0.jsonl"),
            "{refused}"
        );
        assert!(!usable.exists());
    }

    /// A journal as a process leaves it that was killed, with one change.
    fn left(path: &Path, change: &Undo) {
        written_by(&Owner { pid: u32::MAX, started: 1, boot: boot_id() }, path, change);
    }

    fn written_by(owner: &Owner, path: &Path, change: &Undo) {
        let line = |value: String| value + "\n";
        let owner = serde_json::to_string(owner).map(line).expect("serialises");
        let change = serde_json::to_string(change).map(line).expect("serialises");
        std::fs::write(path, owner + &change).expect("written");
    }

    #[test]
    fn a_journal_without_a_lock_is_left_alone_as_long_as_its_process_lives() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let started = start_of(child.id()).expect("it runs");
        let path = folder.path().join("journal-1-0.jsonl");
        // Applying it would be refused.
        let change = Undo { path: folder.path().join("victim"), value: "theirs".into() };
        written_by(&Owner { pid: child.id(), started, boot: boot_id() }, &path, &change);
        let restored = restore(folder.path()).expect("nothing to restore");
        child.kill().expect("ended");
        assert!(restored.running == 1 && path.exists());
        // Although nobody has waited for it yet.
        while start_of(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert!(restore(folder.path()).is_err(), "its process is gone");
        child.wait().expect("ended");
    }

    #[test]
    fn root_has_one_folder_whatever_the_environment_says() {
        let users = |name: &str| Some(PathBuf::from(format!("/home/them/{name}")));
        assert!(ROOT.map(PathBuf::from).contains(&folder_for(true, users)));
        assert_eq!(folder_for(false, users), Path::new("/home/them/XDG_STATE_HOME/handoff"));
        let home = |name: &str| (name == "HOME").then(|| PathBuf::from("/home/them"));
        assert_eq!(folder_for(false, home), Path::new("/home/them/.local/state/handoff"));
    }

    #[test]
    fn a_journal_that_another_user_wrote_is_not_put_back() {
        require!(require_root());
        let top = tempfile::tempdir().expect("a folder");
        let old = read(SAME);
        let change = Undo { path: file(SAME), value: "31".into() };
        // Their folder, as it was in a home that root was told of.
        let theirs = top.path().join("theirs");
        std::fs::create_dir(&theirs).expect("made");
        left(&theirs.join("journal-1-0.jsonl"), &change);
        std::os::unix::fs::chown(&theirs, Some(1001), Some(1001)).expect("given away");
        let refused = restore(&theirs).expect_err("another user's folder");
        assert!(with_causes(&refused).contains("belongs to user 1001"), "{}", with_causes(&refused));
        assert!(Journal::start(&theirs).is_err(), "nor is anything kept there");
        // Their file in our folder.
        let ours = top.path().join("ours");
        std::fs::create_dir(&ours).expect("made");
        let planted = ours.join("journal-2-0.jsonl");
        left(&planted, &change);
        std::os::unix::fs::chown(&planted, Some(1001), None).expect("given away");
        let refused = restore(&ours).expect_err("another user's file").to_string();
        assert!(refused.contains("belongs to user 1001"), "{refused}");
        assert_eq!(read(SAME), old);
    }

    #[test]
    fn a_journal_writes_to_no_file_that_is_no_setting() {
        let folder = tempfile::tempdir().expect("a folder");
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "mine").expect("written");
        let journal = folder.path().join("journal-1-0.jsonl");
        left(&journal, &Undo { path: victim.clone(), value: "theirs".into() });
        let refused = restore(folder.path()).expect_err("no setting").to_string();
        assert!(refused.contains("is not below /sys"), "{refused}");
        assert_eq!(std::fs::read_to_string(&victim).expect("there"), "mine");
        let new = folder.path().join("new");
        left(&journal, &Undo { path: new.clone(), value: "theirs".into() });
        assert!(restore(folder.path()).is_err() && !new.exists());
    }

    #[test]
    fn a_setting_that_is_refused_changes_nothing() {
        require!(require_root());
        let folder = tempfile::tempdir().expect("a folder");
        let old = read(SAME);
        let mut journal = Journal::start(folder.path()).expect("starts");
        assert!(journal.set(&setting(SAME, "not a number")).is_err());
        let missing = Setting::Sysctl { name: "kernel.no_such_thing".into(), value: "1".into() };
        assert!(journal.set(&missing).is_err());
        drop(journal);
        assert_eq!(read(SAME), old);
    }
}
