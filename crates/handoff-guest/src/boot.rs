//! From a QEMU command to a guest that takes commands, or to the reason why not.

use std::io::Read as _;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::link::{ConsoleWatcher, Event, Link, Listening};
use super::machine::{GuestMachine, Wiring};
use super::process::{Killer, Process};
use super::protocol::{GuestMessage, Lines, Port};
use super::{ANSWER_LIMIT, GLANCE, Guest, GuestError, TAIL, apt};

/// Begins each line in which the guest's first process reports trouble.
const FAULT: &str = "handoff-guest: ";
/// QEMU's complaints that are kept (bytes).
const KEPT_COMPLAINTS: u64 = 16 * 1024;

/// What a guest is and how it is run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Facts {
    /// The kernel's release, as `uname -r` says.
    pub release: String,
    /// The machine, as `uname -m` says.
    pub machine: String,
    /// CPUs that are online.
    pub cpus: u32,
    /// Where the kernel comes from: a package and its version, or a file.
    pub kernel: String,
    /// Whether KVM runs it; translated otherwise.
    pub kvm: bool,
    /// Why KVM or not.
    pub acceleration: String,
    /// From the start of QEMU until commands were taken, on the host's clock.
    pub boot_time: Duration,
    /// Faults that the guest's first process reported, such as a module that did not load.
    pub faults: Vec<String>,
}

/// Stops a guest from another thread: for Ctrl-C, or when its result is no longer wanted.
///
/// It works from before the boot on: a guest that is not there yet will not come up.
#[derive(Debug, Clone, Default)]
pub struct Stopper(Arc<Mutex<Stop>>);

#[derive(Debug, Default)]
struct Stop {
    asked: bool,
    killer: Option<Killer>,
}

impl Stopper {
    /// A stopper for a guest that is still to be booted.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the guest now; what waits for it gets [`GuestError::Cancelled`].
    pub fn stop(&self) {
        let mut stop = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stop.asked = true;
        if let Some(killer) = &stop.killer {
            killer.kill();
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).asked
    }

    /// From now on [`stop`](Self::stop) kills this child; it is killed at once if `stop` was called before.
    pub fn arm(&self, killer: Killer) {
        let mut stop = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if stop.asked {
            killer.kill();
        }
        stop.killer = Some(killer);
    }
}

/// What a boot needs to know besides the machine.
pub(crate) struct BootPlan {
    pub(crate) machine: GuestMachine,
    pub(crate) area: tempfile::TempDir,
    pub(crate) kernel: String,
    pub(crate) acceleration: String,
    pub(crate) limit: Duration,
    pub(crate) answer_limit: Duration,
    pub(crate) stopper: Stopper,
    pub(crate) watcher: Option<ConsoleWatcher>,
}

/// Boots a guest and waits until it takes commands.
pub(crate) fn boot(plan: BootPlan) -> Result<Guest, GuestError> {
    let started = Instant::now();
    let deadline = started + plan.limit;
    let listening = Listening::in_folder(plan.area.path())?;
    let mut command = plan.machine.command(&Wiring::Sockets(plan.area.path()), plan.area.path())?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let process = Process::spawn(command)?;
    plan.stopper.arm(process.killer());
    let complaints = read_complaints(&process);
    let not_started = |process: &Process| {
        let status = process.wait(Duration::ZERO);
        process.kill();
        let words = complaints.join().unwrap_or_default();
        GuestError::Qemu { reason: format!("{} ({})", apt::last_lines(&words), describe(status)) }
    };
    let Some(link) = listening.accept(&process, deadline, plan.watcher)? else {
        return Err(if plan.stopper.is_stopped() { GuestError::Cancelled } else { not_started(&process) });
    };
    let mut lines = Lines::default();
    let answer = loop {
        if plan.stopper.is_stopped() {
            return Err(GuestError::Cancelled);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let console = link.console().tail(TAIL);
            return Err(GuestError::BootTimeout { limit: plan.limit, console });
        }
        match link.next(left.min(GLANCE)) {
            Some(Event::Data(Port::Command, bytes)) => {
                if let Some(line) = lines.push(&bytes)?.into_iter().next() {
                    break GuestMessage::parse(&line)?;
                }
            }
            Some(Event::Closed) => {
                let status = process.wait(ANSWER_LIMIT);
                let silent = link.console().seen() == 0 && !plan.stopper.is_stopped();
                return Err(if silent {
                    not_started(&process)
                } else {
                    why_it_ended(&link, &plan.stopper, status)
                });
            }
            Some(Event::Data(..)) | None => {}
        }
    };
    let GuestMessage::Ready { release, machine, cpus } = answer else {
        return Err(GuestError::Protocol("an answer before any question".to_owned()));
    };
    let faults = faults(&link);
    let facts = Facts {
        release,
        machine,
        cpus,
        kernel: plan.kernel,
        kvm: plan.machine.kvm,
        acceleration: plan.acceleration,
        boot_time: started.elapsed(),
        faults,
    };
    // QEMU has read the files and connected to the sockets: nothing needs to stay on the disk, and
    // so nothing is left there if this process is killed.
    drop(plan.area);
    let (stopper, answer_limit) = (plan.stopper, plan.answer_limit);
    Ok(Guest { process, link, lines, facts, stopper, answer_limit, commands: 0, over: false })
}

/// The error for a guest whose QEMU has ended.
pub(crate) fn why_it_ended(link: &Link, stopper: &Stopper, status: Option<ExitStatus>) -> GuestError {
    if stopper.is_stopped() {
        return GuestError::Cancelled;
    }
    let console = link.console();
    if let Some(panic) = console.panic() {
        return GuestError::Panic(Box::new(panic));
    }
    let transport = console
        .lines()
        .find_map(|line| Some(line.split_once(FAULT)?.1.strip_prefix("no transport: ")?.to_owned()));
    drop(console);
    if let Some(reason) = transport {
        let mut reason = reason;
        for fault in faults(link).iter().filter(|fault| fault.starts_with("module ")) {
            reason.push_str(&format!("; {fault}"));
        }
        return GuestError::Transport { reason };
    }
    let mut tail = link.console().tail(TAIL);
    if let Some(status) = status.filter(|status| !status.success()) {
        tail.push(format!("(QEMU: {status})"));
    }
    GuestError::Gone { console: tail }
}

fn faults(link: &Link) -> Vec<String> {
    link.console().lines().filter_map(|line| Some(line.split_once(FAULT)?.1.to_owned())).collect()
}

fn describe(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "it was still running".to_owned(), |status| status.to_string())
}

/// Reads QEMU's standard error to its end, keeping only so much.
fn read_complaints(process: &Process) -> std::thread::JoinHandle<Vec<u8>> {
    let stderr = process.stderr();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut stderr) = stderr {
            drop((&mut stderr).take(KEPT_COMPLAINTS).read_to_end(&mut kept));
            drop(std::io::copy(&mut stderr, &mut std::io::sink()));
        }
        kept
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_guest_that_is_still_to_come_is_stopped_too() {
        let stopper = Stopper::new();
        stopper.clone().stop();
        assert!(stopper.is_stopped());
        let mut command = Command::new("/bin/sleep");
        command.arg("600");
        let process = Process::spawn(command).expect("started");
        stopper.arm(process.killer());
        let status = process.wait(Duration::from_secs(60)).expect("killed");
        assert!(!status.success());
    }
}
