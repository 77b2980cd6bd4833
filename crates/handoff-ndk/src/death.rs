//! `AIBinder_DeathRecipient`: hears that the process of an object has ended.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use handoff_ipc::engine::DeathRegistration;

use crate::locked::lock;
use crate::object::{AIBinder, borrow, node};
use crate::status::{
    STATUS_INVALID_OPERATION, STATUS_NAME_NOT_FOUND, STATUS_OK, STATUS_UNEXPECTED_NULL, binder_status_t,
    status_of,
};

type OnDied = unsafe extern "C-unwind" fn(cookie: *mut c_void);
pub type AIBinder_DeathRecipient_onBinderDied = Option<OnDied>;
pub type AIBinder_DeathRecipient_onBinderUnlinked = Option<OnDied>;

/// Functions that hear of deaths, and where they listen.
pub struct AIBinder_DeathRecipient {
    functions: Arc<Functions>,
    links: Mutex<Vec<Weak<Link>>>,
}

struct Functions {
    on_died: OnDied,
    on_unlinked: Mutex<Option<OnDied>>,
}

/// A recipient at one object. It ends once: when the object dies, when it is taken back, when the recipient is deleted,
/// or when nobody holds the object any longer.
pub struct Link {
    functions: Arc<Functions>,
    cookie: Cookie,
    has_ended: AtomicBool,
    registration: Mutex<Option<DeathRegistration>>,
}

struct Cookie(*mut c_void);

// SAFETY: the header says that any thread may give the cookie to the recipient's functions.
unsafe impl Send for Cookie {}
// SAFETY: as above.
unsafe impl Sync for Cookie {}

impl Link {
    fn end(&self, has_died: bool) {
        if self.has_ended.swap(true, Ordering::AcqRel) {
            return;
        }
        if has_died {
            // SAFETY: the maker's promise; it is called once.
            unsafe { (self.functions.on_died)(self.cookie.0) };
        }
        let registration = lock(&self.registration).take();
        drop(registration);
        let on_unlinked = *lock(&self.functions.on_unlinked);
        if let Some(on_unlinked) = on_unlinked {
            // SAFETY: as above.
            unsafe { on_unlinked(self.cookie.0) };
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end(false);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn AIBinder_DeathRecipient_new(
    on_died: AIBinder_DeathRecipient_onBinderDied,
) -> *mut AIBinder_DeathRecipient {
    let Some(on_died) = on_died else { return std::ptr::null_mut() };
    let functions = Arc::new(Functions { on_died, on_unlinked: Mutex::default() });
    Box::into_raw(Box::new(AIBinder_DeathRecipient { functions, links: Mutex::default() }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_DeathRecipient_setOnUnlinked(
    recipient: *mut AIBinder_DeathRecipient,
    on_unlinked: AIBinder_DeathRecipient_onBinderUnlinked,
) {
    // SAFETY: the header's promise.
    if let Some(recipient) = unsafe { recipient.as_ref() } {
        *lock(&recipient.functions.on_unlinked) = on_unlinked;
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AIBinder_DeathRecipient_delete(recipient: *mut AIBinder_DeathRecipient) {
    if recipient.is_null() {
        return;
    }
    // SAFETY: made by `Box::into_raw`, and nobody uses it afterwards.
    let recipient = unsafe { Box::from_raw(recipient) };
    let links = std::mem::take(&mut *lock(&recipient.links));
    links.iter().filter_map(Weak::upgrade).for_each(|link| link.end(false));
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AIBinder_linkToDeath(
    binder: *mut AIBinder,
    recipient: *mut AIBinder_DeathRecipient,
    cookie: *mut c_void,
) -> binder_status_t {
    // SAFETY: the header's promise.
    let (Some(object), Some(recipient)) = (unsafe { borrow(binder) }, unsafe { recipient.as_ref() }) else {
        return STATUS_UNEXPECTED_NULL;
    };
    if object.is_local() {
        return STATUS_INVALID_OPERATION;
    }
    let link = Arc::new(Link {
        functions: Arc::clone(&recipient.functions),
        cookie: Cookie(cookie),
        has_ended: AtomicBool::new(false),
        registration: Mutex::default(),
    });
    let listening = Arc::downgrade(&link);
    // SAFETY: not null, and held by the header's promise.
    let registration = unsafe { node(binder) }.link_to_death(move || {
        if let Some(link) = listening.upgrade() {
            link.end(true);
        }
    });
    match registration {
        Ok(registration) => {
            *lock(&link.registration) = Some(registration);
            let mut known = lock(&recipient.links);
            known.retain(|link| link.strong_count() > 0);
            known.push(Arc::downgrade(&link));
            drop(known);
            let mut links = lock(&object.links);
            // One that has ended does nothing when it is dropped.
            links.retain(|link| !link.has_ended.load(Ordering::Acquire));
            links.push(link);
            STATUS_OK
        }
        Err(error) => {
            // It was never linked: nobody is told that it is no longer.
            link.has_ended.store(true, Ordering::Release);
            status_of(&error)
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AIBinder_unlinkToDeath(
    binder: *mut AIBinder,
    recipient: *mut AIBinder_DeathRecipient,
    cookie: *mut c_void,
) -> binder_status_t {
    // SAFETY: the header's promise.
    let (Some(object), Some(recipient)) = (unsafe { borrow(binder) }, unsafe { recipient.as_ref() }) else {
        return STATUS_UNEXPECTED_NULL;
    };
    let found = {
        let mut links = lock(&object.links);
        let is_it = |link: &Arc<Link>| {
            Arc::ptr_eq(&link.functions, &recipient.functions)
                && link.cookie.0 == cookie
                && !link.has_ended.load(Ordering::Acquire)
        };
        links.iter().position(is_it).map(|at| links.remove(at))
    };
    match found {
        Some(link) => {
            link.end(false);
            STATUS_OK
        }
        None => STATUS_NAME_NOT_FOUND,
    }
}
