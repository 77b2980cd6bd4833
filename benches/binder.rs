//! What a call costs on the kernel's Binder driver, through proxy and stub, beside a bare ioctl ping-pong in C.
//!
//! `cargo xtask bench binder` runs it; without `--rows FILE` it measures a few rounds and prints them. Both
//! run in one guest, on one CPU, batch by batch in an order of its own each round: `binder/raw.c` is the
//! floor, `driver_ping_pong` of `handoff-ipc` the calls.
//!
//! A boot is one figure: from one to the next a subject's times differ by up to a third, each subject's for
//! itself, while those within a boot agree to a hundredth. Many rounds of one boot are sure of the wrong thing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use handoff_benches::recorded;
use handoff_guest::{Acceleration, Guest, GuestCommand};
use handoff_lab::interleave::{Interleave, Subject};
use handoff_lab::stats::describe::median;

/// Boots for figures that are kept.
const BOOTS: usize = 20;
/// Boots for a look: the fewest that have a 95% interval.
const LOOK: usize = 6;
/// Rounds of each boot, whose median is its figure.
const ROUNDS: usize = 7;
/// Rounds of each boot that are measured and not counted.
const WARM_UP: usize = 2;
/// Calls of one batch.
const CALLS: usize = 200;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let rows = arguments.find(|argument| argument == "--rows").and_then(|_| arguments.next());
    match measure(rows.map(PathBuf::from)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(file: Option<PathBuf>) -> Result<()> {
    let boots = if file.is_some() { BOOTS } else { LOOK };
    let mut measured = in_guests(boots)?;
    let mut subject = |name: &'static str| -> Result<Subject<'static>> {
        let medians = measured.remove(name).with_context(|| format!("the guest measured no {name:?}"))?;
        Ok(recorded(name, medians))
    };
    let subjects = vec![
        subject("raw 8 B")?,
        subject("call 8 B")?
            .against("raw 8 B")
            .called("Binder driver in a guest, one CPU, 8 B")
            .goal(1.10, Some(1.03)),
        subject("raw 64 KiB")?,
        subject("call 64 KiB")?
            .against("raw 64 KiB")
            .called("Binder driver in a guest, one CPU, 64 KiB copied into the parcel")
            .goal(1.15, None),
        subject("gathered 64 KiB")?
            .against("raw 64 KiB")
            .called("Binder driver in a guest, one CPU, 64 KiB taken from where they are")
            .goal(1.15, None),
    ];
    let interleave = Interleave { rounds: boots, warm_up: 0, ..Interleave::default() };
    let outcome = interleave.run(subjects, &mut |_| ())?;
    let rows = serde_json::to_string_pretty(&outcome.rows(0.95))?;
    match file {
        Some(file) => std::fs::write(&file, rows).with_context(|| format!("cannot write {}", file.display())),
        None => {
            println!("{rows}");
            Ok(())
        }
    }
}

/// Each subject's figure of each boot, in nanoseconds.
fn in_guests(boots: usize) -> Result<HashMap<String, Vec<f64>>> {
    let folder = tempfile::tempdir()?;
    let raw = folder.path().join("raw");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("binder/raw.c");
    let compiled = Command::new("cc").args(["-O2", "-static", "-o"]).arg(&raw).arg(&source).status();
    ensure!(compiled.context("no C compiler")?.success(), "{} does not compile", source.display());
    let calls = ping_pong()?;
    let mut measured: HashMap<String, Vec<f64>> = HashMap::new();
    for boot in 1..=boots {
        eprintln!("boot {boot} of {boots}");
        for (name, rounds) in in_a_guest(&raw, &calls)? {
            measured.entry(name).or_default().push(median(&rounds[WARM_UP.min(rounds.len())..]));
        }
    }
    Ok(measured)
}

/// Each subject's median of each round of one boot, in nanoseconds.
fn in_a_guest(raw: &Path, calls: &Path) -> Result<HashMap<String, Vec<f64>>> {
    let mut guest = Guest::builder()
        .acceleration(Acceleration::Tcg)
        .program(raw, "/bin/raw")
        .program(calls, "/bin/ping-pong")
        .boot()?;
    let script = format!("taskset 1 /bin/ping-pong /bin/raw {} {CALLS}", ROUNDS + WARM_UP);
    let output = guest.run(&GuestCommand::shell(script).timeout(Duration::from_secs(900)))?;
    guest.shutdown();
    if !output.success() {
        bail!("the guest did not measure: {}", output.stderr_text());
    }
    let text = output.stdout_text();
    let mut lines = text.lines().map(|line| line.split('\t'));
    let names: Vec<&str> = lines.next().context("the guest said nothing")?.collect();
    let mut measured: HashMap<String, Vec<f64>> = HashMap::new();
    for line in lines {
        for (name, median) in names.iter().zip(line) {
            measured.entry((*name).to_owned()).or_default().push(median.parse()?);
        }
    }
    Ok(measured)
}

/// The program of the calls, static, so that it runs in a guest.
fn ping_pong() -> Result<PathBuf> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--package", "handoff-ipc", "--example", "driver_ping_pong"])
        .args(["--message-format", "json", "--target", &triple])
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        // As a program that counts nanoseconds is built; its calls take a hundredth less.
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "driver_ping_pong")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .context("cargo does not name the program")
}
