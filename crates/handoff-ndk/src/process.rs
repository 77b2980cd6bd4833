//! `ABinderProcess`: the process's place on an engine, and its threads.
//!
//! The pool of `handoff-ipc` serves from the first object that is given away, so that there is nothing to start.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use handoff_ipc::Runtime;
use handoff_ipc::engine::EngineKind;

use crate::locked::lock;
use crate::polling;
use crate::status::{
    STATUS_INVALID_OPERATION, STATUS_OK, STATUS_UNEXPECTED_NULL, binder_status_t, known_status,
};

/// The variable that names the engine: `shm`, which is meant where it is not set, or `binder`.
const ENGINE_VARIABLE: &str = "HANDOFF_ENGINE";

static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);
static MAX_THREADS: AtomicU32 = AtomicU32::new(u32::MAX);
static STARTED: AtomicBool = AtomicBool::new(false);

/// The connection of this process, made when it is first wanted, and again while that fails.
pub(crate) fn runtime() -> Result<Runtime, String> {
    let mut runtime = lock(&RUNTIME);
    if let Some(runtime) = &*runtime {
        return Ok(runtime.clone());
    }
    let engine = match std::env::var(ENGINE_VARIABLE) {
        Ok(name) if !name.is_empty() => {
            name.parse::<EngineKind>().map_err(|error| format!("${ENGINE_VARIABLE}: {error}"))?
        }
        _ => EngineKind::Shm,
    };
    let mut builder = Runtime::builder().engine(engine);
    let threads = MAX_THREADS.load(Ordering::Relaxed);
    if threads != u32::MAX {
        builder = builder.max_threads(threads as usize);
    }
    let connected = builder.connect().map_err(|error| {
        let driver = if engine == EngineKind::Binder { " --driver binder" } else { "" };
        format!("{error}; `handoff servicemanager{driver}` starts a service manager")
    })?;
    *runtime = Some(connected.clone());
    Ok(connected)
}

#[unsafe(no_mangle)]
pub extern "C" fn ABinderProcess_setThreadPoolMaxThreadCount(threads: u32) -> bool {
    // As on Android, `ABinderProcess_joinThreadPool` lends one thread more; none at all would serve nobody.
    let threads = threads.clamp(1, 1024);
    MAX_THREADS.store(threads, Ordering::Relaxed);
    if let Some(runtime) = &*lock(&RUNTIME) {
        runtime.set_max_threads(threads as usize);
    }
    true
}

#[unsafe(no_mangle)]
pub extern "C" fn ABinderProcess_startThreadPool() {
    STARTED.store(true, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
pub extern "C" fn ABinderProcess_isThreadPoolStarted() -> bool {
    STARTED.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
pub extern "C" fn ABinderProcess_joinThreadPool() {
    STARTED.store(true, Ordering::Relaxed);
    loop {
        // The pool's own threads serve.
        std::thread::park();
    }
}

/// Threads are placed and scheduled by the runtime; there are no background groups here.
#[unsafe(no_mangle)]
pub extern "C" fn ABinderProcess_disableBackgroundScheduling(_: bool) {}

/// Whether a thread of the application serves the calls of other processes.
pub(crate) fn polls() -> bool {
    polling::is_set_up() && !STARTED.load(Ordering::Relaxed)
}

/// From now on calls of other processes wait for [`ABinderProcess_handlePolledCommands`], unless the pool was started, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ABinderProcess_setupPolling(fd: *mut c_int) -> binder_status_t {
    if fd.is_null() {
        return STATUS_UNEXPECTED_NULL;
    }
    let (found, status) = match polling::descriptor() {
        Ok(bell) => (bell, STATUS_OK),
        Err(error) => (-1, known_status(-error.raw_os_error())),
    };
    // SAFETY: room for one, by the header's promise.
    unsafe { fd.write(found) };
    status
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn ABinderProcess_handlePolledCommands() -> binder_status_t {
    if !polling::is_set_up() {
        return STATUS_INVALID_OPERATION;
    }
    polling::serve_waiting();
    STATUS_OK
}
