//! Fragments that are built in: what a guest of QEMU needs, and which Binder driver the kernel has.

use std::path::Path;

use super::{BuildError, KernelArch, tree};

const GUEST: &str = include_str!("../../data/guest-kernel.config");
/// Symbols that newer kernels have no more, or set by themselves.
const GUEST_BEFORE_7: &str = include_str!("../../data/guest-kernel-before-7.config");
const GUEST_X86_64: &str = include_str!("../../data/guest-kernel-x86_64.config");
const GUEST_ARM64: &str = include_str!("../../data/guest-kernel-arm64.config");
const BINDER_C: &str = include_str!("../../data/binder-c.config");
const BINDER_RUST: &str = include_str!("../../data/binder-rust.config");

/// Whether a name is one of the built-in fragments', and not a file's.
pub(crate) fn is_built_in(name: &str) -> bool {
    ["none", "guest", "binder-c", "binder-rust"].contains(&name)
}

/// The text of the fragments with these names, each with its name: `guest`, `binder-c` and `binder-rust` are
/// built in, `none` is nothing, and every other name is a file's.
///
/// A guest has the Binder driver in C unless the other one is named.
pub(super) fn named(
    names: &[String],
    arch: Option<KernelArch>,
    tree: &Path,
) -> Result<Vec<(String, String)>, BuildError> {
    let names_driver = names.iter().any(|name| name.starts_with("binder-"));
    let mut found = Vec::new();
    for name in names {
        let text = match name.as_str() {
            "none" => continue,
            "guest" => guest(arch, tree::version(tree).map(|(major, _)| major), !names_driver)?,
            "binder-c" => BINDER_C.to_owned(),
            "binder-rust" => BINDER_RUST.to_owned(),
            file => {
                std::fs::read_to_string(file).map_err(BuildError::io("read the fragment", Path::new(file)))?
            }
        };
        found.push((name.clone(), text));
    }
    Ok(found)
}

/// What a kernel of this major version needs to run as a small guest, over [`Base::Tiny`](super::Base::Tiny).
fn guest(arch: Option<KernelArch>, major: Option<u32>, with_binder: bool) -> Result<String, BuildError> {
    let of_arch = match arch {
        Some(KernelArch::X86_64) => GUEST_X86_64,
        Some(KernelArch::Arm64) => GUEST_ARM64,
        Some(KernelArch::Arm) | None => {
            return Err(BuildError::Options(
                "no guest can be of this architecture: name `--fragment none`, or a fragment of your own"
                    .to_owned(),
            ));
        }
    };
    let of_version = if major.is_none_or(|major| major < 7) { GUEST_BEFORE_7 } else { "" };
    Ok([GUEST, of_version, of_arch, if with_binder { BINDER_C } else { "" }].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::RequestedConfig;

    fn asked(names: &[&str], tree: &Path, arch: KernelArch) -> RequestedConfig {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut asked = RequestedConfig::default();
        for (name, text) in named(&names, Some(arch), tree).expect("built in") {
            asked.add(&text, &name).expect("a good fragment");
        }
        assert_eq!(asked.overridden(), []);
        asked
    }

    fn tree_of(version: &str) -> tempfile::TempDir {
        let tree = tempfile::tempdir().expect("a folder");
        std::fs::write(tree.path().join("Makefile"), format!("VERSION = {version}\nPATCHLEVEL = 3\n"))
            .expect("written");
        tree
    }

    #[test]
    fn a_guest_s_settings_follow_the_version_and_the_driver() {
        let (old, new) = (tree_of("6"), tree_of("7"));
        for arch in [KernelArch::X86_64, KernelArch::Arm64] {
            let text = asked(&["guest"], old.path(), arch).to_text();
            assert!(text.lines().count() > 80, "{text}");
            assert!(text.contains("CONFIG_SCHED_DEBUG=y\n") && text.contains("CONFIG_ANDROID_BINDERFS=y\n"));
            let text = asked(&["binder-rust", "guest"], new.path(), arch).to_text();
            assert!(!text.contains("SCHED_DEBUG") && !text.contains("CONFIG_ANDROID_BINDERFS=y"), "{text}");
            assert!(text.contains("CONFIG_ANDROID_BINDER_IPC_RUST=y\n"), "{text}");
        }
        assert!(asked(&["none"], old.path(), KernelArch::Arm).is_empty());
        let arm = named(&["guest".to_owned()], Some(KernelArch::Arm), old.path());
        assert!(arm.is_err_and(|why| why.to_string().contains("--fragment none")));
        let lost = named(&["/no/such.config".to_owned()], None, old.path());
        assert!(lost.is_err_and(|why| why.to_string().contains("/no/such.config")));
    }
}
