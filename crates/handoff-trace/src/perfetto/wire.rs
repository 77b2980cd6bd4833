//! The wire format of protocol buffers, as much of it as writing needs.
//!
//! Reference: <https://protobuf.dev/programming-guides/encoding/>.

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;

/// A message that grows field by field.
#[derive(Debug, Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn key(&mut self, field: u64, kind: u64) {
        self.varint(field << 3 | kind);
    }

    /// An unsigned or enumerated number.
    pub(super) fn number(&mut self, field: u64, value: u64) {
        self.key(field, VARINT);
        self.varint(value);
    }

    /// An `int32` or `int64`: negative numbers take ten bytes.
    pub(super) fn signed(&mut self, field: u64, value: i64) {
        self.number(field, value as u64);
    }

    /// A `fixed64`.
    pub(super) fn fixed64(&mut self, field: u64, value: u64) {
        self.key(field, FIXED64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A string.
    pub(super) fn text(&mut self, field: u64, value: &str) {
        self.key(field, BYTES);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value.as_bytes());
    }

    /// A message within this one.
    pub(super) fn message(&mut self, field: u64, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.key(field, BYTES);
        self.varint(inner.bytes.len() as u64);
        self.bytes.extend_from_slice(&inner.bytes);
    }
}

/// The length-delimited fields of a message, for tests.
#[cfg(test)]
pub(super) fn top_level(mut bytes: &[u8]) -> Option<Vec<(u64, &[u8])>> {
    fn varint(bytes: &mut &[u8]) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = bytes.split_first()?;
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let length = usize::try_from(varint(&mut bytes)?).ok()?;
        let (field, rest) = bytes.split_at_checked(length)?;
        fields.push((key >> 3, field));
        bytes = rest;
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_specification() {
        let mut message = Message::default();
        message.number(1, 150);
        message.text(2, "testing");
        message.message(3, |inner| inner.number(1, 150));
        message.signed(4, -2);
        message.fixed64(5, 1);
        let expected = [
            &[0x08, 0x96, 0x01][..],
            &[0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67],
            &[0x1a, 0x03, 0x08, 0x96, 0x01],
            &[0x20, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0x29, 1, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(message.into_bytes(), expected);
    }
}
