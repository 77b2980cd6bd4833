//! References and descriptors in parcels of Binder RPC: a reference stands there with its address, a descriptor with its
//! number among those that come along.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::connection::MOST_FDS;
use super::nodes::foreign;
use super::remote::RpcRemote;
use super::session::Session;
use super::wire::{Address, BINDERS_IN_TABLE, Body, TABLES};
use crate::disposal::PeerFd;
use crate::object::{Binder, Reference};
use crate::parcel::{Incoming, Kind, Object, RPC_BINDER, RPC_FD, Reader, Sealed, no_object, wrong_kind};
use crate::{Error, Result};

/// Puts the objects of a parcel, which begins at `head` of a frame, into its data, and the table behind it. The peer has a
/// reference more to each. Gives the descriptors, which go along.
#[inline(always)]
pub(super) fn encode(
    session: &Session,
    frame: &mut Vec<u8>,
    head: usize,
    objects: Vec<(u32, Object)>,
) -> Result<Vec<OwnedFd>> {
    if objects.is_empty() { Ok(Vec::new()) } else { encode_some(session, frame, head, objects) }
}

fn encode_some(
    session: &Session,
    frame: &mut Vec<u8>,
    head: usize,
    objects: Vec<(u32, Object)>,
) -> Result<Vec<OwnedFd>> {
    check(session, &objects)?;
    let version = session.terms().version;
    let (mut fds, mut left) = (Vec::new(), Vec::new());
    for (at, object) in objects {
        match object {
            Object::Fd(fd) => {
                fds.push(fd);
                frame.extend(at.to_le_bytes());
            }
            Object::Binder(binder) => {
                let address = session.nodes().leave(session, &binder);
                let address = match address {
                    Ok(address) => address,
                    Err(error) => {
                        for address in left {
                            let gone = session.nodes().take_back(address);
                            drop(gone);
                        }
                        return Err(error);
                    }
                };
                left.push(address);
                if let Some(place) = frame[head..].get_mut(at as usize + 4..at as usize + 12) {
                    place.copy_from_slice(&address.0.to_le_bytes());
                }
                if version >= BINDERS_IN_TABLE {
                    frame.extend(at.to_le_bytes());
                }
            }
            Object::Buffer(_) | Object::FdArray(_) => {}
        }
    }
    Ok(fds)
}

/// Before anything of the parcel is given away.
fn check(session: &Session, objects: &[(u32, Object)]) -> Result<()> {
    let cannot = |what: &str| Error::Unsupported { engine: "rpc", what: what.into() };
    for (_, object) in objects {
        match object {
            Object::Fd(_) if session.terms().version < TABLES => {
                return Err(cannot(
                    "carry a descriptor to a peer that speaks version 0 of the protocol (Android 13)",
                ));
            }
            Object::Fd(_) if !session.terms().descriptors => {
                return Err(cannot(
                    "carry a descriptor in this session: both sides have to allow it, on a Unix socket",
                ));
            }
            Object::Buffer(_) | Object::FdArray(_) => return Err(cannot("take a buffer from where it is")),
            Object::Binder(Binder(Reference::Remote(remote))) => {
                let own = remote.as_any().downcast_ref::<RpcRemote>();
                if !own.is_some_and(|own| own.is_of(session)) {
                    return Err(foreign(remote.engine().name()));
                }
            }
            Object::Fd(_) | Object::Binder(_) => {}
        }
    }
    let fds = objects.iter().filter(|(_, object)| matches!(object, Object::Fd(_))).count();
    if fds > MOST_FDS {
        return Err(cannot(&format!(
            "carry {fds} descriptors with one call, of which {MOST_FDS} can travel"
        )));
    }
    Ok(())
}

/// Reads a parcel's data with the objects that came along, if any did.
#[inline]
pub(super) fn reader<'a>(data: &'a [u8], arrived: &'a mut Option<ReceivedObjects<'_>>) -> Reader<'a> {
    let reader = Reader::of_slice(data).in_rpc_form();
    match arrived {
        Some(arrived) => reader.along_with(arrived),
        None => reader,
    }
}

/// Objects that came with a parcel: each becomes something when it is read, or is given back.
pub(super) struct ReceivedObjects<'a> {
    session: &'a Arc<Session>,
    data: &'a [u8],
    // Where they stand, in order, and whether they were read. Before version 2 descriptors only.
    places: Vec<(usize, bool)>,
    // References that were read where the table has none.
    read: BTreeSet<usize>,
    fds: Vec<Option<PeerFd>>,
}

impl<'a> ReceivedObjects<'a> {
    /// `None` if there are none, as mostly.
    #[inline(always)]
    pub(super) fn of(session: &'a Arc<Session>, body: &Body<'a>, fds: &mut Vec<PeerFd>) -> Option<Self> {
        let is_known = session.terms().version >= BINDERS_IN_TABLE;
        let is_empty = is_known && body.places().next().is_none() && fds.is_empty();
        (!is_empty).then(|| Self::new(session, body, fds))
    }

    #[inline(never)]
    fn new(session: &'a Arc<Session>, body: &Body<'a>, fds: &mut Vec<PeerFd>) -> Self {
        let places = body.places().map(|at| (at, false)).collect();
        let fds = std::mem::take(fds).into_iter().map(Some).collect();
        ReceivedObjects { session, data: body.data, places, read: BTreeSet::new(), fds }
    }

    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.data.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn word(&self, at: usize) -> Option<i32> {
        self.bytes(at).map(i32::from_le_bytes)
    }

    fn address(&self, at: usize) -> Option<Address> {
        let bytes = self.bytes(at.checked_add(4)?)?;
        (self.word(at)? == RPC_BINDER).then(|| Address(u64::from_le_bytes(bytes)))
    }

    /// The place counts as read from now on.
    fn take(&mut self, at: usize) -> Result<()> {
        let found = self.places.binary_search_by_key(&at, |(place, _)| *place).ok();
        let place = found.and_then(|found| self.places.get_mut(found)).filter(|(_, is_read)| !is_read);
        place.map(|(_, is_read)| *is_read = true).ok_or_else(|| no_object(at))
    }

    /// Places of what was not read.
    fn left(&self) -> impl Iterator<Item = usize> {
        self.places.iter().filter(|(_, is_read)| !is_read).map(|(at, _)| *at)
    }
}

impl Sealed for ReceivedObjects<'_> {}

impl Incoming for ReceivedObjects<'_> {
    fn take_binder(&mut self, at: usize) -> Result<Binder> {
        let address =
            self.address(at).ok_or_else(|| wrong_kind(at, "an object reference", "something else"))?;
        if self.session.terms().version >= BINDERS_IN_TABLE {
            self.take(at)?;
        } else if !self.read.insert(at) {
            return Err(no_object(at));
        }
        if self.session.is_over() {
            return Err(Error::Dead);
        }
        let entered = self.session.nodes().enter(self.session, address);
        // Its place counts as read: nobody else gives the reference back.
        entered.inspect_err(|_| self.session.nodes().pass(self.session, address))
    }

    fn take_fd(&mut self, at: usize) -> Result<OwnedFd> {
        let kind = self.word(at);
        if kind != Some(RPC_FD) {
            return Err(wrong_kind(at, "a file descriptor", &format!("kind {kind:?}")));
        }
        self.take(at)?;
        let number = self.word(at + 4).and_then(|number| usize::try_from(number).ok());
        let fd = number.and_then(|number| self.fds.get_mut(number)?.take()?.take());
        fd.ok_or_else(|| wrong_kind(at, "a file descriptor that came along", "another number"))
    }

    fn places(&self) -> Vec<(usize, Kind)> {
        let kind = |at: usize| match self.word(at)? {
            RPC_BINDER => Some(Kind::Binder),
            RPC_FD => Some(Kind::Fd),
            _ => None,
        };
        self.left().filter_map(|at| Some((at, kind(at)?))).collect()
    }
}

impl Drop for ReceivedObjects<'_> {
    fn drop(&mut self) {
        for at in self.left() {
            if let Some(address) = self.address(at) {
                self.session.nodes().pass(self.session, address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{DecStrong, Reply};
    use super::*;
    use crate::ParcelService;
    use crate::identity::CallingIdentity;
    use crate::ledger::{self, Resource};
    use crate::parcel::{BareFd, Parcelable, SharedBytes, Writer};

    fn bytes_of(write: impl FnOnce(&mut Writer<'_>) -> Result<()>) -> (Vec<u8>, Vec<u32>) {
        let mut bytes = Vec::new();
        let mut writer = Writer::growing(&mut bytes).in_rpc_form();
        write(&mut writer).unwrap();
        let places = writer.finish().into_iter().map(|(at, _)| at).collect();
        (bytes, places)
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn objects_stand_in_a_parcel_as_libbinder_puts_them() {
        let object = Binder::new(ParcelService::new("test.INothing", |_, _| Ok(None)));
        let (end, _writer) = std::io::pipe().unwrap();
        let (bytes, places) = bytes_of(|to| {
            to.write_binder(None)?;
            to.write_binder(Some(&object))?;
            to.write_fd(&end)?;
            to.write_sized(|to| to.write(&OwnedFd::from(end.try_clone().unwrap())))
        });
        // A kind, for an object the address that the session gives, and the stability; a descriptor's number.
        let expected = [&[0, 0][..], &[1, 0, 0, 12], &[2, 0], &[20, 1, 0, 2, 1]].concat();
        assert_eq!((bytes, places), (words(&expected), vec![8, 24, 44]));
    }

    #[test]
    fn a_reference_that_there_is_no_room_for_is_owed_back() {
        let peer = CallingIdentity { pid: 1, uid: 65_006, gid: 65_006 };
        for version in [1, BINDERS_IN_TABLE] {
            let (session, _) = Session::of_server(peer, version, false);
            let address = Address::new(7, false);
            let data = [&words(&[1])[..], &address.0.to_le_bytes(), &words(&[12])].concat();
            let all = ledger::use_up(peer, Resource::Exports);
            let table = if version < BINDERS_IN_TABLE { &[][..] } else { &[0; 4] };
            // The fixed part of a reply is a status, the data's size, and 12 bytes more.
            let reply = [&[0; 4][..], &data.len().to_le_bytes()[..4], &[0; 12], &data, table].concat();
            let body = Reply::decode(version, &reply).unwrap().body;
            let mut arrived = ReceivedObjects::of(&session, &body, &mut Vec::new()).unwrap();
            let refused = arrived.take_binder(0);
            assert!(matches!(refused, Err(Error::PermissionDenied(_))), "{refused:?}");
            drop((arrived, all));
            assert_eq!(session.nodes().take_owed(), [DecStrong { address, amount: 1 }]);
        }
    }

    #[test]
    fn null_references_and_descriptors_are_as_short_as_they_are() {
        let (bytes, _) = bytes_of(|to| to.write(&vec![None::<Binder>; 3]));
        assert_eq!(bytes.len(), 4 + 3 * 8);
        let read: Vec<Option<Binder>> =
            Reader::new(SharedBytes::from_slice(&bytes)).in_rpc_form().read().unwrap();
        assert_eq!(read, [None, None, None]);
        assert_eq!((Binder::LEAST_SIZE, BareFd::LEAST_SIZE), (8, 8));
        // Another kind than is asked for, and one that is none.
        for kind in [2, 3, u32::MAX] {
            let bytes = words(&[kind, 0, 0, 12]);
            assert!(Reader::new(SharedBytes::from_slice(&bytes)).in_rpc_form().read_binder().is_err());
        }
    }
}
