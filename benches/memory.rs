//! What connections and objects cost two processes in memory and descriptors, ours beside other people's.
//!
//! `cargo xtask bench memory` runs it. No time is measured: the figures do not depend on what else the machine does.
//! Each count has processes of its own, since a process does not give back all that it once used.

use std::process::ExitCode;

use anyhow::Result;
use handoff_benches::tables::{Table, Written, middle};
use handoff_benches::{exit, keep, rows_file};
use handoff_peers::{Clients, Held, Kind};
use handoff_workloads::Placement;

/// Connections, and objects of ours over one.
const COUNTS: [usize; 3] = [1, 100, 1000];
const OBJECTS: [usize; 3] = [1, 100, 10_000];
/// Processes for each count; a cell is their median.
const TURNS: usize = 3;

fn main() -> ExitCode {
    handoff_peers::play_if_peer();
    exit(run())
}

fn run() -> Result<()> {
    let mut rows = Vec::new();
    for count in OBJECTS {
        rows.push(row(Kind::OURS, &counted(count, "object"), 1, count));
    }
    let kinds = std::iter::once(Kind::OURS).chain(Kind::ALL).filter(|kind| kind.most_clients() > 1);
    for kind in kinds {
        rows.extend(COUNTS.map(|count| row(kind, &counted(count, "connection"), count, 0)));
    }
    let columns = ["", "held", "server", "its descriptors", "client", "its descriptors"];
    let table = Table {
        page: "reference/peers.md",
        mark: "peers-memory".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    };
    keep(rows_file(), &Written { rows: Vec::new(), tables: vec![table] })
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn row(kind: Kind, what: &str, connections: usize, objects: usize) -> Vec<String> {
    let measured: Result<Vec<Held>, _> = (0..TURNS)
        .map(|_| Clients::start(kind, Placement::Unpinned, 1)?.held(connections, objects))
        .collect();
    let name = format!("{kind} {}", kind.version());
    let cells = match measured {
        Ok(held) => {
            let of = |figure: fn(&Held) -> u64| middle(&held.iter().map(figure).collect::<Vec<_>>());
            let mib = |bytes: f64| format!("{:.1} MiB", bytes / f64::from(1 << 20));
            [
                mib(of(|held| held.server.memory)),
                of(|held| held.server.descriptors).to_string(),
                mib(of(|held| held.client.memory)),
                of(|held| held.client.descriptors).to_string(),
            ]
        }
        Err(error) => {
            eprintln!("warning: {kind} with {what} is not measured: {error}");
            ["-", "-", "-", "-"].map(str::to_owned)
        }
    };
    let [server, its, client, of_client] = cells;
    vec![name, what.to_owned(), server, its, client, of_client]
}
