//! The store on a real server, beside the one in a file.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use handoff_testkit::postgres::{Postgres as Server, require_postgres};
use handoff_testkit::require;

use crate::experiment::result::tests::{result, rounds};
use crate::import::{Format, ImportedResults, Series};
use crate::stats::judge::Direction;
use crate::store::{MIGRATIONS, Owner, Store, StoreError};

/// With this in the environment, [`writer_main`] writes to the store there until it is killed.
const WRITE_TO: &str = "HANDOFF_TEST_WRITE_TO";

fn folder() -> tempfile::TempDir {
    // The server's user must reach it.
    let permissions = std::fs::Permissions::from_mode(0o755);
    tempfile::Builder::new().prefix("handoff-pg-").permissions(permissions).tempdir().expect("a folder")
}

/// Everything that can be asked of a store after the same was put into it.
fn all_answers(store: &mut Store) -> Vec<String> {
    let mut one = result();
    one.header.title = "a 'title' with \\ and \t and\na line".into();
    one.header.seed = u64::MAX;
    let first = store.begin(&one.header).expect("begun");
    for record in rounds(3, 0.9, 1.0) {
        store.keep(first, &record).expect("kept");
    }
    let twice = store.keep(first, &rounds(1, 1.0, 1.0)[0]).expect_err("a round is there once");
    assert!(matches!(twice, StoreError::Sql { .. }), "{twice}");
    store.finish(first, &one).expect("kept");
    let second = store.begin(&one.header).expect("begun");
    store.keep(second, &rounds(1, 1.0, 1.0)[0]).expect("kept");
    let labels =
        BTreeMap::from([("commit".to_owned(), "a1".to_owned()), ("device".to_owned(), "é".to_owned())]);
    store.label(Owner::Run(second), &labels).expect("kept");
    let odd = [f64::MIN_POSITIVE, 1.0 / 3.0, 1e300, -0.5, 7.0];
    let series =
        |name: &str, better| Series { name: name.into(), unit: "s".into(), better, values: odd.into() };
    let imported = ImportedResults {
        format: Format::PerfStat,
        series: vec![series("a", Some(Direction::Lower)), series("b", None)],
        left_out: vec!["c".into()],
    };
    let import = store.keep_import("an import", &imported).expect("kept");
    let mut history = store.history().expect("read");
    history.sort_by_key(|entry| entry.id);
    let imports = store.imports().expect("read").into_iter().map(|mut entry| {
        entry.added.clear();
        entry
    });
    let title = &one.header.title;
    vec![
        format!("{first} {second} {import} {history:?}"),
        format!("{:?}", imports.collect::<Vec<_>>()),
        format!("{:?}", store.import(import).expect("read")),
        format!("{:?} {:?}", store.latest().expect("one"), store.result(first).expect("read")),
        store.result(second).expect_err("it did not end").to_string(),
        store.finish(99, &one).expect_err("no such run").to_string(),
        store.import(99).expect_err("no such import").to_string(),
        format!("{:?}", store.unfinished(&one.header.file, u64::MAX).expect("read")),
        format!("{:?}", store.unfinished("another", 1).expect("read")),
        format!("{:?}", store.titles().expect("read")),
        format!("{:?} {:?}", store.metrics(title).expect("read"), store.metrics("an import").expect("read")),
        format!("{:?}", store.known(title, "time").expect("read")),
        format!("{:?}", store.measured(title, "time", 5).expect("read")),
        format!("{:?}", store.measured(title, "time", 1).expect("read")),
        format!(
            "{:?}",
            store.measured("an import", "b", 5).expect("read").iter().map(|m| &m.values).collect::<Vec<_>>()
        ),
    ]
}

#[test]
fn a_server_answers_as_a_file_does() {
    let bin = require!(require_postgres());
    let folder = folder();
    let mut server = Server::start(&bin, &folder.path().join("pg"));
    let mut file = Store::open(&folder.path().join("store.sqlite")).expect("made");
    let mut store = Store::connect(&server.address("postgres")).expect("made");
    let (there, here) = (all_answers(&mut store), all_answers(&mut file));
    for (there, here) in there.iter().zip(&here) {
        assert_eq!(there, here);
    }
    // What was committed outlives a server that is ended at once, and the same store goes on.
    server.restart();
    let run = store.latest().map_or_else(|_| store.keep(2, &rounds(2, 1.0, 1.0)[1]), |_| Ok(()));
    run.expect("it connects again");
    assert_eq!(store.history().expect("read").len(), 2);
    assert_eq!(server.sql("postgres", "SELECT count(*) FROM sample WHERE arm = 'B' AND run = 1"), "9");

    let _ = server.sql("postgres", "UPDATE handoff_form SET version = 99");
    let newer = Store::connect(&server.address("postgres")).expect_err("newer").to_string();
    assert!(newer.contains("postgres on PostgreSQL at") && newer.contains("use a newer one"), "{newer}");
    let missing = Store::connect(&server.address("nowhere")).expect_err("no such database");
    let StoreError::Sql { source, .. } = missing else { panic!("{missing}") };
    assert!(
        source.to_string().contains("nowhere") || format!("{source:?}").contains("nowhere"),
        "{source:?}"
    );
}

#[test]
fn a_store_of_the_first_form_is_brought_up_on_a_server() {
    let bin = require!(require_postgres());
    let folder = folder();
    let server = Server::start(&bin, &folder.path().join("pg"));
    let first = super::translated(MIGRATIONS[0]);
    let header = serde_json::to_string(&result().header).expect("serialises").replace('\'', "''");
    let _ = server.sql("postgres", &first);
    let _ = server.sql("postgres", "CREATE TABLE handoff_form (version BIGINT NOT NULL)");
    let _ = server.sql("postgres", "INSERT INTO handoff_form VALUES (1)");
    let row = format!(
        "INSERT INTO run (started, title, file, seed, header) VALUES ('2026', 't', 'x', 1, '{header}')"
    );
    let _ = server.sql("postgres", &row);
    // Several hosts come at once, and each finds the present form.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let store = Store::connect(&server.address("postgres")).expect("brought up");
                assert_eq!(store.history().expect("read").len(), 1);
                assert!(store.imports().expect("the new tables are there").is_empty());
            });
        }
    });
    assert_eq!(server.sql("postgres", "SELECT version FROM handoff_form"), MIGRATIONS.len().to_string());
}

#[test]
fn many_write_at_once_and_a_killed_one_leaves_no_half_of_a_round() {
    const WRITERS: usize = 4;
    const ROUNDS: usize = 12;
    let bin = require!(require_postgres());
    let folder = folder();
    let server = Server::start(&bin, &folder.path().join("pg"));
    let address = server.address("postgres");
    // The empty database is made by whoever comes first.
    let runs: Vec<i64> = std::thread::scope(|scope| {
        let write = || {
            let mut store = Store::connect(&address).expect("made or opened");
            let run = store.begin(&result().header).expect("begun");
            for record in rounds(ROUNDS, 0.9, 1.0) {
                store.keep(run, &record).expect("kept");
            }
            run
        };
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        writers.into_iter().map(|writer| writer.join().expect("no writer fails")).collect()
    });
    assert_eq!(runs.iter().collect::<std::collections::BTreeSet<_>>().len(), WRITERS, "{runs:?}");

    for kill in 0..6_u64 {
        let mut child = Command::new(std::env::current_exe().expect("this"))
            .args(["--ignored", "--exact", "store::postgres::tests::writer_main"])
            .env(WRITE_TO, &address)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let begun = format!("SELECT count(*) FROM round WHERE run > {}", WRITERS + kill as usize);
        while server.sql("postgres", &begun) == "0" {
            assert!(child.try_wait().expect("a child").is_none(), "the writer ended by itself");
        }
        std::thread::sleep(Duration::from_millis(kill * 7));
        child.kill().expect("killed");
        child.wait().expect("it is gone");
    }
    // What the dead ones had not committed is taken back when the server sees that they are gone.
    let store = Store::connect(&address).expect("opened");
    let entries = store.history().expect("read");
    assert_eq!(entries.len(), WRITERS + 6);
    assert!(entries.iter().all(|entry| entry.rounds > 0));
    let halves =
        "SELECT count(*) FROM (SELECT r.run, r.number, count(s.value) AS n FROM round r FULL JOIN sample s
                  ON s.run = r.run AND s.round = r.number GROUP BY r.run, r.number) AS t
                  WHERE run IS NULL OR n <> 9";
    assert_eq!(server.sql("postgres", halves), "0", "each round has three values of three arms");
    let whole = store.measured("t", "time", 100).expect("read");
    assert!(
        whole
            .iter()
            .filter(|run| runs.iter().any(|id| run.owner == Owner::Run(*id)))
            .all(|run| run.values.len() == 3 * ROUNDS)
    );
}

/// Writes rounds for as long as it lives; the test above starts it as a process of its own, and kills it.
#[test]
#[ignore = "a process of another test"]
fn writer_main() {
    let Ok(address) = std::env::var(WRITE_TO) else { return };
    let mut store = Store::connect(&address).expect("opened");
    let run = store.begin(&result().header).expect("begun");
    for record in rounds(100_000, 0.9, 1.0) {
        store.keep(run, &record).expect("kept");
    }
}

#[test]
fn a_place_has_no_password_and_fields_no_tabs() {
    use super::{Postgres, Value, field, translated};
    let place = Postgres::place("postgresql://me:secret@db.example/lab");
    assert_eq!(place, "lab on PostgreSQL at db.example");
    assert_eq!(Postgres::place("postgresql://here:no-port/x"), "PostgreSQL");
    assert_eq!(field(&Value::from("a\tb\\\n")), "a\\tb\\\\\\n");
    assert_eq!(field(&Value::Real(0.1)).parse(), Ok(0.1));
    assert!(translated("id INTEGER PRIMARY KEY AUTOINCREMENT, v REAL").ends_with("KEY, v DOUBLE PRECISION"));
}
