//! What recording costs, and how fast a recording is decoded.
//!
//! `cargo xtask bench trace` runs it. Rounds go through all arms in turn, so that whatever the machine
//! does meets all alike; a figure is the median of the rounds' ratios, its interval that of the
//! median by order statistics (the sign test's), which assumes nothing of how they are distributed.

use std::io::{Read as _, Write as _};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Instant;

use handoff_trace::capture::scheduling_events;
use handoff_trace::{Capture, Config, Keep, RawTrace, TraceFs};
use serde_json::{Value, json};

const ROUNDS: usize = 21;
const BUFFER_KIB: usize = 16 << 10;

/// Senders, and as many receivers; each sender writes to each receiver, as hackbench does.
const PAIRS: usize = 10;
const MESSAGES: usize = 1000;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if args.iter().any(|arg| arg == "--workload") {
        println!("{}", hackbench());
        return ExitCode::SUCCESS;
    }
    let Some(at) = args.iter().position(|arg| arg == "--rows") else {
        // `cargo bench` and `cargo test --benches` run it without: then it measures one round.
        println!("{}", serde_json::to_string_pretty(&rows(1)).unwrap_or_default());
        return ExitCode::SUCCESS;
    };
    let rows = serde_json::to_vec_pretty(&rows(ROUNDS)).unwrap_or_default();
    match args.get(at + 1).map(|path| std::fs::write(path, rows)) {
        Some(Ok(())) => ExitCode::SUCCESS,
        other => {
            eprintln!("error: the rows were not written: {other:?}");
            ExitCode::FAILURE
        }
    }
}

/// Nanoseconds that the workload took.
fn hackbench() -> u128 {
    let pipes: Vec<_> = (0..PAIRS).map(|_| std::io::pipe().expect("a pipe")).collect();
    let (readers, writers): (Vec<_>, Vec<_>) = pipes.into_iter().unzip();
    let start = Instant::now();
    thread::scope(|scope| {
        for mut reader in readers {
            scope.spawn(move || {
                let mut message = [0; 100];
                for _ in 0..PAIRS * MESSAGES {
                    reader.read_exact(&mut message).expect("all are sent");
                }
            });
        }
        for _ in 0..PAIRS {
            scope.spawn(|| {
                for _ in 0..MESSAGES {
                    writers.iter().for_each(|mut writer| writer.write_all(&[0; 100]).expect("they read"));
                }
            });
        }
    });
    start.elapsed().as_nanos()
}

/// The workload as a child of `command`, which prints its time on a line of its own; the error is what
/// was said instead.
fn run_timed(command: &mut Command) -> Result<f64, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rev().find_map(|line| line.trim().parse::<f64>().ok());
    line.ok_or_else(|| format!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn timed(command: &mut Command) -> f64 {
    run_timed(command).unwrap_or_else(|said| panic!("{said}"))
}

fn workload() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this file"));
    command.arg("--workload");
    command
}

fn record() -> (f64, RawTrace) {
    let tracefs = TraceFs::find().expect("run as root");
    let keep = Keep::Stream { limit: 1 << 30 };
    let config = Config { events: scheduling_events(), buffer_kib: BUFFER_KIB, keep, ..Config::default() };
    let capture = Capture::start(&tracefs, &config).expect("run as root");
    let time = timed(&mut workload());
    (time, capture.finish().expect("the buffers are read"))
}

/// A recorder by somebody else: its name, and its command line.
type Recorder = (&'static str, fn() -> Command);

/// The recorders that can be compared with: those that are installed and work here.
fn others() -> Vec<Recorder> {
    let all: [Recorder; 2] = [("trace-cmd record", by_trace_cmd), ("perf record", by_perf)];
    let works = |(name, make): &Recorder| match run_timed(&mut make()) {
        Ok(_) => true,
        Err(said) => {
            eprintln!("not compared with {name}, which does not run the workload here: {}", said.trim());
            false
        }
    };
    all.into_iter().filter(works).collect()
}

/// Adds the events and the workload to a recorder's command line.
fn with_workload(mut command: Command) -> Command {
    for wanted in scheduling_events() {
        command.arg("-e").arg(format!("{}:{}", wanted.system, wanted.event));
    }
    // `--` for perf, which else takes the workload's options for its own.
    command.args(["--"]).arg(std::env::current_exe().expect("this file")).arg("--workload");
    command
}

/// Runs trace-cmd where it cannot touch the function tracer. It resets that tracer's filters whatever it
/// records, and gives up where the kernel refuses, though no event depends on them: in a mount namespace of
/// its own it finds `/dev/null` in their place.
const TRACE_CMD: &str = r#"
tracefs=$(awk '$3 == "tracefs" { print $2; exit }' /proc/self/mounts)
if [ -z "$tracefs" ]; then tracefs=/sys/kernel/tracing; mount -t tracefs tracefs $tracefs; fi
for file in "$tracefs"/set_ftrace_*; do mount --bind /dev/null "$file"; done
exec trace-cmd record -d "$@"
"#;

fn by_trace_cmd() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", TRACE_CMD, "trace-cmd"]);
    command.args(["-C", "mono", "-b", &BUFFER_KIB.to_string(), "-o", "/dev/null"]);
    with_workload(command)
}

fn by_perf() -> Command {
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-a", "-m", &format!("{}M", BUFFER_KIB >> 10), "-o", "/dev/null"]);
    with_workload(command)
}

/// Where tracefs is mounted; the other recorders mount it for the whole machine.
fn tracefs_mounts() -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let tracefs = mounts.lines().filter(|line| line.split(' ').nth(2) == Some("tracefs"));
    tracefs.filter_map(|line| Some(line.split(' ').nth(1)?.to_owned())).collect()
}

/// The size of the machine's own trace buffer; the other recorders change it.
fn global_buffer() -> Option<(std::path::PathBuf, String)> {
    let file = TraceFs::find().ok()?.root().join("buffer_size_kb");
    // Before anything was traced there is less, and what there would be: `7 (expanded: 1408)`.
    let text = std::fs::read_to_string(&file).ok()?;
    let size = text.split_whitespace().next_back()?.trim_end_matches(')').to_owned();
    Some((file, size))
}

/// All figures; mounts and the machine's own buffer are put back as they were.
fn rows(rounds: usize) -> Vec<Value> {
    let mounted = tracefs_mounts();
    let buffer = global_buffer();
    let rows = measure(rounds);
    if let Some((file, size)) = buffer {
        std::fs::write(&file, size).unwrap_or_else(|error| eprintln!("{} stays: {error}", file.display()));
    }
    for place in tracefs_mounts().iter().filter(|place| !mounted.contains(place)) {
        // Busy: another program uses it by now, and may keep it.
        let _ = rustix::mount::unmount(place.as_str(), rustix::mount::UnmountFlags::empty());
    }
    rows
}

fn measure(rounds: usize) -> Vec<Value> {
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    let others = others();
    let mut theirs = vec![Vec::new(); others.len()];
    let (mut decode, mut copy) = (Vec::new(), Vec::new());
    let (mut lost, mut events) = (0, 0);
    timed(&mut workload());
    for _ in 0..rounds {
        plain.push(timed(&mut workload()));
        let (time, raw) = record();
        ours.push(time);
        for ((_, make), times) in others.iter().zip(&mut theirs) {
            times.push(timed(&mut make()));
        }

        let start = Instant::now();
        let trace = raw.decode().expect("the kernel's pages are sound");
        let count = trace.events().len().max(1) as f64;
        decode.push(start.elapsed().as_nanos() as f64 / count);
        lost += trace.lost();
        events += trace.events().len();
        let start = Instant::now();
        let copied: usize = raw.pages.iter().map(|pages| std::hint::black_box(pages.clone()).len()).sum();
        assert_eq!(copied, raw.bytes());
        copy.push(start.elapsed().as_nanos() as f64 / count);
    }
    let note = format!("{} events a round, {lost} lost", events / rounds);
    let speed = format!("{:.1} million events a second on one CPU", 1e3 / median(&decode));
    let mut rows = vec![
        row("recording: hackbench", "recorded by Handoff", &ours, "not recorded", &plain, None, &note),
        row("decoding: one event", "decoded", &decode, "its bytes copied", &copy, None, &speed),
    ];
    for ((other, _), times) in others.iter().zip(&theirs) {
        let name = format!("recording: against {other}");
        let floor = format!("recorded by {other}");
        let note = "the same events and buffers in the same rounds";
        rows.push(row(&name, "recorded by Handoff", &ours, &floor, times, Some(1.0), note));
    }
    rows
}

fn row(
    name: &str,
    subject: &str,
    subjects: &[f64],
    floor: &str,
    floors: &[f64],
    goal: Option<f64>,
    note: &str,
) -> Value {
    let mut ratios: Vec<f64> = subjects.iter().zip(floors).map(|(subject, floor)| subject / floor).collect();
    ratios.sort_by(f64::total_cmp);
    let below = outside(ratios.len());
    let mut row = json!({
        "name": name,
        "subject": subject,
        "floor": floor,
        "subject_median_ns": median(subjects),
        "floor_median_ns": median(floors),
        "ratio": median(&ratios),
        "ci95": [ratios[below], ratios[ratios.len() - 1 - below]],
        "rounds": ratios.len(),
        "note": note,
    });
    if let Some(goal) = goal {
        row["goal"] = json!(goal);
    }
    row
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// How many values on each side lie outside the 95% interval of the median: the most of which
/// P(Binomial(n, 1/2) < that many) is at most 2.5%.
fn outside(n: usize) -> usize {
    let mut term = 0.5_f64.powi(n as i32);
    let (mut sum, mut count) = (0.0, 0);
    for k in 0..n / 2 {
        sum += term;
        if sum > 0.025 {
            break;
        }
        count = k + 1;
        term *= (n - k) as f64 / (k + 1) as f64;
    }
    count
}
