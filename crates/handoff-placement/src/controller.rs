//! Controllers that are turned on for a group's children (`cgroup.subtree_control` of v2), and off again when no
//! child needs them any more.

use crate::error::{Error, Result};
use crate::kernel_file::{open_group, write_in_group};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const FILE: &str = "cgroup.subtree_control";

/// What a child has that nobody has set a limit for. Without the controller, a child loses what differs.
const DEFAULTS: [(&str, &[(&str, &str)]); 2] = [
    (
        "cpu",
        &[
            ("cpu.max", "max 100000"),
            ("cpu.max.burst", "0"),
            ("cpu.weight", "100"),
            ("cpu.idle", "0"),
            ("cpu.uclamp.min", "0.00"),
            ("cpu.uclamp.max", "max"),
        ],
    ),
    ("cpuset", &[("cpuset.cpus", ""), ("cpuset.mems", ""), ("cpuset.cpus.partition", "member")]),
];

/// A controller that was off for the children of a group, and is on now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TurnedOn {
    group: PathBuf,
    controller: String,
}

impl TurnedOn {
    /// What turning it on would change; `None` if it is on already.
    pub(crate) fn plan(group: &Path, controller: &str) -> Option<Self> {
        let plan = Self { group: group.to_owned(), controller: controller.to_owned() };
        (!plan.is_on()).then_some(plan)
    }

    /// The file that tells which are on.
    pub(crate) fn file(&self) -> PathBuf {
        self.group.join(FILE)
    }

    fn is_on(&self) -> bool {
        let text = fs::read_to_string(self.file()).unwrap_or_default();
        text.split_whitespace().any(|name| name == self.controller)
    }

    pub(crate) fn turn_on(&self) -> Result<()> {
        self.write('+')
    }

    /// Turns it off, unless a child uses it: other programs make groups too. False if it stays on.
    pub(crate) fn turn_off(&self) -> bool {
        let _turn = lock(&self.group);
        // The kernel refuses where a child passes it on to its own children.
        !self.is_on() || (!self.is_used() && self.write('-').is_ok())
    }

    fn write(&self, sign: char) -> Result<()> {
        let word = format!("{sign}{}", self.controller);
        write_in_group(&self.group, FILE, &word).map_err(|source| Error::Cgroup {
            path: self.file(),
            what: format!("did not take `{word}`"),
            source,
        })
    }

    fn is_used(&self) -> bool {
        let Some((_, defaults)) = DEFAULTS.iter().find(|(name, _)| *name == self.controller) else {
            return false;
        };
        let Ok(children) = fs::read_dir(&self.group) else { return true };
        children.flatten().filter(|child| child.path().is_dir()).any(|child| {
            defaults.iter().any(|(file, default)| {
                fs::read_to_string(child.path().join(file)).is_ok_and(|text| text.trim() != *default)
            })
        })
    }
}

/// Keeps other processes of ours from turning a controller off between our look at it and the limits that need
/// it. Whoever can read the group could hold the lock for ever, so it is not waited for longer than a second.
pub(crate) fn lock(group: &Path) -> Option<OwnedFd> {
    let group = open_group(group).ok()?;
    let lock = openat(&group, ".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    for _ in 0..100 {
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Some(lock);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_a_child_keeps_a_controller_on() {
        let folder = tempfile::tempdir().unwrap();
        let child = folder.path().join("child");
        fs::create_dir(&child).unwrap();
        let on =
            |controller: &str| TurnedOn { group: folder.path().into(), controller: controller.to_owned() };
        assert!(!on("cpu").is_used() && !on("cpuset").is_used());
        fs::write(child.join("cpu.max"), "max 100000\n").unwrap();
        fs::write(child.join("cpuset.cpus"), "\n").unwrap();
        assert!(!on("cpu").is_used() && !on("cpuset").is_used());
        fs::write(child.join("cpu.weight"), "50\n").unwrap();
        assert!(on("cpu").is_used() && !on("cpuset").is_used());
        fs::write(child.join("cpuset.cpus"), "0-1\n").unwrap();
        assert!(on("cpuset").is_used());
    }
}
