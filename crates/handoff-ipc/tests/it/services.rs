//! The service manager, with services and clients in several processes.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::common::*;
use handoff_ipc::engine::EngineKind;
use handoff_ipc::parcel::Parcel;
use handoff_ipc::runtime::SOCKET_VARIABLE;
use handoff_ipc::servicemanager::{
    Context, DumpPriority, Manager, NamePattern, Policy, Principal, Range, Rule, ServiceOptions, SocketAccess,
};
use handoff_ipc::{Binder, Error, ExceptionCode, ParcelService, Runtime};
use handoff_placement::Priority;
use handoff_testkit::{require, require_realtime, require_root};

const LONG: Duration = Duration::from_secs(30);

fn connect(socket: &Path) -> Runtime {
    Runtime::builder().socket(socket).connect().unwrap()
}

#[test]
#[ignore = "a process of another test"]
fn role_main() {
    let Some((role, socket)) = role() else { return };
    let (role, argument) = role.split_once(' ').unwrap_or((&role, ""));
    match role {
        "manager" => {
            let policy = if argument == "strict" { strict_policy() } else { Policy::open() };
            let _serving = Manager::new(policy).serve(&socket, SocketAccess::Everybody).unwrap();
            ready_and_wait();
        }
        // Serves under a name.
        "service" => {
            let runtime = connect(&socket);
            runtime.services().add(argument, everything(), ServiceOptions::hardware()).unwrap();
            ready_and_wait();
        }
        // Serves in a context, under the context's own name.
        "service-of" => {
            let runtime = connect(&socket);
            let context = argument.parse().unwrap();
            runtime.services().add(argument, everything(), ServiceOptions::of(context)).unwrap();
            ready_and_wait();
        }
        // Says what another user may do, one result a line.
        "other-user" => {
            let services = connect(&socket).services().clone();
            for step in argument.split(',') {
                let (action, name) = step.split_once('=').unwrap();
                let outcome = match action {
                    "add" => services.add(name, everything(), ServiceOptions::default()),
                    "take" => services.add(name, everything(), ServiceOptions::default().replacing()),
                    "get" => services.get(name).and_then(|binder| binder.ping()),
                    "wait" => services.wait_for(name, LONG).map(drop),
                    "watch" => services.on_registration(name, |_, _| ()).map(drop),
                    "process" => services.process_of(name).map(drop),
                    "list" => Ok(()),
                    other => panic!("no such step: {other}"),
                };
                let names: Vec<String> = services.list().unwrap().into_iter().map(|info| info.name).collect();
                let outcome = match outcome {
                    Ok(()) if action == "list" => names.join(" "),
                    Ok(()) => "ok".to_owned(),
                    Err(error) => error.to_string(),
                };
                println!("outcome {step}: {outcome}");
            }
            std::process::exit(0);
        }
        "by-variable" => {
            let runtime = Runtime::connect().unwrap();
            let names: Vec<_> =
                runtime.services().list().unwrap().into_iter().map(|info| info.name).collect();
            println!("found: {}", names.join(" "));
        }
        other => panic!("no such role: {other}"),
    }
}

fn strict_policy() -> Policy {
    let root = Principal::Users(Range::one(0));
    let guest = Principal::Users(Range { first: 12_000, last: 12_999 });
    let rule = |names: &[&str]| Rule {
        names: names.iter().map(|name| NamePattern::new(*name)).collect(),
        ..Rule::default()
    };
    Policy {
        rules: vec![
            Rule { add: vec![root], find: vec![Principal::Anyone], ..rule(&["public.*"]) },
            Rule { add: vec![root], find: vec![root], ..rule(&["secret"]) },
            Rule {
                add: vec![root, guest],
                find: vec![Principal::Groups(Range::one(12_000))],
                ..rule(&["shared"])
            },
            Rule {
                add: vec![root, guest],
                find: vec![root, guest],
                replace: vec![guest],
                ..rule(&["handed-on"])
            },
        ],
        names_per_user: 20,
        watches_per_user: 5,
        ..Policy::open()
    }
}

fn is_refused(error: &Error) -> bool {
    matches!(error, Error::PermissionDenied(_))
}

fn is_status(error: &Error, kind: ExceptionCode) -> bool {
    matches!(error, Error::Status(status) if status.exception() == kind)
}

#[test]
fn services_are_found_from_other_processes_and_vanish_with_theirs() {
    let place = Place::new();
    let _manager = Peer::start("manager", &place.socket());
    let runtime = connect(&place.socket());
    let services = runtime.services();
    assert!(matches!(services.get("echo"), Err(Error::NoSuchService(name)) if name == "echo"));
    assert_eq!(services.check("echo").unwrap(), None);
    let mut peer = Peer::start("service echo", &place.socket());
    let found = services.get("echo").unwrap();
    assert_eq!(echo(&found, b"hello").unwrap(), b"hello");
    assert!(!found.is_local());
    let info = services.list().unwrap().into_iter().find(|info| info.name == "echo").unwrap();
    assert_eq!((info.pid, info.uid), (peer.child.id(), Some(rustix::process::geteuid().as_raw())));
    assert_eq!((info.context, info.interface.as_str()), (Context::Hardware, "test.IEverything"));
    let report = services.process_of("echo").unwrap().report(LONG).unwrap();
    assert_eq!(report.pid, peer.child.id());
    assert!(report.stats.served >= 1 && report.stats.links >= 2, "{report:?}");
    peer.kill();
    eventually("the name is free", || services.list().unwrap().iter().all(|info| info.name != "echo"));
    assert_eq!(services.check("echo").unwrap(), None);
    assert!(matches!(services.process_of("echo"), Err(Error::NoSuchService(_))));
}

#[test]
fn the_domain_says_what_callers_lend() {
    require!(require_realtime());
    let place = Place::new();
    let _manager = Peer::start("manager", &place.socket());
    let runtime = connect(&place.socket());
    for context in Context::ALL {
        let _peer = Peer::start(&format!("service-of {context}"), &place.socket());
        let found = runtime.services().get(context.name()).unwrap();
        // A real-time thread has a nice value as well, which is 0.
        let own = own_priority();
        let ordinary = if Priority::other(0).more_urgent_than(own) { Priority::other(0) } else { own };
        let realtime = if context == Context::Hardware { Priority::fifo(5) } else { ordinary };
        assert_eq!(served_for(&found, Priority::fifo(5)), realtime.to_string(), "{context}");
        let session: Binder = found.transaction(SELF).call(|_| Ok(()), |r| r.read()).unwrap();
        let lent = served_for(&session, Priority::fifo(5));
        assert_eq!(lent, realtime.to_string(), "what a service of {context} gives away lives there");
        let nice = Priority::other((own.nice - 7).max(-20));
        assert_eq!(
            served_for(&found, nice),
            nice.to_string(),
            "{context}: every context lends the nice value"
        );
    }
}

#[test]
fn a_private_manager_is_the_parents_own() {
    let runtime = Runtime::private().unwrap();
    let socket = runtime.socket().unwrap().to_owned();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
    let services = runtime.services();
    let mine = everything();
    services.add("mine", mine.clone(), ServiceOptions::default()).unwrap();
    assert_eq!(services.get("mine").unwrap(), mine, "no detour through the socket");
    let peer = Peer::start("service theirs", &socket);
    assert_eq!(echo(&services.wait_for("theirs", LONG).unwrap(), b"x").unwrap(), b"x");
    // Another runtime of the same process is a stranger to the manager, and still finds itself.
    let second = connect(&socket);
    let found = second.services().get("mine").unwrap();
    assert_eq!(echo(&found, b"around").unwrap(), b"around");
    drop((peer, second));
    drop(runtime);
    assert!(!socket.exists() && !socket.parent().unwrap().exists());
    eventually("calls through it fail", || matches!(echo(&found, b"x"), Err(Error::Dead)));
}

#[test]
fn names_of_the_local_engine_go_with_their_runtime() {
    let local = || Runtime::builder().engine(EngineKind::Local).connect().unwrap();
    let (one, two) = (local(), local());
    one.services().add("local.x", everything(), ServiceOptions::default()).unwrap();
    let found = two.services().get("local.x").unwrap();
    assert!(found.is_local());
    assert_eq!(echo(&found, b"x").unwrap(), b"x");
    assert_eq!(two.services().process_of("local.x").unwrap().report(LONG).unwrap().pid, std::process::id());
    drop(one);
    assert_eq!(two.services().check("local.x").unwrap(), None);
}

#[test]
fn a_name_passes_to_a_new_object_of_its_user_and_is_taken_back() {
    let runtime = Runtime::private().unwrap();
    let services = runtime.services();
    let (old, new) = (everything(), everything());
    services.add("name", old.clone(), ServiceOptions::default()).unwrap();
    let critical = ServiceOptions { dump_priority: DumpPriority::CRITICAL, ..ServiceOptions::default() };
    let taken = services.add("name", new.clone(), critical).unwrap_err();
    assert!(matches!(taken, Error::NameTaken { pid, .. } if pid == std::process::id()), "{taken}");
    assert_eq!(services.get("name").unwrap(), old);
    services.add("name", new.clone(), critical.replacing()).unwrap();
    assert_eq!(services.get("name").unwrap(), new);
    let listed = services.list().unwrap();
    assert_eq!(listed.iter().filter(|info| info.name == "name").count(), 1);
    assert!(is_status(&services.remove("name", &old).unwrap_err(), ExceptionCode::IllegalState));
    services.remove("name", &new).unwrap();
    assert!(services.check("name").unwrap().is_none());
    for bad in ["", "a b", "é", &"x".repeat(128)] {
        let error = services.add(bad, old.clone(), ServiceOptions::default()).unwrap_err();
        assert!(is_status(&error, ExceptionCode::IllegalArgument), "{error}");
    }
    services.add(&"x".repeat(127), old, ServiceOptions::default()).unwrap();
}

#[test]
fn the_manager_lists_itself_and_speaks_androids_interface() {
    let place = Place::new();
    let _manager = Peer::start("manager", &place.socket());
    let runtime = connect(&place.socket());
    let manager = runtime.services().manager().unwrap();
    assert_eq!(manager.descriptor().unwrap(), "android.os.IServiceManager");
    // addService, checkService, listServices, getServiceDebugInfo as Android 16 has them.
    let mine = everything();
    manager
        .transaction(5)
        .call(
            |to| {
                to.write_string16("plain")?;
                to.write_binder(Some(&mine))?;
                to.write_i32(0)?;
                to.write_i32(DumpPriority::HIGH.bits())
            },
            |_| Ok(()),
        )
        .unwrap();
    let found: Option<Binder> =
        manager.transaction(3).call(|to| to.write_string16("plain"), |r| r.read_binder()).unwrap();
    assert_eq!(found, Some(mine.clone()));
    // getService2: a union whose first field is a parcelable with the object.
    let found = manager
        .transaction(2)
        .call(
            |to| to.write_string16("plain"),
            |r| {
                r.read_tagged(|tag, r| {
                    assert_eq!(tag, 0);
                    r.read_structured(|r| Ok((r.read::<Option<Binder>>()?, r.read::<bool>()?)))
                })
            },
        )
        .unwrap();
    assert_eq!(found, Some(Some((Some(mine), false))));
    let names =
        |bits| -> Vec<String> { manager.transaction(6).call(|to| to.write_i32(bits), |r| r.read()).unwrap() };
    assert_eq!(names(15), ["manager", "plain"]);
    assert_eq!(names(DumpPriority::HIGH.bits()), ["plain"]);
    let debug = manager
        .transaction(16)
        .call(
            |_| Ok(()),
            |r| {
                let count = r.read_count(4)?.unwrap();
                (0..count)
                    .map(|_| {
                        assert_eq!(r.read_i32()?, 1);
                        r.read_sized(|r| Ok((r.read::<String>()?, r.read::<u32>()?)))
                    })
                    .collect::<Result<Vec<_>, _>>()
            },
        )
        .unwrap();
    assert_eq!(debug[1], ("plain".to_owned(), std::process::id()));
    assert!(!runtime.services().is_declared("plain").unwrap());
    let error = manager.transaction(14).call(|_| Ok(()), |_| Ok(())).unwrap_err();
    assert!(is_status(&error, ExceptionCode::UnsupportedOperation), "{error}");
    let text = runtime.services().get("manager").unwrap().dump(&[]).unwrap();
    assert!(text.contains("2 names") && text.contains("plain"), "{text}");
}

#[test]
fn registrations_are_heard_of() {
    let place = Place::new();
    let _manager = Peer::start("manager", &place.socket());
    let runtime = connect(&place.socket());
    let services = runtime.services();
    let (send, heard) = mpsc::channel();
    let watch =
        services.on_registration("late", move |name, binder| send.send((name.to_owned(), binder)).unwrap());
    let mut first = Peer::start("service late", &place.socket());
    let (name, binder) = heard.recv_timeout(LONG).unwrap();
    assert_eq!((name.as_str(), echo(&binder, b"1").unwrap()), ("late", b"1".to_vec()));
    first.kill();
    eventually("the name is free", || services.check("late").unwrap().is_none());
    let mut second = Peer::start("service late", &place.socket());
    let (_, again) = heard.recv_timeout(LONG).unwrap();
    assert_ne!(again, binder);
    // Whoever comes later hears of what is there, once.
    let (send, present) = mpsc::channel();
    let late = services.on_registration("late", move |_, binder| send.send(binder).unwrap()).unwrap();
    assert_eq!(present.recv_timeout(LONG).unwrap(), again);
    drop(late);
    drop(watch);
    second.kill();
    let _third = Peer::start("service late", &place.socket());
    assert_eq!(echo(&services.get("late").unwrap(), b"3").unwrap(), b"3");
    assert!(heard.try_recv().is_err() && present.try_recv().is_err(), "both watches have ended");
}

#[test]
fn a_service_is_waited_for() {
    let place = Place::new();
    let _manager = Peer::start("manager", &place.socket());
    let runtime = connect(&place.socket());
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let services = runtime.services().clone();
            std::thread::spawn(move || {
                services.wait_for("awaited", LONG).and_then(|found| echo(&found, b"y"))
            })
        })
        .collect();
    let _peer = Peer::start("service awaited", &place.socket());
    for thread in waiting {
        assert_eq!(thread.join().unwrap().unwrap(), b"y");
    }
    let error = runtime.services().wait_for("never", Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, Error::NoSuchService(_)), "{error}");
}

#[test]
fn a_manager_that_is_restarted_learns_everything_again() {
    let place = Place::new();
    let mut manager = Peer::start("manager", &place.socket());
    let runtime = connect(&place.socket());
    let services = runtime.services();
    services.add("mine", everything(), ServiceOptions::hardware()).unwrap();
    let theirs = Peer::start("service theirs", &place.socket());
    let found = services.get("theirs").unwrap();
    let (send, heard) = mpsc::channel();
    let _watch = services.on_registration("later", move |_, _| send.send(()).unwrap()).unwrap();
    manager.kill();
    eventually("the manager is known to be gone", || services.check("mine").is_err());
    assert_eq!(echo(&found, b"calls go on").unwrap(), b"calls go on");
    let waiting = {
        let services = services.clone();
        std::thread::spawn(move || services.wait_for("theirs", LONG))
    };
    let _manager = Peer::start("manager", &place.socket());
    waiting.join().unwrap().unwrap();
    services.wait_for("mine", LONG).unwrap();
    let info = services.list().unwrap().into_iter().find(|info| info.name == "mine").unwrap();
    assert_eq!(info.context, Context::Hardware);
    let _later = Peer::start("service later", &place.socket());
    heard.recv_timeout(LONG).unwrap();
    drop(theirs);
}

#[test]
fn a_thousand_names() {
    let place = Place::new();
    let _manager = Peer::start("manager", &place.socket());
    let (runtime, other) = (connect(&place.socket()), connect(&place.socket()));
    let name = |n: u32| format!("service.{n:04}");
    for n in 0..1000 {
        runtime.services().add(&name(n), everything(), ServiceOptions::default()).unwrap();
    }
    let listed: Vec<String> = other.services().list().unwrap().into_iter().map(|info| info.name).collect();
    let expected: Vec<String> = std::iter::once("manager".to_owned()).chain((0..1000).map(name)).collect();
    assert_eq!(listed, expected);
    let different: HashSet<usize> =
        (0..1000).step_by(50).map(|n| other.services().get(&name(n)).unwrap().identity()).collect();
    assert!(!different.is_empty());
    drop(runtime);
    eventually("all are gone", || other.services().list().unwrap().len() == 1);
}

#[test]
fn limits_are_for_each_user() {
    let policy = Policy { names_per_user: 3, watches_per_user: 2, ..Policy::open() };
    let place = Place::new();
    let _serving = Manager::new(policy).serve(&place.socket(), SocketAccess::Owner).unwrap();
    let runtime = connect(&place.socket());
    let services = runtime.services();
    let add = |name: &str| services.add(name, everything(), ServiceOptions::default());
    // The manager's own name is one of the three.
    add("a").unwrap();
    add("b").unwrap();
    assert!(is_status(&add("c").unwrap_err(), ExceptionCode::IllegalState));
    services.add("b", everything(), ServiceOptions::default().replacing()).unwrap();
    let held: Vec<_> = ["x", "y"].map(|name| services.on_registration(name, |_, _| ()).unwrap()).into();
    let error = services.on_registration("z", |_, _| ()).unwrap_err();
    assert!(is_status(&error, ExceptionCode::IllegalState), "{error}");
    drop(held);
    drop(services.on_registration("z", |_, _| ()).unwrap());
}

#[test]
fn clients_are_counted_and_declared_instances_told() {
    let names = ["a.IFoo/default", "a.IFoo/two", "a.IFoo/*"];
    let rule = Rule { names: names.map(NamePattern::new).into(), ..Rule::default() };
    let policy = Policy { rules: vec![rule], ..Policy::open() };
    let place = Place::new();
    let _serving = Manager::new(policy).serve(&place.socket(), SocketAccess::Owner).unwrap();
    let (owner, client) = (connect(&place.socket()), connect(&place.socket()));
    assert_eq!(client.services().declared_instances("a.IFoo").unwrap(), ["default", "two"]);
    assert!(client.services().declared_instances("a.IBar").unwrap().is_empty());
    let object = everything();
    owner.services().add("counted", object.clone(), ServiceOptions::default()).unwrap();
    let clients = || owner.services().clients_of(&object).unwrap();
    // The manager has it, and is no client.
    let before = clients();
    assert_eq!(before.now, 0);
    // Who was given it, and has not come yet: without that its owner may end too soon.
    let manager = client.services().manager().unwrap();
    let is_counted = |_: &mut handoff_ipc::parcel::Reader<'_>| Ok(clients().now == 1);
    assert!(manager.transaction(1).call(|w| w.write_string16("counted"), is_counted).unwrap());
    while clients().now > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let found = client.services().get("counted").unwrap();
    found.ping().unwrap();
    assert_eq!(clients().now, 1);
    assert!(clients().so_far > before.so_far);
    drop(found);
    // The reference is given back after the client has dropped it.
    while clients().now > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let error = client.services().clients_of(&client.services().manager().unwrap()).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[test]
fn a_new_policy_holds_from_the_next_request_on() {
    let place = Place::new();
    let serving = Manager::new(Policy::open()).serve(&place.socket(), SocketAccess::Owner).unwrap();
    let runtime = connect(&place.socket());
    let services = runtime.services();
    services.add("old", everything(), ServiceOptions::default()).unwrap();
    serving.manager().set_policy(Policy { others_open: false, ..Policy::open() });
    assert!(is_refused(&services.get("old").unwrap_err()));
    assert!(is_refused(&services.wait_for("old", LONG).unwrap_err()));
    assert!(is_refused(&services.add("new", everything(), ServiceOptions::default()).unwrap_err()));
    assert!(services.list().unwrap().is_empty());
    serving.manager().set_policy(Policy::open());
    services.get("old").unwrap();
}

/// Runs steps as another user; gives what came of each.
fn as_user(user: u32, group: u32, socket: &Path, steps: &[&str]) -> Vec<String> {
    // The test program lies where only its own user may go: it is started through a copy.
    let program = socket.parent().unwrap().join("program");
    if !program.exists() {
        // By another process: a child that another test of this one forks meanwhile would have the copy
        // open for writing until it runs its own program, and nobody could run this one.
        let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status().unwrap();
        assert!(copied.success(), "cp: {copied}");
        std::fs::set_permissions(socket.parent().unwrap(), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let output = Command::new(&program)
        .args(role_arguments())
        .env("HANDOFF_TEST_ROLE", format!("other-user {}@{}", steps.join(","), socket.display()))
        .current_dir("/")
        .stdin(Stdio::null())
        .uid(user)
        .gid(group)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let outcomes: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once("outcome "))
        .map(|(_, rest)| rest.split_once(": ").unwrap().1.to_owned())
        .collect();
    assert_eq!(outcomes.len(), steps.len(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    outcomes
}

#[test]
fn the_policy_keeps_other_users_out() {
    require!(require_root());
    let place = Place::new();
    let _manager = Peer::start("manager strict", &place.socket());
    let runtime = connect(&place.socket());
    let services = runtime.services();
    for name in ["public.a", "secret", "shared", "free", "handed-on"] {
        services.add(name, everything(), ServiceOptions::default()).unwrap();
    }
    let steps = [
        "get=public.a",
        "add=public.b",
        "get=secret",
        "watch=secret",
        "wait=secret",
        "process=secret",
        "get=shared",
        "add=shared",
        "get=free",
        "add=free",
        "list=",
        "take=handed-on",
        "take=shared",
    ];
    let refused =
        |outcome: &str| outcome.starts_with("permission denied: the policy does not let user 12345");
    let guest = as_user(12_345, 12_345, &place.socket(), &steps);
    for (step, expected) in [(0, "ok"), (8, "ok"), (11, "ok"), (10, "free handed-on manager public.a")] {
        assert_eq!(guest[step], expected, "{}", steps[step]);
    }
    for step in [1, 2, 3, 4, 5, 6] {
        assert!(refused(&guest[step]), "{}: {}", steps[step], guest[step]);
    }
    // It may add these names, but not take them from another user.
    for step in [7, 9, 12] {
        assert!(
            guest[step].contains("is registered by a process of user 0"),
            "{}: {}",
            steps[step],
            guest[step]
        );
    }
    eventually("the name that was handed on came back when its process ended", || {
        services.get("handed-on").is_ok_and(|found| found.is_local())
    });
    // The group lets in, and shows in the list.
    let member = as_user(12_345, 12_000, &place.socket(), &["get=shared", "get=secret", "list="]);
    assert_eq!((member[0].as_str(), refused(&member[1])), ("ok", true));
    assert!(member[2].contains("shared") && !member[2].contains("secret"), "{}", member[2]);
    // Root is nobody special.
    assert!(is_refused(&services.get("shared").unwrap_err()));
    assert!(services.get("secret").is_ok());
}

#[test]
fn a_hostile_client_harms_nobody() {
    let place = Place::new();
    let mut manager = Peer::start("manager", &place.socket());
    let runtime = connect(&place.socket());
    let services = runtime.services();
    services.add("good", everything(), ServiceOptions::default()).unwrap();
    let target = services.manager().unwrap();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut next = move || random.next();
    let hostile = connect(&place.socket());
    let evil = hostile.services().manager().unwrap();
    for _ in 0..4000 {
        let code = match next() % 4 {
            0 => (next() % 120) as u32,
            1 => 101 + (next() % 4) as u32,
            _ => 1 + (next() % 15) as u32,
        };
        let (words, with_name, with_object) = (next() % 12, next() % 2 == 0, next() % 3 == 0);
        let bytes: Vec<i32> = (0..words).map(|_| (next() >> (next() % 64)) as i32).collect();
        let result = evil.transaction(code).call(
            |to| {
                if with_name {
                    to.write_string16("evil\u{0}\u{fffd}")?;
                }
                if with_object {
                    to.write_binder(Some(&everything()))?;
                }
                bytes.iter().try_for_each(|word| to.write_i32(*word))
            },
            |_| Ok(()),
        );
        assert!(!matches!(result, Err(Error::Dead)), "the manager lives");
    }
    // Names as long as a parcel carries, objects that are dead at once, a callback that never reads.
    let long = "n".repeat(900_000);
    assert!(evil.transaction(1).call(|to| to.write_string16(&long), |r| r.read_binder()).unwrap().is_none());
    for _ in 0..50 {
        let brief = connect(&place.socket());
        brief.services().add("brief", everything(), ServiceOptions::default()).unwrap();
    }
    let stuck = Arc::new(Mutex::new(()));
    let held = stuck.lock().unwrap();
    let block = Arc::clone(&stuck);
    let watch = hostile.services().on_registration("noise", move |_, _| drop(block.lock())).unwrap();
    for _ in 0..300 {
        services.add("noise", everything(), ServiceOptions::default().replacing()).unwrap();
    }
    drop(held);
    drop(watch);
    assert_eq!(echo(&services.get("good").unwrap(), b"ok").unwrap(), b"ok");
    target.ping().unwrap();
    assert!(manager.child.try_wait().unwrap().is_none());
    eventually("nothing hostile is left", || services.check("brief").unwrap().is_none());
}

#[test]
fn a_manager_at_a_socket_goes_and_leaves_nothing() {
    let place = Place::new();
    let socket = place.dir.path().join("deep/er/manager.sock");
    let serving = Manager::new(Policy::open()).serve(&socket, SocketAccess::Everybody).unwrap();
    let error = Manager::new(Policy::open()).serve(&socket, SocketAccess::Everybody).unwrap_err();
    assert!(error.to_string().contains("another service manager"), "{error}");
    connect(&socket).services().get("manager").unwrap();
    // Another file in the same place is not this one's to remove.
    std::fs::rename(&socket, place.dir.path().join("moved")).unwrap();
    std::fs::write(&socket, "not a socket").unwrap();
    drop(serving);
    assert!(socket.exists());
    let fallback = Runtime::builder().socket(&socket).connect_or_private().unwrap();
    assert!(fallback.is_private());
}

#[test]
fn children_find_the_manager_by_the_variable() {
    let runtime = Runtime::private().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(role_arguments())
        .env("HANDOFF_TEST_ROLE", "by-variable@")
        .env(SOCKET_VARIABLE, runtime.socket().unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("found: manager"), "{text}");
}

#[test]
fn a_runtime_that_stops_takes_its_names_back_and_ends_what_it_serves() {
    const WAIT: u32 = 1;
    const STOP: u32 = 2;
    let manager = Runtime::private().unwrap();
    let socket = manager.socket().unwrap();
    let (server, client) = (connect(socket), connect(socket));
    let (began, begins) = mpsc::channel();
    let gate = Arc::new(Mutex::new(()));
    let (stopping, waited_for) = (server.clone(), Arc::clone(&gate));
    let service = ParcelService::new("test.IStopping", move |call, request: Parcel| {
        match call.code() {
            WAIT => {
                began.send(()).unwrap();
                drop(waited_for.lock().unwrap());
            }
            STOP => stopping.stop(),
            _ => return Ok(None),
        }
        Ok(Some(request))
    });
    server.services().add("stopping", Binder::new(service), ServiceOptions::default()).unwrap();
    let found = client.services().get("stopping").unwrap();

    let closed = gate.lock().unwrap();
    std::thread::scope(|scope| {
        let joined = scope.spawn(|| server.join_thread_pool());
        let call =
            scope.spawn(|| found.transaction(WAIT).call(|data| data.write(&7), |reply| reply.read::<i32>()));
        begins.recv().unwrap();
        found.transaction(STOP).call(|_| Ok(()), |_| Ok(())).unwrap();
        while client.services().check("stopping").unwrap().is_some() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!joined.is_finished(), "a call is being served");
        drop(closed);
        assert_eq!(call.join().unwrap().unwrap(), 7);
        joined.join().unwrap();
    });
}
