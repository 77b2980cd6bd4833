//! What a shell completes that only this machine knows: services, runs of the lab, machines.
//!
//! A shell asks while somebody types: what does not answer at once is left out, and nothing is said of it.

use std::sync::mpsc;
use std::time::Duration;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use handoff_ipc::Runtime;
use handoff_lab::store::Store;

use crate::results;

/// Words that may stand for a value, by how help writes the value. They are not all: a CPU has a number, too.
const WORDS: [(&str, &[&str]); 5] = [
    ("CPUS", CPUS),
    ("SELECTOR", CPUS),
    ("POLICY", &["other", "batch", "idle", "fifo:1", "rr:1"]),
    ("ARCH", &["x86_64", "arm64"]),
    ("WHERE", &["same-cpu", "two-cpus", "unpinned"]),
];

const CPUS: &[&str] = &["all", "big", "mid", "little", "one-per-core", "isolated"];

/// Has a shell offer [`WORDS`] for the options that take them.
pub(crate) fn with_words(command: Command) -> Command {
    let offered = |arg: Arg| {
        let written = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
        let written = written.unwrap_or_else(|| arg.get_id().as_str().to_uppercase());
        match WORDS.iter().find(|(value, _)| *value == written) {
            Some((_, words)) => arg.add(ArgValueCandidates::new(move || {
                words.iter().map(|word| CompletionCandidate::new(*word)).collect()
            })),
            None => arg,
        }
    };
    command.mut_args(offered).mut_subcommands(with_words)
}

/// How long a service manager may take.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// The names that are registered, with their interfaces.
pub(crate) fn services() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let (send, answer) = mpsc::channel();
        std::thread::spawn(move || {
            send.send(Runtime::connect().and_then(|runtime| runtime.services().list()))
        });
        let services = answer.recv_timeout(LONGEST_WAIT).into_iter().flatten().flatten();
        services.map(|service| described(service.name, service.interface)).collect()
    })
}

/// The runs in the store of the usual folder, with their titles.
pub(crate) fn runs() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let store =
            results::usual().ok().map(|folder| folder.join(results::STORE)).filter(|file| file.is_file());
        let runs = store.and_then(|file| Store::open(&file).ok()?.history().ok());
        runs.into_iter().flatten().map(|run| described(run.id.to_string(), run.title)).collect()
    })
}

/// This machine, a guest, and what ssh's configuration and the adb server know.
pub(crate) fn machines() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let known = handoff_targets::known().into_iter();
        known.map(|address| CompletionCandidate::new(address.to_string())).collect()
    })
}

fn described(value: String, about: String) -> CompletionCandidate {
    CompletionCandidate::new(value).help((!about.is_empty()).then(|| about.into()))
}
