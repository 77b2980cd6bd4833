//! Proof of activation: a counter that moves, or stays, as it must if the variant is what it says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where a counter is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Counted by the workload itself.
    Workload,
    /// `/proc/net/netstat` and `/proc/net/snmp`, with the names of nstat, such as `TcpExtTCPAutoCorking`.
    Netstat,
    /// `/proc/schedstat`: `ttwu_wake_remote`, `ttwu_move_affine` or `ttwu_move_balance`, over all domains.
    Schedstat,
    /// The first number of a file.
    File(PathBuf),
}

/// What a counter must do during a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Expect {
    /// Not grow at all.
    Zero,
    /// Grow.
    Increases,
    /// Grow by so much at least.
    AtLeast(f64),
}

impl TryFrom<String> for Expect {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.trim() {
            "zero" => Ok(Self::Zero),
            "increases" => Ok(Self::Increases),
            other => other
                .strip_prefix(">=")
                .and_then(|number| number.trim().parse().ok())
                .filter(|number: &f64| number.is_finite() && *number > 0.0)
                .map(Self::AtLeast)
                .ok_or_else(|| format!("{other:?} is none of \"zero\", \"increases\" and \">= N\"")),
        }
    }
}

impl From<Expect> for String {
    fn from(expect: Expect) -> Self {
        match expect {
            Expect::Zero => "zero".to_owned(),
            Expect::Increases => "increases".to_owned(),
            Expect::AtLeast(number) => format!(">= {number}"),
        }
    }
}

impl Expect {
    /// Whether this growth is as expected.
    #[must_use]
    pub fn holds(self, growth: f64) -> bool {
        match self {
            Self::Zero => growth == 0.0,
            Self::Increases => growth > 0.0,
            Self::AtLeast(least) => growth >= least,
        }
    }
}

/// One proof of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// Name of the counter.
    pub counter: String,
    /// Where it is.
    pub source: Source,
    /// What it must do.
    pub expect: Expect,
    /// Whether growth is counted a second of the run.
    pub per_second: bool,
}

impl Proof {
    /// It in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let rate = if self.per_second { " a second" } else { "" };
        format!("{} {}{rate}", self.counter, String::from(self.expect))
    }

    /// The present value, where it is a counter of the system.
    #[must_use]
    pub fn read(&self) -> Option<f64> {
        match &self.source {
            Source::Workload => None,
            Source::Netstat => ["/proc/net/netstat", "/proc/net/snmp"]
                .iter()
                .filter_map(|path| std::fs::read_to_string(path).ok())
                .find_map(|text| netstat(&text, &self.counter)),
            Source::Schedstat => schedstat(&std::fs::read_to_string("/proc/schedstat").ok()?, &self.counter),
            Source::File(path) => {
                let text = std::fs::read_to_string(path).ok()?;
                text.split(|c: char| !c.is_ascii_digit() && c != '.').find_map(|word| word.parse().ok())
            }
        }
    }

    /// How much it grew in a run of so many seconds; `None` if nobody counted it.
    #[must_use]
    pub fn growth(
        &self,
        before: Option<f64>,
        after: Option<f64>,
        counted: &BTreeMap<String, f64>,
        seconds: f64,
    ) -> Option<f64> {
        let growth = match self.source {
            Source::Workload => *counted.get(&self.counter)?,
            _ => after? - before?,
        };
        Some(if self.per_second && seconds > 0.0 { growth / seconds } else { growth })
    }
}

/// A counter of pairs of lines, `TcpExt: names` and `TcpExt: values`; its name is both joined.
fn netstat(text: &str, counter: &str) -> Option<f64> {
    let lines: Vec<&str> = text.lines().collect();
    lines.chunks_exact(2).find_map(|pair| {
        let (prefix, names) = pair[0].split_once(':')?;
        let (again, values) = pair[1].split_once(':')?;
        let name = counter.strip_prefix(prefix).filter(|_| prefix == again)?;
        let position = names.split_whitespace().position(|known| known == name)?;
        values.split_whitespace().nth(position)?.parse().ok()
    })
}

/// The last three fields of a domain's line, in every version of the file so far (15 to 17); see
/// `Documentation/scheduler/sched-stats.rst`.
fn schedstat(text: &str, counter: &str) -> Option<f64> {
    let from_end =
        ["ttwu_move_balance", "ttwu_move_affine", "ttwu_wake_remote"].iter().position(|n| *n == counter)?;
    let domains: Vec<f64> = text
        .lines()
        .filter(|line| line.starts_with("domain"))
        .filter_map(|line| line.split_whitespace().rev().nth(from_end)?.parse().ok())
        .collect();
    (!domains.is_empty()).then(|| domains.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_the_network() {
        let text = "TcpExt: SyncookiesSent TCPAutoCorking\nTcpExt: 3 236\nIpExt: InNoRoutes\nIpExt: 7\n";
        assert_eq!(netstat(text, "TcpExtTCPAutoCorking"), Some(236.0));
        assert_eq!(netstat(text, "IpExtInNoRoutes"), Some(7.0));
        assert_eq!(netstat(text, "TcpExtNothing"), None);
        assert_eq!(netstat("TcpExt: A\n", "TcpExtA"), None);
        let proof = Proof {
            counter: "TcpOutSegs".into(),
            source: Source::Netstat,
            expect: Expect::Increases,
            per_second: false,
        };
        assert!(proof.read().is_some(), "every Linux with TCP counts segments");
    }

    #[test]
    fn counters_of_the_scheduler_are_summed_over_domains() {
        let text = "version 15\ncpu0 1 2\ndomain0 3 1 1 1 10 20 30\ndomain1 f 1 1 1 1 2 3\n";
        assert_eq!(schedstat(text, "ttwu_move_affine"), Some(22.0));
        assert_eq!(schedstat(text, "ttwu_wake_remote"), Some(11.0));
        assert_eq!(schedstat(text, "other"), None);
        assert_eq!(schedstat("version 15\n", "ttwu_move_affine"), None);
    }

    #[test]
    fn expectations() {
        let expect = |text: &str| Expect::try_from(text.to_owned());
        assert_eq!(expect(">= 100"), Ok(Expect::AtLeast(100.0)));
        assert_eq!(expect("zero"), Ok(Expect::Zero));
        for bad in ["", "> 1", ">= x", ">= -1", ">= inf", "often"] {
            assert!(expect(bad).is_err(), "{bad}");
        }
        assert!(Expect::Zero.holds(0.0) && !Expect::Zero.holds(1.0));
        assert!(Expect::Increases.holds(1.0) && !Expect::Increases.holds(0.0));
        assert!(Expect::AtLeast(5.0).holds(5.0) && !Expect::AtLeast(5.0).holds(4.9));
        assert_eq!(String::from(Expect::AtLeast(2.5)), ">= 2.5");
    }

    #[test]
    fn a_rate_is_a_growth_by_time() {
        let proof = Proof {
            counter: "c".into(),
            source: Source::Workload,
            expect: Expect::Increases,
            per_second: true,
        };
        let counted = BTreeMap::from([("c".to_owned(), 30.0)]);
        assert_eq!(proof.growth(None, None, &counted, 2.0), Some(15.0));
        assert_eq!(proof.growth(None, None, &BTreeMap::new(), 2.0), None);
        let system = Proof { source: Source::Netstat, per_second: false, ..proof };
        assert_eq!(system.growth(Some(3.0), Some(5.0), &counted, 2.0), Some(2.0));
        assert_eq!(system.growth(Some(3.0), None, &counted, 2.0), None);
    }
}
