//! Devices that are lost in the middle of a task: one behind ssh whose link is cut, and guests that are killed.

use std::time::{Duration, Instant};

use handoff_testkit::net::Net;
use handoff_testkit::sshd::{Place, Sshd};
use handoff_testkit::{require, require_file, require_guest, require_root, require_tool};

use super::rack::{LIMIT, ROUNDS, Rack, Shape, kill, processes_where};

/// Waits for something that is to happen.
fn until(what: &str, rack: &Rack, mut happened: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !happened() {
        assert!(Instant::now() < end, "{what}: {}\n{}", rack.said(), rack.json("status"));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The end of a campaign in which a device was lost.
fn ends_whole(
    rack: &Rack,
    mut worker: std::process::Child,
    before: &[std::collections::BTreeMap<String, Vec<String>>],
) {
    let status = worker.wait().expect("it ends");
    assert!(status.success(), "{status}: {}\n{}", rack.said(), rack.json("status"));
    rack.is_whole(before);
    let tasks = rack.rounds().len();
    // `submit` has collected; once more changes nothing.
    assert_eq!((rack.collected(), &rack.json("collect")["new"]), (tasks, &0.into()));
    let lost = rack.notes().iter().filter(|note| note.contains("\"what\":\"lost: ")).count();
    assert!(lost >= 1, "nothing was lost, so nothing was shown: {:#?}", rack.notes());
}

#[test]
fn a_link_that_is_cut_in_the_middle_of_a_task_loses_no_round_and_doubles_none() {
    require!(require_root());
    for tool in ["ssh", "ip", "flock"] {
        require!(require_tool(tool));
    }
    let sshd = require!(require_file("/usr/sbin/sshd"));
    let folder = tempfile::tempdir().expect("a folder");
    let net = Net::new();
    let place = Place { wrapper: &net.wrapper(), address: net.there(), settings: "" };
    let sshd = Sshd::start_in(place, &sshd, folder.path());
    // The device makes rounds until after the loss is noticed here (three times five seconds without an answer).
    let shape = Shape {
        experiments: 2,
        targets: vec!["address = \"ssh://device\"\nname = \"board\"".to_owned()],
        seconds: 1.5,
    };
    let rack = Rack::new(&shape).with("HANDOFF_SSH_CONFIG", sshd.config());
    let worker = rack.submit();
    let mut before = vec![rack.wait_for(1, &|| rack.said())];
    // The ssh that carries the device's end.
    let carried = || {
        let config = sshd.config().to_string_lossy().into_owned();
        processes_where(&|words| {
            let is_agent = |word: &String| word.contains("campaigns/") && word.contains("agent");
            words.contains(&config) && words.iter().any(is_agent)
        })
    };
    assert_eq!(carried().len(), 1, "the device's end runs: {}", rack.said());
    net.down();
    until("the cut is noticed", &rack, || carried().is_empty());
    before.push(rack.rounds());
    net.up();
    before.push(rack.wait_for(ROUNDS + 1, &|| rack.said()));
    ends_whole(&rack, worker, &before);
    let left = processes_where(&|words| {
        words.iter().any(|word| word == "agent")
            && words.iter().any(|word| word.contains("/.cache/handoff/campaigns/"))
    });
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn a_guest_that_is_killed_in_the_middle_of_a_task_loses_no_round_and_doubles_none() {
    require!(require_root());
    require!(require_guest());
    let shape = Shape { experiments: 2, targets: vec!["address = \"guest\"".to_owned()], seconds: 0.2 };
    let rack = Rack::new(&shape);
    let worker = rack.submit();
    let ours = worker.id().to_string();
    // QEMU is a child of the worker.
    let guests = || {
        let all = processes_where(&|words| words[0].contains("qemu-system-"));
        let is_ours = |pid: &String| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // After the name, which may have spaces: state, parent.
            stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(ours.as_str())
        };
        all.into_iter().filter(is_ours).collect::<Vec<_>>()
    };
    let before = vec![rack.wait_for(2, &|| rack.said())];
    let killed = guests();
    assert_eq!(killed.len(), 1, "{}", rack.said());
    kill(&killed[0]);
    ends_whole(&rack, worker, &before);
    assert_eq!(guests(), Vec::<String>::new(), "nothing is left behind");
}
