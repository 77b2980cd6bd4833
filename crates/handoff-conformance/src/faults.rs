//! Faults that are put between the suite and a driver on purpose: a suite that is worth something finds them.
//!
//! Each is a driver that does one thing wrong, made of one that does it right: a return is lost or changed on its way
//! back, a command is kept from the driver, a request is said to be done and is not.

use handoff_ipc::binder::uapi::*;

use crate::Message;
use crate::returns::Return;
use crate::seam::FileIdentity;

/// A driver's fault.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// What the driver does wrong.
    pub name: &'static str,
    pub(crate) change: Change,
}

/// What is changed between the suite and the driver.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
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

/// What each change makes of what passes; `None` where it leaves it as it is.
impl Change {
    /// A message on its way to the driver.
    pub(crate) fn of_message(self, message: &Message) -> Option<Message> {
        let changed = match self {
            Self::Ignore(command) => message.without(command),
            Self::Command(command, edit) => message.with_edited(command, edit),
            _ => None,
        };
        changed.filter(|changed| changed != message)
    }

    /// What a driver returned.
    pub(crate) fn of_returns(self, read: &[u8]) -> Option<Vec<u8>> {
        let mut returns = Return::all(read)?;
        match self {
            Self::Lose(lost) => returns.retain(|one| one.number != lost),
            Self::Replace(from, to) => {
                returns.iter_mut().filter(|one| one.number == from).for_each(|one| one.number = to);
            }
            Self::Swap(first, second) => {
                let at = |number| returns.iter().position(|one| one.number == number);
                if let (Some(first), Some(second)) = (at(first), at(second)) {
                    returns.swap(first, second);
                }
            }
            Self::Body(number, edit) => {
                returns.iter_mut().filter(|one| one.number == number).for_each(|one| edit(&mut one.body));
            }
            _ => return None,
        }
        let changed: Vec<u8> =
            returns.iter().flat_map(|one| [&one.number.to_ne_bytes()[..], &one.body].concat()).collect();
        (changed != read).then_some(changed)
    }

    /// The error of a request that the driver does not get.
    pub(crate) fn of_request(self, request: u32) -> Option<i32> {
        matches!(self, Self::Pretend(pretended) if pretended == request).then_some(0)
    }

    /// What a request came to: its error, and its argument.
    pub(crate) fn of_outcome(self, request: u32, error: i32, argument: &[u8]) -> Option<(i32, Vec<u8>)> {
        let mut changed = argument.to_vec();
        match self {
            Self::Forgive(forgiven, errno) if (forgiven, errno) == (request, error) => {
                return Some((0, changed));
            }
            Self::Answer(answered, edit) if (answered, 0) == (request, error) => edit(&mut changed),
            _ => return None,
        }
        (changed != argument).then_some((error, changed))
    }

    /// The error of `mmap`.
    pub(crate) fn of_map(self, error: i32) -> Option<i32> {
        let forgives =
            matches!((error, self), (libc::EPERM, Self::MapWritable) | (libc::EBUSY, Self::MapTwice));
        forgives.then_some(0)
    }

    /// The error of `mprotect`.
    pub(crate) fn of_make_writable(self, error: i32) -> Option<i32> {
        (error != 0 && matches!(self, Self::MapWritable)).then_some(0)
    }

    /// Memory that was delivered.
    pub(crate) fn of_memory(self, memory: &[u8]) -> Option<Vec<u8>> {
        let (Self::Spoil, [start @ .., last]) = (self, memory) else { return None };
        Some([start, &[last ^ 1]].concat())
    }

    /// What `poll` answers under this fault, where that is not what the driver said.
    pub(crate) fn of_poll(self, is_readable: bool) -> Option<bool> {
        (!is_readable && matches!(self, Self::AlwaysReadable)).then_some(true)
    }

    /// A descriptor that was delivered.
    pub(crate) fn of_file(self, file: FileIdentity) -> Option<FileIdentity> {
        let keeps = file.closes_on_exec && matches!(self, Self::KeepOnExec);
        keeps.then_some(FileIdentity { closes_on_exec: false, ..file })
    }

    /// The nice value of a process that set its own.
    pub(crate) fn of_nice(self, own: i32, nice: i32) -> Option<i32> {
        (own != nice && matches!(self, Self::LendNothing)).then_some(own)
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
    fn faults_have_names_of_their_own() {
        let mut names: Vec<&str> = FAULTS.iter().map(|fault| fault.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FAULTS.len());
    }
}
