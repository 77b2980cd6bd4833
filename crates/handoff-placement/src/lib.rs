//! Handoff placement.
