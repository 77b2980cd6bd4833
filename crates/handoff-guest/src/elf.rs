//! What a program or a kernel module says of itself: its machine, its loader, its dependencies.

use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _};

use super::Arch;

/// An executable file of Linux, as far as copying it to a guest needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Executable {
    /// `None` for a machine that no guest can be.
    pub(crate) arch: Option<Arch>,
    /// The dynamic loader that it asks for; `None` for a static program.
    pub(crate) loader: Option<String>,
    /// Bytes that its segments ask for beyond its end: running into them ends a program with SIGBUS.
    pub(crate) missing: u64,
}

/// Reads the headers of an ELF program; `None` if it is none (a script, say).
pub(crate) fn executable(bytes: &[u8]) -> Option<Executable> {
    let header = object::elf::FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let arch = match header.e_machine(endian) {
        object::elf::EM_X86_64 => Some(Arch::X86_64),
        object::elf::EM_AARCH64 => Some(Arch::Arm64),
        _ => None,
    };
    let segments = header.program_headers(endian, bytes).ok()?;
    let loader = segments
        .iter()
        .find_map(|segment| segment.interpreter(endian, bytes).ok().flatten())
        .map(|path| String::from_utf8_lossy(path).into_owned());
    let end = segments.iter().map(|segment| {
        let (offset, size) = segment.file_range(endian);
        offset.saturating_add(size)
    });
    let missing = end.max().unwrap_or(0).saturating_sub(bytes.len() as u64);
    Some(Executable { arch, loader, missing })
}

/// The modules that a kernel module says it needs, by name; `None` if these bytes are no module.
pub(crate) fn module_dependencies(bytes: &[u8]) -> Option<Vec<String>> {
    let file = object::File::parse(bytes).ok()?;
    let info = file.section_by_name(".modinfo")?.data().ok()?;
    let depends = info.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"depends="))?;
    let names = std::str::from_utf8(depends).ok()?;
    Some(names.split(',').filter(|name| !name.is_empty()).map(module_name).collect())
}

/// A module's name as the kernel spells it: file names may have dashes for underscores.
pub(crate) fn module_name(name: &str) -> String {
    name.trim().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn this_program_is_read() {
        let own = std::fs::read("/proc/self/exe").expect("this test");
        let program = executable(&own).expect("an ELF program");
        assert_eq!(program.arch, Arch::host());
        let loader = cfg!(not(target_feature = "crt-static"));
        assert_eq!(program.loader.is_some(), loader);
        assert_eq!(program.missing, 0);
        assert_eq!(module_dependencies(&own), None);
    }

    #[test]
    fn a_program_that_is_cut_off_says_so() {
        let mut own = std::fs::read("/proc/self/exe").expect("this test");
        own.truncate(own.len() / 8);
        assert!(executable(&own).expect("its headers are there").missing > 0);
    }

    #[test]
    fn a_script_is_no_program() {
        assert_eq!(executable(b"#!/bin/sh\nexit 0\n"), None);
        assert_eq!(executable(b""), None);
    }

    #[test]
    fn dashes_are_underscores() {
        assert_eq!(module_name("virtio-rng"), "virtio_rng");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn damaged_programs_are_no_panic(at in 0usize..4096, byte: u8, cut in 0usize..8192) {
            let mut bytes = std::fs::read("/bin/true").expect("a program");
            bytes.truncate(cut.max(64));
            let at = at % bytes.len();
            bytes[at] = byte;
            drop(executable(&bytes));
            drop(module_dependencies(&bytes));
        }
    }
}
