//! The engine `local`: a worker for each device in this process, and no set-up.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::error::Result;
use crate::plan::{CampaignPlan, Task};
use crate::record::{Folder, State};
use crate::work::{Event, TaskOutcome, Worker};

/// How often it is looked whether another process has ended with a task that it has.
const GLANCE: Duration = Duration::from_millis(500);

/// What happened to which task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskEvent {
    pub task: Task,
    pub event: Event,
}

#[derive(Debug, Clone)]
pub struct Engine {
    pub plan: Arc<CampaignPlan>,
    pub folder: Folder,
    /// The folder that the paths of programs in the campaign's file are found from.
    pub programs: PathBuf,
    /// The handoff that is put on devices which have none of their own.
    pub program: PathBuf,
    pub stop: &'static AtomicBool,
}

/// Workers that go on, one a device.
#[derive(Debug)]
pub struct RunningWorkers {
    events: Receiver<TaskEvent>,
    wrong: Arc<Mutex<Option<crate::CampaignError>>>,
}

impl RunningWorkers {
    /// What happens within this time; the error tells that all workers have ended.
    ///
    /// # Errors
    ///
    /// If nothing can happen any more.
    pub fn next_within(&self, time: Duration) -> Result<Option<TaskEvent>, Over> {
        match self.events.recv_timeout(time) {
            Ok(told) => Ok(Some(told)),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Err(Over),
        }
    }

    pub fn end(self) -> Result<()> {
        match self.wrong.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// All workers have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Over;

impl Engine {
    /// Starts a worker for each device that has something to do.
    pub fn start(&self) -> std::io::Result<RunningWorkers> {
        let (tell, events) = channel();
        let wrong = Arc::new(Mutex::new(None));
        for target in 0..self.plan.targets.len() {
            let waits = |task| self.folder.task(task).state() != State::Done;
            if !self.plan.tasks_of(target).any(waits) {
                continue;
            }
            let (engine, tell, wrong) = (self.clone(), tell.clone(), Arc::clone(&wrong));
            thread::Builder::new().name(format!("device-{target}")).spawn(move || {
                if let Err(error) = engine.device(target, &tell) {
                    wrong.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            })?;
        }
        Ok(RunningWorkers { events, wrong })
    }

    /// Works on the tasks of a device until none is left.
    fn device(&self, target: usize, tell: &Sender<TaskEvent>) -> Result<()> {
        let worker =
            Worker { plan: &self.plan, folder: &self.programs, program: &self.program, stop: self.stop };
        loop {
            let mut elsewhere = false;
            for task in self.plan.tasks_of(target) {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let record = self.folder.task(task);
                if matches!(record.state(), State::Done | State::Failed) {
                    continue;
                }
                let Some(mut claim) = record.claim()? else {
                    elsewhere = true;
                    continue;
                };
                // It may have been done between the look and the claim.
                if record.state() == State::Done {
                    continue;
                }
                // Nobody listens any more when the process ends.
                let tell = |event| drop(tell.send(TaskEvent { task, event }));
                match worker.run(task, &mut claim, &tell)? {
                    TaskOutcome::Absent(_) | TaskOutcome::Stopped => return Ok(()),
                    TaskOutcome::Done(_) | TaskOutcome::Failed(_) => {}
                }
            }
            if !elsewhere {
                return Ok(());
            }
            thread::sleep(GLANCE);
        }
    }
}
