//! What the values of a measurement count in.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a value counts in. Written as its symbol, such as `ns` or `B/s`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Unit {
    Nanoseconds,
    Milliseconds,
    Seconds,
    Bytes,
    BytesPerSecond,
    /// A number of things, `count`.
    Count,
    PerSecond,
    /// A ratio, where 1 is the whole, `ratio`.
    Ratio,
    /// Nanoseconds of CPU time for each megabyte (10^6 bytes), `ns/MB`.
    NanosecondsPerMegabyte,
    /// Any other unit, by its symbol.
    Other(String),
}

const UNITS: [(Unit, &str); 9] = [
    (Unit::Nanoseconds, "ns"),
    (Unit::Milliseconds, "ms"),
    (Unit::Seconds, "s"),
    (Unit::Bytes, "B"),
    (Unit::BytesPerSecond, "B/s"),
    (Unit::Count, "count"),
    (Unit::PerSecond, "1/s"),
    (Unit::Ratio, "ratio"),
    (Unit::NanosecondsPerMegabyte, "ns/MB"),
];

impl Unit {
    /// The symbol, such as `ns`.
    pub fn symbol(&self) -> &str {
        match self {
            Unit::Other(symbol) => symbol,
            known => UNITS.iter().find(|(unit, _)| unit == known).map_or("", |(_, symbol)| symbol),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.symbol())
    }
}

impl From<String> for Unit {
    fn from(symbol: String) -> Self {
        match UNITS.iter().find(|(_, known)| *known == symbol) {
            Some((unit, _)) => unit.clone(),
            None => Unit::Other(symbol),
        }
    }
}

impl From<Unit> for String {
    fn from(unit: Unit) -> Self {
        unit.symbol().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_written_by_their_symbols() {
        for (unit, symbol) in UNITS {
            assert_eq!(Unit::from(symbol.to_owned()), unit);
            assert_eq!(unit.to_string(), symbol);
        }
        assert_eq!(Unit::from("frames".to_owned()), Unit::Other("frames".into()));
    }
}
