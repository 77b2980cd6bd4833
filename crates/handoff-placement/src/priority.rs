//! Policy, real-time priority and nice of a thread as one value that can be compared and sent.

use crate::denial::denial;
use crate::error::{Error, Result};
use crate::sys::{self, SchedAttr, sched_flag};
use crate::tid::Tid;
use std::fmt;
use std::io;
use std::str::FromStr;

/// A scheduling policy of `sched(7)`, with the kernel's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Policy {
    /// `SCHED_OTHER`: fair, weighted by nice.
    Other = 0,
    /// `SCHED_FIFO`: runs until it blocks or yields.
    Fifo = 1,
    /// `SCHED_RR`: as FIFO, in turns with its equals.
    RoundRobin = 2,
    /// `SCHED_BATCH`: as OTHER, without preempting others when it wakes.
    Batch = 3,
    /// `SCHED_IDLE`: what is left over.
    Idle = 5,
    /// `SCHED_DEADLINE`: a share of each period, before everything else.
    Deadline = 6,
    /// `SCHED_EXT`: placed by a BPF scheduler.
    Ext = 7,
}

impl Policy {
    /// The policy with the kernel's number.
    #[must_use]
    pub const fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            0 => Self::Other,
            1 => Self::Fifo,
            2 => Self::RoundRobin,
            3 => Self::Batch,
            5 => Self::Idle,
            6 => Self::Deadline,
            7 => Self::Ext,
            _ => return None,
        })
    }

    /// Is it FIFO or round-robin, so that a priority of 1 to 99 counts?
    #[must_use]
    pub const fn is_realtime(self) -> bool {
        matches!(self, Self::Fifo | Self::RoundRobin)
    }

    /// Does nice count? The kernel ignores the nice that is given with `SCHED_IDLE`.
    #[must_use]
    pub const fn has_nice(self) -> bool {
        matches!(self, Self::Other | Self::Batch | Self::Ext)
    }

    /// The word that [`Priority`] prints and reads.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Fifo => "fifo",
            Self::RoundRobin => "rr",
            Self::Batch => "batch",
            Self::Idle => "idle",
            Self::Deadline => "deadline",
            Self::Ext => "ext",
        }
    }
}

/// How urgently a thread is scheduled.
///
/// ```
/// # use handoff_placement::Priority;
/// let caller: Priority = "fifo:10".parse()?;
/// let server = Priority::other(-5);
/// assert!(caller.more_urgent_than(server));
/// assert_eq!(caller.max(server), caller);
/// assert_eq!(Priority::unpack(caller.pack()), Some(caller));
/// # Ok::<(), handoff_placement::PriorityParseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Priority {
    /// The scheduling policy.
    pub policy: Policy,
    /// The real-time priority: 1 (least) to 99 for FIFO and round-robin, otherwise 0.
    pub rt: u8,
    /// Nice: -20 (most urgent) to 19 where [`Policy::has_nice`], otherwise 0.
    pub nice: i8,
}

impl Priority {
    /// `SCHED_FIFO` at `rt`, brought into 1 to 99.
    #[must_use]
    pub const fn fifo(rt: u8) -> Self {
        Self { policy: Policy::Fifo, rt: clamp_rt(rt), nice: 0 }
    }

    /// `SCHED_RR` at `rt`, brought into 1 to 99.
    #[must_use]
    pub const fn round_robin(rt: u8) -> Self {
        Self { policy: Policy::RoundRobin, rt: clamp_rt(rt), nice: 0 }
    }

    /// `SCHED_OTHER` at `nice`, brought into -20 to 19.
    #[must_use]
    pub const fn other(nice: i8) -> Self {
        let nice = match nice {
            ..-20 => -20,
            20.. => 19,
            nice => nice,
        };
        Self { policy: Policy::Other, rt: 0, nice }
    }

    /// `SCHED_IDLE`.
    #[must_use]
    pub const fn idle() -> Self {
        Self { policy: Policy::Idle, rt: 0, nice: 0 }
    }

    /// Are the numbers in the range of the policy?
    #[must_use]
    pub const fn is_valid(self) -> bool {
        let rt = if self.policy.is_realtime() { matches!(self.rt, 1..=99) } else { self.rt == 0 };
        let nice = if self.policy.has_nice() { matches!(self.nice, -20..=19) } else { self.nice == 0 };
        rt && nice
    }

    /// The priority of a thread; one system call.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchThread`], or [`Error::ReadPriority`] with what the kernel says.
    #[inline]
    pub fn of(tid: Tid) -> Result<Self> {
        Self::read(tid.as_raw()).map_err(|source| match source.raw_os_error() {
            Some(libc::ESRCH) => Error::NoSuchThread(tid),
            _ => Error::ReadPriority { tid, source },
        })
    }

    /// The priority of the calling thread; one system call.
    ///
    /// # Errors
    ///
    /// [`Error::ReadPriority`], where a sandbox forbids the question.
    #[inline]
    pub fn current() -> Result<Self> {
        Self::read(0).map_err(|source| Error::ReadPriority { tid: Tid::current(), source })
    }

    #[inline]
    fn read(tid: i32) -> io::Result<Self> {
        let attr = sys::sched_getattr(tid)?;
        Self::from_attributes(&attr)
            .ok_or_else(|| io::Error::other(format!("policy {} is newer than this program", attr.policy)))
    }

    /// The kernel reports each number only where it counts.
    #[inline]
    pub(crate) fn from_attributes(attr: &SchedAttr) -> Option<Self> {
        let policy = Policy::from_raw(attr.policy)?;
        let rt = if policy.is_realtime() { attr.priority.min(99) as u8 } else { 0 };
        let nice = if policy.has_nice() { attr.nice.clamp(-20, 19) as i8 } else { 0 };
        Some(Self { policy, rt, nice })
    }

    /// Gives the thread this priority; one system call.
    ///
    /// Children inherit it. A thread with `SCHED_RESET_ON_FORK` keeps that only where clearing it
    /// needs a privilege that the caller lacks.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchThread`], or [`Error::Priority`] when the kernel refuses, with what would
    /// help. A deadline needs three times and cannot be given this way.
    pub fn apply(self, tid: Tid) -> Result<()> {
        self.write(tid.as_raw()).map_err(|source| match source.raw_os_error() {
            Some(libc::ESRCH) => Error::NoSuchThread(tid),
            _ => Error::Priority { tid, wanted: self, hint: self.hint(&source), source },
        })
    }

    fn write(self, tid: i32) -> io::Result<()> {
        if !self.is_valid() || self.policy == Policy::Deadline {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let attr = SchedAttr {
            policy: self.policy as u32,
            nice: self.nice.into(),
            priority: self.rt.into(),
            ..SchedAttr::default()
        };
        match sys::sched_setattr(tid, &attr) {
            // Without privilege the flag cannot be cleared, but the rest may well be allowed.
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
                let kept = sys::sched_getattr(tid)?.flags & RESET_ON_FORK;
                if kept == 0 { Err(e) } else { sys::sched_setattr(tid, &SchedAttr { flags: kept, ..attr }) }
            }
            result => result,
        }
    }

    fn hint(self, source: &io::Error) -> String {
        if self.policy == Policy::Deadline {
            return "a deadline needs a runtime, a deadline and a period".to_owned();
        }
        match source.raw_os_error() {
            Some(libc::EPERM) if self.policy.is_realtime() => format!(
                "it needs CAP_SYS_NICE or RLIMIT_RTPRIO of at least {} (`ulimit -r`), and with cgroup v1 \
                 a group that has a share of real time (cpu.rt_runtime_us)",
                self.rt
            ),
            Some(libc::EPERM) => format!(
                "it needs CAP_SYS_NICE or RLIMIT_NICE of at least {} (`ulimit -e`), or the thread \
                 belongs to another user",
                20 - i32::from(self.nice)
            ),
            Some(libc::EINVAL) => "the kernel does not know this policy or priority".to_owned(),
            _ => denial(source).unwrap_or_else(|| "the kernel refused".to_owned()),
        }
    }

    /// This value in 32 bits, for a message. [`Priority::unpack`] reads it.
    #[must_use]
    pub const fn pack(self) -> u32 {
        u32::from_le_bytes([self.policy as u8, self.rt, self.nice as u8, PACKED])
    }

    /// What [`Priority::pack`] wrote; `None` for anything that it could not have written, so that
    /// a number from a hostile peer is checked before it is believed.
    #[must_use]
    pub const fn unpack(bits: u32) -> Option<Self> {
        let [policy, rt, nice, mark] = bits.to_le_bytes();
        if mark != PACKED {
            return None;
        }
        match Policy::from_raw(policy as u32) {
            Some(policy) => {
                let priority = Self { policy, rt, nice: nice as i8 };
                if priority.is_valid() { Some(priority) } else { None }
            }
            None => None,
        }
    }

    /// Would the scheduler run this before the other? Equals are not more urgent.
    ///
    /// Deadline, then FIFO and round-robin by priority, then the fair policies by nice, then idle.
    #[must_use]
    #[inline]
    pub const fn more_urgent_than(self, other: Self) -> bool {
        self.urgency() > other.urgency()
    }

    /// The more urgent of the two; this one of equals.
    #[must_use]
    #[inline]
    pub const fn max(self, other: Self) -> Self {
        if other.more_urgent_than(self) { other } else { self }
    }

    /// Orders priorities as the scheduler does.
    const fn urgency(self) -> u16 {
        match self.policy {
            Policy::Deadline => 1000,
            Policy::Fifo | Policy::RoundRobin => 100 + self.rt as u16,
            Policy::Other | Policy::Batch | Policy::Ext => (20 - self.nice as i16) as u16,
            Policy::Idle => 0,
        }
    }
}

/// `SCHED_FLAG_RESET_ON_FORK`.
const RESET_ON_FORK: u64 = sched_flag::RESET_ON_FORK;

/// Marks a packed priority, so that 0 is none.
const PACKED: u8 = 1;

const fn clamp_rt(rt: u8) -> u8 {
    match rt {
        0 => 1,
        100.. => 99,
        rt => rt,
    }
}

/// `fifo:10`, `rr:1`, `other`, `other:-5`, `batch:3`, `idle`, `deadline`.
impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.policy.name())?;
        match self.policy {
            Policy::Fifo | Policy::RoundRobin => write!(f, ":{}", self.rt),
            _ if self.nice != 0 => write!(f, ":{}", self.nice),
            _ => Ok(()),
        }
    }
}

/// A priority could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a priority: write `fifo:1` to `fifo:99`, `rr:1` to `rr:99`, `other` or `batch` with a \
     nice of -20 to 19 after a colon if wanted (`other:-5`), or `idle`"
)]
pub struct PriorityParseError(String);

/// What [`Display`](fmt::Display) prints.
impl FromStr for Priority {
    type Err = PriorityParseError;

    fn from_str(text: &str) -> std::result::Result<Self, PriorityParseError> {
        let error = || PriorityParseError(text.chars().filter(|c| !c.is_control()).take(40).collect());
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number.parse::<i8>().map_err(|_| error())?)),
            None => (text, None),
        };
        let policy =
            (0..8).filter_map(Policy::from_raw).find(|policy| policy.name() == name).ok_or_else(error)?;
        let number = match (number, policy.is_realtime()) {
            (Some(number), _) => number,
            (None, false) => 0,
            (None, true) => return Err(error()),
        };
        let priority = if policy.is_realtime() {
            Self { policy, rt: u8::try_from(number).map_err(|_| error())?, nice: 0 }
        } else {
            Self { policy, rt: 0, nice: number }
        };
        if priority.is_valid() { Ok(priority) } else { Err(error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_realtime, require_root};
    use proptest::prelude::*;

    #[test]
    fn urgency_is_the_order_of_the_scheduler() {
        let ascending = [
            Priority::idle(),
            Priority::other(19),
            Priority::other(0),
            Priority::other(-20),
            Priority::fifo(1),
            Priority::round_robin(50),
            Priority::fifo(99),
            Priority { policy: Policy::Deadline, rt: 0, nice: 0 },
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(a.more_urgent_than(*b), i > j, "{a} against {b}");
                assert_eq!(a.max(*b), ascending[i.max(j)]);
            }
        }
        assert_eq!(
            Priority::fifo(7).max(Priority::round_robin(7)),
            Priority::fifo(7),
            "equals keep the first"
        );
    }

    #[test]
    fn text_is_read_as_printed() {
        for text in ["fifo:10", "rr:1", "other", "other:-5", "batch:3", "idle", "deadline"] {
            assert_eq!(text.parse::<Priority>().expect(text).to_string(), text);
        }
        for text in [
            "fifo",
            "fifo:0",
            "fifo:100",
            "fifo:-1",
            "other:20",
            "other:-21",
            "nice",
            "",
            "rr:",
            "deadline:1",
        ] {
            let error = text.parse::<Priority>().expect_err(text).to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn constructors_stay_in_range() {
        for n in 0..=u8::MAX {
            assert!(Priority::fifo(n).is_valid() && Priority::round_robin(n).is_valid());
            assert!(Priority::other(n as i8).is_valid());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn only_what_was_packed_is_unpacked(bits in any::<u32>(), low in 0u32..0x0200_0000) {
            for bits in [bits, low] {
                if let Some(priority) = Priority::unpack(bits) {
                    prop_assert!(priority.is_valid());
                    prop_assert_eq!(priority.pack(), bits);
                }
            }
        }

        #[test]
        fn packing_is_undone(rt in 1u8..=99, nice in -20i8..=19) {
            for priority in [Priority::fifo(rt), Priority::round_robin(rt), Priority::other(nice), Priority::idle()] {
                prop_assert_eq!(Priority::unpack(priority.pack()), Some(priority));
            }
        }
    }

    #[test]
    fn nothing_is_not_a_priority() {
        assert_eq!(Priority::unpack(0), None);
    }

    #[test]
    fn a_thread_takes_a_priority_and_gives_it_back() {
        require!(require_root());
        require!(require_realtime());
        std::thread::spawn(|| {
            let me = Tid::current();
            for wanted in [Priority::fifo(3), Priority::round_robin(2), Priority::other(-7), Priority::idle()]
            {
                wanted.apply(me).unwrap();
                assert_eq!(Priority::of(me).unwrap(), wanted);
                assert_eq!(Priority::current().unwrap(), wanted);
            }
            let error = Priority { policy: Policy::Deadline, rt: 0, nice: 0 }.apply(me).unwrap_err();
            assert!(error.to_string().contains("needs a runtime"), "{error}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_ended_thread_is_said_to_be_gone() {
        let tid = crate::tid::ended();
        assert!(matches!(Priority::of(tid), Err(Error::NoSuchThread(_))));
        assert!(matches!(Priority::other(0).apply(tid), Err(Error::NoSuchThread(_))));
    }
}
