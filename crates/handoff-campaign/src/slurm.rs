//! The engine Slurm: array jobs, whose elements are tasks.
//!
//! Each device has arrays of its own, one element at a time, so that two experiments never share it. An
//! element runs `handoff campaign task`, which is the worker of the engine `local` for one task; the
//! campaign's folder must be on a file system that the nodes share. An element that was killed is queued
//! again and goes on after the rounds that are kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use handoff_targets::quoted;
use serde::{Deserialize, Serialize};

use crate::error::{CampaignError, Result};
use crate::file::Device;
use crate::plan::CampaignPlan;
use crate::record::{Folder, State, write_whole};
use crate::status::Status;

/// Elements of an array at most: Slurm's own limit (`MaxArraySize`) is 1001 unless it is configured.
const MOST_ELEMENTS: usize = 1000;
/// Time of an element beyond the task's deadline: for the link, and for waiting until a device is free.
const MARGIN_MINUTES: f64 = 10.0;
/// The exit status of an element that wants to be queued again.
pub const AGAIN: u8 = 75;

/// An array that was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// Slurm's number of the job.
    pub job: u64,
    pub target: String,
    /// The task of each element.
    pub tasks: Vec<usize>,
}

#[derive(Debug, Clone)]
pub struct Engine<'a> {
    pub plan: &'a CampaignPlan,
    /// Where it is kept; every node sees it under the same path.
    pub folder: &'a Folder,
    /// The folder that the paths of programs in the campaign's file are found from.
    pub programs: &'a Path,
    /// The handoff that runs on the nodes.
    pub program: &'a Path,
}

impl Engine<'_> {
    /// Submits the tasks that have not ended and that Slurm does not have already.
    pub fn submit(&self) -> Result<Vec<Array>> {
        let mut all = arrays(self.folder)?;
        let queued = queue(&all)?;
        let place = self.place()?;
        let mut new = Vec::new();
        for (target, device) in self.plan.targets.iter().enumerate() {
            let open: Vec<usize> = self
                .plan
                .tasks_of(target)
                .filter(|task| !matches!(self.folder.task(*task).state(), State::Done | State::Failed))
                .map(|task| task.number)
                .filter(|number| !queued.contains_key(number))
                .collect();
            for tasks in open.chunks(MOST_ELEMENTS) {
                let name = format!("{target}-{}", all.len());
                let list: String = tasks.iter().map(|number| format!("{number}\n")).collect();
                let script = place.join(format!("{name}.sh"));
                let numbers = place.join(format!("{name}.tasks"));
                write(&numbers, &list)?;
                write(&script, &self.script(&numbers)?)?;
                let options = self.options(device, tasks.len(), &place);
                let said = run("sbatch", &[options, vec![text(&script)?.to_owned()]].concat())?;
                // JOB, or JOB;CLUSTER.
                let job = said.trim().split(';').next().unwrap_or_default().parse().map_err(|_| {
                    CampaignError::Slurm { program: "sbatch", said: format!("it names no job: {said:?}") }
                })?;
                let array = Array { job, target: device.name.clone(), tasks: tasks.to_vec() };
                all.push(array.clone());
                // After each: what was submitted is known whatever happens next.
                write_whole(&place.join("arrays.json"), &all)?;
                new.push(array);
            }
        }
        Ok(new)
    }

    fn place(&self) -> Result<PathBuf> {
        let place = self.folder.path().join("slurm");
        std::fs::create_dir_all(&place).map_err(CampaignError::io("make", &place))?;
        std::path::absolute(&place).map_err(CampaignError::io("find", &place))
    }

    fn script(&self, numbers: &Path) -> Result<String> {
        let folder = std::path::absolute(self.folder.path());
        let folder = folder.map_err(CampaignError::io("find", self.folder.path()))?;
        let (program, folder) = (quoted(text(self.program)?), quoted(text(&folder)?));
        let (numbers, base) = (quoted(text(numbers)?), quoted(text(self.programs)?));
        Ok(format!(
            "#!/bin/sh\n\
             # An element of a campaign of handoff: one experiment on one device.\n\
             task=$(sed -n \"$((SLURM_ARRAY_TASK_ID + 1))p\" {numbers})\n\
             {program} campaign task {folder} \"$task\" --base {base}\n\
             status=$?\n\
             # Killed, or stopped: it goes on after its finished rounds.\n\
             if [ $status -eq {AGAIN} ] || [ $status -eq 130 ] || [ $status -gt 130 -a $status -lt 160 ]; then\n\
             \tif [ \"${{SLURM_RESTART_COUNT:-0}}\" -lt {} ]; then\n\
             \t\tscontrol requeue \"${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}\"\n\
             \tfi\n\
             fi\n\
             exit $status\n",
            self.plan.attempts.max(3)
        ))
    }

    fn options(&self, device: &Device, elements: usize, place: &Path) -> Vec<String> {
        let slurm = &self.plan.slurm;
        let minutes = (self.plan.deadline_seconds / 60.0 + MARGIN_MINUTES).ceil();
        let mut options = vec![
            "--parsable".to_owned(),
            "--requeue".to_owned(),
            "--open-mode=append".to_owned(),
            "--nodes=1".to_owned(),
            "--ntasks=1".to_owned(),
            format!("--array=0-{}%1", elements - 1),
            format!("--job-name=handoff-{}", self.plan.name),
            format!("--output={}/%A_%a.log", place.display()),
            format!("--time={minutes}"),
        ];
        let mut add = |name: &str, value: Option<&String>| {
            options.extend(value.map(|value| format!("--{name}={value}")));
        };
        add("nodelist", device.node.as_ref());
        add("gres", device.gres.as_ref());
        add("partition", slurm.partition.as_ref());
        add("account", slurm.account.as_ref());
        add("qos", slurm.qos.as_ref());
        add("nice", slurm.nice.map(|nice| nice.to_string()).as_ref());
        let features = (!device.features.is_empty()).then(|| device.features.join("&"));
        add("constraint", features.as_ref());
        options.extend(slurm.exclusive.then(|| "--exclusive".to_owned()));
        options.extend(slurm.options.iter().cloned());
        options
    }
}

/// The arrays that were submitted.
pub fn arrays(folder: &Folder) -> Result<Vec<Array>> {
    let path = folder.path().join("slurm/arrays.json");
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let bytes = std::fs::read(&path).map_err(CampaignError::io("read", &path))?;
    serde_json::from_slice(&bytes).map_err(|source| CampaignError::Damaged { path, source })
}

/// Adds to each task what Slurm says of it. Says nothing of a campaign that it does not have.
pub fn join(folder: &Folder, status: &mut Status) -> Result<()> {
    let arrays = arrays(folder)?;
    if arrays.is_empty() {
        return Ok(());
    }
    let mut words = accounts(&arrays);
    // What is in the queue is newer than what was accounted.
    words.extend(queue(&arrays)?);
    for task in &mut status.tasks {
        task.engine = words.get(&task.number).map(|word| format!("slurm: {word}"));
    }
    Ok(())
}

/// What Slurm has in its queue, by the number of the task.
fn queue(arrays: &[Array]) -> Result<BTreeMap<usize, String>> {
    if arrays.is_empty() {
        return Ok(BTreeMap::new());
    }
    // All of ours: a job that is gone would be an error by its number.
    let said =
        run("squeue", &["--noheader", "--array", "--me", "--format=%F_%K|%T|%N|%r"].map(str::to_owned))?;
    Ok(read_queue(&said, arrays))
}

/// Lines `JOB_ELEMENT|STATE|NODES|REASON`.
fn read_queue(said: &str, arrays: &[Array]) -> BTreeMap<usize, String> {
    let line = |line: &str| {
        let mut parts = line.trim().split('|');
        let task = task_of(parts.next()?, arrays)?;
        let (state, nodes, reason) = (parts.next()?, parts.next()?, parts.next()?);
        let mut word = state.to_lowercase();
        for more in [nodes, reason] {
            if !more.is_empty() && more != "None" {
                let _ = write!(word, " {more}");
            }
        }
        Some((task, word))
    };
    said.lines().filter_map(line).collect()
}

/// What Slurm's accounting says, by the number of the task; nothing where there is none.
fn accounts(arrays: &[Array]) -> BTreeMap<usize, String> {
    let jobs: Vec<String> = arrays.iter().map(|array| array.job.to_string()).collect();
    let options = ["--noheader", "--parsable2", "--allocations", "--format=JobID,State,NodeList"];
    let options: Vec<String> =
        options.map(str::to_owned).into_iter().chain([format!("--jobs={}", jobs.join(","))]).collect();
    let said = run("sacct", &options).unwrap_or_default();
    let line = |line: &str| {
        let mut parts = line.trim().split('|');
        let task = task_of(parts.next()?, arrays)?;
        Some((task, format!("{} {}", parts.next()?.to_lowercase(), parts.next()?)))
    };
    said.lines().filter_map(line).collect()
}

/// The task behind `JOB_ELEMENT`.
fn task_of(element: &str, arrays: &[Array]) -> Option<usize> {
    let (job, index) = element.split_once('_')?;
    let job: u64 = job.parse().ok()?;
    let array = arrays.iter().find(|array| array.job == job)?;
    array.tasks.get(index.parse::<usize>().ok()?).copied()
}

fn run(program: &'static str, arguments: &[String]) -> Result<String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| CampaignError::Slurm {
        program,
        said: format!("{error}; the package slurm-client has it, and SLURM_CONF names another configuration"),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(CampaignError::Slurm { program, said })
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(CampaignError::io("write", path))
}

fn text(path: &Path) -> Result<&str> {
    let wrong =
        || std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no text, and goes into a script");
    path.to_str().ok_or_else(|| CampaignError::io("use", path)(wrong()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_squeue_says_is_joined_by_element() {
        let arrays = [
            Array { job: 7, target: "a".into(), tasks: vec![3, 1] },
            Array { job: 9, target: "b".into(), tasks: vec![2] },
        ];
        let said = "7_1|RUNNING|n1|None\n9_0|PENDING||Resources\n8_0|RUNNING|n2|None\n7_5|RUNNING|n1|None\nnonsense\n";
        let words = read_queue(said, &arrays);
        assert_eq!(words.len(), 2, "{words:?}");
        assert_eq!((words[&1].as_str(), words[&2].as_str()), ("running n1", "pending Resources"));
    }
}
