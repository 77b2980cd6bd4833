//! A QEMU guest, booted for the session.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use handoff_guest::{Guest, GuestCommand, GuestError, GuestSpec};

use crate::address::Address;
use crate::error::{Result, TargetError};
use crate::target::{Sink, Target};

/// Where the program is in a guest, with the libraries that it needs.
pub const GUEST_PROGRAM: &str = "/bin/handoff";

/// Boots a guest that has the program as [`GUEST_PROGRAM`].
pub type Boot = dyn FnMut() -> Result<Guest> + Send;

/// A guest with this program in it.
pub(crate) struct GuestTarget {
    boot: Box<Boot>,
    program: PathBuf,
    /// None after it has ended: it is booted anew for whatever comes next.
    guest: Option<Guest>,
    incidents: Vec<String>,
}

impl GuestTarget {
    /// The distribution's kernel with this very program.
    pub(crate) fn usual() -> Result<Self> {
        let own =
            std::env::current_exe().map_err(|error| TargetError::io("tell which program this is", error))?;
        let program = own.clone();
        let boot = move || Ok(GuestSpec::default().builder().program(&own, GUEST_PROGRAM).boot()?);
        Ok(Self::booted_by(Box::new(boot), program))
    }

    pub(crate) fn booted_by(boot: Box<Boot>, program: PathBuf) -> Self {
        GuestTarget { boot, program, guest: None, incidents: Vec::new() }
    }

    fn booted(&mut self) -> Result<&mut Guest> {
        let guest = match self.guest.take() {
            Some(guest) => guest,
            None => (self.boot)()?,
        };
        Ok(self.guest.insert(guest))
    }
}

impl Target for GuestTarget {
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
        let done = self.booted()?.run_streaming(&command, sink);
        match (done, limit) {
            (Err(GuestError::CommandTimeout { .. }), Some(limit)) => {
                Err(TargetError::Deadline { target: self.address().to_string(), limit })
            }
            // It rebooted, crashed or hangs: with a guest that is new, what ran there is gone as on any machine.
            (Err(error @ (GuestError::Gone { .. } | GuestError::Panic(_) | GuestError::Hang { .. })), _) => {
                self.guest = None;
                Err(TargetError::Lost { target: self.address().to_string(), why: error.to_string() })
            }
            (done, _) => {
                let done = done?;
                self.incidents.extend(done.incidents.iter().map(ToString::to_string));
                Ok(done.status)
            }
        }
    }

    fn has(&self, program: &Path) -> Option<String> {
        (self.program == program).then(|| GUEST_PROGRAM.to_owned())
    }

    fn guest(&mut self) -> Option<Result<&mut Guest>> {
        Some(self.booted())
    }

    fn end_boot(&mut self) {
        self.guest = None;
    }

    fn incidents(&mut self) -> Vec<String> {
        std::mem::take(&mut self.incidents)
    }
}
