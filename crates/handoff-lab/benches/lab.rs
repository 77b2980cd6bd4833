//! What the lab itself costs: a sample in the measuring loop, and its CPU time beside that of the workloads.
//!
//! Run as `cargo xtask bench lab`; the table goes into the book.

mod table;

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use handoff_lab::experiment::executor::Local;
use handoff_lab::experiment::file::Experiment;
use handoff_lab::experiment::runner::{Options, run};
use handoff_lab::stats::describe::median;
use table::{Table, bench};

const SAMPLES: usize = 20_000;

/// Turns, in each of which every way of recording is measured once.
const TURNS: usize = 201;

/// A run of about a quarter of a second that only computes.
const EXPERIMENT: &str = r#"
title = "the lab's own cost"
[workload]
command = ["sh", "-c", "i=0; while [ $i -lt 250000 ]; do i=$((i+1)); done"]
[baseline]
name = "one"
[change]
name = "the same"
[metric]
name = "cpu"
[rounds]
rounds = 12
"#;

fn main() -> ExitCode {
    bench(measure)
}

fn measure() -> Result<Table<3>, Box<dyn std::error::Error>> {
    let (bare, vector, histogram) = samples()?;
    let folder = tempfile::tempdir()?;
    let experiment = Experiment::parse(Path::new("bench"), EXPERIMENT)?.remove(0);
    let mut here = Local::new("handoff", folder.path(), None)?;
    let result = run(&experiment, Options::default(), &mut here, &mut |_| Ok(()))?;
    let overhead = result.overhead.ok_or("nothing ran")?;
    let each = result.primary.medians[0];
    let row = |what: &str, measured: String, bound: &str| [what.to_owned(), measured, bound.to_owned()];
    let rows = vec![
        row("two readings of the clock, which every sample needs", format!("{bare:.1} ns"), ""),
        row("a whole sample: both readings and a place in a list", format!("{vector:.1} ns"), ""),
        row("recording a sample in a list", format!("{:.1} ns", vector - bare), "< 50 ns"),
        row("recording a sample in a histogram", format!("{:.1} ns", histogram - bare), "< 50 ns"),
        row(
            &format!("the lab's CPU time by that of its runs, at {each:.2} s a run"),
            format!("{:.2}%", overhead * 100.0),
            "< 1%",
        ),
    ];
    Ok(Table { mark: "lab-cost", columns: ["what", "measured", "asked for"], rows })
}

/// Nanoseconds of a sample: the clock alone, recorded in a list, recorded in a histogram.
fn samples() -> Result<(f64, f64, f64), Box<dyn std::error::Error>> {
    let mut times: Vec<f64> = Vec::with_capacity(SAMPLES);
    let mut histogram = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    let (mut bare, mut vector, mut counted) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        bare.push(turn(|took| _ = black_box(took)));
        times.clear();
        vector.push(turn(|took| times.push(black_box(took) as f64)));
        black_box(&times);
        histogram.reset();
        counted.push(turn(|took| histogram.saturating_record(black_box(took))));
        black_box(&histogram);
    }
    Ok((median(&bare), median(&vector), median(&counted)))
}

/// By the CPU time of this thread: what else the machine does is no cost of a sample.
fn turn(mut record: impl FnMut(u64)) -> f64 {
    let begun = cpu_time();
    for _ in 0..SAMPLES {
        let start = Instant::now();
        record(start.elapsed().as_nanos() as u64);
    }
    (cpu_time() - begun) / SAMPLES as f64
}

/// In nanoseconds.
fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
