//! Handoff's kernel workbench: guests to run a kernel in, and the tools around a kernel's source.

pub mod analyse;
pub mod build;
pub mod device;
pub mod document;
pub mod guest;
pub mod patch;
pub mod port;
pub mod prerequisite;
pub mod prove;

pub mod study;

/// The examples of the crate's README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
