//! The few operating-system facilities that workloads share: forked peers, memory shared with them,
//! one start for all of them, and the kernel's counters.

pub(crate) mod clock;
pub(crate) mod gate;
pub(crate) mod limits;
pub(crate) mod perf;
pub(crate) mod shared;
pub(crate) mod team;
pub(crate) mod usage;
