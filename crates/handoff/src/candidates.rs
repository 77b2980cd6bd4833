//! What a shell completes that only this machine knows: services, runs of the lab, machines.
//!
//! A shell asks while somebody types: what does not answer at once is left out, and nothing is said of it.

use std::sync::mpsc;
use std::time::Duration;

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use handoff_ipc::Runtime;
use handoff_lab::store::Store;

use crate::results;

/// How long a service manager may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// The names that are registered, with their interfaces.
pub(crate) fn services() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let (send, answer) = mpsc::channel();
        std::thread::spawn(move || {
            send.send(Runtime::connect().and_then(|runtime| runtime.services().list()))
        });
        let services = answer.recv_timeout(PATIENCE).into_iter().flatten().flatten();
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
