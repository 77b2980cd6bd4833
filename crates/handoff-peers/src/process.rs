//! The two processes of a peer: started, asked, ended.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use handoff_placement::process::run_time_ns;
use handoff_placement::{Priority, Tid};
use handoff_workloads::peer::{Channel, Peer, play};
use handoff_workloads::transports::{Batch, OpenTransport};
use handoff_workloads::{Error, Placement, Result};
use rustix::process::{Pid, Signal, getpid, kill_process, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::Kind;

/// In the environment of such a process: its role.
const ROLE: &str = "HANDOFF_PEERS_ROLE";
/// Nothing takes longer, unless a process hangs.
const LIMIT: Duration = Duration::from_secs(120);
/// Where a server listens, in its folder.
const ADDRESS: &str = "peer";
/// What a real-time client runs at.
const URGENT: Priority = Priority::fifo(50);
/// Requests before those that count.
const WARM_UP: u32 = 20;

#[derive(Debug, Serialize, Deserialize)]
struct Role {
    kind: Kind,
    address: PathBuf,
    serves: bool,
    cpu: Option<usize>,
    how: How,
    /// For a client: whose CPU time counts, too.
    server: u32,
}

/// What is particular about a client.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum How {
    Ordinary,
    /// At [`URGENT`], with all threads that it starts.
    Urgent,
    /// It makes its payloads where the server reads them.
    InPlace,
}

/// What a client is asked.
#[derive(Debug, Serialize, Deserialize)]
enum Ask {
    /// Requests alone, then in a row: a [`Batch`].
    Batch { payload: usize, samples: u32, stream: u32 },
    /// Requests with so many microseconds of sleep before each: a [`Spaced`].
    Spaced { payload: usize, samples: u32, pause_us: u64 },
    /// As many requests as fit into so many milliseconds: their number.
    Run { payload: usize, millis: u64 },
    /// So many connections, each asked once, and so many objects over the first: a [`Held`].
    Hold { connections: usize, objects: usize },
}

/// What two processes hold while connections and objects are open between them.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Held {
    /// The process that serves them.
    pub server: Usage,
    /// The process that opened them.
    pub client: Usage,
}

/// What one process holds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Bytes of resident memory, of shared pages its share (`Pss` of `/proc/PID/smaps_rollup`).
    pub memory: u64,
    /// Descriptors that are open.
    pub descriptors: u64,
}

impl Usage {
    fn of(pid: u32) -> std::io::Result<Self> {
        // The one that its own folder is read by.
        let reader = u64::from(pid == std::process::id());
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let share = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kib = share.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        let memory = kib.ok_or(std::io::ErrorKind::InvalidData)? << 10;
        Ok(Usage {
            memory,
            descriptors: std::fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64 - reader,
        })
    }
}

/// Requests with a pause before each.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Spaced {
    /// Nanoseconds of each request, without its pause.
    pub took: Vec<u64>,
    /// CPU nanoseconds of both processes for one request and its pause.
    pub cpu: u64,
}

/// Plays a role, and does not return, if this process was started as a peer's.
pub fn play_if_peer() {
    play(ROLE, run);
    crate::queues::play_if_writer();
}

fn run(role: Role, mut parent: Channel) -> Result<()> {
    if let Some(cpu) = role.cpu {
        let mut mask = CpuSet::new();
        mask.set(cpu);
        // Its first thread, too: what the library starts runs where that one may.
        let pinned = sched_setaffinity(None, &mask).and_then(|()| sched_setaffinity(Some(getpid()), &mask));
        pinned.map_err(|error| Error::io(format!("cannot run on CPU {cpu}"), error))?;
    }
    if role.how == How::Urgent {
        // Of its first thread, too: what the library starts has that one's.
        let own = Tid::new(std::process::id().cast_signed()).unwrap_or_else(Tid::current);
        for tid in [Tid::current(), own] {
            URGENT.apply(tid)?;
        }
    }
    let failed = |error| Error::io(role.kind.name(), error);
    if role.serves {
        if Kind::SPINNING.contains(&role.kind) {
            // Stopped, it does not notice that its parent has ended.
            set_parent_process_death_signal(Some(Signal::KILL))
                .map_err(|error| Error::io("cannot end with the parent process", error))?;
        }
        let mut told = false;
        let served = role.kind.serve(&role.address, &mut || {
            told = true;
            drop(parent.say(Ok(())));
        });
        if !told {
            return parent.say::<()>(served.map_err(failed));
        }
        return served.map_err(failed);
    }
    let connected = match role.how {
        How::InPlace => role.kind.connect_in_place(&role.address),
        How::Ordinary | How::Urgent => role.kind.connect(&role.address),
    };
    let mut ask = match connected {
        Ok(ask) => ask,
        Err(error) => return parent.say::<()>(Err(failed(error))),
    };
    parent.say(Ok(()))?;
    let mut further = Vec::new();
    loop {
        match parent.asked::<Ask>()? {
            Ask::Hold { connections, objects } => {
                let held = hold(&role, &mut ask, &mut further, connections, objects);
                parent.say(held.map_err(failed))?;
            }
            Ask::Batch { payload, samples, stream } => {
                let turn = turn(&mut ask, &message(payload, role.how), samples, stream, role.server);
                parent.say(turn.map_err(failed))?;
            }
            Ask::Spaced { payload, samples, pause_us } => {
                let pause = Duration::from_micros(pause_us);
                let spaced = spaced(&mut ask, payload, samples, pause, role.server);
                parent.say(spaced.map_err(failed))?;
            }
            Ask::Run { payload, millis } => {
                let count = run_for(&mut ask, payload, Duration::from_millis(millis));
                parent.say(count.map_err(failed))?;
            }
        }
    }
}

/// A message and the sum of its bytes. One that is made in place is of one byte again and again.
fn message(payload: usize, how: How) -> (Vec<u8>, u8) {
    let byte = |i: usize| if how == How::InPlace { 7 } else { (i % 251) as u8 };
    let message: Vec<u8> = (0..payload).map(byte).collect();
    let sum = crate::sum(&message);
    (message, sum)
}

fn checked(sum: u8, expected: u8) -> std::io::Result<()> {
    if sum == expected {
        Ok(())
    } else {
        Err(std::io::Error::other("the payload did not arrive as it was sent"))
    }
}

/// Nanoseconds until a request was answered.
fn timed(ask: &mut crate::Ask, message: &[u8], expected: u8) -> std::io::Result<u64> {
    let began = Instant::now();
    let sum = ask(message)?;
    let took = began.elapsed();
    checked(sum, expected)?;
    Ok(took.as_nanos() as u64)
}

fn turn(
    ask: &mut crate::Ask,
    (message, expected): &(Vec<u8>, u8),
    samples: u32,
    stream: u32,
    server: u32,
) -> std::io::Result<Batch> {
    let mut turn = Batch { messages: stream, ..Batch::default() };
    for index in 0..WARM_UP + samples {
        let took = timed(ask, message, *expected)?;
        if index >= WARM_UP {
            turn.caller.push(took);
        }
    }
    let (cpu, began) = (cpu_time(server), Instant::now());
    for _ in 0..stream {
        checked(ask(message)?, *expected)?;
    }
    turn.elapsed = began.elapsed().as_nanos() as u64;
    turn.cpu = cpu_since(cpu, server);
    Ok(turn)
}

/// Requests with a sleep before each, as of a program that asks now and then.
fn spaced(
    ask: &mut crate::Ask,
    payload: usize,
    samples: u32,
    pause: Duration,
    server: u32,
) -> std::io::Result<Spaced> {
    let (message, expected) = message(payload, How::Ordinary);
    let mut spaced = Spaced::default();
    // The first one comes after whatever was measured before.
    std::thread::sleep(pause);
    timed(ask, &message, expected)?;
    let cpu = cpu_time(server);
    for _ in 0..samples {
        std::thread::sleep(pause);
        spaced.took.push(timed(ask, &message, expected)?);
    }
    spaced.cpu = cpu_since(cpu, server) / u64::from(samples.max(1));
    Ok(spaced)
}

/// Opens connections until there are so many with the first, and takes objects, which end with this call.
fn hold(
    role: &Role,
    first: &mut crate::Ask,
    further: &mut Vec<crate::Ask>,
    connections: usize,
    objects: usize,
) -> std::io::Result<Held> {
    while further.len() + 1 < connections {
        further.push(role.kind.connect(&role.address)?);
    }
    for ask in std::iter::once(first).chain(further.iter_mut()) {
        timed(ask, &[1; 8], 8)?;
    }
    let _objects = if objects > 0 { crate::ours::objects(&role.address, objects)? } else { Vec::new() };
    Ok(Held { server: Usage::of(role.server)?, client: Usage::of(std::process::id())? })
}

fn run_for(ask: &mut crate::Ask, payload: usize, time: Duration) -> std::io::Result<u64> {
    let (message, expected) = message(payload, How::Ordinary);
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < time {
        checked(ask(&message)?, expected)?;
        count += 1;
    }
    Ok(count)
}

/// CPU nanoseconds of this process and of another, of all threads that live; `None` where the kernel does not tell.
fn cpu_time(other: u32) -> Option<u64> {
    // A thread that ends while they are listed takes its time along: once more.
    let of = |pid: u32| (0..3).find_map(|_| run_time_ns(Tid::new(pid.cast_signed())?));
    Some(of(std::process::id())? + of(other)?)
}

/// What both used since; 0 where the kernel does not tell.
fn cpu_since(before: Option<u64>, other: u32) -> u64 {
    cpu_time(other).zip(before).map_or(0, |(now, before)| now.saturating_sub(before))
}

/// A server of a peer and clients of it. They end when it is dropped, and leave no file.
pub struct Clients {
    clients: Vec<Peer>,
    /// What a further one is started with.
    role: Role,
    server: Peer,
    folder: PathBuf,
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clients({} of {})", self.clients.len(), self.folder.display())
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        // Of a server that has its socket elsewhere: it is ended without a chance to remove it.
        if let Ok(socket) = std::fs::read_link(self.folder.join(ADDRESS)) {
            drop(std::fs::remove_file(&socket));
            drop(socket.parent().map(std::fs::remove_dir));
        }
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

fn start(role: &Role) -> Result<Peer> {
    Ok(Peer::start_as::<Role, ()>(ROLE, role.kind.name(), role)?.0)
}

impl Clients {
    /// Starts a server and so many clients of it.
    ///
    /// # Errors
    ///
    /// If this build has no such peer, it does not run here, or this program has not called
    /// [`play_if_peer`].
    pub fn start(kind: Kind, placement: Placement, clients: usize) -> Result<Self> {
        Self::start_as(kind, placement, clients, How::Ordinary)
    }

    /// [`Clients::start`] with one client, which runs at `SCHED_FIFO` 50. The server is an ordinary process.
    ///
    /// # Errors
    ///
    /// As [`Clients::start`], and if this process may not have real-time threads.
    pub fn start_urgent(kind: Kind, placement: Placement) -> Result<Self> {
        Self::start_as(kind, placement, 1, How::Urgent)
    }

    fn start_as(kind: Kind, placement: Placement, clients: usize, how: How) -> Result<Self> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        placement.check()?;
        let (client_cpu, server_cpu) = match placement {
            Placement::SameCpu(cpu) => (Some(cpu), Some(cpu)),
            Placement::TwoCpus(client, server) => (Some(client), Some(server)),
            Placement::Unpinned => (None, None),
        };
        let unique = format!("handoff-peer-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(unique);
        std::fs::create_dir(&folder).map_err(|error| Error::io("cannot make a folder", error))?;
        let address = folder.join(ADDRESS);
        let serves = Role { kind, address, serves: true, cpu: server_cpu, how: How::Ordinary, server: 0 };
        let started = start(&serves).and_then(|server| {
            let role = Role { serves: false, cpu: client_cpu, how, server: server.pid(), ..serves };
            let clients = (0..clients).map(|_| start(&role)).collect::<Result<_>>();
            Ok((server, clients?, role))
        });
        match started {
            Ok((server, clients, role)) => Ok(Clients { clients, role, server, folder }),
            Err(error) => {
                drop(std::fs::remove_dir_all(&folder));
                Err(error)
            }
        }
    }

    /// Requests of the first client, each after a pause in which it sleeps.
    ///
    /// # Errors
    ///
    /// If a process dies or a request fails.
    pub fn spaced(&mut self, payload: usize, samples: u32, pause: Duration) -> Result<Spaced> {
        let pause_us = pause.as_micros() as u64;
        self.clients[0].ask(&Ask::Spaced { payload, samples, pause_us }, LIMIT)
    }

    /// What the server and the first client hold with so many connections between them, and with objects of ours that
    /// the server gave the client. Connections stay open, and objects do not.
    ///
    /// # Errors
    ///
    /// If a process dies, or does not open that many.
    pub fn held(&mut self, connections: usize, objects: usize) -> Result<Held> {
        self.clients[0].ask(&Ask::Hold { connections, objects }, LIMIT)
    }

    /// Requests that all clients together make in a second, each as many as it can.
    ///
    /// # Errors
    ///
    /// If a process dies or a request fails.
    pub fn rate(&mut self, payload: usize, time: Duration) -> Result<f64> {
        Ok(Self::rates(std::slice::from_mut(self), usize::MAX, payload, time)?.iter().sum())
    }

    /// Requests in a second that each client makes, of at most so many of each server, all at once.
    ///
    /// # Errors
    ///
    /// If a process dies or a request fails.
    pub fn rates(servers: &mut [Self], clients: usize, payload: usize, time: Duration) -> Result<Vec<f64>> {
        let asked = Ask::Run { payload, millis: time.as_millis() as u64 };
        let mut all: Vec<_> = servers.iter_mut().flat_map(|of| of.clients.iter_mut().take(clients)).collect();
        all.iter_mut().try_for_each(|client| client.tell(&asked))?;
        let of = |client: &mut &mut Peer| Ok(client.answer::<u64>(LIMIT)? as f64 / time.as_secs_f64());
        all.iter_mut().map(of).collect()
    }

    /// How long one more client takes from the start of its process until it was answered. It ends then.
    ///
    /// # Errors
    ///
    /// If it dies, cannot connect or its request fails.
    pub fn newcomer(&self, payload: usize) -> Result<Duration> {
        let began = Instant::now();
        let mut client = start(&self.role)?;
        client.ask::<_, Spaced>(&Ask::Spaced { payload, samples: 0, pause_us: 0 }, LIMIT)?;
        Ok(began.elapsed())
    }
}

/// A peer as a transport of `handoff measure transports`.
#[derive(Debug)]
pub struct PeerTransport {
    kind: Kind,
    pair: Clients,
}

/// Starts a server and a client of a peer.
///
/// # Errors
///
/// As [`Clients::start`].
pub fn open(kind: Kind, placement: Placement) -> Result<Box<dyn OpenTransport>> {
    PeerTransport::open(kind, placement, How::Ordinary)
}

/// [`open`] with a client that makes its payloads where the server reads them, so that nothing copies them: of our calls
/// and of [`Kind::SPINNING`].
///
/// # Errors
///
/// As [`Clients::start`].
pub fn open_in_place(kind: Kind, placement: Placement) -> Result<Box<dyn OpenTransport>> {
    PeerTransport::open(kind, placement, How::InPlace)
}

impl PeerTransport {
    fn open(kind: Kind, placement: Placement, how: How) -> Result<Box<dyn OpenTransport>> {
        let transport = PeerTransport { kind, pair: Clients::start_as(kind, placement, 1, how)? };
        drop(transport.run_server());
        Ok(Box::new(transport))
    }

    /// Lets the server run until the guard goes. One that never sleeps is stopped otherwise: it would take a CPU from
    /// whatever is measured next.
    fn run_server(&self) -> Option<Running> {
        let server = Pid::from_raw(self.pair.server.pid() as i32);
        let server = server.filter(|_| Kind::SPINNING.contains(&self.kind))?;
        let _ = kill_process(server, Signal::CONT);
        Some(Running(server))
    }
}

/// A process that is stopped when this goes.
struct Running(Pid);

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only if it has ended.
        let _ = kill_process(self.0, Signal::STOP);
    }
}

impl OpenTransport for PeerTransport {
    fn name(&self) -> String {
        self.kind.name().to_owned()
    }

    fn version(&self) -> Option<String> {
        Some(self.kind.version())
    }

    fn largest(&self) -> usize {
        self.kind.largest()
    }

    fn turn(&mut self, payload: usize, samples: u32, stream: u32) -> Result<Batch> {
        let _running = self.run_server();
        self.pair.clients[0].ask(&Ask::Batch { payload, samples, stream }, LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_realtime};
    use handoff_workloads::peer::play_in_test;

    /// The function that peers of unit tests run.
    #[test]
    #[ignore = "a process of another test"]
    fn peer_main() {
        play_if_peer();
    }

    /// Those that this build has.
    fn built() -> Vec<Kind> {
        let kernel = Kind::ALL.len() - 6;
        let others = if cfg!(feature = "libraries") { &Kind::ALL[..] } else { &Kind::ALL[..kernel] };
        // Two that spin and one CPU would take a scheduling period for each request.
        let spin = Placement::two_cpus().map_or(0, |_| {
            1 + usize::from(cfg!(feature = "libraries")) + usize::from(cfg!(feature = "tachyon"))
        });
        [others, &Kind::SPINNING[..spin], &[Kind::OURS]].concat()
    }

    #[test]
    fn every_peer_adds_up_every_payload() {
        play_in_test("process::tests::peer_main");
        for kind in built() {
            let mut transport =
                open(kind, Placement::Unpinned).unwrap_or_else(|error| panic!("{kind}: {error}"));
            assert!(transport.version().is_some_and(|version| version != "unknown"), "{kind}");
            for payload in [1, 1000, transport.largest()] {
                let turn = transport.turn(payload, 3, 5).unwrap_or_else(|error| panic!("{kind}: {error}"));
                assert_eq!((turn.caller.len(), turn.messages), (3, 5), "{kind}");
                assert!(turn.elapsed > 0, "{kind}");
            }
        }
    }

    #[test]
    fn payloads_that_are_made_in_place_add_up() {
        play_in_test("process::tests::peer_main");
        for kind in built().into_iter().filter(|kind| *kind == Kind::OURS || Kind::SPINNING.contains(kind)) {
            let mut transport =
                open_in_place(kind, Placement::Unpinned).unwrap_or_else(|error| panic!("{kind}: {error}"));
            for payload in [1, 5000, transport.largest()] {
                let turn = transport.turn(payload, 3, 5).unwrap_or_else(|error| panic!("{kind}: {error}"));
                assert_eq!(turn.caller.len(), 3, "{kind}");
            }
        }
    }

    #[test]
    fn a_server_takes_several_clients_where_it_can() {
        play_in_test("process::tests::peer_main");
        for kind in built().into_iter().filter(|kind| kind.most_clients() > 1) {
            let mut clients = Clients::start(kind, Placement::Unpinned, 3)
                .unwrap_or_else(|error| panic!("{kind}: {error}"));
            let rate = clients.rate(64, Duration::from_millis(50)).unwrap_or_else(|e| panic!("{kind}: {e}"));
            assert!(rate > 0.0, "{kind}");
            let time = Duration::from_millis(50);
            let each = Clients::rates(std::slice::from_mut(&mut clients), 2, 64, time);
            assert_eq!(
                each.unwrap_or_else(|e| panic!("{kind}: {e}")).len(),
                2,
                "{kind}: of two of the three"
            );
            assert!(clients.newcomer(8).unwrap_or_else(|e| panic!("{kind}: {e}")) > Duration::ZERO);
            let held = clients.held(2, 0).unwrap_or_else(|e| panic!("{kind}: {e}"));
            assert!(held.server.memory > 0 && held.client.descriptors > 2, "{kind}: {held:?}");
            let spaced = clients.spaced(64, 3, Duration::from_micros(100));
            assert_eq!(spaced.unwrap_or_else(|e| panic!("{kind}: {e}")).took.len(), 3, "{kind}");
            let folder = clients.folder.clone();
            drop(clients);
            assert!(!folder.exists(), "{kind} leaves nothing");
        }
    }

    #[test]
    fn a_client_can_be_a_real_time_process_of_an_ordinary_server() {
        require!(require_realtime());
        play_in_test("process::tests::peer_main");
        for kind in [Kind::Pipe, Kind::OURS] {
            let mut clients =
                Clients::start_urgent(kind, Placement::Unpinned).expect("a server and a client");
            assert_eq!(clients.spaced(8, 3, Duration::from_micros(100)).expect("answers").took.len(), 3);
            let of = |peer: &Peer| Priority::of(Tid::new(peer.pid().cast_signed()).unwrap()).unwrap();
            let own = Priority::current().unwrap();
            assert_eq!((of(&clients.clients[0]), of(&clients.server)), (URGENT, own));
        }
    }

    #[test]
    fn objects_take_memory_and_no_descriptor() {
        play_in_test("process::tests::peer_main");
        let mut clients = Clients::start(Kind::OURS, Placement::Unpinned, 1).expect("a server and a client");
        let one = clients.held(1, 1).expect("an object");
        let many = clients.held(1, 2500).expect("objects");
        assert!(many.server.memory > one.server.memory, "{one:?} {many:?}");
        assert_eq!(many.server.descriptors, one.server.descriptors);
    }

    #[test]
    fn a_server_that_never_sleeps_is_stopped_while_others_are_asked() {
        play_in_test("process::tests::peer_main");
        let pair = Clients::start(Kind::Lines, Placement::Unpinned, 1).expect("a server and a client");
        let mut transport = PeerTransport { kind: Kind::Lines, pair };
        let server = Tid::new(transport.pair.server.pid() as i32).unwrap();
        let rests = || {
            // The signal takes effect when its thread gets a CPU.
            std::thread::sleep(Duration::from_millis(100));
            let before = run_time_ns(server).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            run_time_ns(server).unwrap() == before
        };
        assert!(!rests(), "it looks all the time");
        for _ in 0..3 {
            transport.turn(8, 3, 1).unwrap();
            assert!(rests());
        }
    }

    #[test]
    fn a_placement_that_cannot_be_is_refused() {
        play_in_test("process::tests::peer_main");
        let refused = open(Kind::Pipe, Placement::SameCpu(4000)).err().expect("refused").to_string();
        assert!(refused.contains("CPU 4000"), "{refused}");
    }
}
