//! `handoff cores`: a map of the CPUs, and which of them may be used.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use handoff_placement::{Allowed, Cpu, CpuSet, Root, Selector, Tid, Topology};
use serde::Serialize;

use crate::output::{Format, Output, Verdict, style};

const EXAMPLES: &str = "\
Examples:
  handoff cores                       the map: classes, caches, siblings, and what may be used
  handoff cores big                   the CPUs that a name means here, for scripts
  handoff cores 'llc:0&one-per-core'  one CPU of each core that shares the first cache
  handoff cores --pid 1234            what another process may use, and what limits it
  handoff cores --measure             time each CPU where the machine tells nothing of classes
  handoff cores --root ./recorded     another machine, from a copy of its /sys and /proc";

/// Show the CPUs of this machine: classes, clusters, caches, siblings, and which may be used.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Print only the CPUs that this means here (`big`, `llc:0`, `0-3,5`, `all,!0`).
    #[arg(value_name = "SELECTOR")]
    selector: Option<Selector>,
    /// Say what this thread or process may use, instead of this command itself.
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,
    /// Sort the CPUs into classes by timing each of them, half a second a CPU.
    #[arg(long, conflicts_with = "root")]
    measure: bool,
    /// Show the machine whose /sys and /proc were copied to this folder.
    #[arg(long, value_name = "FOLDER", conflicts_with = "pid")]
    root: Option<PathBuf>,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let root = self.root.as_ref().map_or_else(Root::host, Root::at);
        let mut machine = Topology::read_under(&root).context("the CPUs of this machine cannot be read")?;
        if self.measure {
            machine.measure_classes(Duration::from_millis(500))?;
        }
        if let Some(selector) = &self.selector {
            let cpus = selector.resolve_under(&machine, &root)?;
            let absent = cpus.difference(&machine.present);
            ensure!(absent.is_empty(), "CPUs {absent} are not there: this machine has {}", machine.present);
            match output.format() {
                Format::Text => output.line(format_args!("{cpus}"))?,
                Format::Json => output.json(&cpus.iter().collect::<Vec<_>>())?,
            }
            return Ok(Verdict::Pass);
        }
        let tid = self.pid.and_then(Tid::new).unwrap_or_else(Tid::current);
        let allowed = if root.is_host() { Some(Allowed::of(tid)?) } else { None };
        output.result(&Map { who: self.pid, machine, allowed })?;
        Ok(Verdict::Pass)
    }
}

#[derive(Serialize)]
struct Map {
    #[serde(rename = "pid", skip_serializing_if = "Option::is_none")]
    who: Option<i32>,
    machine: Topology,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<Allowed>,
}

impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.heading(f)?;
        for place in places(&self.machine) {
            writeln!(f, "\n\n{}", style::paint(style::HEADING, place.title(&self.machine)))?;
            let rows: Vec<[String; 4]> = self.rows(&place.cpus);
            let widths: [usize; 4] = std::array::from_fn(|column| {
                rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
            });
            let lines = rows.iter().map(|row| {
                let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
                format!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end())
            });
            write!(f, "{}", lines.collect::<Vec<_>>().join("\n"))?;
        }
        if let Some(allowed) = &self.allowed {
            write!(f, "\n\n{}", Limits { who: self.who, allowed })?;
        }
        Ok(())
    }
}

impl Map {
    fn heading(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.machine;
        let kinds = match machine.classes.as_slice() {
            [_] => "all alike".to_owned(),
            classes => {
                let counts = classes.iter().map(|class| format!("{} {}", class.cpus.len(), class.name));
                format!("{} (by {})", counts.collect::<Vec<_>>().join(" + "), machine.class_source)
            }
        };
        let cpus = if machine.online.len() == 1 { "CPU" } else { "CPUs" };
        write!(f, "{} {cpus} online ({}), {kinds}", machine.online.len(), machine.online)?;
        let offline = machine.present.difference(&machine.online);
        if !offline.is_empty() {
            write!(f, "; {offline} offline")?;
        }
        if !machine.isolated.is_empty() {
            write!(f, "; {} isolated", machine.isolated)?;
        }
        Ok(())
    }

    /// A line for each class among some CPUs: name, CPUs, speed, design.
    fn rows(&self, cpus: &CpuSet) -> Vec<[String; 4]> {
        let classes = self.machine.classes.iter().map(|class| (class, class.cpus.intersection(cpus)));
        let present = classes.filter(|(_, cpus)| !cpus.is_empty());
        present
            .map(|(class, cpus)| {
                let members: Vec<&Cpu> = cpus.iter().filter_map(|id| self.machine.cpu(id)).collect();
                let design = members.iter().find_map(|cpu| cpu.core_name).unwrap_or_default();
                [class.name.clone(), cores(&members), speed(&members), design.to_owned()]
            })
            .collect()
    }
}

/// CPUs that share package, NUMA node and last-level cache.
struct CpuGroup {
    cpus: CpuSet,
}

/// The finest groups that are worth a heading: last-level caches, or whatever is left over.
fn places(machine: &Topology) -> Vec<CpuGroup> {
    let mut left = machine.present.clone();
    let mut places = Vec::new();
    let groups = if machine.llcs.is_empty() { &machine.packages } else { &machine.llcs };
    for group in groups {
        let cpus = group.cpus.intersection(&left);
        left = left.difference(&cpus);
        places.extend((!cpus.is_empty()).then_some(CpuGroup { cpus }));
    }
    places.extend((!left.is_empty()).then_some(CpuGroup { cpus: left }));
    places
}

impl CpuGroup {
    fn title(&self, machine: &Topology) -> String {
        let Some(first) = self.cpus.first() else { return String::new() };
        let mut parts = Vec::new();
        let holds = |groups: &[handoff_placement::Group]| {
            groups.iter().find(|group| group.cpus.contains(first)).map(|group| (group.id, group.bytes))
        };
        if let Some((id, _)) = holds(&machine.packages).filter(|_| machine.packages.len() > 1) {
            parts.push(format!("package {id}"));
        }
        if let Some((id, _)) = holds(&machine.nodes).filter(|_| machine.nodes.len() > 1) {
            parts.push(format!("node {id}"));
        }
        match holds(&machine.llcs) {
            Some((id, bytes)) => {
                let size = bytes.map(|bytes| format!(" ({})", mebibytes(bytes))).unwrap_or_default();
                parts.push(format!("shared cache llc:{id}{size}"));
            }
            None if machine.cpu(first).is_some_and(|cpu| !cpu.online) => parts.push("offline".to_owned()),
            None => parts.push("CPUs (their caches are not told)".to_owned()),
        }
        let clusters = machine.clusters.iter().filter(|group| group.cpus.is_subset(&self.cpus));
        let clusters =
            clusters.map(|group| format!("cluster:{} = {}", group.id, group.cpus)).collect::<Vec<_>>();
        if !clusters.is_empty() {
            parts.push(clusters.join(", "));
        }
        parts.join(", ")
    }
}

fn mebibytes(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{} KiB", bytes >> 10)
    }
}

/// `0 1 2`, `[0 4] [1 5]` with SMT, `(3)` for an offline CPU; a list where that would be too long.
fn cores(members: &[&Cpu]) -> String {
    let all: CpuSet = members.iter().map(|cpu| cpu.id).collect();
    if members.len() > 16 {
        let heads = members.iter().filter(|cpu| cpu.siblings.first() == Some(cpu.id)).count();
        return if heads == members.len() { all.to_string() } else { format!("{all} ({heads} cores)") };
    }
    let mut shown = CpuSet::new();
    let mut words = Vec::new();
    for cpu in members {
        if shown.contains(cpu.id) {
            continue;
        }
        let here = cpu.siblings.intersection(&all);
        shown = shown.union(&here);
        let ids = here.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(" ");
        words.push(match (here.len(), cpu.online) {
            (0 | 1, true) => cpu.id.to_string(),
            (0 | 1, false) => format!("({})", cpu.id),
            _ => format!("[{ids}]"),
        });
    }
    words.join(" ")
}

fn speed(members: &[&Cpu]) -> String {
    let mut parts = Vec::new();
    if let Some(khz) = members.iter().filter_map(|cpu| cpu.max_khz).max() {
        parts.push(format!("{} MHz", khz / 1000));
    }
    if let Some(capacity) = members.iter().filter_map(|cpu| cpu.capacity).max() {
        parts.push(format!("capacity {capacity}"));
    }
    parts.join(", ")
}

struct Limits<'a> {
    who: Option<i32>,
    allowed: &'a Allowed,
}

impl fmt::Display for Limits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = self.allowed;
        match self.who {
            Some(pid) => write!(f, "process {pid} may use {}", allowed.mask)?,
            None => write!(f, "this process may use {}", allowed.mask)?,
        }
        match &allowed.cpuset {
            Some(cpuset) => write!(f, "; cpuset {} has {}", cpuset.path.display(), cpuset.cpus)?,
            None => f.write_str("; no cpuset")?,
        }
        match &allowed.quota {
            Some(quota) => write!(f, "; time of {:.2} CPUs ({})", quota.cpus, quota.path.display())?,
            None => f.write_str("; no quota")?,
        }
        match allowed.container {
            Some(name) => write!(f, "; in what looks like a {name} container"),
            None => Ok(()),
        }
    }
}
