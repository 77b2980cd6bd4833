//! What the store needs of a database: SQLite or PostgreSQL. Statements are written once, with `?1`, `?2` for
//! their values and SQLite's names of types; the other database translates both.

use std::fmt;

pub(super) type Fault = Box<dyn std::error::Error + Send + Sync>;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
}

impl Value {
    /// A whole number, or 0.
    pub(super) fn integer(&self) -> i64 {
        if let Self::Integer(number) = self { *number } else { 0 }
    }

    /// A number, or nothing.
    pub(super) fn real(&self) -> Option<f64> {
        match self {
            Self::Real(number) => Some(*number),
            // SQLite gives back a whole number as it finds it shortest.
            Self::Integer(number) => Some(*number as f64),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<String> {
        if let Self::Text(text) = self { Some(text.clone()) } else { None }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Option<&str>> for Value {
    fn from(text: Option<&str>) -> Self {
        text.map_or(Self::Null, Self::from)
    }
}

/// What came of bringing a database to the present form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Present,
    /// A later handoff made it: its version.
    Newer(i64),
}

/// An open database. What happens between `BEGIN` and `COMMIT` is kept as a whole or not at all, however this
/// process ends.
pub(super) trait Database: fmt::Debug + Send {
    /// Carries out the migrations that it does not have yet, together.
    fn bring_up(&mut self, migrations: &[&str]) -> Result<Form, Fault>;

    /// Carries out a statement; gives the number of rows that it touched.
    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, Fault>;

    /// Hands over the rows of a query, one after the other.
    fn query(&mut self, sql: &str, values: &[Value], row: &mut dyn FnMut(&[Value])) -> Result<(), Fault>;

    /// Adds many rows to a table, with a value for each of its columns.
    fn fill(&mut self, table: &str, rows: &mut dyn Iterator<Item = Vec<Value>>) -> Result<(), Fault>;

    /// Begins what belongs together and will write.
    fn begin(&mut self) -> Result<(), Fault>;

    fn commit(&mut self) -> Result<(), Fault>;

    fn roll_back(&mut self);
}
