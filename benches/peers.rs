//! What our blocking call costs beside other people's, in one run: every way at every size in turns.
//!
//! `cargo xtask bench peers` runs it; without `--rows FILE` it measures a few rounds and prints them.
//! Client and server are two processes, the server adds the bytes up, and both are asked and timed by
//! the code of `handoff-peers`, ours as well as theirs. A value is the median of one turn's requests.

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use handoff_benches::tables::{Table, Written, fastest, grouped, interval, middle, size, time};
use handoff_benches::{LOOK, ROUNDS, WARM_UP, exit, in_turns, keep, rows_file};
use handoff_lab::interleave::{InterleaveOutcome, Row, Subject, SubjectError};
use handoff_lab::stats::describe::{quantile, sorted};
use handoff_peers::{Kind, QueueKind, Ring};
use handoff_workloads::Placement;
use handoff_workloads::transports::{Batch, MAX_SAMPLES};

const PAYLOADS: [Message; 4] = [copied(8), copied(1 << 10), copied(64 << 10), copied(1 << 20)];
/// Of those whose sides never sleep: a line, a line more, some lines, and what does not stay in the nearest cache, which is
/// also made where the server reads it.
const SPUN_PAYLOADS: [Message; 5] =
    [copied(8), copied(64), copied(1 << 10), copied(64 << 10), Message { bytes: 64 << 10, in_place: true }];
/// Requests of a turn take about this long, and as long those whose CPU time is taken: the kernel counts that of a thread
/// that never sleeps every 4 ms.
const TURN: Duration = Duration::from_millis(30);
/// Messages of a turn through a ring.
const MESSAGES: u64 = 960_000;
/// The page of the tables.
const PAGE: &str = "reference/peers.md";

/// A payload, and whether the client makes it in memory that both have, or has it and sends it.
#[derive(Clone, Copy)]
struct Message {
    bytes: usize,
    in_place: bool,
}

const fn copied(bytes: usize) -> Message {
    Message { bytes, in_place: false }
}

impl Message {
    fn name(self) -> String {
        format!("{}{}", size(self.bytes), if self.in_place { " in place" } else { "" })
    }
}

fn main() -> ExitCode {
    handoff_peers::play_if_peer();
    exit(run())
}

fn run() -> Result<()> {
    let file = rows_file();
    let sleeping =
        |name, placement, mark| Place { name, placement, mark, others: &Kind::ALL, messages: &PAYLOADS };
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
            messages: &SPUN_PAYLOADS,
        }),
        Err(error) => eprintln!("warning: nothing is measured on two CPUs: {error}"),
    }
    let (mut subjects, mut seen) = (Vec::new(), Vec::new());
    for place in &places {
        let mut others = Vec::new();
        for &kind in place.others {
            match pair(place, kind, &[], &mut seen) {
                Ok(added) => {
                    subjects.extend(added);
                    others.push(kind);
                }
                Err(error) => eprintln!("warning: {kind} is not measured: {error:#}"),
            }
        }
        subjects.extend(pair(place, Kind::OURS, &others, &mut seen)?);
    }
    for kind in QueueKind::ALL {
        subjects.push(queue(*kind)?);
    }
    let outcome = in_turns(if file.is_some() { ROUNDS } else { LOOK }, subjects)?;

    let mut rows: Vec<Row> = Vec::new();
    for place in &places {
        for message in place.messages {
            rows.extend(fastest(&outcome, &place.named(*message, Kind::OURS), 1.0, place.moonshot()));
        }
    }
    for ours in [QueueKind::Fmq, QueueKind::FmqInside, QueueKind::FmqBatch] {
        rows.extend(fastest(&outcome, &queue_name(ours), 1.0, None));
    }
    let mut tables: Vec<Table> =
        places.iter().flat_map(|place| [place.table(&outcome), place.tails(&seen)]).collect();
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
    messages: &'static [Message],
}

impl Place {
    /// Everything that is measured there, ours at the head.
    fn kinds(&self) -> impl Iterator<Item = Kind> {
        std::iter::once(Kind::OURS).chain(self.others.iter().copied())
    }

    /// The name of a subject.
    fn named(&self, message: Message, kind: Kind) -> String {
        format!("{kind}, {}, {}", self.name, message.name())
    }

    /// What would be remarkable, of the fastest peer's time.
    fn moonshot(&self) -> Option<f64> {
        (self.placement == Placement::Unpinned).then_some(1.0 / 3.0)
    }

    fn table(&self, outcome: &InterleaveOutcome) -> Table {
        let columns = std::iter::once(self.name.to_owned()).chain(self.messages.iter().map(|m| m.name()));
        let row = |kind: Kind| {
            let cells = self.messages.iter().map(|message| {
                let series = outcome.series(&self.named(*message, kind));
                series.map_or_else(|| "-".to_owned(), |series| interval(&series.values, |ns| time(*ns)))
            });
            std::iter::once(named(kind)).chain(cells).collect()
        };
        Table {
            page: PAGE,
            mark: self.mark.to_owned(),
            columns: columns.collect(),
            rows: self.kinds().map(row).collect(),
        }
    }

    /// The slow requests of the smallest and of a large message, and the CPU time of one of them.
    fn tails(&self, seen: &[Seen]) -> Table {
        let shown = || self.messages.iter().filter(|message| [8, 64 << 10].contains(&message.bytes));
        let columns = shown().flat_map(|message| {
            ["p99", "p99.9", "CPU time"].map(|what| format!("{}, {what}", message.name()))
        });
        let row = |kind: Kind| {
            let cells = shown().flat_map(|message| {
                let name = self.named(*message, kind);
                let Some(seen) = seen.iter().find(|seen| seen.name == name) else {
                    return ["-", "-", "-"].map(str::to_owned);
                };
                let seen = seen.requests.borrow();
                let took = sorted(&seen.took);
                let (cpu, requests) = seen.cpu;
                [quantile(&took, 0.99), quantile(&took, 0.999), cpu as f64 / requests.max(1) as f64].map(time)
            });
            std::iter::once(named(kind)).chain(cells).collect()
        };
        Table {
            page: PAGE,
            mark: format!("{}-tails", self.mark),
            columns: std::iter::once(self.name.to_owned()).chain(columns).collect(),
            rows: self.kinds().map(row).collect(),
        }
    }
}

/// All requests of one subject.
struct Seen {
    name: String,
    requests: Rc<RefCell<Requests>>,
}

#[derive(Default)]
struct Requests {
    turns: usize,
    /// How long each took, in nanoseconds.
    took: Vec<f64>,
    /// CPU nanoseconds of those in a row, and their number.
    cpu: (u64, u64),
}

impl Requests {
    /// What the turns gave before those that count is not kept.
    fn keep(&mut self, turn: &Batch) {
        self.turns += 1;
        if self.turns > WARM_UP {
            self.took.extend(turn.caller.iter().map(|ns| *ns as f64));
            self.cpu.0 += turn.cpu;
            self.cpu.1 += u64::from(turn.messages);
        }
    }
}

/// One server and one client, with a subject for each message that they carry. It is compared with `others`, which are
/// measured.
fn pair(place: &Place, kind: Kind, others: &[Kind], seen: &mut Vec<Seen>) -> Result<Vec<Subject<'static>>> {
    let mut subjects = Vec::new();
    let [mut copying, mut making] = [None, None];
    for message in place.messages.iter().filter(|message| message.bytes <= kind.largest()) {
        let (payload, transport) = (message.bytes, if message.in_place { &mut making } else { &mut copying });
        let transport = match transport {
            Some(transport) => transport,
            None => {
                let open = if message.in_place { handoff_peers::open_in_place } else { handoff_peers::open };
                transport.insert(Rc::new(RefCell::new(open(kind, place.placement)?)))
            }
        };
        let trial = transport.borrow_mut().turn(payload, 20, 1)?;
        let fit = TURN.as_nanos() as f64 / middle(&trial.caller).max(1.0);
        let (samples, stream) = ((fit as u32).clamp(20, MAX_SAMPLES), (fit as u32).max(20));
        let (transport, requests) = (Rc::clone(transport), Rc::<RefCell<Requests>>::default());
        seen.push(Seen { name: place.named(*message, kind), requests: Rc::clone(&requests) });
        let turn = move || -> Result<f64, SubjectError> {
            let turn = transport.borrow_mut().turn(payload, samples, stream)?;
            requests.borrow_mut().keep(&turn);
            Ok(middle(&turn.caller))
        };
        let subject = Subject::new(place.named(*message, kind), turn);
        // Bare memory is what nobody beats: it stands in the table only.
        let others = others.iter().filter(|other| **other != Kind::Lines && payload <= other.largest());
        subjects.push(others.fold(subject, |subject, other| subject.against(place.named(*message, *other))));
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
        mark: mark.to_owned(),
        columns: vec![String::new(), unit.to_owned()],
        rows: subjects.filter_map(row).collect(),
    }
}
