//! What could spoil a figure on this machine: each finding with what it does to a figure and how to
//! change it.
//!
//! Everything is read from `/proc`, `/sys` and `/boot` under a root that the caller names, so that a
//! recorded tree is diagnosed exactly as a live machine is (the tests do that). Nothing is changed.
//!
//! ```no_run
//! use handoff_lab::doctor::{Level, Machine};
//!
//! let diagnosis = Machine::here().diagnose();
//! for finding in diagnosis.at_least(Level::Warning) {
//!     println!("{}: {}. {}", finding.topic, finding.observed, finding.remedy);
//! }
//! ```

mod clock;
mod cpu;
mod kernel;
mod load;
mod memory;
mod pins;
mod privilege;
mod realtime;
mod system_sample;
mod text;
mod virtual_machine;

pub use system_sample::{SystemChange, SystemSample};

use handoff_ipc::binder::Implementation;
pub use handoff_placement::Root;
use serde::{Deserialize, Serialize};

/// The ids of the CPUs that have a folder under `sys/devices/system/cpu`.
pub fn cpus(root: &Root) -> Vec<u32> {
    root.numbered("sys/devices/system/cpu", "cpu")
}

/// The names in a folder, sorted.
fn names(root: &Root, folder: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root.path(folder)) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

/// How much a finding matters to a figure that is measured here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Checked, and it spoils nothing.
    Fine,
    /// Could not be read, so nobody knows.
    Unknown,
    /// Part of what the figure means; comparisons between machines must know it.
    Note,
    /// Makes figures noisier, or shifts them by some percent.
    Warning,
    /// Figures taken like this should not be published.
    Serious,
}

impl Level {
    /// One lower-case word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Unknown => "unknown",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Serious => "serious",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// A stable name for programs, such as `cpu.governor`.
    pub id: String,
    pub level: Level,
    /// What was looked at, in a few words.
    pub topic: String,
    /// What is the case here.
    pub observed: String,
    /// What that does to a figure.
    pub effect: String,
    /// How to change it; empty where nothing needs changing.
    pub remedy: String,
}

impl Finding {
    fn new(id: &str, level: Level, topic: &str, observed: impl Into<String>) -> Self {
        Self {
            id: id.to_owned(),
            level,
            topic: topic.to_owned(),
            observed: observed.into(),
            effect: String::new(),
            remedy: String::new(),
        }
    }

    fn fine(id: &str, topic: &str, observed: impl Into<String>) -> Self {
        Self::new(id, Level::Fine, topic, observed)
    }

    fn unknown(id: &str, topic: &str, observed: impl Into<String>) -> Self {
        Self::new(id, Level::Unknown, topic, observed)
    }

    fn effect(mut self, effect: impl Into<String>) -> Self {
        self.effect = effect.into();
        self
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}

/// What a figure of this machine should carry with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The machine in one line each: name, value.
    pub machine: Vec<Fact>,
    /// All findings, the most serious first.
    pub findings: Vec<Finding>,
}

/// A property of the machine that explains a figure but spoils nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// What it is, such as `processor`.
    pub name: String,
    /// Its value, as the kernel tells it.
    pub value: String,
}

impl Diagnosis {
    /// What of it matters to guests whose clock counts instructions: nothing that the host does is in their figures,
    /// only what this program itself is.
    #[must_use]
    pub fn of_counted_instructions(mut self) -> Self {
        self.findings.retain(|finding| finding.id == DEBUG_BUILD);
        self
    }

    /// The findings of this level or above, the most serious first.
    pub fn at_least(&self, level: Level) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.level >= level)
    }

    /// How many findings have exactly this level.
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    /// The finding of this id, if it was looked for.
    pub fn finding(&self, id: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.id == id)
    }

    /// The value of a [`Fact`] by its name.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.machine.iter().find(|fact| fact.name == name).map(|fact| fact.value.as_str())
    }
}

/// A machine to diagnose: this one, or a recorded tree.
#[derive(Debug, Clone)]
pub struct Machine {
    root: Root,
    debug_build: bool,
}

impl Machine {
    /// The machine that this program runs on.
    #[must_use]
    pub fn here() -> Self {
        Self { root: Root::host(), debug_build: cfg!(debug_assertions) }
    }

    /// A tree with `proc`, `sys` and `boot` of another machine.
    #[must_use]
    pub fn recorded(root: impl Into<std::path::PathBuf>) -> Self {
        Self { root: Root::at(root), debug_build: false }
    }

    /// Where its files are read.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Looks at everything. A file that is missing or malformed gives an `unknown` finding, never an
    /// error: what cannot be read must not stop a measurement.
    pub fn diagnose(&self) -> Diagnosis {
        let root = &self.root;
        let mut findings = Vec::new();
        if self.debug_build {
            findings.push(debug_build());
        }
        findings.extend(cpu::findings(root));
        findings.extend(virtual_machine::findings(root));
        findings.extend(kernel::findings(root));
        findings.extend(realtime::findings(root));
        findings.extend(load::findings(root));
        findings.extend(clock::findings(root));
        findings.extend(memory::findings(root));
        findings.extend(privilege::findings(root));
        findings.extend(pins::findings(root));
        // Stable, so that within a level the order is that of the list above.
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
        Diagnosis { machine: facts(root), findings }
    }
}

const DEBUG_BUILD: &str = "program.debug_build";

fn debug_build() -> Finding {
    Finding::new(DEBUG_BUILD, Level::Serious, "this program", "a debug build of handoff")
        .effect("its own code runs several times slower; every figure includes that")
        .remedy("build and run it with `cargo run --release`")
}

fn facts(root: &Root) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.push(Fact { name: name.to_owned(), value });
        }
    };
    add("host", root.text("proc/sys/kernel/hostname").ok());
    add("kernel", root.text("proc/sys/kernel/osrelease").ok());
    add("kernel build", root.text("proc/sys/kernel/version").ok());
    add("Binder driver", binder_driver(root));
    add("sched_ext", kernel::sched_ext(root));
    add("processor", cpu::model(root));
    add("CPUs online", root.text("sys/devices/system/cpu/online").ok());
    add("core classes", cpu::classes(root));
    add("memory", memory::total(root));
    add("clock source", root.text(clock::CURRENT).ok());
    add("preemption", kernel::preemption(root));
    add("tick", kernel::tick(root));
    add("command line", root.text("proc/cmdline").ok().map(|line| without_addresses(&line)));
    facts
}

/// Which Binder driver the kernel has, if any.
fn binder_driver(root: &Root) -> Option<String> {
    match Implementation::at(&root.path("")) {
        Implementation::Unknown => None,
        driver => Some(driver.name().to_owned()),
    }
}

/// The kernel's command line without what follows `--`, which belongs to the first process and may
/// hold what nobody wants in a report.
fn without_addresses(line: &str) -> String {
    line.split(" -- ").next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_tree_is_diagnosed_as_unknown_without_a_panic() {
        let folder = tempfile::tempdir().expect("a folder");
        let diagnosis = Machine::recorded(folder.path()).diagnose();
        assert!(diagnosis.machine.is_empty());
        assert!(diagnosis.count(Level::Unknown) >= 5, "{diagnosis:#?}");
        assert_eq!(diagnosis.count(Level::Serious), 0, "{diagnosis:#?}");
    }

    #[test]
    fn the_driver_and_a_loaded_scheduler_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        write("sys/module/rust_binder/parameters/debug_mask", "0\n");
        write("sys/kernel/sched_ext/state", "disabled\n");
        let fact = |name: &str| {
            let diagnosis = Machine::recorded(folder.path()).diagnose();
            diagnosis.fact(name).map(str::to_owned)
        };
        assert_eq!((fact("Binder driver").as_deref(), fact("sched_ext")), (Some("Rust"), None));
        write("sys/kernel/sched_ext/state", "enabled\n");
        write("sys/kernel/sched_ext/root/ops", "some_scheduler\n");
        assert_eq!(fact("sched_ext").as_deref(), Some("some_scheduler"));
        let observed = || {
            let diagnosis = Machine::recorded(folder.path()).diagnose();
            diagnosis.finding("kernel.sched_ext").map(|finding| finding.observed.clone())
        };
        assert_eq!(observed().as_deref(), Some("the BPF scheduler some_scheduler has every ordinary thread"));
        write("sys/kernel/sched_ext/switch_all", "0\n");
        assert!(observed().is_some_and(|text| text.ends_with("threads of SCHED_EXT")));
        write("sys/kernel/sched_ext/state", "disabled\n");
        assert_eq!(observed(), None, "what is not loaded spoils nothing");
    }

    #[test]
    fn the_most_serious_comes_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = Machine { root: Root::at(folder.path()), debug_build: true };
        let diagnosis = machine.diagnose();
        assert_eq!(diagnosis.findings[0].id, "program.debug_build");
        assert!(diagnosis.findings.windows(2).all(|pair| pair[0].level >= pair[1].level));
    }

    #[test]
    fn this_machine_is_diagnosed() {
        let diagnosis = Machine::here().diagnose();
        assert!(diagnosis.fact("kernel").is_some_and(|release| release.contains('.')));
        for finding in &diagnosis.findings {
            assert!(!finding.observed.is_empty(), "{finding:?}");
            let must_explain = finding.level >= Level::Note;
            assert!(!must_explain || !finding.effect.is_empty(), "{finding:?} has no effect");
            let must_help = finding.level >= Level::Warning;
            assert!(!must_help || !finding.remedy.is_empty(), "{finding:?} has no remedy");
        }
        let mut ids: Vec<_> = diagnosis.findings.iter().map(|finding| &finding.id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), diagnosis.findings.len(), "an id occurs twice");
    }

    #[test]
    fn a_diagnosis_survives_json() {
        let diagnosis = Machine::here().diagnose();
        let text = serde_json::to_string(&diagnosis).expect("it serialises");
        assert_eq!(serde_json::from_str::<Diagnosis>(&text).expect("it parses"), diagnosis);
    }

    #[test]
    fn the_first_process_keeps_its_arguments_to_itself() {
        assert_eq!(without_addresses("quiet psi=1 -- --secret 1"), "quiet psi=1");
        assert_eq!(without_addresses("quiet"), "quiet");
    }
}
