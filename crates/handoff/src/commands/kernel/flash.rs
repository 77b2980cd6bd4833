//! `handoff kernel flash`: a boot image on an Android device.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use handoff_kernel::device::{FlashPlan, flash};

use super::image::read;
use crate::output::{Advice as _, Output, Verdict, style};

const EXAMPLES: &str = "\
Examples:
  handoff kernel flash new.img --dry-run              the calls of adb and fastboot, in their order
  handoff kernel flash new.img --yes                  boot it once; a restart brings the old kernel back
  handoff kernel flash new.img --write --yes          write it, once it has come up
  handoff kernel flash old.img --write --yes --serial emulator-5554    back to the saved one

The image that the device has is saved first, which needs a device that lets adb become root, and an
unlocked bootloader. A device that does not come up is brought back by holding its power key.";

/// Boot an image on an Android device, and write it there only after it has come up
///
/// Uses the system's own adb and fastboot.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The boot image
    #[arg(value_name = "IMAGE")]
    image: PathBuf,

    /// The device, as `adb devices` names it [default: the only one]
    #[arg(long, value_name = "SERIAL")]
    serial: Option<String>,

    /// The partition
    #[arg(long, value_name = "NAME", default_value = "boot")]
    partition: String,

    /// Save the image that the device has here; it must not be there yet
    #[arg(long, value_name = "FILE", default_value = "boot-before.img")]
    backup: PathBuf,

    /// Write the image to the partition after it has come up
    #[arg(long)]
    write: bool,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    /// Do it: without this nothing is done to a device
    #[arg(long)]
    yes: bool,

    /// Give the device this many seconds to come up
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let plan = FlashPlan {
            image: self.image.clone(),
            serial: self.serial.clone(),
            partition: self.partition.clone(),
            backup: self.backup.clone(),
            write: self.write,
            timeout: Duration::from_secs(self.timeout),
        };
        read(&self.image)?;
        let calls = plan.calls()?;
        if self.dry_run {
            for call in &calls {
                output.line(format_args!("{call}"))?;
            }
            return Ok(Verdict::Pass);
        }
        if !self.yes {
            return Err(anyhow!(
                "this restarts the device{}",
                if self.write { " and writes to it" } else { "" }
            ))
            .advise("look at it with --dry-run, then add --yes");
        }
        ensure!(
            !self.backup.exists(),
            "{} is there already and would be lost: name another file with --backup",
            self.backup.display()
        );
        let release = flash(&plan, &mut |call| {
            output.note(style::paint(style::DIM, format_args!("{}: {call}", call.purpose)));
        })?;
        let how = if self.write {
            "was booted and written"
        } else {
            "was booted; a restart brings the old one back"
        };
        output.line(format_args!("the image {how}; the device runs {release}"))?;
        output.line(format_args!("the image that it had is in {}", self.backup.display()))?;
        Ok(Verdict::Pass)
    }
}
