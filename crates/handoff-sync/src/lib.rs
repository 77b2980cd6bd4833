//! Words in memory that processes share, and how to wait for them.
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod adaptive_spin;
pub mod backoff;
pub mod bell;
pub mod event_word;
pub mod futex;
pub mod gate;
pub mod presence;
pub mod ring;
pub mod spurious;
pub mod stay;
pub mod wait;
pub mod wait_strategy;
pub mod word;
