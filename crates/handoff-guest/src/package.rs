//! Distribution packages in the cache, and what is taken out of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::apt::{self, Apt, Candidate};
use super::cache::{Cache, write_whole};
use super::deb::{each_file, module_file, unpack_all, unpacked};
use super::elf::module_name;
use super::modules::PREFETCH;
use super::suite;
use super::{Arch, GuestError};

/// A kernel of the distribution, unpacked in the cache as far as it is needed.
#[derive(Debug, Clone)]
pub(crate) struct KernelPackage {
    pub(crate) identity: String,
    /// The folder with `vmlinuz`, `config` and `modules/`.
    pub(crate) folder: PathBuf,
    debs: Vec<PathBuf>,
}

/// What a name that was asked for came to, so that the next boot need not ask the package manager.
#[derive(Debug, Serialize, Deserialize)]
struct Resolved {
    identity: String,
    debs: Vec<String>,
}

impl KernelPackage {
    /// Gives the kernel that `package` names, from the cache or else from the package manager.
    pub(crate) fn fetch(
        cache: &Cache,
        arch: Arch,
        package: &str,
        refresh: bool,
        progress: &dyn Fn(&str),
    ) -> Result<Self, GuestError> {
        let note = note_path(cache, arch, package)?;
        if !refresh && let Some(known) = read_note(&note) {
            let kernel = Self::at(cache, &known);
            if kernel.is_complete() {
                return Ok(kernel);
            }
        }
        let _lock = cache.lock(progress)?;
        let (name, suite) = suite::split(package);
        let mut apt = Apt::new(cache, arch)?.of_suite(suite)?;
        if refresh && suite.is_some() {
            apt.update()?;
        }
        let candidates = kernel_packages(&mut apt, name)?;
        let debs = fetch_all(&mut apt, cache, arch, &candidates, progress)?;
        let resolved = Resolved { identity: apt::identity(&candidates[0], arch), debs };
        let kernel = Self::at(cache, &resolved);
        if !kernel.is_complete() {
            progress(&format!("unpacking {}", resolved.identity));
            kernel.unpack_base(cache)?;
        }
        write_note(&note, &resolved)?;
        Ok(kernel)
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// Gives a module's file, taking it out of the package if that was not done yet.
    ///
    /// `None` where the package has no such module.
    pub(crate) fn modules(
        &self,
        cache: &Cache,
        names: &BTreeSet<String>,
    ) -> Result<Vec<(String, Option<PathBuf>)>, GuestError> {
        let folder = self.folder.join("modules");
        let file = |name: &str| folder.join(format!("{name}.ko"));
        let absent = self.absent()?;
        let missing: BTreeSet<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| !file(name).exists() && !absent.contains(*name))
            .collect();
        if !missing.is_empty() {
            let _lock = cache.lock(&|_| ())?;
            self.unpack_modules(&folder, &missing)?;
            let still: Vec<&str> = missing.into_iter().filter(|name| !file(name).exists()).collect();
            self.note_absent(absent, &still)?;
        }
        Ok(names.iter().map(|name| (name.clone(), Some(file(name)).filter(|path| path.exists()))).collect())
    }

    /// Whether the kernel has this module built in.
    pub(crate) fn is_builtin(&self, name: &str) -> bool {
        let list = std::fs::read_to_string(self.folder.join("modules.builtin")).unwrap_or_default();
        list.lines().any(|line| {
            let file = line.rsplit('/').next().unwrap_or_default();
            file.strip_suffix(".ko").is_some_and(|stem| module_name(stem) == name)
        })
    }

    fn at(cache: &Cache, resolved: &Resolved) -> Self {
        Self {
            identity: resolved.identity.clone(),
            folder: cache.path("kernels").join(&resolved.identity),
            debs: resolved.debs.iter().map(|deb| cache.path("debs").join(deb)).collect(),
        }
    }

    fn is_complete(&self) -> bool {
        self.image().exists() && self.debs.iter().all(|deb| deb.exists())
    }

    /// Takes out the boot image, its configuration and the modules that guests usually want.
    fn unpack_base(&self, cache: &Cache) -> Result<(), GuestError> {
        let parent = cache.folder("kernels")?;
        let area = tempfile::Builder::new()
            .prefix(".unpack-")
            .tempdir_in(&parent)
            .map_err(GuestError::io("make a folder in", &parent))?;
        let modules = area.path().join("modules");
        std::fs::create_dir(&modules).map_err(GuestError::io("make", &modules))?;
        let wanted: BTreeSet<&str> = PREFETCH.iter().copied().collect();
        for deb in &self.debs {
            each_file(deb, &mut |path, content| {
                let name = path.rsplit('/').next().unwrap_or_default();
                // Since 6.19 they stand beside the modules.
                let beside = path.trim_start_matches("usr/").starts_with("lib/modules/")
                    && path.matches('/').count() <= 4;
                if path.starts_with("boot/vmlinuz-")
                    || path.starts_with("boot/vmlinux-")
                    || beside && name == "vmlinuz"
                {
                    write_whole(&area.path().join("vmlinuz"), &content()?)?;
                } else if path.starts_with("boot/config-") || beside && name == "config" {
                    write_whole(&area.path().join("config"), &content()?)?;
                } else if name == "modules.builtin" {
                    write_whole(&area.path().join(name), &content()?)?;
                } else if let Some((stem, packing)) = module_file(path)
                    && wanted.contains(stem.as_str())
                {
                    write_whole(&modules.join(format!("{stem}.ko")), &unpacked(packing, content()?)?)?;
                }
                Ok(())
            })?;
        }
        if !area.path().join("vmlinuz").exists() {
            return Err(GuestError::Unpack {
                file: self.debs.first().cloned().unwrap_or_default(),
                reason: "it holds neither boot/vmlinuz-* nor lib/modules/*/vmlinuz: name another with `--kernel-package`".to_owned(),
            });
        }
        drop(std::fs::remove_dir_all(&self.folder));
        std::fs::rename(area.path(), &self.folder)
            .map_err(GuestError::io("move the unpacked kernel to", &self.folder))
    }

    fn unpack_modules(&self, folder: &Path, wanted: &BTreeSet<&str>) -> Result<(), GuestError> {
        for deb in &self.debs {
            each_file(deb, &mut |path, content| {
                if let Some((stem, packing)) = module_file(path)
                    && wanted.contains(stem.as_str())
                {
                    write_whole(&folder.join(format!("{stem}.ko")), &unpacked(packing, content()?)?)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn absent(&self) -> Result<BTreeSet<String>, GuestError> {
        let path = self.folder.join("modules.absent");
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(GuestError::io("read", &path)(error)),
        }
    }

    fn note_absent(&self, mut known: BTreeSet<String>, more: &[&str]) -> Result<(), GuestError> {
        if more.is_empty() {
            return Ok(());
        }
        known.extend(more.iter().map(|name| (*name).to_owned()));
        let text: String = known.iter().flat_map(|name| [name.as_str(), "\n"]).collect();
        write_whole(&self.folder.join("modules.absent"), text.as_bytes())
    }
}

/// Gives the file of a package (`NAME` or `NAME/SUITE`), from the cache or else from the package manager.
pub fn fetch_package(
    cache: Option<&Path>,
    arch: Arch,
    package: &str,
    progress: &dyn Fn(&str),
) -> Result<PathBuf, GuestError> {
    let cache = Cache::open(cache)?;
    let note = note_path(&cache, arch, package)?;
    let file = |known: &Resolved| cache.path("debs").join(&known.debs[0]);
    if let Some(known) = read_note(&note).filter(|known| file(known).exists()) {
        return Ok(file(&known));
    }
    let _lock = cache.lock(progress)?;
    let (name, suite) = suite::split(package);
    let mut apt = Apt::new(&cache, arch)?.of_suite(suite)?;
    let candidate = apt.find(name)?;
    let debs = fetch_all(&mut apt, &cache, arch, std::slice::from_ref(&candidate), progress)?;
    let resolved = Resolved { identity: apt::identity(&candidate, arch), debs };
    write_note(&note, &resolved)?;
    Ok(file(&resolved))
}

/// Gives a folder of the cache with all files of packages of a suite and of those that they depend on, as far as
/// `follow` says; nothing is installed.
///
/// The first package names the folder: it stays until that one's note is removed from the cache.
pub fn unpack_packages(
    cache: Option<&Path>,
    arch: Arch,
    suite: &str,
    packages: &[&str],
    follow: &dyn Fn(&str) -> bool,
    progress: &dyn Fn(&str),
) -> Result<PathBuf, GuestError> {
    let cache = Cache::open(cache)?;
    let _lock = cache.lock(progress)?;
    let first = packages.first().copied().unwrap_or_default();
    let note = note_path(&cache, arch, &format!("{first}+unpacked/{suite}"))?;
    let folder = |known: &Resolved| cache.path("unpacked").join(&known.identity);
    if let Some(known) = read_note(&note).filter(|known| folder(known).is_dir()) {
        return Ok(folder(&known));
    }
    progress(&format!("looking up {first} of {suite} and what it needs"));
    let mut apt = Apt::new(&cache, arch)?.of_suite(Some(suite))?;
    let mut found: Vec<Candidate> = Vec::new();
    let mut wanted: Vec<String> = packages.iter().rev().map(|name| (*name).to_owned()).collect();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        if seen.insert(name.clone()) {
            let candidate = apt.find(&name)?;
            wanted.extend(candidate.depends.iter().filter(|name| follow(name)).cloned());
            found.push(candidate);
        }
    }
    let debs = fetch_all(&mut apt, &cache, arch, &found, progress)?;
    let resolved = Resolved { identity: apt::identity(&found[0], arch), debs };
    let parent = cache.folder("unpacked")?;
    let area = tempfile::Builder::new()
        .prefix(".unpack-")
        .tempdir_in(&parent)
        .map_err(GuestError::io("make a folder in", &parent))?;
    for deb in resolved.debs.iter().map(|deb| cache.path("debs").join(deb)) {
        progress(&format!("unpacking {}", deb.file_name().unwrap_or_default().display()));
        unpack_all(&deb, area.path())?;
    }
    let target = folder(&resolved);
    std::fs::rename(area.path(), &target)
        .map_err(GuestError::io("move the unpacked packages to", &target))?;
    write_note(&note, &resolved)?;
    Ok(target)
}

/// The kernels of the distribution that can be booted, by the names of their packages: of the system's own suite, or
/// of another one such as `trixie-backports`.
pub fn kernel_package_names(
    cache: Option<&Path>,
    arch: Arch,
    suite: Option<&str>,
    progress: &dyn Fn(&str),
) -> Result<Vec<String>, GuestError> {
    let cache = Cache::open(cache)?;
    let _lock = cache.lock(progress)?;
    let names = Apt::new(&cache, arch)?.of_suite(suite)?.names("linux-image-")?;
    let is_bootable = |name: &String| {
        name.ends_with(arch.debian())
            || name.contains(&format!("-{}-", arch.debian())) && !name.ends_with("-dbg")
    };
    Ok(names
        .into_iter()
        .filter(is_bootable)
        .filter(|name| !name.ends_with("-unsigned") && !name.ends_with("-template"))
        .collect())
}

/// Gives a static busybox for guests of this architecture.
pub(crate) fn busybox(
    cache: &Cache,
    arch: Arch,
    refresh: bool,
    progress: &dyn Fn(&str),
) -> Result<PathBuf, GuestError> {
    let note = note_path(cache, arch, "busybox-static")?;
    let program = |known: &Resolved| cache.path("busybox").join(&known.identity);
    if !refresh && let Some(known) = read_note(&note).filter(|known| program(known).exists()) {
        return Ok(program(&known));
    }
    let _lock = cache.lock(progress)?;
    let mut apt = Apt::new(cache, arch)?;
    let candidate = apt.find("busybox-static")?;
    let debs = fetch_all(&mut apt, cache, arch, std::slice::from_ref(&candidate), progress)?;
    let resolved = Resolved { identity: apt::identity(&candidate, arch), debs };
    let deb = cache.path("debs").join(&resolved.debs[0]);
    cache.folder("busybox")?;
    let target = program(&resolved);
    each_file(&deb, &mut |path, content| {
        if path == "bin/busybox" { write_whole(&target, &content()?) } else { Ok(()) }
    })?;
    if !target.exists() {
        return Err(GuestError::Unpack { file: deb, reason: "it holds no bin/busybox".to_owned() });
    }
    write_note(&note, &resolved)?;
    Ok(target)
}

/// The package with the boot image, then those with its modules where they are packages of their own.
fn kernel_packages(apt: &mut Apt<'_>, package: &str) -> Result<Vec<Candidate>, GuestError> {
    let mut image = apt.find(package)?;
    // A name such as linux-image-amd64 only depends on the newest kernel's package.
    for _ in 0..4 {
        let Some(next) = image.depends.iter().find(|name| name.starts_with("linux-image-")).cloned() else {
            break;
        };
        image = apt.find(&next)?;
    }
    // Debian's since 6.19 have the boot image and the configuration in packages of their own, too.
    let parts = ["linux-binary-", "linux-modules-", "linux-base-"];
    let is_part = |name: &&String| parts.iter().any(|part| name.starts_with(part));
    let modules: Vec<String> = image.depends.iter().filter(is_part).cloned().collect();
    let mut all = vec![image];
    for name in modules {
        all.push(apt.find(&name)?);
    }
    Ok(all)
}

fn fetch_all(
    apt: &mut Apt<'_>,
    cache: &Cache,
    arch: Arch,
    packages: &[Candidate],
    progress: &dyn Fn(&str),
) -> Result<Vec<String>, GuestError> {
    let folder = cache.folder("debs")?;
    let mut names = Vec::new();
    for package in packages {
        let known = folder.join(format!("{}.deb", apt::identity(package, arch)));
        let file = if known.exists() {
            known
        } else {
            progress(&format!("fetching {} {}", package.name, package.version));
            apt.download(package, &folder)?
        };
        names.push(file.file_name().unwrap_or_default().to_string_lossy().into_owned());
    }
    Ok(names)
}

fn note_path(cache: &Cache, arch: Arch, asked: &str) -> Result<PathBuf, GuestError> {
    let package = match suite::split(asked) {
        (name, None) => name.to_owned(),
        (name, Some(suite)) if !name.is_empty() && !suite.is_empty() && !suite.contains('/') => {
            format!("{name}+from+{suite}")
        }
        (_, Some(_)) => String::new(),
    };
    let package = package.as_str();
    let plain = package.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if !plain || package.is_empty() || package.starts_with(['-', '.']) {
        return Err(GuestError::Options(format!("{asked:?} cannot be the name of a package")));
    }
    Ok(cache.folder("resolved")?.join(format!("{package}_{}.json", arch.debian())))
}

/// A note that cannot be read is as good as none: what it says can be found again.
fn read_note(path: &Path) -> Option<Resolved> {
    let note: Resolved = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    let plain = |name: &String| !name.is_empty() && !name.contains('/') && !name.starts_with('.');
    (plain(&note.identity) && !note.debs.is_empty() && note.debs.iter().all(plain)).then_some(note)
}

fn write_note(path: &Path, resolved: &Resolved) -> Result<(), GuestError> {
    let text = serde_json::to_vec_pretty(resolved)
        .map_err(|error| GuestError::io("write", path)(std::io::Error::other(error)))?;
    write_whole(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_with_paths_are_not_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("note");
        for bad in [r#"{"identity":"../x","debs":["a"]}"#, r#"{"identity":"x","debs":["/a"]}"#, "{}", ""] {
            std::fs::write(&path, bad).expect("written");
            assert!(read_note(&path).is_none(), "{bad}");
        }
        write_note(&path, &Resolved { identity: "x".into(), debs: vec!["a.deb".into()] }).expect("written");
        assert!(read_note(&path).is_some());
    }

    #[test]
    fn a_package_name_is_no_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(Some(folder.path())).expect("a cache");
        for bad in ["", "../x", "-o", "a b", "a/b/c", "a/../b", "../a/b", "/b", "a/", ".hidden"] {
            assert!(note_path(&cache, Arch::X86_64, bad).is_err(), "{bad:?}");
        }
    }
}
