//! What a driver is to the suite: the kernel's, or one with a fault.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Message;

/// What one `BINDER_WRITE_READ` came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// 0, or why the driver refused.
    pub errno: i32,
    /// Bytes of commands that it consumed.
    pub written: u64,
    /// What it returned.
    pub read: Vec<u8>,
}

/// A descriptor of a process, as far as the suite looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The file's number.
    pub inode: u64,
    /// Whether a program that is executed does not get it.
    pub closes_on_exec: bool,
}

/// One opening of a driver. For the driver each opening is a process of its own, so that one process can play several.
///
/// Numbers of errors are 0 where there is none.
pub trait Process: Send + Sync {
    /// `BINDER_WRITE_READ` with room for so many bytes of returns.
    fn exchange(&self, message: &Message, room: usize) -> Exchange;
    /// Any request, with its argument in memory that can be read and written.
    fn ioctl(&self, request: u32, argument: &mut [u8]) -> i32;
    /// Any request, with any address as its argument.
    fn ioctl_at(&self, request: u32, address: u64) -> i32;
    /// `mmap` of so many bytes.
    fn map(&self, length: usize, is_writable: bool) -> i32;
    /// `munmap` of what `map` made.
    fn unmap(&self);
    /// `mprotect` of the mapping, so that it could be written to.
    fn make_writable(&self) -> i32;
    /// Where the mapping starts; 0 if there is none.
    fn mapping(&self) -> u64;
    /// Memory of the process; `None` where there is none.
    fn memory(&self, address: u64, length: usize) -> Option<Vec<u8>>;
    /// Whether `poll` says that there is something to read.
    fn is_readable(&self) -> bool;
    /// A descriptor of the process.
    fn file(&self, fd: i32) -> Option<FileIdentity>;
    /// Opens a file that the suite knows the identity of.
    fn open_file(&self) -> Option<i32>;
    /// The same opening, used by another process that inherited it.
    fn inherited(&self) -> Result<Box<dyn Process>, String>;
    /// Begins an exchange that may block: only of a peer's openings.
    fn start_exchange(&self, message: &Message, room: usize);
    /// What it came to, if it ends in time.
    fn finish_exchange(&self, timeout: Duration) -> Option<Exchange>;
}

/// A process of its own that opens the driver when it is told to.
pub trait Peer {
    /// Its number.
    fn pid(&self) -> u32;
    /// Opens the driver there. The error is a number.
    fn open(&self, context: usize, blocks: bool) -> Result<Box<dyn Process>, i32>;
    /// Sets its nice value.
    fn set_nice(&self, nice: i32) -> i32;
    /// Its nice value.
    fn nice(&self) -> i32;
    /// Kills it, whatever it is doing.
    fn kill(&mut self);
}

/// A driver under test.
pub trait Device: Sync {
    /// Opens the driver of a context; reads do not block. The error is a number.
    fn open(&self, context: usize) -> Result<Box<dyn Process>, i32>;
    /// Contexts that can be opened.
    fn contexts(&self) -> usize;
    /// Starts a process.
    fn start_peer(&self) -> Result<Box<dyn Peer>, String>;
    /// The number of this process.
    fn pid(&self) -> u32;
    /// The effective user of this process.
    fn euid(&self) -> u32;
    /// Whether the kernel has a module that gives processes security contexts that a driver can ask for.
    fn has_security_contexts(&self) -> bool;
}
