//! What Handoff measures: one module a workload, each with its own parameters and result.
//!
//! A workload knows nothing of comparisons: it is a function from parameters to
//! [`measurement::Measurement`]s. Running it many times, beside another and with an interval, is the
//! business of `handoff-lab`.

pub mod measurement;
