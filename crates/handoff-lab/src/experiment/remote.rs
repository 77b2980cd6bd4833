//! Arms on another machine: over ssh, over adb, or in a guest.
//!
//! Each run of an arm is one request to the agent there, which writes what it changes to its own journal and puts
//! it back. When the link was lost, or the program there was killed, the agent is asked to restore.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use handoff_guest::{Guest, GuestSpec, Stopper};
use handoff_placement::Root;
use handoff_targets::agent::{Agent, Question};
use handoff_targets::{Address, GUEST_PROGRAM, Retry, Session, TargetError};

use super::ArmId;
use super::agent::{DIAGNOSE, RESTORE, RUN, RunAnswer};
use super::executor::{ArmError, Executor, QuietGate, Replicate, RunRequest};
use super::guest::{Boot, Guests};
use super::journal::RestoreReport;
use crate::doctor::{Diagnosis, Machine, SystemSample};
use crate::stats::judge::Caveat;

/// How much longer than the run itself a request may take there.
const SLACK: Duration = Duration::from_secs(30);

/// How long a question may take there.
const QUESTION: Duration = Duration::from_secs(60);

/// How often a run is tried when the machine was lost under it: a link breaks, and emulated guests hang at times
/// where the host gives them too little time. That is nothing of the arm's.
const TRIES: u32 = 3;

/// Hears what is being done, such as a boot.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// A machine that is asked through its agent.
pub struct Remote<'a> {
    machine: Kind<'a>,
    /// The arm that it was reached for, which matters for guests alone.
    agent: Option<(usize, Agent)>,
    program: PathBuf,
    stop: Option<&'a AtomicBool>,
    /// Something may be changed there that its program did not put back.
    left: bool,
    emulated: bool,
}

enum Kind<'a> {
    /// It is there, and stays.
    Reached(Address, PathBuf),
    /// It is booted, perhaps another for each arm.
    Guests(&'a Guests, GuestBoot),
}

/// What a guest needs beside its description.
#[derive(Clone)]
struct GuestBoot {
    program: PathBuf,
    stopper: Stopper,
    tell: Tell,
}

impl GuestBoot {
    fn boot(&self, spec: &GuestSpec) -> Result<Guest, TargetError> {
        (self.tell)(&format!("booting {spec}"));
        let builder = spec.builder().program(&self.program, GUEST_PROGRAM).stopper(&self.stopper);
        Ok(builder.boot()?)
    }
}

impl<'a> Remote<'a> {
    /// A machine of which nobody else gets the lock meanwhile, with `program` put there.
    pub fn reach(
        address: &Address,
        program: &Path,
        stop: Option<&'a AtomicBool>,
    ) -> Result<Self, TargetError> {
        let agent = Agent::reach(address, program)?;
        Ok(Self {
            machine: Kind::Reached(address.clone(), program.to_owned()),
            program: agent.program().to_owned(),
            agent: Some((0, agent)),
            stop,
            // A run that was killed may have left something changed: that would be taken for the normal state.
            left: true,
            emulated: false,
        })
    }

    /// Guests that are booted when they are needed, with `program` in them; they end with `stopper`.
    #[must_use]
    pub fn in_guests(
        guests: &'a Guests,
        program: &Path,
        stopper: &Stopper,
        tell: Tell,
        stop: Option<&'a AtomicBool>,
    ) -> Self {
        let booting = GuestBoot { program: program.to_owned(), stopper: stopper.clone(), tell };
        Self {
            machine: Kind::Guests(guests, booting),
            agent: None,
            program: GUEST_PROGRAM.into(),
            stop,
            left: false,
            emulated: false,
        }
    }

    /// The agent for an arm, on a guest that is booted if need be.
    fn agent(&mut self, arm: usize) -> Result<&mut Agent, TargetError> {
        let agent = match (&self.machine, self.agent.take()) {
            (Kind::Reached(..), Some((_, agent))) => agent,
            (Kind::Guests(guests, _), Some((of, agent)))
                if of == arm || guests.arms[of] == guests.arms[arm] =>
            {
                agent
            }
            (Kind::Reached(address, program), None) => Agent::reach(address, program)?,
            (Kind::Guests(guests, booting), other) => {
                // One guest at a time: two would disturb each other.
                drop(other);
                let (spec, of_boot) = (guests.arms[arm].clone(), booting.clone());
                let session = Session::in_guest(&booting.program, move || of_boot.boot(&spec))?;
                self.left = false;
                Agent::on(session, &booting.program)?
            }
        };
        let agent = &mut self.agent.insert((arm, agent)).1;
        if let Some(guest) = agent.session_mut().guest() {
            self.emulated |= !guest?.facts().kvm;
        }
        Ok(agent)
    }

    /// Puts back what is left changed there, as soon as nothing runs there that may still want it: a run whose
    /// link was lost goes on to its end or its deadline.
    fn restore(&mut self, arm: usize, most: Duration) -> Result<(), ArmError> {
        let end = Instant::now() + most;
        loop {
            let restored: RestoreReport = self.agent(arm)?.ask(&Question::new(RESTORE, QUESTION), &())?;
            if restored.running == 0 {
                self.left = false;
                return Ok(());
            }
            if Instant::now() >= end {
                let why = format!("another run of the lab goes on {}", self.place());
                return Err(ArmError::Remote(why));
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// For an error: where it happened.
    fn place(&self) -> String {
        match &self.machine {
            Kind::Reached(address, _) => format!("on {address}"),
            Kind::Guests(..) => "in the guest".to_owned(),
        }
    }

    /// One run of an arm there, and what happened meanwhile to the machine.
    fn attempt(
        &mut self,
        arm: usize,
        request: &RunRequest,
        limit: Duration,
    ) -> Result<(Replicate, Vec<String>), ArmError> {
        if self.left {
            self.restore(arm, limit)?;
        }
        let host = Root::host();
        let agent = self.agent(arm)?;
        let before = SystemSample::read(&host);
        let answer = agent.ask(&Question::new(RUN, limit), request);
        let incidents = agent.incidents();
        self.left = answer.is_err();
        let mut heard = Vec::new();
        if let Kind::Guests(guests, _) = &self.machine {
            if !guests.count_instructions() {
                let flags = SystemSample::read(&host).since(&before).flags();
                heard.extend(flags.into_iter().map(|flag| format!("host: {flag}")));
            }
            heard
                .extend(incidents.iter().map(|incident| format!("the guest's kernel reported a {incident}")));
            if guests.boot == Boot::Each {
                self.agent = None;
            }
        }
        match answer? {
            RunAnswer::Done(replicate) => Ok((replicate, heard)),
            RunAnswer::Late(why) => Err(ArmError::Late(format!("{}: {why}", self.place()))),
            RunAnswer::Failed(why) => Err(ArmError::Remote(format!("{}: {why}", self.place()))),
        }
    }

    /// Whether the machine was lost and not the arm at fault.
    fn was_lost(&self, error: &ArmError) -> bool {
        match (error, &self.machine) {
            (ArmError::Machine(error), _) if error.is_link() => true,
            // A guest that stood still is booted anew. A run that takes seconds was killed after its whole limit.
            (ArmError::Machine(error), Kind::Guests(..)) => matches!(
                error,
                TargetError::Rebooted { .. }
                    | TargetError::Guest(_)
                    | TargetError::Deadline { .. }
                    | TargetError::Killed { .. }
            ),
            (ArmError::Late(_), Kind::Guests(..)) => true,
            _ => false,
        }
    }

    fn stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

impl Executor for Remote<'_> {
    fn prepare(&mut self) -> Result<String, ArmError> {
        if let Kind::Reached(address, _) = &self.machine {
            let address = address.clone();
            self.restore(0, QUESTION)?;
            let facts = self.agent(0)?.session().facts();
            return Ok(format!("{address}, {} with Linux {}", facts.arch, facts.kernel));
        }
        let mut place = "a guest".to_owned();
        if let Some(guest) = self.agent(0)?.session_mut().guest() {
            let facts = guest?.facts();
            let acceleration = if facts.kvm { "KVM" } else { "TCG" };
            place += &format!(" with {} on {} CPUs ({acceleration})", facts.release, facts.cpus);
        }
        Ok(match &self.machine {
            Kind::Guests(Guests { boot: Boot::Each, .. }, _) => format!("{place}, booted for each run"),
            _ => format!("{place}, booted once"),
        })
    }

    fn program(&self) -> &Path {
        &self.program
    }

    fn run(&mut self, arm: ArmId, request: &RunRequest) -> Result<Replicate, ArmError> {
        let mut request = request.clone();
        let mut busy = None;
        if let Kind::Guests(guests, _) = &self.machine {
            // The guest's own load is this program: whether it is quiet, the host tells.
            if !guests.count_instructions() {
                busy = QuietGate::usual(request.quiet).wait(&Root::host(), self.stop);
            }
            request.quiet = Duration::ZERO;
        }
        let limit = request.task.limit.saturating_add(request.quiet).saturating_add(SLACK);
        let mut retry = Retry::new(TRIES, Duration::ZERO, Duration::ZERO);
        let mut lost: Vec<String> = Vec::new();
        let (mut replicate, heard) = loop {
            let error = match self.attempt(usize::from(arm == ArmId::B), &request, limit) {
                Ok(done) => break done,
                Err(error) => error,
            };
            if !self.was_lost(&error) || self.stopped() || retry.lost().is_none() {
                return Err(error);
            }
            lost.push(error.to_string().lines().next().unwrap_or_default().to_owned());
            if let Kind::Guests(_, booting) = &self.machine {
                (booting.tell)("the guest does not go on, and is booted again");
                self.agent = None;
            }
        };
        replicate.flags.extend(busy);
        match &self.machine {
            Kind::Guests(..) => {
                replicate
                    .flags
                    .extend(lost.iter().map(|why| format!("the guest was lost, and booted again: {why}")));
            }
            Kind::Reached(..) if lost.is_empty() => {}
            Kind::Reached(..) => replicate.flags.push(format!("the link was lost {} times", lost.len())),
        }
        replicate.flags.extend(heard);
        Ok(replicate)
    }

    fn diagnose(&mut self) -> Result<Diagnosis, ArmError> {
        match &self.machine {
            Kind::Reached(..) => Ok(self.agent(0)?.ask(&Question::new(DIAGNOSE, QUESTION), &())?),
            Kind::Guests(guests, _) if guests.count_instructions() => {
                Ok(Machine::here().diagnose().of_counted_instructions())
            }
            Kind::Guests(..) => Ok(Machine::here().diagnose()),
        }
    }

    fn caveats(&self) -> Vec<Caveat> {
        let text = "the guest's instructions were translated by QEMU (TCG), which has no caches and whose CPUs \
                    all cost the same: the direction does not carry over to hardware, only that the mechanism \
                    acts does";
        self.emulated.then(|| Caveat::weakens("emulated", text)).into_iter().collect()
    }
}

impl Drop for Remote<'_> {
    fn drop(&mut self) {
        if let Kind::Reached(address, _) = &self.machine {
            let address = address.clone();
            if self.left && self.restore(0, SLACK).is_err() {
                eprintln!(
                    "warning: something may be left changed on {address}; `handoff lab restore` there puts it back"
                );
            }
        }
    }
}
