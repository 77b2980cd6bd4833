//! The table of services.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use handoff_ipc::servicemanager::ServiceInfo;
use handoff_placement::Tid;
use handoff_placement::process::Status;
use serde::Serialize;

use crate::output::style;

/// What is shown of a command line, in characters: it may have megabytes.
const LONGEST_COMMAND: usize = 1024;

/// A service, as JSON has it.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    name: String,
    interface: String,
    domain: &'static str,
    pid: u32,
    uid: Option<u32>,
    dump_priority: i32,
    #[serde(flatten)]
    process: Option<Process>,
}

/// What this machine tells of the process that serves.
#[derive(Debug, Serialize)]
struct Process {
    /// Its command line, if this user may read it.
    command: Option<String>,
    /// For how long it has run.
    running_seconds: Option<u64>,
}

impl Row {
    pub(super) fn new(info: ServiceInfo) -> Self {
        Row {
            name: info.name,
            interface: info.interface,
            domain: info.context.name(),
            pid: info.pid,
            uid: info.uid,
            dump_priority: info.dump_priority.bits(),
            process: None,
        }
    }
}

/// The words of the processes' command lines, a zero byte behind each; without those that do not come within a second.
///
/// The kernel reads them from the processes' memory. That may be a file of a file system that such a process serves
/// itself (FUSE), and then it says when the read ends. So all are read at once.
fn command_lines(pids: &BTreeSet<u32>) -> BTreeMap<u32, Vec<u8>> {
    let (read, lines) = std::sync::mpsc::channel();
    for &pid in pids {
        let read = read.clone();
        let reading = move || drop(read.send((pid, std::fs::read(format!("/proc/{pid}/cmdline")).ok())));
        // Without a thread it is one that does not come.
        let _ = std::thread::Builder::new().stack_size(64 << 10).spawn(reading);
    }
    drop(read);
    let until = Instant::now() + Duration::from_secs(1);
    let next = || lines.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
    std::iter::from_fn(next).filter_map(|(pid, line)| Some((pid, line?))).collect()
}

impl Process {
    fn of(pid: u32, command: Option<&Vec<u8>>) -> Self {
        let command = command.filter(|command| !command.is_empty()).map(|command| {
            let words = command.split(|byte| *byte == 0).filter(|word| !word.is_empty());
            let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
            // A process chooses its command line; it must not move our cursor.
            words
                .join(" ")
                .chars()
                .take(LONGEST_COMMAND)
                .map(|c| if c.is_control() { '?' } else { c })
                .collect()
        });
        let running = || {
            let began = Status::of(Tid::new(i32::try_from(pid).ok()?)?).ok()?.start;
            let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
            let uptime = Duration::try_from_secs_f64(uptime.split_whitespace().next()?.parse().ok()?).ok()?;
            Some(uptime.as_secs().saturating_sub(began / rustix::param::clock_ticks_per_second()))
        };
        Self { command, running_seconds: running() }
    }
}

/// Services, one a line.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct List(Vec<Row>);

impl List {
    /// With `long`, what this machine tells of each process is added.
    pub(super) fn new(mut rows: Vec<Row>, long: bool) -> Self {
        if long {
            let pids = rows.iter().map(|row| row.pid).filter(|&pid| pid != 0).collect();
            let commands = command_lines(&pids);
            for row in rows.iter_mut().filter(|row| row.pid != 0) {
                row.process = Some(Process::of(row.pid, commands.get(&row.pid)));
            }
        }
        Self(rows)
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_long = self.0.iter().any(|row| row.process.is_some());
        let title = ["NAME", "INTERFACE", "DOMAIN", "PID", "UID", "RUNS FOR", "COMMAND"].map(str::to_owned);
        let rows = self.0.iter().map(|row| {
            let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
            let pid = if row.pid == 0 { "-".to_owned() } else { row.pid.to_string() };
            let uid = row.uid.map_or("-".to_owned(), |uid| uid.to_string());
            let runs = row.process.as_ref().and_then(|process| process.running_seconds).map(duration);
            let command = row.process.as_ref().and_then(|process| process.command.clone());
            [
                or_dash(&row.name),
                or_dash(&row.interface),
                row.domain.to_owned(),
                pid,
                uid,
                or_dash(&runs.unwrap_or_default()),
                or_dash(&command.unwrap_or_default()),
            ]
        });
        let table: Vec<[String; 7]> = std::iter::once(title).chain(rows).collect();
        let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 7] = std::array::from_fn(width);
        let shown = if is_long { 7 } else { 5 };
        for (number, row) in table.iter().enumerate() {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(widths).take(shown).enumerate() {
                match column {
                    0 => line.push_str(&format!("{cell:<width$}")),
                    3..=5 => line.push_str(&format!("  {cell:>width$}")),
                    6 => line.push_str(&format!("  {cell}")),
                    _ => line.push_str(&format!("  {cell:<width$}")),
                }
            }
            match number {
                0 => write!(f, "{}", style::paint(style::HEADING, line))?,
                _ => write!(f, "\n{line}")?,
            }
        }
        Ok(())
    }
}

/// `17 s`, `5 min`, `3 h`, `2 d`.
fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}
