//! Calls and services: the native half of `dev.handoff.Connection`.
//!
//! What Java holds are numbers of a table, so that one that was closed is refused and nothing worse. Outcomes
//! travel as bytes: a kind, then the data or what went wrong. `Outcome.java` is the other side of it. Parcels that Java
//! has put together come as their bytes with a table of what belongs between them; those that go to Java stay here
//! where they have objects, and Java asks for them one by one.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::fd::{BorrowedFd, FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use handoff_ipc::engine::DeathRegistration;
use handoff_ipc::parcel::{Parcel, Reader};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Error, ExceptionCode, InterfaceId, ParcelService, Runtime, Status, WeakBinder};
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
const WRONG_INTERFACE: i32 = 7;
const NAME_TAKEN: i32 = 8;

/// What a number of Java's stands for.
#[derive(Clone)]
enum Held {
    Runtime(Runtime),
    Object(Binder),
    // One that does not keep its object.
    Weak(WeakBinder),
    // What Java has put into a parcel, until that is closed or has been sent as a reply.
    File(Arc<OwnedFd>),
    // One with objects, until Java has closed it.
    Parcel(Arc<Parcel>),
    // Kept until it is closed.
    Death(#[allow(dead_code)] Arc<Mutex<DeathRegistration>>),
}

#[derive(Default)]
struct Table {
    next: jlong,
    held: HashMap<jlong, Held>,
}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

fn number(held: Held) -> jlong {
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    table.next += 1;
    let number = table.next;
    table.held.insert(number, held);
    number
}

fn put(held: Held) -> Vec<u8> {
    number(held).to_le_bytes().to_vec()
}

/// Lets go what a number stands for.
fn release(number: jlong) {
    let gone = TABLE.lock().unwrap_or_else(PoisonError::into_inner).held.remove(&number);
    // After the lock: it may wait for the manager.
    drop(gone);
}

/// The number of a parcel that has objects; 0 of one that Java needs the bytes of only.
fn kept(parcel: &Parcel) -> jlong {
    if parcel.has_objects() { number(Held::Parcel(Arc::new(parcel.clone()))) } else { 0 }
}

/// Kinds of what stands between the bytes of a parcel of Java's, as `Parcel.java` has them.
const OBJECT: i32 = 1;
const FILE: i32 = 2;
const PART: i32 = 3;

/// A parcel that Java has put together: how many objects, where each belongs and what it is, then the bytes.
fn parcel(bytes: &[u8]) -> Result<Parcel, Error> {
    let malformed = || Error::BadParcel { at: 0, what: "not a parcel of this library's".into() };
    let (count, mut rest) = bytes.split_first_chunk().ok_or_else(malformed)?;
    let count = usize::try_from(i32::from_le_bytes(*count)).map_err(|_| malformed())?;
    let mut places = Vec::new();
    for _ in 0..count {
        let (at, more) = rest.split_first_chunk().ok_or_else(malformed)?;
        let (kind, more) = more.split_first_chunk().ok_or_else(malformed)?;
        let (number, more) = more.split_first_chunk().ok_or_else(malformed)?;
        let at = usize::try_from(i32::from_le_bytes(*at)).map_err(|_| malformed())?;
        places.push((at, i32::from_le_bytes(*kind), jlong::from_le_bytes(*number)));
        rest = more;
    }
    let (mut parcel, mut from) = (Parcel::new(), 0);
    for (at, kind, number) in places {
        let before = rest.get(from..at).ok_or_else(malformed)?;
        parcel.write(|to| to.write_raw(before))?;
        from = at;
        match (kind, number) {
            (OBJECT, 0) => parcel.write(|to| to.write_binder(None))?,
            (OBJECT, number) => {
                let object = object(number)?;
                parcel.write(|to| to.write_binder(Some(&object)))?;
            }
            (FILE, number) => {
                let Some(Held::File(file)) = get(number) else { return Err(closed()) };
                parcel.write(|to| {
                    to.write(&1)?; // not null
                    to.write(&0)?; // without a status channel
                    to.write_fd(&*file)
                })?;
            }
            (PART, number) => {
                let Some(Held::Parcel(part)) = get(number) else { return Err(closed()) };
                parcel.write(|to| part.send(to))?;
            }
            _ => return Err(malformed()),
        }
    }
    let end = rest.get(from..).ok_or_else(malformed)?;
    parcel.write(|to| to.write_raw(end))?;
    Ok(parcel)
}

/// The numbers in the table of such a parcel.
fn numbers_in(bytes: &[u8]) -> Vec<jlong> {
    let Some((count, table)) = bytes.split_first_chunk() else { return Vec::new() };
    let entries =
        table.as_chunks::<16>().0.iter().take(usize::try_from(i32::from_le_bytes(*count)).unwrap_or(0));
    let number = |entry: &[u8; 16]| entry.last_chunk().map(|number| jlong::from_le_bytes(*number));
    entries.filter_map(number).collect()
}

/// A descriptor of its own for a number of Java's.
fn duplicate(fd: jint) -> Result<OwnedFd, Error> {
    if fd < 0 {
        let what = format!("{fd} is no file descriptor");
        return Err(Error::io(what, std::io::Error::from(std::io::ErrorKind::InvalidInput)));
    }
    // SAFETY: not negative; that it is open and stays so until this returns is Java's part, and where it is not, the
    // duplication fails.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    borrowed.try_clone_to_owned().map_err(|error| Error::io("cannot duplicate a file descriptor", error))
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
                Error::WrongInterface { .. } => WRONG_INTERFACE,
                Error::NameTaken { .. } => NAME_TAKEN,
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
        Some(OK) => {
            let reply = parcel(&bytes[4..]).map(Some);
            // The handler's parcel is not sent again.
            numbers_in(&bytes[4..]).into_iter().for_each(release);
            reply
        }
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

native! {
    /// Connects to a manager's socket; an empty name is the usual one.
    fn Java_dev_handoff_Connection_connect(env, socket: JString<'local>) -> JByteArray<'local> {
        let socket = socket.to_string();
        handoff_ipc::log::to_stderr();
        let builder = Runtime::builder();
        let builder = if socket.is_empty() { builder } else { builder.socket(socket) };
        give(env, builder.connect().map(|runtime| put(Held::Runtime(runtime))))
    }
}

native! {
    /// Finds a service, waiting so many milliseconds.
    fn Java_dev_handoff_Connection_find(
        env, connection: jlong, name: JString<'local>, milliseconds: jlong
    ) -> JByteArray<'local> {
        let name = name.to_string();
        let found = runtime(connection).and_then(|runtime| match wait(milliseconds) {
            None => runtime.services().get(&name),
            Some(wait) => runtime.services().wait_for(&name, wait),
        });
        give(env, found.map(|binder| put(Held::Object(binder))))
    }
}

native! {
    /// An object whose calls go to the handler's `dispatch`.
    fn Java_dev_handoff_Connection_offer(
        env, descriptor: JString<'local>, dispatcher: JObject<'local>
    ) -> JByteArray<'local> {
        let descriptor = descriptor.to_string();
        let dispatcher = Callee::new(env, &dispatcher)?;
        let service = ParcelService::new(descriptor, move |call, request| {
            let caller = call.identity();
            let numbers = [caller.pid, caller.uid, caller.gid].map(u32::cast_signed);
            let answer = dispatch(&dispatcher, numbers, call.is_oneway(), call.code(), &request);
            // The virtual machine is on its way out, or out of memory.
            unpacked(&answer.map_err(|_| Error::Runtime(Box::new(Error::Dead)))?)
        });
        give(env, Ok(put(Held::Object(Binder::new(service)))))
    }
}

native! {
    /// Registers an object under a name.
    fn Java_dev_handoff_Connection_register(
        env, connection: jlong, name: JString<'local>, registered: jlong, replace: jboolean
    ) -> JByteArray<'local> {
        let name = name.to_string();
        let options = ServiceOptions { replace, ..ServiceOptions::default() };
        let added = runtime(connection)
            .and_then(|runtime| runtime.services().add(&name, object(registered)?, options));
        give(env, added.map(|()| Vec::new()))
    }
}

/// An object of Java's that threads of the runtime call.
struct Callee {
    machine: JavaVM,
    /// Until the end: JNI gives a reference back on an attached thread only.
    object: Option<Global<JObject<'static>>>,
}

impl Callee {
    fn new(env: &Env<'_>, object: &JObject<'_>) -> jni::errors::Result<Self> {
        Ok(Self { machine: env.get_java_vm()?, object: Some(env.new_global_ref(object)?) })
    }

    /// Runs `call` with this thread attached for as long as that takes.
    fn attached<T>(
        &self,
        call: impl FnOnce(&mut Env<'_>, &JObject<'static>) -> jni::errors::Result<T>,
    ) -> jni::errors::Result<T> {
        let object = self.object.as_ref().expect("only `drop` takes it");
        self.machine.attach_current_thread_for_scope(|env| call(env, object))
    }
}

impl Drop for Callee {
    fn drop(&mut self) {
        let object = self.object.take();
        // A machine that is on its way out attaches nobody, and has forgotten its references.
        let given_back: jni::errors::Result<()> = self.machine.attach_current_thread_for_scope(|_| {
            drop(object);
            Ok(())
        });
        drop(given_back);
    }
}

/// Has Java serve one call, on this thread of the runtime: attached for as long as that takes, so that it never
/// keeps the virtual machine from ending.
fn dispatch(
    dispatcher: &Callee,
    caller: [jint; 3],
    is_oneway: jboolean,
    code: u32,
    request: &Parcel,
) -> jni::errors::Result<Vec<u8>> {
    let number = kept(request);
    let answered = dispatcher.attached(|env, dispatcher| {
        let request = env.byte_array_from_slice(request.as_bytes())?;
        let arguments = [
            JValue::Int(caller[0]),
            JValue::Int(caller[1]),
            JValue::Int(caller[2]),
            JValue::Bool(is_oneway),
            JValue::Int(code.cast_signed()),
            JValue::Object(&request),
            JValue::Long(number),
        ];
        let answer =
            env.call_method(dispatcher, jni_str!("dispatch"), jni_sig!("(IIIZI[BJ)[B"), &arguments)?;
        let answer = env.cast_local::<JByteArray>(answer.l()?)?;
        env.convert_byte_array(&answer)
    });
    // What the handler has not taken out goes.
    release(number);
    answered
}

native! {
    /// Calls a transaction; a oneway one is queued.
    fn Java_dev_handoff_Connection_call(
        env, called: jlong, code: jint, request: JByteArray<'local>, milliseconds: jlong, is_oneway: jboolean
    ) -> JByteArray<'local> {
        let request = env.convert_byte_array(&request)?;
        let code = code.cast_unsigned();
        let outcome = object(called).and_then(|object| {
            let request = parcel(&request)?;
            if is_oneway {
                return object.transaction(code).oneway(|to| request.send(to)).map(|()| Vec::new());
            }
            let reply = object
                .transaction(code)
                .deadline(wait(milliseconds))
                .call(|to| request.send(to), Parcel::receive)?;
            Ok([&kept(&reply).to_le_bytes(), reply.as_bytes()].concat())
        });
        give(env, outcome)
    }
}

native! {
    /// The name of an object's interface.
    fn Java_dev_handoff_Connection_descriptor(env, called: jlong) -> JByteArray<'local> {
        let descriptor = object(called).and_then(|object| object.descriptor());
        give(env, descriptor.map(String::into_bytes))
    }
}

native! {
    /// Takes a reference out of a parcel that was kept, from byte `at`: its number, 0 for none, and where the next value
    /// stands.
    fn Java_dev_handoff_Connection_takeObject(env, parcel: jlong, at: jint) -> JByteArray<'local> {
        let found = taken(parcel, at, |from| from.read_binder());
        let found =
            found.map(|(object, next)| (object.map_or(0, |object| number(Held::Object(object))), next));
        give(env, found.map(|(number, next)| [&number.to_le_bytes()[..], &next.to_le_bytes()].concat()))
    }
}

native! {
    /// The same for a file descriptor, which is Java's to close.
    fn Java_dev_handoff_Connection_takeFile(env, parcel: jlong, at: jint) -> JByteArray<'local> {
        let found = taken(parcel, at, |from| from.read::<OwnedFd>());
        let found = found.map(|(file, next)| (jlong::from(file.into_raw_fd()), next));
        give(env, found.map(|(number, next)| [&number.to_le_bytes()[..], &next.to_le_bytes()].concat()))
    }
}

/// What stands at a place of a parcel that was kept, and the place behind it.
fn taken<T>(
    parcel: jlong,
    at: jint,
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, Error>,
) -> Result<(T, i32), Error> {
    let Some(Held::Parcel(parcel)) = get(parcel) else { return Err(closed()) };
    let size = parcel.as_bytes().len();
    let before = usize::try_from(at).ok().filter(|at| *at <= size);
    let before = before.ok_or_else(|| Error::BadParcel { at: size, what: "nothing stands here".into() })?;
    let mut copy = Parcel::clone(&parcel);
    let found = copy.read(|from| {
        from.read_raw(before)?;
        read(from)
    })?;
    Ok((found, (size - copy.remaining()) as i32))
}

native! {
    /// Keeps the objects that came in a part of a parcel that was kept: a number, 0 if there are none.
    fn Java_dev_handoff_Connection_part(
        env, parcel: jlong, at: jint, bytes: jint
    ) -> JByteArray<'local> {
        let found = taken(parcel, at, |from| Parcel::receive_part(from, bytes));
        give(env, found.map(|(part, _)| kept(&part).to_le_bytes().to_vec()))
    }
}

native! {
    /// A number of its own for a parcel that is put together.
    fn Java_dev_handoff_Connection_holdObject(env, held: jlong) -> JByteArray<'local> {
        give(env, get(held).ok_or_else(closed).map(put))
    }
}

native! {
    /// The same for a file descriptor.
    fn Java_dev_handoff_Connection_holdFile(env, fd: jint) -> JByteArray<'local> {
        give(env, duplicate(fd).map(|file| put(Held::File(Arc::new(file)))))
    }
}

native! {
    /// A reference beside one, which does not keep the object.
    fn Java_dev_handoff_Connection_weaken(env, held: jlong) -> JByteArray<'local> {
        give(env, object(held).map(|object| put(Held::Weak(object.downgrade()))))
    }
}

native! {
    /// The reverse; 0 if the object is gone.
    fn Java_dev_handoff_Connection_strengthen(_, weak: jlong) -> jlong {
        let Some(Held::Weak(weak)) = get(weak) else { return Ok(0) };
        Ok(weak.upgrade().map_or(0, |object| number(Held::Object(object))))
    }
}

native! {
    /// A number that is one object's alone while a reference to it is held; 0 for a reference that was closed.
    fn Java_dev_handoff_Connection_identity(_, held: jlong) -> jlong {
        Ok(object(held).map_or(0, |object| object.identity().cast_signed() as jlong))
    }
}

native! {
    /// Opens a file for what the bits say, as `ParcelFileDescriptor.java` has them; gives the descriptor's number.
    fn Java_dev_handoff_Connection_openFile(env, path: JString<'local>, mode: jint) -> JByteArray<'local> {
        let path = path.to_string();
        let has = |bit: jint| mode & bit != 0;
        let opened = OpenOptions::new()
            .read(has(0x1000_0000))
            .write(has(0x2000_0000))
            .create(has(0x0800_0000))
            .truncate(has(0x0400_0000))
            .append(has(0x0200_0000))
            .open(&path)
            .map_err(|error| Error::io(format!("cannot open {path}"), error));
        give(env, opened.map(|file| jlong::from(file.into_raw_fd()).to_le_bytes().to_vec()))
    }
}

native! {
    /// A descriptor beside another.
    fn Java_dev_handoff_Connection_duplicateFile(env, fd: jint) -> JByteArray<'local> {
        give(env, duplicate(fd).map(|file| jlong::from(file.into_raw_fd()).to_le_bytes().to_vec()))
    }
}

native! {
    /// Closes a descriptor that Java has by its number.
    fn Java_dev_handoff_Connection_closeFile(_, fd: jint) {
        if fd >= 0 {
            // SAFETY: `ParcelFileDescriptor` got it from here, and closes it once.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        Ok(())
    }
}

native! {
    /// Whether two references are to one object.
    fn Java_dev_handoff_Connection_same(_, one: jlong, other: jlong) -> jboolean {
        Ok(matches!((object(one), object(other)), (Ok(one), Ok(other)) if one == other))
    }
}

native! {
    /// Fails unless the object has this interface.
    fn Java_dev_handoff_Connection_checkInterface(
        env, called: jlong, descriptor: JString<'local>
    ) -> JByteArray<'local> {
        let meant = InterfaceId::interned(&descriptor.to_string());
        let checked = object(called).and_then(|object| object.check_interface(meant));
        give(env, checked.map(|()| Vec::new()))
    }
}

native! {
    /// False once the object's process is known to be gone.
    fn Java_dev_handoff_Connection_alive(
        _, called: jlong
    ) -> jboolean {
        Ok(object(called).is_ok_and(|object| object.is_alive()))
    }
}

native! {
    /// Has `died.run()` called when the object's process ends.
    fn Java_dev_handoff_Connection_watch(env, watched: jlong, died: JObject<'local>) -> JByteArray<'local> {
        let died = Callee::new(env, &died)?;
        let told = move || {
            // `Connection` catches what the program's code throws; else the machine is on its way out.
            drop(died.attached(|env, died| {
                env.call_method(died, jni_str!("run"), jni_sig!("()V"), &[]).map(drop)
            }));
        };
        let watch = object(watched).and_then(|object| object.link_to_death(told));
        give(env, watch.map(|watch| put(Held::Death(Arc::new(Mutex::new(watch))))))
    }
}

native! {
    /// What the number stands for goes.
    fn Java_dev_handoff_Connection_release(_, number: jlong) {
        release(number);
        Ok(())
    }
}
