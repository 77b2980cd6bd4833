//! What a call costs by the size of its payload: left to itself beside each pinned placement, inside a process beside between
//! two, and inside a process beside a copy of as many bytes.
//!
//! `cargo xtask bench sizes` runs it; without `--rows FILE` it measures a few rounds and prints them.

use std::hint::black_box;
use std::process::ExitCode;

use anyhow::Result;
use handoff_benches::tables::{fastest, size};
use handoff_benches::{LOOK, call, exit, in_turns, keep, rows_file, subject, timed};
use handoff_ipc::{Binder, EngineKind, Service, Transaction};
use handoff_lab::interleave::{InterleaveOutcome, Row, Subject};
use handoff_workloads::Placement;
use handoff_workloads::transports::sum;

const PAYLOADS: [usize; 5] = [8, 1 << 10, 16 << 10, 64 << 10, 1 << 20];
/// Of calls inside a process: as much as is ever sent without a handle, and more.
const LARGE: [usize; 6] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
/// Some batches take half a second.
const ROUNDS: usize = 20;
/// What a call left to itself may take, of the best pinned placement.
const BY_ITSELF: f64 = 1.05;
/// What a call inside a process may take of one between two.
const INSIDE: f64 = 1.0;

fn main() -> ExitCode {
    handoff_workloads::play_if_peer();
    exit(run())
}

fn run() -> Result<()> {
    let file = rows_file();
    let (mut subjects, mut pinned) = (Vec::new(), Vec::new());
    pinned.push(("one CPU", Placement::same_cpu()?));
    match Placement::two_cpus() {
        Ok(two_cpus) => pinned.push(("two CPUs", two_cpus)),
        Err(error) => eprintln!("warning: no figures of two CPUs: {error}"),
    }
    for payload in PAYLOADS {
        let of = |place: &str| format!("shm call, {place}, {}", size(payload));
        for (place, placement) in &pinned {
            subjects.push(call(&of(place), EngineKind::Shm, payload, *placement)?);
        }
        let free = call(&of("nothing pinned"), EngineKind::Shm, payload, Placement::Unpinned)?;
        subjects.push(pinned.iter().fold(free, |free, (place, _)| free.against(of(place))));
        let inside = format!("local call, {}", size(payload));
        subjects.push(
            call(&inside, EngineKind::Local, payload, Placement::Unpinned)?
                .against(of("one CPU"))
                .called(format!(
                    "a call inside a process beside one between two on its CPU, {}",
                    size(payload)
                ))
                .goal(INSIDE, None)
                .against(of("nothing pinned"))
                .called(format!("a call inside a process beside one between two, {}", size(payload)))
                .goal(INSIDE, None),
        );
    }
    for payload in LARGE {
        let copied = format!("{} copied and added up", size(payload));
        subjects.push(copy(&copied, payload)?);
        subjects.push(
            local_sum(&format!("local call with {}", size(payload)), payload)?
                .against(copied)
                .called(format!("a call inside a process beside a copy, {}", size(payload))),
        );
    }
    let outcome = in_turns(if file.is_some() { ROUNDS } else { LOOK }, subjects)?;
    let mut rows: Vec<Row> = PAYLOADS.iter().filter_map(|payload| by_itself(&outcome, *payload)).collect();
    rows.extend(outcome.rows(0.95).into_iter().filter(|row| row.name.starts_with("a call inside")));
    keep(file, &rows)
}

/// The call left to itself beside the better one of the pinned.
fn by_itself(outcome: &InterleaveOutcome, payload: usize) -> Option<Row> {
    let free = format!("shm call, nothing pinned, {}", size(payload));
    let name = format!("left to itself beside the best pinned placement, {}", size(payload));
    Some(Row { name, ..fastest(outcome, &free, BY_ITSELF, None)? })
}

/// Adds up the bytes that it is sent.
struct Sum;

impl Service for Sum {
    fn descriptor(&self) -> &str {
        "handoff.benches.ISum"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> handoff_ipc::Result<()> {
        let Transaction { data, reply, .. } = transaction;
        reply.write(&sum(data.read_bytes()?))
    }
}

fn local_sum(name: &str, payload: usize) -> Result<Subject<'static>> {
    let (object, message) = (Binder::new(Sum), vec![7_u8; payload]);
    subject(name, move |samples, trips| {
        Ok(timed(samples, trips, || {
            let sum: u8 = object.transaction(1).call(|to| to.write_bytes(&message), |from| from.read())?;
            black_box(sum);
            Ok(())
        })?)
    })
}

/// What no call is cheaper than: its bytes are copied once, and added up.
fn copy(name: &str, payload: usize) -> Result<Subject<'static>> {
    let (message, mut room) = (vec![7_u8; payload], vec![0_u8; payload]);
    subject(name, move |samples, trips| {
        Ok(timed(samples, trips, || {
            room.copy_from_slice(black_box(&message));
            black_box(sum(room.as_slice().into()));
            Ok(())
        })?)
    })
}
