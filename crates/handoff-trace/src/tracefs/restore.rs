//! Undoing what killed processes left behind: `handoff sched restore`.
//!
//! Everything that a session changes lives in its instance, and the name of an instance says who
//! made it: `handoff-<pid namespace>-<pid>-<start time>-<number>`. It is a leftover when no process
//! of that number and start time is alive. Numbers of another pid namespace (a container) mean
//! nothing here, so those are shown and left alone.

use std::fs;
use std::path::PathBuf;

use super::{TraceFs, instance};
use crate::error::{Result, TraceError};

const PREFIX: &str = "handoff";

/// A trace instance made by a process that is no more, or that cannot be seen from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub path: PathBuf,
    /// The process that made it.
    pub pid: u32,
    /// Whether it belongs to another pid namespace, so that nobody here can tell if it is in use.
    pub elsewhere: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Maker {
    namespace: u64,
    pid: u32,
    /// In clock ticks since boot, so that a number used again is not taken for its former owner.
    start: u64,
}

impl Maker {
    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('-');
        if parts.next() != Some(PREFIX) {
            return None;
        }
        let maker = Self {
            namespace: parts.next()?.parse().ok()?,
            pid: parts.next()?.parse().ok()?,
            start: parts.next()?.parse().ok()?,
        };
        parts.next()?.parse::<u32>().ok()?;
        parts.next().is_none().then_some(maker)
    }

    fn own() -> Self {
        let pid = std::process::id();
        Self { namespace: pid_namespace(), pid, start: start_time(pid).unwrap_or(0) }
    }

    fn alive(self) -> bool {
        start_time(self.pid) == Some(self.start)
    }
}

/// The name of the next instance of this process.
pub(super) fn own_name(number: u32) -> String {
    let Maker { namespace, pid, start } = Maker::own();
    format!("{PREFIX}-{namespace}-{pid}-{start}-{number}")
}

/// Instances that nobody uses any more, and those of which that cannot be known.
pub fn leftovers(tracefs: &TraceFs) -> Result<Vec<Leftover>> {
    let folder = tracefs.root().join("instances");
    let entries = fs::read_dir(&folder).map_err(|source| TraceError::control("list", &folder, source))?;
    let here = pid_namespace();
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| TraceError::control("list", &folder, source))?;
        let Some(maker) = entry.file_name().to_str().and_then(Maker::parse) else { continue };
        let elsewhere = maker.namespace != here;
        if elsewhere || !maker.alive() {
            found.push(Leftover { path: entry.path(), pid: maker.pid, elsewhere });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Removes what killed processes left behind; gives what was removed.
pub fn restore(tracefs: &TraceFs) -> Result<Vec<Leftover>> {
    let dead: Vec<_> = leftovers(tracefs)?.into_iter().filter(|left| !left.elsewhere).collect();
    for left in &dead {
        match instance::remove(&left.path) {
            // Another session removed it at the same time.
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(TraceError::control("remove", &left.path, source));
            }
            _ => {}
        }
    }
    Ok(dead)
}

/// The inode that stands for this process's pid namespace; 0 where there are none.
fn pid_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self/ns/pid").map_or(0, |metadata| metadata.ino())
}

/// When a process started, in clock ticks since boot: field 22 of `/proc/PID/stat`, see proc(5).
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses, which may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let threads: u32 = fields.nth(16)?.parse().ok()?;
    // A zombie has let go of all its files, unless only its first thread has ended.
    let dead = matches!(state, "Z" | "X") && threads <= 1;
    if dead { None } else { fields.nth(1)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use handoff_testkit::{require, require_root};

    use super::*;

    #[test]
    fn names_say_who_made_them() {
        let name = own_name(3);
        assert_eq!(Maker::parse(&name), Some(Maker::own()));
        assert!(Maker::own().alive());
        for other in ["foo", "handoff", "handoff-1-2-3", "handoff-1-2-3-4-5", "handoff-a-2-3-4", ""] {
            assert_eq!(Maker::parse(other), None, "{other}");
        }
    }

    #[test]
    fn only_what_nobody_uses_is_a_leftover() {
        let root = tempfile::tempdir().expect("a folder");
        let own = Maker::own();
        let dead = format!("handoff-{}-{}-{}-0", own.namespace, own.pid, own.start + 1);
        let elsewhere = format!("handoff-{}-{}-{}-0", own.namespace + 1, own.pid, own.start);
        for name in [own_name(0), dead.clone(), elsewhere.clone(), "atrace".to_owned()] {
            fs::create_dir_all(root.path().join("instances").join(name)).expect("made");
        }
        let tracefs = TraceFs::at(root.path());
        let names = |list: Vec<Leftover>| -> Vec<String> {
            list.iter().map(|left| left.path.file_name().expect("named").to_string_lossy().into()).collect()
        };
        let mut expected = vec![dead.clone(), elsewhere];
        expected.sort();
        assert_eq!(names(leftovers(&tracefs).expect("listed")), expected);
    }

    #[test]
    fn several_at_once_may_undo_the_same() {
        require!(require_root());
        let tracefs = TraceFs::find().expect("root may");
        let own = Maker::own();
        for round in 0..10 {
            let name = format!("{PREFIX}-{}-{}-{}-{round}", own.namespace, own.pid, own.start + 1);
            let path = tracefs.root().join("instances").join(name);
            fs::create_dir(&path).expect("root may");
            let begin = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        begin.wait();
                        restore(&tracefs).expect("whoever comes second finds nothing to do");
                    });
                }
            });
            assert!(!path.exists());
        }
    }
}
