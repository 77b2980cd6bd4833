//! Objects: what a service implements, and the reference through which it is called.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use handoff_placement::Priority;

use crate::dispatch::{self, DUMP, FIRST_CALL, INTERFACE, LAST_CALL, PING};
use crate::engine::{DeathRegistration, EngineKind, OutCall, Remote};
use crate::interface::InterfaceId;
use crate::local::{self, LocalNode};
use crate::parcel::{Reader, Writer};
use crate::{Error, Result};

/// Number of a transaction of an interface: AIDL counts from 1 in the order of declaration.
pub type Code = u32;

/// What a process offers to others: the server's side of an interface.
///
/// ```
/// use handoff_ipc::parcel::{Reader, Writer};
/// use handoff_ipc::{Binder, Call, Code, Error, Result, Service};
///
/// struct Adder;
///
/// impl Service for Adder {
///     fn descriptor(&self) -> &str { "sample.IAdder" }
///     fn on_transact(&self, _: &Call<'_>, code: Code, data: &mut Reader<'_>, reply: &mut Writer<'_>) -> Result<()> {
///         match code {
///             1 => {
///                 let (a, b): (i32, i32) = (data.read()?, data.read()?);
///                 reply.write(&a.wrapping_add(b))
///             }
///             _ => Err(Error::UnknownTransaction { descriptor: self.descriptor().into(), code }),
///         }
///     }
/// }
///
/// let adder = Binder::new(Adder);
/// let sum = adder.call(1, |w| { w.write(&2)?; w.write(&3) }, |r| r.read::<i32>())?;
/// assert_eq!(sum, 5);
/// # Ok::<(), Error>(())
/// ```
pub trait Service: Send + Sync + 'static {
    /// Name of the interface, such as `android.os.IServiceManager`.
    fn descriptor(&self) -> &str;

    /// Descriptors of the interfaces that this one extends, nearest first: the object may be used as each of them.
    /// HIDL's interfaces extend others, AIDL's do not.
    fn base_descriptors(&self) -> &[&str] {
        &[]
    }

    /// Serves one transaction. Results go to `reply`. An `Err` of [`Error::Status`] reaches the caller as that
    /// exception. Any other reaches it as an exception with the error's text: [`Error::PermissionDenied`] as
    /// `Security`, [`Error::Unsupported`] as `UnsupportedOperation`, the rest as `IllegalState`. Only an unknown
    /// transaction, a request that cannot be read and a reply that is too large are failures of the transport.
    ///
    /// Of a oneway call nothing is returned, whatever is written.
    fn on_transact(
        &self,
        call: &Call<'_>,
        code: Code,
        data: &mut Reader<'_>,
        reply: &mut Writer<'_>,
    ) -> Result<()>;

    /// Answers `handoff service call NAME --dump`: text for people about the service's state.
    fn dump(&self, _args: &[String]) -> String {
        format!("{} has nothing to dump\n", self.descriptor())
    }

    /// How its threads are scheduled.
    fn scheduling(&self) -> Scheduling {
        Scheduling::default()
    }

    /// Whether each call is to come with its caller's security context. The kernel refuses calls where
    /// no security module is active that could tell it. Asked once, when the object is first given away.
    fn wants_security_context(&self) -> bool {
        false
    }
}

/// How the threads that serve an object are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduling {
    /// The least urgent priority that a call is served at; `None` for the thread's own.
    pub floor: Option<Priority>,
    /// A caller that is more urgent lends its policy, priority and nice to the thread.
    pub inherit: bool,
    /// The handlers neither start threads nor read their own CPU mask, so that a thread which
    /// waits beside its caller need not be given its whole mask back around each handler: saves
    /// two system calls on a blocked call.
    pub leaf: bool,
}

impl Default for Scheduling {
    fn default() -> Self {
        Scheduling { floor: None, inherit: true, leaf: false }
    }
}

impl Scheduling {
    /// What a call by `caller` is served at, on a thread whose own priority is `base`.
    pub fn effective(&self, caller: Option<Priority>, base: Priority) -> Priority {
        let floor = match self.floor {
            Some(floor) if floor.more_urgent_than(base) => floor,
            _ => base,
        };
        match caller {
            Some(caller) if self.inherit && caller.more_urgent_than(floor) => caller,
            _ => floor,
        }
    }
}

/// Who calls, as the kernel vouches for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallingIdentity {
    /// Process id in this process's namespace; 0 where it is not visible here.
    pub pid: u32,
    /// Effective user id when the connection was made.
    pub uid: u32,
    /// Effective group id when the connection was made.
    pub gid: u32,
}

impl CallingIdentity {
    /// This process, as it was when it was first asked.
    pub(crate) fn own_cached() -> Self {
        static OWN: std::sync::LazyLock<CallingIdentity> = std::sync::LazyLock::new(CallingIdentity::own);
        *OWN
    }

    /// This process.
    pub fn own() -> Self {
        CallingIdentity {
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }
}

/// One transaction, seen by the service.
#[derive(Debug)]
pub struct Call<'a> {
    pub(crate) identity: CallingIdentity,
    pub(crate) engine: EngineKind,
    // Packed, and looked into when somebody asks; 0 where the engine does not carry it.
    pub(crate) priority: u32,
    pub(crate) oneway: bool,
    pub(crate) deadline: Option<Instant>,
    pub(crate) told: Option<Box<Told>>,
    pub(crate) lifetime: std::marker::PhantomData<&'a ()>,
}

/// What only the kernel's driver tells of a call, and seldom.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) work_source: Option<u32>,
    pub(crate) security_context: Option<String>,
}

impl Call<'_> {
    /// Who calls.
    pub fn identity(&self) -> CallingIdentity {
        self.identity
    }

    /// Which engine brought the call.
    pub fn engine(&self) -> EngineKind {
        self.engine
    }

    /// The caller's own scheduling when it called; `None` where the engine does not carry it.
    pub fn caller_priority(&self) -> Option<Priority> {
        Priority::unpack(self.priority)
    }

    /// True if nobody waits for the result.
    pub fn is_oneway(&self) -> bool {
        self.oneway
    }

    /// The user on whose account the caller works, where it says so ([`CallOptions::work_source`]); the
    /// `binder` engine carries it.
    pub fn work_source(&self) -> Option<u32> {
        self.told.as_ref()?.work_source
    }

    /// The caller's security context, such as SELinux's, for services that ask for it with
    /// [`Service::wants_security_context`]; the `binder` engine tells it.
    pub fn security_context(&self) -> Option<&str> {
        self.told.as_ref()?.security_context.as_deref()
    }

    /// When the caller stops to wait. A service that works long may look at it and give up.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

/// How one call is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallOptions {
    /// The call fails with [`Error::DeadlineExpired`] when its reply has not come by then.
    pub deadline: Option<Duration>,
    /// What the call and its reply carry is secret: on the `binder` engine, the kernel and this process clear
    /// their buffers when they are freed.
    pub clear_buffers: bool,
    /// The user on whose account this is done, if it is not the caller's own: a uid that the `binder`
    /// engine carries, as Android's battery statistics want it.
    pub work_source: Option<u32>,
    /// The interface that the caller means the object to have: another one is refused with
    /// [`Error::WrongInterface`] and nothing is sent. Generated proxies state theirs.
    pub interface: Option<InterfaceId>,
}

impl CallOptions {
    /// With a deadline.
    pub fn within(deadline: Duration) -> Self {
        CallOptions { deadline: Some(deadline), ..CallOptions::default() }
    }

    /// Of an interface that the caller means.
    pub const fn of(interface: InterfaceId) -> Self {
        CallOptions { deadline: None, clear_buffers: false, work_source: None, interface: Some(interface) }
    }
}

/// A counted reference to an object, in this process or another.
#[derive(Clone)]
pub struct Binder(pub(crate) Reference);

#[derive(Clone)]
pub(crate) enum Reference {
    Local(Arc<LocalNode>),
    Remote(Arc<dyn Remote>),
}

impl Binder {
    /// A new object of this process.
    pub fn new(service: impl Service) -> Self {
        Binder::from_arc(Arc::new(service))
    }

    /// A new object of this process, whose service is used elsewhere too.
    pub fn from_arc(service: Arc<dyn Service>) -> Self {
        Binder(Reference::Local(LocalNode::new(service)))
    }

    pub(crate) fn from_remote(remote: Arc<dyn Remote>) -> Self {
        Binder(Reference::Remote(remote))
    }

    /// True if the object is served by this process.
    pub fn is_local(&self) -> bool {
        matches!(self.0, Reference::Local(_))
    }

    /// Which engine carries its calls.
    pub fn engine(&self) -> EngineKind {
        match &self.0 {
            Reference::Local(_) => EngineKind::Local,
            Reference::Remote(remote) => remote.engine(),
        }
    }

    /// The service itself, if it lives in this process.
    pub fn local_service(&self) -> Option<&Arc<dyn Service>> {
        match &self.0 {
            Reference::Local(node) => Some(node.service()),
            Reference::Remote(_) => None,
        }
    }

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
        self.oneway_with(CallOptions::default(), code, write)
    }

    /// [`Binder::oneway`] with options. A deadline means nothing here: the call returns when it is queued.
    ///
    /// # Errors
    /// As [`Binder::oneway`].
    pub fn oneway_with(
        &self,
        options: CallOptions,
        code: Code,
        write: impl FnOnce(&mut Writer<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut write = Some(write);
        let mut write = move |to: &mut Writer<'_>| write.take().map_or(Ok(()), |write| write(to));
        let call = OutCall { oneway: true, deadline: None, ..OutCall::new(code, options) };
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

    /// [`Binder::ping`], for so long at the most.
    pub(crate) fn ping_within(&self, deadline: Duration) -> Result<()> {
        self.transact(OutCall::new(PING, CallOptions::within(deadline)), |_| Ok(()), |_| Ok(()))
    }

    /// The name of the object's interface.
    ///
    /// # Errors
    /// As [`Binder::call`].
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
    /// [`Error::WrongInterface`] if it has another one; as [`Binder::call`] otherwise.
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
            Reference::Remote(remote) => remote.on_freeze(std::sync::Arc::new(changed)),
        }
    }

    /// False once the object's process is known to be gone.
    pub fn is_alive(&self) -> bool {
        match &self.0 {
            Reference::Local(_) => true,
            Reference::Remote(remote) => remote.is_alive(),
        }
    }

    /// A number that is equal for two references to one object, as long as both are held.
    pub fn identity(&self) -> usize {
        match &self.0 {
            Reference::Local(node) => Arc::as_ptr(node) as usize,
            Reference::Remote(remote) => Arc::as_ptr(remote).cast::<()>() as usize,
        }
    }
}

impl PartialEq for Binder {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Binder {}

impl fmt::Debug for Binder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reference::Local(node) => write!(f, "Binder(local {})", node.service().descriptor()),
            Reference::Remote(remote) => {
                write!(f, "Binder({} object {:#x})", remote.engine().name(), self.identity())
            }
        }
    }
}

/// The client's side of an interface: a typed wrapper of a [`Binder`].
///
/// ```
/// use handoff_ipc::{Binder, CallOptions, Proxy, Result};
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
///         let options = CallOptions::of(Self::INTERFACE);
///         self.0.call_with(options, 1, |w| { w.write(&a)?; w.write(&b) }, |r| r.read())
///     }
/// }
/// ```
pub trait Proxy: Sized {
    /// Name of the interface that the object must have.
    const DESCRIPTOR: &'static str;

    /// The interface as calls state it ([`CallOptions::interface`]).
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

/// True if `code` may be one of an interface's own transactions.
pub fn is_user_code(code: Code) -> bool {
    (FIRST_CALL..=LAST_CALL).contains(&code)
}
