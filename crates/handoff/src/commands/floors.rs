//! `handoff measure floors`: what the bare primitives of this machine take.

use std::fmt;
use std::path::Path;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use handoff_lab::survey;
use handoff_workloads::Placement;
use handoff_workloads::figures::time;
use handoff_workloads::floor::{self, Parameters, Primitive};
use handoff_workloads::measurement::Measurement;
use serde::Serialize;

use crate::output::{Output, Verdict, style};
use crate::{interrupt, progress};

const EXAMPLES: &str = "\
Examples:
  handoff measure floors                                    all of them, 8 bytes, in each placement
  handoff measure floors --payload 65536                    with a payload that costs a copy
  handoff measure floors --floor futex,cache-line         only these
  handoff measure floors --placement same-cpu:1             both processes on CPU 1
  handoff measure floors --format json                      every sample, for programs";

/// Measure the bare primitives that a call is compared with.
///
/// Each is a round trip between two processes that do nothing else: hand a payload over, get it back.
/// They are measured in turns, so that what disturbs the machine for a while disturbs all alike.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Bytes that travel each way.
    #[arg(long, default_value_t = 8, value_name = "BYTES")]
    payload: usize,
    /// Measure only this: futex, cache-line, sched-yield, pipe, unix-stream, unix-seqpacket or memcpy.
    /// Several with commas between them.
    #[arg(long = "floor", value_name = "NAME", value_delimiter = ',', value_parser = primitive(), hide_possible_values = true)]
    floors: Vec<Primitive>,
    /// Where the two processes run: `same-cpu[:N]`, `two-cpus[:N,M]` or `unpinned`. May be given several
    /// times; all three unless given.
    #[arg(long = "placement", value_name = "WHERE")]
    placements: Vec<Placement>,
    /// Turns that each floor gets.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Samples of a turn.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=i64::from(floor::MAX_SAMPLES)))]
    samples: u32,
}

/// The primitives by their names, which a shell completes.
fn primitive() -> impl TypedValueParser<Value = Primitive> {
    PossibleValuesParser::new(Primitive::ALL.map(|primitive| primitive.name()))
        .try_map(|name| name.parse::<Primitive>())
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let floors = self.floors(output)?;
        let interleave = interrupt::rounds(self.rounds);
        let measured = progress::of_turns(|tell| survey::floors(&interleave, &floors, self.samples, tell))?;
        output.result(&Table { payload: self.payload, floors: measured })?;
        Ok(Verdict::Pass)
    }

    /// Those asked for, less those that say nothing.
    fn floors(&self, output: &Output) -> anyhow::Result<Vec<Parameters>> {
        let chosen = if self.floors.is_empty() { Primitive::ALL.to_vec() } else { self.floors.clone() };
        let placements = match self.placements.as_slice() {
            [] => every_placement(output)?,
            given => given.to_vec(),
        };
        let explicit = !self.floors.is_empty() && !self.placements.is_empty();
        let mut floors = Vec::new();
        for primitive in chosen {
            for &placement in &placements {
                let parameters = Parameters { primitive, payload: self.payload, placement };
                match parameters.check() {
                    Ok(()) => floors.push(parameters),
                    Err(error) if explicit => return Err(error.into()),
                    Err(error) if primitive.unsuited(placement).is_none() => output.warn(error),
                    Err(_) => {}
                }
            }
        }
        anyhow::ensure!(!floors.is_empty(), "none of the floors asked for can be measured here");
        Ok(floors)
    }
}

fn every_placement(output: &Output) -> anyhow::Result<Vec<Placement>> {
    let mut placements = vec![Placement::same_cpu()?];
    match Placement::two_cpus() {
        Ok(two) => placements.push(two),
        Err(_) => output.warn("only one CPU may be used here: nothing is measured on two"),
    }
    placements.push(Placement::Unpinned);
    Ok(placements)
}

/// The floors, one a line.
#[derive(Serialize)]
struct Table {
    payload: usize,
    floors: Vec<Measurement>,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heading = format!("Round trip of {} bytes between two processes", self.payload);
        writeln!(f, "{}", style::paint(style::HEADING, heading))?;
        write!(f, "{:<16}{:<14}{:>12}{:>12}{:>12}{:>12}", "floor", "placement", "min", "p50", "p99", "max")?;
        for floor in &self.floors {
            let parameter = |key| floor.parameters().get(key).map(ToString::to_string).unwrap_or_default();
            let summary = floor.summary();
            let name = Path::new(floor.name()).file_name().unwrap_or_default().to_string_lossy().into_owned();
            write!(f, "\n{name:<16}{:<14}", parameter("placement"))?;
            for value in [summary.min, summary.p50, summary.p99, summary.max] {
                write!(f, "{:>12}", time(value))?;
            }
        }
        Ok(())
    }
}
