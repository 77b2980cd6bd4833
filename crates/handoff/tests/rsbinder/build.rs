//! Has rsbinder's own compiler read the interfaces that both sides speak.

fn main() {
    rsbinder_aidl::Builder::new()
        .source("aidl/interop/IInterop.aidl")
        .source("../../../../benches/ndk/handoff/benches/IEcho.aidl")
        .output("interop.rs")
        .generate()
        .expect("the interface is read");
}
