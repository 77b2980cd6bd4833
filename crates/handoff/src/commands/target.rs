//! `handoff target`: the machines that commands run on with `--target`.

use std::fmt;
use std::path::PathBuf;

use anyhow::Context as _;
use handoff_targets::agent::Agent;
use handoff_targets::{Address, Facts, Session, known};
use serde::Serialize;

use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff target list                     what ssh's configuration and the adb server know
  handoff target check ssh://lab-7 local  whether they can be measured on
  handoff target doctor ssh://lab-7       what could spoil a figure there
  handoff measure latency --target ssh://lab-7    a measuring command there";

group! {
    /// Look at the machines that commands run on with --target: list, check, doctor.
    #[command(after_help = EXAMPLES)]
    {
        Check(Check),
        Doctor(Doctor),
        List(List),
    }
}

/// List the machines that ssh's configuration and the adb server know.
///
/// None of them is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  handoff target list\n  handoff target list --format json")]
struct List {}

#[derive(Serialize)]
#[serde(transparent)]
struct TargetList(Vec<String>);

impl fmt::Display for TargetList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl List {
    fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        output.result(&TargetList(known().iter().map(ToString::to_string).collect()))?;
        Ok(Verdict::Pass)
    }
}

/// Reach machines, put this program there and start it; say what each is.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  handoff target check ssh://lab-7 adb://emulator-5554\n  handoff target check guest"
)]
struct Check {
    /// The machines: `local`, `guest`, `ssh://[user@]host[:port]`, `adb://SERIAL`.
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<Address>,
    /// Start this handoff there, built for that machine, not the one that runs here.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

#[derive(Serialize)]
struct TargetCheck {
    address: String,
    #[serde(flatten)]
    facts: Option<Facts>,
    /// What this program said there of itself.
    version: Option<String>,
    /// What keeps it from being measured on.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl fmt::Display for TargetCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<28} ", self.address)?;
        if let Some(Facts { arch, kernel, cpus, root, clock_ahead_s, free_kib, .. }) = &self.facts {
            let cpus = cpus.map_or_else(|| "? CPUs".to_owned(), |cpus| format!("{cpus} CPUs"));
            let who = if *root { "root" } else { "not root" };
            let free = free_kib.map_or_else(|| "?".to_owned(), |kib| format!("{} MiB", kib >> 10));
            write!(f, "{arch}, Linux {kernel}, {cpus}, {who}, {free} free, clock {clock_ahead_s:+} s; ")?;
        }
        match (&self.problem, &self.version) {
            (Some(problem), _) => write!(f, "cannot be measured on: {problem}"),
            (None, Some(version)) => write!(f, "runs {version}"),
            (None, None) => Ok(()),
        }
    }
}

impl Check {
    fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let own = std::env::current_exe().context("cannot tell which program this is")?;
        let program = self.program.clone().unwrap_or(own);
        let mut all = true;
        for address in &self.addresses {
            let mut checked =
                TargetCheck { address: address.to_string(), facts: None, version: None, problem: None };
            let mut look = || -> anyhow::Result<String> {
                let session = Session::open(address)?;
                checked.facts = Some(session.facts().clone());
                let mut said = Vec::new();
                let version = ["--version".to_owned()];
                let done = Agent::on(session, &program)?
                    .run(&version, &mut |_, bytes| said.extend_from_slice(bytes))?;
                let said = String::from_utf8_lossy(&said).trim().to_owned();
                anyhow::ensure!(
                    done.status == 0,
                    "the program does not start there ({said}); one that is linked statically does: --program"
                );
                Ok(said)
            };
            match look() {
                Ok(version) => checked.version = Some(version),
                Err(error) => checked.problem = Some(format!("{error:#}")),
            }
            all &= checked.problem.is_none();
            output.result(&checked)?;
        }
        Ok(Verdict::of(all))
    }
}

/// Say what could spoil a figure on a machine: `handoff doctor`, there.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  handoff target doctor ssh://lab-7")]
struct Doctor {
    /// The machine: `local`, `guest`, `ssh://[user@]host[:port]`, `adb://SERIAL`.
    #[arg(value_name = "ADDRESS")]
    address: Address,
}

impl Doctor {
    fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let format = if output.format() == crate::output::Format::Json { "json" } else { "text" };
        let args = ["--format", format, "doctor"].map(str::to_owned).to_vec();
        let status = crate::remote_command::RemoteCommand::of(self.address.clone(), args).status(output)?;
        match status {
            0 => Ok(Verdict::Pass),
            1 => Ok(Verdict::Fail),
            status => anyhow::bail!("doctor ended with exit status {status} on {}", self.address),
        }
    }
}
