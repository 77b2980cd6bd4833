//! Reading: how much room returns need, and what comes with a call.

use super::prelude::*;

pub(super) const CASES: &[Case] = &[
    case("read.no-room", Driver("binder_thread_read")).expects("what does not fit stays").with_pair(
        |manager, client| {
            client.call(&Call::to(0, 1))?;
            let read = manager.read_once(32)?;
            that(read.iter().all(|one| one.number == BR_NOOP), "a call was cut")?;
            manager.receive().map(drop)
        },
    ),
    case("read.room-for-one", Driver("binder_thread_read"))
        .expects("80 bytes are room for a call: its own 72 with a security context, and two numbers")
        .with_pair(|manager, client| {
            client.call(&Call::to(0, 1))?;
            let read: Vec<u32> = manager.read_once(80)?.iter().map(|one| one.number).collect();
            same("the read", read, vec![BR_NOOP, BR_TRANSACTION])
        }),
    case("read.with-write", Libbinder("IPCThreadState::talkWithDriver"))
        .expects("writes come before the read")
        .with_pair(|manager, client| {
            let exchange =
                client.process.exchange(&Message::new().call(&Call::to(0, 1).flags(TF_ONE_WAY)), ROOM);
            errno("the exchange", exchange.errno, 0)?;
            let returns = crate::returns::Return::all(&exchange.read).unwrap_or_default();
            let numbers: Vec<u32> = returns.iter().map(|one| one.number).collect();
            same("the read", numbers, vec![BR_NOOP, BR_TRANSACTION_COMPLETE])?;
            manager.receive().map(drop)
        }),
    case("security-context", Header("FLAT_BINDER_FLAG_TXN_SECURITY_CTX"))
        .expects("BR_TRANSACTION_SEC_CTX with a text")
        .by(|stage| {
            if !stage.device.has_security_contexts() {
                return not_here("no security module gives processes contexts: boot with security=selinux");
            }
            let manager = stage.manager_with(MANAGER_FLAGS | FLAG_SECURITY_CONTEXT, MAPPED)?;
            let client = stage.client()?;
            client.call(&Call::to(0, 1))?;
            let found = manager.expect(&[BR_TRANSACTION_SEC_CTX])?;
            let text = manager.process.memory(found[0].long(8), 1);
            that(text.is_some_and(|text| text != [0]), "the context is empty")
        }),
];
