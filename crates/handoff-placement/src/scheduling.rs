//! Everything else that decides when a thread runs: deadline, util clamp, reset on fork, I/O
//! priority, and whether a real-time thread could lock the machine.

use crate::denial::denial;
use crate::error::{Error, Result};
use crate::priority::{Policy, Priority};
use crate::root::Root;
use crate::sys::{self, SchedAttr, sched_flag};
use crate::tid::Tid;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

/// A reservation of `SCHED_DEADLINE`: `runtime` of each `period`, before `deadline` of it has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// Time on a CPU in each period.
    pub runtime: Duration,
    /// By when, counted from the start of the period.
    pub deadline: Duration,
    /// The period.
    pub period: Duration,
}

/// Scheduling attributes to give to a thread; what is `None` stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// Policy, real-time priority and nice.
    pub priority: Option<Priority>,
    /// A deadline reservation; instead of a priority.
    pub deadline: Option<Deadline>,
    /// The least capacity that the thread is placed and clocked for, 0 to 1024.
    pub util_min: Option<u32>,
    /// The most capacity that the thread is placed and clocked for, 0 to 1024.
    pub util_max: Option<u32>,
    /// Do its children start as `SCHED_OTHER` at nice 0?
    pub reset_on_fork: bool,
}

impl Scheduling {
    /// Does it ask for nothing?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Gives a thread these attributes with `sched_setattr(2)`.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchThread`]; [`Error::Scheduling`] with what would help, also where the kernel has
    /// no util clamp.
    pub fn apply(&self, tid: Tid) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let fail = |hint: String, source: io::Error| Error::Scheduling { tid, hint, source };
        let invalid = |hint: &str| fail(hint.to_owned(), io::Error::from_raw_os_error(libc::EINVAL));
        let mut attr = self.attributes().map_err(invalid)?;
        if self.util_min.is_some() || self.util_max.is_some() {
            // The first only asks whether the kernel can; the policy stays as it is.
            sys::sched_setattr(tid.as_raw(), &SchedAttr { flags: attr.flags | KEEP_ALL, ..attr }).map_err(
                |e| match e.raw_os_error() {
                    Some(libc::ESRCH) => Error::NoSuchThread(tid),
                    Some(libc::EOPNOTSUPP) => {
                        fail("this kernel has no util clamp (CONFIG_UCLAMP_TASK)".to_owned(), e)
                    }
                    _ => fail("the kernel did not take the util clamp".to_owned(), e),
                },
            )?;
            attr.flags &= !CLAMPS;
        }
        match (self.deadline, self.priority) {
            (Some(_), _) => sys::sched_setattr(tid.as_raw(), &attr).map_err(|e| match e.raw_os_error() {
                Some(libc::ESRCH) => Error::NoSuchThread(tid),
                Some(libc::EBUSY) => fail(
                    "the CPUs have not that much to reserve; ask for less runtime or stop others".to_owned(),
                    e,
                ),
                Some(libc::EPERM) => fail(
                    "a deadline needs CAP_SYS_NICE and an affinity to all CPUs of its root domain".to_owned(),
                    e,
                ),
                Some(libc::EACCES) => fail(denial(&e).unwrap_or_default(), e),
                _ => fail("runtime <= deadline <= period must hold, each at least 1024 ns".to_owned(), e),
            }),
            (None, Some(priority)) if !self.reset_on_fork => priority.apply(tid),
            (None, _) if self.reset_on_fork => {
                let former = sys::sched_getattr(tid.as_raw());
                let attr = match (self.priority, former) {
                    (Some(_), _) | (_, Err(_)) => attr,
                    (None, Ok(former)) => SchedAttr { flags: former.flags | attr.flags, ..former },
                };
                sys::sched_setattr(tid.as_raw(), &attr).map_err(|e| match e.raw_os_error() {
                    Some(libc::ESRCH) => Error::NoSuchThread(tid),
                    _ => fail(denial(&e).unwrap_or_else(|| "the kernel refused".to_owned()), e),
                })
            }
            (None, _) => Ok(()),
        }
    }

    fn attributes(&self) -> std::result::Result<SchedAttr, &'static str> {
        let mut attr = SchedAttr::default();
        if let Some(priority) = self.priority {
            if self.deadline.is_some() {
                return Err("a deadline and a priority exclude each other");
            }
            attr.policy = priority.policy as u32;
            attr.priority = priority.rt.into();
            attr.nice = priority.nice.into();
        }
        if let Some(deadline) = self.deadline {
            let nanos = |time: Duration| u64::try_from(time.as_nanos()).map_err(|_| "a time is too long");
            attr.policy = Policy::Deadline as u32;
            attr.runtime = nanos(deadline.runtime)?;
            attr.deadline = nanos(deadline.deadline)?;
            attr.period = nanos(deadline.period)?;
        }
        for (value, flag) in [(self.util_min, CLAMP_MIN), (self.util_max, CLAMP_MAX)] {
            if value.is_some() {
                attr.flags |= flag;
            }
        }
        (attr.util_min, attr.util_max) = (self.util_min.unwrap_or(0), self.util_max.unwrap_or(1024));
        if attr.util_min > attr.util_max || attr.util_max > 1024 {
            return Err("util clamps must be from 0 to 1024, and the minimum not above the maximum");
        }
        if self.reset_on_fork {
            attr.flags |= sched_flag::RESET_ON_FORK;
        }
        Ok(attr)
    }
}

const CLAMP_MIN: u64 = sched_flag::UTIL_CLAMP_MIN;
const CLAMP_MAX: u64 = sched_flag::UTIL_CLAMP_MAX;
const CLAMPS: u64 = CLAMP_MIN | CLAMP_MAX;
const KEEP_ALL: u64 = sched_flag::KEEP_POLICY | sched_flag::KEEP_PARAMS;

impl FromStr for Deadline {
    type Err = String;

    /// `runtime/deadline/period`, or `runtime/period`, in microseconds: `2000/10000`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a deadline: write runtime/period or runtime/deadline/period in microseconds, such as 2000/10000"
            )
        };
        let times: Vec<Duration> = text
            .split('/')
            .map(|part| part.parse().map(Duration::from_micros).map_err(|_| wrong()))
            .collect::<std::result::Result<_, _>>()?;
        let deadline = match times[..] {
            [runtime, period] => Self { runtime, deadline: period, period },
            [runtime, deadline, period] => Self { runtime, deadline, period },
            _ => return Err(wrong()),
        };
        let ordered = deadline.runtime <= deadline.deadline && deadline.deadline <= deadline.period;
        if ordered && !deadline.runtime.is_zero() { Ok(deadline) } else { Err(wrong()) }
    }
}

/// How urgently a thread's disk I/O is served (`ioprio_set(2)`), by schedulers that heed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IoPriority {
    /// Follows nice.
    Default,
    /// Before all others; 0 is the most urgent of 8.
    RealTime(u8),
    /// Fair; 0 is the most urgent of 8.
    BestEffort(u8),
    /// When nobody else wants the disk.
    Idle,
}

impl IoPriority {
    /// Of a thread.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchThread`], or what the kernel says.
    pub fn of(tid: Tid) -> Result<Self> {
        let value = sys::ioprio_get(tid.as_raw()).map_err(|e| Self::error(tid, e))?;
        let level = (value & 7) as u8;
        Ok(match value >> 13 {
            1 => Self::RealTime(level),
            2 => Self::BestEffort(level),
            3 => Self::Idle,
            _ => Self::Default,
        })
    }

    /// Gives it to a thread.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchThread`], or what the kernel says: real time needs CAP_SYS_ADMIN or CAP_SYS_NICE.
    pub fn apply(self, tid: Tid) -> Result<()> {
        let value = match self {
            Self::Default => 0,
            Self::RealTime(level) => 1 << 13 | u32::from(level.min(7)),
            Self::BestEffort(level) => 2 << 13 | u32::from(level.min(7)),
            Self::Idle => 3 << 13,
        };
        sys::ioprio_set(tid.as_raw(), value).map_err(|e| Self::error(tid, e))
    }

    fn error(tid: Tid, source: io::Error) -> Error {
        match source.raw_os_error() {
            Some(libc::ESRCH) => Error::NoSuchThread(tid),
            _ => Error::Scheduling { tid, hint: "the kernel refused the I/O priority".to_owned(), source },
        }
    }
}

impl fmt::Display for IoPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("none"),
            Self::RealTime(level) => write!(f, "rt:{level}"),
            Self::BestEffort(level) => write!(f, "be:{level}"),
            Self::Idle => f.write_str("idle"),
        }
    }
}

impl FromStr for IoPriority {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let level = |text: &str| text.parse().ok().filter(|level| *level < 8);
        let found = match text.split_once(':') {
            None if text == "none" => Some(Self::Default),
            None if text == "idle" => Some(Self::Idle),
            None if text == "be" => Some(Self::BestEffort(4)),
            Some(("rt", number)) => level(number).map(Self::RealTime),
            Some(("be", number)) => level(number).map(Self::BestEffort),
            _ => None,
        };
        found.ok_or_else(|| {
            format!("`{text}` is not an I/O priority: write rt:0 to rt:7, be:0 to be:7, idle or none")
        })
    }
}

/// Why a real-time thread could lock this machine; `None` if the kernel keeps some time for others.
///
/// Without throttling (`kernel.sched_rt_runtime_us` is -1 or the whole period), a FIFO thread that
/// loops keeps its CPU for ever, with everything that the kernel must do there.
#[must_use]
pub fn rt_hazard(root: &Root) -> Option<String> {
    let number = |name: &str| root.number::<i64>(format!("/proc/sys/kernel/sched_rt_{name}_us"));
    // Without the file, as in some sandboxes, nothing is known, and so nothing is promised.
    let (Some(runtime), period) = (number("runtime"), number("period").unwrap_or(1_000_000)) else {
        return Some(
            "whether real-time throttling is on cannot be told (no kernel.sched_rt_runtime_us)".to_owned(),
        );
    };
    (runtime < 0 || runtime >= period).then(|| {
        format!(
            "real-time throttling is off (kernel.sched_rt_runtime_us = {runtime} of {period}): a FIFO or \
             round-robin thread that loops would keep its CPU for ever"
        )
    })
}

/// Has the kernel ever throttled real-time threads since boot? It says so once, in its log.
///
/// `None` if the log may not be read.
#[must_use]
pub fn rt_was_throttled() -> Option<bool> {
    use rustix::fs::{Mode, OFlags, open};
    let log = open("/dev/kmsg", OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut record = [0u8; 8192];
    loop {
        match rustix::io::read(&log, &mut record) {
            Ok(0) | Err(rustix::io::Errno::AGAIN) => return Some(false),
            Ok(length) if String::from_utf8_lossy(&record[..length]).contains("RT throttling activated") => {
                return Some(true);
            }
            // A record that was overwritten while we read (EPIPE) is passed over.
            Ok(_) | Err(rustix::io::Errno::PIPE | rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_root};
    use std::fs;

    #[test]
    fn deadlines_are_read() {
        let deadline: Deadline = "2000/10000".parse().unwrap();
        assert_eq!(deadline.deadline, Duration::from_millis(10));
        assert_eq!("1/2/3".parse::<Deadline>().unwrap().deadline, Duration::from_micros(2));
        for text in ["", "1", "0/1", "3/2", "1/3/2", "1/2/3/4", "a/b", "-1/2", "99999999999999999999/1"] {
            assert!(text.parse::<Deadline>().unwrap_err().contains("runtime/period"), "{text}");
        }
    }

    #[test]
    fn io_priorities_are_given_and_read_back() {
        std::thread::spawn(|| {
            let me = Tid::current();
            for text in ["be:6", "idle", "none"] {
                let wanted: IoPriority = text.parse().unwrap();
                wanted.apply(me).unwrap();
                assert_eq!(wanted.to_string(), text);
                let found = IoPriority::of(me).unwrap();
                // A thread without one of its own may be told the one that follows from its nice.
                assert!(found == wanted || wanted == IoPriority::Default, "{found}");
            }
        })
        .join()
        .unwrap();
        for text in ["", "rt", "rt:8", "be:-1", "fast"] {
            assert!(text.parse::<IoPriority>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_thread_takes_a_deadline() {
        require!(require_root());
        std::thread::spawn(|| {
            let me = Tid::current();
            let deadline = Some("1000/100000".parse().unwrap());
            let wanted = Scheduling { deadline, ..Scheduling::default() };
            match wanted.apply(me) {
                Ok(()) => assert_eq!(Priority::of(me).unwrap().policy, Policy::Deadline),
                Err(error) => assert!(
                    error.to_string().contains("deadline") || error.to_string().contains("reserve"),
                    "{error}"
                ),
            }
            let both = Scheduling { priority: Some(Priority::fifo(1)), ..wanted };
            assert!(both.apply(me).unwrap_err().to_string().contains("exclude"));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_kernel_without_util_clamp_says_so_and_changes_nothing() {
        std::thread::spawn(|| {
            let before = Priority::current().unwrap();
            let wanted = Scheduling {
                util_min: Some(100),
                priority: Some(Priority::other(5)),
                ..Scheduling::default()
            };
            match wanted.apply(Tid::current()) {
                Ok(()) => assert_eq!(Priority::current().unwrap(), Priority::other(15)),
                Err(error) => {
                    assert!(error.to_string().contains("util clamp"), "{error}");
                    assert_eq!(Priority::current().unwrap(), before);
                }
            }
            let wrong = Scheduling { util_min: Some(900), util_max: Some(100), ..Scheduling::default() };
            assert!(wrong.apply(Tid::current()).unwrap_err().to_string().contains("0 to 1024"));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn children_of_a_reset_thread_start_plain() {
        std::thread::spawn(|| {
            let wanted = Scheduling {
                priority: Some(Priority::other(7)),
                reset_on_fork: true,
                ..Scheduling::default()
            };
            wanted.apply(Tid::current()).unwrap();
            assert_eq!(Priority::current().unwrap(), Priority::other(7));
            let child = std::thread::spawn(|| Priority::current().unwrap()).join().unwrap();
            // A nice above 0 is kept by the kernel: reset means not more urgent than nice 0.
            assert!(!child.more_urgent_than(Priority::other(0)), "{child}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn throttling_decides_the_hazard() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(rt_hazard(&root).unwrap().contains("cannot be told"));
        fs::create_dir_all(root.path("/proc/sys/kernel")).unwrap();
        let set =
            |runtime: &str| fs::write(root.path("/proc/sys/kernel/sched_rt_runtime_us"), runtime).unwrap();
        set("950000\n");
        assert_eq!(rt_hazard(&root), None);
        for off in ["-1", "1000000"] {
            set(off);
            assert!(rt_hazard(&root).unwrap().contains("throttling is off"), "{off}");
        }
    }
}
