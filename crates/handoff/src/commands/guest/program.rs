//! Which `handoff` a guest gets.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use handoff_guest::Arch;

use crate::output::Advice as _;

pub(super) fn this() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find this program to copy it")
}

/// The static handoff for another architecture: beside this program, or where `cargo xtask dist` puts it.
pub(super) fn for_arch(arch: Arch) -> anyhow::Result<PathBuf> {
    let places = places(&this()?, arch);
    match places.iter().find(|place| place.is_file()) {
        Some(found) => Ok(found.clone()),
        None => Err(anyhow::anyhow!("this handoff cannot run in a guest of {arch}")).advise(format_args!(
            "build one with `cargo xtask dist --arch {arch}`, or name one with --handoff, or run a program of the \
             guest with --raw"
        )),
    }
}

/// Where to look, in this order.
fn places(this: &Path, arch: Arch) -> Vec<PathBuf> {
    let name = format!("handoff-{}", arch.rust_target().split('-').next().unwrap_or_default());
    let Some(folder) = this.parent() else { return Vec::new() };
    let mut places = vec![folder.join(&name)];
    // This program is `target/release/handoff`, theirs `target/dist/handoff-aarch64`.
    if let Some(target) = folder.parent() {
        places.extend(["dist", "dist/dev"].map(|dist| target.join(dist).join(&name)));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_for_beside_this_program_and_where_it_is_built() {
        assert_eq!(
            places(Path::new("/t/release/handoff"), Arch::Arm64),
            ["/t/release/handoff-aarch64", "/t/dist/handoff-aarch64", "/t/dist/dev/handoff-aarch64"]
                .map(PathBuf::from)
        );
        assert_eq!(places(Path::new("/"), Arch::Arm64), Vec::<PathBuf>::new());
    }
}
