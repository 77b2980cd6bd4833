//! The asynchronous side of calls: futures in place of threads that wait.
//!
//! On the `shm` engine a call that waits costs a slot and a waker, a handler that waits costs a task:
//! see `shm/call/outstanding.rs` and `shm/call/tasks.rs`. The kernel's driver ties a transaction to the thread that
//! makes it and to the thread that serves it, so there each takes a thread of the runtime's blocking pool.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::dispatch;
use crate::engine::{EngineKind, OutCall, Remote};
use crate::local::{self, LocalNode};
use crate::object::{Binder, Call, CallOptions, Code, Reference, Scheduling, Service};
use crate::parcel::{Parcel, Reader, SharedBytes, Writer};
use crate::shm::outstanding;
use crate::{Error, ExceptionCode, Result};

/// A service whose handlers are futures.
///
/// A handler reads its arguments at once, from where they arrived, and returns what is left to do. Calls
/// of different callers, and of one caller that does not wait, run at the same time; oneway calls to one
/// object run one after the other, as everywhere.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use handoff_ipc::parcel::{Reader, Writer};
/// use handoff_ipc::{AsyncService, Binder, Call, Code, Error, Handling, Result};
///
/// struct Kitchen;
///
/// impl AsyncService for Kitchen {
///     fn descriptor(&self) -> &str { "sample.IKitchen" }
///     fn on_transact(self: Arc<Self>, _: &Call<'_>, code: Code, data: &mut Reader<'_>) -> Result<Handling> {
///         match code {
///             1 => {
///                 let minutes: i32 = data.read()?;
///                 Ok(Handling::new(async move {
///                     tokio::time::sleep(Duration::from_millis(1)).await;
///                     Ok(move |reply: &mut Writer<'_>| reply.write(&(minutes * 2)))
///                 }))
///             }
///             _ => Err(Error::UnknownTransaction { descriptor: self.descriptor().into(), code }),
///         }
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let kitchen = Binder::new_async(Kitchen);
/// let done = kitchen.call_async(1, |w| w.write(&21), |r| r.read::<i32>()).await?;
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
    fn on_transact(self: Arc<Self>, call: &Call<'_>, code: Code, data: &mut Reader<'_>) -> Result<Handling>;

    /// As [`Service::dump`].
    fn dump(&self, _args: &[String]) -> String {
        format!("{} has nothing to dump\n", self.descriptor())
    }
}

type Written = Box<dyn FnOnce(&mut Writer<'_>) -> Result<()> + Send>;

/// A handler that is under way: a future of the reply.
pub struct Handling(Pin<Box<dyn Future<Output = Result<Reply>> + Send>>);

impl Handling {
    /// From a future that ends in what writes the results into the reply.
    pub fn new<W>(work: impl Future<Output = Result<W>> + Send + 'static) -> Self
    where
        W: FnOnce(&mut Writer<'_>) -> Result<()> + Send + 'static,
    {
        Handling(Box::pin(async move {
            let write = work.await?;
            Ok(Reply(Box::new(move |reply: &mut Writer<'_>| {
                reply.write_i32(ExceptionCode::None as i32)?;
                write(reply)
            })))
        }))
    }

    /// A reply that needs no waiting.
    pub fn ready(write: impl FnOnce(&mut Writer<'_>) -> Result<()> + Send + 'static) -> Self {
        Handling::new(std::future::ready(Ok(write)))
    }

    /// A reply of the runtime itself, which has no header.
    pub(crate) fn bare(write: impl FnOnce(&mut Writer<'_>) -> Result<()> + Send + 'static) -> Self {
        Handling(Box::pin(std::future::ready(Ok(Reply(Box::new(write))))))
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Reply>> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for Handling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handling")
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
    service: Arc<dyn AsyncService>,
    runtime: Handle,
}

impl Asynchronous {
    pub(crate) fn service(&self) -> &Arc<dyn AsyncService> {
        &self.service
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

/// How threads call such a service: oneway calls, calls of the driver, blocking ones of this process.
struct Blocking(Asynchronous);

impl Service for Blocking {
    fn descriptor(&self) -> &str {
        self.0.service.descriptor()
    }

    fn base_descriptors(&self) -> &[&str] {
        self.0.service.base_descriptors()
    }

    fn on_transact(
        &self,
        call: &Call<'_>,
        code: Code,
        data: &mut Reader<'_>,
        reply: &mut Writer<'_>,
    ) -> Result<()> {
        let own = Handle::try_current();
        if own.is_ok_and(|own| own.runtime_flavor() == RuntimeFlavor::CurrentThread) {
            // The thread that would wait is the one that has to run the handler, or cannot be told from it.
            let refused = Error::Unsupported {
                engine: EngineKind::Local.name(),
                what: "block the thread of an async runtime until a task has served; use call_async".into(),
            };
            return Err(Error::Runtime(Box::new(refused)));
        }
        // The caller's header was written for a blocking service; the handler's reply has its own.
        reply.truncate(0);
        let handling = dispatch::begin(&self.0.service, call, code, data)?;
        let (send, receive) = mpsc::sync_channel(1);
        drop(self.0.runtime.spawn(async move { drop(send.send(dispatch::finish(handling).await)) }));
        dispatch::write_outcome(receive.recv().map_err(|_| Error::Runtime(Box::new(Error::Dead)))?, reply)
    }

    fn dump(&self, args: &[String]) -> String {
        self.0.service.dump(args)
    }

    fn scheduling(&self) -> Scheduling {
        // Tasks share threads: none of these runs for one caller.
        Scheduling { inherit: false, ..Scheduling::default() }
    }
}

impl Binder {
    /// A new object of this process, served by tasks of the runtime that this is called in.
    ///
    /// # Panics
    /// Outside of a tokio runtime; [`Binder::new_async_on`] names one.
    pub fn new_async(service: impl AsyncService) -> Self {
        Binder::new_async_on(service, &Handle::current())
    }

    /// A new object of this process, served by tasks of `runtime`. Once that has shut down, callers are
    /// told that the object is dead.
    pub fn new_async_on(service: impl AsyncService, runtime: &Handle) -> Self {
        let asynchronous = Asynchronous { service: Arc::new(service), runtime: runtime.clone() };
        let blocking = Arc::new(Blocking(asynchronous.clone()));
        Binder(Reference::Local(LocalNode::with_tasks(blocking, asynchronous)))
    }

    /// [`Binder::call`] without a thread that waits: nothing happens before the future is first polled.
    ///
    /// Up to 512 such calls are outstanding with one process at a time; further ones wait for their turn.
    /// A future that is dropped gives its call up: the service may still serve it, and the result goes
    /// nowhere. Calls to a blocking service of this very process, and on the `binder` engine, take a
    /// thread of the runtime's blocking pool each.
    ///
    /// # Errors
    /// As [`Binder::call`].
    pub fn call_async<R: Send + 'static>(
        &self,
        code: Code,
        write: impl FnOnce(&mut Writer<'_>) -> Result<()> + Send + 'static,
        read: impl FnOnce(&mut Reader<'_>) -> Result<R> + Send + 'static,
    ) -> impl Future<Output = Result<R>> + Send + 'static {
        self.call_async_with(CallOptions::default(), code, write, read)
    }

    /// [`Binder::call_async`] with options. A deadline needs a runtime with time enabled.
    ///
    /// # Errors
    /// As [`Binder::call_with`].
    pub fn call_async_with<R: Send + 'static>(
        &self,
        options: CallOptions,
        code: Code,
        write: impl FnOnce(&mut Writer<'_>) -> Result<()> + Send + 'static,
        read: impl FnOnce(&mut Reader<'_>) -> Result<R> + Send + 'static,
    ) -> impl Future<Output = Result<R>> + Send + 'static {
        // Held until the end: the object must not be given back before the call is served.
        let target = self.clone();
        async move {
            if target.remote().and_then(outstanding::address).is_none() && target.task_node().is_none() {
                let work = move || target.call_with(options, code, write, read);
                let ended = tokio::task::spawn_blocking(work).await;
                return ended.unwrap_or_else(|error| {
                    Err(Error::io("the runtime did not make a call", std::io::Error::other(error)))
                });
            }
            let call = OutCall::new(code, options);
            let mut result = None;
            let keep = |reply: &mut Reader<'_>| {
                dispatch::read_status(reply)?;
                result = Some(read(reply)?);
                Ok(())
            };
            if let Some(remote) = target.remote() {
                // As a oneway call: a task may not wait for the owner's answer.
                remote.check_interface(&OutCall { oneway: true, ..call })?;
            }
            if let Some((link, node)) = target.remote().and_then(outstanding::address) {
                outstanding::transact(link, node, &call, write, keep).await?;
            } else if let Some(node) = target.task_node() {
                transact_here(&node, call, write, keep).await?;
            }
            result.ok_or_else(|| Error::Protocol("a reply was never read".into()))
        }
    }

    /// [`Binder::call_async_with`] with a parcel that was put together before: what generated proxies call, since
    /// their arguments are borrowed.
    ///
    /// # Errors
    /// As [`Binder::call_with`].
    pub fn call_parcel_async<R: Send + 'static>(
        &self,
        options: CallOptions,
        code: Code,
        request: Parcel,
        read: impl FnOnce(&mut Reader<'_>) -> Result<R> + Send + 'static,
    ) -> impl Future<Output = Result<R>> + Send + 'static {
        self.call_async_with(options, code, move |to| request.send(to), read)
    }

    fn remote(&self) -> Option<&dyn Remote> {
        match &self.0 {
            Reference::Remote(remote) => Some(&**remote),
            Reference::Local(_) => None,
        }
    }

    /// The object of this process that tasks serve, if it is one.
    fn task_node(&self) -> Option<Arc<LocalNode>> {
        match &self.0 {
            Reference::Local(node) if node.asynchronous().is_some() => Some(Arc::clone(node)),
            _ => None,
        }
    }
}

/// A call to an object of this process that tasks serve: in the caller's own task.
async fn transact_here(
    node: &LocalNode,
    call: OutCall,
    write: impl FnOnce(&mut Writer<'_>) -> Result<()>,
    read: impl FnOnce(&mut Reader<'_>) -> Result<()>,
) -> Result<()> {
    let Some(asynchronous) = node.asynchronous() else { return Err(Error::Dead) };
    node.check_interface(&call)?;
    let handling = {
        let mut request = Vec::new();
        let mut writer = Writer::growing(&mut request);
        write(&mut writer)?;
        let mut objects = local::received(writer.finish());
        let mut data = Reader::with_objects(SharedBytes::from_slice(&request), &mut objects);
        dispatch::begin(&asynchronous.service, &local::call_of(&call), call.code, &mut data)
    };
    let outcome = match handling {
        Err(error) => Err(error),
        Ok(handling) => match call.deadline {
            None => dispatch::finish(handling).await,
            Some(wait) => tokio::time::timeout(wait, dispatch::finish(handling))
                .await
                .map_err(|_| Error::DeadlineExpired(wait))?,
        },
    };
    let mut answer = Vec::new();
    let mut reply = Writer::growing(&mut answer);
    dispatch::write_outcome(outcome, &mut reply)?;
    let mut objects = local::received(reply.finish());
    read(&mut Reader::with_objects(SharedBytes::from_slice(&answer), &mut objects))
}
