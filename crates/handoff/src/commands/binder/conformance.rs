//! `handoff binder conformance`: whether a Binder driver does what its header and libbinder promise.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use anyhow::Context as _;
use handoff_conformance::{
    AgentCommand, Case, CaseOutcome, CaseResult, FAULTS, FaultResult, FaultSearch, KernelDevice, Source,
    Suite, cases, serve_agent,
};
use handoff_ipc::Context;
use handoff_ipc::binder::{Implementation, find_device};
use serde::Serialize;

use super::driver_text;
use crate::output::{Advice as _, Output, Verdict, style};

/// Ask a Binder driver for everything that it promises, case by case.
///
/// Each case speaks to the driver itself, with no engine in between, and names what its expectation comes
/// from: the UAPI header, a function of the C driver, or what libbinder relies on. Where the driver does
/// something else, a case of the header or of libbinder has failed; a case of the C driver's own ways
/// differs, which is a fact and no fault.
///
/// It needs a device that has no context manager. No privileges are needed where the device may be opened;
/// some cases of priorities are not run without them.
///
/// Exit status: 0 if nothing has failed, 1 if something has, 2 if there is no driver to ask. With `--seed-faults`: 0 if
/// every fault was found, 1 if not.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Conformance {
    /// Run only cases whose name begins so; can be repeated
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Say which cases there are, and run none
    #[arg(long)]
    list: bool,
    /// Print every case, not only those that did not pass
    #[arg(long)]
    all: bool,
    /// Devices to ask, in place of those in /dev; a second one is another context
    #[arg(long = "device", value_name = "FILE")]
    devices: Vec<PathBuf>,
    /// Ask the suite itself: put faults between it and the driver, one after the other, and say which it finds
    #[arg(long, conflicts_with = "list")]
    seed_faults: bool,
}

const EXAMPLES: &str = "\
Examples:
  handoff guest run -- binder conformance                      the driver of the distribution's kernel
  handoff binder conformance --list                            the cases, and what each comes from
  handoff binder conformance --case death. --case freeze. --all
  handoff binder conformance --format json > driver.json
  handoff guest run -- binder conformance --seed-faults        whether the suite would notice a driver's faults
  handoff binder mount /tmp/mine one two && handoff binder conformance --device /tmp/mine/one --device /tmp/mine/two";

/// One case as the list has it.
#[derive(Serialize)]
struct Listed {
    case: &'static str,
    source: Source,
    expects: &'static str,
}

#[derive(Serialize)]
#[serde(transparent)]
struct List(Vec<Listed>);

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Listed { case, source, expects } in &self.0 {
            writeln!(f, "{case:<40} {expects}  ({})", source_text(*source))?;
        }
        match self.0.len() {
            1 => f.write_str("1 case"),
            count => write!(f, "{count} cases"),
        }
    }
}

/// Everything that was found.
#[derive(Serialize)]
struct ConformanceReport {
    kernel: String,
    driver: &'static str,
    devices: Vec<PathBuf>,
    counts: BTreeMap<&'static str, usize>,
    results: Vec<CaseResult>,
    #[serde(skip)]
    all: bool,
}

fn source_text(source: Source) -> String {
    match source {
        Source::Header(name) => format!("header: {name}"),
        Source::Libbinder(name) => format!("libbinder: {name}"),
        Source::Driver(name) => format!("C driver: {name}"),
    }
}

fn word(outcome: &CaseOutcome) -> (&'static str, Option<&str>) {
    match outcome {
        CaseOutcome::Pass => ("passes", None),
        CaseOutcome::Differs(what) => ("differs", Some(what)),
        CaseOutcome::Fails(what) => ("fails", Some(what)),
        CaseOutcome::NotHere(why) => ("not here", Some(why)),
    }
}

impl fmt::Display for ConformanceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for CaseResult { case, source, expects, outcome } in &self.results {
            let (word, why) = word(outcome);
            if why.is_none() && !self.all {
                continue;
            }
            let style = match outcome {
                CaseOutcome::Pass => style::GOOD,
                CaseOutcome::Fails(_) => style::BAD,
                CaseOutcome::Differs(_) => style::WARNING,
                CaseOutcome::NotHere(_) => style::DIM,
            };
            write!(
                f,
                "{} {case}: {expects} ({})",
                style::paint(style, format_args!("{word:<8}")),
                source_text(*source)
            )?;
            match why {
                Some(why) => writeln!(f, "\n           {why}")?,
                None => writeln!(f)?,
            }
        }
        let device = self.devices.first().map(|device| device.display().to_string()).unwrap_or_default();
        let driver = driver_text(self.driver);
        write!(f, "{device}, Linux {}, {driver}: {} cases", self.kernel, self.results.len())?;
        for (word, count) in &self.counts {
            write!(f, ", {count} {word}")?;
        }
        Ok(())
    }
}

/// What became of the faults that were put before the driver.
#[derive(Serialize)]
struct FaultReport {
    kernel: String,
    driver: &'static str,
    faults: Vec<FaultResult>,
}

fn fault_text(FaultResult { fault, found_by, .. }: &FaultResult) -> String {
    match found_by {
        Some(case) => format!("{} {fault}: {case}", style::paint(style::GOOD, "found    ")),
        None => format!("{} {fault}", style::paint(style::BAD, "not found")),
    }
}

impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.faults.iter().try_for_each(|fault| writeln!(f, "{}", fault_text(fault)))?;
        let found = self.faults.iter().filter(|fault| fault.found_by.is_some()).count();
        write!(
            f,
            "Linux {}, {}: {found} of {} faults found",
            self.kernel,
            driver_text(self.driver),
            self.faults.len()
        )
    }
}

/// Puts each fault before the driver. Each is told of as it is done.
fn seed_faults(device: &KernelDevice, chosen: &[&'static Case], output: &Output) -> Vec<FaultResult> {
    let search = FaultSearch::new(device, chosen);
    let all = FAULTS.len();
    output.note(format_args!(
        "{} of {} cases pass without a fault; {all} faults",
        search.passing(),
        chosen.len()
    ));
    let announced = |(number, fault)| {
        let result = search.find(fault);
        output.note(format_args!("{number} of {all}: {}", fault_text(&result)));
        result
    };
    (1..).zip(FAULTS).map(announced).collect()
}

/// With what this program is executed again, to be a process that the suite uses.
const AGENT: [&str; 3] = ["binder", "conformance", "--agent"];

fn agent() -> anyhow::Result<AgentCommand> {
    let program = std::env::current_exe().context("cannot find this program to execute it again")?;
    Ok(AgentCommand { program, arguments: AGENT.map(Into::into).to_vec() })
}

/// Is a process that the suite uses, if this one was executed for that; it ends here then. A case starts several, and none
/// of them needs the command line.
pub(crate) fn serve_if_agent() {
    if !std::env::args_os().skip(1).eq(AGENT) {
        return;
    }
    let served = agent()
        .and_then(|agent| serve_agent(&agent).context("what the suite said to its process cannot be read"));
    match served {
        Ok(()) => std::process::exit(0),
        Err(error) => {
            eprintln!("a process of the suite failed: {error:#}");
            std::process::exit(2);
        }
    }
}

impl Conformance {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let agent = agent()?;
        let chosen = self.chosen()?;
        if self.list {
            let listed =
                |case: &&'static Case| Listed { case: case.name, source: case.source, expects: case.expects };
            output.result(&List(chosen.iter().map(listed).collect()))?;
            return Ok(Verdict::Pass);
        }
        let devices = self.devices(&agent)?;
        let device = KernelDevice::new(devices.clone(), agent);
        let kernel =
            std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        let driver = Implementation::running().name();
        if self.seed_faults {
            let faults = seed_faults(&device, &chosen, output);
            let all_found = faults.iter().all(|fault| fault.found_by.is_some());
            output.result(&FaultReport { kernel, driver, faults })?;
            return Ok(Verdict::of(all_found));
        }
        let suite = Suite::new(&device);
        let results: Vec<CaseResult> = chosen.iter().map(|case| suite.run(case)).collect();
        let mut counts = BTreeMap::new();
        for result in &results {
            *counts.entry(word(&result.outcome).0).or_default() += 1;
        }
        let has_failed = results.iter().any(|result| matches!(result.outcome, CaseOutcome::Fails(_)));
        output.result(&ConformanceReport { kernel, driver, devices, counts, results, all: self.all })?;
        Ok(Verdict::of(!has_failed))
    }

    fn chosen(&self) -> anyhow::Result<Vec<&'static Case>> {
        for name in &self.cases {
            if !cases().any(|case| case.name.starts_with(name.as_str())) {
                return Err(anyhow::anyhow!("no case's name begins with {name:?}"))
                    .advise("`handoff binder conformance --list` says which there are");
            }
        }
        let is_chosen = |case: &&Case| {
            self.cases.is_empty() || self.cases.iter().any(|name| case.name.starts_with(name.as_str()))
        };
        Ok(cases().filter(is_chosen).collect())
    }

    /// The devices that were named, or those that have no context manager.
    fn devices(&self, agent: &AgentCommand) -> anyhow::Result<Vec<PathBuf>> {
        let all: Vec<PathBuf> = if self.devices.is_empty() {
            let contexts = [Context::Framework, Context::Hardware, Context::Vendor];
            let found: Vec<PathBuf> =
                contexts.into_iter().filter_map(|context| find_device(context).ok()).collect();
            if found.is_empty() {
                // It says what this kernel has, and what to do.
                find_device(Context::Framework)?;
            }
            found
        } else {
            self.devices.clone()
        };
        let mut refused = Vec::new();
        let mut free = Vec::new();
        for device in all {
            match handoff_conformance::becomes_manager(&KernelDevice::new(
                vec![device.clone()],
                agent.clone(),
            )) {
                Ok(()) => free.push(device),
                Err(why) => refused.push(format!("{}: {why}", device.display())),
            }
        }
        if free.is_empty() {
            return Err(anyhow::anyhow!("no device can be asked ({})", refused.join("; "))).advise(
                "the suite has to be a device's context manager: `handoff binder mount FOLDER one two` makes devices \
                 that nobody uses (root), then name them with --device",
            );
        }
        Ok(free)
    }
}
