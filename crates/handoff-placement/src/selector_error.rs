//! What is wrong with a selector of CPUs.

use std::fmt;

/// Why a selector could not be read, or means nothing on this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{part}` {why}")]
pub struct SelectorError {
    part: String,
    why: String,
}

impl SelectorError {
    pub(crate) fn new(part: impl fmt::Display, why: impl Into<String>) -> Self {
        let part = part.to_string().chars().filter(|c| !c.is_control()).take(60).collect();
        Self { part, why: why.into() }
    }
}
