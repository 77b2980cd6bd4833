//! Whole calls through proxy and stub on each engine, beside the floors that they are compared with.

use std::time::Duration;

use handoff_workloads::Placement;
use handoff_workloads::rpc::{Context, EngineKind, Parameters, Session};

use super::floors::{LARGE, LARGE_BYTES, ONE_CPU, SMALL_BYTES, TWO_CPUS, UNPINNED};
use super::{Batch, ChoosePlacement, Entry, Kind, Start, Suite, batch_size, unpinned};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Calls {
    pub engines: Vec<EngineKind>,
    /// The context of the services; the usual one of each engine if absent.
    pub context: Option<Context>,
}

/// What the call on an engine is called in each group.
pub(super) fn name(engine: EngineKind) -> String {
    match engine {
        EngineKind::Local => "direct call, no hand-off".to_owned(),
        _ => format!("call, {engine} engine"),
    }
}

/// Adds a call on each engine to each group where it does the group's job, and the tests of all of them.
pub fn add(suite: &mut Suite, calls: &Calls, batch: Duration) {
    suite.tests = calls.clone();
    for &engine in &calls.engines {
        let mut add = |group: &str, placement: ChoosePlacement, payload: usize| {
            suite.entries.push(Entry {
                group: group.to_owned(),
                name: name(engine),
                // A direct call hands nothing over: it shows what proxy and stub take by themselves.
                kind: if engine == EngineKind::Local { Kind::Primitive } else { Kind::Call },
                start: session(engine, calls.context, payload, placement, batch),
            });
        };
        add(ONE_CPU, Placement::same_cpu, SMALL_BYTES);
        add(LARGE, Placement::same_cpu, LARGE_BYTES);
        // A direct call has one side only.
        if engine != EngineKind::Local {
            add(TWO_CPUS, Placement::two_cpus, SMALL_BYTES);
            add(UNPINNED, unpinned, SMALL_BYTES);
        }
    }
}

fn session(
    engine: EngineKind,
    context: Option<Context>,
    payload: usize,
    placement: ChoosePlacement,
    batch: Duration,
) -> Start {
    Box::new(move || {
        let placement = placement()?;
        let mut session =
            Session::start(&Parameters { engine, context, payload, placement, ..Parameters::default() })?;
        let (samples, trips) = batch_size(&session.batch(31, 8)?, batch);
        let run: Batch = Box::new(move || Ok(session.batch(samples, trips)?));
        Ok(run)
    })
}
