//! How a second process plays its role, with the workloads that it is asked to run.

use std::time::{Duration, Instant};

use handoff_ipc::shm::phases as engine_phases;
use handoff_ipc::{Binder, Proxy as _};
use handoff_placement::Tid;
use rustix::process::getpid;
use rustix::thread::sched_setaffinity;
use serde::{Deserialize, Serialize};

use super::hold::hold;
use super::host::{self, Address};
use super::role::{
    AskClient, AskServer, Batch, EnginePoint, ROLE, Role, StampedCalls, TransportReceiver, TransportSender,
};
use super::service::ProbeProxy;
use super::{Context, EngineKind, Parameters};
use crate::add_ints;
use crate::error::{Error, Result, call_failed};
use crate::inversion;
use crate::latency;
use crate::peer::{self, Channel};
use crate::place::{self, Placement};
use crate::sys::clock::process_cpu_time;
use crate::transports::receiver::{Receiver, ReceiverProxy};
use crate::transports::sender::{AskSender, Sender};

/// Plays the role of a peer, and does not return, if this process was started as one.
///
/// Call it first in `main` of every program that runs [`crate::rpc`] workloads. They refuse to run
/// otherwise, because a program that does not play would start its whole work again instead.
pub fn play_if_peer() {
    peer::play(ROLE, play);
}

/// What a client is asked for one workload.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum AskWorkload {
    /// The latency test: [`latency::Pairwise`] for an answer.
    Latency(latency::ClientRequest),
    /// Additions: [`add_ints::Timed`] for an answer.
    AddInts(add_ints::ClientRequest),
    /// Urgent calls with a pause between them: [`inversion::Urgent`] for an answer.
    Urgent(inversion::UrgentRequest),
}

/// What a client reads: no two questions have one name.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Question {
    Always(AskClient),
    OfWorkload(AskWorkload),
}

/// Untimed calls before the first sample of a batch, so that both sides have woken up.
const WARM_UP: u32 = 20;

/// Plays a role until the parent ends it.
fn play(role: Role, mut parent: Channel) -> Result<()> {
    match role {
        Role::Server(server) => {
            let started = pin(server.cpu).and_then(|()| host::serve(&server.calls, server.serving));
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
            let connect = |()| Ok((host::connect(&client)?, ()));
            let (connected, ready) = split(pin(client.cpu).and_then(connect));
            say(&mut parent, ready)?;
            let Some((_runtime, probe)) = connected else { return Ok(()) };
            loop {
                let asked = parent.asked::<Question>()?;
                answer(&probe, asked, &mut parent)?;
            }
        }
    }
}

/// How the transports' services are offered.
fn transports(engine: EngineKind) -> Parameters {
    Parameters { engine, context: Some(Context::Framework), ..Parameters::default() }
}

/// Receives by every transport; its answer to the parent says on which engines.
fn receive(role: TransportReceiver, mut parent: Channel) -> Result<()> {
    pin(role.cpu)?;
    let receiver = Receiver::default();
    let (mut runtimes, mut offered) = (Vec::new(), Vec::new());
    for engine in role.engines {
        let name = ReceiverProxy::DESCRIPTOR;
        let address = match host::offer(&transports(engine), Binder::new(receiver.clone()), name) {
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

fn send(role: TransportSender, mut parent: Channel) -> Result<()> {
    let connect = |(engine, address): (EngineKind, Address)| {
        let (runtime, receiver) = host::reach::<ReceiverProxy>(&transports(engine), &address)?;
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

fn answer(probe: &ProbeProxy, asked: Question, parent: &mut Channel) -> Result<()> {
    match asked {
        Question::OfWorkload(AskWorkload::Latency(plan)) => say(parent, latency::call(probe, &plan)),
        Question::OfWorkload(AskWorkload::AddInts(plan)) => say(parent, add_ints::call(probe, &plan)),
        Question::OfWorkload(AskWorkload::Urgent(plan)) => say(parent, inversion::call(probe, &plan)),
        Question::Always(AskClient::Echo { payload, samples, trips }) => {
            say(parent, echo(probe, payload, samples, trips))
        }
        Question::Always(AskClient::Stamped { payload, calls }) => {
            say(parent, stamped(probe, payload, calls))
        }
        Question::Always(AskClient::StartPhases) => {
            engine_phases::start();
            say(parent, Ok(()))
        }
        Question::Always(AskClient::StopPhases) => say(parent, Ok(engine_points())),
        Question::Always(AskClient::Hold { objects, calls }) => hold(probe, objects, calls, parent),
        Question::Always(AskClient::Busy { steps }) => loop {
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

fn stamped(probe: &ProbeProxy, payload: usize, calls: u32) -> Result<StampedCalls> {
    let payload = payload_of(payload);
    let calls = (0..calls)
        .map(|_| probe.stamped(&payload).map_err(|error| call_failed(&error)))
        .collect::<Result<_>>()?;
    Ok(StampedCalls { client: Tid::current().as_raw(), calls })
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

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
