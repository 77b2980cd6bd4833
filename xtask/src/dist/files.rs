//! Files of packages: the same bytes from the same sources, whoever builds them and when.

use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use flate2::{Compression, GzBuilder};

use crate::process::{root, target_dir};

/// The time that packages give their files: `SOURCE_DATE_EPOCH` (reproducible-builds.org), else that of the last
/// commit, else 1980, the first that a ZIP archive can say.
pub(super) fn epoch() -> u64 {
    let of_commit = || {
        let mut git = Command::new("git");
        git.args(["log", "-1", "--format=%ct"]).current_dir(root()).stderr(Stdio::null());
        String::from_utf8(git.output().ok()?.stdout).ok()
    };
    let told = std::env::var("SOURCE_DATE_EPOCH").ok().or_else(of_commit);
    told.and_then(|seconds| seconds.trim().parse().ok()).unwrap_or(315_532_800)
}

/// A folder of the workspace's sources, or a file.
pub(super) fn source(path: &str) -> PathBuf {
    root().join(path)
}

/// A tree of files that is to be packed; it is removed when this is dropped.
pub(super) struct Tree(tempfile::TempDir);

impl Tree {
    pub(super) fn new() -> Result<Self> {
        let parent = target_dir().join("dist-build");
        std::fs::create_dir_all(&parent)?;
        let tree = tempfile::Builder::new().prefix("tree-").tempdir_in(parent)?;
        std::fs::set_permissions(tree.path(), std::fs::Permissions::from_mode(0o755))?;
        Ok(Self(tree))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file; folders on the way are made.
    pub(super) fn write(&self, path: &str, content: impl AsRef<[u8]>, mode: u32) -> Result<()> {
        let file = self.folder(Path::new(path).parent().context("a file is in a folder")?)?;
        let file = file.join(Path::new(path).file_name().context("a file has a name")?);
        std::fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode))?;
        Ok(())
    }

    pub(super) fn copy(&self, from: impl AsRef<Path>, path: &str, mode: u32) -> Result<()> {
        let from = from.as_ref();
        let content = std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.write(path, content, mode)
    }

    /// Makes a folder that everybody may read, whatever the umask.
    fn folder(&self, path: &Path) -> Result<PathBuf> {
        let mut folder = self.path().to_owned();
        for part in path.components() {
            folder.push(part);
            if !folder.is_dir() {
                std::fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
                std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755))?;
            }
        }
        Ok(folder)
    }

    /// The licences and the changelog, in a folder.
    pub(super) fn add_licences(&self, folder: &str) -> Result<()> {
        for name in ["LICENSE-APACHE", "LICENSE-MIT", "CHANGELOG.md"] {
            self.copy(source(name), &format!("{folder}/{name}"), 0o644)?;
        }
        Ok(())
    }

    /// Packs it as a tar archive below `prefix`: sorted, owned by root, with [`epoch`] as its time.
    pub(super) fn tar(&self, prefix: &str, to: impl Write) -> Result<()> {
        let mut archive = tar::Builder::new(to);
        archive.mode(tar::HeaderMode::Deterministic);
        add(&mut archive, self.path(), prefix)?;
        archive.finish()?;
        Ok(())
    }

    /// [`Tree::tar`], compressed, in the place of a file.
    pub(super) fn tar_gz(&self, prefix: &str, file: &Path) -> Result<()> {
        replace(file, 0o644, |to| {
            let mut gzip = GzBuilder::new().write(to, Compression::new(6));
            self.tar(prefix, &mut gzip)?;
            gzip.finish()?;
            Ok(())
        })
    }
}

/// Adds what is in `folder`, in the order of names.
fn add(archive: &mut tar::Builder<impl Write>, folder: &Path, prefix: &str) -> Result<()> {
    let mut entries = std::fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_str().context("names in packages are text")?;
        let name = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
        let kind = entry.file_type()?;
        let mut header = tar::Header::new_gnu();
        header.set_mtime(epoch());
        // A field that is left empty is no number, and some readers refuse it.
        header.set_uid(0);
        header.set_gid(0);
        header.set_mode(entry.metadata()?.permissions().mode() & 0o7777);
        if kind.is_dir() {
            header.set_entry_type(tar::EntryType::Directory);
            header.set_size(0);
            archive.append_data(&mut header, format!("{name}/"), std::io::empty())?;
            add(archive, &path, &name)?;
        } else if kind.is_symlink() {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            archive.append_link(&mut header, name, std::fs::read_link(&path)?)?;
        } else {
            let content = std::fs::read(&path)?;
            header.set_size(content.len() as u64);
            archive.append_data(&mut header, name, &content[..])?;
        }
    }
    Ok(())
}

/// Compresses a text as `gzip -9n` does.
pub(super) fn gzip(text: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    gzip.write_all(text)?;
    Ok(gzip.finish()?)
}

/// Puts a whole file in the place of the one that is there: whoever reads it meanwhile, a guest that is
/// being packed or a host that it is sent to, has the one or the other and never half of either.
pub(super) fn replace(
    file: &Path,
    mode: u32,
    write: impl FnOnce(&mut std::fs::File) -> Result<()>,
) -> Result<()> {
    let folder = file.parent().context("a file is in a folder")?;
    let mut new = tempfile::Builder::new()
        .prefix(".handoff-")
        .permissions(std::fs::Permissions::from_mode(mode))
        .tempfile_in(folder)?;
    write(new.as_file_mut()).with_context(|| format!("cannot write {}", file.display()))?;
    // What the umask took away.
    new.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
    new.persist(file)?;
    Ok(())
}

/// The only file in `folder` whose name ends so.
pub(super) fn only_file(folder: &Path, extension: &str) -> Result<PathBuf> {
    let files = std::fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    let mut files = files.into_iter().map(|file| file.path());
    let mut found = files.by_ref().filter(|file| file.extension().is_some_and(|own| own == extension));
    let file = found.next().with_context(|| format!("there is no .{extension} in {}", folder.display()))?;
    ensure!(found.next().is_none(), "there are several .{extension} in {}", folder.display());
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_tree_is_packed_to_the_same_bytes() {
        let pack = || {
            let tree = Tree::new().expect("a folder");
            tree.write("b/two", "2", 0o755).expect("written");
            tree.write("a", "1", 0o600).expect("written");
            std::os::unix::fs::symlink("b/two", tree.path().join("c")).expect("linked");
            let mut bytes = Vec::new();
            tree.tar("top", &mut bytes).expect("packed");
            bytes
        };
        let bytes = pack();
        assert_eq!(bytes, pack());
        let mut seen = Vec::new();
        for entry in tar::Archive::new(&bytes[..]).entries().expect("an archive") {
            let mut entry = entry.expect("an entry");
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("read");
            let header = entry.header();
            assert_eq!((header.uid().expect("a number"), header.gid().expect("a number")), (0, 0));
            let path = entry.path().expect("a path").display().to_string();
            seen.push((path, header.mode().expect("a number"), text));
        }
        let names: Vec<&str> = seen.iter().map(|(path, ..)| path.as_str()).collect();
        assert_eq!(names, ["top/a", "top/b/", "top/b/two", "top/c"]);
        assert_eq!((seen[0].1, &*seen[0].2, seen[2].1, &*seen[2].2), (0o600, "1", 0o755, "2"));
    }

    #[test]
    fn whoever_has_a_file_open_keeps_it_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("handoff");
        let put = |text: &'static [u8]| replace(&file, 0o755, |to| Ok(to.write_all(text)?)).expect("written");
        put(b"the former");
        let mut reader = std::fs::File::open(&file).expect("opened");
        put(b"new");
        let mut read = String::new();
        reader.read_to_string(&mut read).expect("read");
        assert_eq!(read, "the former");
        assert_eq!(std::fs::read(&file).expect("read"), b"new");
        assert_eq!(std::fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o755);
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1);
    }
}
