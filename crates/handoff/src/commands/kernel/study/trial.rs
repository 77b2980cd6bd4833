//! One figure of a kernel: boot it while the host is quiet, run the workload, look at the probes.
//!
//! The lab runs this as the prefix of a workload: what comes out is the workload's own result, with
//! what the probes counted afterwards, in the same boot, as counters beside it.

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use handoff_guest::{GuestCommand, Stopper};
use handoff_kernel::prove::{Expectation, Finding};
use handoff_kernel::study::{Boot, PROGRAM, Quiet};
use handoff_lab::doctor::{Pulse, Root};
use handoff_workloads::{Counter, Outcome};

use serde::{Deserialize, Serialize};

use crate::commands::guest::machine::explained;
use crate::commands::guest::run::until_interrupted;
use crate::output::{Output, Verdict};

/// Between two looks at whether the host is quiet.
const GLANCE: Duration = Duration::from_millis(500);

/// Boot a kernel of a study once, for one figure
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The kernel and its guest, as `handoff kernel study` writes it
    #[arg(value_name = "FILE.json")]
    plan: PathBuf,

    /// The workload's command; its first word is replaced by the handoff of the guest
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What a trial is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) arm: String,
    pub(super) boot: Boot,
    pub(super) quiet: Quiet,
    /// A line of JSON is added here for each boot.
    pub(super) record: PathBuf,
}

/// One boot, as it is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Booted {
    pub(super) arm: String,
    /// Why it does not count.
    pub(super) rejected: Option<String>,
    /// What was wrong was wrong in the guest, and not that the host was busy.
    #[serde(default)]
    pub(super) failed: bool,
    /// The share of the host's CPU time that others used meanwhile.
    pub(super) others: f64,
    pub(super) boot_seconds: Option<f64>,
    pub(super) kvm: Option<bool>,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let text = fs::read(&self.plan).with_context(|| format!("cannot read {}", self.plan.display()))?;
        let plan: Plan = serde_json::from_slice(&text).context("the plan is no plan of a study")?;
        let mut stdin = Vec::new();
        std::io::stdin().read_to_end(&mut stdin).context("cannot read the workload")?;
        let stopper = Stopper::new();
        let outcome = until_interrupted(&stopper, || self.figure(&plan, &stdin, &stopper))?;
        output.json(&outcome)?;
        Ok(Verdict::Pass)
    }

    /// Boots until one boot counts, or patience is at its end.
    fn figure(&self, plan: &Plan, stdin: &[u8], stopper: &Stopper) -> anyhow::Result<Outcome> {
        let mut reasons = Vec::new();
        let mut patience = Duration::from_secs(plan.quiet.patience_seconds);
        let mut failures = 0;
        for _ in 0..plan.quiet.attempts {
            let waiting = Instant::now();
            if let Err(others) = wait_for_quiet(plan.quiet.share, patience, stopper) {
                let reason = format!(
                    "not booted: others used {:.0}% of the host's CPUs, and a quiet moment was waited for {} s",
                    others * 100.0,
                    plan.quiet.patience_seconds
                );
                keep(plan, Booted::rejected(&plan.arm, &reason, others))?;
                bail!("{reason}; go on when the host is quiet, or raise `share` in [quiet]");
            }
            patience = patience.saturating_sub(waiting.elapsed());
            let watch = Watch::start()?;
            let booted = self.boot(plan, stdin, stopper);
            let others = watch.others()?;
            ensure!(!stopper.is_stopped(), "stopped");
            let (outcome, (boot_seconds, kvm)) = match booted {
                Ok(booted) => booted,
                Err(error) => {
                    let reason = format!("the guest failed: {error:#}");
                    keep(plan, Booted { failed: true, ..Booted::rejected(&plan.arm, &reason, others) })?;
                    failures += 1;
                    // Once may be the host's fault; whether it was is told, with the reason.
                    if failures > 1 {
                        return Err(error);
                    }
                    continue;
                }
            };
            let rejected = (others > plan.quiet.share)
                .then(|| format!("others used {:.0}% of the host's CPUs meanwhile", others * 100.0));
            let booted = Booted {
                boot_seconds: Some(boot_seconds),
                kvm: Some(kvm),
                ..Booted::counts(&plan.arm, others)
            };
            keep(plan, Booted { rejected: rejected.clone(), ..booted })?;
            match rejected {
                None => return Ok(outcome),
                Some(reason) => reasons.push(reason),
            }
        }
        bail!("no boot of {} counts: {}", plan.quiet.attempts, reasons.join("; "))
    }

    /// One boot, with the workload first and the probes after it.
    fn boot(&self, plan: &Plan, stdin: &[u8], stopper: &Stopper) -> anyhow::Result<(Outcome, (f64, bool))> {
        let mut guest = plan.boot.start(stopper, |_| {})?;
        let facts = (guest.facts().boot_time.as_secs_f64(), guest.facts().kvm);
        let command = GuestCommand::new(PROGRAM)
            .args(&self.command[1..])
            .stdin(stdin)
            .timeout(Duration::from_secs(plan.boot.limit_seconds));
        let result = guest.run(&command).map_err(explained)?;
        ensure!(
            result.success(),
            "the workload ended with status {} in the guest: {}",
            result.status,
            result.stderr_text().trim()
        );
        if let Some(incident) = result.incidents.first() {
            bail!("the guest's kernel reports a {incident}");
        }
        let mut outcome: Outcome =
            serde_json::from_slice(&result.stdout).context("the workload's result cannot be read")?;
        let proof = plan.boot.prove(&mut guest)?;
        ensure!(
            proof.status == 0,
            "the load of the proof ended with status {}: {}",
            proof.status,
            proof.output
        );
        if let Some(incident) = proof.incidents.first() {
            bail!("the guest's kernel reports a {incident}");
        }
        outcome.counters.extend(proof.findings.iter().map(|finding| counter(finding, proof.seconds)));
        Ok((outcome, facts))
    }
}

/// What a probe counted, as the lab's proofs read it.
fn counter(finding: &Finding, seconds: f64) -> Counter {
    let unknown = || finding.note.clone().unwrap_or_else(|| "not counted".to_owned());
    let count = match finding.probe.expect {
        Expectation::Rate(_) => finding.count.map(|count| count / seconds),
        _ => finding.count,
    };
    Counter::new(counter_name(&finding.probe), count.map(|count| count as u64).ok_or_else(unknown))
}

/// The name of a probe's counter; of a rate, it is that of a second.
pub(super) fn counter_name(probe: &handoff_kernel::prove::Probe) -> String {
    match probe.expect {
        Expectation::Rate(_) => format!("{} per second", probe.what),
        _ => probe.what.to_string(),
    }
}

impl Booted {
    fn counts(arm: &str, others: f64) -> Self {
        Self { arm: arm.to_owned(), rejected: None, failed: false, others, boot_seconds: None, kvm: None }
    }

    fn rejected(arm: &str, reason: &str, others: f64) -> Self {
        Self { rejected: Some(reason.to_owned()), ..Self::counts(arm, others) }
    }
}

fn keep(plan: &Plan, booted: Booted) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(&booted)?;
    line.push(b'\n');
    let file = fs::File::options().create(true).append(true).open(&plan.record);
    let failed = || format!("cannot write {}", plan.record.display());
    file.with_context(failed)?.write_all(&line).with_context(failed)
}

/// Waits until others use no more of the CPUs than they may; the last share if they do not.
fn wait_for_quiet(share: f64, patience: Duration, stopper: &Stopper) -> Result<(), f64> {
    if share >= 1.0 {
        return Ok(());
    }
    let (root, started) = (Root::new("/"), Instant::now());
    loop {
        let before = Pulse::read(&root);
        std::thread::sleep(GLANCE);
        let busy = Pulse::read(&root).since(&before).busy;
        if busy <= share {
            return Ok(());
        }
        if started.elapsed() >= patience || stopper.is_stopped() {
            return Err(busy);
        }
    }
}

/// What others use of the host's CPUs while we boot.
struct Watch {
    root: Root,
    before: Pulse,
    own: f64,
    started: Instant,
}

impl Watch {
    fn start() -> anyhow::Result<Self> {
        let root = Root::new("/");
        Ok(Self { before: Pulse::read(&root), own: own_seconds()?, started: Instant::now(), root })
    }

    /// The share of all CPU time that was neither idle nor ours; ended children are ours.
    fn others(&self) -> anyhow::Result<f64> {
        let busy = Pulse::read(&self.root).since(&self.before).busy;
        let all = self.started.elapsed().as_secs_f64() * cpus()?;
        Ok((busy - (own_seconds()? - self.own) / all).max(0.0))
    }
}

fn cpus() -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let is_cpu = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    Ok(text.lines().filter(is_cpu).count().max(1) as f64)
}

/// CPU time of this process and of its children that have ended, in seconds.
fn own_seconds() -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    own_ticks(&text)
        .map(|ticks| ticks / rustix::param::clock_ticks_per_second() as f64)
        .context("/proc/self/stat is not as proc_pid_stat(5) says")
}

/// utime, stime, cutime and cstime: the 14th to the 17th field; the second may hold blanks.
fn own_ticks(stat: &str) -> Option<f64> {
    let behind_name = stat.rsplit_once(')')?.1;
    let ticks: Vec<f64> = behind_name
        .split_whitespace()
        .skip(11)
        .take(4)
        .map(|word| word.parse().ok())
        .collect::<Option<_>>()?;
    (ticks.len() == 4).then(|| ticks.iter().sum())
}

/// The boots that were written down.
pub(super) fn read_record(path: &Path) -> Vec<Booted> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_time_is_read_behind_any_name() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";
        assert_eq!(own_ticks(stat), Some(11.0 + 12.0 + 13.0 + 14.0));
        assert_eq!(own_ticks("7 (a) S 1 2"), None);
        let before = own_seconds().expect("proc");
        // It is counted in ticks, and others may have the CPU meanwhile.
        let spin = Instant::now();
        while own_seconds().expect("proc") <= before {
            assert!(spin.elapsed() < Duration::from_secs(60), "what we use is not counted");
        }
    }

    #[test]
    fn a_busy_host_is_noticed() {
        let stopper = Stopper::new();
        let busy = std::thread::spawn(|| {
            let spin = Instant::now();
            while spin.elapsed() < Duration::from_secs(2) {
                std::hint::black_box(0);
            }
        });
        let share = wait_for_quiet(0.0, Duration::ZERO, &stopper).expect_err("somebody spins");
        assert!(share > 0.0);
        busy.join().expect("it ends");
        assert_eq!(wait_for_quiet(1.0, Duration::ZERO, &stopper), Ok(()));
    }

    #[test]
    fn a_rate_is_counted_by_the_second() {
        let finding = |probe: &str, count| Finding {
            probe: probe.parse().expect("a probe"),
            means: String::new(),
            count,
            holds: true,
            note: None,
            branches: Vec::new(),
        };
        let of = |probe, count| counter(&finding(probe, count), 4.0);
        assert_eq!(of("function:f, >= 2", Some(8.0)), Counter::new("function:f", Ok(8)));
        assert_eq!(of("function:f, >= 2/s", Some(8.0)), Counter::new("function:f per second", Ok(2)));
        assert_eq!(of("function:f", None).value, None);
    }
}
