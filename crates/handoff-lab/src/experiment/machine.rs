//! From an address to what runs the arms there: the same for every experiment, wherever it comes from.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use handoff_guest::Stopper;
use handoff_targets::Address;

use super::executor::{ArmError, Executor, Local};
use super::file::Experiment;
use super::guest::Guests;
use super::remote::{Remote, Tell};

/// The machine for an experiment, and what is needed to reach it.
#[derive(Clone)]
pub struct MachineOptions<'a> {
    pub address: Address,
    /// The handoff that is put there.
    pub program: PathBuf,
    /// The folder of this machine's journals.
    pub state: PathBuf,
    pub stop: Option<&'a AtomicBool>,
    pub stopper: Stopper,
    /// Hears what is being done.
    pub tell: Tell,
}

impl<'a> MachineOptions<'a> {
    /// This machine, where nobody hears of anything and nothing ends what waits.
    #[must_use]
    pub fn local(program: impl Into<PathBuf>, state: &Path) -> Self {
        Self {
            address: Address::Local,
            program: program.into(),
            state: state.to_owned(),
            stop: None,
            stopper: Stopper::new(),
            tell: Arc::new(|_| {}),
        }
    }

    /// Reaches the machine: the experiment's guests, if it has some, and the address otherwise.
    pub fn executor<'b>(&self, experiment: &'b Experiment) -> Result<Box<dyn Executor + 'b>, ArmError>
    where
        'a: 'b,
    {
        let asked = || (self.address == Address::Guest).then(Guests::usual);
        if let Some(guests) = experiment.guests.as_ref().or_else(asked) {
            let tell = self.tell.clone();
            return Ok(Box::new(Remote::in_guests(guests, &self.program, &self.stopper, tell, self.stop)));
        }
        match &self.address {
            Address::Ssh { .. } | Address::Adb { .. } => {
                (self.tell)(&format!("reaching {}", self.address));
                Ok(Box::new(Remote::reach(&self.address, &self.program, self.stop)?))
            }
            Address::Local | Address::Guest => {
                Ok(Box::new(Local::new(&self.program, &self.state, self.stop)?))
            }
        }
    }
}
