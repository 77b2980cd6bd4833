//! The one thing that targets differ in: how a script gets there, and its output back.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use handoff_guest::Guest;
pub use handoff_guest::Stream;

use crate::address::Address;
use crate::error::Result;

/// Takes pieces of output as they come.
pub type Sink<'a> = dyn FnMut(Stream, &[u8]) + 'a;

/// A machine with a POSIX shell.
pub trait Target {
    fn address(&self) -> Address;

    /// Runs a script of `sh` there, with `input` (or nothing) as its standard input, and gives its exit
    /// status (128 and the signal if one ended it).
    ///
    /// # Errors
    ///
    /// [`crate::TargetError::Unreachable`], [`crate::TargetError::HostKey`] and
    /// [`crate::TargetError::Refused`] if it did not begin, [`crate::TargetError::Lost`] if it is not
    /// known how it ended, [`crate::TargetError::Deadline`] if it took longer than `limit`.
    fn shell(
        &mut self,
        script: &str,
        input: Option<&mut File>,
        limit: Option<Duration>,
        sink: &mut Sink<'_>,
    ) -> Result<i32>;

    /// Where it has a program of ours already, with all that this needs; none if it has to be pushed.
    fn has(&self, program: &Path) -> Option<String> {
        let _ = program;
        None
    }

    /// A folder there for programs that was named, instead of one in the user's home. It must be the user's alone.
    fn folder(&self) -> Option<String> {
        None
    }

    /// The guest that it is, booted if need be; none if it is another kind of machine.
    fn guest(&mut self) -> Option<Result<&mut Guest>> {
        None
    }

    /// Ends the guest that it is: whatever comes next runs in a new boot. Other machines stay as they are.
    fn end_boot(&mut self) {}

    /// What the machine's kernel has reported since this was last asked, as far as its console is heard: warnings,
    /// lock-ups.
    fn incidents(&mut self) -> Vec<String> {
        Vec::new()
    }
}
