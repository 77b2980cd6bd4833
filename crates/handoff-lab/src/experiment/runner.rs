//! Rounds of A, A' and B in a shuffled order, until the rule says stop.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use handoff_workloads::process_cpu_time;

use super::ArmId;
use super::difference::compare;
use super::executor::{ArmError, Executor, RunRequest};
use super::file::{Experiment, Metric};
use super::result::{
    Ending, Evidence, ExperimentResult, Header, RequestedMetric, RoundRecord, Sample, conclude,
};
use super::task::{MetricSemantics, Run};
use crate::clock::timestamp;
use crate::doctor::Diagnosis;
use crate::interleave::orders;
use crate::stats::judge::{Round, log_ratios};

/// How to run an experiment.
#[derive(Debug, Clone, Default)]
pub struct Options<'a> {
    /// The command that repeats it.
    pub command: String,
    /// When this becomes true, the run ends after the present run of an arm.
    pub stop: Option<&'a AtomicBool>,
    /// Rounds of an earlier run of the same file and seed that was interrupted.
    pub resume: Vec<RoundRecord>,
}

/// What a run tells while it goes on.
#[derive(Debug)]
pub enum Event<'a> {
    Started(&'a Header),
    Arm {
        /// The round, counted from 1; 0 is a warm-up.
        round: usize,
        arm: ArmId,
    },
    Round {
        record: &'a RoundRecord,
        /// Rounds that the rule can take at most.
        most: usize,
        /// The most time that is left, if the run goes on to that round or to its budget.
        left: Duration,
    },
}

/// Why a run gave no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("arm {arm} failed in {}", match round { 0 => "the warm-up".to_owned(), round => format!("round {round}") })]
    Arm {
        arm: &'static str,
        /// The round; 0 is the warm-up.
        round: usize,
        source: ArmError,
    },
    #[error(transparent)]
    Target(ArmError),
    #[error("there is no metric {name:?}; a run measures {}", known.join(", "))]
    NoMetric { name: String, known: Vec<String> },
    #[error("metric {0:?} needs `better = \"lower\"` or \"higher\": the workload does not say")]
    NoDirection(String),
    #[error("stopped before the first round was complete; everything was put back")]
    Nothing,
    #[error("{0}")]
    Metric(String),
    #[error("cannot keep what was measured")]
    Keep(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What the listener of events may fail with.
pub type Listener<'a> = dyn FnMut(Event<'_>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + 'a;

/// Runs an experiment on a machine.
///
/// Everything that an arm changes on the machine is put back after each of its runs, and when this
/// returns, however it does.
///
/// # Errors
///
/// If an arm fails, a setting is refused, a metric is unknown, or it was stopped before the first round
/// was complete.
pub fn run(
    experiment: &Experiment,
    options: Options<'_>,
    target: &mut dyn Executor,
    listener: &mut Listener<'_>,
) -> Result<ExperimentResult, RunError> {
    let clock = Instant::now();
    let place = target.prepare().map_err(RunError::Target)?;
    let before = target.diagnose().map_err(RunError::Target)?;
    let header = header(experiment, &options, before, place);
    listener(Event::Started(&header)).map_err(RunError::Keep)?;
    let own_before = process_cpu_time();
    let mut session = Session::new(experiment, target, options.stop);
    session.warm_up(listener)?;
    let (rounds, ending) = session.rounds(clock, options.resume.clone(), listener)?;
    if rounds.is_empty() {
        return Err(RunError::Nothing);
    }
    let after = session.target.diagnose().map_err(RunError::Target)?;
    let evidence = Evidence {
        stopping: &experiment.rounds.stopping,
        semantics: &session.semantics,
        arms: &header.arms,
        proofs: [&experiment.arms[0].proofs, &experiment.arms[1].proofs],
        machine: (&header.before, &after),
        target: session.target.caveats(),
    };
    let secondary: Vec<RequestedMetric> = experiment.secondary.iter().map(asked).collect();
    let conclusion =
        conclude(&rounds, &asked(&experiment.metric), &secondary, &evidence).map_err(RunError::Metric)?;
    let own = (process_cpu_time() - own_before) as f64 / 1e9;
    Ok(ExperimentResult {
        ending,
        seconds: clock.elapsed().as_secs_f64(),
        overhead: (session.work_cpu > 0.0).then(|| own / (own + session.work_cpu)),
        primary: conclusion.primary,
        secondary: conclusion.secondary,
        unusable: conclusion.unusable,
        proofs: conclusion.proofs,
        after,
        rounds,
        header,
    })
}

fn asked(metric: &Metric) -> RequestedMetric {
    RequestedMetric { name: metric.name.clone(), better: metric.better, margin: metric.margin }
}

fn header(experiment: &Experiment, options: &Options<'_>, before: Diagnosis, place: String) -> Header {
    let arms = &experiment.arms;
    let (changes, common) = compare(arms, experiment.guests.as_ref());
    Header {
        schema: ExperimentResult::SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        title: experiment.title.clone(),
        question: experiment.question.clone(),
        arms: [arms[0].name.clone(), arms[1].name.clone()],
        changes,
        common,
        place,
        started: timestamp(),
        command: options.command.clone(),
        seed: experiment.rounds.seed,
        file: experiment.text.clone(),
        before,
    }
}

/// The state of a run between its rounds.
struct Session<'a> {
    experiment: &'a Experiment,
    target: &'a mut dyn Executor,
    /// What one run of the baseline and of the change needs.
    requests: [RunRequest; 2],
    semantics: BTreeMap<String, MetricSemantics>,
    work_cpu: f64,
    stop: Option<&'a AtomicBool>,
}

impl<'a> Session<'a> {
    fn new(experiment: &'a Experiment, target: &'a mut dyn Executor, stop: Option<&'a AtomicBool>) -> Self {
        let requests = [0, 1].map(|arm: usize| experiment.request(arm, target.program()));
        Self { experiment, target, requests, semantics: BTreeMap::new(), work_cpu: 0.0, stop }
    }

    fn stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Runs each arm without counting it, and checks that the metrics are there.
    fn warm_up(&mut self, listener: &mut Listener<'_>) -> Result<(), RunError> {
        // At least once, or a metric that is missing would be found after the first round.
        for _ in 0..self.experiment.rounds.warm_up.max(1) {
            for arm in [ArmId::A, ArmId::B] {
                if self.stopped() {
                    return Err(RunError::Nothing);
                }
                listener(Event::Arm { round: 0, arm }).map_err(RunError::Keep)?;
                let run = match self.arm(arm, 0) {
                    // What was stopped may say that it failed.
                    Err(_) if self.stopped() => return Err(RunError::Nothing),
                    outcome => outcome?.0,
                };
                self.semantics.extend(run.semantics.clone());
                self.check_metrics(&run)?;
            }
        }
        Ok(())
    }

    fn check_metrics(&self, run: &Run) -> Result<(), RunError> {
        let all = std::iter::once(&self.experiment.metric).chain(&self.experiment.secondary);
        for metric in all {
            if !run.values.contains_key(&metric.name) {
                return Err(RunError::NoMetric {
                    name: metric.name.clone(),
                    known: run.values.keys().cloned().collect(),
                });
            }
            let told = run.semantics.get(&metric.name).and_then(|meaning| meaning.better);
            if metric.better.or(told).is_none() {
                return Err(RunError::NoDirection(metric.name.clone()));
            }
        }
        Ok(())
    }

    fn rounds(
        &mut self,
        clock: Instant,
        mut records: Vec<RoundRecord>,
        listener: &mut Listener<'_>,
    ) -> Result<(Vec<RoundRecord>, Ending), RunError> {
        let plan = &self.experiment.rounds;
        let margin = self.experiment.metric.margin.ln_1p();
        let most = plan.stopping.most_rounds();
        let begun = records.len();
        let mut shuffled = orders(plan.seed, ArmId::ALL.to_vec());
        // The orders of rounds that are there already are passed over, so that a resumed run is the run
        // that it would have been.
        for _ in 0..begun {
            shuffled();
        }
        loop {
            let logs = self.primary_logs(&records);
            if !records.is_empty() && plan.stopping.is_over(&logs, margin) {
                return Ok((records, Ending::Finished));
            }
            if clock.elapsed() >= plan.budget {
                return Ok((records, Ending::Budget));
            }
            let (number, order) = (records.len() + 1, shuffled());
            let mut samples = BTreeMap::new();
            for &arm in &order {
                if self.stopped() {
                    return Ok((records, Ending::Interrupted));
                }
                listener(Event::Arm { round: number, arm }).map_err(RunError::Keep)?;
                let sample = match self.arm(arm, number) {
                    Err(_) if self.stopped() => return Ok((records, Ending::Interrupted)),
                    outcome => outcome?.1,
                };
                samples.insert(arm, sample);
            }
            let record = RoundRecord { number, order, samples };
            let each = clock.elapsed() / u32::try_from(number - begun).unwrap_or(1).max(1);
            let ahead = each * u32::try_from(most.saturating_sub(number)).unwrap_or(u32::MAX);
            let left = ahead.min(plan.budget.saturating_sub(clock.elapsed()));
            listener(Event::Round { record: &record, most, left }).map_err(RunError::Keep)?;
            records.push(record);
        }
    }

    fn primary_logs(&self, records: &[RoundRecord]) -> Vec<f64> {
        let name = &self.experiment.metric.name;
        let rounds: Vec<Round> = records
            .iter()
            .filter_map(|record| {
                let value = |arm: ArmId| record.samples.get(&arm)?.values.get(name).copied();
                Some(Round { a: value(ArmId::A)?, again: value(ArmId::Control)?, b: value(ArmId::B)? })
            })
            .collect();
        log_ratios(&rounds).0
    }

    fn arm(&mut self, id: ArmId, round: usize) -> Result<(Run, Sample), RunError> {
        let request = &self.requests[usize::from(id == ArmId::B)];
        let replicate = self.target.run(id, request);
        let replicate = replicate.map_err(|source| RunError::Arm { arm: id.name(), round, source })?;
        self.work_cpu += replicate.run.values.get("cpu").copied().unwrap_or(0.0);
        let proofs = request.proofs.iter().map(|proof| proof.describe());
        let sample = Sample {
            values: replicate.run.values.clone(),
            proofs: proofs.zip(replicate.growths).collect(),
            flags: replicate.flags,
        };
        Ok((replicate.run, sample))
    }
}
