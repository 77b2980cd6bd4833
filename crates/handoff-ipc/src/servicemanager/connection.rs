//! A process's tie to the manager, and what it told it: repeated when the manager is restarted.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::code;
use super::names::{NameChange, NameListener};
use super::process::ProcessObject;
use super::registry::NameConflict;
use super::types::{Clients, ServiceOptions};
use super::watching::WatchRecord;
use crate::code::Code;
use crate::context::Context;
use crate::death::DeathRegistration;
use crate::engine::Engine;
use crate::object::{Binder, Reference};
use crate::parcel::{Reader, Writer};
use crate::{Error, ExceptionCode, Result, stats};

/// How often a manager that is gone is looked for: at first, and after a while.
const FIRST_RETRY: Duration = Duration::from_millis(10);
const LAST_RETRY: Duration = Duration::from_millis(500);

pub(super) type OnNameChange = dyn Fn(&str, NameChange) + Send + Sync;

/// A service that this process registered.
#[derive(Clone)]
struct OwnRegistration {
    name: Arc<str>,
    binder: Binder,
    options: ServiceOptions,
    // Another process has taken the name.
    lost: bool,
}

#[derive(Default)]
struct Registrations {
    services: Vec<OwnRegistration>,
    watches: Vec<WatchRecord>,
}

#[derive(Default)]
struct Manager {
    binder: Option<Binder>,
    // Held so that the recipient stays in place.
    _death: Option<DeathRegistration>,
}

/// The tie of one runtime to its manager.
pub(crate) struct Connection {
    engine: Arc<dyn Engine>,
    // Where the manager is in this very process, it needs no connection.
    embedded: Option<Binder>,
    manager: Mutex<Manager>,
    registrations: Mutex<Registrations>,
    process: Binder,
    names: Binder,
    name_listeners: Mutex<Vec<Arc<OnNameChange>>>,
    next_watch: AtomicU64,
    seeking: AtomicBool,
    itself: Weak<Connection>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a manager says that it does not have a name with an object.
fn is_unknown_there(error: &Error) -> bool {
    matches!(error, Error::Status(status) if status.exception() == ExceptionCode::IllegalState)
}

impl Connection {
    pub(crate) fn new(engine: Arc<dyn Engine>, embedded: Option<Binder>) -> Arc<Self> {
        Arc::new_cyclic(|itself| Connection {
            process: ProcessObject::binder(&engine),
            names: NameListener::binder(itself),
            name_listeners: Mutex::default(),
            engine,
            embedded,
            manager: Mutex::default(),
            registrations: Mutex::default(),
            next_watch: AtomicU64::new(1),
            seeking: AtomicBool::new(false),
            itself: Weak::clone(itself),
        })
    }

    /// The manager; connects to it if there is no connection that lives.
    pub(crate) fn manager(&self) -> Result<Binder> {
        if let Some(embedded) = &self.embedded {
            return Ok(embedded.clone());
        }
        let mut manager = lock(&self.manager);
        if let Some(binder) = manager.binder.as_ref().filter(|binder| binder.is_alive()) {
            return Ok(binder.clone());
        }
        *manager = Manager::default();
        let binder = self.engine.context_object()?;
        if binder.is_local() {
            manager.binder = Some(binder.clone());
            return Ok(binder);
        }
        self.repeat(&binder)?;
        let itself = Weak::clone(&self.itself);
        let death = binder.link_to_death(move || {
            if let Some(connection) = itself.upgrade() {
                connection.seek();
            }
        })?;
        *manager = Manager { binder: Some(binder.clone()), _death: Some(death) };
        Ok(binder)
    }

    /// A call to the manager; repeated once if it turns out to have been restarted.
    pub(super) fn call<R>(
        &self,
        code: Code,
        deadline: Option<Duration>,
        write: impl Fn(&mut Writer<'_>) -> Result<()>,
        read: impl Fn(&mut Reader<'_>) -> Result<R>,
    ) -> Result<R> {
        match call(&self.manager()?, code, deadline, &write, &read) {
            Err(Error::Dead) => call(&self.manager()?, code, deadline, write, read),
            other => other,
        }
    }

    // ---- what is remembered --------------------------------------------------------------

    pub(super) fn add(&self, name: &str, binder: Binder, options: ServiceOptions) -> Result<()> {
        if let Some(context) = self.engine.context().filter(|context| *context != options.context) {
            return Err(Error::Unsupported {
                engine: self.engine.kind().name(),
                what: format!(
                    "register a service of the {} context with the manager of the {context} context: each has its own \
                     driver; connect with `Options {{ context, .. }}` of the service's",
                    options.context
                ),
            });
        }
        // Before anybody can call it.
        if let Reference::Local(node) = &binder.0 {
            node.live_in(options.context);
        }
        let added = OwnRegistration { name: name.into(), binder, options, lost: false };
        self.tell(
            |manager| self.send_add(manager, &added),
            |registrations| {
                registrations.services.retain(|service| *service.name != *added.name);
                registrations.services.push(added.clone());
            },
        )
    }

    /// Has `listener` told of each name that this process loses or has again.
    pub(super) fn on_name_change(&self, listener: Arc<OnNameChange>) {
        lock(&self.name_listeners).push(listener);
    }

    /// The manager says that this process has lost a name, or has it again.
    pub(super) fn name_changed(&self, name: &str, change: NameChange) {
        let mut registrations = lock(&self.registrations);
        let Some(service) = registrations.services.iter_mut().find(|service| *service.name == *name) else {
            return;
        };
        service.lost = matches!(change, NameChange::Lost { .. });
        drop(registrations);
        match change {
            NameChange::Lost { pid, uid } => tracing::warn!(
                "process {pid} of user {uid} has taken the name {name:?}; it comes back when that process ends"
            ),
            NameChange::Regained => tracing::warn!("this process has the name {name:?} again"),
        }
        // The application's own code: never under a lock.
        let listeners = lock(&self.name_listeners).clone();
        for listener in listeners {
            listener(name, change);
        }
    }

    /// Tells the manager something, and remembers it.
    fn tell(
        &self,
        send: impl Fn(&Binder) -> Result<()>,
        remember: impl FnOnce(&mut Registrations),
    ) -> Result<()> {
        let mut manager = self.manager()?;
        if let Err(error) = send(&manager) {
            if !matches!(error, Error::Dead) {
                return Err(error);
            }
            manager = self.manager()?;
            send(&manager)?;
        }
        remember(&mut lock(&self.registrations));
        // If it ended in between, its successor may have been told of everything but this.
        if !manager.is_alive() && self.manager().and_then(|manager| send(&manager)).is_err() {
            self.seek();
        }
        Ok(())
    }

    /// Takes a name back. A manager that is gone, or was restarted and does not know the name, has nothing to take back.
    pub(super) fn remove(&self, name: &str, binder: &Binder) -> Result<()> {
        // First, so that a manager that is met on the way is not told of it.
        let own = {
            let services = &mut lock(&self.registrations).services;
            let is_it = |service: &OwnRegistration| *service.name == *name && service.binder == *binder;
            services.iter().position(is_it).map(|at| services.remove(at))
        };
        let write = |to: &mut Writer<'_>| {
            to.write_string16(name)?;
            to.write(binder)
        };
        match (self.call(code::REMOVE, None, write, |_| Ok(())), own) {
            (Err(error), Some(_)) if error.is_disconnection() || is_unknown_there(&error) => Ok(()),
            (Err(error), Some(own)) => {
                let mut registrations = lock(&self.registrations);
                if !registrations.services.iter().any(|service| service.name == own.name) {
                    registrations.services.push(own);
                }
                Err(error)
            }
            (removed, _) => removed,
        }
    }

    pub(super) fn clients_of(&self, object: &Binder) -> Result<Clients> {
        // Without one, nobody can become a client.
        self.manager()?;
        // First: who comes in between is counted twice, now and the next time, rather than not seen to go.
        let so_far = match &object.0 {
            Reference::Local(node) => node.times_given(),
            Reference::Remote(_) => 0,
        };
        match self.engine.holders(object) {
            Some(now) => Ok(Clients { now, so_far }),
            None => Err(Error::Unsupported {
                engine: self.engine.kind().name(),
                what: "count the clients of an object".into(),
            }),
        }
    }

    /// Takes every name back.
    pub(super) fn withdraw(&self) {
        let services = std::mem::take(&mut lock(&self.registrations).services);
        for service in services {
            // A manager that is gone has forgotten it already.
            drop(self.remove(&service.name, &service.binder));
        }
    }

    pub(super) fn watch(&self, name: &str, callback: Binder) -> Result<u64> {
        let id = self.next_watch.fetch_add(1, Ordering::Relaxed);
        let watch = WatchRecord { id, name: name.into(), callback };
        self.tell(
            |manager| tell_of(manager, code::WATCH, &watch.name, &watch.callback),
            |registrations| registrations.watches.push(watch.clone()),
        )?;
        Ok(id)
    }

    pub(super) fn end_watch(&self, id: u64) {
        let mut registrations = lock(&self.registrations);
        let Some(at) = registrations.watches.iter().position(|watch| watch.id == id) else { return };
        let watch = registrations.watches.swap_remove(at);
        drop(registrations);
        let manager = match &self.embedded {
            Some(embedded) => Some(embedded.clone()),
            None => lock(&self.manager).binder.clone(),
        };
        if let Some(manager) = manager.filter(Binder::is_alive) {
            // A manager that is gone has forgotten it already.
            drop(tell_of(&manager, code::UNWATCH, &watch.name, &watch.callback));
        }
    }

    /// Tells a manager that has just been met everything that its predecessor knew.
    fn repeat(&self, manager: &Binder) -> Result<()> {
        let (services, watches) = {
            let registrations = lock(&self.registrations);
            (registrations.services.clone(), registrations.watches.clone())
        };
        for service in services {
            match self.send_add(manager, &service) {
                Err(error) if error.is_disconnection() => return Err(error),
                // Somebody else was quicker, or the policy is another one.
                Err(error) => {
                    tracing::warn!("{:?} is not registered any longer: {error}", &*service.name);
                    lock(&self.registrations).services.retain(|other| other.name != service.name);
                }
                Ok(()) => {}
            }
        }
        for watch in watches {
            match tell_of(manager, code::WATCH, &watch.name, &watch.callback) {
                Err(error) if error.is_disconnection() => return Err(error),
                Err(error) => tracing::warn!("{:?} is not waited for any longer: {error}", &*watch.name),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Looks for a manager that is gone until it is back, on a thread of its own.
    fn seek(&self) {
        let registrations = lock(&self.registrations);
        let nothing = registrations.services.is_empty() && registrations.watches.is_empty();
        drop(registrations);
        // With nothing to repeat, the next call will find it early enough.
        if nothing || self.seeking.swap(true, Ordering::AcqRel) {
            return;
        }
        let itself = Weak::clone(&self.itself);
        let body = move || {
            let mut pause = FIRST_RETRY;
            loop {
                // Held for the attempt only, so that the runtime can be dropped meanwhile.
                let Some(connection) = itself.upgrade() else { return };
                if connection.manager().is_ok() {
                    connection.seeking.store(false, Ordering::Release);
                    return;
                }
                drop(connection);
                std::thread::sleep(pause);
                pause = (pause * 2).min(LAST_RETRY);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("handoff-seek".into()).spawn(body) {
            self.seeking.store(false, Ordering::Release);
            stats::warn_once(&stats::NO_THREAD, || {
                format!("cannot start a thread to look for the service manager: {error}")
            });
        }
    }

    fn send_add(&self, manager: &Binder, service: &OwnRegistration) -> Result<()> {
        let OwnRegistration { name, binder, options, lost } = service;
        let interface = binder.local_service().map_or("", |service| service.descriptor());
        let with_all = |to: &mut Writer<'_>| {
            to.write_string16(name)?;
            to.write(binder)?;
            to.write(&Some(self.process.clone()))?;
            to.write(&options.allow_isolated)?;
            to.write(&options.dump_priority.bits())?;
            to.write_string16(options.context.name())?;
            to.write_string16(interface)?;
            let if_taken = match (lost, options.replace) {
                (true, _) => NameConflict::Wait,
                (false, true) => NameConflict::Replace,
                (false, false) => NameConflict::Refuse,
            };
            to.write(&if_taken.number())?;
            to.write(&Some(self.names.clone()))
        };
        let read = |reply: &mut Reader<'_>| {
            // A manager of an older version answers nothing, and lets the last one have a name.
            if reply.remaining() == 0 || !reply.read::<bool>()? {
                return Ok(());
            }
            let (pid, uid) = (reply.read()?, reply.read()?);
            Err(Error::NameTaken { name: name.to_string(), pid, uid })
        };
        let as_android = |to: &mut Writer<'_>| {
            to.write_string16(name)?;
            to.write(binder)?;
            to.write(&options.allow_isolated)?;
            to.write(&options.dump_priority.bits())
        };
        match call(manager, code::ADD_WITH, None, with_all, read) {
            // Android's own manager has a driver for each context, and no word for it.
            Err(Error::UnknownTransaction { .. }) if options.context == Context::Framework => {
                call(manager, code::ADD, None, as_android, |_| Ok(()))
            }
            Err(Error::UnknownTransaction { .. }) => Err(Error::Unsupported {
                engine: manager.engine().name(),
                what: format!("keep the {} context with a name: open that context's device", options.context),
            }),
            other => other,
        }
    }
}

/// A call about an object under a name: a callback that watches it or no longer does, a service to remove.
fn tell_of(manager: &Binder, code: Code, name: &str, binder: &Binder) -> Result<()> {
    let write = |to: &mut Writer<'_>| {
        to.write_string16(name)?;
        to.write(binder)
    };
    call(manager, code, None, write, |_| Ok(()))
}

/// One call to a manager. A refusal of the policy becomes [`Error::PermissionDenied`].
pub(super) fn call<R>(
    manager: &Binder,
    code: Code,
    deadline: Option<Duration>,
    write: impl Fn(&mut Writer<'_>) -> Result<()>,
    read: impl Fn(&mut Reader<'_>) -> Result<R>,
) -> Result<R> {
    manager.transaction(code).deadline(deadline).call(write, read).map_err(|error| match error {
        Error::Status(status) if status.exception() == ExceptionCode::Security => {
            Error::PermissionDenied(status.message().unwrap_or("the service manager refused").to_owned())
        }
        other => other,
    })
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registrations = lock(&self.registrations);
        f.debug_struct("Connection")
            .field("engine", &self.engine.kind())
            .field("services", &registrations.services.len())
            .field("watches", &registrations.watches.len())
            .finish()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A manager of this process (the `local` engine's lives as long as the process) would keep
        // what the runtime registered.
        let registrations = std::mem::take(&mut *lock(&self.registrations));
        let manager = self.embedded.clone().or_else(|| lock(&self.manager).binder.clone());
        let Some(manager) = manager.filter(Binder::is_local) else { return };
        for service in registrations.services {
            drop(tell_of(&manager, code::REMOVE, &service.name, &service.binder));
        }
        for watch in registrations.watches {
            drop(tell_of(&manager, code::UNWATCH, &watch.name, &watch.callback));
        }
    }
}
