//! What a call costs that comes now and then: our call beside other people's, with a pause before each request, on an idle
//! machine and beside threads that never sleep, of ordinary and of real-time callers.
//!
//! `cargo xtask bench cold` runs it. Nothing is pinned. In the pause the client sleeps, so that caches are cold, both
//! processes have gone to sleep, and the CPU may have. No peer here looks for work in a loop: each sleeps until it is
//! woken. What a side does between requests shows in the CPU time of a request.

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use handoff_benches::tables::{Table, Written, fastest, interval, middle, time};
use handoff_benches::{LOOK, ROUNDS, WARM_UP, beside_hogs, exit, in_turns, keep, rows_file};
use handoff_lab::interleave::{Subject, SubjectError};
use handoff_lab::stats::describe::{quantile, sorted};
use handoff_peers::{Clients, Kind, Spaced};
use handoff_workloads::Placement;

const PAYLOAD: usize = 8;
/// Of the fastest peer's median.
const GOAL: f64 = 1.25;
const PAGE: &str = "reference/peers.md";

/// When and beside what a client asks.
#[derive(Clone, Copy, PartialEq)]
struct Load {
    pause: Duration,
    /// Requests of a turn.
    samples: u32,
    /// Threads that run without end meanwhile, on any CPU.
    hogs: usize,
    /// The client is a real-time process.
    is_urgent: bool,
}

const fn idle(pause: Duration, samples: u32) -> Load {
    Load { pause, samples, hogs: 0, is_urgent: false }
}

const fn beside(hogs: usize, is_urgent: bool) -> Load {
    Load { pause: Duration::from_millis(10), samples: 5, hogs, is_urgent }
}

/// On a machine that does nothing else.
const IDLE: [Load; 4] = [
    idle(Duration::from_micros(100), 100),
    idle(Duration::from_millis(1), 30),
    idle(Duration::from_millis(10), 10),
    idle(Duration::from_millis(100), 4),
];
const BUSY: [Load; 3] = [beside(1, false), beside(2, false), beside(4, false)];
const URGENT: [Load; 4] = [beside(0, true), beside(1, true), beside(2, true), beside(4, true)];

fn loads() -> impl Iterator<Item = Load> {
    IDLE.into_iter().chain(BUSY).chain(URGENT)
}

fn main() -> ExitCode {
    handoff_peers::play_if_peer();
    exit(run())
}

/// All requests of one way under one load.
struct Seen {
    kind: Kind,
    load: Load,
    spaced: Rc<RefCell<Vec<Spaced>>>,
}

fn run() -> Result<()> {
    let file = rows_file();
    let started: Vec<_> = std::iter::once(Kind::OURS).chain(Kind::ALL).filter_map(start).collect();
    let (mut subjects, mut all) = (Vec::new(), Vec::new());
    for way in &started {
        for load in loads() {
            let Some(clients) = way.clients(load) else { continue };
            let seen = Seen { kind: way.kind, load, spaced: Rc::default() };
            let (clients, spaced) = (Rc::clone(clients), Rc::clone(&seen.spaced));
            let turn = move || -> Result<f64, SubjectError> {
                let mut clients = clients.borrow_mut();
                let requests = beside_hogs(load.hogs, || clients.spaced(PAYLOAD, load.samples, load.pause))?;
                let median = middle(&requests.took);
                spaced.borrow_mut().push(requests);
                Ok(median)
            };
            let others = started.iter().filter(|other| {
                way.kind == Kind::OURS && other.kind != Kind::OURS && other.clients(load).is_some()
            });
            let subject = Subject::new(named(way.kind, load), turn);
            subjects.push(others.fold(subject, |all, other| all.against(named(other.kind, load))));
            all.push(seen);
        }
    }
    let outcome = in_turns(if file.is_some() { ROUNDS } else { LOOK }, subjects)?;
    let ours = loads().map(|load| named(Kind::OURS, load));
    let rows = ours.filter_map(|ours| fastest(&outcome, &ours, GOAL, None)).collect();
    let medians = |seen: &Seen| {
        let series = outcome.series(&named(seen.kind, seen.load));
        series.map_or_else(|| "-".to_owned(), |series| interval(&series.values, |ns| time(*ns)))
    };
    let p99 = |seen: &Seen| {
        let took = seen.counted(|spaced| spaced.took.iter().map(|ns| *ns as f64).collect());
        time(quantile(&sorted(&took), 0.99))
    };
    let tables = vec![
        table("peers-cold", "median", &IDLE, &all, medians),
        table("peers-cold-p99", "p99", &IDLE, &all, p99),
        table("peers-cold-cpu", "CPU time", &IDLE, &all, |seen| {
            time(middle(&seen.counted(|spaced| vec![spaced.cpu])))
        }),
        table("peers-busy", "median", &BUSY, &all, medians),
        table("peers-busy-p99", "p99", &BUSY, &all, p99),
        table("peers-urgent", "median", &URGENT, &all, medians),
        table("peers-urgent-p99", "p99", &URGENT, &all, p99),
    ];
    keep(file, &Written { rows, tables })
}

impl Seen {
    /// What of the rounds that count `each` gives.
    fn counted<T>(&self, each: impl Fn(&Spaced) -> Vec<T>) -> Vec<T> {
        self.spaced.borrow().iter().skip(WARM_UP).flat_map(each).collect()
    }
}

/// A server and a client of one way, and the same with a real-time client where this process may have one.
struct Started {
    kind: Kind,
    ordinary: Rc<RefCell<Clients>>,
    urgent: Option<Rc<RefCell<Clients>>>,
}

impl Started {
    fn clients(&self, load: Load) -> Option<&Rc<RefCell<Clients>>> {
        if load.is_urgent { self.urgent.as_ref() } else { Some(&self.ordinary) }
    }
}

/// What of one way this build and this machine have.
fn start(kind: Kind) -> Option<Started> {
    let started = |clients: handoff_workloads::Result<Clients>, whose: &str| match clients {
        Ok(clients) => Some(Rc::new(RefCell::new(clients))),
        Err(error) => {
            eprintln!("warning: {kind} is not measured{whose}: {error}");
            None
        }
    };
    let ordinary = started(Clients::start(kind, Placement::Unpinned, 1), "")?;
    let urgent = started(Clients::start_urgent(kind, Placement::Unpinned), " with a real-time client");
    Some(Started { kind, ordinary, urgent })
}

fn named(kind: Kind, load: Load) -> String {
    let caller = if load.is_urgent { " of a FIFO caller" } else { "" };
    let hogs = match load.hogs {
        0 => String::new(),
        1 => " beside 1 hog".to_owned(),
        count => format!(" beside {count} hogs"),
    };
    format!("{kind}, one call{caller} every {}{hogs}", spoken(load.pause))
}

fn spoken(pause: Duration) -> String {
    format!("{} ms", pause.as_secs_f64() * 1e3)
}

/// One row a way, one column a load.
fn table(
    mark: &'static str,
    what: &str,
    loads: &[Load],
    all: &[Seen],
    cell: impl Fn(&Seen) -> String,
) -> Table {
    let differs_by_pause = loads.iter().any(|load| load.pause != loads[0].pause);
    let columns = loads.iter().map(|load| match load.hogs {
        _ if differs_by_pause => format!("every {}", spoken(load.pause)),
        0 => "idle".to_owned(),
        1 => "1 hog".to_owned(),
        count => format!("{count} hogs"),
    });
    let rows = all.chunk_by(|a, b| a.kind == b.kind).map(|of_kind| {
        let kind = of_kind[0].kind;
        let cells = loads
            .iter()
            .map(|load| of_kind.iter().find(|seen| seen.load == *load).map_or_else(|| "-".to_owned(), &cell));
        std::iter::once(format!("{kind} {}", kind.version())).chain(cells).collect()
    });
    Table {
        page: PAGE,
        mark,
        columns: std::iter::once(what.to_owned()).chain(columns).collect(),
        rows: rows.collect(),
    }
}
