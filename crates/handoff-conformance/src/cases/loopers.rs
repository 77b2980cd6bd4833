//! Threads that serve: entering, registering, leaving, and when a driver asks for one more.

use super::prelude::*;

fn max_threads(party: &Party, threads: u32) -> Check {
    errno(
        "BINDER_SET_MAX_THREADS",
        party.process.ioctl(BINDER_SET_MAX_THREADS, &mut threads.to_ne_bytes()),
        0,
    )
}

/// A manager that keeps all alive, a server of this process, and a client that holds its object by a handle.
struct Pool {
    manager: Party,
    /// The manager's handle of the object.
    given: u32,
    server: Party,
    client: Party,
    handle: u32,
}

fn pool(stage: &Stage<'_>) -> Check<Pool> {
    let (manager, server) = stage.pair()?;
    let client = stage.client()?;
    let given = server.gives(0x1000, &manager)?;
    let handle = client.takes(given, &manager)?;
    Ok(Pool { manager, given, server, client, handle })
}

/// Runs something as another thread of the process.
fn elsewhere<T: Send>(what: impl FnOnce() -> Check<T> + Send) -> Check<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(what);
        thread.join().unwrap_or_else(|_| unexpected("a thread of the case panicked"))
    })
}

/// Has a call delivered, and answers it. Gives how often a further thread was asked for.
fn spawns(pool: &Pool) -> Check<usize> {
    let Pool { server, client, handle, .. } = pool;
    client.call(&Call::to(*handle, 1))?;
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
    case("looper.enter", Libbinder("IPCThreadState::joinThreadPool"))
        .expects("the thread is given calls")
        .with_pair(|manager, client| client.works_with(&manager)),
    case("looper.none", Driver("binder_thread_read")).expects("EAGAIN for a thread that never entered").by(
        |stage| {
            let party = stage.open()?;
            errno("mmap", party.process.map(MAPPED, false), 0)?;
            // A thread that the driver meets for the first time is not made to wait.
            party.write(&Message::new());
            errno("a read", party.process.exchange(&Message::new(), ROOM).errno, libc::EAGAIN)
        },
    ),
    case("looper.first-read", Driver("binder_has_work_ilocked"))
        .expects("a thread that is new to the driver does not wait in its first exchange")
        .by(|stage| {
            let exchange = stage.open()?.process.exchange(&Message::new(), ROOM);
            errno("the read", exchange.errno, 0)?;
            that(exchange.read == BR_NOOP.to_ne_bytes(), "it brought more than BR_NOOP")
        }),
    case("looper.nothing-to-read", Driver("binder_thread_read")).expects("EAGAIN").by(|stage| {
        errno("a read", stage.client()?.process.exchange(&Message::new(), ROOM).errno, libc::EAGAIN)
    }),
    case("looper.nothing-to-read.write-is-kept", Driver("binder_ioctl_write_read"))
        .expects("what was written is consumed though the read is EAGAIN")
        .by(|stage| {
            let message = Message::new().bare(BC_EXIT_LOOPER).bare(BC_ENTER_LOOPER);
            let exchange = stage.client()?.process.exchange(&message, ROOM);
            errno("an exchange", exchange.errno, libc::EAGAIN)?;
            same("what was consumed", exchange.written, 8)
        }),
    case("looper.spawn.none", Libbinder("setThreadPoolMaxThreadCount(0)"))
        .expects("no thread is asked for with a limit of 0")
        .by(|stage| {
            let pool = pool(stage)?;
            let server = &pool.server;
            max_threads(server, 0)?;
            for _ in 0..3 {
                same("BR_SPAWN_LOOPER", spawns(&pool)?, 0)?;
            }
            Ok(())
        }),
    case("looper.spawn.one", Libbinder("IPCThreadState::executeCommand"))
        .expects("one is asked for while no other thread waits")
        .by(|stage| {
            let pool = pool(stage)?;
            let server = &pool.server;
            max_threads(server, 1)?;
            same("BR_SPAWN_LOOPER", spawns(&pool)?, 1)
        }),
    case("looper.spawn.once", Driver("binder_thread_read")).expects("not again before it has registered").by(
        |stage| {
            let pool = pool(stage)?;
            let server = &pool.server;
            max_threads(server, 4)?;
            same("BR_SPAWN_LOOPER at first", spawns(&pool)?, 1)?;
            same("BR_SPAWN_LOOPER then", spawns(&pool)?, 0)
        },
    ),
    case("looper.spawn.next", Libbinder("IPCThreadState::joinThreadPool"))
        .expects("again after it has registered")
        .by(|stage| {
            let pool = pool(stage)?;
            let server = &pool.server;
            max_threads(server, 2)?;
            same("BR_SPAWN_LOOPER at first", spawns(&pool)?, 1)?;
            elsewhere(|| server.send(Message::new().bare(BC_REGISTER_LOOPER)))?;
            same("BR_SPAWN_LOOPER then", spawns(&pool)?, 1)
        }),
    case("looper.spawn.limit", Header("BINDER_SET_MAX_THREADS")).expects("no more than the limit").by(
        |stage| {
            let pool = pool(stage)?;
            let server = &pool.server;
            max_threads(server, 1)?;
            same("BR_SPAWN_LOOPER at first", spawns(&pool)?, 1)?;
            elsewhere(|| server.send(Message::new().bare(BC_REGISTER_LOOPER)))?;
            same("BR_SPAWN_LOOPER at the limit", spawns(&pool)?, 0)
        },
    ),
    case("looper.spawn.first", Driver("binder_thread_read"))
        .expects("BR_SPAWN_LOOPER takes the place of BR_NOOP")
        .by(|stage| {
            let pool = pool(stage)?;
            let Pool { server, client, handle, .. } = &pool;
            max_threads(server, 1)?;
            client.call(&Call::to(*handle, 1))?;
            let read = server.read_once(ROOM)?;
            same("the first return", read.first().map(|one| one.number), Some(BR_SPAWN_LOOPER))?;
            same("the number of returns", read.len(), 2)
        }),
    case("looper.noop", Driver("binder_thread_read")).expects("a read begins with BR_NOOP").with_pair(
        |manager, client| {
            client.call(&Call::to(0, 1))?;
            same("the first return", manager.read_once(ROOM)?.first().map(|one| one.number), Some(BR_NOOP))
        },
    ),
    case("looper.register-unasked", Driver("binder_thread_write")).expects("is no error for the writer").by(
        |stage| {
            let party = stage.open()?;
            errno("mmap", party.process.map(MAPPED, false), 0)?;
            party.send(Message::new().bare(BC_REGISTER_LOOPER))
        },
    ),
    case("looper.enter-and-register", Driver("binder_thread_write"))
        .expects("is no error for the writer")
        .by(|stage| stage.client()?.send(Message::new().bare(BC_REGISTER_LOOPER))),
    case("looper.exit", Header("BC_EXIT_LOOPER"))
        .expects("is consumed")
        .by(|stage| stage.client()?.send(Message::new().bare(BC_EXIT_LOOPER))),
    case("looper.two-threads", Libbinder("the thread pool"))
        .expects("a second thread serves while the first one does")
        .by(|stage| {
            let pool = pool(stage)?;
            let Pool { server, client, handle, .. } = &pool;
            let other = stage.client()?;
            let own = other.takes(pool.given, &pool.manager)?;
            client.call(&Call::to(*handle, 1))?;
            server.receive()?;
            other.call(&Call::to(own, 2))?;
            // The first one waits for what it is given, and is not given a second call.
            server.expect_nothing()?;
            elsewhere(|| {
                server.send(Message::new().bare(BC_ENTER_LOOPER))?;
                same("the code", server.receive()?.data.code, 2)?;
                server.answer()
            })?;
            other.receive_reply()?;
            server.answer()?;
            client.receive_reply().map(drop)
        }),
    case("looper.reply-from-another-thread", Driver("binder_transaction"))
        .expects("BR_FAILED_REPLY: it serves nothing")
        .by(|stage| {
            let pool = pool(stage)?;
            let Pool { server, client, handle, .. } = &pool;
            client.call(&Call::to(*handle, 1))?;
            server.receive()?;
            elsewhere(|| {
                server.answer()?;
                server.expect(&[BR_FAILED_REPLY]).map(drop)
            })?;
            server.answer()?;
            client.receive_reply().map(drop)
        }),
    case("looper.thread-exit.serving", Libbinder("a thread that ends"))
        .expects("its caller gets BR_DEAD_REPLY")
        .by(|stage| {
            let pool = pool(stage)?;
            let Pool { server, client, handle, .. } = &pool;
            client.call(&Call::to(*handle, 1))?;
            server.receive()?;
            errno("BINDER_THREAD_EXIT", server.process.ioctl(BINDER_THREAD_EXIT, &mut [0; 4]), 0)?;
            client.wait_for(&[BR_TRANSACTION_COMPLETE, BR_DEAD_REPLY]).map(drop)
        }),
    case("looper.thread-exit.calling", Driver("binder_thread_release"))
        .expects("its callee can still reply")
        .by(|stage| {
            let pool = pool(stage)?;
            let Pool { server, client, handle, .. } = &pool;
            client.call(&Call::to(*handle, 1))?;
            server.receive()?;
            errno("BINDER_THREAD_EXIT", client.process.ioctl(BINDER_THREAD_EXIT, &mut [0; 4]), 0)?;
            server.answer_whole()?;
            client.send(Message::new().bare(BC_ENTER_LOOPER))?;
            client.works_with(&pool.manager)
        }),
];
