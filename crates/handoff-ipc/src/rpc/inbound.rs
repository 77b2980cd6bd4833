//! What came over a connection, until it is taken frame by frame.

use std::collections::VecDeque;
use std::ops::Range;

use super::wire::{Command, DecStrong, FrameHeader, HEADER};
use crate::Result;
use crate::disposal::PeerFd;

/// Bytes that are read ahead at the least.
pub(super) const READ: usize = 8 << 10;
/// Bytes of one read at the most: memory grows with what came, and not with what a header says is to come.
pub(super) const MOST_READ: usize = 256 << 10;

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
    /// None yet: the next is read into this memory, whatever it holds, if nothing waits in other memory.
    pub(super) fn to_come_in(mut memory: Vec<u8>) -> Self {
        memory.clear();
        Frame { bytes: memory, ..Frame::default() }
    }

    /// The memory that it has. None if that is more than is kept for what comes next.
    pub(super) fn into_memory(self) -> Vec<u8> {
        let Frame { mut bytes, .. } = self;
        bytes.clear();
        if bytes.capacity() > MOST_READ { Vec::new() } else { bytes }
    }

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
    /// Received; what stands in front of `start` was taken.
    pub(super) bytes: Vec<u8>,
    start: usize,
    // Where `start` is in all that ever came.
    position: u64,
    // Descriptors, each with the position where the read ended that brought them.
    fds: VecDeque<(u64, Vec<PeerFd>)>,
}

impl Inbound {
    /// Where the next bytes go: behind what it holds, where there is room.
    #[inline]
    pub(super) fn room(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() - self.bytes.len() < READ {
            self.make_room();
        }
        &mut self.bytes
    }

    fn make_room(&mut self) {
        self.bytes.drain(..std::mem::take(&mut self.start));
        if self.bytes.capacity() - self.bytes.len() < READ {
            // As much again as came already.
            self.bytes.reserve_exact(self.bytes.len().clamp(READ, MOST_READ));
        }
    }

    /// So many bytes more were taken, with the memory that all were in or without it.
    pub(super) fn advance(&mut self, count: usize) {
        self.start += count;
        self.position += count as u64;
        if self.start >= self.bytes.len() {
            self.start = 0;
            self.bytes.clear();
            if self.bytes.capacity() > MOST_READ {
                self.bytes = Vec::new();
            }
        }
    }

    /// Bytes have come where [`Inbound::room`] said, and descriptors with them.
    #[inline]
    pub(super) fn came(&mut self, fds: Vec<PeerFd>) {
        if !fds.is_empty() {
            self.fds.push_back((self.position + self.held().len() as u64, fds));
        }
    }

    /// What came and was not taken.
    pub(super) fn held(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Takes the memory of a frame that was read, unless it was the frame's own, or other memory has taken its place.
    /// Descriptors that nobody took are closed.
    pub(super) fn reuse(&mut self, frame: &mut Frame) {
        frame.fds.clear();
        let bytes = std::mem::take(&mut frame.bytes);
        (frame.place, frame.back) = (0..0, None);
        if self.bytes.capacity() == 0 && (READ..=MOST_READ).contains(&bytes.capacity()) {
            self.bytes = bytes;
            self.bytes.clear();
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
        if place.end == self.bytes.len() {
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
