//! Results of other programs in the store.

use serde::Serialize;

use super::database::Value;
use super::{Store, StoreError, json};
use crate::clock::timestamp;
use crate::import::{ImportedResults, Series};
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
    pub format: String,
    /// How many quantities it has.
    pub series: usize,
}

/// A direction as the table of imports has it.
pub(super) fn direction(value: &Value) -> Option<Direction> {
    match value.text()?.as_str() {
        "lower" => Some(Direction::Lower),
        "higher" => Some(Direction::Higher),
        _ => None,
    }
}

impl Store {
    /// Keeps imported results, as a whole or not at all; gives their number.
    pub fn keep_import(&mut self, title: &str, imported: &ImportedResults) -> Result<i64, StoreError> {
        let header = [
            timestamp().into(),
            title.into(),
            imported.format.name().into(),
            json(&imported.left_out).into(),
        ];
        self.together(|database| {
            let mut id = 0;
            let sql =
                "INSERT INTO import (added, title, format, left_out) VALUES (?1, ?2, ?3, ?4) RETURNING id";
            database.query(sql, &header, &mut |row| id = row[0].integer())?;
            let mut rows = imported.series.iter().enumerate().flat_map(|(number, series)| {
                let better = series.better.map(|better| match better {
                    Direction::Lower => "lower",
                    Direction::Higher => "higher",
                });
                series.values.iter().enumerate().map(move |(repetition, value)| -> Vec<Value> {
                    vec![
                        id.into(),
                        number.into(),
                        series.name.as_str().into(),
                        series.unit.as_str().into(),
                        better.into(),
                        (repetition + 1).into(),
                        (*value).into(),
                    ]
                })
            });
            database.fill("import_value", &mut rows)?;
            Ok(id)
        })
    }

    /// All imports, the latest first.
    pub fn imports(&self) -> Result<Vec<ImportEntry>, StoreError> {
        self.rows(
            "SELECT id, added, title, format,
                    (SELECT count(DISTINCT series) FROM import_value WHERE import_value.import = import.id)
             FROM import ORDER BY id DESC",
            &[],
            |row| ImportEntry {
                id: row[0].integer(),
                added: row[1].text().unwrap_or_default(),
                title: row[2].text().unwrap_or_default(),
                format: row[3].text().unwrap_or_default(),
                series: usize::try_from(row[4].integer()).unwrap_or(0),
            },
        )
    }

    /// The name and the values of an import.
    pub fn import(&self, id: i64) -> Result<(String, Vec<Series>), StoreError> {
        let title = self.one("SELECT title FROM import WHERE id = ?1", &[id.into()])?;
        let title =
            title.and_then(|title| title.text()).ok_or_else(|| StoreError::NoRun(format!("i{id}")))?;
        let (mut all, mut last) = (Vec::<Series>::new(), None);
        self.rows(
            "SELECT series, name, unit, better, value FROM import_value
             WHERE import = ?1 ORDER BY series, repetition",
            &[id.into()],
            |row| {
                let number = row[0].integer();
                if last != Some(number) {
                    all.push(Series {
                        name: row[1].text().unwrap_or_default(),
                        unit: row[2].text().unwrap_or_default(),
                        better: direction(&row[3]),
                        values: Vec::new(),
                    });
                    last = Some(number);
                }
                if let (Some(series), Some(value)) = (all.last_mut(), row[4].real()) {
                    series.values.push(value);
                }
            },
        )?;
        Ok((title, all))
    }
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
        let imported = ImportedResults {
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
