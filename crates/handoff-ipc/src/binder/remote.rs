//! An object of another process, as the driver numbers it for this one; `proxy.rs` calls it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::process::{Process, RequestedNotifications};
use crate::known_interfaces::KnownInterfaces;
use crate::object::FreezeNews;
use crate::pool;

pub(super) type Recipient = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(super) struct Recipients {
    pub(super) asked: RequestedNotifications,
    pub(super) waiting: HashMap<u64, Recipient>,
    pub(super) freezing: HashMap<u64, FreezeNews>,
    // What was told last.
    pub(super) frozen: Option<bool>,
}

/// A proxy: one handle of one process.
pub(super) struct BinderRemote {
    pub(super) process: Arc<Process>,
    pub(super) handle: u32,
    pub(super) cookie: u64,
    // What stands in front of each call's arguments.
    pub(super) token: OnceLock<Box<[u8]>>,
    pub(super) takes_claims: OnceLock<bool>,
    pub(super) interfaces: KnownInterfaces,
    pub(super) dead: AtomicBool,
    pub(super) recipients: Mutex<Recipients>,
    pub(super) next_recipient: AtomicU64,
    // For the news that it may have to hear of.
    pub(super) this: Weak<BinderRemote>,
}

impl BinderRemote {
    pub(super) fn new(process: Arc<Process>, handle: u32, cookie: u64) -> Arc<Self> {
        Arc::new_cyclic(|this| BinderRemote {
            process,
            handle,
            cookie,
            token: OnceLock::new(),
            takes_claims: OnceLock::new(),
            interfaces: KnownInterfaces::default(),
            dead: AtomicBool::new(false),
            recipients: Mutex::default(),
            next_recipient: AtomicU64::new(0),
            this: Weak::clone(this),
        })
    }

    pub(super) fn process(&self) -> &Arc<Process> {
        &self.process
    }

    pub(super) fn handle(&self) -> u32 {
        self.handle
    }

    pub(super) fn cookie(&self) -> u64 {
        self.cookie
    }

    pub(super) fn recipients(&self) -> MutexGuard<'_, Recipients> {
        self.recipients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object's process is gone: tells the recipients, once.
    pub(super) fn die(&self) {
        let mut recipients = self.recipients();
        self.dead.store(true, Ordering::Release);
        let told = std::mem::take(&mut recipients.waiting);
        drop(recipients);
        told.into_values().for_each(pool::run);
    }

    /// The object's process was frozen or thawed: tells those who want to hear.
    pub(super) fn freeze(&self, frozen: bool) {
        let mut recipients = self.recipients();
        recipients.frozen = Some(frozen);
        let told: Vec<FreezeNews> = recipients.freezing.values().cloned().collect();
        drop(recipients);
        for changed in told {
            pool::run(Box::new(move || changed(frozen)));
        }
    }
}

impl Drop for BinderRemote {
    fn drop(&mut self) {
        let asked = self.recipients.get_mut().unwrap_or_else(PoisonError::into_inner).asked;
        self.process.forget(self.handle, self.cookie, asked);
    }
}
