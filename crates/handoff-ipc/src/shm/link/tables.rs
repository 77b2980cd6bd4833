//! What a link remembers of its peer: objects it may call, descriptors that came, questions it was asked.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::disposal::PeerFd;
use crate::ledger::Charge;
use crate::object::LocalNode;
use crate::shm::wire::{Refusal, Token};
use crate::{Error, Result};

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
    pub(super) lost: Option<LostDescriptors>,
    // How many could not be.
    pub(super) dropped: usize,
    // So many that still come belong to parcels that nobody waits for any longer.
    pub(super) unwanted: usize,
    // Sweeps since the last ones came or were taken.
    pub(super) sweeps: u32,
}

/// Why a parcel's descriptors are not there.
#[derive(Debug, Clone, Copy)]
pub(super) enum LostDescriptors {
    Refused(Refusal),
    /// No parcel came with them.
    TooLate,
}

impl From<LostDescriptors> for Error {
    fn from(lost: LostDescriptors) -> Self {
        match lost {
            LostDescriptors::Refused(refusal) => refusal.into(),
            LostDescriptors::TooLate => {
                Error::Protocol("a parcel that came long after its file descriptors".into())
            }
        }
    }
}

#[derive(Default)]
pub(super) struct Answers {
    pub(super) next: u32,
    pub(super) waiting: HashMap<u32, Option<Result<LinkAnswer, Refusal>>>,
}

pub(super) struct LinkAnswer {
    pub(super) node: u64,
    // The token of an introduction, or the interfaces of an object.
    pub(super) first: Token,
    pub(super) fd: Option<PeerFd>,
}
