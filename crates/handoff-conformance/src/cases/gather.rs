//! Scatter-gather: buffers beside a parcel, and pointers in them that are put right.

use super::prelude::*;

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// Sends it. Gives the manager and what it received.
fn sent(stage: &Stage<'_>, parcel: Parcel) -> Check<(Party, Received)> {
    let (manager, client) = stage.pair()?;
    client.call(&Call::to(0, 1).with(parcel))?;
    let call = manager.receive()?;
    Ok((manager, call))
}

fn refused(stage: &Stage<'_>, call: &Call) -> Check {
    let (manager, client) = stage.pair()?;
    client.fails(call, BR_FAILED_REPLY)?;
    manager.expect_nothing()
}

fn refused_parcel(stage: &Stage<'_>, parcel: Parcel) -> Check {
    refused(stage, &Call::to(0, 1).with(parcel))
}

fn bytes_at(manager: &Party, call: &Received, index: usize, length: usize) -> Check<Vec<u8>> {
    match manager.process.memory(call.object(index)?.value, length) {
        Some(bytes) => Ok(bytes),
        None => unexpected("a buffer cannot be read"),
    }
}

pub(super) const CASES: &[Case] = &[
    case("gather.arrives", Libbinder("libhwbinder Parcel::writeBuffer"))
        .expects("a buffer's bytes, where its object says")
        .by(|stage| {
            let (manager, call) = sent(stage, Parcel::bytes(&[0; 8]).buffer(b"beside the parcel", None))?;
            that(bytes_at(&manager, &call, 0, 17)? == b"beside the parcel", "other bytes arrived")
        }),
    case("gather.type", Header("BINDER_TYPE_PTR")).expects("the object's type and length stay").by(|stage| {
        let (_manager, call) = sent(stage, Parcel::bytes(&[0; 8]).buffer(&[1; 100], None))?;
        same("type and length", (call.object(0)?.kind, call.object(0)?.cookie), (TYPE_PTR, 100))
    }),
    case("gather.inside", Header("BC_TRANSACTION_SG"))
        .expects("the address lies in the receiver's mapping")
        .by(|stage| {
            let (manager, call) = sent(stage, Parcel::bytes(&[0; 8]).buffer(&[1; 100], None))?;
            let (start, at) = (manager.process.mapping(), call.object(0)?.value);
            that(
                (start..start + MAPPED as u64).contains(&at),
                format_args!("{at:#x} is outside of the mapping"),
            )
        }),
    case("gather.aligned", Driver("binder_transaction")).expects("buffers stand at multiples of 8").by(
        |stage| {
            let parcel = [1, 3, 8, 13]
                .iter()
                .fold(Parcel::default(), |parcel, size| parcel.buffer(&vec![1; *size], None));
            let (_manager, call) = sent(stage, parcel)?;
            for index in 0..4 {
                same("the rest", call.object(index)?.value % 8, 0)?;
            }
            Ok(())
        },
    ),
    case("gather.several", Libbinder("libhwbinder hidl_vec")).expects("each its own bytes").by(|stage| {
        let parcel = (1..=20u8).fold(Parcel::default(), |parcel, number| parcel.buffer(&[number; 33], None));
        let (manager, call) = sent(stage, parcel)?;
        for number in 1..=20u8 {
            that(
                bytes_at(&manager, &call, number as usize - 1, 33)? == [number; 33],
                "buffers are mixed up",
            )?;
        }
        Ok(())
    }),
    case("gather.empty", Driver("binder_transaction"))
        .expects("a buffer of no bytes")
        .by(|stage| sent(stage, Parcel::bytes(&[0; 8]).buffer(&[], None)).map(drop)),
    case("gather.large", Driver("binder_alloc_copy_user_to_buffer")).expects("a buffer of many pages").by(
        |stage| {
            let bytes: Vec<u8> = (0..200_000u32).map(|index| (index % 251) as u8).collect();
            let (manager, call) = sent(stage, Parcel::bytes(&[0; 8]).buffer(&bytes, None))?;
            that(bytes_at(&manager, &call, 0, bytes.len())? == bytes, "other bytes arrived")
        },
    ),
    case("gather.parent", Libbinder("libhwbinder hidl_string"))
        .expects("the parent's pointer is where its child was delivered")
        .by(|stage| {
            let (manager, call) =
                sent(stage, Parcel::bytes(&[0; 8]).buffer(&[7; 32], None).buffer(b"child", Some((0, 8))))?;
            let parent = bytes_at(&manager, &call, 0, 32)?;
            same("the pointer", long(&parent, 8), call.object(1)?.value)?;
            that(parent[..8] == [7; 8] && parent[16..] == [7; 16], "more than the pointer was written")
        }),
    case("gather.parent-at-0", Driver("binder_validate_fixup"))
        .expects("BR_FAILED_REPLY for a parent that is a parcel's first bytes: 0 means that there is none")
        .by(|stage| {
            refused_parcel(stage, Parcel::default().buffer(&[7; 32], None).buffer(b"child", Some((0, 8))))
        }),
    case("gather.two-children", Libbinder("libhwbinder hidl_vec")).expects("two pointers in one parent").by(
        |stage| {
            let parcel = Parcel::bytes(&[0; 8])
                .buffer(&[0; 32], None)
                .buffer(b"one", Some((0, 0)))
                .buffer(b"two", Some((0, 16)));
            let (manager, call) = sent(stage, parcel)?;
            let parent = bytes_at(&manager, &call, 0, 32)?;
            same(
                "the pointers",
                (long(&parent, 0), long(&parent, 16)),
                (call.object(1)?.value, call.object(2)?.value),
            )
        },
    ),
    case("gather.grandchild", Libbinder("libhwbinder nested structures")).expects("a pointer in a child").by(
        |stage| {
            let parcel = Parcel::bytes(&[0; 8])
                .buffer(&[0; 16], None)
                .buffer(&[0; 16], Some((0, 0)))
                .buffer(b"deep", Some((1, 8)));
            let (manager, call) = sent(stage, parcel)?;
            same("the pointer", long(&bytes_at(&manager, &call, 1, 16)?, 8), call.object(2)?.value)
        },
    ),
    case("gather.siblings-of-child", Driver("binder_validate_fixup"))
        .expects("up the tree and down its next branch")
        .by(|stage| {
            let parcel = Parcel::bytes(&[0; 8])
                .buffer(&[0; 16], None)
                .buffer(&[0; 16], Some((0, 0)))
                .buffer(b"deep", Some((1, 0)))
                .buffer(b"next", Some((0, 8)));
            let (manager, call) = sent(stage, parcel)?;
            same("the pointer", long(&bytes_at(&manager, &call, 0, 16)?, 8), call.object(3)?.value)
        }),
    case("gather.with-objects", Libbinder("libhwbinder")).expects("handles and buffers in one parcel").by(
        |stage| {
            let (manager, call) =
                sent(stage, Parcel::default().binder(0x1000, 1).buffer(b"beside", None).binder(0x2000, 2))?;
            call.handle(0)?;
            call.handle(2)?;
            that(bytes_at(&manager, &call, 1, 6)? == b"beside", "other bytes arrived")
        },
    ),
    case("gather.of-reply", Libbinder("libhwbinder")).expects("BC_REPLY_SG").with_call(
        |manager, client, _| {
            manager.answer_with(Parcel::bytes(&[0; 8]).buffer(b"of a reply", None))?;
            let reply = client.receive_reply()?;
            that(bytes_at(&client, &reply, 0, 10)? == b"of a reply", "other bytes arrived")
        },
    ),
    case("gather.oneway", Libbinder("libhwbinder")).expects("in a oneway call, too").with_pair(
        |manager, client| {
            client.call(
                &Call::to(0, 1).flags(TF_ONE_WAY).with(Parcel::bytes(&[0; 8]).buffer(b"one way", None)),
            )?;
            let call = manager.receive()?;
            that(bytes_at(&manager, &call, 0, 7)? == b"one way", "other bytes arrived")
        },
    ),
    case("gather.none", Header("BC_TRANSACTION_SG"))
        .expects("BC_TRANSACTION_SG without buffers is a call")
        .with_pair(|manager, client| {
            client.call(&Call { extra_size: Some(0), ..Call::to(0, 1) })?;
            manager.receive().map(drop)
        }),
    case("gather.no-room", Driver("binder_transaction"))
        .expects("BR_FAILED_REPLY where the extra size is too small")
        .by(|stage| {
            refused(
                stage,
                &Call {
                    extra_size: Some(8),
                    ..Call::to(0, 1).with(Parcel::bytes(&[0; 8]).buffer(&[1; 100], None))
                },
            )
        }),
    case("gather.no-extra", Driver("binder_transaction"))
        .expects("BR_FAILED_REPLY with an extra size of 0")
        .by(|stage| {
            refused(
                stage,
                &Call {
                    extra_size: Some(0),
                    ..Call::to(0, 1).with(Parcel::bytes(&[0; 8]).buffer(&[1; 100], None))
                },
            )
        }),
    case("gather.extra-unaligned", Driver("binder_transaction"))
        .expects("BR_FAILED_REPLY for an extra size of 12")
        .by(|stage| {
            refused(
                stage,
                &Call {
                    extra_size: Some(12),
                    ..Call::to(0, 1).with(Parcel::bytes(&[0; 8]).buffer(&[1; 4], None))
                },
            )
        }),
    case("gather.extra-huge", Driver("binder_alloc_new_buf_locked"))
        .expects("BR_FAILED_REPLY for an extra size of 2^64 - 8")
        .by(|stage| {
            refused(
                stage,
                &Call {
                    extra_size: Some(u64::MAX - 7),
                    ..Call::to(0, 1).with(Parcel::bytes(&[0; 8]).buffer(&[1; 4], None))
                },
            )
        }),
    case("gather.extra-more-than-used", Driver("binder_transaction"))
        .expects("room that nothing uses is no error")
        .with_pair(|manager, client| {
            client.call(&Call {
                extra_size: Some(4096),
                ..Call::to(0, 1).with(Parcel::bytes(&[0; 8]).buffer(&[1; 4], None))
            })?;
            manager.receive().map(drop)
        }),
    case("gather.parent-unknown", Driver("binder_validate_ptr"))
        .expects("BR_FAILED_REPLY for a parent that is not there")
        .by(|stage| {
            refused_parcel(
                stage,
                Parcel::bytes(&[0; 8]).buffer(&[0; 16], None).buffer(b"child", Some((7, 0))),
            )
        }),
    case("gather.parent-itself", Driver("binder_fixup_parent"))
        .expects("BR_FAILED_REPLY for a buffer in itself")
        .by(|stage| refused_parcel(stage, Parcel::bytes(&[0; 8]).buffer(&[0; 16], Some((0, 0))))),
    case("gather.parent-later", Driver("binder_fixup_parent"))
        .expects("BR_FAILED_REPLY for a parent that comes later")
        .by(|stage| {
            refused_parcel(
                stage,
                Parcel::bytes(&[0; 8]).buffer(&[0; 16], Some((1, 0))).buffer(&[0; 16], None),
            )
        }),
    case("gather.parent-no-buffer", Driver("binder_validate_ptr"))
        .expects("BR_FAILED_REPLY for a parent that is no buffer")
        .with_pair(|_manager, client| {
            client.call(
                &Call::to(0, 1).with(Parcel::default().binder(0x1000, 1).buffer(&[0; 16], Some((0, 0)))),
            )?;
            let failed = client.returns()?.iter().any(|one| one.number == BR_FAILED_REPLY);
            that(failed, "a pointer into an object that is no buffer was taken")
        }),
    case("gather.offset-behind", Driver("binder_fixup_parent"))
        .expects("BR_FAILED_REPLY for a pointer behind its parent's end")
        .by(|stage| {
            refused_parcel(
                stage,
                Parcel::bytes(&[0; 8]).buffer(&[0; 16], None).buffer(b"child", Some((0, 16))),
            )
        }),
    case("gather.offset-cut", Driver("binder_fixup_parent"))
        .expects("BR_FAILED_REPLY for half a pointer")
        .by(|stage| {
            refused_parcel(
                stage,
                Parcel::bytes(&[0; 8]).buffer(&[0; 16], None).buffer(b"child", Some((0, 12))),
            )
        }),
    case("gather.offset-wraps", Driver("binder_fixup_parent"))
        .expects("BR_FAILED_REPLY for a pointer at 2^64 - 4")
        .by(|stage| {
            refused_parcel(
                stage,
                Parcel::bytes(&[0; 8]).buffer(&[0; 16], None).buffer(b"child", Some((0, u64::MAX - 3))),
            )
        }),
    case("gather.offset-descends", Driver("binder_validate_fixup"))
        .expects("BR_FAILED_REPLY for pointers in another order")
        .by(|stage| {
            let parcel = Parcel::bytes(&[0; 8])
                .buffer(&[0; 32], None)
                .buffer(b"one", Some((0, 16)))
                .buffer(b"two", Some((0, 0)));
            refused_parcel(stage, parcel)
        }),
    case("gather.offset-twice", Driver("binder_validate_fixup"))
        .expects("BR_FAILED_REPLY for two children at one place")
        .by(|stage| {
            let parcel = Parcel::bytes(&[0; 8])
                .buffer(&[0; 32], None)
                .buffer(b"one", Some((0, 8)))
                .buffer(b"two", Some((0, 8)));
            refused_parcel(stage, parcel)
        }),
    case("gather.back-to-child", Driver("binder_validate_fixup"))
        .expects("BR_FAILED_REPLY for a branch that was left")
        .by(|stage| {
            let parcel = Parcel::bytes(&[0; 8])
                .buffer(&[0; 32], None)
                .buffer(&[0; 16], Some((0, 0)))
                .buffer(&[0; 16], Some((0, 8)))
                .buffer(b"late", Some((1, 0)));
            refused_parcel(stage, parcel)
        }),
];
