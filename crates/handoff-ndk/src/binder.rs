//! Functions of `AIBinder`: to make objects, to ask about them, to call them.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

use handoff_ipc::Error;
use handoff_placement::Priority;

use crate::class::{AIBinder_Class, transaction_code_t};
use crate::locked::lock;
use crate::object::{Kind, UserData, borrow, node, share};
use crate::parcel::AParcel;
use crate::status::{
    STATUS_BAD_VALUE, STATUS_INVALID_OPERATION, STATUS_OK, STATUS_UNEXPECTED_NULL, STATUS_UNKNOWN_ERROR,
    binder_status_t, status_of,
};
use crate::thread::{self, Thread};
use crate::{engine, polling};

pub use crate::object::AIBinder;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AIBinder_new(
    class: *const AIBinder_Class,
    args: *mut c_void,
) -> *mut AIBinder {
    // SAFETY: the header's promise: null or a class.
    let Some(known) = (unsafe { class.as_ref() }) else {
        eprintln!("libbinder_ndk: AIBinder_new needs a class");
        return std::ptr::null_mut();
    };
    // SAFETY: as the class's maker said.
    let user_data = UserData(unsafe { (known.on_create)(args) });
    let kind = Kind::Local { user_data, node: Mutex::new(None) };
    AIBinder::give(AIBinder::new(kind, class.cast_mut()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_incStrong(binder: *mut AIBinder) {
    if !binder.is_null() {
        // SAFETY: alive by the header's promise.
        unsafe { Arc::increment_strong_count(binder.cast_const()) };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AIBinder_decStrong(binder: *mut AIBinder) {
    if !binder.is_null() {
        // SAFETY: this reference was C's, by the header's promise.
        unsafe { Arc::decrement_strong_count(binder.cast_const()) };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_debugGetRefCount(binder: *mut AIBinder) -> i32 {
    if binder.is_null() {
        return -1;
    }
    // SAFETY: alive by the header's promise.
    let shared = unsafe { share(binder) };
    i32::try_from(Arc::strong_count(&shared) - 1).unwrap_or(i32::MAX)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_isRemote(binder: *const AIBinder) -> bool {
    // SAFETY: the header's promise.
    unsafe { borrow(binder) }.is_some_and(|binder| !binder.is_local())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_isAlive(binder: *const AIBinder) -> bool {
    // SAFETY: the header's promise.
    unsafe { borrow(binder) }.is_some_and(|binder| match &binder.kind {
        Kind::Local { .. } => true,
        Kind::Foreign(binder) => binder.is_alive(),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_ping(binder: *mut AIBinder) -> binder_status_t {
    // SAFETY: the header's promise.
    match unsafe { borrow(binder) }.map(|binder| &binder.kind) {
        None => STATUS_UNEXPECTED_NULL,
        Some(Kind::Local { .. }) => STATUS_OK,
        Some(Kind::Foreign(binder)) => binder.ping().map_or_else(|error| status_of(&error), |()| STATUS_OK),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_getUserData(binder: *mut AIBinder) -> *mut c_void {
    // SAFETY: the header's promise.
    match unsafe { borrow(binder) }.map(|binder| &binder.kind) {
        Some(Kind::Local { user_data, .. }) => user_data.0,
        _ => std::ptr::null_mut(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_getClass(binder: *mut AIBinder) -> *const AIBinder_Class {
    // SAFETY: the header's promise.
    let class = unsafe { borrow(binder) }.and_then(AIBinder::class);
    class.map_or(std::ptr::null(), std::ptr::from_ref)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_associateClass(
    binder: *mut AIBinder,
    class: *const AIBinder_Class,
) -> bool {
    // SAFETY: the header's promise.
    let (Some(object), Some(wanted)) = (unsafe { borrow(binder) }, unsafe { class.as_ref() }) else {
        return false;
    };
    let refused = match object.class() {
        // An object of this process has the data of one class, whatever another one is called. Libraries of one process may
        // each have a class for another's objects.
        Some(own) if own.interface == wanted.interface => {
            return !object.is_local() || std::ptr::eq(own, class);
        }
        Some(own) => Err(Error::WrongInterface {
            expected: wanted.interface.descriptor().to_owned(),
            found: own.interface.descriptor().to_owned(),
        }),
        None => match &object.kind {
            Kind::Foreign(known) => known.check_interface(wanted.interface),
            Kind::Local { .. } => return false,
        },
    };
    if let Err(error) = refused {
        // Once: a peer sends as many objects as it likes.
        if !wanted.has_complained.swap(true, Ordering::Relaxed) {
            eprintln!("libbinder_ndk: cannot use an object as {}: {error}", wanted.interface.descriptor());
        }
        return false;
    }
    let none = std::ptr::null_mut();
    // Another thread may have been faster with a class of the same interface.
    let first = object.class.compare_exchange(none, class.cast_mut(), Ordering::AcqRel, Ordering::Acquire);
    first.is_ok() || object.class().is_some_and(|own| own.interface == wanted.interface)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_lt(left: *const AIBinder, right: *const AIBinder) -> bool {
    left < right
}

/// `FLAG_ONEWAY`: nobody waits for a reply.
const FLAG_ONEWAY: u32 = 0x01;
/// `FLAG_CLEAR_BUF`: buffers are cleared after the call.
const FLAG_CLEAR_BUF: u32 = 0x20;
/// `FLAG_PRIVATE_VENDOR`: the call is meant for the vendor's partition, and there is only one here.
const FLAG_PRIVATE_VENDOR: u32 = 0x1000_0000;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_prepareTransaction(
    binder: *mut AIBinder,
    data: *mut *mut AParcel,
) -> binder_status_t {
    // SAFETY: the header's promise.
    let Some(object) = (unsafe { borrow(binder) }).filter(|_| !data.is_null()) else {
        return STATUS_UNEXPECTED_NULL;
    };
    if object.class().is_none() {
        eprintln!("libbinder_ndk: a class must be associated with an object before it is called");
        return STATUS_INVALID_OPERATION;
    }
    let mut parcel = thread::with(Thread::take);
    parcel.meant_for = Some(binder.addr());
    // SAFETY: there is room for a pointer, by the header's promise.
    unsafe { data.write(parcel.give()) };
    STATUS_OK
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AIBinder_transact(
    binder: *mut AIBinder,
    code: transaction_code_t,
    data: *mut *mut AParcel,
    reply: *mut *mut AParcel,
    flags: u32,
) -> binder_status_t {
    if data.is_null() {
        return STATUS_UNEXPECTED_NULL;
    }
    // SAFETY: a pointer to a parcel, which is this function's from here on, by the header's promise.
    let parcel = unsafe { data.replace(std::ptr::null_mut()) };
    if parcel.is_null() {
        return STATUS_UNEXPECTED_NULL;
    }
    // SAFETY: made by `give`, and C has it no longer.
    let mut parcel = unsafe { Box::from_raw(parcel) };
    // SAFETY: the header's promise.
    let Some(object) = (unsafe { borrow(binder) }).filter(|_| !reply.is_null()) else {
        return STATUS_UNEXPECTED_NULL;
    };
    if flags & !(FLAG_ONEWAY | FLAG_CLEAR_BUF | FLAG_PRIVATE_VENDOR) != 0
        || parcel.meant_for != Some(binder.addr())
    {
        eprintln!(
            "libbinder_ndk: AIBinder_transact: the parcel was prepared for another object, or a flag is not known"
        );
        return STATUS_BAD_VALUE;
    }
    // A reference of our own: what is served meanwhile on this thread may drop C's last one.
    let node = match &object.kind {
        Kind::Foreign(node) => node.clone(),
        // SAFETY: not null, and held by the header's promise.
        Kind::Local { .. } => unsafe { node(binder) },
    };
    let is_secret = flags & FLAG_CLEAR_BUF != 0 || parcel.is_sensitive.get();
    parcel.is_sensitive.set(is_secret);
    let class = object.class();
    let oneway = flags & FLAG_ONEWAY != 0;
    let transact =
        |thread: &Thread| engine::transact(thread, &node, class, code, &mut parcel, oneway, is_secret);
    match thread::with(transact) {
        Ok(()) => {
            // SAFETY: there is room for a pointer, by the header's promise.
            unsafe { reply.write(parcel.give()) };
            STATUS_OK
        }
        Err(status) => status,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AIBinder_dump(
    binder: *mut AIBinder,
    fd: c_int,
    args: *mut *const c_char,
    count: u32,
) -> binder_status_t {
    // SAFETY: the header's promise.
    let Some(object) = (unsafe { borrow(binder) }) else { return STATUS_UNEXPECTED_NULL };
    let Kind::Foreign(remote) = &object.kind else {
        return match object.class().and_then(|class| class.on_dump.get()) {
            // SAFETY: as the class's maker said, with what C gave.
            Some(on_dump) => unsafe { on_dump(binder, fd, args, count) },
            None => STATUS_OK,
        };
    };
    if fd < 0 || (args.is_null() && count > 0) {
        return STATUS_BAD_VALUE;
    }
    // SAFETY: so many strings by the header's promise.
    let text = |index| unsafe { CStr::from_ptr(*args.add(index)) }.to_string_lossy().into_owned();
    let args: Vec<String> = (0..count as usize).map(text).collect();
    let dumped = thread::with(|thread| {
        let _calling = polling::Calling::begin(thread);
        remote.dump(&args)
    });
    match dumped {
        // SAFETY: open by the header's promise; the write fails if it is not.
        Ok(text) => engine::write_all(unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }, text.as_bytes()),
        Err(error) => status_of(&error),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_setExtension(
    binder: *mut AIBinder,
    extension: *mut AIBinder,
) -> binder_status_t {
    // SAFETY: the header's promise.
    let Some(object) = (unsafe { borrow(binder) }).filter(|_| !extension.is_null()) else {
        return STATUS_UNEXPECTED_NULL;
    };
    if !matches!(object.kind, Kind::Local { .. }) {
        return STATUS_INVALID_OPERATION;
    }
    // SAFETY: not null, and held by the header's promise.
    *lock(&object.extension) = Some(unsafe { share(extension) });
    STATUS_OK
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_getExtension(
    binder: *mut AIBinder,
    found: *mut *mut AIBinder,
) -> binder_status_t {
    // SAFETY: the header's promise.
    let Some(object) = (unsafe { borrow(binder) }).filter(|_| !found.is_null()) else {
        return STATUS_UNEXPECTED_NULL;
    };
    let extension = match &object.kind {
        Kind::Local { .. } => Ok(object.extension()),
        Kind::Foreign(binder) => binder.extension().map(|extension| extension.map(AIBinder::of)),
    };
    match extension {
        Ok(extension) => {
            let extension = extension.map_or(std::ptr::null_mut(), AIBinder::give);
            // SAFETY: there is room for a pointer, by the header's promise.
            unsafe { found.write(extension) };
            STATUS_OK
        }
        Err(error) => status_of(&error),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_setMinSchedulerPolicy(
    binder: *mut AIBinder,
    policy: c_int,
    priority: c_int,
) {
    let floor = match (policy, i8::try_from(priority)) {
        (0, Ok(nice)) => Some(Priority::other(nice)),
        (1, Ok(level)) if level > 0 => Some(Priority::fifo(level.unsigned_abs())),
        (2, Ok(level)) if level > 0 => Some(Priority::round_robin(level.unsigned_abs())),
        _ => None,
    };
    // SAFETY: the header's promise.
    let object = unsafe { own_object(binder, "AIBinder_setMinSchedulerPolicy") };
    match floor.filter(|floor| floor.is_valid()) {
        Some(floor) => lock(&object.scheduling).floor = Some(floor),
        None => eprintln!(
            "libbinder_ndk: AIBinder_setMinSchedulerPolicy: policy {policy} with priority {priority} is none that a \
             thread can have; nothing was changed"
        ),
    }
}

/// An object of this process. Of another's, its own process says how it is served: who asks here has mixed the two up, and
/// would go on without the priority or context that it counts on. So the process ends, as on Android.
///
/// # Safety
/// As [`borrow`].
unsafe fn own_object<'a>(binder: *const AIBinder, function: &str) -> &'a AIBinder {
    // SAFETY: the caller's promise.
    match unsafe { borrow(binder) } {
        Some(object) if matches!(object.kind, Kind::Local { .. }) => object,
        _ => {
            eprintln!("libbinder_ndk: {function} is for objects that this process made with AIBinder_new");
            std::process::abort();
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_setInheritRt(binder: *mut AIBinder, inherits: bool) {
    // SAFETY: the header's promise.
    lock(&unsafe { own_object(binder, "AIBinder_setInheritRt") }.scheduling).inherit = inherits;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_setRequestingSid(binder: *mut AIBinder, wants: bool) {
    // SAFETY: the header's promise.
    let object = unsafe { own_object(binder, "AIBinder_setRequestingSid") };
    object.wants_security_context.store(wants, Ordering::Relaxed);
}

/// Objects are of one system here, not of partitions that are updated apart: stability has no meaning.
macro_rules! without_meaning {
    ($($name:ident),* $(,)?) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(_: *mut AIBinder) {}
    )*};
}

without_meaning!(
    AIBinder_markSystemStability,
    AIBinder_markVendorStability,
    AIBinder_markVintfStability,
    AIBinder_forceDowngradeToLocalStability,
    AIBinder_forceDowngradeToSystemStability,
    AIBinder_forceDowngradeToVendorStability,
);

/// A reference that does not keep its object.
pub struct AIBinder_Weak(Weak<AIBinder>);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_Weak_new(binder: *mut AIBinder) -> *mut AIBinder_Weak {
    if binder.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: alive by the header's promise.
    let shared = unsafe { share(binder) };
    Box::into_raw(Box::new(AIBinder_Weak(Arc::downgrade(&shared))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_Weak_delete(weak: *mut AIBinder_Weak) {
    if !weak.is_null() {
        // SAFETY: made by `Box::into_raw`, and nobody uses it afterwards.
        drop(unsafe { Box::from_raw(weak) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_Weak_promote(weak: *mut AIBinder_Weak) -> *mut AIBinder {
    // SAFETY: the header's promise.
    let object = unsafe { weak.as_ref() }.and_then(|weak| weak.0.upgrade());
    object.map_or(std::ptr::null_mut(), AIBinder::give)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_Weak_clone(weak: *const AIBinder_Weak) -> *mut AIBinder_Weak {
    // SAFETY: the header's promise.
    let copy = unsafe { weak.as_ref() }.map(|weak| AIBinder_Weak(weak.0.clone()));
    copy.map_or(std::ptr::null_mut(), |copy| Box::into_raw(Box::new(copy)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_Weak_lt(left: *const AIBinder_Weak, right: *const AIBinder_Weak) -> bool {
    // SAFETY: the header's promise.
    let place = |weak: *const AIBinder_Weak| unsafe { weak.as_ref() }.map(|weak| weak.0.as_ptr());
    place(left) < place(right)
}

#[unsafe(no_mangle)]
pub extern "C" fn AIBinder_getCallingUid() -> u32 {
    engine::caller().uid
}

#[unsafe(no_mangle)]
pub extern "C" fn AIBinder_getCallingPid() -> c_int {
    engine::caller().pid.try_into().unwrap_or(STATUS_UNKNOWN_ERROR)
}

/// The caller's security context, if the object asked for it and the engine tells it. Until this call has been served.
#[unsafe(no_mangle)]
pub extern "C" fn AIBinder_getCallingSid() -> *const c_char {
    engine::caller_sid()
}

#[unsafe(no_mangle)]
pub extern "C" fn AIBinder_isHandlingTransaction() -> bool {
    engine::is_serving()
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicBool;

    use handoff_ipc::parcel::Parcel;
    use handoff_ipc::{Binder, ParcelService, WeakBinder};

    use super::*;

    static OBJECT: OnceLock<(usize, WeakBinder)> = OnceLock::new();
    static IS_HELD: AtomicBool = AtomicBool::new(false);

    #[test]
    fn an_object_outlives_a_call_in_which_its_last_reference_is_dropped() {
        let served = Binder::new(ParcelService::new("test.IDropped", |_, _: Parcel| {
            let (address, weak) = OBJECT.get().unwrap();
            // SAFETY: the reference that the caller has, who does not use it again.
            unsafe { AIBinder_decStrong(std::ptr::with_exposed_provenance_mut(*address)) };
            IS_HELD.store(weak.upgrade().is_some(), Ordering::Relaxed);
            Ok(Some(Parcel::new()))
        }));
        let weak = served.downgrade();
        let object = AIBinder::give(AIBinder::of(served));
        OBJECT.set((object.expose_provenance(), weak.clone())).unwrap();
        let mut parcel = thread::with(Thread::take);
        parcel.meant_for = Some(object.addr());
        let (mut data, mut reply) = (parcel.give(), std::ptr::null_mut());
        // SAFETY: the object is held until it is called.
        let status = unsafe { AIBinder_transact(object, 1, &raw mut data, &raw mut reply, 0) };
        assert_eq!(status, STATUS_OK);
        assert!(IS_HELD.load(Ordering::Relaxed), "it was called, and nobody held it");
        // SAFETY: a reply that nobody else has.
        drop(unsafe { Box::from_raw(reply) });
        assert!(weak.upgrade().is_none(), "nobody holds it any longer");
    }
}
