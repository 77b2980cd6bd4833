//! Reads Debian packages: their files, and the modules among them, decompressed.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use super::elf::module_name;
use super::{GuestError, apt};

/// No file that is taken out of a package is anywhere near this size (bytes).
const LARGEST: u64 = 512 << 20;

/// Called with a file's path in the package and a function that reads it.
type Visitor<'a> =
    dyn FnMut(&str, &mut dyn FnMut() -> Result<Vec<u8>, GuestError>) -> Result<(), GuestError> + 'a;

/// Goes through the regular files of a Debian package.
pub(crate) fn each_file(deb: &Path, visit: &mut Visitor<'_>) -> Result<(), GuestError> {
    let mut child = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(deb)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(GuestError::io("run", Path::new("dpkg-deb")))?;
    let result = match child.stdout.take() {
        Some(stdout) => each_member(stdout, deb, visit),
        None => Ok(()),
    };
    let output = child.wait_with_output().map_err(GuestError::io("wait for", Path::new("dpkg-deb")))?;
    result?;
    if output.status.success() {
        return Ok(());
    }
    Err(GuestError::Unpack {
        file: deb.to_owned(),
        reason: format!("{}; remove it to have it fetched again", apt::last_lines(&output.stderr)),
    })
}

/// Unpacks all of a Debian package into a folder.
pub(crate) fn unpack_all(deb: &Path, folder: &Path) -> Result<(), GuestError> {
    let output = Command::new("dpkg-deb")
        .arg("--extract")
        .args([deb, folder])
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(GuestError::io("run", Path::new("dpkg-deb")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(GuestError::Unpack { file: deb.to_owned(), reason: apt::last_lines(&output.stderr) })
}

/// Goes through the regular files of a tar archive; the names of its members are only looked at,
/// never used as paths.
fn each_member(archive: impl Read, deb: &Path, visit: &mut Visitor<'_>) -> Result<(), GuestError> {
    let broken = |error: std::io::Error| GuestError::Unpack {
        file: deb.to_owned(),
        reason: format!("{error}; remove it to have it fetched again"),
    };
    let mut archive = tar::Archive::new(archive);
    for member in archive.entries().map_err(broken)? {
        let mut member = member.map_err(broken)?;
        if !member.header().entry_type().is_file() {
            continue;
        }
        let path = String::from_utf8_lossy(&member.path_bytes()).into_owned();
        let path = path.trim_start_matches("./");
        let path = path.strip_prefix("usr/").unwrap_or(path);
        visit(path, &mut || {
            let mut content = Vec::new();
            let size = (&mut member).take(LARGEST + 1).read_to_end(&mut content).map_err(broken)?;
            if size as u64 > LARGEST {
                return Err(broken(std::io::Error::other(format!("a file in it has over {LARGEST} bytes"))));
            }
            Ok(content)
        })?;
    }
    Ok(())
}

/// How a module's file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Tool(&'static str),
}

/// The module that a file of a kernel package or build tree is.
pub(crate) fn module_file(path: &str) -> Option<(String, Packing)> {
    let file = path.rsplit('/').next()?;
    let forms = [
        (".ko", Packing::None),
        (".ko.xz", Packing::Tool("xz")),
        (".ko.zst", Packing::Tool("zstd")),
        (".ko.gz", Packing::Tool("gzip")),
    ];
    forms.iter().find_map(|(suffix, packing)| Some((module_name(file.strip_suffix(suffix)?), *packing)))
}

/// The bytes of a module, decompressed by the tool of that format.
pub(crate) fn unpacked(packing: Packing, bytes: Vec<u8>) -> Result<Vec<u8>, GuestError> {
    let Packing::Tool(tool) = packing else { return Ok(bytes) };
    let mut child = Command::new(tool)
        .args(["-d", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|_| GuestError::MissingTool {
            tool: tool.to_owned(),
            advice: format!("the kernel's modules are compressed with it: run `apt-get install {tool}`"),
        })?;
    let input = child.stdin.take();
    let feeder = std::thread::spawn(move || {
        use std::io::Write as _;
        // If the tool stops reading, its exit status and complaint say why.
        if let Some(mut input) = input {
            drop(input.write_all(&bytes));
        }
    });
    let output = child.wait_with_output().map_err(GuestError::io("run", Path::new(tool)))?;
    drop(feeder.join());
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(GuestError::Module { module: "in the package".into(), reason: apt::last_lines(&output.stderr) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, content) in members {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            // Put the name in as it is: the builder itself would refuse the hostile ones.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            builder.append(&header, *content).expect("appended");
        }
        builder.into_inner().expect("an archive")
    }

    fn members(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, GuestError> {
        let mut found = Vec::new();
        each_member(bytes, Path::new("test.deb"), &mut |path, content| {
            found.push((path.to_owned(), content()?));
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn members_are_named_without_prefixes() {
        let bytes = archive(&[("./boot/vmlinuz-1", b"k"), ("./usr/lib/modules/1/a.ko", b"m")]);
        let found = members(&bytes).expect("a good archive");
        assert_eq!(found[0], ("boot/vmlinuz-1".to_owned(), b"k".to_vec()));
        assert_eq!(found[1].0, "lib/modules/1/a.ko");
    }

    #[test]
    fn a_hostile_name_is_only_a_name() {
        let found = members(&archive(&[("../../../etc/passwd", b"x")])).expect("an archive");
        assert_eq!(found[0].0, "../../../etc/passwd");
        assert_eq!(module_file("../../../../tmp/evil.ko"), Some(("evil".to_owned(), Packing::None)));
    }

    #[test]
    fn modules_are_known_by_their_files() {
        let file = "lib/modules/6.1/kernel/drivers/char/hw_random/virtio-rng.ko";
        assert_eq!(module_file(file), Some(("virtio_rng".to_owned(), Packing::None)));
        assert_eq!(module_file(&format!("{file}.xz")).expect("a module").1, Packing::Tool("xz"));
        assert_eq!(module_file("modules.dep"), None);
    }

    #[test]
    fn compressed_modules_come_out_as_they_were() {
        handoff_testkit::require!(handoff_testkit::require_tool("gzip"));
        let plain = vec![7u8; 300_000];
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("m.ko");
        std::fs::write(&file, &plain).expect("written");
        assert!(Command::new("gzip").arg(&file).status().expect("gzip").success());
        let packed = std::fs::read(folder.path().join("m.ko.gz")).expect("compressed");
        assert_eq!(unpacked(Packing::Tool("gzip"), packed).expect("unpacked"), plain);
        assert!(unpacked(Packing::Tool("gzip"), b"no gzip data".to_vec()).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn damaged_archives_are_no_panic(at in 0usize..2048, byte: u8, cut in 0usize..2048) {
            let mut bytes = archive(&[("./boot/vmlinuz-1", b"kernel"), ("./b", &[1; 600])]);
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(cut);
            drop(members(&bytes));
        }
    }
}
