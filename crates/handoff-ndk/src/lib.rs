//! `libbinder_ndk` for any Linux: the C interface through which Android's native code uses Binder, on Handoff's engines.
//!
//! The headers in `include/android` have the NDK's names, so that a HAL and the code that `aidl --lang=ndk` made for it
//! compile unchanged. `engine.rs` is the one place that knows how `handoff-ipc` calls and serves. What is not here, and
//! why, stands in the book: `docs/book/src/reference/ndk.md`.
#![allow(non_camel_case_types, non_snake_case)] // C names.
#![allow(clippy::missing_safety_doc)] // The headers say what each pointer is.

pub mod binder;
pub mod bundle;
pub mod class;
pub mod death;
mod engine;
pub mod lazy;
mod locked;
pub mod manager;
mod object;
pub mod parcel;
mod polling;
pub mod process;
pub mod queue;
pub mod status;
pub mod thread;
pub mod transfer;
