//! Files of `/proc`, `/sys` and `/boot`, read under a root that may be a recorded tree.

use std::io::Read as _;
use std::path::{Path, PathBuf};

/// No file that is read here is larger; a hostile recorded tree cannot fill the memory.
const LIMIT: u64 = 8 << 20;

/// Where the files of a machine are.
#[derive(Debug, Clone)]
pub struct Root(PathBuf);

impl Root {
    /// `/` for a live machine, a folder for a recorded one.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The path below the root of a path such as `proc/stat`.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// The text of a file without space around it, or nothing if it cannot be read.
    #[must_use]
    pub fn read(&self, path: &str) -> Option<String> {
        let file = std::fs::File::open(self.path(path)).ok()?;
        let mut bytes = Vec::new();
        file.take(LIMIT).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A file that holds one number.
    #[must_use]
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.read(path)?.parse().ok()
    }

    /// Whether a file or folder is there.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The names in a folder, sorted, numbers in them by value (`cpu2` before `cpu10`).
    #[must_use]
    pub fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_by_key(|name| {
            let digits: String = name.chars().filter(char::is_ascii_digit).collect();
            (name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned(), digits.parse::<u64>().ok())
        });
        names
    }

    /// The ids of the CPUs that have a folder under `sys/devices/system/cpu`.
    #[must_use]
    pub fn cpus(&self) -> Vec<u32> {
        self.names("sys/devices/system/cpu")
            .iter()
            .filter_map(|name| name.strip_prefix("cpu")?.parse().ok())
            .collect()
    }

    /// A file that may be compressed with gzip, as `/proc/config.gz` is.
    #[must_use]
    pub fn read_gzip(&self, path: &str) -> Option<String> {
        let file = std::fs::File::open(self.path(path)).ok()?;
        let mut text = String::new();
        flate2::read::GzDecoder::new(file).take(LIMIT).read_to_string(&mut text).ok()?;
        Some(text)
    }
}

impl AsRef<Path> for Root {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_by_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        for name in ["cpu10", "cpu2", "cpu0", "cpufreq"] {
            std::fs::create_dir_all(root.path(&format!("sys/devices/system/cpu/{name}"))).expect("made");
        }
        assert_eq!(root.cpus(), [0, 2, 10]);
    }

    #[test]
    fn bytes_that_are_no_text_do_no_harm() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        std::fs::write(root.path("a"), b"\xff\xfe 12 \n").expect("written");
        assert!(root.read("a").is_some_and(|text| text.ends_with("12")));
        assert_eq!(root.number::<u32>("a"), None);
        assert_eq!(root.read_gzip("a"), None);
    }
}
