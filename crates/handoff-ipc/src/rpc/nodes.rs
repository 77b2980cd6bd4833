//! The objects of one session by their addresses, and who holds how many references to each (libbinder's `RpcState`).
//!
//! Each time that an object crosses the session, as the target of a call too, its receiver has one reference more. The
//! receiver gives references back in a frame of their own. An object stays in the table as long as either side owes the
//! other one some, so that none can be dropped while a call to it is on its way.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::oneway::Arrival;
use super::remote::RpcRemote;
use super::session::Session;
use super::wire::{Address, DecStrong};
use crate::ledger::{self, Charge, Resource};
use crate::object::{Binder, LocalNode, Reference};
use crate::{Error, Result};

/// Objects of which a peer may leave unread that references to them were given back.
const MOST_OWED: usize = 100_000;
/// Oneway calls to one object that came before their turn: as many as connections may have overtaken each other.
const MOST_EARLY: usize = 1000;

enum Object {
    /// Of this process. The session keeps it.
    Own(Arc<LocalNode>),
    /// Of the peer. Those who call it keep the proxy.
    Peers(Weak<RpcRemote>),
}

struct Node {
    object: Object,
    // It may stay for as long as the peer keeps references, whosever it is.
    _charge: Charge,
    // References that the peer was given and has not given back. Below 0 for an object of the peer's when it has given back
    // the reference of a call that is entered only later (`enter_late`).
    sent: i64,
    // References that the peer gave to its object, to be given back. Those to an own one are owed at once.
    received: u64,
    // Of the oneway call that is sent next, or is expected next.
    number: u64,
    early: BTreeMap<u64, Arrival>,
}

impl Node {
    fn new(object: Object, charge: Charge) -> Self {
        Node { object, _charge: charge, sent: 0, received: 0, number: 0, early: BTreeMap::new() }
    }
}

/// The table.
#[derive(Default)]
pub(super) struct Nodes {
    // Ordered: peers choose addresses, and none can have others wait by its choice.
    by_address: BTreeMap<Address, Node>,
    // Own objects by their numbers in this process.
    own: BTreeMap<u64, Address>,
    next: u32,
    // References to be given back with the next frame.
    owed: BTreeMap<Address, u32>,
    // References that the peer owes for the peer's own objects: it acknowledges calls with them.
    unacknowledged: i64,
}

impl Nodes {
    /// The address of an object that goes over the session; the peer has one reference more.
    pub(super) fn leave(&mut self, session: &Session, binder: &Binder) -> Result<Address> {
        let address = match &binder.0 {
            Reference::Local(node) => self.export(session, node)?,
            Reference::Remote(remote) => match remote.as_any().downcast_ref::<RpcRemote>() {
                Some(remote) if remote.is_of(session) => remote.address(),
                _ => return Err(foreign(remote.engine().name())),
            },
        };
        self.count_sent(address)?;
        Ok(address)
    }

    fn count_sent(&mut self, address: Address) -> Result<&mut Node> {
        let node = self.by_address.get_mut(&address).ok_or(Error::Dead)?;
        node.sent += 1;
        if let Object::Peers(_) = node.object {
            self.unacknowledged += 1;
        }
        Ok(node)
    }

    /// A oneway call goes to an object of the peer. Gives its number.
    pub(super) fn oneway_call(&mut self, address: Address) -> Result<u64> {
        let node = self.count_sent(address)?;
        let number = node.number;
        node.number += 1;
        Ok(number)
    }

    /// Counts the reference of a call to an object of the peer, after the call: one that came back with the reply need not be
    /// counted at all. Until then the caller has the proxy, so that nobody forgets the object.
    pub(super) fn enter_late(&mut self, address: Address) {
        // Fails when the session is over.
        let _ = self.count_sent(address);
    }

    fn export(&mut self, session: &Session, node: &Arc<LocalNode>) -> Result<Address> {
        if let Some(address) = self.own.get(&node.id()) {
            return Ok(*address);
        }
        let charge = ledger::charge(session.peer(), Resource::Exports, 1)?;
        let address = loop {
            let address = Address::new(self.next, session.is_server());
            self.next = self.next.wrapping_add(1);
            // After 2^32 objects numbers come again.
            if !self.by_address.contains_key(&address) {
                break address;
            }
        };
        self.own.insert(node.id(), address);
        self.by_address.insert(address, Node::new(Object::Own(Arc::clone(node)), charge));
        Ok(address)
    }

    /// An object that came over the session; this process has one reference more.
    pub(super) fn enter(&mut self, session: &Arc<Session>, address: Address) -> Result<Binder> {
        if let Some(node) = self.by_address.get_mut(&address) {
            return match &mut node.object {
                Object::Own(own) => {
                    let own = Arc::clone(own);
                    self.owe(DecStrong { address, amount: 1 });
                    Ok(Binder(Reference::Local(own)))
                }
                Object::Peers(proxy) => {
                    node.received += 1;
                    let remote = proxy.upgrade().unwrap_or_else(|| {
                        let remote = RpcRemote::new(session, address);
                        *proxy = Arc::downgrade(&remote);
                        remote
                    });
                    Ok(Binder::from_remote(remote))
                }
            };
        }
        if !address.is_of(!session.is_server()) {
            return Err(Error::UnknownObject(address.0));
        }
        let charge = ledger::charge(session.peer(), Resource::Exports, 1)?;
        let remote = RpcRemote::new(session, address);
        let node = Node { received: 1, ..Node::new(Object::Peers(Arc::downgrade(&remote)), charge) };
        self.by_address.insert(address, node);
        Ok(Binder::from_remote(remote))
    }

    /// Own object that is called. The caller owes the peer the reference that came with the call.
    pub(super) fn called(&self, address: Address) -> Option<Arc<LocalNode>> {
        match &self.by_address.get(&address)?.object {
            Object::Own(own) => Some(Arc::clone(own)),
            Object::Peers(_) => None,
        }
    }

    /// Where the peer has an own object.
    pub(super) fn address_of(&self, node: &LocalNode) -> Option<Address> {
        self.own.get(&node.id()).copied()
    }

    /// A reference that came and that nobody takes.
    pub(super) fn pass(&mut self, session: &Session, address: Address) {
        let known = self.by_address.contains_key(&address);
        if known || address.is_of(!session.is_server()) {
            self.owe(DecStrong { address, amount: 1 });
        }
    }

    /// Whether no oneway call to the object has to come before this one.
    pub(super) fn is_next(&self, address: Address, number: u64) -> bool {
        self.by_address.get(&address).is_none_or(|node| number <= node.number)
    }

    /// Hands oneway calls to `queue` in their turn: this one if the ones before it came, and those that waited for it.
    /// The table is locked meanwhile, so that no connection's calls overtake those of another one.
    pub(super) fn in_turn(
        &mut self,
        address: Address,
        number: u64,
        arrival: Arrival,
        mut queue: impl FnMut(Arrival),
    ) -> Result<()> {
        let Some(node) = self.by_address.get_mut(&address) else {
            queue(arrival);
            return Ok(());
        };
        // A peer that gave all references back, and gets another one that was on its way, counts from 0 again.
        node.number = node.number.min(number);
        if number != node.number && node.early.len() >= MOST_EARLY {
            let what = format!("oneway call {} does not come, for which {MOST_EARLY} wait", node.number);
            return Err(Error::Protocol(what));
        }
        if node.early.insert(number, arrival).is_some() {
            return Err(Error::Protocol(format!("oneway call {number} came twice")));
        }
        while let Some(mut arrival) = node.early.remove(&node.number) {
            node.number += 1;
            arrival.admitted.set_early(false);
            queue(arrival);
        }
        if let Some(arrival) = node.early.get_mut(&number) {
            arrival.admitted.set_early(true);
        }
        Ok(())
    }

    /// The last proxy of an object of the peer is gone.
    pub(super) fn forget(&mut self, address: Address) {
        let Some(node) = self.by_address.get(&address) else { return };
        let Object::Peers(proxy) = &node.object else { return };
        // Another one may have come meanwhile, or a call is on its way, which the references keep the object for.
        if proxy.strong_count() == 0 && node.sent == 0 {
            let amount = u32::try_from(node.received).unwrap_or(u32::MAX);
            self.by_address.remove(&address);
            self.owe(DecStrong { address, amount });
        }
    }

    /// The peer gives references back. What is returned is to be dropped when the table is not locked.
    pub(super) fn given_back(&mut self, dec: DecStrong) -> Option<impl Sized + use<>> {
        let node = self.by_address.get_mut(&dec.address)?;
        let amount = i64::from(dec.amount);
        match &node.object {
            Object::Peers(proxy) => {
                // More than it was given have it stay in its peer's own share.
                node.sent = node.sent.saturating_sub(amount);
                self.unacknowledged = self.unacknowledged.saturating_sub(amount);
                if node.sent == 0 && proxy.strong_count() == 0 {
                    self.forget(dec.address);
                }
                None
            }
            // More than it was given mean nothing, as for libbinder.
            Object::Own(_) if node.sent < amount => None,
            Object::Own(own) => {
                node.sent -= amount;
                if node.sent > 0 {
                    return None;
                }
                self.own.remove(&own.id());
                self.by_address.remove(&dec.address)
            }
        }
    }

    /// Takes back what went over the session in a parcel that is not sent.
    pub(super) fn take_back(&mut self, address: Address) -> Option<impl Sized + use<>> {
        self.given_back(DecStrong { address, amount: 1 })
    }

    /// References that are owed, which the caller sends at once.
    pub(super) fn take_owed(&mut self) -> Vec<DecStrong> {
        let owed = std::mem::take(&mut self.owed).into_iter();
        owed.map(|(address, amount)| DecStrong { address, amount }).collect()
    }

    pub(super) fn owe(&mut self, dec: DecStrong) {
        let owed = self.owed.entry(dec.address).or_default();
        *owed = owed.saturating_add(dec.amount);
    }

    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// A peer that sends objects and does not read could have this grow without end.
    pub(super) fn check_owed(&self) -> Result<()> {
        if self.owed.len() <= MOST_OWED {
            return Ok(());
        }
        Err(Error::Protocol(format!(
            "it does not read that references to {MOST_OWED} objects are given back"
        )))
    }

    /// Whether the peer has yet to acknowledge calls.
    pub(super) fn awaits(&self) -> bool {
        self.unacknowledged > 0
    }

    /// Objects in the table.
    pub(super) fn len(&self) -> usize {
        self.by_address.len()
    }

    /// The session is over. What is returned is to be dropped when the table is not locked.
    pub(super) fn clear(&mut self) -> impl Sized + use<> {
        std::mem::take(self)
    }
}

pub(super) fn foreign(engine: &str) -> Error {
    Error::Unsupported {
        engine: "rpc",
        what: format!(
            "carry a reference to an object that is neither of this process nor of the session's peer (it is of the \
             {engine} engine): offer an object of your own that calls it"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::super::connection::{Attempt, Connection, Wait};
    use super::super::inbound::Frame;
    use super::*;
    use crate::identity::CallingIdentity;

    #[test]
    fn objects_of_the_peer_count_for_as_long_as_it_keeps_references() {
        let peer = CallingIdentity { pid: 1, uid: 65_004, gid: 65_004 };
        let (session, _) = Session::of_server(peer, 2, false);
        let held = || ledger::held_by(peer, Resource::Exports);
        let [one, other] = [7, 8].map(|number| Address::new(number, false));
        let object = session.nodes().enter(&session, one).unwrap();
        // A call to it, which its owner does not acknowledge.
        session.nodes().enter_late(one);
        drop(object);
        assert_eq!((session.nodes().len(), held()), (1, 1));
        let all = ledger::use_up(peer, Resource::Exports);
        let refused = session.nodes().enter(&session, other);
        assert!(matches!(refused, Err(Error::PermissionDenied(_))), "{refused:?}");
        drop(all);
        assert!(session.nodes().given_back(DecStrong { address: one, amount: 1 }).is_none());
        assert_eq!((session.nodes().len(), held()), (0, 0));
    }

    #[test]
    fn the_root_is_found_without_the_table_for_as_long_as_it_is_in_it() {
        let peer = CallingIdentity { pid: 1, uid: 65_009, gid: 65_009 };
        let (session, root) = Session::of_server(peer, 2, false);
        let other = Binder::new(crate::ParcelService::new("test.IOther", |_, _| Ok(None)));
        let is_root = |address| {
            session.root_at(address).is_some_and(|node| root == Binder(Reference::Local(Arc::clone(node))))
        };
        let first = session.nodes().leave(&session, &other).unwrap();
        assert!(!is_root(first) && !is_root(Address::SESSION));
        for _ in 0..2 {
            let address = session.nodes().leave(&session, &root).unwrap();
            assert!(is_root(address) && !is_root(first));
            drop(session.nodes().given_back(DecStrong { address, amount: 1 }));
            assert!(!is_root(address) && session.nodes().called(address).is_none());
        }
        let address = session.nodes().leave(&session, &root).unwrap();
        assert!(is_root(address));
        session.end();
        assert!(!is_root(address), "the table is empty");
    }

    #[test]
    fn a_reference_may_be_given_back_before_its_call_is_entered() {
        let peer = CallingIdentity { pid: 1, uid: 65_008, gid: 65_008 };
        let (session, _) = Session::of_server(peer, 2, false);
        let address = Address::new(7, false);
        let object = session.nodes().enter(&session, address).unwrap();
        for is_late in [true, false] {
            if is_late {
                session.nodes().enter_late(address);
                assert!(session.nodes().awaits());
            }
            assert!(session.nodes().given_back(DecStrong { address, amount: 1 }).is_none());
            if !is_late {
                session.nodes().enter_late(address);
            }
            assert!(!session.nodes().awaits());
        }
        drop(object);
        assert_eq!((session.nodes().len(), ledger::held_by(peer, Resource::Exports)), (0, 0));
        // More than it was given have it stay in its peer's share, and the session goes on.
        let object = session.nodes().enter(&session, address).unwrap();
        (0..3).for_each(|_| drop(session.nodes().given_back(DecStrong { address, amount: u32::MAX })));
        session.nodes().enter_late(address);
        drop(object);
        assert_eq!((session.nodes().len(), ledger::held_by(peer, Resource::Exports)), (1, 1));
    }

    #[test]
    fn the_call_that_others_wait_for_is_taken_however_many_they_are() {
        let peer = CallingIdentity { pid: 1, uid: 65_005, gid: 65_005 };
        let (session, root) = Session::of_server(peer, 2, false);
        let address = session.nodes().leave(&session, &root).unwrap();
        let (here, _there) = UnixStream::pair().unwrap();
        let connection = Connection::new(here.into(), peer, false, Vec::new());
        let mut queued = 0;
        let mut come = |number| {
            let admitted = session.waiting.admit(1, connection.socket(), Wait::Forever, || true).unwrap();
            let Attempt::Done(admitted) = admitted else { unreachable!("it waits without an end") };
            session
                .nodes()
                .in_turn(address, number, Arrival { frame: Frame::default(), admitted }, |_| queued += 1)
        };
        let most = MOST_EARLY as u64;
        (1..=most).for_each(|number| come(number).unwrap());
        let beyond = come(most + 1);
        assert!(matches!(beyond, Err(Error::Protocol(_))), "{beyond:?}");
        come(0).unwrap();
        assert_eq!(queued, MOST_EARLY + 1);
    }
}
