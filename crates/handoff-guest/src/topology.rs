//! How many CPUs a guest has, how they are grouped and how fast the kernel is told they are.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::GuestError;
use super::fdt::{Node, Tree};

/// The capacity that the kernel gives its fastest CPUs.
const FULL_CAPACITY: u32 = 1024;
/// QEMU's and Debian's limits lie above this; no guest for tests needs more.
const MOST_CPUS: u32 = 64;

/// The CPUs of a guest, as QEMU's `-smp` option describes them: `4` or `4,sockets=2,cores=2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Smp {
    cpus: u32,
    grouping: Vec<(String, u32)>,
}

impl Smp {
    /// This many CPUs, all of one kind.
    ///
    /// # Errors
    ///
    /// If there are none, or more than 64.
    pub fn new(cpus: u32) -> Result<Self, GuestError> {
        if (1..=MOST_CPUS).contains(&cpus) {
            return Ok(Self { cpus, grouping: Vec::new() });
        }
        Err(GuestError::Options(format!("a guest has 1 to {MOST_CPUS} CPUs, not {cpus}")))
    }

    /// Those of a guest that asks for none: one for each capacity, one where instructions are counted, two otherwise.
    pub(crate) fn usual(capacities: usize, counted: bool) -> Result<Self, GuestError> {
        Self::new(match capacities {
            0 if counted => 1,
            0 => 2,
            count => u32::try_from(count).unwrap_or(u32::MAX),
        })
    }

    /// How many CPUs are online after the boot.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }
}

impl FromStr for Smp {
    type Err = GuestError;

    fn from_str(text: &str) -> Result<Self, GuestError> {
        let refuse = |part: &str| {
            GuestError::Options(format!(
                "`{part}` in `{text}` does not describe CPUs: write a number, then any of \
                 sockets=N, dies=N, clusters=N, cores=N, threads=N, maxcpus=N"
            ))
        };
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let mut smp = Self::new(first.parse().map_err(|_| refuse(first))?)?;
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| refuse(part))?;
            let known = ["sockets", "dies", "clusters", "cores", "threads", "maxcpus"].contains(&key);
            let value = value.parse().ok().filter(|value| (1..=MOST_CPUS).contains(value));
            match value {
                Some(value) if known => smp.grouping.push((key.to_owned(), value)),
                _ => return Err(refuse(part)),
            }
        }
        Ok(smp)
    }
}

impl TryFrom<String> for Smp {
    type Error = GuestError;

    fn try_from(text: String) -> Result<Self, GuestError> {
        text.parse()
    }
}

impl From<Smp> for String {
    fn from(smp: Smp) -> Self {
        smp.to_string()
    }
}

impl fmt::Display for Smp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cpus)?;
        self.grouping.iter().try_for_each(|(key, value)| write!(f, ",{key}={value}"))
    }
}

pub(crate) fn check_capacities(capacities: &[u32], cpus: u32) -> Result<(), GuestError> {
    if capacities.len() != cpus as usize {
        return Err(GuestError::Options(format!(
            "{} capacities were given for {cpus} CPUs: give one for each",
            capacities.len()
        )));
    }
    match capacities.iter().find(|capacity| !(1..=FULL_CAPACITY).contains(*capacity)) {
        Some(wrong) => Err(GuestError::Options(format!(
            "{wrong} is no CPU capacity: the fastest CPU has {FULL_CAPACITY}, the others less"
        ))),
        None => Ok(()),
    }
}

/// Tells the kernel the capacity of each CPU, and that those of one capacity in a row are a cluster.
///
/// The kernel scales `capacity-dmips-mhz` so that the greatest becomes 1024, so the greatest here
/// should be 1024 for the figures to come out as given; see
/// `Documentation/devicetree/bindings/cpu/cpu-capacity.txt` and `cpu/cpu-topology.txt` of Linux.
pub(crate) fn set_capacities(tree: &mut Tree, capacities: &[u32]) -> Result<(), GuestError> {
    let lacks = |what: String| GuestError::DeviceTree(format!("QEMU's machine has no {what}"));
    let mut next_handle = highest_handle(&tree.root).wrapping_add(1);
    let cpus = tree.root.child_mut("cpus").ok_or_else(|| lacks("node `cpus`".to_owned()))?;
    let mut clusters: Vec<(u32, Node)> = Vec::new();
    for (index, capacity) in capacities.iter().enumerate() {
        let name = format!("cpu@{index:x}");
        let cpu = cpus.child_mut(&name).ok_or_else(|| lacks(format!("node `{name}`")))?;
        cpu.set("capacity-dmips-mhz", capacity.to_be_bytes().to_vec());
        let handle = cpu.number("phandle").unwrap_or_else(|| {
            let handle = next_handle;
            next_handle = next_handle.wrapping_add(1);
            cpu.set("phandle", handle.to_be_bytes().to_vec());
            handle
        });
        if clusters.last().is_none_or(|(of, _)| of != capacity) {
            clusters.push((*capacity, Node::new(format!("cluster{}", clusters.len()))));
        }
        if let Some((_, cluster)) = clusters.last_mut() {
            let mut core = Node::new(format!("core{}", cluster.children.len()));
            core.set("cpu", handle.to_be_bytes().to_vec());
            cluster.children.push(core);
        }
    }
    let mut socket = Node::new("socket0");
    socket.children = clusters.into_iter().map(|(_, cluster)| cluster).collect();
    let mut map = Node::new("cpu-map");
    map.children.push(socket);
    cpus.children.retain(|child| child.name != "cpu-map");
    cpus.children.push(map);
    Ok(())
}

fn highest_handle(node: &Node) -> u32 {
    let below = node.children.iter().map(highest_handle).max().unwrap_or(0);
    below.max(node.number("phandle").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fdt::tests::tree;
    use proptest::prelude::*;

    #[test]
    fn cpus_are_described_as_qemu_has_it() {
        for text in ["1", "4,sockets=2,cores=2", "6,maxcpus=8"] {
            assert_eq!(text.parse::<Smp>().expect("a good description").to_string(), text);
        }
        for text in
            ["", "0", "65", "x", "2,", "2,sockets", "2,sockets=0", "2,nodes=1", "2,-x=1", "2,cores=-1"]
        {
            assert!(text.parse::<Smp>().is_err(), "{text}");
        }
    }

    #[test]
    fn capacities_are_checked() {
        assert!(check_capacities(&[446, 1024], 2).is_ok());
        assert!(check_capacities(&[446, 1024], 3).is_err_and(|why| why.to_string().contains("3 CPUs")));
        assert!(check_capacities(&[0], 1).is_err());
        assert!(check_capacities(&[1025], 1).is_err_and(|why| why.to_string().contains("1025")));
    }

    fn machine(cpus: usize) -> Tree {
        let mut folder = Node::new("cpus");
        folder.children.push(Node::new("cpu-map"));
        for index in 0..cpus {
            folder.children.push(Node::new(format!("cpu@{index:x}")));
        }
        let mut root = Node::new("");
        let mut other = Node::new("other");
        other.set("phandle", 0x8000u32.to_be_bytes().to_vec());
        root.children.push(other);
        root.children.push(folder);
        tree(root)
    }

    #[test]
    fn cpus_of_one_capacity_in_a_row_are_a_cluster() {
        let mut tree = machine(4);
        set_capacities(&mut tree, &[446, 446, 1024, 446]).expect("a good machine");
        let cpus = tree.root.child_mut("cpus").expect("there");
        assert_eq!(cpus.child_mut("cpu@2").expect("there").number("capacity-dmips-mhz"), Some(1024));
        assert_eq!(cpus.child_mut("cpu@3").expect("there").number("phandle"), Some(0x8004));
        assert_eq!(cpus.children.iter().filter(|child| child.name == "cpu-map").count(), 1);
        let map = cpus.child_mut("cpu-map").expect("there");
        let clusters: Vec<Vec<u32>> = map.children[0]
            .children
            .iter()
            .map(|cluster| cluster.children.iter().filter_map(|core| core.number("cpu")).collect())
            .collect();
        assert_eq!(clusters, [vec![0x8001, 0x8002], vec![0x8003], vec![0x8004]]);
    }

    #[test]
    fn a_machine_without_the_cpus_is_an_error() {
        assert!(set_capacities(&mut machine(1), &[1, 2]).is_err_and(|why| why.to_string().contains("cpu@1")));
        assert!(set_capacities(&mut tree(Node::new("")), &[1]).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-z,= -]{0,20}") {
            if let Ok(smp) = text.parse::<Smp>() {
                prop_assert_eq!(smp.to_string().parse::<Smp>().expect("again"), smp);
            }
        }
    }
}
