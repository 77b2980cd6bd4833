//! One file a command, each thin: it holds the options, calls the library, and prints.
//!
//! To add one, in alphabetical order: `mod NAME;`, and a variant of [`Command`].
//! A command is a `clap::Args` struct called `Options` with
//! `fn run(&self, output: &Output) -> anyhow::Result<Verdict>`. The first paragraph of its documentation
//! is its line in `handoff --help`; all of it is the head of its own help. A comment on the variant, or on a
//! struct that is flattened into it, would replace that, which a test below refuses. Its help ends with an
//! `Examples:` section (`#[command(after_help = ...)]`), which another test asks for.

/// Commands of which one is typed: each has a type with a `run`.
macro_rules! commands {
    ($(#[$doc:meta])* $vis:vis enum $name:ident { $($(#[$attribute:meta])* $command:ident($options:ty),)+ }) => {
        #[derive(Debug, clap::Subcommand)]
        $(#[$doc])*
        $vis enum $name {
            $($(#[$attribute])* $command($options),)+
        }

        impl $name {
            $vis fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
                match self {
                    $(Self::$command(options) => options.run(output),)+
                }
            }
        }
    };
}

/// A command that only has others: what it says of itself, and which they are.
macro_rules! group {
    ($(#[$about:meta])* { $($commands:tt)+ }) => {
        #[derive(Debug, clap::Args)]
        $(#[$about])*
        pub(crate) struct Options {
            #[command(subcommand)]
            what: Subcommands,
        }

        commands! { enum Subcommands { $($commands)+ } }

        impl Options {
            pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
                self.what.run(output)
            }
        }
    };
}

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

pub(crate) use self::binder::serve_if_agent;
pub(crate) use self::completions::complete;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use handoff_workloads::rpc::{Context, EngineKind};

use crate::output::{Output, Verdict};

/// The engines by their names, which a shell completes.
fn engine() -> impl TypedValueParser<Value = EngineKind> {
    PossibleValuesParser::new(EngineKind::ALL.map(|engine| engine.name()))
        .try_map(|name| name.parse::<EngineKind>())
}

/// The contexts of a service by their names, which a shell completes.
fn context() -> impl TypedValueParser<Value = Context> {
    PossibleValuesParser::new(Context::ALL.map(Context::device)).try_map(|name| name.parse::<Context>())
}

commands! {
    /// What `handoff` can do.
    pub(crate) enum Command {
        #[command(hide = true)]
        Agent(agent::Options),
        Aidl(aidl::Options),
        Binder(binder::Options),
        Campaign(campaign::Options),
        Completions(completions::Options),
        Config(config::Options),
        Cores(cores::Options),
        Doctor(doctor::Options),
        Exec(exec::Options),
        Guest(guest::Options),
        Kernel(kernel::Options),
        Lab(lab::Options),
        Man(man::Options),
        Measure(measure::Options),
        New(new::Options),
        Pin(pin::Options),
        Policy(policy::Options),
        Run(run::Options),
        Sched(sched::Options),
        Service(service::Options),
        #[command(name = "servicemanager")]
        ServiceManager(servicemanager::Options),
        Target(target::Options),
        Version(version::Options),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

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

    fn all(command: &Command, found: &mut Vec<String>) {
        let about = command.get_long_about().or(command.get_about()).map(ToString::to_string);
        found.extend(about.map(|about| words(&about)));
        command.get_subcommands().for_each(|inner| all(inner, found));
    }

    fn words(text: &str) -> String {
        text.trim_end_matches('.').split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The documentation of each struct of options in a file of this crate.
    fn documented(file: &Path, found: &mut Vec<String>) {
        if file.is_dir() {
            let inner = fs::read_dir(file).expect("a folder").map(|entry| entry.expect("an entry").path());
            return inner.for_each(|inner| documented(&inner, found));
        }
        let mut text = Vec::new();
        for line in fs::read_to_string(file).expect("text").lines() {
            match line.strip_prefix("///") {
                Some(line) => text.push(line.to_owned()),
                None if line.starts_with("#[derive") && line.contains("clap::Args") && !text.is_empty() => {
                    found.push(words(&std::mem::take(&mut text).join("\n")));
                }
                None => text.clear(),
            }
        }
    }

    #[test]
    fn what_the_source_says_of_a_command_is_the_head_of_its_help() {
        let (mut described, mut helps) = (Vec::new(), Vec::new());
        documented(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands"), &mut described);
        all(&cli::command(), &mut helps);
        assert!(described.iter().any(|text| text.contains("as in the published comparison")), "not found");
        for text in described {
            assert!(helps.contains(&text), "no command's help begins with: {text}");
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
