//! What wakes the daemon: births and names of processes, hot-plug, power, pressure.
//!
//! Each source is a file descriptor that the kernel makes readable, so that nothing is polled. A source
//! that this kernel or this user does not have is left out, and the daemon looks around now and then.

use handoff_placement::Tid;
use rustix::fd::OwnedFd;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recvfrom, sendto,
    socket_with,
};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SystemEvent {
    /// A process or thread was born, renamed, or runs another program or as another user.
    Changed {
        process: Tid,
        /// Is it another thread than the first? What is given to a whole process it has inherited.
        is_thread: bool,
    },
    /// A CPU came or went.
    Cpus,
    Power,
    /// Something was missed: look at everything.
    Missed,
}

// Events of processes, from `linux/cn_proc.h`.
const FORK: u32 = 0x1;
const EXEC: u32 = 0x2;
const UID: u32 = 0x4;
const COMM: u32 = 0x200;

/// Births and names of processes, from the kernel's connector. Needs CAP_NET_ADMIN.
pub(super) fn processes() -> io::Result<OwnedFd> {
    const PROC_CN_MCAST_LISTEN: u32 = 1;
    let socket = netlink_socket(netlink::CONNECTOR, CN_IDX_PROC)?;
    let ask = |words: &[u32]| sendto(&socket, &ask(words), SendFlags::empty(), &SocketAddrNetlink::new(0, 0));
    ask(&[PROC_CN_MCAST_LISTEN])?;
    // Linux 6.6 leaves out the others, most of which are exits, if it is asked to; an older kernel drops a
    // request of this length, and what it sends is left out here.
    ask(&[PROC_CN_MCAST_LISTEN, FORK | EXEC | UID | COMM])?;
    Ok(socket)
}

// The process connector's address, from `linux/connector.h`.
const CN_IDX_PROC: u32 = 1;

/// A request to the process connector: `nlmsghdr` (16 bytes), `cn_msg` (20), the words.
fn ask(words: &[u32]) -> Vec<u8> {
    const CN_VAL_PROC: u32 = 1;
    const NLMSG_DONE: u16 = 3;
    let data = 4 * words.len() as u16;
    let mut message = Vec::with_capacity(44);
    message.extend((36 + u32::from(data)).to_ne_bytes());
    message.extend(NLMSG_DONE.to_ne_bytes());
    message.extend([0; 10]); // flags, sequence, port
    message.extend(CN_IDX_PROC.to_ne_bytes());
    message.extend(CN_VAL_PROC.to_ne_bytes());
    message.extend([0; 8]); // sequence, acknowledge
    message.extend(data.to_ne_bytes());
    message.extend([0; 2]); // flags
    words.iter().for_each(|word| message.extend(word.to_ne_bytes()));
    message
}

/// Hot-plug, batteries, thermal zones: the kernel's device events.
pub(super) fn devices() -> io::Result<OwnedFd> {
    netlink_socket(netlink::KOBJECT_UEVENT, 1)
}

fn netlink_socket(protocol: Protocol, groups: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(protocol))?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Becomes urgent when something waited for a CPU during a tenth of two seconds (PSI).
pub(super) fn pressure() -> io::Result<File> {
    // Two seconds is the shortest window that needs no privilege.
    let mut file = OpenOptions::new().read(true).write(true).open("/proc/pressure/cpu")?;
    file.write_all(b"some 200000 2000000\0")?;
    Ok(file)
}

/// Reads what a netlink source has, until it has no more.
pub(super) fn drain(source: &OwnedFd, parse: fn(&[u8]) -> Option<SystemEvent>) -> Vec<SystemEvent> {
    let mut found = Vec::new();
    let mut buffer = [0u8; 8192];
    loop {
        match recvfrom(source, &mut buffer, RecvFlags::TRUNC) {
            Ok((_, length, from)) => {
                // Only the kernel has port 0; anybody may send to a netlink socket.
                let is_kernel = from
                    .and_then(|from| SocketAddrNetlink::try_from(from).ok())
                    .is_some_and(|from| from.pid() == 0);
                let whole = buffer.get(..length).filter(|_| is_kernel);
                found.extend(whole.and_then(parse));
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::NOBUFS) => found.push(SystemEvent::Missed),
            Err(_) => return found,
        }
    }
}

/// A message of the process connector: `nlmsghdr` (16 bytes), `cn_msg` (20), `proc_event`.
pub(super) fn parse_process(message: &[u8]) -> Option<SystemEvent> {
    let event = message.get(36..)?;
    let word = |at: usize| Some(u32::from_ne_bytes(event.get(at..at + 4)?.try_into().ok()?));
    let process = |at: usize| Tid::new(i32::try_from(word(at)?).ok()?);
    // The data start at 16: (pid, tgid), for a fork after those of the parent.
    let at = match word(0)? {
        FORK => 16 + 8,
        EXEC | UID | COMM => 16,
        _ => return None,
    };
    let process = process(at + 4)?;
    Some(SystemEvent::Changed { process, is_thread: word(at)? != word(at + 4)? })
}

/// A device event: `change@/devices/...`, then `KEY=value`, each ended by a zero byte.
pub(super) fn parse_device(message: &[u8]) -> Option<SystemEvent> {
    let subsystem = message.split(|&byte| byte == 0).find_map(|field| field.strip_prefix(b"SUBSYSTEM="))?;
    match subsystem {
        b"cpu" => Some(SystemEvent::Cpus),
        b"power_supply" | b"thermal" => Some(SystemEvent::Power),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(words: &[u32]) -> Vec<u8> {
        let mut message = vec![0; 36];
        words.iter().for_each(|word| message.extend(word.to_ne_bytes()));
        message
    }

    #[test]
    fn connector_messages_are_read() {
        let changed =
            |pid, is_thread| Some(SystemEvent::Changed { process: Tid::new(pid).unwrap(), is_thread });
        assert_eq!(
            parse_process(&message(&[1, 0, 0, 0, 5, 5, 9, 7])),
            changed(7, true),
            "a thread is born in 7"
        );
        assert_eq!(
            parse_process(&message(&[1, 0, 0, 0, 5, 5, 9, 9])),
            changed(9, false),
            "a process is born"
        );
        assert_eq!(parse_process(&message(&[2, 0, 0, 0, 7, 7])), changed(7, false));
        assert_eq!(parse_process(&message(&[0x200, 0, 0, 0, 8, 7, 0, 0])), changed(7, true));
        assert_eq!(parse_process(&message(&[0x8000_0000, 0, 0, 0, 7, 7, 0, 0])), None, "an end is no news");
        assert_eq!(parse_process(&message(&[2, 0, 0, 0, 8, u32::MAX])), None);
    }

    #[test]
    fn device_events_are_read() {
        let event =
            |subsystem: &str| format!("change@/devices/x\0ACTION=change\0SUBSYSTEM={subsystem}\0SEQNUM=1\0");
        assert_eq!(parse_device(event("cpu").as_bytes()), Some(SystemEvent::Cpus));
        assert_eq!(parse_device(event("power_supply").as_bytes()), Some(SystemEvent::Power));
        assert_eq!(parse_device(event("block").as_bytes()), None);
    }

    proptest! {
        #[test]
        fn any_message_is_read_or_ignored(message in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = (parse_process(&message), parse_device(&message));
        }
    }
}
