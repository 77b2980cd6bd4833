//! Files between host and guest, as tar archives that travel as a command's input or output.

use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom};
use std::path::{Component, Path, PathBuf};

use super::GuestError;

/// What was brought back from a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Files that are on the host now.
    pub files: usize,
    /// What was left in the guest, because it is no file or folder, or a link out of what was asked for.
    pub left_out: Vec<String>,
}

/// Packs a file or folder of the host under another name, into a file without a name.
pub(crate) fn pack(host: &Path, name: &str) -> Result<(File, u64), GuestError> {
    let data = std::fs::metadata(host).map_err(GuestError::io("look at", host))?;
    let unnamed = tempfile::tempfile().map_err(GuestError::io("make a file in", &std::env::temp_dir()))?;
    let mut builder = tar::Builder::new(unnamed);
    // No owners and times of the host: the guest's root owns what is put there.
    builder.mode(tar::HeaderMode::Deterministic);
    builder.follow_symlinks(false);
    // Holes as zeros: the guest's tar, which is busybox's, does not know GNU's sparse members.
    builder.sparse(false);
    let packed = if data.is_dir() {
        builder.append_dir_all(name, host)
    } else {
        File::open(host).and_then(|mut file| builder.append_file(name, &mut file))
    };
    packed.map_err(GuestError::io("pack", host))?;
    let mut file = builder.into_inner().map_err(GuestError::io("pack", host))?;
    let size = file.seek(SeekFrom::End(0)).map_err(GuestError::io("pack", host))?;
    file.seek(SeekFrom::Start(0)).map_err(GuestError::io("pack", host))?;
    Ok((file, size))
}

/// Unpacks what a guest sent: the one file or folder in it becomes `target`.
///
/// The guest is not trusted: whatever the archive says, nothing is written outside of `target`, no
/// device is made, and no link leads out of it. An existing folder is not replaced: what was sent
/// becomes an entry of it, as `cp` does.
pub(crate) fn unpack(archive: impl Read, target: &Path) -> Result<Fetched, GuestError> {
    let parent = match target.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(parent).map_err(GuestError::io("make", parent))?;
    let area = tempfile::Builder::new()
        .prefix(".handoff-")
        .tempdir_in(parent)
        .map_err(GuestError::io("make a folder in", parent))?;
    let fetched = unpack_into(archive, area.path())?;
    let mut entries = std::fs::read_dir(area.path()).map_err(GuestError::io("list", area.path()))?;
    let Some(Ok(entry)) = entries.next() else {
        let what = fetched.left_out.first().map_or("nothing", String::as_str);
        return Err(GuestError::Protocol(format!(
            "{what} is neither a file nor a folder that can be brought"
        )));
    };
    let place = if target.is_dir() { target.join(entry.file_name()) } else { target.to_owned() };
    std::fs::rename(entry.path(), &place).map_err(GuestError::io("move what was brought to", &place))?;
    Ok(fetched)
}

fn unpack_into(archive: impl Read, folder: &Path) -> Result<Fetched, GuestError> {
    let broken = |error: std::io::Error| GuestError::Protocol(format!("a damaged archive: {error}"));
    let mut archive = tar::Archive::new(archive);
    archive.set_preserve_permissions(false);
    archive.set_preserve_mtime(false);
    let mut fetched = Fetched::default();
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let path = entry.path().map_err(broken)?.into_owned();
        let kind = entry.header().entry_type();
        let wanted = match kind {
            kind if kind.is_file() || kind.is_dir() => true,
            kind if kind.is_symlink() => {
                let link = entry.link_name().map_err(broken)?;
                link.is_some_and(|link| stays_inside(&path, &link))
            }
            _ => false,
        };
        let unpacked = wanted && is_plain(&path) && entry.unpack_in(folder).map_err(broken)?;
        if unpacked {
            fetched.files += usize::from(!kind.is_dir());
        } else {
            fetched.left_out.push(path.display().to_string());
        }
    }
    remove_links_out(folder, &mut fetched)?;
    Ok(fetched)
}

/// As many links as the kernel follows in one path.
const MOST_LINKS: usize = 40;

/// Removes links that lead out by way of other links: which those are is only known when everything is there.
fn remove_links_out(folder: &Path, fetched: &mut Fetched) -> Result<(), GuestError> {
    let mut folders = vec![PathBuf::new()];
    let mut links = Vec::new();
    while let Some(below) = folders.pop() {
        let at = folder.join(&below);
        for entry in std::fs::read_dir(&at).map_err(GuestError::io("list", &at))?.flatten() {
            let path = below.join(entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(kind) if kind.is_symlink() => links.push(path),
                _ => {}
            }
        }
    }
    for link in links.into_iter().filter(|link| !leads_inside(folder, link)) {
        let path = folder.join(&link);
        std::fs::remove_file(&path).map_err(GuestError::io("remove", &path))?;
        fetched.files -= 1;
        fetched.left_out.push(link.display().to_string());
    }
    Ok(())
}

/// Whether a link, with all links on its way followed as they are now, stays below the first folder of its path.
/// What is not there counts as a folder.
fn leads_inside(folder: &Path, link: &Path) -> bool {
    let parts = |path: &Path| path.components().map(|part| part.as_os_str().to_owned()).collect::<Vec<_>>();
    let mut rest = parts(link);
    if rest.len() == 1 {
        return false; // A link and nothing else: whatever it leads to is beside it.
    }
    rest.reverse();
    let (mut reached, mut links) = (PathBuf::new(), 0);
    while let Some(part) = rest.pop() {
        match Path::new(&part).components().next() {
            Some(Component::Normal(name)) => reached.push(name),
            Some(Component::CurDir) | None => {}
            Some(Component::ParentDir) if reached.components().count() > 1 => drop(reached.pop()),
            Some(_) => return false,
        }
        if let Ok(target) = std::fs::read_link(folder.join(&reached)) {
            links += 1;
            if links > MOST_LINKS || target.is_absolute() {
                return false;
            }
            reached.pop();
            rest.extend(parts(&target).into_iter().rev());
        }
    }
    true
}

/// Whether a path goes only down.
fn is_plain(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Whether a link at `path` leads to something below the first folder of `path`.
fn stays_inside(path: &Path, link: &Path) -> bool {
    let Some(folder) = path.parent() else { return false };
    let mut reached: Vec<PathBuf> = Vec::new();
    for part in folder.components().chain(link.components()) {
        match part {
            Component::Normal(name) => reached.push(name.into()),
            Component::CurDir => {}
            // The first name is that of what was asked for: going above it leads out.
            Component::ParentDir if reached.len() > 1 => drop(reached.pop()),
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An archive with these members: name, type, content or link target.
    fn archive(members: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, kind, content) in members {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o755);
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            let data = if kind.is_file() { content.as_bytes() } else { &[] };
            if !kind.is_file() {
                header.as_old_mut().linkname[..content.len()].copy_from_slice(content.as_bytes());
            }
            header.set_size(data.len() as u64);
            header.set_cksum();
            builder.append(&header, data).expect("appended");
        }
        builder.into_inner().expect("an archive")
    }

    use tar::EntryType::{Block, Directory, Regular, Symlink};

    #[test]
    fn a_file_comes_back_under_the_name_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("new/name");
        let fetched = unpack(&*archive(&[("result", Regular, "42")]), &target).expect("unpacked");
        assert_eq!(fetched, Fetched { files: 1, left_out: vec![] });
        assert_eq!(std::fs::read_to_string(&target).expect("there"), "42");
        assert_eq!(std::fs::read_dir(folder.path().join("new")).expect("a folder").count(), 1);
    }

    #[test]
    fn a_file_with_holes_is_packed_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("holes");
        let made = File::create(&file).expect("a file");
        // A hole of two blocks and more on any file system, and data behind it.
        made.set_len(4 << 20).expect("longer");
        std::os::unix::fs::FileExt::write_all_at(&made, b"end", (4 << 20) - 3).expect("written");
        let (packed, _) = pack(&file, "holes").expect("packed");
        let mut archive = tar::Archive::new(packed);
        let members: Vec<_> = archive
            .entries()
            .expect("an archive")
            .map(|entry| entry.expect("a member"))
            .map(|entry| (entry.header().entry_type(), entry.size()))
            .collect();
        assert_eq!(members, [(Regular, 4 << 20)]);
    }

    #[test]
    fn into_a_folder_it_goes_under_its_own_name() {
        let folder = tempfile::tempdir().expect("a folder");
        unpack(&*archive(&[("result", Regular, "42")]), folder.path()).expect("unpacked");
        assert!(folder.path().join("result").exists());
    }

    #[test]
    fn nothing_gets_out_of_the_target() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("t/x");
        let bytes = archive(&[
            ("d", Directory, ""),
            ("d/good", Regular, "g"),
            ("../evil", Regular, "e"),
            ("/tmp/handoff-evil", Regular, "e"),
            ("d/up", Symlink, "../../.."),
            ("d/root", Symlink, "/etc/passwd"),
            ("d/inside", Symlink, "good"),
            ("d/disk", Block, ""),
        ]);
        let fetched = unpack(&*bytes, &target).expect("unpacked");
        assert_eq!(fetched.files, 2);
        assert_eq!(fetched.left_out.len(), 5, "{:?}", fetched.left_out);
        assert!(target.join("good").exists() && target.join("inside").exists());
        assert!(!target.join("up").exists() && !target.join("root").is_symlink());
        assert!(!folder.path().join("evil").exists() && !Path::new("/tmp/handoff-evil").exists());
    }

    #[test]
    fn links_that_lead_out_together_are_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("t/x");
        let bytes = archive(&[
            ("d", Directory, ""),
            ("d/a", Directory, ""),
            ("d/a/b", Directory, ""),
            // Alone, each of them stays inside: the second only as long as `up` is no link.
            ("d/a/b/up", Symlink, "../.."),
            ("d/evil", Symlink, "a/b/up/../../secret"),
            // What is on its way comes later.
            ("d/late", Symlink, "x/y/../../../secret"),
            ("d/x", Directory, ""),
            ("d/x/y", Symlink, "../a"),
            ("d/good", Symlink, "a/b/up/a"),
            ("d/loop", Symlink, "loop"),
        ]);
        let fetched = unpack(&*bytes, &target).expect("unpacked");
        let mut left = fetched.left_out;
        left.sort();
        assert_eq!(left, ["d/evil", "d/late", "d/loop"]);
        assert_eq!(fetched.files, 3);
        std::fs::write(folder.path().join("secret"), "mine").expect("written");
        std::fs::write(folder.path().join("t/secret"), "mine").expect("written");
        for name in ["evil", "late", "loop"] {
            assert!(!target.join(name).is_symlink(), "{name}");
        }
        assert!(target.join("good/b").is_dir());
    }

    #[test]
    fn a_folder_packed_here_unpacks_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("source");
        std::fs::create_dir_all(source.join("deep/er")).expect("made");
        std::fs::write(source.join("deep/er/file"), vec![7; 100_000]).expect("written");
        let (file, size) = pack(&source, "other").expect("packed");
        assert!(size > 100_000);
        let target = folder.path().join("copy");
        assert_eq!(unpack(file, &target).expect("unpacked").files, 1);
        assert_eq!(std::fs::read(target.join("deep/er/file")).expect("there"), vec![7; 100_000]);
    }

    #[test]
    fn an_empty_answer_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(unpack(&*archive(&[]), &folder.path().join("x")).is_err());
        assert!(pack(Path::new("/no/such/file"), "x").is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn damaged_archives_write_nothing_outside(at in 0usize..2048, byte: u8, cut in 0usize..3000) {
            let folder = tempfile::tempdir().expect("a folder");
            let mut bytes = archive(&[("d", Directory, ""), ("d/f", Regular, "x"), ("d/l", Symlink, "f")]);
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(cut);
            drop(unpack(&*bytes, &folder.path().join("only")));
            let names: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").flatten().map(|e| e.file_name()).collect();
            prop_assert!(names.iter().all(|name| name == "only"), "{names:?}");
        }
    }
}
