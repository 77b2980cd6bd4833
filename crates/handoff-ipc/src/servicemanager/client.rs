//! What applications use: add, get, check, wait, list, hear of registrations.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use handoff_placement::notice::Notice;

use super::code;
use super::connection::Connection;
use super::names::NameChange;
use super::process::Process;
use super::types::{
    Clients, DumpPriority, MAX_INTERFACE, MAX_NAME, MAX_NAMES, ServiceInfo, ServiceOptions, check_name,
};
use super::watching::{Callback, Watch};
use crate::calling::Proxy;
use crate::code::Code;
use crate::context::Context;
use crate::object::Binder;
use crate::parcel::Writer;
use crate::{Error, Result};

/// How often somebody who waits asks again by itself, should news have been lost.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// What the manager is given to answer the last question of somebody whose time is over.
const LAST_ANSWER: Duration = Duration::from_millis(100);

/// A process's view of the service manager. Clones are the same one.
///
/// Registrations and watches outlive the manager: when it is restarted, the runtime repeats them.
///
/// ```
/// use std::time::Duration;
/// use handoff_ipc::servicemanager::ServiceOptions;
/// use handoff_ipc::{Binder, Result, Runtime, Service, Transaction};
///
/// struct Clock;
/// impl Service for Clock {
///     fn descriptor(&self) -> &str { "sample.IClock" }
///     fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
///         transaction.reply.write(&1_000_000i64)
///     }
/// }
///
/// let runtime = Runtime::private()?;
/// let services = runtime.services();
/// services.add("clock", Binder::new(Clock), ServiceOptions::default())?;
/// let clock = services.wait_for("clock", Duration::from_secs(5))?;
/// let now: i64 = clock.transaction(1).call(|_| Ok(()), |reply| reply.read())?;
/// assert_eq!(now, 1_000_000);
/// # Ok::<(), handoff_ipc::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ServiceManager {
    connection: Arc<Connection>,
}

impl ServiceManager {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        ServiceManager { connection }
    }

    /// Registers `binder` under a name until this runtime is dropped or its process ends.
    ///
    /// A name that a living process has is refused, unless [`ServiceOptions::replace`] asks for it: that process is
    /// told ([`ServiceManager::on_name_change`]), and has the name again when this one ends. Android's own manager on
    /// the `binder` engine always lets the last one have a name. A placement policy that runs here
    /// (`handoff policy run`) is told that this process offers the name.
    ///
    /// # Errors
    /// [`Error::NameTaken`] if a living process has the name; [`Error::PermissionDenied`] if the policy does not let this user add the name, or another
    /// user has it; an illegal-argument status if it cannot be a name.
    pub fn add(&self, name: &str, binder: Binder, options: ServiceOptions) -> Result<()> {
        check_name(name)?;
        self.connection.add(name, binder, options)?;
        // Rules of a placement policy may be for whoever offers this name; nobody need listen.
        Notice::Service(name).tell();
        Ok(())
    }

    /// Calls `changed` whenever another process takes a name from this one, and when the name comes back; on a thread
    /// of the pool, for as long as the connection lasts. Both are also told on standard error.
    pub fn on_name_change(&self, changed: impl Fn(&str, NameChange) + Send + Sync + 'static) {
        self.connection.on_name_change(Arc::new(changed));
    }

    /// Takes a registration back. While there is no manager, the next one is not told of it.
    ///
    /// # Errors
    /// An illegal-state status if the name is not registered with this object; [`Error::PermissionDenied`] if the policy
    /// does not let this user add the name: it stays registered.
    pub fn remove(&self, name: &str, binder: &Binder) -> Result<()> {
        self.connection.remove(name, binder)
    }

    /// The object that is registered under a name, now.
    ///
    /// # Errors
    /// [`Error::NoSuchService`] if there is none, [`Error::PermissionDenied`] if the policy does not
    /// let this user find the name.
    pub fn get(&self, name: &str) -> Result<Binder> {
        self.check(name)?.ok_or_else(|| Error::NoSuchService(name.to_owned()))
    }

    /// [`ServiceManager::get`], with the object's interface checked and wrapped.
    ///
    /// # Errors
    /// As [`ServiceManager::get`] and [`Proxy::from_binder`].
    pub fn find<P: Proxy>(&self, name: &str) -> Result<P> {
        P::from_binder(self.get(name)?)
    }

    /// [`ServiceManager::wait_for`], with the object's interface checked and wrapped.
    ///
    /// # Errors
    /// As [`ServiceManager::wait_for`] and [`Proxy::from_binder`].
    pub fn wait_for_proxy<P: Proxy>(&self, name: &str, timeout: Duration) -> Result<P> {
        P::from_binder(self.wait_for(name, timeout)?)
    }

    /// The object that is registered under a name, if there is one.
    ///
    /// # Errors
    /// [`Error::PermissionDenied`] if the policy does not let this user find the name.
    pub fn check(&self, name: &str) -> Result<Option<Binder>> {
        self.look_up(code::CHECK, None, name)
    }

    fn look_up(&self, code: Code, deadline: Option<Duration>, name: &str) -> Result<Option<Binder>> {
        match self.connection.call(code, deadline, |to| to.write_string16(name), |reply| reply.read()) {
            // The manager lives: it is the service that ended while it was being handed over.
            Err(Error::Dead) if self.connection.manager()?.ping().is_ok() => Ok(None),
            other => other,
        }
    }

    /// The object of a name as soon as it is registered, across restarts of the manager too.
    ///
    /// # Errors
    /// [`Error::NoSuchService`] if `timeout` passed before; [`Error::PermissionDenied`] if the policy
    /// does not let this user find the name.
    pub fn wait_for(&self, name: &str, timeout: Duration) -> Result<Binder> {
        let end = Instant::now() + timeout;
        let (send, news) = mpsc::sync_channel(1);
        let (mut watch, mut was_absent) = (None, false);
        // Held while it is looked for: a lazy service that nobody has in between would end.
        let mut _heard: Option<Binder> = None;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let failed = match self.look_up(code::CHECK, Some(left.max(LAST_ANSWER)), name) {
                Ok(Some(binder)) => return Ok(binder),
                Ok(None) => None,
                Err(error @ Error::DeadlineExpired(_)) => Some(error),
                Err(error) if error.is_disconnection() => Some(error),
                Err(error) => return Err(error),
            };
            was_absent |= failed.is_none();
            if left.is_zero() {
                return Err(match failed {
                    // The manager was not there, or did not answer, all the time.
                    Some(error) if !was_absent => error,
                    _ => Error::NoSuchService(name.to_owned()),
                });
            }
            if watch.is_none() && failed.is_none() {
                let send = send.clone();
                let hear = move |_: &str, registered: Binder| {
                    // Full: that one was registered before.
                    let _ = send.try_send(registered);
                };
                watch = Some(self.on_registration(name, hear)?);
                continue;
            }
            // Without a manager there are no news to wait for.
            let pause = if failed.is_some() { Duration::from_millis(20) } else { ASK_AGAIN };
            // News or not, it looks again: the policy may be another one by now.
            _heard = news.recv_timeout(pause.min(left)).ok();
        }
    }

    /// Every service that this user may find, in the order of names.
    ///
    /// # Errors
    /// As [`CallBuilder::call`](crate::CallBuilder::call); [`Error::Protocol`] if the manager lists more than one can have.
    pub fn list(&self) -> Result<Vec<ServiceInfo>> {
        let (mut services, mut after) = (Vec::new(), String::new());
        loop {
            let page = self.connection.call(
                code::LIST_PAGE,
                None,
                |to| {
                    to.write_string16(&after)?;
                    to.write(&DumpPriority::ALL.bits())
                },
                |reply| Ok((reply.read()?, reply.read()?)),
            );
            let (page, more): (Vec<ServiceInfo>, Option<String>) = match page {
                Err(Error::UnknownTransaction { .. }) => return self.list_names(),
                page => page?,
            };
            let more = more.filter(|name| *name > after && !page.is_empty());
            let is_kept =
                |info: &ServiceInfo| info.name.len() <= MAX_NAME && info.interface.len() <= MAX_INTERFACE;
            if !page.iter().all(is_kept) || services.len() + page.len() > MAX_NAMES {
                return Err(Error::Protocol("the service manager lists more than one can have".into()));
            }
            services.extend(page);
            match more {
                // In order and with something in each page, so that no answer makes this go on for ever.
                Some(name) => after = name,
                None => return Ok(services),
            }
        }
    }

    /// What Android's own manager tells: names only.
    fn list_names(&self) -> Result<Vec<ServiceInfo>> {
        let names: Vec<String> = self.connection.call(
            code::LIST,
            None,
            |to| to.write(&DumpPriority::ALL.bits()),
            |reply| reply.read(),
        )?;
        Ok(names
            .into_iter()
            .map(|name| ServiceInfo {
                name,
                interface: String::new(),
                pid: 0,
                uid: None,
                context: Context::Framework,
                dump_priority: DumpPriority::DEFAULT,
            })
            .collect())
    }

    /// Calls `callback` with each object that is registered under a name from now on, the present
    /// one first, on a thread of the pool. Two calls never run at one time.
    ///
    /// # Errors
    /// As [`ServiceManager::check`].
    pub fn on_registration(
        &self,
        name: &str,
        callback: impl Fn(&str, Binder) + Send + Sync + 'static,
    ) -> Result<Watch> {
        check_name(name)?;
        let callback = Binder::new(Callback(Box::new(callback)));
        let id = self.connection.watch(name, callback)?;
        Ok(Watch { connection: Arc::downgrade(&self.connection), id })
    }

    /// The object of the process that registered a name, which tells what its engine did.
    ///
    /// # Errors
    /// [`Error::NoSuchService`] if the name is not registered or its process gave no such object;
    /// [`Error::UnknownTransaction`] from Android's own manager.
    pub fn process_of(&self, name: &str) -> Result<Process> {
        let found = self.look_up(code::PROCESS_OF, None, name)?;
        found.map(Process::wrap).ok_or_else(|| Error::NoSuchService(name.to_owned()))
    }

    /// Whether the manager's policy mentions a name: somebody means to register it.
    ///
    /// # Errors
    /// As [`CallBuilder::call`](crate::CallBuilder::call).
    pub fn is_declared(&self, name: &str) -> Result<bool> {
        self.connection.call(code::IS_DECLARED, None, |to| to.write_string16(name), |reply| reply.read())
    }

    /// The other processes that have a reference to an object of this one. A service without any may be taken back, and its
    /// process end, until somebody wants it again.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on engines that do not know, or if the object is another process's.
    pub fn clients_of(&self, binder: &Binder) -> Result<Clients> {
        self.connection.clients_of(binder)
    }

    /// The instances of an interface that the manager's policy names exactly: of `a.IFoo/default` it is `default`.
    ///
    /// # Errors
    /// As [`CallBuilder::call`](crate::CallBuilder::call).
    pub fn declared_instances(&self, interface: &str) -> Result<Vec<String>> {
        let write = |to: &mut Writer<'_>| to.write_string16(interface);
        self.connection.call(code::DECLARED_INSTANCES, None, write, |reply| reply.read())
    }

    /// Takes back every name that was registered through this.
    pub(crate) fn withdraw(&self) {
        self.connection.withdraw();
    }

    /// The manager's own object.
    ///
    /// # Errors
    /// If no manager answers.
    pub fn manager(&self) -> Result<Binder> {
        self.connection.manager()
    }
}
