//! Makes Rust of the interfaces below `aidl/`.

fn main() -> Result<(), handoff_aidl::BuildError> {
    handoff_aidl::Builder::new().source("aidl").asynchronous().compile("interfaces.rs")
}
