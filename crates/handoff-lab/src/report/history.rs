//! `handoff lab history`: a metric over many runs, for a terminal and as a page.

use std::fmt::Write as _;

use minijinja::Value;
use serde::Serialize;

use super::chart::{IntervalRow, Intervals, Lines, Mark, Series, change, plain};
use super::scale::{Kind as Axis, compact, number};
use super::{ReportError, page};
use crate::history::{Change, History, Line, Point};
use crate::stats::describe::median;

/// The widest row of bars.
const COLUMNS: usize = 100;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The history for a terminal.
pub fn text(history: &History) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    let unit = if history.unit.is_empty() { String::new() } else { format!(" ({})", history.unit) };
    line(&format!(
        "{}: {} of {}{unit}, by {}",
        history.title,
        history.metric,
        history.what.describe(),
        history.by
    ));
    for device in &history.lines {
        line("");
        if !device.device.is_empty() {
            let others = device.against_others.as_ref().map_or_else(String::new, |others| {
                format!(", {} against the other devices (p {:.4})", change(others.ratio), others.p)
            });
            line(&format!("on {}: median {}{others}", device.device, compact(device.median)));
        }
        let [bars, marks] = bars(device);
        line(&format!("  {bars}"));
        if !device.changes.is_empty() {
            line(&format!("  {marks}"));
        }
        for segment in device.segments() {
            line(&format!("  {:>10}  {}", compact(level(segment)), span(segment)));
        }
        line("");
        if device.changes.is_empty() {
            line(&format!("  {}", none(device.points.len())));
        }
        for found in &device.changes {
            line(&format!("  {}", sentence(history, found)));
        }
    }
    out.trim_end().to_owned()
}

fn none(runs: usize) -> String {
    // Three runs on each side, and a p-value that can be small enough.
    const LEAST: usize = 8;
    if runs < LEAST {
        format!(
            "{} too few to tell a change from chance",
            if runs == 1 { "1 run is".to_owned() } else { format!("{runs} runs are") }
        )
    } else {
        format!("no change among {runs} runs")
    }
}

fn level(points: &[Point]) -> f64 {
    median(&points.iter().map(|point| point.value).collect::<Vec<_>>())
}

/// The runs of a segment, in words.
fn span(points: &[Point]) -> String {
    let count = points.len();
    match points {
        [] => "no run".to_owned(),
        [only] => format!("1 run, {}", only.label),
        [first, .., last] if first.label == last.label => format!("{count} runs, all of {}", first.label),
        [first, .., last] => format!("{count} runs, {} to {}", first.label, last.label),
    }
}

fn sentence(history: &History, found: &Change) -> String {
    let way = match (found.better, found.point.ratio > 1.0) {
        (Some(true), _) => "got better",
        (Some(false), _) => "got worse",
        (None, true) => "rose",
        (None, false) => "fell",
    };
    let interval = found.point.interval;
    let size = if interval.is_bounded() {
        format!("{} [{}, {}]", change(found.point.ratio), change(interval.low), change(interval.high))
    } else {
        change(found.point.ratio)
    };
    let [first, last] = &found.between;
    let sure = if first == last { String::new() } else { format!(", or any from {first} to {last} (95%)") };
    let mut text = format!(
        "{} {way} with {}{sure}: {size}, p {:.4}; {} was the last before it",
        history.metric, found.began, found.point.p, found.after
    );
    if found.inside {
        text = format!(
            "{} {way} between two runs of {}: {size}, p {:.4}; what changed is not the {}",
            history.metric, found.began, found.point.p, history.by
        );
    }
    if !found.matters {
        let _ = write!(text, " (less than the margin of {}%)", number(history.margin * 100.0));
    }
    text
}

/// A bar for each run, or for several where there are too many, and marks below where changes began.
fn bars(line: &Line) -> [String; 2] {
    let values: Vec<f64> = line.points.iter().map(|point| point.value).collect();
    let every = values.len().div_ceil(COLUMNS).max(1);
    let shown: Vec<f64> = values.chunks(every).map(median).collect();
    let low = shown.iter().copied().fold(f64::INFINITY, f64::min);
    let high = shown.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let bar = |value: &f64| {
        let share = if high > low { (value - low) / (high - low) } else { 0.5 };
        BARS[((share * BARS.len() as f64) as usize).min(BARS.len() - 1)]
    };
    let mark = |column: usize| {
        let begins = |change: &Change| change.point.at / every == column;
        if line.changes.iter().any(begins) { '^' } else { ' ' }
    };
    let marks: String = (0..shown.len()).map(mark).collect();
    [shown.iter().map(bar).collect(), marks.trim_end().to_owned()]
}

#[derive(Serialize)]
struct Context<'a> {
    history: &'a History,
    what: &'static str,
    devices: Vec<Device<'a>>,
    beside: Option<Value>,
    method: String,
}

#[derive(Serialize)]
struct Device<'a> {
    name: &'a str,
    runs: usize,
    chart: Value,
    sentences: Vec<Sentence>,
    none: Option<String>,
    segments: Vec<Segment>,
    points: &'a [Point],
}

#[derive(Serialize)]
struct Sentence {
    text: String,
    tone: &'static str,
}

#[derive(Serialize)]
struct Segment {
    level: f64,
    span: String,
}

/// The history as a page that opens offline.
pub fn html(history: &History) -> Result<String, ReportError> {
    let devices = history.lines.iter().map(|line| {
        let told = line.changes.iter().map(|found| Sentence {
            text: sentence(history, found),
            tone: match (found.matters, found.better) {
                (true, Some(false)) => "bad",
                (true, Some(true)) => "good",
                _ => "warn",
            },
        });
        let segments =
            line.segments().into_iter().map(|points| Segment { level: level(points), span: span(points) });
        Device {
            name: &line.device,
            runs: line.points.len(),
            chart: Value::from_safe_string(chart(history, line).svg()),
            none: line.changes.is_empty().then(|| none(line.points.len())),
            sentences: told.collect(),
            segments: segments.collect(),
            points: &line.points,
        }
    });
    let several = history.lines.len() > 1;
    let context = Context {
        history,
        what: history.what.describe(),
        devices: devices.collect(),
        beside: several.then(|| Value::from_safe_string(beside(history).svg())),
        method: format!("{}%", number(history.alpha * 100.0)),
    };
    page::render(include_str!("history.html"), context)
}

/// The runs of a device, each level in a colour of its own.
fn chart(history: &History, line: &Line) -> Lines {
    let mut from = 1;
    let series = line.segments().into_iter().enumerate().map(|(index, points)| {
        let first = from;
        from += points.len();
        let places = points.iter().enumerate();
        Series {
            name: points.first().map_or_else(String::new, |point| format!("from {}", point.label)),
            points: places.map(|(place, point)| ((first + place) as f64, point.value)).collect(),
            colour: index,
        }
    });
    let unit = if history.unit.is_empty() { String::new() } else { format!(" ({})", history.unit) };
    Lines {
        title: format!("{} in each run", history.metric),
        x_axis: "run, the oldest first".to_owned(),
        y_axis: format!("{} of {}{unit}", history.metric, history.what.describe()),
        series: series.collect(),
        x_kind: Axis::Whole,
        y_kind: Axis::Log,
        x_format: plain,
        y_format: plain,
        mark: Mark::Dots,
        paired: false,
    }
}

/// Each device against all others.
fn beside(history: &History) -> Intervals {
    let row = |line: &Line| {
        let others = line.against_others.as_ref()?;
        let interval = others.interval;
        Some(IntervalRow {
            label: line.device.clone(),
            value: others.ratio,
            interval: interval.is_bounded().then_some((interval.low, interval.high)),
            colour: usize::from(others.p <= history.alpha),
        })
    };
    Intervals {
        title: "Each device against all others".to_owned(),
        axis: "difference from the other devices".to_owned(),
        rows: history.lines.iter().filter_map(row).collect(),
        reference: Some(1.0),
        band: None,
        kind: Axis::Log,
        format: change,
    }
}
