//! The wire format of protocol buffers, as much of it as our messages need.
//!
//! Reference: <https://protobuf.dev/programming-guides/encoding/>.

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

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

/// What a field holds, as far as the wire says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A varint or a fixed number.
    Number(u64),
    /// A string, a message, or packed numbers.
    Bytes(&'a [u8]),
}

/// Why bytes are no message.
pub(super) type Why<T> = Result<T, &'static str>;

/// The fields of a message, in their order.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    fn field(&mut self) -> Why<(u64, Value<'a>)> {
        let key = varint(&mut self.0)?;
        let value = match key & 7 {
            VARINT => Value::Number(varint(&mut self.0)?),
            FIXED64 => Value::Number(u64::from_le_bytes(self.array()?)),
            FIXED32 => Value::Number(u32::from_le_bytes(self.array()?).into()),
            BYTES => {
                let length = usize::try_from(varint(&mut self.0)?).map_err(|_| CUT)?;
                let (bytes, rest) = self.0.split_at_checked(length).ok_or(CUT)?;
                self.0 = rest;
                Value::Bytes(bytes)
            }
            _ => return Err("a field is of a kind that Perfetto does not use"),
        };
        Ok((key >> 3, value))
    }

    fn array<const N: usize>(&mut self) -> Why<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(CUT)?;
        self.0 = rest;
        Ok(*bytes)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Why<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

const CUT: &str = "it ends within a packet: it was cut short";

/// Takes one varint off the front.
pub(super) fn varint(bytes: &mut &[u8]) -> Why<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or(CUT)?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number in it has no end")
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
        let bytes = message.into_bytes();
        assert_eq!(bytes, expected);
        let read: Why<Vec<_>> = Fields(&bytes).collect();
        let expected = [
            (1, Value::Number(150)),
            (2, Value::Bytes(b"testing")),
            (3, Value::Bytes(&[0x08, 0x96, 0x01])),
            (4, Value::Number(-2_i64 as u64)),
            (5, Value::Number(1)),
        ];
        assert_eq!(read, Ok(expected.to_vec()));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [&[0x08][..], &[0x12, 5, 1], &[0x0b], &[0x29, 1], &[0x12, 0xff, 0xff], &[0xff; 12]] {
            assert!(Fields(bytes).any(|field| field.is_err()), "{bytes:x?}");
            assert!(Fields(bytes).count() <= bytes.len());
        }
    }
}
