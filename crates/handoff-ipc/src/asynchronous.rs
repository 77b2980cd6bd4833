//! The asynchronous side of calls: futures in place of threads that wait.
//!
//! On the `shm` engine a call that waits costs a slot and a waker, a handler that waits costs a task:
//! see `shm/call/outstanding.rs` and `shm/call/tasks.rs`. The kernel's driver ties a transaction to the thread that
//! makes it and to the thread that serves it, so there each takes a thread of the runtime's blocking pool.

use std::future::Future;
use std::sync::{Arc, mpsc};

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::call::OutCall;
use crate::calling::CallBuilder;
use crate::engine_kind::EngineKind;
use crate::object::{
    AsyncService, Asynchronous, Binder, LocalNode, Reference, Remote, Request, Service, Transaction,
};
use crate::parcel::{Reader, SharedBytes, Writer};
use crate::scheduling::Scheduling;
use crate::shell_command::ShellCommand;
use crate::shm::outstanding;
use crate::{Error, Result, dispatch, local};

/// How threads call such a service: oneway calls, calls of the driver, blocking ones of this process.
struct BlockingAdapter(Asynchronous);

impl Service for BlockingAdapter {
    fn descriptor(&self) -> &str {
        self.0.service.descriptor()
    }

    fn base_descriptors(&self) -> &[&str] {
        self.0.service.base_descriptors()
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let Transaction { call, data, reply } = transaction;
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
        let mut request = Request { call: call.clone(), data: data.reborrow() };
        let response = dispatch::begin(&self.0.service, &mut request)?;
        let (send, receive) = mpsc::sync_channel(1);
        drop(self.0.runtime.spawn(async move { drop(send.send(dispatch::finish(response).await)) }));
        dispatch::write_outcome(receive.recv().map_err(|_| Error::Runtime(Box::new(Error::Dead)))?, reply)
    }

    fn dump(&self, args: &[String]) -> String {
        self.0.service.dump(args)
    }

    fn shell_command(&self, command: &mut ShellCommand) -> i32 {
        self.0.service.shell_command(command)
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
        let blocking = Arc::new(BlockingAdapter(asynchronous.clone()));
        Binder(Reference::Local(LocalNode::with_tasks(blocking, asynchronous)))
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

impl CallBuilder<'_> {
    /// [`CallBuilder::call`] without a thread that waits: nothing happens before the future is first polled. A
    /// deadline needs a runtime with time enabled.
    ///
    /// Up to 512 such calls are outstanding with one process at a time; further ones wait for their turn.
    /// A future that is dropped gives its call up: the service may still serve it, and the result goes
    /// nowhere. Calls to a blocking service of this very process, and on the `binder` engine, take a
    /// thread of the runtime's blocking pool each.
    ///
    /// # Errors
    /// As [`CallBuilder::call`].
    pub fn call_async<R: Send + 'static>(
        self,
        write: impl FnOnce(&mut Writer<'_>) -> Result<()> + Send + 'static,
        read: impl FnOnce(&mut Reader<'_>) -> Result<R> + Send + 'static,
    ) -> impl Future<Output = Result<R>> + Send + 'static {
        // Held until the end: the object must not be given back before the call is served.
        let (target, call) = (self.binder.clone(), self.call);
        async move {
            if target.remote().and_then(outstanding::address).is_none() && target.task_node().is_none() {
                let work = move || CallBuilder { binder: &target, call }.call(write, read);
                let ended = tokio::task::spawn_blocking(work).await;
                return ended.unwrap_or_else(|error| {
                    Err(Error::io("the runtime did not make a call", std::io::Error::other(error)))
                });
            }
            let read = |reply: &mut Reader<'_>| {
                dispatch::read_status(reply)?;
                read(reply)
            };
            if let Some(remote) = target.remote() {
                // As a oneway call: a task may not wait for the owner's answer.
                remote.check_interface(&OutCall { oneway: true, ..call })?;
            }
            if let Some((link, node)) = target.remote().and_then(outstanding::address) {
                outstanding::transact(link, node, &call, write, read).await
            } else if let Some(node) = target.task_node() {
                transact_here(&node, call, write, read).await
            } else {
                Err(Error::Dead)
            }
        }
    }
}

/// A call to an object of this process that tasks serve: in the caller's own task.
async fn transact_here<R>(
    node: &LocalNode,
    call: OutCall,
    write: impl FnOnce(&mut Writer<'_>) -> Result<()>,
    read: impl FnOnce(&mut Reader<'_>) -> Result<R>,
) -> Result<R> {
    let Some(asynchronous) = node.asynchronous() else { return Err(Error::Dead) };
    node.check_interface(&call)?;
    let response = {
        let mut request = Vec::new();
        let mut writer = Writer::growing(&mut request);
        write(&mut writer)?;
        let mut objects = local::received(writer.finish());
        let data = Reader::with_objects(SharedBytes::from_slice(&request), &mut objects);
        dispatch::begin(&asynchronous.service, &mut Request { call: local::call_of(&call), data })
    };
    let outcome = match response {
        Err(error) => Err(error),
        Ok(response) => match call.deadline {
            None => dispatch::finish(response).await,
            Some(wait) => tokio::time::timeout(wait, dispatch::finish(response))
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
