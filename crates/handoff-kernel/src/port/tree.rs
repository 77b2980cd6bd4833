//! The tree that is ported to: reads it, collects changes in memory, writes them whole or not at all.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::PortError;
use super::contents::{Content, Contents};
use super::git::Sides;
use super::scope::{Language, ScopeKind, Scopes};
use super::store::{Objects, Store, locate, parts};
use crate::patch::{PatchPath, text};

/// How the names of files start that are not in their place yet.
const UNFINISHED: &str = ".handoff-port";

/// A source tree with changes that are not written yet.
pub(super) struct Tree {
    store: Store,
    contents: Contents,
    /// What files are after the patches that were [sealed](Tree::seal): `None` for one that is gone.
    sealed: BTreeMap<PatchPath, Option<Pending>>,
    /// What files will be: `None` for one that will be gone.
    pending: BTreeMap<PatchPath, Option<Pending>>,
    /// Paths by the last component, made when a file is missed for the first time.
    names: Option<HashMap<String, Vec<PatchPath>>>,
    /// The names that files define, of those that were searched for a definition.
    defined: HashMap<PatchPath, HashSet<String>>,
}

struct Pending {
    content: Content,
    mode: Option<u32>,
}

/// A file that a patch changed.
pub(super) struct Change {
    pub path: PatchPath,
    /// Its bytes and its mode in front of the patch; `None` if it is new.
    pub before: Option<(Vec<u8>, u32)>,
    /// Its bytes and its mode behind the patch; `None` if it is gone.
    pub after: Option<(Vec<u8>, u32)>,
}

impl Change {
    pub(super) fn sides(&self) -> Sides<'_> {
        Sides {
            path: self.path.as_str(),
            before: self.before.as_ref().map(|(bytes, mode)| (&**bytes, *mode)),
            after: self.after.as_ref().map(|(bytes, mode)| (&**bytes, *mode)),
        }
    }
}

impl Tree {
    pub(super) fn open(root: &Path) -> Result<Self, PortError> {
        let canonical = root.canonicalize().and_then(|path| {
            if path.is_dir() { Ok(path) } else { Err(io::Error::from(io::ErrorKind::NotADirectory)) }
        });
        let root = canonical.map_err(|error| PortError::Tree { path: root.to_owned(), error })?;
        Ok(Self::of(Store::Folder(root)))
    }

    /// The tree of a commit; nothing is checked out.
    pub(super) fn of_commit(repository: &Path, commit: &str) -> Result<Self, PortError> {
        let opened = Objects::open(repository, commit);
        let objects = opened.map_err(|error| PortError::Tree { path: repository.to_owned(), error })?;
        Ok(Self::of(Store::Commit(objects)))
    }

    fn of(store: Store) -> Self {
        let (sealed, pending) = (BTreeMap::new(), BTreeMap::new());
        let contents = Contents::default();
        Self { store, contents, sealed, pending, names: None, defined: HashMap::new() }
    }

    /// The folder, or the repository of the commit.
    pub(super) fn root(&self) -> &Path {
        self.store.root()
    }

    fn changed_file(&self, path: &PatchPath) -> Option<&Option<Pending>> {
        self.pending.get(path).or_else(|| self.sealed.get(path))
    }

    /// What the series itself makes where a path leads through, or below it.
    fn made_in_the_way(&self, path: &PatchPath) -> Option<(String, &'static str)> {
        let is_made = |path: &PatchPath| self.changed_file(path).is_some_and(Option::is_some);
        let part = parts(path).find(|part| PatchPath::new(part).is_ok_and(|part| is_made(&part)));
        if let Some(part) = part {
            return Some((part.to_owned(), "no folder"));
        }
        let inside = |other: &PatchPath| other.as_str()[path.as_str().len()..].starts_with('/');
        let below = [&self.pending, &self.sealed].into_iter().any(|changed| {
            let next = changed.range(path..).map(|(other, _)| other);
            let mut next = next.take_while(|other| other.as_str().starts_with(path.as_str()));
            next.any(|other| inside(other) && is_made(other))
        });
        below.then(|| (path.to_string(), "a folder"))
    }

    /// The bytes of a file with the changes so far; `None` if there is no such file.
    pub(super) fn read(&self, path: &PatchPath) -> Result<Option<Vec<u8>>, PortError> {
        if let Some(pending) = self.changed_file(path) {
            return pending.as_ref().map(|pending| self.bytes(path, pending)).transpose();
        }
        if let Some((at, what)) = self.made_in_the_way(path) {
            return Err(PortError::InTheWay { path: path.clone(), at, what });
        }
        self.on_disk(path)
    }

    /// The bytes of a file as they are on disk; `None` if there is no such file.
    pub(super) fn on_disk(&self, path: &PatchPath) -> Result<Option<Vec<u8>>, PortError> {
        self.store.read(path)
    }

    fn bytes(&self, path: &PatchPath, pending: &Pending) -> Result<Vec<u8>, PortError> {
        let read = self.contents.read(&pending.content);
        read.map_err(|error| PortError::Read { path: path.clone(), error })
    }

    /// True if a file was changed already and is still there.
    pub(super) fn is_pending(&self, path: &PatchPath) -> bool {
        self.changed_file(path).is_some_and(Option::is_some)
    }

    pub(super) fn set(&mut self, path: &PatchPath, bytes: Vec<u8>, mode: Option<u32>) {
        let mode = mode.or_else(|| self.changed_file(path).and_then(|p| p.as_ref()).and_then(|p| p.mode));
        self.put(path, None);
        let content = self.contents.keep(bytes);
        self.put(path, Some(Pending { content, mode }));
    }

    pub(super) fn remove(&mut self, path: &PatchPath) {
        self.put(path, None);
    }

    fn put(&mut self, path: &PatchPath, to: Option<Pending>) {
        self.defined.remove(path);
        if let Some(Some(before)) = self.pending.insert(path.clone(), to) {
            self.contents.forget(&before.content);
        }
    }

    /// The mode of a file in front of all changes.
    pub(super) fn mode(&self, path: &PatchPath) -> Option<u32> {
        self.store.mode(path)
    }

    /// Closes what one patch changed: the next one starts from there.
    pub(super) fn seal(&mut self) -> Result<Vec<Change>, PortError> {
        let mut changes = Vec::new();
        for (path, after) in std::mem::take(&mut self.pending) {
            let side = |pending: &Pending| -> Result<(Vec<u8>, u32), PortError> {
                let mode = pending.mode.or_else(|| self.mode(&path)).unwrap_or(0o644);
                Ok((self.bytes(&path, pending)?, mode))
            };
            let before = match self.sealed.get(&path) {
                Some(sealed) => sealed.as_ref().map(side).transpose()?,
                None => self.on_disk(&path)?.map(|bytes| (bytes, self.mode(&path).unwrap_or(0o644))),
            };
            let now = after.as_ref().map(side).transpose()?;
            if let Some(Some(last)) = self.sealed.insert(path.clone(), after) {
                self.contents.forget(&last.content);
            }
            if before != now {
                changes.push(Change { path, before, after: now });
            }
        }
        Ok(changes)
    }

    /// Files whose last component is one of `names`.
    pub(super) fn files_named(&mut self, names: &[String]) -> Vec<PatchPath> {
        let index = self.names.get_or_insert_with(|| self.store.by_name());
        let mut found: Vec<PatchPath> =
            names.iter().filter_map(|name| index.get(name)).flatten().cloned().collect();
        found.extend(
            self.sealed
                .iter()
                .chain(&self.pending)
                .filter(|(path, to)| to.is_some() && names.iter().any(|n| n == path.file_name()))
                .map(|(path, _)| path.clone()),
        );
        found.retain(|path| self.changed_file(path).is_none_or(Option::is_some));
        found.sort();
        found.dedup();
        found
    }

    /// The files of `folder` that end as `like` does and define `name`.
    pub(super) fn definitions(&mut self, like: &PatchPath, name: &str) -> Vec<PatchPath> {
        let end = like.as_str().rsplit_once('.').map_or("", |(_, end)| end);
        let mut files: Vec<PatchPath> = self
            .store
            .files_in(like.folder())
            .into_iter()
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
            let full = locate(self.root(), path)?;
            let Some(pending) = pending else {
                ready.push((path, full, None));
                continue;
            };
            let fail = |error| PortError::Write { path: path.clone(), error };
            let folder = full.parent().unwrap_or(self.root());
            fs::create_dir_all(folder).map_err(fail)?;
            let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder).map_err(fail)?;
            file.write_all(&self.bytes(path, pending)?).map_err(fail)?;
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

/// Removes what writing beside `path` left behind when it was killed.
pub(super) fn remove_unfinished(path: &Path) {
    let entries = path.parent().and_then(|folder| fs::read_dir(folder).ok());
    for entry in entries.into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            drop(fs::remove_file(entry.path()));
        }
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
