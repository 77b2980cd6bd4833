//! What came over a connection, until it is taken frame by frame.

use std::collections::VecDeque;
use std::ops::Range;

use super::wire::{Command, DecStrong, FrameHeader, HEADER};
use crate::Result;
use crate::disposal::PeerFd;

/// Bytes that are read ahead at the least.
pub(super) const READ: usize = 8 << 10;
/// Bytes of one read at the most: memory grows with what came, and not with what a header says is to come.
const MOST_READ: usize = 256 << 10;

/// A call or a reply as it came.
#[derive(Debug, Default)]
pub(super) struct Frame {
    pub(super) fds: Vec<PeerFd>,
    /// References that the peer gave back in a frame right in front of it, as with most replies.
    pub(super) back: Option<DecStrong>,
    /// Memory of its own, or all that the connection read into.
    pub(super) bytes: Vec<u8>,
    // Of it, what stands behind the frame's header.
    place: Range<usize>,
}

impl Frame {
    /// What stands behind its header.
    pub(super) fn body(&self) -> &[u8] {
        &self.bytes[self.place.clone()]
    }

    /// The same, and the descriptors that came along.
    pub(super) fn parts(&mut self) -> (&[u8], &mut Vec<PeerFd>) {
        (&self.bytes[self.place.clone()], &mut self.fds)
    }

    /// The same in no more memory than its body takes, with the descriptors, unless it is so.
    pub(super) fn compacted(&mut self) -> Option<Self> {
        if self.place.len() == self.bytes.len() {
            return None;
        }
        let (fds, bytes) = (std::mem::take(&mut self.fds), self.body().to_vec());
        Some(Frame { fds, back: None, place: 0..bytes.len(), bytes })
    }
}

/// What came: of calls and replies, the rest is in a [`Frame`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    Call,
    Reply,
    /// References that the peer gives back, one with each reply.
    References(DecStrong),
}

/// What came and was not taken yet.
#[derive(Default)]
pub(super) struct Inbound {
    /// `start..end` of it was received.
    pub(super) bytes: Vec<u8>,
    start: usize,
    end: usize,
    // Where `start` is in all that ever came.
    position: u64,
    // Descriptors, each with the position where the read ended that brought them.
    fds: VecDeque<(u64, Vec<PeerFd>)>,
}

impl Inbound {
    /// Where the next bytes go.
    #[inline]
    pub(super) fn room(&mut self) -> &mut [u8] {
        let held = self.end - self.start;
        if self.start > 0 && (held == 0 || self.bytes.len() - self.end < READ) {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, held);
        }
        if self.bytes.len() - self.end < READ {
            // As much again as came already.
            self.bytes.resize(self.end + held.clamp(READ, MOST_READ), 0);
        }
        let end = self.end;
        &mut self.bytes[end..]
    }

    pub(super) fn advance(&mut self, count: usize) {
        self.start += count;
        self.position += count as u64;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > MOST_READ {
                self.bytes = Vec::new();
            }
        }
    }

    /// So many bytes have come where [`Inbound::room`] said, and descriptors with them.
    #[inline]
    pub(super) fn came(&mut self, len: usize, fds: Vec<PeerFd>) {
        self.end += len;
        if !fds.is_empty() {
            self.fds.push_back((self.position + (self.end - self.start) as u64, fds));
        }
    }

    /// What came and was not taken.
    pub(super) fn held(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Takes the memory of a frame that was read, unless it was the frame's own, or other memory has taken its place.
    /// Descriptors that nobody took are closed.
    pub(super) fn reuse(&mut self, frame: &mut Frame) {
        frame.fds.clear();
        let bytes = std::mem::take(&mut frame.bytes);
        (frame.place, frame.back) = (0..0, None);
        if self.bytes.is_empty() && (READ..=MOST_READ).contains(&bytes.len()) {
            self.bytes = bytes;
        }
    }

    /// What comes next, if all of it came: a call or a reply in the place of what was in `frame`.
    pub(super) fn take(&mut self, frame: &mut Frame) -> Result<Option<Came>> {
        let Some(mut header) = self.next()? else { return Ok(None) };
        if header.command == Command::DecStrong {
            let dec = DecStrong::decode(&self.held()[HEADER..][..header.body])?;
            self.advance(HEADER + header.body);
            // Descriptors mean nothing there.
            self.take_fds(frame);
            frame.fds.clear();
            match self.next()? {
                Some(reply) if reply.command == Command::Reply => {
                    frame.back = Some(dec);
                    header = reply;
                }
                _ => return Ok(Some(Came::References(dec))),
            }
        }
        let size = HEADER + header.body;
        let place = self.start + HEADER..self.start + size;
        if place.end == self.end {
            // What is read into goes along with its last frame, which is not copied then.
            (frame.bytes, frame.place) = (std::mem::take(&mut self.bytes), place);
        } else {
            (frame.bytes, frame.place) = (self.bytes[place].to_vec(), 0..header.body);
        }
        self.advance(size);
        self.take_fds(frame);
        Ok(Some(if header.command == Command::Transact { Came::Call } else { Came::Reply }))
    }

    /// The header of the next frame, if all of the frame came.
    fn next(&self) -> Result<Option<FrameHeader>> {
        let held = self.held();
        if held.len() < HEADER {
            return Ok(None);
        }
        let header = FrameHeader::decode(held)?;
        Ok((held.len() >= HEADER + header.body).then_some(header))
    }

    /// Descriptors that came with the frame that was taken.
    fn take_fds(&mut self, frame: &mut Frame) {
        while self.fds.front().is_some_and(|(ends, _)| *ends <= self.position) {
            frame.fds.extend(self.fds.pop_front().into_iter().flat_map(|(_, fds)| fds));
        }
    }
}
