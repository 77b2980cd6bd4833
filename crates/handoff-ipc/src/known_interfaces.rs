//! What this process knows of a remote object's interfaces: what the owner stated, and what it answered when it was asked.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::call::OutCall;
use crate::code::{INTERFACE, INTERFACE_CHAIN};
use crate::engine_kind::EngineKind;
use crate::identity::CallingIdentity;
use crate::interface::{InterfaceId, Interfaces, wrong};
use crate::object::Remote;
use crate::{Error, Result};

/// How long a oneway call that is refused waits for the name of what it met.
const ONEWAY_ANSWER: Duration = Duration::from_secs(1);

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
        let must_ask = matches!(remote.engine(), EngineKind::Binder | EngineKind::Rpc);
        // A oneway call does not wait for its receiver, who may never answer. On the driver and in RPC it has to ask for
        // what stands in front of each call anyway; and a process of the same user could end this one, too.
        let is_own_user =
            || remote.owner().is_some_and(|owner| owner.uid == CallingIdentity::own_cached().uid);
        let asks = !call.oneway || must_ask || is_own_user();
        let within = if call.oneway && !must_ask { Some(ONEWAY_ANSWER) } else { call.deadline };
        let has = match self.stated.get() {
            Some(stated) if stated.contains(meant) => true,
            // Of an owner that was built before there were hashes.
            None if call.oneway && !must_ask => return Ok(()),
            // Not known for sure, so the next call looks again.
            Some(stated) if !asks && stated.may_have_more() => return Ok(()),
            Some(_) if !asks => false,
            _ => {
                self.descriptor(remote, within)? == meant.descriptor()
                    || chain(remote, within)?.iter().any(|name| name == meant.descriptor())
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::death::DeathRegistration;
    use crate::object::{ReadFn, WriteFn};
    use crate::parcel::{Reader, SharedBytes, Writer};

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
        fn owner(&self) -> Option<CallingIdentity> {
            let own = CallingIdentity::own();
            Some(CallingIdentity { uid: own.uid.wrapping_add(u32::from(!self.own_user)), ..own })
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
