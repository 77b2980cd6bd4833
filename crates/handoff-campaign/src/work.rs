//! One task, from here: puts the device's end there, keeps its rounds as they come, and starts it again
//! when it was lost.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use handoff_lab::experiment::result::RoundRecord;
use handoff_lab::stats::judge::Verdict;
use handoff_targets::agent::{Agent, Question};
use handoff_targets::{Address, Command, Retry, Session, TargetError};

use crate::device::{EXPERIMENT, STOP, TaskEnd, Work};
use crate::error::Result;
use crate::plan::{CampaignPlan, Task};
use crate::record::Claim;

/// How long to wait for the next try; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// It is not longer.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A line that a device sends is not longer: the result of an experiment of 10,000 rounds.
const LONGEST_LINE: usize = 256 << 20;
/// How often a device that another has is asked for.
const LOCK_WAIT: Duration = Duration::from_millis(250);
/// Enough to tell one to stop.
const STEP: Duration = Duration::from_secs(20);

/// What happens to a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Its device's end runs; `known` rounds are there already.
    Started {
        /// Rounds of earlier tries.
        known: usize,
    },
    /// A new round is kept.
    Round {
        number: usize,
    },
    /// It has to wait for the device, or go on later.
    Waits {
        why: String,
    },
    Ended(TaskOutcome),
}

/// How the work on a task ended.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskOutcome {
    /// With a result, whose verdict this is.
    Done(Verdict),
    /// Without one, and another try would be the same.
    Failed(String),
    /// The device cannot be used; its tasks wait for it.
    Absent(String),
    /// Because of `stop`; it can be gone on with.
    Stopped,
}

pub struct Worker<'a> {
    pub plan: &'a CampaignPlan,
    /// The folder that the paths of programs in the campaign's file are found from.
    pub folder: &'a Path,
    /// The handoff that is put on devices which have none of their own.
    pub program: &'a Path,
    pub stop: &'a AtomicBool,
}

impl std::fmt::Debug for Worker<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("plan", &self.plan.name).finish_non_exhaustive()
    }
}

/// What one start of the device's end came to.
enum Try {
    Ended(TaskOutcome),
    /// It was lost: the reason, and whether the device was reached at all.
    Lost(String, bool),
}

impl Worker<'_> {
    /// Works on a task until it ends.
    pub fn run(&self, task: Task, claim: &mut Claim, tell: &dyn Fn(Event)) -> Result<TaskOutcome> {
        let deadline = Duration::from_secs_f64(self.plan.deadline_seconds);
        let start = Instant::now();
        let mut retry = Retry::new(self.plan.attempts, FIRST_WAIT, LONGEST_WAIT);
        let left = || deadline.saturating_sub(start.elapsed());
        let outcome = loop {
            let known = claim.rounds().len();
            if left().is_zero() {
                break TaskOutcome::Failed(self.too_long(Duration::ZERO));
            }
            let (why, reached) = match self.attempt(task, claim, &left, tell)? {
                Try::Ended(outcome) => break outcome,
                Try::Lost(why, reached) => (why, reached),
            };
            if self.stopped() {
                break TaskOutcome::Stopped;
            }
            claim.note(format!("lost: {why}"), false)?;
            if claim.rounds().len() > known {
                retry.progressed();
            }
            let Some(wait) = retry.lost() else {
                let why = format!("{why} ({} tries in a row without a new round)", retry.tries());
                break if reached { TaskOutcome::Failed(why) } else { TaskOutcome::Absent(why) };
            };
            tell(Event::Waits { why });
            self.pause(wait);
        };
        match &outcome {
            TaskOutcome::Failed(why) => claim.fail(why)?,
            TaskOutcome::Absent(why) => claim.note(format!("the device cannot be used: {why}"), false)?,
            TaskOutcome::Stopped => claim.note("stopped", false)?,
            TaskOutcome::Done(_) => {}
        }
        tell(Event::Ended(outcome.clone()));
        Ok(outcome)
    }

    /// Why it failed, with the part of the time in which another had the device.
    fn too_long(&self, waited: Duration) -> String {
        let why = format!("it took longer than its deadline of {} s", self.plan.deadline_seconds);
        match waited.as_secs() {
            0 => why,
            waited => format!("{why}, {waited} s of which it waited for the device"),
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits, but not for a stop.
    fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.stopped() && Instant::now() < end {
            thread::sleep(Duration::from_millis(50).min(end.saturating_duration_since(Instant::now())));
        }
    }

    /// One connection, and one start of the device's end.
    fn attempt(
        &self,
        task: Task,
        claim: &mut Claim,
        left: &dyn Fn() -> Duration,
        tell: &dyn Fn(Event),
    ) -> Result<Try> {
        let device = &self.plan.targets[task.target];
        let address: Address = match device.address.parse() {
            Ok(address) => address,
            Err(error) => return Ok(lost(error, false)),
        };
        let mut session = match Session::open(&address) {
            Ok(session) => session,
            Err(error) => return Ok(lost(error, false)),
        };
        let began = Instant::now();
        let _lock = match self.wait_for(|| session.lock(), left, tell) {
            DeviceWait::Has(lock) => lock,
            DeviceWait::Stopped => return Ok(Try::Ended(TaskOutcome::Stopped)),
            DeviceWait::InUse(why) => return Ok(Try::Ended(TaskOutcome::Absent(why))),
            DeviceWait::Failed(error) => return Ok(lost(error, false)),
        };
        let waited = began.elapsed();
        let place = format!("{}/campaigns/{}-{}", session.folder(), self.plan.id, task.number);
        let own = device.program.as_ref().map(|program| self.folder.join(program));
        let program = own.as_deref().unwrap_or(self.program);
        let mut agent = match Agent::on(session, program) {
            Ok(agent) => agent,
            Err(error) => return Ok(lost(error, true)),
        };
        let known = claim.rounds().len();
        claim.note(format!("started on {}, {known} rounds are there", device.name), true)?;
        tell(Event::Started { known });
        let text = self.plan.points[task.point].text.clone();
        let work = Work { folder: place.clone().into(), text, rounds: claim.rounds().to_vec() };
        let question = Question {
            alive: true,
            folder: Some(&place),
            longest_line: LONGEST_LINE,
            ..Question::new(EXPERIMENT, left())
        };
        let mut wrong = None;
        let mut keep = |round: RoundRecord| match claim.keep(&round) {
            _ if wrong.is_some() => {}
            Ok(true) => tell(Event::Round { number: round.number }),
            Ok(false) => {}
            Err(error) => wrong = Some(error),
        };
        let over = AtomicBool::new(false);
        let ended = thread::scope(|scope| {
            scope.spawn(|| self.watch(&address, program, &place, &over));
            let ended = agent.ask_telling(&question, &work, &mut keep);
            over.store(true, Ordering::Relaxed);
            ended
        });
        if let Some(error) = wrong {
            return Err(error);
        }
        Ok(match ended {
            Ok(TaskEnd::Result(mut result)) => {
                result.header.place = format!("{} ({address})", device.name);
                let verdict = result.verdict();
                claim.finish(&result)?;
                clear(agent.session_mut(), &place);
                Try::Ended(TaskOutcome::Done(verdict))
            }
            Err(TargetError::Failed { why, .. }) => Try::Ended(TaskOutcome::Failed(why)),
            _ if self.stopped() => Try::Ended(TaskOutcome::Stopped),
            Ok(TaskEnd::Stopped) => Try::Lost("somebody stopped it there".to_owned(), true),
            Err(TargetError::Deadline { .. }) => Try::Ended(TaskOutcome::Failed(self.too_long(waited))),
            Err(error @ TargetError::NotStarted { .. }) => {
                Try::Ended(TaskOutcome::Absent(format!("{error}: `program` of the target")))
            }
            Err(error @ TargetError::NoAnswer { .. }) => Try::Ended(TaskOutcome::Failed(error.to_string())),
            Err(error) => lost(error, true),
        })
    }

    /// Takes a device's lock as soon as it is free: waiting for it is part of the task's time.
    fn wait_for<T>(
        &self,
        mut take: impl FnMut() -> handoff_targets::Result<T>,
        left: &dyn Fn() -> Duration,
        tell: &dyn Fn(Event),
    ) -> DeviceWait<T> {
        let mut told = false;
        loop {
            let why = match take() {
                Ok(lock) => return DeviceWait::Has(lock),
                Err(error @ TargetError::Locked { .. }) => error.to_string(),
                Err(error) => return DeviceWait::Failed(error),
            };
            if left().is_zero() {
                let limit = self.plan.deadline_seconds;
                return DeviceWait::InUse(format!(
                    "{why} (the task's deadline of {limit} s went by waiting for it)"
                ));
            }
            if !std::mem::replace(&mut told, true) {
                tell(Event::Waits { why });
            }
            self.pause(LOCK_WAIT.min(left()));
            if self.stopped() {
                return DeviceWait::Stopped;
            }
        }
    }

    /// Asks the device's end to stop when we are asked to, over a connection of its own. A guest is only
    /// ours and ends with this process.
    fn watch(&self, address: &Address, program: &Path, place: &str, over: &AtomicBool) {
        while !self.stopped() {
            if over.load(Ordering::Relaxed) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        if *address == Address::Guest {
            return;
        }
        // Whoever cannot be reached hears that nobody listens any more.
        let ask = |session| Agent::on(session, program)?.ask::<bool>(&Question::new(STOP, STEP), &place);
        drop(Session::open(address).and_then(ask));
    }
}

fn lost(error: TargetError, reached: bool) -> Try {
    match error {
        error if error.is_link() => Try::Lost(error.to_string(), reached),
        // Another try of ours mends none of these, and none is the task's fault.
        error @ (TargetError::HostKey { .. }
        | TargetError::Refused { .. }
        | TargetError::Architecture { .. }
        | TargetError::Version { .. }
        | TargetError::Address { .. }) => Try::Ended(TaskOutcome::Absent(error.to_string())),
        error => Try::Lost(error.to_string(), reached),
    }
}

/// Removes what a task that is done has left there. A device that is gone by now keeps it.
fn clear(session: &mut Session, place: &str) {
    let remove = Command::new("rm").args(["-rf", place]).deadline(STEP);
    drop(session.run(&remove, &mut |_, _| {}));
}

/// How the wait for a device ended.
enum DeviceWait<T> {
    Has(T),
    Stopped,
    /// The task's deadline went by, and why it had to wait.
    InUse(String),
    Failed(TargetError),
}

/// The program that devices get which have none of their own: this one.
pub fn own_program() -> std::io::Result<PathBuf> {
    std::env::current_exe()
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// Waits for a lock, with `asked` to say what is found each time; how that ended, and what was told.
    fn wait(
        stop: &AtomicBool,
        limit: Duration,
        asked: impl FnMut() -> handoff_targets::Result<u8>,
    ) -> (DeviceWait<u8>, Vec<Event>) {
        let plan = CampaignPlan::of_texts(
            "name = \"x\"\nexperiments = [\"e.toml\"]\ntargets = [\"local\"]\n",
            "title = \"t\"\n[workload]\ncommand = \"true\"\n[baseline]\nname = \"a\"\n[change]\nname = \"b\"\n\
             [metric]\nname = \"wall\"\n",
        );
        let worker = Worker { plan: &plan, folder: Path::new("."), program: Path::new("handoff"), stop };
        let (told, began) = (RefCell::new(Vec::new()), Instant::now());
        let left = || limit.saturating_sub(began.elapsed());
        let waited = worker.wait_for(asked, &left, &|event| told.borrow_mut().push(event));
        (waited, told.into_inner())
    }

    fn taken() -> TargetError {
        TargetError::Locked { target: "local".into(), holder: "process 7 on bench".into() }
    }

    #[test]
    fn a_device_that_gets_free_is_taken_and_the_wait_is_told_once() {
        let left = Cell::new(2);
        let (waited, told) = wait(&AtomicBool::new(false), Duration::from_secs(600), || {
            let now = left.get();
            left.set(now - 1);
            if now > 0 { Err(taken()) } else { Ok(1) }
        });
        assert!(matches!(waited, DeviceWait::Has(1)));
        assert!(
            matches!(&told[..], [Event::Waits { why }] if why.contains("process 7 on bench")),
            "{told:?}"
        );
    }

    #[test]
    fn a_wait_ends_with_the_deadline_of_the_task() {
        let (waited, _) = wait(&AtomicBool::new(false), Duration::from_millis(300), || Err(taken()));
        let DeviceWait::InUse(why) = waited else { panic!("nobody gave it") };
        assert!(why.contains("process 7 on bench") && why.contains("deadline"), "{why}");
    }

    #[test]
    fn a_wait_ends_when_it_is_stopped_or_fails() {
        let stopped = AtomicBool::new(true);
        let (waited, _) = wait(&stopped, Duration::from_secs(600), || Err(taken()));
        assert!(matches!(waited, DeviceWait::Stopped));
        let (waited, told) = wait(&AtomicBool::new(false), Duration::from_secs(600), || {
            Err(TargetError::Lost { target: "local".into(), why: "gone".into() })
        });
        assert!(matches!(waited, DeviceWait::Failed(TargetError::Lost { .. })) && told.is_empty());
    }
}
