//! The mapping that a driver delivers parcels into.

use super::prelude::*;

pub(super) const CASES: &[Case] = &[
    case("mmap.read-only", Libbinder("ProcessState::ProcessState"))
        .expects("1 MiB less two pages")
        .by(|stage| errno("mmap", stage.open()?.process.map((1 << 20) - 8192, false), 0)),
    case("mmap.writable", Driver("binder_mmap"))
        .expects("EPERM")
        .by(|stage| errno("mmap", stage.open()?.process.map(MAPPED, true), libc::EPERM)),
    case("mmap.made-writable", Driver("binder_mmap")).expects("mprotect gives EACCES").by(|stage| {
        let party = stage.client()?;
        errno("mprotect", party.process.make_writable(), libc::EACCES)
    }),
    case("mmap.second", Driver("binder_alloc_mmap_handler")).expects("EBUSY").by(|stage| {
        let party = stage.client()?;
        errno("a second mmap", party.process.map(MAPPED, false), libc::EBUSY)
    }),
    case("mmap.again", Driver("binder_alloc_mmap_handler")).expects("EBUSY after munmap").by(|stage| {
        let party = stage.client()?;
        party.process.unmap();
        errno("mmap after munmap", party.process.map(MAPPED, false), libc::EBUSY)
    }),
    case("mmap.one-page", Driver("binder_mmap")).expects("a page is enough for a small call").by(|stage| {
        let manager = stage.manager_with(MANAGER_FLAGS, 4096)?;
        stage.client()?.works_with(&manager)
    }),
    case("mmap.most", Driver("binder_alloc_mmap_handler")).expects("no more than 4 MiB are used of 16").by(
        |stage| {
            let manager = stage.manager_with(MANAGER_FLAGS, 16 << 20)?;
            let client = stage.client()?;
            client.fails(&Call::to(0, 1).sized((4 << 20) + 8), BR_FAILED_REPLY)?;
            client.call(&Call::to(0, 2).sized((4 << 20) - 4096))?;
            same("the code", manager.receive()?.data.code, 2)
        },
    ),
    case("mmap.none.callee", Driver("binder_alloc_new_buf")).expects("a call to it fails").by(|stage| {
        let manager = stage.open_manager()?;
        manager.become_manager(MANAGER_FLAGS)?;
        let client = stage.client()?;
        fails_or_is_dead(&client)
    }),
    case("mmap.none.callee.return", Driver("binder_transaction"))
        .expects("BR_DEAD_REPLY, as of one that is dead")
        .by(|stage| {
            let manager = stage.open_manager()?;
            manager.become_manager(MANAGER_FLAGS)?;
            stage.client()?.fails(&Call::to(0, 1), BR_DEAD_REPLY)
        }),
    case("mmap.none.caller", Driver("binder_alloc_new_buf")).expects("its reply does not arrive").by(
        |stage| {
            let manager = stage.manager()?;
            let client = stage.open()?;
            client.send(Message::new().bare(BC_ENTER_LOOPER))?;
            client.call(&Call::to(0, 1))?;
            manager.receive()?;
            manager.answer_whole()?;
            let found = client.returns()?;
            let last = found.last().map(|one| one.number);
            that(
                matches!(last, Some(BR_FAILED_REPLY | BR_DEAD_REPLY)),
                format_args!("the last of {} is no failure", found.len()),
            )
        },
    ),
    case("mmap.gone", Driver("binder_vma_close")).expects("a call to it fails after munmap").with_pair(
        |manager, client| {
            manager.process.unmap();
            fails_or_is_dead(&client)
        },
    ),
    case("mmap.gone.used", Driver("binder_vma_close"))
        .expects("also where memory of it was used before")
        .with_pair(|manager, client| {
            client.works_with(&manager)?;
            manager.process.unmap();
            fails_or_is_dead(&client)
        }),
    case("mmap.delivered-inside", Header("binder_transaction_data"))
        .expects("parcels lie inside of the mapping")
        .with_pair(|manager, client| {
            client.call(&Call::to(0, 1).sized(5000))?;
            let call = manager.receive()?;
            let start = manager.process.mapping();
            that(
                (start..=start + MAPPED as u64 - 5000).contains(&call.data.buffer),
                format_args!("{:#x} is outside of the mapping at {start:#x}", call.data.buffer),
            )
        }),
    case("mmap.by-another", Driver("binder_mmap"))
        .expects("EINVAL in a process that inherited the opening")
        .by(|stage| {
            let party = stage.open()?;
            let heir = party.process.inherited().or_else(not_here)?;
            errno("mmap", heir.map(MAPPED, false), libc::EINVAL)
        }),
];

/// A call to the manager ends in one of the two failures that a sender may read.
fn fails_or_is_dead(client: &Party) -> Check {
    client.call(&Call::to(0, 1))?;
    let numbers: Vec<u32> = client.returns()?.iter().map(|one| one.number).collect();
    that(
        numbers == [BR_DEAD_REPLY] || numbers == [BR_FAILED_REPLY],
        format_args!("read {}", crate::returns::names_of(&numbers)),
    )
}
