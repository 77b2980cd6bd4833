//! Handles: what they are good for, how long, and for whom.

use super::prelude::*;

pub(super) const CASES: &[Case] = &[
    case("handle.called", Libbinder("BpBinder::transact"))
        .expects("a call to it reaches its object's process")
        .with_object(|manager, client, handle| {
            manager.call(&Call::to(handle, 9))?;
            same("the code", client.receive()?.data.code, 9)
        }),
    case("handle.of-process", Header("handle")).expects("is nothing in another process").by(|stage| {
        let (_manager, _client, handle) = stage.holder()?;
        stage.client()?.fails(&Call::to(handle, 9), BR_FAILED_REPLY)
    }),
    case("handle.passed-on", Libbinder("Parcel::writeStrongBinder"))
        .expects("a third process can call it")
        .by(|stage| {
            let (manager, client, handle) = stage.holder()?;
            let other = stage.client()?;
            let own = other.takes(handle, &manager)?;
            other.call(&Call::to(own, 9))?;
            same("the code", client.receive()?.data.code, 9)
        }),
    case("handle.passed-on.twice", Libbinder("BpBinder identity"))
        .expects("is the same handle both times")
        .by(|stage| {
            let (manager, _client, handle) = stage.holder()?;
            let other = stage.client()?;
            same("the second handle", other.takes(handle, &manager)?, other.takes(handle, &manager)?)
        }),
    case("handle.manager-passed-on", Driver("binder_get_ref_for_node_olocked"))
        .expects("the manager's own node is handle 0 for everybody")
        .with_pair(|manager, client| {
            client.call(&Call::to(0, 2))?;
            manager.receive()?;
            manager.answer_with(Parcel::default().binder(0, 0))?;
            same("the handle", client.arrived_last(BR_REPLY)?.handle(0)?, 0)
        }),
    case("handle.dropped", Libbinder("IPCThreadState::decWeakHandle"))
        .expects("is unknown after its last reference")
        .with_object(|manager, client, handle| {
            manager.send(Message::new().word(BC_RELEASE, handle).word(BC_DECREFS, handle))?;
            client.returns()?;
            manager.fails(&Call::to(handle, 9), BR_FAILED_REPLY)
        }),
    case("handle.buffer-only", Libbinder("Parcel::freeData"))
        .expects("is unknown after the parcel that brought it")
        .with_pair(|manager, client| {
            client.call(&Call::to(0, 1).flags(TF_ONE_WAY).with(Parcel::default().binder(0x1000, 1)))?;
            let call = manager.receive()?;
            let handle = call.handle(0)?;
            manager.free(&call)?;
            manager.fails(&Call::to(handle, 9), BR_FAILED_REPLY)
        }),
    case("handle.in-buffer", Libbinder("Parcel::freeData"))
        .expects("can be called while its parcel is there")
        .with_pair(|manager, client| {
            client.call(&Call::to(0, 1).flags(TF_ONE_WAY).with(Parcel::default().binder(0x1000, 1)))?;
            let call = manager.receive()?;
            manager.oneway(call.handle(0)?, 9)?;
            same("the code", client.arrived_last(BR_TRANSACTION)?.data.code, 9)
        }),
    case("handle.weak", Libbinder("IPCThreadState::attemptIncStrongHandle"))
        .expects("a weak reference cannot be called")
        .with_object(|manager, client, handle| {
            manager.send(Message::new().word(BC_RELEASE, handle))?;
            client.returns()?;
            manager.fails(&Call::to(handle, 9), BR_FAILED_REPLY)
        }),
    case("handle.weak.stays", Header("BC_INCREFS")).expects("a weak reference keeps its number").with_object(
        |manager, client, handle| {
            manager.send(Message::new().word(BC_RELEASE, handle))?;
            let other = client.gives(0x2000, &manager)?;
            that(other != handle, "a number that is held was given to another object")
        },
    ),
    case("handle.weak.acquired", Driver("binder_inc_ref_olocked"))
        .expects("a weak reference is not made strong while nobody else holds the object")
        .with_object(|manager, client, handle| {
            manager.send(Message::new().word(BC_RELEASE, handle))?;
            client.expect(&[BR_RELEASE])?;
            manager.send(Message::new().word(BC_ACQUIRE, handle))?;
            manager.fails(&Call::to(handle, 9), BR_FAILED_REPLY)
        }),
    case("handle.lowest", Driver("binder_get_ref_for_node_olocked"))
        .expects("the lowest number that is free")
        .with_pair(|manager, client| {
            let handles = [0x1000, 0x2000, 0x3000].map(|address| client.gives(address, &manager));
            let [first, second, third] = handles;
            same("the numbers", [first?, second?, third?], [1, 2, 3])
        }),
    case("handle.used-again", Driver("binder_get_ref_for_node_olocked"))
        .expects("a number that is free is given out again")
        .with_pair(|manager, client| {
            let first = client.gives(0x1000, &manager)?;
            client.gives(0x2000, &manager)?;
            manager.send(Message::new().word(BC_RELEASE, first).word(BC_DECREFS, first))?;
            client.returns()?;
            same("the number", client.gives(0x3000, &manager)?, first)
        }),
    case("handle.over-released", Driver("binder_dec_ref_olocked"))
        .expects("is no error for the writer, and harms nobody")
        .by(|stage| {
            let (manager, client, handle) = stage.holder()?;
            let other = stage.client()?;
            let own = other.takes(handle, &manager)?;
            let message = (0..5).fold(Message::new(), |message, _| message.word(BC_RELEASE, handle));
            manager.send(message)?;
            other.call(&Call::to(own, 9))?;
            same("the code", client.arrived_last(BR_TRANSACTION)?.data.code, 9)
        }),
    case("handle.unknown.refs", Driver("binder_thread_write"))
        .expects("counting an unknown handle is no error for the writer")
        .with_pair(|manager, client| {
            for command in [BC_INCREFS, BC_ACQUIRE, BC_RELEASE, BC_DECREFS] {
                client.send(Message::new().word(command, 77))?;
            }
            client.works_with(&manager)
        }),
    case("handle.zero.refs", Libbinder("ProcessState::getContextObject"))
        .expects("handle 0 can be held without having been given")
        .with_pair(|manager, client| {
            client.send(Message::new().word(BC_INCREFS, 0).word(BC_ACQUIRE, 0))?;
            client.works_with(&manager)?;
            client.send(Message::new().word(BC_RELEASE, 0).word(BC_DECREFS, 0))?;
            client.works_with(&manager)
        }),
    case("handle.owner-died", Libbinder("DEAD_OBJECT")).expects("a call to it is BR_DEAD_REPLY").with_object(
        |manager, client, handle| {
            manager.send(Message::new().handle_cookie(BC_REQUEST_DEATH_NOTIFICATION, handle, 5))?;
            drop(client);
            manager.wait_for(&[BR_DEAD_BINDER])?;
            manager.fails(&Call::to(handle, 9), BR_DEAD_REPLY)
        },
    ),
    case("handle.owner-died.oneway", Libbinder("DEAD_OBJECT"))
        .expects("a oneway call to it is BR_DEAD_REPLY")
        .with_object(|manager, client, handle| {
            manager.send(Message::new().handle_cookie(BC_REQUEST_DEATH_NOTIFICATION, handle, 5))?;
            drop(client);
            manager.wait_for(&[BR_DEAD_BINDER])?;
            manager.fails(&Call::to(handle, 9).flags(TF_ONE_WAY), BR_DEAD_REPLY)
        }),
    case("handle.owner-died.refs", Libbinder("BpBinder::onLastStrongRef"))
        .expects("it can be dropped as any other")
        .with_object(|manager, client, handle| {
            manager.send(Message::new().handle_cookie(BC_REQUEST_DEATH_NOTIFICATION, handle, 5))?;
            drop(client);
            manager.wait_for(&[BR_DEAD_BINDER])?;
            manager.send(Message::new().word(BC_RELEASE, handle).word(BC_DECREFS, handle))?;
            manager.fails(&Call::to(handle, 9), BR_FAILED_REPLY)
        }),
    case("handle.owner-died.passed-on", Driver("binder_translate_handle"))
        .expects("it can be passed on, and is dead there, too")
        .by(|stage| {
            let (manager, client, handle) = stage.holder()?;
            let other = stage.client()?;
            manager.send(Message::new().handle_cookie(BC_REQUEST_DEATH_NOTIFICATION, handle, 5))?;
            drop(client);
            manager.wait_for(&[BR_DEAD_BINDER])?;
            manager.send(Message::new().long(BC_DEAD_BINDER_DONE, 5))?;
            let own = other.takes(handle, &manager)?;
            other.fails(&Call::to(own, 9), BR_DEAD_REPLY)
        }),
    case("handle.thousands", Driver("binder_get_ref_for_node_olocked"))
        .expects("two thousand handles, each its own")
        .with_pair(|manager, client| {
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
        }),
];
