//! Generated proxies and stubs of futures: as the blocking ones in what they carry, without a thread for each call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::everything::{self, Benchmark, Everything, LONG};
use handoff_examples::interfaces::sample::base::v1_0 as base;
use handoff_examples::interfaces::sample::everything::*;
use handoff_examples::interfaces::vendor::sample::benchmark::{
    BenchmarkAsyncProxy, BenchmarkAsyncStub, BenchmarkProxy, BenchmarkStub, IBenchmark as _, IBenchmarkAsync,
    SampleMessage,
};
use handoff_ipc::runtime::Runtime;
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Error, Proxy as _, Result};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const OUTSTANDING: usize = 200;

/// Its calls wait until somebody lets them go.
struct Gate {
    open: Semaphore,
    waiting: AtomicUsize,
    sums: Benchmark,
}

impl IBenchmarkAsync for Gate {
    async fn write_message(&self, message: &SampleMessage) -> Result<()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.open.acquire().await.map_err(everything::failed)?.forget();
        self.sums.write_message(message)
    }

    async fn write_message_oneway(&self, _: &SampleMessage) -> Result<()> {
        self.open.add_permits(OUTSTANDING);
        Ok(())
    }
}

fn one_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// A connection that finds what `server` has under a name.
fn client_of(server: &Runtime, binder: Binder) -> (Runtime, Binder) {
    server.services().add("it", binder, ServiceOptions::default().replacing()).unwrap();
    let client = Runtime::builder().socket(server.socket().unwrap()).connect().unwrap();
    let found = client.services().get("it").unwrap();
    (client, found)
}

#[test]
fn two_hundred_calls_wait_on_one_thread_and_are_served_by_one() {
    let serving = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let gate =
        Arc::new(Gate { open: Semaphore::new(0), waiting: AtomicUsize::new(0), sums: Benchmark::default() });
    let server = Runtime::private().unwrap();
    let stub = BenchmarkAsyncStub::new(Arc::clone(&gate));
    let (_client, found) = client_of(&server, Binder::new_async_on(stub, serving.handle()));
    let proxy = BenchmarkAsyncProxy::from_binder(found).unwrap();
    one_thread().block_on(async {
        let before = threads();
        let mut calls = JoinSet::new();
        for number in 0..OUTSTANDING {
            let proxy = proxy.within(LONG);
            let message = SampleMessage { size: 2, data: vec![number as u8, 1, 9] };
            calls.spawn(async move { proxy.write_message(&message).await });
        }
        let all_wait = async {
            while gate.waiting.load(Ordering::SeqCst) < OUTSTANDING {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LONG, all_wait).await.expect("each of them arrives while the others wait");
        // Other tests of this program have some of their own, and a pool of sixteen.
        assert!(threads() < before + OUTSTANDING / 2, "{} threads, {before} before", threads());
        let late = proxy.within(Duration::from_millis(20)).write_message(&SampleMessage::default()).await;
        assert!(matches!(late, Err(Error::DeadlineExpired(_))), "{late:?}");
        proxy.write_message_oneway(&SampleMessage::default()).await.unwrap();
        while let Some(ended) = calls.join_next().await {
            ended.unwrap().unwrap();
        }
    });
    let mut sums = gate.sums.sums.lock().unwrap().clone();
    sums.retain(|sum| *sum > 0);
    sums.sort_unstable();
    assert_eq!(sums, (1..=OUTSTANDING as u32).collect::<Vec<_>>());
}

#[test]
fn futures_call_blocking_services_and_threads_call_tasks() {
    let server = Runtime::private().unwrap();
    let (_client, found) = client_of(&server, EverythingStub::new(Everything).binder());
    let proxy = EverythingAsyncProxy::from_binder(found).unwrap();
    one_thread().block_on(async {
        let record = Record { text: "ünï".into(), bytes: vec![1; 5000], ..Record::default() };
        assert_eq!(proxy.echo(&record).await.unwrap(), record);
        assert_eq!(proxy.maybe(Some("x"), true).await.unwrap().as_deref(), Some("x"));
        let mut numbers = vec![0; 5];
        proxy.fill(&mut numbers, 7).await.unwrap();
        assert_eq!(numbers, [7; 5]);
        let (mut first, mut other) = (vec![], None);
        let words = ["a".to_owned(), "b".to_owned()];
        assert_eq!(proxy.count_and_split(&words, &mut first, &mut other).await.unwrap(), 2);
        assert_eq!((first, other), (vec!["a".to_owned()], Some(Record::default())));
        // Objects and descriptors in both directions.
        assert!(proxy.nobody(None).await.unwrap().is_none());
        assert_eq!(proxy.nobody(Some(proxy.binder())).await.unwrap().as_ref(), Some(proxy.binder()));
        assert_eq!(proxy.size(&everything::file_with("twelve bytes").into()).await.unwrap(), 12);
        assert_eq!(proxy.interface_version().await.unwrap(), 3);
        assert!(matches!(proxy.fail(17).await, Err(Error::Status(status))
            if status.service_specific_code() == 17));
    });

    let serving = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let gate = Gate { open: Semaphore::new(1), waiting: AtomicUsize::new(0), sums: Benchmark::default() };
    let (_client, found) =
        client_of(&server, Binder::new_async_on(BenchmarkAsyncStub::new(gate), serving.handle()));
    let blocking = BenchmarkProxy::from_binder(found).unwrap();
    blocking.write_message(&SampleMessage { size: 1, data: vec![1] }).unwrap();
    assert_eq!(blocking.interface_hash().unwrap(), BenchmarkProxy::HASH);
}

/// A camera of tasks, for which something that takes a device is enough.
struct Device;

impl base::IDeviceAsync for Device {
    async fn open(&self, name: &str) -> Result<(base::Status, base::i_device::State)> {
        tokio::task::yield_now().await;
        let status = if name.is_empty() { base::Status::BUSY } else { base::Status::OK };
        Ok((status, base::i_device::State::default()))
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn several_results_come_back_and_proxies_change_their_kind() {
    use base::IDeviceAsync as _;
    one_thread().block_on(async {
        let proxy = base::DeviceAsyncStub::new(Device).proxy();
        assert_eq!(proxy.open("").await.unwrap().0, base::Status::BUSY);
        let blocking: base::DeviceProxy = proxy.clone().into();
        assert_eq!(base::DeviceAsyncProxy::from(blocking), proxy);
        proxy.close().await.unwrap();
    });
    let camera = <base::CameraProxy as handoff_ipc::Proxy>::DESCRIPTOR;
    assert_eq!(<base::CameraAsyncProxy as handoff_ipc::Proxy>::DESCRIPTOR, camera);
    // A blocking service of this process is called on a pool of threads.
    let here = BenchmarkAsyncProxy::from(BenchmarkStub::new(Benchmark::default()).proxy());
    one_thread().block_on(here.write_message(&SampleMessage::default())).unwrap();
}

#[test]
fn an_asynchronous_proxy_of_another_interface_is_refused() {
    let serving = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let server = Runtime::private().unwrap();
    let gate = Gate { open: Semaphore::new(0), waiting: AtomicUsize::new(0), sums: Benchmark::default() };
    let here = Binder::new_async_on(BenchmarkAsyncStub::new(gate), serving.handle());
    let (_client, found) = client_of(&server, here.clone());
    for object in [here, found] {
        let wrong = EverythingAsyncProxy::wrap(object);
        let outcome = one_thread().block_on(wrong.add(1, 2));
        let Err(Error::WrongInterface { expected, found }) = outcome else { panic!("{outcome:?}") };
        let right = (EverythingAsyncProxy::DESCRIPTOR, BenchmarkAsyncProxy::DESCRIPTOR);
        assert_eq!((expected.as_str(), found.as_str()), right);
    }
}
