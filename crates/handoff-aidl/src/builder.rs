//! For `build.rs`: files in, a file of Rust in `OUT_DIR` out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::load::{Options, compile};
use crate::rust::{RustOptions, generate};

/// Why nothing was generated.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The files have errors; the text shows them with their places.
    #[error("{0}")]
    Invalid(String),
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// It was called outside of a build script, and not told where to write.
    #[error("OUT_DIR is not set: call `Builder::compile` in build.rs, or say where with `Builder::out_dir`")]
    NoOutDir,
}

/// Compiles interfaces in a build script.
///
/// ```no_run
/// // build.rs
/// fn main() -> Result<(), handoff_aidl::BuildError> {
///     handoff_aidl::Builder::new().source("aidl/sample/IGreeter.aidl").compile("greeter.rs")
/// }
/// ```
///
/// ```text
/// // src/main.rs
/// mod interfaces { include!(concat!(env!("OUT_DIR"), "/greeter.rs")); }
/// use interfaces::sample::{GreeterProxy, GreeterStub, IGreeter};
/// ```
#[derive(Debug, Clone, Default)]
pub struct Builder {
    sources: Vec<PathBuf>,
    options: Options,
    rust: RustOptions,
    out_dir: Option<PathBuf>,
}

impl Builder {
    /// Nothing to compile yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Compiles a file, or every file below a folder.
    #[must_use]
    pub fn source(mut self, path: impl Into<PathBuf>) -> Self {
        self.sources.push(path.into());
        self
    }

    /// Looks for imported files below a folder. That in which the sources' own packages begin is
    /// known by itself.
    #[must_use]
    pub fn include(mut self, folder: impl Into<PathBuf>) -> Self {
        self.options.includes.push(folder.into());
        self
    }

    /// Says where HIDL packages are that begin with `prefix`, as `hidl-gen -r`.
    #[must_use]
    pub fn package_root(mut self, prefix: impl Into<String>, folder: impl Into<PathBuf>) -> Self {
        self.options.package_roots.push((prefix.into(), folder.into()));
        self
    }

    /// Uses a Rust type for a type of the files, such as a parcelable without fields. It implements
    /// `Parcelable`, `Nullable`, `Default` and `Debug`.
    #[must_use]
    pub fn map_type(mut self, name: impl Into<String>, rust_path: impl Into<String>) -> Self {
        self.rust.types.insert(name.into(), rust_path.into());
        self
    }

    /// What services answer to `getInterfaceVersion` and `getInterfaceHash`.
    #[must_use]
    pub fn version(mut self, version: u32, hash: impl Into<String>) -> Self {
        self.rust.version = Some(version);
        self.rust.hash = Some(hash.into());
        self
    }

    /// Makes `IFooAsync`, `FooAsyncProxy` and `FooAsyncStub` beside the blocking `IFoo`, `FooProxy` and `FooStub`: calls
    /// and services without a thread for each. They need `handoff_ipc`'s feature `tokio`.
    #[must_use]
    pub fn asynchronous(mut self) -> Self {
        self.rust.asynchronous = true;
        self
    }

    /// Compiles a frozen version, such as `aidl_api/sample/2`: services answer with its number and
    /// its hash.
    ///
    /// # Errors
    /// If the folder is no frozen version, or was changed since.
    pub fn frozen(self, folder: impl Into<PathBuf>) -> Result<Self, BuildError> {
        let frozen = crate::verify(&folder.into()).map_err(|error| BuildError::Invalid(error.to_string()))?;
        Ok(self.version(frozen.version, frozen.hash).source(frozen.folder))
    }

    /// Writes below this folder instead of `OUT_DIR`.
    #[must_use]
    pub fn out_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(folder.into());
        self
    }

    /// Compiles, and writes the code as `name` below `OUT_DIR`. Cargo is told which files to watch.
    ///
    /// # Errors
    /// If the files have errors, or the code cannot be written.
    pub fn compile(&self, name: impl AsRef<Path>) -> Result<(), BuildError> {
        let folder = match &self.out_dir {
            Some(folder) => folder.clone(),
            None => std::env::var_os("OUT_DIR").map(PathBuf::from).ok_or(BuildError::NoOutDir)?,
        };
        let in_cargo = std::env::var_os("CARGO").is_some() && self.out_dir.is_none();
        let mut watch = BTreeMap::new();
        let outcome = self.code_and_files(&mut watch);
        if in_cargo {
            watch.keys().for_each(|path: &PathBuf| println!("cargo::rerun-if-changed={}", path.display()));
        }
        let path = folder.join(name);
        std::fs::write(&path, outcome?).map_err(|source| BuildError::Write { path, source })
    }

    /// Compiles, and gives the code.
    ///
    /// # Errors
    /// If the files have errors.
    pub fn code(&self) -> Result<String, BuildError> {
        self.code_and_files(&mut BTreeMap::new())
    }

    fn code_and_files(&self, watch: &mut BTreeMap<PathBuf, ()>) -> Result<String, BuildError> {
        let compilation = compile(&self.options, &self.sources);
        watch.extend(self.sources.iter().map(|path| (path.clone(), ())));
        let on_disk = compilation.sources.iter().map(|(_, file)| file.path()).filter(|path| path.is_file());
        watch.extend(on_disk.map(|path| (path.to_owned(), ())));
        if compilation.diagnostics.has_errors() {
            return Err(BuildError::Invalid(compilation.report(false)));
        }
        generate(&compilation, &self.rust)
            .map_err(|wrong| BuildError::Invalid(wrong.render(&compilation.sources, false)))
    }
}
