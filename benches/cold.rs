//! What a call costs that comes now and then: our call beside other people's, with a pause before each request.
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
use handoff_benches::{LOOK, ROUNDS, WARM_UP, exit, in_turns, keep, rows_file};
use handoff_lab::interleave::{Subject, SubjectError};
use handoff_lab::stats::describe::{quantile, sorted};
use handoff_peers::{Clients, Kind, Spaced};
use handoff_workloads::Placement;

const PAYLOAD: usize = 8;
/// The pause before a request, and how many requests a turn has.
const PAUSES: [(Duration, u32); 4] = [
    (Duration::from_micros(100), 100),
    (Duration::from_millis(1), 30),
    (Duration::from_millis(10), 10),
    (Duration::from_millis(100), 4),
];
/// Of the fastest peer's median.
const GOAL: f64 = 1.25;
const PAGE: &str = "reference/peers.md";

fn main() -> ExitCode {
    handoff_peers::play_if_peer();
    exit(run())
}

/// All requests of one way with one pause.
struct Seen {
    kind: Kind,
    pause: Duration,
    spaced: Rc<RefCell<Vec<Spaced>>>,
}

fn run() -> Result<()> {
    let file = rows_file();
    let started: Vec<_> = std::iter::once(Kind::OURS).chain(Kind::ALL).filter_map(start).collect();
    let others: Vec<Kind> =
        started.iter().map(|(kind, _)| *kind).filter(|kind| *kind != Kind::OURS).collect();
    let (mut subjects, mut all) = (Vec::new(), Vec::new());
    for (kind, clients) in &started {
        for (pause, samples) in PAUSES {
            let seen = Seen { kind: *kind, pause, spaced: Rc::default() };
            let (clients, spaced) = (Rc::clone(clients), Rc::clone(&seen.spaced));
            let turn = move || -> Result<f64, SubjectError> {
                let requests = clients.borrow_mut().spaced(PAYLOAD, samples, pause)?;
                let median = middle(&requests.took);
                spaced.borrow_mut().push(requests);
                Ok(median)
            };
            let floors = if *kind == Kind::OURS { &others[..] } else { &[] };
            let subject = Subject::new(named(*kind, pause), turn);
            subjects.push(floors.iter().fold(subject, |all, other| all.against(named(*other, pause))));
            all.push(seen);
        }
    }
    let outcome = in_turns(if file.is_some() { ROUNDS } else { LOOK }, subjects)?;
    let ours = PAUSES.iter().map(|(pause, _)| named(Kind::OURS, *pause));
    let rows = ours.filter_map(|ours| fastest(&outcome, &ours, GOAL, None)).collect();
    let medians = |seen: &Seen| {
        let series = outcome.series(&named(seen.kind, seen.pause));
        series.map_or_else(|| "-".to_owned(), |series| interval(&series.values, |ns| time(*ns)))
    };
    let tables = vec![
        table("peers-cold", "median", &all, medians),
        table("peers-cold-p99", "p99", &all, |seen| {
            let took = seen.counted(|spaced| spaced.took.iter().map(|ns| *ns as f64).collect());
            time(quantile(&sorted(&took), 0.99))
        }),
        table("peers-cold-cpu", "CPU time", &all, |seen| {
            time(middle(&seen.counted(|spaced| vec![spaced.cpu])))
        }),
    ];
    keep(file, &Written { rows, tables })
}

impl Seen {
    /// What of the rounds that count `each` gives.
    fn counted<T>(&self, each: impl Fn(&Spaced) -> Vec<T>) -> Vec<T> {
        self.spaced.borrow().iter().skip(WARM_UP).flat_map(each).collect()
    }
}

/// A server and a client of one way, if this build and this machine have it.
fn start(kind: Kind) -> Option<(Kind, Rc<RefCell<Clients>>)> {
    match Clients::start(kind, Placement::Unpinned, 1) {
        Ok(clients) => Some((kind, Rc::new(RefCell::new(clients)))),
        Err(error) => {
            eprintln!("warning: {kind} is not measured: {error}");
            None
        }
    }
}

fn named(kind: Kind, pause: Duration) -> String {
    format!("{kind}, one call every {}", spoken(pause))
}

fn spoken(pause: Duration) -> String {
    format!("{} ms", pause.as_secs_f64() * 1e3)
}

/// One row a way, one column a pause.
fn table(mark: &'static str, what: &str, all: &[Seen], cell: impl Fn(&Seen) -> String) -> Table {
    let columns = PAUSES.map(|(pause, _)| format!("every {}", spoken(pause)));
    let rows = all.chunk_by(|a, b| a.kind == b.kind).map(|of_kind| {
        let kind = of_kind[0].kind;
        std::iter::once(format!("{kind} {}", kind.version())).chain(of_kind.iter().map(&cell)).collect()
    });
    Table {
        page: PAGE,
        mark,
        columns: std::iter::once(what.to_owned()).chain(columns).collect(),
        rows: rows.collect(),
    }
}
