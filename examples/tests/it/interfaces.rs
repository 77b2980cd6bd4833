//! The interfaces of `interfaces/` as proxies and stubs, on every engine: within this process, with
//! a second process on `shm`, and on the kernel's driver where `HANDOFF_TEST_ENGINE` says `binder`.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::everything::{self, Benchmark, Everything, LONG, failed, file_with};

use handoff_examples::interfaces::sample::base::v1_0 as base;
use handoff_examples::interfaces::sample::everything::*;
use handoff_examples::interfaces::vendor::sample::benchmark as aidl;
use handoff_ipc::engine::EngineKind;
use handoff_ipc::queue::{Descriptor, MessageQueue, Synchronized};
use handoff_ipc::runtime::{Builder, Runtime};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Error, Proxy, Result, Service, SharedMemory, Status, Transaction};

const ROLE: &str = "HANDOFF_TEST_ROLE";
const SOCKET: &str = "HANDOFF_TEST_SOCKET";

// ---- the services ---------------------------------------------------------------------------

impl aidl::v1_0::IBenchmark for Benchmark {
    fn write_message(&self, message: &aidl::v1_0::SampleMessage) -> Result<()> {
        if message.size < 0 {
            return Err(Status::service_specific(message.size, "a negative size").into());
        }
        self.sum(&message.data[..message.size as usize]);
        Ok(())
    }

    fn write_message_oneway(&self, message: &aidl::v1_0::SampleMessage) -> Result<()> {
        self.sum(&message.data);
        Ok(())
    }
}

struct Camera;

impl base::IDevice for Camera {
    fn open(&self, name: &str) -> Result<(base::Status, base::i_device::State)> {
        let features = base::Feature::READ | base::Feature::WRITE;
        let range = base::Range { start: 1 << 40, limits: [1, u32::MAX] };
        let status = if name.is_empty() { base::Status::BUSY } else { base::Status::OK };
        Ok((status, base::i_device::State { features, ranges: vec![range] }))
    }
    fn close(&self) -> Result<()> {
        Ok(())
    }
}

impl base::ICamera for Camera {
    fn capture(&self, settings: &[u8], fence: Option<&base_handle::NativeHandle>) -> Result<SharedMemory> {
        let memory = SharedMemory::new(4096)?;
        memory.write_at(0, settings)?;
        memory.write_at(settings.len(), &[fence.map_or(0, |fence| fence.fds.len() as u8)])?;
        Ok(memory)
    }
    fn value(&self, value: &base::Value) -> Result<base::Value> {
        Ok(value.clone())
    }
    fn queue(&self, data: &Descriptor<u8, Synchronized>, count: u32) -> Result<u32> {
        let queue = MessageQueue::attach(data.try_clone()?)?;
        let mut bytes = vec![0; count as usize];
        queue.reader().and_then(|mut reader| reader.read(&mut bytes)).map_err(failed)?;
        Ok(bytes.iter().map(|byte| u32::from(*byte)).sum())
    }
    fn twice(&self, state: &base::i_device::State) -> Result<Vec<base::i_device::State>> {
        Ok(vec![state.clone(), state.clone()])
    }
    fn stop(&self, _: base::Status) -> Result<()> {
        Ok(())
    }
}

use handoff_examples::interfaces::android::hardware::common as base_handle;

// ---- the second process ---------------------------------------------------------------------

/// A child that does not outlive its test.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn builder(kind: EngineKind, socket: Option<String>) -> Builder {
    match (kind, socket) {
        (EngineKind::Shm, Some(socket)) => Runtime::builder().socket(socket),
        (kind, _) => Runtime::builder().engine(kind),
    }
}

fn second_engine() -> EngineKind {
    match std::env::var("HANDOFF_TEST_ENGINE").as_deref() {
        Ok("binder") => EngineKind::Binder,
        _ => EngineKind::Shm,
    }
}

/// Not a test: the second process of the others.
#[test]
#[ignore = "a process of another test"]
fn role_main() {
    if std::env::var(ROLE).as_deref() != Ok("server") {
        return;
    }
    let runtime = builder(second_engine(), std::env::var(SOCKET).ok()).connect().unwrap();
    let services = runtime.services();
    // The test may have found what it needs, and be over, before all of them are there.
    let add = |name: &str, binder: Binder| drop(services.add(name, binder, ServiceOptions::default()));
    add("everything", EverythingStub::new(Everything).binder());
    add("camera", base::CameraStub::new(Camera).binder());
    let benchmark = Arc::new(Benchmark::default());
    add("hidl", aidl::v1_0::BenchmarkStub::new(Arc::clone(&benchmark)).binder());
    add("aidl", aidl::BenchmarkStub::new(benchmark).binder());
    // Until the one who started it lets go.
    drop(std::io::stdin().read(&mut [0]));
}

/// Every engine that this process can reach, each with something to find services by.
struct World {
    runtime: Runtime,
    _peer: Peer,
}

impl World {
    fn new() -> Self {
        let runtime = match second_engine() {
            EngineKind::Shm => Runtime::private(),
            kind => Runtime::builder().engine(kind).connect_or_private(),
        };
        let runtime = runtime.unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "interfaces::role_main", "--nocapture"]).env(ROLE, "server");
        if let Some(socket) = runtime.socket() {
            command.env(SOCKET, socket);
        }
        let peer = Peer(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
        World { runtime, _peer: peer }
    }

    fn find<P: Proxy>(&self, name: &str) -> P {
        P::from_binder(self.runtime.services().wait_for(name, LONG).unwrap()).unwrap()
    }
}

/// The driver has one place for a manager, which a process takes once: its tests share it.
static ON_DRIVER: LazyLock<World> = LazyLock::new(World::new);

/// Runs a test with the service in this process, then with that of another.
fn on_each<P: Proxy>(name: &str, here: P, test: impl Fn(&P)) {
    test(&here);
    match second_engine() {
        EngineKind::Binder => test(&ON_DRIVER.find(name)),
        _ => test(&World::new().find(name)),
    }
}

// ---- the tests ------------------------------------------------------------------------------

#[test]
fn defaults_are_those_of_the_file() {
    let record = Record::default();
    assert!(record.flag && record.small == -1 && record.letter == 65 && record.number == 7);
    assert_eq!((record.big, record.half, record.pi), (1 << 33, 0.5, 3.25));
    assert_eq!((record.text.as_str(), record.color, record.mode), ("hi \"you\"", Color::GREEN, Mode(16)));
    assert_eq!((record.numbers, record.point.x), (vec![1, 2, 3], -3));
    assert_eq!((Record::NAME, Record::SIZES, Record::MASK), ("record", [1, 2, 3], 0xff_ffff_ffff));
    assert_eq!((Color::BLUE.0, Mode::FASTER.0, Shape::default()), (6, 32, Shape::Radius(7)));
    assert_eq!((EverythingProxy::ANSWER, EverythingProxy::GREETING), (42, "hello"));
    assert_eq!((base::Status::ALL.0, base::MoreFeature::SYNC.0, base::MoreFeature::READ.0), (-1, 4, 1));
    assert_eq!(format!("{:?} {:?}", Color::GREEN, Color(9)), "GREEN Color(9)");
}

#[test]
fn values_of_every_type_come_back() {
    on_each("everything", EverythingStub::new(Everything).proxy(), |proxy| {
        everything::values(proxy);
        everything::styled(proxy);
    });
}

#[test]
fn what_goes_out_and_both_ways_comes_back() {
    on_each("everything", EverythingStub::new(Everything).proxy(), everything::both_ways);
}

#[test]
fn objects_files_and_queues_travel() {
    on_each("everything", EverythingStub::new(Everything).proxy(), |proxy| {
        everything::objects_and_files(proxy);
        let queue = MessageQueue::<i32, Synchronized>::new(16).unwrap();
        queue.writer().unwrap().write(&[1, 2, 3, 4]).unwrap();
        assert_eq!(proxy.sum(&queue.descriptor().unwrap(), 4).unwrap(), 10);
    });
}

#[test]
fn errors_versions_and_deadlines() {
    on_each("everything", EverythingStub::new(Everything).proxy(), everything::errors_and_versions);
}

#[test]
fn the_seed_s_benchmark_runs_in_both_languages() {
    use aidl::IBenchmark as _;
    let message = aidl::SampleMessage { size: 1000, data: vec![3; 1000] };
    let here = Arc::new(Benchmark::default());
    on_each("aidl", aidl::BenchmarkStub::new(Arc::clone(&here)).proxy(), |proxy| {
        proxy.write_message(&message).unwrap();
        proxy.write_message_oneway(&message).unwrap();
        let wrong = aidl::SampleMessage { size: -5, data: vec![] };
        assert!(matches!(proxy.write_message(&wrong), Err(Error::Status(status))
            if status.service_specific_code() == -5));
    });
    let there = Arc::new(Benchmark::default());
    let message = aidl::v1_0::SampleMessage { size: 1000, data: vec![3; 1000] };
    on_each("hidl", aidl::v1_0::BenchmarkStub::new(Arc::clone(&there)).proxy(), |proxy| {
        use aidl::v1_0::IBenchmark as _;
        proxy.write_message(&message).unwrap();
        proxy.write_message_oneway(&message).unwrap();
    });
    // Within one process a oneway call is carried out by another thread.
    for service in [here, there] {
        let end = std::time::Instant::now() + LONG;
        while service.sums.lock().unwrap().len() < 2 && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(*service.sums.lock().unwrap(), [3000, 3000]);
    }
}

#[test]
fn interfaces_of_hidl_inherit_and_return_several_values() {
    use base::{ICamera as _, IDevice as _};
    on_each("camera", base::CameraStub::new(Camera).proxy(), |proxy| {
        let (status, state) = proxy.open("front").unwrap();
        assert_eq!(status, base::Status::OK);
        assert!(state.features.contains(base::Feature::WRITE));
        assert_eq!(state.ranges[0].limits, [1, u32::MAX]);
        assert_eq!(proxy.twice(&state).unwrap(), [state.clone(), state]);
        let fence = base_handle::NativeHandle { fds: vec![file_with("").into()], ints: vec![] };
        let frame = proxy.capture(b"abc", Some(&fence)).unwrap();
        assert_eq!(frame.bytes().slice(0, 4).unwrap().to_vec(), b"abc\x01");
        assert_eq!(proxy.capture(b"", None).unwrap().bytes().get(0), Some(0));
        for value in [base::Value::Number(1), base::Value::Text("t".into())] {
            assert_eq!(proxy.value(&value).unwrap(), value);
        }
        let queue = MessageQueue::<u8, Synchronized>::new(64).unwrap();
        queue.writer().unwrap().write(&[1, 2, 3]).unwrap();
        assert_eq!(proxy.queue(&queue.descriptor().unwrap(), 3).unwrap(), 6);
        proxy.stop(base::Status::BUSY).unwrap();
        // What takes a device takes a camera: the codes of the methods are the same.
        let device: base::DeviceProxy = proxy.clone().into();
        assert_eq!(base::IDevice::open(&device, "").unwrap().0, base::Status::BUSY);
    });
}

/// What a caller of `proxy` is told when the object has another interface.
fn is_refused<T: std::fmt::Debug>(outcome: Result<T>, expected: &str, found: &str) {
    let text = outcome.as_ref().err().map(ToString::to_string);
    assert!(
        matches!(&outcome, Err(Error::WrongInterface { expected: e, found: f }) if e == expected && f == found),
        "{outcome:?}"
    );
    assert_eq!(text.unwrap(), format!("the object has the interface {found}, not {expected}"));
}

#[test]
fn a_proxy_of_another_interface_is_refused_and_names_both() {
    use aidl::IBenchmark as _;
    let [everything, benchmark] =
        [EverythingProxy::DESCRIPTOR, aidl::BenchmarkProxy::DESCRIPTOR].map(str::to_owned);
    let refused = |object: &Binder| {
        let wrong = aidl::BenchmarkProxy::wrap(object.clone());
        let message = aidl::SampleMessage { size: 1, data: vec![1] };
        // Transaction 2 of the other interface exists: it must not run.
        is_refused(wrong.write_message_oneway(&message), &benchmark, &everything);
        is_refused(wrong.write_message(&message), &benchmark, &everything);
        is_refused(wrong.within(LONG).write_message(&message), &benchmark, &everything);
        is_refused(aidl::BenchmarkProxy::from_binder(object.clone()), &benchmark, &everything);
        // What the object is remains usable, whichever proxy came before.
        assert_eq!(EverythingProxy::wrap(object.clone()).add(1, 2).unwrap(), 3);
        is_refused(wrong.write_message(&message), &benchmark, &everything);
    };
    on_each("everything", EverythingStub::new(Everything).proxy(), |proxy| {
        refused(proxy.binder());
        // An object that comes out of a reply.
        refused(&proxy.itself().unwrap());
    });
}

/// Calls what it is given as an `ICallback`, and answers with what came of it.
struct CallsBack;

impl Service for CallsBack {
    fn descriptor(&self) -> &str {
        "test.ICallsBack"
    }
    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let Transaction { data, .. } = transaction;
        let callback: CallbackProxy = data.read()?;
        callback.happened(7, "as asked")
    }
}

#[test]
fn an_object_that_arrives_as_a_parameter_is_checked_when_it_is_called() {
    let server = Runtime::private().unwrap();
    server.services().add("back", Binder::new(CallsBack), ServiceOptions::default()).unwrap();
    let client = Runtime::builder().socket(server.socket().unwrap()).connect().unwrap();
    for service in [Binder::new(CallsBack), client.services().get("back").unwrap()] {
        let wrong = EverythingStub::new(Everything).binder();
        let outcome = service.transaction(1).call(|to| to.write(&wrong), |_| Ok(()));
        let Err(Error::Status(status)) = outcome else { panic!("{outcome:?}") };
        let text = status.message().unwrap();
        for name in [CallbackProxy::DESCRIPTOR, EverythingProxy::DESCRIPTOR] {
            assert!(text.contains(name), "{text}");
        }
    }
}

#[test]
fn the_client_finds_services_by_type() {
    let own = (second_engine() == EngineKind::Shm).then(World::new);
    let services = own.as_ref().unwrap_or_else(|| &*ON_DRIVER).runtime.services();
    let camera: base::CameraProxy = services.wait_for_proxy("camera", LONG).unwrap();
    assert!(base::IDevice::close(&camera).is_ok());
    let (camera, everything) = (base::CameraProxy::DESCRIPTOR, EverythingProxy::DESCRIPTOR);
    is_refused(services.wait_for_proxy::<EverythingProxy>("camera", LONG), everything, camera);
    is_refused(services.find::<EverythingProxy>("camera"), everything, camera);
}

#[test]
fn an_object_of_a_derived_interface_passes_as_its_base_and_not_the_other_way() {
    use base::IDevice as _;
    on_each("camera", base::CameraStub::new(Camera).proxy(), |proxy| {
        let device = base::DeviceProxy::from_binder(proxy.binder().clone()).unwrap();
        assert_eq!(device.open("").unwrap().0, base::Status::BUSY);
    });
    struct Device;
    impl base::IDevice for Device {
        fn open(&self, _: &str) -> Result<(base::Status, base::i_device::State)> {
            Ok((base::Status::OK, base::i_device::State::default()))
        }
        fn close(&self) -> Result<()> {
            Ok(())
        }
    }
    let device = base::DeviceStub::new(Device).binder();
    let (camera, base) = (base::CameraProxy::DESCRIPTOR, base::DeviceProxy::DESCRIPTOR);
    is_refused(base::CameraProxy::wrap(device).close(), camera, base);
}

#[test]
fn a_service_tells_of_its_state_in_its_own_words() {
    let stub = EverythingStub::new(Everything);
    let told = stub.with_dump(|_, args| format!("all of it, {}", args.join(" "))).binder();
    assert_eq!(told.dump(&["please".to_owned()]).unwrap(), "all of it, please");
    let silent = EverythingStub::new(Everything).binder();
    assert_eq!(silent.dump(&[]).unwrap(), "sample.everything.IEverything has nothing to dump\n");
}
