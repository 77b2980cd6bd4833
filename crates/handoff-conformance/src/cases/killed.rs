//! A process is killed at each step of a conversation, and the others go on.

use std::time::Duration;

use super::prelude::*;

/// A manager and a process that is killed after `step`; a further client works with the manager before and after.
fn killed(stage: &Stage<'_>, step: fn(&Party, &Party) -> Check) -> Check {
    let (manager, witness) = stage.pair()?;
    let mut peer = stage.peer()?;
    let victim = stage.client_of(&*peer, false)?;
    let handle = victim.gives(0x1000, &manager)?;
    manager.send(Message::new().handle_cookie(BC_REQUEST_DEATH_NOTIFICATION, handle, 5))?;
    step(&victim, &manager)?;
    peer.kill();
    // Whatever was left of the conversation ends, and its death is told once.
    let mut deaths = 0;
    for _ in 0..5000 {
        for one in manager.returns()? {
            match one.number {
                BR_DEAD_BINDER => deaths += 1,
                BR_TRANSACTION => manager.free(&manager.open_parcel(&one)?)?,
                _ => {}
            }
        }
        if deaths > 0 {
            break;
        }
        // One that serves is not given notices before it has replied.
        manager.answer()?;
        std::thread::sleep(Duration::from_millis(2));
    }
    same("notices of its death", deaths, 1)?;
    manager.send(Message::new().long(BC_DEAD_BINDER_DONE, 5))?;
    manager.returns()?;
    witness.works_with(&manager)
}

pub(super) const CASES: &[Case] = &[
    case("killed.idle", Libbinder("a client that is killed"))
        .expects("after it gave an object away")
        .by(|stage| killed(stage, |_, _| Ok(()))),
    case("killed.call-queued", Libbinder("a client that is killed"))
        .expects("with a call that was not read")
        .by(|stage| killed(stage, |victim, _| victim.call(&Call::to(0, 1)))),
    case("killed.call-served", Libbinder("a client that is killed")).expects("while its call is served").by(
        |stage| {
            killed(stage, |victim, manager| {
                victim.call(&Call::to(0, 1))?;
                manager.receive().map(drop)
            })
        },
    ),
    case("killed.reply-queued", Libbinder("a client that is killed"))
        .expects("with a reply that it did not read")
        .by(|stage| {
            killed(stage, |victim, manager| {
                victim.call(&Call::to(0, 1))?;
                manager.receive()?;
                manager.answer_with(Parcel::bytes(&[1; 5000]).binder(0x7000, 7))?;
                manager.returns().map(drop)
            })
        }),
    case("killed.reply-kept", Libbinder("a client that is killed"))
        .expects("with a reply that it did not give back")
        .by(|stage| {
            killed(stage, |victim, manager| {
                victim.call(&Call::to(0, 1))?;
                manager.receive()?;
                manager.answer()?;
                manager.returns()?;
                victim.receive_reply().map(drop)
            })
        }),
    case("killed.oneway-queued", Libbinder("a client that is killed"))
        .expects("with oneway calls that were not read")
        .by(|stage| killed(stage, |victim, _| (0..20).try_for_each(|code| victim.oneway(0, code)))),
    case("killed.oneway-waiting", Libbinder("a service that is killed"))
        .expects("with oneway calls that wait for it")
        .by(|stage| {
            killed(stage, |victim, manager| {
                let handle = victim.gives(0x3000, manager)?;
                (0..20).try_for_each(|code| manager.oneway(handle, code))?;
                manager.returns().map(drop)
            })
        }),
    case("killed.call-waiting", Libbinder("a service that is killed"))
        .expects("with a call that it did not read")
        .by(|stage| {
            killed(stage, |victim, manager| {
                let handle = victim.gives(0x3000, manager)?;
                manager.call(&Call::to(handle, 1))
            })
        }),
    case("killed.serving", Libbinder("a service that is killed")).expects("while it serves").by(|stage| {
        killed(stage, |victim, manager| {
            let handle = victim.gives(0x3000, manager)?;
            manager.call(&Call::to(handle, 1))?;
            victim.receive().map(drop)
        })
    }),
    case("killed.holding", Libbinder("a client that is killed"))
        .expects("with references to others' objects")
        .by(|stage| {
            killed(stage, |victim, manager| {
                let handle = victim.gives(0x3000, manager)?;
                victim.takes(handle, manager).or(Ok(0))?;
                victim.send(Message::new().word(BC_ACQUIRE, 0).word(BC_INCREFS, 0))
            })
        }),
    case("killed.watching", Libbinder("a client that is killed"))
        .expects("with notices that it asked for")
        .by(|stage| {
            killed(stage, |victim, _| {
                victim.send(Message::new().word(BC_INCREFS, 0).handle_cookie(
                    BC_REQUEST_DEATH_NOTIFICATION,
                    0,
                    9,
                ))
            })
        }),
    case("killed.refs-undone", Libbinder("a client that is killed"))
        .expects("before it said BC_ACQUIRE_DONE")
        .by(|stage| {
            killed(stage, |victim, _| {
                victim.call(&Call::to(0, 1).flags(TF_ONE_WAY).with(Parcel::default().binder(0x4000, 4)))?;
                victim.returns().map(drop)
            })
        }),
    case("killed.file-sent", Libbinder("a client that is killed"))
        .expects("with a descriptor on its way")
        .by(|stage| {
            killed(stage, |victim, _| {
                let Some(fd) = victim.process.open_file() else { return not_here("no file can be made") };
                victim.call(&Call::to(0, 1).flags(TF_ONE_WAY).with(Parcel::default().fd(fd)))
            })
        }),
    case("killed.unmapped", Libbinder("a client that is killed")).expects("after it unmapped its buffer").by(
        |stage| {
            killed(stage, |victim, _| {
                victim.process.unmap();
                Ok(())
            })
        },
    ),
    case("killed.failed", Libbinder("a client that is killed"))
        .expects("with an error that it did not read")
        .by(|stage| killed(stage, |victim, _| victim.send(Message::new().call(&Call::to(99, 1))))),
    case("killed.manager", Libbinder("servicemanager is killed"))
        .expects("the manager: its callers are told, and the next one is taken")
        .by(|stage| {
            let mut peer = stage.peer()?;
            let victim = stage.client_of(&*peer, false)?;
            victim.become_manager(MANAGER_FLAGS)?;
            let client = stage.client()?;
            client.call(&Call::to(0, 1))?;
            peer.kill();
            client.wait_for(&[BR_TRANSACTION_COMPLETE, BR_DEAD_REPLY])?;
            let manager = stage.manager()?;
            client.works_with(&manager)
        }),
    case("killed.blocked", Libbinder("a service that is killed")).expects("while it waits in a read").by(
        |stage| {
            let (manager, witness) = stage.pair()?;
            let mut peer = stage.peer()?;
            let victim = stage.client_of(&*peer, true)?;
            victim.process.start_exchange(&Message::new(), ROOM);
            peer.kill();
            witness.works_with(&manager)
        },
    ),
    case("killed.again", Libbinder("a client that is killed")).expects("ten times").by(|stage| {
        for _ in 0..10 {
            killed(stage, |victim, _| victim.call(&Call::to(0, 1)))?;
        }
        Ok(())
    }),
];
