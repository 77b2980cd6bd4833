//! Synchronous calls and replies, and how commands are read.

use super::prelude::*;

fn refused_command(stage: &Stage<'_>, message: Message) -> Check {
    let exchange = stage.client()?.write(&message);
    errno("the command", exchange.errno, libc::EINVAL)?;
    same("what was consumed", exchange.written, 0)
}

pub(super) const CASES: &[Case] = &[
    case("call.arrives", Libbinder("IPCThreadState::executeCommand")).expects("BR_TRANSACTION").with_pair(
        |manager, client| {
            client.call(&Call::to(0, 1))?;
            manager.receive().map(drop)
        },
    ),
    case("call.code", Header("binder_transaction_data"))
        .expects("the code arrives, all 32 bits of it")
        .with_pair(|manager, client| {
            client.call(&Call::to(0, 0xdead_beef))?;
            same("the code", manager.receive()?.data.code, 0xdead_beef)
        }),
    case("call.data", Header("binder_transaction_data")).expects("the bytes arrive").with_pair(
        |manager, client| {
            let bytes: Vec<u8> = (0..10_001u32).map(|index| ((index * 7) >> 3) as u8).collect();
            client.call(&Call::to(0, 1).with(Parcel::bytes(&bytes)))?;
            that(manager.receive()?.bytes == bytes, "other bytes arrived than were sent")
        },
    ),
    case("call.data.empty", Header("binder_transaction_data")).expects("sizes of 0").with_call(
        |_manager, _client, call| same("the sizes", (call.data.data_size, call.data.offsets_size), (0, 0)),
    ),
    case("call.data.odd", Header("binder_transaction_data"))
        .expects("a size need not be a multiple of anything")
        .with_pair(|manager, client| {
            for size in [1, 2, 3, 5, 7, 9, 4095, 4097] {
                client.call(&Call::to(0, 1).with(Parcel::bytes(&vec![9; size])))?;
                let call = manager.receive()?;
                same("the size", call.bytes.len(), size)?;
                manager.free(&call)?;
                manager.answer_whole()?;
                client.receive_reply()?;
            }
            Ok(())
        }),
    case("call.sender-pid", Libbinder("IPCThreadState::getCallingPid")).expects("the caller's process").by(
        |stage| {
            let (manager, client) = stage.pair()?;
            client.call(&Call::to(0, 1))?;
            same("sender_pid", manager.receive()?.data.sender_pid, stage.device.pid() as i32)
        },
    ),
    case("call.sender-euid", Libbinder("IPCThreadState::getCallingUid"))
        .expects("the caller's effective user")
        .by(|stage| {
            let (manager, client) = stage.pair()?;
            client.call(&Call::to(0, 1))?;
            same("sender_euid", manager.receive()?.data.sender_euid, stage.device.euid())
        }),
    case("call.sender-cannot-lie", Header("binder_transaction_data"))
        .expects("what a sender writes there is ignored")
        .by(|stage| {
            let (manager, client) = stage.pair()?;
            let data = Transaction { code: 1, sender_pid: 1, sender_euid: 4711, ..Transaction::default() };
            client.send(Message::new().raw(BC_TRANSACTION, &data.to_bytes()))?;
            let got = manager.receive()?.data;
            same(
                "the sender",
                (got.sender_pid, got.sender_euid),
                (stage.device.pid() as i32, stage.device.euid()),
            )
        }),
    case("call.target.manager", Libbinder("servicemanager"))
        .expects("the manager's node has address and cookie 0")
        .with_pair(|manager, client| {
            client.call(&Call::to(0, 1))?;
            let data = manager.receive()?.data;
            same("target and cookie", (data.target, data.cookie), (0, 0))
        }),
    case("call.target", Libbinder("IPCThreadState::executeCommand"))
        .expects("the object's own address and cookie")
        .with_object(|manager, client, handle| {
            manager.call(&Call::to(handle, 1))?;
            let data = client.receive()?.data;
            same("target and cookie", (data.target, data.cookie), (0x1000, 0x1001))
        }),
    case("call.flags", Header("transaction_flags")).expects("the caller's flags arrive").with_pair(
        |manager, client| {
            client.call(&Call::to(0, 1).flags(TF_ACCEPT_FDS | TF_CLEAR_BUF))?;
            let flags = manager.receive()?.data.flags & (TF_ONE_WAY | TF_ACCEPT_FDS | TF_CLEAR_BUF);
            same("the flags", flags, TF_ACCEPT_FDS | TF_CLEAR_BUF)
        },
    ),
    case("call.one-per-read", Driver("binder_thread_read")).expects("a read ends with a call").by(|stage| {
        let (manager, first) = stage.pair()?;
        let second = stage.client()?;
        first.oneway(0, 1)?;
        second.call(&Call::to(0, 2))?;
        let calls = manager.read_once(ROOM)?.iter().filter(|one| one.number == BR_TRANSACTION).count();
        same("calls in one read", calls, 1)
    }),
    case("call.order", Libbinder("the thread pool")).expects("calls arrive as they were sent").by(|stage| {
        let manager = stage.manager()?;
        let clients = [stage.client()?, stage.client()?, stage.client()?];
        for (code, client) in (1..).zip(&clients) {
            client.call(&Call::to(0, code))?;
        }
        for (code, client) in (1..).zip(&clients) {
            let before: &[u32] = if code == 1 { &[] } else { &[BR_TRANSACTION_COMPLETE] };
            same("the code", manager.receive_after(before)?.data.code, code)?;
            manager.answer()?;
            client.receive_reply()?;
        }
        Ok(())
    }),
    case("reply.arrives", Libbinder("IPCThreadState::waitForResponse"))
        .expects("BR_TRANSACTION_COMPLETE, then BR_REPLY")
        .with_call(|manager, client, _| {
            manager.answer()?;
            client.receive_reply().map(drop)
        }),
    case("reply.data", Header("binder_transaction_data")).expects("the bytes arrive").with_call(
        |manager, client, _| {
            manager.answer_with(Parcel::bytes(b"an answer of some bytes"))?;
            that(client.receive_reply()?.bytes == b"an answer of some bytes", "other bytes arrived")
        },
    ),
    case("reply.completed", Libbinder("IPCThreadState::sendReply"))
        .expects("the server gets BR_TRANSACTION_COMPLETE")
        .with_call(|manager, _client, _| {
            manager.answer()?;
            manager.expect(&[BR_TRANSACTION_COMPLETE]).map(drop)
        }),
    case("reply.status", Libbinder("TF_STATUS_CODE")).expects("the flag arrives").with_call(
        |manager, client, _| {
            let status = Call::default().flags(TF_STATUS_CODE).with(Parcel::bytes(&(-38i32).to_ne_bytes()));
            manager.send(Message::new().reply(&status))?;
            let reply = client.receive_reply()?;
            that(reply.data.flags & TF_STATUS_CODE != 0, "TF_STATUS_CODE did not arrive")?;
            that(reply.bytes == (-38i32).to_ne_bytes(), "another status arrived")
        },
    ),
    case("reply.oneway", Driver("binder_transaction"))
        .expects("a reply that says TF_ONE_WAY takes no space of oneway calls")
        .by(|stage| {
            let manager = stage.manager()?;
            let client = stage.client_with(16384)?;
            client.call(&Call::to(0, 1))?;
            manager.receive()?;
            manager.send(Message::new().reply(&Call::default().flags(TF_ONE_WAY).sized(12288)))?;
            client.receive_reply().map(drop)
        }),
    case("reply.to-nothing", Libbinder("IPCThreadState::waitForResponse")).expects("BR_FAILED_REPLY").by(
        |stage| {
            let party = stage.client()?;
            party.answer()?;
            party.expect(&[BR_FAILED_REPLY]).map(drop)
        },
    ),
    case("reply.twice", Libbinder("IPCThreadState::waitForResponse"))
        .expects("the second one is BR_FAILED_REPLY")
        .with_call(|manager, client, _| {
            manager.answer_whole()?;
            manager.answer()?;
            manager.expect(&[BR_FAILED_REPLY])?;
            client.receive_reply().map(drop)
        }),
    case("reply.cannot-be-made", Libbinder("a reply that is too large"))
        .expects("the caller gets BR_FAILED_REPLY")
        .with_call(|manager, client, _| {
            manager.send(
                Message::new().reply(&Call { data_size: Some(2 * MAPPED as u64), ..Call::default() }),
            )?;
            client.expect(&[BR_TRANSACTION_COMPLETE, BR_FAILED_REPLY]).map(drop)
        }),
    case("reply.cannot-be-made.server", Driver("binder_transaction"))
        .expects("the server gets BR_TRANSACTION_COMPLETE all the same")
        .with_call(|manager, _client, _| {
            manager.send(
                Message::new().reply(&Call { data_size: Some(2 * MAPPED as u64), ..Call::default() }),
            )?;
            manager.expect(&[BR_TRANSACTION_COMPLETE]).map(drop)
        }),
    case("reply.before-free", Libbinder("Parcel::freeData"))
        .expects("the request's buffer outlives the reply")
        .with_pair(|manager, client| {
            client.call(&Call::to(0, 1).with(Parcel::bytes(b"kept")))?;
            let call = manager.receive()?;
            manager.answer()?;
            client.receive_reply()?;
            let kept = manager.process.memory(call.data.buffer, 4);
            that(kept.as_deref() == Some(b"kept"), "the request is gone")?;
            manager.free(&call)
        }),
    case("reply.free-before", Libbinder("IPCThreadState::sendReply"))
        .expects("a request may be given back before the reply")
        .with_pair(|manager, client| client.works_with(&manager)),
    case("complete.deferred", Driver("binder_enqueue_deferred_thread_work_ilocked"))
        .expects("a caller is not woken for its completion alone")
        .with_pair(|_manager, client| {
            client.call(&Call::to(0, 1))?;
            client.expect_nothing()
        }),
    case("complete.with-reply", Driver("binder_enqueue_deferred_thread_work_ilocked"))
        .expects("completion and reply come in one read")
        .with_call(|manager, client, _| {
            manager.answer()?;
            let read: Vec<u32> = client.read_once(ROOM)?.iter().map(|one| one.number).collect();
            same("the read", read, vec![BR_NOOP, BR_TRANSACTION_COMPLETE, BR_REPLY])
        }),
    case("call.second-while-waiting", Driver("binder_transaction"))
        .expects("BR_FAILED_REPLY: one call at a time")
        .with_call(|_manager, client, _| {
            client.call(&Call::to(0, 2))?;
            let failed = client.returns()?.iter().any(|one| one.number == BR_FAILED_REPLY);
            that(failed, "a thread has two calls under way")
        }),
    case("call.oneway-while-waiting", Header("TF_ONE_WAY"))
        .expects("a oneway call is sent all the same")
        .with_call(|manager, client, _| {
            manager.answer_whole()?;
            client.oneway(0, 2)?;
            same("the code", manager.receive()?.data.code, 2)
        }),
    case("call.to-itself", Driver("binder_transaction"))
        .expects("the manager's call to 0 is BR_FAILED_REPLY")
        .by(|stage| stage.manager()?.fails(&Call::to(0, 1), BR_FAILED_REPLY)),
    case("nested.back", Libbinder("IPCThreadState::talkWithDriver"))
        .expects("a call back is given to the thread that waits")
        .with_object(|manager, client, handle| {
            client.call(&Call::to(0, 5))?;
            manager.receive()?;
            manager.call(&Call::to(handle, 6))?;
            same("the code", client.receive_after(&[BR_TRANSACTION_COMPLETE])?.data.code, 6)
        }),
    case("nested.replies", Libbinder("IPCThreadState::waitForResponse"))
        .expects("replies go to the innermost call first")
        .with_object(|manager, client, handle| {
            client.call(&Call::to(0, 5))?;
            manager.receive()?;
            manager.call(&Call::to(handle, 6))?;
            client.receive_after(&[BR_TRANSACTION_COMPLETE])?;
            client.answer_with(Parcel::bytes(b"inner"))?;
            client.expect(&[BR_TRANSACTION_COMPLETE])?;
            that(manager.receive_reply()?.bytes == b"inner", "another reply came to the server")?;
            manager.answer_with(Parcel::bytes(b"outer"))?;
            manager.expect(&[BR_TRANSACTION_COMPLETE])?;
            that(client.arrived(&[BR_REPLY])?.bytes == b"outer", "another reply came to the client")
        }),
    case("nested.deep", Libbinder("nested calls")).expects("eight calls deep, and back").with_object(
        |manager, client, handle| {
            client.call(&Call::to(0, 0))?;
            manager.receive()?;
            for depth in 1..8 {
                let (from, to, target) =
                    if depth % 2 == 1 { (&manager, &client, handle) } else { (&client, &manager, 0) };
                from.call(&Call::to(target, depth))?;
                let call = to.receive_after(&[BR_TRANSACTION_COMPLETE]).or_else(|_| to.receive())?;
                same("the code", call.data.code, depth)?;
            }
            for depth in (0..8).rev() {
                let (server, caller) = if depth % 2 == 1 { (&client, &manager) } else { (&manager, &client) };
                server.answer()?;
                let completed = server.returns()?.iter().any(|one| one.number == BR_TRANSACTION_COMPLETE);
                that(completed, "a reply was not completed")?;
                let replied = caller.returns()?.iter().any(|one| one.number == BR_REPLY);
                that(replied, format_args!("no reply at depth {depth}"))?;
            }
            Ok(())
        },
    ),
    case("nested.oneway-is-not-nested", Libbinder("oneway"))
        .expects("a oneway call back does not go to the thread that waits")
        .with_object(|manager, client, handle| {
            client.call(&Call::to(0, 5))?;
            manager.receive()?;
            manager.oneway(handle, 6)?;
            // The waiting thread does not serve it before its reply is there.
            let early = client.returns()?.iter().any(|one| one.number == BR_TRANSACTION);
            that(!early, "a thread that waits for a reply was given a oneway call")
        }),
    case("nested.other-process", Libbinder("IPCThreadState::talkWithDriver"))
        .expects("a third process's call goes to no waiting thread")
        .by(|stage| {
            let (manager, client, handle) = stage.holder()?;
            let third = stage.client()?;
            let own = third.takes(handle, &manager)?;
            client.call(&Call::to(0, 5))?;
            manager.receive()?;
            third.call(&Call::to(own, 6))?;
            let early = client.returns()?.iter().any(|one| one.number == BR_TRANSACTION);
            that(!early, "a thread that waits was given a stranger's call")
        }),
    case("command.several", Libbinder("IPCThreadState::mOut"))
        .expects("several commands in one write")
        .with_pair(|manager, client| {
            let both = Message::new()
                .call(&Call::to(0, 1).flags(TF_ONE_WAY))
                .call(&Call::to(0, 2).flags(TF_ONE_WAY))
                .call(&Call::to(0, 3).flags(TF_ONE_WAY));
            client.send(both)?;
            for code in 1..=3 {
                let call = manager.receive()?;
                same("the code", call.data.code, code)?;
                manager.free(&call)?;
            }
            Ok(())
        }),
    case("command.free-and-reply", Libbinder("IPCThreadState::flushIfNeeded"))
        .expects("BC_FREE_BUFFER rides along with BC_REPLY")
        .with_call(|manager, client, call| {
            manager.send(Message::new().long(BC_FREE_BUFFER, call.data.buffer).reply(&Call::default()))?;
            client.receive_reply().map(drop)
        }),
    case("command.unknown", Driver("binder_thread_write"))
        .expects("EINVAL, and not consumed")
        .by(|stage| refused_command(stage, Message::new().raw(iow(b'c', 99, 4), &[0; 4]))),
    case("command.unknown.after-known", Driver("binder_thread_write"))
        .expects("what stands before it is consumed")
        .by(|stage| {
            let message = Message::new().bare(BC_ENTER_LOOPER).raw(iow(b'c', 99, 4), &[0; 4]);
            let exchange = stage.client()?.write(&message);
            errno("the command", exchange.errno, libc::EINVAL)?;
            same("what was consumed", exchange.written, 4)
        }),
    case("command.return-as-command", Driver("binder_thread_write"))
        .expects("EINVAL")
        .by(|stage| refused_command(stage, Message::new().bare(BR_NOOP))),
    case("command.attempt-acquire", Header("BC_ATTEMPT_ACQUIRE"))
        .expects("EINVAL: it is not supported")
        .by(|stage| refused_command(stage, Message::new().raw(iow(b'c', 10, 8), &[0; 8]))),
    case("command.acquire-result", Header("BC_ACQUIRE_RESULT"))
        .expects("EINVAL: it is not supported")
        .by(|stage| refused_command(stage, Message::new().raw(iow(b'c', 2, 4), &[0; 4]))),
    case("command.32-bit-transaction", Header("binder_uintptr_t"))
        .expects("EINVAL: 40 bytes are protocol 7's")
        .by(|stage| refused_command(stage, Message::new().raw(iow(b'c', 0, 40), &[0; 40]))),
    case("command.32-bit-free", Header("binder_uintptr_t"))
        .expects("EINVAL: 4 bytes are protocol 7's")
        .by(|stage| refused_command(stage, Message::new().raw(iow(b'c', 3, 4), &[0; 4]))),
    case("command.32-bit-done", Header("binder_ptr_cookie"))
        .expects("EINVAL: 8 bytes are protocol 7's")
        .by(|stage| refused_command(stage, Message::new().raw(iow(b'c', 8, 8), &[0; 8]))),
    case("command.after-error", Driver("binder_thread_write"))
        .expects("nothing is consumed before the error was read")
        .with_pair(|manager, client| {
            let first = Call::to(99, 1);
            let message = Message::new().call(&first).call(&Call::to(0, 2).flags(TF_ONE_WAY));
            let exchange = client.write(&message);
            errno("the write", exchange.errno, 0)?;
            same("what was consumed", exchange.written, Message::new().call(&first).len() as u64)?;
            client.expect(&[BR_FAILED_REPLY])?;
            client.oneway(0, 3)?;
            same("the code", manager.receive()?.data.code, 3)
        }),
];
