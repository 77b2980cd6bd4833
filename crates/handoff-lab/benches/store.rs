//! A million samples: how long to keep them, and how long until a history and a report are there.
//!
//! Run as `cargo xtask bench store`; the table goes into the book.

mod table;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use handoff_lab::experiment::ArmId;
use handoff_lab::experiment::executor::Local;
use handoff_lab::experiment::file::Experiment;
use handoff_lab::experiment::result::{ExperimentResult, RoundRecord, Sample};
use handoff_lab::experiment::runner::{Options, run};
use handoff_lab::history::{Quantity, Query, draw};
use handoff_lab::stats::change::Search;
use handoff_lab::stats::random::Random;
use handoff_lab::store::{Owner, Store};
use handoff_testkit::postgres::{Postgres, require_postgres};
use table::{Table, bench};

type BoxResult<T> = Result<T, Box<dyn std::error::Error>>;

/// Runs of the history.
const RUNS: usize = 500;

const ROUNDS: usize = 67;

/// Metrics of each run of an arm.
const METRICS: usize = 10;

/// Rounds of one large run, with the same metrics.
const MOST_ROUNDS: usize = 10_000;

const EXPERIMENT: &str = "
title = \"a million\"
[workload]
command = \"true\"
[baseline]
name = \"one\"
[change]
name = \"the same\"
[metric]
name = \"wall\"
[rounds]
rounds = 6
";

fn main() -> ExitCode {
    bench(measure)
}

fn measure() -> BoxResult<Table<3>> {
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let folder = tempfile::Builder::new().permissions(permissions).tempdir()?;
    let result = small(folder.path())?;
    let mut rows = on("SQLite", &mut Store::open(&folder.path().join("lab.sqlite"))?, &result)?;
    match require_postgres() {
        Ok(bin) => {
            let server = Postgres::start(&bin, &folder.path().join("pg"));
            rows.extend(on("PostgreSQL", &mut Store::connect(&server.address("postgres"))?, &result)?);
        }
        Err(reason) => println!("PostgreSQL was not measured: {reason}"),
    }
    Ok(Table { mark: "lab-store", columns: ["what", "store", "seconds"], rows })
}

/// A real result, whose rounds are replaced.
fn small(folder: &Path) -> BoxResult<ExperimentResult> {
    let experiment = Experiment::parse(Path::new("bench"), EXPERIMENT)?.remove(0);
    let mut here = Local::new("handoff", folder, None)?;
    Ok(run(&experiment, Options::default(), &mut here, &mut |_| Ok(()))?)
}

fn rounds(count: usize, level: f64, random: &mut Random) -> Vec<RoundRecord> {
    let mut sample = || {
        let other = (1..METRICS).map(|metric| (format!("metric-{metric}"), random.unit() + 1.0));
        let values: BTreeMap<String, f64> = other.collect();
        let wall = level * (0.02 * random.normal()).exp();
        let values = values.into_iter().chain([("wall".to_owned(), wall)]).collect();
        Sample { values, proofs: BTreeMap::new(), flags: Vec::new() }
    };
    let mut record = |number| RoundRecord {
        number,
        order: ArmId::ALL.to_vec(),
        samples: ArmId::ALL.map(|arm| (arm, sample())).into(),
    };
    (1..=count).map(&mut record).collect()
}

fn on(name: &str, store: &mut Store, small: &ExperimentResult) -> BoxResult<Vec<[String; 3]>> {
    let mut random = Random::new(1);
    let mut rows = Vec::new();
    let mut row = |what: String, start: Instant| {
        rows.push([what, name.to_owned(), format!("{:.2}", start.elapsed().as_secs_f64())]);
    };
    let samples = RUNS * ROUNDS * 3 * METRICS;
    let start = Instant::now();
    for number in 0..RUNS {
        let run = store.begin(&small.header)?;
        let level = if number < RUNS / 2 { 1.0 } else { 1.05 };
        for record in rounds(ROUNDS, level, &mut random) {
            store.keep(run, &record)?;
        }
        store.label(Owner::Run(run), &BTreeMap::from([("commit".to_owned(), format!("c{number}"))]))?;
        store.finish(run, small)?;
    }
    row(format!("keep {samples} samples, a round at a time, {} rounds", RUNS * ROUNDS), start);

    let start = Instant::now();
    let asked = Query {
        title: None,
        metric: "wall".to_owned(),
        what: Quantity::Baseline,
        by: None,
        last: RUNS,
        margin: 0.02,
        search: Search::default(),
    };
    let history = draw(store, &asked)?;
    let page = handoff_lab::report::history::html(&history)?;
    let found = &history.lines[0].changes;
    if found.len() != 1 || found[0].point.at.abs_diff(RUNS / 2) > 2 || !page.contains("</html>") {
        return Err(format!("the change was not found: {found:?}").into());
    }
    row(format!("a history of {RUNS} runs of these, with its change and page"), start);

    let large = ExperimentResult { rounds: rounds(MOST_ROUNDS, 1.0, &mut random), ..small.clone() };
    let run = store.begin(&large.header)?;
    store.finish(run, &large)?;
    let start = Instant::now();
    let page = handoff_lab::report::experiment::html(&store.result(run)?)?;
    row(format!("the report of one run of {MOST_ROUNDS} rounds, {} MiB", page.len() >> 20), start);

    let start = Instant::now();
    store.history()?;
    row(format!("the list of {} runs", RUNS + 1), start);
    Ok(rows)
}
