//! The engine as applications see it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::device::find_device;
use super::driver::Driver;
use super::process::Process;
use crate::domain::Domain;
use crate::engine::{Engine, EngineKind, EngineStats};
use crate::object::{Binder, Reference};
use crate::{Error, Result, stats};

/// Threads that serve at one time, unless the application says otherwise.
const DEFAULT_MAX: u32 = 15;

/// The kernel's Binder driver, opened by this process.
///
/// A call's deadline is kept by a thread that waits in the caller's place, since the driver knows
/// none: such calls cost a hand-off more.
pub struct BinderEngine {
    process: Arc<Process>,
    device: PathBuf,
}

impl BinderEngine {
    /// Opens a driver, by the rules of the domain that its name tells: that of hardware for a device
    /// called `hwbinder`, the framework's for any other name.
    ///
    /// # Errors
    /// If the device is not there, may not be opened, or speaks another protocol.
    pub fn open(device: impl Into<PathBuf>) -> Result<Self> {
        let device = device.into();
        let called = |domain: &Domain| device.file_name().is_some_and(|name| name == domain.device());
        let domain = Domain::ALL.into_iter().find(called).unwrap_or_default();
        Self::open_for(device, domain)
    }

    /// Opens a driver by the rules of a domain, whatever the device is called.
    ///
    /// # Errors
    /// As [`BinderEngine::open`].
    pub fn open_for(device: impl Into<PathBuf>, domain: Domain) -> Result<Self> {
        let device = device.into();
        let driver = Driver::open(&device)?;
        driver.set_max_threads(DEFAULT_MAX)?;
        Ok(BinderEngine { process: Process::new(driver, domain), device })
    }

    /// Lays the runtime's own priority inheritance over the driver, which on mainline kernels lends the nice
    /// value only: calls to objects of processes that did the same carry their caller's policy, priority
    /// and nice value, and the thread that serves takes them over by itself. Objects of other runtimes get
    /// plain calls.
    pub fn lend_priorities(&self) {
        self.process.lend_priorities();
    }

    /// The device that was opened.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// True if this machine has a driver for the framework's domain.
    pub fn is_available() -> bool {
        find_device(Domain::Framework).is_ok()
    }
}

impl Engine for BinderEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Binder
    }

    fn domain(&self) -> Option<Domain> {
        Some(self.process.domain)
    }

    fn context_object(&self) -> Result<Binder> {
        let mut out = Vec::new();
        let remote = self.process.proxy(0, &mut out).known_as();
        self.process.driver.write_read(&mut out, &mut [])?;
        let manager = Binder::from_remote(remote);
        // Handle 0 exists whether or not somebody is behind it.
        match manager.ping() {
            Ok(()) => Ok(manager),
            Err(error) => Err(Error::io(
                format!("no service manager answers on {}", self.device.display()),
                std::io::Error::other(error.to_string()),
            )),
        }
    }

    fn become_context_manager(&self, manager: Binder) -> Result<()> {
        let Binder(Reference::Local(node)) = manager else {
            return Err(Error::Unsupported {
                engine: "binder",
                what: "make an object of another process the service manager".into(),
            });
        };
        // Never unpinned: it is the manager as long as the process lives.
        let id = self.process.pin(&node);
        if let Err(error) = self.process.driver.become_context_manager(id) {
            self.process.unpin(id);
            return Err(error);
        }
        self.process.start_looping();
        Ok(())
    }

    fn set_max_threads(&self, threads: usize) {
        // The driver counts the threads that it asks for; one is there without being asked.
        let asked = u32::try_from(threads.saturating_sub(1)).unwrap_or(u32::MAX);
        // It refuses nothing here; a kernel that did would keep the former limit.
        drop(self.process.driver.set_max_threads(asked));
    }

    fn stats(&self) -> EngineStats {
        EngineStats { served_oneway: stats::SERVED_ONEWAY.get(), ..EngineStats::default() }
    }
}
