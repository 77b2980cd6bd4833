//! Frozen processes: who is refused, what waits, and who is told.

use handoff_ipc::binder::uapi::BINDER_FREEZE;

use super::prelude::*;
use crate::seam::Peer;

/// A manager, and another process whose object it holds.
struct Frozen {
    manager: Party,
    party: Party,
    handle: u32,
    peer: Box<dyn Peer>,
}

fn freeze(party: &Party, pid: u32, enable: bool, timeout: u32) -> i32 {
    let mut info = [pid, enable.into(), timeout].map(u32::to_ne_bytes).as_flattened().to_vec();
    party.process.ioctl(BINDER_FREEZE, &mut info)
}

fn info(party: &Party, pid: u32) -> Check<(u32, u32)> {
    let mut info = [pid, 0, 0].map(u32::to_ne_bytes).as_flattened().to_vec();
    errno("BINDER_GET_FROZEN_INFO", party.process.ioctl(BINDER_GET_FROZEN_INFO, &mut info), 0)?;
    let word = |at: usize| u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
    Ok((word(4), word(8)))
}

fn prepared(stage: &Stage<'_>) -> Check<Frozen> {
    if stage.open()?.process.ioctl_at(BINDER_FREEZE, 8) == libc::EINVAL {
        return not_here("this kernel cannot freeze (Linux 5.12 and later can)");
    }
    let manager = stage.manager()?;
    let peer = stage.peer()?;
    let party = stage.client_of(&*peer, false)?;
    let handle = party.gives(0x1000, &manager)?;
    Ok(Frozen { manager, party, handle, peer })
}

fn frozen(stage: &Stage<'_>) -> Check<Frozen> {
    let frozen = prepared(stage)?;
    frozen.freeze()?;
    Ok(frozen)
}

impl Frozen {
    fn freeze(&self) -> Check {
        errno("BINDER_FREEZE", freeze(&self.manager, self.peer.pid(), true, 0), 0)
    }

    fn thaw(&self) -> Check {
        errno("BINDER_FREEZE", freeze(&self.manager, self.peer.pid(), false, 0), 0)
    }

    fn info(&self) -> Check<(u32, u32)> {
        info(&self.manager, self.peer.pid())
    }

    /// Sends a oneway call to it, which is accepted in one way or the other. Gives what was said.
    fn oneway(&self, code: u32) -> Check<u32> {
        self.manager.oneway(self.handle, code)?;
        match self.manager.returns()?.iter().map(|one| one.number).collect::<Vec<_>>()[..] {
            [one] if [BR_TRANSACTION_COMPLETE, BR_TRANSACTION_PENDING_FROZEN].contains(&one) => Ok(one),
            ref other => unexpected(format!("read {}", crate::returns::names_of(other))),
        }
    }

    /// Asks for notices; where the driver has none, the case is not here.
    fn watch(&self, cookie: u64) -> Check {
        let message = Message::new().handle_cookie(BC_REQUEST_FREEZE_NOTIFICATION, self.handle, cookie);
        match self.manager.write(&message).errno {
            libc::EINVAL => not_here("this kernel does not tell holders of references (Linux 6.12 does)"),
            other => errno("BC_REQUEST_FREEZE_NOTIFICATION", other, 0),
        }
    }

    fn told(&self, cookie: u64, is_frozen: bool) -> Check {
        let found = self.manager.expect(&[BR_FROZEN_BINDER])?;
        let state = (found[0].long(0), found[0].long(1) & 0xffff_ffff);
        same("cookie and state", state, (cookie, is_frozen.into()))
    }

    fn done(&self, cookie: u64) -> Check {
        self.manager.send(Message::new().long(BC_FREEZE_NOTIFICATION_DONE, cookie))
    }
}

pub(super) const CASES: &[Case] = &[
    case("freeze.call", Libbinder("CachedAppOptimizer, FROZEN")).expects("a call is BR_FROZEN_REPLY").by(
        |stage| {
            let frozen = frozen(stage)?;
            frozen.manager.fails(&Call::to(frozen.handle, 1), BR_FROZEN_REPLY)
        },
    ),
    case("freeze.call.not-delivered", Libbinder("CachedAppOptimizer"))
        .expects("the call is not served after the thaw")
        .by(|stage| {
            let frozen = frozen(stage)?;
            frozen.manager.fails(&Call::to(frozen.handle, 1), BR_FROZEN_REPLY)?;
            frozen.thaw()?;
            frozen.party.expect_nothing()
        }),
    case("freeze.call.extended-error", Driver("binder_transaction"))
        .expects("the command is BR_FROZEN_REPLY")
        .by(|stage| {
            let frozen = frozen(stage)?;
            frozen.manager.extended_error()?;
            frozen.manager.fails(&Call::to(frozen.handle, 1), BR_FROZEN_REPLY)?;
            same("the command", frozen.manager.extended_error()?.0, BR_FROZEN_REPLY)
        }),
    case("freeze.oneway.accepted", Libbinder("CachedAppOptimizer"))
        .expects("a oneway call is accepted")
        .by(|stage| frozen(stage)?.oneway(1).map(drop)),
    case("freeze.oneway.pending", Header("BR_TRANSACTION_PENDING_FROZEN"))
        .expects("its sender is told that it waits")
        .by(|stage| match frozen(stage)?.oneway(1)? {
            BR_TRANSACTION_PENDING_FROZEN => Ok(()),
            _ => not_here("this kernel says BR_TRANSACTION_COMPLETE, as all before Linux 6.4"),
        }),
    case("freeze.oneway.held", Libbinder("CachedAppOptimizer")).expects("it is delivered after the thaw").by(
        |stage| {
            let frozen = frozen(stage)?;
            frozen.oneway(4)?;
            frozen.thaw()?;
            same("the code", frozen.party.receive()?.data.code, 4)
        },
    ),
    case("freeze.oneway.order", Libbinder("oneway order"))
        .expects("those that waited come in their order")
        .by(|stage| {
            let frozen = frozen(stage)?;
            for code in 0..5 {
                frozen.oneway(code)?;
            }
            frozen.thaw()?;
            for code in 0..5 {
                let call = frozen.party.receive()?;
                same("the code", call.data.code, code)?;
                frozen.party.free(&call)?;
            }
            Ok(())
        }),
    case("freeze.oneway.updated", Header("TF_UPDATE_TXN"))
        .expects("a newer call takes the place of one that waits")
        .by(|stage| {
            let frozen = frozen(stage)?;
            for bytes in [b"1", b"2", b"3"] {
                let call =
                    Call::to(frozen.handle, 1).flags(TF_ONE_WAY | TF_UPDATE_TXN).with(Parcel::bytes(bytes));
                frozen.manager.call(&call)?;
                frozen.manager.returns()?;
            }
            frozen.thaw()?;
            let mut arrived = Vec::new();
            while let Some(one) = frozen.party.returns()?.iter().find(|one| one.number == BR_TRANSACTION) {
                let call = frozen.party.open_parcel(one)?;
                arrived.push(call.bytes[0]);
                frozen.party.free(&call)?;
            }
            match arrived[..] {
                // The first one is not waiting in the object's queue any more.
                [b'1', b'3'] | [b'3'] => Ok(()),
                [b'1', b'2', b'3'] if stage.open()?.extended_error().is_err() => {
                    not_here("this kernel does not know TF_UPDATE_TXN (Linux 5.19 does)")
                }
                ref other => unexpected(format!("{} arrived", String::from_utf8_lossy(other))),
            }
        }),
    case("freeze.thawed", Libbinder("CachedAppOptimizer")).expects("calls arrive again after the thaw").by(
        |stage| {
            let frozen = frozen(stage)?;
            frozen.thaw()?;
            frozen.manager.call(&Call::to(frozen.handle, 6))?;
            same("the code", frozen.party.receive()?.data.code, 6)
        },
    ),
    case("freeze.itself", Header("BINDER_FREEZE")).expects("a frozen process may still call").by(|stage| {
        let frozen = frozen(stage)?;
        frozen.party.works_with(&frozen.manager)
    }),
    case("freeze.twice", Driver("binder_ioctl_freeze")).expects("is no error").by(|stage| {
        let frozen = frozen(stage)?;
        frozen.freeze()
    }),
    case("freeze.thaw-unfrozen", Driver("binder_ioctl_freeze"))
        .expects("is no error")
        .by(|stage| prepared(stage)?.thaw()),
    case("freeze.nobody", Driver("binder_ioctl_freeze"))
        .expects("EINVAL for a process that does not use the driver")
        .by(|stage| {
            let manager = prepared(stage)?.manager;
            errno("BINDER_FREEZE", freeze(&manager, 1, true, 0), libc::EINVAL)
        }),
    case("freeze.nobody.info", Libbinder("CachedAppOptimizer"))
        .expects("BINDER_GET_FROZEN_INFO is EINVAL for one that does not use the driver")
        .by(|stage| {
            let manager = prepared(stage)?.manager;
            let mut info = [1u32, 0, 0].map(u32::to_ne_bytes).as_flattened().to_vec();
            errno(
                "BINDER_GET_FROZEN_INFO",
                manager.process.ioctl(BINDER_GET_FROZEN_INFO, &mut info),
                libc::EINVAL,
            )
        }),
    case("freeze.info.nothing", Header("binder_frozen_status_info"))
        .expects("zeros where nothing reached it")
        .by(|stage| same("the information", frozen(stage)?.info()?, (0, 0))),
    case("freeze.info.sync", Libbinder("CachedAppOptimizer"))
        .expects("a call that was refused is told of")
        .by(|stage| {
            let frozen = frozen(stage)?;
            frozen.manager.fails(&Call::to(frozen.handle, 1), BR_FROZEN_REPLY)?;
            same("sync_recv", frozen.info()?.0 & 1, 1)
        }),
    case("freeze.info.async", Libbinder("CachedAppOptimizer"))
        .expects("a oneway call that waits is told of")
        .by(|stage| {
            let frozen = frozen(stage)?;
            frozen.oneway(1)?;
            same("async_recv", frozen.info()?.1 & 1, 1)
        }),
    case("freeze.info.forgotten", Driver("binder_ioctl_freeze"))
        .expects("forgotten when it is frozen anew")
        .by(|stage| {
            let frozen = frozen(stage)?;
            frozen.manager.fails(&Call::to(frozen.handle, 1), BR_FROZEN_REPLY)?;
            frozen.thaw()?;
            frozen.freeze()?;
            same("the information", frozen.info()?, (0, 0))
        }),
    case("freeze.serving", Libbinder("CachedAppOptimizer")).expects("EAGAIN while it serves a call").by(
        |stage| {
            let frozen = prepared(stage)?;
            frozen.manager.call(&Call::to(frozen.handle, 1))?;
            frozen.party.receive()?;
            errno("BINDER_FREEZE", freeze(&frozen.manager, frozen.peer.pid(), true, 0), libc::EAGAIN)
        },
    ),
    case("freeze.serving.not-frozen", Driver("binder_ioctl_freeze"))
        .expects("it is not frozen after EAGAIN")
        .by(|stage| {
            let frozen = prepared(stage)?;
            frozen.manager.call(&Call::to(frozen.handle, 1))?;
            frozen.party.receive()?;
            errno("BINDER_FREEZE", freeze(&frozen.manager, frozen.peer.pid(), true, 0), libc::EAGAIN)?;
            frozen.party.answer()?;
            frozen.party.expect(&[BR_TRANSACTION_COMPLETE])?;
            frozen.manager.receive_reply()?;
            frozen.manager.call(&Call::to(frozen.handle, 2))?;
            same("the code", frozen.party.receive()?.data.code, 2)
        }),
    case("freeze.served", Libbinder("CachedAppOptimizer")).expects("works after its call was answered").by(
        |stage| {
            let frozen = prepared(stage)?;
            frozen.manager.call(&Call::to(frozen.handle, 1))?;
            frozen.party.receive()?;
            frozen.party.answer()?;
            frozen.party.expect(&[BR_TRANSACTION_COMPLETE])?;
            frozen.manager.receive_reply()?;
            frozen.freeze()
        },
    ),
    case("freeze.all-openings", Driver("binder_ioctl_freeze")).expects("every opening of the process").by(
        |stage| {
            let first = prepared(stage)?;
            let second = stage.client_of(&*first.peer, false)?;
            let handle = second.gives(0x2000, &first.manager)?;
            first.freeze()?;
            first.manager.fails(&Call::to(handle, 1), BR_FROZEN_REPLY)
        },
    ),
    case("freeze.dies", Libbinder("CachedAppOptimizer"))
        .expects("a frozen process that is killed is told of")
        .by(|stage| {
            let mut frozen = frozen(stage)?;
            frozen.manager.send(Message::new().handle_cookie(
                BC_REQUEST_DEATH_NOTIFICATION,
                frozen.handle,
                5,
            ))?;
            frozen.peer.kill();
            frozen.manager.wait_for(&[BR_DEAD_BINDER]).map(drop)
        }),
    case("freeze-notice.first", Libbinder("BpBinder::addFrozenStateChangeCallback"))
        .expects("the state of now is told at once")
        .by(|stage| {
            let frozen = prepared(stage)?;
            frozen.watch(5)?;
            frozen.told(5, false)
        }),
    case("freeze-notice.frozen", Libbinder("BpBinder::onFrozenStateChanged"))
        .expects("BR_FROZEN_BINDER when it is frozen")
        .by(|stage| {
            let frozen = prepared(stage)?;
            frozen.watch(5)?;
            frozen.told(5, false)?;
            frozen.done(5)?;
            frozen.freeze()?;
            frozen.told(5, true)
        }),
    case("freeze-notice.thawed", Libbinder("BpBinder::onFrozenStateChanged"))
        .expects("and when it is thawed")
        .by(|stage| {
            let frozen = frozen(stage)?;
            frozen.watch(5)?;
            frozen.told(5, true)?;
            frozen.done(5)?;
            frozen.thaw()?;
            frozen.told(5, false)
        }),
    case("freeze-notice.not-done", Driver("binder_add_freeze_work"))
        .expects("not told again before BC_FREEZE_NOTIFICATION_DONE")
        .by(|stage| {
            let frozen = prepared(stage)?;
            frozen.watch(5)?;
            frozen.told(5, false)?;
            frozen.freeze()?;
            frozen.manager.expect_nothing()?;
            frozen.done(5)?;
            frozen.told(5, true)
        }),
    case("freeze-notice.cleared", Libbinder("BpBinder::removeFrozenStateChangeCallback"))
        .expects("BR_CLEAR_FREEZE_NOTIFICATION_DONE, then nothing")
        .by(|stage| {
            let frozen = prepared(stage)?;
            frozen.watch(5)?;
            frozen.told(5, false)?;
            frozen.done(5)?;
            frozen.manager.send(Message::new().handle_cookie(
                BC_CLEAR_FREEZE_NOTIFICATION,
                frozen.handle,
                5,
            ))?;
            frozen.manager.expect(&[BR_CLEAR_FREEZE_NOTIFICATION_DONE])?;
            frozen.freeze()?;
            frozen.manager.expect_nothing()
        }),
];
