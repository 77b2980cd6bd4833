//! Arms in a guest: the lab's [`Target`] on one side, the workbench's guest on the other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use handoff_guest::{Builder, Guest, GuestCommand, GuestError, Kernel, Stopper};
use handoff_lab::doctor::{Pulse, Root};
use handoff_lab::experiment::ArmId;
use handoff_lab::experiment::guest::{Boot, GuestKernel, GuestPlan, Guests};
use handoff_lab::experiment::remote::Answer;
use handoff_lab::experiment::target::{Order, Replicate, Target, TargetError, wait_for_quiet};
use handoff_lab::stats::judge::Caveat;

use crate::interrupt;

/// This program's place in a guest.
const PROGRAM: &str = "/bin/handoff";

/// How much longer than the run itself an order may take there, in seconds.
const SLACK: Duration = Duration::from_secs(30);

/// How often a guest that was lost is booted again for the same run: emulated ones hang at times where the
/// host gives them too little time, and that is nothing of the arm's.
const AGAIN: usize = 2;

/// The guests of an experiment.
pub(super) struct InGuest<'a> {
    guests: &'a Guests,
    program: PathBuf,
    running: Option<(usize, Guest)>,
    emulated: bool,
    stopper: Stopper,
    tell: Box<dyn Fn(&str) + Send + Sync + 'a>,
}

impl<'a> InGuest<'a> {
    /// Guests to run a handoff program in; `tell` hears of boots and downloads. The guests end with `stopper`.
    pub(super) fn new(
        guests: &'a Guests,
        program: PathBuf,
        stopper: &Stopper,
        tell: impl Fn(&str) + Send + Sync + 'a,
    ) -> Self {
        let (stopper, tell) = (stopper.clone(), Box::new(tell));
        Self { guests, program, running: None, emulated: false, stopper, tell }
    }

    fn builder(&self, plan: &GuestPlan) -> Result<Builder, TargetError> {
        let kernel = match &plan.kernel {
            GuestKernel::Distribution => Kernel::Distribution,
            GuestKernel::RealTime => Kernel::RealTime,
            GuestKernel::Package(name) => Kernel::Package(name.clone()),
            GuestKernel::Image { image, modules } => {
                Kernel::Image { image: image.clone(), modules: modules.clone() }
            }
        };
        let mut builder = Guest::builder()
            .kernel(kernel)
            .smp(plan.smp.parse().map_err(elsewhere)?)
            .memory_mib(plan.memory_mib)
            .acceleration(plan.accel.word().parse().map_err(elsewhere)?)
            .counted_instructions(plan.icount)
            .program(&self.program, PROGRAM)
            .stopper(&self.stopper);
        for module in &plan.modules {
            let (name, parameters) = module.split_once(':').unwrap_or((module, ""));
            builder = builder.module_with(name, parameters);
        }
        Ok(plan.append.iter().fold(builder, |builder, words| builder.append(words)))
    }

    /// Gives an order to the guest of an arm; the answer, and what happened meanwhile to guest and host.
    fn ask(
        &mut self,
        arm: ArmId,
        command: &GuestCommand,
        host: &Root,
    ) -> Result<(Answer, Vec<String>), Trouble> {
        let each = self.guests.boot == Boot::Each;
        let guest = self.guest(usize::from(arm == ArmId::B)).map_err(Trouble::lost)?;
        let before = Pulse::read(host);
        let output = guest.run(command).map_err(failed).map_err(Trouble::lost)?;
        let pulse = Pulse::read(host).since(&before);
        if each {
            self.running = None;
        }
        let answer = Answer::read(output.success(), &output.stdout, &output.stderr);
        let answer = answer.map_err(|error| Trouble::Failed(format!("in the guest: {error}")))?;
        let host = pulse.flags().into_iter().map(|flag| format!("host: {flag}"));
        let incidents =
            output.incidents.iter().map(|incident| format!("the guest's kernel reported a {incident}"));
        Ok((answer, host.chain(incidents).collect()))
    }

    /// The guest of an arm, booted if need be.
    fn guest(&mut self, arm: usize) -> Result<&mut Guest, TargetError> {
        let guest = match self.running.take() {
            Some((of, guest)) if of == arm || self.guests.arms[of] == self.guests.arms[arm] => guest,
            other => {
                // One guest at a time: two would disturb each other.
                drop(other);
                let plan = &self.guests.arms[arm];
                (self.tell)(&format!("booting {}", plan.describe()));
                self.builder(plan)?.boot().map_err(failed)?
            }
        };
        self.emulated |= !guest.facts().kvm;
        Ok(&mut self.running.insert((arm, guest)).1)
    }
}

/// Why an order gave nothing.
enum Trouble {
    /// The guest cannot be had or stood still, which another boot may mend.
    Lost(String),
    /// The arm failed.
    Failed(String),
}

impl Trouble {
    fn lost(error: TargetError) -> Self {
        Self::Lost(error.to_string())
    }
}

/// What was measured there.
fn in_guest(answer: Answer) -> Result<Replicate, Trouble> {
    match answer {
        Answer::Done(replicate) => Ok(replicate),
        // A run that takes seconds was killed after its whole limit.
        Answer::Late(why) => Err(Trouble::Lost(format!("in the guest: {why}"))),
        Answer::Failed(why) => Err(Trouble::Failed(format!("in the guest: {why}"))),
    }
}

fn elsewhere(error: impl std::fmt::Display) -> TargetError {
    TargetError::Elsewhere(error.to_string())
}

/// A guest's error with its causes and its console.
fn failed(error: GuestError) -> TargetError {
    TargetError::Elsewhere(format!("{:#}", anyhow::Error::from(error)))
}

impl Target for InGuest<'_> {
    fn prepare(&mut self) -> Result<String, TargetError> {
        let guest = self.guest(0)?;
        let facts = guest.facts();
        let acceleration = if facts.kvm { "KVM" } else { "TCG" };
        let place = format!("a guest with {} on {} CPUs ({acceleration})", facts.release, facts.cpus);
        Ok(match self.guests.boot {
            Boot::Once => format!("{place}, booted once"),
            Boot::Each => format!("{place}, booted for each run"),
        })
    }

    fn program(&self) -> &Path {
        Path::new(PROGRAM)
    }

    fn carry_out(&mut self, arm: ArmId, order: &Order) -> Result<Replicate, TargetError> {
        let host = Root::new("/");
        // The guest's own load is this program: whether it is quiet, the host tells.
        let busy = wait_for_quiet(&host, order.quiet, Some(interrupt::flag()));
        let order = Order { quiet: Duration::ZERO, ..order.clone() };
        let text = serde_json::to_vec(&order).map_err(elsewhere)?;
        let command = GuestCommand::new(PROGRAM)
            .args(["lab", "arm"])
            .stdin(text)
            .timeout(order.task.limit.saturating_add(SLACK));
        let mut lost: Vec<String> = Vec::new();
        let (mut replicate, heard) = loop {
            match self.ask(arm, &command, &host).and_then(|(answer, heard)| Ok((in_guest(answer)?, heard))) {
                Ok(got) => break got,
                Err(Trouble::Lost(why)) if lost.len() < AGAIN && !interrupt::interrupted() => {
                    // Whatever stood still in it: it begins anew.
                    self.running = None;
                    (self.tell)("the guest does not go on, and is booted again");
                    lost.push(why.lines().next().unwrap_or_default().to_owned());
                }
                Err(Trouble::Lost(why) | Trouble::Failed(why)) => return Err(TargetError::Elsewhere(why)),
            }
        };
        replicate.flags.extend(busy);
        replicate.flags.extend(lost.iter().map(|why| format!("the guest was lost, and booted again: {why}")));
        replicate.flags.extend(heard);
        Ok(replicate)
    }

    fn caveats(&self) -> Vec<Caveat> {
        let text = "the guest's instructions were translated by QEMU (TCG), which has no caches and whose CPUs \
                    all cost the same: the direction does not carry over to hardware, only that the mechanism \
                    acts does";
        self.emulated.then(|| Caveat::weakens("emulated", text)).into_iter().collect()
    }
}
