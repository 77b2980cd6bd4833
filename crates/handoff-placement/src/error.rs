//! What can go wrong, with what was wanted, what stood in its way, and what to do.

use crate::cpuset::CpuSet;
use crate::priority::Priority;
use crate::selector_error::SelectorError;
use crate::tid::Tid;
use std::io;
use std::path::PathBuf;

/// The result of a placement.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a placement failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The thread ended, or never was.
    #[error("there is no thread {0} (any more)")]
    NoSuchThread(Tid),

    /// The kernel did not take a mask.
    #[error("thread {tid} cannot be put on CPUs {{{wanted}}}: {hint}")]
    Affinity {
        /// The thread.
        tid: Tid,
        /// The CPUs that were asked for.
        wanted: CpuSet,
        /// What stands in the way, and what to do.
        hint: String,
        /// What the kernel said.
        source: io::Error,
    },

    /// The mask of a thread could not be read.
    #[error("the affinity of thread {tid} cannot be read")]
    ReadAffinity {
        /// The thread.
        tid: Tid,
        /// What the kernel said.
        source: io::Error,
    },

    /// The scheduling attributes of a thread could not be read.
    #[error("the scheduling attributes of thread {tid} cannot be read")]
    ReadPriority {
        /// The thread.
        tid: Tid,
        /// What the kernel said.
        source: io::Error,
    },

    /// The kernel did not take a priority.
    #[error("thread {tid} cannot be given {wanted}: {hint}")]
    Priority {
        /// The thread.
        tid: Tid,
        /// What was asked for.
        wanted: Priority,
        /// What stands in the way, and what to do.
        hint: String,
        /// What the kernel said.
        source: io::Error,
    },

    /// The kernel did not take scheduling attributes.
    #[error("thread {tid} cannot be scheduled so: {hint}")]
    Scheduling {
        /// The thread.
        tid: Tid,
        /// What stands in the way, and what to do.
        hint: String,
        /// What the kernel said.
        source: io::Error,
    },

    /// Threads of a process keep escaping.
    #[error(
        "process {pid} undoes the placement of its threads faster than it can be given; confine it with a \
         cpuset instead (`handoff exec --cgroup-cpus`)"
    )]
    Escaping {
        /// The process.
        pid: Tid,
    },

    /// A real-time thread could lock the machine.
    #[error("{reason}; give --allow-rt-lockup (`allow_rt_lockup`) to do it all the same")]
    RtLockup {
        /// Why.
        reason: String,
    },

    /// A selector means nothing here.
    #[error(transparent)]
    Selector(#[from] SelectorError),

    /// A control group cannot be had as asked.
    #[error("{} {what}", path.display())]
    Cgroup {
        /// The group or one of its files.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },

    /// The journal of a policy cannot be used.
    #[error("{} {what}", path.display())]
    Journal {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },

    /// The machine does not tell which CPUs it has.
    #[error("{} does not tell which CPUs are online; is /sys mounted?", path.display())]
    Topology {
        /// The file that was read.
        path: PathBuf,
        /// Why it could not be.
        source: io::Error,
    },

    /// A guard would lower a thread that it may not raise again.
    #[error(
        "a guard that lowers this thread from {from} to {to} could not restore it: raising needs \
         CAP_SYS_NICE or a higher RLIMIT_NICE / RLIMIT_RTPRIO; use `Priority::apply` if it may stay there"
    )]
    NoWayBack {
        /// The priority that could not be restored.
        from: Priority,
        /// The one asked for.
        to: Priority,
    },
}
