//! Handles: what they are good for, how long, and for whom.

use super::prelude::*;

fn held(stage: &Stage<'_>) -> Check<(Party, Party, u32)> {
    let (manager, client) = stage.pair()?;
    let handle = client.gives(0x1000, &manager)?;
    Ok((manager, client, handle))
}

pub(super) const CASES: &[Case] = &[
    case(
        "handle.called",
        Libbinder("BpBinder::transact"),
        "a call to it reaches its object's process",
        |stage| {
            let (manager, client, handle) = held(stage)?;
            manager.call(&Call::to(handle, 9))?;
            same("the code", client.receive()?.data.code, 9)
        },
    ),
    case("handle.of-process", Header("handle"), "is nothing in another process", |stage| {
        let (_manager, _client, handle) = held(stage)?;
        stage.client()?.fails(&Call::to(handle, 9), BR_FAILED_REPLY)
    }),
    case(
        "handle.passed-on",
        Libbinder("Parcel::writeStrongBinder"),
        "a third process can call it",
        |stage| {
            let (manager, client, handle) = held(stage)?;
            let other = stage.client()?;
            let own = other.takes(handle, &manager)?;
            other.call(&Call::to(own, 9))?;
            same("the code", client.receive()?.data.code, 9)
        },
    ),
    case(
        "handle.passed-on.twice",
        Libbinder("BpBinder identity"),
        "is the same handle both times",
        |stage| {
            let (manager, _client, handle) = held(stage)?;
            let other = stage.client()?;
            same("the second handle", other.takes(handle, &manager)?, other.takes(handle, &manager)?)
        },
    ),
    case(
        "handle.manager-passed-on",
        Driver("binder_get_ref_for_node_olocked"),
        "the manager's own node is handle 0 for everybody",
        |stage| {
            let (manager, client) = stage.pair()?;
            client.call(&Call::to(0, 2))?;
            manager.receive()?;
            manager.answer_with(Parcel::default().binder(0, 0))?;
            same("the handle", client.arrived_last(BR_REPLY)?.handle(0)?, 0)
        },
    ),
    case(
        "handle.dropped",
        Libbinder("IPCThreadState::decWeakHandle"),
        "is unknown after its last reference",
        |stage| {
            let (manager, client, handle) = held(stage)?;
            manager.send(Message::new().word(BC_RELEASE, handle).word(BC_DECREFS, handle))?;
            client.returns()?;
            manager.fails(&Call::to(handle, 9), BR_FAILED_REPLY)
        },
    ),
    case(
        "handle.buffer-only",
        Libbinder("Parcel::freeData"),
        "is unknown after the parcel that brought it",
        |stage| {
            let (manager, client) = stage.pair()?;
            client.call(&Call::to(0, 1).flags(TF_ONE_WAY).with(Parcel::default().binder(0x1000, 1)))?;
            let call = manager.receive()?;
            let handle = call.handle(0)?;
            manager.free(&call)?;
            manager.fails(&Call::to(handle, 9), BR_FAILED_REPLY)
        },
    ),
    case(
        "handle.in-buffer",
        Libbinder("Parcel::freeData"),
        "can be called while its parcel is there",
        |stage| {
            let (manager, client) = stage.pair()?;
            client.call(&Call::to(0, 1).flags(TF_ONE_WAY).with(Parcel::default().binder(0x1000, 1)))?;
            let call = manager.receive()?;
            manager.oneway(call.handle(0)?, 9)?;
            same("the code", client.arrived_last(BR_TRANSACTION)?.data.code, 9)
        },
    ),
    case(
        "handle.weak",
        Libbinder("IPCThreadState::attemptIncStrongHandle"),
        "a weak reference cannot be called",
        |stage| {
            let (manager, client, handle) = held(stage)?;
            manager.send(Message::new().word(BC_RELEASE, handle))?;
            client.returns()?;
            manager.fails(&Call::to(handle, 9), BR_FAILED_REPLY)
        },
    ),
    case("handle.weak.stays", Header("BC_INCREFS"), "a weak reference keeps its number", |stage| {
        let (manager, client, handle) = held(stage)?;
        manager.send(Message::new().word(BC_RELEASE, handle))?;
        let other = client.gives(0x2000, &manager)?;
        that(other != handle, "a number that is held was given to another object")
    }),
    case(
        "handle.weak.acquired",
        Driver("binder_inc_ref_olocked"),
        "a weak reference is not made strong while nobody else holds the object",
        |stage| {
            let (manager, client, handle) = held(stage)?;
            manager.send(Message::new().word(BC_RELEASE, handle))?;
            client.expect(&[BR_RELEASE])?;
            manager.send(Message::new().word(BC_ACQUIRE, handle))?;
            manager.fails(&Call::to(handle, 9), BR_FAILED_REPLY)
        },
    ),
    case(
        "handle.lowest",
        Driver("binder_get_ref_for_node_olocked"),
        "the lowest number that is free",
        |stage| {
            let (manager, client) = stage.pair()?;
            let handles = [0x1000, 0x2000, 0x3000].map(|address| client.gives(address, &manager));
            let [first, second, third] = handles;
            same("the numbers", [first?, second?, third?], [1, 2, 3])
        },
    ),
    case(
        "handle.used-again",
        Driver("binder_get_ref_for_node_olocked"),
        "a number that is free is given out again",
        |stage| {
            let (manager, client) = stage.pair()?;
            let first = client.gives(0x1000, &manager)?;
            client.gives(0x2000, &manager)?;
            manager.send(Message::new().word(BC_RELEASE, first).word(BC_DECREFS, first))?;
            client.returns()?;
            same("the number", client.gives(0x3000, &manager)?, first)
        },
    ),
    case(
        "handle.over-released",
        Driver("binder_dec_ref_olocked"),
        "is no error for the writer, and harms nobody",
        |stage| {
            let (manager, client, handle) = held(stage)?;
            let other = stage.client()?;
            let own = other.takes(handle, &manager)?;
            let message = (0..5).fold(Message::new(), |message, _| message.word(BC_RELEASE, handle));
            manager.send(message)?;
            other.call(&Call::to(own, 9))?;
            same("the code", client.arrived_last(BR_TRANSACTION)?.data.code, 9)
        },
    ),
    case(
        "handle.unknown.refs",
        Driver("binder_thread_write"),
        "counting an unknown handle is no error for the writer",
        |stage| {
            let (manager, client) = stage.pair()?;
            for command in [BC_INCREFS, BC_ACQUIRE, BC_RELEASE, BC_DECREFS] {
                client.send(Message::new().word(command, 77))?;
            }
            client.works_with(&manager)
        },
    ),
    case(
        "handle.zero.refs",
        Libbinder("ProcessState::getContextObject"),
        "handle 0 can be held without having been given",
        |stage| {
            let (manager, client) = stage.pair()?;
            client.send(Message::new().word(BC_INCREFS, 0).word(BC_ACQUIRE, 0))?;
            client.works_with(&manager)?;
            client.send(Message::new().word(BC_RELEASE, 0).word(BC_DECREFS, 0))?;
            client.works_with(&manager)
        },
    ),
    case("handle.owner-died", Libbinder("DEAD_OBJECT"), "a call to it is BR_DEAD_REPLY", |stage| {
        let (manager, client, handle) = held(stage)?;
        manager.send(Message::new().handle_cookie(BC_REQUEST_DEATH_NOTIFICATION, handle, 5))?;
        drop(client);
        manager.wait_for(&[BR_DEAD_BINDER])?;
        manager.fails(&Call::to(handle, 9), BR_DEAD_REPLY)
    }),
    case(
        "handle.owner-died.oneway",
        Libbinder("DEAD_OBJECT"),
        "a oneway call to it is BR_DEAD_REPLY",
        |stage| {
            let (manager, client, handle) = held(stage)?;
            manager.send(Message::new().handle_cookie(BC_REQUEST_DEATH_NOTIFICATION, handle, 5))?;
            drop(client);
            manager.wait_for(&[BR_DEAD_BINDER])?;
            manager.fails(&Call::to(handle, 9).flags(TF_ONE_WAY), BR_DEAD_REPLY)
        },
    ),
    case(
        "handle.owner-died.refs",
        Libbinder("BpBinder::onLastStrongRef"),
        "it can be dropped as any other",
        |stage| {
            let (manager, client, handle) = held(stage)?;
            manager.send(Message::new().handle_cookie(BC_REQUEST_DEATH_NOTIFICATION, handle, 5))?;
            drop(client);
            manager.wait_for(&[BR_DEAD_BINDER])?;
            manager.send(Message::new().word(BC_RELEASE, handle).word(BC_DECREFS, handle))?;
            manager.fails(&Call::to(handle, 9), BR_FAILED_REPLY)
        },
    ),
    case(
        "handle.owner-died.passed-on",
        Driver("binder_translate_handle"),
        "it can be passed on, and is dead there, too",
        |stage| {
            let (manager, client, handle) = held(stage)?;
            let other = stage.client()?;
            manager.send(Message::new().handle_cookie(BC_REQUEST_DEATH_NOTIFICATION, handle, 5))?;
            drop(client);
            manager.wait_for(&[BR_DEAD_BINDER])?;
            manager.send(Message::new().long(BC_DEAD_BINDER_DONE, 5))?;
            let own = other.takes(handle, &manager)?;
            other.fails(&Call::to(own, 9), BR_DEAD_REPLY)
        },
    ),
    case(
        "handle.thousands",
        Driver("binder_get_ref_for_node_olocked"),
        "two thousand handles, each its own",
        |stage| {
            let (manager, client) = stage.pair()?;
            let mut handles = std::collections::BTreeSet::new();
            for block in 0..4u64 {
                let parcel = (1..=500).fold(Parcel::default(), |parcel, number| {
                    let address = (block * 500 + number) * 16;
                    parcel.binder(address, address)
                });
                client.call(&Call::to(0, 1).flags(TF_ONE_WAY).with(parcel))?;
                let call = manager.receive()?;
                let mut keep = Message::new();
                for index in 0..500 {
                    let handle = call.handle(index)?;
                    handles.insert(handle);
                    keep = keep.word(BC_ACQUIRE, handle);
                }
                manager.send(keep)?;
                manager.free(&call)?;
            }
            same("different handles", handles.len(), 2000)
        },
    ),
];
