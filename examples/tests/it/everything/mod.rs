//! Services with the interfaces of `interfaces/aidl`, and what their clients are promised: in Rust here, and in
//! other languages in their bindings' tests.
// A module of a test cannot be reached from elsewhere, and not every test uses all of it.
#![allow(dead_code, unreachable_pub)]

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use handoff_examples::interfaces::sample::everything::*;
use handoff_examples::interfaces::vendor::sample::benchmark as aidl;
use handoff_ipc::parcel::CharSequence;
use handoff_ipc::queue::{Descriptor, MessageQueue, Synchronized};
use handoff_ipc::{Binder, Error, ExceptionCode, Proxy as _, Result, Status};

/// Where the interfaces are in the workspace.
const INTERFACES: &str = "examples/interfaces/aidl/sample/everything";

/// Longer than anything takes.
pub const LONG: Duration = Duration::from_secs(60);

/// A benchmark's service, in both languages: sums what it is sent.
#[derive(Default)]
pub struct Benchmark {
    /// The sums, in the order of the calls.
    pub sums: Mutex<Vec<u32>>,
}

impl Benchmark {
    pub fn sum(&self, data: &[u8]) {
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

/// Gives back what it is given, mostly.
pub struct Everything;

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

/// What a service cannot do.
pub fn failed(error: impl std::fmt::Display) -> Error {
    Status::new(ExceptionCode::IllegalState, error.to_string()).into()
}

/// Writes the interfaces below a folder without the two methods that C++ and Java cannot say; their numbers stay.
pub fn plain_interfaces(into: &Path) {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join(INTERFACES));
    let from = folders.find(|folder| folder.is_dir()).expect("the examples' interfaces");
    let folder = into.join("sample/everything");
    fs::create_dir_all(&folder).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let text: String = fs::read_to_string(&path)
            .unwrap()
            .lines()
            .filter(|line| !line.starts_with("import android."))
            .map(|line| match line.trim() {
                "CharSequence styled(CharSequence text);" => "    void styled();\n".to_owned(),
                line if line.starts_with("int sum(") => "    void sum();\n".to_owned(),
                _ => format!("{line}\n"),
            })
            .collect();
        fs::write(folder.join(path.file_name().unwrap()), text).unwrap();
    }
}

/// A file with a text, to be read from its beginning.
pub fn file_with(text: &str) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.rewind().unwrap();
    file
}

/// One as it is without being set, and one with something in each field.
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

/// Values of every type come back.
pub fn values(proxy: &EverythingProxy) {
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
    assert_eq!(proxy.turn(&[1, 2, 3]).unwrap(), [3, 2, 1]);
    assert_eq!(proxy.r#type(5, 3).unwrap(), 2);
}

/// So does text of Java's, which C++ cannot say.
pub fn styled(proxy: &EverythingProxy) {
    assert_eq!(proxy.styled(&CharSequence("abc".into())).unwrap().0, "ABC");
}

/// What goes out, and both ways, comes back.
pub fn both_ways(proxy: &EverythingProxy) {
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
}

/// Objects and files travel.
pub fn objects_and_files(proxy: &EverythingProxy) {
    struct Hears(Mutex<Sender<(i32, String)>>);
    impl ICallback for Hears {
        fn happened(&self, what: i32, text: &str) -> Result<()> {
            self.0.lock().unwrap().send((what, text.to_owned())).map_err(failed)
        }
    }
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
}

/// Exceptions, versions and deadlines.
pub fn errors_and_versions(proxy: &EverythingProxy) {
    match proxy.fail(17) {
        Err(Error::Status(status)) => assert_eq!(status.service_specific_code(), 17),
        other => panic!("{other:?}"),
    }
    assert_eq!(proxy.interface_version().unwrap(), 3);
    assert_eq!(proxy.interface_hash().unwrap(), EverythingProxy::HASH);
    assert_eq!(proxy.within(LONG).add(1, 2).unwrap(), 3);
    assert!(CallbackProxy::from_binder(proxy.binder().clone()).is_err());
}
