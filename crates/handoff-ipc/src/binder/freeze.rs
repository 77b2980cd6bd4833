//! Freezing: a process whose calls are held back, so that it can be stopped without its peers hanging.

use std::path::Path;
use std::time::{Duration, Instant};

use super::driver::Driver;
use crate::{Error, Result};

/// How soon a process that has calls under way is tried again.
const RETRY: Duration = Duration::from_millis(5);
/// A longer one is taken for this.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Whether calls were under way.
fn is_busy(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.raw_os_error() == Some(libc::EAGAIN))
}

/// What reached a process since it was frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrozenInfo {
    /// Synchronous calls were refused ([`Error::Frozen`](crate::Error::Frozen)): thaw it, or end it, since the
    /// callers believe that it does not work.
    pub refused_calls: bool,
    /// Calls wait to be served: synchronous ones that arrived while it was being frozen (thaw it and try
    /// again later), or oneway calls that are held back.
    pub call_pending: bool,
    /// Oneway calls are held back until it is thawed.
    pub held_oneway: bool,
}

/// Freezes the calls of a process on every context of the driver behind `device`: synchronous calls to it fail at
/// once, oneway calls are held back. The process itself runs on, until somebody stops it.
///
/// # Errors
/// `EAGAIN` if calls that it serves or makes were not over within `timeout`; `EINVAL` if the process does not
/// use the driver, or the kernel cannot freeze.
pub fn freeze(device: &Path, pid: u32, timeout: Duration) -> Result<()> {
    let driver = Driver::open(device)?;
    let until = Instant::now() + timeout.min(LONGEST_TIMEOUT);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match driver.freeze(pid, true, u32::try_from(left.as_millis()).unwrap_or(u32::MAX)) {
            // The driver in Rust does not wait for calls that are being served, whatever it is told.
            Err(error) if is_busy(&error) && !left.is_zero() => std::thread::sleep(RETRY.min(left)),
            done => return done,
        }
    }
}

/// Thaws the calls of a process; those that were held back are delivered.
///
/// # Errors
/// `EINVAL` if the process does not use the driver.
pub fn thaw(device: &Path, pid: u32) -> Result<()> {
    Driver::open(device)?.freeze(pid, false, 0)
}

/// What reached a process since it was frozen.
///
/// # Errors
/// `EINVAL` if the process does not use the driver.
pub fn frozen_info(device: &Path, pid: u32) -> Result<FrozenInfo> {
    let (sync, oneway) = Driver::open(device)?.frozen_info(pid)?;
    Ok(FrozenInfo { refused_calls: sync & 1 != 0, call_pending: sync & 2 != 0, held_oneway: oneway & 1 != 0 })
}
