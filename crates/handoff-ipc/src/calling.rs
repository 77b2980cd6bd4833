//! Calls through a reference: to a node of this process, or to the engine that carries them to another.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use crate::call::OutCall;
use crate::code::{Code, DUMP, EXTENSION, INTERFACE, PING};
use crate::death::DeathRegistration;
use crate::engine_kind::EngineKind;
use crate::interface::InterfaceId;
use crate::object::{Binder, ReadFn, Reference, WriteFn};
use crate::parcel::{ParcelData, Reader, Writer};
use crate::{Error, Result, dispatch, local};

#[cold]
fn never_read() -> Error {
    Error::Protocol("a reply was never read".into())
}

impl Binder {
    /// A transaction of this number, to be called with the options that follow.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use handoff_ipc::{Binder, ParcelService};
    /// # let object = Binder::new(ParcelService::new("sample.IEcho", |_, request| Ok(Some(request))));
    /// let echo: i32 = object
    ///     .transaction(1)
    ///     .deadline(Duration::from_millis(100))
    ///     .call(|data| data.write(&7), |reply| reply.read())?;
    /// assert_eq!(echo, 7);
    /// object.transaction(1).oneway(|data| data.write(&7))?;
    /// # Ok::<(), handoff_ipc::Error>(())
    /// ```
    #[inline]
    pub fn transaction(&self, code: Code) -> CallBuilder<'_> {
        CallBuilder { binder: self, call: OutCall::of(code) }
    }

    /// A call whose reply has no exception header (the runtime's own transactions).
    #[inline]
    pub(crate) fn transact<R>(
        &self,
        call: OutCall,
        write: impl FnOnce(&mut Writer<'_>) -> Result<()>,
        read: impl FnOnce(&mut Reader<'_>) -> Result<R>,
    ) -> Result<R> {
        let (mut write, mut read, mut result) = (Some(write), Some(read), None);
        let mut write = |to: &mut Writer<'_>| write.take().map_or(Ok(()), |write| write(to));
        let mut read = |from: &mut Reader<'_>| {
            if let Some(read) = read.take() {
                result = Some(read(from)?);
            }
            Ok(())
        };
        self.carry(&call, &mut write, &mut read)?;
        result.ok_or_else(never_read)
    }

    #[inline]
    fn carry(&self, call: &OutCall, write: WriteFn<'_>, read: ReadFn<'_>) -> Result<()> {
        match &self.0 {
            Reference::Local(node) => local::transact(node, call, write, read),
            Reference::Remote(remote) => remote.transact(call, write, read),
        }
    }

    /// Returns when the object's process has answered.
    ///
    /// # Errors
    /// As [`CallBuilder::call`].
    pub fn ping(&self) -> Result<()> {
        self.transact(OutCall::of(PING), |_| Ok(()), |_| Ok(()))
    }

    /// [`Binder::ping`], for so long at the most.
    pub(crate) fn ping_within(&self, deadline: Duration) -> Result<()> {
        let call = OutCall { deadline: Some(deadline), ..OutCall::of(PING) };
        self.transact(call, |_| Ok(()), |_| Ok(()))
    }

    /// The name of the object's interface.
    ///
    /// # Errors
    /// As [`CallBuilder::call`].
    pub fn descriptor(&self) -> Result<String> {
        match &self.0 {
            Reference::Local(node) => Ok(node.service().descriptor().to_owned()),
            Reference::Remote(_) => {
                self.transact(OutCall::of(INTERFACE), |_| Ok(()), |reply| reply.read::<String>())
            }
        }
    }

    /// An error unless the object has this interface, or one that extends it. On the `shm` engine the object's owner
    /// said so when it gave the object away; on the `binder` engine it is asked once.
    ///
    /// # Errors
    /// [`Error::WrongInterface`] if it has another one; as [`CallBuilder::call`] otherwise.
    pub fn check_interface(&self, interface: InterfaceId) -> Result<()> {
        let call = OutCall { interface: Some(interface), ..OutCall::default() };
        match &self.0 {
            Reference::Local(node) => node.check_interface(&call),
            Reference::Remote(remote) => remote.check_interface(&call),
        }
    }

    /// The service's state as text for people.
    ///
    /// # Errors
    /// As [`CallBuilder::call`].
    pub fn dump(&self, args: &[String]) -> Result<String> {
        self.transact(OutCall::of(DUMP), |w| w.write_slice(args), |reply| reply.read::<String>())
    }

    /// The object that adds to this one ([`Service::extension`](crate::Service::extension)), if there is one.
    ///
    /// # Errors
    /// As [`CallBuilder::call`].
    pub fn extension(&self) -> Result<Option<Binder>> {
        match self.transact(OutCall::of(EXTENSION), |_| Ok(()), |reply| reply.read_binder()) {
            // Of an older Handoff.
            Err(Error::UnknownTransaction { .. }) => Ok(None),
            found => found,
        }
    }

    /// Calls `died` once, on a thread of the pool, when the process of the object ends; at once if
    /// it already has. Dropping what is returned takes the recipient back.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an object of this process, which cannot outlive it.
    pub fn link_to_death(&self, died: impl FnOnce() + Send + 'static) -> Result<DeathRegistration> {
        match &self.0 {
            Reference::Local(_) => Err(Error::Unsupported {
                engine: EngineKind::Local.name(),
                what: "report the death of an object of this very process".into(),
            }),
            Reference::Remote(remote) => remote.link_to_death(Box::new(died)),
        }
    }

    /// Calls `changed` with true when the object's process is frozen, and with false when it is thawed,
    /// on a thread of the pool; once at the beginning with how things are. Dropping what is returned
    /// takes it back.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the engine tells no such thing: all but the kernel's driver of
    /// Linux 6.12 and later.
    pub fn on_freeze(&self, changed: impl Fn(bool) + Send + Sync + 'static) -> Result<DeathRegistration> {
        match &self.0 {
            Reference::Local(_) => Err(Error::Unsupported {
                engine: EngineKind::Local.name(),
                what: "tell that this very process is frozen".into(),
            }),
            Reference::Remote(remote) => remote.on_freeze(Arc::new(changed)),
        }
    }

    /// False once the object's process is known to be gone.
    pub fn is_alive(&self) -> bool {
        match &self.0 {
            Reference::Local(_) => true,
            Reference::Remote(remote) => remote.is_alive(),
        }
    }
}

/// A call to be made ([`Binder::transaction`]): options, then one of `call`, `oneway` and `call_async`.
#[derive(Debug, Clone, Copy)]
#[must_use = "options alone call nothing: end with `call`, `oneway` or `call_async`"]
pub struct CallBuilder<'a> {
    pub(crate) binder: &'a Binder,
    pub(crate) call: OutCall,
}

impl CallBuilder<'_> {
    /// The call fails with [`Error::DeadlineExpired`] when its reply has not come by then; `None` waits for ever. It
    /// means nothing to a oneway call, which returns when it is queued.
    #[inline]
    pub fn deadline(mut self, deadline: impl Into<Option<Duration>>) -> Self {
        self.call.deadline = deadline.into();
        self
    }

    /// What the call and its reply carry is secret, and overwritten as soon as the call is over: on the `binder` engine by
    /// the kernel and by this process, in their buffers; on `shm` in the shared memory, by this process for a call that it
    /// waits for, and by the service otherwise, which also overwrites its own copy of a small request. A call that was given
    /// up is overwritten before its memory carries another one. On the `local` and `rpc` engines it changes nothing.
    #[inline]
    pub fn clear_buffers(mut self) -> Self {
        self.call.clear_buffers = true;
        self
    }

    /// The user on whose account this is done, if it is not the caller's own: a uid that the `binder` engine
    /// carries, as Android's battery statistics want it.
    #[inline]
    pub fn work_source(mut self, uid: u32) -> Self {
        self.call.work_source = Some(uid);
        self
    }

    /// The interface that the caller means the object to have: another one is refused with
    /// [`Error::WrongInterface`], and nothing is sent. Generated proxies state theirs.
    #[inline]
    pub fn interface(mut self, interface: impl Into<Option<InterfaceId>>) -> Self {
        self.call.interface = interface.into();
        self
    }

    /// A synchronous call: `write` fills in the arguments, `read` takes the results.
    ///
    /// # Errors
    /// [`Error::Status`] if the service answered with an exception, [`Error::Dead`] if its process
    /// is gone, and whatever `write` or `read` return.
    #[inline]
    pub fn call<R>(
        self,
        write: impl FnOnce(&mut Writer<'_>) -> Result<()>,
        read: impl FnOnce(&mut Reader<'_>) -> Result<R>,
    ) -> Result<R> {
        self.binder.transact(self.call, write, |reply| {
            dispatch::read_status(reply)?;
            read(reply)
        })
    }

    /// Carries a parcel, whose place the whole reply takes, the exception in front of it among it: for runtimes of other
    /// languages, which read that by themselves.
    ///
    /// # Errors
    /// What the transport or the callee's runtime reports; then it holds what was sent, or nothing.
    #[inline]
    pub fn exchange(self, parcel: &mut ParcelData) -> Result<()> {
        // Received after it was sent.
        let parcel = RefCell::new(parcel);
        // Dropped after the call: the end of an object may call, which the reply's place is not for.
        let (mut sent, mut came) = (None, false);
        let mut write = |to: &mut Writer<'_>| parcel.borrow().send(to);
        let mut read = |from: &mut Reader<'_>| {
            came = true;
            let mut parcel = parcel.borrow_mut();
            if parcel.has_objects() {
                sent = Some(parcel.take_objects());
            }
            parcel.refill(from)
        };
        self.binder.carry(&self.call, &mut write, &mut read)?;
        if came { Ok(()) } else { Err(never_read()) }
    }

    /// A oneway call: returns when it is queued. Calls to one object are served one at a time in
    /// the order in which each sender made them.
    ///
    /// # Errors
    /// [`Error::OnewayFull`] if the object's process does not keep up.
    pub fn oneway(self, write: impl FnOnce(&mut Writer<'_>) -> Result<()>) -> Result<()> {
        let mut write = Some(write);
        let mut write = move |to: &mut Writer<'_>| write.take().map_or(Ok(()), |write| write(to));
        let call = OutCall { oneway: true, deadline: None, ..self.call };
        match &self.binder.0 {
            Reference::Local(node) => local::oneway(node, &call, &mut write),
            Reference::Remote(remote) => remote.transact(&call, &mut write, &mut |_| Ok(())),
        }
    }
}

/// The client's side of an interface: a typed wrapper of a [`Binder`].
///
/// ```
/// use handoff_ipc::{Binder, Proxy, Result};
///
/// struct AdderProxy(Binder);
///
/// impl Proxy for AdderProxy {
///     const DESCRIPTOR: &'static str = "sample.IAdder";
///     fn wrap(binder: Binder) -> Self { AdderProxy(binder) }
/// }
///
/// impl AdderProxy {
///     fn add(&self, a: i32, b: i32) -> Result<i32> {
///         // An object of another interface is refused.
///         let add = self.0.transaction(1).interface(Self::INTERFACE);
///         add.call(|data| { data.write(&a)?; data.write(&b) }, |reply| reply.read())
///     }
/// }
/// ```
pub trait Proxy: Sized {
    /// Name of the interface that the object must have.
    const DESCRIPTOR: &'static str;

    /// The interface as calls state it ([`CallBuilder::interface`]).
    const INTERFACE: InterfaceId = InterfaceId::new(Self::DESCRIPTOR);

    /// Wraps a reference. Calls of a generated proxy to an object of another interface fail with
    /// [`Error::WrongInterface`].
    fn wrap(binder: Binder) -> Self;

    /// Checks the object's interface and wraps it.
    ///
    /// # Errors
    /// As [`Binder::check_interface`].
    fn from_binder(binder: Binder) -> Result<Self> {
        binder.check_interface(Self::INTERFACE)?;
        Ok(Self::wrap(binder))
    }
}
