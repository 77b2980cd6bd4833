//! Has rsbinder's own compiler read the interface that both sides speak.

fn main() {
    rsbinder_aidl::Builder::new()
        .source("aidl/interop/IInterop.aidl")
        .output("interop.rs")
        .generate()
        .expect("the interface is read");
}
