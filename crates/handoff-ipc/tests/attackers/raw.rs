//! The control protocol as bytes, without the library: an attacker keeps to nothing.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::regions::{Memory, RING, Request, Ring, SLOT, Slot, memfd};

/// The version that is spoken.
pub const VERSION: u32 = 3;
/// Bytes of a control message.
pub const MESSAGE: usize = 48;
/// How long an attacker waits for an answer before it goes on.
pub const WAIT: Duration = Duration::from_secs(3);
/// How long it waits to be let in.
const GREETING: Duration = Duration::from_secs(10);

/// Kinds of messages.
pub mod kind {
    pub const HELLO: u32 = 1;
    pub const WELCOME: u32 = 2;
    pub const SLOT: u32 = 3;
    pub const CALL: u32 = 4;
    pub const RAISE: u32 = 5;
    pub const FDS: u32 = 6;
    pub const INTRODUCE: u32 = 7;
    pub const INTRODUCED: u32 = 8;
    pub const CLAIM: u32 = 9;
    pub const REDEEMED: u32 = 10;
    pub const RELEASE: u32 = 11;
    pub const RING: u32 = 12;
    pub const POST: u32 = 13;
    /// The first that has no meaning.
    pub const UNKNOWN: u32 = 60;
}

/// What the hand-off word says.
pub mod word {
    pub const FREE: u32 = 0;
    pub const REQUEST: u32 = 1;
    pub const NESTED: u32 = 2;
    /// A thread looks at the slot, or sleeps there.
    pub const ATTENDED: u32 = 0x10;
}

/// Flags of a request.
pub mod meta {
    pub const OBJECTS: u32 = 2;
    pub const DEADLINE: u32 = 4;
    pub const SPIN: u32 = 8;
    pub const BESIDE: u32 = 16;
    pub const YIELD: u32 = 32;
}

/// Kinds of objects beside a payload.
pub mod object {
    pub const OF_SENDER: u32 = 1;
    pub const OF_RECEIVER: u32 = 2;
    pub const OF_THIRD: u32 = 3;
    pub const FD: u32 = 4;
}

/// Said of an attacker that was told what was meant for somebody else.
pub const LEAKED: &str = "told what was not for it";

/// What an attacker did, so that an attack which does nothing is seen.
#[derive(Debug)]
pub struct Done {
    connections: AtomicU32,
    messages: AtomicU32,
    answered: AtomicU32,
    leaked: AtomicU32,
}

pub static DONE: Done = Done {
    connections: AtomicU32::new(0),
    messages: AtomicU32::new(0),
    answered: AtomicU32::new(0),
    leaked: AtomicU32::new(0),
};

impl Done {
    /// Connections, messages and calls that were answered.
    pub fn report(&self) -> String {
        let of = |count: &AtomicU32| count.load(Ordering::Relaxed);
        let (connections, messages) = (of(&self.connections), of(&self.messages));
        let leaked = if of(&self.leaked) > 0 { format!(", {LEAKED}") } else { String::new() };
        format!(
            "{connections} connections, {messages} messages, {} calls answered{leaked}",
            of(&self.answered)
        )
    }

    pub fn answered(&self) {
        count(&self.answered);
    }

    /// The attacker was told what was meant for somebody else.
    pub fn leaked(&self) {
        count(&self.leaked);
    }
}

fn count(what: &AtomicU32) {
    what.fetch_add(1, Ordering::Relaxed);
}

/// A control message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Message {
    pub kind: u32,
    pub a: u32,
    pub b: u64,
    pub first: [u8; 16],
    pub second: [u8; 16],
}

/// One with numbers alone.
pub fn message(kind: u32, a: u32, b: u64) -> Message {
    Message { kind, a, b, ..Message::default() }
}

impl Message {
    pub fn bytes(&self) -> [u8; MESSAGE] {
        let mut bytes = [0; MESSAGE];
        bytes[..4].copy_from_slice(&self.kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.a.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.b.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.first);
        bytes[32..].copy_from_slice(&self.second);
        bytes
    }

    fn of(bytes: &[u8; MESSAGE]) -> Self {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
        Message {
            kind: word(0),
            a: word(4),
            b: u64::from(word(8)) | u64::from(word(12)) << 32,
            first: std::array::from_fn(|n| bytes[16 + n]),
            second: std::array::from_fn(|n| bytes[32 + n]),
        }
    }
}

/// An end of a connection.
pub struct Connection {
    pub socket: OwnedFd,
    /// The object that the victim offers.
    pub root: u64,
}

/// A connection on which nothing was said yet.
pub fn dial(at: &Path) -> std::io::Result<OwnedFd> {
    // SAFETY: a new descriptor, taken over at once; the address is zeroed and holds the path.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(fd);
        stamps(&socket);
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as _;
        let path = at.as_os_str().as_encoded_bytes();
        for (to, byte) in address.sun_path.iter_mut().zip(path) {
            *to = *byte as libc::c_char;
        }
        let len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK);
        match libc::connect(fd, (&raw const address).cast(), len) {
            0 => {
                count(&DONE.connections);
                Ok(socket)
            }
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

/// Has the kernel say who sends what comes.
fn stamps(socket: &OwnedFd) {
    let on: libc::c_int = 1;
    // SAFETY: it reads the number.
    unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, (&raw const on).cast(), 4);
    }
}

/// Random bytes enough to tell endpoints apart.
pub fn endpoint() -> [u8; 16] {
    let mut bytes = [0; 16];
    // SAFETY: it writes so many bytes.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), 16, 0) };
    bytes
}

/// Sends bytes and descriptors; false if the socket does not take them.
pub fn send_bytes(socket: &OwnedFd, bytes: &[u8], fds: &[RawFd]) -> bool {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0u64; 160];
    // SAFETY: the header leads to live buffers of the lengths beside them; 160 words hold 253 descriptors.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if !fds.is_empty() {
            let size = size_of_val(fds) as u32;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(size) as _;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(size) as _;
            libc::CMSG_DATA(first).cast::<RawFd>().copy_from_nonoverlapping(fds.as_ptr(), fds.len());
        }
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        let sent = libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) >= 0;
        if sent {
            count(&DONE.messages);
        }
        sent
    }
}

fn wait_until(socket: &OwnedFd, events: libc::c_short, wait: Duration) -> bool {
    let mut watched = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    // SAFETY: one structure, as it says.
    unsafe { libc::poll(&raw mut watched, 1, wait.as_millis() as i32) > 0 }
}

/// The next message and its descriptors; `None` if none comes, or the victim has hung up.
pub fn receive(socket: &OwnedFd, wait: Duration) -> Option<(Message, Vec<OwnedFd>)> {
    if !wait_until(socket, libc::POLLIN, wait) {
        return None;
    }
    let mut bytes = [0u8; MESSAGE];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: MESSAGE };
    let mut control = [0u64; 80];
    let mut fds = Vec::new();
    // SAFETY: as for sending; the kernel installs each descriptor for whoever takes it out, once.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        let len =
            libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC);
        if len != MESSAGE as isize {
            return None;
        }
        let mut next = libc::CMSG_FIRSTHDR(&raw const header);
        while !next.is_null() {
            if (*next).cmsg_level == libc::SOL_SOCKET && (*next).cmsg_type == libc::SCM_RIGHTS {
                let count = ((*next).cmsg_len as usize - libc::CMSG_LEN(0) as usize) / size_of::<RawFd>();
                let data = libc::CMSG_DATA(next).cast::<RawFd>();
                fds.extend((0..count).map(|at| OwnedFd::from_raw_fd(data.add(at).read_unaligned())));
            }
            next = libc::CMSG_NXTHDR(&raw const header, next);
        }
    }
    Some((Message::of(&bytes), fds))
}

impl Connection {
    /// Connects and greets.
    pub fn to(at: &Path) -> Option<Self> {
        Self::greet(dial(at).ok()?, endpoint(), [0; 16])
    }

    /// Greets on a socket, as whoever it says it is.
    pub fn greet(socket: OwnedFd, endpoint: [u8; 16], token: [u8; 16]) -> Option<Self> {
        let hello = Message { first: endpoint, second: token, ..message(kind::HELLO, VERSION, 0) };
        send_bytes(&socket, &hello.bytes(), &[]);
        let (welcome, _) = receive(&socket, GREETING)?;
        (welcome.kind == kind::WELCOME).then_some(Connection { socket, root: welcome.b })
    }

    /// Sends a message; waits while the socket is full, but not for ever.
    pub fn send(&self, message: Message, fds: &[RawFd]) -> bool {
        for _ in 0..30 {
            if send_bytes(&self.socket, &message.bytes(), fds) {
                return true;
            }
            let error = std::io::Error::last_os_error().raw_os_error();
            // Too many descriptors may be in flight, which ends as the victim takes them.
            if !matches!(error, Some(libc::EAGAIN | libc::ETOOMANYREFS | libc::ENOBUFS)) {
                return false;
            }
            if error == Some(libc::ETOOMANYREFS) {
                std::thread::sleep(Duration::from_millis(20));
            }
            wait_until(&self.socket, libc::POLLOUT, Duration::from_millis(100));
        }
        false
    }

    /// Sends a message as often as the socket takes it without waiting.
    pub fn flood(&self, message: Message) -> usize {
        (0..100_000).take_while(|_| send_bytes(&self.socket, &message.bytes(), &[])).count()
    }

    pub fn receive(&self, wait: Duration) -> Option<(Message, Vec<OwnedFd>)> {
        receive(&self.socket, wait)
    }

    /// A new slot, which the victim is told of.
    pub fn slot(&self, id: u32) -> Slot {
        let memory = Memory::new(SLOT, 0);
        self.send(message(kind::SLOT, id, 0), &[memory.file.as_raw_fd()]);
        Slot { id, memory }
    }

    /// A ring for oneway calls, likewise.
    pub fn ring(&self) -> Ring {
        let memory = Memory::new(RING, 0);
        self.send(message(kind::RING, 0, 0), &[memory.file.as_raw_fd()]);
        Ring { memory }
    }

    /// Puts a request into a slot and rings for it.
    pub fn request(&self, slot: &Slot, request: &Request) {
        slot.write(request);
        if slot.word().swap(word::REQUEST, Ordering::AcqRel) & word::ATTENDED == 0 {
            self.send(message(kind::CALL, slot.id, 0), &[]);
        } else {
            slot.wake();
        }
    }

    /// A call as an honest client makes it; false if no reply came.
    pub fn call(&self, slot: &Slot, request: &Request) -> bool {
        self.request(slot, request);
        slot.is_free_within(WAIT)
    }

    /// Whether the victim keeps the connection.
    pub fn is_open(&self) -> bool {
        let mut watched = libc::pollfd { fd: self.socket.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one structure, as it says.
        unsafe { libc::poll(&raw mut watched, 1, 0) };
        watched.revents & libc::POLLHUP == 0
    }
}

/// Whether a call that is made as it ought to be is answered: else attacks would be none.
pub fn is_served(at: &Path) -> bool {
    const PING: u32 = u32::from_be_bytes(*b"_PNG");
    Connection::to(at).is_some_and(|connection| {
        let slot = connection.slot(0);
        (0..3).all(|_| connection.call(&slot, &Request::new(connection.root, PING)))
            && slot.memory.at(4).load(Ordering::Relaxed) == 0
    })
}

/// Takes up an introduction, as whoever it says it is: over a connection that it makes itself.
pub fn introduced(introduction: &OwnedFd, endpoint: [u8; 16], token: [u8; 16]) -> Option<Connection> {
    introduced_with_a_copy(introduction, endpoint, token).map(|(connection, _)| connection)
}

/// The same; gives a copy of the victim's end, too.
pub fn introduced_with_a_copy(
    introduction: &OwnedFd,
    endpoint: [u8; 16],
    token: [u8; 16],
) -> Option<(Connection, OwnedFd)> {
    let (mine, theirs) = pair();
    stamps(&mine);
    let hello = Message { first: endpoint, second: token, ..message(kind::HELLO, VERSION, 0) };
    send_bytes(introduction, &hello.bytes(), &[theirs.as_raw_fd()]);
    let (welcome, _) = receive(&mine, GREETING)?;
    (welcome.kind == kind::WELCOME).then_some((Connection { socket: mine, root: welcome.b }, theirs))
}

/// A pair of connected sockets of the control protocol's kind.
pub fn pair() -> (OwnedFd, OwnedFd) {
    let mut fds = MaybeUninit::<[RawFd; 2]>::uninit();
    // SAFETY: it writes two new descriptors, which are taken over at once.
    unsafe {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        assert_eq!(libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr().cast()), 0);
        let [a, b] = fds.assume_init();
        (OwnedFd::from_raw_fd(a), OwnedFd::from_raw_fd(b))
    }
}

/// A file that is nothing in particular.
pub fn any_file() -> OwnedFd {
    memfd(1, 0, 0)
}
