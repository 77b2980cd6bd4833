//! The report of `handoff measure phases`: where the time of a transaction goes.

use handoff_workloads::phases::PhasesReport;
use handoff_workloads::phases::points::{Point, Side};
use minijinja::Value;
use serde::Serialize;

use super::scale::nanoseconds;
use super::waterfall::{Bar, Waterfall};
use super::{ReportError, page};

#[derive(Serialize)]
struct Context<'a> {
    report: &'a PhasesReport,
    engine: &'a str,
    count: usize,
    ratio: f64,
    waterfall: Value,
    rows: Vec<Row<'a>>,
    sides: Vec<(&'static str, u64)>,
}

/// A segment of the table.
#[derive(Serialize)]
struct Row<'a> {
    name: String,
    median_ns: u64,
    p99_ns: u64,
    to: &'a Point,
    quality: &'static str,
}

pub fn html(report: &PhasesReport) -> Result<String, ReportError> {
    let segments = report.segments().iter().zip(&report.points()[1..]);
    let rows = segments.map(|(segment, to)| Row {
        name: format!("{} \u{2192} {}", segment.from, segment.to),
        median_ns: segment.median_ns,
        p99_ns: segment.p99_ns,
        to,
        quality: to.quality.word(),
    });
    page::render(
        include_str!("phases.html"),
        Context {
            report,
            engine: report.engine(),
            count: report.transactions().len(),
            ratio: report.overhead().ratio(),
            waterfall: Value::from_safe_string(waterfall(report).svg()),
            rows: rows.collect(),
            sides: sides(report),
        },
    )
}

/// The segments end to end, each as long as its median.
fn waterfall(report: &PhasesReport) -> Waterfall {
    let mut at = 0.0;
    let bars = report.segments().iter().zip(report.points()).map(|(segment, from)| {
        let start = at;
        at += segment.median_ns as f64;
        Bar {
            label: format!("{} \u{2192} {}", segment.from, segment.to),
            from: start,
            to: at,
            colour: colour(from.side),
        }
    });
    Waterfall {
        title: "Where the time of a transaction goes".to_owned(),
        axis: "median time of each segment, end to end".to_owned(),
        bars: bars.collect(),
        format: nanoseconds,
    }
}

fn colour(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Kernel => 1,
        Side::Server => 2,
    }
}

/// How much of the medians begins on which side.
fn sides(report: &PhasesReport) -> Vec<(&'static str, u64)> {
    let of = |side: Side| {
        let segments = report.segments().iter().zip(report.points());
        segments.filter(|(_, from)| from.side == side).map(|(segment, _)| segment.median_ns).sum()
    };
    let all = [("client", Side::Client), ("kernel", Side::Kernel), ("server", Side::Server)];
    all.into_iter().map(|(name, side)| (name, of(side))).filter(|(_, ns)| *ns > 0).collect()
}
