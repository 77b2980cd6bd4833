//! Calls over a session, on both sides.

use std::os::fd::AsFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::connection::{Attempt, Connection, Frame, Wait};
use super::objects::{self, Outgoing, ReceivedObjects};
use super::oneway::Arrival;
use super::session::{ExclusiveConnection, ServeGuard, Session};
use super::wire::{self, Address, Command, FrameHeader, MOST_BODY, ONEWAY, special};
use crate::binder::token;
use crate::call::{Call, OutCall};
use crate::code::is_user_code;
use crate::dispatch::{self, UnderWay};
use crate::disposal::PeerFd;
use crate::engine_kind::EngineKind;
use crate::local::Buffer;
use crate::object::{LocalNode, ReadFn, Transaction, WriteFn};
use crate::parcel::{Object, Reader, SharedBytes, Writer};
use crate::{Error, OnewayBacklog, Result, oneway_threads, shm, stats};

/// What a oneway call takes beside its bytes while it waits.
const WAITING: u64 = 512;

/// Makes one call to an address; `token` stands in front of its arguments.
pub(super) fn transact(
    session: &Arc<Session>,
    address: Address,
    call: &OutCall,
    token: Option<&[u8]>,
    write: WriteFn<'_>,
    read: ReadFn<'_>,
) -> Result<()> {
    let mut buffer = Buffer::take();
    let mut writer = Writer::growing(&mut buffer.0).in_rpc_form();
    if let Some(token) = token {
        writer.write_raw(token)?;
    }
    write(&mut writer)?;
    let objects = writer.finish();
    check_size(wire::Transaction::FIXED, &buffer.0, &objects)?;
    let end = call.deadline.filter(|_| !call.oneway).map(|within| (Instant::now() + within, within));
    let wait = Wait::until(end.map(|(end, _)| end));
    let late = || Error::DeadlineExpired(end.map_or(Duration::ZERO, |(_, within)| within));
    let Attempt::Done(taken) = session.take(call.oneway, wait)? else { return Err(late()) };
    let outcome = send(session, &taken.connection, address, call, wait, &mut buffer.0, objects);
    match outcome.inspect_err(|error| session.failed(&taken.connection, error))? {
        Attempt::Done(()) if call.oneway => return Ok(()),
        Attempt::Done(()) => {}
        Attempt::Late => return Err(late()),
    }
    let awaited = await_reply(session, &taken.connection, wait);
    let reply = match awaited.inspect_err(|error| session.failed(&taken.connection, error))? {
        AwaitedReply::Reply(reply) => reply,
        AwaitedReply::Late(left) => {
            finish_late(taken, left);
            return Err(late());
        }
    };
    let outcome = read_reply(session, &taken.connection, reply, call.code, read);
    if let Err(error) = session.give_back_on(&taken.connection) {
        session.failed(&taken.connection, &error);
    }
    outcome
}

fn check_size(fixed: usize, data: &[u8], objects: &[(u32, Object)]) -> Result<()> {
    let size = data.len() + 4 * objects.len();
    if fixed + size > MOST_BODY {
        return Err(Error::TooLarge { size, limit: MOST_BODY - fixed });
    }
    Ok(())
}

/// Sends the call. `Late` if it could not even begin in time.
fn send(
    session: &Arc<Session>,
    connection: &Connection,
    address: Address,
    call: &OutCall,
    wait: Wait,
    data: &mut [u8],
    objects: Vec<(u32, Object)>,
) -> Result<Attempt<()>> {
    let acknowledge = &mut |frame| session.acknowledge(frame);
    if call.oneway {
        if !connection.takes_more()? {
            return Err(Error::OnewayFull(OnewayBacklog::Unknown));
        }
    } else if let Attempt::Late = connection.flush(wait, acknowledge)? {
        return Ok(Attempt::Late);
    }
    let Outgoing { table, fds } = objects::encode(session, data, objects)?;
    // Counted now that the connection is this thread's: oneway calls are numbered in the order in which they are sent.
    let number = if address == Address::SESSION { 0 } else { session.nodes().call(address, call.oneway)? };
    let flags = if call.oneway { ONEWAY } else { 0 };
    let fixed = wire::Transaction::encode(address, call.code, flags, number, data.len());
    let header = FrameHeader::encode(Command::Transact, fixed.len() + data.len() + table.len())?;
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    let wait = if call.oneway { Wait::No } else { wait };
    connection.send([&header, &fixed, data, &table], &fds, wait, acknowledge)?;
    // What the socket did not take in time goes with the next wait.
    Ok(Attempt::Done(()))
}

/// A oneway call that came, and that there was no room for in time.
struct UnqueuedCall {
    node: Arc<LocalNode>,
    address: Address,
    number: u64,
    frame: Frame,
}

/// How the wait for a reply ended.
enum AwaitedReply {
    Reply(Frame),
    /// The time was over first; a call may be left that was read.
    Late(Option<UnqueuedCall>),
}

/// Waits for a reply; serves calls of the peer meanwhile, which are nested in this one.
fn await_reply(session: &Arc<Session>, connection: &Arc<Connection>, wait: Wait) -> Result<AwaitedReply> {
    if let Attempt::Late = connection.flush(wait, &mut |frame| session.acknowledge(frame))? {
        return Ok(AwaitedReply::Late(None));
    }
    loop {
        let Attempt::Done(frame) = connection.receive(wait)? else { return Ok(AwaitedReply::Late(None)) };
        match frame.command {
            Command::Reply => return Ok(AwaitedReply::Reply(frame)),
            Command::DecStrong => session.acknowledge(frame)?,
            Command::Transact => {
                let deeper = shm::deeper();
                let refused = deeper.as_ref().err().map(|_| Error::TooDeep);
                if let Some(left) = serve(session, connection, frame, wait, refused)? {
                    return Ok(AwaitedReply::Late(Some(left)));
                }
            }
        }
        // Else a peer that sends one such frame after the other would keep the caller.
        if wait.is_over() {
            return Ok(AwaitedReply::Late(None));
        }
    }
}

fn read_reply(
    session: &Arc<Session>,
    connection: &Connection,
    mut frame: Frame,
    code: u32,
    read: ReadFn<'_>,
) -> Result<()> {
    let fds = std::mem::take(&mut frame.fds);
    let reply = wire::Reply::decode(session.terms().version, frame.body())
        .inspect_err(|error| session.broke(error))?;
    if reply.status != 0 {
        return Err(Error::from_status_t(reply.status, "the object", code));
    }
    let mut arrived = ReceivedObjects::new(session, &reply.body, fds);
    let bytes = SharedBytes::from_slice(reply.body.data);
    let outcome = read(&mut Reader::with_objects(bytes, &mut arrived).in_rpc_form());
    drop(arrived);
    connection.reuse(frame);
    outcome
}

/// Has another thread wait for a reply that its caller no longer waits for: until it has come, the connection can
/// carry no other call. `left` came before it.
fn finish_late(taken: ExclusiveConnection, left: Option<UnqueuedCall>) {
    let session = Arc::clone(taken.session());
    let wait = move || {
        let (session, connection) = (Arc::clone(taken.session()), &taken.connection);
        let queued = left.map_or(Ok(None), |left| queue_oneway(&session, connection, left, Wait::Forever));
        match queued.and_then(|_| await_reply(&session, connection, Wait::Forever)) {
            // Objects in it are given back.
            Ok(AwaitedReply::Reply(reply)) => {
                drop(read_reply(&session, connection, reply, 0, &mut |_| Ok(())));
            }
            Ok(AwaitedReply::Late(_)) => {}
            Err(error) => session.failed(&taken.connection, &error),
        }
    };
    let thread = std::thread::Builder::new().name("handoff-rpc-late".into());
    if let Err(error) = thread.spawn(wait) {
        tracing::warn!("an RPC session ends, since no thread can wait for a late reply: {error}");
        session.end();
    }
}

/// Serves the peer's calls on a connection until that ends.
pub(super) fn serve_connection(session: &Weak<Session>, connection: &Arc<Connection>) -> Result<()> {
    loop {
        let Attempt::Done(frame) = connection.receive(Wait::Forever)? else { return Ok(()) };
        let Some(session) = session.upgrade().filter(|session| !session.is_over()) else { return Ok(()) };
        let served = match frame.command {
            Command::Transact => serve(&session, connection, frame, Wait::Forever, None).map(drop),
            Command::DecStrong => session.acknowledge(frame).and_then(|()| {
                // What a call kept may be given back now.
                session.give_back();
                session.give_back_on(connection)
            }),
            Command::Reply => Err(Error::Protocol("a reply to no call".into())),
        };
        match served {
            // The peer hears nothing any longer. Calls that it sent before are served all the same.
            Ok(()) | Err(Error::Dead) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Serves one call, or refuses it; gives back a oneway call that there is no room for in time. The error is the
/// connection's failure.
fn serve(
    session: &Arc<Session>,
    connection: &Arc<Connection>,
    mut frame: Frame,
    wait: Wait,
    refused: Option<Error>,
) -> Result<Option<UnqueuedCall>> {
    let version = session.terms().version;
    let fds = std::mem::take(&mut frame.fds);
    let call = wire::Transaction::decode(version, frame.body())?;
    let (address, number) = (call.address, call.number);
    if address == Address::SESSION {
        let mut buffer = Buffer::take();
        let objects = answer_special(session, call.code, &mut buffer.0);
        return reply(session, connection, wait, &mut buffer.0, objects).map(|()| None);
    }
    let node = session.nodes().called(address);
    if call.flags & ONEWAY != 0 {
        // Nobody is told that there is no such object.
        let Ok(node) = node else { return Ok(None) };
        frame.fds = fds;
        return queue_oneway(session, connection, UnqueuedCall { node, address, number, frame }, wait);
    }
    let mut buffer = Buffer::take();
    let outcome = match (node, refused) {
        (Ok(node), None) => {
            let _serving = ServeGuard::begin(session, connection);
            serve_call(session, &node, &call, fds, &mut buffer.0)
        }
        (_, Some(error)) | (Err(error), None) => Err(error),
    };
    connection.reuse(frame);
    reply(session, connection, wait, &mut buffer.0, outcome).map(|()| None)
}

fn answer_special(session: &Session, code: u32, buffer: &mut Vec<u8>) -> Result<Vec<(u32, Object)>> {
    let mut reply = Writer::growing(buffer).in_rpc_form();
    match code {
        special::ROOT if session.is_server() => reply.write_binder(session.root())?,
        special::MAX_THREADS => reply.write_i32(i32::try_from(session.most_incoming).unwrap_or(i32::MAX))?,
        special::SESSION_ID => reply.write_bytes(&session.terms().id)?,
        _ => return Err(Error::UnknownTransaction { descriptor: "an RPC session".into(), code }),
    }
    Ok(reply.finish())
}

/// Has the object's service handle a call. Gives the objects of the reply, whose bytes are in `buffer`.
fn serve_call(
    session: &Arc<Session>,
    node: &LocalNode,
    call: &wire::Transaction<'_>,
    fds: Vec<PeerFd>,
    buffer: &mut Vec<u8>,
) -> Result<Vec<(u32, Object)>> {
    let _counted = UnderWay::begin();
    let oneway = call.flags & ONEWAY != 0;
    let mut arrived = ReceivedObjects::new(session, &call.body, fds);
    let bytes = SharedBytes::from_slice(call.body.data);
    let mut data = Reader::with_objects(bytes, &mut arrived).in_rpc_form();
    if is_user_code(call.code) {
        token::check_name(&mut data, node.token(token::name))?;
    }
    let made = Call {
        code: call.code,
        identity: session.identity(),
        engine: EngineKind::Rpc,
        priority: 0,
        oneway,
        deadline: None,
        driver_details: None,
    };
    if oneway { &stats::SERVED_ONEWAY } else { &stats::RPC_SERVED }.add();
    let mut transaction = Transaction { call: made, data, reply: Writer::growing(buffer).in_rpc_form() };
    dispatch::serve(&**node.service(), &mut transaction)?;
    Ok(transaction.reply.finish())
}

/// Sends a reply, and references that are owed with it.
fn reply(
    session: &Session,
    connection: &Connection,
    wait: Wait,
    data: &mut Vec<u8>,
    outcome: Result<Vec<(u32, Object)>>,
) -> Result<()> {
    let version = session.terms().version;
    let outcome = outcome.and_then(|objects| {
        check_size(wire::Reply::fixed(version), data, &objects)?;
        objects::encode(session, data, objects)
    });
    let (status, Outgoing { table, fds }) = match outcome {
        Ok(outgoing) => (0, outgoing),
        Err(error) => {
            data.clear();
            (error.to_status_t(), Outgoing::default())
        }
    };
    let fixed = &wire::Reply::encode(status, data.len())[..wire::Reply::fixed(version)];
    let header = FrameHeader::encode(Command::Reply, fixed.len() + data.len() + table.len())?;
    let acknowledge = &mut |frame| session.acknowledge(frame);
    let mut owed = Buffer::take();
    let owed = &mut owed.0;
    session.nodes().take_owed_frames(owed);
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    if !fds.is_empty() && !owed.is_empty() {
        // Descriptors go with the first byte that is sent, which is to be the reply's.
        connection.send([owed], &[], wait, acknowledge)?;
        owed.clear();
    }
    connection.send([owed, &header, fixed, data, &table], &fds, wait, acknowledge).map(drop)
}

fn serve_oneway(session: &Arc<Session>, node: &LocalNode, arrival: Arrival) {
    let Arrival { mut frame, admitted: _admitted } = arrival;
    let fds = std::mem::take(&mut frame.fds);
    if let Ok(call) = wire::Transaction::decode(session.terms().version, frame.body()) {
        let mut nowhere = Buffer::take();
        // Nobody waits for the outcome.
        drop(serve_call(session, node, &call, fds, &mut nowhere.0));
    }
    session.give_back();
}

/// Puts a oneway call into its object's queue, in its turn; gives it back if there is no room for it in time.
fn queue_oneway(
    session: &Arc<Session>,
    connection: &Connection,
    call: UnqueuedCall,
    wait: Wait,
) -> Result<Option<UnqueuedCall>> {
    let call = UnqueuedCall { frame: connection.compact(call.frame), ..call };
    let (address, number) = (call.address, call.number);
    let bytes = call.frame.body().len() as u64 + WAITING;
    let is_next = || session.nodes().is_next(address, number);
    let Attempt::Done(admitted) = session.waiting.admit(bytes, connection, wait, is_next)? else {
        return Ok(Some(call));
    };
    let UnqueuedCall { node, frame, .. } = call;
    let (user, mut wants_thread) = (session.peer().uid, false);
    // A call that waits for its turn holds no session: that one may end before the turn comes.
    let queue = |arrival| {
        let (owner, target) = (Arc::clone(session), Arc::clone(&node));
        wants_thread |= oneway_threads::queue_admitted(
            &node,
            user,
            Box::new(move || serve_oneway(&owner, &target, arrival)),
        );
    };
    session.nodes().in_turn(address, number, Arrival { frame, admitted }, queue)?;
    if wants_thread {
        oneway_threads::send(&node, user);
    }
    // The sender holds the object until it knows that the call has come.
    session.give_back();
    session.give_back_on(connection).map(|()| None)
}

/// Serves bytes as those of a peer that sends them and ends its connection, on a session of the server's.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn serve_bytes(version: u32, bytes: &[u8], root: crate::object::Binder) {
    use super::session::{Side, Terms};
    use crate::identity::CallingIdentity;
    // As much as the socket takes at once: nobody reads at the other end.
    const MOST: usize = 64 << 10;
    let Ok((here, there)) = std::os::unix::net::UnixStream::pair() else { return };
    let sent = std::io::Write::write_all(&mut &there, bytes.get(..MOST).unwrap_or(bytes));
    if sent.and_then(|()| there.shutdown(std::net::Shutdown::Write)).is_err() {
        return;
    }
    let peer = CallingIdentity::own();
    let terms = Terms { id: [0; wire::ID], version: version % (wire::NEWEST + 1), descriptors: true, peer };
    let Ok(session) = Session::new(terms, Side::Server { root }, 1, 1) else { return };
    let connection = Arc::new(Connection::new(here.into(), peer, true, Vec::new()));
    if session.add_incoming(&connection).is_ok() {
        // Each way to end is an answer.
        drop(serve_connection(&Arc::downgrade(&session), &connection));
    }
    session.end();
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::super::session::{Side, Terms};
    use super::super::wire::{DecStrong, ID};
    use super::*;
    use crate::ParcelService;
    use crate::identity::CallingIdentity;
    use crate::ledger::{self, Resource};
    use crate::object::Binder;

    #[test]
    fn a_wait_ends_although_the_peer_always_says_something() {
        let (here, there) = UnixStream::pair().unwrap();
        let peer = CallingIdentity::own();
        let connection = Arc::new(Connection::new(here.into(), peer, false, Vec::new()));
        let terms = Terms { id: [0; ID], version: 2, descriptors: false, peer };
        let root = Binder::new(ParcelService::new("test.INothing", |_, _| Ok(None)));
        let session = Session::new(terms, Side::Server { root }, 1, 1).unwrap();
        let nothing = DecStrong { address: Address::new(77, true), amount: 1 }.frame();
        (&there).write_all(&nothing.repeat(100)).unwrap();
        let over = Wait::Until(Instant::now());
        assert!(matches!(await_reply(&session, &connection, over), Ok(AwaitedReply::Late(None))));
        let more = || matches!(connection.receive(Wait::No), Ok(Attempt::Done(_)));
        assert!((0..98).all(|_| more()), "it read on, when its time was over");
        // While it waits for room to send in, too.
        (&there).write_all(&nothing.repeat(100)).unwrap();
        let large = vec![0; MOST_BODY];
        let mut heard = 0;
        let mut count = |_| {
            heard += 1;
            Ok(())
        };
        assert!(matches!(connection.send([&large], &[], over, &mut count), Ok(Attempt::Late)));
        assert_eq!(heard, 0);
    }
    #[test]
    fn a_call_that_there_is_no_room_for_keeps_neither_its_receiver_s_caller_nor_a_thread() {
        let (here, there) = UnixStream::pair().unwrap();
        let peer = CallingIdentity { pid: 1, uid: 65_007, gid: 65_007 };
        let connection = Arc::new(Connection::new(here.into(), peer, false, Vec::new()));
        let terms = Terms { id: [0; ID], version: 2, descriptors: false, peer };
        let root = Binder::new(ParcelService::new("test.INothing", |_, _| Ok(None)));
        let session = Session::new(terms, Side::Server { root: root.clone() }, 1, 1).unwrap();
        let address = session.nodes().leave(&session, &root).unwrap();
        let data = [0; 64 << 10];
        let send = |number| {
            let fixed = wire::Transaction::encode(address, 1, ONEWAY, number, data.len());
            let header = FrameHeader::encode(Command::Transact, fixed.len() + data.len()).unwrap();
            (&there).write_all(&[&header[..], &fixed, &data].concat()).unwrap();
        };
        // Of its user's other sessions.
        let all = ledger::use_up(peer, Resource::Oneway);
        send(0);
        let soon = Wait::Until(Instant::now() + Duration::from_millis(100));
        let Ok(AwaitedReply::Late(Some(left))) = await_reply(&session, &connection, soon) else {
            panic!("it is left");
        };
        drop(all);
        assert!(matches!(queue_oneway(&session, &connection, left, Wait::Forever), Ok(None)));
        while ledger::held_by(peer, Resource::Oneway) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _all = ledger::use_up(peer, Resource::Oneway);
        send(1);
        drop(there);
        // At the connection's end.
        assert!(matches!(serve_connection(&Arc::downgrade(&session), &connection), Err(Error::Dead)));
    }
}
