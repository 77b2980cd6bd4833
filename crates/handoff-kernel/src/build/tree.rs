//! Questions about a kernel's source tree.

use std::path::{Component, Path};

use super::BuildError;

/// Makes sure that this is a kernel's source, and one that can be built outside of.
pub(crate) fn check(tree: &Path) -> Result<(), BuildError> {
    let refuse = |reason: &str| Err(BuildError::Tree { tree: tree.to_owned(), reason: reason.to_owned() });
    if !tree.is_dir() {
        return refuse("there is no such folder");
    }
    let makefile = std::fs::read_to_string(tree.join("Makefile")).unwrap_or_default();
    let has = |name: &str| makefile.lines().any(|line| line.starts_with(name) && line.contains('='));
    if !(has("VERSION") && has("PATCHLEVEL") && tree.join("Kconfig").exists()) {
        return refuse("it is not the source of a kernel: it has no Makefile with a version, or no Kconfig");
    }
    if tree.join(".config").exists() || tree.join("include/config/auto.conf").exists() {
        return refuse(
            "it was built in place, which spoils builds elsewhere: run `make mrproper` there first",
        );
    }
    Ok(())
}

/// The first two numbers of the kernel's version, as its Makefile has them.
pub(crate) fn version(tree: &Path) -> Option<(u32, u32)> {
    let makefile = std::fs::read_to_string(tree.join("Makefile")).ok()?;
    let number = |name: &str| {
        let line = makefile.lines().find(|line| line.starts_with(name))?;
        line.split_once('=')?.1.trim().parse().ok()
    };
    Some((number("VERSION")?, number("PATCHLEVEL")?))
}

/// Makes sure that the tree is not older than what builds it here: the gcc of this major version, and make's target for the
/// configuration to begin with. `gcc` asks for the version.
pub(crate) fn check_age(
    tree: &Path,
    gcc: impl FnOnce() -> Option<u32>,
    is_tiny: bool,
) -> Result<(), BuildError> {
    let Some(version) = version(tree) else { return Ok(()) };
    let mut reasons = Vec::new();
    // Before 4.2 each major version of gcc had a header of its own.
    let known: Vec<u32> =
        (3..9).filter(|gcc| tree.join(format!("include/linux/compiler-gcc{gcc}.h")).is_file()).collect();
    if !known.is_empty()
        && let Some(gcc) = gcc().filter(|gcc| !known.contains(gcc))
    {
        let known = known.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        reasons.push(format!(
            "it has include/linux/compiler-gccN.h for gcc {known} only, and gcc here is {gcc}"
        ));
    }
    if version < (3, 7) {
        reasons.push("it has no `make olddefconfig`, which kernels have since 3.7".to_owned());
    } else if is_tiny && version < (3, 17) {
        reasons.push(
            "it has no `make tinyconfig`, which kernels have since 3.17: begin with defconfig (`--base def`; in a study's \
             file `base = \"def\"`)"
                .to_owned(),
        );
    }
    if reasons.is_empty() {
        return Ok(());
    }
    let reason = format!(
        "Linux {}.{} is older than what builds it here: {}",
        version.0,
        version.1,
        reasons.join("; ")
    );
    Err(BuildError::Tree { tree: tree.to_owned(), reason })
}

/// The name of the object that a C file of the tree becomes.
pub(crate) fn object(tree: &Path, file: &Path) -> Result<String, BuildError> {
    let inside = file.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let is_c = file.extension().is_some_and(|extension| extension == "c");
    let stem = file
        .file_stem()
        .and_then(|stem| stem.to_str())
        .filter(|stem| stem.chars().all(|c| c.is_ascii_alphanumeric() || "_-+.".contains(c)));
    match stem {
        Some(stem) if inside && is_c && tree.join(file).is_file() => Ok(format!("{stem}.o")),
        _ => Err(BuildError::Options(format!(
            "{} is no C file of {}: name it as kernel/sched/fair.c",
            file.display(),
            tree.display()
        ))),
    }
}

/// The value that the file's own Makefile gives a variable, which one on the command line replaces.
pub(crate) fn own_flags(tree: &Path, file: &Path, variable: &str) -> Result<String, BuildError> {
    let folder = tree.join(file.parent().unwrap_or(Path::new("")));
    let makefile = ["Kbuild", "Makefile"].iter().map(|name| folder.join(name)).find(|path| path.is_file());
    let text = makefile.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let mut flags = Vec::new();
    for line in text.lines() {
        let assigned = line
            .trim()
            .strip_prefix(variable)
            .map(|rest| rest.trim_start().trim_start_matches(['+', ':', '?']));
        if let Some(value) = assigned.and_then(|rest| rest.strip_prefix('=')) {
            // A reference is expanded in the sub-make, where its variable is known.
            flags.push(value.trim().to_owned());
        }
    }
    Ok(flags.join(" "))
}

/// Other C files of the tree with the same name, as paths in it.
pub(crate) fn namesakes(tree: &Path, file: &Path) -> Vec<String> {
    let Some(name) = file.file_name() else { return Vec::new() };
    let mut found = Vec::new();
    let mut folders = vec![tree.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && entry.file_name() != ".git" => folders.push(entry.path()),
                Ok(kind) if kind.is_file() && entry.file_name() == name => {
                    let path = entry.path();
                    let path = path.strip_prefix(tree).unwrap_or(&path);
                    if path != file {
                        found.push(path.display().to_string());
                    }
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        write("Makefile", "VERSION = 6\nPATCHLEVEL = 1\n");
        write("Kconfig", "");
        write("kernel/sched/fair.c", "");
        write(
            "kernel/sched/Makefile",
            "CFLAGS_fair.o := $(x) -Wno-y\nCFLAGS_fair.o += -Dz\nCFLAGS_core.o = -Da\n",
        );
        write("drivers/a/fair.c", "");
        folder
    }

    #[test]
    fn a_kernel_is_told_from_other_folders() {
        let folder = tree();
        check(folder.path()).expect("a kernel");
        std::fs::write(folder.path().join(".config"), "").expect("written");
        assert!(check(folder.path()).is_err_and(|why| why.to_string().contains("mrproper")));
        let other = tempfile::tempdir().expect("a folder");
        assert!(check(other.path()).is_err_and(|why| why.to_string().contains("not the source")));
    }

    #[test]
    fn a_tree_that_is_older_than_the_compiler_says_so() {
        let folder = tree();
        check_age(folder.path(), || Some(12), true).expect("6.1 is not");
        let age = |minor: u32, gcc: u32, is_tiny: bool| {
            let makefile = format!("VERSION = 3\nPATCHLEVEL = {minor}\n");
            std::fs::write(folder.path().join("Makefile"), makefile).expect("written");
            let checked = check_age(folder.path(), || Some(gcc), is_tiny);
            checked.map_err(|why| why.to_string()).err().unwrap_or_default()
        };
        assert_eq!(age(17, 12, true), "");
        assert_eq!(age(16, 12, false), "");
        assert!(age(16, 12, true).contains("--base def"));
        std::fs::create_dir_all(folder.path().join("include/linux")).expect("made");
        for header in ["gcc3", "gcc4"] {
            let header = folder.path().join(format!("include/linux/compiler-{header}.h"));
            std::fs::write(header, "").expect("written");
        }
        assert_eq!(age(16, 4, false), "");
        let why = age(4, 12, true);
        assert!(
            why.contains("for gcc 3, 4 only, and gcc here is 12; it has no `make olddefconfig`"),
            "{why}"
        );
    }

    #[test]
    fn a_files_flags_and_namesakes_are_found() {
        let folder = tree();
        let file = Path::new("kernel/sched/fair.c");
        assert_eq!(object(folder.path(), file).expect("there"), "fair.o");
        let flags = own_flags(folder.path(), file, "CFLAGS_fair.o").expect("read");
        assert_eq!(flags, "$(x) -Wno-y -Dz");
        assert_eq!(namesakes(folder.path(), file), ["drivers/a/fair.c"]);
        for bad in ["kernel/sched/none.c", "../x.c", "/etc/passwd", "Makefile", ""] {
            assert!(object(folder.path(), Path::new(bad)).is_err(), "{bad}");
        }
    }
}
