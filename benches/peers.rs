//! What our blocking call costs beside other people's, in one run: every way at every size in turns.
//!
//! `cargo xtask bench peers` runs it; without `--rows FILE` it measures a few rounds and prints them.
//! Client and server are two processes, the server adds the bytes up, and both are asked and timed by
//! the code of `handoff-peers`, ours as well as theirs. A value is the median of one turn's requests.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use handoff_benches::tables::{Table, Written, fastest, grouped, interval, middle, size, time};
use handoff_benches::{LOOK, ROUNDS, exit, in_turns, keep, rows_file};
use handoff_lab::interleave::{InterleaveOutcome, Row, Subject, SubjectError};
use handoff_peers::{Kind, QueueKind, Ring};
use handoff_workloads::Placement;
use handoff_workloads::transports::MAX_SAMPLES;

const PAYLOADS: [usize; 4] = [8, 1 << 10, 64 << 10, 1 << 20];
/// Of those whose sides never sleep: a line, a line more, some lines, and what does not stay in the nearest cache.
const SPUN_PAYLOADS: [usize; 4] = [8, 64, 1 << 10, 64 << 10];
/// Requests of a turn take about this long.
const TURN: Duration = Duration::from_millis(30);
/// Messages of a turn through a ring.
const MESSAGES: u64 = 960_000;
/// The page of the tables.
const PAGE: &str = "reference/peers.md";

fn main() -> ExitCode {
    handoff_peers::play_if_peer();
    exit(run())
}

fn run() -> Result<()> {
    let file = rows_file();
    let sleeping =
        |name, placement, mark| Place { name, placement, mark, others: &Kind::ALL, payloads: PAYLOADS };
    let mut places = vec![
        sleeping("one CPU", Placement::same_cpu()?, "peers-one-cpu"),
        sleeping("nothing pinned", Placement::Unpinned, "peers-unpinned"),
    ];
    match Placement::two_cpus() {
        Ok(placement) => places.push(Place {
            name: "two CPUs",
            placement,
            mark: "peers-spinning",
            others: &Kind::SPINNING,
            payloads: SPUN_PAYLOADS,
        }),
        Err(error) => eprintln!("warning: nothing is measured on two CPUs: {error}"),
    }
    let mut subjects = Vec::new();
    for place in &places {
        let mut others = Vec::new();
        for &kind in place.others {
            match pair(place, kind, &[]) {
                Ok(added) => {
                    subjects.extend(added);
                    others.push(kind);
                }
                Err(error) => eprintln!("warning: {kind} is not measured: {error:#}"),
            }
        }
        subjects.extend(pair(place, Kind::OURS, &others)?);
    }
    for kind in QueueKind::ALL {
        subjects.push(queue(*kind)?);
    }
    let outcome = in_turns(if file.is_some() { ROUNDS } else { LOOK }, subjects)?;

    let mut rows: Vec<Row> = Vec::new();
    for place in &places {
        for payload in place.payloads {
            rows.extend(fastest(&outcome, &place.named(payload, Kind::OURS), 1.0, place.moonshot()));
        }
    }
    for ours in [QueueKind::Fmq, QueueKind::FmqInside, QueueKind::FmqBatch] {
        rows.extend(fastest(&outcome, &queue_name(ours), 1.0, None));
    }
    let mut tables: Vec<Table> = places.iter().map(|place| place.table(&outcome)).collect();
    let rings = QueueKind::ALL.iter().map(|kind| (kind.name(), queue_name(*kind)));
    tables.push(rates("peers-queues", "messages/s", &outcome, rings));
    keep(file, &Written { rows, tables })
}

fn named(kind: Kind) -> String {
    format!("{kind} {}", kind.version())
}

/// Where client and server run, and who is measured there.
struct Place {
    name: &'static str,
    placement: Placement,
    /// Which table of the page it is.
    mark: &'static str,
    /// Other people's that are measured there.
    others: &'static [Kind],
    payloads: [usize; 4],
}

impl Place {
    /// Everything that is measured there, ours at the head.
    fn kinds(&self) -> impl Iterator<Item = Kind> {
        std::iter::once(Kind::OURS).chain(self.others.iter().copied())
    }

    /// The name of a subject.
    fn named(&self, payload: usize, kind: Kind) -> String {
        format!("{kind}, {}, {}", self.name, size(payload))
    }

    /// What would be remarkable, of the fastest peer's time.
    fn moonshot(&self) -> Option<f64> {
        (self.placement == Placement::Unpinned).then_some(1.0 / 3.0)
    }

    fn table(&self, outcome: &InterleaveOutcome) -> Table {
        let columns = std::iter::once(self.name.to_owned()).chain(self.payloads.map(size));
        let row = |kind: Kind| {
            let cells = self.payloads.map(|payload| {
                let series = outcome.series(&self.named(payload, kind));
                series.map_or_else(|| "-".to_owned(), |series| interval(&series.values, |ns| time(*ns)))
            });
            std::iter::once(named(kind)).chain(cells).collect()
        };
        Table {
            page: PAGE,
            mark: self.mark,
            columns: columns.collect(),
            rows: self.kinds().map(row).collect(),
        }
    }
}

/// One server and one client, with a subject for each size that they carry. It is compared with `others`, which are measured.
fn pair(place: &Place, kind: Kind, others: &[Kind]) -> Result<Vec<Subject<'static>>> {
    let transport = std::rc::Rc::new(std::cell::RefCell::new(handoff_peers::open(kind, place.placement)?));
    let mut subjects = Vec::new();
    for payload in place.payloads.into_iter().filter(|payload| *payload <= kind.largest()) {
        let trial = transport.borrow_mut().turn(payload, 20, 1)?;
        let samples = TURN.as_nanos() as f64 / middle(&trial.caller).max(1.0);
        let samples = (samples as u32).clamp(20, MAX_SAMPLES);
        let transport = std::rc::Rc::clone(&transport);
        let turn = move || -> Result<f64, SubjectError> {
            Ok(middle(&transport.borrow_mut().turn(payload, samples, 1)?.caller))
        };
        let subject = Subject::new(place.named(payload, kind), turn);
        // Bare memory is what nobody beats: it stands in the table only.
        let others = others.iter().filter(|other| **other != Kind::Lines && payload <= other.largest());
        subjects.push(others.fold(subject, |subject, other| subject.against(place.named(payload, *other))));
    }
    Ok(subjects)
}

/// A ring; a value is nanoseconds a message. Ours is compared with those of others that hand over as
/// many at once.
fn queue(kind: QueueKind) -> Result<Subject<'static>> {
    let mut ring = Ring::open(kind)?;
    let subject = Subject::new(queue_name(kind), move || Ok(1e9 / ring.rate(MESSAGES)?));
    let others = QueueKind::ALL
        .iter()
        .filter(|other| kind.is_ours() && !other.is_ours() && other.batch() == kind.batch());
    Ok(others.fold(subject, |subject, other| subject.against(queue_name(*other))))
}

fn queue_name(kind: QueueKind) -> String {
    format!("{}, 64 B messages", kind.name())
}

fn rates(
    mark: &'static str,
    unit: &str,
    outcome: &InterleaveOutcome,
    subjects: impl Iterator<Item = (String, String)>,
) -> Table {
    let row = |(name, subject): (String, String)| {
        let series = outcome.series(&subject)?;
        let each: Vec<f64> = series.values.iter().map(|ns| 1e9 / ns).collect();
        Some(vec![name, interval(&each, |rate| grouped(*rate))])
    };
    Table {
        page: PAGE,
        mark,
        columns: vec![String::new(), unit.to_owned()],
        rows: subjects.filter_map(row).collect(),
    }
}
