//! Requests (`ioctl`) and what they answer to right and wrong arguments.

use super::prelude::*;

/// An address that no process may use.
const BAD: u64 = 8;

fn number(party: &Party, request: u32, value: u32) -> i32 {
    party.process.ioctl(request, &mut value.to_ne_bytes())
}

fn refuses_address(stage: &Stage<'_>, request: u32, expected: i32) -> Check {
    errno("a bad address", stage.open()?.process.ioctl_at(request, BAD), expected)
}

pub(super) const CASES: &[Case] = &[
    case("request.version", Header("BINDER_VERSION")).expects("protocol 8").by(|stage| {
        let mut version = [0; 4];
        errno("BINDER_VERSION", stage.open()?.process.ioctl(BINDER_VERSION, &mut version), 0)?;
        same("the version", i32::from_ne_bytes(version), PROTOCOL_VERSION)
    }),
    case("request.version.bad-address", Driver("binder_ioctl"))
        .expects("EINVAL")
        .by(|stage| refuses_address(stage, BINDER_VERSION, libc::EINVAL)),
    case("request.unknown", Driver("binder_ioctl")).expects("EINVAL").by(|stage| {
        errno("an unknown request", stage.open()?.process.ioctl(iow(b'b', 99, 4), &mut [0; 4]), libc::EINVAL)
    }),
    case("request.unknown-kind", Driver("binder_ioctl"))
        .expects("EINVAL for another driver's request")
        .by(|stage| errno("TCGETS", stage.open()?.process.ioctl(0x5401, &mut [0; 64]), libc::EINVAL)),
    case("request.idle-timeout", Driver("binder_ioctl")).expects("EINVAL: it was never made").by(|stage| {
        errno("BINDER_SET_IDLE_TIMEOUT", number(&stage.open()?, BINDER_SET_IDLE_TIMEOUT, 0), libc::EINVAL)
    }),
    case("request.idle-priority", Driver("binder_ioctl")).expects("EINVAL: it was never made").by(|stage| {
        errno("BINDER_SET_IDLE_PRIORITY", number(&stage.open()?, BINDER_SET_IDLE_PRIORITY, 0), libc::EINVAL)
    }),
    case("request.max-threads", Libbinder("ProcessState::setThreadPoolMaxThreadCount"))
        .expects("any number")
        .by(|stage| {
            let party = stage.open()?;
            for threads in [0, 1, 15, u32::MAX] {
                errno("BINDER_SET_MAX_THREADS", number(&party, BINDER_SET_MAX_THREADS, threads), 0)?;
            }
            Ok(())
        }),
    case("request.max-threads.bad-address", Driver("binder_ioctl"))
        .expects("EINVAL")
        .by(|stage| refuses_address(stage, BINDER_SET_MAX_THREADS, libc::EINVAL)),
    case("request.write-read.bad-address", Driver("binder_ioctl_write_read"))
        .expects("EFAULT")
        .by(|stage| refuses_address(stage, BINDER_WRITE_READ, libc::EFAULT)),
    case("request.write-read.nothing", Header("BINDER_WRITE_READ"))
        .expects("nothing is done, without an error")
        .by(|stage| {
            let exchange = stage.open()?.process.exchange(&Message::new(), 0);
            errno("an empty exchange", exchange.errno, 0)?;
            same("what was consumed", exchange.written, 0)
        }),
    case("request.write-read.32-bit", Header("binder_size_t"))
        .expects("the layout of protocol 7 is EINVAL")
        .by(|stage| {
            errno(
                "a structure of 24 bytes",
                stage.open()?.process.ioctl(iowr(b'b', 1, 24), &mut [0; 24]),
                libc::EINVAL,
            )
        }),
    case("request.write-read.bad-write-buffer", Driver("binder_thread_write"))
        .expects("EFAULT, nothing consumed")
        .by(|stage| {
            let mut both = [4, 0, BAD, 0, 0, 0].map(u64::to_ne_bytes).as_flattened().to_vec();
            errno("a write", stage.open()?.process.ioctl(BINDER_WRITE_READ, &mut both), libc::EFAULT)?;
            same("what was consumed", &both[8..16], &[0; 8])
        }),
    case("request.write-read.bad-read-buffer", Driver("binder_thread_read")).expects("EFAULT").by(|stage| {
        let mut both = [0, 0, 0, 256, 0, BAD].map(u64::to_ne_bytes).as_flattened().to_vec();
        errno("a read", stage.client()?.process.ioctl(BINDER_WRITE_READ, &mut both), libc::EFAULT)
    }),
    case("request.write-read.consumed-before", Driver("binder_ioctl_write_read"))
        .expects("a write goes on where it was")
        .by(|stage| {
            // Two commands in one buffer, of which the first was consumed before.
            let party = stage.client()?;
            let commands = [BC_EXIT_LOOPER, BC_ENTER_LOOPER].map(u32::to_ne_bytes);
            let at = commands.as_ptr().addr() as u64;
            let mut both = [8, 4, at, 0, 0, 0].map(u64::to_ne_bytes).as_flattened().to_vec();
            if stage.device.pid() != std::process::id() {
                return not_here("the driver does not read this process's memory");
            }
            errno("a write", party.process.ioctl(BINDER_WRITE_READ, &mut both), 0)?;
            same("what was consumed", &both[8..16], &8u64.to_ne_bytes())
        }),
    case("request.manager", Header("BINDER_SET_CONTEXT_MGR")).expects("the first one is taken").by(|stage| {
        let party = stage.client()?;
        party.become_manager(MANAGER_FLAGS)
    }),
    case("request.manager.plain", Header("BINDER_SET_CONTEXT_MGR")).expects("works without flags, too").by(
        |stage| {
            // Whoever was the manager before may be about to be released.
            drop(stage.manager()?);
            let party = stage.open_manager()?.ready(MAPPED)?;
            for _ in 0..5000 {
                match number(&party, BINDER_SET_CONTEXT_MGR, 0) {
                    libc::EBUSY => std::thread::sleep(std::time::Duration::from_millis(2)),
                    other => {
                        errno("BINDER_SET_CONTEXT_MGR", other, 0)?;
                        return stage.client()?.works_with(&party);
                    }
                }
            }
            unexpected("EBUSY for ever")
        },
    ),
    case("request.manager.second", Libbinder("ProcessState::becomeContextManager"))
        .expects("EBUSY")
        .with_pair(|_manager, other| {
            errno("a second manager", number(&other, BINDER_SET_CONTEXT_MGR, 0), libc::EBUSY)
        }),
    case("request.manager.second.flags", Libbinder("ProcessState::becomeContextManager"))
        .expects("EBUSY for one that gives flags, too")
        .with_pair(|_manager, other| {
            let flat = Parcel::default().binder_flags(0, 0, MANAGER_FLAGS);
            let error = other.process.ioctl(BINDER_SET_CONTEXT_MGR_EXT, &mut flat.as_bytes().to_vec());
            errno("a second manager", error, libc::EBUSY)
        }),
    case("request.manager.again", Driver("binder_ioctl_set_ctx_mgr"))
        .expects("EBUSY for the manager itself")
        .by(|stage| {
            let manager = stage.manager()?;
            errno("the same again", number(&manager, BINDER_SET_CONTEXT_MGR, 0), libc::EBUSY)
        }),
    case("request.manager.after-death", Libbinder("servicemanager restarts"))
        .expects("the next one is taken")
        .by(|stage| {
            drop(stage.manager()?);
            let (manager, client) = stage.pair()?;
            client.works_with(&manager)
        }),
    case("request.manager.bad-address", Driver("binder_ioctl"))
        .expects("EINVAL")
        .by(|stage| refuses_address(stage, BINDER_SET_CONTEXT_MGR_EXT, libc::EINVAL)),
    case("request.manager.none", Libbinder("ProcessState::getContextObject"))
        .expects("a call to 0 is BR_DEAD_REPLY")
        .by(|stage| {
            // A manager is released in the driver's own time: take its place, and leave it for sure.
            drop(stage.manager()?);
            let client = stage.client()?;
            for _ in 0..5000 {
                client.call(&Call::to(0, 1))?;
                let found = client.returns()?;
                match found.last().map(|one| one.number) {
                    Some(BR_DEAD_REPLY) => return Ok(()),
                    // The manager was not gone yet, and is released with the call in its queue.
                    None => client.wait_for(&[BR_TRANSACTION_COMPLETE, BR_DEAD_REPLY]).map(drop)?,
                    // Seen with the driver in Rust, one time in twenty, while the manager is released.
                    Some(BR_FAILED_REPLY) => std::thread::sleep(std::time::Duration::from_millis(1)),
                    Some(_) => return unexpected(format!("{}", found[found.len() - 1])),
                }
            }
            unexpected("a call to nobody is never refused as one to nobody")
        }),
    case("request.thread-exit", Libbinder("IPCThreadState::stopProcess"))
        .expects("the thread may come again")
        .with_pair(|manager, client| {
            client.works_with(&manager)?;
            errno("BINDER_THREAD_EXIT", number(&client, BINDER_THREAD_EXIT, 0), 0)?;
            client.works_with(&manager)
        }),
    case("request.spam-detection", Header("BINDER_ENABLE_ONEWAY_SPAM_DETECTION")).expects("on and off").by(
        |stage| {
            let party = stage.open()?;
            for enable in [1, 0, 1] {
                errno(
                    "BINDER_ENABLE_ONEWAY_SPAM_DETECTION",
                    number(&party, BINDER_ENABLE_ONEWAY_SPAM_DETECTION, enable),
                    0,
                )?;
            }
            Ok(())
        },
    ),
    case("request.spam-detection.bad-address", Driver("binder_ioctl"))
        .expects("EFAULT")
        .by(|stage| refuses_address(stage, BINDER_ENABLE_ONEWAY_SPAM_DETECTION, libc::EFAULT)),
    case("request.freeze.bad-address", Driver("binder_ioctl"))
        .expects("EFAULT")
        .by(|stage| refuses_address(stage, BINDER_FREEZE, libc::EFAULT)),
    case("request.frozen-info.bad-address", Driver("binder_ioctl"))
        .expects("EFAULT")
        .by(|stage| refuses_address(stage, BINDER_GET_FROZEN_INFO, libc::EFAULT)),
    case("request.extended-error.bad-address", Driver("binder_ioctl")).expects("EFAULT").by(|stage| {
        stage.open()?.extended_error()?;
        refuses_address(stage, BINDER_GET_EXTENDED_ERROR, libc::EFAULT)
    }),
    case("request.node-debug-info.none", Header("BINDER_GET_NODE_DEBUG_INFO"))
        .expects("zeros without nodes")
        .by(|stage| {
            let mut info = [0; 24];
            errno(
                "BINDER_GET_NODE_DEBUG_INFO",
                stage.client()?.process.ioctl(BINDER_GET_NODE_DEBUG_INFO, &mut info),
                0,
            )?;
            same("the information", info, [0; 24])
        }),
    case("request.node-debug-info", Libbinder("ProcessState::getKernelReferences"))
        .expects("every node, then zeros")
        .with_pair(|manager, client| {
            client.gives(0x1000, &manager)?;
            client.gives(0x2000, &manager)?;
            let mut info = [0; 24];
            for expected in [0x1000u64, 0x2000, 0] {
                errno(
                    "BINDER_GET_NODE_DEBUG_INFO",
                    client.process.ioctl(BINDER_GET_NODE_DEBUG_INFO, &mut info),
                    0,
                )?;
                same("the node", &info[..8], &expected.to_ne_bytes())?;
                let cookie = if expected == 0 { 0 } else { expected + 1 };
                same("its cookie", &info[8..16], &cookie.to_ne_bytes())?;
            }
            Ok(())
        }),
    case("request.node-debug-info.refs", Header("binder_node_debug_info"))
        .expects("strong and weak references are told")
        .with_pair(|manager, client| {
            client.gives(0x1000, &manager)?;
            let mut info = [0; 24];
            errno(
                "BINDER_GET_NODE_DEBUG_INFO",
                client.process.ioctl(BINDER_GET_NODE_DEBUG_INFO, &mut info),
                0,
            )?;
            same(
                "has_strong_ref and has_weak_ref",
                &info[16..],
                [1u32, 1].map(u32::to_ne_bytes).as_flattened(),
            )
        }),
    case("request.node-info-for-ref", Libbinder("ProcessState::getStrongRefCountForNode"))
        .expects("the manager is told how many")
        .with_pair(|manager, client| {
            let handle = client.gives(0x1000, &manager)?;
            let mut info = [handle, 0, 0, 0, 0, 0].map(u32::to_ne_bytes).as_flattened().to_vec();
            errno(
                "BINDER_GET_NODE_INFO_FOR_REF",
                manager.process.ioctl(BINDER_GET_NODE_INFO_FOR_REF, &mut info),
                0,
            )?;
            let strong = u32::from_ne_bytes([info[4], info[5], info[6], info[7]]);
            that(strong >= 1, format_args!("{strong} strong references are told of a node that has one"))
        }),
    case("request.node-info-for-ref.of-others", Driver("binder_ioctl_get_node_info_for_ref"))
        .expects("EPERM for who is no manager")
        .with_pair(|_manager, client| {
            errno(
                "BINDER_GET_NODE_INFO_FOR_REF",
                client.process.ioctl(BINDER_GET_NODE_INFO_FOR_REF, &mut [0; 24]),
                libc::EPERM,
            )
        }),
    case("request.node-info-for-ref.unknown", Driver("binder_ioctl_get_node_info_for_ref"))
        .expects("EINVAL")
        .by(|stage| {
            let manager = stage.manager()?;
            let mut info = [99u32, 0, 0, 0, 0, 0].map(u32::to_ne_bytes).as_flattened().to_vec();
            errno(
                "an unknown handle",
                manager.process.ioctl(BINDER_GET_NODE_INFO_FOR_REF, &mut info),
                libc::EINVAL,
            )
        }),
    case("request.node-info-for-ref.reserved", Driver("binder_ioctl_get_node_info_for_ref"))
        .expects("EINVAL if what is reserved is set")
        .with_pair(|manager, client| {
            let handle = client.gives(0x1000, &manager)?;
            let mut info = [handle, 0, 0, 1, 0, 0].map(u32::to_ne_bytes).as_flattened().to_vec();
            errno("reserved1", manager.process.ioctl(BINDER_GET_NODE_INFO_FOR_REF, &mut info), libc::EINVAL)
        }),
    case("request.open-twice", Driver("binder_open")).expects("each opening is a process of its own").by(
        |stage| {
            let (manager, first) = stage.pair()?;
            let second = stage.client()?;
            first.works_with(&manager)?;
            second.works_with(&manager)
        },
    ),
];
