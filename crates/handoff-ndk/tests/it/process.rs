//! What a process does as a whole: it serves in one thread that polls, ends without clients, ends after mistakes.

use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use handoff_ipc::runtime::SOCKET_VARIABLE;
use handoff_ipc::servicemanager::{
    Manager, NamePattern, Policy, Principal, Rule, ServiceOptions, SocketAccess,
};
use handoff_ipc::{Binder, ParcelService};
use handoff_testkit::{require, require_tool};

use crate::built::{From, Server, Workshop, run};

fn program(workshop: &Workshop) -> PathBuf {
    let nothing = tempfile::tempdir().unwrap();
    workshop.compile_with("process.cpp", From::Ours, nothing.path(), &[])
}

fn command(workshop: &Workshop, program: &Path, what: &[&str]) -> Command {
    let mut command = workshop.command(program);
    command.args(what);
    command
}

#[test]
fn one_thread_serves_what_a_descriptor_tells_it_of() {
    let workshop = Workshop::new(require!(require_tool("g++")));
    let program = program(&workshop);
    let _polled = workshop.serve(&mut command(&workshop, &program, &["polled"]));
    run(&mut command(&workshop, &program, &["calls polled"]));
}

#[test]
fn an_object_of_c_is_given_commands() {
    let workshop = Workshop::new(require!(require_tool("g++")));
    let program = program(&workshop);
    let _polled = workshop.serve(&mut command(&workshop, &program, &["polled"]));
    let _lazy = workshop.serve(&mut command(&workshop, &program, &["lazy"]));
    let give = |name: &str, input: &[u8], args: &[&str]| {
        let file = || tempfile::tempfile().unwrap();
        let (mut given, output, error) = (file(), file(), file());
        given.write_all(input).unwrap();
        given.rewind().unwrap();
        let args: Vec<String> = args.iter().map(|&arg| arg.into()).collect();
        let service = workshop.manager.services().get(name).unwrap();
        let status = service.shell_command([given.as_fd(), output.as_fd(), error.as_fd()], &args).unwrap();
        let [output, error] = [output, error].map(|mut file| {
            let mut text = String::new();
            file.rewind().unwrap();
            file.read_to_string(&mut text).unwrap();
            text
        });
        (status, output, error)
    };
    let pid = std::process::id();
    for (name, where_served) in [("polled", "main"), ("lazy", "pool")] {
        assert_eq!(give(name, b"", &["who"]), (0, format!("{where_served} for {pid}"), String::new()));
        assert_eq!(give(name, b"in\0out", &["echo"]), (0, "in\0out".into(), String::new()));
        assert_eq!(give(name, b"", &["a", "", "\u{e9}"]), (3, String::new(), "[a][][\u{e9}]".into()));
    }
}

/// Starts a process that has the lazy service until its standard input ends.
fn hold(workshop: &Workshop, program: &Path, what: &str) -> Server {
    workshop.serve(command(workshop, program, &[what]).stdin(Stdio::piped()))
}

fn let_go(mut holder: Server) {
    drop(holder.0.stdin.take());
    holder.ends_well();
}

#[test]
fn a_lazy_service_ends_with_its_last_client() {
    let workshop = Workshop::new(require!(require_tool("g++")));
    let program = program(&workshop);
    let lazy = workshop.serve(&mut command(&workshop, &program, &["lazy"]));
    let (one, two) = (hold(&workshop, &program, "holds"), hold(&workshop, &program, "holds"));
    let_go(one);
    // The other one still reaches it when it ends.
    let_go(two);
    lazy.ends_well();
    assert!(workshop.manager.services().check("lazy").unwrap().is_none());
    assert!(workshop.manager.services().check("lazy.other").unwrap().is_none());
}

#[test]
fn a_lazy_service_stays_while_it_is_told_to() {
    let workshop = Workshop::new(require!(require_tool("g++")));
    let program = program(&workshop);
    let mut lazy = workshop.serve(&mut command(&workshop, &program, &["lazy"]));
    let_go(hold(&workshop, &program, "holds for ever"));
    // Clients are counted each second.
    std::thread::sleep(Duration::from_secs(3));
    assert!(lazy.0.try_wait().unwrap().is_none(), "it ended all the same");
    run(&mut command(&workshop, &program, &["lets"]));
    lazy.ends_well();
}

#[test]
fn a_lazy_service_may_decide_itself() {
    let workshop = Workshop::new(require!(require_tool("g++")));
    let program = program(&workshop);
    let mut lazy = workshop.serve(&mut command(&workshop, &program, &["lazy that decides"]));
    let_go(hold(&workshop, &program, "holds"));
    assert_eq!(lazy.0.wait().unwrap().code(), Some(3));
}

#[test]
fn a_lazy_service_outlives_its_manager() {
    let workshop = Workshop::new(require!(require_tool("g++")));
    let program = program(&workshop);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("manager");
    let serve = || Manager::new(Policy::open()).serve(&socket, SocketAccess::Owner).unwrap();
    let start = |what: &str| {
        let mut command = command(&workshop, &program, &[what]);
        workshop.serve(command.env(SOCKET_VARIABLE, &socket).stdin(Stdio::piped()))
    };
    let manager = serve();
    let mut lazy = start("lazy");
    drop(manager);
    // Clients are counted each second, also while there is no manager.
    std::thread::sleep(Duration::from_secs(3));
    let _manager = serve();
    // It registers again, and is counted.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(lazy.0.try_wait().unwrap(), None, "the new manager was taken for a client");
    let_go(start("holds"));
    lazy.ends_well();
}

#[test]
fn a_lazy_service_registers_again_when_its_manager_is_back() {
    let workshop = Workshop::new(require!(require_tool("g++")));
    let program = program(&workshop);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("manager");
    let serve = || Manager::new(Policy::open()).serve(&socket, SocketAccess::Owner).unwrap();
    let start = |what: &str| {
        let mut command = command(&workshop, &program, &[what]);
        workshop.serve(command.env(SOCKET_VARIABLE, &socket).stdin(Stdio::piped()))
    };
    let manager = serve();
    let mut lazy = start("withdraws");
    drop(manager);
    drop(lazy.0.stdin.take());
    // It asks for its names while there is no manager, and the next one gets them.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(lazy.0.try_wait().unwrap(), None, "without a manager it ended");
    let _manager = serve();
    let_go(start("holds"));
    lazy.ends_well();
}

#[test]
fn a_lazy_service_that_a_new_manager_refused_ends_with_its_last_client() {
    let workshop = Workshop::new(require!(require_tool("g++")));
    let program = program(&workshop);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("manager");
    let serve = |policy| Manager::new(policy).serve(&socket, SocketAccess::Owner).unwrap();
    let start = |what: &str| {
        let mut command = command(&workshop, &program, &[what]);
        workshop.serve(command.env(SOCKET_VARIABLE, &socket).stdin(Stdio::piped()))
    };
    let serving = serve(Policy::open());
    let lazy = start("lazy");
    let client = start("holds");
    // Clients are counted each second.
    std::thread::sleep(Duration::from_secs(3));
    drop(serving);
    // Its names are refused, and nobody takes them back from it.
    let names = ["lazy", "lazy.other"].map(NamePattern::new).into();
    let refuses = Rule { names, find: vec![Principal::Anyone], ..Rule::default() };
    let serving = serve(Policy { rules: vec![refuses], ..Policy::open() });
    let refused = || serving.manager().binder().dump(&[]).unwrap();
    while !refused().contains(" 2 refused") {
        std::thread::sleep(Duration::from_millis(20));
    }
    serving.manager().set_policy(Policy::open());
    let_go(client);
    lazy.ends_well();
}

#[test]
fn who_hears_of_a_registration_owns_the_reference() {
    let workshop = Workshop::new(require!(require_tool("g++")));
    let program = program(&workshop);
    // Memory that is given back twice is found by the C library's own checks, too.
    let said = run(command(&workshop, &program, &["hears"]).env("MALLOC_CHECK_", "3"));
    assert_eq!(said, "all is well\n");
}

#[test]
fn the_last_object_of_a_process_has_a_name() {
    let workshop = Workshop::new(require!(require_tool("g++")));
    let program = program(&workshop);
    let own = Binder::new(ParcelService::new("sample.IProcess", |_, _| Ok(None)));
    workshop.manager.services().add("others", own, ServiceOptions::default()).unwrap();
    let said = run(&mut command(&workshop, &program, &["replaces"]));
    assert!(said.starts_with("all is well\n"), "{said}");
}

#[test]
fn mistakes_are_refused_or_end_the_process() {
    let workshop = Workshop::new(require!(require_tool("g++")));
    let program = program(&workshop);
    let make = |what| command(&workshop, &program, &["mistakes", what]);
    let said = run(&mut make("none"));
    assert!(said.starts_with("all is well\n"), "{said}");
    for (what, why) in [
        ("inherits", "AIBinder_setInheritRt is for objects"),
        ("asks", "AIBinder_setRequestingSid is for objects"),
        ("schedules", "AIBinder_setMinSchedulerPolicy is for objects"),
        ("nobody owns", "nothing owned it"),
        ("two own", "it has a second owner"),
    ] {
        let Output { status, stderr, .. } = make(what).output().unwrap();
        let said = String::from_utf8_lossy(&stderr);
        assert_eq!(status.signal(), Some(6), "{what}: {status}\n{said}");
        assert!(said.contains(why), "{what}: {said}");
    }
}
