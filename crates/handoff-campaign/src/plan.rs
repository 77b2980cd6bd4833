//! The tasks of a campaign: one for each experiment, combination of parameters and target.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use handoff_lab::experiment::file::{Experiment, FileError};
use handoff_lab::experiment::plan::bounds;
use handoff_lab::stats::random::Random;
use serde::{Deserialize, Serialize};
use sha1::{Digest as _, Sha1};

use crate::file::{Campaign, Device, MOST_TASKS, Slurm};

/// Everything that a campaign does, fixed when it is submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CampaignPlan {
    /// The version of this form: [`CampaignPlan::SCHEMA`].
    pub schema: u32,
    pub name: String,
    /// Tells plans apart that have the same name.
    #[serde(default)]
    pub id: String,
    /// Decides the order of tasks on each device.
    pub seed: u64,
    /// A task that takes longer is killed, in seconds.
    pub deadline_seconds: f64,
    /// A task is given up after so many tries in a row without a new round.
    pub attempts: u32,
    /// The experiments, one for each combination of parameters.
    pub points: Vec<Point>,
    pub targets: Vec<Device>,
    /// The tasks, in the order in which each device takes them.
    pub tasks: Vec<Task>,
    /// How it is submitted to Slurm.
    pub slurm: Slurm,
}

/// One comparison that is made on every device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// What it is, in a few words.
    pub title: String,
    pub file: PathBuf,
    /// The parameters that the campaign or a sweep sets, as TOML writes them.
    pub parameters: BTreeMap<String, String>,
    /// The metric of the verdict.
    pub metric: String,
    /// The share below which a difference does not matter.
    pub margin: f64,
    /// Names of the baseline and the change.
    pub arms: [String; 2],
    pub most_rounds: usize,
    /// The most runs of arms, warm-up included.
    pub most_runs: usize,
    /// It ends when it has taken so long, in seconds.
    pub budget_seconds: f64,
    /// The experiment as the device gets it.
    pub text: String,
}

/// One experiment on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Counted from 1.
    pub number: usize,
    /// Its place in [`CampaignPlan::points`].
    pub point: usize,
    /// Its place in [`CampaignPlan::targets`].
    pub target: usize,
}

#[cfg(test)]
impl CampaignPlan {
    /// The plan of a campaign whose experiments all have one text.
    pub(crate) fn of_texts(campaign: &str, experiment: &str) -> Self {
        let read = |_: &Path| Ok(experiment.to_owned());
        let campaign = Campaign::parse(Path::new("c.toml"), campaign, &read).expect("a sound campaign");
        CampaignPlan::of(&campaign, Path::new("c.toml")).expect("a sound plan")
    }
}

impl CampaignPlan {
    /// The present version of the form.
    pub const SCHEMA: u32 = 1;

    /// Makes the tasks of a campaign; `path` is that of its file, for errors.
    pub fn of(campaign: &Campaign, path: &Path) -> Result<Self, FileError> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let wrong = |message: String| FileError::at(path, "", 0..0, message);
        let combinations =
            campaign.parameters.iter().try_fold(1_usize, |all, (_, values)| all.checked_mul(values.len()));
        let count = combinations
            .and_then(|count| count.checked_mul(campaign.experiments.len()))
            .and_then(|count| count.checked_mul(campaign.targets.len()))
            .filter(|count| *count <= MOST_TASKS);
        if count.is_none() {
            return Err(wrong(format!("these are more than {MOST_TASKS} tasks")));
        }
        let mut points = Vec::new();
        for (file, text) in &campaign.experiments {
            for chosen in combine(&campaign.parameters) {
                points.extend(points_of(&folder.join(file), file, text, &chosen)?);
            }
        }
        let (devices, most) = (campaign.targets.len(), points.len());
        if devices.saturating_mul(most) > MOST_TASKS {
            return Err(wrong(format!("with the sweeps these are more than {MOST_TASKS} tasks")));
        }
        // Each device has an order of its own, so that what drifts over a campaign hits no experiment on
        // all of them alike. A number stays that of its task whatever the order is.
        let tasks = (0..devices).flat_map(|target| {
            let mut order: Vec<usize> = (0..most).collect();
            Random::new(campaign.seed ^ (target as u64).rotate_left(32)).shuffle(&mut order);
            order.into_iter().map(move |point| Task { number: point * devices + target + 1, point, target })
        });
        let mut plan = CampaignPlan {
            schema: Self::SCHEMA,
            name: campaign.name.clone(),
            id: String::new(),
            seed: campaign.seed,
            deadline_seconds: campaign.deadline.as_secs_f64(),
            attempts: campaign.attempts,
            tasks: tasks.collect(),
            points,
            targets: campaign.targets.clone(),
            slurm: campaign.slurm.clone(),
        };
        let text = serde_json::to_vec(&plan).expect("no map of it has keys that are no text");
        plan.id = Sha1::digest(&text).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        Ok(plan)
    }

    pub fn task(&self, number: usize) -> Option<Task> {
        self.tasks.iter().find(|task| task.number == number).copied()
    }

    /// The tasks of a device, in its order.
    pub fn tasks_of(&self, target: usize) -> impl Iterator<Item = Task> + '_ {
        self.tasks.iter().filter(move |task| task.target == target).copied()
    }

    /// The longest that a device can be busy, in seconds, without time for its link.
    pub fn most_seconds(&self) -> f64 {
        let each = |task: Task| self.points[task.point].budget_seconds.min(self.deadline_seconds);
        let device = |target| self.tasks_of(target).map(each).sum::<f64>();
        (0..self.targets.len()).map(device).fold(0.0, f64::max)
    }

    /// Devices that are the same machine, and take turns: their names, by address and node.
    pub fn shared(&self) -> Vec<Vec<&str>> {
        let mut machines: BTreeMap<(&str, Option<&str>), Vec<&str>> = BTreeMap::new();
        for device in self.targets.iter().filter(|device| device.address != "guest") {
            machines
                .entry((device.address.as_str(), device.node.as_deref()))
                .or_default()
                .push(device.name.as_str());
        }
        machines.into_values().filter(|names| names.len() > 1).collect()
    }
}

/// Every combination of values.
fn combine(parameters: &[(String, Vec<toml::Value>)]) -> Vec<Vec<(String, toml::Value)>> {
    parameters.iter().fold(vec![Vec::new()], |all, (name, values)| {
        all.iter()
            .flat_map(|chosen| {
                values.iter().map(move |value| {
                    let mut chosen = chosen.clone();
                    chosen.push((name.clone(), value.clone()));
                    chosen
                })
            })
            .collect()
    })
}

/// The experiments that a file becomes with these parameters: one, or one for each value of its sweep.
fn points_of(
    path: &Path,
    name: &Path,
    text: &str,
    chosen: &[(String, toml::Value)],
) -> Result<Vec<Point>, FileError> {
    // As it is first: a mistake is told with its place in the file that somebody wrote.
    Experiment::parse_remote(path, text)?;
    let wrong = |message: String| FileError::at(path, text, 0..0, message);
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
    let mut variants = vec![chosen.to_vec()];
    if let Some(sweep) = table.get("sweep") {
        let parameter = sweep.get("parameter").and_then(toml::Value::as_str).unwrap_or_default();
        if chosen.iter().any(|(name, _)| name == parameter) {
            return Err(wrong(format!("`{parameter}` is swept by the experiment, and set by the campaign")));
        }
        let values = sweep.get("values").and_then(toml::Value::as_array).cloned().unwrap_or_default();
        let with = |value: toml::Value| [chosen, &[(parameter.to_owned(), value)]].concat();
        variants = values.into_iter().map(with).collect();
    }
    variants.iter().map(|chosen| point(path, name, text, &table, chosen)).collect()
}

fn point(
    path: &Path,
    name: &Path,
    text: &str,
    table: &toml::Table,
    chosen: &[(String, toml::Value)],
) -> Result<Point, FileError> {
    let wrong = |message: String| FileError::at(path, text, 0..0, message);
    let own = if chosen.is_empty() {
        text.to_owned()
    } else {
        let mut table = table.clone();
        table.remove("sweep");
        let workload = table.get_mut("workload").and_then(toml::Value::as_table_mut);
        let Some(workload) = workload.filter(|workload| workload.contains_key("name")) else {
            return Err(wrong(
                "only the parameters of a workload can be set, and this has a command".to_owned(),
            ));
        };
        let parameters = workload.entry("parameters").or_insert_with(|| toml::Table::new().into());
        let Some(parameters) = parameters.as_table_mut() else {
            return Err(wrong("the workload's parameters are no table".to_owned()));
        };
        parameters.extend(chosen.iter().cloned());
        let words: Vec<String> = chosen.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        if let Some(toml::Value::String(title)) = table.get_mut("title") {
            *title = format!("{title}, {}", words.join(", "));
        }
        toml::to_string(&table).map_err(|error| wrong(error.to_string()))?
    };
    let mut all = Experiment::parse_remote(path, &own).map_err(|error| {
        let words: Vec<String> = chosen.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        wrong(format!("with {}: {}", words.join(", "), error.message))
    })?;
    let experiment = all.remove(0);
    let bounds = bounds(&experiment);
    Ok(Point {
        title: experiment.title,
        file: name.to_owned(),
        parameters: chosen.iter().map(|(name, value)| (name.clone(), value.to_string())).collect(),
        metric: experiment.metric.name,
        margin: experiment.metric.margin,
        arms: experiment.arms.map(|arm| arm.name),
        most_rounds: experiment.rounds.stopping.most_rounds(),
        most_runs: bounds.most_runs,
        budget_seconds: bounds.budget_seconds,
        text: own,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const SPIN: &str = "title = \"spin\"\n[workload]\nname = \"spin\"\n[workload.parameters]\nsteps = 100\n\
        [baseline]\nname = \"a\"\n[change]\nname = \"b\"\n[metric]\nname = \"spin/time\"\n[rounds]\nrounds = 6\n";

    fn plan(campaign: &str, experiment: &str) -> Result<CampaignPlan, FileError> {
        let path = Path::new("folder/c.toml");
        let campaign = Campaign::parse(path, campaign, &|_| Ok(experiment.to_owned()))?;
        CampaignPlan::of(&campaign, path)
    }

    const TWO_BY_TWO: &str = "name = \"x\"\nexperiments = [\"e.toml\"]\nseed = 3\n\
        targets = [\"local\", \"ssh://a\", \"ssh://b\"]\n[parameters]\nitems = [1, 2]\ntasks = [1, 2]\n";

    #[test]
    fn tasks_are_experiments_by_parameters_by_targets() {
        let plan = plan(TWO_BY_TWO, SPIN).expect("sound");
        assert_eq!((plan.points.len(), plan.tasks.len()), (4, 12));
        let numbers: BTreeSet<usize> = plan.tasks.iter().map(|task| task.number).collect();
        assert_eq!(numbers, (1..=12).collect());
        for target in 0..3 {
            let points: BTreeSet<usize> = plan.tasks_of(target).map(|task| task.point).collect();
            assert_eq!(points.len(), 4, "each device makes each comparison once");
        }
        let one = &plan.points[1];
        assert_eq!(one.title, "spin, items = 1, tasks = 2");
        assert!(one.text.contains("steps = 100") && one.text.contains("items = 1"), "{}", one.text);
        assert_eq!((one.most_rounds, one.budget_seconds), (6, 3600.0));
        assert_eq!(plan.most_seconds(), 4.0 * 3600.0);
        assert_eq!(plan.shared(), Vec::<Vec<&str>>::new());
    }

    #[test]
    fn the_same_file_gives_the_same_plan_and_a_changed_one_another() {
        let first = plan(TWO_BY_TWO, SPIN).expect("sound");
        assert_eq!(first, plan(TWO_BY_TWO, SPIN).expect("sound"));
        assert_ne!(first.id, plan(&TWO_BY_TWO.replace("seed = 3", "seed = 4"), SPIN).expect("sound").id);
        assert_ne!(first.id, plan(TWO_BY_TWO, &SPIN.replace("100", "200")).expect("sound").id);
    }

    #[test]
    fn a_sweep_is_a_point_for_each_value() {
        let swept = format!("{SPIN}[sweep]\nparameter = \"items\"\nvalues = [5, 6]\n");
        let one = "name = \"x\"\nexperiments = [\"e.toml\"]\ntargets = [\"local\"]\n";
        let titles: Vec<String> =
            plan(one, &swept).expect("sound").points.into_iter().map(|point| point.title).collect();
        assert_eq!(titles, ["spin, items = 5", "spin, items = 6"]);
        let error = plan(TWO_BY_TWO, &swept).expect_err("set twice").to_string();
        assert!(error.contains("`items` is swept"), "{error}");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let one =
            |more: &str| format!("name = \"x\"\nexperiments = [\"e.toml\"]\ntargets = [\"local\"]\n{more}");
        let error = plan(&one("[parameters]\nno = [1]\n"), SPIN).expect_err("unknown").to_string();
        assert!(error.contains("with no = 1: unknown field `no`"), "{error}");
        let command = SPIN.replace("name = \"spin\"\n", "command = \"true\"\n");
        let command = command.replace("[workload.parameters]\nsteps = 100\n", "");
        let error = plan(&one("[parameters]\nno = [1]\n"), &command).expect_err("a command").to_string();
        assert!(error.contains("only the parameters of a workload"), "{error}");
        let error =
            plan(&one(""), &SPIN.replace("rounds = 6", "rounds = 2")).expect_err("too few").to_string();
        assert!(error.starts_with("folder/e.toml:13:1"), "{error}");
        let many = format!("items = [{}]\ntasks = [{0}]\n", "1,".repeat(1100));
        assert!(
            plan(&one(&format!("[parameters]\n{many}")), SPIN)
                .expect_err("too many")
                .to_string()
                .contains("1000000")
        );
    }

    #[test]
    fn devices_that_are_one_machine_are_told() {
        let text = "name = \"x\"\nexperiments = [\"e.toml\"]\ntargets = [\"local\"]\n\
            [[target]]\naddress = \"local\"\nname = \"again\"\n[[target]]\naddress = \"local\"\nname = \"n\"\nnode = \"n\"\n";
        assert_eq!(plan(text, SPIN).expect("sound").shared(), [["local", "again"]]);
    }
}
