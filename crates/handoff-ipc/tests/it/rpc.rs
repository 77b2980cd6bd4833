//! Binder RPC between processes: what every engine promises, what this wire adds, and what it cannot do.

use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::common::*;
use handoff_ipc::engine::EngineKind;
use handoff_ipc::parcel::Parcel;
use handoff_ipc::rpc::{RpcAddress, RpcServer, RpcSession};
use handoff_ipc::servicemanager::{Manager, Policy, ServiceOptions, SocketAccess};
use handoff_ipc::{Binder, Error, ParcelService, Result, Runtime, Service, Transaction};

const LONG: Duration = Duration::from_secs(60);

#[test]
#[ignore = "a process of another test"]
fn role_main() {
    let Some((role, socket)) = role() else { return };
    match role.as_str() {
        "server" => {
            let _server = serve_rpc(socket);
            ready_and_wait();
        }
        // A client whose object the server has, until it is killed.
        "guest" => {
            let session = RpcSession::connect(socket).unwrap();
            let mine = everything();
            session.root().unwrap().transaction(REGISTER).call(|w| w.write(&mine), |_| Ok(())).unwrap();
            ready_and_wait();
        }
        "nonblocking" => nonblocking(),
        other => panic!("no such role: {other}"),
    }
}

/// A server in this process.
fn serve(
    options: impl FnOnce(RpcAddress) -> handoff_ipc::rpc::RpcServerBuilder,
) -> (Place, Everything, RpcServer) {
    let (place, service) = (Place::new(), Everything::default());
    let server = options(place.socket().into()).serve(Binder::new(service.clone())).unwrap();
    (place, service, server)
}

fn plain() -> (Place, Everything, RpcServer) {
    serve(RpcServer::builder)
}

/// The suite that every engine passes, each case with a server in another process.
#[test]
fn what_every_engine_promises_holds() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["calls::", "--test-threads=2"])
        .env("HANDOFF_TEST_ENGINE", "rpc")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let passed =
        said.lines().filter(|line| line.starts_with("test calls::") && line.ends_with("... ok")).count();
    assert!(passed >= 20, "{said}");
}

#[test]
fn every_version_carries_what_it_can() {
    for (server_version, client_version) in [(2, 2), (2, 1), (1, 2), (0, 2), (2, 0)] {
        let (_place, service, server) =
            serve(|address| RpcServer::builder(address).max_version(server_version));
        let session =
            RpcSession::builder(server.address().clone()).max_version(client_version).connect().unwrap();
        let version = server_version.min(client_version);
        assert_eq!(session.version(), version);
        let root = session.root().unwrap();
        assert_eq!(root.engine(), EngineKind::Rpc);
        assert_eq!(echo(&root, b"bytes").unwrap(), b"bytes");
        assert_eq!(call_back(&root, &everything(), 7).unwrap(), 7);
        let mine = everything();
        root.transaction(KEEP).call(|p| p.write(&Some(mine.clone())), |_| Ok(())).unwrap();
        let back: Option<Binder> = root.transaction(GET_KEPT).call(|_| Ok(()), |r| r.read()).unwrap();
        assert_eq!(back, Some(mine), "version {version}");
        let file = OwnedFd::from(file_with("over the socket"));
        let read: Result<String> = root.transaction(READ_FD).call(|p| p.write(&file), |r| r.read());
        match read {
            Ok(text) => assert!(text == "over the socket" && version > 0),
            Err(error) => assert!(version == 0 && error.to_string().contains("version 0"), "{error}"),
        }
        service.clear();
    }
}

/// Calls go to an address and back; callers are known unless they come over a network.
fn carries_calls(address: RpcAddress, is_network: bool) {
    let server = RpcServer::builder(address).serve(everything()).unwrap();
    let session = RpcSession::connect(server.address().clone()).unwrap();
    let root = session.root().unwrap();
    assert_eq!(call_back(&root, &everything(), 3).unwrap(), 3);
    let (pid, uid): (u32, u32) =
        root.transaction(WHO).call(|_| Ok(()), |r| Ok((r.read()?, r.read()?))).unwrap();
    // Who is at the other end of a network, the kernel does not know.
    let own =
        if is_network { (0, 65_534) } else { (std::process::id(), rustix::process::geteuid().as_raw()) };
    assert_eq!((pid, uid), own);
    let file = OwnedFd::from(file_with("text"));
    let sent: Result<String> = root.transaction(READ_FD).call(|p| p.write(&file), |r| r.read());
    match sent {
        Ok(text) => assert!(text == "text" && !is_network),
        Err(error) => assert!(is_network && error.to_string().contains("Unix socket"), "{error}"),
    }
    drop(server);
    eventually("the end is known", || !session.is_alive());
}

#[test]
fn abstract_names_and_machines_are_addresses_too() {
    let name = format!("handoff-rpc-test-{}", std::process::id());
    carries_calls(RpcAddress::abstract_name(name), false);
    carries_calls(RpcAddress::Inet(([127, 0, 0, 1], 0).into()), true);
}

#[test]
#[ignore = "run in a guest whose kernel has vsock_loopback, by a test of handoff-cli"]
fn virtual_machines_are_addresses_too() {
    let local = RpcAddress::Vsock { cid: 1, port: u32::MAX };
    carries_calls(local.clone(), true);
    let server = RpcServer::builder(local).serve(everything()).unwrap();
    let RpcAddress::Vsock { cid: 1, port } = *server.address() else { panic!("{}", server.address()) };
    drop(server);
    let gone = RpcSession::connect(RpcAddress::Vsock { cid: 1, port }).unwrap_err();
    assert!(gone.to_string().contains(&format!("vsock:1:{port}")), "{gone}");
}

#[test]
fn where_nobody_answers_connecting_ends_in_time() {
    // Without a machine of that number the kernel refuses it, or waits.
    let nowhere = RpcAddress::Vsock { cid: 77, port: 1 };
    let refused = RpcSession::builder(nowhere).setup_timeout(Duration::from_millis(50)).connect();
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("no RPC server answers at vsock:77:1"), "{refused}");
}

#[test]
fn a_server_calls_its_clients_at_any_time_and_hears_of_their_end() {
    let (place, service, server) = plain();
    let mut guest = Peer::start("guest", &place.socket());
    let mine = service.kept.lock().unwrap().guest.clone().unwrap();
    let pid: u32 = mine.transaction(WHO_SERVES).call(|_| Ok(()), |r| r.read()).unwrap();
    assert_eq!(pid, guest.child.id());
    let soon = mine.transaction(WHO_SERVES).deadline(LONG).call(|_| Ok(()), |r| r.read::<u32>()).unwrap();
    assert_eq!(soon, pid, "with a deadline, too");
    for n in 0..50 {
        mine.transaction(RECORD).oneway(|w| w.write(&n)).unwrap();
    }
    let mut seen = Vec::new();
    eventually("oneway calls to the client are served", || {
        seen.extend(mine.transaction(TAKE_RECORDS).call(|_| Ok(()), |r| r.read::<Vec<i32>>()).unwrap());
        seen.len() == 50
    });
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
    guest.kill();
    eventually("its end is told", || service.notices.load(Ordering::SeqCst) == 1);
    assert!(matches!(echo(&mine, b"x"), Err(Error::Dead)));
    eventually("its session is gone", || server.sessions() == 0);
}

/// Counts how many of them there are.
struct Counted(Arc<AtomicU32>);

impl Service for Counted {
    fn descriptor(&self) -> &str {
        "test.ICounted"
    }

    fn on_transact(&self, _: &mut Transaction<'_>) -> Result<()> {
        Ok(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Factory(Arc<AtomicU32>);

impl Service for Factory {
    fn descriptor(&self) -> &str {
        "test.IFactory"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        self.0.fetch_add(1, Ordering::SeqCst);
        transaction.reply.write(&Binder::new(Counted(Arc::clone(&self.0))))
    }
}

#[test]
fn objects_go_when_the_last_reference_does() {
    for version in 0..=2 {
        let (place, alive) = (Place::new(), Arc::new(AtomicU32::new(0)));
        let factory = Binder::new(Factory(Arc::clone(&alive)));
        let server = RpcServer::builder(place.socket()).max_version(version).serve(factory).unwrap();
        let session = RpcSession::connect(place.socket()).unwrap();
        let root = session.root().unwrap();
        let make = || root.transaction(1).call(|_| Ok(()), |r| r.read::<Binder>()).unwrap();
        let all: Vec<Binder> = (0..20).map(|_| make()).collect();
        assert_eq!(alive.load(Ordering::SeqCst), 20);
        for each in &all {
            each.transaction(1).call(|_| Ok(()), |_| Ok(())).unwrap();
            // What acknowledges it comes when nobody waits on the connection.
            each.transaction(1).oneway(|_| Ok(())).unwrap();
        }
        drop(all);
        eventually("all objects are let go", || alive.load(Ordering::SeqCst) == 0);
        if version == 2 {
            // Received and never read: before, the parcel does not say where references are.
            root.transaction(1).call(|_| Ok(()), |_| Ok(())).unwrap();
            eventually("what nobody read is let go", || alive.load(Ordering::SeqCst) == 0);
        }
        let _kept = make();
        assert_eq!(server.objects(), 2, "the root and one more");
        drop((session, root, _kept));
        eventually("the session is over", || server.sessions() == 0 && alive.load(Ordering::SeqCst) == 0);
    }
}

#[test]
fn an_object_of_a_third_process_is_refused() {
    let (place, service, _server) = plain();
    let _guest = Peer::start("guest", &place.socket());
    let session = RpcSession::connect(place.socket()).unwrap();
    let root = session.root().unwrap();
    // The server would have to hand the guest's object over.
    let refused = root.transaction(GUEST).call(|_| Ok(()), |r| r.read::<Binder>()).unwrap_err();
    assert!(refused.to_string().contains("Function not implemented"), "{refused}");
    assert_eq!(echo(&root, b"and goes on").unwrap(), b"and goes on");
    drop(service);
}

#[test]
fn a_parcel_of_another_engine_is_refused_and_never_garbled() {
    let (_place, _service, server) = plain();
    let root = RpcSession::connect(server.address().clone()).unwrap().root().unwrap();
    let mut parcel = Parcel::new();
    parcel.write(|to| to.write(&None::<Binder>)).unwrap();
    let refused = root.transaction(KEEP).call(|to| parcel.send(to), |_| Ok(())).unwrap_err();
    assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
    // What came is passed on, in its own form.
    let mine = everything();
    root.transaction(KEEP).call(|p| p.write(&Some(mine.clone())), |_| Ok(())).unwrap();
    let kept = root.transaction(GET_KEPT).call(|_| Ok(()), Parcel::receive).unwrap();
    root.transaction(KEEP).call(|to| kept.send(to), |_| Ok(())).unwrap();
    let back: Option<Binder> = root.transaction(GET_KEPT).call(|_| Ok(()), |r| r.read()).unwrap();
    assert_eq!(back, Some(mine));
}

#[test]
fn callers_on_many_threads_share_the_connections_that_there_are() {
    let place = Place::new();
    let _server = Peer::start("server", &place.socket());
    let session = RpcSession::builder(place.socket()).incoming_threads(0).connect().unwrap();
    assert_eq!((session.max_threads(), session.connections()), (4, 1));
    let root = session.root().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..16u32 {
            let root = root.clone();
            scope.spawn(move || {
                for n in 0..100u32 {
                    let bytes = (thread << 16 | n).to_le_bytes();
                    assert_eq!(echo(&root, &bytes).unwrap(), bytes);
                }
            });
        }
    });
    assert!(session.connections() <= 4);
    // One call more than there are connections for calls with replies: the fourth is for oneway calls.
    let (held, theirs): (Vec<_>, Vec<_>) =
        (0..3).map(|_| std::os::unix::net::UnixStream::pair().unwrap()).unzip();
    let calls: Vec<_> = theirs
        .into_iter()
        .map(|end| {
            let (root, end) = (root.clone(), OwnedFd::from(end));
            std::thread::spawn(move || root.transaction(HOLD).call(|p| p.write(&end), |_| Ok(())))
        })
        .collect();
    for mut end in &held {
        std::io::Read::read_exact(&mut end, &mut [0]).unwrap();
    }
    root.transaction(RECORD).oneway(|p| p.write(&1)).unwrap();
    let late =
        root.transaction(ECHO).deadline(Duration::from_millis(30)).call(|p| p.write_bytes(b"x"), |_| Ok(()));
    assert!(matches!(late, Err(Error::DeadlineExpired(_))), "{late:?}");
    drop(held);
    calls.into_iter().for_each(|call| call.join().unwrap().unwrap());
    assert_eq!(echo(&root, b"x").unwrap(), b"x");
}

#[test]
fn another_interface_is_refused_and_calls_name_theirs() {
    let (_place, _service, server) = plain();
    let root = RpcSession::connect(server.address().clone()).unwrap().root().unwrap();
    let other = handoff_ipc::InterfaceId::new("test.IOther");
    let refused = root.transaction(ECHO).interface(other).call(|p| p.write_bytes(b"x"), |_| Ok(()));
    let told = refused.unwrap_err().to_string();
    assert_eq!(told, "the object has the interface test.IEverything, not test.IOther");
}

#[test]
fn the_end_of_the_server_ends_what_waits() {
    let (_place, _service, server) = plain();
    let session = RpcSession::connect(server.address().clone()).unwrap();
    let root = session.root().unwrap();
    let (tell, told) = mpsc::channel();
    root.link_to_death(move || tell.send(()).unwrap()).unwrap().keep();
    let waiting = {
        let root = root.clone();
        std::thread::spawn(move || root.transaction(SLEEP_MS).call(|p| p.write(&2_000), |_| Ok(())))
    };
    std::thread::sleep(Duration::from_millis(50));
    drop(server);
    assert!(matches!(waiting.join().unwrap(), Err(Error::Dead)));
    told.recv_timeout(LONG).unwrap();
    assert!(!session.is_alive() && matches!(session.root(), Err(Error::Dead)));
}

#[test]
fn nobody_listens() {
    let place = Place::new();
    let error = RpcSession::connect(place.socket()).unwrap_err();
    assert!(error.to_string().contains("no RPC server answers"), "{error}");
    let mut first = Peer::start("server", &place.socket());
    let serve = || RpcServer::builder(place.socket()).serve(everything());
    assert!(serve().is_err(), "the place is taken");
    first.kill();
    let _second = serve().unwrap();
    echo(&RpcSession::connect(place.socket()).unwrap().root().unwrap(), b"x").unwrap();
}

/// A service that the manager knows, and that is called by RPC.
#[test]
fn whom_an_accessor_connects_is_known_as_who_called_it() {
    let (names, place) = (Place::new(), Place::new());
    let _manager = Manager::new(Policy::open()).serve(&names.socket(), SocketAccess::Owner).unwrap();
    let join = || Runtime::builder().socket(names.socket()).connect().unwrap();
    let (owner, client) = (join(), join());
    let network = RpcAddress::Inet(([127, 0, 0, 1], 0).into());
    for address in [RpcAddress::Path(place.socket()), network] {
        let server = RpcServer::builder(address).serve(everything()).unwrap();
        let accessor = server.accessor("test.IEverything/default");
        owner.services().add("accessor", accessor, ServiceOptions::default().replacing()).unwrap();
        let found = client.services().get("accessor").unwrap();
        assert_eq!(found.descriptor().unwrap(), "android.os.IAccessor");
        let name: String = found.transaction(2).call(|_| Ok(()), |reply| reply.read()).unwrap();
        assert_eq!(name, "test.IEverything/default");
        let session = RpcSession::connect(found.clone()).unwrap();
        let root = session.root().unwrap();
        assert_eq!(call_back(&root, &everything(), 3).unwrap(), 3);
        let own = (std::process::id(), rustix::process::geteuid().as_raw());
        let who = root.transaction(WHO).call(|_| Ok(()), |r| Ok((r.read()?, r.read()?))).unwrap();
        assert_eq!(own, who, "also where the server listens to a network");
        let file = OwnedFd::from(file_with("text"));
        let read: String = root.transaction(READ_FD).call(|p| p.write(&file), |r| r.read()).unwrap();
        assert_eq!(read, "text");
        drop(server);
        eventually("the end is known", || !session.is_alive());
        let gone = RpcSession::connect(found).unwrap_err();
        assert!(is_specific(&gone, 0), "{gone}");
    }
    let refused = RpcServer::builder(everything()).serve(everything()).unwrap_err();
    assert!(matches!(&refused, Error::Unsupported { .. }), "{refused}");
}

/// An accessor of somebody else, which gives what it likes.
#[test]
fn an_accessor_that_gives_no_connection_is_told_from_one_that_does() {
    let (end, _writer) = std::io::pipe().unwrap();
    let (datagrams, _other) = std::os::unix::net::UnixDatagram::pair().unwrap();
    let (silent, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    let (ended, other) = std::os::unix::net::UnixStream::pair().unwrap();
    drop(other);
    let wrong: [(OwnedFd, &str); 5] = [
        (file_with("no socket").into(), "something else"),
        (end.into(), "something else"),
        (datagrams.into(), "something else"),
        (silent.into(), "finish"),
        (ended.into(), "ended the session"),
    ];
    for (given, says) in wrong {
        let accessor = ParcelService::new("android.os.IAccessor", move |_, _| {
            let mut answer = Parcel::new();
            answer.write(|to| to.write(&given.try_clone().unwrap()))?;
            Ok(Some(answer))
        });
        let session = RpcSession::builder(Binder::new(accessor)).setup_timeout(Duration::from_millis(100));
        let refused = session.connect().unwrap_err();
        assert!(matches!(&refused, Error::Protocol(text) if text.contains(says)), "{says}: {refused}");
    }
}

/// Whoever gave a connection has it, too, and may make it one that nobody waits for.
#[test]
fn a_connection_that_does_not_wait_is_waited_for() {
    // In a process of its own, whose CPU time tells.
    alone("nonblocking", &Place::new().socket());
}

fn nonblocking() {
    let server =
        RpcServer::builder(RpcAddress::abstract_name(format!("rpc-nonblocking-{}", std::process::id())));
    let server = server.serve(everything()).unwrap();
    let real = server.accessor("x");
    let given = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&given);
    let accessor = ParcelService::new("android.os.IAccessor", move |_, _| {
        let socket: OwnedFd = real.transaction(1).call(|_| Ok(()), |reply| reply.read())?;
        rustix::io::ioctl_fionbio(&socket, true).unwrap();
        let mut answer = Parcel::new();
        answer.write(|to| to.write(&socket.try_clone().unwrap()))?;
        kept.lock().unwrap().push(socket);
        Ok(Some(answer))
    });
    let session = RpcSession::connect(Binder::new(accessor)).unwrap();
    let root = session.root().unwrap();
    // The thread that serves calls back waits, too.
    let before = cpu_time(std::process::id());
    std::thread::sleep(Duration::from_secs(1));
    let waited = cpu_time(std::process::id()) - before;
    assert!(waited < Duration::from_millis(50), "{waited:?} of CPU time for waiting");
    assert_eq!(call_back(&root, &everything(), 3).unwrap(), 3);
    assert!(given.lock().unwrap().len() >= 2);
}
