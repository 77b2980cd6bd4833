//! Campaigns whatever is killed in the middle: 40 tasks on the engine `local` and on a real Slurm, and smaller
//! ones behind ssh and in guests. They are one program, so that the short ones run while Slurm waits.

mod export;
mod links;
mod rack;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use handoff_testkit::slurm::{Slurm, documented_nodes};
use handoff_testkit::{require, require_root, require_tool};

use rack::{LIMIT, ROUNDS, Rack, Shape, kill, processes, text};

/// Devices of the campaign, and experiments on each.
const DEVICES: usize = 8;
const EXPERIMENTS: usize = 5;
const TASKS: usize = DEVICES * EXPERIMENTS;

/// 40 tasks on eight devices, which are all this machine: the nodes of the documented Slurm.
fn forty() -> Rack {
    let device = |node: &String| {
        let features = if node.starts_with("board") { "arm64" } else { "x86_64" };
        let gres = if node.starts_with("hub") { "gres = \"adb:pixel:1\"" } else { "" };
        format!(
            "address = \"local\"\nname = \"{node}\"\nnode = \"{node}\"\nfeatures = [\"{features}\"]\n{gres}"
        )
    };
    let targets: Vec<String> = documented_nodes().iter().map(device).collect();
    assert_eq!(targets.len(), DEVICES);
    Rack::new(&Shape { experiments: EXPERIMENTS, targets, seconds: 0.0 })
}

#[test]
fn both_engines_finish_with_equal_results_whatever_is_killed() {
    require!(require_root());
    for tool in ["flock", "setpriv", "munged", "slurmctld", "slurmd", "sbatch"] {
        require!(require_tool(tool));
    }
    let here = local();
    let there = on_slurm();
    assert_eq!(here.figures(), there.figures(), "the same rounds in the same order");
    assert_eq!(here.verdicts(), there.verdicts());
}

/// The engine `local`, whose worker is killed twice, and a device's end once.
fn local() -> Rack {
    let rack = forty();
    let mut before = Vec::new();
    for goal in [TASKS, 2 * TASKS] {
        let mut worker = rack.submit();
        before.push(rack.wait_for(goal, &|| "the worker makes no rounds".to_owned()));
        worker.kill().expect("it runs");
        worker.wait().expect("it ended");
    }
    let mut worker = rack.submit();
    before.push(rack.wait_for(3 * TASKS, &|| "the worker makes no rounds".to_owned()));
    processes("agent", &rack.path("device")).iter().for_each(|pid| kill(pid));
    let status = worker.wait().expect("it ends");
    assert!(status.success(), "{status}: {}", rack.json("status"));
    rack.is_whole(&before);
    // `submit` has collected; once more changes nothing.
    assert_eq!(rack.json("collect")["new"], 0);
    assert_eq!(rack.collected(), TASKS);
    assert_eq!(processes("agent", &rack.path("device")), Vec::<String>::new(), "nothing is left behind");
    rack
}

/// Slurm, with a worker, the daemon of a node and the controller killed.
fn on_slurm() -> Rack {
    let folder = tempfile::tempdir().expect("a folder");
    let mut slurm = Slurm::start(folder.path(), Path::new(env!("CARGO_BIN_EXE_handoff")));
    let rack = forty().with("SLURM_CONF", slurm.config());
    let submitted = rack.command("submit").args(["--engine", "slurm"]).output().expect("handoff runs");
    assert!(submitted.status.success(), "{}", text(&submitted));
    let again = rack.command("submit").args(["--engine", "slurm"]).output().expect("handoff runs");
    assert!(text(&again).contains("nothing is left that Slurm does not have"), "{}", text(&again));
    let mut before = vec![rack.wait_for(TASKS, &|| slurm.log())];
    let workers = processes("task", &rack.path("handoff-results"));
    workers.iter().take(1).for_each(|pid| kill(pid));
    before.push(rack.wait_for(2 * TASKS, &|| slurm.log()));
    slurm.kill_node(2);
    slurm.kill_controller();
    before.push(rack.wait_for(3 * TASKS, &|| slurm.log()));
    // Slurm waits before it starts a task again, and this may happen to one task twice.
    let end = Instant::now() + 2 * LIMIT;
    loop {
        let status = rack.json("status");
        assert_eq!(status["failed"], 0, "{status:#}");
        if status["done"] == TASKS {
            break;
        }
        let queue = || slurm.ask("squeue", &["--array"]);
        assert!(Instant::now() < end, "{status:#}\n{}\n{}", queue(), slurm.log());
        slurm.mend();
        std::thread::sleep(Duration::from_secs(5));
    }
    rack.is_whole(&before);
    // Each start of a task was audited before and after; the last epilog may still run.
    for kind in ["before-", "after-"] {
        let sound = |text: &String| serde_json::from_str::<serde_json::Value>(text).is_ok();
        while slurm.audits(kind).iter().filter(|text| sound(text)).count() < TASKS {
            assert!(Instant::now() < end, "{kind}: {:?}", slurm.audits(kind));
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    assert_eq!(rack.json("collect")["new"], TASKS);
    assert_eq!(rack.json("collect")["new"], 0);
    assert_eq!(rack.collected(), TASKS);
    is_as_simulated(&rack);
    rack
}

/// Compares a campaign on eight nodes with what the model says of it from recorded noise.
fn is_as_simulated(rack: &Rack) {
    let noise = concat!(env!("CARGO_MANIFEST_DIR"), "/../handoff-lab/tests/data/aa_noise.jsonl");
    let arguments = ["--noise", noise, "--metric", "hb", "--connect-seconds", "0"];
    let told = rack.command("simulate").args(arguments).output().expect("handoff runs");
    eprintln!("{}", text(&told));
    let output =
        rack.command("simulate").args(arguments).args(["--format", "json"]).output().expect("handoff runs");
    let model: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let real = &model["real"];
    assert_eq!((&model["tasks"], &real["tasks"]), (&TASKS.into(), &TASKS.into()), "{model:#}");
    assert_eq!(model["rounds"].as_f64(), Some((TASKS * ROUNDS) as f64), "{model:#}");
    assert_eq!(real["rounds"], TASKS * ROUNDS, "{model:#}");
    // No daemon is killed in the model; starts are known to a second.
    let (least, real) = (model["wall_seconds"][0].as_f64(), real["wall_seconds"].as_f64());
    assert!(least.zip(real).is_some_and(|(least, real)| least <= real + 2.0), "{model:#}");
}

#[test]
fn a_campaign_that_is_told_to_stop_goes_on_later() {
    require!(require_tool("flock"));
    let rack = forty();
    let mut worker = rack.submit();
    let before = rack.wait_for(ROUNDS, &|| "the worker makes no rounds".to_owned());
    drop(Command::new("kill").args(["-TERM", &worker.id().to_string()]).status());
    let status = worker.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert_eq!(processes("agent", &rack.path("device")), Vec::<String>::new(), "nothing is left behind");
    let stopped = rack.json("status");
    assert_eq!((&stopped["running"], &stopped["failed"]), (&0.into(), &0.into()), "{stopped}");
    let status =
        rack.command("submit").stdout(Stdio::null()).stderr(Stdio::null()).status().expect("it runs");
    assert!(status.success());
    rack.is_whole(&[before]);
    let report = rack.command("report").output().expect("handoff runs");
    assert!(text(&report).contains("40 of 40 tasks have a result"), "{}", text(&report));
    let page = fs::read_to_string(rack.path("handoff-results/campaigns/rack/report.html")).expect("a page");
    assert!(page.contains("<svg") && page.contains("Count to 5"));
    collects_whole_tasks(&rack);
    let chromium = require!(require_tool("chromium"));
    crate::browser::look(&chromium, "campaign", &page);
}

/// A `collect` that is killed at any moment leaves all or nothing of a task in the store.
fn collects_whole_tasks(rack: &Rack) {
    let store = rack.path("handoff-results/lab.sqlite");
    fs::remove_file(&store).expect("it is there");
    let mut new = 0;
    for pause in (0..).map(|step| Duration::from_millis(10 + 7 * step)) {
        let mut collect = rack.command("collect").stdout(Stdio::null()).spawn().expect("handoff starts");
        std::thread::sleep(pause);
        collect.kill().expect("it is ours");
        let whole = collect.wait().expect("it ended").success();
        // Each run that is there has all of its rounds.
        let there = if store.is_file() { rack.collected() } else { 0 };
        assert!((new..=TASKS).contains(&there), "{new}, then {there}");
        new = there;
        if whole {
            break;
        }
    }
    assert_eq!(new, TASKS);
    assert_eq!(rack.json("collect")["known"], TASKS);
}
