//! CPUs: governor and frequency scaling, boost, SMT, idle states, isolation, different cores, power.

use handoff_placement::{Class, Topology};

use super::text::{cpu_list, field, some_of};
use super::{Finding, Level, Root, cpus, names};

const CPU: &str = "sys/devices/system/cpu";

/// An idle state that takes longer than this to leave shows in a wake-up latency, in microseconds.
const DEEP_IDLE_US: u64 = 50;

pub(super) fn findings(root: &Root) -> Vec<Finding> {
    let mut findings = vec![governor(root)];
    findings.extend(boost(root));
    findings.push(smt(root));
    findings.extend(idle(root));
    findings.push(isolated(root));
    findings.extend(capacities(root));
    findings.extend(battery(root));
    findings
}

pub(super) fn model(root: &Root) -> Option<String> {
    let info = root.text("proc/cpuinfo").ok()?;
    ["model name", "Hardware", "CPU part", "uarch"]
        .iter()
        .find_map(|key| field(&info, key))
        .map(str::to_owned)
}

/// The slow and the fast cores, `little 0-3 (446), big 4-7 (1024)`; nothing where all are alike.
pub(super) fn classes(root: &Root) -> Option<String> {
    let machine = Topology::read_under(root).ok()?;
    if !machine.is_asymmetric() {
        return None;
    }
    let class = |class: &Class| format!("{} {} ({})", class.name, class.cpus, class.figure);
    let classes: Vec<String> = machine.classes.iter().map(class).collect();
    Some(format!("{}, by {}", classes.join(", "), machine.class_source))
}

fn governor(root: &Root) -> Finding {
    let (id, topic) = ("cpu.governor", "CPU frequency scaling");
    let mut governors: Vec<String> = cpus(root)
        .iter()
        .filter_map(|cpu| root.text(format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor")).ok())
        .collect();
    governors.sort();
    governors.dedup();
    if governors.is_empty() {
        // Guests have no cpufreq: the host decides, and the samples of each round cannot see it.
        return Finding::unknown(
            id,
            topic,
            "the kernel does not control frequencies (the firmware or host does)",
        );
    }
    let fixed = cpus(root).iter().all(|cpu| {
        let folder = format!("{CPU}/cpu{cpu}/cpufreq");
        let limit = |name: &str| root.number::<u64>(&format!("{folder}/scaling_{name}_freq"));
        !root.path(&folder).exists() || limit("min").is_some_and(|min| Some(min) == limit("max"))
    });
    if governors == ["performance"] || fixed {
        return Finding::fine(id, topic, format!("governor {}", governors.join(", ")));
    }
    Finding::new(id, Level::Serious, topic, format!("governor {}", governors.join(", ")))
        .effect(
            "a CPU that sleeps between calls is slowed down and a busy one is not: blocking figures look \
                 worse, busy ones drift with time",
        )
        .remedy("sudo cpupower frequency-set -g performance (and back to the old one afterwards)")
}

fn boost(root: &Root) -> Option<Finding> {
    let (id, topic) = ("cpu.boost", "turbo or boost");
    let on = match root.number::<u8>(&format!("{CPU}/intel_pstate/no_turbo")) {
        Some(no_turbo) => no_turbo == 0,
        None => root.number::<u8>(&format!("{CPU}/cpufreq/boost"))? == 1,
    };
    if !on {
        return Some(Finding::fine(id, topic, "off"));
    }
    Some(
        Finding::new(id, Level::Warning, topic, "on")
            .effect(
                "the frequency depends on temperature and on what other cores do, so later rounds are slower",
            )
            .remedy(format!(
                "echo 1 | sudo tee /{CPU}/intel_pstate/no_turbo, or echo 0 | sudo tee /{CPU}/cpufreq/boost"
            )),
    )
}

fn smt(root: &Root) -> Finding {
    let (id, topic) = ("cpu.smt", "simultaneous multithreading");
    let active = root.number::<u8>(&format!("{CPU}/smt/active"));
    let shared = cpus(root)
        .iter()
        .filter_map(|cpu| root.text(format!("{CPU}/cpu{cpu}/topology/thread_siblings_list")).ok())
        .filter_map(|list| cpu_list(&list))
        .any(|siblings| siblings.len() > 1);
    match (active, shared) {
        (Some(1), _) | (None, true) => Finding::new(id, Level::Warning, topic, "on")
            .effect("two CPUs share one core: a figure depends on whether the peer, or a stranger, runs on the sibling")
            .remedy(format!("echo off | sudo tee /{CPU}/smt/control, or pin to CPUs of different cores")),
        (Some(0), _) => Finding::fine(id, topic, "off"),
        _ => Finding::unknown(id, topic, "the kernel does not tell"),
    }
}

fn idle(root: &Root) -> Option<Finding> {
    let (id, topic) = ("cpu.idle", "idle states");
    let states: Vec<u32> = root.numbered(&format!("{CPU}/cpu0/cpuidle"), "state");
    if states.is_empty() {
        return None;
    }
    let deepest = states
        .iter()
        .filter(|state| root.number::<u8>(&format!("{CPU}/cpu0/cpuidle/state{state}/disable")) != Some(1))
        .filter_map(|state| {
            let latency = root.number::<u64>(&format!("{CPU}/cpu0/cpuidle/state{state}/latency"))?;
            Some((latency, root.text(format!("{CPU}/cpu0/cpuidle/state{state}/name")).ok()?))
        })
        .max()?;
    let observed = format!("the deepest is {}, left within {} us", deepest.1, deepest.0);
    if deepest.0 <= DEEP_IDLE_US {
        return Some(Finding::fine(id, topic, observed));
    }
    Some(
        Finding::new(id, Level::Warning, topic, observed)
            .effect("a wake-up after a pause pays for leaving that state; one right after another call does not")
            .remedy("hold /dev/cpu_dma_latency open with a 0 in it while measuring, or: sudo cpupower idle-set -D 10"),
    )
}

fn isolated(root: &Root) -> Finding {
    let (id, topic) = ("cpu.isolated", "isolated CPUs");
    let list = |name: &str| root.text(format!("{CPU}/{name}")).ok().filter(|text| cpu_list(text).is_some());
    match list("isolated") {
        Some(cpus) if !cpus.is_empty() => {
            let tickless = list("nohz_full").filter(|cpus| !cpus.is_empty() && cpus != "(null)");
            Finding::new(
                id,
                Level::Note,
                topic,
                format!("{cpus}{}", tickless.map_or(String::new(), |cpus| format!("; without tick: {cpus}"))),
            )
            .effect(
                "the scheduler never moves a task there or away: unpinned figures use the other CPUs only",
            )
            .remedy("pin both sides to them for quiet figures; leave them out for figures of everyday use")
        }
        Some(_) => Finding::new(id, Level::Note, topic, "none")
            .effect("other tasks may run between any two instructions that are measured")
            .remedy("boot with isolcpus=, or give the run a cpuset of its own, if tails matter"),
        None => Finding::unknown(id, topic, "the kernel does not tell"),
    }
}

fn capacities(root: &Root) -> Option<Finding> {
    let mut all: Vec<u32> =
        cpus(root).iter().filter_map(|cpu| root.number(format!("{CPU}/cpu{cpu}/cpu_capacity"))).collect();
    all.sort_unstable();
    all.dedup();
    if all.len() < 2 {
        return None;
    }
    let classes: Vec<String> = all.iter().map(ToString::to_string).collect();
    Some(
        Finding::new(
            "cpu.capacity",
            Level::Warning,
            "cores of different speed",
            format!("capacities {}", some_of(&classes, 6)),
        )
        .effect(
            "the same work takes several times longer on a small core; where a task lands decides the figure",
        )
        .remedy("pin both sides to one class, or compare placements as variants"),
    )
}

fn battery(root: &Root) -> Option<Finding> {
    let supplies = names(root, "sys/class/power_supply");
    let kind = |name: &str| root.text(format!("sys/class/power_supply/{name}/type")).ok();
    let mains: Vec<u8> = supplies
        .iter()
        .filter(|name| kind(name).is_some_and(|kind| kind == "Mains" || kind == "USB"))
        .filter_map(|name| root.number(format!("sys/class/power_supply/{name}/online")))
        .collect();
    if mains.is_empty() {
        return None;
    }
    if mains.contains(&1) {
        return Some(Finding::fine("cpu.power", "power supply", "connected"));
    }
    Some(
        Finding::new("cpu.power", Level::Warning, "power supply", "on battery")
            .effect("firmware and governors limit frequencies on battery, more as it empties")
            .remedy("connect the power supply"),
    )
}
