//! The file that describes a study.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::StudyError;
use crate::build::{KernelArch, is_built_in_fragment};
use crate::prove::Probe;
use handoff_guest::{GuestSpec, Kernel};
use handoff_lab::experiment::file::FileError;

/// A study: a feature's patches, a tree to bring them to, and how to see what they do.
///
/// Paths in the file are relative to the file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// What it is called.
    pub title: String,
    #[serde(default)]
    pub question: String,
    pub source: Source,
    pub feature: Feature,
    /// How both kernels are built.
    #[serde(default)]
    pub build: Build,
    /// The guest that they are booted in.
    #[serde(default)]
    pub guest: StudyGuest,
    /// How it is proved that the feature is executed, and has an effect.
    pub proof: ProofPlan,
    /// When a boot counts.
    #[serde(default)]
    pub quiet: Quiet,
    /// What is measured, in the words of the lab's experiment files: `workload`, `metric`,
    /// `secondary`, `rounds`. Nothing is measured without it.
    pub measure: Option<toml::Table>,
}

/// The tree that the feature is brought to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The distribution's package with the source, such as `linux-source-6.1`, or
    /// `linux-source-7.3/trixie-backports` of another suite.
    pub package: Option<String>,
    /// A tree; it is copied.
    pub tree: Option<PathBuf>,
    /// Patches that both kernels get.
    #[serde(default)]
    pub prepare: Vec<PathBuf>,
}

/// The patches that are studied.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// A patch, a mailbox, or a folder of patches.
    pub patches: PathBuf,
    /// The tree or repository that they were made for.
    pub made_for: Option<PathBuf>,
}

/// How both kernels are built.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Build {
    /// The architecture; this machine's otherwise.
    pub arch: Option<String>,
    /// `tiny`, `def`, or a configuration file.
    pub base: String,
    pub fragments: Vec<String>,
    /// A Rust compiler and bindgen of Debian's are fetched into the cache: for what of the kernel is in Rust.
    pub fetch_toolchain: bool,
    /// Settings such as `PSI=y`.
    pub set: Vec<String>,
    /// Files whose small functions stay out of line.
    pub visible: Vec<PathBuf>,
    /// Files whose branches are counted.
    pub count_branches: Vec<PathBuf>,
}

impl Default for Build {
    fn default() -> Self {
        Self {
            arch: None,
            base: "tiny".to_owned(),
            fragments: vec!["guest".to_owned()],
            fetch_toolchain: false,
            set: Vec::new(),
            visible: Vec::new(),
            count_branches: Vec::new(),
        }
    }
}

/// The guest that the kernels are booted in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StudyGuest {
    /// All but its kernel, which the study builds.
    #[serde(flatten)]
    pub spec: GuestSpec,
    /// The folder below which the kernels' modules are, if what a guest needs is not built in.
    pub module_folder: Option<PathBuf>,
    /// Programs of the host that the load runs, copied with their libraries.
    pub programs: Vec<PathBuf>,
    /// A script that is run after the boot.
    pub setup: Option<String>,
}

/// How it is proved that the feature is executed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProofPlan {
    /// The load: arguments of handoff, or of the guest's shell if `raw`.
    pub load: Vec<String>,
    /// The load is a program of the guest, not a command of handoff.
    #[serde(default)]
    pub raw: bool,
    /// The load is killed after that many seconds.
    #[serde(default = "ten_minutes")]
    pub limit_seconds: u64,
    /// What must be seen without the feature.
    pub without: Vec<Probe>,
    /// What must be seen with it.
    pub with: Vec<Probe>,
}

fn ten_minutes() -> u64 {
    600
}

/// When a boot counts: others may use so much of the host's CPUs and no more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quiet {
    /// The share of all CPU time that others may use, 0 to 1, before and during a boot.
    pub share: f64,
    /// How long to wait for that before a boot, in seconds.
    pub patience_seconds: u64,
    /// Boots that are tried for one figure.
    pub attempts: u32,
}

impl Default for Quiet {
    fn default() -> Self {
        Self { share: 0.1, patience_seconds: 300, attempts: 5 }
    }
}

impl Study {
    /// Reads a study and makes its paths whole.
    pub fn read(path: &Path) -> Result<Self, StudyError> {
        let text = std::fs::read_to_string(path).map_err(StudyError::io("read", path))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        Self::parse(path, &text, folder)
    }

    /// Reads a study from text; its paths are relative to `folder`.
    pub fn parse(path: &Path, text: &str, folder: &Path) -> Result<Self, StudyError> {
        let refuse = |reason: String| StudyError::File { file: path.to_owned(), reason };
        let mut study: Self = toml::from_str(text)
            .map_err(|error| FileError::at(path, text, error.span().unwrap_or_default(), error.message()))?;
        let folder = folder.canonicalize().map_err(StudyError::io("find", folder))?;
        let whole = |path: &mut PathBuf| *path = folder.join(&*path);
        study.source.tree.iter_mut().for_each(whole);
        study.source.prepare.iter_mut().for_each(whole);
        whole(&mut study.feature.patches);
        study.feature.made_for.iter_mut().for_each(whole);
        study.guest.module_folder.iter_mut().for_each(whole);
        for name in study.build.fragments.iter_mut().filter(|name| !is_built_in_fragment(name)) {
            *name = folder.join(&*name).display().to_string();
        }
        if !["tiny", "def"].contains(&study.build.base.as_str()) {
            study.build.base = folder.join(&study.build.base).display().to_string();
        }
        study.check().map_err(refuse)?;
        Ok(study)
    }

    fn check(&self) -> Result<(), String> {
        if self.guest.spec.kernel != Kernel::default() {
            return Err("[guest] names a kernel, but a study builds the two that it boots".to_owned());
        }
        if self.source.package.is_some() == self.source.tree.is_some() {
            return Err("[source] has either `package` or `tree`".to_owned());
        }
        if self.source.package.as_ref().is_some_and(|name| !is_package(name)) {
            return Err("[source] `package` is the name of a package, such as linux-source-6.1, or \
                        linux-source-7.3/trixie-backports of another suite"
                .to_owned());
        }
        if let Some(arch) = &self.build.arch {
            arch.parse::<KernelArch>().map_err(|error| format!("[build] arch: {error}"))?;
        }
        if self.proof.load.is_empty() {
            return Err("[proof] `load` is empty: name a command".to_owned());
        }
        if self.proof.with.is_empty() {
            return Err("[proof] `with` has no probe: a feature that nobody saw is not proved".to_owned());
        }
        if !(0.0..=1.0).contains(&self.quiet.share) || self.quiet.attempts == 0 {
            return Err("[quiet] `share` is from 0 to 1, and `attempts` at least 1".to_owned());
        }
        Ok(())
    }
}

/// Whether this can be a package, or a package and its suite: a folder of the work folder is named after it.
fn is_package(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    parts.len() <= 2 && parts.iter().all(|part| part.starts_with(|first: char| first.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
title = "x"
[source]
package = "linux-source-6.1"
prepare = ["off.patch"]
[feature]
patches = "on.patch"
[proof]
load = ["workload", "hackbench"]
without = ["function:wake_wide, zero"]
with = ["function:wake_wide, >= 100"]
"#;

    fn parse(text: &str) -> Result<Study, String> {
        Study::parse(Path::new("x.toml"), text, Path::new("/usr")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_study_has_defaults_and_whole_paths() {
        let study = parse(GOOD).expect("good");
        assert_eq!(study.feature.patches, Path::new("/usr/on.patch"));
        assert_eq!(study.source.prepare, [Path::new("/usr/off.patch")]);
        assert_eq!((study.build.fragments.len(), study.guest.spec.memory_mib), (1, 1024));
        assert!(study.measure.is_none());
    }

    #[test]
    fn a_package_may_be_of_another_suite_and_fragments_are_built_in_or_files() {
        let text = GOOD.replace("6.1", "7.3/trixie-backports");
        let text =
            text.replace("[proof]", "[build]\nfragments = [\"guest\", \"binder-c\", \"x.config\"]\n[proof]");
        let study = parse(&text).expect("good");
        assert_eq!(study.source.package.as_deref(), Some("linux-source-7.3/trixie-backports"));
        assert_eq!(study.build.fragments, ["guest", "binder-c", "/usr/x.config"]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (from, to, reason) in [
            ("package", "packages", "packages"),
            ("package = \"linux-source-6.1\"", "", "either `package` or `tree`"),
            ("linux-source-6.1", "../x", "name of a package"),
            ("linux-source-6.1", "x/../y", "name of a package"),
            ("linux-source-6.1", "x/", "name of a package"),
            ("linux-source-6.1", "--x", "name of a package"),
            (">= 100", "often", "no expectation"),
            ("with = [\"function:wake_wide, >= 100\"]", "with = []", "no probe"),
            ("load = [\"workload\", \"hackbench\"]", "load = []", "`load` is empty"),
            ("[proof]", "[guest]\nsmp = \"none\"\n[proof]", "does not describe CPUs"),
            ("[proof]", "[guest]\naccel = \"warp\"\n[proof]", "`warp`"),
            ("[proof]", "[guest]\nmemory = 5\n[proof]", "`memory`"),
            ("[proof]", "[guest]\nkernel = \"rt\"\n[proof]", "builds the two"),
            ("[proof]", "[build]\narch = \"vax\"\n[proof]", "[build] arch"),
            ("[proof]", "[quiet]\nshare = 2.0\n[proof]", "[quiet]"),
        ] {
            let error = parse(&GOOD.replace(from, to)).expect_err(reason);
            assert!(error.contains(reason) && error.contains("x.toml"), "{error}");
        }
    }
}
