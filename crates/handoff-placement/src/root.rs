//! A tree that looks like the machine's `/`: the machine itself, or one that was recorded.

use crate::cpuset::CpuSet;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// No file that is read here is larger; a hostile recorded tree cannot fill the memory.
const LIMIT: u64 = 8 << 20;

/// Where `/sys`, `/proc` and `/dev` are looked for.
///
/// Every reader of the topology takes one, so that the tree of a machine that nobody has at hand
/// can be examined, and be a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// This machine.
    #[must_use]
    pub fn host() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A recorded tree.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Is it this machine, so that system calls may be asked too?
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// The path of a file under this root.
    #[must_use]
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A file's text without the white space around it; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn text(&self, path: impl AsRef<Path>) -> io::Result<String> {
        let mut bytes = Vec::new();
        fs::File::open(self.path(path))?.take(LIMIT).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A file that holds one decimal number; `None` if it is not there or is not one.
    #[must_use]
    pub fn number<T: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path).ok()?.parse().ok()
    }

    /// A file that holds a list of CPUs; `None` if it is not there or is not one.
    pub(crate) fn cpus(&self, path: impl AsRef<Path>) -> Option<CpuSet> {
        self.text(path).ok()?.parse().ok()
    }

    /// The names in a folder that start with `prefix` and go on with a number, in order.
    #[must_use]
    pub fn numbered<T: std::str::FromStr + Ord>(&self, folder: &str, prefix: &str) -> Vec<T> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut found: Vec<T> = names.filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        found.sort_unstable();
        found
    }
}

impl Default for Root {
    fn default() -> Self {
        Self::host()
    }
}
