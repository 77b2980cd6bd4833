//! What a link remembers of its peer: objects it may call, descriptors that came, questions it was asked.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::Result;
use crate::disposal::PeerFd;
use crate::ledger::Charge;
use crate::object::LocalNode;
use crate::shm::wire::{Refusal, Token};

/// An object that the peer may call.
pub(super) struct Export {
    pub(super) node: Arc<LocalNode>,
    // How many references the peer was given and has not given up.
    pub(super) count: u64,
    pub(super) _charge: Charge,
}

/// Descriptors of parcels that came ahead of them, for one slot and one way.
#[derive(Default)]
pub(super) struct Parcels {
    pub(super) fds: VecDeque<PeerFd>,
    // Some could not be kept, so nobody knows which ones these are.
    pub(super) lost: Option<Refusal>,
}

#[derive(Default)]
pub(super) struct Answers {
    pub(super) next: u32,
    pub(super) waiting: HashMap<u32, Option<Result<Answer, Refusal>>>,
}

pub(super) struct Answer {
    pub(super) node: u64,
    // The token of an introduction, or the interfaces of an object.
    pub(super) first: Token,
    pub(super) fd: Option<PeerFd>,
}
