//! Writes the archive that a kernel unpacks as its first root file system.
//!
//! The format is "newc": see `Documentation/driver-api/early-userspace/buffer-format.rst` of Linux.
//! Times are zero and inode numbers are counted, so that the same content gives the same bytes.

use std::collections::BTreeSet;

use super::GuestError;

const TRAILER: &str = "TRAILER!!!";
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
const CHARACTER: u32 = 0o020_000;

#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    inodes: u32,
    directories: BTreeSet<String>,
    names: BTreeSet<String>,
}

impl Archive {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a folder and those above it; one that is there already is no error.
    pub(crate) fn directory(&mut self, path: &str) -> Result<(), GuestError> {
        let path = checked(path)?;
        let mut upto = String::new();
        for part in path.split('/') {
            if !upto.is_empty() {
                upto.push('/');
            }
            upto.push_str(part);
            if self.directories.insert(upto.clone()) {
                self.claim(&upto)?;
                self.entry(&upto, DIRECTORY | 0o755, 0, &[])?;
            }
        }
        Ok(())
    }

    /// Adds a file with its permission bits, and the folders above it.
    pub(crate) fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<(), GuestError> {
        self.leaf(path, REGULAR | (mode & 0o7777), 0, content)
    }

    /// Adds a symbolic link, and the folders above it.
    pub(crate) fn symlink(&mut self, path: &str, target: &str) -> Result<(), GuestError> {
        self.leaf(path, SYMLINK | 0o777, 0, target.as_bytes())
    }

    /// Adds a character device, and the folders above it.
    pub(crate) fn character(
        &mut self,
        path: &str,
        mode: u32,
        (major, minor): (u16, u16),
    ) -> Result<(), GuestError> {
        let device = u32::from(major) << 16 | u32::from(minor);
        self.leaf(path, CHARACTER | (mode & 0o7777), device, &[])
    }

    /// Whether something was added under this path.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.names.contains(path.trim_matches('/'))
    }

    /// Ends the archive and gives its bytes.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>, GuestError> {
        self.inodes = 0;
        self.entry(TRAILER, 0, 0, &[])?;
        Ok(self.bytes)
    }

    fn leaf(&mut self, path: &str, mode: u32, device: u32, content: &[u8]) -> Result<(), GuestError> {
        let path = checked(path)?;
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.directory(folder)?;
        }
        self.claim(&path)?;
        self.entry(&path, mode, device, content)
    }

    fn claim(&mut self, path: &str) -> Result<(), GuestError> {
        if self.names.insert(path.to_owned()) {
            return Ok(());
        }
        Err(GuestError::Options(format!("two files were to be /{path} in the guest: name one of them")))
    }

    fn entry(&mut self, name: &str, mode: u32, device: u32, content: &[u8]) -> Result<(), GuestError> {
        let too_big = || GuestError::Options(format!("/{name} is too big for a guest: 4 GiB at most"));
        let size = u32::try_from(content.len()).map_err(|_| too_big())?;
        let name_size = u32::try_from(name.len() + 1).map_err(|_| too_big())?;
        self.inodes += 1;
        let links = if mode & 0o170_000 == DIRECTORY { 2 } else { 1 };
        self.bytes.extend_from_slice(b"070701");
        let (major, minor) = (device >> 16, device & 0xffff);
        // inode, mode, uid, gid, links, mtime, size, device of the file (2), device it is (2), name, checksum
        for field in [self.inodes, mode, 0, 0, links, 0, size, 0, 0, major, minor, name_size, 0] {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
        Ok(())
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// The path without the leading slash; refuses what would land elsewhere than it says.
fn checked(path: &str) -> Result<String, GuestError> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let hostile = parts.is_empty()
        || parts.contains(&"..")
        || path.contains('\0')
        || path.len() > 4000
        || parts == [TRAILER];
    if hostile {
        return Err(GuestError::Options(format!("{path:?} cannot be the name of a file in the guest")));
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One entry as a reader of the format sees it: name, mode, device, content.
    type Entry = (String, u32, (u32, u32), Vec<u8>);

    /// A reader written from the format's description, to check the writer with.
    fn read(mut bytes: &[u8]) -> Vec<Entry> {
        let mut entries = Vec::new();
        let whole = bytes.len();
        loop {
            let (header, rest) = bytes.split_at(110);
            assert_eq!(&header[..6], b"070701");
            let field = |index: usize| {
                let text = std::str::from_utf8(&header[6 + 8 * index..14 + 8 * index]).expect("ASCII");
                u32::from_str_radix(text, 16).expect("a hexadecimal field")
            };
            let (size, name_size) = (field(6) as usize, field(11) as usize);
            let name = String::from_utf8(rest[..name_size - 1].to_vec()).expect("UTF-8");
            assert_eq!(rest[name_size - 1], 0);
            let at = whole - rest.len() + name_size;
            let start = name_size + (at.next_multiple_of(4) - at);
            let content = rest[start..start + size].to_vec();
            if name == TRAILER {
                return entries;
            }
            entries.push((name, field(1), (field(9), field(10)), content));
            let end = whole - rest.len() + start + size;
            bytes = &rest[start + size + (end.next_multiple_of(4) - end)..];
        }
    }

    #[test]
    fn folders_come_before_what_is_in_them_and_once() {
        let mut archive = Archive::new();
        archive.file("/a/b/one", 0o755, b"1").expect("a file");
        archive.file("a/b/two", 0o644, b"22").expect("a file");
        archive.symlink("/a/link", "b/one").expect("a link");
        archive.character("/dev/console", 0o600, (5, 1)).expect("a device");
        assert!(archive.contains("/a/b/two") && archive.contains("/a") && !archive.contains("/b"));
        let entries = read(&archive.finish().expect("an archive"));
        let names: Vec<&str> = entries.iter().map(|entry| entry.0.as_str()).collect();
        assert_eq!(names, ["a", "a/b", "a/b/one", "a/b/two", "a/link", "dev", "dev/console"]);
        assert_eq!(entries[2].1, 0o100_755);
        assert_eq!(entries[4].3, b"b/one");
        assert_eq!((entries[6].1, entries[6].2), (0o020_600, (5, 1)));
    }

    #[test]
    fn names_that_would_land_elsewhere_are_refused() {
        let mut archive = Archive::new();
        for name in ["", "/", "../x", "a/../../x", "a\0b", "TRAILER!!!", "."] {
            assert!(archive.file(name, 0o644, b"").is_err(), "{name:?}");
        }
        archive.file("/same", 0o644, b"").expect("the first");
        assert!(archive.file("same", 0o644, b"").is_err_and(|why| why.to_string().contains("/same")));
        archive.file("/dir/file", 0o644, b"").expect("a file");
        assert!(archive.file("/dir", 0o644, b"").is_err());
        assert!(archive.directory("/same").is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn whatever_goes_in_comes_out(
            files in prop::collection::btree_map("[a-z]{1,9}/[a-zA-Z0-9._-]{1,40}x", prop::collection::vec(any::<u8>(), 0..200), 0..8),
        ) {
            let mut archive = Archive::new();
            for (name, content) in &files {
                archive.file(name, 0o640, content).expect("a good name");
            }
            let bytes = archive.finish().expect("an archive");
            prop_assert_eq!(bytes.len() % 4, 0);
            let found: std::collections::BTreeMap<_, _> = read(&bytes)
                .into_iter()
                .filter(|entry| entry.1 & 0o170_000 == REGULAR)
                .map(|entry| (entry.0, entry.3))
                .collect();
            prop_assert_eq!(found, files);
        }
    }
}
