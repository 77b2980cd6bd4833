//! Runs make in a kernel's tree.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{BuildError, KernelArch, Toolchain};
use handoff_guest::{Stopper, last_lines, process::Process};

pub(crate) use handoff_guest::on_path;

/// Programs that every kernel build runs, with Debian's packages.
const TOOLS: [(&str, &str); 6] =
    [("make", "make"), ("flex", "flex"), ("bison", "bison"), ("bc", "bc"), ("perl", "perl"), ("gcc", "gcc")];
/// Headers of the host that parts of a kernel's build include, with Debian's packages.
const HEADERS: [(&str, &str); 5] = [
    ("gelf.h", "libelf-dev"),
    ("libelf.h", "libelf-dev"),
    ("openssl/", "libssl-dev"),
    ("ncurses.h", "libncurses-dev"),
    ("gmp.h", "libgmp-dev libmpc-dev"),
];
/// How long to wait for make after its output has ended.
const END: Duration = Duration::from_secs(60);

/// make with all that stays the same during a build.
pub(crate) struct Make<'a> {
    tree: PathBuf,
    folder: PathBuf,
    arch: KernelArch,
    ccache: bool,
    jobs: usize,
    toolchain: Option<&'a Toolchain>,
    stopper: &'a Stopper,
}

impl<'a> Make<'a> {
    /// Checks the tools and makes the build folder.
    pub(crate) fn new(
        tree: &Path,
        folder: &Path,
        arch: KernelArch,
        ccache: bool,
        jobs: usize,
        stopper: &'a Stopper,
    ) -> Result<Self, BuildError> {
        check_tools(arch)?;
        std::fs::create_dir_all(folder).map_err(BuildError::io("make the build folder", folder))?;
        let whole = |path: &Path| path.canonicalize().map_err(BuildError::io("find", path));
        let (tree, folder) = (whole(tree)?, whole(folder)?);
        // make takes both as words of its language.
        for path in [&tree, &folder] {
            if path.to_str().is_none_or(|path| path.contains([' ', ':', '\t', '$', '#', '%'])) {
                return Err(BuildError::Options(format!(
                    "kernels cannot be built in {}: make needs a path without blanks, colons, $, # and %",
                    path.display()
                )));
            }
        }
        if folder.starts_with(&tree) {
            return Err(BuildError::Options(format!(
                "the build folder {} is inside the tree: name one elsewhere, so that the tree stays as it is",
                folder.display()
            )));
        }
        Ok(Self { tree, folder, arch, ccache, jobs, toolchain: None, stopper })
    }

    /// Takes a fetched Rust tool-chain before the system's.
    pub(crate) fn with_toolchain(self, toolchain: Option<&'a Toolchain>) -> Self {
        Self { toolchain, ..self }
    }

    /// Asks the tree whether it can be built with the Rust that there is (`scripts/rust_is_available.sh`).
    pub(crate) fn check_rust(&self) -> Result<(), BuildError> {
        let (text, success) = self.run(&["rustavailable".to_owned()], &mut |_| {})?;
        if success {
            return Ok(());
        }
        let said = text.lines().filter_map(|line| line.strip_prefix("***"));
        let said: Vec<&str> = said.map(str::trim).filter(|line| !line.is_empty()).collect();
        Err(BuildError::Rust {
            reason: if said.is_empty() { last_lines(text.as_bytes()) } else { said.join(" ") },
        })
    }

    /// What a configuration depends on besides its recipe.
    pub(crate) fn identity(&self) -> String {
        let rust = self.toolchain.map(Toolchain::name).unwrap_or_default();
        format!("{} {} {} {rust}", self.tree.display(), self.arch, self.compiler())
    }

    /// Runs a target that configures.
    pub(crate) fn configure(&self, target: &str) -> Result<(), BuildError> {
        let (text, success) = self.run(&[target.to_owned()], &mut |_| {})?;
        if success {
            return Ok(());
        }
        Err(BuildError::Configure { target: target.to_owned(), reason: last_lines(text.as_bytes()) })
    }

    /// Builds targets; gives all output, and whether it went well.
    pub(crate) fn build(
        &self,
        targets: &[String],
        switches: &[String],
        watch: &mut dyn FnMut(&str),
    ) -> Result<(String, bool), BuildError> {
        let mut words = vec![format!("-j{}", self.jobs)];
        words.extend(switches.iter().cloned());
        words.extend(targets.iter().cloned());
        self.run(&words, watch)
    }

    /// The major version of the compiler.
    pub(crate) fn gcc_version(&self) -> Option<u32> {
        let program = format!("{}gcc", self.arch.cross_prefix());
        let output = Command::new(program).arg("-dumpversion").stdin(Stdio::null()).output().ok()?;
        String::from_utf8_lossy(&output.stdout).trim().split('.').next()?.parse().ok()
    }

    fn compiler(&self) -> String {
        let name = format!("{}gcc", self.arch.cross_prefix());
        if self.ccache { format!("ccache {name}") } else { name }
    }

    fn run(&self, words: &[String], watch: &mut dyn FnMut(&str)) -> Result<(String, bool), BuildError> {
        let io = |action| BuildError::io(action, Path::new("make"));
        let (mut reading, writing) = std::io::pipe().map_err(io("make a pipe for"))?;
        let mut command = Command::new("make");
        command
            .arg("-C")
            .arg(&self.tree)
            .arg(format!("O={}", self.folder.display()))
            .arg(format!("ARCH={}", self.arch))
            .arg(format!("CROSS_COMPILE={}", self.arch.cross_prefix()))
            .arg(format!("CC={}", self.compiler()))
            .args(words)
            // Messages are read by us: keep them in one language. The same sources give the same
            // kernel, whoever builds it and when, and ccache finds them again.
            .env("LC_ALL", "C")
            .env("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970")
            .env("KBUILD_BUILD_USER", "handoff")
            .env("KBUILD_BUILD_HOST", "handoff")
            // ... in another folder, too: paths below the folder of both are hashed as relative ones.
            .env("CCACHE_BASEDIR", common_folder(&self.tree, &self.folder))
            .env("CCACHE_NOHASHDIR", "1")
            .env_remove("MAKEFLAGS")
            .env_remove("KBUILD_OUTPUT")
            .stdin(Stdio::null())
            .stdout(writing.try_clone().map_err(io("make a pipe for"))?)
            .stderr(writing);
        if let Some(toolchain) = self.toolchain {
            command.envs(toolchain.environment()?);
        }
        let process = Process::spawn(command)?;
        self.stopper.arm(process.killer());
        let mut text = String::new();
        let mut lines = BufReader::new(&mut reading);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).map_err(io("read from"))? > 0 {
            let shown = String::from_utf8_lossy(&line);
            watch(shown.trim_end());
            text.push_str(&shown);
            line.clear();
        }
        if self.stopper.is_stopped() {
            return Err(BuildError::Cancelled);
        }
        let status = process.wait(END);
        Ok((text, status.is_some_and(|status| status.success())))
    }
}

/// The longest folder that holds both.
fn common_folder(a: &Path, b: &Path) -> PathBuf {
    a.components().zip(b.components()).take_while(|(a, b)| a == b).map(|(part, _)| part).collect()
}

fn check_tools(arch: KernelArch) -> Result<(), BuildError> {
    let compiler = format!("{}gcc", arch.cross_prefix());
    let mut missing: Vec<(String, String)> = TOOLS
        .iter()
        .filter(|(tool, _)| !on_path(tool))
        .map(|(tool, package)| ((*tool).to_owned(), (*package).to_owned()))
        .collect();
    if !arch.cross_prefix().is_empty() && !on_path(&compiler) {
        missing.push((compiler, arch.compiler_package()));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let (tools, packages) = missing.into_iter().unzip();
    Err(BuildError::MissingTools { tools, packages })
}

/// Debian's package with the header that an error says is missing.
pub(crate) fn missing_header(message: &str) -> Option<&'static str> {
    let absent = message.contains("No such file or directory");
    HEADERS.iter().find(|(header, _)| absent && message.contains(header)).map(|(_, package)| *package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_header_names_its_package() {
        assert_eq!(missing_header("gelf.h: No such file or directory"), Some("libelf-dev"));
        assert_eq!(missing_header("openssl/bio.h: No such file or directory"), Some("libssl-dev"));
        assert_eq!(missing_header("linux/own.h: No such file or directory"), None);
    }

    #[test]
    fn paths_are_hashed_below_what_is_common() {
        let common = |a: &str, b: &str| common_folder(Path::new(a), Path::new(b));
        assert_eq!(common("/w/a/linux", "/w/a/build"), Path::new("/w/a"));
        assert_eq!(common("/w/linux", "/x/build"), Path::new("/"));
    }

    #[test]
    fn a_build_folder_inside_the_tree_is_refused() {
        handoff_testkit::require!(check_tools(KernelArch::X86_64).map_err(|error| error.to_string()));
        let tree = tempfile::tempdir().expect("a folder");
        let stopper = Stopper::new();
        let make =
            |folder: &Path| Make::new(tree.path(), folder, KernelArch::X86_64, false, 1, &stopper).map(drop);
        let inside = make(&tree.path().join("build")).expect_err("inside").to_string();
        assert!(inside.contains("inside the tree"), "{inside}");
        let other = tempfile::tempdir().expect("a folder");
        let blank = make(&other.path().join("a b")).expect_err("a blank").to_string();
        assert!(blank.contains("without blanks"), "{blank}");
        make(&other.path().join("good")).expect("good");
    }
}
