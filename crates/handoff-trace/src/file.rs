//! A recording from a file, whichever tool wrote it: what is in it says how it is read.

use std::path::Path;

use crate::error::{Result, TraceError};
use crate::trace::Trace;
use crate::{dat, perfetto, systrace};

/// Reads a `trace.dat` file of version 6, a Perfetto file, or a trace as text (`trace` of tracefs,
/// `atrace`, `trace-cmd report`, systrace's HTML).
///
/// # Errors
///
/// [`TraceError::File`] if it cannot be read, [`TraceError::NotATrace`] if it is none of them, and what
/// [`crate::RawTrace::decode`] says of a damaged page.
pub fn load(path: &Path) -> Result<Trace> {
    let bytes = std::fs::read(path).map_err(|source| TraceError::File {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    from_bytes(&bytes, path)
}

/// Reads a recording from the bytes of a file; `path` is for messages only.
pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Trace> {
    let not = |why: &str| TraceError::NotATrace { path: path.to_owned(), why: why.to_owned() };
    match Kind::of(bytes) {
        Kind::Dat => dat::from_bytes(bytes, path)?.decode(),
        Kind::Perfetto => perfetto::from_bytes(bytes, path),
        Kind::Text => systrace::from_text(&String::from_utf8_lossy(bytes), path),
        Kind::Packed => Err(not("it is compressed: unpack it first (`gunzip`, or `atrace` without -z)")),
        Kind::Empty => Err(not("it is empty")),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Dat,
    Perfetto,
    Text,
    Packed,
    Empty,
}

impl Kind {
    fn of(bytes: &[u8]) -> Self {
        /// Enough to tell text from numbers.
        const START: usize = 4096;
        let start = bytes.get(..START).unwrap_or(bytes);
        let control = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r');
        match start {
            [] => Self::Empty,
            _ if start.starts_with(dat::MAGIC) => Self::Dat,
            // gzip, and zlib as `atrace -z` writes it.
            [0x1f, 0x8b, ..] | [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..] if start.iter().any(control) => {
                Self::Packed
            }
            _ if !start.iter().any(control) => Self::Text,
            _ => Self::Perfetto,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::Options;
    use crate::testing::{blocks, trace, wakeup, waking};
    use crate::{Slice, Timeline};

    #[test]
    fn a_file_is_known_by_what_is_in_it() {
        assert_eq!(Kind::of(b""), Kind::Empty);
        assert_eq!(Kind::of(b"\x17\x08\x44tracing6\0"), Kind::Dat);
        assert_eq!(Kind::of(b"# tracer: nop\n"), Kind::Text);
        assert_eq!(Kind::of(b"\n# tracer: nop\n"), Kind::Text);
        assert_eq!(Kind::of(b"xylophone"), Kind::Text);
        assert_eq!(Kind::of(b"\x1f\x8b\x08\0"), Kind::Packed);
        assert_eq!(Kind::of(b"\x78\x9c\x01\x02"), Kind::Packed);
        assert_eq!(Kind::of(b"\x0a\x03\x50\x01\x08"), Kind::Perfetto);
    }

    #[test]
    fn what_is_written_for_perfetto_is_read_again() {
        let mut ours = trace(vec![waking(1, 0, 1, 2, 1), wakeup(2, 0, 1, 2, 1), blocks(5, 1, 0, 2)]);
        ours.add_slices([Slice { name: "call".into(), tid: 1, start: 1, end: 4 }]);
        let bytes = perfetto::to_bytes(&ours, &Timeline::of(&ours), Options::default());
        let read = from_bytes(&bytes, Path::new("x")).expect("our own");
        assert_eq!((read.events(), read.slices()), (ours.events(), ours.slices()));
        assert_eq!((read.clock(), read.name(2, 5).as_str(), read.unknown()), ("mono", "task-2", 0));
    }

    #[test]
    fn each_kind_says_what_is_wrong_with_it() {
        for (bytes, why) in [
            (&b""[..], "empty"),
            (b"hello", "sched_switch"),
            (b"\x1f\x8b\0", "compressed"),
            (b"\x17\x08\x44tracing6\0", "ends too early"),
            (b"\x0a\x50\x01", "cut short"),
            (b"\x08\x01\x00", "does not begin"),
        ] {
            let error = from_bytes(bytes, Path::new("some.file")).expect_err(why).to_string();
            assert!(error.contains(why) && error.contains("some.file"), "{error}");
        }
    }
}
