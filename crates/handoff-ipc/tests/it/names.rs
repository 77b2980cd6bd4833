//! Names of services: who has one that two processes want.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use crate::common::*;
use handoff_ipc::engine::Engine as _;
use handoff_ipc::servicemanager::{
    DumpPriority, Manager, NameChange, NamePattern, Policy, Principal, Rule, ServiceInfo, ServiceOptions,
    SocketAccess,
};
use handoff_ipc::shm::ShmEngine;
use handoff_ipc::{
    Binder, Code, Context, Error, ExceptionCode, ParcelService, Result, Runtime, Service, Transaction,
};

const LONG: Duration = Duration::from_secs(60);

fn connect(socket: &Path) -> Runtime {
    Runtime::builder().socket(socket).connect().unwrap()
}

/// Adds `name`, taking it from whoever has it.
fn take(runtime: &Runtime, name: &str) -> Result<()> {
    runtime.services().add(name, everything(), ServiceOptions::default().replacing())
}

/// What becomes of the names of a runtime.
fn changes(runtime: &Runtime) -> Receiver<(String, NameChange)> {
    let (send, heard) = mpsc::channel();
    runtime.services().on_name_change(move |name, change| drop(send.send((name.to_owned(), change))));
    heard
}

/// The process that a name leads to.
fn pid_of(runtime: &Runtime, name: &str) -> u32 {
    let found = runtime.services().wait_for(name, LONG).unwrap();
    found.transaction(WHO_SERVES).call(|_| Ok(()), |reply| reply.read()).unwrap()
}

#[test]
#[ignore = "a process of another test"]
fn role_main() {
    let Some((role, socket)) = role() else { return };
    let (role, name) = role.split_once(' ').unwrap();
    if role == "manager" {
        let _serving = Manager::new(Policy::open()).serve(&socket, SocketAccess::Owner).unwrap();
        ready_and_wait();
    }
    let runtime = connect(&socket);
    match role {
        "has" => runtime.services().add(name, everything(), ServiceOptions::default()).unwrap(),
        "takes" => take(&runtime, name).unwrap(),
        // An object of another process, which gave it to this one.
        "lends" => {
            let lent = runtime.services().wait_for("lent", LONG).unwrap();
            runtime.services().add(name, lent, ServiceOptions::default()).unwrap();
        }
        other => panic!("no such role: {other}"),
    }
    ready_and_wait();
}

/// A manager whose list goes on and on.
struct Endless {
    interface: &'static str,
    in_a_page: usize,
    pages: AtomicU32,
}

impl Service for Endless {
    fn descriptor(&self) -> &str {
        "android.os.IServiceManager"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        const LIST_PAGE: Code = 102;
        if transaction.call.code() != LIST_PAGE {
            return Ok(());
        }
        let page = self.pages.fetch_add(1, Ordering::Relaxed);
        let name = format!("{page:08}");
        let listed = ServiceInfo {
            name: name.clone(),
            interface: self.interface.to_owned(),
            pid: 1,
            uid: None,
            context: Context::Framework,
            dump_priority: DumpPriority::DEFAULT,
        };
        transaction.reply.write(&vec![listed; self.in_a_page])?;
        // Without an end the test could not fail.
        transaction.reply.write(&(page < 40).then_some(name))
    }
}

#[test]
fn a_list_without_an_end_is_given_up() {
    let long = Box::leak("x".repeat(1 << 19).into_boxed_str());
    for (interface, in_a_page) in [("short", 2000), (&*long, 1)] {
        let place = Place::new();
        let engine = ShmEngine::new(place.socket()).unwrap();
        let manager = Endless { interface, in_a_page, pages: AtomicU32::new(0) };
        engine.become_context_manager(Binder::new(manager)).unwrap();
        let error = connect(&place.socket()).services().list().unwrap_err();
        assert!(error.to_string().contains("more than one can have"), "{error}");
    }
}

#[test]
fn an_interface_that_would_move_a_terminal_s_cursor_is_not_listed() {
    let place = Place::new();
    let _manager = Peer::start("manager -", &place.socket());
    let runtime = connect(&place.socket());
    let service = Binder::new(ParcelService::new("test.I\u{1b}[2J\nadmin", |_, _| Ok(None)));
    let refused = runtime.services().add("quiet", service, ServiceOptions::default());
    assert!(refused.unwrap_err().to_string().contains("control characters"));
    let listed = runtime.services().list().unwrap();
    assert!(listed.iter().all(|info| info.name != "quiet"), "{listed:?}");
}

#[test]
fn a_second_start_is_refused_and_told_who_has_the_name() {
    let place = Place::new();
    let _manager = Peer::start("manager -", &place.socket());
    let first = Peer::start("has bank", &place.socket());
    let second = connect(&place.socket());
    let refused = second.services().add("bank", everything(), ServiceOptions::default()).unwrap_err();
    let Error::NameTaken { name, pid, uid } = &refused else { panic!("{refused:?}") };
    let own_uid = rustix::process::geteuid().as_raw();
    assert_eq!((name.as_str(), *pid, *uid), ("bank", first.child.id(), own_uid));
    assert!(refused.to_string().contains(&format!("process {pid} of user {uid}")), "{refused}");
    assert_eq!(pid_of(&second, "bank"), first.child.id());
}

#[test]
fn a_service_that_crashed_has_its_name_at_once_when_it_starts_again() {
    let place = Place::new();
    let _manager = Peer::start("manager -", &place.socket());
    let client = connect(&place.socket());
    for _ in 0..10 {
        // Adding without a word of replacing, or the peer would not be ready.
        let mut service = Peer::start("has bank", &place.socket());
        assert_eq!(pid_of(&client, "bank"), service.child.id());
        service.kill();
    }
    // A runtime that ends within a process that goes on.
    for _ in 0..10 {
        let brief = connect(&place.socket());
        brief.services().add("brief", everything(), ServiceOptions::default()).unwrap();
    }
}

#[test]
fn who_loses_a_name_is_told_and_has_it_again() {
    let place = Place::new();
    let _manager = Peer::start("manager -", &place.socket());
    let (loser, watcher) = (connect(&place.socket()), connect(&place.socket()));
    let heard = changes(&loser);
    loser.services().add("bank", everything(), ServiceOptions::default()).unwrap();
    let (send, registered) = mpsc::channel();
    let _watch = watcher.services().on_registration("bank", move |_, _| _ = send.send(())).unwrap();
    registered.recv_timeout(LONG).unwrap();
    let uid = rustix::process::geteuid().as_raw();
    for _ in 0..2 {
        let mut winner = Peer::start("takes bank", &place.socket());
        let pid = winner.child.id();
        assert_eq!(heard.recv_timeout(LONG).unwrap(), ("bank".to_owned(), NameChange::Lost { pid, uid }));
        assert_eq!(pid_of(&watcher, "bank"), pid);
        registered.recv_timeout(LONG).unwrap();
        winner.kill();
        assert_eq!(heard.recv_timeout(LONG).unwrap(), ("bank".to_owned(), NameChange::Regained));
        registered.recv_timeout(LONG).unwrap();
        assert_eq!(pid_of(&watcher, "bank"), std::process::id());
    }
    // Taken by two, one after the other: it comes back over both.
    let one = Peer::start("takes bank", &place.socket());
    let two = Peer::start("takes bank", &place.socket());
    drop(one);
    assert_eq!(pid_of(&watcher, "bank"), two.child.id());
    drop(two);
    eventually("the name comes back", || pid_of(&watcher, "bank") == std::process::id());
    // Given up while it is lost, it does not.
    let three = Peer::start("takes bank", &place.socket());
    let mine = everything();
    loser.services().add("other", mine.clone(), ServiceOptions::default()).unwrap();
    let thief = connect(&place.socket());
    take(&thief, "other").unwrap();
    loser.services().remove("other", &mine).unwrap();
    drop(thief);
    eventually("nobody has it", || watcher.services().check("other").unwrap().is_none());
    drop(three);
}

#[test]
fn a_name_that_was_taken_is_where_it_was_after_a_restart_of_the_manager() {
    let place = Place::new();
    let mut manager = Peer::start("manager -", &place.socket());
    let loser = connect(&place.socket());
    let heard = changes(&loser);
    loser.services().add("bank", everything(), ServiceOptions::default()).unwrap();
    let mut winner = Peer::start("takes bank", &place.socket());
    assert!(matches!(heard.recv_timeout(LONG).unwrap().1, NameChange::Lost { .. }));
    let client = connect(&place.socket());
    for _ in 0..3 {
        manager.kill();
        manager = Peer::start("manager -", &place.socket());
        eventually("the winner has it", || pid_of(&client, "bank") == winner.child.id());
    }
    // Both have told the new manager by then, in whatever order, or will.
    winner.kill();
    eventually("the name comes back", || pid_of(&client, "bank") == std::process::id());
}

#[test]
fn who_loses_a_name_and_has_no_room_to_wait_for_it_is_told_too() {
    let place = Place::new();
    // The manager's own name is one of the two.
    let policy = Policy { names_per_user: 2, ..Policy::open() };
    let _serving = Manager::new(policy).serve(&place.socket(), SocketAccess::Owner).unwrap();
    let (loser, winner) = (connect(&place.socket()), connect(&place.socket()));
    let heard = changes(&loser);
    loser.services().add("bank", everything(), ServiceOptions::default()).unwrap();
    take(&winner, "bank").unwrap();
    assert!(matches!(heard.recv_timeout(LONG).unwrap().1, NameChange::Lost { .. }));
    drop(winner);
    eventually("nobody has it", || loser.services().check("bank").unwrap().is_none());
}

/// Whom the policy lets register a name may do so for any object that it was given.
#[test]
fn a_name_lasts_as_long_as_the_process_of_its_object_whoever_registered_it() {
    let place = Place::new();
    let _manager = Manager::new(Policy::open()).serve(&place.socket(), SocketAccess::Owner).unwrap();
    let (mut owner, mut lender) =
        (Peer::start("has lent", &place.socket()), Peer::start("lends alias", &place.socket()));
    let runtime = connect(&place.socket());
    assert_eq!(pid_of(&runtime, "alias"), owner.child.id());
    lender.kill();
    // The manager has seen that end once it has seen one that came later.
    let mut later = Peer::start("has later", &place.socket());
    later.kill();
    eventually("the name goes with its process", || runtime.services().check("later").unwrap().is_none());
    assert_eq!(pid_of(&runtime, "alias"), owner.child.id(), "its object is there");
    owner.kill();
    eventually("the name goes with its object's process", || {
        runtime.services().check("alias").unwrap().is_none()
    });
}

#[test]
fn a_name_that_no_manager_took_back_is_added_again() {
    let place = Place::new();
    let serve = || Manager::new(Policy::open()).serve(&place.socket(), SocketAccess::Owner).unwrap();
    let manager = serve();
    let runtime = connect(&place.socket());
    let services = runtime.services();
    let object = everything();
    let add = || services.add("mine", object.clone(), ServiceOptions::default());
    add().unwrap();
    drop(manager);
    eventually("the manager is known to be gone", || services.check("mine").is_err());
    services.remove("mine", &object).unwrap();
    let _manager = serve();
    eventually("the new manager answers", || services.check("mine").is_ok());
    assert_eq!(services.check("mine").unwrap(), None, "the new manager was told of it");
    add().unwrap();
    assert_eq!(services.get("mine").unwrap(), object);
    services.remove("mine", &object).unwrap();
    // Nobody has it any longer.
    let error = services.remove("mine", &object).unwrap_err();
    assert!(
        matches!(&error, Error::Status(status) if status.exception() == ExceptionCode::IllegalState),
        "{error}"
    );
    add().unwrap();
}

#[test]
fn a_name_whose_removal_is_refused_stays() {
    let place = Place::new();
    let serve = || Manager::new(Policy::open()).serve(&place.socket(), SocketAccess::Owner).unwrap();
    let serving = serve();
    let runtime = connect(&place.socket());
    let services = runtime.services();
    let object = everything();
    services.add("mine", object.clone(), ServiceOptions::default()).unwrap();
    serving.manager().set_policy(Policy { others_open: false, ..Policy::open() });
    assert!(matches!(services.remove("mine", &object).unwrap_err(), Error::PermissionDenied(_)));
    drop(serving);
    let _serving = serve();
    // It is repeated to the next manager as any other.
    assert_eq!(services.wait_for("mine", LONG).unwrap(), object);
}

#[test]
fn who_waits_for_a_service_is_given_it_once() {
    let place = Place::new();
    let _serving = Manager::new(Policy::open()).serve(&place.socket(), SocketAccess::Owner).unwrap();
    let (owner, client) = (connect(&place.socket()), connect(&place.socket()));
    for number in 0..20 {
        let (name, object) = (format!("late.{number}"), everything());
        let found = std::thread::scope(|scope| {
            let waits = scope.spawn(|| client.services().wait_for(&name, LONG).unwrap());
            std::thread::sleep(Duration::from_millis(20));
            owner.services().add(&name, object.clone(), ServiceOptions::default()).unwrap();
            waits.join().unwrap()
        });
        // One that let go of it and asked again was nobody's client in between: a lazy service would have ended.
        let clients = owner.services().clients_of(&object).unwrap();
        assert_eq!((clients.now, clients.so_far), (1, 1), "{found:?}");
    }
}

#[test]
fn who_waits_for_a_service_is_not_given_what_a_new_policy_forbids() {
    let place = Place::new();
    let serving = Manager::new(Policy::open()).serve(&place.socket(), SocketAccess::Owner).unwrap();
    let (owner, client) = (connect(&place.socket()), connect(&place.socket()));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| client.services().wait_for("late", LONG));
        // Before it asked to hear of the name, and after.
        while !serving.manager().binder().dump(&[]).unwrap().contains(" 2 asked for in vain") {
            std::thread::sleep(Duration::from_millis(1));
        }
        let hidden =
            Rule { names: vec![NamePattern::new("late")], add: vec![Principal::Anyone], ..Rule::default() };
        serving.manager().set_policy(Policy { rules: vec![hidden], ..Policy::open() });
        owner.services().add("late", everything(), ServiceOptions::default()).unwrap();
        let refused = waits.join().unwrap();
        assert!(matches!(refused, Err(Error::PermissionDenied(_))), "{refused:?}");
    });
}

/// Who asked to hear of a name under one policy meets the next one, as it would with a question.
#[test]
fn who_waits_for_a_name_does_not_hear_of_what_a_new_policy_forbids() {
    let place = Place::new();
    let serving = Manager::new(Policy::open()).serve(&place.socket(), SocketAccess::Owner).unwrap();
    let (owner, client) = (connect(&place.socket()), connect(&place.socket()));
    let (send, heard) = mpsc::channel();
    let tell = move |_: &str, found: Binder| send.send(found).unwrap();
    let _watch = client.services().on_registration("late", tell).unwrap();
    let hidden =
        Rule { names: vec![NamePattern::new("late")], add: vec![Principal::Anyone], ..Rule::default() };
    serving.manager().set_policy(Policy { rules: vec![hidden], ..Policy::open() });
    let first = everything();
    owner.services().add("late", first.clone(), ServiceOptions::default()).unwrap();
    assert!(heard.recv_timeout(Duration::from_millis(200)).is_err(), "it is hidden");
    assert_eq!(owner.services().clients_of(&first).unwrap().so_far, 0, "nobody was given it");
    // One that lets it find the name has it told, once.
    for _ in 0..2 {
        serving.manager().set_policy(Policy::open());
    }
    let found = heard.recv_timeout(LONG).unwrap();
    assert_eq!(client.services().get("late").unwrap(), found);
    owner.services().remove("late", &first).unwrap();
    owner.services().add("late", everything(), ServiceOptions::default()).unwrap();
    assert_ne!(heard.recv_timeout(LONG).unwrap(), found);
}
