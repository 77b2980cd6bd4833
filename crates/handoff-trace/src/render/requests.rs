//! Requests and their phases as a table.

use std::fmt;

use serde::Serialize;

use crate::diagnose::duration;
use crate::event::Tid;
use crate::model::requests::{Carrier, Pair, Side};

/// The most lines that are printed.
const LINES: usize = 20;

/// The requests of a trace, by who asks whom.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Requests(pub Vec<Pair>);

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "no task woke another, slept and was woken by it: no request was seen");
        }
        writeln!(
            f,
            "{:<44} {:>8} {:>8} {:>8} {:>8}   {:^26}   {:^26}",
            "who asks whom", "requests", "p50", "p99", "max", "caller: mean of each", "callee: mean of each"
        )?;
        write!(f, "{:<80}", "")?;
        for _ in 0..2 {
            write!(f, "   {:>8} {:>8} {:>8}", "runs", "waits", "sleeps")?;
        }
        for pair in self.0.iter().take(LINES) {
            let who = |name: &str, process: Option<Tid>| match process {
                Some(process) => format!("{name} {process}"),
                None => name.to_owned(),
            };
            let carrier = if pair.carrier == Carrier::Binder { " (binder)" } else { "" };
            let (caller, callee) =
                (who(&pair.caller, pair.caller_process), who(&pair.callee, pair.callee_process));
            write!(
                f,
                "\n{:<44} {:>8} {:>8} {:>8} {:>8}",
                format!("{caller} -> {callee}{carrier}"),
                pair.latency.count,
                duration(pair.latency.p50),
                duration(pair.latency.p99),
                duration(pair.latency.max)
            )?;
            for side in [pair.by_caller, pair.by_callee] {
                let Side { running_ns, runnable_ns, blocked_ns } = side;
                let mean = |ns: u64| duration(ns / pair.latency.count.max(1));
                write!(f, "   {:>8} {:>8} {:>8}", mean(running_ns), mean(runnable_ns), mean(blocked_ns))?;
            }
        }
        let more = self.0.len().saturating_sub(LINES);
        if more > 0 {
            write!(f, "\n({more} more pairs: --format json has all)")?;
        }
        Ok(())
    }
}
