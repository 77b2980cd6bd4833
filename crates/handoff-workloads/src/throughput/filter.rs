//! `--benchmark_filter`: which benchmarks are run.

use regex_lite::Regex;

use crate::error::{Error, Result};

/// A regular expression on names; with a `-` in front it selects what does not match.
pub(super) struct Filter {
    pattern: Regex,
    inverted: bool,
}

impl Filter {
    /// An empty filter and `all` select everything.
    pub(super) fn new(text: &str) -> Result<Self> {
        let (inverted, pattern) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None if text == "all" => (false, ""),
            None => (false, text),
        };
        let pattern = Regex::new(pattern)
            .map_err(|error| Error::parameter("benchmark_filter", format!("{text:?}: {error}")))?;
        Ok(Filter { pattern, inverted })
    }

    pub(super) fn selects(&self, name: &str) -> bool {
        self.pattern.is_match(name) != self.inverted
    }
}
