//! Calls over a session, on both sides.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::connection::{Attempt, Connection, Wait};
use super::inbound::{Came, Frame};
use super::objects::{self, ReceivedObjects};
use super::oneway::Arrival;
use super::session::{ExclusiveConnection, ServeGuard, Session};
use super::wire::{self, Address, DecStrong, MOST_BODY, ONEWAY, special};
use crate::binder::token;
use crate::call::{Call, OutCall};
use crate::code::is_user_code;
use crate::dispatch::{self, UnderWay};
use crate::disposal::PeerFd;
use crate::engine_kind::EngineKind;
use crate::local::Buffer;
use crate::object::{LocalNode, ReadFn, Transaction, WriteFn};
use crate::parcel::{Object, Writer};
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
    let mut writer = Writer::growing_behind(&mut buffer.0, wire::Transaction::HEAD).in_rpc_form();
    if let Some(token) = token {
        writer.write_raw(token)?;
    }
    write(&mut writer)?;
    let objects = writer.finish();
    check_size(wire::Transaction::FIXED, buffer.0.len() - wire::Transaction::HEAD, &objects)?;
    let end = call.deadline.filter(|_| !call.oneway).map(|within| (Instant::now() + within, within));
    let wait = Wait::until(end.map(|(end, _)| end));
    let late = || Error::DeadlineExpired(end.map_or(Duration::ZERO, |(_, within)| within));
    let Attempt::Done(mut taken) = session.take(call.oneway, wait)? else { return Err(late()) };
    match send(session, &mut taken.connection, address, call, wait, &mut buffer.0, objects) {
        Ok(Attempt::Done(())) if call.oneway => return Ok(()),
        Ok(Attempt::Done(())) => {}
        Ok(Attempt::Late) => return Err(late()),
        Err(error) => return Err(taken.failed(error)),
    }
    // Nearly always the reference that went with the call comes back with the reply, and the table never has it.
    let mut away = (address != Address::SESSION).then_some(DecStrong { address, amount: 1 });
    // What was sent is read no longer: the reply comes into memory that is at hand.
    let mut frame = Frame::to_come_in(std::mem::take(&mut buffer.0));
    let awaited = await_reply(session, &mut taken.connection, wait, &mut frame, &mut away);
    if away.is_some() {
        session.nodes().enter_late(address);
    }
    match awaited {
        Ok(AwaitedReply::Came) => {}
        Ok(AwaitedReply::Late(left)) => {
            finish_late(taken.keep(session), left);
            return Err(late());
        }
        Err(error) => return Err(taken.failed(error)),
    }
    let outcome = read_reply(session, &mut frame, call.code, read);
    buffer.0 = frame.into_memory();
    if let Err(error) = session.give_back_on(&mut taken.connection) {
        taken.failed(error);
    }
    outcome
}

/// Whether a frame can carry a parcel of so many bytes, with the table of its objects, behind its fixed part.
fn check_size(fixed: usize, data: usize, objects: &[(u32, Object)]) -> Result<()> {
    let (size, limit) = (data + 4 * objects.len(), MOST_BODY - fixed);
    if size > limit { Err(Error::TooLarge { size, limit }) } else { Ok(()) }
}

/// Sends the call. `Late` if it could not even begin in time.
fn send(
    session: &Arc<Session>,
    connection: &mut Connection,
    address: Address,
    call: &OutCall,
    wait: Wait,
    frame: &mut Vec<u8>,
    objects: Vec<(u32, Object)>,
) -> Result<Attempt<()>> {
    let acknowledge = &mut |dec| session.acknowledge(dec);
    if call.oneway {
        if !connection.takes_more()? {
            return Err(Error::OnewayFull(OnewayBacklog::Unknown));
        }
    } else if let Attempt::Late = connection.flush(wait, acknowledge)? {
        return Ok(Attempt::Late);
    }
    let data = frame.len() - wire::Transaction::HEAD;
    let fds = objects::encode(session, frame, wire::Transaction::HEAD, objects)?;
    let flags = if call.oneway { ONEWAY } else { 0 };
    // Now that the connection is this thread's: oneway calls are numbered in the order in which they are sent.
    let is_numbered = call.oneway && address != Address::SESSION;
    let number = if is_numbered { session.nodes().oneway_call(address)? } else { 0 };
    wire::Transaction::write_head(frame, address, call.code, flags, number, data)?;
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    let wait = if call.oneway { Wait::No } else { wait };
    connection.send(frame, &fds, wait, acknowledge)?;
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
    Came,
    /// The time was over first; a call may be left that was read.
    Late(Option<UnqueuedCall>),
}

/// Waits for a reply, and puts it into `frame`; serves calls of the peer meanwhile, which are nested in this one. `away` is
/// the call's reference, for as long as the peer has not given it back.
fn await_reply(
    session: &Arc<Session>,
    connection: &mut Connection,
    wait: Wait,
    frame: &mut Frame,
    away: &mut Option<DecStrong>,
) -> Result<AwaitedReply> {
    let mut heard = |dec| {
        // One is as good as another.
        if *away == Some(dec) { *away = None } else { session.acknowledge(dec) }
    };
    if let Attempt::Late = connection.flush(wait, &mut heard)? {
        return Ok(AwaitedReply::Late(None));
    }
    loop {
        let Attempt::Done(came) = connection.receive(wait, frame)? else {
            return Ok(AwaitedReply::Late(None));
        };
        match came {
            Came::Reply => {
                if let Some(dec) = frame.back.take() {
                    heard(dec);
                }
                return Ok(AwaitedReply::Came);
            }
            Came::References(dec) => heard(dec),
            Came::Call => {
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

fn read_reply(session: &Arc<Session>, frame: &mut Frame, code: u32, read: ReadFn<'_>) -> Result<()> {
    let (body, fds) = frame.parts();
    let reply =
        wire::Reply::decode(session.terms().version, body).inspect_err(|error| session.broke(error))?;
    if reply.status != 0 {
        return Err(Error::from_status_t(reply.status, "the object", code));
    }
    let mut arrived = ReceivedObjects::of(session, &reply.body, fds);
    read(&mut objects::reader(reply.body.data, &mut arrived))
}

/// Has another thread wait for a reply that its caller no longer waits for: until it has come, the connection can
/// carry no other call. `left` came before it.
fn finish_late(mut taken: ExclusiveConnection<Arc<Session>>, left: Option<UnqueuedCall>) {
    let session = Arc::clone(taken.session());
    let wait = move || {
        let session = Arc::clone(taken.session());
        let connection = &mut taken.connection;
        let mut frame = Frame::default();
        let queued = left.map_or(Ok(None), |left| queue_oneway(&session, connection, left, Wait::Forever));
        match queued.and_then(|_| await_reply(&session, connection, Wait::Forever, &mut frame, &mut None)) {
            // Objects in it are given back.
            Ok(AwaitedReply::Came) => drop(read_reply(&session, &mut frame, 0, &mut |_| Ok(()))),
            Ok(AwaitedReply::Late(_)) => {}
            Err(error) => session.failed(connection.socket(), &error),
        }
    };
    let thread = std::thread::Builder::new().name("handoff-rpc-late".into());
    if let Err(error) = thread.spawn(wait) {
        tracing::warn!("an RPC session ends, since no thread can wait for a late reply: {error}");
        session.end();
    }
}

/// Serves the peer's calls on a connection until that ends.
pub(super) fn serve_connection(session: &Weak<Session>, connection: &mut Connection) -> Result<()> {
    let mut frame = Frame::default();
    loop {
        let Attempt::Done(came) = connection.receive(Wait::Forever, &mut frame)? else { return Ok(()) };
        let Some(session) = session.upgrade().filter(|session| !session.is_over()) else { return Ok(()) };
        let served = match came {
            Came::Call => serve(&session, connection, &mut frame, Wait::Forever, None).map(drop),
            Came::References(dec) => {
                session.acknowledge(dec);
                // What a call kept may be given back now.
                session.give_back();
                session.give_back_on(connection)
            }
            Came::Reply => Err(Error::Protocol("a reply to no call".into())),
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
    connection: &mut Connection,
    frame: &mut Frame,
    wait: Wait,
    refused: Option<Error>,
) -> Result<Option<UnqueuedCall>> {
    let (body, fds) = frame.parts();
    let call = wire::Transaction::decode(session.terms().version, body)?;
    let (address, number) = (call.address, call.number);
    if address == Address::SESSION {
        let mut buffer = Buffer::take();
        let objects = answer_special(session, call.code, &mut buffer.0);
        return reply(session, connection, wait, &mut buffer.0, objects, None).map(|()| None);
    }
    let root = session.root_at(address);
    let other = if root.is_none() { session.nodes().called(address) } else { None };
    let node = root.or(other.as_ref());
    // The one that came with the call.
    let reference = DecStrong { address, amount: 1 };
    if call.flags & ONEWAY != 0 {
        // Nobody is told that there is no such object.
        let Some(node) = node.cloned() else { return Ok(None) };
        session.nodes().owe(reference);
        let frame = std::mem::take(frame);
        return queue_oneway(session, connection, UnqueuedCall { node, address, number, frame }, wait);
    }
    let back = node.is_some().then_some(reference);
    let mut buffer = Buffer::take();
    let outcome = match (node, refused) {
        (Some(node), None) => {
            let _serving = ServeGuard::begin(session, connection);
            serve_call(session, node, &call, fds, &mut buffer.0)
        }
        (_, Some(error)) => Err(error),
        (None, None) => Err(Error::UnknownObject(address.0)),
    };
    reply(session, connection, wait, &mut buffer.0, outcome, back).map(|()| None)
}

fn answer_special(session: &Session, code: u32, buffer: &mut Vec<u8>) -> Result<Vec<(u32, Object)>> {
    let mut reply = Writer::growing_behind(buffer, wire::Reply::HEAD).in_rpc_form();
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
    fds: &mut Vec<PeerFd>,
    buffer: &mut Vec<u8>,
) -> Result<Vec<(u32, Object)>> {
    let _counted = UnderWay::begin();
    let oneway = call.flags & ONEWAY != 0;
    let mut arrived = ReceivedObjects::of(session, &call.body, fds);
    let mut data = objects::reader(call.body.data, &mut arrived);
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
    let reply = Writer::growing_behind(buffer, wire::Reply::HEAD).in_rpc_form();
    let mut transaction = Transaction { call: made, data, reply };
    dispatch::serve(&**node.service(), &mut transaction)?;
    Ok(transaction.reply.finish())
}

/// Sends a reply, whose data stands in `frames` behind the room for its head. References that are owed go in front of it,
/// also those in `back`.
fn reply(
    session: &Session,
    connection: &mut Connection,
    wait: Wait,
    frames: &mut Vec<u8>,
    outcome: Result<Vec<(u32, Object)>>,
    back: Option<DecStrong>,
) -> Result<()> {
    let version = session.terms().version;
    let mut data = frames.len().saturating_sub(wire::Reply::HEAD);
    let outcome = outcome.and_then(|objects| {
        check_size(wire::Reply::fixed(version), data, &objects)?;
        objects::encode(session, frames, wire::Reply::HEAD, objects)
    });
    let (status, fds) = match outcome {
        Ok(fds) => (0, fds),
        Err(error) => {
            data = 0;
            frames.clear();
            frames.resize(wire::Reply::HEAD, 0);
            (error.to_status_t(), Vec::new())
        }
    };
    let mut send = |frames: &[u8], fds: &[BorrowedFd<'_>]| {
        match connection.send(frames, fds, wait, &mut |dec| session.acknowledge(dec)) {
            // Its caller would wait for ever, and the next reply would be taken for this one.
            Err(Error::OnewayFull(_)) => {
                Err(Error::Protocol("it does not take the reply to its call".into()))
            }
            sent => sent.map(drop),
        }
    };
    let mut first = Vec::new();
    if session.owes() {
        first = DecStrong::frames(&session.nodes().take_owed());
    }
    let back = if fds.is_empty() {
        back
    } else {
        // Descriptors go with the first byte that is sent, which is to be the reply's.
        first.extend(back.iter().flat_map(|dec| dec.frame()));
        send(&first, &[])?;
        first.clear();
        None
    };
    let start = wire::Reply::write_head(frames, version, back, status, data)?;
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    if first.is_empty() {
        return send(&frames[start..], &fds);
    }
    first.extend_from_slice(&frames[start..]);
    send(&first, &fds)
}

fn serve_oneway(session: &Arc<Session>, node: &LocalNode, arrival: Arrival) {
    let Arrival { mut frame, admitted: _admitted } = arrival;
    let (body, fds) = frame.parts();
    if let Ok(call) = wire::Transaction::decode(session.terms().version, body) {
        let mut nowhere = Buffer::take();
        // Nobody waits for the outcome.
        drop(serve_call(session, node, &call, fds, &mut nowhere.0));
    }
    session.give_back();
}

/// Puts a oneway call into its object's queue, in its turn; gives it back if there is no room for it in time.
fn queue_oneway(
    session: &Arc<Session>,
    connection: &mut Connection,
    call: UnqueuedCall,
    wait: Wait,
) -> Result<Option<UnqueuedCall>> {
    let call = UnqueuedCall { frame: connection.compact(call.frame), ..call };
    let (address, number) = (call.address, call.number);
    let bytes = call.frame.body().len() as u64 + WAITING;
    let is_next = || session.nodes().is_next(address, number);
    let Attempt::Done(admitted) = session.waiting.admit(bytes, connection.socket(), wait, is_next)? else {
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
    let mut connection = Connection::new(here.into(), peer, true, Vec::new());
    if session.add_incoming(connection.socket()).is_ok() {
        // Each way to end is an answer.
        drop(serve_connection(&Arc::downgrade(&session), &mut connection));
    }
    session.end();
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::ParcelService;
    use crate::identity::CallingIdentity;
    use crate::ledger::{self, Resource};
    use crate::object::Binder;

    /// A connection of a server's session with its root, and the peer's end of it.
    fn connected(peer: CallingIdentity, descriptors: bool) -> (Connection, UnixStream, Arc<Session>, Binder) {
        let (here, there) = UnixStream::pair().unwrap();
        let (session, root) = Session::of_server(peer, 2, descriptors);
        (Connection::new(here.into(), peer, descriptors, Vec::new()), there, session, root)
    }

    #[test]
    fn a_wait_ends_although_the_peer_always_says_something() {
        let (mut connection, there, session, _) = connected(CallingIdentity::own(), false);
        let nothing = DecStrong { address: Address::new(77, true), amount: 1 }.frame();
        (&there).write_all(&nothing.repeat(100)).unwrap();
        let over = Wait::Until(Instant::now());
        let mut frame = Frame::default();
        let awaited = await_reply(&session, &mut connection, over, &mut frame, &mut None);
        assert!(matches!(awaited, Ok(AwaitedReply::Late(None))));
        let mut more = || matches!(connection.receive(Wait::No, &mut frame), Ok(Attempt::Done(_)));
        assert!((0..98).all(|_| more()), "it read on, when its time was over");
        // While it waits for room to send in, too.
        (&there).write_all(&nothing.repeat(100)).unwrap();
        let large = vec![0; MOST_BODY];
        let mut heard = 0;
        let mut count = |_| heard += 1;
        assert!(matches!(connection.send(&large, &[], over, &mut count), Ok(Attempt::Late)));
        assert_eq!(heard, 0);
    }

    #[test]
    fn a_call_s_reference_is_entered_only_if_it_does_not_come_back_by_the_reply() {
        let address = Address::new(7, false);
        let own = DecStrong { address, amount: 1 };
        let others =
            [DecStrong { address, amount: 2 }, DecStrong { address: Address::new(8, false), amount: 1 }];
        let mut reply = vec![0; wire::Reply::HEAD];
        let start = wire::Reply::write_head(&mut reply, 2, None, 0, 0).unwrap();
        let reply = &reply[start..];
        for (before, is_back) in [
            (&[own][..], true),
            (&[], false),
            (&others, false),
            (&[own, own], true),
            (&[others[0], own], true),
        ] {
            let (mut connection, there, session, _) = connected(CallingIdentity::own(), false);
            let proxy = session.nodes().enter(&session, address).unwrap();
            (&there).write_all(&[&DecStrong::frames(before), reply].concat()).unwrap();
            let (mut away, mut frame) = (Some(own), Frame::default());
            let awaited = await_reply(&session, &mut connection, Wait::Forever, &mut frame, &mut away);
            assert!(matches!(awaited, Ok(AwaitedReply::Came)));
            assert_eq!(away.is_none(), is_back, "{before:?}");
            drop(proxy);
        }
    }

    #[test]
    fn a_reply_that_does_not_go_in_time_goes_later_or_ends_the_session() {
        for (has_fds, is_taken) in [(false, true), (false, false), (true, false)] {
            let (mut connection, there, session, _) = connected(CallingIdentity::own(), true);
            let back = Some(DecStrong { address: Address::new(7, true), amount: 1 });
            let mut frames = vec![0; MOST_BODY / 2];
            let mut reply_with = |connection: &mut Connection, objects| {
                frames.resize(MOST_BODY / 2, 0);
                reply(&session, connection, Wait::No, &mut frames, Ok(objects), back)
            };
            // More than the socket takes: the rest waits.
            reply_with(&mut connection, Vec::new()).unwrap();
            assert!(connection.has_unsent());
            if is_taken {
                let mut read = vec![0; MOST_BODY / 2];
                let reader = std::thread::spawn(move || std::io::Read::read_exact(&mut &there, &mut read));
                connection.flush(Wait::Forever, &mut |_| ()).unwrap();
                assert!(reader.join().unwrap().is_ok());
                continue;
            }
            let (end, _writer) = std::io::pipe().unwrap();
            let objects = if has_fds { vec![(0, Object::Fd(end.into()))] } else { Vec::new() };
            let refused = reply_with(&mut connection, objects).unwrap_err();
            assert!(matches!(refused, Error::Protocol(_)), "{refused}");
        }
    }

    /// While a nested call waits for room, an object goes whose service held one of the peer's, which is owed back: over the
    /// very connection that the call is half sent on.
    #[test]
    fn what_is_owed_back_does_not_go_between_the_halves_of_a_call() {
        let (mut connection, there, session, _) = connected(CallingIdentity::own(), false);
        let (theirs, called) = (Address::new(7, false), Address::new(8, false));
        let held = session.nodes().enter(&session, theirs).unwrap();
        let object = Binder::new(ParcelService::new("test.IHolder", move |_, _| {
            let _held = &held;
            Ok(None)
        }));
        let address = session.nodes().leave(&session, &object).unwrap();
        drop(object);
        (&there).write_all(&DecStrong { address, amount: 1 }.frame()).unwrap();
        let (data, caller) = (vec![7; MOST_BODY / 2], Arc::clone(&session));
        let sent = std::thread::spawn(move || {
            let _serving = ServeGuard::begin(&caller, &mut connection);
            let mut write = |to: &mut Writer<'_>| to.write_raw(&data);
            transact(&caller, called, &OutCall::of(1), None, &mut write, &mut |_| Ok(()))
        });
        // The socket is full until this reads.
        while !session.owes() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut heard = Connection::new(there.into(), CallingIdentity::own(), false, Vec::new());
        let mut frame = Frame::default();
        let came = heard.receive(Wait::Forever, &mut frame).unwrap();
        assert!(matches!(came, Attempt::Done(Came::Call)) && frame.body().ends_with(&[7; 1 << 10]));
        let mut reply = vec![0; wire::Reply::HEAD];
        let start = wire::Reply::write_head(&mut reply, 2, None, 0, 0).unwrap();
        heard.send(&reply[start..], &[], Wait::Forever, &mut |_| ()).unwrap();
        sent.join().unwrap().unwrap();
        let came = heard.receive(Wait::Forever, &mut frame).unwrap();
        let owed = DecStrong { address: theirs, amount: 1 };
        assert!(matches!(came, Attempt::Done(Came::References(dec)) if dec == owed), "{came:?}");
    }

    #[test]
    fn a_call_that_there_is_no_room_for_keeps_neither_its_receiver_s_caller_nor_a_thread() {
        let peer = CallingIdentity { pid: 1, uid: 65_007, gid: 65_007 };
        let (mut connection, there, session, root) = connected(peer, false);
        let address = session.nodes().leave(&session, &root).unwrap();
        let data = [0; 64 << 10];
        let send = |number| {
            let mut frame = [&[0; wire::Transaction::HEAD][..], &data].concat();
            wire::Transaction::write_head(&mut frame, address, 1, ONEWAY, number, data.len()).unwrap();
            (&there).write_all(&frame).unwrap();
        };
        // Of its user's other sessions.
        let all = ledger::use_up(peer, Resource::Oneway);
        send(0);
        let soon = Wait::Until(Instant::now() + Duration::from_millis(100));
        let awaited = await_reply(&session, &mut connection, soon, &mut Frame::default(), &mut None);
        let Ok(AwaitedReply::Late(Some(left))) = awaited else { panic!("it is left") };
        drop(all);
        assert!(matches!(queue_oneway(&session, &mut connection, left, Wait::Forever), Ok(None)));
        while ledger::held_by(peer, Resource::Oneway) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _all = ledger::use_up(peer, Resource::Oneway);
        send(1);
        drop(there);
        // At the connection's end.
        assert!(matches!(serve_connection(&Arc::downgrade(&session), &mut connection), Err(Error::Dead)));
    }
}
