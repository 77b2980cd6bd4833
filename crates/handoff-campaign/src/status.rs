//! How far a campaign is.

use serde::Serialize;

use crate::error::Result;
use crate::plan::{CampaignPlan, Task};
use crate::record::{Folder, Record, State};

/// A campaign at a moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    pub name: String,
    /// Tasks that nobody has.
    pub waiting: usize,
    /// Tasks that a worker has.
    pub running: usize,
    pub done: usize,
    /// Tasks that were given up.
    pub failed: usize,
    /// Complete rounds of all tasks.
    pub rounds: usize,
    /// Each task, by its number.
    pub tasks: Vec<TaskStatus>,
}

/// A task at a moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskStatus {
    pub number: usize,
    pub target: String,
    pub title: String,
    pub state: State,
    pub rounds: usize,
    pub most_rounds: usize,
    /// How often its device's end was started.
    pub starts: usize,
    /// The verdict's word, once it has a result.
    pub verdict: Option<String>,
    /// The latest that happened to it, or why it failed.
    pub latest: Option<String>,
    /// What the engine says of it, if it is one with a word of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
}

pub fn status(plan: &CampaignPlan, folder: &Folder) -> Result<Status> {
    let mut tasks = Vec::with_capacity(plan.tasks.len());
    for task in &plan.tasks {
        tasks.push(one(plan, *task, &folder.task(*task))?);
    }
    tasks.sort_by_key(|task| task.number);
    let count = |state| tasks.iter().filter(|task| task.state == state).count();
    Ok(Status {
        name: plan.name.clone(),
        waiting: count(State::Waiting),
        running: count(State::Running),
        done: count(State::Done),
        failed: count(State::Failed),
        rounds: tasks.iter().map(|task| task.rounds).sum(),
        tasks,
    })
}

fn one(plan: &CampaignPlan, task: Task, record: &Record) -> Result<TaskStatus> {
    let point = &plan.points[task.point];
    let state = record.state();
    let notes = record.notes()?;
    let result = if state == State::Done { record.result()? } else { None };
    let failure = record.failure()?.map(|failure| failure.why);
    Ok(TaskStatus {
        number: task.number,
        target: plan.targets[task.target].name.clone(),
        title: point.title.clone(),
        state,
        rounds: record.rounds()?.len(),
        most_rounds: point.most_rounds,
        starts: notes.iter().filter(|note| note.started).count(),
        verdict: result.map(|result| result.verdict().word().to_owned()),
        latest: failure.or_else(|| notes.last().map(|note| note.what.clone())),
        engine: None,
    })
}
