//! A Rust tool-chain for kernels: Debian's compiler, its sources and bindgen, unpacked in the cache.
//!
//! They run with the loader and libraries that were unpacked with them, so that the host may be older. C is
//! compiled by the host's compiler.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use handoff_guest::{Arch, unpack_packages};

use super::BuildError;

/// Debian's release that the tool-chain comes from: the first whose compiler is new enough for Binder in Rust.
const SUITE: &str = "trixie";
/// What is run, and the headers for objtool, which newer kernels build; what these need is followed.
const PACKAGES: [&str; 6] =
    ["rustc", "rust-src", "bindgen", "libclang1-19", "libclang-common-19-dev", "libelf-dev"];
/// Programs that get a wrapper, with what Kbuild calls them.
const PROGRAMS: [&str; 3] = ["rustc", "rustdoc", "bindgen"];
const HOST_LIBELF_HEADER: &str = "/usr/include/libelf.h";

/// An unpacked Rust tool-chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    root: PathBuf,
    /// The architecture's folder of libraries, such as `x86_64-linux-gnu`.
    triplet: &'static str,
}

impl Toolchain {
    /// Fetches the packages into the cache, where they are not there yet (about 160 MB; 0.9 GB unpacked).
    pub fn fetch(cache: Option<&Path>, progress: &dyn Fn(&str)) -> Result<Self, BuildError> {
        let arch = Arch::host().ok_or_else(|| {
            BuildError::Options(
                "packages are only fetched on x86-64 and arm64: install rustc, its sources and bindgen yourself"
                    .to_owned(),
            )
        })?;
        // Libraries; headers only those of Rust's own.
        let follow = |name: &str| {
            let is_library = name.starts_with("lib") || name.starts_with("zlib");
            is_library && (!name.ends_with("-dev") || name.starts_with("libstd-rust"))
        };
        let root = unpack_packages(cache, arch, SUITE, &PACKAGES, &follow, progress)?;
        let (triplet, loader) = match arch {
            Arch::X86_64 => ("x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
            Arch::Arm64 => ("aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
        };
        let toolchain = Self { root, triplet };
        toolchain.write_wrappers(loader)?;
        toolchain.link_libelf()?;
        Ok(toolchain)
    }

    /// What tells it from another one.
    pub(crate) fn name(&self) -> &str {
        self.root.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// What make must have in its environment to find it.
    pub(crate) fn environment(&self) -> Result<Vec<(&'static str, OsString)>, BuildError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.own("bin")).chain(std::env::split_paths(&path));
        let path = std::env::join_paths(folders).map_err(|_| {
            BuildError::Options(format!(
                "the tool-chain cannot stand in {}: a colon is in its path; move the cache with {}",
                self.root.display(),
                handoff_guest::CACHE_DIR
            ))
        })?;
        let mut environment = vec![("PATH", path)];
        if !Path::new(HOST_LIBELF_HEADER).exists() {
            environment.push(("CPATH", self.root.join("usr/include").into()));
            environment.push(("LIBRARY_PATH", self.own("lib").into()));
        }
        Ok(environment)
    }

    /// A folder that holds what no package does.
    fn own(&self, name: &str) -> PathBuf {
        self.root.join("handoff").join(name)
    }

    /// Programs that start the unpacked ones with the unpacked loader.
    fn write_wrappers(&self, loader: &str) -> Result<(), BuildError> {
        use std::os::unix::fs::PermissionsExt as _;
        let libraries = self.root.join("usr/lib").join(self.triplet);
        let folder = self.own("bin");
        std::fs::create_dir_all(&folder).map_err(BuildError::io("make", &folder))?;
        for program in PROGRAMS {
            let file = folder.join(program);
            let text = format!(
                "#!/bin/sh\nexport LIBCLANG_PATH='{libraries}'\n\
                 exec '{libraries}/{loader}' --library-path '{libraries}' '{root}/usr/bin/{program}' \"$@\"\n",
                libraries = libraries.display(),
                root = self.root.display(),
            );
            std::fs::write(&file, text).map_err(BuildError::io("write", &file))?;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))
                .map_err(BuildError::io("make a program of", &file))?;
        }
        Ok(())
    }

    /// Has the host's libelf found by a linker without its development package: what is linked runs on the host.
    fn link_libelf(&self) -> Result<(), BuildError> {
        let folder = self.own("lib");
        std::fs::create_dir_all(&folder).map_err(BuildError::io("make", &folder))?;
        let link = folder.join("libelf.so");
        let places = [format!("/usr/lib/{}", self.triplet), "/usr/lib64".to_owned(), "/usr/lib".to_owned()];
        let library =
            places.iter().map(|place| Path::new(place).join("libelf.so.1")).find(|file| file.exists());
        if let (Some(library), false) = (library, link.is_symlink()) {
            std::os::unix::fs::symlink(library, &link).map_err(BuildError::io("link", &link))?;
        }
        Ok(())
    }
}
