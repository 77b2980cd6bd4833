//! Makes Rust of the published benchmark's interface, whose generated code `transports` measures.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    handoff_aidl::Builder::new().source("interfaces").compile("interfaces.rs")?;
    Ok(())
}
