//! The interfaces of `interfaces/` as proxies and stubs, on every engine: within this process, with
//! a second process on `shm`, and on the kernel's driver where `HANDOFF_TEST_ENGINE` says `binder`.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use handoff_examples::interfaces::sample::base::v1_0 as base;
use handoff_examples::interfaces::sample::everything::*;
use handoff_examples::interfaces::vendor::sample::benchmark as aidl;
use handoff_ipc::engine::EngineKind;
use handoff_ipc::parcel::CharSequence;
use handoff_ipc::queue::{Descriptor, MessageQueue, Synchronized};
use handoff_ipc::runtime::{Options, Runtime};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Error, ExceptionCode, Proxy, Result, SharedMemory, Status};

const ROLE: &str = "HANDOFF_TEST_ROLE";
const SOCKET: &str = "HANDOFF_TEST_SOCKET";
const LONG: Duration = Duration::from_secs(60);

// ---- the services ---------------------------------------------------------------------------

/// The seed's benchmark, in both languages: sums what it is sent.
#[derive(Default)]
struct Benchmark {
    sums: Mutex<Vec<u32>>,
}

impl Benchmark {
    fn sum(&self, data: &[u8]) {
        self.sums.lock().unwrap().push(data.iter().map(|byte| u32::from(*byte)).sum());
    }
}

impl aidl::IBenchmark for Benchmark {
    fn write_message(&self, message: &aidl::SampleMessage) -> Result<()> {
        if message.size < 0 {
            return Err(Status::service_specific(message.size, "a negative size").into());
        }
        self.sum(&message.data[..message.size as usize]);
        Ok(())
    }

    fn write_message_oneway(&self, message: &aidl::SampleMessage) -> Result<()> {
        self.sum(&message.data);
        Ok(())
    }
}

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

struct Everything;

impl IEverything for Everything {
    fn echo(&self, record: &Record) -> Result<Record> {
        Ok(record.clone())
    }
    fn add(&self, a: i32, b: i32) -> Result<i32> {
        Ok(a.wrapping_add(b))
    }
    fn maybe(&self, text: Option<&str>, wanted: bool) -> Result<Option<String>> {
        Ok(text.filter(|_| wanted).map(str::to_owned))
    }
    fn reverse(&self, texts: &[String]) -> Result<Vec<String>> {
        Ok(texts.iter().rev().cloned().collect())
    }
    fn fill(&self, numbers: &mut Vec<i32>, with: i32) -> Result<()> {
        numbers.fill(with);
        Ok(())
    }
    fn grow(&self, bytes: &mut Vec<u8>, point: &mut Point) -> Result<()> {
        bytes.push(0xff);
        point.y = bytes.len() as i32;
        Ok(())
    }
    fn count_and_split(
        &self,
        words: &[String],
        first: &mut Vec<String>,
        record: &mut Option<Record>,
    ) -> Result<i32> {
        *first = words.iter().take(1).cloned().collect();
        *record = record.take().is_none().then(Record::default);
        Ok(words.len() as i32)
    }
    fn next(&self, color: Color) -> Result<Color> {
        Ok(Color(color.0 + 1))
    }
    fn all(&self) -> Result<Vec<Color>> {
        Ok(vec![Color::RED, Color::GREEN, Color::BLUE])
    }
    fn points(&self, points: Option<&[Option<Point>]>) -> Result<Option<Vec<Option<Point>>>> {
        Ok(points.map(<[_]>::to_vec))
    }
    fn shape(&self, shape: &Shape) -> Result<Shape> {
        Ok(shape.clone())
    }
    fn itself(&self) -> Result<Binder> {
        Ok(EverythingStub::new(Everything).binder())
    }
    fn nobody(&self, object: Option<&Binder>) -> Result<Option<Binder>> {
        Ok(object.cloned())
    }
    fn call(&self, callback: &CallbackProxy, what: i32) -> Result<()> {
        callback.happened(what, "as asked")
    }
    fn open(&self, text: &str) -> Result<OwnedFd> {
        Ok(file_with(text).into())
    }
    fn size(&self, file: &OwnedFd) -> Result<i64> {
        let file = File::from(file.try_clone().map_err(|error| Error::io("duplicate", error))?);
        Ok(file.metadata().map_err(|error| Error::io("size", error))?.len() as i64)
    }
    fn styled(&self, text: &CharSequence) -> Result<CharSequence> {
        Ok(CharSequence(text.0.to_uppercase()))
    }
    fn turn(&self, numbers: &[i32; 3]) -> Result<[i32; 3]> {
        Ok([numbers[2], numbers[1], numbers[0]])
    }
    fn sum(&self, queue: &Descriptor<i32, Synchronized>, count: i32) -> Result<i32> {
        let queue = MessageQueue::attach(queue.try_clone()?)?;
        let mut numbers = vec![0; count as usize];
        queue.reader().and_then(|mut reader| reader.read(&mut numbers)).map_err(failed)?;
        Ok(numbers.iter().sum())
    }
    fn fail(&self, code: i32) -> Result<()> {
        Err(Status::service_specific(code, "as asked").into())
    }
    fn r#type(&self, self_: i32, crate_: i32) -> Result<i32> {
        Ok(self_ - crate_)
    }
}

fn failed(error: impl std::fmt::Display) -> Error {
    Status::new(ExceptionCode::IllegalState, error.to_string()).into()
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

fn file_with(text: &str) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.rewind().unwrap();
    file
}

// ---- the second process ---------------------------------------------------------------------

/// A child that does not outlive its test.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn options(kind: EngineKind, socket: Option<String>) -> Options {
    match (kind, socket) {
        (EngineKind::Shm, Some(socket)) => Options::at(socket),
        (kind, _) => Options::on(kind),
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
fn role_server() {
    if std::env::var(ROLE).as_deref() != Ok("server") {
        return;
    }
    let runtime = Runtime::connect(&options(second_engine(), std::env::var(SOCKET).ok())).unwrap();
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
            kind => Runtime::connect_or_private(&Options::on(kind)),
        };
        let runtime = runtime.unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["role_server", "--exact", "--nocapture"]).env(ROLE, "server");
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

fn records() -> Vec<Record> {
    let full = Record {
        flag: false,
        text: "ünï😀".into(),
        nothing: Some(String::new()),
        color: Color(77),
        mode: Mode::FAR,
        colors: vec![Color::BLUE, Color::RED, Color(9)],
        bytes: vec![1, 2, 3, 255],
        texts: vec!["a".into(), String::new()],
        maybe: Some(vec![None, Some("b".into())]),
        list: vec!["c".into()],
        point: Point { x: 1, y: 2 },
        other: Some(Point::default()),
        points: vec![Point::default(); 3],
        matrix: [[1, 2, 3], [4, 5, 6]],
        digest: [7; 40],
        shape: Shape::Pixels(vec![9; 3]),
        inner: record::Inner {
            kind: record::Kind::NONE,
            more: Some(vec![Some(record::Inner::default()), None]),
        },
        next: Some(Box::new(Record::default())),
        ..Record::default()
    };
    vec![Record::default(), full]
}

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
        for record in records() {
            assert_eq!(proxy.echo(&record).unwrap(), record);
        }
        assert_eq!(proxy.add(2, 3).unwrap(), 5);
        assert_eq!(proxy.maybe(Some("x"), true).unwrap().as_deref(), Some("x"));
        assert_eq!((proxy.maybe(Some("x"), false).unwrap(), proxy.maybe(None, true).unwrap()), (None, None));
        assert_eq!(proxy.reverse(&["a".into(), "b".into()]).unwrap(), ["b", "a"]);
        assert_eq!(proxy.next(Color::GREEN).unwrap(), Color::BLUE);
        assert_eq!(proxy.all().unwrap(), [Color::RED, Color::GREEN, Color::BLUE]);
        assert_eq!(proxy.points(None).unwrap(), None);
        let points = [None, Some(Point { x: 1, y: 2 })];
        assert_eq!(proxy.points(Some(&points)).unwrap().unwrap(), points);
        for shape in [Shape::Radius(1), Shape::Corner(Point::default()), Shape::Name(None)] {
            assert_eq!(proxy.shape(&shape).unwrap(), shape);
        }
        assert_eq!(proxy.styled(&CharSequence("abc".into())).unwrap().0, "ABC");
        assert_eq!(proxy.turn(&[1, 2, 3]).unwrap(), [3, 2, 1]);
        assert_eq!(proxy.r#type(5, 3).unwrap(), 2);
    });
}

#[test]
fn what_goes_out_and_both_ways_comes_back() {
    on_each("everything", EverythingStub::new(Everything).proxy(), |proxy| {
        let mut numbers = vec![0; 5];
        proxy.fill(&mut numbers, 7).unwrap();
        assert_eq!(numbers, [7; 5]);
        let (mut bytes, mut point) = (vec![1, 2], Point { x: 9, y: 9 });
        proxy.grow(&mut bytes, &mut point).unwrap();
        // An `out` parameter starts at its default, whatever the caller has there.
        assert_eq!((bytes, point), (vec![1, 2, 255], Point { x: -3, y: 3 }));
        let (mut first, mut record) = (vec![], None);
        let words = ["a".to_owned(), "b".to_owned()];
        assert_eq!(proxy.count_and_split(&words, &mut first, &mut record).unwrap(), 2);
        assert_eq!((first, record), (vec!["a".to_owned()], Some(Record::default())));
    });
}

#[test]
fn objects_files_and_queues_travel() {
    struct Hears(Mutex<Sender<(i32, String)>>);
    impl ICallback for Hears {
        fn happened(&self, what: i32, text: &str) -> Result<()> {
            self.0.lock().unwrap().send((what, text.to_owned())).map_err(failed)
        }
    }
    on_each("everything", EverythingStub::new(Everything).proxy(), |proxy| {
        let itself = EverythingProxy::from_binder(proxy.itself().unwrap()).unwrap();
        assert_eq!(itself.add(1, 1).unwrap(), 2);
        assert_eq!(proxy.nobody(None).unwrap(), None);
        assert_eq!(proxy.nobody(Some(proxy.binder())).unwrap().as_ref(), Some(proxy.binder()));
        let (send, heard) = channel();
        let callback = CallbackStub::new(Hears(Mutex::new(send))).proxy();
        // The service lets go of the callback as soon as it has called it: no call may get lost.
        for what in 0..30 {
            proxy.call(&callback, what).unwrap();
            assert_eq!(heard.recv_timeout(LONG).unwrap(), (what, "as asked".to_owned()));
        }

        let mut text = String::new();
        File::from(proxy.open("made there").unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "made there");
        assert_eq!(proxy.size(&file_with("twelve bytes").into()).unwrap(), 12);

        let queue = MessageQueue::<i32, Synchronized>::new(16).unwrap();
        queue.writer().unwrap().write(&[1, 2, 3, 4]).unwrap();
        assert_eq!(proxy.sum(&queue.descriptor().unwrap(), 4).unwrap(), 10);
    });
}

#[test]
fn errors_versions_and_deadlines() {
    on_each("everything", EverythingStub::new(Everything).proxy(), |proxy| {
        match proxy.fail(17) {
            Err(Error::Status(status)) => assert_eq!(status.service_specific_code(), 17),
            other => panic!("{other:?}"),
        }
        assert_eq!(proxy.interface_version().unwrap(), 3);
        assert_eq!(proxy.interface_hash().unwrap(), EverythingProxy::HASH);
        assert_eq!(proxy.within(LONG).add(1, 2).unwrap(), 3);
        assert!(CallbackProxy::from_binder(proxy.binder().clone()).is_err());
    });
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
