//! The guest's root file system: busybox, the first process, kernel modules, the user's programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::cpio::Archive;
use super::elf::{self, Executable};
use super::modules::Module;
use super::{Arch, GuestError};

const INIT: &str = include_str!("init.sh");
const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";

/// A file of the host that the guest has from its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extra {
    pub(crate) host: PathBuf,
    pub(crate) guest: String,
    /// Whether it is to be run there, so that its libraries must come along.
    pub(crate) is_program: bool,
}

/// Packs a root file system that has only what every guest has.
pub(crate) fn pack(
    arch: Arch,
    busybox: &Path,
    modules: &[Module],
    parameters: &[(String, String)],
    extras: &[Extra],
) -> Result<Vec<u8>, GuestError> {
    let mut archive = Archive::new();
    archive.directory("/dev")?;
    archive.character("/dev/console", 0o600, (5, 1))?;
    archive.character("/dev/null", 0o666, (1, 3))?;
    archive.file("/init", 0o755, INIT.as_bytes())?;
    archive.file("/etc/passwd", 0o644, PASSWD.as_bytes())?;
    archive.file("/etc/group", 0o644, GROUP.as_bytes())?;
    archive.file("/bin/busybox", 0o755, &busybox_for(arch, busybox)?)?;
    archive.symlink("/bin/sh", "busybox")?;
    let mut list = String::new();
    for module in modules {
        archive.file(&format!("/lib/handoff/{}.ko", module.name), 0o644, &module.content)?;
        let given = parameters.iter().find(|(name, _)| *name == module.name);
        let given = given.map_or("", |(_, parameters)| parameters.as_str());
        list.push_str(&format!("{} {given}\n", module.name));
    }
    archive.file("/etc/handoff/modules", 0o644, list.as_bytes())?;
    for extra in extras {
        add(&mut archive, arch, extra)?;
    }
    archive.finish()
}

fn busybox_for(arch: Arch, path: &Path) -> Result<Vec<u8>, GuestError> {
    let bytes = std::fs::read(path).map_err(GuestError::io("read", path))?;
    let refuse = |reason: String| Err(GuestError::Program { program: path.to_owned(), reason });
    match elf::executable(&bytes) {
        Some(Executable { missing: missing @ 1.., .. }) => refuse(cut_off(missing)),
        Some(Executable { arch: Some(of), loader: None, .. }) if of == arch => Ok(bytes),
        Some(Executable { loader: Some(_), .. }) => {
            refuse("it is not static: name a static busybox, Debian's package is busybox-static".to_owned())
        }
        Some(_) => refuse(format!("it is not for {arch}")),
        None => refuse("it is no program of Linux".to_owned()),
    }
}

fn add(archive: &mut Archive, arch: Arch, extra: &Extra) -> Result<(), GuestError> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = &extra.host;
    let content = std::fs::read(path).map_err(GuestError::io("read", path))?;
    let mode = std::fs::metadata(path).map_err(GuestError::io("look at", path))?.permissions().mode();
    let libraries = if extra.is_program { libraries(arch, path, &content)? } else { Vec::new() };
    let mode = if extra.is_program { mode | 0o755 } else { mode };
    archive.file(&extra.guest, mode & 0o777, &content)?;
    for library in libraries {
        let name = library.to_string_lossy();
        if !archive.contains(&name) {
            let content = std::fs::read(&library).map_err(GuestError::io("read", &library))?;
            archive.file(&name, 0o755, &content)?;
        }
    }
    Ok(())
}

/// The shared libraries of a program and its loader; none for a static program or a script.
fn libraries(arch: Arch, path: &Path, content: &[u8]) -> Result<Vec<PathBuf>, GuestError> {
    let refuse = |reason: String| GuestError::Program { program: path.to_owned(), reason };
    let Some(program) = elf::executable(content) else {
        return if content.starts_with(b"#!") {
            Ok(Vec::new())
        } else {
            Err(refuse("it is neither a 64-bit ELF program nor a script".to_owned()))
        };
    };
    if program.arch != Some(arch) {
        let is = program.arch.map_or_else(|| "another machine".to_owned(), |arch| arch.to_string());
        return Err(refuse(format!("it is for {is}, the guest is {arch}; {}", static_build(arch))));
    }
    if program.missing > 0 {
        return Err(refuse(cut_off(program.missing)));
    }
    let Some(loader) = program.loader else { return Ok(Vec::new()) };
    if Arch::host() != Some(arch) || loader != arch.loader() {
        return Err(refuse(format!("it needs the dynamic loader {loader}; {}", static_build(arch))));
    }
    // The loader lists what it would load, without running any of the program.
    let output = Command::new(&loader)
        .arg("--list")
        .arg(path)
        .env("LC_ALL", "C")
        .output()
        .map_err(GuestError::io("run", Path::new(&loader)))?;
    if !output.status.success() {
        let why = super::apt::last_lines(&output.stderr);
        return Err(refuse(format!("its libraries cannot be found ({why}); {}", static_build(arch))));
    }
    let mut files = listed(&String::from_utf8_lossy(&output.stdout)).map_err(refuse)?;
    files.push(PathBuf::from(loader));
    Ok(files)
}

/// Why a program that lacks its last bytes is refused: in the guest all one would see is `Bus error`.
fn cut_off(missing: u64) -> String {
    format!("it is cut off, {missing} bytes of it are missing: build or copy it again")
}

/// How to get a program that needs nothing from the guest.
fn static_build(arch: Arch) -> String {
    format!(
        "build a static one: RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --target {}",
        arch.rust_target()
    )
}

/// Reads lines such as `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f0000000000)`.
fn listed(text: &str) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some((name, rest)) = line.split_once(" => ") {
            if rest.contains("not found") {
                return Err(format!("its library {name} cannot be found"));
            }
            let file = rest.rsplit_once(" (").map_or(rest, |(file, _)| file);
            if file.starts_with('/') {
                files.push(PathBuf::from(file));
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_loaders_list_is_read() {
        let text = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld.so (0x3)\n";
        assert_eq!(listed(text), Ok(vec![PathBuf::from("/lib/x/libc.so.6")]));
        assert!(listed("\tliba.so => not found\n").is_err_and(|why| why.contains("liba.so")));
    }

    #[test]
    fn this_test_brings_its_libraries() {
        let Some(arch) = Arch::host() else { return };
        let own = std::env::current_exe().expect("this test");
        let content = std::fs::read(&own).expect("read");
        let files = libraries(arch, &own, &content).expect("libraries");
        if cfg!(target_feature = "crt-static") {
            assert_eq!(files, Vec::<PathBuf>::new());
        } else {
            assert!(files.iter().any(|file| file.ends_with("libc.so.6")), "{files:?}");
            assert!(files.contains(&PathBuf::from(arch.loader())));
        }
    }

    #[test]
    fn what_cannot_run_there_is_refused_with_a_way_out() {
        let Some(arch) = Arch::host() else { return };
        let other = if arch == Arch::X86_64 { Arch::Arm64 } else { Arch::X86_64 };
        let own = std::env::current_exe().expect("this test");
        let content = std::fs::read(&own).expect("read");
        let error = libraries(other, &own, &content).expect_err("another machine").to_string();
        assert!(error.contains("crt-static") && error.contains(other.rust_target()), "{error}");
        assert!(libraries(arch, Path::new("/x"), b"rubbish").is_err());
        let part = &content[..content.len() / 8];
        let error = libraries(arch, &own, part).expect_err("a part of a program").to_string();
        assert!(error.contains("cut off"), "{error}");
        assert_eq!(
            libraries(arch, Path::new("/x"), b"#!/bin/sh\n").expect("a script"),
            Vec::<PathBuf>::new()
        );
    }

    #[test]
    fn only_a_static_busybox_will_do() {
        let Some(arch) = Arch::host() else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("busybox");
        std::fs::write(&file, "#!/bin/sh").expect("written");
        assert!(busybox_for(arch, &file).is_err_and(|why| why.to_string().contains("no program")));
        assert!(busybox_for(arch, Path::new("/no/such/file")).is_err());
    }

    proptest! {
        #[test]
        fn any_list_is_read(text in "(lib|=>| |\\(0x|/|\n|not found){0,20}") {
            drop(listed(&text));
        }
    }
}
