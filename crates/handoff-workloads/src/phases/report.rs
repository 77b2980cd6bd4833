//! What phases found: the table of the original, the segments between the points, the cost of looking.

use std::fmt;

use serde::Serialize;

use super::points::{self, Point};
use super::{Parameters, PointTable};
use crate::rpc;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhasesReport {
    engine: &'static str,
    context: &'static str,
    /// The Binder driver, where the calls go through it.
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<&'static str>,
    payload: usize,
    placement: String,
    points: &'static [Point],
    /// Nanoseconds since the first point.
    transactions: Vec<Vec<u64>>,
    segments: Vec<Segment>,
    round_trip: Segment,
    overhead: Overhead,
    /// Calls that could not be followed through all points, and events that the trace lost.
    left_out: u64,
    lost_events: u64,
    #[serde(skip)]
    shown: usize,
}

/// The time between two points, over all transactions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Segment {
    pub from: &'static str,
    pub to: &'static str,
    /// The median, in nanoseconds.
    pub median_ns: u64,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: u64,
}

impl Segment {
    fn of(from: &Point, to: &Point, mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        Segment {
            from: from.name,
            to: to.name,
            median_ns: quantile(&times, 0.5),
            p99_ns: quantile(&times, 0.99),
        }
    }
}

/// What looking costs a call without stamps: medians of blocks with and without it, in turns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Overhead {
    /// The median call while nobody looks, in nanoseconds.
    pub plain_ns: f64,
    /// The median call while somebody looks, in nanoseconds.
    pub looking_ns: f64,
}

impl Overhead {
    pub(super) fn of(plain: &[u64], looking: &[u64]) -> Self {
        let median = |times: &[u64]| {
            let mut times = times.to_vec();
            times.sort_unstable();
            quantile(&times, 0.5) as f64
        };
        Overhead { plain_ns: median(plain), looking_ns: median(looking) }
    }

    /// How many times longer a call takes that is looked at.
    pub fn ratio(&self) -> f64 {
        self.looking_ns / self.plain_ns.max(1.0)
    }
}

/// The smallest value that is no smaller than this share of all (nearest rank); 0 of none.
fn quantile(sorted: &[u64], share: f64) -> u64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

impl PhasesReport {
    pub(super) fn new(parameters: &Parameters, joined: PointTable, lost: u64, overhead: Overhead) -> Self {
        let points = points::of(parameters.engine);
        let transactions: Vec<Vec<u64>> = joined
            .rows
            .into_iter()
            .map(|row| row.iter().map(|ns| ns.saturating_sub(row[0])).collect())
            .collect();
        let times = |from: usize, to: usize| -> Vec<u64> {
            transactions.iter().map(|row| row[to].saturating_sub(row[from])).collect()
        };
        let last = points.len() - 1;
        let segments = (0..last).map(|at| Segment::of(&points[at], &points[at + 1], times(at, at + 1)));
        PhasesReport {
            engine: parameters.engine.name(),
            context: parameters.context.unwrap_or(rpc::usual_context(parameters.engine)).device(),
            driver: rpc::driver_name(parameters.engine),
            payload: parameters.payload,
            placement: parameters.placement.to_string(),
            points,
            segments: segments.collect(),
            round_trip: Segment::of(&points[0], &points[last], times(0, last)),
            transactions,
            overhead,
            left_out: joined.failed,
            lost_events: lost,
            shown: parameters.calls as usize,
        }
    }

    pub fn engine(&self) -> &str {
        self.engine
    }

    /// The name of the service's context.
    pub fn context(&self) -> &str {
        self.context
    }

    /// Bytes that travelled each way.
    pub fn payload(&self) -> usize {
        self.payload
    }

    /// Where client and server ran.
    pub fn placement(&self) -> &str {
        &self.placement
    }

    pub fn points(&self) -> &'static [Point] {
        self.points
    }

    /// Every transaction: nanoseconds of each point since the first.
    pub fn transactions(&self) -> &[Vec<u64>] {
        &self.transactions
    }

    /// The time between each point and the next.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// From the first point to the last.
    pub fn round_trip(&self) -> Segment {
        self.round_trip
    }

    pub fn overhead(&self) -> Overhead {
        self.overhead
    }

    /// Calls that could not be followed through all points.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Events that the trace lost.
    pub fn lost_events(&self) -> u64 {
        self.lost_events
    }
}

/// The table as `binder_test` prints it, in seconds, and the summary below it.
impl fmt::Display for PhasesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads: Vec<String> = self.points.iter().map(|point| format!("{:>8}", point.name)).collect();
        writeln!(f, "{}", heads.join("\t"))?;
        for row in self.transactions.iter().take(self.shown) {
            let values: Vec<String> = row.iter().map(|ns| format!("{:.6}", *ns as f64 / 1e9)).collect();
            writeln!(f, "{}", values.join("\t"))?;
        }
        let us = |ns: u64| ns as f64 / 1e3;
        writeln!(f, "\n{:<19} {:>11} {:>11}  the second point is", "segment", "median us", "p99 us")?;
        for (segment, point) in self.segments.iter().zip(&self.points[1..]) {
            writeln!(
                f,
                "{:<8} - {:<8} {:>11.3} {:>11.3}  {}: {}",
                segment.from,
                segment.to,
                us(segment.median_ns),
                us(segment.p99_ns),
                point.quality.word(),
                point.source
            )?;
        }
        let whole = self.round_trip;
        writeln!(f, "{:<19} {:>11.3} {:>11.3}", "round trip", us(whole.median_ns), us(whole.p99_ns))?;
        write!(
            f,
            "\n{} transactions, {} engine, {} context, {} B, {}; looking makes a call take {:.2} times as long ({:.3} us, {:.3} us \
             without)",
            self.transactions.len(),
            self.engine,
            self.context,
            self.payload,
            self.placement,
            self.overhead.ratio(),
            self.overhead.looking_ns / 1e3,
            self.overhead.plain_ns / 1e3
        )?;
        if self.left_out > 0 {
            write!(f, "\n{} more could not be followed through all points", self.left_out)?;
        }
        if self.lost_events > 0 {
            write!(f, "\nthe trace lost {} events", self.lost_events)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Placement;
    use crate::rpc::EngineKind;

    fn report() -> PhasesReport {
        let parameters = Parameters {
            engine: EngineKind::Binder,
            context: None,
            calls: 2,
            payload: 8,
            placement: Placement::Unpinned,
        };
        let row = |step: u64| (0..15).map(|at| 5_000 + at * step).collect::<Vec<u64>>();
        let joined = PointTable { rows: vec![row(1000), row(2000), row(3000)], failed: 1, lacking: None };
        PhasesReport::new(&parameters, joined, 0, Overhead::of(&[100, 200, 300], &[400]))
    }

    #[test]
    fn the_table_is_that_of_the_original() {
        let text = report().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("  C_SEND\t   K_IOC\t K_WR_IN\t   K_ENQ\t   K_DEQ\t  K_COPY\t  S_RECV\t")
        );
        assert_eq!(lines[0].split('\t').count(), 15);
        assert!(lines[1].starts_with("0.000000\t0.000001\t0.000002\t"), "{}", lines[1]);
        assert!(lines[3].is_empty(), "as many rows as were asked for: {text}");
        assert!(text.contains("looking makes a call take 2.00 times as long"), "{text}");
        assert!(text.contains("1 more could not be followed"), "{text}");
    }

    #[test]
    fn segments_are_summed_up_over_all_transactions() {
        let report = report();
        assert_eq!(report.segments().len(), 14);
        assert_eq!((report.segments()[0].median_ns, report.segments()[0].p99_ns), (2000, 3000));
        assert_eq!(report.round_trip().median_ns, 28_000);
        let json = serde_json::to_value(&report).expect("serialises");
        assert_eq!(json["points"][3]["quality"], "near");
        assert_eq!(json["transactions"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        assert_eq!(quantile(&[], 0.5), 0);
        assert_eq!(quantile(&[7], 0.99), 7);
        assert_eq!(quantile(&[1, 2, 3, 4], 0.5), 2);
    }
}
