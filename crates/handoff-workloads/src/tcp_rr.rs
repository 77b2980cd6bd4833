//! tcp-rr: a request and a response over TCP, again and again: netperf's `TCP_RR` with every time kept.

use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::deadline::{RecordedRun, Watch};
use crate::error::{Error, Result, in_range};
use crate::floor::{receive, send};
use crate::measurement::{Better, Clock, Parameter, Unit};
use crate::net::{Link, Network};
use crate::outcome::{Counter, Outcome};
use crate::sys::clock::now;
use crate::sys::gate::Gate;
use crate::sys::perf::CounterSet;
use crate::sys::shared::SharedRegion;
use crate::sys::team::Team;
use crate::sys::usage::Usage;

/// Most transactions of one run, all flows together.
const MAX_TRANSACTIONS: usize = 4 << 20;

/// What tcp-rr is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    pub request: usize,
    pub response: usize,
    /// Connections, each with a process at either end.
    pub flows: usize,
    pub transactions: usize,
    /// What lies between the two ends.
    pub link: Link,
    /// A deadline for each transaction; what led to the first miss is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<Watch>,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            request: 1,
            response: 1,
            flows: 1,
            transactions: 20_000,
            link: Link::default(),
            watch: None,
        }
    }
}

impl Parameters {
    /// Checks everything that can be known before anything is made.
    pub fn check(&self) -> Result<()> {
        for (name, bytes) in [("request", self.request), ("response", self.response)] {
            if bytes == 0 || bytes > 16 << 20 {
                return Err(Error::parameter(name, format!("{bytes} bytes; 1 to 16777216 are sent")));
            }
        }
        in_range("flows", self.flows, 1..=1000)?;
        if self.transactions == 0 || self.transactions.saturating_mul(self.flows) > MAX_TRANSACTIONS {
            let problem = format!("{}; 1 to {MAX_TRANSACTIONS} in all flows", self.transactions);
            return Err(Error::parameter("transactions", problem));
        }
        self.watch.as_ref().map_or(Ok(()), Watch::check)?;
        self.link.check()
    }
}

/// Runs it once. Measures `tcp-rr/round_trip` (every transaction), `tcp-rr/transactions` (a second,
/// all flows) and `tcp-rr/cpu_time` (both sides, for each transaction).
pub fn run(parameters: &Parameters) -> Result<Outcome> {
    parameters.check()?;
    let &Parameters { request, response, flows, transactions, .. } = parameters;
    let watched = RecordedRun::start(parameters.watch.as_ref())?;
    let network = Network::new(&parameters.link)?;
    let connections = network.connect(flows, true)?;
    let region = SharedRegion::new(Gate::SIZE + 8 * flows * transactions)
        .map_err(|error| Error::io("cannot share memory", error))?;
    let gate = Gate::new(&region, 0);
    let mut team = Team::new();
    let (mut asked, mut answered) = (vec![0x5a_u8; request], vec![0xa5_u8; response]);
    let cannot = |error: std::io::Error| Error::io("cannot start a process of tcp-rr", error);
    for (flow, connection) in connections.iter().enumerate() {
        let server = &connection.server;
        let body = || {
            i32::from(gate.pass().and_then(|()| serve(server, transactions, &mut asked, &answered)).is_err())
        };
        // In the child: system calls and its buffers only.
        team.fork("server", &[server.as_raw_fd()], body).map_err(cannot)?;
        let client = &connection.client;
        let callee = team.pids().last().copied().unwrap_or(0);
        let keep = |index: usize, start: u64, end: u64| {
            let at = Gate::SIZE + 8 * (flow * transactions + index);
            region.u64(at).store(end - start, Ordering::Relaxed);
            match watched.as_ref().map(|watched| watched.check(callee, start, end)) {
                Some(Err(error)) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
                _ => Ok(()),
            }
        };
        let mut fds = vec![client.as_raw_fd()];
        fds.extend(watched.as_ref().map(RecordedRun::fd));
        let body = || {
            i32::from(
                gate.pass().and_then(|()| call(client, transactions, &asked, &mut answered, keep)).is_err(),
            )
        };
        // In the child: system calls, readings of the clock, its buffers and shared memory only.
        team.fork("client", &fds, body).map_err(cannot)?;
    }
    drop(connections);
    gate.wait_for(2 * flows, &mut team)?;
    let counting: Vec<CounterSet> = team.pids().into_iter().map(CounterSet::of).collect();
    let before = network.counters()?;
    let start = gate.open()?;
    let exits = team.finish()?;
    let elapsed = start.elapsed();
    let snmp = network.counters()?.since(&before, &["TcpOutSegs", "TcpRetransSegs"]);
    let took = |index| region.u64(Gate::SIZE + 8 * index).load(Ordering::Relaxed) as f64;
    let trips: Vec<f64> = (0..flows * transactions).map(took).collect();
    let counted: Vec<Vec<Counter>> = counting.iter().map(CounterSet::read).collect();
    let usage = Usage::sum(exits.iter().map(|exit| &exit.usage));
    let count = trips.len() as f64;
    let (rate, cpu) = (count / elapsed.as_secs_f64(), usage.cpu().as_nanos() as f64 / count);
    let mut outcome = Outcome::of("tcp-rr", parameters.link.with(Parameter::of_fields(parameters)));
    outcome.add("round_trip", Unit::Nanoseconds, Clock::Monotonic, Better::Lower, trips)?;
    outcome.add("transactions", Unit::PerSecond, Clock::Monotonic, Better::Higher, vec![rate])?;
    outcome.add("cpu_time", Unit::Nanoseconds, Clock::ProcessCpu, Better::Lower, vec![cpu])?;
    outcome.counters = Counter::sum("", &counted);
    outcome.counters.extend(snmp);
    outcome.notes = watched.map_or(Ok(Vec::new()), |watched| watched.finish("a transaction"))?;
    Ok(outcome)
}

fn serve(socket: &TcpStream, transactions: usize, asked: &mut [u8], answer: &[u8]) -> rustix::io::Result<()> {
    for _ in 0..transactions {
        receive(socket, asked)?;
        send(socket, answer)?;
    }
    Ok(())
}

fn call(
    socket: &TcpStream,
    transactions: usize,
    ask: &[u8],
    answered: &mut [u8],
    keep: impl Fn(usize, u64, u64) -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    let mut before = now();
    for index in 0..transactions {
        send(socket, ask)?;
        receive(socket, answered)?;
        let after = now();
        keep(index, before, after)?;
        before = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Path;
    use handoff_testkit::{require, require_root, require_tool};

    #[test]
    fn every_transaction_is_timed() {
        let parameters =
            Parameters { request: 100, response: 3000, flows: 2, transactions: 200, ..Parameters::default() };
        let outcome = run(&parameters).expect("it runs");
        let trips = outcome.measurement("tcp-rr/round_trip").expect("measured").summary();
        assert_eq!(trips.count, 400);
        assert!(trips.min > 0.0);
    }

    #[test]
    fn transactions_cross_namespaces() {
        require!(require_root());
        require!(require_tool("tc"));
        let link = Link { path: Path::Namespaces, ..Link::default() };
        let outcome = run(&Parameters { transactions: 100, link, ..Parameters::default() }).expect("it runs");
        // Each transaction is at least one segment from the client, whose namespace is its own.
        let segments = outcome.counter("TcpOutSegs").expect("counted");
        assert!((100..200).contains(&segments), "{segments}");
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Parameters| run(&parameters).expect_err("refused").to_string();
        let good = Parameters::default();
        assert!(refused(Parameters { request: 0, ..good.clone() }).contains("request: 0"));
        assert!(refused(Parameters { transactions: usize::MAX, ..good }).contains("transactions"));
    }
}
