//! Results of other programs in the store.

use rusqlite::{OptionalExtension as _, params};
use serde::Serialize;

use super::{Store, StoreError, json};
use crate::clock::timestamp;
use crate::import::{Imported, Series};
use crate::stats::judge::Direction;

/// An import in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ImportEntry {
    /// Its number, which commands write as `i3`.
    pub id: i64,
    /// When it was added, in UTC.
    pub added: String,
    /// What it was called when it was added.
    pub title: String,
    /// What wrote it.
    pub format: String,
    /// How many quantities it has.
    pub series: usize,
}

impl Store {
    /// Keeps imported results, as a whole or not at all; gives their number.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn keep_import(&mut self, title: &str, imported: &Imported) -> Result<i64, StoreError> {
        let sql = self.sql();
        let step = self.connection.transaction().map_err(&sql)?;
        step.execute(
            "INSERT INTO import (added, title, format, left_out) VALUES (?1, ?2, ?3, ?4)",
            params![timestamp(), title, imported.format.name(), json(&imported.left_out)],
        )
        .map_err(&sql)?;
        let id = step.last_insert_rowid();
        {
            let mut insert = step
                .prepare_cached("INSERT INTO import_value VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")
                .map_err(&sql)?;
            for (number, series) in imported.series.iter().enumerate() {
                let better = series.better.map(|better| match better {
                    Direction::Lower => "lower",
                    Direction::Higher => "higher",
                });
                for (repetition, value) in series.values.iter().enumerate() {
                    let (number, repetition) = (index(number), index(repetition) + 1);
                    insert
                        .execute(params![id, number, series.name, series.unit, better, repetition, value])
                        .map_err(&sql)?;
                }
            }
        }
        step.commit().map_err(sql)?;
        Ok(id)
    }

    /// All imports, the latest first.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn imports(&self) -> Result<Vec<ImportEntry>, StoreError> {
        let sql = self.sql();
        let mut statement = self
            .connection
            .prepare(
                "SELECT id, added, title, format,
                        (SELECT count(DISTINCT series) FROM import_value WHERE import = id)
                 FROM import ORDER BY id DESC",
            )
            .map_err(&sql)?;
        let rows = statement.query_map([], |row| {
            let series: i64 = row.get(4)?;
            Ok(ImportEntry {
                id: row.get(0)?,
                added: row.get(1)?,
                title: row.get(2)?,
                format: row.get(3)?,
                series: usize::try_from(series).unwrap_or(0),
            })
        });
        rows.map_err(&sql)?.collect::<Result<_, _>>().map_err(sql)
    }

    /// The name and the values of an import.
    ///
    /// # Errors
    ///
    /// If there is none of this number, or the store cannot be read.
    pub fn import(&self, id: i64) -> Result<(String, Vec<Series>), StoreError> {
        let sql = self.sql();
        let title: Option<String> = self
            .connection
            .query_row("SELECT title FROM import WHERE id = ?1", [id], |row| row.get(0))
            .optional()
            .map_err(&sql)?;
        let title = title.ok_or_else(|| StoreError::NoRun(format!("i{id}")))?;
        let mut statement = self
            .connection
            .prepare(
                "SELECT series, name, unit, better, value FROM import_value
                 WHERE import = ?1 ORDER BY series, repetition",
            )
            .map_err(&sql)?;
        let mut rows = statement.query([id]).map_err(&sql)?;
        let (mut all, mut last) = (Vec::<Series>::new(), None);
        while let Some(row) = rows.next().map_err(&sql)? {
            let number: i64 = row.get(0).map_err(&sql)?;
            let value: f64 = row.get(4).map_err(&sql)?;
            if last != Some(number) {
                let better: Option<String> = row.get(3).map_err(&sql)?;
                all.push(Series {
                    name: row.get(1).map_err(&sql)?,
                    unit: row.get(2).map_err(&sql)?,
                    better: match better.as_deref() {
                        Some("lower") => Some(Direction::Lower),
                        Some("higher") => Some(Direction::Higher),
                        _ => None,
                    },
                    values: Vec::new(),
                });
                last = Some(number);
            }
            if let Some(series) = all.last_mut() {
                series.values.push(value);
            }
        }
        Ok((title, all))
    }
}

fn index(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::Format;

    #[test]
    fn what_was_imported_comes_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = Store::open(&folder.path().join("store.sqlite")).expect("made");
        let series = |name: &str, better, values: &[f64]| Series {
            name: name.into(),
            unit: "s".into(),
            better,
            values: values.into(),
        };
        let imported = Imported {
            format: Format::Hyperfine,
            series: vec![
                series("a: wall", Some(Direction::Lower), &[0.3, 0.1, 0.2]),
                series("a: rate", Some(Direction::Higher), &[1.0]),
                series("a: count", None, &[5.0, 5.0]),
            ],
            left_out: vec!["b".into()],
        };
        let id = store.keep_import("old.json", &imported).expect("kept");
        assert_eq!(store.import(id).expect("there"), ("old.json".to_owned(), imported.series));
        let entries = store.imports().expect("listed");
        assert_eq!((entries[0].series, entries[0].format.as_str()), (3, "hyperfine"));
        assert!(store.import(9).expect_err("none").to_string().contains("i9"));
    }
}
