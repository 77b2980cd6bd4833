//! `handoff measure transports`: every way across, side by side.

use std::fmt;
use std::path::PathBuf;

use comfy_table::{CellAlignment, Table, presets};
use handoff_lab::doctor::Machine;
use handoff_lab::report::scale::bytes;
use handoff_lab::report::transports::{self as report, Transports};
use handoff_lab::survey;
use handoff_workloads::Placement;
use handoff_workloads::figures::{grouped, time};
use handoff_workloads::rpc::EngineKind;
use handoff_workloads::transports::{self, SurveyPlan, USUAL_PAYLOAD};

use crate::output::{Format, Output, Verdict, style};
use crate::{interrupt, progress, results};

const EXAMPLES: &str = "\
Examples:
  handoff measure transports                              1000 bytes by every way there is here
  handoff measure transports --sweep --html ways.html     from 8 B to 1 MiB, with charts
  handoff measure transports --placement two-cpus         a CPU for the sender, another for the receiver
  handoff measure transports --rate 50000                 advice for 50000 messages a second
  handoff guest run -- measure transports                 on a kernel with the Binder driver, in QEMU";

/// Payloads of `--sweep`.
const SWEEP: [usize; 6] = [8, 64, 1000, 4096, 65_536, 1 << 20];

/// Compare the ways to another process: calls, oneway, queues, shared memory, and other people's.
///
/// The receiver adds up the bytes of each message, as in the published comparison of direct, synchronous and
/// oneway calls that this repeats. For each way there is the time until the sender goes on, the time until
/// the receiver is done, messages per second and CPU time a message; then advice.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Bytes of a message; several with commas between them.
    #[arg(long = "payload", value_name = "BYTES", value_delimiter = ',', default_values_t = [USUAL_PAYLOAD])]
    payloads: Vec<usize>,
    /// From 8 B to 1 MiB.
    #[arg(long, conflicts_with = "payloads")]
    sweep: bool,
    /// What carries the calls: shm or binder, with commas between them; those that are here unless given.
    #[arg(
        long = "engine",
        value_name = "ENGINE",
        value_delimiter = ',',
        value_parser = super::engine(),
        hide_possible_values = true
    )]
    engines: Vec<EngineKind>,
    /// Where sender and receiver run: `same-cpu[:N]`, `two-cpus[:N,M]` or `unpinned`.
    #[arg(long, default_value = "unpinned", value_name = "WHERE")]
    placement: Placement,
    /// Turns that each way gets.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Messages of a turn that are sent alone.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    samples: u32,
    /// Messages of a turn that are sent in a stream.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=2000))]
    stream: u32,
    /// Messages per second that the advice is for.
    #[arg(long, default_value_t = 1000.0, value_name = "PER_SECOND")]
    rate: f64,
    /// Other people's ways, too: pipes, sockets, D-Bus, gRPC and more.
    #[arg(long)]
    peers: bool,
    /// Write a report that opens offline.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        anyhow::ensure!(
            self.rate > 0.0 && self.rate.is_finite(),
            "--rate: {}; more than 0 is needed",
            self.rate
        );
        let plan = SurveyPlan {
            payloads: if self.sweep { SWEEP.to_vec() } else { self.payloads.clone() },
            rounds: self.rounds,
            samples: self.samples,
            stream: self.stream,
        };
        plan.check()?;
        self.html.as_deref().map_or(Ok(()), results::check_writable)?;
        if self.engines.contains(&EngineKind::Local) {
            anyhow::bail!("--engine local is not needed: it is the direct call, which is always measured");
        }
        let explicit = !self.engines.is_empty();
        let engines = if explicit { self.engines.clone() } else { vec![EngineKind::Shm, EngineKind::Binder] };
        let mut chosen = transports::open(self.placement, &engines)?;
        let mut missing = Vec::new();
        for (engine, why) in &chosen.missing {
            anyhow::ensure!(!explicit, "--engine: {engine}: {why}");
            missing.push(format!("{engine}: {why}"));
        }
        if self.peers {
            super::peers::add(&mut chosen.transports, self.placement, &mut missing)?;
        }
        let interleave = interrupt::rounds(self.rounds);
        let rows =
            progress::of_turns(|tell| survey::transports(&interleave, &mut chosen.transports, &plan, tell))?;
        let advice =
            plan.payloads.iter().map(|payload| transports::advise(&rows, *payload, self.rate)).collect();
        let result = Transports {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            facts: facts(self.placement),
            rows,
            advice,
            missing,
        };
        match output.format() {
            Format::Json => output.json(&result)?,
            Format::Text => output.line(format_args!("{}", Text(&result)))?,
        }
        if let Some(path) = &self.html {
            results::write(path, report::html(&result)?)?;
            output.note(format_args!("report: {}", path.display()));
        }
        Ok(Verdict::Pass)
    }
}

fn facts(placement: Placement) -> Vec<String> {
    let machine = Machine::here().diagnose().machine;
    let mut facts: Vec<String> =
        machine.iter().map(|fact| format!("{}: {}", fact.name, fact.value)).collect();
    facts.push(format!("placement: {placement}"));
    facts
}

/// The result as a table for each payload, and what follows.
struct Text<'a>(&'a Transports);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heading = style::HEADING;
        for (index, advice) in self.0.advice.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            let title = format!("{} a message, added up by the receiver", bytes(advice.payload as f64));
            writeln!(f, "{heading}{title}{heading:#}")?;
            let mut table = Table::new();
            table.load_style(presets::NOTHING);
            table.set_header(["", "sender goes on", "p99", "receiver done", "p99", "messages/s", "CPU each"]);
            for row in self.0.rows.iter().filter(|row| row.payload == advice.payload) {
                let (caller, completion) = (row.caller.summary(), row.completion.summary());
                let name = match &row.version {
                    Some(version) => format!("  {} {version}", row.name),
                    None => format!("  {}", row.name),
                };
                table.add_row([
                    name,
                    time(caller.p50),
                    time(caller.p99),
                    time(completion.p50),
                    time(completion.p99),
                    grouped(row.rate.summary().p50),
                    time(row.cpu.summary().p50),
                ]);
            }
            for column in table.column_iter_mut().skip(1) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            writeln!(f, "{}\n", table.trim_fmt())?;
            for line in &advice.choose {
                writeln!(f, "{line}")?;
            }
            for line in &advice.order {
                writeln!(f, "Unusual: {line}")?;
            }
        }
        for line in &self.0.missing {
            writeln!(f, "not measured: {line}")?;
        }
        write!(f, "{}", self.0.facts.last().map_or("", String::as_str))
    }
}
