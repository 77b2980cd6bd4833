//! Phases: the points that a transaction passes on its way, one by one, and what looking costs.
//!
//! On the kernel's driver they are the fifteen points that `binder_test` stamped into its payload; here
//! they come from the kernel's tracepoints, joined with the clocks of both programs, so that nothing is
//! added to the transaction ([`points::KERNEL`] says where each comes from, and how well). The `shm` engine
//! stamps its own. Looking is not free: the same calls are timed with and without it, in turns.

mod kernel;
pub mod points;
mod report;
mod shm;

pub use report::{Overhead, PhasesReport, Segment};

use handoff_trace::{Capture, TraceFs};

use crate::error::{Error, Result, in_range};
use crate::place::Placement;
use crate::rpc::role::{AskClient, AskServer, Batch, EnginePoint, StampedCalls};
use crate::rpc::service::{CALL_LIMIT, Stamps};
use crate::rpc::{self, Context, EngineKind, MAX_PAYLOAD, Processes, ServerOptions};

/// Most transactions of one run.
pub const MAX_CALLS: u32 = 100_000;
/// Fewer transactions say nothing of a median: this many are recorded at least.
const LEAST: u32 = 100;
/// Blocks with and without a look, in turns, and the calls of each.
const BLOCKS: usize = 3;
const BLOCK: u32 = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    pub engine: EngineKind,
    /// That of the service; [`rpc::usual_context`] if absent.
    pub context: Option<Context>,
    /// Transactions to show. At least 100 are recorded for the summary.
    pub calls: u32,
    /// Bytes that travel each way.
    pub payload: usize,
    /// Where client and server run.
    pub placement: Placement,
}

impl Parameters {
    /// Checks everything that can be known before a process is started.
    pub fn check(&self) -> Result<()> {
        in_range("n", self.calls, 1..=MAX_CALLS)?;
        if self.payload > MAX_PAYLOAD {
            let problem = format!("{} bytes; a call carries up to {MAX_PAYLOAD}", self.payload);
            return Err(Error::parameter("payload", problem));
        }
        self.placement.check()
    }
}

/// The points of calls: a row for each, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug, Default, PartialEq, Eq)]
struct PointTable {
    rows: Vec<Vec<u64>>,
    /// Calls of which a point is not known.
    failed: u64,
    /// The first point that was not found, or the event that tells it.
    lacking: Option<&'static str>,
}

impl PointTable {
    /// A row for each of `calls` whose points are found, and what lacks of the others.
    fn of(calls: &[Stamps], points: impl Fn(&Stamps) -> Result<Vec<u64>, &'static str>) -> Self {
        let mut table = Self::default();
        for call in calls {
            match points(call) {
                Ok(points) => table.rows.push(points),
                Err(lacking) => {
                    table.failed += 1;
                    table.lacking.get_or_insert(lacking);
                }
            }
        }
        table
    }
}

pub fn run(parameters: &Parameters) -> Result<PhasesReport> {
    parameters.check()?;
    let Parameters { engine, context, payload, placement, .. } = *parameters;
    let calls = rpc::Parameters { engine, context, payload, placement, ..rpc::Parameters::default() };
    let mut looked_at =
        LookedAt { processes: Processes::start(&calls, ServerOptions::default(), 1)?, engine, payload };
    // Both sides have learned by then how to wait for each other.
    looked_at.echo(BLOCK)?;
    let (mut plain, mut looking) = (Vec::new(), Vec::new());
    for _ in 0..BLOCKS {
        plain.extend(looked_at.echo(BLOCK)?);
        let look = looked_at.look()?;
        looking.extend(looked_at.echo(BLOCK)?);
        looked_at.finish(look)?;
    }
    let look = looked_at.look()?;
    let asked = AskClient::Stamped { payload, calls: parameters.calls.max(LEAST) };
    let stamped: StampedCalls = looked_at.processes.clients[0].ask(&asked, CALL_LIMIT)?;
    let found = looked_at.finish(look)?;
    let (joined, lost) = found.join(&stamped);
    if joined.rows.is_empty() {
        let what = joined.lacking.unwrap_or("anything");
        return Err(Error::NotSupported {
            workload: "phases",
            reason: format!(
                "no transaction can be followed: {what} was not seen in any of {}",
                joined.failed
            ),
        });
    }
    Ok(PhasesReport::new(parameters, joined, lost, Overhead::of(&plain, &looking)))
}

/// A client and a server that are looked at.
struct LookedAt {
    processes: Processes,
    engine: EngineKind,
    payload: usize,
}

/// A look that goes on.
enum Look {
    Kernel(Box<Capture>),
    Engine,
    Programs,
}

/// What a look saw, beside what the programs did.
enum ObservedPoints {
    Kernel(Box<handoff_trace::Trace>),
    Engine { client: Vec<EnginePoint>, server: Vec<EnginePoint> },
    Programs,
}

impl LookedAt {
    /// Nanoseconds of each of so many calls without stamps.
    fn echo(&mut self, samples: u32) -> Result<Vec<u64>> {
        let asked = AskClient::Echo { payload: self.payload, samples, trips: 1 };
        Ok(self.processes.clients[0].ask::<_, Batch>(&asked, CALL_LIMIT)?.samples)
    }

    fn look(&mut self) -> Result<Look> {
        match self.engine {
            EngineKind::Binder => {
                let tracefs = TraceFs::find()?;
                let capture = Capture::start(&tracefs, &kernel::config(&tracefs))?;
                Ok(Look::Kernel(Box::new(capture)))
            }
            EngineKind::Shm => {
                self.ask_both::<()>(&AskClient::StartPhases, &AskServer::StartPhases)?;
                Ok(Look::Engine)
            }
            EngineKind::Local | EngineKind::Rpc => Ok(Look::Programs),
        }
    }

    fn finish(&mut self, look: Look) -> Result<ObservedPoints> {
        Ok(match look {
            Look::Kernel(capture) => ObservedPoints::Kernel(Box::new(capture.finish()?.decode()?)),
            Look::Engine => {
                let (client, server) = self.ask_both(&AskClient::StopPhases, &AskServer::StopPhases)?;
                ObservedPoints::Engine { client, server }
            }
            Look::Programs => ObservedPoints::Programs,
        })
    }

    fn ask_both<A: serde::de::DeserializeOwned + Default>(
        &mut self,
        client: &AskClient,
        server: &AskServer,
    ) -> Result<(A, A)> {
        let of_client = self.processes.clients[0].ask(client, CALL_LIMIT)?;
        let of_server = match &mut self.processes.server {
            Some(peer) => peer.ask(server, CALL_LIMIT)?,
            None => A::default(),
        };
        Ok((of_client, of_server))
    }
}

impl ObservedPoints {
    /// The points of each call, and how many events were lost.
    fn join(&self, stamped: &StampedCalls) -> (PointTable, u64) {
        match self {
            ObservedPoints::Kernel(trace) => {
                (kernel::join(&stamped.calls, stamped.client, &kernel::observations(trace)), trace.lost())
            }
            ObservedPoints::Engine { client, server } => (shm::join(&stamped.calls, client, server), 0),
            ObservedPoints::Programs => {
                let points = |call: &Stamps| {
                    Ok(vec![call.send, call.served_from, call.served_to, call.received, call.exit])
                };
                (PointTable::of(&stamped.calls, points), 0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(engine: EngineKind) -> Parameters {
        Parameters { engine, context: None, calls: 3, payload: 16, placement: Placement::Unpinned }
    }

    #[test]
    fn the_engines_own_points_come_in_order() {
        crate::rpc::play_here();
        for (engine, count) in [(EngineKind::Local, 5), (EngineKind::Shm, 11)] {
            let report = run(&parameters(engine)).expect("it runs");
            assert_eq!(report.points().len(), count);
            assert!(report.transactions().len() >= 90, "{} of 100", report.transactions().len());
            for row in report.transactions() {
                assert_eq!(row.len(), count);
                assert!(row[0] == 0 && row.is_sorted(), "{row:?}");
            }
            assert_eq!(report.segments().len(), count - 1);
            assert!(report.overhead().plain_ns > 0.0 && report.overhead().looking_ns > 0.0);
        }
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Parameters| run(&parameters).expect_err("refused").to_string();
        let good = parameters(EngineKind::Shm);
        assert!(refused(Parameters { calls: 0, ..good }).contains("n: 0"));
        assert!(refused(Parameters { payload: 2 << 20, ..good }).contains("1048576"));
        assert!(refused(Parameters { placement: Placement::SameCpu(4000), ..good }).contains("CPU 4000"));
    }
}
