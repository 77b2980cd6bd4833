//! What a call costs that comes now and then: our call beside other people's, with a pause before each request, on an idle
//! machine and beside threads that never sleep, of ordinary and of real-time callers.
//!
//! `cargo xtask bench cold` runs it. Nothing is pinned. In the pause the client sleeps, so that caches are cold, both
//! processes have gone to sleep, and the CPU may have. No peer here looks for work in a loop: each sleeps until it is
//! woken. What a side does between requests shows in the CPU time of a request.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use handoff_benches::spaced::{GOAL, Load, Seen, beside, idle, named, subjects};
use handoff_benches::tables::{Table, Written, fastest, interval, middle, time};
use handoff_benches::{LOOK, ROUNDS, exit, in_turns, keep, rows_file};
use handoff_lab::stats::describe::{quantile, sorted};
use handoff_peers::Kind;

const PAGE: &str = "reference/peers.md";

/// On a machine that does nothing else.
const IDLE: [Load; 4] = [
    idle(Duration::from_micros(100), 100),
    idle(Duration::from_millis(1), 30),
    idle(Duration::from_millis(10), 10),
    idle(Duration::from_millis(100), 4),
];
const BUSY: [Load; 3] = [beside(1, false), beside(2, false), beside(4, false)];
const URGENT: [Load; 4] = [beside(0, true), beside(1, true), beside(2, true), beside(4, true)];

fn main() -> ExitCode {
    handoff_peers::play_if_peer();
    exit(run())
}

fn run() -> Result<()> {
    let file = rows_file();
    let loads = [&IDLE[..], &BUSY, &URGENT].concat();
    let (subjects, all) = subjects(&loads);
    let outcome = in_turns(if file.is_some() { ROUNDS } else { LOOK }, subjects)?;
    let ours = loads.iter().map(|load| named(Kind::OURS, *load));
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
        _ if differs_by_pause => load.spoken_pause(),
        0 => "idle".to_owned(),
        _ => load.spoken_hogs(),
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
        mark: mark.to_owned(),
        columns: std::iter::once(what.to_owned()).chain(columns).collect(),
        rows: rows.collect(),
    }
}
