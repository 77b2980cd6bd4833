//! `handoff lab bisect` on real repositories: a slow-down that was planted, none, and commits that do not build.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use handoff_testkit::{require, require_tool};
use serde_json::Value;

/// A repository with a commit for each number, the program of which sleeps for so many milliseconds; those
/// without a number do not build.
struct Repository {
    folder: tempfile::TempDir,
}

impl Repository {
    fn new(sleeps: &[Option<u32>]) -> Self {
        let repository = Self { folder: tempfile::tempdir().expect("a folder") };
        std::fs::create_dir(repository.path()).expect("made");
        repository.git(&["init", "-q", "-b", "main"]);
        for (number, sleep) in sleeps.iter().enumerate() {
            let source = sleep.map_or_else(|| "broken".to_owned(), |ms| format!("sleep 0.{ms:03}"));
            repository.write("source", &format!("{source}\n"));
            repository.write("number", &number.to_string());
            repository.git(&["add", "."]);
            repository.git(&["commit", "-q", "-m", &format!("change {number}")]);
            repository.git(&["tag", &format!("v{number}")]);
        }
        repository
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("repository")
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("written");
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = self.git_says(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn git_says(&self, arguments: &[&str]) -> Output {
        let who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
        Command::new("git").args(who).args(arguments).current_dir(self.path()).output().expect("git runs")
    }

    /// None while one is being made: git sees its folder before all that must be in it, and fails.
    fn worktrees(&self) -> Vec<PathBuf> {
        let list = text(&self.git_says(&["worktree", "list", "--porcelain"]).stdout);
        list.lines().filter_map(|line| line.strip_prefix("worktree ")).map(PathBuf::from).collect()
    }

    fn bisect(&self, good: &str, bad: &str, build: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_handoff"));
        command.args(["lab", "bisect", good, bad, "--format", "json", "--cgroup", "never", "--build", build]);
        command.arg("--output").arg(self.folder.path().join("results")).args(more);
        command.arg("--state").arg(self.folder.path().join("state"));
        command.args(["--", "sh", "program"]).current_dir(self.path());
        command.stdin(Stdio::null());
        command.env("TMPDIR", self.folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What a search from `v0` to `main` finds, and its exit status is good. By its own rules a search leaves a commit
    /// out for which two runs of the same arm differ at 1%: that happens by chance, and three searches in a row hardly
    /// ever meet it.
    fn found(&self) -> Value {
        for _ in 0..3 {
            let output = self.bisect("v0", "main", BUILD, &[]).output().expect("handoff runs");
            let found = answer(&output);
            let why = |step: &Value| step["why"].as_str().unwrap_or_default().to_owned();
            let withheld = |step: &Value| why(step).contains("two runs of the same arm differ");
            if !found["steps"].as_array().expect("steps").iter().any(withheld) {
                assert_eq!(output.status.code(), Some(0), "{found:#}{}", text(&output.stderr));
                return found;
            }
        }
        panic!("three searches in a row left a commit out because two runs of the same arm differ");
    }

    /// What must be as it was.
    fn state(&self) -> [String; 4] {
        [
            self.git(&["status", "--porcelain", "--branch"]),
            self.git(&["for-each-ref"]),
            self.git(&["worktree", "list"]),
            std::fs::read_to_string(self.path().join("number")).expect("a file"),
        ]
    }
}

/// Builds the program of a commit; a file of the repository is changed by it, too.
const BUILD: &str =
    "grep -q broken source && { echo the source is broken >&2; exit 1; }; cp source program; echo >>source";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

fn sleeps(count: usize, slow_from: usize, broken: &[usize]) -> Vec<Option<u32>> {
    let sleep = |number: usize| if number >= slow_from { 150 } else { 30 };
    (0..count).map(|number| (!broken.contains(&number)).then(|| sleep(number))).collect()
}

fn nothing_is_left(folder: &Path) {
    let names = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("handoff-bisect-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_planted_slow_down_is_found_and_the_users_tree_is_not_touched() {
    require!(require_tool("git"));
    let repository = Repository::new(&sleeps(12, 8, &[5]));
    repository.write("number", "a change of the user's");
    let before = repository.state();
    let found = repository.found();
    assert_eq!(
        (&found["answer"], &found["commit"]["subject"]),
        (&"first".into(), &"change 8".into()),
        "{found:#}"
    );
    let ratio = found["steps"][0]["ratio"].as_f64().expect("the bad commit's");
    assert!((1.5..6.0).contains(&ratio), "{ratio}");
    assert_eq!(repository.state(), before);
    nothing_is_left(repository.folder.path());

    // All steps are known to --resume, so that nothing is built again.
    let again = repository.bisect("v0", "main", BUILD, &["--resume"]).output().expect("handoff runs");
    assert_eq!(answer(&again)["commit"], found["commit"]);
    let other = repository.bisect("v0", "main", "true", &["--resume"]).output().expect("handoff runs");
    assert!(text(&other.stderr).contains("a search for something else"), "{}", text(&other.stderr));
}

#[test]
fn where_there_is_no_regression_none_is_found() {
    require!(require_tool("git"));
    let repository = Repository::new(&sleeps(6, 99, &[]));
    let output = repository
        .bisect("v0", "v5", BUILD, &["--rounds", "10", "--margin", "0.2"])
        .output()
        .expect("handoff runs");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let found = answer(&output);
    assert!(["no_regression", "not_shown"].contains(&found["answer"].as_str().expect("text")), "{found:#}");
    assert_eq!(found["steps"].as_array().map(Vec::len), Some(1), "nothing is looked for");
}

#[test]
fn commits_that_do_not_build_make_the_answer_a_range() {
    require!(require_tool("git"));
    let repository = Repository::new(&sleeps(8, 4, &[3, 4, 5]));
    let found = repository.found();
    let commits = found["commits"].as_array().unwrap_or_else(|| panic!("{found:#}"));
    let mut subjects: Vec<&str> = commits.iter().filter_map(|commit| commit["subject"].as_str()).collect();
    subjects.sort_unstable();
    assert_eq!(subjects, ["change 3", "change 4", "change 5", "change 6"]);
    let why: Vec<&str> =
        found["steps"].as_array().expect("steps").iter().filter_map(|s| s["why"].as_str()).collect();
    assert!(why.iter().any(|why| why.contains("the source is broken")), "{why:?}");
    nothing_is_left(repository.folder.path());
}

#[test]
fn mistakes_and_a_stop_leave_nothing_behind() {
    require!(require_tool("git"));
    let repository = Repository::new(&sleeps(4, 2, &[0]));
    let before = repository.state();
    let fails = |good: &str, bad: &str, says: &str| {
        let output = repository.bisect(good, bad, BUILD, &[]).output().expect("handoff runs");
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(says), "{}", text(&output.stderr));
        assert_eq!(repository.state(), before);
    };
    fails("v0", "v3", "does not build (exit status: 1), and without it nothing can be compared");
    fails("v3", "v1", "is no ancestor of");
    fails("v3", "main", "are the same");
    fails("no-such-commit", "main", "`git rev-parse --verify");

    let mut child = repository.bisect("v1", "v3", "sleep 60", &[]).spawn().expect("handoff runs");
    let end = Instant::now() + Duration::from_secs(60);
    while repository.worktrees().len() < 3 {
        assert!(Instant::now() < end, "no worktree was made");
        std::thread::sleep(Duration::from_millis(20));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert_eq!(repository.state(), before);
    nothing_is_left(repository.folder.path());

    // A search that was killed outright leaves its worktrees to the next one.
    let mut child =
        repository.bisect("v1", "v3", "sleep 60 & echo $! >pid; wait", &[]).spawn().expect("runs");
    let end = Instant::now() + Duration::from_secs(60);
    let pid = loop {
        let mut pids = repository
            .worktrees()
            .into_iter()
            .filter_map(|path| std::fs::read_to_string(path.join("pid")).ok());
        if let Some(pid) = pids.find(|pid| pid.ends_with('\n')) {
            break pid.trim().to_owned();
        }
        assert!(Instant::now() < end, "no build began");
        std::thread::sleep(Duration::from_millis(20));
    };
    child.kill().expect("killed");
    child.wait().expect("it ends");
    // The build goes on without it.
    drop(Command::new("kill").arg(&pid).status());
    fails("v0", "v3", "does not build");
    nothing_is_left(repository.folder.path());
}
