//! A policy in force: it places processes as they come, hears of foreground changes, and puts everything
//! back, also after it was killed.

use handoff_placement::{CpuSet, Pin, Priority, Scope, Tid, affinity, process};
use handoff_placement::{Journal, notice};
use handoff_policy::{Daemon, Event, Options, Policy};
use handoff_testkit::{require, require_cpus, require_root};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A program of our own name, so that rules match nothing else on the machine.
struct Victim(Child);

impl Victim {
    fn new(folder: &Path) -> Self {
        let program = program(folder);
        Self(Command::new(program).arg("120").stdin(Stdio::null()).spawn().unwrap())
    }

    fn tid(&self) -> Tid {
        Tid::new(self.0.id() as i32).unwrap()
    }

    fn nice(&self) -> i8 {
        Priority::of(self.tid()).unwrap().nice
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A link to `sleep` under a name that no other test uses.
pub(crate) fn program(folder: &Path) -> PathBuf {
    let path = folder.join(name(folder));
    if !path.exists() {
        let sleep = ["/bin/sleep", "/usr/bin/sleep"].iter().find(|path| Path::new(path).exists()).unwrap();
        std::os::unix::fs::symlink(sleep, &path).unwrap();
    }
    path
}

pub(crate) fn name(folder: &Path) -> String {
    let unique = folder.file_name().unwrap().to_str().unwrap().trim_start_matches('.');
    format!("hp-{unique}").chars().take(15).collect()
}

pub(crate) fn policy(folder: &Path) -> Policy {
    let name = name(folder);
    Policy::parse(&format!(
        r#"
        [profile.front]
        nice = 16
        [profile.rest]
        nice = 18
        io = "idle"
        [[rule]]
        match = {{ comm = "{name}" }}
        when = {{ foreground = true }}
        profile = "front"
        [[rule]]
        match = {{ comm = "{name}" }}
        profile = "rest"
        "#
    ))
    .unwrap()
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what} did not come within 30 seconds");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs a policy on a thread while `body` runs, then stops it and waits for the end.
pub(crate) fn with_daemon(folder: &Path, policy: Policy, body: impl FnOnce()) -> Vec<Event> {
    let (stop, stopper) = UnixStream::pair().unwrap();
    let events = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let (events, folder_of) = (&events, folder.to_owned());
        let daemon = scope.spawn(move || {
            use std::os::fd::AsFd as _;
            let options = Options {
                folder: folder_of,
                look_around: Duration::from_millis(50),
                verify: Duration::from_millis(50),
            };
            let mut daemon =
                Daemon::new(policy, options, |event| events.lock().unwrap().push(event)).unwrap();
            daemon.run(stop.as_fd()).unwrap();
            daemon.finish().unwrap();
        });
        // Its file is there a moment before it is listened to.
        let listens = || UnixStream::connect(notice::socket(folder)).is_ok();
        wait_for("the socket", || listens() || daemon.is_finished());
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        drop(stopper);
        daemon.join().unwrap();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    events.into_inner().unwrap()
}

#[test]
fn processes_are_placed_as_they_come_and_follow_the_foreground() {
    require!(require_root());
    let folder = tempfile::tempdir().unwrap();
    let early = Victim::new(folder.path());
    let had = early.nice();
    let mut late = None;
    let events = with_daemon(folder.path(), policy(folder.path()), || {
        wait_for("the one that was there", || early.nice() == 18);
        let born = Victim::new(folder.path());
        wait_for("the one that was born", || born.nice() == 18);
        let answer = notice::foreground(folder.path(), early.tid(), true).unwrap();
        assert_eq!((answer.as_str(), early.nice()), ("profile front", 16), "placed before it is answered");
        assert_eq!(born.nice(), 18, "only the one that was told");
        let status = notice::status(folder.path()).unwrap();
        assert!(status.contains("\"front\"") && status.contains("\"rest\""), "{status}");
        notice::foreground(folder.path(), early.tid(), false).unwrap();
        assert_eq!(early.nice(), 18);
        let gone = notice::foreground(folder.path(), Tid::new(i32::MAX).unwrap(), true).unwrap_err();
        assert!(gone.to_string().contains("no thread"), "{gone}");
        late = Some(born);
    });
    assert_eq!((early.nice(), late.unwrap().nice()), (had, had), "everything has back what it had");
    let reasons: Vec<String> = events.iter().map(ToString::to_string).collect();
    assert!(
        reasons.iter().any(|line| line.contains("gives `front`")),
        "each decision has its reason: {reasons:?}"
    );
    assert!(!notice::socket(folder.path()).exists());
}

/// Ends its threads when it is dropped.
struct Load(std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Load {
    /// Three threads for each CPU, so that something waits for one.
    fn new() -> Self {
        use std::sync::atomic::{AtomicBool, Ordering};
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        for _ in 0..3 * std::thread::available_parallelism().unwrap().get() {
            let stop = stop.clone();
            std::thread::spawn(move || while !stop.load(Ordering::Relaxed) {});
        }
        Self(stop)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn cpu_pressure_changes_the_profile() {
    require!(require_root());
    require!(handoff_testkit::require_file("/proc/pressure/cpu"));
    let folder = tempfile::tempdir().unwrap();
    let victim = Victim::new(folder.path());
    let name = name(folder.path());
    let text = format!(
        r#"
        [profile.calm]
        nice = 13
        [profile.pressed]
        nice = 17
        [[rule]]
        match = {{ comm = "{name}" }}
        when = {{ cpu_pressure = {{ above = 2, until = 1 }} }}
        profile = "pressed"
        [[rule]]
        match = {{ comm = "{name}" }}
        profile = "calm"
        "#
    );
    let events = with_daemon(folder.path(), Policy::parse(&text).unwrap(), || {
        wait_for("a placement", || [13, 17].contains(&victim.nice()));
        let _load = Load::new();
        wait_for("the pressure", || victim.nice() == 17);
    });
    let reasons: Vec<String> = events.iter().map(ToString::to_string).collect();
    assert!(reasons.iter().any(|line| line.contains("gives `pressed`")), "{reasons:?}");
}

#[test]
fn threads_are_placed_by_name() {
    require!(require_root());
    require!(require_cpus(2));
    let folder = tempfile::tempdir().unwrap();
    let me = Tid::new(std::process::id() as i32).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "policy_daemon::named_threads_main"])
        .env("HANDOFF_TEST_NAMED", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = Tid::new(child.id() as i32).unwrap();
    let named = |name: &str| {
        process::threads_of(pid).unwrap_or_default().into_iter().find(|tid| {
            std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"))
                .is_ok_and(|comm| comm.trim() == name)
        })
    };
    wait_for("the threads", || named("hpt-render").is_some() && named("hpt-other").is_some());
    let one = CpuSet::of(affinity(me).unwrap().first().unwrap());
    let text = format!(
        "[profile.p]\ncpus = \"{one}\"\n[[rule]]\nmatch = {{ thread = \"hpt-r*\", uid = {} }}\nprofile = \"p\"\n",
        rustix::process::getuid().as_raw()
    );
    let (render, other) = (named("hpt-render").unwrap(), named("hpt-other").unwrap());
    let all = affinity(other).unwrap();
    with_daemon(folder.path(), Policy::parse(&text).unwrap(), || {
        wait_for("the thread", || affinity(render).unwrap() == one);
        assert_eq!(affinity(other).unwrap(), all, "only the one that is named");
    });
    assert_eq!(affinity(render).unwrap(), all);
    drop(child.stdin.take());
    child.wait().unwrap();
}

/// In the child of the test above only.
#[test]
#[ignore = "a process of another test"]
fn named_threads_main() {
    if std::env::var_os("HANDOFF_TEST_NAMED").is_none() {
        return;
    }
    for name in ["hpt-render", "hpt-other"] {
        std::thread::Builder::new().name(name.to_owned()).spawn(std::thread::park).unwrap();
    }
    std::io::stdin().read_line(&mut String::new()).unwrap();
    std::process::exit(0);
}

#[test]
fn a_lost_pin_is_repaired_and_told() {
    require!(require_root());
    require!(require_cpus(2));
    let folder = tempfile::tempdir().unwrap();
    let victim = Victim::new(folder.path());
    let all = affinity(victim.tid()).unwrap();
    let one = CpuSet::of(all.first().unwrap());
    let text = format!(
        "[profile.p]\ncpus = \"{one}\"\n[[rule]]\nmatch = {{ comm = \"{}\" }}\nprofile = \"p\"\n",
        name(folder.path())
    );
    let events = with_daemon(folder.path(), Policy::parse(&text).unwrap(), || {
        // It is answered between two events, so that the placement is complete.
        let pid = victim.tid().to_string();
        wait_for("the pin", || notice::status(folder.path()).unwrap().contains(&pid));
        assert_eq!(affinity(victim.tid()).unwrap(), one);
        Pin::apply(Scope::Process, victim.tid(), &all).unwrap();
        wait_for("the repair", || affinity(victim.tid()).unwrap() == one);
        let counted = || notice::status(folder.path()).unwrap().contains("\"lost_pins\":1");
        wait_for("the loss in the status, which `handoff doctor` reads", counted);
    });
    assert!(events.iter().any(|event| matches!(event, Event::Repaired { .. })), "{events:?}");
    assert_eq!(affinity(victim.tid()).unwrap(), all);
}

#[test]
fn a_killed_daemon_leaves_a_journal_that_puts_everything_back() {
    require!(require_root());
    let folder = tempfile::tempdir().unwrap();
    let victim = Victim::new(folder.path());
    let (had, all) = (victim.nice(), affinity(victim.tid()).unwrap());
    let limits = format!(
        "[profile.p]\ncpus = \"{}\"\nnice = 19\nweight = 50\n[[rule]]\nmatch = {{ comm = \"{}\" }}\nprofile = \"p\"\n",
        all.first().unwrap(),
        name(folder.path())
    );
    std::fs::write(folder.path().join("policy.toml"), limits).unwrap();
    let mut daemon = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "policy_daemon::daemon_main"])
        .env("HANDOFF_TEST_DAEMON", folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the placement", || victim.nice() == 19 || daemon.try_wait().unwrap().is_some());
    let groups = std::fs::read_to_string(format!("/proc/{}/cgroup", victim.tid())).unwrap();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    if !groups.contains("handoff-policy-") {
        handoff_testkit::skip(handoff_testkit::test_name!(), "needs a writable cpu control group");
        return;
    }
    assert_eq!(victim.nice(), 19, "nobody was there to put it back");
    let recovered = Journal::open(folder.path()).unwrap().recover().unwrap();
    assert_eq!((recovered.restored, recovered.partly, recovered.groups), (1, 0, 1), "{recovered}");
    assert_eq!((victim.nice(), affinity(victim.tid()).unwrap()), (had, all));
    let groups = std::fs::read_to_string(format!("/proc/{}/cgroup", victim.tid())).unwrap();
    assert!(!groups.contains("handoff-policy-"), "{groups}");
}

/// In the child of the test above only: runs a policy until it is killed.
#[test]
#[ignore = "a process of another test"]
fn daemon_main() {
    let Some(folder) = std::env::var_os("HANDOFF_TEST_DAEMON").map(PathBuf::from) else { return };
    use std::os::fd::AsFd as _;
    let policy = Policy::parse(&std::fs::read_to_string(folder.join("policy.toml")).unwrap()).unwrap();
    let (stop, _stopper) = UnixStream::pair().unwrap();
    let options = Options { folder, ..Options::default() };
    Daemon::new(policy, options, |_| {}).unwrap().run(stop.as_fd()).unwrap();
}

#[test]
fn applying_once_is_all_or_nothing_and_can_be_put_back() {
    require!(require_root());
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (Victim::new(folder.path()), Victim::new(folder.path()));
    let had = first.nice();
    wait_for("their names", || {
        [&first, &second].iter().all(|victim| {
            process::Status::of(victim.tid()).is_ok_and(|status| status.comm == name(folder.path()))
        })
    });
    let options = Options { folder: folder.path().to_owned(), ..Options::default() };
    let mut daemon = Daemon::new(policy(folder.path()), options.clone(), |_| {}).unwrap();
    assert_eq!(daemon.look_at_all(), 2);
    assert_eq!(daemon.leave().unwrap(), 2);
    assert_eq!((first.nice(), second.nice()), (18, 18), "it stays");
    let recovered = Journal::open(folder.path()).unwrap().recover().unwrap();
    assert_eq!(recovered.restored, 2);
    assert_eq!((first.nice(), second.nice()), (had, had));
}

#[test]
fn two_policies_do_not_fight() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { folder: folder.path().to_owned(), ..Options::default() };
    let _first = Daemon::new(policy(folder.path()), options.clone(), |_| {}).unwrap();
    let second = Daemon::new(policy(folder.path()), options, |_| {}).err().unwrap().to_string();
    assert!(second.contains("is in use"), "{second}");
}
