//! Arguments and replies of a call as people write and read them: a type and a value each.

use std::fmt;

use anyhow::Context as _;
use handoff_ipc::parcel::{Reader, Writer};
use handoff_ipc::{Binder, Runtime};
use serde::Serialize;

/// Types that have a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Kind {
    /// 32-bit integer
    I32,
    /// 64-bit integer
    I64,
    /// 32-bit floating point
    F32,
    /// 64-bit floating point
    F64,
    /// true or false
    Bool,
    /// UTF-16 text, AIDL's String
    Str,
    /// UTF-8 text
    Utf8,
    /// A byte vector
    Bytes,
    /// A reference to a service
    Service,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Value {
    /// A 32-bit integer.
    I32(i32),
    /// A 64-bit integer.
    I64(i64),
    /// 32-bit floating point.
    F32(f32),
    /// 64-bit floating point.
    F64(f64),
    Bool(bool),
    /// UTF-16 text or null.
    Str(Option<String>),
    /// UTF-8 text or null.
    Utf8(Option<String>),
    /// Bytes, as hexadecimal digits.
    Bytes(#[serde(serialize_with = "as_hex")] Vec<u8>),
    /// A service by its name, or null.
    Service(Option<String>),
}

fn as_hex<S: serde::Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&hex(bytes))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Integers may be written in hexadecimal, as Android's `service` takes them.
pub(super) fn integer<T: TryFrom<i128>>(text: &str) -> Option<T> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let magnitude = match digits.strip_prefix("0x") {
        Some(digits) => i128::from(u64::from_str_radix(digits, 16).ok()?),
        None if digits.starts_with(|c: char| c.is_ascii_digit()) => i128::from(digits.parse::<u64>().ok()?),
        None => return None,
    };
    T::try_from(sign * magnitude).ok()
}

pub(super) fn bytes(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// The arguments of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Words(Vec<Value>);

impl Words {
    /// Reads types and values from the command line.
    pub(super) fn parse(words: &[String]) -> anyhow::Result<Self> {
        let mut words = words.iter();
        let mut values = Vec::new();
        while let Some(kind) = words.next() {
            match kind.as_str() {
                "null-str" => {
                    values.push(Value::Str(None));
                    continue;
                }
                "null-object" => {
                    values.push(Value::Service(None));
                    continue;
                }
                _ => {}
            }
            let known = <Kind as clap::ValueEnum>::from_str(kind, false).ok().with_context(|| {
                format!(
                    "`{kind}` is not a type: i32, i64, f32, f64, bool, str, utf8, bytes, service, null-str and \
                     null-object are"
                )
            })?;
            let text = words.next().with_context(|| format!("a value is missing after `{kind}`"))?;
            let value = match known {
                Kind::I32 => integer(text).map(Value::I32),
                Kind::I64 => integer(text).map(Value::I64),
                Kind::F32 => text.parse().ok().map(Value::F32),
                Kind::F64 => text.parse().ok().map(Value::F64),
                Kind::Bool => text.parse().ok().map(Value::Bool),
                Kind::Str => Some(Value::Str(Some(text.clone()))),
                Kind::Utf8 => Some(Value::Utf8(Some(text.clone()))),
                Kind::Bytes => bytes(text).map(Value::Bytes),
                Kind::Service => Some(Value::Service(Some(text.clone()))),
            };
            values.push(value.with_context(|| format!("`{text}` is not of type {kind}"))?);
        }
        Ok(Words(values))
    }

    /// Looks up the services among the arguments.
    pub(super) fn resolve(self, runtime: &Runtime) -> anyhow::Result<Arguments> {
        let services = self.0.iter().filter_map(|value| match value {
            Value::Service(Some(name)) => Some(name),
            _ => None,
        });
        let services = services.map(|name| runtime.services().get(name)).collect::<Result<_, _>>()?;
        Ok(Arguments { values: self.0, services })
    }
}

/// Arguments that can be written.
pub(super) struct Arguments {
    values: Vec<Value>,
    // Of the services among the values, in order.
    services: Vec<Binder>,
}

impl Arguments {
    /// Writes them in order.
    pub(super) fn write(&self, to: &mut Writer<'_>) -> handoff_ipc::Result<()> {
        let mut services = self.services.iter();
        for value in &self.values {
            match value {
                Value::I32(number) => to.write(number)?,
                Value::I64(number) => to.write(number)?,
                Value::F32(number) => to.write(number)?,
                Value::F64(number) => to.write(number)?,
                Value::Bool(truth) => to.write(truth)?,
                Value::Str(Some(text)) => to.write_string16(text)?,
                Value::Utf8(Some(text)) => to.write_string8(text)?,
                Value::Str(None) | Value::Utf8(None) => to.write_null_length()?,
                Value::Bytes(bytes) => to.write_bytes(bytes)?,
                Value::Service(Some(_)) => to.write_binder(services.next())?,
                Value::Service(None) => to.write_binder(None)?,
            }
        }
        Ok(())
    }
}

/// What came back: the values that were asked for, and the rest as bytes.
#[derive(Debug, Serialize)]
pub(super) struct ReplyValues {
    values: Vec<Value>,
    rest: Rest,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Rest(#[serde(serialize_with = "as_hex")] Vec<u8>);

/// Reads a reply as values of these kinds.
pub(super) fn read_reply(from: &mut Reader<'_>, kinds: &[Kind]) -> handoff_ipc::Result<ReplyValues> {
    let values = kinds
        .iter()
        .map(|kind| {
            Ok(match kind {
                Kind::I32 => Value::I32(from.read()?),
                Kind::I64 => Value::I64(from.read()?),
                Kind::F32 => Value::F32(from.read()?),
                Kind::F64 => Value::F64(from.read()?),
                Kind::Bool => Value::Bool(from.read()?),
                Kind::Str => Value::Str(from.read_string16()?),
                Kind::Utf8 => Value::Utf8(from.read_string8()?),
                Kind::Bytes => Value::Bytes(from.read_bytes()?.to_vec()),
                Kind::Service => {
                    Value::Service(from.read_binder()?.map(|binder| binder.descriptor()).transpose()?)
                }
            })
        })
        .collect::<handoff_ipc::Result<_>>()?;
    let rest = from.read_raw(from.remaining())?.to_vec();
    Ok(ReplyValues { values, rest: Rest(rest) })
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::I32(number) => write!(f, "{number}"),
            Value::I64(number) => write!(f, "{number}"),
            Value::F32(number) => write!(f, "{number}"),
            Value::F64(number) => write!(f, "{number}"),
            Value::Bool(truth) => write!(f, "{truth}"),
            Value::Str(Some(text)) | Value::Utf8(Some(text)) => write!(f, "{text:?}"),
            Value::Bytes(bytes) => f.write_str(&hex(bytes)),
            Value::Service(Some(interface)) => write!(f, "an object of {interface:?}"),
            Value::Str(None) | Value::Utf8(None) | Value::Service(None) => f.write_str("null"),
        }
    }
}

impl fmt::Display for ReplyValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for value in &self.values {
            write!(f, "{separator}{value}")?;
            separator = "\n";
        }
        for (at, line) in self.rest.0.chunks(16).enumerate() {
            let text: String = line
                .iter()
                .map(|byte| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' })
                .collect();
            let words: Vec<String> = line.chunks(4).map(hex).collect();
            write!(f, "{separator}{:#06x}  {:<35}  {text}", at * 16, words.join(" "))?;
            separator = "\n";
        }
        if separator.is_empty() {
            f.write_str("an empty reply")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_ipc::parcel::SharedBytes;

    fn parse(text: &str) -> anyhow::Result<Words> {
        Words::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn values_have_types() {
        let Words(values) =
            parse("i32 -1 i64 0x10 bool true str é utf8 x bytes 00fF null-str null-object f64 0.5 service a")
                .unwrap();
        assert_eq!(
            values,
            [
                Value::I32(-1),
                Value::I64(16),
                Value::Bool(true),
                Value::Str(Some("é".into())),
                Value::Utf8(Some("x".into())),
                Value::Bytes(vec![0, 255]),
                Value::Str(None),
                Value::Service(None),
                Value::F64(0.5),
                Value::Service(Some("a".into())),
            ]
        );
        for (bad, why) in [
            ("u8 1", "is not a type"),
            ("i32", "a value is missing"),
            ("i32 2147483648", "is not of type i32"),
            ("i32 x", "is not of type i32"),
            ("i32 +1", "is not of type i32"),
            ("bytes 0", "is not of type bytes"),
            ("bytes +f", "is not of type bytes"),
            ("bool 1", "is not of type bool"),
        ] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_shown() {
        let Words(values) = parse("i32 7 str hi bytes 0102 i64 -1").unwrap();
        let mut buffer = Vec::new();
        let mut writer = Writer::growing(&mut buffer);
        Arguments { values: values.clone(), services: Vec::new() }.write(&mut writer).unwrap();
        drop(writer.finish());
        let mut reader = Reader::new(SharedBytes::from_slice(&buffer));
        let answer = read_reply(&mut reader, &[Kind::I32, Kind::Str, Kind::Bytes]).unwrap();
        assert_eq!(answer.values, values[..3]);
        assert_eq!(
            answer.to_string(),
            "7\n\"hi\"\n0102\n0x0000  ffffffff ffffffff                    ........"
        );
        let mut reader = Reader::new(SharedBytes::from_slice(&[]));
        assert_eq!(read_reply(&mut reader, &[]).unwrap().to_string(), "an empty reply");
        assert!(read_reply(&mut reader, &[Kind::I64]).is_err());
    }
}
