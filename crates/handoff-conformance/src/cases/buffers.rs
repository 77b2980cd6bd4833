//! The buffer that parcels are delivered into: its space, its pieces, and who gives them back.

use super::prelude::*;

/// Oneway calls to nodes of their own, so that each is delivered: they keep a callee's space. Gives the calls.
fn filled(stage: &Stage<'_>, sizes: &[usize]) -> Check<(Party, Vec<Party>, Vec<Received>)> {
    let manager = stage.manager()?;
    let mut clients = Vec::new();
    let mut calls = Vec::new();
    for size in sizes {
        let client = stage.client()?;
        client.call(&Call::to(0, 1).sized(*size))?;
        calls.push(manager.receive()?);
        // The space stays taken after the reply.
        manager.answer_whole()?;
        client.receive_reply()?;
        clients.push(client);
    }
    Ok((manager, clients, calls))
}

pub(super) const CASES: &[Case] = &[
    case("buffer.aligned", Driver("binder_alloc_new_buf_locked"))
        .expects("parcels begin at multiples of 8")
        .by(|stage| {
            let (_manager, _clients, calls) = filled(stage, &[1, 3, 8, 9, 100])?;
            same("addresses that are not", calls.iter().filter(|call| call.data.buffer % 8 != 0).count(), 0)
        }),
    case("buffer.offsets-behind", Driver("binder_transaction"))
        .expects("the table of objects stands behind the data, aligned")
        .with_pair(|manager, client| {
            client.call(&Call::to(0, 1).with(Parcel::default().binder(0x1000, 1).and_bytes(b"abc")))?;
            let data = manager.receive()?.data;
            same("the table's place", data.offsets - data.buffer, 32)
        }),
    case("buffer.apart", Header("binder_transaction_data")).expects("no two parcels share memory").by(
        |stage| {
            let (_manager, _clients, calls) = filled(stage, &[100, 5000, 8, 0, 4096, 12])?;
            let mut places: Vec<(u64, u64)> =
                calls.iter().map(|call| (call.data.buffer, call.data.data_size.max(1))).collect();
            places.sort_unstable();
            let overlap = places.windows(2).any(|two| two[0].0 + two[0].1 > two[1].0);
            that(!overlap, "two parcels overlap")
        },
    ),
    case("buffer.used-again", Libbinder("Parcel::freeData"))
        .expects("what was given back is used again, for ever")
        .with_pair(|manager, client| {
            for _ in 0..64 {
                client.call(&Call::to(0, 1).sized(MAPPED * 3 / 4))?;
                let call = manager.receive()?;
                manager.free(&call)?;
                manager.answer_whole()?;
                let reply = client.receive_reply()?;
                client.free(&reply)?;
            }
            Ok(())
        }),
    case("buffer.full", Libbinder("FAILED_TRANSACTION"))
        .expects("BR_FAILED_REPLY while there is no space, then it works again")
        .by(|stage| {
            let (manager, clients, calls) = filled(stage, &[MAPPED / 2, MAPPED / 4])?;
            let more = Call::to(0, 2).sized(MAPPED / 2);
            clients[0].fails(&more, BR_FAILED_REPLY)?;
            manager.free(&calls[0])?;
            clients[0].call(&more)?;
            same("the code", manager.receive()?.data.code, 2)
        }),
    case("buffer.whole", Driver("binder_alloc_new_buf_locked"))
        .expects("one parcel may take all of it")
        .with_pair(|manager, client| {
            client.call(&Call::to(0, 1).sized(MAPPED))?;
            same("the size", manager.receive()?.data.data_size, MAPPED as u64)
        }),
    case("buffer.whole-and-more", Driver("binder_alloc_new_buf_locked"))
        .expects("and one of 8 bytes more does not fit")
        .with_pair(|_manager, client| client.fails(&Call::to(0, 1).sized(MAPPED + 8), BR_FAILED_REPLY)),
    case("buffer.merged", Driver("binder_free_buf_locked"))
        .expects("neighbours that were given back are one piece again")
        .by(|stage| {
            let (manager, clients, calls) = filled(stage, &[MAPPED / 4, MAPPED / 4, MAPPED / 4])?;
            // The middle one last: both sides are merged with it.
            for index in [0, 2, 1] {
                manager.free(&calls[index])?;
            }
            clients[0].call(&Call::to(0, 2).sized(MAPPED))?;
            same("the code", manager.receive()?.data.code, 2)
        }),
    case("buffer.fragmented", Driver("binder_alloc_new_buf_locked"))
        .expects("pieces that are apart are not one")
        .by(|stage| {
            let quarter = MAPPED / 4 - 4096;
            let (manager, clients, calls) = filled(stage, &[quarter; 4])?;
            manager.free(&calls[0])?;
            manager.free(&calls[2])?;
            clients[0].fails(&Call::to(0, 2).sized(quarter * 2), BR_FAILED_REPLY)?;
            clients[0].call(&Call::to(0, 3).sized(quarter))?;
            same("the code", manager.receive()?.data.code, 3)
        }),
    case("buffer.best-fit", Driver("binder_alloc_new_buf_locked"))
        .expects("the smallest piece that fits is taken")
        .by(|stage| {
            let (manager, clients, calls) = filled(stage, &[65536, 8192, 16384, 8192, 32768, 8192])?;
            for index in [0, 2, 4] {
                manager.free(&calls[index])?;
            }
            clients[0].call(&Call::to(0, 2).sized(12_000))?;
            same("the place", manager.receive()?.data.buffer, calls[2].data.buffer)
        }),
    case("buffer.of-replies", Header("BC_REPLY")).expects("a reply takes the caller's space").by(|stage| {
        let manager = stage.manager()?;
        let client = stage.client_with(16384)?;
        client.call(&Call::to(0, 1))?;
        manager.receive()?;
        manager.send(Message::new().reply(&Call::default().sized(32768)))?;
        client.expect(&[BR_TRANSACTION_COMPLETE, BR_FAILED_REPLY]).map(drop)
    }),
    case("buffer.of-each", Header("mmap")).expects("one process's full buffer is nobody else's").by(
        |stage| {
            let (manager, client) = stage.pair()?;
            let other = stage.client()?;
            let handle = other.gives(0x1000, &manager)?;
            let own = client.takes(handle, &manager)?;
            client.call(&Call::to(0, 1).sized(MAPPED))?;
            let call = manager.receive()?;
            manager.answer_whole()?;
            client.receive_reply()?;
            client.fails(&Call::to(0, 1).sized(4096), BR_FAILED_REPLY)?;
            client.call(&Call::to(own, 9).sized(4096))?;
            same("the code", other.receive()?.data.code, 9)?;
            manager.free(&call)
        },
    ),
    case("free.twice", Driver("binder_alloc_prepare_to_free"))
        .expects("is no error for the writer, and changes nothing")
        .by(|stage| {
            let (manager, clients, calls) = filled(stage, &[100])?;
            manager.free(&calls[0])?;
            manager.free(&calls[0])?;
            clients[0].works_with(&manager)
        }),
    case("free.nothing", Driver("binder_thread_write"))
        .expects("an address of no parcel is no error for the writer")
        .with_pair(|manager, client| {
            for address in [0, 8, manager.process.mapping(), manager.process.mapping() + 8, u64::MAX] {
                manager.send(Message::new().long(BC_FREE_BUFFER, address))?;
            }
            client.works_with(&manager)
        }),
    case("free.inside", Driver("binder_alloc_prepare_to_free_locked"))
        .expects("an address inside of a parcel frees nothing")
        .by(|stage| {
            let (manager, clients, calls) = filled(stage, &[MAPPED * 3 / 4])?;
            manager.send(Message::new().long(BC_FREE_BUFFER, calls[0].data.buffer + 8))?;
            clients[0].fails(&Call::to(0, 2).sized(MAPPED / 2), BR_FAILED_REPLY)
        }),
    case("free.undelivered", Driver("binder_alloc_prepare_to_free_locked"))
        .expects("a parcel that was not delivered yet cannot be given back")
        .by(|stage| {
            let (manager, clients, calls) = filled(stage, &[64])?;
            // The next one is put where this one was.
            manager.free(&calls[0])?;
            clients[0].call(&Call::to(0, 2).with(Parcel::bytes(b"pending!")))?;
            manager.send(Message::new().long(BC_FREE_BUFFER, calls[0].data.buffer))?;
            let call = manager.receive()?;
            that(call.bytes == b"pending!", "a parcel was freed before it was delivered")
        }),
    case("free.of-another", Driver("binder_alloc_prepare_to_free"))
        .expects("a process cannot give another's parcel back")
        .by(|stage| {
            let (manager, clients, calls) = filled(stage, &[MAPPED * 3 / 4])?;
            clients[0].free(&calls[0])?;
            clients[0].fails(&Call::to(0, 2).sized(MAPPED / 2), BR_FAILED_REPLY)?;
            manager.free(&calls[0])?;
            clients[0].works_with(&manager)
        }),
    case("clear-buffer", Header("TF_CLEAR_BUF"))
        .expects("the bytes are gone when the buffer was given back")
        .with_pair(|manager, client| {
            client.call(&Call::to(0, 1).flags(TF_CLEAR_BUF).with(Parcel::bytes(b"secret secret secret")))?;
            let call = manager.receive()?;
            manager.free(&call)?;
            // Memory that the driver has taken back is as good as cleared.
            match manager.process.memory(call.data.buffer, 20) {
                Some(left) => that(left.iter().all(|byte| *byte == 0), "the bytes are still there"),
                None => Ok(()),
            }
        }),
    case("clear-buffer.of-reply", Header("TF_CLEAR_BUF")).expects("a reply is cleared, too").with_pair(
        |manager, client| {
            client.call(&Call::to(0, 1).flags(TF_CLEAR_BUF))?;
            manager.receive()?;
            let secret = Call::default().flags(TF_CLEAR_BUF).with(Parcel::bytes(b"secret secret secret"));
            manager.send(Message::new().reply(&secret))?;
            let reply = client.receive_reply()?;
            client.free(&reply)?;
            match client.process.memory(reply.data.buffer, 20) {
                Some(left) => that(left.iter().all(|byte| *byte == 0), "the bytes are still there"),
                None => Ok(()),
            }
        },
    ),
];
