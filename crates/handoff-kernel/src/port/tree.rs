//! The tree that is ported to: reads it, collects changes in memory, writes them whole or not at all.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::PortError;
use super::scope::{Language, ScopeKind, Scopes};
use crate::patch::{PatchPath, text};

/// A source tree with changes that are not written yet.
pub(super) struct Tree {
    root: PathBuf,
    /// What files will be: `None` for one that will be gone.
    pending: BTreeMap<PatchPath, Option<Pending>>,
    /// Paths by the last component, made when a file is missed for the first time.
    names: Option<HashMap<String, Vec<PatchPath>>>,
    /// The names that files define, of those that were searched for a definition.
    defined: HashMap<PatchPath, HashSet<String>>,
}

#[derive(Clone)]
struct Pending {
    bytes: Vec<u8>,
    mode: Option<u32>,
}

impl Tree {
    pub(super) fn open(root: &Path) -> Result<Self, PortError> {
        let canonical = root.canonicalize().and_then(|path| {
            if path.is_dir() { Ok(path) } else { Err(io::Error::from(io::ErrorKind::NotADirectory)) }
        });
        let root = canonical.map_err(|error| PortError::Tree { path: root.to_owned(), error })?;
        Ok(Self { root, pending: BTreeMap::new(), names: None, defined: HashMap::new() })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The file on disk, if no symbolic link on the way leads elsewhere.
    fn locate(&self, path: &PatchPath) -> Result<PathBuf, PortError> {
        let mut full = self.root.clone();
        for component in path.as_str().split('/') {
            full.push(component);
            if fs::symlink_metadata(&full).is_ok_and(|meta| meta.file_type().is_symlink()) {
                return Err(PortError::Link { path: path.clone(), link: full });
            }
        }
        Ok(full)
    }

    /// The bytes of a file with the changes so far; `None` if there is no such file.
    pub(super) fn read(&self, path: &PatchPath) -> Result<Option<Vec<u8>>, PortError> {
        if let Some(pending) = self.pending.get(path) {
            return Ok(pending.as_ref().map(|pending| pending.bytes.clone()));
        }
        self.on_disk(path)
    }

    /// The bytes of a file as they are on disk; `None` if there is no such file.
    pub(super) fn on_disk(&self, path: &PatchPath) -> Result<Option<Vec<u8>>, PortError> {
        match fs::read(self.locate(path)?) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(None)
            }
            Err(error) => Err(PortError::Read { path: path.clone(), error }),
        }
    }

    /// What a file will be, if it was changed already.
    pub(super) fn pending(&self, path: &PatchPath) -> Option<Vec<u8>> {
        self.pending.get(path)?.as_ref().map(|pending| pending.bytes.clone())
    }

    pub(super) fn set(&mut self, path: &PatchPath, bytes: Vec<u8>, mode: Option<u32>) {
        let mode = mode.or_else(|| self.pending.get(path).and_then(|p| p.as_ref()).and_then(|p| p.mode));
        self.defined.remove(path);
        self.pending.insert(path.clone(), Some(Pending { bytes, mode }));
    }

    pub(super) fn remove(&mut self, path: &PatchPath) {
        self.defined.remove(path);
        self.pending.insert(path.clone(), None);
    }

    /// The mode of a file on disk.
    pub(super) fn mode(&self, path: &PatchPath) -> Option<u32> {
        let full = self.locate(path).ok()?;
        Some(fs::metadata(full).ok()?.permissions().mode() & 0o777)
    }

    /// Files whose last component is one of `names`.
    pub(super) fn files_named(&mut self, names: &[String]) -> Vec<PatchPath> {
        let index = self.names.get_or_insert_with(|| index(&self.root));
        let mut found: Vec<PatchPath> =
            names.iter().filter_map(|name| index.get(name)).flatten().cloned().collect();
        found.extend(
            self.pending
                .iter()
                .filter(|(path, to)| to.is_some() && names.iter().any(|n| n == path.file_name()))
                .map(|(path, _)| path.clone()),
        );
        found.retain(|path| self.pending.get(path).is_none_or(Option::is_some));
        found.sort();
        found.dedup();
        found
    }

    /// The files of `folder` that end as `like` does and define `name`.
    pub(super) fn definitions(&mut self, like: &PatchPath, name: &str) -> Vec<PatchPath> {
        let end = like.as_str().rsplit_once('.').map_or("", |(_, end)| end);
        let folder = self.root.join(like.folder());
        let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
        let mut files: Vec<PatchPath> = entries
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|file| file.rsplit_once('.').is_some_and(|(_, other)| other == end))
            .filter_map(|file| {
                let path = if like.folder().is_empty() { file } else { format!("{}/{file}", like.folder()) };
                PatchPath::new(&path).ok()
            })
            .filter(|path| path != like)
            .collect();
        files.sort();
        files.retain(|path| {
            if !self.defined.contains_key(path) {
                let Ok(Some(bytes)) = self.read(path) else { return false };
                self.defined.insert(path.clone(), definitions_in(&bytes, path));
            }
            self.defined[path].contains(name)
        });
        files
    }

    /// Writes what was collected; each file is replaced at once, so that none is ever half written.
    ///
    /// Everything is prepared next to its target first: an error until then changes nothing.
    pub(super) fn write(self) -> Result<(), PortError> {
        let mut ready = Vec::new();
        for (path, pending) in &self.pending {
            let full = self.locate(path)?;
            let Some(pending) = pending else {
                ready.push((path, full, None));
                continue;
            };
            let fail = |error| PortError::Write { path: path.clone(), error };
            let folder = full.parent().unwrap_or(&self.root);
            fs::create_dir_all(folder).map_err(fail)?;
            let mut file =
                tempfile::Builder::new().prefix(".handoff-port").tempfile_in(folder).map_err(fail)?;
            file.write_all(&pending.bytes).map_err(fail)?;
            let mode = pending.mode.map(|mode| mode & 0o777).or_else(|| self.mode(path)).unwrap_or(0o644);
            file.as_file().set_permissions(fs::Permissions::from_mode(mode)).map_err(fail)?;
            ready.push((path, full, Some(file)));
        }
        for (path, full, file) in ready {
            let fail = |error| PortError::Write { path: path.clone(), error };
            match file {
                Some(file) => {
                    file.persist(&full).map_err(|error| fail(error.error))?;
                }
                None => match fs::remove_file(&full) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
                    _ => {}
                },
            }
        }
        Ok(())
    }

    /// The paths that will be written or removed.
    pub(super) fn changed(&self) -> impl Iterator<Item = &PatchPath> {
        self.pending.keys()
    }
}

/// The names of the definitions in a file.
fn definitions_in(bytes: &[u8], path: &PatchPath) -> HashSet<String> {
    let content = text::decode(bytes);
    let lines: Vec<&str> = content.split('\n').collect();
    let scopes = Scopes::of_file(&lines, Language::of(path.as_str()));
    scopes
        .all
        .into_iter()
        .filter(|scope| scope.kind != ScopeKind::Statement)
        .map(|scope| scope.name)
        .collect()
}

/// All files of a tree by their last component; symbolic links and git's folder are left out.
fn index(root: &Path) -> HashMap<String, Vec<PatchPath>> {
    let mut names: HashMap<String, Vec<PatchPath>> = HashMap::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root.join(&folder)) else { continue };
        for entry in entries.flatten() {
            let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if kind.is_dir() && name != ".git" {
                folders.push(path);
            } else if kind.is_file()
                && let Ok(path) = PatchPath::new(&path)
            {
                names.entry(name).or_default().push(path);
            }
        }
    }
    names
}
