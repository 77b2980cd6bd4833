//! The number at a JSON pointer, without the rest of the text in memory: parsed as a whole it would take thirty times its
//! length.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The number at `pointer` (RFC 6901) of a text that is one JSON value; `None` if something else is there, or nothing.
pub(super) fn number_at(text: &str, pointer: &str) -> serde_json::Result<Option<f64>> {
    let mut tokens = pointer.split('/');
    let is_pointer = tokens.next() == Some("");
    let tokens: Vec<String> = tokens.map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
    let mut json = serde_json::Deserializer::from_str(text);
    let found = At(&tokens).deserialize(&mut json)?;
    json.end()?;
    Ok(found.filter(|_| is_pointer))
}

/// The way from a value to the number.
struct At<'a>(&'a [String]);

impl At<'_> {
    fn number<E>(&self, number: f64) -> Result<Option<f64>, E> {
        Ok(self.0.is_empty().then_some(number))
    }
}

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Option<f64>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Option<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        self.number(number)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        self.number(number as f64)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        self.number(number as f64)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        // A number has no zero before it (RFC 6901), and no sign.
        let is_index = |token: &&String| {
            token.bytes().all(|byte| byte.is_ascii_digit()) && (token.len() == 1 || !token.starts_with('0'))
        };
        let wanted = self.0.first().filter(is_index).and_then(|token| token.parse().ok());
        let mut found = None;
        for at in 0_usize.. {
            if wanted == Some(at) {
                let Some(value) = values.next_element_seed(At(&self.0[1..]))? else { break };
                found = value;
            } else if values.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(found)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = values.next_key::<Cow<'_, str>>()? {
            match self.0.split_first() {
                Some((wanted, rest)) if *wanted == key => found = values.next_value_seed(At(rest))?,
                _ => drop(values.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_what_the_whole_value_has_there() {
        let text = r#"{"a": [1, {"b": -2.5}, [], null, "x"], "m~n": {"/": 18446744073709551615}, "": {"": 4},
                       "d": 1, "d": 7, "01": 3, "a/b": true}"#;
        let whole: serde_json::Value = serde_json::from_str(text).expect("JSON");
        for pointer in [
            "", "/", "//", "/a", "/a/0", "/a/1", "/a/1/b", "/a/2", "/a/2/0", "/a/3", "/a/4", "/a/5", "/a/00",
            "/a/01", "/a/+1", "/a/-", "/a/1/b/c", "a", "a/0", "/m~0n/~1", "/m~n/~1", "/d", "/01", "/a~1b",
            "/nothing",
        ] {
            let expected = whole.pointer(pointer).and_then(serde_json::Value::as_f64);
            assert_eq!(number_at(text, pointer).expect("JSON"), expected, "{pointer:?}");
        }
        assert_eq!(number_at("7", "").expect("JSON"), Some(7.0));
        for broken in ["", "{", "[1,", "1 2", "{\"a\":1}}", "nan"] {
            assert!(number_at(broken, "/a").is_err(), "{broken:?}");
        }
    }

    #[test]
    fn a_text_without_an_end_of_nesting_is_refused() {
        assert!(number_at(&"[".repeat(1 << 20), "/0/0").is_err());
    }

    #[test]
    fn a_long_text_takes_no_memory_beside_it() {
        let text = format!("[{}8]", "0,".repeat(16 << 20));
        let peak = || {
            let status = std::fs::read_to_string("/proc/self/status").expect("of this process");
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
            line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
        };
        let before = peak();
        assert_eq!(number_at(&text, &format!("/{}", 16 << 20)).expect("JSON"), Some(8.0));
        let more = peak() - before;
        // As values these are 512 MiB. Other tests run beside.
        assert!(more < 128, "{more} MiB more");
    }
}
