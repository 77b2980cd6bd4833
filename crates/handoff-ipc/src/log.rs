//! Writes on standard error what the libraries tell through `tracing`.

use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt as _;

/// What is written, once [`to_stderr`] was called.
static FILTER: OnceLock<Handle<Targets, Registry>> = OnceLock::new();

/// From now on, warnings of the libraries are lines on standard error, unless the program has a subscriber already.
///
/// For programs that do not know `tracing`, such as those in other languages.
pub fn to_stderr() {
    let (filter, handle) = reload::Layer::new(Targets::new().with_default(LevelFilter::WARN));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .without_time();
    // Fails where there is one: that one hears them.
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        FILTER.get_or_init(|| handle);
    }
}

/// From now on, [`to_stderr`] also writes what Handoff's own libraries do: files, sockets, and programs that they start.
pub fn verbosely() {
    if let Some(filter) = FILTER.get() {
        // Fails only when the subscriber is gone, which is then no loss.
        drop(filter.modify(|filter| {
            *filter =
                Targets::new().with_default(LevelFilter::WARN).with_target("handoff", LevelFilter::DEBUG);
        }));
    }
}
