//! What changed files hold until they are written: in memory, and beyond a limit in a file without a name.
//!
//! A series may change ten thousand files. They are written all or none, so they are kept to the end of the series.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// So many bytes are kept in memory.
const IN_MEMORY: usize = 64 << 20;

/// The bytes of a changed file.
pub(super) enum Content {
    Memory(Vec<u8>),
    /// Bytes of the file.
    Disk {
        at: u64,
        length: usize,
    },
}

/// Where the bytes of changed files are.
pub(super) struct Contents {
    limit: usize,
    in_memory: usize,
    file: Option<File>,
    /// Where the next bytes go.
    end: u64,
}

impl Default for Contents {
    fn default() -> Self {
        Self { limit: IN_MEMORY, in_memory: 0, file: None, end: 0 }
    }
}

impl Contents {
    /// Keeps bytes; what finds no room on disk stays in memory.
    pub(super) fn keep(&mut self, bytes: Vec<u8>) -> Content {
        if self.in_memory + bytes.len() > self.limit
            && let Ok(at) = self.append(&bytes)
        {
            return Content::Disk { at, length: bytes.len() };
        }
        self.in_memory += bytes.len();
        Content::Memory(bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(unnamed()?),
        };
        file.write_all_at(bytes, self.end)?;
        let at = self.end;
        self.end += bytes.len() as u64;
        Ok(at)
    }

    /// Forgets bytes that are not needed any more.
    pub(super) fn forget(&mut self, content: &Content) {
        if let Content::Memory(bytes) = content {
            self.in_memory = self.in_memory.saturating_sub(bytes.len());
        }
    }

    pub(super) fn read(&self, content: &Content) -> io::Result<Vec<u8>> {
        match content {
            Content::Memory(bytes) => Ok(bytes.clone()),
            Content::Disk { at, length } => {
                let mut bytes = vec![0; *length];
                self.file.as_ref().ok_or(io::ErrorKind::NotFound)?.read_exact_at(&mut bytes, *at)?;
                Ok(bytes)
            }
        }
    }
}

/// A file that nobody else sees. `/tmp` is often in memory itself, so it is asked last.
fn unnamed() -> io::Result<File> {
    let folder = Path::new("/var/tmp");
    match std::env::var_os("TMPDIR") {
        None if fs::metadata(folder).is_ok_and(|meta| meta.is_dir()) => {
            tempfile::tempfile_in(folder).or_else(|_| tempfile::tempfile())
        }
        _ => tempfile::tempfile(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_for_memory_comes_back_from_disk() {
        let mut contents = Contents { limit: 10, ..Contents::default() };
        let kept: Vec<Content> = (0..5u8).map(|byte| contents.keep(vec![byte; 4])).collect();
        let on_disk = kept.iter().filter(|content| matches!(content, Content::Disk { .. })).count();
        assert_eq!(on_disk, 3);
        for (content, byte) in kept.iter().zip(0..) {
            assert_eq!(contents.read(content).unwrap(), [byte; 4]);
        }
        contents.forget(&kept[0]);
        assert!(matches!(contents.keep(vec![9; 4]), Content::Memory(_)));
    }
}
