//! Versions of an interface that do not change any more: `aidl_api/NAME/1`, `2`, ... as Android's
//! build keeps them, each with its hash.

use std::path::{Path, PathBuf};

use sha1::{Digest as _, Sha1};

use crate::compat::{Change, compare};
use crate::diagnostic::Severity;
use crate::load::{Compilation, Options, compile};
use crate::print::{Printed, Style, print};

/// The file with the hash of a version.
const HASH: &str = ".hash";
/// The version that is not frozen yet.
const CURRENT: &str = "current";

/// Why a version was not frozen.
#[derive(Debug, thiserror::Error)]
pub enum FreezeError {
    /// The files have errors.
    #[error("the interfaces have errors")]
    Invalid,
    /// Nothing differs from the version before.
    #[error("nothing has changed since version {0}")]
    Unchanged(u32),
    /// Those who use the version before would break.
    #[error("{} changes break those who use version {version}", changes.len())]
    Incompatible { version: u32, changes: Vec<Change> },
    /// A frozen version is not what it was.
    #[error("version {version} in {} was changed after it was frozen: its hash is {found}, not {kept}", folder.display())]
    Touched {
        version: u32,
        folder: PathBuf,
        /// What its files give.
        found: String,
        kept: String,
    },
    /// A file could not be read or written.
    #[error("cannot use {}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

/// A version that was frozen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frozen {
    pub version: u32,
    pub hash: String,
    pub folder: PathBuf,
}

/// Keeps what was compiled as the next version below `api`, if those who use the last one can go on.
///
/// # Errors
/// If it has errors, is what the last version is, breaks those who use it, or cannot be written.
pub fn freeze(compilation: &Compilation, api: &Path) -> Result<Frozen, FreezeError> {
    if compilation.diagnostics.has_errors() {
        return Err(FreezeError::Invalid);
    }
    let files = api_files(compilation);
    let last = last_version(api)?;
    if let Some(last) = last {
        let folder = api.join(last.to_string());
        verify(&folder)?;
        let frozen = compile(&Options::default(), std::slice::from_ref(&folder));
        let changes = compare(&frozen, compilation);
        if changes.iter().any(|change| change.severity == Severity::Error) {
            return Err(FreezeError::Incompatible { version: last, changes });
        }
        let same = |file: &Printed| read(&folder.join(&file.path)).is_ok_and(|text| text == file.text);
        if files.iter().all(same) && files_below(&folder)?.len() == files.len() {
            return Err(FreezeError::Unchanged(last));
        }
    }
    let version = last.unwrap_or(0) + 1;
    let folder = api.join(version.to_string());
    for folder in [folder.clone(), api.join(CURRENT)] {
        if folder.is_dir() {
            std::fs::remove_dir_all(&folder)
                .map_err(|source| FreezeError::Io { path: folder.clone(), source })?;
        }
        for file in &files {
            write(&folder.join(&file.path), &file.text)?;
        }
    }
    // Only what is frozen has a hash: Android's build checks one that it finds in `current` as that of a first
    // version (`build/aidl_api.go` of `system/tools/aidl`).
    let hash = hash_of(&folder, version)?;
    write(&folder.join(HASH), &format!("{hash}\n"))?;
    Ok(Frozen { version, hash, folder })
}

/// The interfaces of a compilation as they are kept.
fn api_files(compilation: &Compilation) -> Vec<Printed> {
    let own = compilation.model.iter().filter(|def| compilation.inputs.contains(&def.file));
    print(&compilation.model, own, Style::Api)
}

/// A frozen version: its number from the folder's name, and its hash, which is checked.
///
/// # Errors
/// If the folder is not named after a version, has no `.hash`, or was changed.
pub fn verify(folder: &Path) -> Result<Frozen, FreezeError> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let version = name.parse().map_err(|_| FreezeError::Io {
        path: folder.to_owned(),
        source: std::io::Error::other("a frozen version is a folder whose name is its number"),
    })?;
    let kept = read(&folder.join(HASH))?;
    // The first word, as Android's build reads it.
    let kept = kept.split_whitespace().next().unwrap_or_default().to_owned();
    let found = hash_of(folder, version)?;
    if found != kept {
        return Err(FreezeError::Touched { version, folder: folder.to_owned(), found, kept });
    }
    Ok(Frozen { version, hash: kept, folder: folder.to_owned() })
}

/// Android's hash of a version: SHA-1 of the lines that `sha1sum` prints of its files in the order
/// of their names, followed by the number of the version before, or `latest-version` of the first
/// (`build/hash_gen.sh` and `versionForHashGen` of `build/aidl_api.go` in AOSP's `system/tools/aidl`).
fn hash_of(folder: &Path, version: u32) -> Result<String, FreezeError> {
    let mut lines = String::new();
    let mut files = files_below(folder)?;
    files.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    for file in files {
        let path = folder.join(&file);
        let bytes = std::fs::read(&path).map_err(|source| FreezeError::Io { path, source })?;
        lines.push_str(&format!("{}  ./{}\n", hex(&Sha1::digest(&bytes)), file.display()));
    }
    match version {
        0 | 1 => lines.push_str("latest-version\n"),
        version => lines.push_str(&format!("{}\n", version - 1)),
    }
    Ok(hex(&Sha1::digest(lines.as_bytes())))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The `.aidl` files below a folder, relative to it.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>, FreezeError> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let entries =
            std::fs::read_dir(&next).map_err(|source| FreezeError::Io { path: next.clone(), source })?;
        for entry in entries {
            let path = entry.map_err(|source| FreezeError::Io { path: next.clone(), source })?.path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "aidl") {
                found.extend(path.strip_prefix(folder).ok().map(Path::to_owned));
            }
        }
    }
    Ok(found)
}

fn last_version(api: &Path) -> Result<Option<u32>, FreezeError> {
    match std::fs::read_dir(api) {
        Ok(entries) => Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).max()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FreezeError::Io { path: api.to_owned(), source }),
    }
}

fn read(path: &Path) -> Result<String, FreezeError> {
    std::fs::read_to_string(path).map_err(|source| FreezeError::Io { path: path.to_owned(), source })
}

fn write(path: &Path, text: &str) -> Result<(), FreezeError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, text))
        .map_err(|source| FreezeError::Io { path: path.to_owned(), source })
}
