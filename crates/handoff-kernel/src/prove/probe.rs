//! What to look for while a load runs, and how much of it there must be.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One thing that the kernel can be asked to count, with what the count must be.
///
/// As text it is `KIND:WHAT, EXPECTATION`, and without an expectation the count must increase:
///
/// ```
/// use handoff_kernel::prove::Probe;
///
/// let probe: Probe = "returns:wake_wide != 0, >= 10".parse()?;
/// assert_eq!(probe.to_string(), "returns:wake_wide != 0, >= 10");
/// # Ok::<(), handoff_kernel::prove::BadProbe>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Probe {
    pub what: Counted,
    /// What the count must be.
    pub expect: Expectation,
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counted {
    /// `function:NAME`: calls of a function.
    Calls(String),
    /// `returns:NAME[:TYPE] [OP VALUE]`: calls that return such a value; not 0 unless one is given.
    Returns {
        function: String,
        /// The type of what it returns, as kprobe events have it; `s32` unless one is given.
        kind: String,
        /// The comparison: one of `==`, `!=`, `<`, `<=`, `>`, `>=`.
        operator: String,
        /// What it is compared with.
        value: i64,
    },
    /// `probe:PLACE`: how often a place is passed, such as `tcp_push+0x10`.
    Passes(String),
    /// `tracepoint:SYSTEM:EVENT [if FILTER]`: events that pass the filter.
    Events {
        /// The system, such as `sched`.
        system: String,
        /// The event, such as `sched_switch`.
        event: String,
        /// The filter in the kernel's language.
        filter: Option<String>,
    },
    /// `counter:NAME`: growth of a counter of `/proc/net/netstat` and `/proc/net/snmp` (with nstat's
    /// names), of `/proc/schedstat` or of `/proc/vmstat`, or of the first number of a file.
    Counter(String),
    /// `result:NAME`: a counter in what a workload of handoff prints as JSON.
    Result(String),
    /// `branches:FILE.c:FUNCTION`: calls of a function, inlined or not, and which of its branches
    /// were taken, from gcov's counts of that file.
    Branches {
        /// The file in the tree.
        file: String,
        function: String,
    },
}

/// What a count must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expectation {
    Zero,
    Increases,
    /// `>= N`: so much at least.
    AtLeast(f64),
    /// `>= N/s`: so much in each second of the load at least.
    Rate(f64),
}

/// Why a text is no probe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no probe: {reason}")]
pub struct BadProbe {
    pub text: String,
    pub reason: String,
}

impl Expectation {
    /// Whether `count` within `seconds` is what was expected.
    #[must_use]
    pub fn holds(self, count: f64, seconds: f64) -> bool {
        match self {
            Self::Zero => count == 0.0,
            Self::Increases => count > 0.0,
            Self::AtLeast(least) => count >= least,
            Self::Rate(least) => seconds > 0.0 && count / seconds >= least,
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("zero"),
            Self::Increases => f.write_str("increases"),
            Self::AtLeast(least) => write!(f, ">= {least}"),
            Self::Rate(least) => write!(f, ">= {least}/s"),
        }
    }
}

impl FromStr for Expectation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "zero" => Ok(Self::Zero),
            "increases" => Ok(Self::Increases),
            other => {
                let unknown =
                    || format!("{other:?} is no expectation: write zero, increases, >= 20 or >= 20/s");
                let number = other.strip_prefix(">=").ok_or_else(unknown)?.trim();
                let (number, rate) = match number.strip_suffix("/s") {
                    Some(number) => (number.trim(), true),
                    None => (number, false),
                };
                let least: f64 = number.parse().map_err(|_| unknown())?;
                if !(least > 0.0 && least.is_finite()) {
                    return Err(format!("{other:?} is always so: write zero, or a number above 0"));
                }
                Ok(if rate { Self::Rate(least) } else { Self::AtLeast(least) })
            }
        }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calls(name) => write!(f, "function:{name}"),
            Self::Returns { function, kind, operator, value } => {
                let kind = if kind == "s32" { String::new() } else { format!(":{kind}") };
                write!(f, "returns:{function}{kind} {operator} {value}")
            }
            Self::Passes(place) => write!(f, "probe:{place}"),
            Self::Events { system, event, filter } => {
                write!(f, "tracepoint:{system}:{event}")?;
                filter.as_ref().map_or(Ok(()), |filter| write!(f, " if {filter}"))
            }
            Self::Counter(name) => write!(f, "counter:{name}"),
            Self::Result(name) => write!(f, "result:{name}"),
            Self::Branches { file, function } => write!(f, "branches:{file}:{function}"),
        }
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.what, self.expect)
    }
}

impl From<Probe> for String {
    fn from(probe: Probe) -> Self {
        probe.to_string()
    }
}

impl TryFrom<String> for Probe {
    type Error = BadProbe;

    fn try_from(text: String) -> Result<Self, BadProbe> {
        text.parse()
    }
}

impl FromStr for Probe {
    type Err = BadProbe;

    fn from_str(text: &str) -> Result<Self, BadProbe> {
        let bad = |reason: String| BadProbe { text: text.to_owned(), reason };
        let (what, expect) = match text.rsplit_once(',') {
            Some((what, expect)) => (what, expect.parse().map_err(bad)?),
            None => (text, Expectation::Increases),
        };
        Ok(Self { what: counted(what.trim()).map_err(bad)?, expect })
    }
}

fn counted(text: &str) -> Result<Counted, String> {
    const KINDS: &str =
        "it begins with function:, returns:, probe:, tracepoint:, counter:, result: or branches:";
    let (kind, rest) = text.split_once(':').ok_or(KINDS)?;
    let rest = rest.trim();
    match kind {
        "function" => Ok(Counted::Calls(symbol(rest)?)),
        "returns" => returns(rest),
        "probe" => {
            let (name, offset) = rest.split_once('+').unwrap_or((rest, "0"));
            symbol(name)?;
            let digits = offset.strip_prefix("0x").unwrap_or(offset);
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(format!("{offset:?} is no offset in bytes"));
            }
            Ok(Counted::Passes(rest.to_owned()))
        }
        "tracepoint" => {
            let (place, filter) = match rest.split_once(" if ") {
                Some((place, filter)) => (place, Some(filter.trim().to_owned())),
                None => (rest, None),
            };
            if filter.as_ref().is_some_and(|filter| filter.is_empty() || filter.contains(['\n', '\0'])) {
                return Err("the filter is empty or has more than one line".to_owned());
            }
            let (system, event) = place.split_once(':').ok_or("a tracepoint is SYSTEM:EVENT")?;
            Ok(Counted::Events { system: symbol(system)?, event: symbol(event)?, filter })
        }
        "counter" if rest.starts_with('/') && !rest.contains(['\n', '\0']) => {
            Ok(Counted::Counter(rest.to_owned()))
        }
        "counter" => Ok(Counted::Counter(symbol(rest)?)),
        "result" if !rest.is_empty() => Ok(Counted::Result(rest.to_owned())),
        "branches" => {
            let (file, function) = rest.rsplit_once(':').ok_or("branches are FILE.c:FUNCTION")?;
            let inside =
                !file.starts_with('/') && file.split('/').all(|part| !part.is_empty() && part != "..");
            if !(inside && file.ends_with(".c")) {
                return Err(format!("{file:?} is no C file of the tree: name it as kernel/sched/fair.c"));
            }
            Ok(Counted::Branches { file: file.to_owned(), function: symbol(function)? })
        }
        _ => Err(KINDS.to_owned()),
    }
}

fn returns(text: &str) -> Result<Counted, String> {
    let (place, comparison) = match text.find(['=', '!', '<', '>']) {
        Some(at) => (text[..at].trim(), text[at..].trim()),
        None => (text, "!= 0"),
    };
    let (function, kind) = place.split_once(':').unwrap_or((place, "s32"));
    const TYPES: [&str; 8] = ["s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"];
    if !TYPES.contains(&kind) {
        return Err(format!("{kind:?} is no type: one of {}", TYPES.join(", ")));
    }
    let digits = comparison.find(|c: char| !"=!<>".contains(c)).unwrap_or(comparison.len());
    let (operator, value) = comparison.split_at(digits);
    if !["==", "!=", "<", "<=", ">", ">="].contains(&operator) {
        return Err(format!("{operator:?} compares nothing: one of ==, !=, <, <=, >, >="));
    }
    let value = value.trim().parse().map_err(|_| format!("{:?} is no number", value.trim()))?;
    Ok(Counted::Returns {
        function: symbol(function)?,
        kind: kind.to_owned(),
        operator: operator.to_owned(),
        value,
    })
}

/// A name as the kernel's symbols, events and counters have them; it is written into files of tracefs.
fn symbol(text: &str) -> Result<String, String> {
    let text = text.trim();
    let good = !text.is_empty()
        && text.len() < 256
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.$".contains(&byte));
    if good { Ok(text.to_owned()) } else { Err(format!("{text:?} is no name")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn probes_are_read_and_written_alike() {
        for text in [
            "function:wake_wide, >= 100",
            "returns:wake_wide != 0, increases",
            "returns:tcp_should_autocork:u8 == 1, >= 2.5/s",
            "probe:tcp_push+0x10, zero",
            "tracepoint:sched:sched_switch if prev_prio < 100, increases",
            "counter:TcpExtTCPAutoCorking, >= 20/s",
            "counter:/proc/sys/kernel/random/entropy_avail, increases",
            "result:TcpExtTCPAutoCorking, zero",
            "branches:kernel/sched/fair.c:wake_wide, increases",
        ] {
            let probe: Probe = text.parse().expect(text);
            assert_eq!(probe.to_string(), text);
        }
        let short: Probe = "returns:f".parse().expect("good");
        assert_eq!(short.to_string(), "returns:f != 0, increases");
    }

    #[test]
    fn what_is_no_probe_is_refused_with_the_reason() {
        for (text, reason) in [
            ("wake_wide", "begins with"),
            ("nonsense:x", "begins with"),
            ("function:a b", "no name"),
            ("function:", "no name"),
            ("function:x, twice", "no expectation"),
            ("function:x, >= 0", "always so"),
            ("returns:f:bool", "no type"),
            ("returns:f = 0", "compares nothing"),
            ("returns:f != x", "no number"),
            ("probe:f+x", "no offset"),
            ("tracepoint:sched", "SYSTEM:EVENT"),
            ("branches:/etc/x.c:f", "no C file"),
            ("branches:../x.c:f", "no C file"),
        ] {
            let error = text.parse::<Probe>().expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn expectations_hold_or_not() {
        let holds = |text: &str, count, seconds| {
            text.parse::<Expectation>().expect("an expectation").holds(count, seconds)
        };
        assert!(holds("zero", 0.0, 1.0) && !holds("zero", 1.0, 1.0));
        assert!(holds("increases", 1.0, 1.0) && !holds("increases", 0.0, 1.0));
        assert!(holds(">= 5", 5.0, 100.0) && !holds(">= 5", 4.0, 0.1));
        assert!(holds(">= 5/s", 10.0, 2.0) && !holds(">= 5/s", 10.0, 3.0) && !holds(">= 5/s", 10.0, 0.0));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(function|returns|probe|tracepoint|counter|branches)?:?[ a-z:+!=<>,/.0-9\\n]{0,30}") {
            if let Ok(probe) = text.parse::<Probe>() {
                prop_assert_eq!(probe.to_string().parse::<Probe>(), Ok(probe));
            }
        }
    }
}
