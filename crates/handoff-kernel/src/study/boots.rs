//! What runs the arms of a study: each run is a boot of its arm's kernel while the host is quiet.
//!
//! The workload is asked for through the agent in the guest, as on every machine; the probes are looked at
//! afterwards, in the same boot, and are counters beside the workload's own.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use handoff_guest::Stopper;
use handoff_lab::doctor::{Diagnosis, Machine, Root, SystemSample, cpus};
use handoff_lab::experiment::agent::{RUN, RunAnswer};
use handoff_lab::experiment::executor::{
    ArmError, Cgroup, Executor, QuietGate, Replicate, RunRequest, wait_for_quiet,
};
use handoff_lab::experiment::{ArmId, with_causes};
use handoff_targets::agent::{Agent, Question};
use handoff_targets::{GUEST_PROGRAM, Session, TargetError};
use serde::{Deserialize, Serialize};

use super::StudyError;
use super::boot::Boot;
use super::file::Quiet;
use crate::prove::{Expectation, Finding, Probe};

/// What the kernels are called.
pub(super) const ARMS: [&str; 2] = ["without the feature", "with the feature"];

/// Between two looks at whether the host is quiet.
const GLANCE: Duration = Duration::from_millis(500);

/// How much longer than the workload itself the agent may take.
const SLACK: Duration = Duration::from_secs(30);

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

impl Booted {
    fn counts(arm: &str, others: f64) -> Self {
        Self { arm: arm.to_owned(), rejected: None, failed: false, others, boot_seconds: None, kvm: None }
    }

    fn rejected(arm: &str, reason: &str, others: f64) -> Self {
        Self { rejected: Some(reason.to_owned()), ..Self::counts(arm, others) }
    }
}

/// The boots that were written down.
pub(super) fn read_record(path: &Path) -> Vec<Booted> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Both kernels of a study on this host. A boot that the host or the guest spoiled ends the rounds, and not the
/// study.
pub(super) struct Boots<'a> {
    pub(super) kernels: [&'a Boot; 2],
    pub(super) quiet: Quiet,
    /// A line of JSON is added here for each boot.
    pub(super) record: PathBuf,
    pub(super) stopper: &'a Stopper,
    pub(super) stop: &'a AtomicBool,
    /// The boot that ended them.
    pub(super) gave_up: Option<Booted>,
}

/// Why a run of an arm gave nothing.
enum Refused {
    /// A boot that was written down ends the rounds.
    Boot(Box<Booted>, String),
    /// Something that is no matter of the boots.
    Other(String),
}

impl Executor for Boots<'_> {
    fn prepare(&mut self) -> Result<String, ArmError> {
        // A guest for each run: what is told of the machine is its host.
        Ok("this machine".to_owned())
    }

    fn program(&self) -> &Path {
        Path::new(GUEST_PROGRAM)
    }

    fn diagnose(&mut self) -> Result<Diagnosis, ArmError> {
        let host = Machine::here().diagnose();
        let counted = self.kernels.iter().all(|boot| boot.guest.spec.icount);
        Ok(if counted { host.of_counted_instructions() } else { host })
    }

    fn run(&mut self, arm: ArmId, request: &RunRequest) -> Result<Replicate, ArmError> {
        let result = self.figure(usize::from(arm == ArmId::B), request);
        let stopped = self.stopper.is_stopped();
        let result = result.map_err(|refused| {
            let (Refused::Boot(_, why) | Refused::Other(why)) = &refused;
            let why = why.clone();
            if let Refused::Boot(booted, _) = refused {
                self.gave_up = Some(*booted);
            }
            ArmError::Remote(why)
        });
        if stopped || self.gave_up.is_some() {
            self.stop.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl Boots<'_> {
    /// Boots until one boot counts, or the time for quiet is spent.
    fn figure(&self, arm: usize, request: &RunRequest) -> Result<Replicate, Refused> {
        let (name, quiet) = (ARMS[arm], &self.quiet);
        let mut reasons = Vec::new();
        let mut last = None;
        let mut left = Duration::from_secs(quiet.patience_seconds);
        let mut failures = 0;
        for _ in 0..quiet.attempts {
            let waiting = Instant::now();
            if let Err(others) = wait_for_host(quiet, left, self.stopper) {
                let reason = format!(
                    "not booted: others used {:.0}% of the host's CPUs, and a quiet moment was waited for {} s",
                    others * 100.0,
                    quiet.patience_seconds
                );
                let why = format!("{reason}; go on when the host is quiet, or raise `share` in [quiet]");
                return Err(self.ends(Booted::rejected(name, &reason, others), why));
            }
            left = left.saturating_sub(waiting.elapsed());
            let watch = Watch::start().map_err(Refused::Other)?;
            let booted = self.boot(self.kernels[arm], request);
            let others = watch.others().map_err(Refused::Other)?;
            if self.stopper.is_stopped() {
                return Err(Refused::Other("stopped".to_owned()));
            }
            let (replicate, (boot_seconds, kvm)) = match booted {
                Ok(booted) => booted,
                Err(error) => {
                    let why = with_causes(&error);
                    let reason = format!("the guest failed: {why}");
                    let booted = Booted { failed: true, ..Booted::rejected(name, &reason, others) };
                    failures += 1;
                    // Once may be the host's fault; whether it was is told, with the reason.
                    if failures > 1 {
                        return Err(self.ends(booted, why));
                    }
                    self.keep(&booted)?;
                    last = Some(booted);
                    continue;
                }
            };
            let rejected = (others > quiet.share)
                .then(|| format!("others used {:.0}% of the host's CPUs meanwhile", others * 100.0));
            let booted = Booted {
                rejected: rejected.clone(),
                boot_seconds: Some(boot_seconds),
                kvm: Some(kvm),
                ..Booted::counts(name, others)
            };
            self.keep(&booted)?;
            match rejected {
                None => return Ok(replicate),
                Some(reason) => reasons.push(reason),
            }
            last = Some(booted);
        }
        let why = format!("no boot of {} counts: {}", quiet.attempts, reasons.join("; "));
        Err(last
            .map_or_else(|| Refused::Other(why.clone()), |booted| Refused::Boot(booted.into(), why.clone())))
    }

    fn ends(&self, booted: Booted, why: String) -> Refused {
        match self.keep(&booted) {
            Ok(()) => Refused::Boot(booted.into(), why),
            Err(refused) => refused,
        }
    }

    fn keep(&self, booted: &Booted) -> Result<(), Refused> {
        let failed = |error: &dyn std::fmt::Display| {
            Refused::Other(format!("cannot write {}: {error}", self.record.display()))
        };
        let mut line = serde_json::to_vec(booted).map_err(|error| failed(&error))?;
        line.push(b'\n');
        let file = fs::File::options().create(true).append(true).open(&self.record);
        file.and_then(|mut file| file.write_all(&line)).map_err(|error| failed(&error))
    }

    /// One boot, with the workload first and the probes after it.
    fn boot(&self, kernel: &Boot, request: &RunRequest) -> Result<(Replicate, (f64, bool)), StudyError> {
        let (of_boot, stopper) = (kernel.clone(), self.stopper.clone());
        let session = Session::in_guest(&kernel.handoff, move || {
            of_boot.start(&stopper, |_| {}).map_err(|error| match error {
                StudyError::Guest(error) => error.into(),
                error => TargetError::Step {
                    target: "guest".to_owned(),
                    what: "be prepared",
                    said: error.to_string(),
                },
            })
        })?;
        let mut agent = Agent::on(session, &kernel.handoff)?;
        // The host's quiet was waited for, and the guest is this run's alone.
        let mut request =
            RunRequest { quiet: Duration::ZERO, cgroup: Cgroup::Off, proofs: Vec::new(), ..request.clone() };
        let probes = kernel.probes.iter().map(counter_name);
        request.task.limit = request.task.limit.min(Duration::from_secs(kernel.limit_seconds));
        let limit = request.task.limit.saturating_add(SLACK);
        let mut replicate = match agent.ask(&Question::new(RUN, limit), &request)? {
            RunAnswer::Done(replicate) => replicate,
            RunAnswer::Late(why) | RunAnswer::Failed(why) => {
                return Err(StudyError::Measure(format!("the workload failed in the guest: {why}")));
            }
        };
        trouble(agent.incidents().first())?;
        let Some(guest) = agent.session_mut().guest() else {
            return Err(StudyError::Measure("the guest has gone".to_owned()));
        };
        let guest = guest?;
        let facts = (guest.facts().boot_time.as_secs_f64(), guest.facts().kvm);
        let proof = kernel.prove(guest)?;
        if proof.status != 0 {
            let (status, output) = (proof.status, &proof.output);
            return Err(StudyError::Measure(format!(
                "the load of the proof ended with status {status}: {output}"
            )));
        }
        trouble(proof.incidents.first())?;
        let counts: Vec<Option<f64>> =
            proof.findings.iter().map(|finding| count(finding, proof.seconds)).collect();
        let counted = probes.zip(&counts).filter_map(|(name, count)| Some((name, (*count)?)));
        replicate.run.counters.extend(counted);
        replicate.growths = counts;
        Ok((replicate, facts))
    }
}

/// Waits until others use no more of the CPUs than they may; the last share if they do not.
fn wait_for_host(quiet: &Quiet, most: Duration, stopper: &Stopper) -> Result<(), f64> {
    if quiet.share >= 1.0 {
        return Ok(());
    }
    let gate = QuietGate { share: quiet.share, glance: GLANCE, most };
    // Where no time was counted, nothing is known of others: that is not quiet.
    wait_for_quiet(&Root::host(), gate, &|| stopper.is_stopped()).map_err(|others| others.unwrap_or(1.0))
}

fn trouble(incident: Option<&String>) -> Result<(), StudyError> {
    incident.map_or(Ok(()), |incident| {
        Err(StudyError::Measure(format!("the guest's kernel reports a {incident}")))
    })
}

/// What a probe counted, as the lab's proofs read it.
fn count(finding: &Finding, seconds: f64) -> Option<f64> {
    match finding.probe.expect {
        Expectation::Rate(_) => finding.count.map(|count| count / seconds),
        _ => finding.count,
    }
}

/// The name of a probe's counter; of a rate, it is that of a second.
pub(super) fn counter_name(probe: &Probe) -> String {
    match probe.expect {
        Expectation::Rate(_) => format!("{} per second", probe.what),
        _ => probe.what.to_string(),
    }
}

/// What others use of the host's CPUs while we boot.
struct Watch {
    root: Root,
    before: SystemSample,
    own: f64,
    started: Instant,
}

impl Watch {
    fn start() -> Result<Self, String> {
        let root = Root::host();
        Ok(Self { before: SystemSample::read(&root), own: own_seconds()?, started: Instant::now(), root })
    }

    /// The share of all CPU time that was neither idle nor ours; ended children are ours.
    fn others(&self) -> Result<f64, String> {
        let busy = SystemSample::read(&self.root).since(&self.before).busy;
        let all = self.started.elapsed().as_secs_f64() * cpus(&self.root).len().max(1) as f64;
        Ok((busy - (own_seconds()? - self.own) / all).max(0.0))
    }
}

/// CPU time of this process and of its children that have ended, in seconds.
fn own_seconds() -> Result<f64, String> {
    let text = fs::read_to_string("/proc/self/stat")
        .map_err(|error| format!("cannot read /proc/self/stat: {error}"))?;
    own_ticks(&text)
        .map(|ticks| ticks / rustix::param::clock_ticks_per_second() as f64)
        .ok_or_else(|| "/proc/self/stat is not as proc_pid_stat(5) says".to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::file::StudyGuest;

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
    fn the_hosts_steal_time_is_no_matter_to_counted_instructions() {
        let found = |icount: bool| {
            let mut guest = StudyGuest::default();
            guest.spec.icount = icount;
            let boot = Boot {
                image: PathBuf::new(),
                build: PathBuf::new(),
                guest,
                handoff: PathBuf::new(),
                load: Vec::new(),
                raw: false,
                limit_seconds: 1,
                probes: Vec::new(),
            };
            let (stopper, stop) = (Stopper::new(), AtomicBool::new(false));
            let (quiet, record) = (Quiet::default(), PathBuf::new());
            let mut boots =
                Boots { kernels: [&boot; 2], quiet, record, stopper: &stopper, stop: &stop, gave_up: None };
            let diagnosis = boots.diagnose().expect("a diagnosis");
            let ids: Vec<String> = diagnosis.findings.into_iter().map(|finding| finding.id).collect();
            (ids.contains(&"virtual.steal".to_owned()), ids.contains(&"program.debug_build".to_owned()))
        };
        assert_eq!(found(false), (true, cfg!(debug_assertions)));
        assert_eq!(found(true), (false, cfg!(debug_assertions)));
    }

    #[test]
    fn a_busy_host_is_noticed() {
        let busy = std::thread::spawn(|| {
            let spin = Instant::now();
            while spin.elapsed() < Duration::from_secs(2) {
                std::hint::black_box(0);
            }
        });
        let wait = |share| {
            let quiet = Quiet { share, patience_seconds: 0, attempts: 1 };
            wait_for_host(&quiet, Duration::ZERO, &Stopper::new())
        };
        assert!(wait(0.0).expect_err("somebody spins") > 0.0);
        busy.join().expect("it ends");
        assert_eq!(wait(1.0), Ok(()));
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
        let of = |probe, counted| {
            let finding = finding(probe, counted);
            (counter_name(&finding.probe), count(&finding, 4.0))
        };
        assert_eq!(of("function:f, >= 2", Some(8.0)), ("function:f".to_owned(), Some(8.0)));
        assert_eq!(of("function:f, >= 2/s", Some(8.0)), ("function:f per second".to_owned(), Some(2.0)));
        assert_eq!(of("function:f", None).1, None);
    }
}
