//! `handoff pin`: place what runs already, and watch that it stays there.

use std::fmt;
use std::time::Duration;

use handoff_placement::{
    AppliedPlacement, ControlGroup, CpuSet, IoPriority, LostPin, Priority, Scope, Tid, Topology, affinity,
    process, rt_was_throttled,
};
use serde::Serialize;

use super::placing::{Grouping, PlacementOptions, journal, warn_of_shortfall};
use crate::interrupt;
use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff pin 1234                              show where its threads may run, and how urgently
  handoff pin 1234 --cpus big                   the whole process, threads born meanwhile too
  handoff pin 1234 --thread --policy fifo:5     one thread
  handoff pin 1234 --tree --cpus little --nice 10
  handoff pin 1234 --cpus big --watch           put it back when the pin is lost; undo at Ctrl-C";

/// Put running threads or processes on chosen CPUs and priorities, or show where they are.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Processes (or threads, with --thread) by number.
    #[arg(required = true, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    ids: Vec<i32>,
    /// Only the thread that is named, not the whole process.
    #[arg(long)]
    thread: bool,
    /// The descendants of the process, too.
    #[arg(long, conflicts_with = "thread")]
    tree: bool,
    #[command(flatten)]
    placing: PlacementOptions,
    #[command(flatten)]
    grouping: Grouping,
    /// Stay: report and repair pins that are lost, and give everything back at the end.
    #[arg(long)]
    watch: bool,
    /// How often --watch looks, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500, requires = "watch", value_parser = clap::value_parser!(u64).range(10..))]
    every: u64,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let scope = match (self.thread, self.tree) {
            (true, _) => Scope::Thread,
            (_, true) => Scope::Tree,
            _ => Scope::Process,
        };
        let ids: Vec<Tid> = self.ids.iter().filter_map(|&id| Tid::new(id)).collect();
        let machine = Topology::read()?;
        let placement = self.placing.placement()?;
        anyhow::ensure!(
            !self.grouping.makes_group() || self.watch,
            "a control group that is made here ends with this command: add --watch, or name one with --cgroup"
        );
        let asks_for_group = self.grouping.makes_group() || self.grouping.cgroup.is_some();
        if placement == handoff_placement::Placement::default() && !asks_for_group {
            anyhow::ensure!(!self.watch, "--watch needs something to watch for, such as --cpus");
            output.result(&Table { threads: show(scope, &ids)? })?;
            return Ok(Verdict::Pass);
        }
        for &id in &ids {
            self.placing.check_cpus(id, &placement, &machine)?;
        }
        if self.watch {
            interrupt::flag(); // Before anything is changed, so that Ctrl-C gives it back.
        }
        let mut journal = journal(output);
        if let Some(journal) = &mut journal {
            for &id in &ids {
                journal.before_scope(scope, id)?;
                if placement.autogroup.is_some() {
                    journal.before_autogroup(id)?;
                }
            }
        }
        let group = self.grouping.group(&machine, journal.as_mut())?;
        self.enter(group.as_ref(), &ids)?;
        let mut done: Vec<AppliedPlacement> = Vec::new();
        for &id in &ids {
            match placement.apply(scope, id, &machine) {
                Ok(applied) => done.push(applied),
                Err(error) => {
                    // All of them or none.
                    done.iter_mut().for_each(AppliedPlacement::restore);
                    return Err(error.into());
                }
            }
        }
        done.iter().filter_map(AppliedPlacement::pin).for_each(|pin| warn_of_shortfall(output, pin));
        if self.watch {
            self.watch(output, &mut done);
            done.iter_mut().for_each(AppliedPlacement::restore);
        } else {
            output.result(&Table { threads: show(scope, &ids)? })?;
        }
        drop(group);
        // What was not watched is meant to stay.
        if let Some(journal) = journal {
            journal.close()?;
        }
        Ok(Verdict::Pass)
    }

    fn enter(&self, group: Option<&ControlGroup>, ids: &[Tid]) -> anyhow::Result<()> {
        if let Some(group) = group {
            ids.iter().try_for_each(|&id| group.take(id))?;
        }
        Ok(())
    }

    fn watch(&self, output: &Output, done: &mut [AppliedPlacement]) {
        output.note("watching; Ctrl-C gives everything back");
        let throttled_before = rt_was_throttled();
        let mut watched: Vec<WatchedPlacement<'_>> =
            done.iter_mut().map(|applied| WatchedPlacement { applied, told: Vec::new() }).collect();
        while !interrupt::interrupted() && !watched.is_empty() {
            std::thread::sleep(Duration::from_millis(self.every));
            watched.retain_mut(|watched| watched.look(output));
        }
        if throttled_before == Some(false) && rt_was_throttled() == Some(true) {
            output.warn("the kernel throttled real-time threads meanwhile: one of them used its CPU whole");
        }
    }
}

/// A placement that is looked after.
struct WatchedPlacement<'a> {
    applied: &'a mut AppliedPlacement,
    /// What was lost and could not be applied again, as it was told: once, however long it lasts.
    told: Vec<LostPin>,
}

impl WatchedPlacement<'_> {
    /// Repairs what was lost; false when the process ended.
    fn look(&mut self, output: &Output) -> bool {
        let Some(pin) = self.applied.pin_mut() else { return true };
        let lost = match pin.lost() {
            Ok(lost) => lost,
            Err(gone) => {
                output.note(gone);
                return false;
            }
        };
        if lost == self.told {
            // As before: all in order, or still in vain.
            let _ = (!lost.is_empty()).then(|| pin.reapply());
            return true;
        }
        if lost.is_empty() {
            output.note(format_args!("in force again: {{{}}}", pin.granted()));
        } else {
            lost.iter().for_each(|lost| output.warn(format_args!("lost: {lost}")));
            match pin.reapply() {
                Ok(()) => {
                    output.note(format_args!("applied again: {{{}}}", pin.granted()));
                    self.told.clear();
                    return true;
                }
                Err(error) => output.warn(format_args!("cannot be applied again for now: {error}")),
            }
        }
        self.told = lost;
        true
    }
}

#[derive(Serialize)]
struct Thread {
    tid: i32,
    comm: String,
    cpus: CpuSet,
    last_cpu: u32,
    priority: String,
    io: String,
}

/// The threads in the scope; those that end meanwhile are left out.
fn show(scope: Scope, ids: &[Tid]) -> anyhow::Result<Vec<Thread>> {
    let mut threads = Vec::new();
    for &id in ids {
        for tid in process::threads_in(scope, id)? {
            let Ok(cpus) = affinity(tid) else { continue };
            let Ok(status) = process::Status::of(tid) else { continue };
            let (priority, io) = (Priority::of(tid), IoPriority::of(tid));
            threads.push(Thread {
                tid: tid.as_raw(),
                comm: status.comm.chars().map(|c| if c.is_control() { '?' } else { c }).collect(),
                cpus,
                last_cpu: status.last_cpu,
                priority: priority.map_or_else(|_| "?".to_owned(), |priority| priority.to_string()),
                io: io.map_or_else(|_| "?".to_owned(), |io| io.to_string()),
            });
        }
        // One that was never there must not look like one without threads.
        affinity(id)?;
    }
    Ok(threads)
}

#[derive(Serialize)]
#[serde(transparent)]
struct Table {
    threads: Vec<Thread>,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>8}  {:<15}  {:<12}  {:>7}  {:<10}  io",
            "thread", "name", "may run on", "last on", "priority"
        )?;
        for thread in &self.threads {
            let Thread { tid, comm, last_cpu, priority, io, .. } = thread;
            write!(
                f,
                "\n{tid:>8}  {comm:<15}  {:<12}  {last_cpu:>7}  {priority:<10}  {io}",
                thread.cpus.to_string()
            )?;
        }
        Ok(())
    }
}
