//! The bytes of a script, and the interface that its objects have.

/// The interface that every object of a run has.
pub(super) const DESCRIPTOR: &str = "handoff.IScripted";

/// Bytes one after the other; 0 where none is left.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    pub(super) fn word(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// As many as a byte in front of them says, if there are so many.
    pub(super) fn some(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()).min(self.0.len());
        let (some, rest) = self.0.split_at(len);
        self.0 = rest;
        some
    }
}
