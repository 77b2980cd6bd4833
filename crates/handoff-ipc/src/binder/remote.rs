//! An object of another process, as the driver numbers it for this one.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::lend;
use super::process::Process;
use super::talk::{self, Token};
use crate::dispatch;
use crate::engine::{DeathRegistration, EngineKind, OutCall, ReadFn, Remote, WriteFn};
use crate::object::is_user_code;
use crate::{Error, Result, pool};

type Recipient = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Recipients {
    asked: bool,
    waiting: HashMap<u64, Recipient>,
}

/// A proxy: one handle of one process.
pub(super) struct BinderRemote {
    process: Arc<Process>,
    handle: u32,
    cookie: u64,
    descriptor: OnceLock<String>,
    takes_claims: OnceLock<bool>,
    dead: AtomicBool,
    recipients: Mutex<Recipients>,
    next_recipient: AtomicU64,
    this: OnceLock<Weak<BinderRemote>>,
}

impl BinderRemote {
    pub(super) fn new(process: Arc<Process>, handle: u32, cookie: u64) -> Self {
        BinderRemote {
            process,
            handle,
            cookie,
            descriptor: OnceLock::new(),
            takes_claims: OnceLock::new(),
            dead: AtomicBool::new(false),
            recipients: Mutex::default(),
            next_recipient: AtomicU64::new(0),
            this: OnceLock::new(),
        }
    }

    /// Lets the proxy find itself, for the death that it may have to hear of.
    pub(super) fn known_as(self: Arc<Self>) -> Arc<Self> {
        let _ = self.this.set(Arc::downgrade(&self));
        self
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

    fn recipients(&self) -> std::sync::MutexGuard<'_, Recipients> {
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

    /// The interface that stands in front of each call: asked for once, before the first.
    fn descriptor(&self) -> Result<&str> {
        if let Some(known) = self.descriptor.get() {
            return Ok(known);
        }
        let call = OutCall { code: dispatch::INTERFACE, oneway: false, deadline: None };
        let mut found = String::new();
        talk::transact(self, &call, None, &mut |_| Ok(()), &mut |reply| {
            found = reply.read()?;
            Ok(())
        })?;
        Ok(self.descriptor.get_or_init(|| found))
    }
}

impl BinderRemote {
    /// What stands in front of a call's arguments.
    fn token(&self) -> Result<Token<'_>> {
        let claims = self.process.lends() && self.takes_claims()?;
        Ok(Token { descriptor: self.descriptor()?, claims })
    }

    /// Whether calls are to carry their caller's priority: asked once, and only by a process that lends.
    fn takes_claims(&self) -> Result<bool> {
        if let Some(known) = self.takes_claims.get() {
            return Ok(*known);
        }
        let call = OutCall { code: lend::ASK, oneway: false, deadline: None };
        match talk::transact(self, &call, None, &mut |_| Ok(()), &mut |_| Ok(())) {
            Err(Error::Dead) => Err(Error::Dead),
            answered => Ok(*self.takes_claims.get_or_init(|| answered.is_ok())),
        }
    }
}

impl Remote for BinderRemote {
    fn engine(&self) -> EngineKind {
        EngineKind::Binder
    }

    fn transact(&self, call: &OutCall, write: WriteFn<'_>, read: ReadFn<'_>) -> Result<()> {
        let token = if is_user_code(call.code) { Some(self.token()?) } else { None };
        let outcome = talk::transact(self, call, token, write, read);
        if matches!(outcome, Err(Error::Dead)) {
            self.dead.store(true, Ordering::Release);
        }
        outcome
    }

    fn link_to_death(&self, died: Recipient) -> Result<DeathRegistration> {
        let mut recipients = self.recipients();
        if self.dead.load(Ordering::Acquire) {
            drop(recipients);
            pool::run(died);
            return Ok(DeathRegistration::new(|| ()));
        }
        let id = self.next_recipient.fetch_add(1, Ordering::Relaxed);
        recipients.waiting.insert(id, died);
        let first = !std::mem::replace(&mut recipients.asked, true);
        drop(recipients);
        let this = self.this.get().cloned().unwrap_or_default();
        if let (true, Some(this)) = (first, this.upgrade()) {
            self.process.mourn(&this)?;
        }
        Ok(DeathRegistration::new(move || {
            if let Some(remote) = this.upgrade() {
                let taken = remote.recipients().waiting.remove(&id);
                drop(taken);
            }
        }))
    }

    fn is_alive(&self) -> bool {
        !self.dead.load(Ordering::Acquire)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for BinderRemote {
    fn drop(&mut self) {
        let asked = self.recipients.get_mut().unwrap_or_else(PoisonError::into_inner).asked;
        self.process.forget(self.handle, self.cookie, asked);
    }
}
