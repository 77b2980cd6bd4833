//! SIGKILL at any moment of a run of the lab: nothing stays changed, and no finished round is lost.
//!
//! `HANDOFF_KILLS=200 cargo test -p handoff-cli --test it lab_kills` is the long form.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use handoff_testkit::{repeats, require, require_root, require_tool};
use serde_json::Value;

/// A sysctl that matters to nobody for the moment of a test, and that no other test changes.
const SYSCTL: &str = "/proc/sys/net/core/message_cost";

/// Sets a sysctl, makes a control group, counts a tracepoint.
const SETTING: &str = r#"
title = "a sysctl"
[workload]
command = "sleep 0.02"
[baseline]
name = "as it is"
[change]
name = "changed"
sysctl."net.core.message_cost" = 77
proof = [{ counter = "sched:sched_switch", from = "tracepoint", expect = "increases" }]
[metric]
name = "wall"
[rounds]
rounds = 300
cgroup = true
"#;

/// Makes a pair of network namespaces with veth and a queue in each run.
const NAMESPACES: &str = r#"
title = "namespaces"
[workload]
name = "tcp-stream"
parameters = { seconds = 0.05, link = { path = "namespaces", queue = "tbf", rate_mbit = 1000 } }
[baseline]
name = "one"
[change]
name = "the same"
[metric]
name = "cpu"
[rounds]
rounds = 300
"#;

/// In the environment of everything that a killed run started.
const MARK: &str = "HANDOFF_TEST_KILLED";

struct Lab {
    folder: tempfile::TempDir,
    mark: String,
}

impl Lab {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_handoff"));
        command.arg("lab").arg("--state").arg(self.folder.path().join("state")).args(arguments);
        command.env(MARK, &self.mark);
        command
    }

    fn start(&self, file: &Path, more: &[&str]) -> Child {
        let mut command = self.command(&["run", file.to_str().expect("a path in UTF-8")]);
        command.args(more).arg("--output").arg(self.results());
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("handoff runs")
    }

    fn results(&self) -> PathBuf {
        self.folder.path().join("results")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.command(arguments).args(["--format", "json"]).output().expect("handoff runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("one JSON value")
    }

    fn history(&self) -> Vec<Value> {
        let results = self.results();
        let results = results.to_str().expect("a path in UTF-8");
        match self.results().join("lab.sqlite").is_file() {
            true => self.json(&["history", "--output", results]).as_array().cloned().expect("a list"),
            false => Vec::new(),
        }
    }

    /// Processes of killed runs, which must die with them.
    fn survivors(&self) -> Vec<PathBuf> {
        let wanted = format!("{MARK}={}", self.mark).into_bytes();
        let is_ours = |folder: &PathBuf| {
            let environment = std::fs::read(folder.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
        };
        folders("/proc").into_iter().filter(is_ours).collect()
    }
}

fn folders(path: &str) -> Vec<PathBuf> {
    std::fs::read_dir(path).map_or_else(|_| Vec::new(), |all| all.flatten().map(|one| one.path()).collect())
}

/// What runs could have left on the machine, beside processes.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    sysctl: String,
    /// Control groups of runs whose process is gone.
    groups: BTreeSet<PathBuf>,
    /// Links that are named as those of our namespaces are.
    links: BTreeSet<PathBuf>,
    namespaces: BTreeSet<PathBuf>,
    tracing: [String; 2],
}

impl Machine {
    fn now() -> Self {
        let tops = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
        let is_left = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.strip_prefix("handoff-lab-").is_some_and(|pid| !Path::new("/proc").join(pid).exists())
        };
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self {
            sysctl: read(SYSCTL),
            groups: tops.into_iter().flat_map(folders).filter(is_left).collect(),
            links: folders("/sys/class/net")
                .into_iter()
                .filter(|path| path.join("iflink").exists())
                .collect(),
            namespaces: folders("/run/netns").into_iter().collect(),
            tracing: ["current_tracer", "set_event"].map(|file| read(&format!("/sys/kernel/tracing/{file}"))),
        }
    }
}

/// The kernel takes namespaces and what is in them apart after their last process has gone.
fn soon<T: PartialEq + std::fmt::Debug>(what: &str, wanted: &T, now: impl Fn() -> T) {
    for _ in 0..2000 {
        if now() == *wanted {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    assert_eq!(&now(), wanted, "{what}");
}

#[test]
fn a_kill_at_any_moment_loses_no_finished_round_and_restore_puts_everything_back() {
    require!(require_root());
    require!(require_tool("ip"));
    require!(require_tool("tc"));
    let lab = Lab {
        folder: tempfile::tempdir().expect("a folder"),
        mark: format!("{}-{:?}", std::process::id(), std::time::SystemTime::now()),
    };
    let write = |name: &str, text: &str| {
        let path = lab.folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let files = [write("setting.toml", SETTING), write("namespaces.toml", NAMESPACES)];
    let before = Machine::now();
    let kills: u64 = std::env::var("HANDOFF_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| repeats(40, 20));
    let (mut restored, mut rounds_seen) = (0, 0);
    let mut kill = 0;
    // On until one of them hit a run while its setting was changed.
    while kill < kills || restored == 0 && kill < 5 * kills {
        let mut child = lab.start(&files[usize::from(kill % 2 == 1)], &[]);
        let rounds = || -> u64 { lab.history().iter().filter_map(|run| run["rounds"].as_u64()).sum() };
        if kill % 5 == 4 {
            // On a busy machine hardly one of the others comes to a whole round.
            soon(&format!("a round before kill {kill}"), &true, || rounds() > rounds_seen);
        }
        // Any moment between its first instruction and some rounds.
        std::thread::sleep(Duration::from_micros(40_000 + kill * 7919 * 37 % 400_000));
        child.kill().expect("killed");
        child.wait().expect("reaped");
        let said = lab.json(&["restore"]);
        restored += usize::from(said["written"].as_array().is_some_and(|written| !written.is_empty()));
        soon(&format!("processes after kill {kill}"), &Vec::new(), || lab.survivors());
        soon(&format!("the machine after kill {kill}"), &before, Machine::now);
        let now = rounds();
        assert!(now >= rounds_seen, "kill {kill} lost rounds: {rounds_seen} to {now}");
        rounds_seen = now;
        kill += 1;
    }
    assert!(restored > 0, "no kill hit a run with a setting: the test does not test");
    assert!(rounds_seen > 0, "no run came to a whole round: the test does not test");
    let history = lab.history();
    assert!(history.iter().all(|run| run["verdict"] == Value::Null), "{history:?}");

    // The last run of the first file goes on where it was.
    let had = history.iter().find(|run| run["title"] == "a sysctl").expect("it ran").clone();
    let rounds = || -> u64 {
        let now = lab.history().into_iter().find(|run| run["id"] == had["id"]).expect("it is there");
        now["rounds"].as_u64().expect("a number")
    };
    let mut child = lab.start(&files[0], &["--resume"]);
    for _ in 0..600 {
        std::thread::sleep(Duration::from_millis(100));
        if rounds() > had["rounds"].as_u64().expect("a number") {
            break;
        }
    }
    child.kill().expect("killed");
    child.wait().expect("reaped");
    lab.json(&["restore"]);
    soon("the machine at the end", &before, Machine::now);
    assert!(rounds() > had["rounds"].as_u64().expect("a number"), "no round was added to {had}");
    assert_eq!(lab.history().len(), history.len(), "it is the same run");
}
