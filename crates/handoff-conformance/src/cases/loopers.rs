//! Threads that serve: entering, registering, leaving, and when a driver asks for one more.

use super::prelude::*;

fn max_threads(party: &Party, threads: u32) -> Check {
    errno(
        "BINDER_SET_MAX_THREADS",
        party.process.ioctl(BINDER_SET_MAX_THREADS, &mut threads.to_ne_bytes()),
        0,
    )
}

/// Runs something as another thread of the process.
fn elsewhere<T: Send>(what: impl FnOnce() -> Check<T> + Send) -> Check<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(what);
        thread.join().unwrap_or_else(|_| unexpected("a thread of the case panicked"))
    })
}

/// Has a call delivered, and answers it. Gives how often a further thread was asked for.
fn spawns(client: &Party, server: &Party) -> Check<usize> {
    client.call(&Call::to(0, 1))?;
    let found = server.returns()?;
    let asked = found.iter().filter(|one| one.number == BR_SPAWN_LOOPER).count();
    let Some(call) = found.iter().find(|one| one.number == BR_TRANSACTION) else {
        return unexpected("the call did not arrive");
    };
    server.free(&server.open_parcel(call)?)?;
    server.answer()?;
    server.returns()?;
    let reply = client.receive_reply()?;
    client.free(&reply)?;
    Ok(asked)
}

pub(super) const CASES: &[Case] = &[
    case("looper.enter", Libbinder("IPCThreadState::joinThreadPool"), "the thread is given calls", |stage| {
        let (manager, client) = stage.pair()?;
        client.works_with(&manager)
    }),
    case("looper.none", Driver("binder_thread_read"), "EAGAIN for a thread that never entered", |stage| {
        let party = stage.open()?;
        errno("mmap", party.process.map(MAPPED, false), 0)?;
        errno("a read", party.process.exchange(&Message::new(), ROOM).errno, libc::EAGAIN)
    }),
    case("looper.nothing-to-read", Driver("binder_thread_read"), "EAGAIN", |stage| {
        errno("a read", stage.client()?.process.exchange(&Message::new(), ROOM).errno, libc::EAGAIN)
    }),
    case(
        "looper.nothing-to-read.write-is-kept",
        Driver("binder_ioctl_write_read"),
        "what was written is consumed though the read is EAGAIN",
        |stage| {
            let message = Message::new().bare(BC_EXIT_LOOPER).bare(BC_ENTER_LOOPER);
            let exchange = stage.client()?.process.exchange(&message, ROOM);
            errno("an exchange", exchange.errno, libc::EAGAIN)?;
            same("what was consumed", exchange.written, 8)
        },
    ),
    case(
        "looper.spawn.none",
        Libbinder("setThreadPoolMaxThreadCount(0)"),
        "no thread is asked for with a limit of 0",
        |stage| {
            let (manager, client) = stage.pair()?;
            max_threads(&manager, 0)?;
            for _ in 0..3 {
                same("BR_SPAWN_LOOPER", spawns(&client, &manager)?, 0)?;
            }
            Ok(())
        },
    ),
    case(
        "looper.spawn.one",
        Libbinder("IPCThreadState::executeCommand"),
        "one is asked for while no other thread waits",
        |stage| {
            let (manager, client) = stage.pair()?;
            max_threads(&manager, 1)?;
            same("BR_SPAWN_LOOPER", spawns(&client, &manager)?, 1)
        },
    ),
    case("looper.spawn.once", Driver("binder_thread_read"), "not again before it has registered", |stage| {
        let (manager, client) = stage.pair()?;
        max_threads(&manager, 4)?;
        same("BR_SPAWN_LOOPER at first", spawns(&client, &manager)?, 1)?;
        same("BR_SPAWN_LOOPER then", spawns(&client, &manager)?, 0)
    }),
    case(
        "looper.spawn.next",
        Libbinder("IPCThreadState::joinThreadPool"),
        "again after it has registered",
        |stage| {
            let (manager, client) = stage.pair()?;
            max_threads(&manager, 2)?;
            same("BR_SPAWN_LOOPER at first", spawns(&client, &manager)?, 1)?;
            elsewhere(|| manager.send(Message::new().bare(BC_REGISTER_LOOPER)))?;
            same("BR_SPAWN_LOOPER then", spawns(&client, &manager)?, 1)
        },
    ),
    case("looper.spawn.limit", Header("BINDER_SET_MAX_THREADS"), "no more than the limit", |stage| {
        let (manager, client) = stage.pair()?;
        max_threads(&manager, 1)?;
        same("BR_SPAWN_LOOPER at first", spawns(&client, &manager)?, 1)?;
        elsewhere(|| manager.send(Message::new().bare(BC_REGISTER_LOOPER)))?;
        same("BR_SPAWN_LOOPER at the limit", spawns(&client, &manager)?, 0)
    }),
    case(
        "looper.spawn.first",
        Driver("binder_thread_read"),
        "BR_SPAWN_LOOPER takes the place of BR_NOOP",
        |stage| {
            let (manager, client) = stage.pair()?;
            max_threads(&manager, 1)?;
            client.call(&Call::to(0, 1))?;
            let read = manager.read_once(ROOM)?;
            same("the first return", read.first().map(|one| one.number), Some(BR_SPAWN_LOOPER))?;
            same("the number of returns", read.len(), 2)
        },
    ),
    case("looper.noop", Driver("binder_thread_read"), "a read begins with BR_NOOP", |stage| {
        let (manager, client) = stage.pair()?;
        client.call(&Call::to(0, 1))?;
        same("the first return", manager.read_once(ROOM)?.first().map(|one| one.number), Some(BR_NOOP))
    }),
    case("looper.register-unasked", Driver("binder_thread_write"), "is no error for the writer", |stage| {
        let party = stage.open()?;
        errno("mmap", party.process.map(MAPPED, false), 0)?;
        party.send(Message::new().bare(BC_REGISTER_LOOPER))
    }),
    case("looper.enter-and-register", Driver("binder_thread_write"), "is no error for the writer", |stage| {
        stage.client()?.send(Message::new().bare(BC_REGISTER_LOOPER))
    }),
    case("looper.exit", Header("BC_EXIT_LOOPER"), "is consumed", |stage| {
        stage.client()?.send(Message::new().bare(BC_EXIT_LOOPER))
    }),
    case(
        "looper.two-threads",
        Libbinder("the thread pool"),
        "a second thread serves while the first one does",
        |stage| {
            let (manager, client) = stage.pair()?;
            let other = stage.client()?;
            client.call(&Call::to(0, 1))?;
            manager.receive()?;
            other.call(&Call::to(0, 2))?;
            // The first one waits for what it is given, and is not given a second call.
            manager.expect_nothing()?;
            elsewhere(|| {
                manager.send(Message::new().bare(BC_ENTER_LOOPER))?;
                same("the code", manager.receive()?.data.code, 2)?;
                manager.answer()
            })?;
            other.receive_reply()?;
            manager.answer()?;
            client.receive_reply().map(drop)
        },
    ),
    case(
        "looper.reply-from-another-thread",
        Driver("binder_transaction"),
        "BR_FAILED_REPLY: it serves nothing",
        |stage| {
            let (manager, client) = stage.pair()?;
            client.call(&Call::to(0, 1))?;
            manager.receive()?;
            elsewhere(|| {
                manager.answer()?;
                manager.expect(&[BR_FAILED_REPLY]).map(drop)
            })?;
            manager.answer()?;
            client.receive_reply().map(drop)
        },
    ),
    case(
        "looper.thread-exit.serving",
        Libbinder("a thread that ends"),
        "its caller gets BR_DEAD_REPLY",
        |stage| {
            let (manager, client) = stage.pair()?;
            client.call(&Call::to(0, 1))?;
            manager.receive()?;
            errno("BINDER_THREAD_EXIT", manager.process.ioctl(BINDER_THREAD_EXIT, &mut [0; 4]), 0)?;
            client.wait_for(&[BR_TRANSACTION_COMPLETE, BR_DEAD_REPLY]).map(drop)
        },
    ),
    case(
        "looper.thread-exit.calling",
        Driver("binder_thread_release"),
        "its callee can still reply",
        |stage| {
            let (manager, client) = stage.pair()?;
            client.call(&Call::to(0, 1))?;
            manager.receive()?;
            errno("BINDER_THREAD_EXIT", client.process.ioctl(BINDER_THREAD_EXIT, &mut [0; 4]), 0)?;
            manager.answer()?;
            manager.expect(&[BR_TRANSACTION_COMPLETE])?;
            client.send(Message::new().bare(BC_ENTER_LOOPER))?;
            client.works_with(&manager)
        },
    ),
];
