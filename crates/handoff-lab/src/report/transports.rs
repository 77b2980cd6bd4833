//! The report of `handoff measure transports`.

use handoff_workloads::transports::{Advice, Row};
use minijinja::Value;
use serde::Serialize;

use super::chart::{IntervalRow, Intervals, Lines, Mark, Series};
use super::scale::{Kind as Axis, bytes, nanoseconds};
use super::{ReportError, page};

/// What the report is made of.
#[derive(Debug, Clone, Serialize)]
pub struct Transports {
    /// Version of the program that measured.
    pub version: String,
    /// Where it was measured: machine, kernel, placement.
    pub facts: Vec<String>,
    pub rows: Vec<Row>,
    /// What follows, for each payload.
    pub advice: Vec<Advice>,
    /// What was not measured, and why.
    pub missing: Vec<String>,
}

#[derive(Serialize)]
struct Context<'a> {
    result: &'a Transports,
    groups: Vec<Group<'a>>,
    sweep: Option<Value>,
}

#[derive(Serialize)]
struct Group<'a> {
    payload: usize,
    rows: Vec<&'a Row>,
    advice: Option<&'a Advice>,
    chart: Value,
}

pub fn html(result: &Transports) -> Result<String, ReportError> {
    let mut payloads: Vec<usize> = result.rows.iter().map(|row| row.payload).collect();
    payloads.dedup();
    let groups = payloads
        .iter()
        .map(|&payload| {
            let rows: Vec<&Row> = result.rows.iter().filter(|row| row.payload == payload).collect();
            let chart = Value::from_safe_string(times(&rows, payload).svg());
            let advice = result.advice.iter().find(|advice| advice.payload == payload);
            Group { payload, rows, advice, chart }
        })
        .collect();
    let sweep = (payloads.len() > 1).then(|| Value::from_safe_string(sweep(&result.rows).svg()));
    page::render(include_str!("transports.html"), Context { result, groups, sweep })
}

fn colour(row: &Row) -> usize {
    match (&row.version, row.answers) {
        (Some(_), _) => 6,
        (None, true) => 1,
        (None, false) => 2,
    }
}

fn times(rows: &[&Row], payload: usize) -> Intervals {
    let chart_row = |row: &&Row| {
        let done = row.done();
        IntervalRow {
            label: row.name.clone(),
            value: done.p50,
            interval: Some((done.min, done.p99)),
            colour: colour(row),
        }
    };
    Intervals {
        title: format!("Time until {} are summed up, by transport", bytes(payload as f64)),
        axis: "median, from the best to the 99th percentile".to_owned(),
        rows: rows.iter().map(chart_row).collect(),
        reference: None,
        band: None,
        kind: Axis::Log,
        format: nanoseconds,
    }
}

fn sweep(rows: &[Row]) -> Lines {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    let series = names.iter().enumerate().map(|(index, name)| Series {
        name: (*name).to_owned(),
        points: rows
            .iter()
            .filter(|row| row.name == *name)
            .map(|row| (row.payload as f64, row.done().p50))
            .collect(),
        colour: index,
    });
    Lines {
        title: "Time by payload".to_owned(),
        x_axis: "bytes of a message".to_owned(),
        y_axis: "median time until it is done".to_owned(),
        series: series.collect(),
        x_kind: Axis::Binary,
        y_kind: Axis::Log,
        x_format: bytes,
        y_format: nanoseconds,
        mark: Mark::Line,
        paired: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_workloads::measurement::{Better, Clock, Measurement, Unit};

    fn row(name: &str, payload: usize) -> Row {
        let values = |unit| {
            let values = vec![1000.0, 1500.0, 9000.0];
            Measurement::from_samples("transports/x", unit, Clock::Monotonic, Better::Lower, values).unwrap()
        };
        Row {
            name: name.to_owned(),
            version: None,
            transport: None,
            answers: true,
            payload,
            caller: values(Unit::Nanoseconds),
            completion: values(Unit::Nanoseconds),
            rate: values(Unit::PerSecond),
            cpu: values(Unit::Nanoseconds),
        }
    }

    #[test]
    fn the_page_has_every_row_and_escapes_names() {
        let advice = Advice { payload: 8, choose: vec!["take <this>".into()], order: vec!["odd".into()] };
        let mut result = Transports {
            version: "1".into(),
            facts: vec!["kernel 6".into()],
            rows: vec![row("a <b> call", 8), row("pipe", 8)],
            advice: vec![advice],
            missing: vec!["binder: no device".into()],
        };
        let page = html(&result).unwrap();
        for part in ["a &lt;b&gt; call", "pipe", "take &lt;this&gt;", "odd", "binder: no device", "<svg"] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("By payload"));
        result.rows.push(row("pipe", 64));
        assert!(html(&result).unwrap().contains("By payload"));
    }
}
