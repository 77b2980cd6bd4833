//! One kernel of a study, ready to be booted.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StudyError;
use super::file::{ProofPlan, StudyGuest};
use crate::prove::{Probe, Proof, prove};
use handoff_guest::{Builder, Guest, GuestCommand, GuestSpec, Kernel, Stopper};
use handoff_targets::GUEST_PROGRAM;

/// A kernel and the guest to boot it in, as a file that another process reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Boot {
    pub image: PathBuf,
    /// The folder that it was built in.
    pub build: PathBuf,
    pub guest: StudyGuest,
    /// The handoff that is copied into the guest.
    pub handoff: PathBuf,
    /// The load under which the probes are looked at.
    pub load: Vec<String>,
    /// The load is a program of the guest, not a command of handoff.
    pub raw: bool,
    /// The load is killed after that many seconds.
    pub limit_seconds: u64,
    /// What must be seen.
    pub probes: Vec<Probe>,
}

impl Boot {
    pub(super) fn new(
        image: &Path,
        build: &Path,
        guest: &StudyGuest,
        handoff: &Path,
        plan: &ProofPlan,
        probes: &[Probe],
    ) -> Self {
        Self {
            image: image.to_owned(),
            build: build.to_owned(),
            guest: guest.clone(),
            handoff: handoff.to_owned(),
            load: plan.load.clone(),
            raw: plan.raw,
            limit_seconds: plan.limit_seconds,
            probes: probes.to_vec(),
        }
    }

    /// The guest, before it is booted; all that its kernel says goes to `console`.
    #[must_use]
    pub fn builder(&self, stopper: &Stopper, console: impl FnMut(&str) + Send + 'static) -> Builder {
        let spec = GuestSpec {
            kernel: Kernel::Image { image: self.image.clone(), modules: self.guest.module_folder.clone() },
            ..self.guest.spec.clone()
        };
        let mut builder = spec
            .builder()
            .program(&self.handoff, GUEST_PROGRAM)
            .verbose_console(true)
            .on_console(console)
            .stopper(stopper);
        for program in &self.guest.programs {
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            builder = builder.program(program, format!("/bin/{name}"));
        }
        builder
    }

    /// Boots, and runs the setup script.
    pub fn start(
        &self,
        stopper: &Stopper,
        console: impl FnMut(&str) + Send + 'static,
    ) -> Result<Guest, StudyError> {
        let mut guest = self.builder(stopper, console).boot()?;
        if let Some(script) = &self.guest.setup {
            let output =
                guest.run(&GuestCommand::shell(script).timeout(Duration::from_secs(self.limit_seconds)))?;
            if !output.success() {
                return Err(StudyError::Setup { status: output.status, said: output.stderr_text() });
            }
        }
        Ok(guest)
    }

    /// Runs the load in the guest and looks at the probes.
    pub fn prove(&self, guest: &mut Guest) -> Result<Proof, StudyError> {
        let command = if self.raw {
            GuestCommand::new(&self.load[0]).args(&self.load[1..])
        } else {
            GuestCommand::new(GUEST_PROGRAM).args(&self.load)
        };
        let command = command.timeout(Duration::from_secs(self.limit_seconds));
        Ok(prove(guest, &command, &self.probes, Some(&self.build))?)
    }
}
