//! `AIBinder`: a counted reference to an object of this process or another.
//!
//! A pointer that C has is one strong reference of an `Arc`. While any is held, one object has one pointer. An object of
//! this process is kept by its node too, which the engine holds for as long as a peer may call it.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, Weak};

use handoff_ipc::{Binder, Scheduling, WeakBinder};

use crate::class::AIBinder_Class;
use crate::death::Link;
use crate::engine;
use crate::locked::lock;

/// An object, seen from C.
pub struct AIBinder {
    pub(crate) kind: Kind,
    pub(crate) class: AtomicPtr<AIBinder_Class>,
    /// Death recipients that hear of it while somebody holds this reference.
    pub(crate) links: Mutex<Vec<Arc<Link>>>,
    pub(crate) extension: Mutex<Option<Arc<AIBinder>>>,
    pub(crate) scheduling: Mutex<Scheduling>,
    pub(crate) wants_security_context: AtomicBool,
}

pub(crate) enum Kind {
    /// Made by `AIBinder_new`, with what its class made of it, and its node while somebody else may call it.
    Local { user_data: UserData, node: Mutex<Option<Node>> },
    /// Another process's, or made here in another language.
    Foreign(Binder),
}

/// The node that an object of this process has, or had.
pub(crate) struct Node {
    node: WeakBinder,
    identity: usize,
}

pub(crate) struct UserData(pub(crate) *mut c_void);

// SAFETY: the header says that functions of a class are called by any thread, several at once.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}

/// The pointers that C has, by the identity of the node or proxy behind each.
static ALL: Mutex<Option<HashMap<usize, Weak<AIBinder>>>> = Mutex::new(None);

fn forget(identity: usize, object: *const AIBinder) {
    if let Some(all) = &mut *lock(&ALL) {
        // Another object may be at that place by now.
        if all.get(&identity).is_some_and(|one| one.as_ptr() == object) {
            all.remove(&identity);
        }
    }
}

impl AIBinder {
    pub(crate) fn new(kind: Kind, class: *mut AIBinder_Class) -> Arc<Self> {
        Arc::new(AIBinder {
            kind,
            class: AtomicPtr::new(class),
            links: Mutex::default(),
            extension: Mutex::default(),
            scheduling: Mutex::default(),
            wants_security_context: AtomicBool::new(false),
        })
    }

    /// What C has, or gets, for a reference.
    pub(crate) fn of(binder: Binder) -> Arc<Self> {
        let identity = binder.identity();
        let mut all = lock(&ALL);
        let all = all.get_or_insert_default();
        // Whatever is dropped here takes the lock again: nothing is, before the end.
        let found = all.get(&identity).and_then(Weak::upgrade);
        match found {
            // `binder` is held, so that nothing else has its identity.
            Some(found) => found,
            None => {
                let made = AIBinder::new(Kind::Foreign(binder), std::ptr::null_mut());
                all.insert(identity, Arc::downgrade(&made));
                made
            }
        }
    }

    /// Gives a strong reference to C.
    pub(crate) fn give(object: Arc<Self>) -> *mut AIBinder {
        Arc::into_raw(object).cast_mut()
    }

    /// The reference that engines know.
    pub(crate) fn node(self: &Arc<Self>) -> Binder {
        let node = match &self.kind {
            Kind::Local { node, .. } => node,
            Kind::Foreign(binder) => return binder.clone(),
        };
        let mut node = lock(node);
        if let Some(node) = node.as_ref().and_then(|known| known.node.upgrade()) {
            return node;
        }
        if let Some(gone) = node.take() {
            forget(gone.identity, Arc::as_ptr(self));
        }
        let made = engine::serve(Arc::clone(self));
        *node = Some(Node { node: made.downgrade(), identity: made.identity() });
        lock(&ALL).get_or_insert_default().insert(made.identity(), Arc::downgrade(self));
        made
    }

    pub(crate) fn extension(&self) -> Option<Arc<AIBinder>> {
        lock(&self.extension).clone()
    }

    pub(crate) fn class(&self) -> Option<&'static AIBinder_Class> {
        // SAFETY: a class lives as long as the process.
        unsafe { self.class.load(Ordering::Acquire).as_ref() }
    }

    pub(crate) fn scheduling(&self) -> Scheduling {
        *lock(&self.scheduling)
    }

    pub(crate) fn wants_security_context(&self) -> bool {
        self.wants_security_context.load(Ordering::Relaxed)
    }

    pub(crate) fn is_local(&self) -> bool {
        match &self.kind {
            Kind::Local { .. } => true,
            Kind::Foreign(binder) => binder.is_local(),
        }
    }
}

impl Drop for AIBinder {
    fn drop(&mut self) {
        match &self.kind {
            Kind::Local { user_data, node } => {
                if let Some(gone) = lock(node).take() {
                    forget(gone.identity, self);
                }
                if let Some(class) = self.class() {
                    // SAFETY: this class made it, and nobody has the object any longer.
                    unsafe { (class.on_destroy)(user_data.0) };
                }
            }
            Kind::Foreign(binder) => forget(binder.identity(), self),
        }
    }
}

/// A reference of C's, for the length of a call.
///
/// # Safety
/// `binder` is null, or a strong reference is held meanwhile.
pub(crate) unsafe fn borrow<'a>(binder: *const AIBinder) -> Option<&'a AIBinder> {
    // SAFETY: the caller's promise.
    unsafe { binder.as_ref() }
}

/// A reference of our own beside C's.
///
/// # Safety
/// `binder` is not null, and a strong reference is held meanwhile.
pub(crate) unsafe fn share(binder: *const AIBinder) -> Arc<AIBinder> {
    // SAFETY: by the caller it came from `give`, and is alive.
    unsafe {
        Arc::increment_strong_count(binder);
        Arc::from_raw(binder)
    }
}

/// What engines know C's reference as.
///
/// # Safety
/// As [`share`].
pub(crate) unsafe fn node(binder: *const AIBinder) -> Binder {
    // SAFETY: the caller's promise.
    unsafe { share(binder) }.node()
}
