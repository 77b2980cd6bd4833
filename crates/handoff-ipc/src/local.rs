//! The `local` engine: objects of this process, called on the caller's own thread.
//!
//! The floor that the other engines are compared with: the same parcel, no hand-off.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use handoff_placement::Priority;

#[cfg(feature = "tokio")]
use crate::asynchronous::Asynchronous;
use crate::dispatch;
use crate::domain::Domain;
use crate::engine::{EngineKind, OutCall, ReadFn, WriteFn};
use crate::interface::{self, Interfaces};
use crate::object::{Call, CallingIdentity, Scheduling, Service};
use crate::parcel::{Object, Reader, SharedBytes, Writer};
use crate::{Error, Result, Waiting};

/// Oneway calls that may wait for one object.
pub(crate) const ONEWAY_LIMIT: usize = 4096;

/// An object of this process.
pub(crate) struct LocalNode {
    id: u64,
    service: Arc<dyn Service>,
    scheduling: Scheduling,
    interfaces: Interfaces,
    // The number of a domain once it is registered in one.
    domain: AtomicU8,
    // Its descriptor as text of a parcel: what calls on the driver begin with.
    token: OnceLock<Box<[u8]>>,
    queue: Mutex<OnewayQueue>,
    // What serves it without a thread.
    #[cfg(feature = "tokio")]
    asynchronous: Option<Asynchronous>,
}

#[derive(Default)]
struct OnewayQueue {
    busy: bool,
    waiting: VecDeque<Box<dyn FnOnce() + Send>>,
}

impl OnewayQueue {
    /// True if no thread was at the queue.
    fn push(&mut self, job: Box<dyn FnOnce() + Send>) -> bool {
        self.waiting.push_back(job);
        !std::mem::replace(&mut self.busy, true)
    }
}

impl LocalNode {
    pub(crate) fn new(service: Arc<dyn Service>) -> Arc<Self> {
        Arc::new(LocalNode::of(service))
    }

    /// An object that tasks of a runtime serve. `blocking` is how a thread calls it.
    #[cfg(feature = "tokio")]
    pub(crate) fn with_tasks(blocking: Arc<dyn Service>, asynchronous: Asynchronous) -> Arc<Self> {
        Arc::new(LocalNode { asynchronous: Some(asynchronous), ..LocalNode::of(blocking) })
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
            domain: AtomicU8::new(u8::MAX),
            token: OnceLock::new(),
            queue: Mutex::default(),
            #[cfg(feature = "tokio")]
            asynchronous: None,
        }
    }

    /// A number that no other object of this process has or had.
    pub(crate) fn id(&self) -> u64 {
        self.id
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

    /// It was registered in a domain, whose rules hold from now on.
    pub(crate) fn live_in(&self, domain: Domain) {
        self.domain.store(domain as u8, Ordering::Relaxed);
    }

    /// A service of a domain gives it away: it lives there, too, unless it was registered elsewhere.
    pub(crate) fn adopt(&self, domain: Domain) {
        // Fails where it has one.
        let _ = self.domain.compare_exchange(u8::MAX, domain as u8, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The domain that it was registered in, or whose service gave it away.
    pub(crate) fn domain(&self) -> Option<Domain> {
        Domain::from_number(self.domain.load(Ordering::Relaxed))
    }

    /// What a call by `caller` is served at, on a thread whose own priority is `base`: as the service
    /// wants it, of what its domain has callers lend.
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
        self.domain().is_some_and(|domain| !domain.lends_realtime())
    }

    /// Queues a oneway call. True if the caller must have [`LocalNode::run_oneway`] run: no thread
    /// is at this object's queue.
    pub(crate) fn queue_oneway(&self, job: Box<dyn FnOnce() + Send>) -> Result<bool> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.waiting.len() >= ONEWAY_LIMIT {
            return Err(Error::OnewayFull(Waiting::Calls(queue.waiting.len())));
        }
        Ok(queue.push(job))
    }

    /// The same for a call whose sender was told that it is on its way: it is never refused. Whoever
    /// took it in bounds how many there are.
    pub(crate) fn queue_admitted(&self, job: Box<dyn FnOnce() + Send>) -> bool {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(job)
    }

    /// Runs queued oneway calls in order until none is left.
    pub(crate) fn run_oneway(&self) {
        loop {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            match queue.waiting.pop_front() {
                Some(job) => {
                    drop(queue);
                    job();
                }
                None => {
                    queue.busy = false;
                    return;
                }
            }
        }
    }
}

thread_local! {
    // Buffers of finished calls; nested calls take further ones.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Larger buffers are freed rather than kept.
const KEEP: usize = 1 << 20;

struct Buffer(Vec<u8>);

impl Buffer {
    fn take() -> Self {
        Buffer(SPARE.with_borrow_mut(Vec::pop).unwrap_or_default())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.0.capacity() <= KEEP {
            let buffer = std::mem::take(&mut self.0);
            SPARE.with_borrow_mut(|spare| spare.push(buffer));
        }
    }
}

#[inline]
pub(crate) fn received(objects: Vec<(u32, Object)>) -> Vec<(u32, Option<Object>)> {
    if objects.is_empty() {
        return Vec::new();
    }
    objects.into_iter().map(|(at, object)| (at, Some(object))).collect()
}

pub(crate) fn call_of(call: &OutCall) -> Call<'static> {
    Call {
        identity: CallingIdentity::own_cached(),
        engine: EngineKind::Local,
        priority: 0,
        oneway: call.oneway,
        deadline: call.deadline.map(|wait| std::time::Instant::now() + wait),
        told: None,
        lifetime: std::marker::PhantomData,
    }
}

/// A synchronous call, served right here. A deadline is shown to the service; it cannot interrupt.
pub(crate) fn transact(node: &LocalNode, call: &OutCall, write: WriteFn<'_>, read: ReadFn<'_>) -> Result<()> {
    node.check_interface(call)?;
    let (mut request, mut answer) = (Buffer::take(), Buffer::take());
    let mut writer = Writer::growing(&mut request.0);
    write(&mut writer)?;
    let mut objects = received(writer.finish());
    let mut reply = Writer::growing(&mut answer.0);
    let mut data = Reader::with_objects(SharedBytes::from_slice(&request.0), &mut objects);
    dispatch::serve(&**node.service(), &call_of(call), call.code, &mut data, &mut reply)?;
    let mut objects = received(reply.finish());
    read(&mut Reader::with_objects(SharedBytes::from_slice(&answer.0), &mut objects))
}

/// A oneway call: served on the shared pool, in order.
pub(crate) fn oneway(node: &Arc<LocalNode>, call: &OutCall, write: WriteFn<'_>) -> Result<()> {
    node.check_interface(call)?;
    let mut request = Vec::new();
    let mut writer = Writer::growing(&mut request);
    write(&mut writer)?;
    let objects = received(writer.finish());
    let (call, target) = (*call, Arc::clone(node));
    let job = Box::new(move || {
        let (mut objects, mut nowhere) = (objects, Vec::new());
        let mut data = Reader::with_objects(SharedBytes::from_slice(&request), &mut objects);
        let mut reply = Writer::growing(&mut nowhere);
        // Nobody waits for the outcome of a oneway call.
        drop(dispatch::serve(&**target.service(), &call_of(&call), call.code, &mut data, &mut reply));
    });
    if node.queue_oneway(job)? {
        let node = Arc::clone(node);
        crate::pool::run(Box::new(move || node.run_oneway()));
    }
    Ok(())
}
