//! Notices of death: asked for, taken back, and what becomes of calls when a process dies.

use super::prelude::*;

fn request(party: &Party, handle: u32, cookie: u64) -> Check {
    party.send(Message::new().handle_cookie(BC_REQUEST_DEATH_NOTIFICATION, handle, cookie))
}

fn clear(party: &Party, handle: u32, cookie: u64) -> Check {
    party.send(Message::new().handle_cookie(BC_CLEAR_DEATH_NOTIFICATION, handle, cookie))
}

fn done(party: &Party, cookie: u64) -> Check {
    party.send(Message::new().long(BC_DEAD_BINDER_DONE, cookie))
}

pub(super) const CASES: &[Case] = &[
    case("death.notice", Libbinder("BpBinder::linkToDeath"))
        .expects("BR_DEAD_BINDER when the owner dies")
        .with_object(|manager, client, handle| {
            request(&manager, handle, 5)?;
            drop(client);
            manager.wait_for(&[BR_DEAD_BINDER]).map(drop)
        }),
    case("death.cookie", Libbinder("BpBinder::sendObituary"))
        .expects("with the cookie that was asked with")
        .with_object(|manager, client, handle| {
            request(&manager, handle, 0x1234_5678_9abc_def0)?;
            drop(client);
            same("the cookie", manager.wait_for(&[BR_DEAD_BINDER])?[0].long(0), 0x1234_5678_9abc_def0)
        }),
    case("death.not-yet", Libbinder("BpBinder::linkToDeath"))
        .expects("nothing while the owner lives")
        .with_object(|manager, client, handle| {
            request(&manager, handle, 5)?;
            manager.expect_nothing()?;
            client.works_with(&manager)
        }),
    case("death.once", Libbinder("BpBinder::sendObituary")).expects("told once").with_object(
        |manager, client, handle| {
            request(&manager, handle, 5)?;
            drop(client);
            manager.wait_for(&[BR_DEAD_BINDER])?;
            done(&manager, 5)?;
            manager.expect_nothing()
        },
    ),
    case("death.not-done", Driver("binder_thread_read"))
        .expects("not told again before BC_DEAD_BINDER_DONE")
        .with_object(|manager, client, handle| {
            request(&manager, handle, 5)?;
            drop(client);
            manager.wait_for(&[BR_DEAD_BINDER])?;
            manager.expect_nothing()
        }),
    case("death.asked-late", Libbinder("BpBinder::linkToDeath"))
        .expects("at once where the owner is dead already")
        .with_object(|manager, client, handle| {
            let second = client.gives(0x2000, &manager)?;
            request(&manager, handle, 5)?;
            drop(client);
            manager.wait_for(&[BR_DEAD_BINDER])?;
            request(&manager, second, 6)?;
            same("the cookie", manager.expect(&[BR_DEAD_BINDER])?[0].long(0), 6)
        }),
    case("death.several", Libbinder("BpBinder::linkToDeath"))
        .expects("each object of a process is told of")
        .with_object(|manager, client, first| {
            for (handle, cookie) in
                [(first, 1), (client.gives(0x2000, &manager)?, 2), (client.gives(0x3000, &manager)?, 3)]
            {
                request(&manager, handle, cookie)?;
            }
            drop(client);
            let mut cookies: Vec<u64> =
                manager.wait_for(&[BR_DEAD_BINDER; 3])?.iter().map(|one| one.long(0)).collect();
            cookies.sort_unstable();
            same("the cookies", cookies, vec![1, 2, 3])
        }),
    case("death.one-per-read", Driver("binder_thread_read"))
        .expects("a read ends with BR_DEAD_BINDER")
        .with_object(|manager, client, first| {
            let second = client.gives(0x2000, &manager)?;
            request(&manager, first, 1)?;
            drop(client);
            manager.wait_for(&[BR_DEAD_BINDER])?;
            done(&manager, 1)?;
            // Both are queued now: one that was asked for late, and one that is asked for again.
            clear(&manager, first, 1)?;
            request(&manager, second, 2)?;
            let dead = manager.read_once(ROOM)?.iter().filter(|one| one.number == BR_DEAD_BINDER).count();
            that(dead <= 1, "one read brought two notices")
        }),
    case("death.two-holders", Libbinder("BpBinder::linkToDeath"))
        .expects("each process that asked is told")
        .by(|stage| {
            let (manager, client, handle) = stage.holder()?;
            let other = stage.client()?;
            let own = other.takes(handle, &manager)?;
            request(&manager, handle, 5)?;
            request(&other, own, 6)?;
            drop(client);
            same("the manager's cookie", manager.wait_for(&[BR_DEAD_BINDER])?[0].long(0), 5)?;
            same("the other's cookie", other.wait_for(&[BR_DEAD_BINDER])?[0].long(0), 6)
        }),
    case("death.manager", Libbinder("servicemanager dies")).expects("of handle 0, too").with_pair(
        |manager, client| {
            client.send(Message::new().word(BC_INCREFS, 0).word(BC_ACQUIRE, 0))?;
            request(&client, 0, 5)?;
            drop(manager);
            client.wait_for(&[BR_DEAD_BINDER]).map(drop)
        },
    ),
    case("death.killed", Libbinder("BpBinder::linkToDeath")).expects("of a process that is killed").by(
        |stage| {
            let manager = stage.manager()?;
            let mut peer = stage.peer()?;
            let client = stage.client_of(&*peer, false)?;
            let handle = client.gives(0x1000, &manager)?;
            request(&manager, handle, 5)?;
            peer.kill();
            manager.wait_for(&[BR_DEAD_BINDER]).map(drop)
        },
    ),
    case("death.cleared", Libbinder("BpBinder::unlinkToDeath"))
        .expects("BR_CLEAR_DEATH_NOTIFICATION_DONE with the cookie")
        .with_object(|manager, _client, handle| {
            request(&manager, handle, 5)?;
            clear(&manager, handle, 5)?;
            same("the cookie", manager.expect(&[BR_CLEAR_DEATH_NOTIFICATION_DONE])?[0].long(0), 5)
        }),
    case("death.cleared.silent", Libbinder("BpBinder::unlinkToDeath"))
        .expects("no notice after it was taken back")
        .with_object(|manager, client, handle| {
            let witness = client.gives(0x2000, &manager)?;
            request(&manager, handle, 5)?;
            clear(&manager, handle, 5)?;
            manager.expect(&[BR_CLEAR_DEATH_NOTIFICATION_DONE])?;
            request(&manager, witness, 6)?;
            drop(client);
            same("the cookie", manager.wait_for(&[BR_DEAD_BINDER])?[0].long(0), 6)?;
            done(&manager, 6)?;
            manager.expect_nothing()
        }),
    case("death.cleared.again", Libbinder("BpBinder::linkToDeath"))
        .expects("can be asked for again")
        .with_object(|manager, client, handle| {
            request(&manager, handle, 5)?;
            clear(&manager, handle, 5)?;
            manager.expect(&[BR_CLEAR_DEATH_NOTIFICATION_DONE])?;
            request(&manager, handle, 7)?;
            drop(client);
            same("the cookie", manager.wait_for(&[BR_DEAD_BINDER])?[0].long(0), 7)
        }),
    case("death.cleared.after-done", Libbinder("BpBinder::unlinkToDeath"))
        .expects("after the notice was taken")
        .with_object(|manager, client, handle| {
            request(&manager, handle, 5)?;
            drop(client);
            manager.wait_for(&[BR_DEAD_BINDER])?;
            done(&manager, 5)?;
            clear(&manager, handle, 5)?;
            manager.expect(&[BR_CLEAR_DEATH_NOTIFICATION_DONE]).map(drop)
        }),
    case("death.cleared.before-done", Libbinder("BpBinder::sendObituary"))
        .expects("taken back between notice and its end: told when it is done")
        .with_object(|manager, client, handle| {
            request(&manager, handle, 5)?;
            drop(client);
            manager.wait_for(&[BR_DEAD_BINDER])?;
            clear(&manager, handle, 5)?;
            manager.expect_nothing()?;
            done(&manager, 5)?;
            manager.expect(&[BR_CLEAR_DEATH_NOTIFICATION_DONE]).map(drop)
        }),
    case("death.cleared.while-queued", Driver("binder_thread_write"))
        .expects("taken back after the death and before the notice was read")
        .with_object(|manager, client, handle| {
            let second = client.gives(0x2000, &manager)?;
            request(&manager, second, 9)?;
            drop(client);
            manager.wait_for(&[BR_DEAD_BINDER])?;
            // This one is queued at once, and cleared before it is read.
            request(&manager, handle, 5)?;
            clear(&manager, handle, 5)?;
            let found = manager.returns()?;
            if found.iter().any(|one| one.number == BR_DEAD_BINDER) {
                done(&manager, 5)?;
                manager.expect(&[BR_CLEAR_DEATH_NOTIFICATION_DONE])?;
            } else {
                same(
                    "the returns",
                    found.iter().map(|one| one.number).collect(),
                    vec![BR_CLEAR_DEATH_NOTIFICATION_DONE],
                )?;
            }
            manager.expect_nothing()
        }),
    case("death.cleared.other-cookie", Driver("binder_thread_write"))
        .expects("with another cookie is no error for the writer, and clears nothing")
        .with_object(|manager, client, handle| {
            request(&manager, handle, 5)?;
            clear(&manager, handle, 6)?;
            manager.expect_nothing()?;
            drop(client);
            manager.wait_for(&[BR_DEAD_BINDER]).map(drop)
        }),
    case("death.cleared.unasked", Driver("binder_thread_write"))
        .expects("is no error for the writer")
        .with_object(|manager, client, handle| {
            clear(&manager, handle, 5)?;
            manager.expect_nothing()?;
            client.works_with(&manager)
        }),
    case("death.twice", Driver("binder_thread_write")).expects("asked for twice is told once").with_object(
        |manager, client, handle| {
            request(&manager, handle, 5)?;
            request(&manager, handle, 6)?;
            drop(client);
            same("the cookie", manager.wait_for(&[BR_DEAD_BINDER])?[0].long(0), 5)?;
            done(&manager, 5)?;
            manager.expect_nothing()
        },
    ),
    case("death.unknown", Driver("binder_thread_write"))
        .expects("of an unknown handle is no error for the writer")
        .with_pair(|manager, client| {
            request(&client, 77, 5)?;
            clear(&client, 77, 5)?;
            client.works_with(&manager)
        }),
    case("death.done-unknown", Driver("binder_thread_write"))
        .expects("BC_DEAD_BINDER_DONE of nothing is no error for the writer")
        .with_pair(|manager, client| {
            done(&client, 5)?;
            client.works_with(&manager)
        }),
    case("death.reference-dropped", Libbinder("BpBinder::onLastStrongRef"))
        .expects("no notice after the reference went")
        .with_object(|manager, client, handle| {
            let witness = client.gives(0x2000, &manager)?;
            request(&manager, handle, 5)?;
            manager.send(Message::new().word(BC_RELEASE, handle).word(BC_DECREFS, handle))?;
            request(&manager, witness, 6)?;
            drop(client);
            same("the cookie", manager.wait_for(&[BR_DEAD_BINDER])?[0].long(0), 6)?;
            done(&manager, 6)?;
            manager.expect_nothing()
        }),
    case("death.to-the-pool", Driver("binder_release"))
        .expects("a thread that waits for a reply is not given the notice")
        .by(|stage| {
            let (manager, client, handle) = stage.holder()?;
            let other = stage.client()?;
            let own = other.takes(handle, &manager)?;
            let watch = stage.client()?;
            let watched = watch.takes(handle, &manager)?;
            request(&other, own, 5)?;
            request(&watch, watched, 6)?;
            other.call(&Call::to(0, 1))?;
            drop(client);
            watch.wait_for(&[BR_DEAD_BINDER])?;
            other.expect_nothing()
        }),
    case("death.serving", Libbinder("DEAD_OBJECT"))
        .expects("a caller whose server dies gets BR_DEAD_REPLY")
        .with_call(|manager, client, _| {
            drop(manager);
            client.wait_for(&[BR_TRANSACTION_COMPLETE, BR_DEAD_REPLY]).map(drop)
        }),
    case("death.undelivered", Libbinder("DEAD_OBJECT"))
        .expects("a caller whose call was not read yet gets BR_DEAD_REPLY")
        .with_pair(|manager, client| {
            client.call(&Call::to(0, 1))?;
            drop(manager);
            client.wait_for(&[BR_TRANSACTION_COMPLETE, BR_DEAD_REPLY]).map(drop)
        }),
    case("death.oneway-undelivered", Libbinder("oneway")).expects("a oneway caller is told nothing more").by(
        |stage| {
            let (manager, client) = stage.pair()?;
            client.oneway(0, 1)?;
            client.expect(&[BR_TRANSACTION_COMPLETE])?;
            drop(manager);
            let manager = stage.manager()?;
            client.expect_nothing()?;
            manager.expect_nothing()
        },
    ),
    case("death.of-caller", Libbinder("a client that is killed"))
        .expects("a server's reply to a dead caller is completed")
        .by(|stage| {
            let (manager, client) = stage.pair()?;
            client.call(&Call::to(0, 1))?;
            let call = manager.receive()?;
            drop(client);
            manager.answer()?;
            let found: Vec<u32> = manager.returns()?.iter().map(|one| one.number).collect();
            that(
                found == [BR_TRANSACTION_COMPLETE] || found == [BR_DEAD_REPLY],
                format_args!("read {}", crate::returns::names_of(&found)),
            )?;
            manager.free(&call)?;
            stage.client()?.works_with(&manager)
        }),
    case("death.of-caller-undelivered", Libbinder("a client that is killed"))
        .expects("its call can be read and answered, or is gone")
        .by(|stage| {
            let (manager, client) = stage.pair()?;
            client.call(&Call::to(0, 1))?;
            drop(client);
            let found = manager.returns()?;
            if let Some(call) = found.iter().find(|one| one.number == BR_TRANSACTION) {
                manager.free(&manager.open_parcel(call)?)?;
                manager.answer()?;
                manager.returns()?;
            }
            stage.client()?.works_with(&manager)
        }),
    case("death.nested", Libbinder("DEAD_OBJECT"))
        .expects("the middle one dies: its caller is told when the innermost call has ended")
        .by(|stage| {
            let (manager, client) = stage.pair()?;
            let inner = stage.client()?;
            let handle = inner.gives(0x1000, &manager)?;
            client.call(&Call::to(0, 1))?;
            manager.receive()?;
            manager.call(&Call::to(handle, 2))?;
            inner.receive()?;
            drop(manager);
            // The driver lets go of the dead in its own time; that there can be a new manager says that it did.
            let manager = stage.manager()?;
            inner.answer()?;
            inner.returns()?;
            client.wait_for(&[BR_TRANSACTION_COMPLETE, BR_DEAD_REPLY])?;
            inner.works_with(&manager)
        }),
];
