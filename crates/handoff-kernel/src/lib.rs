//! Handoff's kernel workbench: what a patch changes, and what it does on another tree.

pub mod analyse;
pub mod build;
pub mod device;
pub mod document;
mod members;
pub mod patch;
pub mod port;
pub mod prerequisite;
pub mod prove;

pub mod study;

/// The examples of the crate's README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
