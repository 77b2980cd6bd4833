//! The few operating-system facilities that workloads share: forked peers, memory shared with them,
//! and the CPUs that they may use.

pub(crate) mod shared;
pub(crate) mod team;
