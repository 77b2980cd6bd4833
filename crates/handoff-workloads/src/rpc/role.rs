//! What a second process is told to be, and how it plays it.

use std::time::{Duration, Instant};

use handoff_ipc::shm::phases as engine_phases;
use handoff_ipc::{Binder, Proxy as _};
use handoff_placement::Tid;
use rustix::process::getpid;
use rustix::thread::sched_setaffinity;
use serde::{Deserialize, Serialize};

use super::host::{self, Address, Way};
use super::service::{ProbeProxy, Stamps};
use super::{Context, Engine};
use crate::add_ints;
use crate::error::{Error, Result, call_failed};
use crate::inversion;
use crate::latency;
use crate::peer::Channel;
use crate::place::{self, Placement};
use crate::sys::clock::process_cpu_time;
use crate::transports::receiver::{Receiver, ReceiverProxy};
use crate::transports::sender::{AskSender, Sender};

/// The role of a peer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Serves calls.
    Server(Server),
    /// Makes calls.
    Client(Client),
    /// Receives by every transport.
    TransportReceiver(TransportReceiver),
    /// Sends by every transport.
    TransportSender(TransportSender),
}

impl Role {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Role::Server(_) => "server",
            Role::Client(_) => "client",
            Role::TransportReceiver(_) => "receiver",
            Role::TransportSender(_) => "sender",
        }
    }
}

/// A process that serves calls until its parent ends it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Server {
    pub(crate) way: Way,
    pub(crate) cpu: Option<usize>,
    pub(crate) threads: Option<usize>,
}

/// A process that makes calls when it is told to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) way: Way,
    /// The server; the client serves itself if absent.
    pub(crate) address: Option<Address>,
    pub(crate) cpu: Option<usize>,
    pub(crate) follow: bool,
}

/// A process that receives by every transport until its parent ends it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TransportReceiver {
    pub(crate) engines: Vec<Engine>,
    pub(crate) cpu: Option<usize>,
}

/// A process that sends by every transport when it is told to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TransportSender {
    pub(crate) addresses: Vec<(Engine, Address)>,
    pub(crate) cpu: Option<usize>,
}

/// What a server is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum AskServer {
    /// CPU time of the process so far, in nanoseconds.
    CpuTime,
    /// To stamp the points inside of the engine from now on. Answers with nothing.
    StartPhases,
    /// To stop that: [`EnginePoint`]s for an answer.
    StopPhases,
}

/// A point inside of the engine, as it is sent: the number of its `handoff_ipc::shm::phases::Point`, and its
/// nanoseconds.
pub(crate) type EnginePoint = (u8, u64);

/// What a client is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum AskClient {
    /// Echo calls: [`Batch`] for an answer.
    Echo { payload: usize, samples: u32, trips: u32 },
    /// The latency test: [`latency::Pairwise`] for an answer.
    Latency(latency::Plan),
    /// Additions: [`add_ints::Timed`] for an answer.
    AddInts(add_ints::Plan),
    /// Urgent calls with a pause between them: [`inversion::Urgent`] for an answer.
    Urgent(inversion::Plan),
    /// Calls with stamps: [`Stamped`] for an answer.
    Stamped { payload: usize, calls: u32 },
    /// As [`AskServer::StartPhases`].
    StartPhases,
    /// As [`AskServer::StopPhases`].
    StopPhases,
    /// Long calls without a pause, until it is ended. There is no answer.
    Busy { steps: u32 },
}

/// Answer to [`AskClient::Echo`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Batch {
    /// Nanoseconds of each sample.
    pub(crate) samples: Vec<u64>,
    /// CPU time that the client's process used meanwhile, in nanoseconds.
    pub(crate) cpu: u64,
}

/// Answer to [`AskClient::Stamped`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stamped {
    /// The thread that made the calls.
    pub(crate) client: i32,
    /// When each was where.
    pub(crate) calls: Vec<Stamps>,
}

/// Untimed calls before the first sample of a batch, so that both sides have woken up.
const WARM_UP: u32 = 20;

/// Plays a role until the parent ends it.
pub(crate) fn play(role: Role, mut parent: Channel) -> Result<()> {
    match role {
        Role::Server(server) => {
            let started = pin(server.cpu).and_then(|()| host::serve(server.way, server.threads));
            let (_runtime, ready) = split(started);
            say(&mut parent, ready)?;
            loop {
                match parent.asked::<AskServer>()? {
                    AskServer::CpuTime => say(&mut parent, Ok(process_cpu_time()))?,
                    AskServer::StartPhases => {
                        engine_phases::start();
                        say(&mut parent, Ok(()))?;
                    }
                    AskServer::StopPhases => say(&mut parent, Ok(engine_points()))?,
                }
            }
        }
        Role::TransportReceiver(role) => receive(role, parent),
        Role::TransportSender(role) => send(role, parent),
        Role::Client(client) => {
            let connect = |()| Ok((host::connect(client.way, client.address.as_ref(), client.follow)?, ()));
            let (connected, ready) = split(pin(client.cpu).and_then(connect));
            say(&mut parent, ready)?;
            let Some((_runtime, probe)) = connected else { return Ok(()) };
            loop {
                let asked = parent.asked::<AskClient>()?;
                answer(&probe, asked, &mut parent)?;
            }
        }
    }
}

/// How the transports' services are offered.
fn way(engine: Engine) -> Way {
    Way { engine, context: Context::Binder, inherit: true, inherit_user: false, plant: None }
}

/// Receives by every transport; its answer to the parent says on which engines.
fn receive(role: TransportReceiver, mut parent: Channel) -> Result<()> {
    pin(role.cpu)?;
    let receiver = Receiver::default();
    let (mut runtimes, mut offered) = (Vec::new(), Vec::new());
    for engine in role.engines {
        let name = ReceiverProxy::DESCRIPTOR;
        let address = match host::offer(way(engine), Binder::new(receiver.clone()), name) {
            Ok((runtime, address)) => {
                runtimes.push(runtime);
                Ok(address)
            }
            Err(error) => Err(error.to_string()),
        };
        offered.push((engine, address));
    }
    say(&mut parent, Ok(offered))?;
    // It is asked nothing; this ends with the parent.
    parent.asked::<serde::de::IgnoredAny>().map(drop)
}

/// Sends by every transport.
fn send(role: TransportSender, mut parent: Channel) -> Result<()> {
    let connect = |(engine, address): (Engine, Address)| {
        let (runtime, receiver) = host::reach::<ReceiverProxy>(way(engine), &address)?;
        Ok((engine, runtime, receiver))
    };
    let connected = pin(role.cpu).and_then(|()| role.addresses.into_iter().map(connect).collect());
    let (sender, ready) = split(connected.and_then(Sender::new).map(|sender| (sender, ())));
    say(&mut parent, ready)?;
    let Some(mut sender) = sender else { return Ok(()) };
    loop {
        let asked = parent.asked::<AskSender>()?;
        say(&mut parent, sender.turn(&asked))?;
    }
}

fn answer(probe: &ProbeProxy, asked: AskClient, parent: &mut Channel) -> Result<()> {
    match asked {
        AskClient::Echo { payload, samples, trips } => say(parent, echo(probe, payload, samples, trips)),
        AskClient::Latency(plan) => say(parent, latency::call(probe, &plan)),
        AskClient::AddInts(plan) => say(parent, add_ints::call(probe, &plan)),
        AskClient::Stamped { payload, calls } => say(parent, stamped(probe, payload, calls)),
        AskClient::StartPhases => {
            engine_phases::start();
            say(parent, Ok(()))
        }
        AskClient::StopPhases => say(parent, Ok(engine_points())),
        AskClient::Urgent(plan) => say(parent, inversion::call(probe, &plan)),
        AskClient::Busy { steps } => loop {
            probe.work(steps).map_err(|error| call_failed(&error))?;
        },
    }
}

/// What is kept, and what the parent is told.
fn split<T, U>(result: Result<(T, U)>) -> (Option<T>, Result<U>) {
    match result {
        Ok((kept, told)) => (Some(kept), Ok(told)),
        Err(error) => (None, Err(error)),
    }
}

fn say<T: Serialize>(parent: &mut Channel, result: Result<T>) -> Result<()> {
    parent.say(result)
}

/// Pins this thread, and the first thread of the process: threads of the runtime's pool run where that
/// one may.
fn pin(cpu: Option<usize>) -> Result<()> {
    let Some(cpu) = cpu else { return Ok(()) };
    let mask = Placement::SameCpu(cpu).client();
    place::apply(mask.as_ref())
        .and_then(|()| mask.map_or(Ok(()), |mask| sched_setaffinity(Some(getpid()), &mask)))
        .map_err(|error| Error::io(format!("cannot run on CPU {cpu}"), error))
}

/// What this process's engine stamped since it was asked to, in the order of time.
fn engine_points() -> Vec<EnginePoint> {
    let mut points: Vec<EnginePoint> =
        engine_phases::stop().into_iter().map(|stamp| (stamp.point as u8, stamp.ns)).collect();
    // Each thread reads the clock before it gets to write.
    points.sort_by_key(|(_, ns)| *ns);
    points
}

fn stamped(probe: &ProbeProxy, payload: usize, calls: u32) -> Result<Stamped> {
    let payload = payload_of(payload);
    let calls = (0..calls)
        .map(|_| probe.stamped(&payload).map_err(|error| call_failed(&error)))
        .collect::<Result<_>>()?;
    Ok(Stamped { client: Tid::current().as_raw(), calls })
}

fn payload_of(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i % 251) as u8).collect()
}

fn echo(probe: &ProbeProxy, payload: usize, samples: u32, trips: u32) -> Result<Batch> {
    let failed = |error| call_failed(&error);
    let payload = payload_of(payload);
    for _ in 0..WARM_UP {
        probe.echo(&payload).map_err(failed)?;
    }
    let mut taken = Vec::with_capacity(samples as usize);
    let cpu_before = process_cpu_time();
    let mut before = Instant::now();
    for _ in 0..samples {
        for _ in 0..trips {
            probe.echo(&payload).map_err(failed)?;
        }
        let after = Instant::now();
        taken.push(nanoseconds(after.duration_since(before)));
        before = after;
    }
    Ok(Batch { samples: taken, cpu: process_cpu_time() - cpu_before })
}

/// Whole nanoseconds.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
