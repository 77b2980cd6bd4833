//! Writes on standard error what the library tells through `tracing`.

/// From now on, warnings of the library are lines on standard error, unless the program has a subscriber already.
///
/// For programs that do not know `tracing`, such as those in other languages.
pub fn to_stderr() {
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_target(false)
        .without_time();
    // Fails where there is one: that one hears them.
    drop(subscriber.try_init());
}
