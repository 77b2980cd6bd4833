//! Handoff lab.
