//! Transactions that cannot be made, and the reasons that `BINDER_GET_EXTENDED_ERROR` gives.

use super::prelude::*;

const BAD: u64 = 8;

/// A call fails, with this reason.
fn reason(stage: &Stage<'_>, call: &Call, command: u32, why: i32) -> Check {
    let (_manager, client) = stage.pair()?;
    client.extended_error()?;
    client.fails(call, command)?;
    let (got, number) = client.extended_error()?;
    same("the command", crate::returns::name_of(got), crate::returns::name_of(command))?;
    errno("the reason", -number, -why)
}

fn fails(stage: &Stage<'_>, call: &Call) -> Check {
    let (manager, client) = stage.pair()?;
    client.fails(call, BR_FAILED_REPLY)?;
    manager.expect_nothing()?;
    client.works_with(&manager)
}

fn objects(offsets: &[u64]) -> Call {
    let mut parcel = Parcel::bytes(&[0; 64]);
    parcel.offsets = offsets.to_vec();
    Call::to(0, 1).with(parcel)
}

pub(super) const CASES: &[Case] = &[
    case("fails.handle-unknown", Libbinder("IPCThreadState::waitForResponse"))
        .expects("BR_FAILED_REPLY, and nothing is broken")
        .by(|stage| fails(stage, &Call::to(99, 1))),
    case("fails.handle-unknown.oneway", Libbinder("IPCThreadState::waitForResponse"))
        .expects("BR_FAILED_REPLY in place of the completion")
        .by(|stage| fails(stage, &Call::to(99, 1).flags(TF_ONE_WAY))),
    case("fails.data-unreadable", Driver("binder_transaction"))
        .expects("BR_FAILED_REPLY")
        .by(|stage| fails(stage, &Call { buffer: Some(BAD), data_size: Some(64), ..Call::to(0, 1) })),
    case("fails.offsets-unreadable", Driver("binder_transaction")).expects("BR_FAILED_REPLY").by(|stage| {
        fails(stage, &Call { offsets: Some(BAD), offsets_size: Some(8), ..Call::to(0, 1).sized(64) })
    }),
    case("fails.data-of-kernel", Driver("binder_transaction"))
        .expects("BR_FAILED_REPLY for a kernel's address")
        .by(|stage| {
            fails(stage, &Call { buffer: Some(u64::MAX - 4095), data_size: Some(64), ..Call::to(0, 1) })
        }),
    case("fails.too-large", Libbinder("FAILED_TRANSACTION"))
        .expects("BR_FAILED_REPLY for more than the callee mapped")
        .by(|stage| fails(stage, &Call::to(0, 1).sized(2 * MAPPED))),
    case("fails.size-huge", Driver("binder_alloc_new_buf_locked"))
        .expects("BR_FAILED_REPLY for a size of 2^63")
        .by(|stage| fails(stage, &Call { data_size: Some(1 << 63), ..Call::to(0, 1).sized(64) })),
    case("fails.size-wraps", Driver("binder_alloc_new_buf_locked"))
        .expects("BR_FAILED_REPLY for a size of 2^64 - 1")
        .by(|stage| fails(stage, &Call { data_size: Some(u64::MAX), ..Call::to(0, 1).sized(64) })),
    case("fails.sizes-wrap-together", Driver("binder_alloc_new_buf_locked"))
        .expects("BR_FAILED_REPLY for sizes whose sum is small")
        .by(|stage| {
            fails(
                stage,
                &Call { data_size: Some(u64::MAX - 63), offsets_size: Some(128), ..Call::to(0, 1).sized(64) },
            )
        }),
    case("fails.offsets-size", Driver("binder_transaction"))
        .expects("BR_FAILED_REPLY for a table of 12 bytes")
        .by(|stage| fails(stage, &Call { offsets_size: Some(12), ..objects(&[0, 24]) })),
    case("fails.offset-unaligned", Driver("binder_get_object"))
        .expects("BR_FAILED_REPLY for an object at 2")
        .by(|stage| fails(stage, &objects(&[2]))),
    case("fails.offset-behind", Driver("binder_get_object"))
        .expects("BR_FAILED_REPLY for an object behind the end")
        .by(|stage| fails(stage, &objects(&[64]))),
    case("fails.offset-cut", Driver("binder_get_object"))
        .expects("BR_FAILED_REPLY for half an object")
        .by(|stage| fails(stage, &objects(&[48]))),
    case("fails.offset-huge", Driver("binder_get_object"))
        .expects("BR_FAILED_REPLY for an object at 2^64 - 8")
        .by(|stage| fails(stage, &objects(&[u64::MAX - 7]))),
    case("fails.offsets-overlap", Driver("binder_transaction"))
        .expects("BR_FAILED_REPLY for objects that overlap")
        .by(|stage| {
            let mut parcel = Parcel::default().binder(0x1000, 1).binder(0x2000, 2);
            parcel.offsets = vec![0, 8];
            fails(stage, &Call::to(0, 1).with(parcel))
        }),
    case("fails.offsets-descend", Driver("binder_transaction"))
        .expects("BR_FAILED_REPLY for objects in another order")
        .by(|stage| {
            let mut parcel = Parcel::default().binder(0x1000, 1).binder(0x2000, 2);
            parcel.offsets = vec![24, 0];
            fails(stage, &Call::to(0, 1).with(parcel))
        }),
    case("fails.object-unknown", Driver("binder_transaction"))
        .expects("BR_FAILED_REPLY for an object of no type")
        .by(|stage| fails(stage, &Call::to(0, 1).with(Parcel::default().object(0x1234_5678, 0)))),
    case("fails.object-zero", Driver("binder_transaction"))
        .expects("BR_FAILED_REPLY for an object of type 0")
        .by(|stage| fails(stage, &objects(&[0]))),
    case("fails.object-handle-unknown", Driver("binder_translate_handle"))
        .expects("BR_FAILED_REPLY for a handle that nobody gave")
        .by(|stage| fails(stage, &Call::to(0, 1).with(Parcel::default().handle(99)))),
    case("fails.object-weak-handle-unknown", Driver("binder_translate_handle"))
        .expects("BR_FAILED_REPLY for a handle that nobody gave")
        .by(|stage| fails(stage, &Call::to(0, 1).with(Parcel::default().weak_handle(99)))),
    case("fails.object-fd-closed", Driver("binder_translate_fd"))
        .expects("BR_FAILED_REPLY for a descriptor that is none")
        .by(|stage| fails(stage, &Call::to(0, 1).with(Parcel::default().fd(-1)))),
    case("fails.object-cookie", Driver("binder_translate_binder"))
        .expects("BR_FAILED_REPLY for another cookie than the node's")
        .with_pair(|manager, client| {
            client.gives(0x1000, &manager)?;
            client.fails(&Call::to(0, 1).with(Parcel::default().binder(0x1000, 7)), BR_FAILED_REPLY)
        }),
    case("fails.rolls-back", Driver("binder_transaction_buffer_release"))
        .expects("objects before the bad one are let go")
        .with_pair(|manager, client| {
            client.call(&Call::to(0, 1).with(Parcel::default().binder(0x1000, 1).object(0x1234_5678, 0)))?;
            let found: Vec<u32> = client.returns()?.iter().map(|one| one.number).collect();
            that(found.contains(&BR_FAILED_REPLY), "the call did not fail")?;
            // Its owner hears of no reference that stays.
            let (taken, left) = (
                found.iter().filter(|number| **number == BR_ACQUIRE).count(),
                found.iter().filter(|number| **number == BR_RELEASE).count(),
            );
            if taken != left {
                client.send(Message::new().pair(BC_INCREFS_DONE, 0x1000, 1).pair(
                    BC_ACQUIRE_DONE,
                    0x1000,
                    1,
                ))?;
                let later: Vec<u32> = client.returns()?.iter().map(|one| one.number).collect();
                that(later.contains(&BR_RELEASE), "a reference was taken for ever")?;
            }
            manager.expect_nothing()
        }),
    case("fails.again", Driver("binder_transaction"))
        .expects("a thousand failures leave nothing behind")
        .with_pair(|manager, client| {
            for _ in 0..1000 {
                client.fails(
                    &Call { buffer: Some(BAD), data_size: Some(4096), ..Call::to(0, 1) },
                    BR_FAILED_REPLY,
                )?;
            }
            client.call(&Call::to(0, 1).sized(MAPPED * 3 / 4))?;
            manager.receive().map(drop)
        }),
    case("extended-error.none", Header("BINDER_GET_EXTENDED_ERROR"))
        .expects("BR_OK and 0 before anything failed")
        .by(|stage| same("the error", stage.client()?.extended_error()?, (BR_OK, 0))),
    case("extended-error.handle-unknown", Driver("binder_transaction"))
        .expects("EINVAL")
        .by(|stage| reason(stage, &Call::to(99, 1), BR_FAILED_REPLY, -libc::EINVAL)),
    case("extended-error.no-space", Driver("binder_alloc_new_buf_locked"))
        .expects("ENOSPC")
        .by(|stage| reason(stage, &Call::to(0, 1).sized(2 * MAPPED), BR_FAILED_REPLY, -libc::ENOSPC)),
    case("extended-error.bad-address", Driver("binder_transaction")).expects("EFAULT").by(|stage| {
        reason(
            stage,
            &Call { buffer: Some(BAD), data_size: Some(64), ..Call::to(0, 1) },
            BR_FAILED_REPLY,
            -libc::EFAULT,
        )
    }),
    case("extended-error.bad-object", Driver("binder_transaction"))
        .expects("EINVAL")
        .by(|stage| reason(stage, &objects(&[0]), BR_FAILED_REPLY, -libc::EINVAL)),
    case("extended-error.bad-descriptor", Driver("binder_translate_fd")).expects("EBADF").by(|stage| {
        reason(stage, &Call::to(0, 1).with(Parcel::default().fd(-1)), BR_FAILED_REPLY, -libc::EBADF)
    }),
    case("extended-error.reply-to-nothing", Driver("binder_transaction")).expects("EPROTO").by(|stage| {
        let party = stage.client()?;
        party.extended_error()?;
        party.answer()?;
        party.expect(&[BR_FAILED_REPLY])?;
        errno("the reason", -party.extended_error()?.1, libc::EPROTO)
    }),
    case("extended-error.of-reply", Driver("binder_set_txn_from_error"))
        .expects("a caller is told why its reply could not be made: ENOSPC")
        .with_call(|manager, client, _| {
            client.extended_error()?;
            let large = Call { data_size: Some(2 * MAPPED as u64), ..Call::default() };
            manager.send(Message::new().reply(&large))?;
            client.expect(&[BR_TRANSACTION_COMPLETE, BR_FAILED_REPLY])?;
            let (command, number) = client.extended_error()?;
            same("the command", crate::returns::name_of(command), crate::returns::name_of(BR_FAILED_REPLY))?;
            errno("the reason", -number, libc::ENOSPC)
        }),
    case("extended-error.dead", Driver("binder_transaction")).expects("BR_DEAD_REPLY and EINVAL").by(
        |stage| {
            let manager = stage.open_manager()?;
            manager.become_manager(MANAGER_FLAGS)?;
            let client = stage.client()?;
            client.extended_error()?;
            client.fails(&Call::to(0, 1), BR_DEAD_REPLY)?;
            same("the command", client.extended_error()?.0, BR_DEAD_REPLY)
        },
    ),
    case("extended-error.read-once", Header("BINDER_GET_EXTENDED_ERROR"))
        .expects("it is forgotten when it was read")
        .with_pair(|_manager, client| {
            client.extended_error()?;
            client.fails(&Call::to(99, 1), BR_FAILED_REPLY)?;
            client.extended_error()?;
            same("the error", client.extended_error()?, (BR_OK, 0))
        }),
    case("extended-error.after-success", Driver("binder_thread_write"))
        .expects("a call that works replaces it")
        .with_pair(|manager, client| {
            client.extended_error()?;
            client.fails(&Call::to(99, 1), BR_FAILED_REPLY)?;
            client.works_with(&manager)?;
            same("the error", client.extended_error()?.1, 0)
        }),
];
