//! `handoff kernel boot`: does a kernel that was built come up, and what does it say?

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use handoff_guest::{Arch, Builder, Guest, GuestCommand, Incident, Kernel, Stopper};
use handoff_kernel::build::KernelArch;
use serde::Serialize;

use crate::commands::guest::machine::{Hardware, explained};
use crate::interrupt::until_interrupted;
use crate::output::{Advice as _, Output, Verdict};
use crate::results;

const EXAMPLES: &str = "\
Examples:
  handoff kernel boot build
  handoff kernel boot build --log serial.log --smp 4,sockets=2,cores=2
  handoff kernel boot build -- sh -c 'zcat /proc/config.gz | grep BINDER'
  handoff kernel boot linux/arch/arm64/boot/Image --arch arm64

The exit status is 1 if the kernel came up but reported trouble, that of the command if one was given.";

/// Boot a kernel in a guest, and say how it went.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    kernel: BuiltKernel,

    /// Kill the command after this many seconds; 0 for no limit
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,

    /// A command of the guest to run when it is up
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

// A kernel that was built, and the guest to boot it in.
#[derive(Debug, clap::Args)]
pub(super) struct BuiltKernel {
    /// The build folder, or a boot image
    #[arg(value_name = "DIR|IMAGE")]
    pub(super) kernel: PathBuf,

    /// The architecture of an image [default: that of the build folder, or this machine's]
    #[arg(long, value_name = "ARCH")]
    arch: Option<Arch>,

    /// Write all that the kernel says on its console to this file, even if it does not come up
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    #[command(flatten)]
    hardware: Hardware,
}

impl BuiltKernel {
    /// Boots it with what `prepare` adds, and does something in it; its console is kept whatever comes of that.
    pub(super) fn booted<T>(
        &self,
        prepare: impl FnOnce(Builder) -> Builder,
        action: impl FnOnce(&mut Guest) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let (kernel, arch) = find(&self.kernel, self.arch)?;
        let said = Arc::new(Mutex::new(String::new()));
        let (kept, stopper) = (Arc::clone(&said), Stopper::new());
        let mut builder = self.hardware.builder().kernel(kernel).stopper(&stopper).verbose_console(true);
        if let Some(arch) = arch {
            builder = builder.arch(arch);
        }
        let builder =
            prepare(builder).on_progress(|what| crate::output::progress(what)).on_console(move |line| {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_str(line);
                kept.push('\n');
            });
        let done = until_interrupted(&stopper, || action(&mut builder.boot().map_err(explained)?));
        if let Some(file) = &self.log {
            let said = said.lock().unwrap_or_else(PoisonError::into_inner);
            results::write(file, said.as_bytes())?;
        }
        done
    }
}

/// A kernel that came up.
#[derive(Debug, Serialize)]
struct BootReport {
    release: String,
    machine: String,
    cpus: u32,
    boot_seconds: f64,
    kvm: bool,
    acceleration: String,
    console_lines: usize,
    faults: Vec<String>,
    incidents: Vec<Incident>,
}

impl fmt::Display for BootReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = if self.kvm { "KVM" } else { "TCG" };
        write!(f, "{} came up on {} CPUs in {:.1} s ({by})", self.release, self.cpus, self.boot_seconds)?;
        self.faults.iter().try_for_each(|fault| write!(f, "\nfault: {fault}"))?;
        match self.incidents.len() {
            0 => write!(f, "\nits console reports no trouble in {} lines", self.console_lines),
            _ => self.incidents.iter().try_for_each(|incident| write!(f, "\n{incident}")),
        }
    }
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        match self.kernel.booted(|builder| builder, |guest| self.in_guest(guest, output))? {
            (Some(status), _) if status != 0 => std::process::exit(status),
            (_, trouble) => Ok(Verdict::of(!trouble || !self.command.is_empty())),
        }
    }

    /// Runs the command if there is one; gives its status and whether there was trouble.
    fn in_guest(&self, guest: &mut Guest, output: &Output) -> anyhow::Result<(Option<i32>, bool)> {
        let status = match self.command.split_first() {
            None => None,
            Some((program, arguments)) => {
                let command = GuestCommand::new(program).args(arguments);
                let command = match self.timeout {
                    0 => command,
                    seconds => command.timeout(Duration::from_secs(seconds)),
                };
                let done = output.forward(|sink| guest.run_streaming(&command, sink))?;
                Some(done.map_err(explained)?.status)
            }
        };
        let report = report(guest);
        let trouble = !report.incidents.is_empty();
        match status {
            None => output.result(&report)?,
            Some(_) => report.incidents.iter().for_each(|incident| output.warn(incident)),
        }
        Ok((status, trouble))
    }
}

fn report(guest: &Guest) -> BootReport {
    let facts = guest.facts().clone();
    let console = guest.console();
    BootReport {
        release: facts.release,
        machine: facts.machine,
        cpus: facts.cpus,
        boot_seconds: facts.boot_time.as_secs_f64(),
        kvm: facts.kvm,
        acceleration: facts.acceleration,
        console_lines: console.seen(),
        faults: facts.faults,
        incidents: console.incidents().to_vec(),
    }
}

/// The image in a build folder, or the image itself.
fn find(path: &Path, arch: Option<Arch>) -> anyhow::Result<(Kernel, Option<Arch>)> {
    if !path.is_dir() {
        return Ok((Kernel::Image { image: path.to_owned(), modules: None }, arch));
    }
    let candidates = [(Arch::X86_64, KernelArch::X86_64), (Arch::Arm64, KernelArch::Arm64)];
    let found = candidates
        .into_iter()
        .filter(|(guest, _)| arch.is_none_or(|arch| arch == *guest))
        .map(|(guest, built)| (guest, path.join(built.image())))
        .find(|(_, image)| image.is_file());
    match found {
        Some((arch, image)) => Ok((Kernel::Image { image, modules: Some(path.to_owned()) }, Some(arch))),
        None => Err(anyhow::anyhow!("{} has no boot image for a guest", path.display()))
            .advise("build one with `handoff kernel build`, or name the image itself"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_folder_says_its_architecture() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(find(folder.path(), None).is_err());
        let image = folder.path().join("arch/arm64/boot/Image");
        std::fs::create_dir_all(image.parent().expect("a parent")).expect("made");
        std::fs::write(&image, "x").expect("written");
        let (kernel, arch) = find(folder.path(), None).expect("found");
        assert_eq!(arch, Some(Arch::Arm64));
        assert_eq!(kernel, Kernel::Image { image: image.clone(), modules: Some(folder.path().to_owned()) });
        assert!(find(folder.path(), Some(Arch::X86_64)).is_err());
        assert_eq!(find(&image, None).expect("an image").1, None);
    }
}
