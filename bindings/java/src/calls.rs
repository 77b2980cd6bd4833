//! Calls and services: the native half of `dev.handoff.Connection`.
//!
//! What Java holds are numbers of a table, so that one that was closed is refused and nothing worse. Outcomes
//! travel as bytes: a kind, then the data or what went wrong. `Outcome.java` is the other side of it.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use handoff_ipc::engine::DeathRegistration;
use handoff_ipc::parcel::Parcel;
use handoff_ipc::runtime::Options;
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, CallOptions, Error, ExceptionCode, PlainService, Runtime, Status};
use jni::errors::ThrowRuntimeExAndDefault;
use jni::objects::{JByteArray, JClass, JObject, JString, JValue};
use jni::refs::Global;
use jni::sys::{jboolean, jint, jlong};
use jni::{Env, EnvUnowned, JavaVM, jni_sig, jni_str};

use crate::Failure;

/// Kinds of an outcome, as `Outcome.java` has them.
const OK: i32 = 0;
const DEAD: i32 = 1;
const DEADLINE: i32 = 2;
const EXCEPTION: i32 = 3;
const NO_SERVICE: i32 = 4;
const UNKNOWN_TRANSACTION: i32 = 5;
const OTHER: i32 = 6;

/// What a number of Java's stands for.
#[derive(Clone)]
enum Held {
    Runtime(Runtime),
    Object(Binder),
    // Kept until it is closed.
    Death(#[allow(dead_code)] Arc<Mutex<DeathRegistration>>),
}

#[derive(Default)]
struct Table {
    next: jlong,
    held: HashMap<jlong, Held>,
}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

fn put(held: Held) -> Vec<u8> {
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    table.next += 1;
    let number = table.next;
    table.held.insert(number, held);
    number.to_le_bytes().to_vec()
}

fn get(number: jlong) -> Option<Held> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner).held.get(&number).cloned()
}

fn closed() -> Error {
    Error::Io { what: "it was closed".into(), source: std::io::ErrorKind::NotConnected.into() }
}

fn runtime(number: jlong) -> Result<Runtime, Error> {
    match get(number) {
        Some(Held::Runtime(runtime)) => Ok(runtime),
        _ => Err(closed()),
    }
}

fn object(number: jlong) -> Result<Binder, Error> {
    match get(number) {
        Some(Held::Object(object)) => Ok(object),
        _ => Err(closed()),
    }
}

/// A kind, and what belongs to it.
fn packed(outcome: Result<Vec<u8>, Error>) -> Vec<u8> {
    let (kind, rest) = match outcome {
        Ok(data) => (OK, data),
        Err(Error::Status(status)) => {
            let mut rest = (status.exception() as i32).to_le_bytes().to_vec();
            rest.extend(status.service_specific_code().to_le_bytes());
            rest.extend(status.message().unwrap_or_default().bytes());
            (EXCEPTION, rest)
        }
        Err(error) => {
            let kind = match &error {
                Error::Dead => DEAD,
                Error::DeadlineExpired(_) => DEADLINE,
                Error::NoSuchService(_) => NO_SERVICE,
                Error::UnknownTransaction { .. } => UNKNOWN_TRANSACTION,
                _ => OTHER,
            };
            (kind, error.to_string().into_bytes())
        }
    };
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(rest);
    bytes
}

/// The reverse, of what a handler in Java came to.
fn unpacked(bytes: &[u8]) -> Result<Option<Parcel>, Error> {
    let word = |at: usize| -> Option<i32> {
        bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(i32::from_le_bytes)
    };
    match word(0) {
        Some(OK) => Ok(Some(Parcel::from_bytes(bytes[4..].to_vec()))),
        Some(UNKNOWN_TRANSACTION) => Ok(None),
        Some(EXCEPTION) => {
            let (exception, specific) = (word(4).unwrap_or(0), word(8).unwrap_or(0));
            let message = String::from_utf8_lossy(bytes.get(12..).unwrap_or_default()).into_owned();
            Err(Error::Status(match ExceptionCode::from_raw(exception) {
                ExceptionCode::ServiceSpecific => Status::service_specific(specific, message),
                ExceptionCode::None => Status::new(ExceptionCode::IllegalState, message),
                other => Status::new(other, message),
            }))
        }
        _ => Err(Status::new(ExceptionCode::IllegalState, "the service failed").into()),
    }
}

fn give<'local>(
    env: &mut Env<'local>,
    outcome: Result<Vec<u8>, Error>,
) -> Result<JByteArray<'local>, Failure> {
    Ok(env.byte_array_from_slice(&packed(outcome))?)
}

fn wait(milliseconds: jlong) -> Option<Duration> {
    u64::try_from(milliseconds).ok().filter(|wait| *wait > 0).map(Duration::from_millis)
}

/// Connects to a manager's socket; an empty name is the usual one.
// SAFETY: the name is this class's and method's; no other library has it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_handoff_Connection_connect<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    socket: JString<'local>,
) -> JByteArray<'local> {
    env.with_env(|env| {
        let socket = socket.to_string();
        let options = if socket.is_empty() { Options::default() } else { Options::at(socket) };
        give(env, Runtime::connect(&options).map(|runtime| put(Held::Runtime(runtime))))
    })
    .resolve::<ThrowRuntimeExAndDefault>()
}

/// Finds a service, waiting so many milliseconds.
// SAFETY: the name is this class's and method's; no other library has it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_handoff_Connection_find<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    connection: jlong,
    name: JString<'local>,
    milliseconds: jlong,
) -> JByteArray<'local> {
    env.with_env(|env| {
        let name = name.to_string();
        let found = runtime(connection).and_then(|runtime| match wait(milliseconds) {
            None => runtime.services().get(&name),
            Some(wait) => runtime.services().wait_for(&name, wait),
        });
        give(env, found.map(|binder| put(Held::Object(binder))))
    })
    .resolve::<ThrowRuntimeExAndDefault>()
}

/// Registers a service, whose calls go to the handler's `dispatch`.
// SAFETY: the name is this class's and method's; no other library has it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_handoff_Connection_serve<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    connection: jlong,
    name: JString<'local>,
    descriptor: JString<'local>,
    dispatcher: JObject<'local>,
) -> JByteArray<'local> {
    env.with_env(|env| {
        let (name, descriptor) = (name.to_string(), descriptor.to_string());
        let (machine, dispatcher) = (env.get_java_vm()?, env.new_global_ref(&dispatcher)?);
        let service = PlainService::new(descriptor, move |call, code, request| {
            let caller = call.identity();
            let numbers = [caller.pid, caller.uid, caller.gid].map(u32::cast_signed);
            let answer = dispatch(&machine, &dispatcher, numbers, call.is_oneway(), code, request.as_bytes());
            // The virtual machine is on its way out, or out of memory.
            unpacked(&answer.map_err(|_| Error::Dead)?)
        });
        let added = runtime(connection).and_then(|runtime| {
            runtime.services().add(&name, Binder::new(service), ServiceOptions::default())
        });
        give(env, added.map(|()| Vec::new()))
    })
    .resolve::<ThrowRuntimeExAndDefault>()
}

/// Has Java serve one call, on this thread of the runtime: attached for as long as that takes, so that it never
/// keeps the virtual machine from ending.
fn dispatch(
    machine: &JavaVM,
    dispatcher: &Global<JObject<'static>>,
    caller: [jint; 3],
    is_oneway: jboolean,
    code: u32,
    request: &[u8],
) -> jni::errors::Result<Vec<u8>> {
    machine.attach_current_thread_for_scope(|env| {
        let request = env.byte_array_from_slice(request)?;
        let arguments = [
            JValue::Int(caller[0]),
            JValue::Int(caller[1]),
            JValue::Int(caller[2]),
            JValue::Bool(is_oneway),
            JValue::Int(code.cast_signed()),
            JValue::Object(&request),
        ];
        let answer =
            env.call_method(dispatcher, jni_str!("dispatch"), jni_sig!("(IIIZI[B)[B"), &arguments)?;
        let answer = env.cast_local::<JByteArray>(answer.l()?)?;
        env.convert_byte_array(&answer)
    })
}

/// Calls a transaction; a oneway one is queued.
// SAFETY: the name is this class's and method's; no other library has it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_handoff_Connection_call<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    called: jlong,
    code: jint,
    request: JByteArray<'local>,
    milliseconds: jlong,
    is_oneway: jboolean,
) -> JByteArray<'local> {
    env.with_env(|env| {
        let request = Parcel::from_bytes(env.convert_byte_array(&request)?);
        let code = code.cast_unsigned();
        let outcome = object(called).and_then(|object| {
            if is_oneway {
                return object.oneway_parcel(CallOptions::default(), code, &request).map(|()| Vec::new());
            }
            let options = CallOptions { deadline: wait(milliseconds), ..CallOptions::default() };
            object.call_parcel(options, code, &request).map(Parcel::into_bytes)
        });
        give(env, outcome)
    })
    .resolve::<ThrowRuntimeExAndDefault>()
}

/// The name of an object's interface.
// SAFETY: the name is this class's and method's; no other library has it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_handoff_Connection_descriptor<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    called: jlong,
) -> JByteArray<'local> {
    env.with_env(|env| {
        let descriptor = object(called).and_then(|object| object.descriptor());
        give(env, descriptor.map(String::into_bytes))
    })
    .resolve::<ThrowRuntimeExAndDefault>()
}

/// False once the object's process is known to be gone.
// SAFETY: the name is this class's and method's; no other library has it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_handoff_Connection_alive<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    called: jlong,
) -> jboolean {
    env.with_env(|_| -> Result<_, Failure> { Ok(object(called).is_ok_and(|object| object.is_alive())) })
        .resolve::<ThrowRuntimeExAndDefault>()
}

/// Has `died.run()` called when the object's process ends.
// SAFETY: the name is this class's and method's; no other library has it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_handoff_Connection_watch<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    watched: jlong,
    died: JObject<'local>,
) -> JByteArray<'local> {
    env.with_env(|env| {
        let (machine, died) = (env.get_java_vm()?, env.new_global_ref(&died)?);
        let told = move || {
            let run = |env: &mut Env<'_>| -> jni::errors::Result<()> {
                env.call_method(&died, jni_str!("run"), jni_sig!("()V"), &[]).map(drop)
            };
            // `Connection` catches what the program's code throws; else the machine is on its way out.
            drop(machine.attach_current_thread_for_scope(run));
        };
        let watch = object(watched).and_then(|object| object.link_to_death(told));
        give(env, watch.map(|watch| put(Held::Death(Arc::new(Mutex::new(watch))))))
    })
    .resolve::<ThrowRuntimeExAndDefault>()
}

/// What the number stands for goes.
// SAFETY: the name is this class's and method's; no other library has it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_handoff_Connection_release<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    number: jlong,
) {
    env.with_env(|_| -> Result<_, Failure> {
        let gone = TABLE.lock().unwrap_or_else(PoisonError::into_inner).held.remove(&number);
        // After the lock: it may wait for the manager.
        drop(gone);
        Ok(())
    })
    .resolve::<ThrowRuntimeExAndDefault>()
}
