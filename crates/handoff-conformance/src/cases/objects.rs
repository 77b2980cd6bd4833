//! Objects in parcels, and the references that their owner is told of.

use super::prelude::*;

/// An object in a oneway call: gives the call, with what its owner is told.
fn sent(stage: &Stage<'_>, parcel: Parcel) -> Check<(Party, Party, Received)> {
    let (manager, client) = stage.pair()?;
    client.call(&Call::to(0, 1).flags(TF_ONE_WAY).with(parcel))?;
    let call = manager.receive()?;
    Ok((manager, client, call))
}

fn done(client: &Party) -> Check {
    client.send(Message::new().pair(BC_INCREFS_DONE, 0x1000, 0x1001).pair(BC_ACQUIRE_DONE, 0x1000, 0x1001))
}

fn drops(manager: &Party, handle: u32) -> Check {
    manager.send(Message::new().word(BC_RELEASE, handle).word(BC_DECREFS, handle))
}

pub(super) const CASES: &[Case] = &[
    case("object.becomes-handle", Libbinder("unflattenBinder"))
        .expects("BINDER_TYPE_BINDER arrives as BINDER_TYPE_HANDLE")
        .by(|stage| {
            let (_manager, _client, call) = sent(stage, Parcel::default().binder(0x1000, 0x1001))?;
            same("the type", call.object(0)?.kind, TYPE_HANDLE)
        }),
    case("object.handle-not-0", Libbinder("handle 0 is the manager")).expects("a handle other than 0").by(
        |stage| {
            let (_manager, _client, call) = sent(stage, Parcel::default().binder(0x1000, 0x1001))?;
            that(call.handle(0)? != 0, "an object became handle 0")
        },
    ),
    case("object.says-nothing", Driver("binder_translate_binder"))
        .expects("the receiver does not learn address and cookie")
        .by(|stage| {
            let (_manager, _client, call) = sent(stage, Parcel::default().binder(0x1000_2000, 0x3000_4000))?;
            let object = call.object(0)?;
            same("cookie and the handle's upper half", (object.cookie, object.value >> 32), (0, 0))
        }),
    case("object.offsets-arrive", Header("binder_transaction_data"))
        .expects("the table of objects arrives as it was sent")
        .by(|stage| {
            let parcel = Parcel::bytes(&[0; 12]).binder(0x1000, 1).and_bytes(&[0; 4]).binder(0x2000, 2);
            let (_manager, _client, call) = sent(stage, parcel)?;
            same("the table", call.offsets.clone(), vec![12, 40])
        }),
    case("object.data-between", Header("binder_transaction_data"))
        .expects("bytes between objects are not touched")
        .by(|stage| {
            let parcel = Parcel::bytes(b"before..").binder(0x1000, 1).and_bytes(b"after...");
            let (_manager, _client, call) = sent(stage, parcel)?;
            that(
                call.bytes.starts_with(b"before..") && call.bytes.ends_with(b"after..."),
                "bytes were changed",
            )
        }),
    case("object.twice", Libbinder("BpBinder identity"))
        .expects("an object that is sent twice has one handle")
        .by(|stage| {
            let parcel = Parcel::default().binder(0x1000, 1).binder(0x1000, 1);
            let (_manager, _client, call) = sent(stage, parcel)?;
            same("the second handle", call.handle(1)?, call.handle(0)?)
        }),
    case("object.two", Libbinder("BpBinder identity")).expects("two objects have two handles").by(|stage| {
        let parcel = Parcel::default().binder(0x1000, 1).binder(0x2000, 2);
        let (_manager, _client, call) = sent(stage, parcel)?;
        that(call.handle(0)? != call.handle(1)?, "two objects have one handle")
    }),
    case("object.of-two-processes", Libbinder("BpBinder identity"))
        .expects("the same address of two processes is two objects")
        .by(|stage| {
            let (manager, first, handle) = stage.holder()?;
            let second = stage.client()?;
            let other = second.gives(0x1000, &manager)?;
            that(other != handle, "two processes' objects have one handle")?;
            first.works_with(&manager)
        }),
    case("object.comes-home", Libbinder("unflattenBinder"))
        .expects("a handle of the receiver's own object arrives as BINDER_TYPE_BINDER")
        .with_object(|manager, client, handle| {
            client.call(&Call::to(0, 2))?;
            manager.receive()?;
            manager.answer_with(Parcel::default().handle(handle))?;
            let object = client.receive_reply()?.object(0)?;
            same(
                "type, address and cookie",
                (object.kind, object.value, object.cookie),
                (TYPE_BINDER, 0x1000, 0x1001),
            )
        }),
    case("object.weak", Header("BINDER_TYPE_WEAK_BINDER")).expects("arrives as BINDER_TYPE_WEAK_HANDLE").by(
        |stage| {
            let (_manager, _client, call) = sent(stage, Parcel::default().weak_binder(0x1000, 0x1001))?;
            same("the type", call.object(0)?.kind, TYPE_WEAK_HANDLE)
        },
    ),
    case("object.weak.comes-home", Header("BINDER_TYPE_WEAK_HANDLE"))
        .expects("arrives at its owner as BINDER_TYPE_WEAK_BINDER")
        .with_object(|manager, client, handle| {
            client.call(&Call::to(0, 2))?;
            manager.receive()?;
            manager.answer_with(Parcel::default().weak_handle(handle))?;
            let object = client.receive_reply()?.object(0)?;
            same(
                "type, address and cookie",
                (object.kind, object.value, object.cookie),
                (TYPE_WEAK_BINDER, 0x1000, 0x1001),
            )
        }),
    case("object.many", Driver("binder_get_node")).expects("500 objects in one parcel").by(|stage| {
        let parcel = (1..=500).fold(Parcel::default(), |parcel, number| parcel.binder(number * 16, number));
        let (_manager, _client, call) = sent(stage, parcel)?;
        let mut handles = (0..500).map(|index| call.handle(index)).collect::<Check<Vec<u32>>>()?;
        handles.sort_unstable();
        handles.dedup();
        same("different handles", handles.len(), 500)
    }),
    case("refs.first", Libbinder("IPCThreadState::executeCommand"))
        .expects("BR_INCREFS, then BR_ACQUIRE for an object that is sent first")
        .by(|stage| {
            let (_manager, client, _call) = sent(stage, Parcel::default().binder(0x1000, 0x1001))?;
            let numbers: Vec<u32> = client.returns()?.iter().map(|one| one.number).collect();
            let refs: Vec<u32> =
                numbers.into_iter().filter(|number| *number != BR_TRANSACTION_COMPLETE).collect();
            same("the returns", refs, vec![BR_INCREFS, BR_ACQUIRE])
        }),
    case("refs.first.who", Libbinder("IPCThreadState::executeCommand"))
        .expects("with the object's address and cookie")
        .by(|stage| {
            let (_manager, client, _call) = sent(stage, Parcel::default().binder(0x1000, 0x1001))?;
            for one in client.returns()?.iter().filter(|one| one.number != BR_TRANSACTION_COMPLETE) {
                same("address and cookie", (one.long(0), one.long(1)), (0x1000, 0x1001))?;
            }
            Ok(())
        }),
    case("refs.before-completion", Libbinder("a sender keeps its object until the call is over"))
        .expects("told before the completion")
        .by(|stage| {
            let (_manager, client, _call) = sent(stage, Parcel::default().binder(0x1000, 0x1001))?;
            client.expect(&[BR_INCREFS, BR_ACQUIRE, BR_TRANSACTION_COMPLETE]).map(drop)
        }),
    case("refs.before-reply", Libbinder("a sender keeps its object until the call is over"))
        .expects("told before the reply")
        .with_pair(|manager, client| {
            client.call(&Call::to(0, 1).with(Parcel::default().binder(0x1000, 1)))?;
            manager.receive()?;
            manager.answer()?;
            client.expect(&[BR_INCREFS, BR_ACQUIRE, BR_TRANSACTION_COMPLETE, BR_REPLY]).map(drop)
        }),
    case("refs.once", Libbinder("IPCThreadState::executeCommand"))
        .expects("not told again for a second receiver")
        .with_object(|manager, client, _handle| {
            client.call(&Call::to(0, 1).flags(TF_ONE_WAY).with(Parcel::default().binder(0x1000, 0x1001)))?;
            client.expect(&[BR_TRANSACTION_COMPLETE])?;
            manager.receive().map(drop)
        }),
    case("refs.weak", Header("BINDER_TYPE_WEAK_BINDER")).expects("a weak object is BR_INCREFS alone").by(
        |stage| {
            let (_manager, client, _call) = sent(stage, Parcel::default().weak_binder(0x1000, 0x1001))?;
            let found = client.returns()?;
            let strong = found.iter().any(|one| one.number == BR_ACQUIRE);
            that(!strong, "a weak reference acquired the object")
        },
    ),
    case("refs.dropped", Libbinder("IPCThreadState::executeCommand"))
        .expects("BR_RELEASE, then BR_DECREFS when the last reference goes")
        .with_object(|manager, client, handle| {
            drops(&manager, handle)?;
            client.expect(&[BR_RELEASE, BR_DECREFS]).map(drop)
        }),
    case("refs.dropped.who", Libbinder("IPCThreadState::executeCommand"))
        .expects("with the object's address and cookie")
        .with_object(|manager, client, handle| {
            drops(&manager, handle)?;
            for one in client.returns()? {
                same("address and cookie", (one.long(0), one.long(1)), (0x1000, 0x1001))?;
            }
            Ok(())
        }),
    case("refs.strong-dropped", Libbinder("BpBinder::onLastStrongRef"))
        .expects("BR_RELEASE alone while a weak reference stays")
        .with_object(|manager, client, handle| {
            manager.send(Message::new().word(BC_RELEASE, handle))?;
            client.expect(&[BR_RELEASE])?;
            manager.send(Message::new().word(BC_DECREFS, handle))?;
            client.expect(&[BR_DECREFS]).map(drop)
        }),
    case("refs.counted", Header("BC_ACQUIRE")).expects("as many releases as acquires").with_object(
        |manager, client, handle| {
            manager.send(Message::new().word(BC_ACQUIRE, handle).word(BC_ACQUIRE, handle))?;
            drops(&manager, handle)?;
            client.expect_nothing()?;
            manager.send(Message::new().word(BC_RELEASE, handle))?;
            client.expect_nothing()?;
            manager.send(Message::new().word(BC_RELEASE, handle))?;
            client.expect(&[BR_RELEASE, BR_DECREFS]).map(drop)
        },
    ),
    case("refs.two-holders", Libbinder("BBinder")).expects("an object stays while anybody holds it").by(
        |stage| {
            let (manager, client, handle) = stage.holder()?;
            let other = stage.client()?;
            let own = other.takes(handle, &manager)?;
            drops(&manager, handle)?;
            client.expect_nothing()?;
            drops(&other, own)?;
            client.expect(&[BR_RELEASE, BR_DECREFS]).map(drop)
        },
    ),
    case("refs.buffer-holds", Libbinder("Parcel::freeData"))
        .expects("a parcel holds its objects until it is given back")
        .by(|stage| {
            let (manager, client, call) = sent(stage, Parcel::default().binder(0x1000, 0x1001))?;
            client.returns()?;
            done(&client)?;
            client.expect_nothing()?;
            manager.free(&call)?;
            client.expect(&[BR_RELEASE, BR_DECREFS]).map(drop)
        }),
    case("refs.not-before-done", Libbinder("BC_ACQUIRE_DONE"))
        .expects("BR_RELEASE does not come before BC_ACQUIRE_DONE")
        .by(|stage| {
            let (manager, client, call) = sent(stage, Parcel::default().binder(0x1000, 0x1001))?;
            client.returns()?;
            manager.free(&call)?;
            client.expect_nothing()?;
            done(&client)?;
            client.expect(&[BR_RELEASE, BR_DECREFS]).map(drop)
        }),
    case("refs.never-seen", Driver("binder_free_node"))
        .expects("an object that went before its owner read is not told of at all")
        .by(|stage| {
            let (manager, client, call) = sent(stage, Parcel::default().binder(0x1000, 0x1001))?;
            manager.free(&call)?;
            let numbers: Vec<u32> = client.returns()?.iter().map(|one| one.number).collect();
            let (up, down) = (numbers.contains(&BR_ACQUIRE), numbers.contains(&BR_RELEASE));
            that(up || !down, "BR_RELEASE without BR_ACQUIRE")
        }),
    case("refs.done-unasked", Driver("binder_thread_write"))
        .expects("is no error for the writer")
        .with_object(|manager, client, _handle| {
            done(&client)?;
            client.works_with(&manager)
        }),
    case("refs.done-unknown", Driver("binder_thread_write"))
        .expects("of no object is no error for the writer")
        .with_pair(|manager, client| {
            client.send(Message::new().pair(BC_ACQUIRE_DONE, 0x9999, 1).pair(BC_INCREFS_DONE, 0x9999, 1))?;
            client.works_with(&manager)
        }),
    case("refs.done-cookie", Driver("binder_thread_write")).expects("with another cookie does not count").by(
        |stage| {
            let (manager, client, call) = sent(stage, Parcel::default().binder(0x1000, 0x1001))?;
            client.returns()?;
            client.send(Message::new().pair(BC_INCREFS_DONE, 0x1000, 5).pair(BC_ACQUIRE_DONE, 0x1000, 5))?;
            manager.free(&call)?;
            client.expect_nothing()?;
            done(&client)?;
            client.expect(&[BR_RELEASE, BR_DECREFS]).map(drop)
        },
    ),
    case("refs.done-twice", Driver("binder_thread_write"))
        .expects("BC_INCREFS_DONE twice does not stand for BC_ACQUIRE_DONE")
        .by(|stage| {
            let (manager, client, call) = sent(stage, Parcel::default().binder(0x1000, 0x1001))?;
            client.returns()?;
            client.send(Message::new().pair(BC_INCREFS_DONE, 0x1000, 0x1001).pair(
                BC_INCREFS_DONE,
                0x1000,
                0x1001,
            ))?;
            manager.free(&call)?;
            client.expect_nothing()?;
            client.send(Message::new().pair(BC_ACQUIRE_DONE, 0x1000, 0x1001))?;
            client.expect(&[BR_RELEASE, BR_DECREFS]).map(drop)
        }),
    case("refs.holder-dies", Libbinder("BBinder"))
        .expects("references of a process that dies are dropped")
        .by(|stage| {
            let (manager, client, handle) = stage.holder()?;
            let other = stage.client()?;
            other.takes(handle, &manager)?;
            drops(&manager, handle)?;
            drop(other);
            client.wait_for(&[BR_RELEASE, BR_DECREFS]).map(drop)
        }),
    case("refs.sent-again", Libbinder("IPCThreadState::executeCommand"))
        .expects("told anew after it was let go")
        .with_object(|manager, client, handle| {
            drops(&manager, handle)?;
            client.expect(&[BR_RELEASE, BR_DECREFS])?;
            client.call(&Call::to(0, 1).flags(TF_ONE_WAY).with(Parcel::default().binder(0x1000, 0x1001)))?;
            client.expect(&[BR_INCREFS, BR_ACQUIRE, BR_TRANSACTION_COMPLETE]).map(drop)
        }),
];
