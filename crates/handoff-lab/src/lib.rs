//! How Handoff measures: experiments, rounds, statistics, the machine's condition, reports.
//!
//! A workload (`handoff-workloads`) measures one thing and knows nothing of comparisons; this crate
//! compares. Its parts, in the order in which data flows through them:
//!
//! - [`doctor`]: what could spoil a figure on this machine;
//! - [`interleave`]: subjects and floors in turns, for benchmarks and `handoff run`;
//! - [`survey`]: floors, or transports, side by side;
//! - [`suite`]: the standard suite of `handoff run`; [`report`]: one HTML file that opens offline;
//! - [`experiment`]: A, A' and B in rounds until the question is answered; [`store`]: where that is kept;
//! - [`analyse`]: what a published table supports, or two sets of results that were measured apart;
//! - [`bisect`]: the commit that began a regression;
//! - [`history`]: a metric over many runs, and what changed its level;
//! - [`import`] and [`export`]: the formats of other programs;
//! - [`stats`]: from rounds to an interval and a verdict; [`simulate`]: how often that errs.

pub mod analyse;
pub mod bisect;
pub mod clock;
pub mod doctor;
pub mod experiment;
pub mod export;
pub mod history;
pub mod import;
pub mod interleave;
pub mod report;
pub mod simulate;
pub mod stats;
pub mod store;
pub mod suite;
pub mod survey;

/// A feature that this build was made without: what is asked for is not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this build has no {what}: it was made without the feature `{feature}`; \
     `cargo install --path crates/handoff --features full` builds a handoff that has everything"
)]
pub struct NotBuilt {
    pub what: &'static str,
    pub feature: &'static str,
}

/// The examples of the crate's README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
