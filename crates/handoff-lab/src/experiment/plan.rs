//! What a run will take: before anything runs, and after a short pilot of the baseline against itself.

use std::time::Duration;

use handoff_workloads::Workload;
use serde::Serialize;

use super::ArmId;
use super::executor::{ArmError, Executor};
use super::file::{Experiment, Work};
use super::runner::RunError;
use super::task::USAGE;
use crate::stats::paired::hodges_lehmann;
use crate::stats::power::{round_sd, rounds_needed, smallest_effect};

/// The chance of finding what is asked for.
const POWER: f64 = 0.8;

/// What can be said before anything runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bounds {
    /// Runs of arms at most, warm-up included.
    pub most_runs: usize,
    /// The run ends when it has taken so many seconds.
    pub budget_seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pilot {
    /// Pairs of runs of the baseline.
    pub pairs: usize,
    /// Mean wall time of a run of an arm with everything around it, in seconds.
    pub run_seconds: f64,
    /// Standard deviation of the log-ratio of a round.
    pub round_sd: f64,
    /// The smallest share that the file's most rounds find in 4 of 5 runs.
    pub smallest_effect: f64,
    /// Rounds that find a difference of the margin in 4 of 5 runs; `None` if no practical number does.
    pub rounds_for_margin: Option<u64>,
    /// How long the file's most rounds take, in seconds, without the budget.
    pub most_seconds: f64,
    /// How long the rounds for the margin take, in seconds.
    pub margin_seconds: Option<f64>,
}

/// Why a pilot tells nothing.
#[derive(Debug, thiserror::Error)]
pub enum PilotError {
    #[error("the pilot failed")]
    Target(#[from] ArmError),
    #[error("{metric} cannot be planned with: it is {seen} in the pilot")]
    Metric { metric: String, seen: String },
}

/// Refuses a metric that no run of the experiment can have, as far as that is known before one was made.
///
/// # Errors
///
/// [`RunError::NoMetric`] with those that there are.
pub fn check_metrics(experiment: &Experiment) -> Result<(), RunError> {
    for metric in std::iter::once(&experiment.metric).chain(&experiment.secondary) {
        for arm in &experiment.arms {
            if let Some(known) = metrics_but_for(&metric.name, &arm.work) {
                return Err(RunError::NoMetric { name: metric.name.clone(), known });
            }
        }
    }
    Ok(())
}

/// The metrics of an arm, if it certainly has none of this name.
fn metrics_but_for(name: &str, work: &Work) -> Option<Vec<String>> {
    let usual = || USAGE.iter().map(|(name, _)| (*name).to_owned());
    if usual().any(|known| known == name) {
        return None;
    }
    match work {
        Work::Command { figures, .. } => {
            let figures = figures.iter().map(|figure| figure.name.clone());
            (!figures.clone().any(|known| known == name)).then(|| figures.chain(usual()).collect())
        }
        Work::Workload(workload) => {
            let measured = workload_metrics_but_for(name, workload)?;
            Some(measured.into_iter().chain(usual()).collect())
        }
    }
}

/// What a workload measures, if that has certainly no such name.
fn workload_metrics_but_for(name: &str, workload: &Workload) -> Option<Vec<String>> {
    // Without a slash it is one of the kernel's counters, which this machine may or may not have.
    let (prefix, rest) = name.split_once('/')?;
    if let Workload::Several(several) = workload {
        // The name of a part stands in front of what that one measures.
        return match several.parts.get(prefix) {
            Some(part) => {
                let names = workload_metrics_but_for(rest, part)?;
                Some(names.into_iter().map(|name| format!("{prefix}/{name}")).collect())
            }
            None => Some(several.parts.keys().map(|part| format!("{part}/...")).collect()),
        };
    }
    let base = rest.split_once(':').map_or(rest, |(base, _)| base);
    let measured = workload.measures();
    let is_known = prefix == workload.name() && measured.contains(&base);
    let full = |base: &&str| format!("{}/{base}", workload.name());
    (!is_known).then(|| measured.iter().map(full).collect())
}

/// What can be said before anything runs.
pub fn bounds(experiment: &Experiment) -> Bounds {
    let rounds = &experiment.rounds;
    Bounds {
        most_runs: 3 * rounds.stopping.most_rounds() + 2 * rounds.warm_up.max(1),
        budget_seconds: rounds.budget.as_secs_f64(),
    }
}

/// Runs the baseline in pairs, after one run that does not count, and tells what that means for the plan.
/// Nothing of the change is looked at, so that a pilot does not bias the run that follows.
pub fn pilot(experiment: &Experiment, target: &mut dyn Executor, pairs: usize) -> Result<Pilot, PilotError> {
    target.prepare()?;
    let request = experiment.request(0, target.program());
    let name = &experiment.metric.name;
    target.run(ArmId::A, &request)?;
    let begun = std::time::Instant::now();
    let mut logs = Vec::with_capacity(pairs);
    for _ in 0..pairs {
        let mut value = |arm| -> Result<f64, PilotError> {
            let run = target.run(arm, &request)?.run;
            let value = run.values.get(name).copied();
            value.filter(|value| *value > 0.0 && value.is_finite()).ok_or_else(|| PilotError::Metric {
                metric: name.clone(),
                seen: value.map_or_else(|| "not measured".to_owned(), |value| value.to_string()),
            })
        };
        logs.push(value(ArmId::Control)?.ln() - value(ArmId::A)?.ln());
    }
    Ok(from(experiment, &logs, begun.elapsed() / u32::try_from(2 * pairs).unwrap_or(u32::MAX).max(1)))
}

/// The plan that follows from the log-ratios of a pilot and the time of one run.
fn from(experiment: &Experiment, logs: &[f64], each: Duration) -> Pilot {
    let stopping = &experiment.rounds.stopping;
    let alpha = stopping.alpha();
    let sd = round_sd(logs, hodges_lehmann(logs, 0.95).1);
    let margin = experiment.metric.margin.ln_1p();
    let most = stopping.most_rounds();
    let seconds = |rounds: f64| 3.0 * rounds * each.as_secs_f64();
    let rounds_for_margin = rounds_needed(margin, sd, alpha, POWER);
    Pilot {
        pairs: logs.len(),
        run_seconds: each.as_secs_f64(),
        round_sd: sd,
        smallest_effect: smallest_effect(most, sd, alpha, POWER).exp_m1(),
        rounds_for_margin,
        most_seconds: seconds(most as f64),
        margin_seconds: rounds_for_margin.map(|rounds| seconds(rounds as f64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    use crate::experiment::executor::Local;
    use crate::stats::random::Random;

    fn experiment(command: &str) -> Experiment {
        let text = format!(
            "title = \"t\"\n[workload]\ncommand = \"{command}\"\n[baseline]\nname = \"a\"\n[change]\nname = \"b\"\n\
             [metric]\nname = \"wall\"\nmargin = 0.05\n[rounds]\nrounds = 20\n"
        );
        Experiment::parse(Path::new("x.toml"), &text).expect("a good file").remove(0)
    }

    #[test]
    fn more_noise_needs_more_rounds() {
        let experiment = experiment("true");
        let noise = |sd: f64| -> Vec<f64> {
            let mut random = Random::new(9);
            (0..30).map(|_| sd * random.normal()).collect()
        };
        let quiet = from(&experiment, &noise(0.03), Duration::from_secs(2));
        let loud = from(&experiment, &noise(0.15), Duration::from_secs(2));
        // (2.8 sd / ln 1.05)^2, with the sd that the pilot saw.
        let expected = (2.8 * loud.round_sd / 1.05_f64.ln()).powi(2);
        let planned = loud.rounds_for_margin.expect("a number") as f64;
        assert!((planned / expected - 1.0).abs() < 0.05, "{planned}, {expected}");
        assert!((loud.round_sd / 0.15 - 1.0).abs() < 0.35, "{loud:?}");
        assert!(quiet.rounds_for_margin < loud.rounds_for_margin, "{quiet:?}");
        assert!(quiet.smallest_effect < loud.smallest_effect);
        assert_eq!(loud.margin_seconds, Some(planned * 6.0));
        assert_eq!(loud.most_seconds, 120.0);
    }

    #[test]
    fn a_pilot_runs_the_baseline_in_pairs() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("runs");
        let experiment = experiment(&format!("sh -c 'echo x >> {}'", log.display()));
        let mut here = Local::new("handoff", folder.path(), None).expect("a journal");
        let pilot = pilot(&experiment, &mut here, 6).expect("it runs");
        assert_eq!(std::fs::read_to_string(log).expect("written").lines().count(), 1 + 2 * 6);
        assert!(pilot.run_seconds > 0.0 && pilot.round_sd > 0.0, "{pilot:?}");
    }

    #[test]
    fn a_metric_that_is_not_there_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut experiment = experiment("true");
        experiment.metric.name = "nothing".to_owned();
        let mut here = Local::new("handoff", folder.path(), None).expect("a journal");
        let error = pilot(&experiment, &mut here, 6).expect_err("no such metric").to_string();
        assert!(error.contains("nothing cannot be planned with: it is not measured"), "{error}");
    }

    #[test]
    fn the_figures_of_a_part_stand_behind_its_name() {
        let text = r#"{"workload": "several", "parameters": {"parts": {"a": {"workload": "spin", "parameters": {}}}}}"#;
        let several: Workload = serde_json::from_str(text).expect("a workload");
        let but_for = |name| workload_metrics_but_for(name, &several);
        assert_eq!(but_for("a/spin/time:p99"), None);
        assert_eq!(but_for("a/spin/tme").expect("there is none")[0], "a/spin/time");
        assert_eq!(but_for("spin/time"), Some(vec!["a/...".to_owned()]));
    }
}
