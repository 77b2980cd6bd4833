//! Handoff workloads.
