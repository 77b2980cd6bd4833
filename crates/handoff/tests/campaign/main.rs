//! A campaign of 40 tasks on the engine `local` and on a real Slurm: the same rounds, whatever is killed in
//! the middle.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use handoff_testkit::slurm::Slurm;
use handoff_testkit::{require, require_root, require_tool};
use serde_json::Value;

/// Devices of the campaign, and experiments on each.
const DEVICES: usize = 8;
const EXPERIMENTS: usize = 5;
const TASKS: usize = DEVICES * EXPERIMENTS;
const ROUNDS: usize = 6;
/// A loaded machine takes long.
const LIMIT: Duration = Duration::from_secs(300);

/// A folder with a campaign, its experiments and its results.
struct Rack {
    folder: tempfile::TempDir,
    slurm: Option<PathBuf>,
}

impl Rack {
    /// `named` writes `[[target]]` with the node; commands count to a figure that is the same everywhere.
    fn new(slurm: Option<&Slurm>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut experiments = Vec::new();
        for number in 1..=EXPERIMENTS {
            let name = format!("e{number}.toml");
            let text = format!(
                "title = \"Count to {number}\"\n[workload]\nfigures = [{{ name = \"count\", regex = \"count=([0-9]+)\" }}]\n\
                 [baseline]\nname = \"far\"\ncommand = [\"sh\", \"-c\", \"echo count=$(({number} * 20))\"]\n\
                 [change]\nname = \"near\"\ncommand = [\"sh\", \"-c\", \"echo count=$(({number} * 10))\"]\n\
                 [metric]\nname = \"count\"\nbetter = \"lower\"\n[rounds]\nrounds = {ROUNDS}\nseed = {number}\n"
            );
            fs::write(folder.path().join(&name), text).expect("written");
            experiments.push(format!("{name:?}"));
        }
        let mut text = format!("name = \"rack\"\nseed = 5\nexperiments = [{}]\n", experiments.join(", "));
        for device in 1..=DEVICES {
            text += &format!(
                "[[target]]\naddress = \"local\"\nname = \"n{device}\"\nnode = \"n{device}\"\nfeatures = [\"loopback\"]\n"
            );
        }
        fs::write(folder.path().join("rack.toml"), text).expect("written");
        Rack { folder, slurm: slurm.map(Slurm::config) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_handoff"));
        command.args(["campaign", subcommand, "rack.toml"]).current_dir(self.folder.path());
        command.env("HANDOFF_LOCAL_FOLDER", self.path("device")).env("XDG_STATE_HOME", self.path("state"));
        command.envs(self.slurm.iter().map(|config| ("SLURM_CONF", config)));
        command.stdin(Stdio::null());
        command
    }

    fn submit(&self) -> Child {
        let mut command = self.command("submit");
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("handoff starts")
    }

    fn json(&self, subcommand: &str) -> Value {
        let output = self.command(subcommand).args(["--format", "json"]).output().expect("handoff runs");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
    }

    fn tasks(&self) -> PathBuf {
        self.path("handoff-results/campaigns/rack/tasks")
    }

    /// The complete rounds of each task, as they are kept.
    fn rounds(&self) -> BTreeMap<String, Vec<String>> {
        let entries = fs::read_dir(self.tasks()).into_iter().flatten().flatten();
        let lines = |path: &Path| {
            let text = fs::read_to_string(path.join("rounds.jsonl")).unwrap_or_default();
            text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::to_owned).collect()
        };
        entries
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), lines(&entry.path())))
            .collect()
    }

    fn kept(&self) -> usize {
        self.rounds().values().map(Vec::len).sum()
    }

    /// Waits until so many rounds are kept, and gives them.
    fn wait_for(&self, count: usize, what: &dyn Fn() -> String) -> BTreeMap<String, Vec<String>> {
        let end = Instant::now() + LIMIT;
        while self.kept() < count {
            assert!(Instant::now() < end, "{} of {count} rounds: {}", self.kept(), what());
            std::thread::sleep(Duration::from_millis(20));
        }
        self.rounds()
    }

    /// Nothing that was there before is gone or another, and no round is there twice.
    fn is_whole(&self, before: &[BTreeMap<String, Vec<String>>]) {
        let now = self.rounds();
        assert_eq!(now.len(), TASKS);
        for (task, rounds) in &now {
            let numbers: Vec<Value> = rounds
                .iter()
                .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["number"].clone())
                .collect();
            assert_eq!(numbers, (1..=ROUNDS).map(Value::from).collect::<Vec<_>>(), "task {task}");
        }
        for (task, rounds) in before.iter().flatten() {
            assert_eq!(now[task][..rounds.len()], rounds[..], "a finished round of task {task} was lost");
        }
    }

    /// What is the same whoever carried it out: for each task the order of its runs and what they counted.
    fn figures(&self) -> BTreeMap<String, Vec<(Value, [Value; 3])>> {
        let of = |line: &String| {
            let round: Value = serde_json::from_str(line).expect("JSON");
            let count = |arm: &str| round["samples"][arm]["values"]["count"].clone();
            (round["order"].clone(), [count("a"), count("again"), count("b")])
        };
        self.rounds().into_iter().map(|(task, rounds)| (task, rounds.iter().map(of).collect())).collect()
    }

    /// What the report says of each comparison, without what depends on the machine.
    fn verdicts(&self) -> Vec<(Value, Value, usize)> {
        let report = self.json("report");
        let points = report["points"].as_array().expect("comparisons");
        let of = |point: &Value| {
            let devices = point["devices"].as_array().map_or(0, Vec::len);
            (point["title"].clone(), point["metric"].clone(), devices)
        };
        points.iter().map(of).collect()
    }

    /// Runs in the store, each with all of its rounds.
    fn collected(&self) -> usize {
        let output = Command::new(env!("CARGO_BIN_EXE_handoff"))
            .args(["lab", "history", "--format", "json"])
            .current_dir(self.folder.path())
            .output()
            .expect("handoff runs");
        let runs: Value = serde_json::from_slice(&output.stdout).expect("a list");
        let runs = runs.as_array().expect("a list");
        assert!(runs.iter().all(|run| run["rounds"] == ROUNDS), "{runs:?}");
        runs.len()
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Processes with this word among their arguments, and with this folder in one of them.
fn processes(word: &str, folder: &Path) -> Vec<String> {
    let folder = folder.to_string_lossy().into_owned();
    let is_it = |pid: &String| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<String> =
            line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        words.iter().any(|one| one == word) && words.iter().any(|one| one.starts_with(&folder))
    };
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    let pids = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(is_it).collect()
}

fn kill(pid: &str) {
    // It may have ended by now.
    drop(Command::new("kill").args(["-KILL", pid]).stderr(Stdio::null()).status());
}

#[test]
fn both_engines_finish_with_equal_results_whatever_is_killed() {
    require!(require_root());
    for tool in ["flock", "slurmctld", "slurmd", "sbatch"] {
        require!(require_tool(tool));
    }
    let here = local();
    let there = on_slurm();
    assert_eq!(here.figures(), there.figures(), "the same rounds in the same order");
    assert_eq!(here.verdicts(), there.verdicts());
}

/// The engine `local`, whose worker is killed twice, and a device's end once.
fn local() -> Rack {
    let rack = Rack::new(None);
    let mut before = Vec::new();
    for goal in [TASKS, 2 * TASKS] {
        let mut worker = rack.submit();
        before.push(rack.wait_for(goal, &|| "the worker makes no rounds".to_owned()));
        worker.kill().expect("it runs");
        worker.wait().expect("it ended");
    }
    let mut worker = rack.submit();
    before.push(rack.wait_for(3 * TASKS, &|| "the worker makes no rounds".to_owned()));
    processes("device", &rack.path("device")).iter().for_each(|pid| kill(pid));
    let status = worker.wait().expect("it ends");
    assert!(status.success(), "{status}: {}", rack.json("status"));
    rack.is_whole(&before);
    // `submit` has collected; once more changes nothing.
    assert_eq!(rack.json("collect")["new"], 0);
    assert_eq!(rack.collected(), TASKS);
    assert_eq!(processes("device", &rack.path("device")), Vec::<String>::new(), "nothing is left behind");
    rack
}

/// Slurm, with a worker, the daemon of a node and the controller killed.
fn on_slurm() -> Rack {
    let folder = tempfile::tempdir().expect("a folder");
    let mut slurm = Slurm::start(folder.path(), DEVICES);
    let rack = Rack::new(Some(&slurm));
    let submitted = rack.command("submit").args(["--engine", "slurm"]).output().expect("handoff runs");
    assert!(submitted.status.success(), "{}", text(&submitted));
    let again = rack.command("submit").args(["--engine", "slurm"]).output().expect("handoff runs");
    assert!(text(&again).contains("nothing is left that Slurm does not have"), "{}", text(&again));
    let mut before = vec![rack.wait_for(TASKS, &|| slurm.log())];
    let workers = processes("task", &rack.path("handoff-results"));
    workers.iter().take(1).for_each(|pid| kill(pid));
    before.push(rack.wait_for(2 * TASKS, &|| slurm.log()));
    slurm.kill_node(3);
    slurm.kill_controller();
    before.push(rack.wait_for(3 * TASKS, &|| slurm.log()));
    // Slurm waits two minutes before it starts a task again, and this may happen to one task twice.
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
        std::thread::sleep(Duration::from_millis(500));
    }
    rack.is_whole(&before);
    assert_eq!(rack.json("collect")["new"], TASKS);
    assert_eq!(rack.json("collect")["new"], 0);
    assert_eq!(rack.collected(), TASKS);
    rack
}

#[test]
fn a_campaign_that_is_told_to_stop_goes_on_later() {
    require!(require_tool("flock"));
    let rack = Rack::new(None);
    let mut worker = rack.submit();
    let before = rack.wait_for(ROUNDS, &|| "the worker makes no rounds".to_owned());
    drop(Command::new("kill").args(["-TERM", &worker.id().to_string()]).status());
    let status = worker.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert_eq!(processes("device", &rack.path("device")), Vec::<String>::new(), "nothing is left behind");
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
}
