//! Interfaces by name: what a caller means an object to be, and what the object's owner says that it is.
//!
//! A process that gives an object away states hashes of the object's interfaces with it, so that a proxy of another
//! interface is refused before it sends anything: without a round trip, and at the price of one comparison a call.
//! This catches mistakes. It is no protection: an owner may lie, and a hostile caller need not look.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::Error;

/// Hashes that are stated of one object: its own interface, and those that this one extends, nearest first.
const STATED: usize = 4;

/// An interface that a caller means, named by its descriptor.
///
/// ```
/// use handoff_ipc::{Binder, Error, InterfaceId, ParcelService};
///
/// const CLOCK: InterfaceId = InterfaceId::new("sample.IClock");
/// let lamp = Binder::new(ParcelService::new("sample.ILamp", |_, _| Ok(None)));
/// let refused = lamp.transaction(1).interface(CLOCK).call(|_| Ok(()), |_| Ok(()));
/// assert!(matches!(refused, Err(Error::WrongInterface { expected, .. }) if expected == CLOCK.descriptor()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceId {
    descriptor: &'static str,
    pub(crate) hash: u32,
}

impl InterfaceId {
    /// The interface of this descriptor.
    pub const fn new(descriptor: &'static str) -> Self {
        InterfaceId { descriptor, hash: hash(descriptor) }
    }

    /// The interface of a descriptor that is known at run time only. Each is kept for as long as the process lives:
    /// for the few interfaces of a program, and not for names that a peer sends.
    pub fn interned(descriptor: &str) -> Self {
        static ALL: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let all = all.get_or_insert_default();
        let kept = all.get(descriptor).copied().unwrap_or_else(|| {
            let kept: &'static str = Box::leak(descriptor.into());
            all.insert(kept);
            kept
        });
        InterfaceId::new(kept)
    }

    /// The interface's descriptor, such as `sample.IClock`.
    pub fn descriptor(&self) -> &'static str {
        self.descriptor
    }
}

/// FNV-1a; never 0, which stands for no interface.
const fn hash(descriptor: &str) -> u32 {
    let (bytes, mut hash, mut at) = (descriptor.as_bytes(), 0x811c_9dc5_u32, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    if hash == 0 { 1 } else { hash }
}

/// The hashes that an owner states of one object; zeros behind the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Interfaces([u32; STATED]);

impl Interfaces {
    /// Of an object's own descriptor and those that it extends.
    pub(crate) fn of(descriptor: &str, bases: &[&str]) -> Self {
        let mut hashes = [0; STATED];
        let all = std::iter::once(descriptor).chain(bases.iter().copied());
        for (place, descriptor) in hashes.iter_mut().zip(all) {
            *place = hash(descriptor);
        }
        Interfaces(hashes)
    }

    /// As control messages and tables of objects carry them.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        for (place, hash) in bytes.chunks_exact_mut(4).zip(self.0) {
            place.copy_from_slice(&hash.to_le_bytes());
        }
        bytes
    }

    /// From there. `None` where the owner stated nothing.
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let stated = Interfaces([word(0), word(4), word(8), word(12)]);
        (stated != Interfaces::default()).then_some(stated)
    }

    /// Whether the object may have interfaces that there was no place for.
    pub(crate) fn may_have_more(&self) -> bool {
        self.0[STATED - 1] != 0
    }

    /// Whether the interface is among them.
    #[inline]
    pub(crate) fn contains(&self, interface: InterfaceId) -> bool {
        self.0.contains(&interface.hash)
    }
}

/// The error of a caller who means another interface than the object has.
#[cold]
pub(crate) fn wrong(meant: InterfaceId, found: &str) -> Error {
    Error::WrongInterface { expected: meant.descriptor.to_owned(), found: found.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stated_of_an_object_arrives() {
        let stated = Interfaces::of("a.IC", &["a.IB", "a.IA"]);
        assert_eq!(Interfaces::from_bytes(stated.to_bytes()), Some(stated));
        assert_eq!(Interfaces::from_bytes([0; 16]), None);
        for own in ["a.IC", "a.IB", "a.IA"] {
            assert!(stated.contains(InterfaceId::interned(own)), "{own}");
        }
        assert!(!stated.contains(InterfaceId::new("a.ID")));
        assert!(!stated.contains(InterfaceId::new("")));
    }

    #[test]
    fn a_name_is_kept_once() {
        let (one, two) = (InterfaceId::interned("a.IKept"), InterfaceId::interned(&String::from("a.IKept")));
        assert!(std::ptr::eq(one.descriptor(), two.descriptor()));
        assert_eq!(one, InterfaceId::new("a.IKept"));
    }
}
