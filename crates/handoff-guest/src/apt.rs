//! Fetches packages with the system's package manager, without installing any.
//!
//! The system's own package lists are asked first. Where they do not know a package (a foreign
//! architecture, lists that were never fetched) or are too old to download it, lists of our own are
//! fetched into the cache: neither root nor a change to the system's configuration is needed.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::Cache;
use super::suite::Suite;
use super::{Arch, GuestError};

/// One package in one version, as the package lists have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) depends: Vec<String>,
}

/// The package manager for packages of one architecture.
#[derive(Debug)]
pub(crate) struct Apt<'a> {
    cache: &'a Cache,
    arch: Arch,
    /// Whether the lists in the cache are used in place of the system's.
    own_lists: bool,
    /// The suite that packages come from, where that is not the system's.
    suite: Option<Suite>,
}

impl<'a> Apt<'a> {
    pub(crate) fn new(cache: &'a Cache, arch: Arch) -> Result<Self, GuestError> {
        for tool in ["apt-get", "apt-cache", "dpkg-deb"] {
            if !on_path(tool) {
                return Err(GuestError::MissingTool {
                    tool: tool.to_owned(),
                    advice: "distribution kernels are fetched with Debian's package manager: on another \
                             system name a kernel image yourself with `--kernel FILE` and a static \
                             busybox with `--busybox FILE`"
                        .to_owned(),
                });
            }
        }
        Ok(Self { cache, arch, own_lists: false, suite: None })
    }

    /// The same for packages of another suite.
    pub(crate) fn of_suite(self, suite: Option<&str>) -> Result<Self, GuestError> {
        Ok(Self { suite: suite.map(|name| Suite::new(self.cache, name)).transpose()?, ..self })
    }

    /// The names of the packages that begin so.
    pub(crate) fn names(&mut self, prefix: &str) -> Result<Vec<String>, GuestError> {
        if self.suite.is_some() {
            self.use_own_lists()?;
        }
        let found = self.all_names(prefix)?;
        if !found.is_empty() || self.own_lists {
            return Ok(found);
        }
        self.use_own_lists()?;
        self.all_names(prefix)
    }

    fn all_names(&self, prefix: &str) -> Result<Vec<String>, GuestError> {
        let output = self
            .command("apt-cache")
            .args(["pkgnames", prefix])
            .output()
            .map_err(GuestError::io("run", Path::new("apt-cache")))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut names: Vec<String> = text.lines().filter(|name| is_plain(name)).map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    /// Looks a package up, in the system's lists and then in lists of our own.
    pub(crate) fn find(&mut self, package: &str) -> Result<Candidate, GuestError> {
        if let Some(found) = self.look_up(package)? {
            return Ok(found);
        }
        if !self.own_lists {
            self.use_own_lists()?;
            if let Some(found) = self.look_up(package)? {
                return Ok(found);
            }
        }
        Err(self.failure(package, "the package lists do not know it"))
    }

    /// Downloads a package into `folder` and gives the file's path.
    pub(crate) fn download(&mut self, package: &Candidate, folder: &Path) -> Result<PathBuf, GuestError> {
        match self.try_download(package, folder) {
            Err(_) if !self.own_lists => {
                // The lists may be older than what the servers still have.
                self.use_own_lists()?;
                let newest = self.find(&package.name)?;
                self.try_download(&newest, folder)
            }
            other => other,
        }
    }

    fn try_download(&self, package: &Candidate, folder: &Path) -> Result<PathBuf, GuestError> {
        let area = tempfile::Builder::new()
            .prefix(".download-")
            .tempdir_in(folder)
            .map_err(GuestError::io("make a folder in", folder))?;
        let what = format!("{}:{}={}", package.name, self.arch.debian(), package.version);
        let output = self
            .command("apt-get")
            .args(["-q", "download", &what])
            .current_dir(area.path())
            .output()
            .map_err(GuestError::io("run", Path::new("apt-get")))?;
        if !output.status.success() {
            return Err(self.failure(&what, &last_lines(&output.stderr)));
        }
        let downloaded = std::fs::read_dir(area.path())
            .map_err(GuestError::io("list", area.path()))?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .ok_or_else(|| self.failure(&what, "apt-get said that it was downloaded, but left no file"))?;
        let kept = folder.join(format!("{}.deb", identity(package, self.arch)));
        std::fs::rename(&downloaded, &kept).map_err(GuestError::io("move a package to", &kept))?;
        Ok(kept)
    }

    fn look_up(&self, package: &str) -> Result<Option<Candidate>, GuestError> {
        let output = self
            .command("apt-cache")
            .args(["--no-all-versions", "show", &format!("{package}:{}", self.arch.debian())])
            .output()
            .map_err(GuestError::io("run", Path::new("apt-cache")))?;
        Ok(parse_show(&String::from_utf8_lossy(&output.stdout), self.arch))
    }

    /// Fetches the lists that are not the system's.
    pub(crate) fn update(&mut self) -> Result<(), GuestError> {
        self.use_own_lists()
    }

    fn use_own_lists(&mut self) -> Result<(), GuestError> {
        self.own_lists = true;
        self.cache.folder("apt/lists/partial")?;
        self.cache.folder("apt/cache/archives/partial")?;
        let output = self
            .command("apt-get")
            .args(["-q", "update"])
            .output()
            .map_err(GuestError::io("run", Path::new("apt-get")))?;
        if output.status.success() {
            return Ok(());
        }
        // Hooks of the system fail, too, where they need root; what apt itself says begins with `E:`.
        let said = String::from_utf8_lossy(&output.stderr);
        let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("E: ")).collect();
        let reason = if errors.is_empty() { last_lines(&output.stderr) } else { errors.join("; ") };
        let suite = self.suite.as_ref().map(|suite| format!(" of {}", suite.name)).unwrap_or_default();
        Err(GuestError::Package {
            package: format!("lists{suite}"),
            reason: format!("apt-get update: {reason}"),
        })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        // Messages are parsed and shown: keep them in one language.
        command.env("LC_ALL", "C").stdin(std::process::Stdio::null());
        command.args(["-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none"]);
        if let Some(suite) = &self.suite {
            command.args(suite.options());
        } else if self.own_lists {
            let lists = format!("Dir::State::lists={}", self.cache.path("apt/lists").display());
            let cache = format!("Dir::Cache={}", self.cache.path("apt/cache").display());
            command.args(["-o", &lists, "-o", &cache]);
        }
        if (self.own_lists || self.suite.is_some()) && Arch::host() != Some(self.arch) {
            let arch = format!("APT::Architectures::={}", self.arch.debian());
            command.args(["-o", &arch]);
        }
        command
    }

    fn failure(&self, package: &str, reason: &str) -> GuestError {
        let package =
            if package.contains(':') { package.into() } else { format!("{package}:{}", self.arch.debian()) };
        GuestError::Package { package, reason: reason.to_owned() }
    }
}

/// A file name that says which package, version and architecture it holds.
pub(crate) fn identity(package: &Candidate, arch: Arch) -> String {
    // A version may hold an epoch's colon, which make and PATH-like lists dislike in file names.
    let version = package.version.replace(|c: char| !(c.is_ascii_alphanumeric() || ".+-~".contains(c)), "_");
    format!("{}_{version}_{}", package.name, arch.debian())
}

/// Reads what `apt-cache show` prints of one package; nothing if it is not for this architecture.
fn parse_show(text: &str, arch: Arch) -> Option<Candidate> {
    let field = |name: &str| {
        text.lines()
            .take_while(|line| !line.trim().is_empty())
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            .map(str::trim)
    };
    let architecture = field("Architecture")?;
    if architecture != arch.debian() && architecture != "all" {
        return None;
    }
    let depends = field("Depends").unwrap_or_default();
    Some(Candidate {
        name: field("Package").filter(|name| is_plain(name))?.to_owned(),
        version: field("Version").filter(|version| is_plain(version))?.to_owned(),
        depends: depends
            .split(',')
            .filter_map(|one| one.split(['|', '(', ':']).next())
            .map(|name| name.trim().to_owned())
            .filter(|name| is_plain(name))
            .collect(),
    })
}

/// Holds only what the names and versions of Debian's packages may hold, and is no option.
fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.:~_".contains(c))
}

/// Whether a program is on the search path.
pub fn on_path(tool: &str) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| {
        folder
            .join(tool)
            .metadata()
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    })
}

/// The end of a program's complaints, as one line.
pub fn last_lines(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let tail = lines[lines.len().saturating_sub(4)..].join("; ");
    if tail.is_empty() { "it failed without saying why".to_owned() } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHOWN: &str = "Package: linux-image-amd64\nSource: linux-signed\nVersion: 6.1.192-2\n\
        Architecture: amd64\nDepends: linux-image-6.1.0-56-amd64 (= 6.1.192-2), kmod | other:any\n\n\
        Package: another\nVersion: 1\n";

    #[test]
    fn a_package_is_read() {
        let package = parse_show(SHOWN, Arch::X86_64).expect("a package");
        assert_eq!(package.name, "linux-image-amd64");
        assert_eq!(package.version, "6.1.192-2");
        assert_eq!(package.depends, ["linux-image-6.1.0-56-amd64", "kmod"]);
        assert_eq!(identity(&package, Arch::X86_64), "linux-image-amd64_6.1.192-2_amd64");
    }

    #[test]
    fn another_architecture_does_not_count() {
        assert_eq!(parse_show(SHOWN, Arch::Arm64), None);
        assert_eq!(parse_show("", Arch::X86_64), None);
    }

    #[test]
    fn names_that_are_options_or_paths_are_dropped() {
        let text = SHOWN.replace("6.1.192-2\nArch", "-o/x\nArch");
        assert_eq!(parse_show(&text, Arch::X86_64), None);
        let text = SHOWN.replace("kmod |", "../../etc/passwd |");
        assert_eq!(parse_show(&text, Arch::X86_64).expect("a package").depends.len(), 1);
    }

    #[test]
    fn an_epoch_does_not_get_into_file_names() {
        let package = Candidate { name: "b".into(), version: "1:1.35-4+b1".into(), depends: vec![] };
        assert_eq!(identity(&package, Arch::Arm64), "b_1_1.35-4+b1_arm64");
    }

    #[test]
    fn the_last_complaints_are_kept() {
        assert_eq!(last_lines(b"a\nb\n\nc\nd\ne\n"), "b; c; d; e");
        assert_eq!(last_lines(b"\n"), "it failed without saying why");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_left(text in "(Package|Version|Architecture|Depends|: |[a-z(),|=]|\n| ){0,60}") {
            if let Some(package) = parse_show(&text, Arch::X86_64) {
                prop_assert!(is_plain(&package.name) && is_plain(&package.version));
            }
        }
    }
}
