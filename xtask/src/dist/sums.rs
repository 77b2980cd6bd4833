//! `SHA256SUMS`: what each file of the folder is, as `sha256sum --check` reads it.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use super::files::replace;

const NAME: &str = "SHA256SUMS";

/// The digest of some bytes, in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes it");
        text
    })
}

/// Writes the digests of all files in `folder`: what an earlier run built is there, too.
pub(super) fn write(folder: &Path) -> Result<()> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string().ok().context("names of packages are text")?;
        if entry.file_type()?.is_file() && name != NAME && !name.starts_with('.') {
            files.push(name);
        }
    }
    files.sort_unstable();
    let mut text = String::new();
    for name in files {
        let mut digest = Sha256::new();
        std::io::copy(&mut File::open(folder.join(&name))?, &mut Hashed(&mut digest))?;
        writeln!(text, "{}  {name}", hexadecimal(&digest.finalize()))?;
    }
    replace(&folder.join(NAME), 0o644, |to| Ok(to.write_all(text.as_bytes())?))
}

struct Hashed<'a>(&'a mut Sha256);

impl std::io::Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn sha256sum_finds_a_file_that_was_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("b c"), "two").expect("written");
        std::fs::write(folder.path().join("a"), "one").expect("written");
        std::fs::create_dir(folder.path().join("dev")).expect("made");
        write(folder.path()).expect("written");
        let is_right = || {
            let mut check = Command::new("sha256sum");
            check.args(["--check", "--strict", NAME]).current_dir(folder.path());
            let output = check.output().expect("sha256sum runs");
            (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        assert_eq!(is_right(), (true, "a: OK\nb c: OK\n".to_owned()));
        std::fs::write(folder.path().join("a"), "other").expect("written");
        assert!(!is_right().0);
        // A second run takes the first one's sums for none of its files.
        write(folder.path()).expect("written");
        assert!(is_right().0);
    }
}
