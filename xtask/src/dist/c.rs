//! The C library, and the one under the NDK's name, as one archive that is unpacked anywhere: pkg-config and CMake find
//! them from where their files are.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::files::{Tree, source};
use super::natives;
use super::settings::{Arch, Dist, VERSION};

/// Builds the archive for `arch`.
pub(super) fn build(dist: &Dist, arch: Arch) -> Result<PathBuf> {
    let built = natives::build(dist, arch, &["handoff-c", "handoff-ndk"])?;
    let tree = Tree::new()?;
    let bindings = source("bindings/c");
    tree.copy(bindings.join("include/handoff.h"), "include/handoff.h", 0o644)?;
    // As bindings/c/build.rs names it.
    tree.copy(built.join("libhandoff_c.so"), "lib/libhandoff_c.so.0", 0o755)?;
    std::os::unix::fs::symlink("libhandoff_c.so.0", tree.path().join("lib/libhandoff_c.so"))?;
    tree.copy(built.join("libhandoff_c.a"), "lib/libhandoff_c.a", 0o644)?;
    for (template, path) in [
        ("handoff.pc.in", "lib/pkgconfig/handoff.pc"),
        ("cmake/handoff-config.cmake", "lib/cmake/handoff/handoff-config.cmake"),
        ("cmake/handoff-config-version.cmake.in", "lib/cmake/handoff/handoff-config-version.cmake"),
    ] {
        let text = std::fs::read_to_string(bindings.join(template))
            .with_context(|| format!("cannot read bindings/c/{template}"))?;
        let text = text.replace("@prefix@", "${pcfiledir}/../..").replace("@version@", VERSION);
        tree.write(path, text, 0o644)?;
    }
    let ndk = source("crates/handoff-ndk");
    tree.copy(built.join("libbinder_ndk.so"), "lib/libbinder_ndk.so", 0o755)?;
    for folder in ["include/android", "include/fmq", "include/utils"] {
        for header in std::fs::read_dir(ndk.join(folder))? {
            let header = header?;
            let path = format!("{folder}/{}", header.file_name().to_string_lossy());
            tree.copy(header.path(), &path, 0o644)?;
        }
    }
    let config = "binder_ndk-config.cmake";
    tree.copy(ndk.join(config), &format!("lib/cmake/binder_ndk/{config}"), 0o644)?;
    let package =
        std::fs::read_to_string(ndk.join("binder_ndk.pc.in")).context("cannot read binder_ndk.pc.in")?;
    tree.write("lib/pkgconfig/binder_ndk.pc", package.replace("@version@", VERSION), 0o644)?;
    for example in ["greeter.c", "place.c", "postbox.c"] {
        let path = format!("share/doc/handoff/examples/{example}");
        tree.copy(bindings.join("examples").join(example), &path, 0o644)?;
    }
    tree.add_licences("share/doc/handoff")?;
    let name = format!("handoff-c-{VERSION}-linux-{}", arch.name());
    let file = dist.folder.join(format!("{name}.tar.gz"));
    tree.tar_gz(&name, &file)?;
    Ok(file)
}
