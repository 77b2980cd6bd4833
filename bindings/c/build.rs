//! Names the shared library for the dynamic loader.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Programs that link it ask for this name, whatever file they were linked with; Android's loader knows no versions.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libhandoff_c.so.0");
    }
}
