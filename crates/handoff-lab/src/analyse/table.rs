//! A table of runs from a CSV file: two columns of values, and what the other columns are.

use std::path::Path;

/// Why a table cannot be analysed.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("cannot read {path}")]
    Read { path: String, source: std::io::Error },
    #[error("the table is malformed: {0}")]
    Csv(#[from] csv::Error),
    #[error("the file is empty: its first line names the columns, as in `before,after`")]
    Empty,
    #[error("there is no column {name:?}; the columns are {}", columns.join(", "))]
    NoColumn { name: String, columns: Vec<String> },
    #[error("line {line}, column {column:?}: {text:?} is not a number above 0, and a ratio needs that")]
    Number {
        /// Counted from 1, with the header.
        line: u64,
        column: String,
        text: String,
    },
    #[error("{group} has {rows} rows; at least 4 are needed to say anything")]
    TooFew { group: String, rows: usize },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// The values to compare with.
    pub before: String,
    /// The values of the change.
    pub after: String,
    /// Columns whose values tell groups apart; `None` finds them.
    pub by: Option<Vec<String>>,
    /// A column with the reduction that somebody computed, in percent, to be checked.
    pub claimed: Option<String>,
}

/// The rows of one group, in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// What tells it apart, such as `readers = 50`; empty if there is one group.
    pub key: String,
    pub before: Vec<f64>,
    pub after: Vec<f64>,
    /// Claimed reductions in percent, where there is such a column.
    pub claimed: Option<Vec<f64>>,
}

/// Reads a table from a file.
pub fn read(path: &Path, columns: &Columns) -> Result<Vec<Group>, TableError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| TableError::Read { path: path.display().to_string(), source })?;
    parse(&text, columns)
}

/// Reads a table from text: see [`read`].
pub fn parse(text: &str, columns: &Columns) -> Result<Vec<Group>, TableError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let header: Vec<String> = reader.headers()?.iter().map(str::to_owned).collect();
    if header.is_empty() {
        return Err(TableError::Empty);
    }
    let find = |name: &str| {
        header
            .iter()
            .position(|column| column == name)
            .ok_or_else(|| TableError::NoColumn { name: name.to_owned(), columns: header.clone() })
    };
    let (before, after) = (find(&columns.before)?, find(&columns.after)?);
    let claimed = columns.claimed.as_deref().map(find).transpose()?;
    let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>()?;
    let keys = match &columns.by {
        Some(names) => names.iter().map(|name| find(name)).collect::<Result<_, _>>()?,
        None => grouping(&rows, header.len(), &[Some(before), Some(after), claimed]),
    };
    let mut groups: Vec<Group> = Vec::new();
    for row in &rows {
        let line = row.position().map_or(0, csv::Position::line);
        let cell = |column: usize| row.get(column).unwrap_or_default();
        let number = |column: usize, positive: bool| {
            let text = cell(column);
            let value: Option<f64> = text.trim_end_matches('%').trim_end().parse().ok();
            value.filter(|v| v.is_finite() && (!positive || *v > 0.0)).ok_or_else(|| TableError::Number {
                line,
                column: header[column].clone(),
                text: text.to_owned(),
            })
        };
        let key: Vec<String> = keys.iter().map(|key| format!("{} = {}", header[*key], cell(*key))).collect();
        let key = key.join(", ");
        let index = groups.iter().position(|group| group.key == key).unwrap_or_else(|| {
            let claimed = claimed.map(|_| Vec::new());
            groups.push(Group { key, before: Vec::new(), after: Vec::new(), claimed });
            groups.len() - 1
        });
        let group = &mut groups[index];
        group.before.push(number(before, true)?);
        group.after.push(number(after, true)?);
        if let (Some(column), Some(values)) = (claimed, &mut group.claimed) {
            values.push(number(column, false)?);
        }
    }
    if groups.is_empty() {
        return Err(TableError::TooFew { group: "the table".into(), rows: 0 });
    }
    if let Some(small) = groups.iter().find(|group| group.before.len() < 4) {
        let group = if small.key.is_empty() { "the table".to_owned() } else { small.key.clone() };
        return Err(TableError::TooFew { group, rows: small.before.len() });
    }
    Ok(groups)
}

/// The columns that tell groups apart: more than one value, and each several times. A column that
/// numbers the rows has each value once (or once a group) and is none.
fn grouping(rows: &[csv::StringRecord], columns: usize, taken: &[Option<usize>]) -> Vec<usize> {
    let distinct = |column: usize| {
        let mut values: Vec<&str> = rows.iter().filter_map(|row| row.get(column)).collect();
        values.sort_unstable();
        values.dedup();
        values.len()
    };
    (0..columns)
        .filter(|column| !taken.contains(&Some(*column)))
        .filter(|column| {
            let values = distinct(*column);
            values > 1 && values * 4 <= rows.len()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn columns() -> Columns {
        Columns { before: "before".into(), after: "after".into(), by: None, claimed: None }
    }

    #[test]
    fn groups_are_found_and_row_numbers_are_none() {
        let text = include_str!("../../tests/data/wake_affine_hackbench_seconds.csv");
        let groups = parse(text, &columns()).expect("well-formed");
        let keys: Vec<_> = groups.iter().map(|group| group.key.as_str()).collect();
        assert_eq!(keys, ["readers = 50", "readers = 100"]);
        assert_eq!(groups[0].before.len(), 10);
        let text = include_str!("../../tests/data/autocorking_cpu_utilisation.csv");
        let groups = parse(text, &columns()).expect("well-formed");
        assert_eq!((groups.len(), groups[0].key.as_str()), (1, ""));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, says) in [
            ("run,before\n1,2\n", "no column \"after\"; the columns are run, before"),
            ("before,after\n1,x\n", "line 2, column \"after\": \"x\""),
            ("before,after\n1,0\n", "above 0"),
            ("before,after\n1,-3\n", "above 0"),
            ("before,after\n1,NaN\n", "above 0"),
            ("before,after\n1\n", "malformed"),
            ("before,after\n", "0 rows"),
            ("before,after\n1,1\n1,1\n", "2 rows"),
            ("", "the file is empty"),
        ] {
            let error = parse(text, &columns()).expect_err(text).to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn any_text_is_parsed_or_refused(text in "(before,after\n)?[0-9a-z,.\"\n% -]{0,80}") {
            if let Ok(groups) = parse(&text, &columns()) {
                prop_assert!(groups.iter().all(|group| group.before.len() == group.after.len()));
                prop_assert!(groups.iter().flat_map(|group| &group.before).all(|value| *value > 0.0));
            }
        }
    }
}
