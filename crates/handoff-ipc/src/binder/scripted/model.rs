//! Stands in for the kernel's driver: says what a script has it say, and keeps account of what it hears.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::pwrite;

use super::delivery::{BufferSpace, deliver};
use super::input::Input;
use crate::binder::lend;
use crate::binder::returns::{Return, Returns};
use crate::binder::uapi::{
    self, BUFFER, TF_CLEAR_BUF, TF_ONE_WAY, TF_STATUS_CODE, TRANSACTION, TYPE_BINDER, TYPE_FD, TYPE_HANDLE,
    Transaction,
};
use crate::code::{DUMP, INTERFACE, PING};
use crate::locked::lock;
use crate::parcel::{FDA_OBJECT_SIZE, FLAT_OBJECT_SIZE, PTR_OBJECT_SIZE, TYPE_FDA, TYPE_PTR};
use crate::{Error, Result};

/// Returns of one reading take no more than a reader's buffer has.
const LONGEST: usize = 160;

/// Numbers of two commands.
const REPLY: u32 = 1;
const FREE: u32 = 3;

/// A driver with a script.
pub(crate) struct Script {
    memory: OwnedFd,
    state: Mutex<State>,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Script")
    }
}

struct State {
    script: Vec<u8>,
    // Objects of the process that it has told of.
    known: Vec<u64>,
    // How much of the memory parcels have taken.
    used: usize,
    file: Option<OwnedFd>,
    account: Account,
}

/// What this process owes and is owed.
#[derive(Default)]
struct Account {
    /// Parcels that were not given back, with what is closed when they are.
    delivered: HashMap<u64, Vec<Vec<OwnedFd>>>,
    /// Callers that wait for a reply.
    waiting: i64,
    /// Weak and strong references to objects of others.
    references: HashMap<u32, (i64, i64)>,
    /// Acknowledgements that are due, by what they are of.
    due: HashMap<(u32, u64), i64>,
    /// What may be said because of bytes that were no script's: a command, and what it is of.
    excused: HashMap<(u32, u64), usize>,
    complaints: Arc<Mutex<Vec<String>>>,
}

impl Account {
    fn complain(&self, what: String) {
        lock(&self.complaints).push(what);
    }

    fn excuse(&mut self, command: u32, of: u64) {
        *self.excused.entry((command, of)).or_default() += 1;
    }

    fn is_excused(&mut self, command: u32, of: u64) -> bool {
        let left = self.excused.get_mut(&(command, of)).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    }

    fn done(&mut self, command: u32, of: u64) {
        let due = self.due.entry((command, of)).or_default();
        if *due > 0 {
            *due -= 1;
        } else if !self.is_excused(command, of) {
            self.complain(format!("command {command} acknowledges {of:#x}, of which nothing was said"));
        }
    }

    fn due(&mut self, command: u32, of: u64) {
        *self.due.entry((command, of)).or_default() += 1;
    }

    fn free(&mut self, buffer: u64) {
        if let Some(of_this) = self.delivered.get_mut(&buffer) {
            of_this.pop();
            if of_this.is_empty() {
                self.delivered.remove(&buffer);
            }
            return;
        }
        if !self.is_excused(FREE, buffer) {
            self.complain(format!("the buffer {buffer:#x} was given back, and is not delivered"));
        }
    }

    fn reply(&mut self) {
        if self.waiting > 0 {
            self.waiting -= 1;
        } else if !self.is_excused(REPLY, 0) {
            self.complain("a reply, and nobody waits for one".into());
        }
    }

    fn refer(&mut self, handle: u32, weak: i64, strong: i64) {
        let counts = self.references.entry(handle).or_default();
        *counts = (counts.0 + weak, counts.1 + strong);
        if counts.0 < 0 || counts.1 < 0 {
            let counts = *counts;
            self.complain(format!("handle {handle} has {counts:?} references"));
        }
    }

    /// A handle is used, which only its references keep what it is.
    fn uses(&self, handle: u32) {
        if self.references.get(&handle).is_none_or(|(_, strong)| *strong <= 0) {
            self.complain(format!("handle {handle} is used without a reference"));
        }
    }

    fn close(&self) {
        for buffer in self.delivered.keys() {
            self.complain(format!("the buffer {buffer:#x} was not given back"));
        }
        if self.waiting > 0 {
            self.complain(format!("{} callers wait for ever", self.waiting));
        }
        for (handle, counts) in self.references.iter().filter(|(_, counts)| **counts != (0, 0)) {
            self.complain(format!("handle {handle} is left with {counts:?} references"));
        }
        for ((command, of), due) in self.due.iter().filter(|(_, due)| **due > 0) {
            self.complain(format!("command {command} of {of:#x} is missing {due} times"));
        }
    }
}

impl Script {
    pub(super) fn new(script: &[u8], file: OwnedFd, complaints: Arc<Mutex<Vec<String>>>) -> Self {
        let memory = memfd_create("handoff-script", MemfdFlags::CLOEXEC).expect("memory");
        ftruncate(&memory, BUFFER as u64).expect("memory");
        let state = State {
            script: script.iter().rev().copied().collect(),
            known: Vec::new(),
            used: 0,
            file: Some(file),
            account: Account { complaints, ..Account::default() },
        };
        Script { memory, state: Mutex::new(state) }
    }

    /// What the driver's buffer is mapped from.
    pub(crate) fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// An object may be called.
    pub(super) fn knows(&self, id: u64) {
        lock(&self.state).known.push(id);
    }

    /// Nothing more is said.
    pub(super) fn is_over(&self) -> bool {
        lock(&self.state).script.is_empty()
    }

    /// The conversation is over: nobody may owe anything any more.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.file = None;
        state.account.close();
    }

    /// `BINDER_WRITE_READ`, of a process that has the buffer at `start`.
    pub(crate) fn write_read<'b>(
        &self,
        start: usize,
        out: &mut Vec<u8>,
        read: &'b mut [MaybeUninit<u8>],
    ) -> Result<&'b [u8]> {
        let mut state = lock(&self.state);
        state.get_and_execute(out);
        out.clear();
        if read.is_empty() {
            return Ok(&[]);
        }
        if state.script.is_empty() {
            let over = std::io::Error::from_raw_os_error(libc::ENODEV);
            return Err(Error::io("the script is over", over));
        }
        let said = state.queue_command(start as u64, &self.memory);
        assert!(said.len() <= read.len(), "{} bytes for a buffer of {}", said.len(), read.len());
        for (place, byte) in read.iter_mut().zip(&said) {
            place.write(*byte);
        }
        // SAFETY: so many bytes were written just now.
        Ok(unsafe { std::slice::from_raw_parts(read.as_ptr().cast(), said.len()) })
    }
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// One reading of what the driver says.
struct Reading<'s, 'm> {
    /// The script, from here on.
    input: Input<'s>,
    /// What was said so far.
    said: Vec<u8>,
    /// Where the process has the buffer.
    start: u64,
    /// What the buffer is mapped from.
    memory: &'m OwnedFd,
}

impl State {
    /// Everything that the process says.
    fn get_and_execute(&mut self, mut out: &[u8]) {
        while !out.is_empty() {
            let number = word(out, 0);
            let size = (number >> 16 & 0x3fff) as usize;
            let Some((arguments, rest)) = out.get(4..).and_then(|rest| rest.split_at_checked(size)) else {
                return self.account.complain(format!("half of command {number:#x}"));
            };
            out = rest;
            if number >> 8 & 0xff != u32::from(b'c') {
                return self.account.complain(format!("no command: {number:#x}"));
            }
            let (first, account) = (word(arguments, 0), &mut self.account);
            match (number & 0xff, size) {
                (0 | 1, 64) | (17 | 18, 72) => {
                    let data = arguments.first_chunk::<TRANSACTION>().map(Transaction::from_bytes);
                    let data = data.unwrap_or_default();
                    if matches!(number & 0xff, 1 | 18) {
                        account.reply();
                    } else {
                        account.uses(data.target as u32);
                    }
                    self.take(&data);
                }
                (3, 8) => account.free(long(arguments, 0)),
                (4, 4) => account.refer(first, 1, 0),
                (5, 4) => account.refer(first, 0, 1),
                (6, 4) => account.refer(first, 0, -1),
                (7, 4) => account.refer(first, -1, 0),
                (command @ (8 | 9), 16) => account.done(command, long(arguments, 0)),
                (command @ (16 | 21), 8) => account.done(command, long(arguments, 0)),
                (11 | 12, 0) => {}
                (14 | 15 | 19 | 20, 12) => account.uses(first),
                _ => account.complain(format!("command {number:#x} is unknown")),
            }
        }
    }

    /// Takes a parcel over from its sender.
    fn take(&mut self, data: &Transaction) {
        let read = |at: u64, len: u64| match len {
            0 => Vec::new(),
            // SAFETY: a transaction that is said points to a parcel and its table of objects, which their sender
            // keeps until it was heard. That it does so is what is tested here: a sanitizer would tell.
            _ => unsafe { std::slice::from_raw_parts(at as *const u8, len as usize) }.to_vec(),
        };
        let (bytes, offsets) = (read(data.buffer, data.data_size), read(data.offsets, data.offsets_size));
        let mut free_from = 0;
        for at in offsets.chunks_exact(8).map(|raw| long(raw, 0) as usize) {
            let kind = bytes.get(at..).map_or(0, |object| word(object, 0));
            let size = match kind {
                TYPE_PTR => PTR_OBJECT_SIZE,
                TYPE_FDA => FDA_OBJECT_SIZE,
                TYPE_BINDER | TYPE_HANDLE | TYPE_FD => FLAT_OBJECT_SIZE,
                _ => usize::MAX,
            };
            if at < free_from || at.checked_add(size).is_none_or(|end| end > bytes.len()) {
                return self.account.complain(format!("no object can stand at {at}, of type {kind:#x}"));
            }
            free_from = at + size;
            match kind {
                TYPE_BINDER => self.known.push(long(&bytes, at + 16)),
                TYPE_HANDLE => self.account.uses(word(&bytes, at + 8)),
                TYPE_PTR => drop(read(long(&bytes, at + 8), long(&bytes, at + 16))),
                _ => {}
            }
        }
    }

    /// What is read next.
    fn queue_command(&mut self, start: u64, memory: &OwnedFd) -> Vec<u8> {
        let script: Vec<u8> = self.script.iter().rev().copied().collect();
        // The kernel begins each of them so.
        let said = uapi::BR_NOOP.to_ne_bytes().to_vec();
        let mut reading = Reading { input: Input(&script), said, start, memory };
        while reading.said.len() < LONGEST {
            let Some(kind) = reading.input.next() else { break };
            if !self.say_one(kind, &mut reading) {
                break;
            }
        }
        self.script.truncate(reading.input.0.len());
        reading.said
    }

    /// Adds one return. False if it is the last of its reading.
    fn say_one(&mut self, kind: u8, reading: &mut Reading<'_, '_>) -> bool {
        let Reading { input, said, .. } = reading;
        let mut bare = |number: u32| said.extend(number.to_ne_bytes());
        match kind % 22 {
            0 => return false,
            1 => bare(uapi::BR_TRANSACTION_COMPLETE),
            2 => bare(uapi::BR_DEAD_REPLY),
            3 => bare(uapi::BR_FAILED_REPLY),
            4 => bare(uapi::BR_FROZEN_REPLY),
            5 => bare(uapi::BR_ONEWAY_SPAM_SUSPECT),
            6 => bare(uapi::BR_TRANSACTION_PENDING_FROZEN),
            7 => bare(uapi::BR_OK),
            // After one of these the kernel says nothing more.
            8..=11 => {
                self.transact(kind, reading);
                return false;
            }
            counting @ 12..=15 => {
                let index = usize::from(input.byte());
                let object = self.known.get(index).copied().unwrap_or(index as u64);
                let (number, done) = [
                    (uapi::BR_INCREFS, Some(8)),
                    (uapi::BR_ACQUIRE, Some(9)),
                    (uapi::BR_RELEASE, None),
                    (uapi::BR_DECREFS, None),
                ][usize::from(counting) - 12];
                bare(number);
                said.extend([object, object].map(u64::to_ne_bytes).as_flattened());
                if let Some(done) = done {
                    self.account.due(done, object);
                }
            }
            told @ 16..=18 => {
                let cookie = u64::from(input.byte() % 8);
                bare(
                    [uapi::BR_DEAD_BINDER, uapi::BR_FROZEN_BINDER, uapi::BR_CLEAR_DEATH_NOTIFICATION_DONE]
                        [usize::from(told) - 16],
                );
                said.extend(cookie.to_ne_bytes());
                match told {
                    16 => self.account.due(16, cookie),
                    17 => {
                        said.extend([input.byte() & 1, 0, 0, 0, 0, 0, 0, 0]);
                        self.account.due(21, cookie);
                    }
                    _ => {}
                }
            }
            19 => {
                bare(uapi::BR_ERROR);
                said.extend(i32::from(input.byte() as i8).to_ne_bytes());
            }
            // Of a kernel that is newer than everything here.
            20 => {
                let (number, size) = (23 + u32::from(input.byte() % 100), u32::from(input.byte() % 48));
                bare(2 << 30 | size << 16 | u32::from(b'r') << 8 | number);
                said.extend(std::iter::repeat_n(kind, size as usize));
            }
            _ => {
                self.garble(reading);
                return false;
            }
        }
        true
    }

    /// A call or a reply.
    fn transact(&mut self, kind: u8, reading: &mut Reading<'_, '_>) {
        let Reading { input, said, start, memory } = reading;
        let (flags, target) = (input.byte(), usize::from(input.byte()));
        let code = input.word();
        let code = match code >> 24 {
            240.. => [PING, INTERFACE, DUMP, lend::ASK, 0, u32::MAX][code as usize % 6],
            _ => code & 0xff_ffff,
        };
        let is_reply = kind % 22 >= 10;
        let place =
            BufferSpace { start: *start + self.used as u64, room: BUFFER.saturating_sub(self.used + 8) };
        let with_token = !is_reply && flags & 16 == 0;
        let Some(file) = &self.file else { return };
        let Some(delivery) = deliver(input, &place, &self.known, with_token, file.as_fd()) else { return };
        // The buffer is memory of its own: it takes every parcel that there is room for.
        let written = pwrite(*memory, &delivery.bytes, self.used as u64).expect("written");
        assert_eq!(written, delivery.bytes.len());
        // No two parcels have one address.
        self.used += delivery.bytes.len().next_multiple_of(8) + 8;
        let known = self.known.get(target).copied().unwrap_or(target as u64);
        let oneway = !is_reply && flags & 1 != 0;
        let data = Transaction {
            target: known,
            cookie: known,
            code,
            flags: if oneway { TF_ONE_WAY } else { 0 }
                | if flags & 2 != 0 { TF_STATUS_CODE } else { 0 }
                | if flags & 4 != 0 { TF_CLEAR_BUF } else { 0 }
                | if flags & 8 != 0 { lend::TF_CLAIM } else { 0 },
            sender_pid: if flags & 32 == 0 { std::process::id() as i32 } else { -1 },
            sender_euid: 7,
            data_size: delivery.data_size,
            offsets_size: delivery.offsets_size,
            buffer: delivery.data,
            offsets: delivery.offsets,
        };
        self.account.delivered.entry(delivery.data).or_default().push(delivery.closes);
        self.account.waiting += i64::from(!is_reply && !oneway);
        let (number, context) = match kind % 22 {
            8 => (uapi::BR_TRANSACTION, None),
            9 => (uapi::BR_TRANSACTION_SEC_CTX, Some(delivery.data.wrapping_add(target as u64))),
            _ => (uapi::BR_REPLY, None),
        };
        said.extend(number.to_ne_bytes());
        said.extend(data.to_bytes());
        said.extend(context.iter().flat_map(|at| at.to_ne_bytes()));
    }

    /// Adds bytes that may be anything.
    fn garble(&mut self, reading: &mut Reading<'_, '_>) {
        let Reading { input, said, .. } = reading;
        let raw = input.some();
        let whole = said.len();
        said.extend(&raw[..raw.len().min(LONGEST - whole.min(LONGEST))]);
        // What has a consequence has it only if it is heard.
        let mut heard = Returns::new(&said[whole..]);
        while let Ok(Some(next)) = heard.next() {
            match next {
                // More threads than this one would take turns in reading the script.
                Return::SpawnLooper => {
                    said.truncate(whole);
                    return;
                }
                Return::Transaction(data, _) | Return::Reply(data) => {
                    self.account.excuse(FREE, Transaction::from_bytes(data).buffer);
                    self.account.excuse(REPLY, 0);
                }
                Return::IncRefs(object, _) => self.account.excuse(8, object),
                Return::Acquire(object, _) => self.account.excuse(9, object),
                Return::DeadBinder(cookie) => self.account.excuse(16, cookie),
                Return::FrozenBinder { cookie, .. } => self.account.excuse(21, cookie),
                _ => {}
            }
        }
    }
}
