//! Handoff for C and C++.
//!
//! A thin shell over `handoff-placement` and, in `calls.rs` and `parcel.rs`, over `handoff-ipc`: numbers and strings
//! in, a count or a status out, and the reason of a failure in words from [`handoff_last_error`]. Nothing unwinds into C.
#![allow(unsafe_code)]

use handoff_placement::notice;
use handoff_placement::{
    AffinityGuard, Allowed, CpuSet, Pin, Priority, PriorityGuard, Scope, Selector, Tid, Topology, fast,
    set_affinity,
};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub mod calls;
pub mod parcel;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// What every function gives when it fails; [`handoff_last_error`] says why.
pub const HANDOFF_FAILED: c_int = -1;

type BoxResult<T> = Result<T, Box<dyn std::error::Error>>;

/// Runs the body; a failure or a panic becomes words and [`HANDOFF_FAILED`].
fn answer(body: impl FnOnce() -> BoxResult<c_int>) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(body));
    let reason = match outcome {
        Ok(Ok(value)) => return value,
        Ok(Err(error)) => {
            calls::remember_kind(&*error);
            error.to_string()
        }
        Err(_) => {
            calls::forget_kind();
            "an internal error".to_owned()
        }
    };
    remember(reason);
    HANDOFF_FAILED
}

fn remember(reason: String) {
    let text = CString::new(reason.replace('\0', " ")).unwrap_or_default();
    LAST_ERROR.with(|last| *last.borrow_mut() = text);
}

/// [`handoff_last_error`] as text.
fn last_error() -> String {
    LAST_ERROR.with(|last| last.borrow().to_string_lossy().into_owned())
}

/// Why the last call of this thread failed, in words. Valid until its next failure.
#[unsafe(no_mangle)]
pub extern "C" fn handoff_last_error() -> *const c_char {
    LAST_ERROR.with(|last| last.borrow().as_ptr())
}

/// A C string as text.
///
/// # Safety
///
/// `text` is null or points to a string that ends with a zero byte.
unsafe fn text<'a>(text: *const c_char) -> BoxResult<&'a str> {
    if text.is_null() {
        return Err("a string is missing".into());
    }
    // SAFETY: not null, and a string by the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(Into::into)
}

/// 0 is the calling thread.
fn tid(id: i32) -> BoxResult<Tid> {
    if id == 0 {
        return Ok(Tid::current());
    }
    Tid::new(id).ok_or_else(|| format!("{id} is not a thread").into())
}

/// The CPUs that a name means here.
///
/// # Safety
///
/// As [`text`].
unsafe fn resolve(name: *const c_char) -> BoxResult<CpuSet> {
    // SAFETY: the caller's promise.
    let selector: Selector = unsafe { text(name) }?.parse()?;
    Ok(selector.resolve(&Topology::read()?)?)
}

/// Copies as many CPUs as there is room for; gives how many there are.
///
/// # Safety
///
/// `cpus` has room for `capacity` numbers, or is null with a capacity of 0.
unsafe fn give(set: &CpuSet, cpus: *mut u16, capacity: usize) -> BoxResult<c_int> {
    if cpus.is_null() && capacity > 0 {
        return Err("the array is missing".into());
    }
    for (index, cpu) in set.iter().take(capacity).enumerate() {
        // SAFETY: `index` is below `capacity`, for which there is room.
        unsafe { cpus.add(index).write(cpu) };
    }
    Ok(c_int::try_from(set.len())?)
}

/// The CPUs that a thread may use (0 is the calling one).
///
/// Writes up to `capacity` numbers to `cpus` and gives how many there are, which may be more; -1 on failure.
///
/// # Safety
///
/// `cpus` has room for `capacity` numbers, or is null with a capacity of 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_allowed_cpus(thread: i32, cpus: *mut u16, capacity: usize) -> c_int {
    // SAFETY: the caller's promise.
    answer(|| unsafe { give(&Allowed::of(tid(thread)?)?.mask, cpus, capacity) })
}

/// The CPUs that a name means on this machine: `big`, `llc:0`, `0-3,5`, `all,!0`.
///
/// Writes up to `capacity` numbers to `cpus` and gives how many there are, which may be more; -1 on failure.
///
/// # Safety
///
/// `name` is a string; `cpus` has room for `capacity` numbers, or is null with a capacity of 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_resolve_cpus(name: *const c_char, cpus: *mut u16, capacity: usize) -> c_int {
    // SAFETY: the caller's promise.
    answer(|| unsafe { give(&resolve(name)?, cpus, capacity) })
}

/// The CPU that the calling thread runs on now.
#[unsafe(no_mangle)]
pub extern "C" fn handoff_current_cpu() -> c_int {
    fast::current_cpu().into()
}

/// Lets one thread (0 is the calling one) run on these CPUs only. Gives how many were granted; -1 on failure.
///
/// # Safety
///
/// `cpus` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_pin_thread(thread: i32, cpus: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let granted = set_affinity(tid(thread)?, &unsafe { resolve(cpus) }?)?;
        Ok(c_int::try_from(granted.len())?)
    })
}

/// Lets every thread of a process run on these CPUs only, those that are born meanwhile too.
/// Gives how many CPUs were granted; -1 on failure, with nothing changed.
///
/// # Safety
///
/// `cpus` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_pin_process(pid: i32, cpus: *const c_char) -> c_int {
    answer(|| {
        let pid = Tid::new(pid).ok_or("0 or less is not a process")?;
        // SAFETY: the caller's promise.
        let pin = Pin::apply(Scope::Process, pid, &unsafe { resolve(cpus) }?)?;
        Ok(c_int::try_from(pin.granted().len())?)
    })
}

/// The calling thread on some CPUs, at some priority, until [`handoff_guard_end`].
#[allow(non_camel_case_types)] // A C name.
pub struct handoff_guard {
    _affinity: Option<AffinityGuard>,
    _priority: Option<PriorityGuard>,
    thread: Tid,
}

/// Puts the calling thread on CPUs and gives it a priority (`fifo:10`, `other:-5`); either may be null.
/// Gives null on failure, with nothing changed. The same thread must end it.
///
/// # Safety
///
/// `cpus` and `priority` are null or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_guard_begin(
    cpus: *const c_char,
    priority: *const c_char,
) -> *mut handoff_guard {
    let mut begun = std::ptr::null_mut();
    answer(|| {
        // SAFETY: not null, and strings by the caller's promise.
        let affinity = (!cpus.is_null()).then(|| unsafe { resolve(cpus) }).transpose()?;
        // SAFETY: as above.
        let priority = (!priority.is_null()).then(|| unsafe { text(priority) }).transpose()?;
        let priority: Option<Priority> = priority.map(str::parse).transpose()?;
        let affinity = affinity.map(|cpus| AffinityGuard::pin(&cpus)).transpose()?;
        let priority = priority.map(PriorityGuard::enter).transpose()?;
        let guard = handoff_guard { _affinity: affinity, _priority: priority, thread: Tid::current() };
        begun = Box::into_raw(Box::new(guard));
        Ok(0)
    });
    begun
}

/// Gives the thread back what it had. Null is ignored; -1 from another thread, with nothing changed.
///
/// # Safety
///
/// `placement` is null, or comes from [`handoff_guard_begin`] and was not ended yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_guard_end(placement: *mut handoff_guard) -> c_int {
    answer(|| {
        // SAFETY: null, or a box that is alive by the caller's promise.
        let Some(guard) = (unsafe { placement.as_ref() }) else { return Ok(0) };
        if guard.thread != Tid::current() {
            return Err(format!("thread {} began this placement and must end it", guard.thread).into());
        }
        // SAFETY: it was made by `Box::into_raw`, and nobody uses it afterwards.
        drop(unsafe { Box::from_raw(placement) });
        Ok(0)
    })
}

/// Gives a thread (0 is the calling one) a policy and priority: `fifo:10`, `rr:1`, `other:-5`, `batch`, `idle`.
///
/// # Safety
///
/// `priority` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_set_priority(thread: i32, priority: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let priority: Priority = unsafe { text(priority) }?.parse()?;
        priority.apply(tid(thread)?)?;
        Ok(0)
    })
}

/// Writes the policy and priority of a thread (0 is the calling one) to `buffer`, as
/// [`handoff_set_priority`] reads it. Gives its length; -1 if it does not fit.
///
/// # Safety
///
/// `buffer` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_get_priority(thread: i32, buffer: *mut c_char, size: usize) -> c_int {
    answer(|| {
        let priority = Priority::of(tid(thread)?)?.to_string();
        if buffer.is_null() || priority.len() >= size {
            return Err(format!("`{priority}` needs {} bytes", priority.len() + 1).into());
        }
        // SAFETY: `buffer` has room for the text and the zero after it, and does not overlap it.
        unsafe {
            std::ptr::copy_nonoverlapping(priority.as_ptr().cast(), buffer, priority.len());
            buffer.add(priority.len()).write(0);
        }
        Ok(c_int::try_from(priority.len())?)
    })
}

/// Tells the running policy that a process came to the foreground (1), or left it (0).
#[unsafe(no_mangle)]
pub extern "C" fn handoff_foreground(pid: i32, foreground: c_int) -> c_int {
    answer(|| {
        let pid = Tid::new(pid).ok_or("0 or less is not a process")?;
        notice::foreground(&notice::default_folder(), pid, foreground != 0)?;
        Ok(0)
    })
}
