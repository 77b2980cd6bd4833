//! tcp-stream: senders that write small messages as fast as TCP takes them.
//!
//! The work of netperf's `TCP_STREAM` test, with one process a flow on each side: throughput, the CPU
//! time that it took, and what the network stack counted. Over [`Path::Namespaces`] with a queue it
//! is the load under which automatic corking can be seen; on the plain loopback no queue forms, so
//! corking never happens there.
//!
//! [`Path::Namespaces`]: crate::Path::Namespaces

use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::io::{Errno, read, write};
use rustix::net::{Shutdown, shutdown};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, in_range};
use crate::measurement::{Better, Clock, Measurement, Parameter, Unit};
use crate::net::{Link, Network, Path, Queue};
use crate::outcome::{Counter, Outcome};
use crate::sys::gate::Gate;
use crate::sys::perf::CounterSet;
use crate::sys::shared::SharedRegion;
use crate::sys::team::{Exit, Team};
use crate::sys::usage::Usage;

/// Counters that are told even when they have not grown: zero is what a reader looks for.
const ALWAYS: [&str; 3] = ["TcpExtTCPAutoCorking", "TcpOutSegs", "TcpRetransSegs"];

/// What tcp-stream is asked to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// Bytes of one write.
    pub message: usize,
    /// Connections, each with a process at either end.
    pub flows: usize,
    /// How long the senders write, in seconds.
    pub seconds: f64,
    pub nodelay: bool,
    /// What lies between the two ends.
    pub link: Link,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters { message: 128, flows: 5, seconds: 10.0, nodelay: false, link: Link::default() }
    }
}

impl Parameters {
    /// Checks everything that can be known before anything is made.
    pub fn check(&self) -> Result<()> {
        if self.message == 0 || self.message > 16 << 20 {
            return Err(Error::parameter(
                "message",
                format!("{} bytes; 1 to 16777216 are sent", self.message),
            ));
        }
        in_range("flows", self.flows, 1..=1000)?;
        if !(self.seconds > 0.0 && self.seconds <= 86_400.0) {
            return Err(Error::parameter(
                "seconds",
                format!("{}; more than 0 and at most a day", self.seconds),
            ));
        }
        self.link.check()
    }
}

/// Runs it once. Measures `tcp-stream/throughput` (bytes received in a second),
/// `tcp-stream/sender_cpu_per_mb`, `tcp-stream/receiver_cpu_per_mb` (CPU time a megabyte), and
/// `tcp-stream/sender_cpu` (CPUs that the senders kept busy; a weak measure without the throughput).
pub fn run(parameters: &Parameters) -> Result<Outcome> {
    parameters.check()?;
    let network = Network::new(&parameters.link)?;
    let connections = network.connect(parameters.flows, parameters.nodelay)?;
    let region = SharedRegion::new(Gate::SIZE + FLOW * parameters.flows)
        .map_err(|error| Error::io("cannot share memory", error))?;
    let gate = Gate::new(&region, 0);
    let mut team = Team::new();
    let mut buffer = vec![0x5a_u8; parameters.message.max(64 << 10)];
    let length = Duration::from_secs_f64(parameters.seconds);
    let cannot = |error: std::io::Error| Error::io("cannot start a process of tcp-stream", error);
    for (index, connection) in connections.iter().enumerate() {
        let flow = Flow { region: &region, at: Gate::SIZE + FLOW * index };
        let server = &connection.server;
        let receive = || i32::from(gate.pass().and_then(|()| flow.receive(server, &mut buffer)).is_err());
        // In the child: system calls, readings of the clock, its buffer and shared memory only.
        team.fork("receiver", &[server.as_raw_fd()], receive).map_err(cannot)?;
        let (client, message) = (&connection.client, &buffer[..parameters.message]);
        let send = || i32::from(gate.pass().and_then(|()| flow.send(client, message, length)).is_err());
        // In the child: as for the receiver.
        team.fork("sender", &[client.as_raw_fd()], send).map_err(cannot)?;
    }
    // The processes have the sockets now; only their closing ends a connection.
    drop(connections);
    gate.wait_for(2 * parameters.flows, &mut team)?;
    let counting: Vec<CounterSet> = team.pids().into_iter().map(CounterSet::of).collect();
    let before = network.counters()?;
    let start = gate.open()?;
    let exits = team.finish()?;
    let elapsed = start.elapsed();
    let snmp = network.counters()?.since(&before, &ALWAYS);
    let flow = |index| Flow { region: &region, at: Gate::SIZE + FLOW * index };
    let total = Total::of((0..parameters.flows).map(flow), elapsed)?;
    let counted: Vec<Vec<Counter>> = counting.iter().map(CounterSet::read).collect();
    let every_second =
        |from: usize| -> Vec<Vec<Counter>> { counted.iter().skip(from).step_by(2).cloned().collect() };
    let mut counters = Counter::sum("sender.", &every_second(1));
    counters.extend(Counter::sum("receiver.", &every_second(0)));
    counters.extend(snmp);
    outcome(parameters, &total, &exits, counters)
}

/// Bytes of a flow's words: sent, received, nanoseconds until the receiver had everything.
const FLOW: usize = 64;

/// One connection's words in shared memory.
#[derive(Clone, Copy)]
struct Flow<'a> {
    region: &'a SharedRegion,
    at: usize,
}

impl Flow<'_> {
    fn sent(&self) -> &AtomicU64 {
        self.region.u64(self.at)
    }

    fn received(&self) -> &AtomicU64 {
        self.region.u64(self.at + 8)
    }

    fn ended(&self) -> &AtomicU64 {
        self.region.u64(self.at + 16)
    }

    /// Writes messages for `length`, says that there are no more, and waits until they have arrived.
    fn send(&self, socket: &TcpStream, message: &[u8], length: Duration) -> rustix::io::Result<()> {
        let end = Instant::now() + length;
        let mut sent = 0;
        while Instant::now() < end {
            match write(socket, message) {
                Ok(count) => sent += count as u64,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        self.sent().store(sent, Ordering::Relaxed);
        shutdown(socket, Shutdown::Write)?;
        loop {
            match read(socket, &mut [0_u8; 1]) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads until there is no more.
    fn receive(&self, socket: &TcpStream, buffer: &mut [u8]) -> rustix::io::Result<()> {
        let start = Instant::now();
        let mut received = 0;
        loop {
            match read(socket, &mut *buffer) {
                Ok(0) => break,
                Ok(count) => received += count as u64,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        self.ended().store(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.received().store(received, Ordering::Relaxed);
        Ok(())
    }
}

struct Total {
    bytes: u64,
    seconds: f64,
}

impl Total {
    fn of<'a>(flows: impl Iterator<Item = Flow<'a>>, elapsed: Duration) -> Result<Self> {
        let (mut bytes, mut longest) = (0, 0);
        for flow in flows {
            let (sent, received) =
                (flow.sent().load(Ordering::Relaxed), flow.received().load(Ordering::Relaxed));
            if sent != received {
                let what = format!("a connection carried {received} of {sent} bytes");
                return Err(Error::io(what, std::io::ErrorKind::UnexpectedEof));
            }
            bytes += received;
            longest = longest.max(flow.ended().load(Ordering::Relaxed));
        }
        // The flows know when the last byte came; `elapsed` also holds the end of the processes.
        let seconds = Duration::from_nanos(longest).min(elapsed).as_secs_f64();
        Ok(Total { bytes, seconds })
    }
}

fn outcome(
    parameters: &Parameters,
    total: &Total,
    exits: &[Exit],
    counters: Vec<Counter>,
) -> Result<Outcome> {
    let used = |role| {
        let of_role = exits.iter().filter(|exit| exit.role == role);
        Usage::sum(of_role.map(|exit| &exit.usage)).cpu().as_nanos() as f64
    };
    let (sender, receiver) = (used("sender"), used("receiver"));
    let megabytes = total.bytes as f64 / 1e6;
    let per_mb = Unit::NanosecondsPerMegabyte;
    let (rate, busy) = (total.bytes as f64 / total.seconds, sender / 1e9 / total.seconds);
    let mut outcome = Outcome::of("tcp-stream", parameters.link.with(Parameter::of_fields(parameters)));
    let mut add =
        |quantity, unit, clock, better, value| outcome.add(quantity, unit, clock, better, vec![value]);
    add("throughput", Unit::BytesPerSecond, Clock::Monotonic, Better::Higher, rate)?;
    add("sender_cpu_per_mb", per_mb.clone(), Clock::ProcessCpu, Better::Lower, sender / megabytes)?;
    add("receiver_cpu_per_mb", per_mb, Clock::ProcessCpu, Better::Lower, receiver / megabytes)?;
    let (name, clock) = ("tcp-stream/sender_cpu", Clock::ProcessCpu);
    let busy = Measurement::from_samples(name, Unit::Ratio, clock, Better::Neither, vec![busy])?;
    let note = "CPU use says little without the throughput beside it: a sender that waits uses none";
    outcome.push(busy.with_note(note));
    outcome.counters = counters;
    if parameters.link.path == Path::Loopback || parameters.link.queue == Queue::None {
        outcome
            .notes
            .push("no queue forms on this link, so automatic corking cannot happen on it".to_owned());
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_root, require_tool};

    fn short(link: Link) -> Parameters {
        Parameters { seconds: 0.3, flows: 2, link, ..Parameters::default() }
    }

    #[test]
    fn the_loopback_carries_every_byte() {
        let outcome = run(&short(Link::default())).expect("it runs");
        let mean = |name: &str| outcome.measurement(name).expect("measured").summary().mean;
        assert!(mean("tcp-stream/throughput") > 0.0);
        assert!(mean("tcp-stream/sender_cpu_per_mb") > 0.0);
        assert!(outcome.notes[0].contains("no queue forms"));
        assert!(outcome.counters.iter().any(|counter| counter.name == "sender.task-clock"));
        assert!(outcome.counters.iter().any(|counter| counter.name == "receiver.cycles"));
    }

    #[test]
    fn a_result_has_the_parameters_that_count() {
        let written = |link: Link| {
            let map = link.with(Parameter::of_fields(&short(link.clone())));
            map.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        let common = "flows=2 message=128 nodelay=false";
        let loopback = format!("congestion=cubic {common} path=loopback seconds=0.3");
        assert_eq!(written(Link::default()), loopback);
        let link = Link { path: Path::Namespaces, queue: Queue::Htb, ..Link::default() };
        let shaped =
            format!("congestion=cubic {common} path=namespaces queue=htb rate_mbit=1000 seconds=0.3");
        assert_eq!(written(link.clone()), shaped);
        let sysctls = std::collections::BTreeMap::from([("net.ipv4.x".to_owned(), "0".to_owned())]);
        let free = written(Link { queue: Queue::None, sysctls, ..link });
        assert!(
            free.contains("net.ipv4.x=0") && free.contains("queue=none") && !free.contains("rate"),
            "{free}"
        );
    }

    #[test]
    fn a_queue_limits_the_rate_and_corking_follows_its_switch() {
        require!(require_root());
        require!(require_tool("tc"));
        let corked = |switch: &str| {
            let sysctls = std::collections::BTreeMap::from([(
                "net.ipv4.tcp_autocorking".to_owned(),
                switch.to_owned(),
            )]);
            let link = Link { path: Path::Namespaces, rate_mbit: 100, sysctls, ..Link::default() };
            let outcome = run(&Parameters { seconds: 1.0, flows: 5, ..short(link) }).expect("it runs");
            let rate = outcome.measurement("tcp-stream/throughput").expect("measured").summary().mean;
            // 100 Mbit/s is 12.5 MB/s; the bucket lets 128 kB a start through at once.
            assert!(rate < 14e6, "{rate} bytes a second through a queue of 100 Mbit/s");
            outcome.counter("TcpExtTCPAutoCorking").expect("this kernel counts it")
        };
        assert_eq!(corked("0"), 0);
        assert!(corked("1") > 0, "a full queue corks");
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Parameters| run(&parameters).expect_err("refused").to_string();
        let good = short(Link::default());
        assert!(refused(Parameters { message: 0, ..good.clone() }).contains("message: 0"));
        assert!(refused(Parameters { flows: 100_000, ..good.clone() }).contains("flows"));
        assert!(refused(Parameters { seconds: f64::NAN, ..good.clone() }).contains("seconds"));
        let link = Link { rate_mbit: 0, ..Link::default() };
        assert!(refused(Parameters { link, ..good }).contains("rate: 0"));
    }
}
