//! The doctor on other machines: trees of `/proc` and `/sys` as a laptop, a phone and a container
//! show them, each a text file of `== path` lines with the file's content below.

use handoff_lab::doctor::{Diagnosis, Level, Machine};
use std::path::Path;

fn unpack(tree: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for part in tree.split("== ").skip(1) {
        let (path, text) = part.split_once('\n').expect("a path on the first line");
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders are made");
        std::fs::write(path, text).expect("a file is written");
    }
    folder
}

fn diagnose(name: &str) -> Diagnosis {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/doctor/{name}.tree"));
    let tree = unpack(&std::fs::read_to_string(file).expect("the tree is there"));
    Machine::recorded(tree.path()).diagnose()
}

fn assert_levels(diagnosis: &Diagnosis, expected: &[(&str, Level, &str)]) {
    for (id, level, says) in expected {
        let finding = diagnosis.finding(id).unwrap_or_else(|| panic!("nothing about {id}"));
        assert_eq!(finding.level, *level, "{finding:#?}");
        assert!(finding.observed.contains(says), "{finding:#?} does not say {says:?}");
        assert!(*level < Level::Note || !finding.effect.is_empty(), "{finding:#?}");
        assert!(*level < Level::Warning || !finding.remedy.is_empty(), "{finding:#?}");
    }
}

#[test]
fn a_busy_laptop_on_battery_with_a_debug_kernel() {
    let diagnosis = diagnose("laptop");
    assert_levels(
        &diagnosis,
        &[
            ("cpu.governor", Level::Serious, "powersave"),
            ("cpu.boost", Level::Warning, "on"),
            ("cpu.smt", Level::Warning, "on"),
            ("cpu.idle", Level::Warning, "C10, left within 890 us"),
            ("cpu.power", Level::Warning, "battery"),
            ("cpu.isolated", Level::Note, "none"),
            ("virtual.machine", Level::Fine, "none"),
            ("virtual.steal", Level::Fine, "0.00%"),
            ("virtual.quota", Level::Fine, "none"),
            ("kernel.debug", Level::Serious, "CONFIG_PROVE_LOCKING"),
            ("kernel.mitigations", Level::Note, "meltdown"),
            ("kernel.tracing", Level::Warning, "tracer function, 1 events"),
            ("kernel.pins", Level::Note, "erases"),
            ("kernel.autogroup", Level::Note, "on"),
            ("realtime.throttling", Level::Note, "95% of each 1000 ms"),
            ("load.average", Level::Serious, "6.10 tasks on 4 CPUs"),
            ("load.pressure", Level::Serious, "31.5%"),
            ("load.debugger", Level::Serious, "4001"),
            ("clock.source", Level::Serious, "hpet"),
            ("memory.thp", Level::Note, "always"),
            ("memory.swap", Level::Warning, "1953 MiB swapped out"),
            ("privilege.capabilities", Level::Warning, "CAP_SYS_NICE"),
            ("privilege.perf", Level::Note, "3"),
        ],
    );
    assert_eq!(diagnosis.fact("tick"), Some("250 Hz"));
    assert_eq!(diagnosis.fact("preemption"), Some("PREEMPT_DYNAMIC"));
    assert_eq!(diagnosis.fact("processor"), Some("Example Mobile Processor"));
    assert_eq!(diagnosis.findings[0].level, Level::Serious);
}

#[test]
fn a_phone_with_three_classes_of_cores() {
    let diagnosis = diagnose("phone");
    let classes = diagnosis.machine.iter().find(|fact| fact.name == "core classes").expect("it has some");
    assert!(classes.value.starts_with("little 0"), "{classes:?}");
    assert!(classes.value.ends_with("(1024), by cpu_capacity"), "{classes:?}");
    assert_levels(
        &diagnosis,
        &[
            ("cpu.governor", Level::Serious, "schedutil"),
            ("cpu.capacity", Level::Warning, "446, 871, 1024"),
            ("cpu.isolated", Level::Note, "6-7"),
            ("cpu.power", Level::Fine, "connected"),
            ("kernel.debug", Level::Unknown, "configuration"),
            ("kernel.pins", Level::Note, "erases"),
            ("realtime.group", Level::Warning, "foreground"),
            ("clock.source", Level::Fine, "arch_sys_counter"),
            ("load.average", Level::Fine, "8 CPUs"),
            ("privilege.capabilities", Level::Fine, "all"),
            ("privilege.tracefs", Level::Note, "not mounted"),
        ],
    );
    assert!(diagnosis.finding("load.debugger").is_none());
}

#[test]
fn a_container_with_a_quota_on_a_virtual_machine() {
    let diagnosis = diagnose("container");
    assert_levels(
        &diagnosis,
        &[
            ("virtual.machine", Level::Note, "QEMU"),
            ("virtual.steal", Level::Warning, "4.23%"),
            // The tightest limit on the way up counts, not the innermost.
            ("virtual.quota", Level::Serious, "1.50 CPUs, by /sys/fs/cgroup/pods/one/cpu.max"),
            ("cpu.smt", Level::Fine, "off"),
            ("kernel.pins", Level::Fine, "survives"),
            ("realtime.throttling", Level::Fine, "off"),
            ("memory.numa", Level::Warning, "2 nodes, balancing on"),
            ("clock.source", Level::Fine, "kvm-clock"),
        ],
    );
    let privileges = diagnosis.finding("privilege.capabilities").expect("looked for");
    // RLIMIT_RTPRIO makes up for CAP_SYS_NICE.
    assert!(!privileges.observed.contains("CAP_SYS_NICE"), "{privileges:#?}");
    assert!(privileges.observed.contains("CAP_NET_ADMIN"), "{privileges:#?}");
}
