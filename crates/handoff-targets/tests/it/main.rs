//! This machine and others behind ssh, whole and broken.

mod failures;
mod targets;
