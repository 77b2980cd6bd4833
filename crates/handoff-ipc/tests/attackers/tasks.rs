//! Attacks on services that tasks serve, and on the calls that those make: one thread runs all tasks, and must not wait
//! for a peer.

use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use handoff_ipc::engine::Engine as _;
use handoff_ipc::parcel::Writer;
use handoff_ipc::shm::ShmEngine;
use handoff_ipc::{AsyncService, Binder, Code, Error, Request as Asked, Response, Result};

use crate::case::{BUSY, Bounds};
use crate::common::{ASK, CALL_BACK, ECHO, GET_KEPT, HOLD, KEEP, MAKE_FD, READ_FD, SLEEP_MS, file_with};
use crate::process::{self, Users};
use crate::raw::{Connection, DONE, endpoint, kind, message, object, pair};
use crate::regions::{Entry, Request, Slot};
use crate::victim::{DESCRIPTORS, open_to_all};
use crate::words::{MINE, called_in};

attacks! {
    descriptors_that_a_task_is_to_have: "tasks", WAITING;
    objects_that_a_task_is_to_meet: "tasks", Bounds { fds: 400, ..WAITING };
    replies_to_a_task_that_lack_their_descriptors: "tasks", WAITING;
    owners_of_what_a_task_hands_on: "tasks", WAITING;
    owners_of_what_a_task_replies_with: "tasks", WAITING;
    futures_that_are_dropped: "tasks", Bounds { maps: 1400, rss: 64, ..WAITING };
}

/// Threads of the pool wait for the attacker, in place of the one that runs the tasks.
const WAITING: Bounds = Bounds { threads: 64, fds: 200, maps: 240, ..BUSY };

/// The kind of a message that says that a reply is in a slot.
const REPLIED: u32 = 14;

/// Hands the object that it keeps on to the object in the request.
const HAND_ON: Code = 103;

/// How often an attack begins again: a little before a victim gives up the last round's waits.
const ROUND: Duration = Duration::from_millis(4500);

#[derive(Default)]
struct Tasks(Mutex<Option<Binder>>);

impl AsyncService for Tasks {
    fn descriptor(&self) -> &str {
        "test.ITasks"
    }

    fn on_transact(self: Arc<Self>, request: &mut Asked<'_>) -> Result<Response> {
        let data = &mut request.data;
        match request.call.code() {
            ECHO => {
                let bytes = data.read_bytes()?.to_vec();
                Ok(Response::ready(move |reply| reply.write_bytes(&bytes)))
            }
            MAKE_FD => Ok(Response::ready(|reply| reply.write(&OwnedFd::from(file_with("tasks"))))),
            SLEEP_MS => {
                let time = Duration::from_millis(data.read::<i32>()?.unsigned_abs().into());
                Ok(Response::new(async move {
                    tokio::time::sleep(time).await;
                    Ok(|_: &mut Writer<'_>| Ok(()))
                }))
            }
            READ_FD => {
                let _fd: OwnedFd = data.read()?;
                Ok(Response::ready(|_| Ok(())))
            }
            HOLD => {
                // Only says that it has begun: one thread serves all.
                let mut held = UnixStream::from(data.read::<OwnedFd>()?);
                held.write_all(&[1]).map_err(|e| Error::io("write", e))?;
                Ok(Response::ready(|_| Ok(())))
            }
            KEEP => {
                *self.0.lock().unwrap() = data.read()?;
                Ok(Response::ready(|_| Ok(())))
            }
            GET_KEPT => {
                let kept = self.0.lock().unwrap().clone();
                Ok(Response::ready(move |reply| reply.write(&kept)))
            }
            CALL_BACK => {
                let back: Binder = data.read()?;
                Ok(Response::new(async move {
                    let file = back
                        .transaction(ECHO)
                        .call_async(|_| Ok(()), |reply| reply.read::<OwnedFd>())
                        .await?;
                    Ok(move |reply: &mut Writer<'_>| reply.write(&file))
                }))
            }
            ASK => {
                let back: Binder = data.read()?;
                let bytes = vec![7; data.read::<i32>()?.unsigned_abs() as usize];
                Ok(Response::new(async move {
                    let call = back.transaction(ECHO).deadline(Duration::from_millis(3));
                    drop(call.call_async(move |data| data.write_bytes(&bytes), |_| Ok(())).await);
                    Ok(|_: &mut Writer<'_>| Ok(()))
                }))
            }
            HAND_ON => {
                let to: Binder = data.read()?;
                let kept = self.0.lock().unwrap().clone();
                Ok(Response::new(async move {
                    to.transaction(KEEP).call_async(move |data| data.write(&kept), |_| Ok(())).await?;
                    Ok(|_: &mut Writer<'_>| Ok(()))
                }))
            }
            code => Err(Error::UnknownTransaction { descriptor: self.descriptor().to_owned(), code }),
        }
    }
}

/// The role of a service that tasks serve, on one thread.
pub fn server(socket: &Path) {
    process::limit_descriptors(DESCRIPTORS);
    process::become_user(Users::here().victim());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let engine = ShmEngine::new(socket).unwrap();
    engine.become_context_manager(Binder::new_async_on(Tasks::default(), runtime.handle())).unwrap();
    open_to_all(socket);
    crate::victim::serve(&engine)
}

/// Begins an attack over new connections again and again, each time before the waits of the last one are over.
fn rounds(at: &Path, mut attack: impl FnMut(&Path) + Send + 'static) {
    let at = at.to_owned();
    std::thread::spawn(move || {
        loop {
            attack(&at);
            std::thread::sleep(ROUND);
        }
    });
    std::thread::sleep(Duration::from_millis(300));
}

/// A request with an object, as many times as there are slots.
fn request_in_slots(connection: &Connection, count: u32, code: u32, entry: Entry) -> Vec<Slot> {
    let slots: Vec<Slot> = (1..=count).map(|id| connection.slot(id)).collect();
    for slot in &slots {
        connection.request(slot, &with_object(connection, code, entry));
    }
    slots
}

fn with_object(connection: &Connection, code: u32, entry: Entry) -> Request {
    Request::new(connection.root, code)
        .with(&[entry], |w| w.write_binder(Some(&Binder::new(crate::common::Everything::default()))))
}

/// Requests announce descriptors, which never come.
fn descriptors_that_a_task_is_to_have(at: &Path) {
    rounds(at, |at| {
        for connection in (0..4).filter_map(|_| Connection::to(at)) {
            let file = Entry { kind: object::FD, ..Entry::default() };
            std::mem::forget((request_in_slots(&connection, 6, READ_FD, file), connection));
        }
    });
}

/// Requests bring objects of third processes, which do not greet.
fn objects_that_a_task_is_to_meet(at: &Path) {
    rounds(at, |at| {
        for connection in (0..4).filter_map(|_| Connection::to(at)) {
            for id in 1..=6 {
                let (mine, theirs) = pair();
                let (endpoint, token) = (endpoint(), endpoint());
                let third = Entry { kind: object::OF_THIRD, endpoint, token, ..Entry::default() };
                let slot = connection.slot(id);
                connection.send(message(kind::FDS, id, 0), &[theirs.as_raw_fd()]);
                connection.request(&slot, &with_object(&connection, KEEP, third));
                std::mem::forget((mine, slot));
            }
            std::mem::forget(connection);
        }
    });
}

/// A task calls the attacker, who says that its reply has a descriptor, and sends none.
fn replies_to_a_task_that_lack_their_descriptors(at: &Path) {
    rounds(at, |at| {
        for connection in (0..12).filter_map(|_| Connection::to(at)) {
            std::thread::spawn(move || {
                let slot = request_in_slots(&connection, 1, CALL_BACK, MINE);
                if let Some(called) = called_in(&connection) {
                    let file = Entry { kind: object::FD, offset: 4, ..Entry::default() };
                    called.reply_with(&[0, 0, 0], &[file]);
                    connection.send(message(REPLIED, called.id, 0), &[]);
                    std::mem::forget(called);
                }
                std::mem::forget((slot, connection));
            });
        }
    });
}

/// A connection whose object the victim keeps. It will answer no question about it.
fn owner(at: &Path) -> Option<Connection> {
    let connection = Connection::to(at)?;
    let slot = connection.slot(0);
    connection.call(&slot, &with_object(&connection, KEEP, MINE)).then_some(connection)
}

/// A task gives an object of the attacker to a third process, and the attacker is to introduce the two.
fn owners_of_what_a_task_hands_on(at: &Path) {
    rounds(at, |at| {
        std::mem::forget(owner(at));
        for connection in (0..4).filter_map(|_| Connection::to(at)) {
            std::mem::forget((request_in_slots(&connection, 6, HAND_ON, MINE), connection));
        }
    });
}

/// Likewise, in replies.
fn owners_of_what_a_task_replies_with(at: &Path) {
    rounds(at, |at| {
        std::mem::forget(owner(at));
        for connection in (0..4).filter_map(|_| Connection::to(at)) {
            let slots: Vec<Slot> = (1..=6).map(|id| connection.slot(id)).collect();
            for slot in &slots {
                connection.request(slot, &Request::new(connection.root, GET_KEPT));
            }
            std::mem::forget((slots, connection));
        }
    });
}

/// Calls are made and given up again and again: before they are sent, while they are served, and as they are answered.
fn futures_that_are_dropped(at: &Path) {
    let engine = ShmEngine::new(at).unwrap();
    let root = engine.context_object().unwrap();
    std::thread::spawn(move || {
        let _kept = engine;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            for round in 0u64.. {
                let calls = (0..64i32).map(|n| {
                    let call = root.transaction(if n % 2 == 0 { SLEEP_MS } else { READ_FD });
                    let file = (n % 2 == 1).then(|| OwnedFd::from(file_with("dropped")));
                    call.call_async(
                        move |data| match file {
                            Some(file) => data.write(&file),
                            None => data.write_i32(n),
                        },
                        |_| Ok(()),
                    )
                });
                let calls: Vec<_> = calls.map(tokio::spawn).collect();
                tokio::time::sleep(Duration::from_micros(round * 397 % 20_000)).await;
                calls.iter().for_each(tokio::task::JoinHandle::abort);
                DONE.answered();
            }
        });
    });
    std::thread::sleep(Duration::from_millis(300));
}
