//! The sending process: one turn of a transport at a time.

use std::sync::Arc;
use std::time::Duration;

use handoff_ipc::parcel::SharedBytes;
use handoff_ipc::queue::{Blocking, EventFlag, MessageQueue, Reader, Synchronized, Writer};
use handoff_ipc::{Error as IpcError, Runtime, SharedMemory};
use serde::{Deserialize, Serialize};

use super::generated::{self, BenchmarkProxy, IBenchmark as _, SampleMessage};
use super::receiver::{Begin, Completion, EMPTIED, FILLED, ReceiverProxy, sum};
use super::{Batch, MAX_PAYLOAD, Transport};
use crate::error::{Error, Result, call_failed};
use crate::rpc::EngineKind;
use crate::sys::clock::{now, process_cpu_time};

/// Messages before those that count.
const WARM_UP: u32 = 20;
/// How long a sender that has a CPU of its own looks for the receiver's word before it sleeps.
const LOOK: Duration = Duration::from_micros(200);
/// Nothing takes longer, unless a process hangs.
const LIMIT: Option<Duration> = Some(Duration::from_secs(30));

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct AskSender {
    pub(super) transport: Transport,
    pub(super) payload: usize,
    pub(super) samples: u32,
    pub(super) stream: u32,
    /// The receiver has a CPU of its own: the sender looks for a while before it sleeps.
    pub(super) apart: bool,
}

/// The receiver, as an engine reaches it.
#[derive(Clone)]
struct ReceiverProxies {
    receiver: ReceiverProxy,
    generated: BenchmarkProxy,
}

/// The sender's ends of everything.
pub(crate) struct Sender {
    receivers: Vec<(EngineKind, ReceiverProxies)>,
    // Holds the connections.
    _runtimes: Vec<Runtime>,
    done: Reader<Completion, Synchronized>,
    queue: Writer<u8, Synchronized>,
    memory: SharedMemory,
    flag: EventFlag,
    // The buffer holds a message that was not taken yet.
    filled: bool,
}

fn failed(error: impl Into<IpcError>) -> Error {
    call_failed(&error.into())
}

impl Sender {
    /// Shares queues and memory with the receiver, through the first of its engines.
    pub(crate) fn new(connected: Vec<(EngineKind, Runtime, ReceiverProxy)>) -> Result<Self> {
        let done = MessageQueue::<Completion, Synchronized>::with_event_flag(1 << 15).map_err(failed)?;
        // Several messages of any size, so that a stream is one.
        let queue = MessageQueue::<u8, Synchronized>::with_event_flag(4 * MAX_PAYLOAD).map_err(failed)?;
        let memory = SharedMemory::new(MAX_PAYLOAD).map_err(failed)?;
        let word = SharedMemory::new(4096).map_err(failed)?;
        let flag = EventFlag::over(Arc::new(word.try_clone().map_err(failed)?), 0).map_err(failed)?;
        let (mut runtimes, mut receivers) = (Vec::new(), Vec::new());
        for (engine, runtime, receiver) in connected {
            runtimes.push(runtime);
            let generated = receiver.generated().map_err(failed)?;
            receivers.push((engine, ReceiverProxies { receiver, generated }));
        }
        // Each engine's receiver is the same object of the same process.
        if let Some((_, ReceiverProxies { receiver: first, .. })) = receivers.first() {
            let (done, queue) = (done.descriptor().map_err(failed)?, queue.descriptor().map_err(failed)?);
            first.attach(&done, &queue, &memory, &word).map_err(failed)?;
        }
        Ok(Sender {
            receivers,
            _runtimes: runtimes,
            done: done.reader().map_err(failed)?,
            queue: queue.writer().map_err(failed)?,
            memory,
            flag,
            filled: false,
        })
    }

    fn far(&self, transport: Transport) -> Result<ReceiverProxies> {
        let wanted = transport.engine();
        let found = self.receivers.iter().find(|(engine, _)| wanted.is_none_or(|wanted| wanted == *engine));
        found
            .map(|(_, far)| far.clone())
            .ok_or_else(|| Error::parameter("engine", format!("{transport} has no receiver in this run")))
    }

    /// Messages alone, then a stream.
    pub(crate) fn turn(&mut self, asked: &AskSender) -> Result<Batch> {
        let AskSender { transport, payload, samples, stream, apart } = *asked;
        let message = generated::message((0..payload).map(|i| (i % 251) as u8).collect());
        let expected = sum(SharedBytes::from_slice(&message.data));
        if transport == Transport::Direct {
            return Ok(direct(&message.data, samples, stream));
        }
        let far = self.far(transport)?;
        let receiver = &far.receiver;
        let mut turn = Batch { messages: stream, ..Batch::default() };

        let alone = WARM_UP + samples;
        receiver.begin(&Begin::new(transport, alone.into(), payload, true)).map_err(failed)?;
        for index in 0..alone {
            let began = now();
            self.send(transport, &far, &message)?;
            let returned = now();
            let completion = self.completion(transport, expected, apart)?;
            if index >= WARM_UP {
                turn.caller.push(returned - began);
                turn.completion.push(completion.at.saturating_sub(began));
            }
        }

        receiver.begin(&Begin::new(transport, stream.into(), payload, false)).map_err(failed)?;
        let (cpu_there, cpu_here) = (receiver.cpu_time().map_err(failed)?, process_cpu_time());
        let began = now();
        for _ in 0..stream {
            self.send(transport, &far, &message)?;
        }
        let ended = self.completion(transport, expected, apart)?.at;
        turn.elapsed = ended.saturating_sub(began);
        turn.cpu = process_cpu_time() - cpu_here + receiver.cpu_time().map_err(failed)? - cpu_there;
        Ok(turn)
    }

    #[inline]
    fn send(&mut self, transport: Transport, far: &ReceiverProxies, typed: &SampleMessage) -> Result<()> {
        let message = &typed.data;
        match transport {
            Transport::Direct => Ok(()),
            Transport::Call(_) => far.receiver.sum(message).map(drop).map_err(failed),
            Transport::GeneratedCall(_) => far.generated.write_message(typed).map_err(failed),
            Transport::Oneway(_) => queued(|| far.receiver.sum_oneway(message)),
            Transport::GeneratedOneway(_) => queued(|| far.generated.write_message_oneway(typed)),
            Transport::FmqSpinning => self.queue.write_spinning(message, 20_000_000_000).map_err(failed),
            Transport::FmqBlocking => self.queue.write_blocking(message, LIMIT).map_err(failed),
            Transport::SharedMemory => {
                if std::mem::replace(&mut self.filled, true) {
                    self.flag.wait(EMPTIED, LIMIT).map_err(failed)?;
                }
                self.memory.write_at(0, message).map_err(failed)?;
                self.flag.wake(FILLED).map_err(failed)?;
                Ok(())
            }
        }
    }

    /// Looks for that word for a while. To be woken takes longer than most ways do, so that a receiver
    /// would have given up waiting by the next message, and each would find it asleep.
    fn look(&mut self, done: &mut [Completion; 1]) -> bool {
        let end = now() + LOOK.as_nanos() as u64;
        while now() < end {
            if self.done.read(done).is_ok() {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Waits until the receiver says that it is done with what it was to tell of.
    fn completion(&mut self, transport: Transport, expected: u8, apart: bool) -> Result<Completion> {
        let mut done = [Completion { at: 0, sum: 0 }];
        match transport {
            _ if apart && self.look(&mut done) => {}
            Transport::FmqSpinning => self.done.read_spinning(&mut done, 20_000_000_000).map_err(failed)?,
            _ => {
                let how = Blocking { notify: 0, ..Blocking::reading(LIMIT) };
                self.done.read_blocking_with(&mut done, &how).map_err(failed)?;
            }
        }
        if std::mem::take(&mut self.filled) {
            self.flag.wait(EMPTIED, LIMIT).map_err(failed)?;
        }
        if done[0].sum != u32::from(expected) {
            let what = format!("the receiver's sum is {}, not {expected}", done[0].sum);
            return Err(Error::io(what, std::io::Error::other("the payload did not arrive as it was sent")));
        }
        Ok(done[0])
    }
}

/// Makes a oneway call, as soon as there is room for it.
#[inline]
fn queued(send: impl Fn() -> handoff_ipc::Result<()>) -> Result<()> {
    loop {
        match send() {
            // The receiver does not keep up: what a sender does then is wait.
            Err(IpcError::OnewayFull(_)) => std::thread::yield_now(),
            other => return other.map_err(failed),
        }
    }
}

fn direct(message: &[u8], samples: u32, stream: u32) -> Batch {
    let call = || std::hint::black_box(sum(SharedBytes::from_slice(std::hint::black_box(message))));
    for _ in 0..WARM_UP {
        call();
    }
    let mut turn = Batch { messages: stream, ..Batch::default() };
    for _ in 0..samples {
        let began = now();
        call();
        turn.caller.push(now() - began);
    }
    turn.completion.clone_from(&turn.caller);
    let (cpu, began) = (process_cpu_time(), now());
    for _ in 0..stream {
        call();
    }
    turn.elapsed = now() - began;
    turn.cpu = process_cpu_time() - cpu;
    turn
}
