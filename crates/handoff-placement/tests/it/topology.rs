//! Machines of many kinds, from recorded trees.

use crate::common::machine;
use handoff_placement::{ClassSource, Root, Selector, Topology};

fn read(name: &str) -> Topology {
    Topology::read_under(&machine(name).root).unwrap()
}

fn classes(topology: &Topology) -> Vec<String> {
    topology.classes.iter().map(|class| format!("{} {}", class.name, class.cpus)).collect()
}

fn groups(groups: &[handoff_placement::Group]) -> Vec<String> {
    groups.iter().map(|group| format!("{} {}", group.id, group.cpus)).collect()
}

fn select(name: &str, selector: &str) -> Result<String, String> {
    let machine = machine(name);
    let topology = Topology::read_under(&machine.root).unwrap();
    let selector: Selector = selector.parse().map_err(|e| format!("{e}"))?;
    selector.resolve_under(&topology, &machine.root).map(|cpus| cpus.to_string()).map_err(|e| e.to_string())
}

#[test]
fn a_phone_has_three_classes_two_clusters_and_one_cache() {
    let phone = read("phone-4-3-1");
    assert_eq!(classes(&phone), ["little 0-3", "mid 4-6", "big 7"]);
    assert_eq!(phone.class_source, ClassSource::Capacity);
    assert_eq!(groups(&phone.clusters), ["0 0-3", "1 4-7"]);
    assert_eq!(groups(&phone.llcs), ["0 0-7"]);
    assert_eq!(phone.llcs[0].bytes, Some(2 << 20));
    assert!(phone.is_asymmetric() && phone.nodes.is_empty());
    assert_eq!(phone.class_of(5).unwrap().name, "mid");
}

#[test]
fn a_hybrid_laptop_is_sorted_by_its_core_types() {
    let laptop = read("laptop-hybrid");
    assert_eq!(classes(&laptop), ["little 4-11", "big 0-3"]);
    assert_eq!(laptop.class_source, ClassSource::Hybrid);
    assert_eq!(groups(&laptop.clusters), ["0 4-7", "1 8-11"], "a cluster of one core is not worth a name");
    assert_eq!(laptop.one_per_core().to_string(), "0,2,4-11");
}

#[test]
fn numbers_may_be_scattered_and_cpus_offline() {
    let board = read("board-scattered");
    assert_eq!(classes(&board), ["little 1-2,4-5", "big 0,3"]);
    let offline = board.cpu(5).unwrap();
    assert!(!offline.online && offline.capacity == Some(578) && offline.package.is_none());
    assert_eq!(select("board-scattered", "little").unwrap(), "1-2,4", "an offline CPU is not selected");
    assert_eq!(groups(&board.packages), ["0 0-4"], "by the older file name");
}

#[test]
fn equal_capacities_are_skipped_and_turbo_bins_are_no_classes() {
    let server = read("server-two-nodes");
    assert_eq!(classes(&server), ["all 0-7"]);
    assert_eq!(server.class_source, ClassSource::Uniform);
    assert_eq!(groups(&server.nodes), ["0 0-1,4-5", "1 2-3,6-7"], "a node without CPUs is left out");
    assert_eq!(groups(&server.llcs), ["0 0-1,4-5", "1 2-3,6-7"]);
    assert_eq!(server.possible.len(), 128);
}

#[test]
fn arm_models_are_the_last_resort() {
    let board = read("board-midr");
    assert_eq!(classes(&board), ["little 0-3", "big 4-5"]);
    assert_eq!(board.class_source, ClassSource::Midr);
    assert_eq!(board.cpu(4).unwrap().core_name, Some("Cortex-A72"));
}

#[test]
fn nonsense_in_a_tree_is_left_out() {
    let hostile = read("hostile");
    assert_eq!(hostile.present.to_string(), "0-1", "a CPU beyond 65535 is no CPU");
    assert_eq!(classes(&hostile), ["all 0-1"]);
    assert!(hostile.llcs.is_empty() && hostile.nodes.is_empty());
    assert_eq!(hostile.cpu(0).unwrap().siblings.to_string(), "0");
    assert!(select("hostile", "on:77").unwrap_err().contains("not there"));
}

#[test]
fn a_tree_without_cpus_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let error = Topology::read_under(&Root::at(folder.path())).unwrap_err().to_string();
    assert!(error.contains("cpu/online") && error.contains("/sys mounted"), "{error}");
}

#[test]
fn selectors_mean_what_the_machine_has() {
    for (machine, selector, cpus) in [
        ("phone-4-3-1", "big", "7"),
        ("phone-4-3-1", "mid", "4-6"),
        ("phone-4-3-1", "big,mid", "4-7"),
        ("phone-4-3-1", "!little", "4-7"),
        ("phone-4-3-1", "cluster:1&mid", "4-6"),
        ("phone-4-3-1", "class:0,7", "0-3,7"),
        ("phone-4-3-1", "on:77", "4"),
        ("phone-4-3-1", "beside:77", "0-7"),
        ("laptop-hybrid", "one-per-core&big", "0,2"),
        ("laptop-hybrid", "core:1", "0-1"),
        ("server-two-nodes", "big", "0-7"),
        ("server-two-nodes", "little", "0-7"),
        ("server-two-nodes", "node:1,!isolated", "2-3"),
        ("server-two-nodes", "llc:1", "2-3,6-7"),
        ("server-two-nodes", "package:0&one-per-core", "0-1"),
        ("server-two-nodes", "5000", "5000"),
    ] {
        assert_eq!(select(machine, selector).as_deref(), Ok(cpus), "{selector} on {machine}");
    }
}

#[test]
fn what_a_machine_lacks_is_said_with_what_it_has() {
    for (machine, selector, says) in [
        ("laptop-hybrid", "mid", "which has little (4-11), big (0-3)"),
        ("phone-4-3-1", "class:3", "is not a class of this machine"),
        ("phone-4-3-1", "llc:1", "this machine tells of 0 (0-7)"),
        ("phone-4-3-1", "node:0", "tells of none"),
        ("phone-4-3-1", "isolated", "isolcpus"),
        ("phone-4-3-1", "core:9", "CPUs are 0-7"),
        ("phone-4-3-1", "on:78", "not there"),
        ("phone-4-3-1", "big,!7", "leaves no CPU"),
    ] {
        let error = select(machine, selector).unwrap_err();
        assert!(error.contains(says), "{selector} on {machine}: {error}");
    }
}

#[test]
fn hot_plug_is_noticed() {
    let machine = machine("board-scattered");
    let mut topology = Topology::read_under(&machine.root).unwrap();
    assert!(!topology.refresh(&machine.root).unwrap());
    std::fs::write(machine.root.path("/sys/devices/system/cpu/online"), "0-5\n").unwrap();
    assert!(topology.refresh(&machine.root).unwrap());
    assert_eq!(topology.online.to_string(), "0-5");
}
