//! A whole process is moved, however fast it makes threads, and put back.

use handoff_placement::{CpuSet, Pin, Scope, Tid, affinity, process};
use handoff_testkit::{require, require_cpus};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

/// Re-runs this test binary as the process to be moved: see [`spawner_main`].
fn victim(mode: &str) -> (Child, Tid) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "whole_process::spawner_main"])
        .env("HANDOFF_TEST_SPAWN", mode)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Tid::new(child.id() as i32).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("spawning")));
    (child, pid)
}

fn finish(mut child: Child) {
    child.stdin.take().unwrap().write_all(b"end\n").unwrap();
    child.wait().unwrap();
}

/// In the child only: makes 200 threads that make one each, in a hurry, and holds them all.
#[test]
#[ignore = "a process of another test"]
fn spawner_main() {
    let Some(mode) = std::env::var_os("HANDOFF_TEST_SPAWN") else { return };
    println!("spawning");
    let hold = || std::thread::park();
    if mode == "storm" {
        for _ in 0..200 {
            std::thread::spawn(move || {
                std::thread::spawn(hold);
                hold();
            });
        }
    }
    std::io::stdin().read_line(&mut String::new()).unwrap();
    std::process::exit(0);
}

#[test]
fn none_of_200_threads_born_meanwhile_escapes() {
    require!(require_cpus(2));
    let (child, pid) = victim("storm");
    let one = CpuSet::of(affinity(pid).unwrap().first().unwrap());
    let pin = Pin::apply(Scope::Process, pid, &one).unwrap();
    assert_eq!(pin.granted(), &one);
    // The storm goes on: all of its 401 threads must be, and stay, where the process was put.
    let mut threads = Vec::new();
    for _ in 0..2000 {
        threads = process::threads_of(pid).unwrap();
        if threads.len() >= 401 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(threads.len() >= 401, "only {} threads came", threads.len());
    let escaped: Vec<Tid> = threads.into_iter().filter(|&tid| affinity(tid).unwrap() != one).collect();
    assert!(escaped.is_empty(), "{escaped:?}");
    assert!(pin.lost().unwrap().is_empty());
    finish(child);
}

#[test]
fn restoring_gives_every_thread_its_mask_back() {
    require!(require_cpus(2));
    let (child, pid) = victim("storm");
    let before = affinity(pid).unwrap();
    let mut pin = Pin::apply(Scope::Process, pid, &CpuSet::of(before.first().unwrap())).unwrap();
    assert!(pin.restore() > 0);
    let masks: Vec<CpuSet> =
        process::threads_of(pid).unwrap().into_iter().filter_map(|tid| affinity(tid).ok()).collect();
    assert!(masks.iter().all(|mask| *mask == before), "{masks:?}");
    finish(child);
}

#[test]
fn a_lost_pin_is_noticed_told_and_applied_again() {
    require!(require_cpus(2));
    let (child, pid) = victim("quiet");
    let all = affinity(pid).unwrap();
    let one = CpuSet::of(all.first().unwrap());
    let mut pin = Pin::apply(Scope::Process, pid, &one).unwrap();
    handoff_placement::set_affinity(pid, &all).unwrap();
    let lost = pin.lost().unwrap();
    assert_eq!(lost.len(), 1);
    assert_eq!((lost[0].tid, &lost[0].found), (pid, &all));
    assert!(lost[0].to_string().contains("set its mask"), "{}", lost[0]);
    pin.reapply().unwrap();
    assert_eq!(affinity(pid).unwrap(), one);
    assert!(pin.lost().unwrap().is_empty());
    finish(child);
    assert!(pin.lost().is_err(), "a process that ended is not a lost pin");
}

#[test]
fn a_move_between_cpusets_is_told_as_the_cause() {
    require!(handoff_testkit::require_root());
    require!(require_cpus(2));
    let (child, pid) = victim("quiet");
    let all = affinity(pid).unwrap();
    let second = CpuSet::of(all.iter().nth(1).unwrap());
    let name = format!("handoff-test-move-{}", std::process::id());
    let limits = handoff_placement::Limits { cpus: Some(second.clone()), ..Default::default() };
    let group = require!(
        handoff_placement::ControlGroup::create(&name, &limits).map_err(|e| format!("needs cpusets: {e}"))
    );
    let pin = Pin::apply(Scope::Process, pid, &CpuSet::of(all.first().unwrap())).unwrap();
    group.take(pid).unwrap();
    let lost = pin.lost().unwrap();
    assert!(lost.iter().all(|lost| lost.found == second), "{lost:?}");
    assert!(lost[0].to_string().contains("moved to the cpuset"), "{}", lost[0]);
    finish(child);
}

#[test]
fn an_impossible_pin_leaves_everything_as_it_was() {
    let (child, pid) = victim("quiet");
    let before = affinity(pid).unwrap();
    assert!(Pin::apply(Scope::Process, pid, &CpuSet::of(5000)).is_err());
    assert_eq!(affinity(pid).unwrap(), before);
    finish(child);
}

#[test]
fn a_shortfall_is_granted_and_explained() {
    let (child, pid) = victim("quiet");
    let first = affinity(pid).unwrap().first().unwrap();
    let pin = Pin::apply(Scope::Process, pid, &CpuSet::from_iter([first, 5000])).unwrap();
    assert_eq!(pin.granted(), &CpuSet::of(first));
    assert!(pin.shortfall().unwrap().contains("5000 is not online"));
    finish(child);
}
