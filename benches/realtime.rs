//! Calls that come now and then under a fully preemptible kernel (PREEMPT_RT): our call beside other people's, in a guest.
//!
//! `cargo xtask bench realtime` runs it; it needs QEMU. The guest copies this program and runs it with `--inside`. There its
//! two CPUs are emulated by the host, so that times mean nothing outside of it, and only ratios within one boot are kept.
//! A boot is one figure, as times of a subject differ between boots by more than within one.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use handoff_benches::spaced::{GOAL, Load, beside, idle, named, subjects};
use handoff_benches::tables::{Table, Written, fastest};
use handoff_benches::{LOOK, exit, in_turns, keep, recorded, rows_file};
use handoff_guest::{Acceleration, Guest, GuestCommand, Kernel};
use handoff_lab::interleave::Interleave;
use handoff_lab::stats::describe::median;
use handoff_peers::Kind;

/// The argument with which the guest runs this: measure, and print the medians.
const INSIDE: &str = "--inside";
/// Boots for figures that are kept.
const BOOTS: usize = 12;
/// A request takes a millisecond of an emulated CPU with some ways.
const LOADS: [Load; 4] = [
    idle(Duration::from_millis(10), 10),
    beside(2, false),
    Load { is_urgent: true, ..idle(Duration::from_millis(10), 10) },
    beside(2, true),
];
/// How long one boot measures at most.
const LIMIT: Duration = Duration::from_secs(900);

fn main() -> ExitCode {
    handoff_peers::play_if_peer();
    exit(if std::env::args().any(|argument| argument == INSIDE) { inside() } else { run() })
}

/// Prints the median of each subject, in nanoseconds, by its name.
fn inside() -> Result<()> {
    let (subjects, seen) = subjects(&LOADS);
    let outcome = in_turns(LOOK, subjects)?;
    let medians = seen.iter().filter_map(|seen| {
        let name = named(seen.kind, seen.load);
        let median = median(&outcome.series(&name)?.values);
        Some((name, median))
    });
    let medians: BTreeMap<String, f64> = medians.collect();
    println!("{}", serde_json::to_string(&medians)?);
    Ok(())
}

fn run() -> Result<()> {
    let file = rows_file();
    let boots = if file.is_some() { BOOTS } else { LOOK };
    let mut measured: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut kernel = String::new();
    for boot in 1..=boots {
        eprintln!("boot {boot} of {boots}");
        let (release, medians) = in_a_guest()?;
        kernel = release;
        medians.into_iter().for_each(|(name, median)| measured.entry(name).or_default().push(median));
    }
    // What did not answer in one of the boots has no figure.
    measured.retain(|_, medians| medians.len() == boots);
    let kinds: Vec<Kind> =
        Kind::ALL.into_iter().filter(|kind| measured.contains_key(&named(*kind, LOADS[0]))).collect();
    let subjects = measured.iter().map(|(name, medians)| {
        let subject = recorded(name, medians.clone());
        let load = LOADS.iter().find(|load| *name == named(Kind::OURS, **load));
        let others = load.map(|load| {
            kinds.iter().map(|kind| named(*kind, *load)).filter(|other| measured.contains_key(other))
        });
        others.into_iter().flatten().fold(subject, |subject, other| subject.against(other))
    });
    let interleave = Interleave { rounds: boots, warm_up: 0, ..Interleave::default() };
    let outcome = interleave.run(subjects.collect(), &mut |_| ())?;
    let compared = outcome.rows(0.95);
    let cell = |kind: Kind, load: Load| {
        let (ours, theirs) = (named(Kind::OURS, load), named(kind, load));
        let row = compared.iter().find(|row| row.subject == ours && row.floor == theirs);
        row.map_or_else(
            || "-".to_owned(),
            |row| format!("{:.2} [{:.2}, {:.2}]", row.ratio, row.ci95[0], row.ci95[1]),
        )
    };
    let columns = LOADS.iter().map(|load| {
        let caller = if load.is_urgent { "FIFO" } else { "ordinary" };
        format!("{caller} {}", load.spoken_hogs()).trim_end().to_owned()
    });
    let table = Table {
        page: "reference/peers.md",
        mark: "peers-realtime".to_owned(),
        columns: std::iter::once(format!("ours, of the time of, on {kernel}")).chain(columns).collect(),
        rows: kinds
            .iter()
            .map(|kind| {
                std::iter::once(kind.name().to_owned()).chain(LOADS.map(|load| cell(*kind, load))).collect()
            })
            .collect(),
    };
    let rows = LOADS.iter().filter_map(|load| {
        let row = fastest(&outcome, &named(Kind::OURS, *load), GOAL, None)?;
        Some(handoff_lab::interleave::Row { name: format!("PREEMPT_RT in a guest: {}", row.name), ..row })
    });
    keep(file, &Written { rows: rows.collect(), tables: vec![table] })
}

/// The guest's kernel, and each subject's median of one boot in nanoseconds.
fn in_a_guest() -> Result<(String, BTreeMap<String, f64>)> {
    let folder = tempfile::tempdir()?;
    // What is copied lies in the guest's memory.
    let program = folder.path().join("realtime");
    let stripped = Command::new("strip").arg("-o").arg(&program).arg(std::env::current_exe()?).status();
    ensure!(stripped.context("there is no strip (Debian's binutils)")?.success(), "strip failed");
    let mut guest = Guest::builder()
        .kernel(Kernel::RealTime)
        .acceleration(Acceleration::Tcg)
        .program(&program, "/bin/realtime")
        .boot()?;
    let release = guest.facts().release.clone();
    let output = guest.run(&GuestCommand::new("/bin/realtime").arg(INSIDE).timeout(LIMIT))?;
    guest.shutdown();
    if !output.success() {
        bail!("the guest did not measure: {}", output.stderr_text());
    }
    let warned = output.stderr_text();
    warned.lines().filter(|line| line.starts_with("warning")).for_each(|line| eprintln!("{line}"));
    Ok((release, serde_json::from_str(&output.stdout_text())?))
}
