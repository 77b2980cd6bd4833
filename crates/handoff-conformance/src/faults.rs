//! Faults that are put between the suite and a driver on purpose: a suite that is worth something finds them.
//!
//! Each is a driver that does one thing wrong, made of one that does it right: a return is lost or changed on its way
//! back, a command is kept from the driver, a request is said to be done and is not.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use handoff_ipc::binder::uapi::*;

use crate::Message;
use crate::returns::Return;
use crate::seam::{Device, Exchange, FileIdentity, Peer, Process};

/// A driver's fault.
#[derive(Debug)]
pub struct Fault {
    /// What the driver does wrong.
    pub name: &'static str,
    change: Change,
}

/// What is changed between the suite and the driver.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// A return never arrives.
    Lose(u32),
    /// A return without a body arrives as another one.
    Replace(u32, u32),
    /// Two returns of one read arrive in the other order.
    Swap(u32, u32),
    /// What belongs to a return is another thing.
    Body(u32, fn(&mut [u8])),
    /// A command is taken, and not carried out.
    Ignore(u32),
    /// What belongs to a command is another thing.
    Command(u32, fn(&mut [u8])),
    /// A request is said to have worked, and did nothing.
    Pretend(u32),
    /// A request that fails with this error is said to have worked.
    Forgive(u32, i32),
    /// What a request says is another thing.
    Answer(u32, fn(&mut [u8])),
    /// A writable mapping is made, and one is made writable.
    MapWritable,
    /// A second mapping is made.
    MapTwice,
    /// `poll` says that there is something to read when there is not.
    AlwaysReadable,
    /// Descriptors survive the execution of a program.
    KeepOnExec,
    /// The last byte of what is delivered is another one.
    Spoil,
    /// A process has the nice value that it set, whatever it was lent.
    LendNothing,
}

const fn fault(name: &'static str, change: Change) -> Fault {
    Fault { name, change }
}

/// `flags`, `sender_pid`, `sender_euid` and `cookie` of a transaction's bytes.
const COOKIE: usize = 8;
const FLAGS: usize = 20;
const SENDER_PID: usize = 24;
const SENDER_EUID: usize = 28;

fn put(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&value.to_ne_bytes());
    }
}

fn flags_of(bytes: &[u8]) -> u32 {
    bytes.get(FLAGS..FLAGS + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// All of them.
pub const FAULTS: [Fault; 37] = [
    fault("does not say that a transaction was sent", Change::Lose(BR_TRANSACTION_COMPLETE)),
    fault("says that a reply came before its call was sent", Change::Swap(BR_TRANSACTION_COMPLETE, BR_REPLY)),
    fault("does not say that an object died", Change::Lose(BR_DEAD_BINDER)),
    fault("does not say that a death notice was given up", Change::Lose(BR_CLEAR_DEATH_NOTIFICATION_DONE)),
    fault("gives another cookie with a death notice", Change::Body(BR_DEAD_BINDER, |body| body[0] ^= 1)),
    fault("says of a dead callee that the call failed", Change::Replace(BR_DEAD_REPLY, BR_FAILED_REPLY)),
    fault("says of a frozen callee that it is dead", Change::Replace(BR_FROZEN_REPLY, BR_DEAD_REPLY)),
    fault("does not suspect spam", Change::Replace(BR_ONEWAY_SPAM_SUSPECT, BR_TRANSACTION_COMPLETE)),
    fault("does not ask for another thread", Change::Replace(BR_SPAWN_LOOPER, BR_NOOP)),
    fault("does not take a weak reference for others", Change::Lose(BR_INCREFS)),
    fault("takes the strong reference before the weak one", Change::Swap(BR_INCREFS, BR_ACQUIRE)),
    fault("does not give a strong reference back", Change::Lose(BR_RELEASE)),
    fault("does not give a weak reference back", Change::Lose(BR_DECREFS)),
    fault("does not say who calls", Change::Body(BR_TRANSACTION, |body| put(body, SENDER_PID, 0))),
    fault(
        "says who sent a oneway call",
        Change::Body(BR_TRANSACTION, |body| {
            if flags_of(body) & TF_ONE_WAY != 0 {
                put(body, SENDER_PID, 1);
            }
        }),
    ),
    fault("names another user", Change::Body(BR_TRANSACTION, |body| put(body, SENDER_EUID, 12_345))),
    fault(
        "gives the object's address for its cookie",
        Change::Body(BR_TRANSACTION, |body| {
            body.copy_within(0..8, COOKIE);
        }),
    ),
    fault("does not pass flags on", Change::Body(BR_TRANSACTION, |body| put(body, FLAGS, 0))),
    fault("does not take buffers back", Change::Ignore(BC_FREE_BUFFER)),
    fault("does not take strong references", Change::Ignore(BC_ACQUIRE)),
    fault("does not release strong references", Change::Ignore(BC_RELEASE)),
    fault("does not take weak references", Change::Ignore(BC_INCREFS)),
    fault("forgets that a death notice was asked for", Change::Ignore(BC_REQUEST_DEATH_NOTIFICATION)),
    fault(
        "does not clear buffers",
        Change::Command(BC_TRANSACTION, |body| {
            let flags = flags_of(body);
            put(body, FLAGS, flags & !TF_CLEAR_BUF);
        }),
    ),
    fault(
        "takes descriptors from everybody",
        Change::Command(BC_TRANSACTION, |body| {
            let flags = flags_of(body);
            put(body, FLAGS, flags | TF_ACCEPT_FDS);
        }),
    ),
    fault(
        "lets a second process be the context manager",
        Change::Forgive(BINDER_SET_CONTEXT_MGR_EXT, libc::EBUSY),
    ),
    fault("does not count threads", Change::Pretend(BINDER_SET_MAX_THREADS)),
    fault("keeps threads that leave", Change::Pretend(BINDER_THREAD_EXIT)),
    fault("does not freeze", Change::Pretend(BINDER_FREEZE)),
    fault(
        "does not say what reached a frozen process",
        Change::Answer(BINDER_GET_FROZEN_INFO, |answer| {
            put(answer, 4, 0);
            put(answer, 8, 0);
        }),
    ),
    fault("speaks another version", Change::Answer(BINDER_VERSION, |answer| put(answer, 0, 7))),
    fault("lets its buffer be written to", Change::MapWritable),
    fault("maps its buffer twice", Change::MapTwice),
    fault("is always readable", Change::AlwaysReadable),
    fault("gives descriptors to programs that are executed", Change::KeepOnExec),
    fault("changes a byte", Change::Spoil),
    fault("does not lend a nice value", Change::LendNothing),
];

/// A driver with a fault.
pub struct FaultyDevice<'a> {
    device: &'a dyn Device,
    change: Change,
}

impl<'a> FaultyDevice<'a> {
    /// Puts a fault before a driver.
    pub fn new(device: &'a dyn Device, fault: &Fault) -> Self {
        Self { device, change: fault.change }
    }
}

impl Device for FaultyDevice<'_> {
    fn open(&self, context: usize) -> Result<Box<dyn Process>, i32> {
        Ok(Box::new(FaultyProcess { process: self.device.open(context)?, change: self.change }))
    }

    fn contexts(&self) -> usize {
        self.device.contexts()
    }

    fn start_peer(&self) -> Result<Box<dyn Peer>, String> {
        let peer = self.device.start_peer()?;
        let own_nice = AtomicI32::new(peer.nice());
        Ok(Box::new(FaultyPeer { peer, change: self.change, own_nice }))
    }

    fn pid(&self) -> u32 {
        self.device.pid()
    }

    fn euid(&self) -> u32 {
        self.device.euid()
    }

    fn has_security_contexts(&self) -> bool {
        self.device.has_security_contexts()
    }
}

struct FaultyPeer {
    peer: Box<dyn Peer>,
    change: Change,
    own_nice: AtomicI32,
}

impl Peer for FaultyPeer {
    fn pid(&self) -> u32 {
        self.peer.pid()
    }

    fn open(&self, context: usize, blocks: bool) -> Result<Box<dyn Process>, i32> {
        Ok(Box::new(FaultyProcess { process: self.peer.open(context, blocks)?, change: self.change }))
    }

    fn set_nice(&self, nice: i32) -> i32 {
        let error = self.peer.set_nice(nice);
        if error == 0 {
            self.own_nice.store(nice, Ordering::Relaxed);
        }
        error
    }

    fn nice(&self) -> i32 {
        match self.change {
            Change::LendNothing => self.own_nice.load(Ordering::Relaxed),
            _ => self.peer.nice(),
        }
    }

    fn kill(&mut self) {
        self.peer.kill();
    }
}

struct FaultyProcess {
    process: Box<dyn Process>,
    change: Change,
}

impl FaultyProcess {
    /// The message as the driver gets it; `None` if it is the same.
    fn changed(&self, message: &Message) -> Option<Message> {
        match self.change {
            Change::Ignore(command) => message.without(command),
            Change::Command(command, edit) => message.with_edited(command, edit),
            _ => None,
        }
    }

    fn exchange_through(&self, message: &Message, run: impl FnOnce(&Message) -> Exchange) -> Exchange {
        let changed = self.changed(message);
        let sent = changed.as_ref().unwrap_or(message);
        let mut exchange = run(sent);
        if exchange.written == sent.len() as u64 {
            exchange.written = message.len() as u64;
        }
        self.change_returns(&mut exchange.read);
        exchange
    }

    fn change_returns(&self, read: &mut Vec<u8>) {
        let Some(mut returns) = Return::all(read) else { return };
        match self.change {
            Change::Lose(lost) => returns.retain(|one| one.number != lost),
            Change::Replace(from, to) => {
                returns.iter_mut().filter(|one| one.number == from).for_each(|one| one.number = to);
            }
            Change::Swap(first, second) => {
                let at = |number| returns.iter().position(|one| one.number == number);
                if let (Some(first), Some(second)) = (at(first), at(second)) {
                    returns.swap(first, second);
                }
            }
            Change::Body(number, edit) => {
                returns.iter_mut().filter(|one| one.number == number).for_each(|one| edit(&mut one.body));
            }
            _ => return,
        }
        *read = returns.iter().flat_map(|one| [&one.number.to_ne_bytes()[..], &one.body].concat()).collect();
    }
}

impl Process for FaultyProcess {
    fn exchange(&self, message: &Message, room: usize) -> Exchange {
        self.exchange_through(message, |message| self.process.exchange(message, room))
    }

    fn ioctl(&self, request: u32, argument: &mut [u8]) -> i32 {
        if matches!(self.change, Change::Pretend(pretended) if pretended == request) {
            return 0;
        }
        let error = self.process.ioctl(request, argument);
        match self.change {
            Change::Forgive(forgiven, errno) if (forgiven, errno) == (request, error) => 0,
            Change::Answer(answered, edit) if answered == request && error == 0 => {
                edit(argument);
                0
            }
            _ => error,
        }
    }

    fn ioctl_at(&self, request: u32, address: u64) -> i32 {
        self.process.ioctl_at(request, address)
    }

    fn map(&self, length: usize, is_writable: bool) -> i32 {
        match (self.process.map(length, is_writable), self.change) {
            (libc::EPERM, Change::MapWritable) | (libc::EBUSY, Change::MapTwice) => 0,
            (error, _) => error,
        }
    }

    fn unmap(&self) {
        self.process.unmap();
    }

    fn make_writable(&self) -> i32 {
        match self.change {
            Change::MapWritable => 0,
            _ => self.process.make_writable(),
        }
    }

    fn mapping(&self) -> u64 {
        self.process.mapping()
    }

    fn memory(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut memory = self.process.memory(address, length)?;
        if let (Change::Spoil, Some(last)) = (self.change, memory.last_mut()) {
            *last ^= 1;
        }
        Some(memory)
    }

    fn is_readable(&self) -> bool {
        matches!(self.change, Change::AlwaysReadable) || self.process.is_readable()
    }

    fn file(&self, fd: i32) -> Option<FileIdentity> {
        let file = self.process.file(fd)?;
        let keeps = matches!(self.change, Change::KeepOnExec);
        Some(FileIdentity { closes_on_exec: file.closes_on_exec && !keeps, ..file })
    }

    fn open_file(&self) -> Option<i32> {
        self.process.open_file()
    }

    fn inherited(&self) -> Result<Box<dyn Process>, String> {
        Ok(Box::new(Self { process: self.process.inherited()?, change: self.change }))
    }

    fn start_exchange(&self, message: &Message, room: usize) {
        self.process.start_exchange(self.changed(message).as_ref().unwrap_or(message), room);
    }

    fn finish_exchange(&self, patience: Duration) -> Option<Exchange> {
        let mut exchange = self.process.finish_exchange(patience)?;
        self.change_returns(&mut exchange.read);
        Some(exchange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Call;

    #[test]
    fn a_command_is_taken_out_and_addresses_stay_right() {
        let call = Call::to(0, 7).flags(TF_CLEAR_BUF | TF_ACCEPT_FDS).sized(16);
        let message = Message::new().long(BC_FREE_BUFFER, 5).call(&call).word(BC_ACQUIRE, 1);
        let without = message.without(BC_FREE_BUFFER).expect("it was there");
        let alone = Message::new().call(&call).word(BC_ACQUIRE, 1);
        assert_eq!(without.len(), alone.len());
        let (commands, blocks) = without.placed();
        let transaction = Transaction::from_bytes(commands[4..68].try_into().expect("64 bytes"));
        assert_eq!((transaction.code, transaction.buffer), (7, blocks[0].as_ptr().addr() as u64));
        assert!(message.without(BC_RELEASE).is_none());
        // A transaction that is taken out takes its addresses with it.
        message.without(BC_TRANSACTION).expect("it was there").placed();
        let edited = message.with_edited(BC_TRANSACTION, |body| put(body, FLAGS, 0)).expect("it was there");
        assert_eq!(flags_of(&edited.placed().0[16..80]), 0);
    }

    #[test]
    fn returns_are_lost_changed_and_swapped() {
        struct Silent;
        impl Process for Silent {
            fn exchange(&self, _: &Message, _: usize) -> Exchange {
                let mut read = BR_TRANSACTION_COMPLETE.to_ne_bytes().to_vec();
                read.extend(BR_DEAD_BINDER.to_ne_bytes());
                read.extend(8u64.to_ne_bytes());
                Exchange { read, ..Exchange::default() }
            }
            fn ioctl(&self, _: u32, _: &mut [u8]) -> i32 {
                libc::EBUSY
            }
            fn ioctl_at(&self, _: u32, _: u64) -> i32 {
                0
            }
            fn map(&self, _: usize, _: bool) -> i32 {
                libc::EPERM
            }
            fn unmap(&self) {}
            fn make_writable(&self) -> i32 {
                libc::EACCES
            }
            fn mapping(&self) -> u64 {
                0
            }
            fn memory(&self, _: u64, _: usize) -> Option<Vec<u8>> {
                Some(vec![0, 0])
            }
            fn is_readable(&self) -> bool {
                false
            }
            fn file(&self, _: i32) -> Option<FileIdentity> {
                Some(FileIdentity { inode: 1, closes_on_exec: true })
            }
            fn open_file(&self) -> Option<i32> {
                None
            }
            fn inherited(&self) -> Result<Box<dyn Process>, String> {
                Ok(Box::new(Silent))
            }
            fn start_exchange(&self, _: &Message, _: usize) {}
            fn finish_exchange(&self, _: Duration) -> Option<Exchange> {
                None
            }
        }
        let with = |change| FaultyProcess { process: Box::new(Silent), change };
        let numbers = |change| -> Vec<u32> {
            let read = with(change).exchange(&Message::new(), 64).read;
            Return::all(&read).expect("whole").iter().map(|one| one.number).collect()
        };
        assert_eq!(numbers(Change::Lose(BR_DEAD_BINDER)), [BR_TRANSACTION_COMPLETE]);
        assert_eq!(numbers(Change::Replace(BR_TRANSACTION_COMPLETE, BR_NOOP)), [BR_NOOP, BR_DEAD_BINDER]);
        let swapped = numbers(Change::Swap(BR_TRANSACTION_COMPLETE, BR_DEAD_BINDER));
        assert_eq!(swapped, [BR_DEAD_BINDER, BR_TRANSACTION_COMPLETE]);
        let read = with(Change::Body(BR_DEAD_BINDER, |body| body[0] ^= 1)).exchange(&Message::new(), 64).read;
        assert_eq!(read[8], 9);
        assert_eq!(with(Change::Forgive(1, libc::EBUSY)).ioctl(1, &mut []), 0);
        assert_eq!(with(Change::Pretend(1)).ioctl(2, &mut []), libc::EBUSY);
        assert_eq!(
            (with(Change::MapWritable).map(1, true), with(Change::MapTwice).map(1, true)),
            (0, libc::EPERM)
        );
        assert_eq!(with(Change::Spoil).memory(0, 2), Some(vec![0, 1]));
        assert!(with(Change::AlwaysReadable).inherited().expect("itself").is_readable());
        assert!(!with(Change::KeepOnExec).file(0).expect("there").closes_on_exec);
    }

    #[test]
    fn faults_have_names_of_their_own() {
        let mut names: Vec<&str> = FAULTS.iter().map(|fault| fault.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FAULTS.len());
    }
}
