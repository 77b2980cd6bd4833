//! `handoff exec` and `handoff pin` do what they say, to real processes.

use std::io::{BufRead as _, Read as _, Write as _};
use std::process::{Command, Output, Stdio};

use handoff_ipc::servicemanager::ServiceOptions;
use handoff_placement::{CpuSet, IoPriority, Priority, Tid, affinity};
use handoff_testkit::{require, require_cpus, require_realtime, require_root};

fn handoff(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_handoff")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a shell script under `handoff exec` with options; gives what it printed.
fn exec(options: &[&str], script: &str) -> String {
    let output = handoff(&[&["exec"], options, &["--", "sh", "-c", script]].concat());
    assert!(output.status.success(), "{options:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// A process to place, ended when the value is dropped.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("120").spawn().unwrap())
    }

    fn tid(&self) -> Tid {
        Tid::new(self.0.id() as i32).unwrap()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

const MASK: &str = "grep Cpus_allowed_list /proc/self/status | cut -f2";

#[test]
fn exec_gives_cpus_policy_nice_and_io() {
    require!(require_root());
    require!(require_realtime());
    let cpu = affinity(Tid::current()).unwrap().first().unwrap().to_string();
    assert_eq!(exec(&["--cpus", &cpu], MASK).trim(), cpu);
    // Fields 40 and 41 of stat are real-time priority and policy; 19 is nice.
    let fields = "set -- $(cut -d')' -f2 /proc/$$/stat); echo $39 ${17} ${38} ${39}";
    let stat = exec(&["--policy", "fifo:3"], fields);
    assert!(stat.trim().ends_with("3 1"), "{stat}");
    let stat = exec(&["--nice", "-7"], fields);
    assert!(stat.contains(" -7 "), "{stat}");
    // Without a group of its own, the command takes the place of `handoff`, number and all.
    let child = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["exec", "--io", "idle", "--", "sleep", "120"])
        .spawn();
    let sleeper = Sleeper(child.unwrap());
    wait_for("the I/O priority", || IoPriority::of(sleeper.tid()).unwrap() == IoPriority::Idle);
}

#[test]
fn exec_gives_the_status_of_the_command() {
    let status = |arguments: &[&str]| handoff(arguments).status.code();
    assert_eq!(status(&["exec", "--cpus", "all", "--", "sh", "-c", "exit 7"]), Some(7));
    assert_eq!(status(&["exec", "--cpus", "all", "--", "/no/such/program"]), Some(127));
    assert_eq!(status(&["exec", "--cpus", "all", "--", "/etc/passwd"]), Some(126));
}

#[test]
fn a_quota_is_a_group_of_its_own_that_goes_away() {
    require!(require_root());
    let probe = handoff(&["exec", "--quota", "0.5", "--", "true"]);
    if !probe.status.success() {
        handoff_testkit::skip(
            handoff_testkit::test_name!(),
            &format!("needs cgroups: {}", text(&probe.stderr)),
        );
        return;
    }
    let script = "grep -hE '(:cpu:|:cpu,|^0::)' /proc/self/cgroup";
    let groups = exec(&["--quota", "0.5", "--weight", "50"], script);
    let group = groups.lines().find_map(|line| line.rsplit_once("/handoff-")).map(|(_, pid)| pid.to_owned());
    let group = format!("handoff-{}", group.unwrap_or_else(|| panic!("not in a group: {groups}")));
    for top in ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"] {
        assert!(!std::path::Path::new(top).join(&group).exists(), "{top}/{group} was left behind");
    }
    let killed = handoff(&["exec", "--quota", "0.5", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.status.code(), Some(128 + 9), "as a shell reports it");
}

#[test]
fn pin_moves_every_thread_and_shows_it() {
    require!(require_cpus(2));
    let sleeper = Sleeper::new();
    let pid = sleeper.tid().to_string();
    let last = affinity(sleeper.tid()).unwrap().iter().last().unwrap();
    let output = handoff(&["pin", &pid, "--cpus", &last.to_string(), "--nice", "5", "--io", "be:6"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(affinity(sleeper.tid()).unwrap(), CpuSet::of(last));
    assert_eq!(Priority::of(sleeper.tid()).unwrap(), Priority::other(5));
    assert_eq!(IoPriority::of(sleeper.tid()).unwrap(), IoPriority::BestEffort(6));
    let shown = text(&output.stdout);
    assert!(shown.contains("sleep") && shown.contains("other:5") && shown.contains("be:6"), "{shown}");
    let json: serde_json::Value =
        serde_json::from_slice(&handoff(&["pin", &pid, "--format", "json"]).stdout).unwrap();
    assert_eq!(json[0]["cpus"], last.to_string());
}

#[test]
fn a_watched_pin_is_repaired_and_given_back() {
    require!(require_cpus(2));
    let sleeper = Sleeper::new();
    let all = affinity(sleeper.tid()).unwrap();
    let one = CpuSet::of(all.first().unwrap());
    let mut watcher = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["pin", &sleeper.tid().to_string(), "--cpus", &one.to_string(), "--watch", "--every", "20"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(watcher.stderr.take().unwrap());
    // Disturbed before that, it would be placed again as part of the placement.
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("watching"), "{line}");
    assert_eq!(affinity(sleeper.tid()).unwrap(), one);
    handoff_placement::set_affinity(sleeper.tid(), &all).unwrap();
    wait_for("the repair", || affinity(sleeper.tid()).unwrap() == one);
    let pid = rustix::process::Pid::from_child(&watcher);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    watcher.wait().unwrap();
    assert_eq!(affinity(sleeper.tid()).unwrap(), all, "given back");
    assert!(rest.contains("lost: thread") && rest.contains("applied again"), "{rest}");
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    for _ in 0..3000 {
        if done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{what} did not come within 30 seconds");
}

#[test]
fn several_processes_are_placed_all_or_none() {
    require!(require_cpus(2));
    let (first, second) = (Sleeper::new(), Sleeper::new());
    let before = affinity(first.tid()).unwrap();
    let gone = {
        let sleeper = Sleeper::new();
        sleeper.tid().to_string()
    };
    let cpu = before.first().unwrap().to_string();
    let (a, b) = (first.tid().to_string(), second.tid().to_string());
    let output = handoff(&["pin", &a, &gone, &b, "--cpus", &cpu]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(&format!("no thread {gone}")), "{}", text(&output.stderr));
    assert_eq!(affinity(first.tid()).unwrap(), before);
    assert_eq!(affinity(second.tid()).unwrap(), before);
}

#[test]
fn throttling_that_is_off_refuses_real_time() {
    require!(require_root());
    // Seen from a mount namespace of its own, the sysctl reads -1; the machine keeps its own.
    let unshare = require!(handoff_testkit::require_tool("unshare"));
    let folder = tempfile::tempdir().unwrap();
    let fake = folder.path().join("off");
    std::fs::write(&fake, "-1\n").unwrap();
    let script = format!(
        "mount --bind {} /proc/sys/kernel/sched_rt_runtime_us && exec {} exec --policy fifo:1 -- true",
        fake.display(),
        env!("CARGO_BIN_EXE_handoff")
    );
    let output = Command::new(unshare).args(["--mount", "sh", "-c", &script]).output().unwrap();
    let said = text(&output.stderr);
    if said.contains("mount:") || said.contains("unshare:") {
        handoff_testkit::skip(handoff_testkit::test_name!(), &format!("needs mount namespaces: {said}"));
        return;
    }
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("throttling is off") && said.contains("--allow-rt-lockup"), "{said}");
}

#[test]
fn what_a_pin_that_is_killed_had_placed_gets_back_what_it_had() {
    require!(require_root());
    require!(require_cpus(2));
    let sleeper = Sleeper::new();
    let tid = sleeper.tid();
    let (before, nice) = (affinity(tid).unwrap(), Priority::of(tid).unwrap());
    let one = CpuSet::of(before.first().unwrap());
    let pin = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["pin", &tid.to_string(), "--cpus", &one.to_string(), "--nice", "7", "--watch"])
        .stderr(Stdio::null())
        .spawn();
    let mut pin = Sleeper(pin.unwrap());
    let is_placed = || affinity(tid).unwrap() == one && Priority::of(tid).unwrap().nice == 7;
    wait_for("the placement", is_placed);
    // What others left in root's folder is no matter of this test.
    handoff(&["lab", "restore"]);
    assert!(is_placed(), "one that runs is left alone");
    pin.0.kill().unwrap();
    pin.0.wait().unwrap();
    handoff(&["lab", "restore"]);
    // Another test may have been the first to put it back.
    wait_for("what it had", || affinity(tid).unwrap() == before && Priority::of(tid).unwrap() == nice);
}

#[test]
fn the_group_of_an_exec_that_is_killed_is_removed_and_its_command_goes_on() {
    require!(require_root());
    let exec = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["exec", "--weight", "50", "--", "sleep", "120"])
        .stderr(Stdio::piped())
        .spawn();
    let mut exec = Sleeper(exec.unwrap());
    let root = handoff_placement::Root::host();
    let group = |tid: Tid| handoff_placement::cgroup::group_of(&root, tid, "cpu").map(|(_, folder)| folder);
    let parent = exec.tid();
    let child = || handoff_placement::process::tree_of(parent).ok().and_then(|tree| tree.get(1).copied());
    let mut waited = 0;
    while child().is_none() && exec.0.try_wait().unwrap().is_none() && waited < 6000 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        waited += 1;
    }
    let Some(child) = child() else {
        let mut said = String::new();
        let _ = exec.0.stderr.take().unwrap().read_to_string(&mut said);
        assert!(said.contains("the control group cannot be made"), "{said}");
        handoff_testkit::skip(handoff_testkit::test_name!(), &format!("needs the cpu control group: {said}"));
        return;
    };
    let ours = group(child).unwrap();
    assert!(ours.ends_with(format!("handoff-{}", exec.tid())), "{}", ours.display());
    exec.0.kill().unwrap();
    exec.0.wait().unwrap();
    // Its command has the journal's lock until it is another program.
    wait_for("the group's end", || {
        handoff(&["lab", "restore"]);
        !ours.exists()
    });
    assert_ne!(group(child), Some(ours), "the command goes on elsewhere");
    let pid = rustix::process::Pid::from_raw(child.as_raw()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// A program of our own name, so that a policy matches nothing else on the machine.
fn named_sleeper(folder: &std::path::Path, name: &str) -> Sleeper {
    let program = folder.join(name);
    let sleep =
        ["/bin/sleep", "/usr/bin/sleep"].iter().find(|path| std::path::Path::new(path).exists()).unwrap();
    std::os::unix::fs::symlink(sleep, &program).unwrap();
    Sleeper(Command::new(program).arg("120").spawn().unwrap())
}

#[test]
fn a_policy_runs_is_killed_and_restored() {
    require!(require_root());
    let folder = tempfile::tempdir().unwrap();
    let name = format!("hpk-{}", std::process::id());
    let sleeper = named_sleeper(folder.path(), &name);
    let nice = || Priority::of(sleeper.tid()).unwrap().nice;
    let (before, pid) = (nice(), sleeper.tid().to_string());
    let file = folder.path().join("policy.toml");
    let rule = |when: &str, profile: &str| {
        format!("[[rule]]\nmatch = {{ comm = \"{name}\" }}\n{when}profile = \"{profile}\"\n")
    };
    let policy = format!(
        "[profile.front]\nnice = 16\n[profile.rest]\nnice = 18\n{}{}",
        rule("when = { foreground = true }\n", "front"),
        rule("", "rest")
    );
    std::fs::write(&file, policy).unwrap();
    let (file, state) = (file.to_str().unwrap(), folder.path().to_str().unwrap());
    let run = || {
        Command::new(env!("CARGO_BIN_EXE_handoff"))
            .args(["policy", "run", file, "--state", state])
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut daemon = run();
    wait_for("the placement", || nice() == 18);
    let told = handoff(&["policy", "foreground", &pid, "--state", state]);
    assert_eq!((text_of(&told).trim(), nice()), ("profile front", 16));
    let explained = text_of(&handoff(&["policy", "explain", file, &pid, "--state", state]));
    assert!(
        explained.contains(": front\n"),
        "the running policy knows that it is in the foreground: {explained}"
    );
    // Also of a process that no rule claims: the file that is asked about may be another one.
    let unclaimed = named_sleeper(folder.path(), &format!("{}-x", &name[..name.len().min(13)]));
    let (other, unclaimed_pid) = (folder.path().join("other.toml"), unclaimed.tid().to_string());
    std::fs::write(&other, "[profile.front]\nnice = 16\n[[rule]]\nmatch = { comm = \"*-x\" }\nwhen = { foreground = true }\nprofile = \"front\"\n").unwrap();
    let ask = || {
        text_of(&handoff(&["policy", "explain", other.to_str().unwrap(), &unclaimed_pid, "--state", state]))
    };
    assert!(ask().contains("not in the foreground"), "{}", ask());
    let told = handoff(&["policy", "foreground", &unclaimed_pid, "--state", state]);
    assert_eq!(text_of(&told).trim(), "no profile");
    assert!(ask().contains(": front\n"), "{}", ask());
    let status = handoff(&["policy", "status", "--state", state, "--format", "json"]);
    assert!(!text_of(&status).contains(&unclaimed_pid), "{}", text_of(&status));
    assert!(text_of(&status).contains(&name), "{}", text_of(&status));
    assert_eq!(handoff(&["policy", "restore", "--state", state]).status.code(), Some(2), "it is running");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert_eq!(nice(), 16, "nobody was there to put it back");
    let restored = handoff(&["policy", "restore", "--state", state]);
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    assert!(text_of(&restored).contains("1 process has back what it had"), "{}", text_of(&restored));
    assert_eq!(nice(), before);
    let mut daemon = run();
    wait_for("the placement", || nice() == 18);
    let process = rustix::process::Pid::from_child(&daemon);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert!(daemon.wait().unwrap().success());
    assert_eq!(nice(), before, "it puts everything back when it is asked to stop");
    let explained = handoff(&["policy", "explain", file, &pid]);
    let explained = text_of(&explained);
    assert!(explained.contains("not in the foreground") && explained.contains("it decides"), "{explained}");
}

/// A process with a service, which does what it is told on standard input; not a test by itself.
#[test]
#[ignore = "a process of another test"]
fn service_main() {
    if std::env::var_os("HANDOFF_TEST_SERVICE").is_none() {
        return;
    }
    let runtime = handoff_ipc::Runtime::private().unwrap();
    let add = |name: &str| {
        let binder = handoff_ipc::Binder::new(Nothing);
        runtime.services().add(name, binder, ServiceOptions::default()).unwrap();
    };
    add("handoff.test.early");
    println!("socket {}", runtime.socket().unwrap().display());
    for word in std::io::stdin().lines() {
        match word.unwrap().as_str() {
            "foreground" => assert_eq!(runtime.set_foreground(true), 1, "one policy listens"),
            "background" => assert_eq!(runtime.set_foreground(false), 1),
            name => add(name),
        }
    }
}

struct Nothing;

impl handoff_ipc::Service for Nothing {
    fn descriptor(&self) -> &str {
        "handoff.test.INothing"
    }

    fn on_transact(&self, transaction: &mut handoff_ipc::Transaction<'_>) -> handoff_ipc::Result<()> {
        Err(transaction.unknown(self.descriptor()))
    }
}

#[test]
fn a_policy_hears_of_services_and_the_foreground_from_the_runtime() {
    require!(require_root());
    let folder = tempfile::tempdir().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "placement::service_main", "--nocapture"])
        .env("HANDOFF_TEST_SERVICE", "1")
        .env("HANDOFF_POLICY", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut service = Sleeper(child.unwrap());
    let mut lines = std::io::BufReader::new(service.0.stdout.take().unwrap()).lines();
    let socket = lines.find_map(|line| line.unwrap().strip_prefix("socket ").map(str::to_owned)).unwrap();
    let rule = |matches: &str, profile: &str| format!("[[rule]]\n{matches}\nprofile = \"{profile}\"\n");
    let policy = [
        "[profile.front]\nnice = 15\n[profile.late]\nnice = 16\n[profile.early]\nnice = 17\n".to_owned(),
        rule("match = { service = \"handoff.test.*\" }\nwhen = { foreground = true }", "front"),
        rule("match = { service = \"handoff.test.late\" }", "late"),
        rule("match = { service = \"handoff.test.early\" }", "early"),
    ];
    let file = folder.path().join("policy.toml");
    std::fs::write(&file, policy.concat()).unwrap();
    let tid = service.tid();
    let nice = || Priority::of(tid).unwrap().nice;
    let mut say = service.0.stdin.take().unwrap();
    let daemon = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["policy", "run", file.to_str().unwrap()])
        .env("HANDOFF_POLICY", folder.path())
        .env("HANDOFF_SOCKET", socket)
        .stdout(Stdio::null())
        .spawn();
    let _daemon = Sleeper(daemon.unwrap());
    wait_for("the service that was there", || nice() == 17);
    for (word, expected) in [("handoff.test.late", 16), ("foreground", 15), ("background", 16)] {
        say.write_all(format!("{word}\n").as_bytes()).unwrap();
        wait_for(word, || nice() == expected);
    }
}

fn text_of(output: &Output) -> String {
    text(&output.stdout)
}

#[test]
fn the_affinity_study_puts_tasks_where_it_says() {
    require!(require_root());
    require!(require_cpus(2));
    let output = handoff(&["affinity-study", "--rounds", "2", "--iterations", "3000000", "--format", "json"]);
    let said = text(&output.stderr);
    if said.contains("no mounted hierarchy") {
        handoff_testkit::skip(handoff_testkit::test_name!(), "needs the cpu control group");
        return;
    }
    assert!(output.status.success(), "{said}");
    let study: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(study["rounds"].as_array().unwrap().len(), 2, "the warm-up is not counted");
    let (slow, fast) = (study["plan"]["slow"].to_string(), study["plan"]["fast"].as_array().unwrap());
    for sample in study["rounds"].as_array().unwrap().iter().flat_map(|round| round.as_array().unwrap()) {
        assert!(sample["task_ms"].as_array().unwrap().iter().all(|ms| ms.as_f64().unwrap() > 0.0));
        for (task, seen) in sample["seen_on"].as_array().unwrap().iter().enumerate() {
            match sample["scenario"].as_str().unwrap() {
                "one-slow-core" => assert_eq!(seen, slow.as_str()),
                "fast-core-each" => assert_eq!(*seen, fast[task].to_string()),
                other => assert_eq!(other, "free"),
            }
        }
    }
    if !study["plan"]["emulated"].is_null() {
        assert!(study["notes"][0].as_str().unwrap().contains("EMULATED"), "{}", study["notes"]);
    }
}
