//! What Handoff measures: one module a workload, each with its own parameters and result.
//!
//! A workload knows nothing of comparisons: it is a function from parameters to
//! [`measurement::Measurement`]s. Running it many times, beside another and with an interval, is the
//! business of `handoff-lab`.
//!
//! | module | measures |
//! |---|---|
//! | [`rpc`], [`throughput`] | whole calls, of one payload and of many |
//! | [`transports`] | direct, oneway, queue and memory beside calls |
//! | [`latency`], [`inversion`] | deadlines and priorities of calls |
//! | [`add_ints`] | one small call after a pause |
//! | [`objects`] | many objects in another process: handles, deaths, the kernel's memory |
//! | [`phases`] | the points that a call passes, one by one |
//! | [`floor`] | bare primitives: futex, cache line, pipe, socket, copy |
//! | [`hackbench`] | N writers to M readers in groups |
//! | [`sched_pipe`] | a token through two pipes |
//! | [`wake_fanout`] | one waker, N wakees |
//! | [`spin`] | CPU-bound tasks |
//! | [`affinity_study`] | CPU-bound tasks as the kernel places them, on a slow core, on fast ones |
//! | [`tcp_stream`], [`tcp_rr`] | TCP over loopback, or two network namespaces with a queue |
//!
//! What a missed deadline leaves is the business of [`deadline`].
//!
//! [`Workload`] is any of them by name, and [`several`] is some of them in one run. A program that runs those with calls in them calls
//! [`play_if_peer`] first in its `main`: the second process is that program, started again.

pub mod activation;
pub mod add_ints;
pub mod affinity_study;
mod catalog;
mod cformat;
pub mod deadline;
mod error;
pub mod figures;
pub mod floor;
pub mod hackbench;
pub mod inversion;
pub mod latency;
pub mod measurement;
mod net;
pub mod objects;
mod outcome;
pub mod peer;
pub mod phases;
mod place;
pub mod rpc;
pub mod sched_pipe;
pub mod several;
pub mod spin;
mod sys;
pub mod tcp_rr;
pub mod tcp_stream;
pub mod throughput;
pub mod transports;
pub mod wake_fanout;

pub use catalog::Workload;
pub use error::{Error, Result};
pub use net::{Link, Path, Queue};
pub use outcome::{Counter, Outcome};
pub use peer::play_in_test;
pub use place::{Placement, allowed_cpus};
pub use rpc::play::play_if_peer;
pub use sys::clock::process_cpu_time;
pub use sys::usage::Usage;

/// The examples of the crate's README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
