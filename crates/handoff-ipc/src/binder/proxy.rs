//! Calls to an object of another process, and what its proxy asks the driver to tell.

use std::any::Any;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::call::{self, Token};
use super::command::Command;
use super::process::Process;
use super::remote::{BinderRemote, Recipient, Recipients};
use super::uapi::BC_REQUEST_FREEZE_NOTIFICATION;
use super::{lend, serve, token};
use crate::call::OutCall;
use crate::code::is_user_code;
use crate::death::DeathRegistration;
use crate::engine_kind::EngineKind;
use crate::identity::CallingIdentity;
use crate::object::{FreezeNews, ReadFn, Remote, WriteFn};
use crate::{Error, Result, pool};

/// Asks the driver to tell of the death behind a proxy.
fn request_death_notification(process: &Arc<Process>, remote: &Arc<BinderRemote>) -> Result<()> {
    request(process, remote, Command::RequestDeath { handle: remote.handle(), cookie: remote.cookie() })
}

/// Asks the driver to tell when the process behind a proxy is frozen and thawed.
fn request_freeze_notification(process: &Arc<Process>, remote: &Arc<BinderRemote>) -> Result<()> {
    if !process.driver.knows_command(BC_REQUEST_FREEZE_NOTIFICATION)? {
        return Err(Error::Unsupported {
            engine: "binder",
            what: "tell when a process is frozen on this kernel (Linux 6.12 and later can)".into(),
        });
    }
    request(process, remote, Command::RequestFreezeNews { handle: remote.handle(), cookie: remote.cookie() })
}

fn request(process: &Arc<Process>, remote: &Arc<BinderRemote>, command: Command) -> Result<()> {
    // News are told to threads that wait for work.
    serve::start_looping(process);
    process.expect_news(remote);
    let mut out = Vec::new();
    command.put(&mut out);
    process.driver.write_read(&mut out, &mut []).map(drop)
}

impl BinderRemote {
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
        Ok(self.token.get_or_init(|| token::of(self.process.context, descriptor)))
    }

    /// Where a recipient is to be taken back from, once it is in place.
    fn registered<T>(&self, take: impl FnOnce(&mut Recipients) -> T + Send + 'static) -> DeathRegistration {
        let this = Weak::clone(&self.this);
        DeathRegistration::new(move || {
            if let Some(remote) = this.upgrade() {
                // Without the lock: what the recipient holds may be another registration.
                let taken_back = take(&mut remote.recipients());
                drop(taken_back);
            }
        })
    }

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

    fn owner(&self) -> Option<CallingIdentity> {
        None
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
            request_death_notification(&self.process, &this)?;
        }
        Ok(self.registered(move |recipients| recipients.waiting.remove(&id)))
    }

    fn on_freeze(&self, changed: FreezeNews) -> Result<DeathRegistration> {
        let mut recipients = self.recipients();
        let id = self.next_recipient.fetch_add(1, Ordering::Relaxed);
        recipients.freezing.insert(id, Arc::clone(&changed));
        let first = !std::mem::replace(&mut recipients.asked.freezing, true);
        let known = recipients.frozen;
        drop(recipients);
        let registered = self.registered(move |recipients| recipients.freezing.remove(&id));
        match (first, self.this.upgrade()) {
            // The driver begins with how things are.
            (true, Some(this)) => {
                if let Err(error) = request_freeze_notification(&self.process, &this) {
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
