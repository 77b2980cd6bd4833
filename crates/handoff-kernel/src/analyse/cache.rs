//! Facts of files that were read before, by what the files hold.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::facts::{Facts, digest};
use super::reader;

/// Changes when [`Facts`], what is blanked or what the reader finds do: old entries are then not used.
const VERSION: u32 = 4;

/// A file of facts on disk; a missing, damaged or old one is an empty one.
pub(super) struct Cache {
    path: Option<PathBuf>,
    known: BTreeMap<u64, Facts>,
    changed: bool,
}

impl Cache {
    /// Opens the cache in `folder`; `None` keeps nothing.
    pub(super) fn open(folder: Option<&Path>) -> Self {
        let path = folder.map(|folder| folder.join(format!("facts-{VERSION}.json")));
        let known = path
            .as_ref()
            .and_then(|path| fs::read(path).ok())
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        Self { path, known, changed: false }
    }

    /// The facts of each text, read by all CPUs where they are not known.
    pub(super) fn facts(&mut self, texts: &[(String, Vec<u8>)]) -> BTreeMap<String, Facts> {
        let keys: Vec<u64> = texts.iter().map(|(_, text)| digest(text) ^ text.len() as u64).collect();
        let missing: Vec<usize> =
            (0..texts.len()).filter(|&index| !self.known.contains_key(&keys[index])).collect();
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(missing.len().max(1));
        let read: Vec<(usize, Facts)> = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..workers)
                .map(|worker| {
                    let missing = &missing;
                    scope.spawn(move || {
                        let mine = missing.iter().skip(worker).step_by(workers);
                        mine.map(|&index| (index, reader::read(&texts[index].1))).collect::<Vec<_>>()
                    })
                })
                .collect();
            // A panic of a worker is a fault of this program and is passed on.
            handles
                .into_iter()
                .flat_map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        self.changed |= !read.is_empty();
        for (index, facts) in read {
            self.known.insert(keys[index], facts);
        }
        texts.iter().zip(&keys).map(|((path, _), key)| (path.clone(), self.known[key].clone())).collect()
    }

    /// Keeps what was read for the next time; a cache that cannot be written is only slower.
    pub(super) fn save(&self) {
        let Some(path) = self.path.as_ref().filter(|_| self.changed) else { return };
        let Some(folder) = path.parent() else { return };
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer(&mut file, &self.known)?;
            file.persist(path).map_err(|error| error.error)?;
            Ok(())
        };
        let _ = write();
    }
}
