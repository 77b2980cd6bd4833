//! Questions that wait for the peer's answer: introductions to third processes.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use super::Link;
use super::tables::LinkAnswer;
use crate::disposal::PeerFd;
use crate::ledger::{self, Charge, Resource};
use crate::locked::lock;
use crate::shm::wire::{Message, Refusal, Stated, Token};
use crate::{Error, Result, pool};

/// Introductions of one peer that threads wait for at once, at the most.
const MOST_INTRODUCTIONS: u32 = 32;

/// See [`Link::await_introduction`].
pub(crate) struct Introduction<'a> {
    link: &'a Link,
    _charge: Charge,
    _away: pool::StandIn,
}

impl Drop for Introduction<'_> {
    fn drop(&mut self) {
        self.link.introductions.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Link {
    /// Sends a question and waits for its answer.
    fn ask(&self, question: impl FnOnce(u32) -> Message) -> Result<LinkAnswer> {
        let request = {
            let mut answers = lock(&self.answers);
            answers.next = answers.next.wrapping_add(1);
            let request = answers.next;
            answers.waiting.insert(request, None);
            request
        };
        let answer = self.send(question(request), Vec::new()).and_then(|()| {
            self.await_news("an answer", || lock(&self.answers).waiting.get_mut(&request)?.take())
        });
        lock(&self.answers).waiting.remove(&request);
        answer?.map_err(Error::from)
    }

    pub(super) fn answered(&self, request: u32, answer: Result<LinkAnswer, Refusal>) {
        // What nobody asked for is dropped.
        if let Some(place) = lock(&self.answers).waiting.get_mut(&request) {
            *place = Some(answer);
        }
        self.tell();
    }

    /// Before a thread waits for an introduction that the peer has a part in: the pool has another
    /// thread meanwhile, and a peer can hold up so many and no more.
    pub(crate) fn await_introduction(&self) -> Result<Introduction<'_>> {
        let charge = ledger::charge(self.peer, Resource::Threads, 1)?;
        let introduction = Introduction { link: self, _charge: charge, _away: pool::stand_in() };
        if self.introductions.fetch_add(1, Ordering::Relaxed) >= MOST_INTRODUCTIONS {
            return Err(Error::Protocol(format!(
                "the peer leaves {MOST_INTRODUCTIONS} introductions to third processes without an answer"
            )));
        }
        Ok(introduction)
    }

    /// Asks the peer for a connection to `node` that a third process can use.
    pub(crate) fn ask_for_introduction(&self, node: u64) -> Result<(OwnedFd, Token)> {
        let answer = self.ask(|request| Message::Introduce { request, node })?;
        match answer.fd.and_then(PeerFd::take) {
            Some(fd) if answer.node == node => Ok((fd, answer.first)),
            _ => Err(Error::UnknownObject(node)),
        }
    }

    /// Asks the peer for the object that it sent a nonce for, on another connection; and for its interfaces.
    pub(crate) fn claim(&self, nonce: Token) -> Result<(u64, Stated)> {
        let answer = self.ask(|request| Message::Claim { request, token: nonce })?;
        Ok((answer.node, answer.first))
    }
}
