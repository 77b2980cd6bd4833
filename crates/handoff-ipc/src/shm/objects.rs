//! How objects and descriptors cross a link: what stands beside a payload, and what it becomes.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::link::Link;
use super::remote::RemoteNode;
use super::slot::{Entry, MAX_OBJECTS};
use crate::disposal::PeerFd;
use crate::interface::Interfaces;
use crate::ledger::{self, Resource};
use crate::object::{Binder, Reference};
use crate::parcel::{Incoming, Kind, Object, Sealed, no_object, wrong_kind};
use crate::{Error, Result};

/// The sender's own object; the receiver holds one more reference. Its interfaces stand where those of third
/// processes have the endpoint.
const OF_SENDER: u32 = 1;
/// An object that the receiver once gave to the sender.
const OF_RECEIVER: u32 = 2;
/// An object of a third process: its endpoint, the token, and a connection among the descriptors.
const OF_THIRD: u32 = 3;
const FD: u32 = 4;

/// Prepares a parcel's objects for the way over `link`.
pub(crate) fn encode(link: &Arc<Link>, objects: Vec<(u32, Object)>) -> Result<(Vec<Entry>, Vec<OwnedFd>)> {
    if objects.len() > MAX_OBJECTS {
        return Err(Error::TooLarge { size: objects.len(), limit: MAX_OBJECTS });
    }
    let (mut entries, mut fds) = (Vec::with_capacity(objects.len()), Vec::new());
    for (offset, object) in objects {
        let entry = Entry { offset, ..Entry::default() };
        entries.push(match object {
            Object::Buffer(_) | Object::FdArray(_) => {
                return Err(Error::Unsupported {
                    engine: "shm",
                    what: "take a buffer from where it is".into(),
                });
            }
            Object::Fd(fd) => {
                fds.push(fd);
                Entry { kind: FD, ..entry }
            }
            Object::Binder(Binder(Reference::Local(node))) => {
                let endpoint = node.interfaces().to_bytes();
                Entry { kind: OF_SENDER, value: link.export(&node)?, endpoint, ..entry }
            }
            Object::Binder(Binder(Reference::Remote(remote))) => {
                let Some(remote) = remote.as_any().downcast_ref::<RemoteNode>() else {
                    return Err(Error::Unsupported {
                        engine: "shm",
                        what: format!("carry a reference to an object of the {} engine", remote.engine()),
                    });
                };
                if Arc::ptr_eq(&remote.link, link) {
                    Entry { kind: OF_RECEIVER, value: remote.node, ..entry }
                } else {
                    let endpoint = remote.link.peer_endpoint();
                    let _waits = remote.link.await_introduction()?;
                    let charge = ledger::charge(link.peer(), Resource::Introductions, 1)?;
                    let (fd, token) = remote.link.ask_for_introduction(remote.node)?;
                    // Where the owner will say that it is over: a process may have an engine for each of the two links.
                    remote.link.core()?.add_referral(token, &remote.link, charge);
                    fds.push(fd);
                    Entry { kind: OF_THIRD, endpoint, token, ..entry }
                }
            }
        });
    }
    Ok((entries, fds))
}

/// The user of a process that would be asked for an introduction, before these objects can go over `link`: whoever
/// encodes them waits for it.
pub(crate) fn asked(link: &Arc<Link>, objects: &[(u32, Object)]) -> Option<u32> {
    objects.iter().find_map(|(_, object)| match object {
        Object::Binder(Binder(Reference::Remote(remote))) => {
            let owner = &remote.as_any().downcast_ref::<RemoteNode>()?.link;
            (!Arc::ptr_eq(owner, link)).then(|| owner.peer().uid)
        }
        _ => None,
    })
}

/// The objects of a parcel that are the receiver's own, to be kept until it has surely read the parcel: given
/// back earlier, it might know them no longer.
pub(crate) fn of_receiver(link: &Arc<Link>, objects: &[(u32, Object)]) -> Vec<Binder> {
    let is_its = |remote: &RemoteNode| Arc::ptr_eq(&remote.link, link);
    let kept = objects.iter().filter_map(|(_, object)| match object {
        Object::Binder(binder @ Binder(Reference::Remote(remote))) => {
            remote.as_any().downcast_ref().is_some_and(is_its).then(|| binder.clone())
        }
        _ => None,
    });
    kept.collect()
}

/// Objects that came with a parcel: each becomes something when it is read, or is given back.
pub(crate) struct ReceivedObjects<'a> {
    link: &'a Arc<Link>,
    // The entry and its descriptor; `None` once read.
    objects: Vec<Option<(Entry, Option<PeerFd>)>>,
}

/// Keeps objects of this process that a parcel refers to, until each is let go with
/// [`Link::unexport`]: whoever sent the parcel may give them back before it is read.
pub(crate) fn hold(link: &Link, entries: &[Entry]) -> Vec<u64> {
    entries
        .iter()
        .filter(|entry| entry.kind == OF_RECEIVER && link.hold(entry.value))
        .map(|entry| entry.value)
        .collect()
}

/// Descriptors that so many entries need.
pub(crate) fn fds_of(entries: &[Entry]) -> usize {
    entries.iter().filter(|entry| matches!(entry.kind, FD | OF_THIRD)).count()
}

impl<'a> ReceivedObjects<'a> {
    /// `fds` are those of the entries that need one, in order.
    pub(crate) fn new(link: &'a Arc<Link>, entries: Vec<Entry>, mut fds: VecDeque<PeerFd>) -> Self {
        let objects = entries
            .into_iter()
            .map(|entry| {
                let fd = if fds_of(&[entry]) == 1 { fds.pop_front() } else { None };
                Some((entry, fd))
            })
            .collect();
        ReceivedObjects { link, objects }
    }

    fn take(&mut self, at: usize) -> Result<(Entry, Option<PeerFd>)> {
        let here = |object: &&mut Option<(Entry, Option<PeerFd>)>| {
            object.as_ref().is_some_and(|(entry, _)| entry.offset as usize == at)
        };
        self.objects.iter_mut().find(here).and_then(Option::take).ok_or_else(|| no_object(at))
    }
}

impl Sealed for ReceivedObjects<'_> {}

impl Incoming for ReceivedObjects<'_> {
    fn take_binder(&mut self, at: usize) -> Result<Binder> {
        match self.take(at)? {
            (Entry { kind: OF_SENDER, value, endpoint, .. }, _) => {
                Ok(Binder::from_remote(self.link.proxy(value, Interfaces::from_bytes(endpoint))))
            }
            (Entry { kind: OF_RECEIVER, value, .. }, _) => match self.link.exported(value) {
                Some(node) => Ok(Binder(Reference::Local(node))),
                None => Err(Error::UnknownObject(value)),
            },
            (Entry { kind: OF_THIRD, endpoint, token, .. }, Some(fd)) => {
                let _waits = self.link.await_introduction()?;
                self.link.core()?.meet(endpoint, token, fd)
            }
            _ => Err(wrong_kind(at, "an object reference", "something else")),
        }
    }

    fn take_fd(&mut self, at: usize) -> Result<OwnedFd> {
        match self.take(at)? {
            (Entry { kind: FD, .. }, Some(fd)) => fd.take().ok_or(Error::Dead),
            _ => Err(wrong_kind(at, "a file descriptor", "something else")),
        }
    }

    fn places(&self) -> Vec<(usize, Kind)> {
        let kind = |entry: &Entry| if entry.kind == FD { Kind::Fd } else { Kind::Binder };
        self.objects.iter().flatten().map(|(entry, _)| (entry.offset as usize, kind(entry))).collect()
    }
}

impl Drop for ReceivedObjects<'_> {
    fn drop(&mut self) {
        for (entry, _) in self.objects.drain(..).flatten() {
            if entry.kind == OF_SENDER {
                self.link.release(entry.value, 1);
            }
        }
    }
}
