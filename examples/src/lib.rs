//! The interfaces of the examples, as the interface compiler makes them of `interfaces/`.

/// Everything below `interfaces/`, one module for each package.
pub mod interfaces {
    include!(concat!(env!("OUT_DIR"), "/interfaces.rs"));
}
