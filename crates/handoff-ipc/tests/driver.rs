//! What only the kernel's driver has: contexts, scatter-gather, freezing, spam detection, security
//! contexts, work sources, poll mode, binderfs. Run in a guest by `handoff/tests/guests/binder_guest.rs`.

#[path = "it/common/mod.rs"]
mod common;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::*;
use handoff_ipc::binder::{
    BinderEngine, Binderfs, Features, Implementation, find_device, freeze, frozen_info, thaw,
};
use handoff_ipc::engine::Engine;
use handoff_ipc::parcel::Handle;
use handoff_ipc::servicemanager::{Manager, Policy, ServiceOptions};
use handoff_ipc::{Binder, Code, Context, Error, Result, Runtime, Service, Transaction};
use handoff_placement::{Priority, Tid};

const SIZE: Code = 1;
const REVERSED: Code = 2;
const FILES: Code = 3;
const TOLD: Code = 4;
const BACK: Code = 5;
const THREAD: Code = 6;

/// What the tests of this file call.
struct Probe {
    asks_for_context: bool,
}

impl Service for Probe {
    fn descriptor(&self) -> &str {
        "test.IProbe"
    }

    fn wants_security_context(&self) -> bool {
        self.asks_for_context
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let Transaction { call, data, reply } = transaction;
        match call.code() {
            // How many bytes of the request's parcel itself were read.
            SIZE => {
                let begin = data.position();
                let len = data.read_bytes()?.len();
                reply.write(&(len as i64))?;
                reply.write(&((data.position() - begin) as i64))
            }
            REVERSED => {
                let mut bytes = data.read_bytes()?.to_vec();
                bytes.reverse();
                reply.write_buffer(bytes)
            }
            // Reads each file of a handle, and sends the handle back with the numbers doubled.
            FILES => {
                let Handle { fds, ints } = data.read_handle()?;
                let mut texts = Vec::new();
                for fd in &fds {
                    texts.push(read_all(fd.try_clone().unwrap()));
                }
                reply.write(&texts)?;
                reply.write_handle(Handle { fds, ints: ints.iter().map(|int| int * 2).collect() })
            }
            TOLD => {
                reply.write(&call.work_source().map_or(-1, i64::from))?;
                reply.write(&call.security_context().map(str::to_owned))
            }
            BACK => reply.write_shared(data.read_bytes()?),
            THREAD => reply.write(&std::thread::current().name().unwrap_or("none").to_owned()),
            _ => Err(transaction.unknown(self.descriptor())),
        }
    }
}

fn read_all(fd: OwnedFd) -> String {
    use std::io::{Read as _, Seek as _};
    let mut file = std::fs::File::from(fd);
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    text
}

fn open(context: Context) -> BinderEngine {
    BinderEngine::open_for(find_device(context).unwrap(), context).unwrap()
}

/// A server's role is its context's device, a dash, and what it serves.
#[test]
#[ignore = "a process of another test"]
fn role_main() {
    let Some((role, _)) = role() else { return };
    let (device, what) = role.split_once('-').unwrap();
    let engine = open(device.parse().unwrap());
    let probe = |asks_for_context| Binder::new(Probe { asks_for_context });
    match what {
        "everything" => engine.become_context_manager(Binder::new(Everything::default())).unwrap(),
        "one" => {
            engine.set_max_threads(1);
            engine.become_context_manager(Binder::new(Everything::default())).unwrap();
        }
        "probe" => engine.become_context_manager(probe(false)).unwrap(),
        "context" => engine.become_context_manager(probe(true)).unwrap(),
        "poller" => {
            engine.set_max_threads(0);
            let poller = engine.poller().unwrap();
            engine.become_context_manager(probe(false)).unwrap();
            println!("ready");
            loop {
                let mut polled = [rustix::event::PollFd::new(&poller, rustix::event::PollFlags::IN)];
                rustix::event::poll(&mut polled, None).unwrap();
                assert!(poller.as_fd().try_clone_to_owned().is_ok());
                poller.serve().unwrap();
            }
        }
        "manager" => {
            engine.become_context_manager(Manager::new(Policy::open()).binder()).unwrap();
        }
        other => panic!("no such role: {other}"),
    }
    ready_and_wait();
}

fn server(role: &str) -> Peer {
    Peer::start(role, Path::new("/"))
}

fn root(context: Context) -> (BinderEngine, Binder) {
    let engine = open(context);
    let root = engine.context_object().unwrap();
    (engine, root)
}

fn kernel() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn the_driver_tells_what_it_can_do() {
    for context in Context::ALL {
        let features = Features::of(&find_device(context).unwrap()).unwrap();
        assert_eq!(features.protocol, 8);
        assert!(features.scatter_gather && features.security_context && features.freeze);
        assert!(features.oneway_spam_detection && features.extended_error && features.clear_buffer);
        // What was asked of the kernel agrees with its version, which nothing was told from.
        assert_eq!(features.freeze_notification, kernel() >= (6, 12), "{features:?}");
        assert_eq!(features.named().len(), 7);
    }
}

#[test]
fn buffers_are_gathered_in_the_hardware_domain_only() {
    for (context, in_the_parcel) in [(Context::Hardware, 40), (Context::Framework, 4 + 70_000)] {
        let _server = server(&format!("{}-probe", context.device()));
        let (_engine, root) = root(context);
        let lent: Vec<u8> = (0..70_000u32).map(|n| (n * 3) as u8).collect();
        let buffers: &[&[u8]] = &[&lent, b"small"];
        let sizes = |index| -> (i64, i64) {
            root.transaction(SIZE)
                .lend(buffers)
                .call(|w| w.write_lent(index), |r| Ok((r.read()?, r.read()?)))
                .unwrap()
        };
        assert_eq!(sizes(0), (70_000, in_the_parcel), "{context}");
        // Not worth an object of its own.
        assert_eq!(sizes(1), (5, 4 + 8), "{context}");
        for len in [0, 511, 512, 513, 4096, 70_000] {
            let sent = lent[..len].to_vec();
            let back: Vec<u8> = root
                .transaction(REVERSED)
                .call(|w| w.write_buffer(sent.clone()), |r| Ok(r.read_bytes()?.to_vec()))
                .unwrap();
            assert!(back.iter().rev().eq(&sent), "{context}, {len} bytes");
            // Out of the memory that it arrived in.
            let back: Vec<u8> = root
                .transaction(BACK)
                .lend(&[&sent])
                .call(|w| w.write_lent(0), |r| Ok(r.read_bytes()?.to_vec()))
                .unwrap();
            assert_eq!(back, sent, "{context}, {len} bytes");
            // With a deadline, where another thread makes the call.
            let back: Vec<u8> = root
                .transaction(BACK)
                .deadline(Duration::from_secs(20))
                .lend(&[&sent])
                .call(|w| w.write_lent(0), |r| Ok(r.read_bytes()?.to_vec()))
                .unwrap();
            assert_eq!(back, sent, "{context}, {len} bytes");
        }
    }
}

#[test]
fn handles_carry_descriptors_and_numbers() {
    for context in [Context::Hardware, Context::Framework] {
        let _server = server(&format!("{}-probe", context.device()));
        let (_engine, root) = root(context);
        let before = open_nameless_files();
        let file = file_with("seen");
        assert_eq!(open_nameless_files(), before + 1);
        drop(file);
        for files in [0, 1, 7] {
            let fds = (0..files).map(|n| OwnedFd::from(file_with(&format!("file {n}")))).collect();
            let mut handle = Some(Handle { fds, ints: vec![1, -2, 3] });
            let (texts, back): (Vec<String>, Handle) = root
                .transaction(FILES)
                .call(|w| w.write_handle(handle.take().unwrap()), |r| Ok((r.read()?, r.read_handle()?)))
                .unwrap();
            assert_eq!(texts, (0..files).map(|n| format!("file {n}")).collect::<Vec<_>>(), "{context}");
            assert_eq!(back.ints, [2, -4, 6]);
            let again: Vec<String> = back.fds.into_iter().map(read_all).collect();
            assert_eq!(again, texts, "{context}");
        }
        // The driver closes what it installed when the parcel is given back: with the next calls.
        root.ping().unwrap();
        root.ping().unwrap();
        assert_eq!(open_nameless_files(), before, "{context}");
    }
}

/// Descriptors of files such as the calls carry. Not all that are open: what the test before had is closed by threads that
/// end in their own time.
fn open_nameless_files() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").unwrap().map(|fd| fd.unwrap().path());
    all.filter(|fd| std::fs::metadata(fd).is_ok_and(|file| file.is_file() && file.nlink() == 0)).count()
}

#[test]
fn a_frozen_process_refuses_calls_and_keeps_oneway_ones() {
    let peer = server("binder-everything");
    let pid = peer.child.id();
    let (_engine, root) = root(Context::Framework);
    let device = find_device(Context::Framework).unwrap();
    // With a call under way there is nothing to be done yet.
    let busy = {
        let root = root.clone();
        std::thread::spawn(move || root.transaction(SLEEP_MS).call(|w| w.write(&1500), |_| Ok(())))
    };
    std::thread::sleep(Duration::from_millis(400));
    let error = freeze(&device, pid, Duration::from_millis(50)).unwrap_err().to_string();
    assert!(error.contains("calls under way"), "{error}");
    busy.join().unwrap().unwrap();
    thaw(&device, pid).unwrap();

    freeze(&device, pid, Duration::from_secs(5)).unwrap();
    assert!(matches!(echo(&root, b"x"), Err(Error::Frozen)));
    let info = frozen_info(&device, pid).unwrap();
    assert!(info.refused_calls && !info.held_oneway && !info.call_pending, "{info:?}");
    root.transaction(RECORD).oneway(|w| w.write(&7)).unwrap();
    // Whether the kernel counts a held oneway call among those under way depends on its version.
    let info = frozen_info(&device, pid).unwrap();
    assert!(info.refused_calls && info.held_oneway, "{info:?}");
    thaw(&device, pid).unwrap();
    eventually("the oneway call that was held back is served", || {
        root.transaction(TAKE_RECORDS).call(|_| Ok(()), |r| r.read::<Vec<i32>>()).unwrap() == [7]
    });
    assert_eq!(echo(&root, b"x").unwrap(), b"x");
    // Nobody of that number uses the driver.
    for refused in [freeze(&device, 1, Duration::ZERO), thaw(&device, 1)] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("does not use this driver"), "{error}");
    }
    assert!(frozen_info(&device, 1).is_err());
}

#[test]
fn news_of_freezing_come_where_the_kernel_has_them() {
    let peer = server("binder-everything");
    let (_engine, root) = root(Context::Framework);
    let news: Arc<Mutex<Vec<bool>>> = Arc::default();
    let told = Arc::clone(&news);
    let registered = root.on_freeze(move |frozen| told.lock().unwrap().push(frozen));
    if kernel() < (6, 12) {
        let error = registered.expect_err("this kernel has no such news").to_string();
        assert!(error.contains("6.12"), "{error}");
        assert_eq!(echo(&root, b"x").unwrap(), b"x", "and nothing is broken");
        return;
    }
    let registered = registered.unwrap();
    let device = find_device(Context::Framework).unwrap();
    let heard = |wanted: &[bool]| eventually("news come", || *news.lock().unwrap() == wanted);
    heard(&[false]);
    freeze(&device, peer.child.id(), Duration::from_secs(5)).unwrap();
    heard(&[false, true]);
    thaw(&device, peer.child.id()).unwrap();
    heard(&[false, true, false]);
    // One who comes later hears at once how things are.
    let late = Arc::new(AtomicU32::new(9));
    let to = Arc::clone(&late);
    let second = root.on_freeze(move |frozen| to.store(u32::from(frozen), Ordering::SeqCst)).unwrap();
    eventually("how things are", || late.load(Ordering::SeqCst) == 0);
    drop(registered);
    freeze(&device, peer.child.id(), Duration::from_secs(5)).unwrap();
    eventually("the second hears", || late.load(Ordering::SeqCst) == 1);
    assert_eq!(*news.lock().unwrap(), [false, true, false], "the first was taken back");
    thaw(&device, peer.child.id()).unwrap();
    drop(second);
}

#[test]
fn a_sender_that_floods_is_told_so() {
    let _server = server("binder-one");
    let (engine, root) = root(Context::Framework);
    root.transaction(SLEEP_MS).oneway(|w| w.write(&3000)).unwrap();
    let big = vec![0u8; 30_000];
    let mut refused = None;
    for _ in 0..200 {
        if let Err(error) = root.transaction(RECORD).oneway(|w| w.write_raw(&big)) {
            refused = Some(error);
            break;
        }
    }
    assert!(engine.stats().oneway_spam > 0, "{:?}", engine.stats());
    assert!(matches!(refused, Some(Error::OnewayFull(_))), "{refused:?}");
}

#[test]
fn why_a_transaction_failed_is_told() {
    let mut peer = server("binder-everything");
    let (_engine, root) = root(Context::Framework);
    let error = root.transaction(SUM).call(|w| w.write_bytes(&vec![0; 5 << 20]), |_| Ok(())).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    peer.kill();
    assert!(matches!(echo(&root, b"x"), Err(Error::Dead)));
    assert!(!root.is_alive());
}

#[test]
fn services_are_told_the_security_context() {
    let _server = server("vndbinder-context");
    let engine = open(Context::Vendor);
    let told = || -> Result<Option<String>> {
        let root = engine.context_object()?;
        root.transaction(TOLD).call(
            |_| Ok(()),
            |r| {
                r.read::<i64>()?;
                r.read()
            },
        )
    };
    let selinux = std::fs::read_to_string("/proc/self/attr/selinux/current");
    match selinux.or_else(|_| std::fs::read_to_string("/proc/self/attr/current")) {
        Ok(mine) if Path::new("/sys/fs/selinux").exists() => {
            assert_eq!(told().unwrap().as_deref(), Some(mine.trim_end_matches(['\n', '\0'])));
        }
        // No security module that the driver can ask: it refuses such calls.
        _ => assert!(matches!(told(), Err(Error::Io { .. })), "{:?}", told()),
    }
}

#[test]
fn work_sources_arrive_and_secrets_do_too() {
    let _server = server("vndbinder-probe");
    let (_engine, root) = root(Context::Vendor);
    let (work_source, context): (i64, Option<String>) = root
        .transaction(TOLD)
        .work_source(10_042)
        .clear_buffers()
        .call(|_| Ok(()), |r| Ok((r.read()?, r.read()?)))
        .unwrap();
    assert_eq!((work_source, context), (10_042, None));
    for _ in 0..3 {
        let back: Vec<u8> = root
            .transaction(REVERSED)
            .work_source(10_042)
            .clear_buffers()
            .call(|w| w.write_bytes(b"secret"), |r| r.read())
            .unwrap();
        assert_eq!(back, b"terces");
    }
}

#[test]
fn a_program_with_its_own_loop_serves_by_polling() {
    let _server = server("hwbinder-poller");
    let (_engine, root) = root(Context::Hardware);
    for n in 0..50u8 {
        let back: Vec<u8> =
            root.transaction(REVERSED).call(|w| w.write_bytes(&[1, 2, n]), |r| r.read()).unwrap();
        assert_eq!(back, [n, 2, 1]);
    }
    let thread: String = root.transaction(THREAD).call(|_| Ok(()), |r| r.read()).unwrap();
    assert!(!thread.starts_with("handoff"), "no thread of the pool served it: {thread}");
}

#[test]
fn callers_lend_their_nice_value_where_the_driver_is_in_c() {
    let _server = server("binder-everything");
    let (_engine, root) = root(Context::Framework);
    let served_for = |caller: Priority| {
        let root = root.clone();
        std::thread::spawn(move || {
            caller.apply(Tid::current()).unwrap();
            root.transaction(PRIORITY).call(|_| Ok(()), |r| r.read::<String>()).unwrap()
        })
        .join()
        .unwrap()
    };
    let lent = if Implementation::running() == Implementation::Rust { "other" } else { "other:-10" };
    assert_eq!(served_for(Priority::other(-10)), lent);
    assert_eq!(served_for(Priority::other(0)), "other");
    // Mainline inherits no more than that.
    assert_eq!(served_for(Priority::fifo(50)), "other");
}

#[test]
fn each_domain_has_its_own_names() {
    let _framework = server("binder-manager");
    let _hardware = server("hwbinder-manager");
    let connect = |context| {
        Runtime::builder().engine(handoff_ipc::engine::EngineKind::Binder).context(context).connect().unwrap()
    };
    let (framework, hardware) = (connect(Context::Framework), connect(Context::Hardware));
    assert_eq!(hardware.device().unwrap(), find_device(Context::Hardware).unwrap());
    let probe = || Binder::new(Probe { asks_for_context: false });
    hardware.services().add("probe", probe(), ServiceOptions::hardware()).unwrap();
    assert!(framework.services().check("probe").unwrap().is_none());
    assert!(connect(Context::Hardware).services().check("probe").unwrap().is_some());
    let error =
        framework.services().add("probe", probe(), ServiceOptions::hardware()).unwrap_err().to_string();
    assert!(error.contains("each has its own driver"), "{error}");
    let listed = hardware.services().list().unwrap();
    assert!(
        listed.iter().any(|info| info.name == "probe" && info.context == Context::Hardware),
        "{listed:?}"
    );
}

#[test]
fn binderfs_makes_drivers_where_the_kernel_has_it() {
    if !Binderfs::is_supported() {
        let error = Binderfs::private().unwrap_err().to_string();
        assert!(error.contains("CONFIG_ANDROID_BINDERFS"), "{error}");
        let error = Binderfs::mount("/tmp/binderfs").unwrap_err().to_string();
        assert!(error.contains("CONFIG_ANDROID_BINDERFS"), "{error}");
        return;
    }
    let binderfs = Binderfs::private().unwrap();
    assert!(!Binderfs::mounted().contains(&binderfs.folder().to_owned()));
    let device = binderfs.create_device("mine").unwrap();
    assert_eq!(binderfs.create_device("mine").unwrap(), device, "it is there already");
    assert!(binderfs.devices().unwrap().contains(&"mine".to_owned()));
    assert_eq!(binderfs.features().unwrap().get("oneway_spam_detection"), Some(&true));
    // Its own world: there is a place for a manager whoever has those of /dev.
    let serves = BinderEngine::open(&device).unwrap();
    serves.become_context_manager(Binder::new(Probe { asks_for_context: false })).unwrap();
    let features = Features::of(&device).unwrap();
    assert_eq!(features.binderfs.get("extended_error"), Some(&true));
    binderfs.remove_device("mine").unwrap();
    assert!(!device.exists());

    let mounted = Binderfs::mount("/tmp/a b").unwrap();
    assert_eq!(Binderfs::mounted().iter().filter(|place| *place == Path::new("/tmp/a b")).count(), 1);
    drop(mounted);
    assert!(!Binderfs::mounted().contains(&"/tmp/a b".into()));
}

#[test]
fn large_replies_do_not_fill_the_buffer_up() {
    let _server = server("hwbinder-probe");
    let (_engine, root) = root(Context::Hardware);
    let stop = Arc::new(AtomicBool::new(false));
    // Threads that each took one large reply, and have nothing more to say. One after the other: what they
    // send must fit into the server's buffer, too.
    let (took, taken) = std::sync::mpsc::channel();
    let idle: Vec<_> = (0..12)
        .map(|_| {
            let (root, stop, took) = (root.clone(), Arc::clone(&stop), took.clone());
            let thread = std::thread::spawn(move || {
                let len = 300_000;
                let back = root
                    .transaction(REVERSED)
                    .call(|w| w.write_buffer(vec![1; len]), |r| Ok(r.read_bytes()?.len()));
                took.send(back.unwrap()).unwrap();
                while !stop.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            assert_eq!(taken.recv_timeout(Duration::from_secs(60)), Ok(300_000));
            thread
        })
        .collect();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(800) {
        let back = root
            .transaction(REVERSED)
            .call(|w| w.write_buffer(vec![2; 1 << 20]), |r| Ok(r.read_bytes()?.len()));
        assert_eq!(back.unwrap(), 1 << 20);
    }
    stop.store(true, Ordering::SeqCst);
    idle.into_iter().for_each(|thread| thread.join().unwrap());
}
