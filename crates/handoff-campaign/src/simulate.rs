//! What a campaign on other devices and workers would take and find: a model, from recorded noise.
//!
//! Each task is an experiment on recorded values (see `handoff_lab::simulate`), drawn from a random place
//! for each device, stopped by the experiment's own rule. It takes its runs by the time of a run, and a
//! connection; a lost link costs a connection, the warm-up and half a round. A worker serves a device until
//! its tasks are done and then takes the next. What the model does not have: devices of different speed,
//! runs that disturb each other on a shared host, and noise that no device here has.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use handoff_lab::clock::seconds_of;
use handoff_lab::experiment::file::Experiment;
use handoff_lab::simulate::{Recording, Trials};
use handoff_lab::stats::combine::Block;
use handoff_lab::stats::describe::median;
use handoff_lab::stats::judge::Estimate;
use handoff_lab::stats::random::Random;
use handoff_lab::stats::sequential::Stopping;
use serde::Serialize;

use crate::error::Result;
use crate::plan::CampaignPlan;
use crate::record::Folder;

/// Campaigns that are simulated to tell how far their times scatter.
const REPEATS: usize = 11;
/// The chance of finding what is asked for, and what it takes in standard errors: 1.96 + 0.84.
const REACH: f64 = 2.8;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Question {
    /// Devices, each of which makes every comparison of the campaign.
    pub devices: usize,
    /// Workers, each of which serves a device at a time.
    pub workers: usize,
    /// The true difference, a share.
    pub effect: f64,
    /// How much the true difference differs between devices: a standard deviation, as a share.
    pub between: f64,
    /// How long a run of an arm takes, in seconds.
    pub run_seconds: f64,
    /// How long it takes to reach a device and to start, in seconds.
    pub connect_seconds: f64,
    /// Links that are lost in an hour of a device.
    pub lost_per_hour: f64,
    pub seed: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    pub question: Question,
    pub tasks: usize,
    /// Mean number of rounds of a task.
    pub rounds_per_task: f64,
    pub rounds: f64,
    /// How long the campaign takes, in seconds: the least, the median and the most of several.
    pub wall_seconds: [f64; 3],
    /// Time of all devices together, in seconds.
    pub busy_seconds: f64,
    /// The share of devices whose own interval excludes no difference. Without an effect: errors.
    pub found_alone: f64,
    /// The smallest difference that a device alone finds in 4 of 5 tasks, a share.
    pub smallest_alone: f64,
    /// The same for all devices together.
    pub smallest_together: f64,
    /// Mean time of a task, in seconds.
    pub task_seconds: f64,
    /// What was carried out of this campaign, to compare with; none if nothing was.
    pub real: Option<PastTasks>,
}

/// What is known of a campaign from tasks that were carried out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PastTasks {
    /// Tasks that have a result.
    pub tasks: usize,
    pub rounds: usize,
    /// From the start of the first to the end of the last, in seconds: exact to a second.
    pub wall_seconds: f64,
    /// Mean time of a run of an arm, with everything around it, in seconds.
    pub run_seconds: f64,
    /// Mean time of a task, without reaching its device, in seconds.
    pub task_seconds: f64,
}

/// What the results of a campaign tell of its times; none without the result of a task that was carried out
/// in one go.
pub fn carried(plan: &CampaignPlan, folder: &Folder) -> Result<Option<PastTasks>> {
    let (mut tasks, mut rounds) = (0, 0);
    let (mut whole, mut runs, mut seconds) = (0_usize, 0_usize, 0.0);
    let (mut begin, mut end) = (f64::INFINITY, 0.0_f64);
    for task in &plan.tasks {
        let record = folder.task(*task);
        let Some(result) = record.result()? else { continue };
        tasks += 1;
        rounds += result.rounds.len();
        let notes = record.notes()?;
        let starts: Vec<f64> = notes
            .iter()
            .filter(|note| note.started)
            .filter_map(|note| Some(seconds_of(&note.at)? as f64))
            .collect();
        if let (Some(first), Some(last)) = (starts.first(), starts.last()) {
            begin = begin.min(*first);
            end = end.max(last + result.seconds);
        }
        // One that was gone on with has only its last part in its time.
        if starts.len() == 1 {
            whole += 1;
            runs += 3 * result.rounds.len() + warm_up(&plan.points[task.point].text);
            seconds += result.seconds;
        }
    }
    Ok((whole > 0).then(|| PastTasks {
        tasks,
        rounds,
        wall_seconds: end - begin,
        run_seconds: seconds / runs as f64,
        task_seconds: seconds / whole as f64,
    }))
}

/// Runs of an experiment's warm-up.
fn warm_up(text: &str) -> usize {
    rules(text).map_or(2, |(_, runs)| runs)
}

/// The stopping rule of an experiment, and the runs of its warm-up.
fn rules(text: &str) -> Option<(Stopping, usize)> {
    let experiment = Experiment::parse_remote(std::path::Path::new("experiment.toml"), text).ok()?;
    let experiment = experiment.into_iter().next()?;
    Some((experiment.rounds.stopping, 2 * experiment.rounds.warm_up.max(1)))
}

/// Simulates it with the noise of a metric of a recording.
pub fn simulate(
    plan: &CampaignPlan,
    question: &Question,
    recording: &Recording,
    metric: &str,
    real: Option<PastTasks>,
) -> Result<Forecast> {
    let rules: Vec<(Stopping, usize)> = plan.points.iter().filter_map(|point| rules(&point.text)).collect();
    let mut random = Random::new(question.seed);
    let (mut walls, mut busy, mut rounds, mut found, mut errors) = (Vec::new(), 0.0, 0, 0, Vec::new());
    for repeat in 0..REPEATS {
        let mut devices = Vec::with_capacity(question.devices);
        for _ in 0..question.devices {
            let mut time = 0.0;
            for (stopping, warm_up) in &rules {
                let own = question.effect.ln_1p() + question.between.ln_1p() * random.normal();
                let trials = Trials { stopping: stopping.clone(), effect: own.exp_m1(), count: 1, seed: 0 };
                let logs = trials.draw(recording, metric, &mut random)?;
                let runs = (3 * logs.len() + warm_up) as f64;
                time += question.connect_seconds + runs * question.run_seconds;
                let again = question.connect_seconds + (*warm_up as f64 + 1.5) * question.run_seconds;
                time += again * lost(question.lost_per_hour * time / 3600.0, &mut random) as f64;
                rounds += logs.len();
                // Enough of them to know a share and a median.
                if repeat == 0 {
                    let estimate = Estimate::of(&logs, 1.0 - stopping.alpha());
                    found += usize::from(!estimate.interval.contains(1.0));
                    errors.push(Block::of(&estimate).error);
                }
            }
            devices.push(time);
        }
        busy += devices.iter().sum::<f64>();
        walls.push(wall(&devices, question.workers));
    }
    let tasks = question.devices * rules.len();
    let all = (tasks * REPEATS) as f64;
    walls.sort_by(f64::total_cmp);
    let error = if errors.is_empty() { f64::NAN } else { median(&errors) };
    let between = question.between.ln_1p();
    let together = (error.hypot(between) / (question.devices as f64).sqrt() * REACH).exp_m1();
    Ok(Forecast {
        tasks,
        rounds_per_task: rounds as f64 / all,
        rounds: rounds as f64 / REPEATS as f64,
        wall_seconds: [walls[0], walls[REPEATS / 2], walls[REPEATS - 1]],
        busy_seconds: busy / REPEATS as f64,
        found_alone: found as f64 / tasks as f64,
        smallest_alone: (error * REACH).exp_m1(),
        smallest_together: together,
        task_seconds: busy / all,
        real,
        question: question.clone(),
    })
}

/// A number of losses when this many are to be expected (Poisson, by a product of uniform numbers, in
/// steps that do not underflow).
fn lost(expected: f64, random: &mut Random) -> usize {
    let (mut left, mut count) = (expected.clamp(0.0, 1e6), 0);
    while left > 0.0 {
        let step = left.min(10.0);
        left -= step;
        let (limit, mut product) = ((-step).exp(), random.unit());
        while product > limit {
            count += 1;
            product *= random.unit();
        }
    }
    count
}

/// When the last worker is done, if each takes the next device as soon as it is free.
fn wall(devices: &[f64], workers: usize) -> f64 {
    // Times are not negative, so that their bits are in their order.
    let mut free: BinaryHeap<Reverse<u64>> =
        (0..workers.clamp(1, devices.len().max(1))).map(|_| Reverse(0.0_f64.to_bits())).collect();
    let mut last = 0.0_f64;
    for device in devices {
        let Reverse(start) = free.pop().unwrap_or(Reverse(0));
        let end = f64::from_bits(start) + device;
        last = last.max(end);
        free.push(Reverse(end.to_bits()));
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rounds: &str) -> CampaignPlan {
        let experiment = format!(
            "title = \"t\"\n[workload]\ncommand = \"true\"\n[baseline]\nname = \"a\"\n[change]\nname = \"b\"\n[metric]\n\
             name = \"wall\"\n[rounds]\n{rounds}\n"
        );
        let text = "name = \"x\"\nexperiments = [\"e.toml\"]\ntargets = [\"local\"]\n";
        CampaignPlan::of_texts(text, &experiment)
    }

    fn recording() -> Recording {
        let mut random = Random::new(8);
        let lines: String =
            (0..600).map(|_| format!("{{\"time\": {}}}\n", (0.05 * random.normal()).exp())).collect();
        Recording::parse(&lines).expect("sound")
    }

    fn question(devices: usize, workers: usize, effect: f64) -> Question {
        Question {
            devices,
            workers,
            effect,
            between: 0.0,
            run_seconds: 2.0,
            connect_seconds: 4.0,
            lost_per_hour: 0.0,
            seed: 1,
        }
    }

    fn simulated(question: &Question) -> Forecast {
        simulate(&plan("rounds = 10"), question, &recording(), "time", None).expect("it can be")
    }

    #[test]
    fn times_are_those_of_runs_and_workers() {
        let one = simulated(&question(12, 1, 0.0));
        // 10 rounds of 3 runs, 2 of the warm-up, at 2 s, and a connection.
        assert_eq!((one.task_seconds, one.rounds_per_task, one.tasks), (68.0, 10.0, 12));
        assert_eq!(one.wall_seconds, [12.0 * 68.0; 3]);
        assert_eq!(simulated(&question(12, 5, 0.0)).wall_seconds[1], 3.0 * 68.0);
        assert_eq!(simulated(&question(12, 500, 0.0)).wall_seconds[1], 68.0);
    }

    #[test]
    fn what_is_there_is_found_and_what_is_not_is_hardly_ever() {
        let none = simulated(&question(400, 10, 0.0));
        assert!(none.found_alone < 0.09, "{none:?}");
        let some = simulated(&question(400, 10, 0.15));
        assert!(some.found_alone > 0.9, "{some:?}");
        assert!(some.smallest_together < some.smallest_alone / 10.0, "{some:?}");
        let differing = simulated(&Question { between: 0.1, ..question(400, 10, 0.15) });
        assert!(differing.smallest_together > some.smallest_together, "{differing:?}");
    }

    #[test]
    fn lost_links_cost_time_and_no_rounds() {
        let calm = simulated(&question(50, 5, 0.0));
        let lossy = simulated(&Question { lost_per_hour: 60.0, ..question(50, 5, 0.0) });
        // About 1.13 losses a task, each 4 s, two runs of warm-up and half a round of three.
        assert!((lossy.task_seconds - calm.task_seconds - 1.13 * 11.0).abs() < 2.5, "{lossy:?}");
        assert_eq!(lossy.rounds, calm.rounds);
    }

    #[test]
    fn a_recording_that_is_too_short_is_refused() {
        let short = Recording::parse("{\"time\": 1}\n{\"time\": 2}\n").expect("sound");
        let error = simulate(&plan("rounds = 10"), &question(1, 1, 0.0), &short, "time", None);
        assert!(error.expect_err("too short").to_string().contains("needs 30"));
        let error = simulate(&plan("rounds = 10"), &question(1, 1, 0.0), &recording(), "no", None);
        assert!(error.expect_err("unknown").to_string().contains("no metric no"));
    }
}
