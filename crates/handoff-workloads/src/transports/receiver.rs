//! The receiving process: sums up what arrives, and says when it was done.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use handoff_ipc::parcel::{Reader as ParcelReader, SharedBytes, Writer as ParcelWriter};
use handoff_ipc::queue::{
    Descriptor, EventFlag, MessageQueue, NOT_EMPTY, NOT_FULL, QueueError, Reader, Synchronized, Writer,
};
use handoff_ipc::{
    Binder, Code, Error, ExceptionCode, Proxy, Result, Service, SharedMemory, Status, Transaction,
};

use super::Transport;
use super::generated::{BenchmarkProxy, BenchmarkStub};
use crate::sys::clock::{now, process_cpu_time};

const ATTACH: Code = 1;
const BEGIN: Code = 2;
const SUM: Code = 3;
const CPU_TIME: Code = 4;
const GENERATED: Code = 5;

/// Bits of the event flag beside a buffer.
pub(super) const FILLED: u32 = 1;
/// The buffer may be filled again.
pub(super) const EMPTIED: u32 = 2;

/// A receiver that hears nothing for so long gives up.
const SILENCE: Duration = Duration::from_secs(20);

/// What the receiver says when it has summed a message up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Completion {
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub(super) at: u64,
    pub(super) sum: u32,
}
handoff_ipc::queue_item!(Completion { at: u64, sum: u32 });

/// The sum of the bytes: what everybody does with a message.
#[inline]
pub fn sum(bytes: SharedBytes<'_>) -> u8 {
    let mut total = 0_u8;
    // Small pieces are copied without a call: larger ones go to the stack by a call of the C library,
    // which took as long as adding them up.
    bytes.for_each_chunk::<128>(|piece| {
        total = total.wrapping_add(piece.iter().fold(0, |sum, byte| sum.wrapping_add(*byte)));
    });
    total
}

#[derive(Default, Clone)]
pub(crate) struct Receiver {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    link: Option<Link>,
    // Messages until the sender is told.
    left: u64,
    each: bool,
    // The sender sleeps until it is told.
    wake: bool,
}

/// What sender and receiver share.
struct Link {
    done: Writer<Completion, Synchronized>,
    done_flag: EventFlag,
    queue: MessageQueue<u8, Synchronized>,
    memory: Arc<SharedMemory>,
    flag: EventFlag,
}

impl State {
    /// A message was summed up.
    #[inline]
    fn complete(&mut self, sum: u8) -> Result<()> {
        self.left = self.left.saturating_sub(1);
        if !self.each && self.left > 0 {
            return Ok(());
        }
        let Some(link) = &mut self.link else { return Err(not_ready()) };
        link.done.write(&[Completion { at: now(), sum: sum.into() }])?;
        if self.wake {
            link.done_flag.wake(NOT_EMPTY)?;
        }
        Ok(())
    }
}

fn not_ready() -> Error {
    Status::new(ExceptionCode::IllegalState, "nothing is attached yet").into()
}

impl Receiver {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message that was a call's was summed up.
    pub(super) fn complete(&self, sum: u8) -> Result<()> {
        self.state().complete(sum)
    }

    fn attach(&self, data: &mut ParcelReader<'_>) -> Result<()> {
        let done = MessageQueue::attach(data.read::<Descriptor<Completion, Synchronized>>()?)?;
        let queue = MessageQueue::attach(data.read::<Descriptor<u8, Synchronized>>()?)?;
        let memory = Arc::new(data.read::<SharedMemory>()?);
        let flag = EventFlag::over(Arc::new(data.read::<SharedMemory>()?), 0)?;
        let done_flag = done.event_flag().ok_or_else(not_ready)?;
        self.state().link = Some(Link { done: done.writer()?, done_flag, queue, memory, flag });
        Ok(())
    }

    /// Gets ready for messages by one transport.
    fn begin(&self, begin: &Begin) -> Result<()> {
        let mut state = self.state();
        (state.left, state.each, state.wake) = (begin.messages, begin.each, begin.wake);
        let Some(link) = &state.link else { return Err(not_ready()) };
        let (messages, payload) = (begin.messages, begin.payload);
        let shared = Arc::clone(&self.state);
        let complete = move |sum| shared.lock().unwrap_or_else(PoisonError::into_inner).complete(sum).is_ok();
        let run: Box<dyn FnOnce() + Send> = match begin.carrier {
            Carrier::Calls => return Ok(()),
            Carrier::Memory => {
                let (memory, flag) = (Arc::clone(&link.memory), link.flag.clone());
                Box::new(move || from_memory(&memory, &flag, payload, messages, complete))
            }
            carrier => {
                let mut reader = free_reader(&link.queue)?;
                let flag = link.queue.event_flag().filter(|_| carrier == Carrier::QueueBlocking);
                Box::new(move || from_queue(&mut reader, flag.as_ref(), payload, messages, complete))
            }
        };
        thread::Builder::new()
            .name("receiver".into())
            .spawn(run)
            .map(drop)
            .map_err(|error| Error::io("cannot start a receiver", error))
    }
}

/// The queue's reader, once the thread that had it before has ended.
fn free_reader(queue: &MessageQueue<u8, Synchronized>) -> Result<Reader<u8, Synchronized>> {
    for _ in 0..2000 {
        match queue.reader() {
            Err(QueueError::InUse(_)) => thread::sleep(Duration::from_micros(500)),
            other => return Ok(other?),
        }
    }
    Ok(queue.reader()?)
}

fn from_memory(
    memory: &SharedMemory,
    flag: &EventFlag,
    payload: usize,
    messages: u64,
    complete: impl Fn(u8) -> bool,
) {
    for _ in 0..messages {
        if flag.wait(FILLED, Some(SILENCE)).is_err() {
            return;
        }
        let Some(message) = memory.bytes().slice(0, payload) else { return };
        // The sender may fill the buffer again once this is known: last.
        if !complete(sum(message)) || flag.wake(EMPTIED).is_err() {
            return;
        }
    }
}

/// Sums messages up where they lie. With a flag it sleeps for them, without one it spins.
fn from_queue(
    reader: &mut Reader<u8, Synchronized>,
    flag: Option<&EventFlag>,
    payload: usize,
    messages: u64,
    complete: impl Fn(u8) -> bool,
) {
    for _ in 0..messages {
        let mut idle = 0_u64;
        let total = loop {
            match reader.begin(payload) {
                Ok(message) => {
                    let [first, second] = message.span().runs();
                    let total = sum(first).wrapping_add(sum(second));
                    if message.commit(payload).is_err() {
                        return;
                    }
                    break total;
                }
                Err(QueueError::Empty(_)) => match flag {
                    Some(flag) => {
                        if flag.wait(NOT_EMPTY, Some(SILENCE)).is_err() {
                            return;
                        }
                    }
                    None => {
                        idle += 1;
                        std::hint::spin_loop();
                        // A sender that died leaves nobody spinning for ever.
                        if idle > 20_000_000_000 {
                            return;
                        }
                    }
                },
                Err(_) => return,
            }
        };
        if !complete(total) {
            return;
        }
        if let Some(flag) = flag
            && flag.wake(NOT_FULL).is_err()
        {
            return;
        }
    }
}

/// How messages are to be received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carrier {
    Calls,
    QueueSpinning,
    QueueBlocking,
    Memory,
}

/// What a receiver gets ready for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begin {
    carrier: Carrier,
    messages: u64,
    payload: usize,
    each: bool,
    wake: bool,
}

impl Begin {
    /// So many messages; the sender is told of `each` or of the last.
    pub(super) fn new(transport: Transport, messages: u64, payload: usize, each: bool) -> Self {
        let carrier = match transport {
            Transport::FmqSpinning => Carrier::QueueSpinning,
            Transport::FmqBlocking => Carrier::QueueBlocking,
            Transport::SharedMemory => Carrier::Memory,
            Transport::Direct
            | Transport::Call(_)
            | Transport::Oneway(_)
            | Transport::GeneratedCall(_)
            | Transport::GeneratedOneway(_) => Carrier::Calls,
        };
        Begin { carrier, messages, payload, each, wake: carrier != Carrier::QueueSpinning }
    }
}

impl Service for Receiver {
    fn descriptor(&self) -> &str {
        ReceiverProxy::DESCRIPTOR
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let Transaction { data, reply, .. } = transaction;
        match transaction.call.code() {
            SUM => {
                let total = sum(data.read_bytes()?);
                self.complete(total)?;
                reply.write(&total)
            }
            ATTACH => self.attach(data),
            BEGIN => {
                let carrier = match data.read::<i32>()? {
                    0 => Carrier::Calls,
                    1 => Carrier::QueueSpinning,
                    2 => Carrier::QueueBlocking,
                    3 => Carrier::Memory,
                    other => {
                        let what = format!("{other} is no way to receive");
                        return Err(Status::new(ExceptionCode::IllegalArgument, what).into());
                    }
                };
                let (messages, payload): (u64, u64) = (data.read()?, data.read()?);
                let (each, wake) = (data.read()?, data.read()?);
                self.begin(&Begin { carrier, messages, payload: payload as usize, each, wake })
            }
            GENERATED => reply.write(&BenchmarkStub::new(self.clone()).proxy()),
            CPU_TIME => reply.write(&process_cpu_time()),
            _ => Err(transaction.unknown(self.descriptor())),
        }
    }
}

/// Talks to a [`Receiver`].
#[derive(Debug, Clone)]
pub(crate) struct ReceiverProxy(Binder);

impl Proxy for ReceiverProxy {
    const DESCRIPTOR: &'static str = "handoff.workloads.IReceiver";

    fn wrap(binder: Binder) -> Self {
        ReceiverProxy(binder)
    }
}

impl ReceiverProxy {
    pub(super) fn attach(
        &self,
        done: &Descriptor<Completion, Synchronized>,
        queue: &Descriptor<u8, Synchronized>,
        memory: &SharedMemory,
        flag: &SharedMemory,
    ) -> Result<()> {
        let send = |to: &mut ParcelWriter<'_>| {
            to.write(done)?;
            to.write(queue)?;
            to.write(memory)?;
            to.write(flag)
        };
        self.0.transaction(ATTACH).call(send, |_| Ok(()))
    }

    pub(super) fn begin(&self, begin: &Begin) -> Result<()> {
        let send = |to: &mut ParcelWriter<'_>| {
            to.write(&(begin.carrier as i32))?;
            to.write(&begin.messages)?;
            to.write(&(begin.payload as u64))?;
            to.write(&begin.each)?;
            to.write(&begin.wake)
        };
        self.0.transaction(BEGIN).call(send, |_| Ok(()))
    }

    #[inline]
    pub(super) fn sum(&self, payload: &[u8]) -> Result<u8> {
        self.0.transaction(SUM).call(|to| to.write_bytes(payload), |from| from.read())
    }

    #[inline]
    pub(super) fn sum_oneway(&self, payload: &[u8]) -> Result<()> {
        self.0.transaction(SUM).oneway(|to| to.write_bytes(payload))
    }

    /// The same receiver behind the generated interface.
    pub(super) fn generated(&self) -> Result<BenchmarkProxy> {
        self.0.transaction(GENERATED).call(|_| Ok(()), |from| from.read())
    }

    pub(super) fn cpu_time(&self) -> Result<u64> {
        self.0.transaction(CPU_TIME).call(|_| Ok(()), |from| from.read())
    }
}
