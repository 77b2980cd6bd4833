//! Watches hand-offs: who woke whom, on which CPU, how long it took to run, and why.
//!
//! A [`Capture`] records the kernel's scheduling events into a buffer of its own ([`tracefs`]), as
//! binary ring-buffer pages ([`ring`]) that are decoded by the descriptions the kernel prints
//! ([`format`](mod@format)) into a [`Trace`]. Nothing that other programs record is touched, and
//! nothing is left behind, even after a kill ([`tracefs::restore`]).
//!
//! ```no_run
//! use handoff_trace::{Capture, Config, Graph, Timeline, TraceFs, diagnose};
//!
//! # fn main() -> handoff_trace::Result<()> {
//! let capture = Capture::start(&TraceFs::find()?, &Config::default())?;
//! // ... what is to be watched ...
//! let trace = capture.finish()?.decode()?;
//!
//! let timeline = Timeline::of(&trace);
//! println!("{}", Graph::of(&trace, &timeline, 2, |_| true));
//! for slow in diagnose::slowest_wakes(&trace, &timeline, 3, |_| true) {
//!     println!("{}", slow.headline());
//! }
//! # Ok(()) }
//! ```
//!
//! | module | what for |
//! |---|---|
//! | [`capture`], [`mod@record`] | recording: a stream, a flight recorder, or while a command runs |
//! | [`dat`], [`perfetto`], [`systrace`] | `trace.dat` files, Perfetto files, traces as text |
//! | [`mod@file`], [`render`] | any of these by what is in it; DOT, SVG and HTML |
//! | [`model`] | states of tasks, turns of CPUs, wake-ups, the wake graph, the wake-wide rules |
//! | [`mod@diagnose`] | why one transaction was slow, in plain words |

pub mod capture;
mod context;
pub mod dat;
mod decode;
pub mod diagnose;
pub mod error;
pub mod event;
pub mod file;
pub mod format;
#[cfg(test)]
mod hostile_tests;
pub mod model;
mod names;
pub mod perfetto;
pub mod record;
pub mod render;
pub mod ring;
pub mod systrace;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod tracefs;

pub use capture::{Capture, Config, EventRequest, Keep};
pub use decode::{Decoder, Other};
pub use error::{Result, TraceError};
pub use event::{Context, Cpu, Event, EventKind, LeftAs, Tid, Wakee};
pub use model::graph::Graph;
pub use model::timeline::Timeline;
pub use trace::{BufferStats, Coverage, RawTrace, Slice, ThrottledGroup, Trace, TraceContext};
pub use tracefs::TraceFs;

/// The examples of the crate's README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
