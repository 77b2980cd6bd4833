//! The cases, by what they are about.

mod buffers;
mod calls;
mod death;
mod errors;
mod files;
mod freeze;
mod gather;
mod handles;
mod killed;
mod loopers;
mod mapping;
mod objects;
mod oneway;
mod priority;
mod processes;
mod reads;
mod requests;

use crate::stage::{Check, Party, Received, Stage};
use crate::suite::{Case, CaseCheck, Source};

/// Every group.
pub(crate) const ALL: [&[Case]; 17] = [
    requests::CASES,
    mapping::CASES,
    loopers::CASES,
    calls::CASES,
    reads::CASES,
    errors::CASES,
    buffers::CASES,
    oneway::CASES,
    objects::CASES,
    handles::CASES,
    files::CASES,
    gather::CASES,
    death::CASES,
    freeze::CASES,
    priority::CASES,
    processes::CASES,
    killed::CASES,
];

const fn case(name: &'static str, source: Source) -> Draft {
    Draft { name, source, expects: "" }
}

/// A case that has no check yet. Each of its last steps says what the check is given.
struct Draft {
    name: &'static str,
    source: Source,
    expects: &'static str,
}

impl Draft {
    const fn expects(self, expects: &'static str) -> Self {
        Self { expects, ..self }
    }

    const fn by(self, check: fn(&Stage<'_>) -> Check) -> Case {
        self.checked(CaseCheck::Stage(check))
    }

    const fn with_pair(self, check: fn(Party, Party) -> Check) -> Case {
        self.checked(CaseCheck::Pair(check))
    }

    const fn with_call(self, check: fn(Party, Party, Received) -> Check) -> Case {
        self.checked(CaseCheck::Call(check))
    }

    const fn with_object(self, check: fn(Party, Party, u32) -> Check) -> Case {
        self.checked(CaseCheck::Object(check))
    }

    const fn checked(self, check: CaseCheck) -> Case {
        Case { name: self.name, source: self.source, expects: self.expects, check }
    }
}

/// What every group uses.
mod prelude {
    pub(super) use handoff_ipc::binder::uapi::*;

    pub(super) use super::case;
    pub(super) use crate::message::{Call, Message, Parcel};
    pub(super) use crate::stage::*;
    pub(super) use crate::suite::Case;
    pub(super) use crate::suite::Source::{Driver, Header, Libbinder};
}
