//! What cases are written with: openings that play managers, servers and clients, and what they expect.

use std::fmt::Display;
use std::time::{Duration, Instant};

use handoff_ipc::binder::uapi::*;

use crate::message::{Call, Message, Parcel};
use crate::returns::{Return, name_of, names_of};
use crate::seam::{Device, Exchange, Peer, Process};

/// Why a case did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The driver did something else than was expected.
    Unexpected(String),
    /// The case cannot be run here.
    NotHere(String),
}

pub(crate) type Check<T = ()> = Result<T, Finding>;

/// The driver did something else.
pub(crate) fn unexpected<T>(what: impl Into<String>) -> Check<T> {
    Err(Finding::Unexpected(what.into()))
}

/// The case needs what is not here.
pub(crate) fn not_here<T>(why: impl Into<String>) -> Check<T> {
    Err(Finding::NotHere(why.into()))
}

/// Expects two values to be equal.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, expected: T) -> Check {
    if got == expected {
        return Ok(());
    }
    unexpected(format!("{what} is {got:?}, expected {expected:?}"))
}

/// Expects a condition.
pub(crate) fn that(holds: bool, otherwise: impl Display) -> Check {
    if holds { Ok(()) } else { unexpected(otherwise.to_string()) }
}

/// The name of an error's number.
pub(crate) fn errno_name(errno: i32) -> String {
    match errno {
        0 => "success".to_owned(),
        libc::EPERM => "EPERM".to_owned(),
        libc::ENOENT => "ENOENT".to_owned(),
        libc::ESRCH => "ESRCH".to_owned(),
        libc::EAGAIN => "EAGAIN".to_owned(),
        libc::EACCES => "EACCES".to_owned(),
        libc::EFAULT => "EFAULT".to_owned(),
        libc::EBUSY => "EBUSY".to_owned(),
        libc::EINVAL => "EINVAL".to_owned(),
        libc::ENOSPC => "ENOSPC".to_owned(),
        libc::EPROTO => "EPROTO".to_owned(),
        libc::EBADF => "EBADF".to_owned(),
        libc::ENOTTY => "ENOTTY".to_owned(),
        libc::ENOMEM => "ENOMEM".to_owned(),
        other => format!("error {other}"),
    }
}

/// Expects an error, or 0 for none.
pub(crate) fn errno(what: &str, got: i32, expected: i32) -> Check {
    let (got, expected) = (errno_name(got), errno_name(expected));
    that(got == expected, format_args!("{what} gave {got}, expected {expected}"))
}

/// How long is waited for what the driver does in its own time: the release of a process that died.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// Room for returns that holds everything that a case has delivered at once.
pub(crate) const ROOM: usize = 4096;
/// Bytes of a parcel that are read.
const LOOKED_AT: u64 = 256 << 10;
/// Bytes that an opening maps.
pub(crate) const MAPPED: usize = 1 << 20;
/// The context manager's flags: descriptors are taken, any nice value will do.
pub(crate) const MANAGER_FLAGS: u32 = 0x17f;

/// The driver that a case is run on.
pub(crate) struct Stage<'a> {
    pub(crate) device: &'a dyn Device,
    pub(crate) context: usize,
    /// The process of context managers: drivers refuse calls to handle 0 from the process that is behind it.
    pub(crate) managers: Option<&'a dyn Peer>,
}

impl Stage<'_> {
    /// An opening, and nothing more.
    pub(crate) fn open(&self) -> Check<Party> {
        match self.device.open(self.context) {
            Ok(process) => Ok(Party { process }),
            Err(error) => unexpected(format!("the driver cannot be opened: {}", errno_name(error))),
        }
    }

    /// An opening that may send and receive.
    pub(crate) fn client(&self) -> Check<Party> {
        self.client_with(MAPPED)
    }

    /// The same with a mapping of another size.
    pub(crate) fn client_with(&self, mapped: usize) -> Check<Party> {
        self.open()?.ready(mapped)
    }

    /// A client that is the context manager, too.
    pub(crate) fn manager(&self) -> Check<Party> {
        self.manager_with(MANAGER_FLAGS, MAPPED)
    }

    /// The same with flags of its node, and another size of mapping.
    pub(crate) fn manager_with(&self, flags: u32, mapped: usize) -> Check<Party> {
        let manager = self.open_manager()?.ready(mapped)?;
        manager.become_manager(flags)?;
        Ok(manager)
    }

    /// An opening of the process of context managers, and nothing more.
    pub(crate) fn open_manager(&self) -> Check<Party> {
        let Some(peer) = self.managers else { return not_here("no second process can be started") };
        match peer.open(self.context, false) {
            Ok(process) => Ok(Party { process }),
            Err(error) => unexpected(format!("another process cannot open: {}", errno_name(error))),
        }
    }

    /// A manager and a client.
    pub(crate) fn pair(&self) -> Check<(Party, Party)> {
        Ok((self.manager()?, self.client()?))
    }

    /// A manager and a client, and the manager's handle of the client's object.
    pub(crate) fn holder(&self) -> Check<(Party, Party, u32)> {
        let (manager, client) = self.pair()?;
        let handle = client.gives(0x1000, &manager)?;
        Ok((manager, client, handle))
    }

    /// Another process.
    pub(crate) fn peer(&self) -> Check<Box<dyn Peer>> {
        self.device.start_peer().or_else(not_here)
    }

    /// An opening of another process that may send and receive.
    pub(crate) fn client_of(&self, peer: &dyn Peer, blocks: bool) -> Check<Party> {
        match peer.open(self.context, blocks) {
            Ok(process) => Party { process }.ready(MAPPED),
            Err(error) => unexpected(format!("another process cannot open: {}", errno_name(error))),
        }
    }
}

/// One opening, as a case uses it.
pub(crate) struct Party {
    pub(crate) process: Box<dyn Process>,
}

/// A transaction or a reply that arrived.
pub(crate) struct Received {
    pub(crate) data: Transaction,
    pub(crate) bytes: Vec<u8>,
    pub(crate) offsets: Vec<u64>,
}

/// One object of a parcel that arrived.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) value: u64,
    pub(crate) cookie: u64,
}

impl Received {
    /// The object at `index`.
    pub(crate) fn object(&self, index: usize) -> Check<Object> {
        let at = self.offsets.get(index).and_then(|at| usize::try_from(*at).ok());
        let Some(bytes) = at.and_then(|at| self.bytes.get(at..at + 24)) else {
            return unexpected(format!("the parcel has no object {index}"));
        };
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Ok(Object { kind: word(0), flags: word(4), value: long(8), cookie: long(16) })
    }

    /// The handle at `index`.
    pub(crate) fn handle(&self, index: usize) -> Check<u32> {
        let object = self.object(index)?;
        same("the object's type", object.kind, TYPE_HANDLE)?;
        Ok(object.value as u32)
    }
}

impl Party {
    /// Maps its buffer and enters the pool.
    pub(crate) fn ready(self, mapped: usize) -> Check<Self> {
        errno("mmap", self.process.map(mapped, false), 0)?;
        self.send(Message::new().bare(BC_ENTER_LOOPER))?;
        Ok(self)
    }

    /// Becomes the context manager. One that went away may be about to be released.
    pub(crate) fn become_manager(&self, flags: u32) -> Check {
        let flat = Parcel::default().binder_flags(0, 0, flags);
        let until = Instant::now() + LONGEST_WAIT;
        loop {
            let mut argument = flat.as_bytes().to_vec();
            match self.process.ioctl(BINDER_SET_CONTEXT_MGR_EXT, &mut argument) {
                libc::EBUSY if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
                other => return errno("BINDER_SET_CONTEXT_MGR_EXT", other, 0),
            }
        }
    }

    /// Writes and reads nothing.
    pub(crate) fn write(&self, message: &Message) -> Exchange {
        self.process.exchange(message, 0)
    }

    /// Writes, and expects that everything is taken.
    pub(crate) fn send(&self, message: Message) -> Check {
        let exchange = self.write(&message);
        errno("a write", exchange.errno, 0)?;
        same("what was consumed of a write", exchange.written, message.len() as u64)
    }

    /// One read.
    pub(crate) fn read_once(&self, room: usize) -> Check<Vec<Return>> {
        let exchange = self.process.exchange(&Message::new(), room);
        match exchange.errno {
            0 | libc::EAGAIN => {}
            other => return unexpected(format!("a read gave {}", errno_name(other))),
        }
        match Return::all(&exchange.read) {
            Some(all) => Ok(all),
            None => unexpected("a read ended within a return"),
        }
    }

    /// Everything that is there to be read, without `BR_NOOP`.
    pub(crate) fn returns(&self) -> Check<Vec<Return>> {
        let mut all = Vec::new();
        // A driver that always has something to say is stopped.
        for _ in 0..256 {
            let mut read = self.read_once(ROOM)?;
            read.retain(|one| one.number != BR_NOOP);
            if read.is_empty() {
                return Ok(all);
            }
            all.append(&mut read);
        }
        unexpected("the driver returns something for ever")
    }

    /// Expects these to be there, in this order, and nothing else.
    pub(crate) fn expect(&self, expected: &[u32]) -> Check<Vec<Return>> {
        let found = self.returns()?;
        let numbers: Vec<u32> = found.iter().map(|one| one.number).collect();
        let (got, wanted) = (names_of(&numbers), names_of(expected));
        that(numbers == expected, format_args!("read {got}; expected {wanted}"))?;
        Ok(found)
    }

    pub(crate) fn expect_nothing(&self) -> Check {
        self.expect(&[]).map(drop)
    }

    /// Waits until these are there, for what happens in the driver's own time.
    pub(crate) fn wait_for(&self, expected: &[u32]) -> Check<Vec<Return>> {
        let until = Instant::now() + LONGEST_WAIT;
        let mut found: Vec<Return> = Vec::new();
        loop {
            found.extend(self.returns()?);
            if found.len() >= expected.len() || Instant::now() > until {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let numbers: Vec<u32> = found.iter().map(|one| one.number).collect();
        let (got, wanted) = (names_of(&numbers), names_of(expected));
        that(numbers == expected, format_args!("read {got}; expected {wanted}"))?;
        Ok(found)
    }

    fn received(&self, data: Transaction) -> Check<Received> {
        let most = 8 << 20;
        if data.data_size > most || data.offsets_size > most {
            return unexpected(format!("{} bytes of data arrived", data.data_size));
        }
        let memory = |at, length| match length {
            0 => Some(Vec::new()),
            length => self.process.memory(at, length as usize),
        };
        // What is very large is looked at by its size alone.
        let read = if data.data_size > LOOKED_AT { 0 } else { data.data_size };
        let Some(bytes) = memory(data.buffer, read) else {
            return unexpected("a parcel's bytes cannot be read");
        };
        let Some(offsets) = memory(data.offsets, data.offsets_size) else {
            return unexpected("a parcel's table of objects cannot be read");
        };
        let offsets = offsets.chunks_exact(8);
        let offsets = offsets.map(|eight| u64::from_ne_bytes(eight.try_into().unwrap_or_default())).collect();
        Ok(Received { data, bytes, offsets })
    }

    /// Expects one call, and nothing else.
    pub(crate) fn receive(&self) -> Check<Received> {
        self.receive_after(&[])
    }

    /// Expects these, and then a call.
    pub(crate) fn receive_after(&self, before: &[u32]) -> Check<Received> {
        self.arrived(&[before, &[BR_TRANSACTION]].concat())
    }

    /// Expects the call's completion and its reply.
    pub(crate) fn receive_reply(&self) -> Check<Received> {
        self.arrived(&[BR_TRANSACTION_COMPLETE, BR_REPLY])
    }

    /// Expects these, of which the last brings a transaction.
    pub(crate) fn arrived(&self, expected: &[u32]) -> Check<Received> {
        let found = self.expect(expected)?;
        match found.last().and_then(Return::transaction) {
            Some(data) => self.received(data),
            None => unexpected(format!("{} brings no transaction", names_of(expected))),
        }
    }

    /// Expects returns that begin with these, of which the last brings a transaction; what comes after stays unread.
    pub(crate) fn receive_any(&self, expected: &[u32]) -> Check<Received> {
        let mut found = self.read_once(ROOM)?;
        found.retain(|one| one.number != BR_NOOP);
        let numbers: Vec<u32> = found.iter().map(|one| one.number).collect();
        let (got, wanted) = (names_of(&numbers), names_of(expected));
        that(numbers == expected, format_args!("read {got}; expected {wanted}"))?;
        self.open_parcel(&found[found.len() - 1])
    }

    /// Reads what is there; expects that the last of it is this, and brings a transaction.
    pub(crate) fn arrived_last(&self, expected: u32) -> Check<Received> {
        match self.returns()?.last() {
            Some(last) if last.number == expected => self.open_parcel(last),
            last => {
                let got = last.map_or_else(|| "nothing".to_owned(), |one| name_of(one.number));
                unexpected(format!("the last return is {got}, expected {}", name_of(expected)))
            }
        }
    }

    /// What a return brings.
    pub(crate) fn open_parcel(&self, of: &Return) -> Check<Received> {
        match of.transaction() {
            Some(data) => self.received(data),
            None => unexpected(format!("{} brings no transaction", name_of(of.number))),
        }
    }

    /// Sends a call.
    pub(crate) fn call(&self, call: &Call) -> Check {
        self.send(Message::new().call(call))
    }

    /// Sends a oneway call.
    pub(crate) fn oneway(&self, target: u32, code: u32) -> Check {
        self.call(&Call::to(target, code).flags(TF_ONE_WAY))
    }

    /// Sends a reply with nothing in it.
    pub(crate) fn answer(&self) -> Check {
        self.answer_with(Parcel::default())
    }

    /// Sends a reply with nothing in it, and reads that it was sent.
    pub(crate) fn answer_whole(&self) -> Check {
        self.answer()?;
        self.expect(&[BR_TRANSACTION_COMPLETE]).map(drop)
    }

    /// Sends a reply.
    pub(crate) fn answer_with(&self, parcel: Parcel) -> Check {
        self.send(Message::new().reply(&Call::default().with(parcel)))
    }

    /// Gives a buffer back.
    pub(crate) fn free(&self, received: &Received) -> Check {
        self.send(Message::new().long(BC_FREE_BUFFER, received.data.buffer))
    }

    /// Sends a call that fails, and expects this return of it.
    pub(crate) fn fails(&self, call: &Call, expected: u32) -> Check {
        let exchange = self.write(&Message::new().call(call));
        errno("a write", exchange.errno, 0)?;
        self.expect(&[expected]).map(drop)
    }

    /// A whole call that is answered with nothing, to see that both still work.
    pub(crate) fn works_with(&self, server: &Party) -> Check {
        self.call(&Call::to(0, 77))?;
        let call = server.receive()?;
        same("the code", call.data.code, 77)?;
        server.free(&call)?;
        server.answer()?;
        let reply = self.receive_reply()?;
        server.expect(&[BR_TRANSACTION_COMPLETE])?;
        self.free(&reply)
    }

    /// Sends an object to a manager in a call, which keeps a reference and answers. Gives the manager's handle.
    pub(crate) fn gives(&self, address: u64, to: &Party) -> Check<u32> {
        self.gives_as(Parcel::default().binder(address, address + 1), to)
    }

    /// The same with the parcel that brings it.
    pub(crate) fn gives_as(&self, parcel: Parcel, to: &Party) -> Check<u32> {
        self.call(&Call::to(0, 1).with(parcel))?;
        let call = to.receive()?;
        let handle = call.handle(0)?;
        to.send(Message::new().word(BC_INCREFS, handle).word(BC_ACQUIRE, handle))?;
        to.free(&call)?;
        to.answer_whole()?;
        let mut reply = None;
        for one in self.returns()? {
            let done = match one.number {
                BR_INCREFS => BC_INCREFS_DONE,
                BR_ACQUIRE => BC_ACQUIRE_DONE,
                BR_REPLY => {
                    reply = Some(self.open_parcel(&one)?);
                    continue;
                }
                _ => continue,
            };
            self.send(Message::new().pair(done, one.long(0), one.long(1)))?;
        }
        match reply {
            Some(reply) => self.free(&reply)?,
            None => return unexpected("an object was sent, and no reply came"),
        }
        Ok(handle)
    }

    /// Asks a manager for its reference to something, and keeps one. Gives the own handle.
    pub(crate) fn takes(&self, handle: u32, from: &Party) -> Check<u32> {
        self.call(&Call::to(0, 2))?;
        let call = from.receive()?;
        from.free(&call)?;
        from.answer_with(Parcel::default().handle(handle))?;
        from.expect(&[BR_TRANSACTION_COMPLETE])?;
        let reply = self.receive_reply()?;
        let handle = reply.handle(0)?;
        self.send(Message::new().word(BC_INCREFS, handle).word(BC_ACQUIRE, handle))?;
        self.free(&reply)?;
        Ok(handle)
    }

    /// The last error's command and number, as `BINDER_GET_EXTENDED_ERROR` says them.
    pub(crate) fn extended_error(&self) -> Check<(u32, i32)> {
        let mut error = [0; 12];
        match self.process.ioctl(BINDER_GET_EXTENDED_ERROR, &mut error) {
            0 => {}
            libc::EINVAL => return not_here("this kernel has no BINDER_GET_EXTENDED_ERROR (Linux 6.1 has)"),
            other => return unexpected(format!("BINDER_GET_EXTENDED_ERROR gave {}", errno_name(other))),
        }
        let word = |at: usize| u32::from_ne_bytes([error[at], error[at + 1], error[at + 2], error[at + 3]]);
        Ok((word(4), word(8) as i32))
    }
}
