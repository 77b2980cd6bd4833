//! The list of cases, and how one is run.

use handoff_ipc::binder::uapi::BINDER_SET_CONTEXT_MGR_EXT;
use serde::Serialize;

use crate::cases::ALL;
use crate::message::{Call, Parcel};
use crate::seam::{Device, Peer};
use crate::stage::{Check, Finding, MANAGER_FLAGS, Party, Received, Stage, errno_name};

/// What a case's expectation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind", content = "name")]
pub enum Source {
    /// The UAPI header says so.
    Header(&'static str),
    /// libbinder or libhwbinder relies on it.
    Libbinder(&'static str),
    /// The C driver does so in this function. Another driver may do it in another way.
    Driver(&'static str),
}

/// What a case came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", content = "why")]
pub enum CaseOutcome {
    /// The driver did what is expected.
    Pass,
    /// It did something else than the C driver, where nobody was promised anything.
    Differs(String),
    /// It broke what the header says, or what libbinder relies on.
    Fails(String),
    /// The case cannot be run here.
    NotHere(String),
}

#[derive(Clone, Copy)]
pub struct Case {
    /// Its name, such as `death.notice`.
    pub name: &'static str,
    /// What its expectation comes from.
    pub source: Source,
    pub expects: &'static str,
    pub(crate) check: CaseCheck,
}

/// What a case does, and what is there when it begins.
#[derive(Clone, Copy)]
pub(crate) enum CaseCheck {
    /// Nothing but the driver.
    Stage(fn(&Stage<'_>) -> Check),
    /// A manager and a client.
    Pair(fn(Party, Party) -> Check),
    /// The same, and the client's call, which the manager has and did not answer.
    Call(fn(Party, Party, Received) -> Check),
    /// A manager and a client, and the manager's handle of the client's object.
    Object(fn(Party, Party, u32) -> Check),
}

impl CaseCheck {
    fn run(self, stage: &Stage<'_>) -> Check {
        match self {
            Self::Stage(check) => check(stage),
            Self::Pair(check) => stage.pair().and_then(|(manager, client)| check(manager, client)),
            Self::Call(check) => {
                let (manager, client) = stage.pair()?;
                client.call(&Call::to(0, 1))?;
                let call = manager.receive()?;
                check(manager, client, call)
            }
            Self::Object(check) => {
                let (manager, client, handle) = stage.holder()?;
                check(manager, client, handle)
            }
        }
    }
}

/// A case and what it came to.
#[derive(Debug, Clone, Serialize)]
pub struct CaseResult {
    /// Its name.
    pub case: &'static str,
    /// What its expectation comes from.
    pub source: Source,
    pub expects: &'static str,
    /// What it came to.
    #[serde(flatten)]
    pub outcome: CaseOutcome,
}

/// Every case, in the order in which they are run.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    ALL.iter().flat_map(|group| group.iter())
}

/// A driver, and the process of its context managers.
pub struct Suite<'a> {
    device: &'a dyn Device,
    managers: Option<Box<dyn Peer>>,
}

impl<'a> Suite<'a> {
    /// Prepares cases for a driver.
    pub fn new(device: &'a dyn Device) -> Self {
        Self { device, managers: device.start_peer().ok() }
    }

    /// Runs one case on the first context.
    pub fn run(&self, case: &Case) -> CaseResult {
        let stage = Stage { device: self.device, context: 0, managers: self.managers.as_deref() };
        let outcome = match case.check.run(&stage) {
            Ok(()) => CaseOutcome::Pass,
            Err(Finding::NotHere(why)) => CaseOutcome::NotHere(why),
            Err(Finding::Unexpected(what)) => match case.source {
                Source::Driver(_) => CaseOutcome::Differs(what),
                Source::Header(_) | Source::Libbinder(_) => CaseOutcome::Fails(what),
            },
        };
        CaseResult { case: case.name, source: case.source, expects: case.expects, outcome }
    }
}

/// Whether this process may be the context manager of the driver's first context, which cases need.
///
/// # Errors
/// Why not.
pub fn becomes_manager(device: &dyn Device) -> Result<(), String> {
    let party = device.open(0).map_err(|error| format!("it cannot be opened: {}", errno_name(error)))?;
    let flat = Parcel::default().binder_flags(0, 0, MANAGER_FLAGS);
    match party.ioctl(BINDER_SET_CONTEXT_MGR_EXT, &mut flat.as_bytes().to_vec()) {
        0 => Ok(()),
        libc::EBUSY => Err("it has a context manager".to_owned()),
        error => Err(format!("its context manager cannot be this process: {}", errno_name(error))),
    }
}
