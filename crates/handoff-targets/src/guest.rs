//! A QEMU guest with the distribution's kernel, booted for the session.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use handoff_guest::{Guest, GuestCommand, GuestError, Stream as From};

use crate::address::Address;
use crate::error::{Result, TargetError};
use crate::target::{Sink, Stream, Target};

/// Enough for the tools and the workloads.
const MEMORY_MIB: u32 = 1024;

/// Where this program is in the guest, with the libraries that it needs.
const OWN: &str = "/bin/handoff";

/// A guest with this program in it.
pub(crate) struct InGuest {
    /// None after it has ended: it is booted anew for whatever comes next.
    guest: Option<Guest>,
    own: Option<PathBuf>,
}

impl InGuest {
    /// Boots it.
    pub(crate) fn boot() -> Result<Self> {
        let own = std::env::current_exe().ok();
        let mut machine = InGuest { guest: None, own };
        machine.guest()?;
        Ok(machine)
    }

    fn guest(&mut self) -> Result<&mut Guest> {
        let guest = match self.guest.take() {
            Some(guest) => guest,
            None => {
                let builder = Guest::builder().memory_mib(MEMORY_MIB);
                self.own.iter().fold(builder, |builder, own| builder.program(own, OWN)).boot()?
            }
        };
        Ok(self.guest.insert(guest))
    }
}

impl Target for InGuest {
    fn address(&self) -> Address {
        Address::Guest
    }

    fn shell(
        &mut self,
        script: &str,
        input: Option<&mut File>,
        limit: Option<Duration>,
        sink: &mut Sink<'_>,
    ) -> Result<i32> {
        let mut command = GuestCommand::shell(script);
        if let Some(file) = input {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)
                .map_err(|error| TargetError::io("read what is to be sent", error))?;
            command = command.stdin(bytes);
        }
        // The guest's own limit is one of minutes.
        command = command.timeout(limit.unwrap_or(Duration::from_secs(24 * 3600)));
        let done = self.guest()?.run_streaming(&command, &mut |stream, bytes| match stream {
            From::Stdout => sink(Stream::Out, bytes),
            From::Stderr => sink(Stream::Err, bytes),
        });
        match (done, limit) {
            (Err(GuestError::CommandTimeout { .. }), Some(limit)) => {
                Err(TargetError::Deadline { target: self.address().to_string(), limit })
            }
            // It rebooted, crashed or hangs: with a guest that is new, what ran there is gone as on any machine.
            (Err(error @ (GuestError::Gone { .. } | GuestError::Panic(_) | GuestError::Hang { .. })), _) => {
                self.guest = None;
                Err(TargetError::Lost { target: self.address().to_string(), why: error.to_string() })
            }
            (done, _) => Ok(done?.status),
        }
    }

    fn has(&self, program: &Path) -> Option<String> {
        (self.own.as_deref() == Some(program)).then(|| OWN.to_owned())
    }
}
