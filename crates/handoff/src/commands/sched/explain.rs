//! `handoff sched explain`: why it took so long.

use std::path::PathBuf;

use anyhow::{bail, ensure};
use handoff_trace::diagnose::{Window, explain_in, slowest_wakes};
use handoff_trace::render::html::{View, around, html, title};
use handoff_trace::{Tid, Timeline};

use super::source::{Source, write};
use crate::output::{Format, Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff sched explain -- my-service --once         the slowest wake-ups of a command
  handoff sched explain -i trace.dat -p 1234 -n 1    the slowest one of a process in a recording
  handoff sched explain -i trace.dat -n 1 --html slow.html
  handoff sched explain -i device.pftrace            what Perfetto recorded on an Android device
  handoff sched explain -i trace.dat --caller 1240 --callee 1250 --from 88123456789 --to 88126456789";

/// Say why the slowest wake-ups, or one transaction, took so long.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// Write a time line around the first of them, for the browser.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// How many of the slowest wake-ups.
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    slowest: u16,
    /// One transaction: the thread that called.
    #[arg(long, value_name = "TID", requires_all = ["from", "to"])]
    caller: Option<Tid>,
    /// The thread that served it.
    #[arg(long, value_name = "TID", requires = "caller")]
    callee: Option<Tid>,
    /// When it began, in nanoseconds of CLOCK_MONOTONIC (the trace's clock).
    #[arg(long, value_name = "NS", requires = "caller")]
    from: Option<u64>,
    /// When its reply was there.
    #[arg(long, value_name = "NS", requires = "caller")]
    to: Option<u64>,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        self.html.as_deref().map_or(Ok(()), crate::results::check_writable)?;
        let found = self.source.get(output)?;
        let timeline = Timeline::of(&found.trace);
        let all = match (self.caller, self.from, self.to) {
            (Some(caller), Some(start), Some(end)) => {
                let window = Window { caller, callee: self.callee, start, end };
                vec![explain_in(&found.trace, &timeline, window)?]
            }
            (None, ..) => {
                slowest_wakes(&found.trace, &timeline, usize::from(self.slowest), |tid| found.wants(tid))
            }
            _ => bail!("a transaction needs --caller, --from and --to"),
        };
        ensure!(
            !all.is_empty(),
            "none of these tasks was woken while the trace was recorded: record for longer"
        );
        if let (Some(path), Some(first)) = (&self.html, all.first()) {
            let title = title(first);
            let tasks = first.tasks();
            let view = View { title: &title, window: Some(around(first)), tasks, diagnosis: Some(first) };
            write(output, path, html(&found.trace, &timeline, &view).as_bytes())?;
        }
        match output.format() {
            Format::Json => output.json(&all)?,
            Format::Text => {
                let texts: Vec<_> = all.iter().map(ToString::to_string).collect();
                output.line(format_args!("{}", texts.join("\n").trim_end()))?;
            }
        }
        Ok(self.source.verdict())
    }
}
