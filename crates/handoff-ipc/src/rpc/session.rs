//! What two processes share: connections, objects, and the end of it.
//!
//! A call needs a connection for itself until its reply has come. Threads take turns at those that there are; a call
//! back to the process whose call a thread serves goes over that call's own connection, where its thread waits.
//! Oneway calls have a connection to themselves where there are two, so that a receiver that does not keep up with them
//! delays no other call.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::connection::{Attempt, Connection, Socket, Wait, unexpected};
use super::inbound::{Came, Frame};
use super::nodes::Nodes;
use super::oneway::SessionQueue;
use super::watch::Watch;
use super::wire::{Address, DecStrong, ID};
use crate::death::DeathRegistration;
use crate::identity::CallingIdentity;
use crate::ledger::{self, Charge, Resource};
use crate::locked::lock;
use crate::object::{Binder, LocalNode, Reference};
use crate::{Error, Result, pool};

/// What both sides agreed on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) id: [u8; ID],
    pub(super) version: u32,
    pub(super) descriptors: bool,
    pub(super) peer: CallingIdentity,
}

/// Makes one more connection for this process's calls.
pub(super) type Open = Box<dyn Fn(&Session) -> Result<Connection> + Send + Sync>;

/// Which side this process is.
pub(super) enum Side {
    Server { root: Binder },
    Client { open: Open },
}

/// One session.
pub(super) struct Session {
    terms: Terms,
    side: Side,
    /// Connections for the peer's calls at one time.
    pub(super) most_incoming: usize,
    most_outgoing: usize,
    nodes: Mutex<Nodes>,
    // What the table says, for those who only ask: where the peer has the root (0: nowhere), whether it is owed references, and
    // whether calls are to be acknowledged.
    root_address: AtomicU64,
    owes: AtomicBool,
    awaits: AtomicBool,
    connections: Mutex<Connections>,
    is_available: Condvar,
    watch: Watch,
    is_over: AtomicBool,
    recipients: Mutex<HashMap<u64, Box<dyn FnOnce() + Send>>>,
    next_recipient: AtomicU64,
    /// The peer's oneway calls that were not served yet.
    pub(super) waiting: Arc<SessionQueue>,
    // What watches its connections.
    _charge: Option<Charge>,
}

/// The table of objects, for the thread that has locked it.
pub(super) struct LockedNodes<'a> {
    session: &'a Session,
    nodes: MutexGuard<'a, Nodes>,
}

impl Deref for LockedNodes<'_> {
    type Target = Nodes;

    fn deref(&self) -> &Nodes {
        &self.nodes
    }
}

impl DerefMut for LockedNodes<'_> {
    fn deref_mut(&mut self) -> &mut Nodes {
        &mut self.nodes
    }
}

impl Drop for LockedNodes<'_> {
    fn drop(&mut self) {
        // Still locked.
        let root = self.session.local_root().and_then(|root| self.nodes.address_of(root));
        self.session.root_address.store(root.map_or(0, |address| address.0), Ordering::Release);
        self.session.owes.store(self.nodes.owes(), Ordering::Release);
        self.session.awaits.store(self.nodes.awaits(), Ordering::Release);
    }
}

#[derive(Default)]
struct Connections {
    outgoing: Vec<OutgoingConnection>,
    incoming: Vec<Arc<Socket>>,
    // Those that are being made.
    opening: usize,
    // Threads that wait for one.
    waiting: usize,
    // The server took one fewer than it said that it would.
    is_refused: bool,
}

struct OutgoingConnection {
    // Lent while it is busy.
    connection: Connection,
    // Whether it is for oneway calls.
    oneway: bool,
    is_busy: bool,
    is_watched: bool,
    // That began on it since it was looked at.
    calls: u32,
}

/// So many calls on a connection, and it is not watched for as long as calls follow each other.
const FOLLOW: u32 = 64;

/// A connection whose peer's thread waits while this thread serves its call. Calls back to that peer, and references, go over
/// it, one after the other.
struct ServedConnection {
    session: *const Session,
    // None while it is in use.
    connection: Option<Connection>,
}

thread_local! {
    // The innermost last.
    static SERVING: RefCell<Vec<ServedConnection>> = const { RefCell::new(Vec::new()) };
}

/// A call that this thread serves, until it goes. Its connection is lent meanwhile.
pub(super) struct ServeGuard<'a> {
    connection: &'a mut Connection,
}

impl<'a> ServeGuard<'a> {
    pub(super) fn begin(session: &Arc<Session>, connection: &'a mut Connection) -> Self {
        let served = ServedConnection { session: Arc::as_ptr(session), connection: Some(connection.lend()) };
        SERVING.with_borrow_mut(|all| all.push(served));
        ServeGuard { connection }
    }
}

impl Drop for ServeGuard<'_> {
    fn drop(&mut self) {
        let served = SERVING.with_borrow_mut(Vec::pop);
        if let Some(mut lent) = served.and_then(|served| served.connection) {
            self.connection.take_back(&mut lent);
        }
    }
}

/// Where a connection goes back to.
enum Origin {
    Outgoing,
    /// The call with this number, from outside, of those that the thread serves.
    Served(usize),
}

/// A connection that the calling thread has to itself.
pub(super) struct ExclusiveConnection<S: Deref<Target = Session>> {
    session: S,
    pub(super) connection: Connection,
    // None once it is somebody else's.
    origin: Option<Origin>,
}

impl ExclusiveConnection<&Session> {
    /// The same, for another thread. It is never a served call's: a call that may be late has none of those.
    pub(super) fn keep(mut self, session: &Arc<Session>) -> ExclusiveConnection<Arc<Session>> {
        let (session, origin) = (Arc::clone(session), self.origin.take());
        ExclusiveConnection { session, connection: self.connection.lend(), origin }
    }

    /// It failed a call.
    pub(super) fn failed(&self, error: Error) -> Error {
        self.session.failed(self.connection.socket(), &error);
        error
    }
}

impl ExclusiveConnection<Arc<Session>> {
    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl<S: Deref<Target = Session>> Drop for ExclusiveConnection<S> {
    fn drop(&mut self) {
        match self.origin {
            Some(Origin::Outgoing) => self.session.put_back(&mut self.connection),
            Some(Origin::Served(number)) => {
                let back = Some(self.connection.lend());
                SERVING.with_borrow_mut(|all| {
                    if let Some(served) = all.get_mut(number) {
                        served.connection = back;
                    }
                });
            }
            None => {}
        }
    }
}

/// The same for as long as the session is borrowed.
type Taken<'a> = ExclusiveConnection<&'a Session>;

impl Session {
    pub(super) fn new(
        terms: Terms,
        side: Side,
        most_incoming: usize,
        most_outgoing: usize,
    ) -> Result<Arc<Self>> {
        // Whose a client's sessions are is the client's own affair.
        let charge = matches!(side, Side::Server { .. })
            .then(|| ledger::charge(terms.peer, Resource::Descriptors, Watch::DESCRIPTORS))
            .transpose()?;
        let session = Arc::new(Session {
            terms,
            side,
            most_incoming,
            most_outgoing,
            nodes: Mutex::default(),
            root_address: AtomicU64::new(0),
            owes: AtomicBool::new(false),
            awaits: AtomicBool::new(false),
            connections: Mutex::default(),
            is_available: Condvar::new(),
            watch: Watch::new()?,
            is_over: AtomicBool::new(false),
            recipients: Mutex::default(),
            next_recipient: AtomicU64::new(0),
            waiting: SessionQueue::new(terms.peer),
            _charge: charge,
        });
        Ok(session)
    }

    pub(super) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// For whom the session counts.
    pub(super) fn peer(&self) -> CallingIdentity {
        self.terms.peer
    }

    /// Who is at its other end, as far as that is known.
    pub(super) fn identity(&self) -> CallingIdentity {
        self.terms.peer.told()
    }

    pub(super) fn is_server(&self) -> bool {
        matches!(self.side, Side::Server { .. })
    }

    /// The object that a server gives to all who come.
    pub(super) fn root(&self) -> Option<&Binder> {
        match &self.side {
            Side::Server { root } => Some(root),
            Side::Client { .. } => None,
        }
    }

    fn local_root(&self) -> Option<&Arc<LocalNode>> {
        match &self.root()?.0 {
            Reference::Local(root) => Some(root),
            Reference::Remote(_) => None,
        }
    }

    /// The root, if the peer has it at this address: as of when the table was last locked. Most calls are made to it, and find
    /// it without a lock.
    pub(super) fn root_at(&self, address: Address) -> Option<&Arc<LocalNode>> {
        let is_there = address != Address::SESSION && self.root_address.load(Ordering::Acquire) == address.0;
        if is_there { self.local_root() } else { None }
    }

    pub(super) fn nodes(&self) -> LockedNodes<'_> {
        LockedNodes { session: self, nodes: lock(&self.nodes) }
    }

    /// Whether the peer is owed references: as of when the table was last locked.
    pub(super) fn owes(&self) -> bool {
        self.owes.load(Ordering::Acquire)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Connections, now.
    pub(super) fn connections(&self) -> usize {
        let all = lock(&self.connections);
        all.outgoing.len() + all.incoming.len()
    }

    /// Adds a connection for this process's calls, which carries none until what is returned is dropped.
    pub(super) fn add_outgoing(self: &Arc<Self>, connection: Connection) -> Result<Taken<'_>> {
        self.add(connection, false)
    }

    fn add(self: &Arc<Self>, mut connection: Connection, oneway: bool) -> Result<Taken<'_>> {
        let mut all = lock(&self.connections);
        let limit = if self.is_server() { self.most_incoming } else { self.most_outgoing };
        if all.outgoing.len() >= limit || self.is_over() {
            return Err(Error::PermissionDenied(format!(
                "a session has {limit} connections for calls, and no more"
            )));
        }
        // A server has those that its client made, and takes the second one for oneway calls.
        let oneway = oneway || self.is_server() && all.outgoing.len() == 1;
        let lent = connection.lend();
        let made = OutgoingConnection { connection, oneway, is_busy: true, is_watched: true, calls: 0 };
        all.outgoing.push(made);
        drop(all);
        self.watch.add(self, lent.socket()).inspect_err(|_| self.remove_outgoing(lent.socket()))?;
        Ok(ExclusiveConnection { session: self, connection: lent, origin: Some(Origin::Outgoing) })
    }

    /// Adds a connection for the peer's calls, which the calling thread serves.
    pub(super) fn add_incoming(&self, socket: &Arc<Socket>) -> Result<()> {
        let mut all = lock(&self.connections);
        if all.incoming.len() >= self.most_incoming || self.is_over() {
            let most = self.most_incoming;
            return Err(Error::PermissionDenied(format!(
                "a session has {most} connections for calls, and no more"
            )));
        }
        all.incoming.push(Arc::clone(socket));
        Ok(())
    }

    /// The connection has ended; gives how many for the peer's calls are left.
    pub(super) fn remove_incoming(&self, socket: &Arc<Socket>) -> usize {
        let mut all = lock(&self.connections);
        all.incoming.retain(|other| !Arc::ptr_eq(other, socket));
        all.incoming.len()
    }

    /// The connection has ended that this process called the peer on.
    pub(super) fn remove_outgoing(&self, socket: &Arc<Socket>) {
        if !self.is_server() {
            return self.end();
        }
        // The client may have calls of its own on their way to this process, on other connections.
        lock(&self.connections).outgoing.retain(|other| !Arc::ptr_eq(other.connection.socket(), socket));
        self.is_available.notify_all();
    }

    /// A connection that this process called the peer on failed a call: what else it means.
    pub(super) fn failed(&self, socket: &Arc<Socket>, error: &Error) {
        match error {
            Error::Dead => self.remove_outgoing(socket),
            Error::Protocol(_) | Error::Io { .. } => self.broke(error),
            // The call was not sent.
            _ => {}
        }
    }

    /// The peer sent what makes no sense, so that nobody knows where the next frame begins.
    pub(super) fn broke(&self, error: &Error) {
        tracing::warn!(
            "an RPC session with process {} of user {} ends: {error}",
            self.identity().pid,
            self.identity().uid
        );
        self.end();
    }

    /// The connection of the innermost call of the peer that this thread serves, unless it is in use.
    fn nested(&self) -> Option<Taken<'_>> {
        SERVING.with_borrow_mut(|all| {
            let mut own =
                all.iter_mut().enumerate().rev().filter(|(_, served)| std::ptr::eq(served.session, self));
            let (number, connection) =
                own.find_map(|(number, served)| Some((number, served.connection.take()?)))?;
            Some(ExclusiveConnection { session: self, connection, origin: Some(Origin::Served(number)) })
        })
    }

    /// A connection for one call. One with an end needs a connection whose thread can be left, so that it cannot be
    /// nested in the call that this thread serves.
    pub(super) fn take(self: &Arc<Self>, oneway: bool, wait: Wait) -> Result<Attempt<Taken<'_>>> {
        if let (false, Wait::Forever) = (oneway, wait) {
            if let Some(nested) = self.nested() {
                return Ok(Attempt::Done(nested));
            }
        }
        let mut all = lock(&self.connections);
        loop {
            if self.is_over() {
                return Err(Error::Dead);
            }
            let own = |other: &&mut OutgoingConnection| !other.is_busy && other.oneway == oneway;
            if let Some(found) = all.outgoing.iter_mut().find(own) {
                return Ok(Attempt::Done(self.have(found)));
            }
            let has_own = all.outgoing.iter().any(|other| other.oneway == oneway);
            // The last one is for oneway calls, when there are some.
            let kept = usize::from(
                !oneway && self.most_outgoing > 1 && !all.outgoing.iter().any(|other| other.oneway),
            );
            let has_room = all.outgoing.len() + all.opening + kept < self.most_outgoing;
            let may_open = !self.is_server() && !all.is_refused && has_room;
            if !has_own && !may_open {
                if let Some(found) = all.outgoing.iter_mut().find(|other| !other.is_busy) {
                    return Ok(Attempt::Done(self.have(found)));
                }
            }
            // One is enough for oneway calls, which wait for nothing.
            if may_open && !(oneway && has_own) {
                if let Some(taken) = self.open(all, oneway)? {
                    return Ok(Attempt::Done(taken));
                }
                all = lock(&self.connections);
                continue;
            }
            if all.outgoing.is_empty() && all.opening == 0 {
                return Err(Error::Unsupported {
                    engine: "rpc",
                    what: "call a client that made no connection for calls to it, but for a call that has no deadline, \
                           back to the client whose call is being served"
                        .into(),
                });
            }
            let left = match wait {
                Wait::No => return Ok(Attempt::Late),
                Wait::Forever => Duration::MAX,
                Wait::Until(end) => end.saturating_duration_since(Instant::now()),
            };
            if left.is_zero() {
                return Ok(Attempt::Late);
            }
            all.waiting += 1;
            all = self.is_available.wait_timeout(all, left).unwrap_or_else(PoisonError::into_inner).0;
            all.waiting -= 1;
        }
    }

    /// Makes one more connection. `None` if the server takes none: those that there are have to do.
    fn open(
        self: &Arc<Self>,
        mut all: MutexGuard<'_, Connections>,
        oneway: bool,
    ) -> Result<Option<Taken<'_>>> {
        let Side::Client { open } = &self.side else { return Err(Error::Dead) };
        all.opening += 1;
        drop(all);
        let opened = open(self).and_then(|connection| self.add(connection, oneway));
        let mut all = lock(&self.connections);
        all.opening -= 1;
        let can_do_without = !all.outgoing.is_empty();
        all.is_refused |= opened.is_err();
        drop(all);
        self.is_available.notify_all();
        match opened {
            Ok(taken) => Ok(Some(taken)),
            Err(error) if can_do_without => {
                tracing::debug!("an RPC session gets no further connection: {error}");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// An idle connection, for what need not be sent on any certain one.
    fn take_idle(&self) -> Option<Taken<'_>> {
        let mut all = lock(&self.connections);
        all.outgoing.iter_mut().find(|other| !other.is_busy).map(|found| self.have(found))
    }

    /// Has a connection that is idle for the calling thread.
    fn have(&self, idle: &mut OutgoingConnection) -> Taken<'_> {
        idle.is_busy = true;
        idle.calls = idle.calls.saturating_add(1);
        // Acknowledgements of oneway calls have to be seen in any case.
        if idle.calls >= FOLLOW && idle.is_watched && !idle.oneway {
            idle.is_watched = false;
            self.watch.leave(idle.connection.socket());
        }
        let connection = idle.connection.lend();
        ExclusiveConnection { session: self, connection, origin: Some(Origin::Outgoing) }
    }

    fn put_back(&self, lent: &mut Connection) {
        let unsent = lent.has_unsent();
        let mut all = lock(&self.connections);
        let found =
            all.outgoing.iter_mut().find(|other| Arc::ptr_eq(other.connection.socket(), lent.socket()));
        // Not there: it has ended meanwhile.
        let is_there = found.is_some();
        if let Some(found) = found {
            found.connection.take_back(lent);
            found.is_busy = false;
        }
        let is_awaited = all.waiting > 0;
        drop(all);
        if is_there && (unsent || self.awaits.load(Ordering::Acquire)) {
            self.watch.ask(lent.socket(), unsent);
        }
        // A system call, which most calls need not make.
        if is_awaited {
            self.is_available.notify_all();
        }
        // Somebody may have had to give references back while no connection was idle. With something unsent before
        // them they wait until the connection has room.
        if !unsent && self.owes() {
            self.give_back();
        }
    }

    /// Has connections watched again on which no call began since this looked the last time. Gives whether some are left:
    /// by the thread that watches.
    pub(super) fn take_back_idle(&self) -> bool {
        let mut all = lock(&self.connections);
        for other in all.outgoing.iter_mut().filter(|other| !other.is_watched) {
            if std::mem::take(&mut other.calls) == 0 {
                other.is_watched = true;
                self.watch.take_back(other.connection.socket());
            }
        }
        all.outgoing.iter().any(|other| !other.is_watched)
    }

    /// An idle connection has something to read, or room: by the thread that watches it.
    pub(super) fn attend(&self, socket: &Arc<Socket>) {
        let mut all = lock(&self.connections);
        let found = all.outgoing.iter_mut().find(|other| Arc::ptr_eq(other.connection.socket(), socket));
        let Some(found) = found.filter(|found| !found.is_busy) else { return };
        let mut taken = self.have(found);
        drop(all);
        let outcome = self.read_idle(&mut taken.connection);
        drop(taken);
        if outcome.is_err() {
            self.remove_outgoing(socket);
        }
    }

    fn read_idle(&self, connection: &mut Connection) -> Result<()> {
        connection.flush(Wait::No, &mut |dec| self.acknowledge(dec))?;
        let mut frame = Frame::default();
        while let Attempt::Done(came) = connection.receive(Wait::No, &mut frame)? {
            let Came::References(dec) = came else { return Err(unexpected()) };
            self.acknowledge(dec);
        }
        // What a call kept may be given back now.
        self.give_back_on(connection)
    }

    /// The peer gives references back.
    pub(super) fn acknowledge(&self, dec: DecStrong) {
        let gone = self.nodes().given_back(dec);
        // Not under the lock.
        drop(gone);
    }

    /// The last proxy of an object is gone.
    pub(super) fn forget(&self, address: Address) {
        self.nodes().forget(address);
        self.give_back();
    }

    /// Sends references that are owed, where that can be done at once.
    pub(super) fn give_back(&self) {
        if self.is_over() || !self.owes() {
            return;
        }
        let Some(mut taken) = self.nested().or_else(|| self.take_idle()) else { return };
        if let Err(error) = self.give_back_on(&mut taken.connection) {
            taken.failed(error);
        }
    }

    /// The same, on a connection that the calling thread has.
    #[inline]
    pub(super) fn give_back_on(&self, connection: &mut Connection) -> Result<()> {
        if self.owes() { self.give_back_all(connection) } else { Ok(()) }
    }

    fn give_back_all(&self, connection: &mut Connection) -> Result<()> {
        // First: what does not go now stays where it is, however often somebody comes to give it back.
        if let Attempt::Late = connection.flush(Wait::No, &mut |dec| self.acknowledge(dec))? {
            return self.nodes().check_owed();
        }
        let owed = self.nodes().take_owed();
        let sent =
            connection.send(&DecStrong::frames(&owed), &[], Wait::No, &mut |dec| self.acknowledge(dec));
        if sent.is_err() {
            let mut nodes = self.nodes();
            owed.into_iter().for_each(|dec| nodes.owe(dec));
        }
        match sent {
            Ok(_) | Err(Error::OnewayFull(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Runs `died` when the session ends; at once if it has.
    pub(super) fn link_to_death(self: &Arc<Self>, died: Box<dyn FnOnce() + Send>) -> DeathRegistration {
        let id = self.next_recipient.fetch_add(1, Ordering::Relaxed);
        let mut recipients = lock(&self.recipients);
        // Under the lock that `end` takes: it runs once, whoever of the two comes first.
        if self.is_over() {
            drop(recipients);
            pool::run_for(self.peer().uid, died);
            return DeathRegistration::new(|| ());
        }
        recipients.insert(id, died);
        let session = Arc::downgrade(self);
        DeathRegistration::new(move || {
            if let Some(session) = session.upgrade() {
                let taken_back = lock(&session.recipients).remove(&id);
                drop(taken_back);
            }
        })
    }

    /// Ends the session for both sides: whoever waits sees it, recipients are told, objects are let go.
    pub(super) fn end(&self) {
        let mut recipients = lock(&self.recipients);
        self.is_over.store(true, Ordering::Release);
        let told = std::mem::take(&mut *recipients);
        drop(recipients);
        let all = lock(&self.connections);
        all.outgoing.iter().for_each(|other| other.connection.socket().shut_down());
        all.incoming.iter().for_each(|socket| socket.shut_down());
        drop(all);
        self.is_available.notify_all();
        self.waiting.end();
        self.watch.tell();
        told.into_values().for_each(|died| pool::run_for(self.peer().uid, died));
        let objects = self.nodes().clear();
        drop(objects);
    }
}

#[cfg(test)]
impl Session {
    /// A server's, with its root object, which answers nothing.
    pub(super) fn of_server(peer: CallingIdentity, version: u32, descriptors: bool) -> (Arc<Self>, Binder) {
        let root = Binder::new(crate::ParcelService::new("test.INothing", |_, _| Ok(None)));
        let terms = Terms { id: [0; ID], version, descriptors, peer };
        (Session::new(terms, Side::Server { root: root.clone() }, 1, 1).unwrap(), root)
    }

    pub(super) fn watch(&self) -> &Watch {
        &self.watch
    }
}

/// How long the end of a session that nobody holds any longer waits for the peer to take what was sent.
const LAST: Duration = Duration::from_secs(1);

impl Drop for Session {
    fn drop(&mut self) {
        let end = Wait::Until(Instant::now() + LAST);
        let all = self.connections.get_mut().unwrap_or_else(PoisonError::into_inner);
        for other in all.outgoing.iter_mut().filter(|other| other.connection.has_unsent()) {
            // A peer that does not read it, or has gone, will not have it.
            let _ = other.connection.flush(end, &mut |_| ());
        }
        self.end();
    }
}
