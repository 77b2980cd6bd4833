//! An outcome as a page of text.

use std::fmt;

use handoff_workloads::figures::{grouped, human, time};
use handoff_workloads::measurement::Measurement;
use handoff_workloads::{Counter, Outcome};
use serde::Serialize;

use crate::output::style;

/// Prints what was measured, then the counters, then what must be known.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct Page(pub(super) Outcome);

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = &self.0;
        write!(f, "{}", style::paint(style::HEADING, &outcome.workload))?;
        for (name, value) in &outcome.parameters {
            write!(f, " {name}={value}")?;
        }
        for measurement in &outcome.measurements {
            write!(f, "\n  {}", line(measurement, &outcome.workload))?;
        }
        counters(f, &outcome.counters)?;
        let notes = outcome.measurements.iter().flat_map(Measurement::notes).chain(&outcome.notes);
        for note in notes {
            write!(f, "\n{} {note}", style::paint(style::WARNING, "note:"))?;
        }
        Ok(())
    }
}

/// Counters with a value one a line, those without together under their reason, and of the network
/// stack's only what most readers look for.
fn counters(f: &mut fmt::Formatter<'_>, counters: &[Counter]) -> fmt::Result {
    let (network, tasks): (Vec<&Counter>, _) = counters.iter().partition(|counter| is_network(&counter.name));
    let main = |counter: &&Counter| MAIN_NETWORK.contains(&counter.name.as_str());
    let (shown, left): (Vec<_>, Vec<_>) = network.into_iter().partition(main);
    let mut missing: Vec<(&str, Vec<&str>)> = Vec::new();
    for counter in tasks.into_iter().chain(shown) {
        let name = &counter.name;
        match (counter.value, counter.why_not.as_deref()) {
            (Some(value), _) if name.ends_with("task-clock") => {
                write!(f, "\n  {name:<26}{}", time(value as f64))?
            }
            (Some(value), _) => write!(f, "\n  {name:<26}{}", grouped(value as f64))?,
            (None, Some(why)) => match missing.iter_mut().find(|(reason, _)| *reason == why) {
                Some((_, names)) => names.push(name),
                None => missing.push((why, vec![name])),
            },
            (None, None) => {}
        }
    }
    for (why, names) in missing {
        write!(f, "\n  {}", style::paint(style::DIM, format!("{why}: {}", names.join(", "))))?;
    }
    if !left.is_empty() {
        let more = format!("{} more counters of the network stack with --format json", left.len());
        write!(f, "\n  {}", style::paint(style::DIM, more))?;
    }
    Ok(())
}

/// Counters of the network stack that are shown.
const MAIN_NETWORK: [&str; 3] = ["TcpExtTCPAutoCorking", "TcpOutSegs", "TcpRetransSegs"];

/// Names of nstat start with a capital; those of perf do not.
fn is_network(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
}

/// One value as it is; several as their percentiles.
fn line(measurement: &Measurement, workload: &str) -> String {
    let name = measurement.name();
    let name = name.strip_prefix(workload).and_then(|rest| rest.strip_prefix('/')).unwrap_or(name);
    let summary = measurement.summary();
    let show = |value| human(value, measurement.unit());
    if summary.count == 1 {
        return format!("{name:<26}{}", show(summary.mean));
    }
    format!(
        "{name:<26}min {}, p50 {}, p90 {}, p99 {}, max {} ({} values)",
        show(summary.min),
        show(summary.p50),
        show(summary.p90),
        show(summary.p99),
        show(summary.max),
        grouped(summary.count as f64),
    )
}
