//! Arms on a machine behind ssh or adb: the lab's [`Target`] on one side, a [`Session`] on the other.
//!
//! Each run of an arm is one order to this program there, which writes what it changes to its own journal and
//! puts it back. When the link was lost, or the program there was killed, its `handoff lab restore` does that.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use handoff_lab::doctor::Diagnosis;
use handoff_lab::experiment::ArmId;
use handoff_lab::experiment::journal::Restored;
use handoff_lab::experiment::remote::Answer;
use handoff_lab::experiment::target::{Order, Replicate, Target, TargetError};
use handoff_targets::{Address, Command, Lock, Session, Stream};

use crate::interrupt;

/// How much longer than the run itself an order may take there.
const SLACK: Duration = Duration::from_secs(30);

/// How long a question may take there.
const QUESTION: Duration = Duration::from_secs(60);

/// How often an order is given again after the link was lost: that is nothing of the arm's.
const AGAIN: usize = 2;

/// A machine of which nobody else has the lock.
pub(super) struct Far {
    session: Session,
    program: PathBuf,
    address: Address,
    // Something may be changed there that its program did not put back.
    left: bool,
    _lock: Lock,
}

/// What a command there printed, and how it ended.
struct Said {
    status: i32,
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Far {
    /// Connects, takes the machine's lock, and puts `program` there.
    pub(super) fn reach(address: &Address, program: &Path) -> anyhow::Result<Self> {
        let mut session = Session::open(address)?;
        let lock = session.lock()?;
        let program = session.push(program)?.into();
        // A run that was killed may have left something changed: that would be taken for the normal state.
        Ok(Self { session, program, address: address.clone(), left: true, _lock: lock })
    }

    fn command(&self, args: &[&str]) -> Command {
        let command = Command::new(self.program.to_string_lossy()).args(args.iter().copied());
        match (&self.address, self.program.parent()) {
            // A device's shell has no home that can be written to.
            (Address::Adb { .. }, Some(folder)) => {
                command.env("XDG_STATE_HOME", folder.join("state").to_string_lossy())
            }
            _ => command,
        }
    }

    fn ask(&mut self, command: &Command, input: &[u8]) -> handoff_targets::Result<Said> {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut sink = |stream, bytes: &[u8]| match stream {
            Stream::Out => out.extend_from_slice(bytes),
            Stream::Err => err.extend_from_slice(bytes),
        };
        let status = self.session.run_fed(command, input, &mut sink)?.status;
        Ok(Said { status, out, err })
    }

    /// Puts back what is left changed there, as soon as nothing runs there that may still want it: a run whose
    /// link was lost goes on to its end or its deadline.
    fn restore(&mut self, patience: Duration) -> anyhow::Result<()> {
        let command = self.command(&["lab", "restore", "--format", "json"]).deadline(QUESTION);
        let end = Instant::now() + patience;
        loop {
            let said = self.ask(&command, b"")?;
            anyhow::ensure!(said.status == 0, "{}", self.why(&said));
            let restored: Restored = serde_json::from_slice(&said.out)
                .context("what `handoff lab restore` says cannot be used")?;
            if restored.running == 0 {
                self.left = false;
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < end, "another run of the lab goes on on {}", self.address);
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    fn why(&self, said: &Said) -> String {
        let text = String::from_utf8_lossy(&said.err);
        match said.status {
            126 | 127 => format!(
                "handoff does not start on {}: {}; one that is linked statically (`cargo xtask dist`) starts anywhere: \
                 --target-program",
                self.address,
                text.trim()
            ),
            _ => format!("on {}: {}", self.address, text.trim().trim_start_matches("error: ")),
        }
    }
}

fn elsewhere(error: impl std::fmt::Display) -> TargetError {
    TargetError::Elsewhere(format!("{error:#}"))
}

impl Target for Far {
    fn prepare(&mut self) -> Result<String, TargetError> {
        self.restore(QUESTION).map_err(elsewhere)?;
        let facts = self.session.facts();
        Ok(format!("{}, {} with Linux {}", self.address, facts.arch, facts.kernel))
    }

    fn program(&self) -> &Path {
        &self.program
    }

    fn carry_out(&mut self, _: ArmId, order: &Order) -> Result<Replicate, TargetError> {
        let text = serde_json::to_vec(order).map_err(elsewhere)?;
        let limit = order.task.limit.saturating_add(order.quiet).saturating_add(SLACK);
        let command = self.command(&["lab", "arm"]).deadline(limit);
        let mut lost = 0;
        let said = loop {
            if self.left {
                self.restore(limit).map_err(elsewhere)?;
            }
            match self.ask(&command, &text) {
                Ok(said) => break said,
                Err(error) if error.is_link() && lost < AGAIN && !interrupt::interrupted() => lost += 1,
                Err(error) => {
                    self.left = true;
                    return Err(elsewhere(error));
                }
            }
            self.left = true;
        };
        // The program there was killed, by its deadline or by somebody.
        self.left = said.status > 128;
        if said.status != 0 {
            return Err(TargetError::Elsewhere(self.why(&said)));
        }
        let mut replicate = Answer::read(true, &said.out, &said.err)?.replicate()?;
        replicate.flags.extend((lost > 0).then(|| format!("the link was lost {lost} times")));
        Ok(replicate)
    }

    fn diagnose(&mut self) -> Result<Diagnosis, TargetError> {
        let command = self.command(&["doctor", "--format", "json"]).deadline(QUESTION);
        let said = self.ask(&command, b"").map_err(elsewhere)?;
        if said.status != 0 {
            return Err(TargetError::Elsewhere(self.why(&said)));
        }
        let read = serde_json::from_slice(&said.out).context("the diagnosis there cannot be used");
        read.map_err(elsewhere)
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        if self.left && self.restore(SLACK).is_err() {
            eprintln!(
                "warning: something may be left changed on {}; `handoff lab restore` there puts it back",
                self.address
            );
        }
    }
}
