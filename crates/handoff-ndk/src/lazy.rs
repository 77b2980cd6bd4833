//! Lazy services: their process ends when their last client is gone.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use handoff_ipc::servicemanager::{ServiceManager, ServiceOptions};
use handoff_ipc::{Binder, Error, ExceptionCode, Runtime};

use crate::locked::lock;
use crate::manager::{complain, name_of};
use crate::object::{AIBinder, share};
use crate::process::runtime;
use crate::status::{STATUS_OK, STATUS_UNEXPECTED_NULL, STATUS_UNKNOWN_ERROR, binder_status_t};

/// How often clients are counted.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

type OnActive = unsafe extern "C-unwind" fn(has_clients: bool, context: *mut c_void) -> bool;

struct Lazy {
    name: String,
    object: Arc<AIBinder>,
    name_state: NameState,
    /// Processes that have had it when they were counted last.
    clients_so_far: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NameState {
    Registered,
    /// It was taken back, and nobody asked for it since.
    GivenBack,
    /// It is to be registered as soon as there is a manager.
    Wanted,
}

#[derive(Clone, Copy)]
struct Callback(OnActive, *mut c_void);

// SAFETY: the header says that any thread may call the function with its context.
unsafe impl Send for Callback {}

struct State {
    services: Vec<Lazy>,
    persists: bool,
    callback: Option<Callback>,
    /// Whether any had clients when they were counted last, and whether any ever had.
    has_clients: bool,
    had_clients: bool,
}

static STATE: Mutex<State> = Mutex::new(State {
    services: Vec::new(),
    persists: false,
    callback: None,
    has_clients: false,
    had_clients: false,
});
static COUNTING: Once = Once::new();

/// Registers a service; gives how many clients it has had before.
fn register(runtime: &Runtime, name: &str, object: &Arc<AIBinder>) -> Result<u64, Error> {
    let (services, node) = (runtime.services(), object.node());
    let so_far = match services.clients_of(&node) {
        Ok(clients) => clients.so_far,
        // The thread that counts says so.
        Err(Error::Unsupported { .. }) => 0,
        Err(error) => return Err(error),
    };
    services.add(name, node, ServiceOptions::default())?;
    Ok(so_far)
}

/// Whether any of the services has a client, and whether any was given to one since they were counted last.
fn count(services: &ServiceManager) -> Result<(bool, bool), Error> {
    let known: Vec<(String, Binder)> =
        lock(&STATE).services.iter().map(|lazy| (lazy.name.clone(), lazy.object.node())).collect();
    // All of them first: what is noted of one would be lost if the next could not be counted.
    let counted = known.into_iter().map(|(name, node)| Ok((name, services.clients_of(&node)?)));
    let counted: Vec<_> = counted.collect::<Result<_, Error>>()?;
    let (mut has_clients, mut was_given) = (false, false);
    for (name, clients) in counted {
        has_clients |= clients.now > 0;
        change(&name, |lazy| {
            was_given |= std::mem::replace(&mut lazy.clients_so_far, clients.so_far) < clients.so_far;
        });
    }
    Ok((has_clients, was_given))
}

/// Looks for ever whether clients have come or gone.
fn count_clients(runtime: &Runtime) {
    loop {
        std::thread::sleep(LOOK_AGAIN);
        register_those(runtime, NameState::Wanted);
        let (has_clients, was_given) = match count(runtime.services()) {
            Ok(counted) => counted,
            Err(error @ Error::Unsupported { .. }) => {
                eprintln!("libbinder_ndk: lazy services stay registered: {error}");
                return;
            }
            // The manager is away, and may come back.
            Err(_) => continue,
        };
        let mut state = lock(&STATE);
        state.had_clients |= has_clients || was_given;
        let had_clients = std::mem::replace(&mut state.has_clients, has_clients);
        drop(state);
        let came_and_went = was_given && !has_clients && !had_clients;
        if came_and_went {
            clients_changed(true);
        }
        if came_and_went || had_clients != has_clients {
            clients_changed(has_clients);
        }
    }
}

/// Clients have come, or the last one is gone.
fn clients_changed(has_clients: bool) {
    let (persists, callback) = {
        let state = lock(&STATE);
        (state.persists, state.callback)
    };
    if persists {
        return;
    }
    // The application's own code, which calls functions of this module: never under the lock.
    // SAFETY: as whoever set it said.
    let is_done =
        callback.is_some_and(|Callback(callback, context)| unsafe { callback(has_clients, context) });
    if !is_done && !has_clients {
        if AServiceManager_tryUnregister() {
            std::process::exit(0);
        }
        AServiceManager_reRegister();
        // Somebody has come in between, or a manager was away: when nobody is there the next time, it is tried again.
        lock(&STATE).has_clients = true;
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AServiceManager_registerLazyService(
    binder: *mut AIBinder,
    instance: *const c_char,
) -> binder_status_t {
    const NAME: &str = "AServiceManager_registerLazyService";
    // SAFETY: the header's promise.
    let Some(name) = (unsafe { name_of(instance) }).filter(|_| !binder.is_null()) else {
        return STATUS_UNEXPECTED_NULL;
    };
    // SAFETY: not null, and held by the header's promise.
    let object = unsafe { share(binder) };
    let added = runtime().and_then(|runtime| {
        let so_far = register(&runtime, name, &object).map_err(|error| error.to_string())?;
        Ok((runtime, so_far))
    });
    let (runtime, clients_so_far) = match added {
        Ok(added) => added,
        Err(why) => {
            complain(NAME, name, &why);
            return STATUS_UNKNOWN_ERROR;
        }
    };
    let mut state = lock(&STATE);
    state.services.retain(|lazy| lazy.name != name);
    state.services.push(Lazy {
        name: name.to_owned(),
        object,
        name_state: NameState::Registered,
        clients_so_far,
    });
    drop(state);
    COUNTING.call_once(|| {
        let thread = std::thread::Builder::new().name("handoff-lazy".into());
        if let Err(error) = thread.spawn(move || count_clients(&runtime)) {
            complain(NAME, name, &format!("it stays registered: no thread can count its clients: {error}"));
        }
    });
    STATUS_OK
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn AServiceManager_forceLazyServicesPersist(persists: bool) {
    let mut state = lock(&STATE);
    state.persists = persists;
    // The last one may have gone meanwhile. One that had none yet waits for its first.
    let is_over = !persists && state.had_clients && !state.has_clients;
    drop(state);
    if is_over {
        clients_changed(false);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn AServiceManager_setActiveServicesCallback(
    callback: Option<OnActive>,
    context: *mut c_void,
) {
    lock(&STATE).callback = callback.map(|callback| Callback(callback, context));
}

/// Takes the names of all lazy services back; false, with some of them taken back, if one has clients.
#[unsafe(no_mangle)]
pub extern "C" fn AServiceManager_tryUnregister() -> bool {
    let Ok(runtime) = runtime() else { return false };
    let services = runtime.services();
    let held = |lazy: &Lazy| {
        (lazy.name_state != NameState::GivenBack).then(|| (lazy.name.clone(), lazy.object.node()))
    };
    let nodes: Vec<(String, Binder)> = lock(&STATE).services.iter().filter_map(held).collect();
    for (name, node) in nodes {
        let is_idle = || services.clients_of(&node).is_ok_and(|clients| clients.now == 0);
        if !is_idle() {
            return false;
        }
        match services.remove(&name, &node) {
            Ok(()) => {}
            // A restarted manager was not told of it, or gave it to somebody else: nothing is to be taken back.
            Err(Error::Status(status)) if status.exception() == ExceptionCode::IllegalState => {}
            Err(error) => {
                complain("AServiceManager_tryUnregister", &name, &error);
                return false;
            }
        }
        change(&name, |lazy| lazy.name_state = NameState::GivenBack);
        // Somebody may have found it between the two.
        if !is_idle() {
            return false;
        }
    }
    true
}

#[unsafe(no_mangle)]
pub extern "C" fn AServiceManager_reRegister() {
    if let Ok(runtime) = runtime() {
        register_those(&runtime, NameState::GivenBack);
    }
}

/// Registers every name that is in a state.
fn register_those(runtime: &Runtime, state: NameState) {
    let is_in =
        |lazy: &Lazy| (lazy.name_state == state).then(|| (lazy.name.clone(), Arc::clone(&lazy.object)));
    let names: Vec<_> = lock(&STATE).services.iter().filter_map(is_in).collect();
    for (name, object) in names {
        match register(runtime, &name, &object) {
            Ok(so_far) => {
                change(&name, |lazy| {
                    (lazy.name_state, lazy.clients_so_far) = (NameState::Registered, so_far)
                });
            }
            // The manager is away, or ended in the middle of the call, and may come back: the thread that counts tries again.
            Err(error) if error.is_disconnection() => {
                change(&name, |lazy| lazy.name_state = NameState::Wanted)
            }
            // Without a name nobody would ever find it: whoever starts the process begins anew.
            Err(error) => {
                complain("AServiceManager_reRegister", &name, &format!("{error}; the process ends"));
                std::process::abort();
            }
        }
    }
}

fn change(name: &str, change: impl FnOnce(&mut Lazy)) {
    if let Some(lazy) = lock(&STATE).services.iter_mut().find(|lazy| lazy.name == name) {
        change(lazy);
    }
}
