//! The kernel's own description of an event: which bytes of a record are which field.
//!
//! `events/<system>/<event>/format` in tracefs, also kept in `trace.dat` files. The offsets differ
//! between kernel versions, so nothing here is assumed: a field is found by its name.
//! Reference: `Documentation/trace/events.rst` of the kernel, section 3 "Event formats".

use crate::error::{Result, TraceError};

/// Longer descriptions than this are refused; the longest of a current kernel has 40 kB.
const MAX_TEXT: usize = 1 << 20;

/// The most fields an event may have; the kernel's largest has about 40.
const MAX_FIELDS: usize = 256;

/// One field of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name, such as `prev_pid`.
    pub name: String,
    /// Its C type without the array part, such as `pid_t` or `__data_loc char[]`.
    pub type_name: String,
    /// Where in the record it is.
    pub place: FieldLocation,
}

/// Where in a record a field is, and how it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldLocation {
    /// Where it starts, in bytes from the start of the record.
    pub offset: u16,
    /// How many bytes it has (0: to the end of the record).
    pub size: u16,
    /// Whether it is a signed number.
    pub signed: bool,
    /// How its bytes are found.
    pub kind: FieldKind,
}

/// How the bytes of a field are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    Number,
    /// They are an array or a structure in its place.
    Bytes,
    /// `__data_loc`: the place holds an offset from the record's start, and a length.
    Elsewhere,
    /// `__rel_loc`: the place holds an offset from behind itself, and a length.
    Behind,
}

impl FieldLocation {
    /// The value as a number, if it is one of 1, 2, 4 or 8 bytes that lies within `record`.
    #[must_use]
    #[inline]
    pub fn number(&self, record: &[u8]) -> Option<i64> {
        let start = usize::from(self.offset);
        let bytes = record.get(start..start + usize::from(self.size))?;
        Some(match (bytes, self.signed) {
            (&[a], false) => i64::from(a),
            (&[a], true) => i64::from(a as i8),
            (&[a, b], false) => i64::from(u16::from_ne_bytes([a, b])),
            (&[a, b], true) => i64::from(i16::from_ne_bytes([a, b])),
            (&[a, b, c, d], false) => i64::from(u32::from_ne_bytes([a, b, c, d])),
            (&[a, b, c, d], true) => i64::from(i32::from_ne_bytes([a, b, c, d])),
            (&[a, b, c, d, e, f, g, h], _) => i64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            _ => return None,
        })
    }

    /// The bytes of the field: a fixed array, a `__data_loc` array, or the rest of the record.
    #[must_use]
    #[inline]
    pub fn bytes<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let place = usize::from(self.offset);
        if matches!(self.kind, FieldKind::Elsewhere | FieldKind::Behind) {
            let word = record.get(place..place + 4)?;
            let word = u32::from_ne_bytes(word.try_into().ok()?);
            let start = (word & 0xffff) as usize;
            let start = if self.kind == FieldKind::Behind { start + place + 4 } else { start };
            return record.get(start..start + (word >> 16) as usize);
        }
        match usize::from(self.size) {
            0 => record.get(place..),
            size => record.get(place..place + size),
        }
    }
}

/// One event: its name, its number on this kernel and its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// The system it belongs to, such as `sched`.
    pub system: String,
    /// Its name, such as `sched_switch`.
    pub name: String,
    /// The number by which records refer to it. It differs from boot to boot.
    pub id: u16,
    /// The fields, those common to all events first.
    pub fields: Vec<Field>,
}

impl EventFormat {
    /// Reads the text of a `format` file.
    pub fn parse(system: &str, text: &str) -> Result<Self> {
        let fail = |why: &str| TraceError::format(format!("an event of {system}"), why);
        if text.len() > MAX_TEXT {
            return Err(fail("it is longer than 1 MiB"));
        }
        let (mut name, mut id, mut fields) = (None, None, Vec::new());
        for line in text.lines() {
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("name:") {
                name = Some(rest.trim().to_owned());
            } else if let Some(rest) = line.strip_prefix("ID:") {
                id = rest.trim().parse().ok();
            } else if line.starts_with("print fmt:") {
                break;
            } else if line.starts_with("field:") {
                if fields.len() == MAX_FIELDS {
                    return Err(fail("it has more than 256 fields"));
                }
                fields.push(parse_field(line).ok_or_else(|| fail(&format!("odd line `{line}`")))?);
            }
        }
        let name = name.filter(|name| !name.is_empty()).ok_or_else(|| fail("it has no name"))?;
        let id = id.ok_or_else(|| fail("it has no ID between 0 and 65535"))?;
        Ok(Self { system: system.to_owned(), name, id, fields })
    }

    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// One line such as `field:char prev_comm[16]; offset:8; size:16; signed:0;`.
pub(crate) fn parse_field(line: &str) -> Option<Field> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?.trim();
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.trim().parse::<u16>().ok(),
            Some(("size", value)) => size = value.trim().parse::<u16>().ok(),
            Some(("signed", value)) => signed = value.trim() == "1",
            _ => {}
        }
    }
    let (type_name, name) = declaration.rsplit_once(char::is_whitespace)?;
    let (name, is_array) = match name.split_once('[') {
        Some((name, _)) => (name, true),
        None => (name, false),
    };
    let name = name.trim_start_matches('*');
    if name.is_empty() {
        return None;
    }
    let array = if is_array && !type_name.ends_with(']') { "[]" } else { "" };
    let type_name = format!("{}{array}", type_name.trim());
    let size: u16 = size?;
    let kind = if type_name.starts_with("__data_loc") {
        FieldKind::Elsewhere
    } else if type_name.starts_with("__rel_loc") {
        FieldKind::Behind
    } else if matches!(size, 1 | 2 | 4 | 8) && !type_name.ends_with(']') {
        FieldKind::Number
    } else {
        FieldKind::Bytes
    };
    let place = FieldLocation { offset: offset?, size, signed, kind };
    Some(Field { name: name.to_owned(), type_name, place })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:void * where;\toffset:32;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] comm;\toffset:28;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"field:x\", REC->prev_comm\n";

    #[test]
    fn fields_are_found_by_name() {
        let format = EventFormat::parse("sched", SWITCH).expect("a valid format");
        assert_eq!((format.name.as_str(), format.id, format.fields.len()), ("sched_switch", 372, 8));
        let pid = format.field("prev_pid").expect("there").place;
        assert_eq!((pid.offset, pid.size, pid.signed, pid.kind), (24, 4, true, FieldKind::Number));
        assert_eq!(format.field("prev_comm").expect("there").place.kind, FieldKind::Bytes);
        assert_eq!(format.field("where").expect("there").type_name, "void *");
        assert_eq!(format.field("comm").expect("there").place.kind, FieldKind::Elsewhere);
    }

    #[test]
    fn numbers_keep_their_sign() {
        let field = |size, signed| FieldLocation { offset: 1, size, signed, kind: FieldKind::Number };
        let record = [0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(field(1, true).number(&record), Some(-1));
        assert_eq!(field(1, false).number(&record), Some(255));
        assert_eq!(field(2, false).number(&record), Some(65535));
        assert_eq!(field(4, true).number(&record), Some(-1));
        assert_eq!(field(8, true).number(&record), Some(-1));
        assert_eq!(field(3, true).number(&record), None);
        assert_eq!(field(8, true).number(&record[..8]), None);
    }

    #[test]
    fn a_dynamic_array_is_followed() {
        let mut record = vec![0; 8];
        record.extend_from_slice(b"bash\0");
        record[4..8].copy_from_slice(&((5u32 << 16) | 8).to_ne_bytes());
        let field = FieldLocation { offset: 4, size: 4, signed: false, kind: FieldKind::Elsewhere };
        assert_eq!(field.bytes(&record), Some(&b"bash\0"[..]));
        record[4..8].copy_from_slice(&((500u32 << 16) | 8).to_ne_bytes());
        assert_eq!(field.bytes(&record), None, "a length past the record is not believed");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "name: x", "name: x\nID: 70000", "name: x\nID: 1\nfield:int a; offset:-1; size:4;"] {
            assert!(EventFormat::parse("s", text).is_err(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn any_text_is_parsed_or_refused(text in "(name: [a-z]{0,3}\n)?(ID: -?[0-9]{1,6}\n)?(\tfield:[ -~]{0,20};\toffset:[0-9]{1,6};\tsize:[0-9]{1,6};\tsigned:[01];\n){0,4}", record in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(format) = EventFormat::parse("s", &text) {
                for field in &format.fields {
                    let _ = field.place.number(&record);
                    let _ = field.place.bytes(&record);
                }
            }
        }
    }
}
