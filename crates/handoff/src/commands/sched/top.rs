//! `handoff sched top`: live rates.

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::{Duration, Instant};

use handoff_trace::capture::scheduling_events;
use handoff_trace::model::flips::cache_domain;
use handoff_trace::model::tree::family;
use handoff_trace::render::Live;
use handoff_trace::{Capture, Config, Graph, Keep, Tid, Timeline, TraceFs};

use super::source::seconds;
use crate::interrupt;
use crate::output::{Format, Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff sched top                        the whole system, each second, until Ctrl-C
  handoff sched top -p 1234 --every 0.5    one process and what it starts
  handoff sched top -n 1 --format json     one look, for programs";

/// Show live who runs, waits, wakes and moves.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Only these processes: their threads and what they start.
    #[arg(long, short, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Vec<Tid>,
    /// How long each look lasts.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    every: Duration,
    /// How many looks (default: until Ctrl-C).
    #[arg(long, short = 'n', value_name = "LOOKS", value_parser = clap::value_parser!(u64).range(1..))]
    looks: Option<u64>,
    /// The kernel's buffer for each CPU, in KiB.
    #[arg(long, value_name = "KIB", default_value_t = 32 << 10, value_parser = clap::value_parser!(u64).range(16..=4 << 20))]
    buffer_kib: u64,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let config = Config {
            events: scheduling_events(),
            tasks: self.pid.clone(),
            buffer_kib: self.buffer_kib as usize,
            keep: Keep::Flight,
            ..Config::default()
        };
        let factor = cache_domain(Path::new("/sys/devices/system/cpu"));
        let mut capture = Capture::start(&TraceFs::find()?, &config)?;
        let redraw = output.format() == Format::Text && std::io::stdout().is_terminal();
        let mut looks = 0;
        while self.looks.is_none_or(|wanted| looks < wanted) && wait(self.every) {
            let trace = capture.snapshot()?.decode()?;
            capture.resume()?;
            let tasks = (!self.pid.is_empty()).then(|| family(&trace, &self.pid));
            let wanted = |tid: Tid| tasks.as_ref().is_none_or(|tasks| tasks.contains(&tid));
            let live = Live::of(&Graph::of(&trace, &Timeline::of(&trace), factor, wanted));
            if redraw {
                // The cursor to the upper left, and everything below it erased.
                output.bytes(b"\x1b[H\x1b[J")?;
            }
            output.result(&live)?;
            looks += 1;
        }
        Ok(if self.looks.is_some() { Verdict::Pass } else { Verdict::Ended })
    }
}

/// Waits, and says whether nobody asked to stop meanwhile.
fn wait(time: Duration) -> bool {
    let end = Instant::now() + time;
    while !interrupt::interrupted() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    false
}
