//! The mask of one thread: read it, set it, see what was granted.

use crate::allowed::Allowed;
use crate::cpuset::CpuSet;
use crate::denial::denial;
use crate::error::{Error, Result};
use crate::sys;
use crate::tid::Tid;
use std::io;

/// The CPUs that a thread may run on.
///
/// # Errors
///
/// [`Error::NoSuchThread`], or what the kernel says (a security module may refuse).
pub fn affinity(tid: Tid) -> Result<CpuSet> {
    read(tid.as_raw()).map_err(|source| match source.raw_os_error() {
        Some(libc::ESRCH) => Error::NoSuchThread(tid),
        _ => Error::ReadAffinity { tid, source },
    })
}

/// The CPUs that a thread may run on; 0 is the calling thread.
pub(crate) fn read(tid: i32) -> io::Result<CpuSet> {
    // 1024 CPUs serve nearly every kernel at the first try; the largest one has 8192.
    let mut words = vec![0; 16];
    loop {
        match sys::sched_getaffinity(tid, &mut words) {
            Ok(len) => {
                words.truncate(len);
                return Ok(CpuSet::from_words(words));
            }
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) && words.len() < 1024 => {
                words = vec![0; words.len() * 2];
            }
            Err(e) => return Err(e),
        }
    }
}

/// Lets a thread run on these CPUs only, and gives the mask that the kernel granted.
///
/// The kernel silently drops CPUs that are absent, offline or outside the thread's cpuset, as
/// long as one is left: compare what is returned with what was wanted.
///
/// # Errors
///
/// [`Error::NoSuchThread`]; [`Error::Affinity`] if none of the CPUs can be had, or if the thread
/// belongs to somebody else.
pub fn set_affinity(tid: Tid, wanted: &CpuSet) -> Result<CpuSet> {
    const ATTEMPTS: usize = 8;
    for _ in 0..ATTEMPTS {
        match sys::sched_setaffinity(tid.as_raw(), wanted.words()) {
            Ok(()) => {
                let granted = affinity(tid)?;
                // While the last of them goes offline the kernel still takes it, and no longer tells it.
                if granted.is_empty() {
                    return Err(refused(tid, wanted, io::Error::from_raw_os_error(libc::EINVAL)));
                }
                // The kernel only narrows: anything else was set by somebody between the two calls.
                if granted.is_subset(wanted) {
                    return Ok(granted);
                }
            }
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => return Err(Error::NoSuchThread(tid)),
            Err(source) => return Err(refused(tid, wanted, source)),
        }
    }
    let hint = "another program sets its mask at the same time".to_owned();
    Err(Error::Affinity {
        tid,
        wanted: wanted.clone(),
        hint,
        source: io::Error::from_raw_os_error(libc::EBUSY),
    })
}

fn refused(tid: Tid, wanted: &CpuSet, source: io::Error) -> Error {
    let hint = hint(tid, wanted, &source);
    Error::Affinity { tid, wanted: wanted.clone(), hint, source }
}

fn hint(tid: Tid, wanted: &CpuSet, source: &io::Error) -> String {
    match source.raw_os_error() {
        Some(libc::EPERM) => {
            "it belongs to another user; CAP_SYS_NICE (or being that user) is needed".to_owned()
        }
        Some(libc::EACCES) => denial(source).unwrap_or_default(),
        _ => Allowed::of(tid)
            .ok()
            .and_then(|allowed| allowed.objection(wanted))
            .unwrap_or_else(|| "none of them is online and allowed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_cpus_are_narrowed_away_and_that_is_returned() {
        std::thread::spawn(|| {
            let me = Tid::current();
            let one = affinity(me).unwrap().first().unwrap();
            let wanted = CpuSet::from_iter([one, 5000]);
            assert_eq!(set_affinity(me, &wanted).unwrap(), CpuSet::of(one));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn nothing_and_absent_cpus_are_refused_with_a_reason() {
        let me = Tid::current();
        let empty = set_affinity(me, &CpuSet::new()).unwrap_err().to_string();
        assert!(empty.contains("no CPU was named"), "{empty}");
        let absent = set_affinity(me, &CpuSet::of(5000)).unwrap_err().to_string();
        assert!(absent.contains("{5000}") && absent.contains("not online"), "{absent}");
    }

    #[test]
    fn an_ended_thread_is_said_to_be_gone() {
        let tid = crate::tid::ended();
        assert!(matches!(affinity(tid), Err(Error::NoSuchThread(gone)) if gone == tid));
        assert!(matches!(set_affinity(tid, &CpuSet::of(0)), Err(Error::NoSuchThread(_))));
    }
}
