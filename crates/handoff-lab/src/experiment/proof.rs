//! Proof of activation: a counter that moves, or stays, as it must if the variant is what it says.

use std::io::Read as _;
use std::path::PathBuf;

use handoff_workloads::activation::{ActivationCount, ActivationError};
use serde::{Deserialize, Serialize};

use super::task::Run;

/// How much of a file is looked at for its first number.
const MOST_BYTES: u64 = 64 << 10;

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
    /// Hits of a tracepoint, such as `sched:sched_migrate_task`, on all CPUs.
    Tracepoint,
    /// Calls of a kernel function, such as `tcp_push`, on all CPUs. Needs kprobes.
    Function,
    /// The first number of a file.
    File(PathBuf),
}

/// Why a counter cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    #[error("this machine does not tell the counter {counter}{hint}")]
    NoCounter { counter: String, hint: &'static str },
    /// It is not counted by itself, and counting it cannot be started.
    #[error(transparent)]
    Count(#[from] ActivationError),
}

/// What a counter must do during a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Expect {
    /// Not grow at all.
    Zero,
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
    pub counter: String,
    pub source: Source,
    pub expect: Expect,
    /// Whether growth is counted a second of the run.
    pub per_second: bool,
}

impl Proof {
    pub fn describe(&self) -> String {
        let rate = if self.per_second { " a second" } else { "" };
        format!("{} {}{rate}", self.counter, String::from(self.expect))
    }

    /// The present value, where the system counts it by itself.
    fn read(&self) -> Option<f64> {
        match &self.source {
            Source::Workload | Source::Tracepoint | Source::Function => None,
            Source::Netstat => ["/proc/net/netstat", "/proc/net/snmp"]
                .iter()
                .filter_map(|path| std::fs::read_to_string(path).ok())
                .find_map(|text| netstat(&text, &self.counter)),
            Source::Schedstat => schedstat(&std::fs::read_to_string("/proc/schedstat").ok()?, &self.counter),
            Source::File(path) => {
                let mut text = String::new();
                // A file without an end, such as a device, must not take all memory.
                std::fs::File::open(path).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
                text.split(|c: char| !c.is_ascii_digit() && c != '.').find_map(|word| word.parse().ok())
            }
        }
    }

    pub fn start(&self) -> Result<Count<'_>, ProofError> {
        let started = match &self.source {
            Source::Workload => StartCount::ByTheWorkload,
            Source::Tracepoint => StartCount::Count(ActivationCount::of_tracepoint(&self.counter)?),
            Source::Function => StartCount::Count(ActivationCount::of_function(&self.counter)?),
            Source::Netstat | Source::Schedstat | Source::File(_) => {
                let hint = match self.source {
                    Source::Schedstat => {
                        "; sudo sysctl kernel.sched_schedstats=1, on a kernel with CONFIG_SCHEDSTATS"
                    }
                    _ => "",
                };
                let none = || ProofError::NoCounter { counter: self.counter.clone(), hint };
                StartCount::At(self.read().ok_or_else(none)?)
            }
        };
        Ok(Count { proof: self, started })
    }
}

/// A running count; what it holds ends with it.
#[derive(Debug)]
pub struct Count<'a> {
    proof: &'a Proof,
    started: StartCount,
}

#[derive(Debug)]
enum StartCount {
    ByTheWorkload,
    At(f64),
    Count(ActivationCount),
}

impl Count<'_> {
    /// What was counted since the start; `None` if only the workload knows, or the counter has gone.
    pub fn end(&self) -> Option<f64> {
        match &self.started {
            StartCount::ByTheWorkload => None,
            StartCount::At(before) => Some(self.proof.read()? - before),
            StartCount::Count(hits) => hits.read().ok().map(|hits| hits as f64),
        }
    }

    /// How much it grew in this run; `None` if nobody counted it.
    pub fn growth(&self, ended: Option<f64>, run: &Run) -> Option<f64> {
        let growth = match self.started {
            StartCount::ByTheWorkload => *run.counters.get(&self.proof.counter)?,
            _ => ended?,
        };
        Some(if self.proof.per_second && run.seconds > 0.0 { growth / run.seconds } else { growth })
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
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn counters_of_the_network() {
        let text = "TcpExt: SyncookiesSent TCPAutoCorking\nTcpExt: 3 236\nIpExt: InNoRoutes\nIpExt: 7\n";
        assert_eq!(netstat(text, "TcpExtTCPAutoCorking"), Some(236.0));
        assert_eq!(netstat(text, "IpExtInNoRoutes"), Some(7.0));
        assert_eq!(netstat(text, "TcpExtNothing"), None);
        assert_eq!(netstat("TcpExt: A\n", "TcpExtA"), None);
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

    fn proof(counter: &str, source: Source, per_second: bool) -> Proof {
        Proof { counter: counter.into(), source, expect: Expect::Increases, per_second }
    }

    #[test]
    fn a_rate_is_a_growth_by_time() {
        let counters = BTreeMap::from([("c".to_owned(), 30.0)]);
        let run = Run { seconds: 2.0, counters, ..Run::default() };
        let rate = proof("c", Source::Workload, true);
        let count = rate.start().expect("the workload counts");
        assert_eq!(count.growth(count.end(), &run), Some(15.0));
        assert_eq!(count.growth(count.end(), &Run::default()), None);
        let segments = proof("TcpOutSegs", Source::Netstat, false);
        let count = segments.start().expect("every Linux with TCP counts segments");
        assert!(count.end().is_some_and(|growth| growth >= 0.0));
        assert_eq!(count.growth(Some(5.0), &run), Some(5.0));
        assert_eq!(count.growth(None, &run), None);
    }

    #[test]
    fn a_file_grows_while_it_is_counted() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "hits: 7\n").expect("written");
        let proof = proof("hits", Source::File(file.path().to_owned()), false);
        let count = proof.start().expect("it has a number");
        std::fs::write(file.path(), "hits: 19\n").expect("written");
        assert_eq!(count.end(), Some(12.0));
        std::fs::write(file.path(), "gone").expect("written");
        assert_eq!(count.end(), None);
        assert!(matches!(proof.start(), Err(ProofError::NoCounter { .. })));
    }

    #[test]
    fn what_the_machine_does_not_have_is_said() {
        for (counter, source, says) in [
            ("TcpExtNothing", Source::Netstat, "does not tell the counter TcpExtNothing"),
            ("sched:nothing", Source::Tracepoint, "cannot count the tracepoint sched:nothing"),
            ("no_such_function", Source::Function, "cannot count calls of no_such_function"),
        ] {
            let error = proof(counter, source, false).start().expect_err(counter).to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
