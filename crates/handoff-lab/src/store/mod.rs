//! Where results are kept: one SQLite file, written a round at a time, so that a run that is killed keeps
//! every round that was complete.
//!
//! Tables: `run` has a row for each run (its header and, once it is complete, its result in JSON), and
//! `sample` every value as `(run, round, arm, position, metric, value)`, which any SQLite tool can read.
//! `import` and `import_value` are the same for results of other programs.

mod imports;

pub use imports::ImportEntry;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Serialize;

use crate::experiment::result::{ExperimentResult, Header, RoundRecord};

/// Why something cannot be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder of the file.
    #[error("cannot make the folder of {}", path.display())]
    Folder {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// SQLite refuses.
    #[error("the store {} cannot be used", path.display())]
    Sql {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// A later handoff made it.
    #[error("the store {} has form {found}, and this handoff knows up to {known}: use a newer one", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its form.
        found: i64,
        /// The newest known.
        known: usize,
    },
    /// No such run.
    #[error("there is no run {0} in the store; `handoff lab history` lists them")]
    NoRun(String),
    /// What is in it is not what was put there.
    #[error("run {run} in the store is damaged")]
    Damaged {
        /// The run.
        run: i64,
        /// What the parser says.
        source: serde_json::Error,
    },
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
];

/// An open store.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// Its number.
    pub id: i64,
    /// When it began.
    pub started: String,
    /// The experiment's title.
    pub title: String,
    /// Rounds that are complete.
    pub rounds: usize,
    /// The verdict's word; `None` if it was killed before it had one.
    pub verdict: Option<String>,
}

impl Store {
    /// Opens a store, and makes it or brings it to the present form if need be.
    ///
    /// # Errors
    ///
    /// If the file cannot be made or is no store, or a later version made it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|source| StoreError::Folder { path: path.to_owned(), source })?;
        }
        let sql = |source| StoreError::Sql { path: path.to_owned(), source };
        let mut connection = Connection::open(path).map_err(sql)?;
        connection.busy_timeout(Duration::from_secs(30)).map_err(sql)?;
        connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL;").map_err(sql)?;
        let step =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(sql)?;
        let version: i64 = step.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(sql)?;
        let known = MIGRATIONS.len();
        let Some(done) = usize::try_from(version).ok().filter(|done| *done <= known) else {
            return Err(StoreError::Newer { path: path.to_owned(), found: version, known });
        };
        for migration in &MIGRATIONS[done..] {
            step.execute_batch(migration).map_err(sql)?;
        }
        step.execute_batch(&format!("PRAGMA user_version = {known}")).map_err(sql)?;
        step.commit().map_err(sql)?;
        Ok(Self { path: path.to_owned(), connection })
    }

    fn sql(&self) -> impl Fn(rusqlite::Error) -> StoreError + use<> {
        let path = self.path.clone();
        move |source| StoreError::Sql { path: path.clone(), source }
    }

    /// Begins a run; gives its number.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn begin(&self, header: &Header) -> Result<i64, StoreError> {
        let text = json(header);
        // SQLite has signed numbers; the bits are kept.
        let seed = header.seed.cast_signed();
        self.connection
            .execute(
                "INSERT INTO run (started, title, file, seed, header) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![header.started, header.title, header.file, seed, text],
            )
            .map_err(self.sql())?;
        Ok(self.connection.last_insert_rowid())
    }

    /// Keeps a complete round, as a whole or not at all.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn keep(&mut self, run: i64, record: &RoundRecord) -> Result<(), StoreError> {
        let sql = self.sql();
        let step = self.connection.transaction().map_err(&sql)?;
        let number = i64::try_from(record.number).unwrap_or(i64::MAX);
        step.execute("INSERT INTO round VALUES (?1, ?2, ?3)", params![run, number, json(record)])
            .map_err(&sql)?;
        {
            let mut insert =
                step.prepare_cached("INSERT INTO sample VALUES (?1, ?2, ?3, ?4, ?5, ?6)").map_err(&sql)?;
            for (position, arm) in record.order.iter().enumerate() {
                let Some(sample) = record.samples.get(arm) else { continue };
                for (metric, value) in &sample.values {
                    let position = i64::try_from(position).unwrap_or(i64::MAX);
                    insert
                        .execute(params![run, number, arm.name(), position, metric, value])
                        .map_err(&sql)?;
                }
            }
        }
        step.commit().map_err(sql)
    }

    /// Keeps the result of a run.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn finish(&self, run: i64, result: &ExperimentResult) -> Result<(), StoreError> {
        self.connection
            .execute(
                "UPDATE run SET verdict = ?2, result = ?3 WHERE id = ?1",
                params![run, result.verdict().word(), json(result)],
            )
            .map_err(self.sql())?;
        Ok(())
    }

    /// All runs, the latest first.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn history(&self) -> Result<Vec<Entry>, StoreError> {
        let sql = self.sql();
        let mut statement = self
            .connection
            .prepare(
                "SELECT id, started, title, (SELECT count(*) FROM round WHERE run = id), verdict
                 FROM run ORDER BY id DESC",
            )
            .map_err(&sql)?;
        let rows = statement.query_map([], |row| {
            let rounds: i64 = row.get(3)?;
            Ok(Entry {
                id: row.get(0)?,
                started: row.get(1)?,
                title: row.get(2)?,
                rounds: usize::try_from(rounds).unwrap_or(0),
                verdict: row.get(4)?,
            })
        });
        rows.map_err(&sql)?.collect::<Result<_, _>>().map_err(sql)
    }

    /// The result of a run.
    ///
    /// # Errors
    ///
    /// If there is no such run, it has no result, or it is damaged.
    pub fn result(&self, run: i64) -> Result<ExperimentResult, StoreError> {
        let text: Option<Option<String>> = self
            .connection
            .query_row("SELECT result FROM run WHERE id = ?1", [run], |row| row.get(0))
            .optional()
            .map_err(self.sql())?;
        let text = text.ok_or_else(|| StoreError::NoRun(run.to_string()))?;
        let text = text.ok_or_else(|| StoreError::NoRun(format!("{run} with a result (it did not end)")))?;
        serde_json::from_str(&text).map_err(|source| StoreError::Damaged { run, source })
    }

    /// The number of the latest run that has a result.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or has none.
    pub fn latest(&self) -> Result<i64, StoreError> {
        let found: Option<i64> = self
            .connection
            .query_row("SELECT max(id) FROM run WHERE result IS NOT NULL", [], |row| row.get(0))
            .map_err(self.sql())?;
        found.ok_or_else(|| StoreError::NoRun("with a result".to_owned()))
    }

    /// The latest run of this file and seed that was killed or interrupted, and its rounds.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or a round is damaged.
    pub fn unfinished(&self, file: &str, seed: u64) -> Result<Option<(i64, Vec<RoundRecord>)>, StoreError> {
        let sql = self.sql();
        let run: Option<i64> = self
            .connection
            .query_row(
                "SELECT max(id) FROM run WHERE file = ?1 AND seed = ?2
                 AND (result IS NULL OR json_extract(result, '$.ending') = 'interrupted')",
                params![file, seed.cast_signed()],
                |row| row.get(0),
            )
            .map_err(&sql)?;
        let Some(run) = run else { return Ok(None) };
        let mut statement = self
            .connection
            .prepare("SELECT record FROM round WHERE run = ?1 ORDER BY number")
            .map_err(&sql)?;
        let texts: Vec<String> = statement
            .query_map([run], |row| row.get(0))
            .map_err(&sql)?
            .collect::<Result<_, _>>()
            .map_err(&sql)?;
        let rounds = texts.iter().map(|text| serde_json::from_str(text)).collect::<Result<_, _>>();
        Ok(Some((run, rounds.map_err(|source| StoreError::Damaged { run, source })?)))
    }
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("our records have no map with keys that are no text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Diagnosis;
    use crate::experiment::result::tests::rounds;

    fn header(file: &str) -> Header {
        Header {
            schema: 1,
            version: "0".into(),
            title: "t".into(),
            question: String::new(),
            arms: ["a".into(), "b".into()],
            differences: [vec![], vec![]],
            place: "this machine".into(),
            started: "2026-01-01T00:00:00Z".into(),
            command: "handoff lab run".into(),
            seed: u64::MAX,
            file: file.into(),
            before: Diagnosis { machine: Vec::new(), findings: Vec::new() },
        }
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
        let values: i64 = store
            .connection
            .query_row("SELECT count(*) FROM sample WHERE metric = 'time' AND arm = 'B'", [], |row| {
                row.get(0)
            })
            .expect("any tool can read it");
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
            let version: i64 =
                store.connection.query_row("PRAGMA user_version", [], |row| row.get(0)).expect("a version");
            assert_eq!(version, i64::try_from(MIGRATIONS.len()).expect("few"));
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
            let result = format!("{{\"ending\": \"{ending}\"}}");
            store.connection.execute("UPDATE run SET result = ?1", [result]).expect("written");
            store.unfinished("x", u64::MAX).expect("read").map(|(run, _)| run)
        };
        assert_eq!(end("interrupted"), Some(run));
        assert_eq!((end("finished"), end("budget")), (None, None));
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
