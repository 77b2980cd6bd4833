//! The system calls that no crate wraps for masks of every size, one function each.
//!
//! References: `sched_setaffinity(2)`, `sched_setattr(2)`, `ioprio_set(2)`.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::time::Duration;

/// `sched_setaffinity(2)` with exactly these words of mask; 0 is the calling thread.
#[inline]
pub(crate) fn sched_setaffinity(tid: i32, mask: &[u64]) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of_val(mask)` bytes from a slice of that size.
    let result = unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid, size_of_val(mask), mask.as_ptr()) };
    check(result).map(drop)
}

/// `sched_getaffinity(2)`: the number of words that the kernel filled in; 0 is the calling thread.
///
/// Fails with `EINVAL` when the kernel's masks have more words than `mask`.
#[inline]
pub(crate) fn sched_getaffinity(tid: i32, mask: &mut [u64]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most `size_of_val(mask)` bytes to a slice of that size.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, size_of_val(mask), mask.as_mut_ptr()) };
    check(result).map(|bytes| bytes as usize / size_of::<u64>())
}

/// `sched_getcpu(3)`: the CPU that this thread was running on when it asked.
#[inline]
pub(crate) fn sched_getcpu() -> i32 {
    // SAFETY: it takes nothing and reads only the thread's own state.
    unsafe { libc::sched_getcpu() }
}

/// CPU time of the calling thread. From the C library: rustix looks the kernel's function up in the vdso, which valgrind
/// takes away, and falls.
pub(crate) fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes `time` and nothing else.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    debug_assert_eq!(result, 0, "every thread has this clock");
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Flags of [`SchedAttr`], from `linux/sched.h`; `libc` does not have them for Android.
pub(crate) mod sched_flag {
    /// Children start as `SCHED_OTHER`.
    pub(crate) const RESET_ON_FORK: u64 = 0x01;
    /// The policy stays as it is.
    pub(crate) const KEEP_POLICY: u64 = 0x08;
    /// Priority, nice and deadline stay as they are.
    pub(crate) const KEEP_PARAMS: u64 = 0x10;
    /// `util_min` is given.
    pub(crate) const UTIL_CLAMP_MIN: u64 = 0x20;
    /// `util_max` is given.
    pub(crate) const UTIL_CLAMP_MAX: u64 = 0x40;
}

/// What `sched_setattr(2)` takes and `sched_getattr(2)` gives: `struct sched_attr`, 56 bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SchedAttr {
    pub(crate) size: u32,
    pub(crate) policy: u32,
    pub(crate) flags: u64,
    pub(crate) nice: i32,
    pub(crate) priority: u32,
    pub(crate) runtime: u64,
    pub(crate) deadline: u64,
    pub(crate) period: u64,
    pub(crate) util_min: u32,
    pub(crate) util_max: u32,
}

/// The part of [`SchedAttr`] that every kernel with the call knows (before util clamps).
const SCHED_ATTR_SIZE_VER0: u32 = 48;

/// `sched_getattr(2)`; 0 is the calling thread.
#[inline]
pub(crate) fn sched_getattr(tid: i32) -> io::Result<SchedAttr> {
    let mut attr = SchedAttr::default();
    // SAFETY: the kernel writes at most the size that it is told, which is that of `attr`.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, size_of::<SchedAttr>() as u32, 0u32)
    };
    check(result).map(|_| attr)
}

/// `sched_setattr(2)`; 0 is the calling thread. `attr.size` is filled in here.
#[inline]
pub(crate) fn sched_setattr(tid: i32, attr: &SchedAttr) -> io::Result<()> {
    let clamps = attr.flags & (sched_flag::UTIL_CLAMP_MIN | sched_flag::UTIL_CLAMP_MAX);
    let size = if clamps == 0 { SCHED_ATTR_SIZE_VER0 } else { size_of::<SchedAttr>() as u32 };
    let attr = SchedAttr { size, ..*attr };
    // SAFETY: the kernel reads `attr.size` bytes, which is at most the size of `attr`.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attr, 0u32) };
    check(result).map(drop)
}

#[inline]
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// What [`ioprio_set`] and [`ioprio_get`] name: `IOPRIO_WHO_PROCESS`, which is one thread.
const IOPRIO_WHO_PROCESS: i32 = 1;

/// `ioprio_set(2)` of one thread; 0 is the calling thread.
pub(crate) fn ioprio_set(tid: i32, value: u32) -> io::Result<()> {
    // SAFETY: it takes three numbers.
    check(unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, tid, value) }).map(drop)
}

/// `ioprio_get(2)` of one thread; 0 is the calling thread.
pub(crate) fn ioprio_get(tid: i32) -> io::Result<u32> {
    // SAFETY: it takes two numbers.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, tid) };
    check(result).map(|value| value as u32)
}
