//! What tasks used, as the kernel accounts it (`getrusage`, `wait4`).
//!
//! <https://man7.org/linux/man-pages/man2/getrusage.2.html>

#![allow(unsafe_code)]

use std::time::Duration;

/// What processes used, as `getrusage` and `wait4` count it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Largest resident set of any of them, in bytes.
    pub max_rss: u64,
    /// Page faults served without reading a disk.
    pub minor_faults: u64,
    /// Page faults that read a disk.
    pub major_faults: u64,
    /// Times that a thread blocked.
    pub voluntary_switches: u64,
    /// Times that a thread was preempted.
    pub involuntary_switches: u64,
}

impl Usage {
    /// User and system time together.
    pub(crate) fn cpu(&self) -> Duration {
        self.user + self.system
    }

    /// What several processes used together.
    pub(crate) fn sum<'a>(all: impl Iterator<Item = &'a Usage>) -> Self {
        let mut sum = Usage::default();
        all.for_each(|one| sum.add(one));
        sum
    }

    /// Adds what another process used.
    pub(crate) fn add(&mut self, other: &Usage) {
        self.user += other.user;
        self.system += other.system;
        self.max_rss = self.max_rss.max(other.max_rss);
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
    }

    /// What this thread has used so far.
    pub(crate) fn of_this_thread() -> Self {
        // SAFETY: all-zero bytes are a valid `rusage`, and the pointer is to a live local.
        let raw = unsafe {
            let mut raw: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut raw);
            raw
        };
        Self::from(&raw)
    }
}

impl From<&libc::rusage> for Usage {
    fn from(raw: &libc::rusage) -> Self {
        let time = |t: libc::timeval| {
            Duration::from_secs(u64::try_from(t.tv_sec).unwrap_or(0))
                + Duration::from_micros(u64::try_from(t.tv_usec).unwrap_or(0))
        };
        let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
        Usage {
            user: time(raw.ru_utime),
            system: time(raw.ru_stime),
            max_rss: count(raw.ru_maxrss) * 1024,
            minor_faults: count(raw.ru_minflt),
            major_faults: count(raw.ru_majflt),
            voluntary_switches: count(raw.ru_nvcsw),
            involuntary_switches: count(raw.ru_nivcsw),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_up_in_the_usage() {
        let before = Usage::of_this_thread();
        // Ends at once where it has grown already.
        while Usage::of_this_thread().cpu() == before.cpu() {
            std::hint::spin_loop();
        }
        assert!(before.max_rss > 0);
        let mut sum = Usage::of_this_thread();
        let cpu = sum.cpu();
        sum.add(&before);
        assert_eq!(sum.cpu(), cpu + before.cpu());
    }
}
