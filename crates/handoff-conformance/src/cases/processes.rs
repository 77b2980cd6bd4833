//! Processes, contexts, waiting and polling.

use std::time::Duration;

use super::prelude::*;

/// Long for what comes at once, even on an emulated CPU.
pub(super) const LONG: Duration = Duration::from_secs(20);
/// Long enough to see that nothing comes.
pub(super) const SHORT: Duration = Duration::from_millis(200);

/// The stage of another context.
fn other_context<'a>(stage: &Stage<'a>) -> Check<Stage<'a>> {
    if stage.device.contexts() < 2 {
        return not_here("there is one device: name a second one, or make it in a binderfs");
    }
    Ok(Stage { device: stage.device, context: 1, managers: stage.managers })
}

pub(super) const CASES: &[Case] = &[
    case("process.call", Libbinder("IPC")).expects("two processes call each other").by(|stage| {
        let manager = stage.manager()?;
        let peer = stage.peer()?;
        let client = stage.client_of(&*peer, false)?;
        client.works_with(&manager)
    }),
    case("process.sender-pid", Libbinder("IPCThreadState::getCallingPid"))
        .expects("the other process's number")
        .by(|stage| {
            let manager = stage.manager()?;
            let peer = stage.peer()?;
            let client = stage.client_of(&*peer, false)?;
            client.call(&Call::to(0, 1))?;
            same("sender_pid", manager.receive()?.data.sender_pid, peer.pid() as i32)
        }),
    case("process.bytes", Header("binder_transaction_data"))
        .expects("64 KiB from one process to another")
        .by(|stage| {
            let manager = stage.manager()?;
            let peer = stage.peer()?;
            let client = stage.client_of(&*peer, false)?;
            let bytes: Vec<u8> = (0..65536u32).map(|index| (index % 253) as u8).collect();
            client.call(&Call::to(0, 1).with(Parcel::bytes(&bytes)))?;
            that(manager.receive()?.bytes == bytes, "other bytes arrived")
        }),
    case("inherited.request", Driver("binder_ioctl"))
        .expects("a process that inherited an opening may ask the version")
        .by(|stage| {
            let party = stage.client()?;
            let heir = party.process.inherited().or_else(not_here)?;
            errno("BINDER_VERSION", heir.ioctl(BINDER_VERSION, &mut [0; 4]), 0)
        }),
    case("inherited.mapping", Libbinder("VM_DONTCOPY")).expects("the mapping is not inherited").by(|stage| {
        let party = stage.client()?;
        let at = party.process.mapping();
        let heir = party.process.inherited().or_else(not_here)?;
        let shared = heir.memory(at, 1).is_some() && heir.mapping() == at;
        that(!shared, "a child has its parent's mapping")
    }),
    case("inherited.keeps-alive", Driver("binder_release"))
        .expects("an opening lives until its last holder closes it")
        .with_pair(|manager, client| {
            let handle = client.gives(0x1000, &manager)?;
            manager.send(Message::new().handle_cookie(BC_REQUEST_DEATH_NOTIFICATION, handle, 5))?;
            let heir = client.process.inherited().or_else(not_here)?;
            client.process.unmap();
            drop(client);
            manager.expect_nothing()?;
            drop(heir);
            manager.wait_for(&[BR_DEAD_BINDER]).map(drop)
        }),
    case("waits.for-call", Libbinder("IPCThreadState::talkWithDriver"))
        .expects("a read waits until a call comes")
        .by(|stage| {
            let manager = stage.manager()?;
            let peer = stage.peer()?;
            let server = stage.client_of(&*peer, true)?;
            // A blocking opening cannot be asked for what may not be there: its object is sent in a oneway call.
            server.call(&Call::to(0, 1).flags(TF_ONE_WAY).with(Parcel::default().binder(0x1000, 1)))?;
            let call = manager.receive()?;
            let handle = call.handle(0)?;
            manager.send(Message::new().word(BC_ACQUIRE, handle))?;
            server.read_once(ROOM)?;
            server.process.start_exchange(&Message::new(), ROOM);
            that(server.process.finish_exchange(SHORT).is_none(), "a read of nothing came back")?;
            manager.oneway(handle, 9)?;
            let Some(exchange) = server.process.finish_exchange(LONG) else {
                return unexpected("a call did not wake the read");
            };
            let returns = crate::returns::Return::all(&exchange.read).unwrap_or_default();
            let code =
                returns.iter().filter_map(crate::returns::Return::transaction).map(|call| call.code).next();
            same("the code", code, Some(9))
        }),
    case("waits.for-reply", Libbinder("IPCThreadState::waitForResponse"))
        .expects("a caller waits until its reply comes")
        .by(|stage| {
            let manager = stage.manager()?;
            let peer = stage.peer()?;
            let client = stage.client_of(&*peer, true)?;
            client.process.start_exchange(&Message::new().call(&Call::to(0, 1)), ROOM);
            let call = manager.wait_for(&[BR_TRANSACTION])?;
            that(client.process.finish_exchange(SHORT).is_none(), "a caller came back without a reply")?;
            manager.free(&manager.open_parcel(&call[0])?)?;
            manager.answer()?;
            let Some(exchange) = client.process.finish_exchange(LONG) else {
                return unexpected("the reply did not wake its caller");
            };
            let returns = crate::returns::Return::all(&exchange.read).unwrap_or_default();
            same("the last return", returns.last().map(|one| one.number), Some(BR_REPLY))
        }),
    case("waits.death", Libbinder("DEAD_OBJECT"))
        .expects("a caller that waits is woken when its server dies")
        .by(|stage| {
            let manager = stage.manager()?;
            let peer = stage.peer()?;
            let client = stage.client_of(&*peer, true)?;
            client.process.start_exchange(&Message::new().call(&Call::to(0, 1)), ROOM);
            manager.wait_for(&[BR_TRANSACTION])?;
            drop(manager);
            let Some(exchange) = client.process.finish_exchange(LONG) else {
                return unexpected("a death did not wake the caller");
            };
            let returns = crate::returns::Return::all(&exchange.read).unwrap_or_default();
            same("the last return", returns.last().map(|one| one.number), Some(BR_DEAD_REPLY))
        }),
    case("poll.nothing", Libbinder("ProcessState's looper users"))
        .expects("not readable without work")
        .by(|stage| that(!stage.client()?.process.is_readable(), "readable without work")),
    case("poll.call", Libbinder("servicemanager's Looper")).expects("readable when a call came").with_pair(
        |manager, client| {
            that(!manager.process.is_readable(), "readable without work")?;
            client.call(&Call::to(0, 1))?;
            that(manager.process.is_readable(), "not readable with a call")
        },
    ),
    case("poll.read", Libbinder("servicemanager's Looper"))
        .expects("not readable any more when it was read")
        .with_pair(|manager, client| {
            client.oneway(0, 1)?;
            that(manager.process.is_readable(), "not readable with a call")?;
            manager.receive()?;
            that(!manager.process.is_readable(), "readable without work")
        }),
    case("poll.reply", Libbinder("BINDER_WRITE_READ")).expects("readable when the reply came").with_call(
        |manager, client, _| {
            manager.answer()?;
            that(client.process.is_readable(), "not readable with a reply")
        },
    ),
    case("poll.dead", Libbinder("servicemanager's Looper"))
        .expects("readable with a notice of death")
        .with_pair(|manager, client| {
            let handle = client.gives(0x1000, &manager)?;
            manager.send(Message::new().handle_cookie(BC_REQUEST_DEATH_NOTIFICATION, handle, 5))?;
            drop(client);
            for _ in 0..5000 {
                if manager.process.is_readable() {
                    return manager.expect(&[BR_DEAD_BINDER]).map(drop);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            unexpected("not readable with a notice of death")
        }),
    case("context.own-manager", Header("binderfs")).expects("each context has a manager of its own").by(
        |stage| {
            let other = other_context(stage)?;
            let (first, client) = stage.pair()?;
            let (second, other_client) = other.pair()?;
            client.works_with(&first)?;
            other_client.works_with(&second)
        },
    ),
    case("context.apart", Header("binderfs")).expects("a call reaches its own context alone").by(|stage| {
        let other = other_context(stage)?;
        let (first, client) = stage.pair()?;
        let second = other.manager()?;
        client.call(&Call::to(0, 1))?;
        second.expect_nothing()?;
        first.receive().map(drop)
    }),
    case("context.handles", Header("binderfs")).expects("handles of one context are nothing in another").by(
        |stage| {
            let other = other_context(stage)?;
            let (first, client) = stage.pair()?;
            let handle = client.gives(0x1000, &first)?;
            other.manager()?.fails(&Call::to(handle, 1), BR_FAILED_REPLY)
        },
    ),
    case("context.death", Header("binderfs")).expects("a manager's death is nothing to another context").by(
        |stage| {
            let other = other_context(stage)?;
            let first = stage.manager()?;
            let (second, client) = other.pair()?;
            drop(first);
            client.works_with(&second)
        },
    ),
];
