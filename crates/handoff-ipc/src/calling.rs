//! Calls through a reference: to a node of this process, or to the engine that carries them to another.

use std::sync::Arc;

use crate::call::{CallOptions, OutCall};
use crate::code::{Code, DUMP, INTERFACE, PING};
use crate::death::DeathRegistration;
use crate::engine_kind::EngineKind;
use crate::object::{Binder, Reference};
use crate::parcel::{Reader, Writer};
use crate::{Error, Result, dispatch, local};

impl Binder {
    /// A synchronous call: `write` fills in the arguments, `read` takes the results.
    ///
    /// # Errors
    /// [`Error::Status`] if the service answered with an exception, [`Error::Dead`] if its process
    /// is gone, and whatever `write` or `read` return.
    #[inline]
    pub fn call<R>(
        &self,
        code: Code,
        write: impl FnOnce(&mut Writer<'_>) -> Result<()>,
        read: impl FnOnce(&mut Reader<'_>) -> Result<R>,
    ) -> Result<R> {
        self.call_with(CallOptions::default(), code, write, read)
    }

    /// [`Binder::call`] with options.
    #[inline]
    pub fn call_with<R>(
        &self,
        options: CallOptions,
        code: Code,
        write: impl FnOnce(&mut Writer<'_>) -> Result<()>,
        read: impl FnOnce(&mut Reader<'_>) -> Result<R>,
    ) -> Result<R> {
        self.transact(OutCall::new(code, options), write, |reply| {
            dispatch::read_status(reply)?;
            read(reply)
        })
    }

    /// A oneway call: returns when it is queued. Calls to one object are served one at a time in
    /// the order in which each sender made them.
    ///
    /// # Errors
    /// [`Error::OnewayFull`] if the object's process does not keep up.
    pub fn oneway(&self, code: Code, write: impl FnOnce(&mut Writer<'_>) -> Result<()>) -> Result<()> {
        let mut write = Some(write);
        let mut write = move |to: &mut Writer<'_>| write.take().map_or(Ok(()), |write| write(to));
        let call = OutCall { oneway: true, ..OutCall::of(code) };
        match &self.0 {
            Reference::Local(node) => local::oneway(node, &call, &mut write),
            Reference::Remote(remote) => remote.transact(&call, &mut write, &mut |_| Ok(())),
        }
    }

    /// A call whose reply has no exception header (the runtime's own transactions).
    #[inline]
    fn transact<R>(
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
        match &self.0 {
            Reference::Local(node) => local::transact(node, &call, &mut write, &mut read)?,
            Reference::Remote(remote) => remote.transact(&call, &mut write, &mut read)?,
        }
        result.ok_or_else(|| Error::Protocol("a reply was never read".into()))
    }

    /// Returns when the object's process has answered.
    ///
    /// # Errors
    /// As [`Binder::call`].
    pub fn ping(&self) -> Result<()> {
        self.transact(OutCall::of(PING), |_| Ok(()), |_| Ok(()))
    }

    /// The name of the object's interface.
    ///
    /// # Errors
    /// As [`Binder::call`].
    pub fn descriptor(&self) -> Result<String> {
        if let Reference::Local(node) = &self.0 {
            return Ok(node.service().descriptor().to_owned());
        }
        self.transact(OutCall::of(INTERFACE), |_| Ok(()), |reply| reply.read::<String>())
    }

    /// The service's state as text for people.
    ///
    /// # Errors
    /// As [`Binder::call`].
    pub fn dump(&self, args: &[String]) -> Result<String> {
        self.transact(OutCall::of(DUMP), |w| w.write_slice(args), |reply| reply.read::<String>())
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
///         self.0.call(1, |w| { w.write(&a)?; w.write(&b) }, |r| r.read())
///     }
/// }
/// ```
pub trait Proxy: Sized {
    /// Name of the interface that the object must have.
    const DESCRIPTOR: &'static str;

    /// Wraps a reference that is known to be of this interface.
    fn wrap(binder: Binder) -> Self;

    /// Asks the object for its interface and wraps it.
    ///
    /// # Errors
    /// [`Error::Protocol`] if it has another one; as [`Binder::call`] otherwise.
    fn from_binder(binder: Binder) -> Result<Self> {
        let found = binder.descriptor()?;
        if found == Self::DESCRIPTOR {
            Ok(Self::wrap(binder))
        } else {
            Err(Error::Protocol(format!("the object is a {found}, not a {}", Self::DESCRIPTOR)))
        }
    }
}
