//! One task, from here: puts the device's end there, keeps its rounds as they come, and starts it again
//! when it was lost.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use handoff_lab::experiment::result::ExperimentResult;
use handoff_lab::stats::judge::Verdict;
use handoff_targets::{Address, Command, Session, Stream, TargetError};

use crate::device::{EXPERIMENT, LOCK, Line, ROUNDS};
use crate::error::Result;
use crate::file::Device;
use crate::plan::{Plan, Point, Task};
use crate::record::Claim;

/// How long to wait for the next try; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// It is not longer.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// What is kept of what the device's end says on standard error.
const KEPT: usize = 4096;
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
        /// Its number.
        number: usize,
    },
    /// It has to wait for the device, or go on later.
    Waits {
        /// Why.
        why: String,
    },
    /// It ended.
    Ended(Outcome),
}

/// How the work on a task ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// With a result, whose verdict this is.
    Done(Verdict),
    /// Without one, and another try would be the same.
    Failed(String),
    /// The device cannot be used; its tasks wait for it.
    Absent(String),
    /// Because of `stop`; it can be gone on with.
    Stopped,
}

/// Who works.
pub struct Worker<'a> {
    /// What for.
    pub plan: &'a Plan,
    /// The folder that the paths of programs in the campaign's file are found from.
    pub folder: &'a Path,
    /// The handoff that is put on devices which have none of their own.
    pub program: &'a Path,
    /// Ends the work.
    pub stop: &'a AtomicBool,
}

impl std::fmt::Debug for Worker<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("plan", &self.plan.name).finish_non_exhaustive()
    }
}

/// What one start of the device's end came to.
enum Try {
    Ended(Outcome),
    /// It was lost: the reason, and whether the device was reached at all.
    Lost(String, bool),
}

impl Worker<'_> {
    /// Works on a task until it ends.
    ///
    /// # Errors
    ///
    /// If its record cannot be written, or its device contradicts itself.
    pub fn carry_out(&self, task: Task, claim: &mut Claim, tell: &dyn Fn(Event)) -> Result<Outcome> {
        let deadline = Duration::from_secs_f64(self.plan.deadline_seconds);
        let (start, mut wait, mut tries) = (Instant::now(), FIRST_WAIT, 0);
        let left = || deadline.saturating_sub(start.elapsed());
        let outcome = loop {
            let known = claim.rounds().len();
            if left().is_zero() {
                break Outcome::Failed(self.too_long(Duration::ZERO));
            }
            let (why, reached) = match self.attempt(task, claim, &left, tell)? {
                Try::Ended(outcome) => break outcome,
                Try::Lost(why, reached) => (why, reached),
            };
            if self.stopped() {
                break Outcome::Stopped;
            }
            claim.note(format!("lost: {why}"), false)?;
            if claim.rounds().len() > known {
                (wait, tries) = (FIRST_WAIT, 0);
            }
            tries += 1;
            if tries >= self.plan.attempts {
                let why = format!("{why} ({tries} tries in a row without a new round)");
                break if reached { Outcome::Failed(why) } else { Outcome::Absent(why) };
            }
            tell(Event::Waits { why });
            self.pause(wait);
            wait = (2 * wait).min(LONGEST_WAIT);
        };
        match &outcome {
            Outcome::Failed(why) => claim.fail(why)?,
            Outcome::Absent(why) => claim.note(format!("the device cannot be used: {why}"), false)?,
            Outcome::Stopped => claim.note("stopped", false)?,
            Outcome::Done(_) => {}
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
            Waited::Has(lock) => lock,
            Waited::Stopped => return Ok(Try::Ended(Outcome::Stopped)),
            Waited::InUse(why) => return Ok(Try::Ended(Outcome::Absent(why))),
            Waited::Failed(error) => return Ok(lost(error, false)),
        };
        let waited = began.elapsed();
        let place = format!("{}/campaigns/{}-{}", session.folder(), self.plan.id, task.number);
        let there = match self.prepare(&mut session, device, &self.plan.points[task.point], claim, &place) {
            Ok(there) => there,
            Err(error) => return Ok(lost(error, true)),
        };
        let known = claim.rounds().len();
        claim.note(format!("started on {}, {known} rounds are there", device.name), true)?;
        tell(Event::Started { known });
        let command = Command::new(there).args(["campaign", "device", place.as_str()]).deadline(left());
        let mut reader = Reader { claim, tell, rest: Vec::new(), said: Vec::new(), end: None, wrong: None };
        let over = AtomicBool::new(false);
        let done = thread::scope(|scope| {
            scope.spawn(|| self.watch(&address, &place, &over));
            let done = session.run(&command, &mut |stream, bytes| reader.take(stream, bytes));
            over.store(true, Ordering::Relaxed);
            done
        });
        let Reader { said, end, wrong, .. } = reader;
        if let Some(error) = wrong {
            return Err(error);
        }
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        match end {
            Some(End::Result(mut result)) => {
                result.header.place = format!("{} ({address})", device.name);
                let verdict = result.verdict();
                claim.finish(&result)?;
                clear(&mut session, &place);
                return Ok(Try::Ended(Outcome::Done(verdict)));
            }
            Some(End::Failed(why)) => return Ok(Try::Ended(Outcome::Failed(why))),
            Some(End::Garbage(what)) => {
                return Ok(Try::Lost(format!("{} sends what makes no sense: {what}", device.name), true));
            }
            None => {}
        }
        Ok(match done {
            _ if self.stopped() => Try::Ended(Outcome::Stopped),
            Err(TargetError::Deadline { .. }) => Try::Ended(Outcome::Failed(self.too_long(waited))),
            Err(error) => lost(error, true),
            Ok(done) => match done.status {
                126 | 127 => Try::Ended(Outcome::Absent(format!(
                    "the program does not start there ({said}); one that is linked statically does: `program` of the target"
                ))),
                status if status > 128 => {
                    Try::Lost(format!("it was ended there (status {status}) {said}"), true)
                }
                status => Try::Ended(Outcome::Failed(format!(
                    "it ended with status {status} and no result: {said}"
                ))),
            },
        })
    }

    /// Takes a device's lock as soon as it is free: waiting for it is part of the task's time.
    fn wait_for<T>(
        &self,
        mut take: impl FnMut() -> handoff_targets::Result<T>,
        left: &dyn Fn() -> Duration,
        tell: &dyn Fn(Event),
    ) -> Waited<T> {
        let mut told = false;
        loop {
            let why = match take() {
                Ok(lock) => return Waited::Has(lock),
                Err(error @ TargetError::Locked { .. }) => error.to_string(),
                Err(error) => return Waited::Failed(error),
            };
            if left().is_zero() {
                let limit = self.plan.deadline_seconds;
                return Waited::InUse(format!(
                    "{why} (the task's deadline of {limit} s went by waiting for it)"
                ));
            }
            if !std::mem::replace(&mut told, true) {
                tell(Event::Waits { why });
            }
            self.pause(LOCK_WAIT.min(left()));
            if self.stopped() {
                return Waited::Stopped;
            }
        }
    }

    fn prepare(
        &self,
        session: &mut Session,
        device: &Device,
        point: &Point,
        claim: &Claim,
        place: &str,
    ) -> handoff_targets::Result<String> {
        let own = device.program.as_ref().map(|program| self.folder.join(program));
        let program = own.as_deref().unwrap_or(self.program);
        // This machine can start it where it is.
        let is_here = session.address() == Address::Local;
        let there = match program.to_str().filter(|_| is_here) {
            Some(path) => path.to_owned(),
            None => session.push(program)?,
        };
        let mut rounds = Vec::new();
        for round in claim.rounds() {
            rounds.extend(serde_json::to_vec(round).expect("no map of it has keys that are no text"));
            rounds.push(b'\n');
        }
        session.send(&rounds, &format!("{place}/{ROUNDS}"))?;
        session.send(point.text.as_bytes(), &format!("{place}/{EXPERIMENT}"))?;
        Ok(there)
    }

    /// Asks the device's end to stop when we are asked to, over a connection of its own. A guest is only
    /// ours and ends with this process.
    fn watch(&self, address: &Address, place: &str, over: &AtomicBool) {
        while !self.stopped() {
            if over.load(Ordering::Relaxed) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        if *address == Address::Guest {
            return;
        }
        let script = "kill -TERM \"$(cat \"$1\")\"";
        let lock = format!("{place}/{LOCK}");
        let ask = Command::new("sh").args(["-c", script, "sh", lock.as_str()]).deadline(STEP);
        // Whoever cannot be reached hears that nobody listens any more.
        drop(Session::open(address).and_then(|mut session| session.run(&ask, &mut |_, _| {})));
    }
}

fn lost(error: TargetError, reached: bool) -> Try {
    match error {
        error if error.is_link() => Try::Lost(error.to_string(), reached),
        // Another try of ours mends none of these, and none is the task's fault.
        error @ (TargetError::HostKey { .. }
        | TargetError::Refused { .. }
        | TargetError::Architecture { .. }
        | TargetError::Address { .. }) => Try::Ended(Outcome::Absent(error.to_string())),
        error => Try::Lost(error.to_string(), reached),
    }
}

/// Removes what a task that is done has left there. A device that is gone by now keeps it.
fn clear(session: &mut Session, place: &str) {
    let remove = Command::new("rm").args(["-rf", place]).deadline(STEP);
    drop(session.run(&remove, &mut |_, _| {}));
}

/// How the wait for a device ended.
enum Waited<T> {
    Has(T),
    Stopped,
    /// The task's deadline went by, and why it had to wait.
    InUse(String),
    Failed(TargetError),
}

enum End {
    Result(Box<ExperimentResult>),
    Failed(String),
    Garbage(String),
}

/// Takes what the device's end says.
struct Reader<'a> {
    claim: &'a mut Claim,
    tell: &'a dyn Fn(Event),
    /// The beginning of a line.
    rest: Vec<u8>,
    said: Vec<u8>,
    end: Option<End>,
    wrong: Option<crate::CampaignError>,
}

impl Reader<'_> {
    fn take(&mut self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Err {
            self.said.extend_from_slice(bytes);
            let extra = self.said.len().saturating_sub(KEPT);
            self.said.drain(..extra);
            return;
        }
        let mut pieces = bytes.split(|byte| *byte == b'\n');
        let last = pieces.next_back().unwrap_or_default();
        for piece in pieces {
            let mut line = std::mem::take(&mut self.rest);
            line.extend_from_slice(piece);
            if self.end.is_none() && self.wrong.is_none() {
                self.line(&line);
            }
        }
        if self.end.is_none() {
            self.rest.extend_from_slice(last);
        }
        if self.rest.len() > LONGEST_LINE {
            self.rest = Vec::new();
            self.end = Some(End::Garbage(format!("a line of more than {LONGEST_LINE} bytes")));
        }
    }

    fn line(&mut self, line: &[u8]) {
        match serde_json::from_slice(line) {
            Ok(Line::Alive(_)) => {}
            Ok(Line::Round(round)) => match self.claim.keep(&round) {
                Ok(true) => (self.tell)(Event::Round { number: round.number }),
                Ok(false) => {}
                Err(error) => self.wrong = Some(error),
            },
            Ok(Line::Result(result)) => self.end = Some(End::Result(result)),
            Ok(Line::Failed(why)) => self.end = Some(End::Failed(why)),
            Err(error) => self.end = Some(End::Garbage(error.to_string())),
        }
    }
}

/// The program that devices get which have none of their own: this one.
///
/// # Errors
///
/// If the system does not tell.
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
    ) -> (Waited<u8>, Vec<Event>) {
        let plan = Plan::of_texts(
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
        assert!(matches!(waited, Waited::Has(1)));
        assert!(
            matches!(&told[..], [Event::Waits { why }] if why.contains("process 7 on bench")),
            "{told:?}"
        );
    }

    #[test]
    fn a_wait_ends_with_the_deadline_of_the_task() {
        let (waited, _) = wait(&AtomicBool::new(false), Duration::from_millis(300), || Err(taken()));
        let Waited::InUse(why) = waited else { panic!("nobody gave it") };
        assert!(why.contains("process 7 on bench") && why.contains("deadline"), "{why}");
    }

    #[test]
    fn a_wait_ends_when_it_is_stopped_or_fails() {
        let stopped = AtomicBool::new(true);
        let (waited, _) = wait(&stopped, Duration::from_secs(600), || Err(taken()));
        assert!(matches!(waited, Waited::Stopped));
        let (waited, told) = wait(&AtomicBool::new(false), Duration::from_secs(600), || {
            Err(TargetError::Lost { target: "local".into(), why: "gone".into() })
        });
        assert!(matches!(waited, Waited::Failed(TargetError::Lost { .. })) && told.is_empty());
    }
}
