//! Calls and handlers without a thread for each: many at once, given up, and with peers that die.

use std::fs;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use crate::common::*;
use handoff_ipc::parcel::Writer;
use handoff_ipc::{AsyncService, Binder, Code, Error, ExceptionCode, Request, Response, Result, Status};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

const OUTSTANDING: usize = 200;
/// How long anything here may take on a busy machine.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

const WAIT: Code = 101;
const LET_GO: Code = 102;
const WAITING: Code = 103;
const GIVE_BACK: Code = 104;

/// Its handlers wait until somebody lets them go.
struct Gate {
    open: Arc<Semaphore>,
    waiting: Arc<AtomicI32>,
}

impl Gate {
    fn new() -> Self {
        Gate { open: Arc::new(Semaphore::new(0)), waiting: Arc::default() }
    }
}

impl AsyncService for Gate {
    fn descriptor(&self) -> &str {
        "test.IGate"
    }

    fn on_transact(self: Arc<Self>, request: &mut Request<'_>) -> Result<Response> {
        let Request { call, data } = request;
        match call.code() {
            WAIT => {
                let value: i32 = data.read()?;
                self.waiting.fetch_add(1, Ordering::SeqCst);
                Ok(Response::new(async move {
                    self.open.acquire().await.unwrap().forget();
                    self.waiting.fetch_sub(1, Ordering::SeqCst);
                    Ok(move |reply: &mut Writer<'_>| reply.write(&(value + 1)))
                }))
            }
            LET_GO => {
                let count: i32 = data.read()?;
                self.open.add_permits(count as usize);
                Ok(Response::ready(|_| Ok(())))
            }
            WAITING => {
                let waiting = self.waiting.load(Ordering::SeqCst);
                Ok(Response::ready(move |reply| reply.write(&waiting)))
            }
            // An object and a descriptor, after a wait.
            GIVE_BACK => {
                let text: String = data.read()?;
                Ok(Response::new(async move {
                    self.open.acquire().await.unwrap().forget();
                    Ok(move |reply: &mut Writer<'_>| {
                        reply.write(&OwnedFd::from(file_with(&text)))?;
                        reply.write(&Binder::new(Everything::default()))
                    })
                }))
            }
            ECHO => {
                let bytes = data.read_bytes()?.to_vec();
                Ok(Response::ready(move |reply| reply.write_bytes(&bytes)))
            }
            WHO => {
                let who = call.identity();
                assert_eq!(handoff_ipc::calling_identity(), who);
                Ok(Response::ready(move |reply| reply.write(&who.pid)))
            }
            FAIL => Ok(Response::new(async {
                tokio::task::yield_now().await;
                Err::<fn(&mut Writer<'_>) -> Result<()>, _>(Status::service_specific(42, "as asked").into())
            })),
            PANIC => Ok(Response::new(async {
                tokio::task::yield_now().await;
                if true {
                    panic!("as asked");
                }
                Ok(|_: &mut Writer<'_>| Ok(()))
            })),
            DIE => std::process::abort(),
            _ => Err(request.unknown(self.descriptor())),
        }
    }
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
#[ignore = "a process of another test"]
fn role_main() {
    let Some((role, socket)) = role() else { return };
    match role.as_str() {
        "tasks" => {
            // One thread for all handlers, away from the one that reads the standard input.
            let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
            let engine = engine(&socket);
            engine.become_context_manager(Binder::new_async_on(Gate::new(), runtime.handle())).unwrap();
            ready_and_wait();
        }
        "threads" => {
            let _engine = serve(&socket, Everything::default());
            ready_and_wait();
        }
        "many-calls" => {
            let engine = engine(&socket);
            let root = engine.context_object().unwrap();
            one_thread().block_on(many_calls(root));
            std::process::exit(0);
        }
        "dropped-calls" => {
            let engine = engine(&socket);
            let root = engine.context_object().unwrap();
            one_thread().block_on(dropped_calls(root));
            assert_eq!(engine.stats().links, 1);
            std::process::exit(0);
        }
        other => panic!("no such role: {other}"),
    }
}

fn wait(gate: &Binder, value: i32) -> impl Future<Output = Result<i32>> + Send + 'static {
    gate.transaction(WAIT).call_async(move |w| w.write(&value), |r| r.read())
}

fn let_go(gate: &Binder, count: i32) -> impl Future<Output = Result<()>> + Send + 'static {
    gate.transaction(LET_GO).call_async(move |w| w.write(&count), |_| Ok(()))
}

async fn until_waiting(gate: &Binder, count: i32) {
    let all = async {
        while gate.transaction(WAITING).call_async(|_| Ok(()), |r| r.read::<i32>()).await.unwrap() != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONGEST_WAIT, all).await.expect("so many wait");
}

/// In a process of its own: its threads are counted.
async fn many_calls(gate: Binder) {
    let before = threads();
    let calls: Vec<_> = (0..OUTSTANDING as i32).map(|n| tokio::spawn(wait(&gate, n))).collect();
    until_waiting(&gate, OUTSTANDING as i32).await;
    assert!(threads() <= before + 1, "{} threads, {before} before the calls", threads());
    let_go(&gate, OUTSTANDING as i32).await.unwrap();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap(), n as i32 + 1);
    }
    assert!(threads() <= before + 1, "{} threads, {before} before the calls", threads());
}

#[test]
fn two_hundred_calls_at_once_take_no_thread_on_either_side() {
    let place = Place::new();
    let server = Peer::start("tasks", &place.socket());
    let tasks = format!("/proc/{}/task", server.child.id());
    let before = fs::read_dir(&tasks).unwrap().count();
    alone("many-calls", &place.socket());
    // A thread of the pool may have come for what is no call; none for each.
    let after = fs::read_dir(&tasks).unwrap().count();
    assert!(after <= before + 4, "{after} threads of the server, {before} before");
}

#[test]
fn more_calls_than_may_be_outstanding_wait_for_their_turn() {
    let w = World::of("threads");
    one_thread().block_on(async {
        let calls: Vec<_> = (0..1500u32)
            .map(|n| {
                let bytes = n.to_le_bytes();
                let call = w
                    .root
                    .transaction(ECHO)
                    .call_async(move |w| w.write_bytes(&bytes), |r| Ok(r.read_bytes()?.to_vec()));
                (n, tokio::spawn(call))
            })
            .collect();
        for (n, call) in calls {
            assert_eq!(call.await.unwrap().unwrap(), n.to_le_bytes());
        }
    });
    // Mixed with calls that threads wait for.
    assert_eq!(echo(&w.root, b"still alive").unwrap(), b"still alive");
    drop((w.place, w.server, w.engine));
}

#[test]
fn a_call_that_is_dropped_is_served_and_its_slot_serves_again() {
    let place = Place::new();
    let _server = Peer::start("tasks", &place.socket());
    alone("dropped-calls", &place.socket());
}

/// In a process of its own: its slots are counted.
async fn dropped_calls(gate: Binder) {
    let mut mapped = 0;
    for round in 0..20 {
        let calls: Vec<_> = (0..50).map(|n| tokio::spawn(wait(&gate, n))).collect();
        until_waiting(&gate, 50).await;
        // Dropped while the handlers wait: each is served all the same.
        calls.iter().for_each(|call| call.abort());
        for call in calls {
            assert!(call.await.unwrap_err().is_cancelled());
        }
        let_go(&gate, 50).await.unwrap();
        until_waiting(&gate, 0).await;
        if round == 2 {
            mapped = mappings();
        }
    }
    assert_eq!(wait_and_let_go(&gate, 6).await, 7);
    // Slots are used again; those of one round may still be on their way back when the next begins.
    assert!(mappings() < mapped + 100, "{} mappings, {mapped} at first", mappings());
}

async fn wait_and_let_go(gate: &Binder, value: i32) -> i32 {
    let gone = tokio::spawn(let_go(gate, 1));
    let answer = wait(gate, value).await.unwrap();
    gone.await.unwrap().unwrap();
    answer
}

#[test]
fn a_late_reply_gives_back_what_it_brought() {
    let w = World::of("tasks");
    one_thread().block_on(async {
        let give_back = |text: &str| {
            let text = text.to_owned();
            w.root
                .transaction(GIVE_BACK)
                .call_async(move |w| w.write(&text), |r| Ok((r.read::<OwnedFd>()?, r.read::<Binder>()?)))
        };
        for _ in 0..30 {
            let options = tokio::time::timeout(Duration::from_millis(1), give_back("late")).await;
            assert!(options.is_err());
        }
        let_go(&w.root, 30).await.unwrap();
        // The next calls in the same slots get their own descriptor, not a late one.
        for n in 0..60 {
            let text = format!("own {n}");
            let gone = tokio::spawn(let_go(&w.root, 1));
            let (fd, object) = give_back(&text).await.unwrap();
            gone.await.unwrap().unwrap();
            let read = object
                .transaction(READ_FD)
                .call_async(move |w| w.write(&fd), |r| r.read::<String>())
                .await
                .unwrap();
            assert_eq!(read, text);
        }
    });
}

#[test]
fn a_late_reply_to_a_thread_gives_back_what_it_brought() {
    let w = World::of("tasks");
    for _ in 0..5 {
        let late = w
            .root
            .transaction(GIVE_BACK)
            .deadline(Duration::from_millis(20))
            .call(|w| w.write(&"late".to_owned()), |_| Ok(()));
        assert!(matches!(late, Err(Error::DeadlineExpired(_))), "{late:?}");
    }
    w.root.transaction(LET_GO).call(|w| w.write(&15), |_| Ok(())).unwrap();
    for n in 0..10 {
        let text = format!("own {n}");
        let (fd, object) = w
            .root
            .transaction(GIVE_BACK)
            .call(|w| w.write(&text), |r| Ok((r.read::<OwnedFd>()?, r.read::<Binder>()?)))
            .unwrap();
        let read: String = object.transaction(READ_FD).call(|w| w.write(&fd), |r| r.read()).unwrap();
        assert_eq!(read, text);
    }
}

#[test]
fn a_deadline_ends_a_call_and_the_next_one_works() {
    let w = World::of("tasks");
    one_thread().block_on(async {
        let late = w
            .root
            .transaction(WAIT)
            .deadline(Duration::from_millis(30))
            .call_async(|w| w.write(&1), |r| r.read::<i32>())
            .await;
        assert!(matches!(late, Err(Error::DeadlineExpired(_))), "{late:?}");
        let_go(&w.root, 1).await.unwrap();
        until_waiting(&w.root, 0).await;
        assert_eq!(wait_and_let_go(&w.root, 1).await, 2);
    });
}

#[test]
fn the_end_of_a_peer_ends_every_call_with_the_dead_object_error() {
    for server in ["tasks", "threads"] {
        let mut w = World::of(server);
        one_thread().block_on(async {
            let code = if server == "tasks" { WAIT } else { SLEEP_MS };
            let calls: Vec<_> = (0..600)
                .map(|_| {
                    tokio::spawn(w.root.transaction(code).call_async(|w| w.write(&1_000_000), |_| Ok(())))
                })
                .collect();
            tokio::time::sleep(Duration::from_millis(100)).await;
            w.server.kill();
            for call in calls {
                let ended = tokio::time::timeout(LONGEST_WAIT, call).await.expect("at once").unwrap();
                assert!(matches!(ended, Err(Error::Dead)), "{ended:?}");
            }
            let again = wait(&w.root, 1).await;
            assert!(matches!(again, Err(Error::Dead)), "{again:?}");
        });
    }
}

#[test]
fn exceptions_panics_and_unknown_codes_reach_the_caller() {
    let w = World::of("tasks");
    one_thread().block_on(async {
        let call = |code| w.root.transaction(code).call_async(|_| Ok(()), |_| Ok(()));
        assert!(is_specific(&call(FAIL).await.unwrap_err(), 42));
        let panicked = call(PANIC).await.unwrap_err();
        assert!(
            matches!(&panicked, Error::Status(status) if status.exception() == ExceptionCode::IllegalState),
            "{panicked:?}"
        );
        assert!(matches!(call(77).await, Err(Error::UnknownTransaction { .. })));
        let me = w.root.transaction(WHO).call_async(|_| Ok(()), |r| r.read::<u32>()).await.unwrap();
        assert_eq!(me, std::process::id());
    });
    // Threads call it as any other service.
    assert_eq!(w.root.descriptor().unwrap(), "test.IGate");
    w.root.ping().unwrap();
    for len in [0, 1, 32, 1000, 5000, 1 << 20] {
        let bytes: Vec<u8> = (0..len).map(|n| (n * 7) as u8).collect();
        assert_eq!(echo(&w.root, &bytes).unwrap(), bytes, "{len} bytes");
    }
}

#[test]
fn a_service_whose_runtime_is_gone_is_dead() {
    let place = Place::new();
    let engine_here = engine(&place.socket());
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let gate = Binder::new_async_on(Gate::new(), runtime.handle());
    engine_here.become_context_manager(gate).unwrap();
    let other = engine(&place.socket());
    let root = other.context_object().unwrap();
    let calling = {
        let root = root.clone();
        std::thread::spawn(move || root.transaction(WAIT).call(|w| w.write(&1), |r| r.read::<i32>()))
    };
    one_thread().block_on(until_waiting(&root, 1));
    runtime.shutdown_timeout(LONGEST_WAIT);
    assert!(matches!(calling.join().unwrap(), Err(Error::Dead)));
    assert!(matches!(echo(&root, b"x"), Err(Error::Dead)));
}

#[test]
fn objects_of_this_process_are_called_the_same_way() {
    one_thread().block_on(async {
        let gate = Binder::new_async(Gate::new());
        assert_eq!(wait_and_let_go(&gate, 1).await, 2);
        let blocking = Binder::new(Everything::default());
        let sum =
            blocking.transaction(SUM).call_async(|w| w.write_bytes(&[1, 2, 3]), |r| r.read::<u64>()).await;
        assert_eq!(sum.unwrap(), 6);
        // A thread of the runtime that waited for itself would wait for ever.
        let refused = echo(&gate, b"x");
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    });
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let gate = Binder::new_async_on(Gate::new(), runtime.handle());
    assert_eq!(echo(&gate, b"a thread may wait").unwrap(), b"a thread may wait");
}

#[test]
fn oneway_calls_to_tasks_keep_their_order() {
    struct Recorder(tokio::sync::Mutex<Vec<i32>>);

    impl AsyncService for Recorder {
        fn descriptor(&self) -> &str {
            "test.IRecorder"
        }

        fn on_transact(self: Arc<Self>, request: &mut Request<'_>) -> Result<Response> {
            let code = request.code();
            let Request { data, .. } = request;
            if code == TAKE_RECORDS {
                return Ok(Response::new(async move {
                    let all = std::mem::take(&mut *self.0.lock().await);
                    Ok(move |reply: &mut Writer<'_>| reply.write(&all))
                }));
            }
            let value: i32 = data.read()?;
            Ok(Response::new(async move {
                // The later, the shorter: out of order, were they not served one by one.
                tokio::time::sleep(Duration::from_micros((50 - value) as u64 * 20)).await;
                self.0.lock().await.push(value);
                Ok(|_: &mut Writer<'_>| Ok(()))
            }))
        }
    }

    let place = Place::new();
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let engine_here = engine(&place.socket());
    let recorder = Recorder(tokio::sync::Mutex::default());
    engine_here.become_context_manager(Binder::new_async_on(recorder, runtime.handle())).unwrap();
    let other = engine(&place.socket());
    let root = other.context_object().unwrap();
    for value in 0..50 {
        root.transaction(RECORD).oneway(|w| w.write(&value)).unwrap();
    }
    let mut seen: Vec<i32> = Vec::new();
    eventually("all are served", || {
        seen.extend(root.transaction(TAKE_RECORDS).call(|_| Ok(()), |r| r.read::<Vec<i32>>()).unwrap());
        seen.len() == 50
    });
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
}
