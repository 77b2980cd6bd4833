//! Interfaces by name: what a caller means an object to be, and what the object's owner says that it is.
//!
//! A process that gives an object away states hashes of the object's interfaces with it, so that a proxy of another
//! interface is refused before it sends anything: without a round trip, and at the price of one comparison a call.
//! This catches mistakes. It is no protection: an owner may lie, and a hostile caller need not look.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::dispatch::{INTERFACE, INTERFACE_CHAIN};
use crate::engine::{EngineKind, OutCall, Remote};
use crate::{Error, Result};

/// Hashes that are stated of one object: its own interface, and those that this one extends, nearest first.
const STATED: usize = 4;
/// How long a oneway call that is refused waits for the name of what it met.
const ONEWAY_ANSWER: Duration = Duration::from_secs(1);

/// An interface that a caller means, named by its descriptor.
///
/// ```
/// use handoff_ipc::{CallOptions, InterfaceId};
///
/// const CLOCK: InterfaceId = InterfaceId::new("sample.IClock");
/// let options = CallOptions { interface: Some(CLOCK), ..CallOptions::default() };
/// assert_eq!(options.interface.unwrap().descriptor(), "sample.IClock");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceId {
    descriptor: &'static str,
    hash: u32,
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
    fn may_have_more(&self) -> bool {
        self.0[STATED - 1] != 0
    }

    /// Whether the interface is among them.
    #[inline]
    pub(crate) fn contains(&self, interface: InterfaceId) -> bool {
        self.0.contains(&interface.hash)
    }
}

/// What this process knows of the interfaces of a remote object.
#[derive(Debug, Default)]
pub(crate) struct KnownInterfaces {
    // The hash that the last call was checked for.
    checked: AtomicU32,
    stated: OnceLock<Interfaces>,
    descriptor: OnceLock<String>,
}

impl KnownInterfaces {
    /// The owner stated these hashes, or none.
    pub(crate) fn state(&self, stated: Option<Interfaces>) {
        if let Some(stated) = stated {
            // What an owner said first stays.
            let _ = self.stated.set(stated);
        }
    }

    /// An error if the call means an interface that the object does not have.
    #[inline(always)]
    pub(crate) fn check_call(&self, remote: &dyn Remote, call: &OutCall) -> Result<()> {
        match call.interface {
            Some(meant) if meant.hash != self.checked.load(Ordering::Relaxed) => {
                self.check(remote, meant, call)
            }
            _ => Ok(()),
        }
    }

    /// The owner is asked only where it stated nothing, or to name what the object is instead.
    #[cold]
    fn check(&self, remote: &dyn Remote, meant: InterfaceId, call: &OutCall) -> Result<()> {
        let on_driver = remote.engine() == EngineKind::Binder;
        // A oneway call does not wait for its receiver, who may never answer. On the driver it has to ask for what
        // stands in front of each call anyway; and a process of the same user could end this one, too.
        let asks = !call.oneway || on_driver || remote.is_of_own_user();
        let within = if call.oneway && !on_driver { Some(ONEWAY_ANSWER) } else { call.deadline };
        let has = match self.stated.get() {
            Some(stated) if stated.contains(meant) => true,
            // Of an owner that was built before there were hashes.
            None if call.oneway && !on_driver => return Ok(()),
            // Not known for sure, so the next call looks again.
            Some(stated) if !asks && stated.may_have_more() => return Ok(()),
            Some(_) if !asks => false,
            _ => {
                self.descriptor(remote, within)? == meant.descriptor
                    || chain(remote, within)?.iter().any(|name| name == meant.descriptor)
            }
        };
        if has {
            self.checked.store(meant.hash, Ordering::Relaxed);
            return Ok(());
        }
        let found = if asks { self.descriptor(remote, within)? } else { "(not named by its owner)" };
        Err(wrong(meant, found))
    }

    /// The object's own descriptor, asked for once.
    pub(crate) fn descriptor(&self, remote: &dyn Remote, within: Option<Duration>) -> Result<&str> {
        if let Some(known) = self.descriptor.get() {
            return Ok(known);
        }
        let mut found = String::new();
        let question = OutCall { deadline: within, ..OutCall::of(INTERFACE) };
        remote.transact(&question, &mut |_| Ok(()), &mut |reply| {
            found = reply.read()?;
            Ok(())
        })?;
        Ok(self.descriptor.get_or_init(|| found))
    }
}

/// Everything that the object is, by the word of its owner; nothing from services that tell their descriptor only.
fn chain(remote: &dyn Remote, within: Option<Duration>) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let question = OutCall { deadline: within, ..OutCall::of(INTERFACE_CHAIN) };
    let asked = remote.transact(&question, &mut |_| Ok(()), &mut |reply| {
        found = reply.read()?;
        Ok(())
    });
    match asked {
        Err(error @ (Error::Dead | Error::DeadlineExpired(_))) => Err(error),
        // Android's own services do not know the question; what they answer differs from release to release.
        _ => Ok(found),
    }
}

/// The error of a caller who means another interface than the object has.
#[cold]
pub(crate) fn wrong(meant: InterfaceId, found: &str) -> Error {
    Error::WrongInterface { expected: meant.descriptor.to_owned(), found: found.to_owned() }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::engine::{DeathRegistration, ReadFn, WriteFn};
    use crate::parcel::{Reader, SharedBytes, Writer};

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

    /// An object that tells what it is, as far as it is asked; with the codes that it was asked with.
    struct Owner {
        engine: EngineKind,
        own_user: bool,
        chain: Option<Vec<String>>,
        asked: Mutex<Vec<u32>>,
    }

    impl Remote for Owner {
        fn engine(&self) -> EngineKind {
            self.engine
        }
        fn transact(&self, call: &OutCall, _: WriteFn<'_>, read: ReadFn<'_>) -> Result<()> {
            self.asked.lock().unwrap().push(call.code);
            let mut bytes = Vec::new();
            let mut writer = Writer::growing(&mut bytes);
            match (call.code, &self.chain) {
                (INTERFACE, _) => writer.write_string16("a.IC")?,
                (INTERFACE_CHAIN, Some(chain)) => writer.write(chain)?,
                _ => return Err(Error::UnknownTransaction { descriptor: "a.IC".into(), code: call.code }),
            }
            drop(writer.finish());
            read(&mut Reader::new(SharedBytes::from_slice(&bytes)))
        }
        fn check_interface(&self, _: &OutCall) -> Result<()> {
            Ok(())
        }
        fn is_of_own_user(&self) -> bool {
            self.own_user
        }
        fn link_to_death(&self, _: Box<dyn FnOnce() + Send>) -> Result<DeathRegistration> {
            Ok(DeathRegistration::new(|| ()))
        }
        fn is_alive(&self) -> bool {
            true
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }

    fn owner(engine: EngineKind, chain: Option<&[&str]>) -> Owner {
        let chain = chain.map(|chain| chain.iter().map(|name| (*name).to_owned()).collect());
        Owner { engine, own_user: false, chain, asked: Mutex::default() }
    }

    fn meant(descriptor: &'static str, oneway: bool) -> OutCall {
        OutCall { oneway, interface: Some(InterfaceId::new(descriptor)), ..OutCall::of(1) }
    }

    fn is_wrong(outcome: Result<()>, by: &str) -> bool {
        matches!(outcome, Err(Error::WrongInterface { found, .. }) if found == by)
    }

    #[test]
    fn the_driver_s_objects_are_asked_once() {
        let owner = owner(EngineKind::Binder, Some(&["a.IC", "a.IB"]));
        let known = KnownInterfaces::default();
        for oneway in [true, false] {
            known.check_call(&owner, &meant("a.IC", oneway)).unwrap();
            known.check_call(&owner, &meant("a.IC", oneway)).unwrap();
        }
        assert_eq!(*owner.asked.lock().unwrap(), [INTERFACE]);
        known.check_call(&owner, &meant("a.IB", false)).unwrap();
        assert!(is_wrong(known.check_call(&owner, &meant("a.IX", true)), "a.IC"));
        // Android's services have no chain.
        let android = self::owner(EngineKind::Binder, None);
        let known = KnownInterfaces::default();
        known.check_call(&android, &meant("a.IC", false)).unwrap();
        assert!(is_wrong(known.check_call(&android, &meant("a.IB", false)), "a.IC"));
    }

    #[test]
    fn what_the_owner_stated_is_not_asked_for() {
        let owner = owner(EngineKind::Shm, Some(&["a.IC", "a.IB"]));
        let known = KnownInterfaces::default();
        known.state(Some(Interfaces::of("a.IC", &["a.IB"])));
        for (descriptor, oneway) in [("a.IC", false), ("a.IB", true), ("a.IC", true)] {
            known.check_call(&owner, &meant(descriptor, oneway)).unwrap();
        }
        assert!(owner.asked.lock().unwrap().is_empty());
        assert!(is_wrong(known.check_call(&owner, &meant("a.IX", false)), "a.IC"));
    }

    #[test]
    fn a_oneway_call_waits_for_no_answer_of_another_user() {
        let mut owner = owner(EngineKind::Shm, None);
        let known = KnownInterfaces::default();
        // An owner of an older version, which states nothing.
        known.check_call(&owner, &meant("a.IX", true)).unwrap();
        known.state(Some(Interfaces::of("a.IC", &[])));
        assert!(is_wrong(known.check_call(&owner, &meant("a.IX", true)), "(not named by its owner)"));
        assert!(owner.asked.lock().unwrap().is_empty());
        owner.own_user = true;
        assert!(is_wrong(known.check_call(&owner, &meant("a.IX", true)), "a.IC"));
    }

    #[test]
    fn more_interfaces_than_are_stated_are_asked_for() {
        let all = ["a.IC", "b.I1", "b.I2", "b.I3", "b.I4"];
        let owner = owner(EngineKind::Shm, Some(&all));
        let known = KnownInterfaces::default();
        known.state(Some(Interfaces::of(all[0], &all[1..])));
        known.check_call(&owner, &meant("b.I3", false)).unwrap();
        assert!(owner.asked.lock().unwrap().is_empty());
        known.check_call(&owner, &meant("b.I4", true)).unwrap();
        known.check_call(&owner, &meant("b.I4", false)).unwrap();
        assert!(is_wrong(known.check_call(&owner, &meant("b.I5", false)), "a.IC"));
    }
}
