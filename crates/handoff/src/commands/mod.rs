//! One file a command, each thin: it holds the options, calls the library, and prints.
//!
//! To add one, in alphabetical order: `mod NAME;`, a variant of [`Command`] whose documentation is the
//! line in `handoff --help`, and an arm in [`Command::run`]. A command is a `clap::Args` struct called
//! `Options` with `fn run(&self, output: &Output) -> anyhow::Result<Verdict>`, and its help ends with
//! an `Examples:` section (`#[command(after_help = ...)]`), which a test below asks for.

mod add_ints;
mod affinity_study;
mod agent;
mod aidl;
mod binder;
mod campaign;
mod completions;
mod config;
mod cores;
mod doctor;
mod exec;
mod floors;
mod guest;
mod kernel;
mod lab;
mod latency;
mod man;
mod measure;
mod new;
mod peers;
mod phases;
mod pin;
mod placing;
mod policy;
mod recording;
mod run;
mod sched;
mod service;
mod servicemanager;
mod target;
mod throughput;
mod transports;
mod version;
mod workload;

use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use handoff_workloads::rpc::{Context, Engine};

use crate::output::{Output, Verdict};

/// The engines by their names, which a shell completes.
fn engine() -> impl TypedValueParser<Value = Engine> {
    PossibleValuesParser::new(Engine::ALL.map(|engine| engine.name())).try_map(|name| name.parse::<Engine>())
}

/// The worlds of a service by their names, which a shell completes.
fn context() -> impl TypedValueParser<Value = Context> {
    PossibleValuesParser::new(Context::ALL.map(|context| context.name()))
        .try_map(|name| name.parse::<Context>())
}

/// What `handoff` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer requests of a lab elsewhere
    #[command(hide = true)]
    Agent(agent::Options),
    /// Compile interfaces (.aidl, .hal) to Rust, Python or C++; check, format, convert and freeze them
    Aidl(aidl::Options),
    /// Look at the kernel's Binder driver: features, freezing processes, devices in binderfs
    Binder(binder::Options),
    /// Carry experiments out on many devices, and combine what they say
    Campaign(campaign::Options),
    /// Print the completions for a shell
    Completions(completions::Options),
    /// Show the defaults for options, and where each comes from
    Config(config::Options),
    /// Show the CPUs: classes, clusters, caches, siblings, and which may be used
    Cores(cores::Options),
    /// Say what could spoil a figure on this machine, and how to change it
    Doctor(doctor::Options),
    /// Run a command on chosen CPUs, at a priority, in a control group: taskset, chrt, nice and cgexec in one
    Exec(exec::Options),
    /// Run programs on another kernel, in QEMU: the Binder driver, CPU capacities, PREEMPT_RT
    Guest(guest::Options),
    /// Understand kernel patches, bring them to another tree, build it and boot it
    Kernel(kernel::Options),
    /// Compare two arms in randomised rounds, and give an honest verdict
    Lab(lab::Options),
    /// Write a manual page for each command
    Man(man::Options),
    /// Measure calls, bare primitives and loads, each by itself
    Measure(measure::Options),
    /// Write a small project to start from: an interface, a service, a client, a test
    New(new::Options),
    /// Put running threads or processes on chosen CPUs and priorities
    Pin(pin::Options),
    /// Place processes by rules: check, apply, run, explain, foreground, restore
    Policy(policy::Options),
    /// Measure what handing over costs on this machine, and write a report
    Run(run::Options),
    /// Record the scheduler, explain what was slow, export recordings (Perfetto, HTML)
    Sched(sched::Options),
    /// Look at the services that are registered, and call them by hand
    Service(service::Options),
    /// Keep the names under which services find each other, until stopped
    #[command(name = "servicemanager")]
    ServiceManager(servicemanager::Options),
    /// Look at the machines that commands run on with --target: list, check, doctor
    Target(target::Options),
    /// Print the version and what this build has
    Version(version::Options),
}

impl Command {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        match self {
            Self::Agent(options) => options.run(output),
            Self::Aidl(options) => options.run(output),
            Self::Binder(options) => options.run(output),
            Self::Campaign(options) => options.run(output),
            Self::Completions(options) => options.run(output),
            Self::Config(options) => options.run(output),
            Self::Cores(options) => options.run(output),
            Self::Doctor(options) => options.run(output),
            Self::Exec(options) => options.run(output),
            Self::Guest(options) => options.run(output),
            Self::Kernel(options) => options.run(output),
            Self::Lab(options) => options.run(output),
            Self::Man(options) => options.run(output),
            Self::Measure(options) => options.run(output),
            Self::New(options) => options.run(output),
            Self::Pin(options) => options.run(output),
            Self::Policy(options) => options.run(output),
            Self::Run(options) => options.run(output),
            Self::Sched(options) => options.run(output),
            Self::Service(options) => options.run(output),
            Self::ServiceManager(options) => options.run(output),
            Self::Target(options) => options.run(output),
            Self::Version(options) => options.run(output),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use crate::cli;

    #[test]
    fn the_command_line_is_consistent() {
        cli::command().debug_assert();
    }

    /// Every command that a person can type, with the words that lead to it.
    fn visible(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            let path = format!("{path} {}", inner.get_name());
            visible(inner, &path, found);
            found.push((path, inner.clone()));
        }
    }

    #[test]
    fn every_command_has_one_line_and_examples() {
        let mut found = Vec::new();
        visible(&cli::command(), "handoff", &mut found);
        assert!(!found.is_empty());
        for (path, mut command) in found {
            let about = command.get_about().unwrap_or_else(|| panic!("`{path}` says nothing of itself"));
            assert!(!about.to_string().contains('\n'), "the first line of `{path}` is more than a line");
            let is_group = command.has_subcommands();
            let help = command.render_long_help().to_string();
            let examples = help.find("Examples:").map(|start| &help[start..]);
            match examples {
                Some(examples) => {
                    let start = path.split(' ').take(2).collect::<Vec<_>>().join(" ");
                    assert!(examples.contains(&start), "the examples of `{path}` do not use it");
                }
                None => assert!(is_group, "the help of `{path}` has no Examples section"),
            }
        }
    }
}
