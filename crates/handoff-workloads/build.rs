//! Makes Rust of the published benchmark's interface, whose generated code `transports` measures.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    handoff_aidl::Builder::new()
        .source("../../examples/interfaces/aidl/vendor/sample/benchmark")
        .compile("interfaces.rs")?;
    Ok(())
}
