//! The control socket: whole messages with descriptors, from a peer whose credentials the kernel
//! vouches for.
#![allow(unsafe_code)]

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::LazyLock;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};

use super::wire::{MAX_FDS, MESSAGE_SIZE, Message};
use crate::disposal::{self, PeerFd};
use crate::identity::CallingIdentity;
use crate::ledger::Charge;
use crate::{Error, Result};

/// A message as it came.
#[derive(Debug)]
pub(crate) struct ReceivedMessage {
    pub(crate) message: Message,
    pub(crate) fds: Vec<PeerFd>,
    /// Descriptors came along that this process had no room for (`MSG_CTRUNC`).
    pub(crate) truncated: bool,
    /// Who sent it, where the socket was asked to say so ([`pass_credentials`]).
    pub(crate) sender: Option<CallingIdentity>,
}

/// What came of an attempt to receive.
#[derive(Debug)]
pub(crate) enum Receive {
    Message(ReceivedMessage),
    /// Nothing more for now.
    Empty,
    /// The peer closed its end, or its process ended.
    Closed,
}

/// Two ends of a connection. Whoever ends up with the other one says who it is with its first
/// message: the kernel stamps it.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (mine, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(|error| Error::io("cannot make a connection (socketpair)", error))?;
    pass_credentials(mine.as_fd())?;
    pass_credentials(other.as_fd())?;
    Ok((mine, other))
}

/// Asks the kernel to stamp each message with its sender.
pub(crate) fn pass_credentials(socket: BorrowedFd<'_>) -> Result<()> {
    sockopt::set_socket_passcred(socket, true)
        .map_err(|error| Error::io("cannot ask for the peer's credentials", error))
}

/// Whether a descriptor that came from a peer is a socket of the kind that [`pair`] makes.
pub(crate) fn check_type(socket: BorrowedFd<'_>) -> Result<()> {
    let is_unix = sockopt::socket_domain(socket).is_ok_and(|domain| domain == AddressFamily::UNIX);
    if is_unix && sockopt::socket_type(socket).is_ok_and(|kind| kind == SocketType::SEQPACKET) {
        return Ok(());
    }
    Err(Error::Protocol("a connection that is no Unix socket of packets".into()))
}

/// Sends one message. `Ok(false)`: the socket is full, try again when it can be written.
pub(crate) fn send(socket: BorrowedFd<'_>, message: &Message, fds: &[BorrowedFd<'_>]) -> Result<bool> {
    let bytes = message.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Error::TooLarge { size: fds.len(), limit: MAX_FDS });
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        return match sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, flags) {
            Ok(_) => Ok(true),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Ok(false),
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Err(Error::Dead),
            Err(error) => Err(Error::io("cannot send a control message", error)),
        };
    }
}

/// Whether nothing is in the queue of a socket that stamps messages and can receive no more: else a message, as long as
/// it has no length, looks like the end.
pub(crate) fn is_queue_empty(socket: BorrowedFd<'_>) -> bool {
    let look = || {
        let mut byte = [0; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        // The stamp of a message has no room in the answer, and the kernel says so.
        recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut RecvAncillaryBuffer::new(&mut []), flags)
    };
    // A peer that closes with something unread resets the connection, which is told once, whatever is in the queue.
    let got = look().or_else(|error| if error == Errno::CONNRESET { look() } else { Err(error) });
    got.is_ok_and(|got| got.bytes == 0 && !got.flags.contains(ReturnFlags::CTRUNC))
}

/// Closes a connection that is refused, after `say` has told its maker: at once, unless something is in its queue already,
/// as descriptors in it may take long to close. `room` counts it until then.
pub(crate) fn turn_down(socket: OwnedFd, room: Charge, say: impl FnOnce(BorrowedFd<'_>)) {
    // The kernel says of a message that nothing was given to, that it had credentials.
    let is_stamped = pass_credentials(socket.as_fd()).is_ok();
    say(socket.as_fd());
    // After this nobody can put anything more into it.
    let is_closed = rustix::net::shutdown(&socket, rustix::net::Shutdown::Read).is_ok();
    if !(is_stamped && is_closed && is_queue_empty(socket.as_fd())) {
        disposal::close_refused(socket, room);
    }
}

/// Messages that were sent and that the peer has not read; too many rather than too few.
///
/// `SIOCOUTQ` gives the kernel's memory for them (unix(7)). All messages have one size, so each takes the same.
pub(crate) fn unread(socket: BorrowedFd<'_>) -> u64 {
    static OF_ONE: LazyLock<u64> = LazyLock::new(|| {
        let memory = || {
            let (one, _other) = pair().ok()?;
            send(one.as_fd(), &Message::Post, &[]).ok()?;
            memory_of_unread(one.as_fd())
        };
        memory().unwrap_or(1).max(1)
    });
    // Where the kernel does not say, nothing was read; the end of the connection takes all back.
    memory_of_unread(socket).map_or(u64::MAX, |memory| memory.div_ceil(*OF_ONE))
}

fn memory_of_unread(socket: BorrowedFd<'_>) -> Option<u64> {
    let mut memory: libc::c_int = 0;
    // SAFETY: the kernel writes one number.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut memory) };
    if outcome == 0 { u64::try_from(memory).ok() } else { None }
}

/// Room for the control messages that may come with one message.
#[repr(C)]
union Control {
    // For the alignment that `CMSG_FIRSTHDR` asks for.
    header: libc::cmsghdr,
    // The kernel says how many it wrote.
    bytes: [MaybeUninit<u8>; CONTROL],
}

/// Most descriptors that the kernel lets travel with one message (`SCM_MAX_FD`), whatever the protocol does.
const MOST_FDS: usize = 253;

/// For all of them: those without room the kernel closes in `recvmsg`, on this thread, which may take long.
const CONTROL: usize = {
    let (rights, credentials) = ((MOST_FDS * size_of::<RawFd>()) as u32, size_of::<libc::ucred>() as u32);
    // SAFETY: it only computes.
    let own = unsafe { (libc::CMSG_SPACE(rights) + libc::CMSG_SPACE(credentials)) as usize };
    own + OF_OPTIONS
};

/// What else the kernel puts before the descriptors, where this end's options say so: time stamps (`SO_TIMESTAMP`,
/// `SO_TIMESTAMPING`), the sender's label (`SO_PASSSEC`, a page at most) and its pidfd. Who makes a connection to be introduced
/// on may keep a copy of this end, and set any option there at any time.
const OF_OPTIONS: usize = 8 << 10;

/// The sender's pidfd (`SO_PASSPIDFD`, Linux 6.5), which nobody here asks for.
const SCM_PIDFD: libc::c_int = 4;

/// What one `recvmsg` brought: so many bytes, the descriptors that came along, and who sent them if the socket says so.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) len: usize,
    pub(crate) fds: Vec<OwnedFd>,
    sender: Option<CallingIdentity>,
    truncated: bool,
}

/// One `recvmsg` to the end of `bytes`, as far as they have memory, with room for all descriptors that can come.
///
/// With the C library's types, not rustix': a sender whose process is not visible from here has the
/// number 0, which rustix' `Pid` cannot hold; and rustix asks for the sender's address, which takes the kernel 0.3 us to say.
pub(crate) fn receive_bytes(
    socket: BorrowedFd<'_>,
    bytes: &mut Vec<u8>,
    flags: RecvFlags,
) -> rustix::io::Result<Received> {
    let room = bytes.spare_capacity_mut();
    let mut control = Control { bytes: [MaybeUninit::uninit(); CONTROL] };
    let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    // SAFETY: null pointers and zero lengths are a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = CONTROL as _;
    let flags = flags.bits() as libc::c_int | libc::MSG_CMSG_CLOEXEC;
    loop {
        // SAFETY: every pointer in the header leads to a live buffer of the length beside it.
        let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
        if let Ok(len) = usize::try_from(got) {
            // SAFETY: so many were written there: the kernel says no more than there was room for, unless it is asked to.
            unsafe { bytes.set_len(bytes.len() + len) };
            let (fds, sender) = take_control(&header);
            return Ok(Received { len, fds, sender, truncated: header.msg_flags & libc::MSG_CTRUNC != 0 });
        }
        match Errno::from_io_error(&std::io::Error::last_os_error()) {
            None | Some(Errno::INTR) => {}
            Some(error) => return Err(error),
        }
    }
}

/// Receives one message, without waiting.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> Result<Receive> {
    receive_for(socket, None)
}

/// As [`receive`]; descriptors that come are counted for `peer`, or else for whoever sent them, also if the message is
/// none.
pub(crate) fn receive_for(socket: BorrowedFd<'_>, peer: Option<CallingIdentity>) -> Result<Receive> {
    // One byte more than a message, to see that a longer one was sent.
    let mut bytes = Vec::with_capacity(MESSAGE_SIZE + 1);
    let Received { len, fds, sender, truncated } =
        match receive_bytes(socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok(received) => received,
            Err(Errno::AGAIN) => return Ok(Receive::Empty),
            Err(Errno::CONNRESET | Errno::PIPE) => return Ok(Receive::Closed),
            Err(error) => return Err(Error::io("cannot receive a control message", error)),
        };
    // Each before anything can return: whatever it is, closing it may take long.
    let who = peer.or(sender).unwrap_or(NOBODY);
    let fds = disposal::count_arrived(who, fds.into_iter().map(|fd| PeerFd::new(fd, who.uid)).collect());
    if len == 0 {
        return Ok(Receive::Closed);
    }
    let message = Message::decode(&bytes)?;
    Ok(Receive::Message(ReceivedMessage { message, fds, truncated, sender }))
}

/// Whose descriptors without a stamp are (the kernel's overflow uid).
const NOBODY: CallingIdentity = CallingIdentity { pid: 0, uid: 65_534, gid: 65_534 };

/// The descriptors and the sender that came with a message.
fn take_control(header: &libc::msghdr) -> (Vec<OwnedFd>, Option<CallingIdentity>) {
    let (mut fds, mut sender) = (Vec::new(), None);
    // SAFETY: the kernel filled the header in, so its control messages lie one behind the other inside
    // of the buffer; null if there is none.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !next.is_null() {
        // SAFETY: not null, so a whole header lies there, and its data follow.
        let (part, data) = unsafe { (*next, libc::CMSG_DATA(next)) };
        // SAFETY: it only computes.
        let len = usize::saturating_sub(part.cmsg_len as _, unsafe { libc::CMSG_LEN(0) } as usize);
        match (part.cmsg_level, part.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                for at in 0..len / size_of::<RawFd>() {
                    // SAFETY: the kernel wrote `len` bytes of descriptors, and installed each for whoever
                    // takes it out of here, once.
                    fds.push(unsafe { OwnedFd::from_raw_fd(data.cast::<RawFd>().add(at).read_unaligned()) });
                }
            }
            (libc::SOL_SOCKET, SCM_PIDFD) if len >= size_of::<RawFd>() => {
                // SAFETY: the kernel wrote one number.
                let pidfd = unsafe { data.cast::<RawFd>().read_unaligned() };
                if pidfd >= 0 {
                    // Its close waits for nobody.
                    // SAFETY: the kernel installed it for whoever takes it out of here, once.
                    drop(unsafe { OwnedFd::from_raw_fd(pidfd) });
                }
            }
            (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if len >= size_of::<libc::ucred>() => {
                // SAFETY: the kernel wrote so many bytes, and any are a `ucred`.
                sender = Some(identity(unsafe { data.cast::<libc::ucred>().read_unaligned() }));
            }
            _ => {}
        }
        // SAFETY: as for the first.
        next = unsafe { libc::CMSG_NXTHDR(header, next) };
    }
    (fds, sender)
}

/// Whether descriptors may be sent to a Unix socket (Linux 6.16).
const SO_PASSRIGHTS: libc::c_int = 83;

/// Has the kernel refuse descriptors that are sent to a socket, or to those that a listener accepts; before Linux 6.16 it
/// cannot. To be said before anybody can send any.
pub(crate) fn refuse_descriptors(socket: BorrowedFd<'_>) {
    let no: libc::c_int = 0;
    // SAFETY: an `int` of the length beside it. Where it fails, descriptors are taken and closed.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const no).cast(),
            size_of_val(&no) as libc::socklen_t,
        );
    }
}

/// Whether no descriptor can come over a socket: bytes can be read without taking one.
pub(crate) fn refuses_descriptors(socket: BorrowedFd<'_>) -> bool {
    // SAFETY: the option is an `int`.
    unsafe { option::<libc::c_int>(socket, SO_PASSRIGHTS) }.is_ok_and(|passes| passes == 0)
}

/// An option of a socket.
///
/// # Safety
/// Any bytes have to be a `T`, which is what the kernel has for the option.
unsafe fn option<T>(socket: BorrowedFd<'_>, name: libc::c_int) -> std::io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to a value of that size.
    let outcome = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, value.as_mut_ptr().cast(), &raw mut len)
    };
    if outcome != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: zeros, or what the kernel wrote: both are a value by the caller's promise.
    Ok(unsafe { value.assume_init() })
}

/// Who made the connection at the other end, as of then (`SO_PEERCRED`).
pub(crate) fn peer(socket: BorrowedFd<'_>) -> Result<CallingIdentity> {
    // SAFETY: the option is a `ucred`, which is three numbers.
    let who = unsafe { option::<libc::ucred>(socket, libc::SO_PEERCRED) };
    who.map(identity).map_err(|error| Error::io("cannot learn who the peer is (SO_PEERCRED)", error))
}

/// A process that is not visible in this one's pid namespace has the number 0.
fn identity(who: libc::ucred) -> CallingIdentity {
    CallingIdentity { pid: who.pid.max(0).unsigned_abs(), uid: who.uid, gid: who.gid }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::pair::await_that;

    #[test]
    fn messages_carry_descriptors_and_their_sender() {
        let (a, b) = pair().unwrap();
        let (file, _) = pair().unwrap();
        assert!(send(a.as_fd(), &Message::Post, &[file.as_fd(), file.as_fd()]).unwrap());
        let Receive::Message(got) = receive(b.as_fd()).unwrap() else { panic!("nothing came") };
        assert_eq!((got.message, got.fds.len()), (Message::Post, 2));
        assert_eq!(got.sender, Some(CallingIdentity::own()));
        assert!(matches!(receive(b.as_fd()).unwrap(), Receive::Empty));
        drop(a);
        // Not at once: a process that another test starts has a copy until it runs its program.
        await_that("the end is seen", || matches!(receive(b.as_fd()).unwrap(), Receive::Closed));
        assert!(matches!(send(b.as_fd(), &Message::Post, &[]), Err(Error::Dead)));
    }

    #[test]
    fn what_the_peer_has_not_read_is_known() {
        let (a, b) = pair().unwrap();
        let (file, _) = pair().unwrap();
        assert_eq!(unread(a.as_fd()), 0);
        for count in 1..20 {
            let fds = [file.as_fd(); 3];
            let slot = Message::Slot { slot: count };
            assert!(send(a.as_fd(), &slot, if count % 3 == 0 { &fds } else { &[] }).unwrap());
            assert_eq!(unread(a.as_fd()), u64::from(count));
        }
        for left in (0..19).rev() {
            assert!(matches!(receive(b.as_fd()).unwrap(), Receive::Message(_)));
            assert_eq!(unread(a.as_fd()), left);
        }
    }

    #[test]
    fn a_queue_is_empty_only_if_nothing_was_sent() {
        let queue_is_empty = |fill: &dyn Fn(&OwnedFd)| {
            let (mine, theirs) = pair().unwrap();
            fill(&theirs);
            rustix::net::shutdown(&mine, rustix::net::Shutdown::Read).unwrap();
            assert!(rustix::net::send(&theirs, &[1], SendFlags::NOSIGNAL).is_err());
            is_queue_empty(mine.as_fd())
        };
        assert!(queue_is_empty(&|_| ()));
        assert!(!queue_is_empty(&|to| assert!(send(to.as_fd(), &Message::Post, &[to.as_fd()]).unwrap())));
        assert!(!queue_is_empty(&|to| {
            rustix::net::send(to, &[], SendFlags::empty()).unwrap();
        }));
    }

    #[test]
    fn a_queue_is_empty_also_if_the_peer_closed_with_something_unread() {
        let queue_is_empty = |fill: &dyn Fn(&OwnedFd)| {
            let (mine, theirs) = pair().unwrap();
            assert!(send(mine.as_fd(), &Message::Post, &[]).unwrap());
            fill(&theirs);
            rustix::net::shutdown(&mine, rustix::net::Shutdown::Read).unwrap();
            drop(theirs);
            is_queue_empty(mine.as_fd())
        };
        assert!(queue_is_empty(&|_| ()));
        assert!(!queue_is_empty(&|to| assert!(send(to.as_fd(), &Message::Post, &[to.as_fd()]).unwrap())));
    }

    #[test]
    fn a_message_of_another_size_is_refused() {
        let (a, b) = pair().unwrap();
        rustix::io::write(&a, &[0; 200]).unwrap();
        assert!(matches!(receive(b.as_fd()), Err(Error::Protocol(_))));
    }

    /// Set for the half of the next test that runs in a pid namespace of its own.
    const ROLE: &str = "HANDOFF_TEST_OTHER_NAMESPACE";

    #[test]
    fn a_sender_in_a_pid_namespace_out_of_sight_is_number_zero() {
        use std::process::{Command, Stdio};

        if std::env::var_os(ROLE).is_some() {
            let socket = std::io::stdin();
            assert_eq!(peer(socket.as_fd()).unwrap(), CallingIdentity { pid: 0, ..CallingIdentity::own() });
            let Receive::Message(got) = receive(socket.as_fd()).unwrap() else { panic!("nothing came") };
            assert_eq!(got.sender, Some(CallingIdentity { pid: 0, ..CallingIdentity::own() }));
            return;
        }
        handoff_testkit::require!(handoff_testkit::require_root());
        handoff_testkit::require!(handoff_testkit::require_tool("unshare"));
        let (mine, theirs) = pair().unwrap();
        assert!(send(mine.as_fd(), &Message::Post, &[]).unwrap());
        let name = "shm::socket::tests::a_sender_in_a_pid_namespace_out_of_sight_is_number_zero";
        let outcome = Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(ROLE, "1")
            .stdin(Stdio::from(theirs))
            .output()
            .unwrap();
        assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stdout));
        assert!(String::from_utf8_lossy(&outcome.stdout).contains("1 passed"));
    }
}
