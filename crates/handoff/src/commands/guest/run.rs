//! `handoff guest run`: one command in a guest.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use handoff_guest::{Arch, Builder, Guest, GuestCommand, GuestOutput, Stopper};
use serde_json::json;

use super::machine::{GuestArgs, explained};
use super::program;
use crate::interrupt::until_interrupted;
use crate::output::{Advice as _, Format, Output, Verdict, style};
use crate::{cli, legacy};

const EXAMPLES: &str = "\
Examples:
  handoff guest run -- measure latency -i 1000
  handoff guest run --rt --smp 4,sockets=2,cores=2 -- measure hackbench
  handoff guest run --raw -- sh -c 'ls -l /dev/*binder'
  handoff guest run --raw --get /tmp/log:boot.log -- sh -c 'dmesg >/tmp/log'
  handoff guest run --arch arm64 --cpu-capacity 446,446,446,446,871,871,871,1024 -- doctor
  handoff guest run --raw --module sch_tbf --put ./tests.sh:/root/tests.sh -- sh /root/tests.sh

The exit status is that of the command; 2 if the guest could not run it.";

/// Boot a guest, run a command in it, and bring back its output, files and exit status.
///
/// The command is one of this program, which is copied there; any program of the guest with --raw.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Run any program of the guest (busybox has the usual ones), not a command of handoff
    #[arg(long)]
    raw: bool,

    /// Copy this handoff there instead of the one that runs here, or of the one of `cargo xtask dist`
    /// for another architecture
    #[arg(long, value_name = "FILE", conflicts_with = "raw")]
    handoff: Option<PathBuf>,

    /// Copy a file or folder there first, to /root or where the part after the colon says (repeatable)
    #[arg(long, value_name = "HOST[:GUEST]")]
    put: Vec<String>,

    /// Bring a file or folder back, here or where the part after the colon says (repeatable)
    #[arg(long, value_name = "GUEST[:HOST]")]
    get: Vec<String>,

    /// Set an environment variable of the command (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,

    /// Kill the command after this many seconds; 0 for no limit
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,

    /// Show the kernel's console on standard error
    #[arg(long)]
    console: bool,

    #[command(flatten)]
    machine: GuestArgs,

    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        self.check()?;
        for pair in &self.put {
            let (host, _) = put_pair(pair)?;
            host.symlink_metadata().with_context(|| format!("cannot look at {}", host.display()))?;
        }
        let command = self.command()?;
        let stopper = Stopper::new();
        let builder = self.builder()?.stopper(&stopper).on_progress(|what| crate::output::progress(what));
        let status = until_interrupted(&stopper, || self.in_guest(builder, &command, output))?;
        match status {
            0 => Ok(Verdict::Pass),
            status => std::process::exit(status),
        }
    }

    /// Boots, copies, runs, copies, and gives the command's exit status.
    fn in_guest(&self, builder: Builder, command: &GuestCommand, output: &Output) -> anyhow::Result<i32> {
        let mut guest = builder.boot().map_err(explained)?;
        let facts = guest.facts().clone();
        output.note(style::paint(
            style::DIM,
            format_args!(
                "{} on {} CPUs, {}, booted in {:.1} s",
                facts.release,
                facts.cpus,
                if facts.kvm { "KVM".to_owned() } else { format!("TCG ({})", facts.acceleration) },
                facts.boot_time.as_secs_f64()
            ),
        ));
        facts.faults.iter().for_each(|fault| output.warn(format_args!("the guest reports: {fault}")));
        for pair in &self.put {
            let (host, target) = put_pair(pair)?;
            guest.put(host, &target)?;
        }
        let result = match output.format() {
            Format::Text => output.forward(|sink| guest.run_streaming(command, sink))?,
            Format::Json => guest.run(command),
        };
        let result = result.map_err(explained)?;
        for incident in &result.incidents {
            output.warn(format_args!("the guest's kernel reports a {incident}"));
        }
        // Files are brought back of a failed command too: they may say why.
        for pair in &self.get {
            let (source, host) = get_pair(pair)?;
            let fetched = guest.get(source, &host)?;
            for left in &fetched.left_out {
                output.warn(format_args!(
                    "`{left}` was left in the guest: it is no file, or a link that leads out"
                ));
            }
        }
        if output.format() == Format::Json {
            output.json(&report(&guest, &result))?;
        }
        Ok(result.status)
    }

    /// Parses a command of this program here, so that a mistake is told before a guest is booted.
    fn check(&self) -> anyhow::Result<()> {
        let first = self.command[0].to_string_lossy();
        if first.starts_with('-') {
            return Err(anyhow::anyhow!("`{first}` is no option of `handoff guest run`"))
                .advise("`handoff guest run --help` lists them; the command follows them, behind --");
        }
        if self.raw || self.handoff.is_some() {
            return Ok(());
        }
        let typed = std::iter::once(OsString::from("handoff")).chain(self.command.iter().cloned());
        let Err(error) = cli::command().try_get_matches_from(legacy::rewrite(typed)) else { return Ok(()) };
        // Only a first word that is no command can be a program of the guest.
        let wrong = error.get(clap::error::ContextKind::InvalidSubcommand);
        if wrong.is_some_and(|wrong| wrong.to_string() == first) {
            return Err(anyhow::anyhow!("`{first}` is not a command of handoff")).advise(format!(
                "any program of the guest runs with --raw: handoff guest run --raw -- {first}"
            ));
        }
        if error.use_stderr() {
            std::process::exit(i32::from(cli::refuse(error)));
        }
        Ok(())
    }

    fn command(&self) -> anyhow::Result<GuestCommand> {
        let mut command = if self.raw {
            GuestCommand::new(&self.command[0]).args(&self.command[1..])
        } else {
            GuestCommand::new("/bin/handoff").args(&self.command)
        };
        for pair in &self.env {
            let (name, value) = pair
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .with_context(|| format!("--env {pair} is not NAME=VALUE"))?;
            command = command.env(name, value);
        }
        Ok(match self.timeout {
            0 => command,
            seconds => command.timeout(Duration::from_secs(seconds)),
        })
    }

    fn builder(&self) -> anyhow::Result<Builder> {
        let mut builder = self.machine.builder();
        if !self.raw {
            builder = builder.program(self.program()?, "/bin/handoff");
        }
        if self.console {
            builder = builder
                .verbose_console(true)
                .on_console(|line| crate::output::say(&format!("console| {line}")));
        }
        Ok(builder)
    }

    /// The handoff to copy: this program, unless the guest is another machine.
    fn program(&self) -> anyhow::Result<PathBuf> {
        match (&self.handoff, self.machine.arch()) {
            (Some(file), _) => Ok(file.clone()),
            (None, Some(arch)) if Arch::host() != Some(arch) => program::for_arch(arch),
            _ => program::this(),
        }
    }
}

/// Where a file of the host goes: `HOST:GUEST`, or `/root` and its own name.
fn put_pair(pair: &str) -> anyhow::Result<(&Path, String)> {
    let (host, target) = match pair.rsplit_once(':') {
        Some((host, target)) if target.starts_with('/') => (host, Some(target.to_owned())),
        _ => (pair, None),
    };
    let host = Path::new(host);
    let target = match target {
        Some(target) => target,
        None => {
            let name = host.file_name().with_context(|| format!("--put {pair} names no file"))?;
            format!("/root/{}", name.to_string_lossy())
        }
    };
    Ok((host, target))
}

/// Where a file of the guest goes: `GUEST:HOST`, or its own name in this folder.
fn get_pair(pair: &str) -> anyhow::Result<(&str, PathBuf)> {
    match pair.split_once(':') {
        Some((source, host)) if !host.is_empty() => Ok((source, host.into())),
        _ => {
            let source = pair.trim_end_matches(':');
            let name =
                Path::new(source).file_name().with_context(|| format!("--get {pair} names no file"))?;
            Ok((source, Path::new(".").join(name)))
        }
    }
}

fn report(guest: &Guest, result: &GuestOutput) -> serde_json::Value {
    let facts = guest.facts();
    json!({
        "guest": {
            "release": facts.release,
            "machine": facts.machine,
            "cpus": facts.cpus,
            "kernel": facts.kernel,
            "kvm": facts.kvm,
            "acceleration": facts.acceleration,
            "boot_seconds": facts.boot_time.as_secs_f64(),
            "faults": facts.faults,
        },
        "status": result.status,
        "elapsed_seconds": result.elapsed.as_secs_f64(),
        "stdout": result.stdout_text(),
        "stderr": result.stderr_text(),
        "incidents": result.incidents,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_a_place_on_either_side() {
        assert_eq!(put_pair("a/b").expect("good"), (Path::new("a/b"), "/root/b".to_owned()));
        assert_eq!(put_pair("a:/t/c").expect("good"), (Path::new("a"), "/t/c".to_owned()));
        assert_eq!(get_pair("/t/c").expect("good"), ("/t/c", PathBuf::from("./c")));
        assert_eq!(get_pair("/t/c:d/e").expect("good"), ("/t/c", PathBuf::from("d/e")));
        assert!(put_pair("..").is_err() && get_pair("/").is_err());
    }
}
