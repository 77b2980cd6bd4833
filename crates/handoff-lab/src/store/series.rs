//! Values over many runs, and what the runs are of: what a history is drawn from.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::database::Value;
use super::imports::direction;
use super::{Store, StoreError};
use crate::doctor::Diagnosis;
use crate::experiment::ArmId;
use crate::stats::judge::Direction;

/// A run or an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// A run by its number.
    Run(i64),
    /// An import by its number.
    Import(i64),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(id) => write!(f, "{id}"),
            Self::Import(id) => write!(f, "i{id}"),
        }
    }
}

/// The values of a metric in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunValues {
    pub owner: Owner,
    /// When it began or was added, in UTC.
    pub when: String,
    /// What it is of: what was said with `--label`, and `kernel` and `device` in any case if they are known.
    pub labels: BTreeMap<String, String>,
    /// The values by arm and round, in the order of the rounds; an import has them all in [`Arm::A`].
    pub values: Vec<(usize, Arm, f64)>,
}

/// An arm, as the table of samples has it.
pub type Arm = ArmId;

/// What is known of a metric.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MetricInfo {
    pub unit: String,
    pub better: Option<Direction>,
}

/// What is read of a header: a run that was killed has a header, too.
#[derive(Deserialize)]
struct StoredHeader {
    #[serde(default)]
    place: String,
    before: Diagnosis,
}

/// What is read of a result.
#[derive(Deserialize)]
struct Metrics {
    primary: Metric,
    secondary: Vec<Metric>,
}

#[derive(Deserialize)]
struct Metric {
    name: String,
    unit: String,
    question: Question,
}

#[derive(Deserialize)]
struct Question {
    direction: Direction,
}

impl Store {
    /// Says what a run or an import is of, such as `commit` or `device`; what was said before of the same name
    /// is replaced.
    pub fn label(&mut self, owner: Owner, labels: &BTreeMap<String, String>) -> Result<(), StoreError> {
        self.together(|database| {
            for (name, value) in labels {
                let values = [owner.to_string().into(), name.as_str().into(), value.as_str().into()];
                let sql = "INSERT INTO label (owner, name, value) VALUES (?1, ?2, ?3)
                           ON CONFLICT (owner, name) DO UPDATE SET value = excluded.value";
                database.execute(sql, &values)?;
            }
            Ok(())
        })
    }

    /// The titles of all runs and imports, that of the latest run first.
    pub fn titles(&self) -> Result<Vec<String>, StoreError> {
        let mut titles = Vec::new();
        for table in ["run", "import"] {
            let sql = format!("SELECT title FROM {table} GROUP BY title ORDER BY max(id) DESC");
            for title in self.rows(&sql, &[], |row| row[0].text().unwrap_or_default())? {
                if !titles.contains(&title) {
                    titles.push(title);
                }
            }
        }
        Ok(titles)
    }

    /// The metrics of the latest run or import of a title that has any.
    pub fn metrics(&self, title: &str) -> Result<Vec<String>, StoreError> {
        let text = |row: &[Value]| row[0].text().unwrap_or_default();
        let sql = "SELECT DISTINCT metric FROM sample WHERE run =
                   (SELECT max(run) FROM round WHERE run IN (SELECT id FROM run WHERE title = ?1))";
        let mut metrics = self.rows(sql, &[title.into()], text)?;
        let sql = "SELECT DISTINCT name FROM import_value WHERE import =
                   (SELECT max(id) FROM import WHERE title = ?1)";
        if metrics.is_empty() {
            metrics = self.rows(sql, &[title.into()], text)?;
        }
        // Databases differ in how they order text.
        metrics.sort_unstable();
        Ok(metrics)
    }

    /// What is known of a metric: from the latest result that was judged on it, or the latest import.
    pub fn known(&self, title: &str, metric: &str) -> Result<MetricInfo, StoreError> {
        let sql = "SELECT result FROM run WHERE id = (SELECT max(id) FROM run WHERE title = ?1 AND result IS NOT NULL)";
        let result = self.one(sql, &[title.into()])?.and_then(|result| result.text());
        let metrics = result.and_then(|text| serde_json::from_str::<Metrics>(&text).ok());
        let found = metrics.and_then(|metrics| {
            let mut all = std::iter::once(metrics.primary).chain(metrics.secondary);
            all.find(|known| known.name == metric)
        });
        if let Some(found) = found {
            return Ok(MetricInfo { unit: found.unit, better: Some(found.question.direction) });
        }
        let sql = "SELECT unit, better FROM import_value WHERE name = ?2 AND import =
                   (SELECT max(id) FROM import WHERE title = ?1) LIMIT 1";
        let found = self.rows(sql, &[title.into(), metric.into()], |row| MetricInfo {
            unit: row[0].text().unwrap_or_default(),
            better: direction(&row[1]),
        })?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// The values of a metric in the last runs and imports of a title, in the order in which they began. Runs
    /// that were killed count with their complete rounds.
    pub fn measured(&self, title: &str, metric: &str, last: usize) -> Result<Vec<RunValues>, StoreError> {
        let mut all: BTreeMap<Owner, RunValues> = BTreeMap::new();
        let mut begin = |owner, when, labels| {
            all.insert(owner, RunValues { owner, when, labels, values: Vec::new() });
        };
        let sql = "SELECT id, started, header FROM run WHERE title = ?1 ORDER BY id DESC LIMIT ?2";
        self.rows(sql, &[title.into(), last.into()], |row| {
            let labels = row[2].text().map(|header| of_header(&header)).unwrap_or_default();
            begin(Owner::Run(row[0].integer()), row[1].text().unwrap_or_default(), labels);
        })?;
        let sql = "SELECT id, added FROM import WHERE title = ?1 ORDER BY id DESC LIMIT ?2";
        self.rows(sql, &[title.into(), last.into()], |row| {
            begin(Owner::Import(row[0].integer()), row[1].text().unwrap_or_default(), BTreeMap::new());
        })?;
        let mut add = |owner: Owner, round: &Value, arm: Option<Arm>, value: &Value| {
            let round = usize::try_from(round.integer()).unwrap_or(0);
            if let (Some(measured), Some(arm), Some(value)) = (all.get_mut(&owner), arm, value.real()) {
                measured.values.push((round, arm, value));
            }
        };
        // From the oldest that is wanted, so that a long past costs nothing.
        let sql = "SELECT run, round, arm, value FROM sample WHERE metric = ?1 AND run IN
                   (SELECT id FROM run WHERE title = ?2 ORDER BY id DESC LIMIT ?3) ORDER BY run, round";
        self.rows(sql, &[metric.into(), title.into(), last.into()], |row| {
            let arm = row[2].text().and_then(|name| Arm::ALL.into_iter().find(|arm| arm.name() == name));
            add(Owner::Run(row[0].integer()), &row[1], arm, &row[3]);
        })?;
        let sql = "SELECT import, repetition, value FROM import_value WHERE name = ?1 AND import IN
                   (SELECT id FROM import WHERE title = ?2 ORDER BY id DESC LIMIT ?3) ORDER BY import, repetition";
        self.rows(sql, &[metric.into(), title.into(), last.into()], |row| {
            add(Owner::Import(row[0].integer()), &row[1], Some(Arm::A), &row[2]);
        })?;
        self.rows("SELECT owner, name, value FROM label", &[], |row| {
            let [Some(owner), Some(name), Some(value)] = [&row[0], &row[1], &row[2]].map(Value::text) else {
                return;
            };
            let number = |text: &str| text.parse().ok();
            let owner = match owner.strip_prefix('i') {
                Some(import) => number(import).map(Owner::Import),
                None => number(&owner).map(Owner::Run),
            };
            if let Some(measured) = owner.and_then(|owner| all.get_mut(&owner)) {
                measured.labels.insert(name, value);
            }
        })?;
        let mut all: Vec<RunValues> =
            all.into_values().filter(|measured| !measured.values.is_empty()).collect();
        all.sort_by(|a, b| (&a.when, a.owner).cmp(&(&b.when, b.owner)));
        Ok(all.split_off(all.len().saturating_sub(last)))
    }
}

/// What a header tells of the machine. What cannot be read is not known.
fn of_header(header: &str) -> BTreeMap<String, String> {
    let Ok(StoredHeader { place, before }) = serde_json::from_str(header) else { return BTreeMap::new() };
    let elsewhere = Some(place).filter(|place| !place.is_empty() && place != "this machine");
    // The diagnosis is that of the machine that the lab runs on.
    let kernel = if elsewhere.is_none() { before.fact("kernel").map(str::to_owned) } else { None };
    let device = elsewhere.or_else(|| before.fact("host").map(str::to_owned));
    let known = [("kernel", kernel), ("device", device)];
    known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::result::tests::{result, rounds};
    use crate::import::{Format, ImportedResults, Series};

    #[test]
    fn values_come_with_what_their_runs_are_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = Store::open(&folder.path().join("store.sqlite")).expect("made");
        let one = result();
        for commit in ["a1", "b2", "b2"] {
            let run = store.begin(&one.header).expect("begun");
            for record in rounds(2, 0.9, 1.0) {
                store.keep(run, &record).expect("kept");
            }
            let labels = BTreeMap::from([("commit".to_owned(), "replaced".to_owned())]);
            store.label(Owner::Run(run), &labels).expect("kept");
            let labels = BTreeMap::from([("commit".to_owned(), commit.to_owned())]);
            store.label(Owner::Run(run), &labels).expect("kept");
            store.finish(run, &one).expect("kept");
        }
        let measured = store.measured("t", "time", 2).expect("read");
        assert_eq!(measured.iter().map(|m| m.owner).collect::<Vec<_>>(), [Owner::Run(2), Owner::Run(3)]);
        assert_eq!((measured[0].values.len(), measured[0].labels["commit"].as_str()), (6, "b2"));
        assert!(measured[1].values.iter().any(|(round, arm, _)| (*round, *arm) == (2, Arm::Control)));
        assert_eq!(store.titles().expect("read"), ["t"]);
        assert_eq!(store.metrics("t").expect("read"), ["other", "time", "zero"]);
        let known = MetricInfo { unit: "s".into(), better: Some(Direction::Lower) };
        assert_eq!(store.known("t", "time").expect("read"), known);
        assert_eq!(store.known("t", "nothing").expect("read"), MetricInfo::default());
    }

    #[test]
    fn imports_are_a_series_as_well() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = Store::open(&folder.path().join("store.sqlite")).expect("made");
        let better = Some(Direction::Higher);
        let series = Series { name: "rate".into(), unit: "1/s".into(), better, values: vec![3.0, 4.0] };
        let imported =
            ImportedResults { format: Format::Hyperfine, series: vec![series], left_out: Vec::new() };
        let id = store.keep_import("nightly", &imported).expect("kept");
        store.label(Owner::Import(id), &BTreeMap::from([("commit".into(), "c3".into())])).expect("kept");
        let measured = store.measured("nightly", "rate", 9).expect("read");
        assert_eq!(measured[0].values, [(1, Arm::A, 3.0), (2, Arm::A, 4.0)]);
        assert_eq!(
            (measured[0].owner.to_string().as_str(), measured[0].labels["commit"].as_str()),
            ("i1", "c3")
        );
        assert_eq!(store.known("nightly", "rate").expect("read"), MetricInfo { unit: "1/s".into(), better });
        assert_eq!(store.metrics("nightly").expect("read"), ["rate"]);
    }

    #[test]
    fn a_header_tells_kernel_and_device() {
        let mut one = result();
        one.header.before.machine.push(crate::doctor::Fact { name: "host".into(), value: "lab-1".into() });
        let of = |result: &crate::experiment::result::ExperimentResult| {
            of_header(&serde_json::to_string(&result.header).expect("serialises"))
        };
        assert_eq!(of(&one)["device"], "lab-1");
        one.header.place = "a guest with 6.1".into();
        assert_eq!(of(&one)["device"], "a guest with 6.1");
        assert!(of_header("garbage").is_empty());
    }
}
