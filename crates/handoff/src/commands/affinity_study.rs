//! `handoff measure affinity-study`: what pinning costs and gives, for CPU-bound tasks.

use std::fmt;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use handoff_lab::interleave::Interleave;
use handoff_lab::stats::describe::median;
use handoff_lab::stats::paired::hodges_lehmann;
use handoff_placement::{CpuId, CpuSet, Topology};
use handoff_workloads::affinity_study::{self as study, Sample, Scenario, StudyPlan};
use serde::Serialize;

use crate::interrupt;
use crate::output::{Format, Output, Verdict, style};

const EXAMPLES: &str = "\
Examples:
  handoff measure affinity-study                          two tasks, in the three scenarios, about 20 seconds
  handoff measure affinity-study --tasks 4 --rounds 12    narrower intervals
  handoff measure affinity-study --iterations 1000000000  the work of the original study
  handoff measure affinity-study --format json > study.json";

/// Time CPU-bound tasks as the kernel places them, on one slow core, and on a fast core each.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Tasks at a time.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=512))]
    tasks: u16,
    /// Rounds; each runs the three scenarios once, in random order.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(2..=1000))]
    rounds: u16,
    /// Additions that each task makes [default: what takes half a second on a free core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    /// On machines with identical cores, slow one core down to this share of its speed with a CPU quota.
    #[arg(long, value_name = "SHARE", default_value_t = 0.44)]
    emulate: f64,
    /// Seed of the order.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// For the command itself: works as the process of the study.
    #[arg(long, hide = true, num_args = 2.., value_name = "TASKS ITERATIONS CPU")]
    worker: Option<Vec<u64>>,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        if let Some(arguments) = &self.worker {
            // Ctrl-C reaches it, too: the study decides, and waits for the step that it is in.
            interrupt::leave_alone();
            return work(arguments);
        }
        anyhow::ensure!(
            self.emulate > 0.0 && self.emulate <= 1.0,
            "--emulate is a share of a core, such as 0.44"
        );
        let machine = Topology::read()?;
        let iterations = self.iterations.unwrap_or_else(|| study::calibrate(Duration::from_millis(500)));
        let plan = StudyPlan::new(&machine, usize::from(self.tasks), iterations, self.emulate)?;
        let rounds = self.rounds(output, &plan)?;
        if rounds.is_empty() {
            return Ok(Verdict::Fail); // It was interrupted in the first round, and has said so.
        }
        let study = Study::of(plan, rounds);
        match output.format() {
            Format::Text => output.line(format_args!("{study}"))?,
            Format::Json => output.json(&study)?,
        }
        Ok(Verdict::Pass)
    }

    /// Whole rounds only; one before them is a warm-up.
    fn rounds(&self, output: &Output, plan: &StudyPlan) -> anyhow::Result<Vec<Vec<Sample>>> {
        let me = std::env::current_exe().context("the program cannot find itself")?;
        let interleave = Interleave {
            rounds: usize::from(self.rounds),
            warm_up: 1,
            seed: self.seed,
            stop: Some(interrupt::flag()),
        };
        // A terminal tells the worker to stop, too: that it has is no fault.
        let measured = interleave.rounds(Scenario::ALL.len(), |run| {
            if run.done % Scenario::ALL.len() == 0 {
                let warm_up = if run.round == 0 { " (warm-up)" } else { "" };
                output.note(format_args!("round {} of {}{warm_up}", run.round, self.rounds));
            }
            let mut worker = Command::new(&me);
            worker.args(["measure", "affinity-study", "--worker"]).env(crate::config::VARIABLE, "");
            study::run(plan, Scenario::ALL[run.subject], worker)
        })?;
        Ok(measured.values)
    }
}

fn work(arguments: &[u64]) -> anyhow::Result<Verdict> {
    let [tasks, iterations, cpus @ ..] = arguments else {
        anyhow::bail!("--worker wants tasks and iterations")
    };
    let cpus: Vec<CpuId> = cpus.iter().map(|&cpu| CpuId::try_from(cpu)).collect::<Result<_, _>>()?;
    study::worker(usize::try_from(*tasks)?, *iterations, &cpus)?;
    Ok(Verdict::Pass)
}

#[derive(Serialize)]
struct Study {
    plan: StudyPlan,
    rows: Vec<Row>,
    notes: Vec<String>,
    /// Every sample, round by round.
    rounds: Vec<Vec<Sample>>,
}

#[derive(Serialize)]
struct Row {
    scenario: Scenario,
    /// Median time of each task.
    task_ms: Vec<f64>,
    /// Highest of all rounds, in percent of one CPU.
    peak_percent: f64,
    /// Median of the sum over the tasks.
    migrations: Option<f64>,
    /// Median in joules, where the machine counts it.
    energy_j: Option<f64>,
    /// CPUs that the tasks were seen on.
    seen_on: CpuSet,
    /// Time of the slowest task against that of the first scenario, and its 95% interval.
    ratio: Option<Ratio>,
}

#[derive(Serialize, Clone, Copy)]
struct Ratio {
    estimate: f64,
    low: f64,
    high: f64,
}

/// What counts is when the last task is done.
fn slowest(sample: &Sample) -> f64 {
    sample.task_ms.iter().copied().fold(0.0, f64::max)
}

impl Study {
    fn of(plan: StudyPlan, rounds: Vec<Vec<Sample>>) -> Self {
        let rows = Scenario::ALL.map(|scenario| {
            // A round's samples are in the order of the scenarios.
            let samples: Vec<&Sample> = rounds.iter().map(|round| &round[scenario as usize]).collect();
            let middle = |values: Vec<f64>| (!values.is_empty()).then(|| median(&values));
            let free = rounds.iter().map(|round| &round[Scenario::Free as usize]);
            let ratios: Vec<f64> = samples
                .iter()
                .zip(free)
                .map(|(sample, free)| (slowest(sample) / slowest(free)).ln())
                .collect();
            let ratio = (scenario != Scenario::Free).then(|| {
                let (estimate, interval) = hodges_lehmann(&ratios, 0.95);
                Ratio { estimate: estimate.exp(), low: interval.low.exp(), high: interval.high.exp() }
            });
            Row {
                scenario,
                task_ms: (0..plan.tasks)
                    .filter_map(|task| middle(samples.iter().map(|s| s.task_ms[task]).collect()))
                    .collect(),
                peak_percent: samples.iter().map(|sample| sample.peak_percent).fold(0.0, f64::max),
                migrations: middle(
                    samples.iter().filter_map(|s| s.migrations).map(|moves| moves as f64).collect(),
                ),
                energy_j: middle(samples.iter().filter_map(|s| s.energy_j).collect()),
                seen_on: samples
                    .iter()
                    .flat_map(|s| &s.seen_on)
                    .fold(CpuSet::new(), |all, cpus| all.union(cpus)),
                ratio,
            }
        });
        let mut notes = Vec::new();
        if let Some(share) = plan.emulated {
            notes.push(format!(
                "this machine has no slow cores: CPU {} is made one by a quota of {:.0}% (EMULATED: stop and go, not a slow clock)",
                plan.slow,
                share * 100.0
            ));
        }
        if rounds.iter().flatten().any(|sample| !sample.isolated) {
            notes.push(
                "without the right to make a control group, what else runs here is in the times".to_owned(),
            );
        }
        let source = rounds.iter().flatten().find_map(|sample| sample.energy_source);
        if let Some(source) = source {
            notes.push(format!("energy is that {source}"));
        }
        if plan.tasks > plan.usable.len() {
            notes.push("there are more tasks than CPUs".to_owned());
        }
        if rounds.len() < 6 {
            notes.push("fewer than 6 rounds cannot give a 95% interval".to_owned());
        }
        Self { plan, rows: rows.into(), notes, rounds }
    }
}

impl fmt::Display for Study {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StudyPlan { tasks, iterations, usable, slow, fast, .. } = &self.plan;
        let fast: CpuSet = fast.iter().copied().collect();
        writeln!(
            f,
            "{tasks} tasks of {iterations} additions, {} rounds; slow core {slow}, fast cores {fast}\n",
            self.rounds.len()
        )?;
        let whole = usable.len() * 100;
        let heads: String = (1..=*tasks).map(|task| format!("{:>11}", format!("task {task}"))).collect();
        let head = format!(
            "{:<26}{heads}  {:>12}  {:>10}  {:<8}  slowest task against the first row",
            "", "CPU peak", "migrations", "seen on"
        );
        writeln!(f, "{}", style::paint(style::HEADING, head.trim_end()))?;
        for row in &self.rows {
            let times: String = row.task_ms.iter().map(|ms| format!("{:>8.0} ms", ms)).collect();
            let moves = row.migrations.map_or_else(|| "-".to_owned(), |moves| format!("{moves:.0}"));
            let peak = format!("{:.0} / {whole}%", row.peak_percent);
            let ratio = match row.ratio {
                None => "1".to_owned(),
                Some(Ratio { estimate, low, high }) if high.is_finite() => {
                    format!("x {estimate:.3} [{low:.3}, {high:.3}]")
                }
                Some(Ratio { estimate, .. }) => format!("x {estimate:.3}"),
            };
            let (name, seen) = (row.scenario.to_string(), row.seen_on.to_string());
            write!(f, "{name:<26}{times}  {peak:>12}  {moves:>10}  {seen:<8}  {ratio}")?;
            match row.energy_j {
                Some(energy) => writeln!(f, "  {energy:.1} J")?,
                None => writeln!(f)?,
            }
        }
        writeln!(f)?;
        self.chart(f)?;
        for note in &self.notes {
            write!(f, "\n{}", style::paint(style::WARNING, note))?;
        }
        Ok(())
    }
}

impl Study {
    /// A bar for each task, as long as its time.
    fn chart(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WIDTH: f64 = 50.0;
        let longest =
            self.rows.iter().flat_map(|row| &row.task_ms).copied().fold(f64::MIN_POSITIVE, f64::max);
        for row in &self.rows {
            for (task, ms) in row.task_ms.iter().enumerate() {
                let bar = "#".repeat(((ms / longest * WIDTH).round() as usize).max(1));
                let name = if task == 0 { row.scenario.to_string() } else { String::new() };
                writeln!(f, "{name:<26}{:>3} {bar} {ms:.0} ms", task + 1)?;
            }
        }
        Ok(())
    }
}
