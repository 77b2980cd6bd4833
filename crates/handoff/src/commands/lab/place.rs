//! Where the arms of an experiment run: `--target` and `--target-program`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use handoff_guest::Stopper;
use handoff_lab::experiment::executor::Executor;
use handoff_lab::experiment::file::{Experiment, RunsOn};
use handoff_lab::experiment::guest::Guests;
use handoff_lab::experiment::journal::{JournalError, restore};
use handoff_lab::experiment::machine::MachineOptions;
use handoff_placement::PrivateFolder;
use handoff_targets::Address;
use indicatif::ProgressBar;
use rustix::process::geteuid;

use crate::interrupt::{self, until_interrupted};
use crate::output::{Advice as _, Output};

/// No HOME, or one that is not this user's, as in a container that is started for some user.
const OWN_STATE: &str = "name a folder of your own in XDG_STATE_HOME";

// Which machine runs the arms.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct RunTarget {
    /// Run the arms there: `local`, `guest`, `ssh://[user@]host[:port]`, `adb://SERIAL`.
    #[arg(long, value_name = "ADDRESS", help_heading = "Remote target")]
    target: Option<Address>,
    /// Run this handoff there, built for that machine, not the one that runs here.
    #[arg(long, value_name = "FILE", requires = "target", help_heading = "Remote target")]
    target_program: Option<PathBuf>,
}

impl RunTarget {
    pub(super) fn read(&self, file: &Path) -> anyhow::Result<Vec<Experiment>> {
        let there = match self.target {
            None | Some(Address::Local) => RunsOn::ThisMachine,
            Some(_) => RunsOn::AnotherMachine,
        };
        let mut all = Experiment::read_for(file, there)?;
        for experiment in &mut all {
            match &self.target {
                Some(address @ (Address::Ssh { .. } | Address::Adb { .. }))
                    if experiment.guests.is_some() =>
                {
                    bail!(
                        "{} has a [guest], which is booted on this machine and not on {address}",
                        file.display()
                    );
                }
                _ => experiment.guests = experiment.guests.take().or_else(|| self.guests()),
            }
        }
        Ok(all)
    }

    /// The guest that is booted for `--target guest`.
    pub(super) fn guests(&self) -> Option<Guests> {
        (self.target == Some(Address::Guest)).then(|| Guests::usual().clone())
    }

    /// The words of a command line that ask for it.
    pub(super) fn words(&self) -> String {
        let program = self.target_program.as_ref();
        let target = self.target.as_ref().map(|address| format!(" --target {address}"));
        let program = program.map(|program| format!(" --target-program {}", program.display()));
        target.unwrap_or_default() + &program.unwrap_or_default()
    }

    /// Does something with the machine that an experiment runs on.
    pub(super) fn with<T>(
        &self,
        experiment: &Experiment,
        state: &Path,
        bar: &ProgressBar,
        action: impl FnOnce(&mut dyn Executor) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let own = std::env::current_exe().context("cannot tell where this program is")?;
        let (stopper, bar) = (Stopper::new(), bar.clone());
        let options = MachineOptions {
            address: self.target.clone().unwrap_or(Address::Local),
            program: self.target_program.clone().unwrap_or(own),
            state: state.to_owned(),
            stop: Some(interrupt::flag()),
            stopper: stopper.clone(),
            tell: Arc::new(move |what| bar.set_message(what.to_owned())),
        };
        if options.address == Address::Local && !geteuid().is_root() {
            PrivateFolder::create(state, 0o700)
                .with_context(|| format!("{} cannot be used", state.display()))
                .advise(OWN_STATE)?;
        }
        until_interrupted(&stopper, || action(&mut *options.executor(experiment)?))
    }
}

/// What an earlier run left changed would be taken for the normal state.
pub(super) fn put_back_first(state: &Path, output: &Output) -> anyhow::Result<()> {
    let restored = match restore(state) {
        Err(error @ JournalError::Placement(_)) if !geteuid().is_root() => Err(error).advise(OWN_STATE)?,
        restored => restored?,
    };
    for undo in &restored.written {
        output.warn(format_args!(
            "a run that was killed had left {} changed; it is {:?} again",
            undo.path.display(),
            undo.value
        ));
    }
    Ok(())
}
