//! Oneway calls: their order, their space, and who sends too many.

use super::prelude::*;

fn oneway(size: usize) -> Call {
    Call::to(0, 1).flags(TF_ONE_WAY).sized(size)
}

/// Sends oneway calls of 4 KiB until there is no space. Gives which of them brought `BR_ONEWAY_SPAM_SUSPECT`.
fn flood(client: &Party) -> Check<(usize, Vec<usize>)> {
    let mut suspects = Vec::new();
    for count in 0..1000 {
        client.call(&oneway(4096))?;
        match client.returns()?.iter().map(|one| one.number).collect::<Vec<_>>()[..] {
            [BR_TRANSACTION_COMPLETE] => {}
            [BR_ONEWAY_SPAM_SUSPECT] => suspects.push(count),
            [BR_FAILED_REPLY] => return Ok((count, suspects)),
            ref other => return unexpected(format!("read {}", crate::returns::names_of(other))),
        }
    }
    unexpected("a thousand calls of 4 KiB fit into 1 MiB")
}

fn detect(client: &Party, enable: u32) -> Check {
    match client.process.ioctl(BINDER_ENABLE_ONEWAY_SPAM_DETECTION, &mut enable.to_ne_bytes()) {
        libc::EINVAL => {
            not_here("this kernel does not tell senders of too many oneway calls (Linux 5.14 does)")
        }
        other => errno("BINDER_ENABLE_ONEWAY_SPAM_DETECTION", other, 0),
    }
}

pub(super) const CASES: &[Case] = &[
    case("oneway.completed", Libbinder("IPCThreadState::waitForResponse"))
        .expects("BR_TRANSACTION_COMPLETE at once")
        .with_pair(|_manager, client| {
            client.oneway(0, 1)?;
            client.expect(&[BR_TRANSACTION_COMPLETE]).map(drop)
        }),
    case("oneway.arrives", Header("TF_ONE_WAY")).expects("with its flag").with_pair(|manager, client| {
        client.oneway(0, 1)?;
        let flags = manager.receive()?.data.flags;
        that(flags & TF_ONE_WAY != 0, "TF_ONE_WAY did not arrive")
    }),
    case("oneway.sender-pid", Libbinder("IPCThreadState::getCallingPid"))
        .expects("0: nobody waits")
        .with_pair(|manager, client| {
            client.oneway(0, 1)?;
            same("sender_pid", manager.receive()?.data.sender_pid, 0)
        }),
    case("oneway.sender-euid", Libbinder("IPCThreadState::getCallingUid"))
        .expects("the caller's effective user")
        .by(|stage| {
            let (manager, client) = stage.pair()?;
            client.oneway(0, 1)?;
            same("sender_euid", manager.receive()?.data.sender_euid, stage.device.euid())
        }),
    case("oneway.reply", Driver("binder_transaction")).expects("a reply to it is BR_FAILED_REPLY").with_pair(
        |manager, client| {
            client.oneway(0, 1)?;
            manager.receive()?;
            manager.answer()?;
            manager.expect(&[BR_FAILED_REPLY]).map(drop)
        },
    ),
    case("oneway.one-at-a-time", Libbinder("oneway order"))
        .expects("the next one comes when the last one's buffer was given back")
        .with_pair(|manager, client| {
            client.oneway(0, 1)?;
            client.oneway(0, 2)?;
            let first = manager.receive()?;
            manager.expect_nothing()?;
            manager.free(&first)?;
            same("the code", manager.receive()?.data.code, 2)
        }),
    case("oneway.order", Libbinder("oneway order")).expects("as they were sent").with_pair(
        |manager, client| {
            for code in 0..50 {
                client.oneway(0, code)?;
            }
            for code in 0..50 {
                let call = manager.receive()?;
                same("the code", call.data.code, code)?;
                manager.free(&call)?;
            }
            manager.expect_nothing()
        },
    ),
    case("oneway.order.of-several-senders", Libbinder("oneway order"))
        .expects("as they were sent, whoever sent them")
        .by(|stage| {
            let manager = stage.manager()?;
            let clients = [stage.client()?, stage.client()?];
            for code in 0..10 {
                clients[code as usize % 2].oneway(0, code)?;
            }
            for code in 0..10 {
                let call = manager.receive()?;
                same("the code", call.data.code, code)?;
                manager.free(&call)?;
            }
            Ok(())
        }),
    case("oneway.two-objects", Libbinder("oneway order"))
        .expects("calls of two objects do not wait for each other")
        .with_pair(|manager, client| {
            let handles = [client.gives(0x1000, &manager)?, client.gives(0x2000, &manager)?];
            manager.oneway(handles[0], 1)?;
            manager.oneway(handles[1], 2)?;
            same("the code", client.receive_any(&[BR_TRANSACTION])?.data.code, 1)?;
            same("the code", client.receive()?.data.code, 2)
        }),
    case("oneway.does-not-hold-calls", Libbinder("oneway order"))
        .expects("a synchronous call does not wait for oneway calls")
        .by(|stage| {
            let (manager, client) = stage.pair()?;
            let other = stage.client()?;
            for code in 0..3 {
                client.oneway(0, code)?;
            }
            other.call(&Call::to(0, 9))?;
            same("the code", manager.receive_any(&[BR_TRANSACTION])?.data.code, 0)?;
            same("the code", manager.receive()?.data.code, 9)
        }),
    case("oneway.half", Driver("binder_alloc_new_buf_locked"))
        .expects("more than half of the buffer is BR_FAILED_REPLY")
        .with_pair(|_manager, client| client.fails(&oneway(MAPPED / 2 + 8), BR_FAILED_REPLY)),
    case("oneway.nearly-half", Driver("binder_alloc_new_buf_locked")).expects("nearly half fits").with_pair(
        |manager, client| {
            client.call(&oneway(MAPPED / 2 - 4096))?;
            manager.receive().map(drop)
        },
    ),
    case("oneway.leaves-room-for-calls", Libbinder("back-pressure"))
        .expects("synchronous calls fit when oneway calls do not")
        .with_pair(|manager, client| {
            flood(&client)?;
            client.call(&Call::to(0, 7).sized(MAPPED / 4))?;
            same("the code", manager.receive_any(&[BR_TRANSACTION])?.data.code, 1)?;
            same("the code", manager.receive()?.data.code, 7)
        }),
    case("oneway.room-comes-back", Libbinder("back-pressure"))
        .expects("calls fit again when buffers were given back")
        .with_pair(|manager, client| {
            let (count, _) = flood(&client)?;
            for _ in 0..count {
                let call = manager.receive()?;
                manager.free(&call)?;
            }
            let (again, _) = flood(&client)?;
            same("calls that fit", again, count)
        }),
    case("oneway.fails-in-order", Libbinder("back-pressure"))
        .expects("the sender is told at once that there is no space")
        .with_pair(|_manager, client| {
            let (count, _) = flood(&client)?;
            that((100..=128).contains(&count), format_args!("{count} calls of 4 KiB fit into half of 1 MiB"))
        }),
    case("spam.off", Header("BINDER_ENABLE_ONEWAY_SPAM_DETECTION"))
        .expects("nobody is told who did not ask")
        .with_pair(|_manager, client| {
            detect(&client, 0)?;
            same("BR_ONEWAY_SPAM_SUSPECT", flood(&client)?.1.len(), 0)
        }),
    case("spam.told", Libbinder("IPCThreadState::waitForResponse"))
        .expects("BR_ONEWAY_SPAM_SUSPECT in place of the completion")
        .with_pair(|_manager, client| {
            detect(&client, 1)?;
            that(!flood(&client)?.1.is_empty(), "a sender that fills the buffer is not told")
        }),
    case("spam.when", Driver("debug_low_async_space_locked"))
        .expects("when less than a fifth of the space for oneway calls is left")
        .with_pair(|_manager, client| {
            detect(&client, 1)?;
            let first = flood(&client)?.1.first().copied().unwrap_or_default();
            that((96..=106).contains(&first), format_args!("the first one told is call {first} of 4 KiB"))
        }),
    case("spam.once", Driver("binder_alloc_new_buf_locked"))
        .expects("once until there is room again")
        .with_pair(|_manager, client| {
            detect(&client, 1)?;
            same("BR_ONEWAY_SPAM_SUSPECT", flood(&client)?.1.len(), 1)
        }),
    case("spam.again", Driver("binder_free_buf_locked")).expects("told anew after there was room").with_pair(
        |manager, client| {
            detect(&client, 1)?;
            let (count, first) = flood(&client)?;
            for _ in 0..count {
                let call = manager.receive()?;
                manager.free(&call)?;
            }
            same("BR_ONEWAY_SPAM_SUSPECT then", flood(&client)?.1.len(), first.len())
        },
    ),
    case("spam.delivered", Header("BR_ONEWAY_SPAM_SUSPECT"))
        .expects("the call that it is told of is delivered")
        .with_pair(|manager, client| {
            detect(&client, 1)?;
            let (count, _) = flood(&client)?;
            for _ in 0..count {
                let call = manager.receive()?;
                manager.free(&call)?;
            }
            manager.expect_nothing()
        }),
];
