//! An object of another process, as the driver numbers it for this one.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::call::{self, Token};
use super::lend;
use super::process::{Asked, Process};
use super::token;
use crate::engine::{DeathRegistration, EngineKind, FreezeNews, OutCall, ReadFn, Remote, WriteFn};
use crate::interface::KnownInterfaces;
use crate::object::is_user_code;
use crate::{Error, Result, pool};

type Recipient = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Recipients {
    asked: Asked,
    waiting: HashMap<u64, Recipient>,
    freezing: HashMap<u64, FreezeNews>,
    // What was told last.
    frozen: Option<bool>,
}

/// A proxy: one handle of one process.
pub(super) struct BinderRemote {
    process: Arc<Process>,
    handle: u32,
    cookie: u64,
    // What stands in front of each call's arguments.
    token: OnceLock<Box<[u8]>>,
    takes_claims: OnceLock<bool>,
    interfaces: KnownInterfaces,
    dead: AtomicBool,
    recipients: Mutex<Recipients>,
    next_recipient: AtomicU64,
    // For the news that it may have to hear of.
    this: Weak<BinderRemote>,
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

    /// The token with the object's interface, which is asked for once, before the first call.
    #[inline(always)]
    fn interface(&self) -> Result<&[u8]> {
        match self.token.get() {
            Some(known) => Ok(known),
            None => self.ask_interface(),
        }
    }

    #[cold]
    fn ask_interface(&self) -> Result<&[u8]> {
        let descriptor = self.interfaces.descriptor(self, None)?;
        Ok(self.token.get_or_init(|| token::of(self.process.domain, descriptor)))
    }

    /// Where a recipient is to be taken back from, once it is in place.
    fn registered(&self, take: impl FnOnce(&mut Recipients) + Send + 'static) -> DeathRegistration {
        let this = Weak::clone(&self.this);
        DeathRegistration::new(move || {
            if let Some(remote) = this.upgrade() {
                take(&mut remote.recipients());
            }
        })
    }
}

impl BinderRemote {
    /// What stands in front of a call's arguments.
    #[inline(always)]
    fn token(&self) -> Result<Token<'_>> {
        let claims = self.process.lends() && self.takes_claims()?;
        Ok(Token { bytes: self.interface()?, claims })
    }

    /// Whether calls are to carry their caller's priority: asked once, and only by a process that lends.
    #[inline(never)]
    fn takes_claims(&self) -> Result<bool> {
        if let Some(known) = self.takes_claims.get() {
            return Ok(*known);
        }
        match self.transact(&OutCall::of(lend::ASK), &mut |_| Ok(()), &mut |_| Ok(())) {
            Err(Error::Dead) => Err(Error::Dead),
            answered => Ok(*self.takes_claims.get_or_init(|| answered.is_ok())),
        }
    }
}

impl Remote for BinderRemote {
    fn engine(&self) -> EngineKind {
        EngineKind::Binder
    }

    fn check_interface(&self, call: &OutCall) -> Result<()> {
        self.interfaces.check_call(self, call)
    }

    fn is_of_own_user(&self) -> bool {
        false
    }

    fn transact(&self, call: &OutCall, write: WriteFn<'_>, read: ReadFn<'_>) -> Result<()> {
        self.interfaces.check_call(self, call)?;
        let token = if is_user_code(call.code) { Some(self.token()?) } else { None };
        let outcome = call::transact(self, call, token, write, read);
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
        let first = !std::mem::replace(&mut recipients.asked.death, true);
        drop(recipients);
        if let (true, Some(this)) = (first, self.this.upgrade()) {
            self.process.mourn(&this)?;
        }
        Ok(self.registered(move |recipients| drop(recipients.waiting.remove(&id))))
    }

    fn on_freeze(&self, changed: FreezeNews) -> Result<DeathRegistration> {
        let mut recipients = self.recipients();
        let id = self.next_recipient.fetch_add(1, Ordering::Relaxed);
        recipients.freezing.insert(id, Arc::clone(&changed));
        let first = !std::mem::replace(&mut recipients.asked.freezing, true);
        let known = recipients.frozen;
        drop(recipients);
        let registered = self.registered(move |recipients| drop(recipients.freezing.remove(&id)));
        match (first, self.this.upgrade()) {
            // The driver begins with how things are.
            (true, Some(this)) => {
                if let Err(error) = self.process.watch_freezing(&this) {
                    self.recipients().asked.freezing = false;
                    return Err(error);
                }
            }
            _ => {
                if let Some(frozen) = known {
                    pool::run(Box::new(move || changed(frozen)));
                }
            }
        }
        Ok(registered)
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
