//! Text of source files as strings, without losing a byte.
//!
//! Kernel trees hold files in Latin-1 and worse. A line is easier to compare as a string, but what
//! is written back must be what was read, so a byte that is no UTF-8 becomes one character of a
//! private-use block and comes back as that byte. A file that already holds characters of that
//! block has their bytes escaped in the same way, so decoding and encoding are always inverse.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

/// Where the escapes of the bytes 0x80..=0xFF start: byte `b` becomes `U+F700 + b`.
const ESCAPE: u32 = 0xF700;

/// The byte that the escapes begin with in UTF-8: text without it, as nearly all is, has none.
const ESCAPE_LEAD: u8 = 0xEF;

/// True for the characters that stand for a byte that was no UTF-8.
fn is_escape(c: char) -> bool {
    (ESCAPE + 0x80..=ESCAPE + 0xFF).contains(&(c as u32))
}

/// Turns bytes into a string from which [`encode`] gives the same bytes again.
pub fn decode(bytes: &[u8]) -> String {
    if let (false, Ok(text)) = (bytes.contains(&ESCAPE_LEAD), str::from_utf8(bytes)) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_escape(c) {
                let mut buffer = [0; 4];
                out.extend(c.encode_utf8(&mut buffer).bytes().map(escape));
            } else {
                out.push(c);
            }
        }
        out.extend(chunk.invalid().iter().copied().map(escape));
    }
    out
}

/// Text that was written as Latin-1, with the characters that its bytes stand for.
pub(crate) fn from_latin_1(text: &str) -> String {
    let byte = |c: char| u8::try_from((c as u32).wrapping_sub(ESCAPE)).ok().filter(|_| is_escape(c));
    text.chars().map(|c| byte(c).map_or(c, char::from)).collect()
}

/// A path of a file system as text, as [`decode`] has it: names need not be UTF-8.
pub fn of_path(path: &(impl AsRef<OsStr> + ?Sized)) -> String {
    decode(path.as_ref().as_bytes())
}

/// The inverse of [`of_path`].
pub fn to_path(text: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(encode(text)))
}

/// The inverse of [`decode`].
pub fn encode(text: &str) -> Vec<u8> {
    if !text.as_bytes().contains(&ESCAPE_LEAD) {
        return text.as_bytes().to_vec();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut buffer = [0; 4];
    for c in text.chars() {
        match u8::try_from((c as u32).wrapping_sub(ESCAPE)) {
            Ok(byte) if is_escape(c) => out.push(byte),
            _ => out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes()),
        }
    }
    out
}

fn escape(byte: u8) -> char {
    // Bytes that reach this point are at least 0x80: ASCII is always valid UTF-8.
    char::from_u32(ESCAPE + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn latin_1_survives() {
        let bytes = b"/* Andr\xe9 */\n";
        assert_eq!(encode(&decode(bytes)), bytes);
        assert_eq!(decode("Zoë".as_bytes()), "Zoë");
    }

    #[test]
    fn a_file_with_the_escapes_themselves_survives() {
        let text = "\u{F7E9} and \u{F780}";
        assert_eq!(encode(&decode(text.as_bytes())), text.as_bytes());
    }

    proptest! {
        #[test]
        fn decoding_and_encoding_are_inverse(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(encode(&decode(&bytes)), bytes);
        }
    }
}
