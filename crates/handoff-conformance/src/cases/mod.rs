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

use crate::stage::{Check, Stage};
use crate::suite::{Case, Source};

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

const fn case(
    name: &'static str,
    source: Source,
    expects: &'static str,
    check: fn(&Stage<'_>) -> Check,
) -> Case {
    Case { name, source, expects, check }
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
