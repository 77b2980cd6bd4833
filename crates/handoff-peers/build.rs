//! Copies the workspace's lock file into `OUT_DIR`: the versions of the peers are reported from it.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    // The one file outside the crate that a build may read. A crate from the registry stands in no workspace: its peers'
    // versions are then unknown. The archive's own lock file would tell versions that may not be those that are linked.
    let lock = Path::new("../../Cargo.lock");
    let mut text = String::new();
    if lock.exists() {
        println!("cargo::rerun-if-changed={}", lock.display());
        text = fs::read_to_string(lock)?;
    }
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    fs::write(Path::new(&out).join("Cargo.lock"), text)
}
