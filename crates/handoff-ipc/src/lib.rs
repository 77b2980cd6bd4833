//! Handoff ipc.
