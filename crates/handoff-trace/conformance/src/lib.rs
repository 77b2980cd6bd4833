//! Nothing but tests: see `tests/perfetto.rs`.
