//! One file, without a server: the default.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ToSql, TransactionBehavior, params_from_iter};

use super::database::{Database, Fault, Form, Value};

/// How long to wait for another process that writes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A store in a file.
#[derive(Debug)]
pub(super) struct Sqlite(Connection);

impl Sqlite {
    pub(super) fn open(path: &Path) -> Result<Self, Fault> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(TIMEOUT)?;
        connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL;")?;
        Ok(Self(connection))
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(match self {
            Value::Null => rusqlite::types::ToSqlOutput::from(rusqlite::types::Null),
            Value::Integer(number) => rusqlite::types::ToSqlOutput::from(*number),
            Value::Real(number) => rusqlite::types::ToSqlOutput::from(*number),
            Value::Text(text) => rusqlite::types::ToSqlOutput::from(text.as_str()),
        })
    }
}

fn value(from: ValueRef<'_>) -> Result<Value, Fault> {
    Ok(match from {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(std::str::from_utf8(text)?.to_owned()),
        ValueRef::Blob(_) => return Err("there are bytes where a number or text was".into()),
    })
}

impl Database for Sqlite {
    fn bring_up(&mut self, migrations: &[&str]) -> Result<Form, Fault> {
        let step = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i64 = step.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let known = migrations.len();
        let Some(done) = usize::try_from(version).ok().filter(|done| *done <= known) else {
            return Ok(Form::Newer(version));
        };
        for migration in &migrations[done..] {
            step.execute_batch(migration)?;
        }
        step.execute_batch(&format!("PRAGMA user_version = {known}"))?;
        step.commit()?;
        Ok(Form::Present)
    }

    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, Fault> {
        Ok(self.0.prepare_cached(sql)?.execute(params_from_iter(values))? as u64)
    }

    fn query(&mut self, sql: &str, values: &[Value], row: &mut dyn FnMut(&[Value])) -> Result<(), Fault> {
        let mut statement = self.0.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query(params_from_iter(values))?;
        let mut held = Vec::with_capacity(columns);
        while let Some(found) = rows.next()? {
            held.clear();
            for column in 0..columns {
                held.push(value(found.get_ref(column)?)?);
            }
            row(&held);
        }
        Ok(())
    }

    fn fill(&mut self, table: &str, rows: &mut dyn Iterator<Item = Vec<Value>>) -> Result<(), Fault> {
        for row in rows {
            let places: Vec<String> = (1..=row.len()).map(|place| format!("?{place}")).collect();
            let sql = format!("INSERT INTO {table} VALUES ({})", places.join(", "));
            self.0.prepare_cached(&sql)?.execute(params_from_iter(&row))?;
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), Fault> {
        Ok(self.0.execute_batch("BEGIN IMMEDIATE")?)
    }

    fn commit(&mut self) -> Result<(), Fault> {
        Ok(self.0.execute_batch("COMMIT")?)
    }

    fn roll_back(&mut self) {
        // What cannot be rolled back was never begun.
        drop(self.0.execute_batch("ROLLBACK"));
    }
}
