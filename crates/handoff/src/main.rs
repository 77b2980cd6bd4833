//! The `handoff` command line.
fn main() {}
