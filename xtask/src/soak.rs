//! `cargo xtask soak`: a message queue between two processes, for as long as it takes.

use anyhow::Result;
use clap::Args;

use crate::process::{cargo, succeeds};

/// Send a thousand million messages with checksums through a queue between two processes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask soak                         a few minutes; the tests send a million
  cargo xtask soak --messages 10000000     a few seconds")]
pub(crate) struct Options {
    /// How many.
    #[arg(long, default_value_t = 1_000_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    messages: u64,
}

/// Runs the test of that name with more messages; gives whether none was lost.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let mut test = cargo();
    test.args(["test", "--release", "--package", "handoff-ipc", "--test", "it", "--"]);
    test.args(["--exact", "soak::no_message_is_lost_between_two_processes", "--nocapture"]);
    succeeds(test.env("HANDOFF_SOAK_MESSAGES", options.messages.to_string()))
}
