//! A campaign in a folder, with what the tests ask of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Rounds of each experiment.
pub(crate) const ROUNDS: usize = 6;
/// A loaded machine takes long.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// What a campaign is made of.
pub(crate) struct Shape {
    /// Experiments on each device.
    pub(crate) experiments: usize,
    /// The devices, as the campaign's file has them: `[[target]]` each.
    pub(crate) targets: Vec<String>,
    /// How long each run of an arm takes, in seconds, at least.
    pub(crate) seconds: f64,
}

/// A folder with a campaign, its experiments and its results.
pub(crate) struct Rack {
    folder: tempfile::TempDir,
    environment: Vec<(&'static str, OsString)>,
    tasks: usize,
}

impl Rack {
    /// Commands count to a figure that is the same everywhere.
    pub(crate) fn new(shape: &Shape) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut experiments = Vec::new();
        let pause = if shape.seconds > 0.0 { format!("sleep {}; ", shape.seconds) } else { String::new() };
        for number in 1..=shape.experiments {
            let name = format!("e{number}.toml");
            let text = format!(
                "title = \"Count to {number}\"\n[workload]\nfigures = [{{ name = \"count\", regex = \"count=([0-9]+)\" }}]\n\
                 [baseline]\nname = \"far\"\ncommand = [\"sh\", \"-c\", \"{pause}echo count=$(({number} * 20))\"]\n\
                 [change]\nname = \"near\"\ncommand = [\"sh\", \"-c\", \"{pause}echo count=$(({number} * 10))\"]\n\
                 [metric]\nname = \"count\"\nbetter = \"lower\"\n[rounds]\nrounds = {ROUNDS}\nseed = {number}\n"
            );
            fs::write(folder.path().join(&name), text).expect("written");
            experiments.push(format!("{name:?}"));
        }
        let mut text = format!("name = \"rack\"\nseed = 5\nexperiments = [{}]\n", experiments.join(", "));
        for target in &shape.targets {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "[[target]]\n{target}");
        }
        fs::write(folder.path().join("rack.toml"), text).expect("written");
        let environment = vec![
            ("HANDOFF_LOCAL_FOLDER", folder.path().join("device").into()),
            ("XDG_STATE_HOME", folder.path().join("state").into()),
            ("HANDOFF_RESULTS", folder.path().join("handoff-results").into()),
        ];
        Rack { folder, environment, tasks: shape.experiments * shape.targets.len() }
    }

    /// With this variable in the environment of every command.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_handoff"));
        command.args(["campaign", subcommand, "rack.toml"]).current_dir(self.folder.path());
        command.envs(self.environment.iter().cloned());
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn submit(&self) -> Child {
        let mut command = self.command("submit");
        let said = fs::File::create(self.path("submit.log")).expect("a file");
        command.stdout(Stdio::null()).stderr(said).spawn().expect("handoff starts")
    }

    /// What the latest [`Rack::submit`] said.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.path("submit.log")).unwrap_or_default()
    }

    pub(crate) fn json(&self, subcommand: &str) -> Value {
        let output = self.command(subcommand).args(["--format", "json"]).output().expect("handoff runs");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
    }

    /// The lines that are whole in a file of each task.
    fn lines(&self, name: &str) -> BTreeMap<String, Vec<String>> {
        let tasks = self.path("handoff-results/campaigns/rack/tasks");
        let entries = fs::read_dir(tasks).into_iter().flatten().flatten();
        let lines = |path: &Path| {
            let text = fs::read_to_string(path.join(name)).unwrap_or_default();
            text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::to_owned).collect()
        };
        entries
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), lines(&entry.path())))
            .collect()
    }

    /// The complete rounds of each task, as they are kept.
    pub(crate) fn rounds(&self) -> BTreeMap<String, Vec<String>> {
        self.lines("rounds.jsonl")
    }

    /// What was written down of all tasks.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.lines("notes.jsonl").into_values().flatten().collect()
    }

    fn kept(&self) -> usize {
        self.rounds().values().map(Vec::len).sum()
    }

    /// Waits until so many rounds are kept, and gives them.
    pub(crate) fn wait_for(&self, count: usize, what: &dyn Fn() -> String) -> BTreeMap<String, Vec<String>> {
        let end = Instant::now() + LIMIT;
        while self.kept() < count {
            assert!(Instant::now() < end, "{} of {count} rounds: {}", self.kept(), what());
            std::thread::sleep(Duration::from_millis(20));
        }
        self.rounds()
    }

    /// Nothing that was there before is gone or another, and no round is there twice.
    pub(crate) fn is_whole(&self, before: &[BTreeMap<String, Vec<String>>]) {
        let now = self.rounds();
        assert_eq!(now.len(), self.tasks);
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
    pub(crate) fn figures(&self) -> BTreeMap<String, Vec<(Value, [Value; 3])>> {
        let of = |line: &String| {
            let round: Value = serde_json::from_str(line).expect("JSON");
            let count = |arm: &str| round["samples"][arm]["values"]["count"].clone();
            (round["order"].clone(), [count("a"), count("again"), count("b")])
        };
        self.rounds().into_iter().map(|(task, rounds)| (task, rounds.iter().map(of).collect())).collect()
    }

    /// What the report says of each comparison, without what depends on the machine.
    pub(crate) fn verdicts(&self) -> Vec<(Value, Value, usize)> {
        let report = self.json("report");
        let points = report["points"].as_array().expect("comparisons");
        let of = |point: &Value| {
            let devices = point["devices"].as_array().map_or(0, Vec::len);
            (point["title"].clone(), point["metric"].clone(), devices)
        };
        points.iter().map(of).collect()
    }

    /// Runs in the store, each with all of its rounds.
    pub(crate) fn collected(&self) -> usize {
        let output = Command::new(env!("CARGO_BIN_EXE_handoff"))
            .args(["lab", "history", "--format", "json"])
            .current_dir(self.folder.path())
            .envs(self.environment.iter().cloned())
            .output()
            .expect("handoff runs");
        let runs: Value = serde_json::from_slice(&output.stdout).expect("a list");
        let runs = runs.as_array().expect("a list");
        assert!(runs.iter().all(|run| run["rounds"] == ROUNDS), "{runs:?}");
        runs.len()
    }
}

pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Processes whose arguments are so.
pub(crate) fn processes_where(is_it: &dyn Fn(&[String]) -> bool) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    let pids = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let words = |pid: &String| -> Vec<String> {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    };
    pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|pid| is_it(&words(pid)))
        .collect()
}

/// Processes with this word among their arguments, and with this folder in one of them.
pub(crate) fn processes(word: &str, folder: &Path) -> Vec<String> {
    let folder = folder.to_string_lossy().into_owned();
    processes_where(&|words| {
        words.iter().any(|one| one == word) && words.iter().any(|one| one.starts_with(&folder))
    })
}

pub(crate) fn kill(pid: &str) {
    // It may have ended by now.
    drop(Command::new("kill").args(["-KILL", pid]).stderr(Stdio::null()).status());
}
