//! Where results are kept: one SQLite file, or a PostgreSQL database for many hosts that write at once; written
//! a round at a time, so that a run that is killed keeps every round that was complete.
//!
//! Tables: `run` has a row for each run (its header and, once it is complete, its result in JSON), and
//! `sample` every value as `(run, round, arm, position, metric, value)`, which any SQL tool can read.
//! `import` and `import_value` are the same for results of other programs, and `label` says what a run (`3`) or
//! an import (`i3`) is of: a commit, a device.

mod database;
mod imports;
#[cfg(feature = "postgres")]
mod postgres;
mod series;
mod sqlite;

pub use imports::ImportEntry;
pub use series::{Arm, MetricInfo, Owner, RunValues};

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde::Serialize;

use self::database::{Database, Fault, Form, Value};
#[cfg(feature = "postgres")]
use self::postgres::Postgres;
use self::sqlite::Sqlite;
use crate::experiment::result::{ExperimentResult, Header, RoundRecord};

/// Why something cannot be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot make the folder of {}", path.display())]
    Folder { path: PathBuf, source: std::io::Error },
    #[error("the store {place} cannot be used")]
    Sql { place: String, source: Fault },
    #[error("the store {place} has form {found}, and this handoff knows up to {known}: use a newer one")]
    Newer { place: String, found: i64, known: usize },
    /// This build has no stores of that kind.
    #[error(transparent)]
    NotBuilt(#[from] crate::NotBuilt),
    #[error("there is no run {0} in the store")]
    NoRun(String),
    #[error("run {run} in the store is damaged")]
    Damaged { run: i64, source: serde_json::Error },
}

/// One step a version of the form; a step that was published is never changed.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE run (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        started TEXT NOT NULL,
        title TEXT NOT NULL,
        file TEXT NOT NULL,
        seed INTEGER NOT NULL,
        header TEXT NOT NULL,
        verdict TEXT,
        result TEXT
    );
    CREATE TABLE round (
        run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY (run, number)
    );
    CREATE TABLE sample (
        run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
        round INTEGER NOT NULL,
        arm TEXT NOT NULL,
        position INTEGER NOT NULL,
        metric TEXT NOT NULL,
        value REAL NOT NULL,
        PRIMARY KEY (run, round, arm, metric)
    ) WITHOUT ROWID;
",
    "
    CREATE TABLE import (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        added TEXT NOT NULL,
        title TEXT NOT NULL,
        format TEXT NOT NULL,
        left_out TEXT NOT NULL
    );
    CREATE TABLE import_value (
        import INTEGER NOT NULL REFERENCES import(id) ON DELETE CASCADE,
        series INTEGER NOT NULL,
        name TEXT NOT NULL,
        unit TEXT NOT NULL,
        better TEXT,
        repetition INTEGER NOT NULL,
        value REAL NOT NULL,
        PRIMARY KEY (import, series, repetition)
    ) WITHOUT ROWID;
",
    "
    CREATE TABLE label (
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (owner, name)
    ) WITHOUT ROWID;
",
    "
    CREATE INDEX run_started ON run (started);
",
];

#[derive(Debug)]
pub struct Store {
    place: String,
    database: RefCell<Box<dyn Database>>,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    pub id: i64,
    pub started: String,
    pub title: String,
    pub rounds: usize,
    /// The verdict's word; `None` if it was killed before it had one.
    pub verdict: Option<String>,
}

impl Store {
    /// Opens a store, and makes it or brings it to the present form if need be.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|source| StoreError::Folder { path: path.to_owned(), source })?;
        }
        let place = path.display().to_string();
        match Sqlite::open(path) {
            Ok(database) => Self::on(place, Box::new(database)),
            Err(source) => Err(StoreError::Sql { place, source }),
        }
    }

    /// Opens a store by its address: `postgresql://user@host/database` or `postgres://...`, or the path of a file
    /// of SQLite. Its tables are made or brought to the present form if need be.
    pub fn connect(address: &str) -> Result<Self, StoreError> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| address.starts_with(scheme)) {
            return Self::open(Path::new(address));
        }
        Self::on_server(address)
    }

    #[cfg(feature = "postgres")]
    fn on_server(address: &str) -> Result<Self, StoreError> {
        let place = Postgres::place(address);
        match Postgres::connect(address) {
            Ok(database) => Self::on(place, Box::new(database)),
            Err(source) => Err(StoreError::Sql { place, source }),
        }
    }

    #[cfg(not(feature = "postgres"))]
    fn on_server(_address: &str) -> Result<Self, StoreError> {
        Err(StoreError::NotBuilt(crate::NotBuilt { what: "stores in PostgreSQL", feature: "postgres" }))
    }

    fn on(place: String, mut database: Box<dyn Database>) -> Result<Self, StoreError> {
        match database.bring_up(MIGRATIONS) {
            Ok(Form::Present) => Ok(Self { place, database: RefCell::new(database) }),
            Ok(Form::Newer(found)) => Err(StoreError::Newer { place, found, known: MIGRATIONS.len() }),
            Err(source) => Err(StoreError::Sql { place, source }),
        }
    }

    fn fault(&self, source: Fault) -> StoreError {
        StoreError::Sql { place: self.place.clone(), source }
    }

    /// What `read` makes of each row.
    fn rows<T>(
        &self,
        sql: &str,
        values: &[Value],
        mut read: impl FnMut(&[Value]) -> T,
    ) -> Result<Vec<T>, StoreError> {
        let mut all = Vec::new();
        let mut row = |row: &[Value]| all.push(read(row));
        self.database.borrow_mut().query(sql, values, &mut row).map_err(|fault| self.fault(fault))?;
        Ok(all)
    }

    /// The first value of the first row.
    fn one(&self, sql: &str, values: &[Value]) -> Result<Option<Value>, StoreError> {
        Ok(self.rows(sql, values, |row| row[0].clone())?.into_iter().next())
    }

    /// Keeps what `steps` writes as a whole or not at all.
    fn together<T>(
        &mut self,
        steps: impl FnOnce(&mut dyn Database) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let place = &self.place;
        let database = self.database.get_mut();
        let outcome = database.begin().and_then(|()| {
            let done = steps(database.as_mut()).and_then(|value| database.commit().map(|()| value));
            if done.is_err() {
                database.roll_back();
            }
            done
        });
        outcome.map_err(|source| StoreError::Sql { place: place.clone(), source })
    }

    /// Begins a run; gives its number.
    pub fn begin(&self, header: &Header) -> Result<i64, StoreError> {
        begin(self.database.borrow_mut().as_mut(), header).map_err(|fault| self.fault(fault))
    }

    /// Keeps a complete round, as a whole or not at all.
    pub fn keep(&mut self, run: i64, record: &RoundRecord) -> Result<(), StoreError> {
        self.together(|database| keep(database, run, record))
    }

    pub fn finish(&self, run: i64, result: &ExperimentResult) -> Result<(), StoreError> {
        match finish(self.database.borrow_mut().as_mut(), run, result).map_err(|fault| self.fault(fault))? {
            0 => Err(StoreError::NoRun(run.to_string())),
            _ => Ok(()),
        }
    }

    /// Removes a run with all that is kept of it, as a whole or not at all. Its number is not given again.
    pub fn remove(&mut self, run: i64) -> Result<(), StoreError> {
        let owner = Owner::Run(run).to_string();
        let removed = self.together(|database| {
            database.execute("DELETE FROM label WHERE owner = ?1", &[owner.as_str().into()])?;
            database.execute("DELETE FROM sample WHERE run = ?1", &[run.into()])?;
            database.execute("DELETE FROM round WHERE run = ?1", &[run.into()])?;
            database.execute("DELETE FROM run WHERE id = ?1", &[run.into()])
        })?;
        if removed == 0 { Err(StoreError::NoRun(run.to_string())) } else { Ok(()) }
    }

    /// Keeps a run that has ended elsewhere, as a whole or not at all; gives its number, or nothing if it is
    /// there already: the same experiment, at the same time, on the same device.
    pub fn add(&mut self, result: &ExperimentResult) -> Result<Option<i64>, StoreError> {
        let header = &result.header;
        self.together(|database| {
            let alike = [header.started.as_str().into(), header.title.as_str().into()];
            let mut is_there = false;
            database.query(
                "SELECT result FROM run WHERE started = ?1 AND title = ?2 AND verdict IS NOT NULL",
                &alike,
                &mut |row| {
                    let kept =
                        row[0].text().and_then(|text| serde_json::from_str::<StoredResult>(&text).ok());
                    is_there |= kept.is_some_and(|kept| kept.header == *header);
                },
            )?;
            if is_there {
                return Ok(None);
            }
            let run = begin(database, header)?;
            for round in &result.rounds {
                keep(database, run, round)?;
            }
            finish(database, run, result)?;
            Ok(Some(run))
        })
    }

    /// All runs, the latest first.
    pub fn history(&self) -> Result<Vec<Entry>, StoreError> {
        self.rows(
            "SELECT id, started, title, (SELECT count(*) FROM round WHERE round.run = run.id), verdict
             FROM run ORDER BY id DESC",
            &[],
            |row| Entry {
                id: row[0].integer(),
                started: row[1].text().unwrap_or_default(),
                title: row[2].text().unwrap_or_default(),
                rounds: usize::try_from(row[3].integer()).unwrap_or(0),
                verdict: row[4].text(),
            },
        )
    }

    pub fn result(&self, run: i64) -> Result<ExperimentResult, StoreError> {
        let found = self.one("SELECT result FROM run WHERE id = ?1", &[run.into()])?;
        let found = found.ok_or_else(|| StoreError::NoRun(run.to_string()))?;
        let text =
            found.text().ok_or_else(|| StoreError::NoRun(format!("{run} with a result (it did not end)")))?;
        serde_json::from_str(&text).map_err(|source| StoreError::Damaged { run, source })
    }

    /// The number of the latest run that has a result.
    pub fn latest(&self) -> Result<i64, StoreError> {
        match self.one("SELECT max(id) FROM run WHERE result IS NOT NULL", &[])? {
            Some(Value::Integer(run)) => Ok(run),
            _ => Err(StoreError::NoRun("with a result".to_owned())),
        }
    }

    /// The latest run of this file and seed that was killed or interrupted, and its rounds.
    pub fn unfinished(&self, file: &str, seed: u64) -> Result<Option<(i64, Vec<RoundRecord>)>, StoreError> {
        // As our own writer has it; inside of text the quotes would have backslashes.
        let found = self.one(
            "SELECT max(id) FROM run WHERE file = ?1 AND seed = ?2
             AND (result IS NULL OR result LIKE '%\"ending\":\"interrupted\"%')",
            &[file.into(), seed.cast_signed().into()],
        )?;
        let Some(Value::Integer(run)) = found else { return Ok(None) };
        let texts =
            self.rows("SELECT record FROM round WHERE run = ?1 ORDER BY number", &[run.into()], |row| {
                row[0].text().unwrap_or_default()
            })?;
        let rounds = texts.iter().map(|text| serde_json::from_str(text)).collect::<Result<_, _>>();
        Ok(Some((run, rounds.map_err(|source| StoreError::Damaged { run, source })?)))
    }
}

/// A result without all that is not needed to tell whose it is.
#[derive(serde::Deserialize)]
struct StoredResult {
    #[serde(flatten)]
    header: Header,
}

fn begin(database: &mut dyn Database, header: &Header) -> Result<i64, Fault> {
    let values = [
        header.started.as_str().into(),
        header.title.as_str().into(),
        header.file.as_str().into(),
        // Databases have signed numbers; the bits are kept.
        header.seed.cast_signed().into(),
        json(header).into(),
    ];
    let mut number = 0;
    database.query(
        "INSERT INTO run (started, title, file, seed, header) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id",
        &values,
        &mut |row| number = row[0].integer(),
    )?;
    Ok(number)
}

fn keep(database: &mut dyn Database, run: i64, record: &RoundRecord) -> Result<(), Fault> {
    let placed = record.order.iter().enumerate();
    let samples = placed.filter_map(|(place, arm)| Some((place, arm, record.samples.get(arm)?)));
    let mut rows = samples.flat_map(|(place, arm, sample)| {
        sample.values.iter().map(move |(metric, value)| {
            let (arm, metric) = (Value::from(arm.name()), metric.as_str().into());
            vec![run.into(), record.number.into(), arm, place.into(), metric, (*value).into()]
        })
    });
    let round = [run.into(), record.number.into(), json(record).into()];
    database.execute("INSERT INTO round VALUES (?1, ?2, ?3)", &round)?;
    database.fill("sample", &mut rows)
}

/// The number of runs that it was: 0 or 1.
fn finish(database: &mut dyn Database, run: i64, result: &ExperimentResult) -> Result<u64, Fault> {
    let values = [run.into(), result.verdict().word().into(), json(result).into()];
    database.execute("UPDATE run SET verdict = ?2, result = ?3 WHERE id = ?1", &values)
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("our records have no map with keys that are no text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::{Connection, params};

    use crate::doctor::Diagnosis;
    use crate::experiment::result::tests::{result, rounds};

    fn header(file: &str) -> Header {
        Header {
            schema: 1,
            version: "0".into(),
            title: "t".into(),
            question: String::new(),
            arms: ["a".into(), "b".into()],
            changes: Vec::new(),
            common: Vec::new(),
            place: "this machine".into(),
            started: "2026-01-01T00:00:00Z".into(),
            command: "handoff lab run".into(),
            seed: u64::MAX,
            file: file.into(),
            before: Diagnosis { machine: Vec::new(), findings: Vec::new() },
        }
    }

    #[test]
    fn a_run_that_is_removed_leaves_nothing_and_its_number_stays_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.sqlite");
        let mut store = Store::open(&path).expect("made");
        let [first, second] = ["a", "b"].map(|file| store.begin(&header(file)).expect("begun"));
        for run in [first, second] {
            store.keep(run, &rounds(1, 1.0, 1.0)[0]).expect("kept");
            store.label(Owner::Run(run), &[("commit".to_owned(), "c".to_owned())].into()).expect("labelled");
        }
        store.remove(second).expect("removed");
        let left: Vec<i64> = store.history().expect("read").iter().map(|entry| entry.id).collect();
        assert_eq!(left, [first]);
        let plain = Connection::open(&path).expect("a database");
        for table in ["round", "sample"] {
            let sql = format!("SELECT count(*) FROM {table} WHERE run = ?1");
            let count =
                |run: i64| plain.query_row(&sql, params![run], |row| row.get::<_, i64>(0)).expect("read");
            assert_eq!(count(second), 0, "{table}");
            assert!(count(first) > 0, "{table}");
        }
        let labels =
            plain.query_row("SELECT count(*) FROM label", [], |row| row.get::<_, i64>(0)).expect("read");
        assert_eq!(labels, 1);
        assert!(store.begin(&header("c")).expect("begun") > second);
        assert!(matches!(store.remove(second), Err(StoreError::NoRun(_))));
    }

    #[test]
    fn complete_rounds_are_there_again_after_the_process_is_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/store.sqlite");
        let records = rounds(3, 1.0, 1.0);
        {
            let mut store = Store::open(&path).expect("made");
            let run = store.begin(&header("x")).expect("begun");
            for record in &records {
                store.keep(run, record).expect("kept");
            }
            assert!(store.keep(run, &records[0]).is_err(), "no round is there twice");
        }
        let store = Store::open(&path).expect("opened again");
        let (run, found) = store.unfinished("x", u64::MAX).expect("read").expect("a run");
        assert_eq!((run, found.len()), (1, 3));
        assert_eq!(found[2].order, records[2].order);
        assert_eq!(store.unfinished("y", u64::MAX).expect("read"), None);
        assert_eq!(store.unfinished("x", 1).expect("read"), None);
        let history = store.history().expect("read");
        assert_eq!((history[0].rounds, history[0].verdict.clone()), (3, None));
        assert!(store.result(1).expect_err("no result").to_string().contains("did not end"));
        assert!(store.result(9).expect_err("no run").to_string().contains("no run 9"));
        assert!(store.latest().is_err());
        let values: i64 = Connection::open(&path)
            .expect("any tool can read it")
            .query_row("SELECT count(*) FROM sample WHERE metric = 'time' AND arm = 'B'", [], |row| {
                row.get(0)
            })
            .expect("a count");
        assert_eq!(values, 3);
    }

    /// A store of the first version, with a run in it.
    fn first_version(path: &Path) {
        let connection = Connection::open(path).expect("made");
        connection.execute_batch(MIGRATIONS[0]).expect("the first form");
        connection.execute_batch("PRAGMA user_version = 1").expect("set");
        let header = json(&header("x")).replace("\"place\":\"this machine\",", "");
        connection
            .execute(
                "INSERT INTO run (started, title, file, seed, header) VALUES ('2026', 't', 'x', 1, ?1)",
                [header],
            )
            .expect("a run");
        for record in rounds(2, 1.0, 1.0) {
            connection
                .execute(
                    "INSERT INTO round VALUES (1, ?1, ?2)",
                    params![i64::try_from(record.number).expect("small"), json(&record)],
                )
                .expect("a round");
        }
    }

    #[test]
    fn a_store_of_the_first_version_is_brought_up_and_loses_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.sqlite");
        first_version(&path);
        for _ in 0..2 {
            let store = Store::open(&path).expect("brought up, and opened again");
            let version = store.one("PRAGMA user_version", &[]).expect("read").expect("a version");
            assert_eq!(version, Value::from(MIGRATIONS.len()));
            let (run, found) = store.unfinished("x", 1).expect("read").expect("its run");
            assert_eq!((run, found.len()), (1, 2));
            assert!(store.imports().expect("the new tables are there").is_empty());
        }
    }

    #[test]
    fn an_interrupted_run_can_go_on_and_a_finished_one_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&folder.path().join("store.sqlite")).expect("made");
        let run = store.begin(&header("x")).expect("begun");
        let end = |ending: &str| {
            let result = serde_json::json!({ "ending": ending }).to_string();
            store.one("UPDATE run SET result = ?1 RETURNING id", &[result.into()]).expect("written");
            store.unfinished("x", u64::MAX).expect("read").map(|(run, _)| run)
        };
        assert_eq!(end("interrupted"), Some(run));
        assert_eq!((end("finished"), end("budget")), (None, None));
    }

    #[test]
    fn a_run_that_ended_elsewhere_is_added_once_and_as_a_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = Store::open(&folder.path().join("store.sqlite")).expect("made");
        let sound = result();
        assert!(sound.rounds.len() > 1);
        let mut torn = sound.clone();
        torn.rounds.push(sound.rounds[0].clone());
        store.add(&torn).expect_err("a round is there twice");
        for table in ["run", "round", "sample"] {
            let count = store.one(&format!("SELECT count(*) FROM {table}"), &[]).expect("read");
            assert_eq!(count, Some(Value::Integer(0)), "{table}: nothing of it is kept");
        }
        let run = store.add(&sound).expect("kept").expect("new");
        assert_eq!(store.result(run).expect("whole").header, sound.header);
        assert_eq!(store.history().expect("read")[0].rounds, sound.rounds.len());
        assert_eq!(store.add(&sound).expect("looked up"), None, "it is there already");
        let mut elsewhere = sound;
        elsewhere.header.place = "another machine".to_owned();
        assert!(store.add(&elsewhere).expect("kept").is_some(), "another device at the same time");
    }

    #[test]
    fn what_is_no_store_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.sqlite");
        std::fs::write(&path, "this is no database, but long enough to look like a file").expect("written");
        assert!(matches!(Store::open(&path), Err(StoreError::Sql { .. })));
        let path = folder.path().join("newer.sqlite");
        let connection = Connection::open(&path).expect("made");
        connection.execute_batch("PRAGMA user_version = 99").expect("set");
        drop(connection);
        assert!(Store::open(&path).expect_err("newer").to_string().contains("use a newer one"));
    }
}
