//! The engine as applications see it.

use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::command::Command;
use super::device::find_device;
use super::driver::Driver;
use super::objects::security;
use super::process::Process;
use super::serve::{handle_polled, start_looping};
use super::thread_state::{flush, proxy, queue_command};
use crate::context::Context;
use crate::engine::{Engine, EngineStats};
use crate::engine_kind::EngineKind;
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
    /// Opens a driver, by the rules of the context that its name tells: that of hardware for a device
    /// called `hwbinder`, the framework's for any other name.
    ///
    /// # Errors
    /// If the device is not there, may not be opened, or speaks another protocol.
    pub fn open(device: impl Into<PathBuf>) -> Result<Self> {
        let device = device.into();
        let called = |context: &Context| device.file_name().is_some_and(|name| name == context.device());
        let context = Context::ALL.into_iter().find(called).unwrap_or_default();
        Self::open_for(device, context)
    }

    /// Opens a driver by the rules of a context, whatever the device is called.
    ///
    /// # Errors
    /// As [`BinderEngine::open`].
    pub fn open_for(device: impl Into<PathBuf>, context: Context) -> Result<Self> {
        let device = device.into();
        let driver = Driver::open(&device)?;
        driver.set_max_threads(DEFAULT_MAX)?;
        Ok(BinderEngine { process: Process::new(driver, context), device })
    }

    /// Lays the runtime's own priority inheritance over the driver, which on mainline kernels lends the nice
    /// value only (in C) or nothing (in Rust): calls to objects of processes that did the same carry their caller's policy, priority
    /// and nice value, and the thread that serves takes them over by itself. Objects of other runtimes get
    /// plain calls.
    pub fn lend_priorities(&self) {
        self.process.lend_priorities();
    }

    /// The device that was opened.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// True if this machine has a driver for the framework's context.
    pub fn is_available() -> bool {
        find_device(Context::Framework).is_ok()
    }
}

/// A thread that serves calls when it finds the driver's file readable: for programs that have an event
/// loop of their own (the driver's poll mode). Threads of the pool serve beside it, unless
/// [`Engine::set_max_threads`] was told 0.
///
/// ```no_run
/// use std::os::fd::AsFd;
/// use handoff_ipc::binder::BinderEngine;
///
/// let engine = BinderEngine::open("/dev/binder")?;
/// let poller = engine.poller()?;
/// // ... poll `poller.as_fd()` together with everything else, and when it is readable:
/// poller.serve()?;
/// # Ok::<(), handoff_ipc::Error>(())
/// ```
pub struct Poller {
    process: Arc<Process>,
    // The driver knows the thread that polls: it may not change.
    thread: PhantomData<*const ()>,
}

impl Poller {
    /// Serves what has arrived. Waits if nothing has.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn serve(&self) -> Result<()> {
        handle_polled(&self.process)
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.driver.as_fd()
    }
}

impl BinderEngine {
    /// Makes the calling thread one that serves when the driver's file is readable.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn poller(&self) -> Result<Poller> {
        self.process.is_polled();
        queue_command(&self.process, Command::EnterLooper);
        flush(&self.process);
        Ok(Poller { process: Arc::clone(&self.process), thread: PhantomData })
    }
}

impl Engine for BinderEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Binder
    }

    fn context(&self) -> Option<Context> {
        Some(self.process.context)
    }

    fn context_object(&self) -> Result<Binder> {
        let remote = proxy(&self.process, 0);
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
        if let Err(error) = self.process.driver.become_context_manager(id, security(&node)) {
            self.process.unpin(id);
            return Err(error);
        }
        start_looping(&self.process);
        Ok(())
    }

    fn set_max_threads(&self, threads: usize) {
        // The driver counts the threads that it asks for; one is there without being asked.
        let asked = u32::try_from(threads.saturating_sub(1)).unwrap_or(u32::MAX);
        // It refuses nothing here; a kernel that did would keep the former limit.
        drop(self.process.driver.set_max_threads(asked));
    }

    fn stats(&self) -> EngineStats {
        EngineStats {
            served_oneway: stats::SERVED_ONEWAY.get(),
            oneway_spam: stats::ONEWAY_SPAM.get(),
            unknown_returns: stats::UNKNOWN_RETURNS.get(),
            ..EngineStats::default()
        }
    }
}
