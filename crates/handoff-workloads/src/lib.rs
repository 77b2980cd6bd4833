//! What Handoff measures: one module a workload, each with its own parameters and result.
//!
//! A workload knows nothing of comparisons: it is a function from parameters to
//! [`measurement::Measurement`]s. Running it many times, beside another and with an interval, is the
//! business of `handoff-lab`.

mod error;
pub mod floor;
pub mod measurement;
mod place;
mod sys;

pub use error::{Error, Result};
pub use place::{Placement, allowed_cpus};
pub use sys::team::Usage;
