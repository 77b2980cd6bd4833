//! Handoff kernel.
