//! Rows and tables of a bench in the book: medians with their intervals, sizes and times with their units.

use handoff_lab::interleave::{InterleaveOutcome, Row};
use handoff_lab::stats::describe::{median, sorted};
use serde::Serialize;

/// What `cargo xtask bench` is given.
#[derive(Debug, Serialize)]
pub struct Written {
    pub rows: Vec<Row>,
    pub tables: Vec<Table>,
}

/// A table of a page, between the comments with its mark.
#[derive(Debug, Serialize)]
pub struct Table {
    pub page: &'static str,
    pub mark: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// The comparison of `ours` with the fastest of those that it was compared with.
pub fn fastest(outcome: &InterleaveOutcome, ours: &str, goal: f64, moonshot: Option<f64>) -> Option<Row> {
    let rows = outcome.rows(0.95).into_iter().filter(|row| row.subject == ours);
    let row = rows.min_by(|a, b| a.floor_median_ns.total_cmp(&b.floor_median_ns))?;
    Some(Row { name: format!("{ours}: beside the fastest peer"), goal: Some(goal), moonshot, ..row })
}

/// The median of times in nanoseconds.
pub fn middle(nanoseconds: &[u64]) -> f64 {
    median(&nanoseconds.iter().map(|ns| *ns as f64).collect::<Vec<_>>())
}

/// The median and its 95% interval, which needs no shape of the distribution: between two of the sorted
/// values, as many from each end as a fair coin shows heads at least so often, 1 time in 40.
pub fn interval(values: &[f64], show: impl Fn(&f64) -> String) -> String {
    let (sorted, count) = (sorted(values), values.len());
    // The probability of `heads` heads, and of so many or fewer.
    let (mut exactly, mut up_to) = (0.5_f64.powi(count as i32), 0.0);
    let mut from = 0;
    for heads in 0..count / 2 {
        up_to += exactly;
        if up_to > 0.025 {
            break;
        }
        from = heads + 1;
        exactly *= (count - heads) as f64 / (heads + 1) as f64;
    }
    let middle = show(&median(values));
    // Too few values for such an interval: their extremes.
    let from = from.saturating_sub(1);
    format!("{middle} [{}, {}]", show(&sorted[from]), show(&sorted[count - 1 - from]))
}

/// So many bytes, in the largest unit that they fill.
pub fn size(bytes: usize) -> String {
    match bytes {
        b if b >= 1 << 20 => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 => format!("{} KiB", b >> 10),
        b => format!("{b} B"),
    }
}

/// A time in ns or us.
pub fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e5 => format!("{:.2} us", ns / 1e3),
        ns => format!("{:.0} us", ns / 1e3),
    }
}

/// A number in thousands or millions.
pub fn grouped(value: f64) -> String {
    let thousands = (value / 1e3).round() as u64;
    if thousands >= 1000 { format!("{:.2} M", value / 1e6) } else { format!("{thousands} k") }
}
