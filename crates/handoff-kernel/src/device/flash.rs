//! Bringing a boot image to a device with the system's own `adb` and `fastboot`.
//!
//! The image is first booted without being written (`fastboot boot`). Only when the device has come up with it,
//! and the image that it had was saved, is it written: whatever the new kernel does, the old one is one
//! restart away until then.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlashPlan {
    pub image: PathBuf,
    /// The device; the only one if none is named.
    pub serial: Option<String>,
    pub partition: String,
    /// Where the image that the device has is saved first.
    pub backup: PathBuf,
    /// Write it, after it was booted once.
    pub write: bool,
    /// How long the device may take to come up.
    pub timeout: Duration,
}

/// One call of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub program: &'static str,
    pub arguments: Vec<String>,
    pub purpose: &'static str,
    /// Its output goes to this file.
    pub into: Option<PathBuf>,
    /// It is asked again until it prints this.
    pub until: Option<&'static str>,
}

/// Why an image did not come to a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlashError {
    #[error("{0:?} is no name of a partition or device")]
    Name(String),
    #[error("cannot run {program}: {reason}; on Debian and Ubuntu run `apt-get install adb fastboot`")]
    Start { program: &'static str, reason: std::io::Error },
    #[error("cannot {purpose}: `{call}` {how}{}", if *written { "" } else { "; nothing was written to the device" })]
    Step {
        purpose: &'static str,
        call: String,
        how: String,
        /// Whether the partition may have been written by then.
        written: bool,
    },
    #[error("{} is no boot image ({reason}), so it is no backup; nothing was written to the device", path.display())]
    Backup { path: PathBuf, reason: String },
}

impl FlashPlan {
    /// The calls, in their order.
    pub fn calls(&self) -> Result<Vec<Call>, FlashError> {
        for name in self.serial.iter().chain([&self.partition]) {
            let good = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
            if name.is_empty() || name.starts_with('-') || !name.bytes().all(good) {
                return Err(FlashError::Name(name.clone()));
            }
        }
        let image = self.image.display().to_string();
        let adb = |purpose, arguments: &[&str]| self.call("adb", purpose, arguments);
        let fastboot = |purpose, arguments: &[&str]| self.call("fastboot", purpose, arguments);
        // The slot that is in use has a suffix on devices that have two.
        let read =
            format!("dd if=/dev/block/by-name/{}$(getprop ro.boot.slot_suffix) 2>/dev/null", self.partition);
        let up =
            |purpose| Call { until: Some("1"), ..adb(purpose, &["shell", "getprop", "sys.boot_completed"]) };
        let mut calls = vec![
            adb("become root on the device", &["root"]),
            adb("wait for the device", &["wait-for-device"]),
            Call {
                into: Some(self.backup.clone()),
                ..adb("save the image that the device has", &["exec-out", &read])
            },
            adb("restart into the bootloader", &["reboot", "bootloader"]),
            fastboot("boot the image without writing it", &["boot", &image]),
            up("wait until the device is up with it"),
            adb("ask which kernel runs", &["shell", "uname", "-r"]),
        ];
        if self.write {
            calls.push(adb("restart into the bootloader", &["reboot", "bootloader"]));
            calls.push(fastboot("write the image", &["flash", &self.partition, &image]));
            calls.push(fastboot("restart the device", &["reboot"]));
            calls.push(up("wait until the device is up"));
        }
        Ok(calls)
    }

    fn call(&self, program: &'static str, purpose: &'static str, arguments: &[&str]) -> Call {
        let mut all: Vec<String> = Vec::new();
        if let Some(serial) = &self.serial {
            all.extend(["-s".to_owned(), serial.clone()]);
        }
        all.extend(arguments.iter().map(|word| (*word).to_owned()));
        Call { program, arguments: all, purpose, into: None, until: None }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program)?;
        for word in &self.arguments {
            if word.contains(char::is_whitespace) {
                write!(f, " '{word}'")?;
            } else {
                write!(f, " {word}")?;
            }
        }
        self.into.as_ref().map_or(Ok(()), |file| write!(f, " >{}", file.display()))
    }
}

/// Carries a plan out; tells each call before it is made, and gives what the device says of its kernel.
///
/// # Errors
///
/// If a program is missing or a step fails; no later step is then made.
pub fn flash(plan: &FlashPlan, tell: &mut dyn FnMut(&Call)) -> Result<String, FlashError> {
    let (mut release, mut written) = (String::new(), false);
    for call in plan.calls()? {
        tell(&call);
        written |= call.arguments.iter().any(|word| word == "flash");
        let printed = run_step(&call, plan.timeout, written)?;
        if let Some(backup) = &call.into {
            check_backup(backup)?;
        }
        if call.arguments.iter().any(|word| word == "uname") {
            printed.trim().clone_into(&mut release);
        }
    }
    Ok(release)
}

fn check_backup(path: &Path) -> Result<(), FlashError> {
    let fail = |reason: String| FlashError::Backup { path: path.to_owned(), reason };
    let bytes = std::fs::read(path).map_err(|error| fail(error.to_string()))?;
    super::BootImage::parse(&bytes).map(drop).map_err(|error| fail(error.to_string()))
}

fn run_step(call: &Call, timeout: Duration, written: bool) -> Result<String, FlashError> {
    let started = Instant::now();
    let failed =
        |how: String| FlashError::Step { purpose: call.purpose, call: call.to_string(), how, written };
    loop {
        let mut command = Command::new(call.program);
        command.args(&call.arguments).stdin(Stdio::null());
        if let Some(file) = &call.into {
            let file =
                File::create(file).map_err(|error| failed(format!("cannot write its output: {error}")))?;
            command.stdout(file);
        }
        let output =
            command.output().map_err(|reason| FlashError::Start { program: call.program, reason })?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        match call.until {
            // A device that restarts is not there for a while.
            Some(wanted) if printed.trim() != wanted => {
                if started.elapsed() >= timeout {
                    return Err(failed(format!("did not say {wanted} within {} s", timeout.as_secs())));
                }
                std::thread::sleep(Duration::from_millis(500).min(timeout / 4));
            }
            _ if output.status.success() => return Ok(printed),
            _ => {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(failed(format!("ended with {}: {}", output.status, said.trim())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(write: bool) -> FlashPlan {
        FlashPlan {
            image: "new.img".into(),
            serial: Some("emulator-5554".to_owned()),
            partition: "boot".to_owned(),
            backup: "old.img".into(),
            write,
            timeout: Duration::from_secs(1),
        }
    }

    #[test]
    fn an_image_is_booted_before_it_is_written_and_the_old_one_saved_before_both() {
        let calls: Vec<String> =
            plan(true).calls().expect("good names").iter().map(ToString::to_string).collect();
        let at = |part: &str| calls.iter().position(|call| call.contains(part)).expect(part);
        assert!(at(">old.img") < at("boot new.img") && at("boot new.img") < at("flash boot new.img"));
        assert!(at("sys.boot_completed") < at("flash boot"), "it is written only when it came up");
        assert!(calls.iter().all(|call| call.contains("-s emulator-5554")));
        let only_booted = plan(false).calls().expect("good names");
        assert!(!only_booted.iter().any(|call| call.arguments.iter().any(|word| word == "flash")));
    }

    #[test]
    fn names_are_no_words_of_a_shell() {
        for bad in ["boot;reboot", "$(x)", "", "-w", "a b"] {
            assert!(matches!(
                FlashPlan { partition: bad.into(), ..plan(true) }.calls(),
                Err(FlashError::Name(_))
            ));
            assert!(matches!(
                FlashPlan { serial: Some(bad.into()), ..plan(true) }.calls(),
                Err(FlashError::Name(_))
            ));
        }
    }
}
