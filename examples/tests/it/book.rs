//! Code that the book shows and no example program has. The pages take it from here, so that it compiles, and works where
//! a test can have what it needs.

use std::thread;
use std::time::Duration;

use handoff_examples::interfaces::sample::{AdderProxy, AdderStub, IAdder};
use handoff_examples::interfaces::vendor::sample::benchmark::{
    BenchmarkAsyncProxy, BenchmarkAsyncStub, IBenchmarkAsync, SampleMessage,
};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Proxy as _, Result, Runtime};
use tokio::sync::Mutex;

struct Adder;

impl Adder {
    fn count(&self) -> u32 {
        7
    }
}

impl IAdder for Adder {
    fn add(&self, a: i32, b: i32) -> Result<i32> {
        Ok(a + b)
    }

    fn reset(&self) -> Result<()> {
        Ok(())
    }
}

#[derive(Default)]
struct Store(Mutex<Vec<u8>>);

impl Store {
    async fn write(&self, data: &[u8]) -> Result<()> {
        self.0.lock().await.extend_from_slice(data);
        Ok(())
    }
}

#[derive(Default)]
struct Benchmark {
    store: Store,
}

// ANCHOR: async-service
impl IBenchmarkAsync for Benchmark {
    async fn write_message(&self, message: &SampleMessage) -> Result<()> {
        self.store.write(&message.data).await
    }

    async fn write_message_oneway(&self, message: &SampleMessage) -> Result<()> {
        self.store.write(&message.data).await
    }
}
// ANCHOR_END: async-service

async fn write(found: Binder, message: &SampleMessage) -> Result<()> {
    // ANCHOR: async-client
    let benchmark = BenchmarkAsyncProxy::from_binder(found)?;
    benchmark.within(Duration::from_secs(5)).write_message(message).await?;
    // ANCHOR_END: async-client
    Ok(())
}

#[test]
fn futures_call_and_serve() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    tokio.block_on(async {
        // ANCHOR: async-stub
        let binder = BenchmarkAsyncStub::new(Benchmark::default()).binder(); // in a tokio runtime
        // ANCHOR_END: async-stub
        write(binder, &SampleMessage::default()).await.unwrap();
    });
}

fn served(adder: Adder) -> Binder {
    // ANCHOR: dump
    let object =
        AdderStub::new(adder).with_dump(|adder, _arguments| format!("{} sums\n", adder.count())).binder();
    // ANCHOR_END: dump
    object
}

fn commanded(adder: Adder) -> Binder {
    // ANCHOR: shell-command
    let object = AdderStub::new(adder)
        .with_shell_command(|adder, command| match command.args.first().map(String::as_str) {
            Some("reset") => adder.reset().map_or(1, |()| 0),
            _ => command.refuse("sample.IAdder"),
        })
        .binder();
    // ANCHOR_END: shell-command
    object
}

#[test]
fn a_service_tells_its_state_and_takes_commands() {
    assert_eq!(served(Adder).dump(&[]).unwrap(), "7 sums\n");
    assert_eq!(AdderProxy::from_binder(commanded(Adder)).unwrap().add(40, 2).unwrap(), 42);
}

/// Two ends of a frame pool.
mod frames {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn send(runtime: &Runtime, mut picture: impl FnMut() -> Option<Vec<u8>>) -> Result<()> {
        // ANCHOR: frame-producer
        use handoff_ipc::frames::{FrameOptions, FramePool};

        let pool = FramePool::new(FrameOptions::new(6, 1920 * 1080 * 3 / 2))?;
        runtime.services().add("camera", pool.binder(), ServiceOptions::default())?;
        while let Some(pixels) = picture() {
            let mut frame = pool.acquire(None)?; // waits until a buffer is free
            frame.write_at(0, &pixels)?;
            frame.publish(pixels.len())?; // to everybody who subscribed
        }
        // ANCHOR_END: frame-producer
        Ok(())
    }

    fn look(runtime: &Runtime, mut look_at: impl FnMut(Vec<u8>) -> bool) -> Result<()> {
        // ANCHOR: frame-consumer
        use handoff_ipc::frames::FrameConsumer;

        let mut camera = FrameConsumer::subscribe(&runtime.services().get("camera")?)?;
        loop {
            let frame = camera.next(Some(Duration::from_secs(60)))?;
            // Its bytes can be read only, and are given back when `frame` is dropped.
            if !look_at(frame.bytes().to_vec()) {
                break;
            }
        }
        // ANCHOR_END: frame-consumer
        Ok(())
    }

    #[test]
    fn what_a_camera_sends_is_looked_at() {
        let (runtime, is_over) = (Runtime::private().unwrap(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                send(&runtime, || {
                    thread::sleep(Duration::from_millis(1));
                    (!is_over.load(Ordering::Relaxed)).then(|| vec![7; 100])
                })
                .unwrap();
            });
            runtime.services().wait_for("camera", Duration::from_secs(60)).unwrap();
            let seen = look(&runtime, |picture| {
                assert_eq!(picture, [7; 100]);
                false
            });
            is_over.store(true, Ordering::Relaxed);
            seen.unwrap();
        });
    }
}

/// Two ends of a message queue.
mod queues {
    use handoff_ipc::parcel::Parcel;
    use handoff_ipc::queue;

    use super::*;

    fn send(parcel: &mut Parcel) -> Result<queue::MessageQueue<[u8; 64], queue::Synchronized>> {
        // ANCHOR: queue-writer
        use handoff_ipc::queue::{MessageQueue, Synchronized};

        let queue = MessageQueue::<[u8; 64], Synchronized>::with_event_flag(1024)?;
        // It travels in a call, like any other value.
        parcel.write(|to| to.write(&queue.descriptor()?))?;
        queue.writer()?.write_blocking(&[[7; 64]], None)?;
        // ANCHOR_END: queue-writer
        Ok(queue)
    }

    fn receive(parcel: &mut Parcel) -> Result<[u8; 64]> {
        // ANCHOR: queue-reader
        use handoff_ipc::queue::{Descriptor, MessageQueue, Synchronized};

        let descriptor = parcel.read(|from| from.read::<Descriptor<[u8; 64], Synchronized>>())?;
        let queue = MessageQueue::attach(descriptor)?;
        let mut messages = [[0; 64]];
        queue.reader()?.read_blocking(&mut messages, None)?;
        // ANCHOR_END: queue-reader
        Ok(messages[0])
    }

    #[test]
    fn a_message_goes_from_end_to_end() {
        let mut parcel = Parcel::new();
        let _queue = send(&mut parcel).unwrap();
        assert_eq!(receive(&mut parcel).unwrap(), [7; 64]);
    }
}

/// A process that registers a service, and one that watches it.
mod services {
    use super::*;

    fn register(runtime: &Runtime, clock: Binder) -> Result<()> {
        // ANCHOR: register
        runtime.services().add("clock", clock, ServiceOptions::default())?;
        // ANCHOR_END: register
        Ok(())
    }

    fn watch(runtime: &Runtime) -> Result<()> {
        // ANCHOR: watch
        let services = runtime.services();
        let clock = services.wait_for("clock", Duration::from_secs(5))?;
        let _death = clock.link_to_death(|| println!("the clock's process has ended"))?;
        let _watch =
            services.on_registration("camera/0", |name, binder| println!("{name} is there: {binder:?}"))?;
        // ANCHOR_END: watch
        Ok(())
    }

    #[test]
    fn one_registers_and_another_watches() {
        let runtime = Runtime::private().unwrap();
        register(&runtime, served(Adder)).unwrap();
        let own = watch(&runtime).unwrap_err();
        assert!(
            matches!(own, handoff_ipc::Error::Unsupported { .. }),
            "an object of one's own has no notice: {own}"
        );
    }
}

/// A thread on chosen CPUs and urgent, until it is not.
mod place {
    use handoff_placement::{Priority, Tid, affinity};
    use handoff_testkit::{require, require_realtime};

    fn work() -> anyhow::Result<()> {
        // ANCHOR: guards
        use handoff_placement::{AffinityGuard, CpuSet, Priority, PriorityGuard};

        let pinned = AffinityGuard::pin(&"0".parse::<CpuSet>()?)?;
        let urgent = PriorityGuard::enter(Priority::fifo(10))?;
        // ... work ...
        drop((urgent, pinned)); // both are given back, also on panic
        // ANCHOR_END: guards
        Ok(())
    }

    #[test]
    fn guards_give_back_what_they_took() {
        require!(require_realtime());
        let now = || (affinity(Tid::current()).unwrap(), Priority::of(Tid::current()).unwrap());
        let before = now();
        work().unwrap();
        assert_eq!(now(), before);
    }
}

/// A workload from a program of one's own.
mod workloads {
    use handoff_workloads::rpc;

    #[test]
    #[ignore = "a role that another test starts"]
    fn peer_main() {
        handoff_workloads::play_if_peer();
    }

    #[test]
    fn a_session_measures_calls() -> Result<(), Box<dyn std::error::Error>> {
        handoff_workloads::peer::play_in_test("book::workloads::peer_main");
        // ANCHOR: session
        handoff_workloads::play_if_peer(); // first in main: the second process is this program, started again
        let mut session = rpc::Session::start(&rpc::Parameters { payload: 64, ..Default::default() })?;
        let nanoseconds = session.batch(1000, 1)?;
        // ANCHOR_END: session
        assert_eq!(nanoseconds.len(), 1000);
        Ok(())
    }
}

/// Binder RPC with another machine.
mod encrypted {
    use super::*;

    // ANCHOR: tls
    use std::net::SocketAddr;
    use std::sync::Arc;

    use handoff_ipc::rpc::rustls::pki_types::ServerName;
    use handoff_ipc::rpc::rustls::{ClientConfig, ServerConfig};
    use handoff_ipc::rpc::{RpcServer, RpcSession};

    fn serve(address: SocketAddr, keys: ServerConfig) -> Result<RpcServer> {
        RpcServer::builder(address).tls(Arc::new(keys)).serve(AdderStub::new(Adder).binder())
    }

    fn connect(address: SocketAddr, trusted: ClientConfig) -> Result<RpcSession> {
        let server = ServerName::try_from("adder.example").expect("a name that DNS allows");
        RpcSession::builder(address).tls(Arc::new(trusted), server).connect()
    }
    // ANCHOR_END: tls

    #[test]
    fn a_server_is_called_over_tls() -> anyhow::Result<()> {
        let own = rcgen::generate_simple_self_signed(["adder.example".to_owned()])?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let keys = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![own.cert.der().clone()],
                own.signing_key.serialize_der().try_into().unwrap(),
            )?;
        let server = serve(([127, 0, 0, 1], 0).into(), keys)?;
        let mut trusted = rustls::RootCertStore::empty();
        trusted.add(own.cert.der().clone())?;
        let trusted = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        let address = server.address().to_string().parse()?;
        let adder = AdderProxy::from_binder(connect(address, trusted)?.root()?)?;
        assert_eq!(adder.add(2, 3)?, 5);
        Ok(())
    }
}

/// Programs on other machines: these compile, and the tests of their crates run their like.
#[expect(dead_code, reason = "nobody has these machines")]
mod elsewhere {
    use super::*;

    fn guest() -> anyhow::Result<()> {
        // ANCHOR: guest
        use handoff_guest::{Guest, GuestCommand};

        let mut guest =
            Guest::builder().module("sch_tbf").program("target/release/tool", "/bin/tool").boot()?;
        let output = guest.run(&GuestCommand::new("/bin/tool").arg("--json"))?;
        guest.get("/tmp/trace.dat", "trace.dat".as_ref())?;
        // ANCHOR_END: guest
        drop(output);
        Ok(())
    }

    fn target() -> anyhow::Result<()> {
        // ANCHOR: target
        use handoff_targets::{Command, Session};

        let mut session = Session::open(&"ssh://lab-7".parse()?)?;
        let _lock = session.lock()?;
        let program = session.push("target/dist/handoff".as_ref())?;
        let command = Command::new(program).args(["measure", "latency"]).deadline(Duration::from_secs(60));
        let done =
            session.run(&command, &mut |_stream, bytes| print!("{}", String::from_utf8_lossy(bytes)))?;
        session.fetch("/tmp/miss-1.html", "miss-1.html".as_ref())?;
        // ANCHOR_END: target
        drop(done);
        Ok(())
    }

    fn recorder((caller, callee, start, end): (i32, i32, u64, u64)) -> anyhow::Result<()> {
        // ANCHOR: recorder
        use handoff_trace::diagnose::{FlightRecorder, Window, explain};

        let recorder = FlightRecorder::start(4 << 10)?;
        // ... transactions; one took too long:
        recorder.halt()?;
        let trace = recorder.freeze()?.decode()?;
        println!("{}", explain(&trace, Window { caller, callee: Some(callee), start, end })?);
        // ANCHOR_END: recorder
        Ok(())
    }

    fn agent() -> anyhow::Result<()> {
        // ANCHOR: agent
        use handoff_lab::doctor::Diagnosis;
        use handoff_targets::agent::{Agent, Question};

        let mut agent = Agent::reach(&"ssh://lab-7".parse()?, "target/dist/handoff".as_ref())?;
        let diagnosis: Diagnosis = agent.ask(&Question::new("diagnose", Duration::from_secs(60)), &())?;
        // ANCHOR_END: agent
        drop(diagnosis);
        Ok(())
    }
}
