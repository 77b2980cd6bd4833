//! Whole processes on some CPUs: every thread, also those that are born while it is being done.
//!
//! `sched_setaffinity(2)` moves one thread. A process is moved by walking its threads until there
//! are none left to move: a thread that is born meanwhile inherits the mask of the one that made it,
//! so each pass leaves fewer that can have escaped.

use crate::affinity::{affinity, set_affinity};
use crate::allowed::Allowed;
use crate::cgroup::{self, Cpuset};
use crate::cpuset::CpuSet;
use crate::error::{Error, Result};
use crate::process::{ProcessKey, QUIET_PASSES, Scope, settle, threads_in};
use crate::root::Root;
use crate::tid::Tid;
use std::collections::BTreeMap;
use std::fmt;

/// The threads of a process (or less, or more: see [`Scope`]), put on some CPUs.
#[derive(Debug, Clone)]
pub struct Pin {
    scope: Scope,
    id: Tid,
    wanted: CpuSet,
    granted: CpuSet,
    cpuset: Option<Cpuset>,
    former: BTreeMap<Tid, CpuSet>,
    process: Option<ProcessKey>,
}

impl Pin {
    /// Puts every thread in the scope on these CPUs.
    pub fn apply(scope: Scope, id: Tid, wanted: &CpuSet) -> Result<Self> {
        let mut pin = Self {
            scope,
            id,
            wanted: wanted.clone(),
            granted: CpuSet::new(),
            cpuset: cgroup::cpuset_of(&Root::host(), id),
            former: BTreeMap::new(),
            process: ProcessKey::of(id).ok(),
        };
        match pin.walk() {
            Ok(()) => Ok(pin),
            Err(error) => {
                pin.restore();
                Err(error)
            }
        }
    }

    fn walk(&mut self) -> Result<()> {
        let (scope, id) = (self.scope, self.id);
        settle(scope, id, |tid, first_pass| self.place(tid, first_pass))
    }

    fn place(&mut self, tid: Tid, first_pass: bool) -> Result<bool> {
        let now = affinity(tid)?;
        let is_placed = !self.granted.is_empty() && now == self.granted;
        if first_pass || !is_placed {
            self.former.entry(tid).or_insert_with(|| now.clone());
        }
        if is_placed {
            return Ok(false);
        }
        // A descendant in a narrower cpuset gets what it can have, and is left at that.
        let granted = set_affinity(tid, &self.wanted)?;
        if self.granted.is_empty() {
            self.granted = granted.clone();
        }
        Ok(granted != now)
    }

    /// What was asked for.
    #[must_use]
    pub fn wanted(&self) -> &CpuSet {
        &self.wanted
    }

    /// What the kernel granted to the first thread: less than what was wanted where a CPU is absent,
    /// offline or outside the cpuset.
    #[must_use]
    pub fn granted(&self) -> &CpuSet {
        &self.granted
    }

    /// The threads that were placed, with the masks that they had.
    #[must_use]
    pub fn former(&self) -> &BTreeMap<Tid, CpuSet> {
        &self.former
    }

    /// Why less was granted than was wanted; `None` if all was.
    #[must_use]
    pub fn shortfall(&self) -> Option<String> {
        if self.wanted.is_subset(&self.granted) {
            return None;
        }
        Allowed::of(self.id).ok()?.objection(&self.wanted)
    }

    /// The threads that are not (any more) where they were put, with the likely cause.
    ///
    /// The kernel drops a pin when its last CPU goes offline, and older ones at every move between
    /// cpusets: Android's switches between foreground and background.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchThread`] if the process ended.
    pub fn lost(&self) -> Result<Vec<LostPin>> {
        let has_ended = || self.process.is_some_and(|process| !process.is_alive());
        if self.scope != Scope::Thread && has_ended() {
            return Err(Error::NoSuchThread(self.id));
        }
        let mut lost = Vec::new();
        for tid in threads_in(self.scope, self.id)? {
            match affinity(tid) {
                Ok(found) if found != self.granted => {
                    lost.push(LostPin { tid, cause: self.cause(tid, &found), found });
                }
                Err(error) if self.scope == Scope::Thread => return Err(error),
                _ => {}
            }
        }
        Ok(lost)
    }

    fn cause(&self, tid: Tid, found: &CpuSet) -> LossCause {
        let root = Root::host();
        // Before the cpusets, which a CPU that goes offline leaves too. A thread without any CPU has only
        // such as are going.
        let online = root.cpus("/sys/devices/system/cpu/online").unwrap_or_default();
        let offline = if found.is_empty() { self.granted.clone() } else { self.granted.difference(&online) };
        if !offline.is_empty() {
            return LossCause::Offline { cpus: offline };
        }
        let cpuset = cgroup::cpuset_of(&root, tid);
        if cpuset.as_ref().map(|set| &set.path) != self.cpuset.as_ref().map(|set| &set.path) {
            return LossCause::CpusetMove { to: cpuset };
        }
        if cpuset.as_ref().map(|set| &set.cpus) != self.cpuset.as_ref().map(|set| &set.cpus) {
            return LossCause::CpusetChange { now: cpuset };
        }
        LossCause::SetByOthers
    }

    /// Places every thread again, and remembers what is granted now.
    pub fn reapply(&mut self) -> Result<()> {
        let before = std::mem::take(&mut self.granted);
        if let Err(error) = self.walk() {
            self.granted = before;
            return Err(error);
        }
        self.cpuset = cgroup::cpuset_of(&Root::host(), self.id);
        Ok(())
    }

    /// Gives each thread the mask that it had; threads that were born since get that of the process's
    /// first. Threads that ended are passed over; says how many were put back.
    pub fn restore(&mut self) -> usize {
        let former = std::mem::take(&mut self.former);
        let Some(default) = former.get(&self.id).or_else(|| former.values().next()).cloned() else {
            return 0;
        };
        let put_back = |tid: Tid, mask: &CpuSet| usize::from(set_affinity(tid, mask).is_ok());
        let mut count = former.iter().map(|(&tid, mask)| put_back(tid, mask)).sum();
        // Those born before the last restored one inherited the pin.
        for _ in 0..QUIET_PASSES {
            let now = threads_in(self.scope, self.id).unwrap_or_default();
            let born = now.into_iter().filter(|tid| !former.contains_key(tid));
            let pinned = born.filter(|&tid| affinity(tid).is_ok_and(|mask| mask == self.granted));
            count += pinned.map(|tid| put_back(tid, &default)).sum::<usize>();
        }
        count
    }
}

/// A thread that is not where it was put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostPin {
    /// The thread.
    pub tid: Tid,
    /// Where it may run instead.
    pub found: CpuSet,
    /// What is likely to have done it.
    pub cause: LossCause,
}

/// Why a pin was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LossCause {
    /// It was moved to another cpuset.
    CpusetMove {
        /// Where to.
        to: Option<Cpuset>,
    },
    /// Its cpuset was changed.
    CpusetChange {
        /// What it is now.
        now: Option<Cpuset>,
    },
    /// A CPU went offline.
    Offline {
        /// Which of the pinned ones.
        cpus: CpuSet,
    },
    /// Somebody set another mask, the program itself perhaps.
    SetByOthers,
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpusetMove { to: Some(to) } => {
                write!(f, "it was moved to the cpuset {} (which has {{{}}})", to.path.display(), to.cpus)
            }
            Self::CpusetMove { to: None } => f.write_str("it was moved out of its cpuset"),
            Self::CpusetChange { now: Some(now) } => {
                write!(f, "its cpuset {} has {{{}}} now", now.path.display(), now.cpus)
            }
            Self::CpusetChange { now: None } => f.write_str("its cpuset is gone"),
            Self::Offline { cpus } => write!(f, "{{{cpus}}} went offline"),
            Self::SetByOthers => f.write_str("another program, or it itself, set its mask"),
        }
    }
}

impl fmt::Display for LostPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.found.is_empty() {
            true => write!(f, "thread {} has no CPU left to run on: {}", self.tid, self.cause),
            false => write!(f, "thread {} may run on {{{}}}: {}", self.tid, self.found, self.cause),
        }
    }
}
