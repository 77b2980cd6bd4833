//! Watches hand-offs: who woke whom, on which CPU, how long it took to run, and why.
//!
//! A [`Capture`] records the kernel's scheduling events into a buffer of its own ([`tracefs`]), as
//! binary ring-buffer pages ([`ring`]) that are decoded by the descriptions the kernel prints
//! ([`format`](mod@format)) into a [`Trace`]. Nothing that other programs record is touched, and nothing is left
//! behind, even after a kill ([`tracefs::restore`]).

pub mod capture;
pub mod dat;
mod decode;
pub mod diagnose;
pub mod error;
pub mod event;
pub mod format;
#[cfg(test)]
mod hostile_tests;
pub mod model;
mod names;
pub mod perfetto;
pub mod record;
pub mod render;
pub mod ring;
mod surroundings;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod tracefs;

pub use capture::{Capture, Config, Keep, Wanted};
pub use decode::{Decoder, Other};
pub use error::{Result, TraceError};
pub use event::{Context, Cpu, Event, LeftAs, Tid, Wakee, What};
pub use model::graph::Graph;
pub use model::timeline::Timeline;
pub use trace::{BufferStats, Coverage, RawTrace, Slice, Surroundings, Throttled, Trace};
pub use tracefs::TraceFs;
