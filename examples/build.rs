//! Makes Rust of the interfaces below `interfaces/`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // ANCHOR: build
    handoff_aidl::Builder::new()
        .source("interfaces/aidl")
        .source("interfaces/hidl")
        .source("interfaces/holders")
        .source("interfaces/queues")
        // The published benchmark's, which `handoff transports` measures: the crate that does keeps it.
        .source("../crates/handoff-workloads/interfaces")
        .asynchronous()
        .version(3, "0123456789abcdef0123456789abcdef01234567")
        .compile("interfaces.rs")?;
    // ANCHOR_END: build
    Ok(())
}
