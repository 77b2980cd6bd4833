//! Journals of processes that were killed, of other users and of earlier boots.

use super::*;
use crate::{CpuSet, Priority, affinity, set_affinity};
use handoff_testkit::{require, require_root};
use std::io::Write as _;

#[test]
fn a_journal_gives_back_what_was_first_and_survives_a_cut_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = Tid::new(child.id() as i32).unwrap();
    let nice = Priority::of(pid).unwrap();
    {
        let mut journal = Journal::open(folder.path()).unwrap();
        journal.before(&Snapshot::take(pid).unwrap()).unwrap();
        Priority::other(14).apply(pid).unwrap();
        journal.before(&Snapshot::take(pid).unwrap()).unwrap();
        Priority::other(19).apply(pid).unwrap();
        let busy = Journal::open(folder.path()).unwrap_err().to_string();
        assert!(busy.contains("is in use"), "{busy}");
        let mut file = std::fs::OpenOptions::new().append(true).open(folder.path().join(POLICY)).unwrap();
        file.write_all(b"{\"before\":{\"pid\":1,\"sta").unwrap();
    }
    let mut journal = soon(|| Journal::open(folder.path()).ok());
    let recovered = journal.recover().unwrap();
    assert_eq!(recovered.unreadable, 1);
    if crate::can_raise_to(nice) {
        assert_eq!((recovered.restored, Priority::of(pid).unwrap()), (1, nice));
    }
    assert!(journal.recover().unwrap().is_empty(), "it is emptied");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_folder_of_another_user_is_refused() {
    require!(require_root());
    let top = tempfile::tempdir().unwrap();
    let theirs = top.path().join("handoff-0");
    std::fs::create_dir(&theirs).unwrap();
    std::fs::write(theirs.join(POLICY), "").unwrap();
    std::os::unix::fs::chown(&theirs, Some(1001), Some(1001)).unwrap();
    let refused = Journal::open(&theirs).unwrap_err();
    let why = std::error::Error::source(&refused).unwrap().to_string();
    assert!(why.contains("belongs to user 1001"), "{why}");
}

#[test]
fn an_entry_leads_to_no_file_that_is_no_group() {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("cgroup.procs");
    std::fs::write(&victim, "mine").unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = Tid::new(child.id() as i32).unwrap();
    let before = serde_json::to_value(Entry::Before(Box::new(Snapshot::take(pid).unwrap()))).unwrap();
    let mut planted = before;
    for group in planted["before"]["groups"].as_object_mut().unwrap().values_mut() {
        *group = folder.path().to_str().unwrap().into();
    }
    let mut journal = Journal::open(folder.path()).unwrap();
    journal.file.append(&planted).unwrap();
    let recovered = journal.recover().unwrap();
    assert_eq!(recovered.restored + recovered.partly, 1);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    child.kill().unwrap();
    child.wait().unwrap();
}

fn sleeper() -> (std::process::Child, Tid) {
    let child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = Tid::new(child.id() as i32).unwrap();
    (child, pid)
}

/// A child that another test has just forked holds the lock, too, until it is another program.
fn soon<T>(mut done: impl FnMut() -> Option<T>) -> T {
    for _ in 0..3000 {
        if let Some(value) = done() {
            return value;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it was not done within 30 seconds");
}

/// What is given back, as soon as something is.
fn recovered(folder: &Path) -> RecoveryReport {
    soon(|| Some(Journal::recover_left(folder).unwrap().0).filter(|recovered| !recovered.is_empty()))
}

/// Recovers until no journal is left.
fn empties(folder: &Path) {
    soon(|| {
        assert!(Journal::recover_left(folder).unwrap().0.is_empty());
        (std::fs::read_dir(folder).unwrap().count() == 0).then_some(())
    });
}

/// As after a SIGKILL: nothing is given back, and the lock is gone.
fn kill(mut journal: Journal) {
    journal.is_own = false;
}

#[test]
fn what_a_killed_process_placed_gets_back_what_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, pid) = sleeper();
    let before = affinity(pid).unwrap();
    let one = CpuSet::of(before.first().unwrap());
    let mut journal = Journal::start(folder.path()).unwrap();
    journal.before_scope(Scope::Process, pid).unwrap();
    set_affinity(pid, &one).unwrap();
    assert!(Journal::recover_left(folder.path()).unwrap().0.is_empty(), "its process lives");
    assert_eq!(affinity(pid).unwrap(), one);
    kill(journal);
    let recovered = recovered(folder.path());
    assert_eq!((recovered.restored, affinity(pid).unwrap()), (1, before.clone()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    // One that is dropped gives back itself, one that is closed leaves it.
    let mut journal = Journal::start(folder.path()).unwrap();
    journal.before_scope(Scope::Tree, pid).unwrap();
    set_affinity(pid, &one).unwrap();
    drop(journal);
    assert_eq!(affinity(pid).unwrap(), before);
    let mut journal = Journal::start(folder.path()).unwrap();
    journal.before_scope(Scope::Process, pid).unwrap();
    set_affinity(pid, &one).unwrap();
    journal.close().unwrap();
    assert_eq!(affinity(pid).unwrap(), one);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_journal_that_cannot_be_used_keeps_no_other_one_from_being_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, pid) = sleeper();
    for name in ["placement-0-0.journal", "placement-z-0.journal"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let mut journal = Journal::start(folder.path()).unwrap();
    journal.before_scope(Scope::Process, pid).unwrap();
    kill(journal);
    assert_eq!(recovered(folder.path()).restored, 1);
    let (recovered, refused) = Journal::recover_left(folder.path()).unwrap();
    assert!(recovered.is_empty());
    assert_eq!(refused.len(), 2, "{refused:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_threads_beside_one_that_was_placed_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let before = affinity(Tid::current()).unwrap();
    let one = CpuSet::of(before.first().unwrap());
    let (tell, hear) = std::sync::mpsc::channel();
    let (end, wait) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            tell.send(Tid::current()).unwrap();
            let _ = wait.recv();
        });
        let other = hear.recv().unwrap();
        let mut journal = Journal::start(folder.path()).unwrap();
        journal.before_scope(Scope::Thread, other).unwrap();
        set_affinity(other, &one).unwrap();
        // Ours is changed by ourselves meanwhile.
        set_affinity(Tid::current(), &one).unwrap();
        kill(journal);
        assert_eq!(recovered(folder.path()).restored, 1);
        assert_eq!(affinity(other).unwrap(), before);
        assert_eq!(affinity(Tid::current()).unwrap(), one);
        drop(end);
    });
    set_affinity(Tid::current(), &before).unwrap();
}

#[test]
fn a_group_of_a_killed_process_is_removed_and_its_members_go_on() {
    require!(require_root());
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::start(folder.path()).unwrap();
    let limits = Limits { weight: Some(50), ..Limits::default() };
    let name = format!("handoff-test-journal-{}", std::process::id());
    let made = journal.make_group(&name, &limits).map_err(|error| format!("needs control groups: {error}"));
    let group = require!(made);
    let folders: Vec<PathBuf> = group.folders().map(Path::to_owned).collect();
    let (mut child, pid) = sleeper();
    group.take(pid).unwrap();
    group.keep();
    kill(journal);
    assert_eq!(recovered(folder.path()).groups, 1);
    assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
    assert!(ProcessKey::of(pid).is_ok());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A controller of the unified hierarchy that nothing on the machine has turned on.
fn idle_controller() -> std::result::Result<TurnedOn, String> {
    let hierarchies = crate::cgroup::hierarchies(&crate::Root::host());
    let unified = hierarchies.iter().find(|hierarchy| hierarchy.unified).ok_or("needs cgroup v2")?;
    // Not one that another test might turn on or off meanwhile.
    let idle = ["hugetlb", "misc", "rdma"].into_iter().filter(|name| unified.has(name));
    let mut plans = idle.filter_map(|name| TurnedOn::plan(&unified.mount, name));
    plans.next().ok_or_else(|| "needs a v2 controller that is off".to_owned())
}

#[test]
fn a_controller_that_a_killed_process_turned_on_is_turned_off() {
    require!(require_root());
    let plan = require!(idle_controller());
    let subtree = plan.file();
    let before = std::fs::read_to_string(&subtree).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::start(folder.path()).unwrap();
    journal.file.append(&Entry::Controller(plan.clone())).unwrap();
    plan.turn_on().unwrap();
    assert_ne!(std::fs::read_to_string(&subtree).unwrap(), before);
    kill(journal);
    empties(folder.path());
    assert_eq!(std::fs::read_to_string(&subtree).unwrap(), before);
}

#[test]
fn a_controller_that_others_use_by_now_stays_in_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let hierarchy = folder.path().join("group");
    std::fs::create_dir_all(hierarchy.join("child")).unwrap();
    let plan = TurnedOn::plan(&hierarchy, "cpu").unwrap();
    std::fs::write(plan.file(), "cpu").unwrap();
    std::fs::write(hierarchy.join("child/cpu.weight"), "50\n").unwrap();
    let state = folder.path().join("state");
    let mut journal = Journal::start(&state).unwrap();
    journal.file.append(&Entry::Controller(plan.clone())).unwrap();
    journal.close().unwrap();
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1, "whoever comes next tries again");
    Journal::recover_left(&state).unwrap();
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1);
    // Somebody else turned it off.
    std::fs::write(plan.file(), "").unwrap();
    empties(&state);
}

#[test]
fn a_journal_of_an_earlier_boot_is_void() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, pid) = sleeper();
    let before = affinity(pid).unwrap();
    let one = CpuSet::of(before.first().unwrap());
    let mut journal = Journal::start(folder.path()).unwrap();
    journal.before_scope(Scope::Process, pid).unwrap();
    let path = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    kill(journal);
    set_affinity(pid, &one).unwrap();
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap().replace(&boot_id(), "another")).unwrap();
    empties(folder.path());
    assert_eq!(affinity(pid).unwrap(), one);
    assert!(!path.exists());
    // The policy's too, also after it was emptied.
    let mut journal = Journal::open(folder.path()).unwrap();
    for _ in 0..2 {
        journal.before_scope(Scope::Process, pid).unwrap();
        let text = String::from_utf8(journal.file.read().unwrap()).unwrap();
        let path = folder.path().join(POLICY);
        std::fs::write(&path, text.replace(&boot_id(), "another")).unwrap();
        assert!(journal.recover().unwrap().is_empty());
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn only_groups_of_ours_are_removed() {
    for (folder, ours) in [
        ("/sys/fs/cgroup/handoff-policy-x", true),
        ("/sys/fs/cgroup/system.slice", false),
        ("handoff-policy-x", false),
        ("/sys/fs/cgroup/../../home/handoff-policy-x", false),
    ] {
        assert_eq!(is_ours(Path::new(folder)), ours, "{folder}");
    }
}
