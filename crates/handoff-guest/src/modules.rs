//! Which kernel modules a guest loads, and in what order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::GuestError;
use super::cache::Cache;
use super::deb::{module_file, unpacked};
use super::elf::{module_dependencies, module_name};
use super::package::KernelPackage;

/// What carries commands and files: each is needed unless the kernel has it built in.
pub(crate) const TRANSPORT: [&str; 2] = ["virtio_pci", "virtio_console"];

/// Loaded where the kernel has them, for the guest to be of use.
pub(crate) const WELCOME: [&str; 1] = ["binder_linux"];

/// Taken out of a package at once when it is fetched: reading one anew for each takes seconds.
pub(crate) const PREFETCH: &[&str] = &[
    "9p",
    "9pnet",
    "9pnet_virtio",
    "binder_linux",
    "dummy",
    "failover",
    "fscache",
    "ifb",
    "net_failover",
    "netfs",
    "sch_fq",
    "sch_fq_codel",
    "sch_htb",
    "sch_netem",
    "sch_tbf",
    "tcp_bbr",
    "veth",
    "virtio",
    "virtio_blk",
    "virtio_console",
    "virtio_mmio",
    "virtio_net",
    "virtio_pci",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_ring",
    "virtio_rng",
];

/// Where the modules of a kernel are.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// In a distribution's package.
    Package(KernelPackage, Cache),
    /// Somewhere below a folder: `lib/modules/VERSION` or a build directory.
    Folder { root: PathBuf, files: BTreeMap<String, PathBuf> },
    /// Nowhere: all is built in.
    None,
}

/// A module to load, after those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
}

/// A name that was looked for, and the module's content if there is one.
type Read = (String, Option<Vec<u8>>);

/// The content and the dependencies of the modules that were looked for, where there is one.
type ModuleContents = BTreeMap<String, Option<(Vec<u8>, Vec<String>)>>;

impl Source {
    /// Looks for module files below a folder.
    pub(crate) fn folder(root: &Path) -> Result<Self, GuestError> {
        let mut files = BTreeMap::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).map_err(GuestError::io("list", &folder))? {
                let entry = entry.map_err(GuestError::io("list", &folder))?;
                let kind = entry.file_type().map_err(GuestError::io("look at", &entry.path()))?;
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if let Some((name, _)) = entry.file_name().to_str().and_then(module_file) {
                    files.insert(name, entry.path());
                }
            }
        }
        Ok(Self::Folder { root: root.to_owned(), files })
    }

    /// The modules to load for `needed` and `welcome`, each after those it depends on.
    ///
    /// A needed one must be in the source or built in; a welcome one that is absent is left out.
    pub(crate) fn load_order(&self, needed: &[String], welcome: &[&str]) -> Result<Vec<Module>, GuestError> {
        let mut found = ModuleContents::new();
        let asked: Vec<String> =
            needed.iter().map(String::as_str).chain(welcome.iter().copied()).map(module_name).collect();
        let mut wanted: BTreeSet<String> = asked.iter().cloned().collect();
        while !wanted.is_empty() {
            let mut next = BTreeSet::new();
            for (name, content) in self.read(&wanted)? {
                let module = content.map(|bytes| match module_dependencies(&bytes) {
                    Some(depends) => Ok((bytes, depends)),
                    None => Err(GuestError::Module {
                        module: name.clone(),
                        reason: "its file is damaged: it has no module information".to_owned(),
                    }),
                });
                let module = module.transpose()?;
                if let Some((_, depends)) = &module {
                    next.extend(depends.iter().cloned());
                }
                found.insert(name, module);
            }
            next.retain(|name| !found.contains_key(name));
            wanted = next;
        }
        for name in needed.iter().map(|name| module_name(name)) {
            if found.get(&name).is_some_and(Option::is_none) && !self.may_be_builtin(&name) {
                return Err(GuestError::Module { module: name, reason: self.absence() });
            }
        }
        let mut order = Vec::new();
        let mut visited = BTreeSet::new();
        for name in &asked {
            visit(name, &mut found, &mut visited, &mut order);
        }
        Ok(order)
    }

    fn read(&self, names: &BTreeSet<String>) -> Result<Vec<Read>, GuestError> {
        let files: Vec<(String, Option<PathBuf>)> = match self {
            Self::Package(package, cache) => package.modules(cache, names)?,
            Self::Folder { files, .. } => {
                names.iter().map(|name| (name.clone(), files.get(name).cloned())).collect()
            }
            Self::None => names.iter().map(|name| (name.clone(), None)).collect(),
        };
        let read = |path: PathBuf| {
            let bytes = std::fs::read(&path).map_err(GuestError::io("read", &path))?;
            let packing = path.to_str().and_then(module_file).map(|(_, packing)| packing);
            packing.map_or(Ok(bytes.clone()), |packing| unpacked(packing, bytes))
        };
        files.into_iter().map(|(name, path)| Ok((name, path.map(read).transpose()?))).collect()
    }

    /// Whether a module that was not found may be part of the kernel image itself.
    fn may_be_builtin(&self, name: &str) -> bool {
        match self {
            Self::Package(package, _) => package.is_builtin(name),
            // Nothing lists what an image from elsewhere has built in; the guest tells when it is up.
            Self::Folder { .. } | Self::None => true,
        }
    }

    fn absence(&self) -> String {
        match self {
            Self::Package(package, _) => format!("{} has no such module", package.identity),
            Self::Folder { root, .. } => format!("there is none below {}", root.display()),
            Self::None => "no folder with modules was named (`--modules DIR`)".to_owned(),
        }
    }
}

/// Puts a module behind its dependencies; one that was put already, or is on the way in a circle of
/// dependencies, is left where it is.
fn visit(name: &str, found: &mut ModuleContents, visited: &mut BTreeSet<String>, order: &mut Vec<Module>) {
    if !visited.insert(name.to_owned()) {
        return;
    }
    let Some((content, depends)) = found.get_mut(name).and_then(Option::take) else { return };
    for dependency in &depends {
        visit(dependency, found, visited, order);
    }
    order.push(Module { name: name.to_owned(), content });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least file that names its dependencies as a module does: an ELF header, no segment, and
    /// the sections null, `.modinfo` and the section names.
    fn module(depends: &str) -> Vec<u8> {
        let info = format!("license=GPL\0depends={depends}\0");
        let names = b"\0.modinfo\0.shstrtab\0";
        let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
        bytes.resize(16, 0);
        let table = (64 + info.len() + names.len()).next_multiple_of(8);
        for half in [1u16, 62] {
            bytes.extend(half.to_le_bytes());
        }
        bytes.extend(1u32.to_le_bytes());
        for word in [0u64, 0, table as u64] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(0u32.to_le_bytes());
        for half in [64u16, 0, 0, 64, 3, 2] {
            bytes.extend(half.to_le_bytes());
        }
        bytes.extend(info.as_bytes());
        bytes.extend(names);
        bytes.resize(table + 64, 0);
        for (name, kind, offset, size) in
            [(1u32, 1u32, 64, info.len()), (10, 3, 64 + info.len(), names.len())]
        {
            bytes.extend(name.to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            for word in [0u64, 0, offset as u64, size as u64, 0, 1, 0] {
                bytes.extend(word.to_le_bytes());
            }
            let end = bytes.len().next_multiple_of(8);
            bytes.resize(end, 0);
        }
        bytes
    }

    fn source(modules: &[(&str, &str)]) -> (tempfile::TempDir, Source) {
        let folder = tempfile::tempdir().expect("a folder");
        let deep = folder.path().join("kernel/drivers");
        std::fs::create_dir_all(&deep).expect("made");
        for (name, depends) in modules {
            std::fs::write(deep.join(format!("{name}.ko")), module(depends)).expect("written");
        }
        let source = Source::folder(folder.path()).expect("a source");
        (folder, source)
    }

    fn order(source: &Source, needed: &[&str], welcome: &[&str]) -> Vec<String> {
        let needed: Vec<String> = needed.iter().map(|name| (*name).to_owned()).collect();
        let modules = source.load_order(&needed, welcome).expect("an order");
        modules.into_iter().map(|module| module.name).collect()
    }

    #[test]
    fn dependencies_come_first_and_once() {
        let (_folder, source) = source(&[
            ("virtio_ring", ""),
            ("virtio", "virtio_ring"),
            ("virtio-pci", "virtio,virtio_ring"),
            ("x", ""),
        ]);
        assert_eq!(
            order(&source, &["virtio_pci", "virtio"], &["x"]),
            ["virtio_ring", "virtio", "virtio_pci", "x"]
        );
    }

    #[test]
    fn what_is_not_there_is_built_in_or_left_out() {
        let (_folder, source) = source(&[("a", "absent")]);
        assert_eq!(order(&source, &["a", "b"], &["c"]), ["a"]);
        assert_eq!(order(&Source::None, &["a"], &["c"]), Vec::<String>::new());
    }

    #[test]
    fn a_circle_ends() {
        let (_folder, source) = source(&[("a", "b"), ("b", "a")]);
        assert_eq!(order(&source, &["a"], &[]), ["b", "a"]);
    }

    #[test]
    fn a_damaged_module_is_named() {
        let (folder, source) = source(&[("a", "")]);
        std::fs::write(folder.path().join("kernel/drivers/a.ko"), b"rubbish").expect("written");
        let error = source.load_order(&["a".to_owned()], &[]).expect_err("damaged");
        assert!(error.to_string().contains("`a`"), "{error}");
    }
}
