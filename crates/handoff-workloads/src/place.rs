//! Where the two processes of a workload run.

use std::fmt;
use std::str::FromStr;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Where client and server of a two-process workload run.
///
/// Written `same-cpu`, `same-cpu:1`, `two-cpus`, `two-cpus:0,1` and `unpinned`; without numbers the
/// first CPUs that this process may use are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Placement {
    /// Both on one CPU: a hand-off is a switch of tasks.
    SameCpu(usize),
    /// Client on the first, server on the second: a hand-off crosses CPUs.
    TwoCpus(usize, usize),
    /// Wherever the scheduler puts them.
    Unpinned,
}

impl Placement {
    /// Both on the first CPU that this process may use.
    pub fn same_cpu() -> Result<Self> {
        Ok(Placement::SameCpu(allowed_cpus()?[0]))
    }

    /// On the first two CPUs that this process may use.
    pub fn two_cpus() -> Result<Self> {
        match allowed_cpus()?.as_slice() {
            [first, second, ..] => Ok(Placement::TwoCpus(*first, *second)),
            _ => Err(Error::parameter(
                "placement",
                "two-cpus needs two CPUs, and this process may use only one",
            )),
        }
    }

    /// Checks that this process may use the CPUs named.
    pub fn check(self) -> Result<()> {
        let allowed = allowed_cpus()?;
        for cpu in self.cpus() {
            if !allowed.contains(&cpu) {
                let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
                let problem =
                    format!("this process may not run on CPU {cpu}; it may use {}", allowed.join(", "));
                return Err(Error::parameter("placement", problem));
            }
        }
        Ok(())
    }

    fn cpus(self) -> impl Iterator<Item = usize> {
        let (first, second) = match self {
            Placement::SameCpu(cpu) => (Some(cpu), None),
            Placement::TwoCpus(client, server) => (Some(client), Some(server)),
            Placement::Unpinned => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// The mask of the client's side; `None` for no pin.
    pub(crate) fn client(self) -> Option<CpuSet> {
        self.cpus().next().map(only)
    }

    /// The mask of the server's side; `None` for no pin.
    pub(crate) fn server(self) -> Option<CpuSet> {
        self.cpus().last().map(only)
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::SameCpu(cpu) => f.pad(&format!("same-cpu:{cpu}")),
            Placement::TwoCpus(client, server) => f.pad(&format!("two-cpus:{client},{server}")),
            Placement::Unpinned => f.pad("unpinned"),
        }
    }
}

impl FromStr for Placement {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            let problem =
                format!("{text:?} is none of same-cpu, same-cpu:N, two-cpus, two-cpus:N,M and unpinned");
            Error::parameter("placement", problem)
        };
        let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
        match text.split_once(':') {
            None if text == "same-cpu" => Placement::same_cpu(),
            None if text == "two-cpus" => Placement::two_cpus(),
            None if text == "unpinned" => Ok(Placement::Unpinned),
            Some(("same-cpu", cpu)) => Ok(Placement::SameCpu(number(cpu)?)),
            Some(("two-cpus", cpus)) => {
                let (client, server) = cpus.split_once(',').ok_or_else(wrong)?;
                let (client, server) = (number(client)?, number(server)?);
                if client == server {
                    return Err(Error::parameter("placement", format!("{text:?} names one CPU twice")));
                }
                Ok(Placement::TwoCpus(client, server))
            }
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for Placement {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Placement> for String {
    fn from(placement: Placement) -> Self {
        placement.to_string()
    }
}

/// The CPUs that this thread may use, rising; at least one.
pub fn allowed_cpus() -> Result<Vec<usize>> {
    let mask =
        sched_getaffinity(None).map_err(|error| Error::io("cannot ask for the CPUs allowed", error))?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu)).collect();
    if cpus.is_empty() {
        return Err(Error::NotSupported { workload: "anything", reason: "no CPU is allowed".into() });
    }
    Ok(cpus)
}

/// Pins this thread, where there is a pin. Makes one system call.
pub(crate) fn apply(mask: Option<&CpuSet>) -> rustix::io::Result<()> {
    mask.map_or(Ok(()), |mask| sched_setaffinity(None, mask))
}

/// A mask of one CPU; an empty one, which the kernel refuses, for a number out of its range.
fn only(cpu: usize) -> CpuSet {
    let mut mask = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        mask.set(cpu);
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read_as_they_are_written() {
        for placement in [Placement::SameCpu(3), Placement::TwoCpus(0, 5), Placement::Unpinned] {
            assert_eq!(placement.to_string().parse::<Placement>().expect("reads back"), placement);
        }
        assert!(matches!("same-cpu".parse(), Ok(Placement::SameCpu(_))));
    }

    #[test]
    fn bad_placements_say_what_is_right() {
        for text in [
            "",
            "same",
            "same-cpu:",
            "same-cpu:x",
            "two-cpus:1",
            "two-cpus:1,1",
            "unpinned:1",
            "two-cpus:1,2,3",
        ] {
            let error = text.parse::<Placement>().expect_err(text).to_string();
            assert!(error.starts_with("placement: "), "{error}");
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused() {
        for cpu in [1023, 1024, 5000, usize::MAX] {
            let error = Placement::SameCpu(cpu).check().expect_err("no such CPU").to_string();
            assert!(error.contains(&format!("may not run on CPU {cpu}")), "{error}");
        }
        Placement::same_cpu().expect("a CPU").check().expect("it is allowed");
    }
}
