//! The list of cases, and how one is run.

use serde::Serialize;

use crate::cases::ALL;
use crate::seam::Device;
use crate::stage::{Check, Finding, Stage};

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
pub enum Outcome {
    /// The driver did what is expected.
    Pass,
    /// It did something else than the C driver, where nobody was promised anything.
    Differs(String),
    /// It broke what the header says, or what libbinder relies on.
    Fails(String),
    /// The case cannot be run here.
    NotHere(String),
}

/// One case.
#[derive(Clone, Copy)]
pub struct Case {
    /// Its name, such as `death.notice`.
    pub name: &'static str,
    /// What its expectation comes from.
    pub source: Source,
    /// What is expected.
    pub expects: &'static str,
    pub(crate) check: fn(&Stage<'_>) -> Check,
}

/// A case and what it came to.
#[derive(Debug, Clone, Serialize)]
pub struct CaseResult {
    /// Its name.
    pub case: &'static str,
    /// What its expectation comes from.
    pub source: Source,
    /// What is expected.
    pub expects: &'static str,
    /// What it came to.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Every case, in the order in which they are run.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    ALL.iter().flat_map(|group| group.iter())
}

/// Runs one case on the first context of a driver.
pub fn run_case(case: &Case, device: &dyn Device) -> CaseResult {
    let stage = Stage { device, context: 0 };
    let outcome = match (case.check)(&stage) {
        Ok(()) => Outcome::Pass,
        Err(Finding::NotHere(why)) => Outcome::NotHere(why),
        Err(Finding::Unexpected(what)) => match case.source {
            Source::Driver(_) => Outcome::Differs(what),
            Source::Header(_) | Source::Libbinder(_) => Outcome::Fails(what),
        },
    };
    CaseResult { case: case.name, source: case.source, expects: case.expects, outcome }
}
