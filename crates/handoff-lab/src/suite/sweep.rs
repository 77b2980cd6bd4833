//! How a call grows with its payload: each engine at each size, in turns.

use std::cell::RefCell;
use std::time::Duration;

use handoff_workloads::rpc::{EngineKind, Parameters, Session};
use serde::{Deserialize, Serialize};

use super::{Calls, SkippedEntry, batch_size};
use crate::interleave::{Interleave, InterleaveError, Progress, Subject, SubjectError};
use crate::stats::describe::median;

/// The sizes, in bytes: 4 B to 1 MiB.
pub const PAYLOADS: [usize; 10] =
    [4, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20];

/// One engine over all sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    pub engine: String,
    /// Its points, by size.
    pub points: Vec<Point>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    pub payload: usize,
    /// Median of the rounds, in nanoseconds a round trip.
    pub median_ns: f64,
    /// Bytes a second, one way.
    pub bytes_per_second: f64,
}

impl Sweep {
    /// The greatest throughput and the size that gives it.
    pub fn greatest(&self) -> Option<Point> {
        self.points.iter().copied().max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))
    }
}

/// Measures every engine that is present, with nothing pinned.
pub fn run(
    calls: &Calls,
    interleave: &Interleave<'_>,
    batch: Duration,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(Vec<Sweep>, Vec<SkippedEntry>), InterleaveError> {
    let (mut engines, mut skipped) = (Vec::new(), Vec::new());
    for &engine in &calls.engines {
        match Session::start(&Parameters { engine, context: calls.context, ..Parameters::default() }) {
            Ok(session) => engines.push((engine, RefCell::new(session))),
            Err(error) => {
                skipped.push(SkippedEntry { name: format!("sweep/{engine}"), reason: error.to_string() })
            }
        }
    }
    let subjects = engines
        .iter()
        .flat_map(|(engine, session)| {
            PAYLOADS.map(|payload| {
                Subject::new(name(*engine, payload), move || {
                    let mut session = session.borrow_mut();
                    time(&mut session, payload, batch)
                })
            })
        })
        .collect();
    let outcome = interleave.run(subjects, progress)?;
    let sweeps = engines
        .iter()
        .map(|(engine, _)| Sweep {
            engine: engine.name().to_owned(),
            points: PAYLOADS
                .iter()
                .filter_map(|payload| {
                    let series = outcome.series(&name(*engine, *payload))?;
                    let median_ns = median(&series.values);
                    let bytes_per_second = *payload as f64 / median_ns * 1e9;
                    (!series.values.is_empty()).then_some(Point {
                        payload: *payload,
                        median_ns,
                        bytes_per_second,
                    })
                })
                .collect(),
        })
        .filter(|sweep| !sweep.points.is_empty())
        .collect();
    Ok((sweeps, skipped))
}

fn name(engine: EngineKind, payload: usize) -> String {
    format!("{engine} engine, {payload} B")
}

fn time(session: &mut Session, payload: usize, batch: Duration) -> Result<f64, SubjectError> {
    session.set_payload(payload)?;
    let trial = session.batch(9, 1)?;
    let (samples, trips) = batch_size(&trial, batch);
    Ok(median(&session.batch(samples.min(400), trips)?))
}
