//! Introductions: connections that a process makes for a third one, so that it can reach an object.
//!
//! The protocol, and why each step is there: `docs/book/src/design/introductions.md`.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix::event::epoll;

use super::{Core, Peer, random};
use crate::disposal::{self, PeerFd};
use crate::ledger::{self, Charge, Resource};
use crate::object::{LocalNode, Promised};
use crate::shm::link::{Link, PEER_TIMEOUT};
use crate::shm::socket;
use crate::shm::wire::{Message, Refusal, Token};

/// How long an introduction may be on its way.
const INTRODUCTION: Duration = Duration::from_secs(10);
/// Introductions that one peer may have on their way: more than it lets all its own peers have together.
const MOST_EACH: usize = 1024;
/// After this the owner has surely said that an introduction is over, if it ever does.
const LONGEST: Duration = Duration::from_secs(15);

/// An introduction that was made, and not taken up.
struct Introduction {
    node: Promised,
    // Its connection, among the newcomers.
    key: u64,
    asker: Weak<Link>,
    asker_id: u64,
    user: u32,
}

/// The right to have `node` on the link of that number: for who was introduced and has a link already.
struct Resumption {
    node: Promised,
    link: u64,
    user: u32,
    since: Instant,
    _charge: Charge,
}

/// What was begun and is not over.
#[derive(Default)]
pub(super) struct Introductions {
    by_token: HashMap<Token, Introduction>,
    by_nonce: HashMap<Token, Resumption>,
    referrals: HashMap<Token, Referral>,
}

/// An introduction that this process asked the owner of an object for, in favour of a receiver who is
/// charged for it.
struct Referral {
    owner: u64,
    since: Instant,
    _charge: Charge,
}

impl Introductions {
    /// Whether anything is there that has a time.
    pub(super) fn is_pending(&self) -> bool {
        !self.by_nonce.is_empty() || !self.referrals.is_empty()
    }
}

impl Core {
    /// For `asker`: a connection for a third process to `node` of this one, and the token that goes with it.
    pub(crate) fn introduction(
        &self,
        asker: &Arc<Link>,
        node: Arc<LocalNode>,
    ) -> Result<(OwnedFd, Token), Refusal> {
        let (mine, theirs) = socket::pair().map_err(|_| Refusal::NoRoom)?;
        let token = random().map_err(|_| Refusal::NoRoom)?;
        {
            let peers = self.peers();
            let pending = peers.introductions.by_token.values();
            if pending.filter(|pending| pending.asker_id == asker.id).count() >= MOST_EACH {
                return Err(Refusal::TooMany);
            }
        }
        let charge = ledger::charge(asker.peer(), Resource::Descriptors, 1).map_err(|_| Refusal::TooMany)?;
        let user = asker.peer().uid;
        let mine = PeerFd::new(mine, user).charged(charge);
        let newcomer =
            Peer::Newcomer { socket: Arc::new(mine), since: Instant::now(), introduction: Some(token) };
        let key = self.watch(newcomer).map_err(|_| Refusal::NoRoom)?;
        let node = Promised::new(node);
        let pending = Introduction { node, key, asker: Arc::downgrade(asker), asker_id: asker.id, user };
        self.peers().introductions.by_token.insert(token, pending);
        Ok((theirs, token))
    }

    /// The object that a token stands for. The introduction is over, and who asked for it is told.
    pub(crate) fn claim(&self, token: &Token) -> Option<Promised> {
        let mut peers = self.peers();
        let Introduction { node, key, asker, user, .. } = peers.introductions.by_token.remove(token)?;
        // Who asked may have had this process keep the object.
        disposal::poll_for(user);
        let newcomer = peers.by_key.remove(&key);
        drop(peers);
        if let Some(Peer::Newcomer { socket, .. }) = newcomer {
            // Fails only where it was taken out before.
            let _ = epoll::delete(&self.epoll, &*socket);
        }
        if let Some(asker) = asker.upgrade() {
            // A link that just broke has nobody left to be told.
            drop(asker.send(Message::IntroductionOver { token: *token }, Vec::new()));
        }
        Some(node)
    }

    /// `owner` made an introduction for a receiver, who is charged until it is over.
    pub(crate) fn add_referral(&self, token: Token, owner: &Link, charge: Charge) {
        let referral = Referral { owner: owner.id, since: Instant::now(), _charge: charge };
        let before = self.peers().introductions.referrals.insert(token, referral);
        drop(before);
        self.wake();
    }

    /// `owner` says that an introduction is over.
    pub(crate) fn end_referral(&self, token: &Token, owner: &Link) {
        let mut peers = self.peers();
        let referrals = &mut peers.introductions.referrals;
        if referrals.get(token).is_some_and(|referral| referral.owner == owner.id) {
            referrals.remove(token);
        }
    }

    /// A number that lets the peer of `link` have `node` there, once.
    pub(super) fn resumable(&self, link: &Arc<Link>, node: Promised) -> crate::Result<Token> {
        let (nonce, peer) = (random()?, link.peer());
        let charge = ledger::charge(peer, Resource::Introductions, 1)?;
        let since = Instant::now();
        let resumption = Resumption { node, link: link.id, user: peer.uid, since, _charge: charge };
        self.peers().introductions.by_nonce.insert(nonce, resumption);
        Ok(nonce)
    }

    /// The object that a nonce stands for on the link that it was meant for.
    pub(crate) fn claim_nonce(&self, nonce: &Token, link: &Link) -> Option<Promised> {
        let mut peers = self.peers();
        let nonces = &mut peers.introductions.by_nonce;
        let is_its = nonces.get(nonce).is_some_and(|resumption| resumption.link == link.id);
        if is_its { nonces.remove(nonce).map(|resumption| resumption.node) } else { None }
    }

    /// The newcomer is not watched as one any longer.
    pub(super) fn forget_newcomer(&self, key: u64, socket: &PeerFd) {
        let _ = epoll::delete(&self.epoll, socket);
        let newcomer = self.peers().by_key.remove(&key);
        drop(newcomer);
    }

    /// Ends what has taken too long.
    pub(super) fn sweep(&self, now: Instant) {
        let mut expired = Vec::new();
        let mut gone = Vec::new();
        let mut peers = self.peers();
        for (key, peer) in &peers.by_key {
            if let Peer::Newcomer { since, introduction, .. } = peer {
                let limit = if introduction.is_some() { INTRODUCTION } else { PEER_TIMEOUT };
                if now.duration_since(*since) >= limit {
                    expired.push((*key, *introduction));
                }
            }
        }
        peers.introductions.referrals.retain(|_, referral| now.duration_since(referral.since) < LONGEST);
        let nonces = &mut peers.introductions.by_nonce;
        let old = nonces.iter().filter(|(_, nonce)| now.duration_since(nonce.since) >= PEER_TIMEOUT);
        let old: Vec<_> = old.map(|(number, _)| *number).collect();
        gone.extend(old.iter().filter_map(|number| nonces.remove_entry(number)));
        drop(peers);
        for (_, resumption) in gone {
            disposal::poll_for(resumption.user);
            drop(resumption.node);
        }
        if self.keeps_fds.swap(false, Ordering::Relaxed) {
            let keeps = self.links().iter().filter(|link| link.sweep_fds()).count();
            self.keeps_fds.fetch_or(keeps > 0, Ordering::Relaxed);
        }
        for (key, introduction) in expired {
            if let Some(token) = introduction {
                drop(self.claim(&token));
            } else {
                let newcomer = self.peers().by_key.remove(&key);
                drop(newcomer);
            }
        }
    }
}
