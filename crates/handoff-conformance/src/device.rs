//! The kernel's driver, by its devices.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::agent::Agent;
use crate::kernel::Opened;
use crate::seam::{Device, Peer, Process};

/// How this program is executed so that it calls [`serve_agent`](crate::serve_agent).
#[derive(Debug, Clone)]
pub struct AgentCommand {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

/// The kernel's driver.
#[derive(Debug)]
pub struct KernelDevice {
    devices: Vec<PathBuf>,
    agent: AgentCommand,
}

impl KernelDevice {
    /// The driver behind these devices, one for each context; the first is used where one is enough.
    pub fn new(devices: Vec<PathBuf>, agent: AgentCommand) -> Self {
        Self { devices, agent }
    }
}

impl Device for KernelDevice {
    fn open(&self, context: usize) -> Result<Box<dyn Process>, i32> {
        let device = self.devices.get(context).ok_or(libc::ENODEV)?;
        Ok(Box::new(Opened::open(device, false, &self.agent)?))
    }

    fn contexts(&self) -> usize {
        self.devices.len()
    }

    fn start_peer(&self) -> Result<Box<dyn Peer>, String> {
        Ok(Box::new(Agent::start(&self.agent, None)?.on(&self.devices)))
    }

    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn euid(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn has_security_contexts(&self) -> bool {
        // SELinux has a file system of its own once it is on, whether or not anybody has mounted it.
        std::fs::read_to_string("/proc/filesystems").is_ok_and(|all| all.contains("selinuxfs"))
    }
}
