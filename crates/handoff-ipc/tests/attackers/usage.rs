//! What a process holds and has used, as the kernel says.

use std::time::Duration;

/// Holdings of a process at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub threads: usize,
    pub fds: usize,
    pub maps: usize,
    /// Resident memory in KiB.
    pub rss: usize,
    /// Time on a CPU since the process began.
    pub cpu: Duration,
}

impl Usage {
    /// `None`: there is no such process any longer.
    pub fn of(pid: u32) -> Option<Self> {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        let (status, stat) = (read("status")?, read("stat")?);
        let number = |key: &str| -> Option<usize> {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse().ok()
        };
        // After the name, which may have spaces in it: state is field 3, user and system time are 14 and 15.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        // SAFETY: it asks for a number.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as u64;
        Some(Usage {
            threads: number("Threads:")?,
            fds: std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count(),
            maps: read("maps")?.lines().count(),
            rss: number("VmRSS:")?,
            cpu: Duration::from_millis(ticks * 1000 / per_second),
        })
    }

    /// The larger of each.
    pub fn max(self, other: Self) -> Self {
        Usage {
            threads: self.threads.max(other.threads),
            fds: self.fds.max(other.fds),
            maps: self.maps.max(other.maps),
            rss: self.rss.max(other.rss),
            cpu: self.cpu.max(other.cpu),
        }
    }
}

impl std::iter::Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Usage::default(), |sum, one| Usage {
            threads: sum.threads + one.threads,
            fds: sum.fds + one.fds,
            maps: sum.maps + one.maps,
            rss: sum.rss + one.rss,
            cpu: sum.cpu + one.cpu,
        })
    }
}
