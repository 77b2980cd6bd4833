//! Where fetched packages and what is unpacked from them are kept between boots.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::GuestError;

/// The environment variable that moves the cache elsewhere.
pub const CACHE_DIR: &str = "HANDOFF_CACHE_DIR";

/// A folder that may be deleted at any time: all in it can be fetched again.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    root: PathBuf,
}

/// Keeps other processes from fetching at the same time; given back when dropped.
#[derive(Debug)]
pub(crate) struct CacheLock {
    _file: File,
}

impl Cache {
    /// The cache in `folder`, or in `$HANDOFF_CACHE_DIR`, or in `handoff` of the XDG cache folder.
    pub(crate) fn open(folder: Option<&Path>) -> Result<Self, GuestError> {
        let root = match folder {
            Some(folder) => folder.to_owned(),
            None => default_root(|name| std::env::var_os(name).map(PathBuf::from)).ok_or_else(|| {
                GuestError::Options(format!(
                    "there is no folder for the cache, because neither {CACHE_DIR}, XDG_CACHE_HOME nor HOME is set: \
                     name one, as in {CACHE_DIR}=/var/tmp/handoff"
                ))
            })?,
        };
        let cache = Self { root: root.join("guest") };
        cache.folder("")?;
        Ok(cache)
    }

    /// A folder of the cache, made if it is not there.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, GuestError> {
        let path = if name.is_empty() { self.root.clone() } else { self.root.join(name) };
        std::fs::create_dir_all(&path).map_err(GuestError::io("make the cache folder", &path))?;
        Ok(path)
    }

    /// The path of a file of the cache, whether or not it is there.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Waits until no other process holds the lock, then holds it. Whoever has to wait is told so: the other one may
    /// be fetching for minutes.
    pub(crate) fn lock(&self, progress: &dyn Fn(&str)) -> Result<CacheLock, GuestError> {
        let path = self.path("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(GuestError::io("open", &path))?;
        if file.try_lock().is_err() {
            progress(&format!("waiting for another program that fills the cache ({})", self.root.display()));
            file.lock().map_err(GuestError::io("lock", &path))?;
        }
        Ok(CacheLock { _file: file })
    }
}

/// Writes a file so that a reader sees the old content or the new, never a part.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> Result<(), GuestError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".part-")
        .tempfile_in(folder)
        .map_err(GuestError::io("make a file in", folder))?;
    file.write_all(content).map_err(GuestError::io("write", path))?;
    file.persist(path).map_err(|error| GuestError::io("write", path)(error.error))?;
    Ok(())
}

fn default_root(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    // The XDG base directory specification says that a relative path there is to be ignored.
    set(CACHE_DIR)
        .or_else(|| set("XDG_CACHE_HOME").filter(|path| path.is_absolute()).map(|path| path.join("handoff")))
        .or_else(|| set("HOME").map(|path| path.join(".cache/handoff")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(variables: &[(&str, &str)]) -> Option<PathBuf> {
        default_root(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value))
        })
    }

    #[test]
    fn the_most_particular_variable_wins() {
        let home = ("HOME", "/home/a");
        assert_eq!(root(&[home]), Some("/home/a/.cache/handoff".into()));
        assert_eq!(root(&[home, ("XDG_CACHE_HOME", "/c")]), Some("/c/handoff".into()));
        assert_eq!(root(&[home, ("XDG_CACHE_HOME", "/c"), (CACHE_DIR, "d")]), Some("d".into()));
        assert_eq!(root(&[home, ("XDG_CACHE_HOME", "relative")]), Some("/home/a/.cache/handoff".into()));
        assert_eq!(root(&[home, ("XDG_CACHE_HOME", "")]), Some("/home/a/.cache/handoff".into()));
        assert_eq!(root(&[]), None);
    }

    #[test]
    fn a_lock_is_held_until_it_is_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(Some(folder.path())).expect("a cache");
        let held = cache.lock(&|what| panic!("nobody holds it: {what}")).expect("the lock");
        let file = File::options().write(true).open(cache.path("lock")).expect("the file");
        assert!(file.try_lock().is_err());
        // Who waits says so first: then it is given back.
        let (say, said) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            cache.lock(&|what| say.send(what.to_owned()).expect("heard")).map(drop).expect("the lock");
        });
        assert!(said.recv().expect("told").contains("waiting for another program"));
        drop(held);
        waiting.join().expect("it got the lock");
        file.try_lock().expect("free again");
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        write_whole(&path, b"one").expect("written");
        write_whole(&path, b"two").expect("replaced");
        assert_eq!(std::fs::read(&path).expect("read"), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
