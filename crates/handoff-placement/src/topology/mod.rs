//! Which CPUs there are, how fast each is, and what they share.

mod classes;
mod hybrid;
mod midr;
mod read;

pub use classes::{Class, ClassSource};

use crate::cpuset::{CpuId, CpuSet};
use crate::error::Result;
use crate::root::Root;
use serde::Serialize;

/// One CPU as the kernel describes it. What it does not tell (much of it, for an offline CPU) is
/// `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// Its number.
    pub id: CpuId,
    /// Can it run anything now?
    pub online: bool,
    /// Relative capacity; the fastest of the machine has 1024 (`cpu_capacity`).
    pub capacity: Option<u32>,
    /// Highest frequency in kHz (`cpufreq/cpuinfo_max_freq`).
    pub max_khz: Option<u64>,
    /// The model of an Arm core (`MIDR_EL1`).
    pub midr: Option<u64>,
    /// The name of the core's design, where it is known.
    pub core_name: Option<&'static str>,
    /// The package (socket).
    pub package: Option<u32>,
    /// The core, unique within its package: SMT siblings have the same.
    pub core: Option<u32>,
    /// The CPUs of the same core, this one among them.
    pub siblings: CpuSet,
}

/// CPUs that share something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Its number: the node's own for NUMA, otherwise in the order of the first CPU.
    pub id: u32,
    /// The CPUs.
    pub cpus: CpuSet,
    /// Size of a shared cache in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// The CPUs of a machine.
///
/// ```
/// # use handoff_placement::Topology;
/// let machine = Topology::read()?;
/// for class in &machine.classes {
///     println!("{}: CPUs {}", class.name, class.cpus);
/// }
/// # Ok::<(), handoff_placement::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// Each CPU that is present, in order.
    pub cpus: Vec<Cpu>,
    /// CPUs that could ever be plugged in.
    pub possible: CpuSet,
    /// CPUs that are plugged in.
    pub present: CpuSet,
    /// CPUs that can run something now.
    pub online: CpuSet,
    /// CPUs kept from the load balancer (`isolcpus`).
    pub isolated: CpuSet,
    /// Core classes, slowest first; exactly one where all cores are alike.
    pub classes: Vec<Class>,
    /// Where the classes come from.
    pub class_source: ClassSource,
    /// CPU clusters below the package (Arm clusters, Intel modules).
    pub clusters: Vec<Group>,
    /// CPUs that share a last-level cache.
    pub llcs: Vec<Group>,
    /// NUMA nodes that have CPUs.
    pub nodes: Vec<Group>,
    /// Packages (sockets).
    pub packages: Vec<Group>,
}

impl Topology {
    /// The CPUs of this machine.
    ///
    /// # Errors
    ///
    /// If `/sys/devices/system/cpu` does not tell which CPUs are online.
    pub fn read() -> Result<Self> {
        Self::read_under(&Root::host())
    }

    /// The CPUs that a tree tells of.
    ///
    /// # Errors
    ///
    /// If the tree does not tell which CPUs are online.
    pub fn read_under(root: &Root) -> Result<Self> {
        read::topology(root)
    }

    /// Reads again if CPUs came or went since; says whether that was so.
    pub fn refresh(&mut self, root: &Root) -> Result<bool> {
        if root.cpus(read::ONLINE).as_ref() == Some(&self.online) {
            return Ok(false);
        }
        *self = Self::read_under(root)?;
        Ok(true)
    }

    /// The CPU with this number.
    #[must_use]
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok().map(|index| &self.cpus[index])
    }

    /// The class of a CPU.
    #[must_use]
    pub fn class_of(&self, id: CpuId) -> Option<&Class> {
        self.classes.iter().find(|class| class.cpus.contains(id))
    }

    /// The fastest class.
    #[must_use]
    pub fn big(&self) -> Option<&Class> {
        self.classes.last()
    }

    /// The slowest class.
    #[must_use]
    pub fn little(&self) -> Option<&Class> {
        self.classes.first()
    }

    /// Are there slow and fast cores?
    #[must_use]
    pub fn is_asymmetric(&self) -> bool {
        self.classes.len() > 1
    }

    /// The CPUs that share a last-level cache with this one, itself among them.
    #[must_use]
    pub fn llc_of(&self, id: CpuId) -> CpuSet {
        let shared = self.llcs.iter().find(|group| group.cpus.contains(id));
        shared.map_or_else(|| CpuSet::of(id), |group| group.cpus.clone())
    }

    /// One online CPU of each core.
    #[must_use]
    pub fn one_per_core(&self) -> CpuSet {
        let is_first = |cpu: &&Cpu| {
            cpu.online && cpu.siblings.iter().find(|id| self.online.contains(*id)).unwrap_or(cpu.id) == cpu.id
        };
        self.cpus.iter().filter(is_first).map(|cpu| cpu.id).collect()
    }

    /// Sorts the cores into classes by timing a piece of work on each online CPU that may be used,
    /// for machines whose firmware and kernel tell nothing. Takes about `each` for each CPU and
    /// needs a quiet machine.
    pub fn measure_classes(&mut self, each: std::time::Duration) -> Result<()> {
        let figures = classes::measure(&self.online, each)?;
        (self.classes, self.class_source) = (classes::group(&figures), ClassSource::Measured);
        Ok(())
    }
}
