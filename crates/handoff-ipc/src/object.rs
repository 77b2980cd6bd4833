//! Objects: what a service implements, the node that stands for it, and the reference through which it is called.
//!
//! A reference can travel in a parcel, and a parcel is what a service reads: these types know each other, and
//! nothing of how a call is carried. `calling.rs` makes calls through them, `local.rs` and the engines carry those.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use handoff_placement::Priority;

use crate::call::{Call, OutCall};
use crate::code::Code;
use crate::context::Context;
use crate::death::DeathRegistration;
use crate::disposal;
use crate::engine_kind::EngineKind;
use crate::identity::CallingIdentity;
use crate::interface::{self, Interfaces};
use crate::locked::lock;
use crate::oneway_queue::OnewayQueue;
use crate::parcel::{Reader, Writer};
use crate::scheduling::Scheduling;
use crate::shell_command::ShellCommand;
use crate::{Error, Result};

#[cfg(feature = "tokio")]
pub(crate) use self::asynchronous::Asynchronous;
#[cfg(feature = "tokio")]
pub use self::asynchronous::{AsyncService, Reply, Request, Response};

/// What a process offers to others: the server's side of an interface.
///
/// ```
/// use handoff_ipc::{Binder, Error, Request, Result, Service, Transaction};
///
/// struct Adder;
///
/// impl Service for Adder {
///     fn descriptor(&self) -> &str { "sample.IAdder" }
///     fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
///         let Transaction { data, reply, .. } = transaction;
///         match transaction.call.code() {
///             1 => {
///                 let (a, b): (i32, i32) = (data.read()?, data.read()?);
///                 reply.write(&a.wrapping_add(b))
///             }
///             _ => Err(transaction.unknown(self.descriptor())),
///         }
///     }
/// }
///
/// let adder = Binder::new(Adder);
/// let sum: i32 = adder.transaction(1).call(|data| { data.write(&2)?; data.write(&3) }, |reply| reply.read())?;
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

    /// Serves one transaction: reads its arguments, and writes its results. An `Err` of [`Error::Status`] reaches the caller as that
    /// exception. Any other reaches it as an exception with the error's text: [`Error::PermissionDenied`] as
    /// `Security`, [`Error::Unsupported`] as `UnsupportedOperation`, the rest as `IllegalState`. Only an unknown
    /// transaction, a request that cannot be read and a reply that is too large are failures of the transport.
    ///
    /// Of a oneway call nothing is returned, whatever is written.
    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()>;

    /// Answers `handoff service call NAME --dump`: text for people about the service's state.
    fn dump(&self, _args: &[String]) -> String {
        format!("{} has nothing to dump\n", self.descriptor())
    }

    /// Serves a command that somebody gives the object by hand, as `handoff service shell NAME ARGS` does, and gives its
    /// exit status, 0 for success. Only root and the user whose process this is get so far.
    fn shell_command(&self, command: &mut ShellCommand) -> i32 {
        command.refuse(self.descriptor())
    }

    /// Another object that adds to this one: what a vendor offers beside a standard interface.
    fn extension(&self) -> Option<Binder> {
        None
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

/// One transaction, as its service gets it: who calls, the arguments, and the reply.
///
/// The two parcels are fields, so that one can be read while the other is written.
pub struct Transaction<'a> {
    /// Who calls, and how.
    pub call: Call,
    /// The arguments, where they arrived.
    pub data: Reader<'a>,
    /// Where the results go. Of a oneway call nobody reads them.
    pub reply: Writer<'a>,
}

impl Transaction<'_> {
    /// Which transaction of the interface it is.
    #[inline]
    pub fn code(&self) -> Code {
        self.call.code
    }

    /// Who calls, as the engine knows it.
    #[inline]
    pub fn caller(&self) -> CallingIdentity {
        self.call.identity
    }

    /// The error of a service that has no transaction of this code.
    #[cold]
    pub fn unknown(&self, descriptor: &str) -> Error {
        Error::UnknownTransaction { descriptor: descriptor.to_owned(), code: self.code() }
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transaction").field(&self.call).finish()
    }
}

/// Services whose handlers are futures, and what a handler comes to.
#[cfg(feature = "tokio")]
mod asynchronous {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::runtime::Handle;

    use super::*;
    use crate::ExceptionCode;

    /// A service whose handlers are futures.
    ///
    /// A handler reads its arguments at once, from where they arrived, and returns what is left to do. Calls
    /// of different callers, and of one caller that does not wait, run at the same time; oneway calls to one
    /// object run one after the other, as everywhere.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use handoff_ipc::parcel::Writer;
    /// use handoff_ipc::{AsyncService, Binder, Error, Request, Response, Result};
    ///
    /// struct Kitchen;
    ///
    /// impl AsyncService for Kitchen {
    ///     fn descriptor(&self) -> &str { "sample.IKitchen" }
    ///     fn on_transact(self: Arc<Self>, request: &mut Request<'_>) -> Result<Response> {
    ///         match request.code() {
    ///             1 => {
    ///                 let minutes: i32 = request.data.read()?;
    ///                 Ok(Response::new(async move {
    ///                     tokio::time::sleep(Duration::from_millis(1)).await;
    ///                     Ok(move |reply: &mut Writer<'_>| reply.write(&(minutes * 2)))
    ///                 }))
    ///             }
    ///             _ => Err(request.unknown(self.descriptor())),
    ///         }
    ///     }
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let kitchen = Binder::new_async(Kitchen);
    /// let done: i32 = kitchen.transaction(1).call_async(|data| data.write(&21), |reply| reply.read()).await?;
    /// assert_eq!(done, 42);
    /// # Ok::<(), Error>(())
    /// # }).unwrap();
    /// ```
    pub trait AsyncService: Send + Sync + 'static {
        /// Name of the interface.
        fn descriptor(&self) -> &str;

        /// As [`Service::base_descriptors`].
        fn base_descriptors(&self) -> &[&str] {
            &[]
        }

        /// Reads the arguments of one transaction, and gives what answers it. An error is the answer, as of
        /// [`Service::on_transact`].
        ///
        /// # Errors
        /// What the caller is to be told.
        fn on_transact(self: Arc<Self>, request: &mut Request<'_>) -> Result<Response>;

        /// As [`Service::dump`].
        fn dump(&self, _args: &[String]) -> String {
            format!("{} has nothing to dump\n", self.descriptor())
        }

        /// As [`Service::shell_command`], on a thread of the runtime that may wait.
        fn shell_command(&self, command: &mut ShellCommand) -> i32 {
            command.refuse(self.descriptor())
        }
    }

    /// One transaction, as an [`AsyncService`] gets it: a [`Transaction`] whose reply is written later.
    pub struct Request<'a> {
        /// Who calls, and how.
        pub call: Call,
        /// The arguments, where they arrived: to be read before the handler returns.
        pub data: Reader<'a>,
    }

    impl Request<'_> {
        /// Which transaction of the interface it is.
        pub fn code(&self) -> Code {
            self.call.code
        }

        /// Who calls, as the engine knows it.
        pub fn caller(&self) -> CallingIdentity {
            self.call.identity
        }

        /// The error of a service that has no transaction of this code.
        #[cold]
        pub fn unknown(&self, descriptor: &str) -> Error {
            Error::UnknownTransaction { descriptor: descriptor.to_owned(), code: self.code() }
        }
    }

    impl fmt::Debug for Request<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_tuple("Request").field(&self.call).finish()
        }
    }

    type Written = Box<dyn FnOnce(&mut Writer<'_>) -> Result<()> + Send>;

    /// What an [`AsyncService`] answers with: a future of the reply.
    pub struct Response(Pin<Box<dyn Future<Output = Result<Reply>> + Send>>);

    impl Response {
        /// From a future that ends in what writes the results into the reply.
        pub fn new<W>(work: impl Future<Output = Result<W>> + Send + 'static) -> Self
        where
            W: FnOnce(&mut Writer<'_>) -> Result<()> + Send + 'static,
        {
            Response(Box::pin(async move {
                let write = work.await?;
                Ok(Reply(Box::new(move |reply: &mut Writer<'_>| {
                    reply.write_i32(ExceptionCode::None as i32)?;
                    write(reply)
                })))
            }))
        }

        /// A reply that needs no waiting.
        pub fn ready(write: impl FnOnce(&mut Writer<'_>) -> Result<()> + Send + 'static) -> Self {
            Response::new(std::future::ready(Ok(write)))
        }

        /// A reply of the runtime itself, which has no header.
        pub(crate) fn bare(write: impl FnOnce(&mut Writer<'_>) -> Result<()> + Send + 'static) -> Self {
            Response(Box::pin(std::future::ready(Ok(Reply(Box::new(write))))))
        }

        /// A reply of the runtime itself without anything in it, once something is done.
        pub(crate) fn bare_after(work: impl Future<Output = Result<()>> + Send + 'static) -> Self {
            Response(Box::pin(async { work.await.map(|()| Reply(Box::new(|_| Ok(())))) }))
        }

        pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Reply>> {
            self.0.as_mut().poll(context)
        }
    }

    impl fmt::Debug for Response {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Response")
        }
    }

    /// What a handler came to, ready to be written.
    pub struct Reply(Written);

    impl Reply {
        pub(crate) fn write(self, reply: &mut Writer<'_>) -> Result<()> {
            (self.0)(reply)
        }
    }

    impl fmt::Debug for Reply {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Reply")
        }
    }

    /// A service and the runtime that its handlers run on.
    #[derive(Clone)]
    pub(crate) struct Asynchronous {
        pub(crate) service: Arc<dyn AsyncService>,
        pub(crate) runtime: Handle,
    }

    impl Asynchronous {
        pub(crate) fn service(&self) -> &Arc<dyn AsyncService> {
            &self.service
        }

        pub(crate) fn runtime(&self) -> &Handle {
            &self.runtime
        }
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

    /// For objects that stand for who sent them, since the end of their process ends what it holds here.
    ///
    /// # Errors
    /// If the object is of another process than `who`, as far as its engine can tell.
    pub(crate) fn check_owner(&self, who: CallingIdentity) -> Result<()> {
        let owner = match &self.0 {
            Reference::Local(_) => Some(CallingIdentity::own()),
            Reference::Remote(remote) => remote.owner(),
        };
        if owner.is_none_or(|owner| owner.is_same_process(who)) {
            return Ok(());
        }
        let what = "the object is of another process, whose end is not the caller's: send one of your own";
        Err(Error::PermissionDenied(what.into()))
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

/// Fills in a request; called at most once.
pub type WriteFn<'a> = &'a mut dyn FnMut(&mut Writer<'_>) -> Result<()>;

/// Takes a reply; called at most once.
pub type ReadFn<'a> = &'a mut dyn FnMut(&mut Reader<'_>) -> Result<()>;

/// Hears whether a process is frozen.
pub type FreezeNews = Arc<dyn Fn(bool) + Send + Sync>;

/// An object of another process, as one engine sees it.
pub trait Remote: Send + Sync {
    /// The engine.
    fn engine(&self) -> EngineKind;

    /// Carries one transaction there, and its reply back.
    fn transact(&self, call: &OutCall, write: WriteFn<'_>, read: ReadFn<'_>) -> Result<()>;

    /// An error if the call means an interface that the object does not have; `transact` begins with it.
    fn check_interface(&self, call: &OutCall) -> Result<()>;

    /// The object's process, where the engine knows it.
    fn owner(&self) -> Option<CallingIdentity>;

    /// Runs `died` once when the object's process ends.
    fn link_to_death(&self, died: Box<dyn FnOnce() + Send>) -> Result<DeathRegistration>;

    /// Runs `changed` when the object's process is frozen or thawed.
    fn on_freeze(&self, _changed: FreezeNews) -> Result<DeathRegistration> {
        Err(Error::Unsupported { engine: self.engine().name(), what: "tell when a process is frozen".into() })
    }

    /// False once the object's process is known to be gone.
    fn is_alive(&self) -> bool;

    /// Lets an engine know its own objects again when they are sent on.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// Oneway calls that may wait for one object.
pub(crate) const ONEWAY_LIMIT: usize = 4096;

/// An object of this process.
pub(crate) struct LocalNode {
    id: u64,
    service: Arc<dyn Service>,
    scheduling: Scheduling,
    interfaces: Interfaces,
    // The number of a context once it is registered in one.
    context: AtomicU8,
    // Its descriptor as text of a parcel: what calls on the driver begin with.
    token: OnceLock<Box<[u8]>>,
    queue: Mutex<OnewayQueue>,
    // Times that a process was given its first reference.
    given: AtomicU64,
    // Those who were introduced to it and have not been given it.
    to_come: AtomicUsize,
    // What serves it without a thread.
    #[cfg(feature = "tokio")]
    asynchronous: Option<Asynchronous>,
}

/// An object of this process that somebody was introduced to: counted as about to be given until this is dropped. That is
/// after it was exported, so that whoever asks in between finds a holder.
pub(crate) struct Promised(Arc<LocalNode>);

impl Promised {
    pub(crate) fn new(node: Arc<LocalNode>) -> Self {
        node.to_come.fetch_add(1, Ordering::Relaxed);
        Promised(node)
    }

    pub(crate) fn node(&self) -> &Arc<LocalNode> {
        &self.0
    }
}

impl Drop for Promised {
    fn drop(&mut self) {
        // Whoever sees this sees the export before it.
        self.0.to_come.fetch_sub(1, Ordering::Release);
    }
}

/// In place of a service that is dropped elsewhere.
struct Gone;

impl Service for Gone {
    fn descriptor(&self) -> &str {
        ""
    }

    fn on_transact(&self, _: &mut Transaction<'_>) -> Result<()> {
        Err(Error::Dead)
    }
}

/// A poller may have the last reference, and a service's own `drop` may take as long as it likes.
impl Drop for LocalNode {
    fn drop(&mut self) {
        let Some(user) = disposal::polled_user() else { return };
        let service = std::mem::replace(&mut self.service, Arc::new(Gone));
        let queue = std::mem::take(&mut *lock(&self.queue));
        #[cfg(feature = "tokio")]
        let queue = (queue, self.asynchronous.take());
        disposal::drop_later(user, (service, queue));
    }
}

impl LocalNode {
    pub(crate) fn new(service: Arc<dyn Service>) -> Arc<Self> {
        Arc::new(LocalNode::of(service))
    }

    /// An object that tasks of a runtime serve. `blocking` is how a thread calls it.
    #[cfg(feature = "tokio")]
    pub(crate) fn with_tasks(blocking: Arc<dyn Service>, asynchronous: Asynchronous) -> Arc<Self> {
        let mut node = LocalNode::of(blocking);
        node.asynchronous = Some(asynchronous);
        Arc::new(node)
    }

    /// How tasks serve it, if they do.
    #[cfg(feature = "tokio")]
    pub(crate) fn asynchronous(&self) -> Option<&Asynchronous> {
        self.asynchronous.as_ref()
    }

    fn of(service: Arc<dyn Service>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        LocalNode {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            scheduling: service.scheduling(),
            interfaces: Interfaces::of(service.descriptor(), service.base_descriptors()),
            service,
            context: AtomicU8::new(u8::MAX),
            token: OnceLock::new(),
            queue: Mutex::default(),
            given: AtomicU64::new(0),
            to_come: AtomicUsize::new(0),
            #[cfg(feature = "tokio")]
            asynchronous: None,
        }
    }

    /// A number that no other object of this process has or had.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn note_given(&self) {
        self.given.fetch_add(1, Ordering::Relaxed);
    }

    /// How many are about to be given it: they were introduced, and it is not exported to them yet.
    pub(crate) fn to_come(&self) -> usize {
        self.to_come.load(Ordering::Acquire)
    }

    pub(crate) fn times_given(&self) -> u64 {
        self.given.load(Ordering::Relaxed)
    }

    pub(crate) fn service(&self) -> &Arc<dyn Service> {
        &self.service
    }

    /// What is stated of it to those whom it is given to.
    pub(crate) fn interfaces(&self) -> Interfaces {
        self.interfaces
    }

    /// An error if the call means an interface that the object does not have.
    #[inline]
    pub(crate) fn check_interface(&self, call: &OutCall) -> Result<()> {
        match call.interface {
            Some(meant) if !self.interfaces.contains(meant) => {
                let further = self.service.base_descriptors().contains(&meant.descriptor());
                if further { Ok(()) } else { Err(interface::wrong(meant, self.service.descriptor())) }
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn scheduling(&self) -> &Scheduling {
        &self.scheduling
    }

    /// The service's descriptor, as `encode` puts it: once.
    pub(crate) fn token(&self, encode: impl FnOnce(&str) -> Box<[u8]>) -> &[u8] {
        self.token.get_or_init(|| encode(self.service.descriptor()))
    }

    /// It was registered in a context, whose rules hold from now on.
    pub(crate) fn live_in(&self, context: Context) {
        self.context.store(context as u8, Ordering::Relaxed);
    }

    /// A service of a context gives it away: it lives there, too, unless it was registered elsewhere.
    pub(crate) fn adopt(&self, context: Context) {
        // Fails where it has one.
        let _ = self.context.compare_exchange(u8::MAX, context as u8, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The context that it was registered in, or whose service gave it away.
    pub(crate) fn context(&self) -> Option<Context> {
        Context::from_number(self.context.load(Ordering::Relaxed))
    }

    /// What a call by `caller` is served at, on a thread whose own priority is `base`: as the service
    /// wants it, of what its context has callers lend.
    pub(crate) fn effective(&self, caller: Option<Priority>, base: Priority) -> Priority {
        let lent = match caller {
            Some(caller) if caller.policy.is_realtime() && self.lends_nice_only() => {
                Some(Priority::other(caller.nice))
            }
            other => other,
        };
        self.scheduling.effective(lent, base)
    }

    fn lends_nice_only(&self) -> bool {
        self.context().is_some_and(|context| !context.lends_realtime())
    }

    /// Its oneway calls that wait.
    pub(crate) fn oneway_queue(&self) -> &Mutex<OnewayQueue> {
        &self.queue
    }
}
