//! Simulated experiments on recorded noise: how often does the procedure err, how often does it find?

use crate::stats::judge::{Round, log_ratios};
use crate::stats::paired::hodges_lehmann;
use crate::stats::power::{power_of_rounds, round_sd};
use crate::stats::random::Random;
use crate::stats::sequential::Stopping;
use serde::Serialize;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Why a recording cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("line {line} of the recording is not an object of numbers: {source}")]
    Malformed {
        /// Counted from 1.
        line: usize,
        source: serde_json::Error,
    },
    #[error("line {line} of the recording: {name} is {value}, but must be above 0")]
    NotPositive {
        /// Counted from 1.
        line: usize,
        name: String,
        value: f64,
    },
    #[error("line {line} of the recording has other metrics than line 1")]
    Uneven {
        /// Counted from 1.
        line: usize,
    },
    #[error("the recording is empty")]
    Empty,
    #[error("the recording has no metric {name}; it has {}", known.join(", "))]
    Unknown { name: String, known: Vec<String> },
    #[error("the recording has {has} values, but an experiment of {rounds} rounds needs {}", rounds * 3)]
    TooShort { has: usize, rounds: usize },
}

/// Consecutive runs of the same thing, one value of each metric a run.
#[derive(Debug, Clone)]
pub struct Recording {
    metrics: BTreeMap<String, Vec<f64>>,
}

impl Recording {
    /// Reads JSON lines, each an object of numbers with the same keys. `ts` and `load` are the time and
    /// the load average, which are no metrics.
    ///
    /// # Errors
    ///
    /// If a line is malformed or has other keys, or a value is not above 0.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let mut metrics: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let row: BTreeMap<String, f64> = serde_json::from_str(line)
                .map_err(|source| RecordingError::Malformed { line: number, source })?;
            for (name, value) in row {
                if name == "ts" || name == "load" {
                    continue;
                }
                if !(value > 0.0 && value.is_finite()) {
                    return Err(RecordingError::NotPositive { line: number, name, value });
                }
                metrics.entry(name).or_default().push(value);
            }
            if metrics.values().any(|values| values.len() != number) {
                return Err(RecordingError::Uneven { line: number });
            }
        }
        if metrics.is_empty() { Err(RecordingError::Empty) } else { Ok(Self { metrics }) }
    }

    pub fn metrics(&self) -> impl Iterator<Item = &str> {
        self.metrics.keys().map(String::as_str)
    }

    /// What was recorded of a metric, in order; `None` if it was not.
    pub fn values(&self, metric: &str) -> Option<&[f64]> {
        self.metrics.get(metric).map(Vec::as_slice)
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct Trials {
    /// The stopping rule of each.
    pub stopping: Stopping,
    /// The true difference, a share: 0.1 makes each value of B 10% larger than it was.
    pub effect: f64,
    pub count: usize,
    pub seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TrialRates {
    /// The share whose interval excludes 1. Without an effect this is the error rate.
    pub found: f64,
    /// The share that was predicted for the rounds of a [`Stopping::Fixed`] experiment from [`round_sd`];
    /// 0 where there is no effect to be found.
    pub predicted: f64,
    pub rounds: f64,
}

impl Trials {
    /// Runs all of them. Each begins at a random place of the recording and takes its values in the
    /// order in which they were recorded, so that drift and waves of the machine are part of it.
    pub fn run(&self, recording: &Recording, metric: &str) -> Result<TrialRates, RecordingError> {
        let mut random = Random::new(self.seed);
        let (mut found, mut taken, mut predicted) = (0_usize, 0_usize, 0.0);
        for _ in 0..self.count {
            let logs = self.draw(recording, metric, &mut random)?;
            let (_, interval) = hodges_lehmann(&logs, 1.0 - self.stopping.alpha());
            found += usize::from(!interval.contains(0.0));
            taken += logs.len();
            if self.effect != 0.0 {
                let sd = round_sd(&logs, interval);
                predicted += power_of_rounds(self.effect.ln_1p(), sd, logs.len(), self.stopping.alpha());
            }
        }
        let count = self.count.max(1) as f64;
        Ok(TrialRates {
            found: found as f64 / count,
            predicted: predicted / count,
            rounds: taken as f64 / count,
        })
    }

    /// The log-ratios of one of them.
    pub fn draw(
        &self,
        recording: &Recording,
        metric: &str,
        random: &mut Random,
    ) -> Result<Vec<f64>, RecordingError> {
        let values = recording.metrics.get(metric).ok_or_else(|| RecordingError::Unknown {
            name: metric.to_owned(),
            known: recording.metrics().map(str::to_owned).collect(),
        })?;
        let most = self.stopping.most_rounds();
        let Some(places) = values.len().checked_sub(3 * most).filter(|places| *places > 0) else {
            return Err(RecordingError::TooShort { has: values.len(), rounds: most });
        };
        let start = random.below(places);
        Ok(self.experiment(&values[start..start + 3 * most], random))
    }

    /// Runs all of them on each metric of a recording, on as many CPUs as there are.
    pub fn run_all(&self, recording: &Recording) -> Result<Vec<(String, TrialRates)>, RecordingError> {
        let metrics: Vec<&str> = recording.metrics().collect();
        let next = AtomicUsize::new(0);
        let worker = || {
            let mut done = Vec::new();
            while let Some(metric) = metrics.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push(((*metric).to_owned(), self.run(recording, metric)));
            }
            done
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let mut all = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
            let done = workers
                .into_iter()
                .flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
            done.collect::<Vec<_>>()
        });
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all.into_iter().map(|(metric, outcome)| Ok((metric, outcome?))).collect()
    }

    /// The log-ratios of one experiment, until its rule says stop.
    fn experiment(&self, values: &[f64], random: &mut Random) -> Vec<f64> {
        let mut rounds = Vec::new();
        for block in values.chunks_exact(3) {
            let mut order = [0, 1, 2];
            random.shuffle(&mut order);
            let [a, again, b] = order.map(|place| block[place]);
            rounds.push(Round { a, again, b: b * (1.0 + self.effect) });
            let (logs, _) = log_ratios(&rounds);
            if self.stopping.is_over(&logs, 0.0) {
                break;
            }
        }
        log_ratios(&rounds).0
    }
}
