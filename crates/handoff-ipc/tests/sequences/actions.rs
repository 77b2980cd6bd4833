//! Hostile actions, as any bytes say: control messages, words in slots, rings and frames, descriptors, ends.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use handoff_ipc::Binder;

use crate::raw::{
    Connection, MESSAGE, Message, endpoint, introduced, kind, message, meta, object, send_bytes, word,
};
use crate::regions::{Entry, RING, Request, Ring, SLOT, Slot, memfd, slot_of_victim};
use crate::service::{ASK, ECHO, Everything, FRAMES, KEEP, MAKE_FD, READ_FD, SELF, UNKNOWN};
use crate::world::World;

/// Most attackers, and most actions of a sequence: within the share of one process.
const ATTACKERS: usize = 3;
const ACTIONS: usize = 40;
/// Slots of one attacker.
const SLOTS: u32 = 6;
/// How long an attacker waits for what may not come.
const SOON: Duration = Duration::from_millis(3);

/// Reads a sequence; past its end everything is 0.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit.max(1)
    }

    /// A number near a limit of something, or any.
    fn number(&mut self) -> u32 {
        const EDGES: [u32; 14] =
            [0, 1, 2, 31, 32, 48, 1024, 4096, 1 << 20, 2 << 20, 4 << 20, i32::MAX as u32, 1 << 31, u32::MAX];
        match self.byte() {
            small @ 0..64 => small.into(),
            edge @ 64..192 => EDGES[usize::from(edge) % EDGES.len()].wrapping_add(u32::from(edge >> 6) & 1),
            _ => u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
        }
    }
}

/// One connection of an attacker, and what it has of it.
struct Attacker {
    connection: Connection,
    slots: Vec<Slot>,
    /// Slots of the engine, in which it calls the attacker.
    theirs: Vec<Slot>,
    ring: Option<(Ring, u32)>,
    fds: Vec<OwnedFd>,
    tokens: Vec<[u8; 16]>,
    nodes: Vec<u64>,
}

/// Does what the bytes say, then looks at the honest side.
pub fn run(world: &mut World, sequence: &[u8]) {
    let mut bytes = Bytes(sequence);
    let mut attackers = vec![Attacker::new(world)];
    for _ in 0..ACTIONS {
        if bytes.0.is_empty() {
            break;
        }
        let action = bytes.byte() % 24;
        if std::env::var_os("HANDOFF_SEQUENCE_ACTIONS").is_some() {
            eprintln!("action {action}, {} bytes left", bytes.0.len());
        }
        match action {
            0 if attackers.len() < ATTACKERS => attackers.push(Attacker::new(world)),
            1 if attackers.len() > 1 => {
                let gone = bytes.below(attackers.len());
                drop(attackers.swap_remove(gone));
            }
            2 | 3 => world.call(),
            action => {
                let attacker = bytes.below(attackers.len());
                attackers[attacker].act(action, &mut bytes);
                if !attackers[attacker].connection.is_open() {
                    attackers[attacker] = Attacker::new(world);
                }
            }
        }
    }
    drop(attackers);
    world.check();
}

impl Attacker {
    fn new(world: &World) -> Self {
        let connection = Connection::to(&world.socket).expect("a newcomer is greeted");
        let nodes = vec![connection.root];
        Attacker {
            connection,
            slots: Vec::new(),
            theirs: Vec::new(),
            ring: None,
            fds: Vec::new(),
            tokens: Vec::new(),
            nodes,
        }
    }

    fn act(&mut self, action: u8, bytes: &mut Bytes<'_>) {
        match action {
            4..=6 => self.any_message(bytes),
            7 => {
                let id = if bytes.byte() < 200 { self.slots.len() as u32 } else { bytes.number() };
                if self.slots.len() < SLOTS as usize {
                    self.slots.push(self.connection.slot(id));
                }
            }
            8 => self.ring = Some((self.connection.ring(), 0)),
            9..=11 => self.call(bytes),
            12 => self.lie_in_a_slot(bytes),
            13 => self.post(bytes),
            14 => self.scribble_over_a_ring(bytes),
            15 | 16 => self.listen(),
            17 | 18 => self.answer(bytes),
            19 => self.write_into_what_was_received(bytes),
            20 => self.be_introduced(bytes),
            21 => {
                let (id, fds) = (self.slot_id(bytes), self.descriptors(bytes));
                let fds: Vec<RawFd> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
                self.send(message(kind::FDS, id, u64::from(bytes.byte() & 1)), &fds);
            }
            22 => {
                let mut short = vec![0; bytes.below(2 * MESSAGE)];
                short.iter_mut().for_each(|byte| *byte = bytes.byte());
                send_bytes(&self.connection.socket, &short, &[]);
            }
            _ => {
                // Half of the connection.
                // SAFETY: it closes a direction of a socket that is open.
                unsafe { libc::shutdown(self.connection.socket.as_raw_fd(), bytes.below(3) as i32) };
            }
        }
    }

    /// Does not wait for a socket that is full.
    fn send(&self, message: Message, fds: &[RawFd]) {
        send_bytes(&self.connection.socket, &message.bytes(), fds);
    }

    fn node(&mut self, bytes: &mut Bytes<'_>) -> u64 {
        match bytes.byte() {
            known @ 0..200 => self.nodes[usize::from(known) % self.nodes.len()],
            _ => u64::from(bytes.number()) | u64::from(bytes.byte() / 200) << 32,
        }
    }

    fn slot_id(&mut self, bytes: &mut Bytes<'_>) -> u32 {
        match bytes.byte() {
            known @ 0..200 => u32::from(known) % SLOTS,
            _ => bytes.number(),
        }
    }

    fn token(&mut self, bytes: &mut Bytes<'_>) -> [u8; 16] {
        let which = bytes.below(self.tokens.len() + 1);
        self.tokens.get(which).copied().unwrap_or([bytes.byte(); 16])
    }

    /// Descriptors of several kinds, none to four.
    fn descriptors(&mut self, bytes: &mut Bytes<'_>) -> Vec<OwnedFd> {
        let all = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        let count = bytes.below(5);
        let any = |bytes: &mut Bytes<'_>| match bytes.byte() % 8 {
            0 => memfd(SLOT, 0, all),
            1 => memfd(RING, 0, all),
            2 => memfd(SLOT, 0, 0),
            3 => memfd(bytes.number() as usize % SLOT, 0, all),
            4 => crate::raw::pair().0,
            5 => File::open("/dev/null").unwrap().into(),
            6 => File::open("/").unwrap().into(),
            _ => memfd(4096, 0, all | libc::F_SEAL_FUTURE_WRITE),
        };
        let mut fds: Vec<OwnedFd> = (0..count).map(|_| any(bytes)).collect();
        // The engine's own, too.
        if bytes.byte() > 200 {
            fds.extend(self.fds.pop());
        }
        fds
    }

    fn any_message(&mut self, bytes: &mut Bytes<'_>) {
        let kind = u32::from(bytes.byte() % 20);
        let fds = if bytes.byte() > 128 { self.descriptors(bytes) } else { Vec::new() };
        let hostile = Message {
            kind,
            a: self.slot_id(bytes),
            b: self.node(bytes),
            first: self.token(bytes),
            second: self.token(bytes),
        };
        let fds: Vec<RawFd> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
        self.send(hostile, &fds);
    }

    /// A request as the library writes one, to whatever object.
    fn request(&mut self, bytes: &mut Bytes<'_>) -> Request {
        let mine = Entry { kind: object::OF_SENDER, value: u64::from(bytes.byte() % 4), ..Entry::default() };
        let entry = match bytes.byte() % 8 {
            0..=3 => mine,
            4 => Entry { kind: object::OF_RECEIVER, value: self.node(bytes), ..mine },
            5 => Entry { kind: object::OF_THIRD, endpoint: endpoint(), token: self.token(bytes), ..mine },
            _ => Entry { kind: bytes.number(), value: self.node(bytes), token: self.token(bytes), ..mine },
        };
        let node = self.node(bytes);
        let new = Request::new(node, CODES[bytes.byte() as usize % CODES.len()]);
        let mut request = match new.code {
            KEEP => new.with(&[entry], |w| w.write_binder(Some(&own()))),
            ASK => new.with(&[entry], |w| {
                w.write_binder(Some(&own()))?;
                w.write_i32(4)
            }),
            MAKE_FD => new.with(&[], |w| {
                w.write_string16("made")?;
                w.write_i32(1)
            }),
            READ_FD => {
                let entry = Entry { kind: object::FD, value: 0, ..mine };
                new.with(&[entry], |w| {
                    w.write(&OwnedFd::from(
                        File::open("/dev/null").map_err(|e| handoff_ipc::Error::io("", e))?,
                    ))
                })
            }
            ECHO => {
                let len = bytes.number() as usize % 4000;
                new.with(&[], |w| w.write_bytes(&vec![7; len]))
            }
            _ => new,
        };
        request.priority = if bytes.byte() > 220 { bytes.number() } else { 0 };
        request
    }

    /// A call; some are waited for.
    fn call(&mut self, bytes: &mut Bytes<'_>) {
        if self.slots.is_empty() {
            self.slots.push(self.connection.slot(0));
        }
        let request = self.request(bytes);
        let which = bytes.below(self.slots.len());
        let slot = &self.slots[which];
        if bytes.byte() > 200 {
            slot.set_deadline(u64::MAX >> (bytes.byte() % 64));
        }
        if request.code == READ_FD && bytes.byte() < 200 {
            let file = File::open("/dev/null").unwrap();
            self.send(message(kind::FDS, slot.id, 0), &[file.as_raw_fd()]);
        }
        slot.write(&request);
        let before = slot.word().swap(word::REQUEST, Ordering::AcqRel);
        if before & word::ATTENDED == 0 {
            self.send(message(kind::CALL, slot.id, 0), &[]);
        } else {
            slot.wake();
        }
        if bytes.byte() < 160 && self.slots[which].is_free_within(SOON) {
            if [SELF, FRAMES].contains(&request.code) {
                self.nodes.push(self.slots[which].object());
            }
            if request.code == MAKE_FD {
                self.listen();
            }
        }
    }

    /// Any words in a slot: its word, a header, the table, the caller's page, the payload.
    fn lie_in_a_slot(&mut self, bytes: &mut Bytes<'_>) {
        let theirs = bytes.byte() > 170 && !self.theirs.is_empty();
        let slots = if theirs { &self.theirs } else { &self.slots };
        let Some(slot) = slots.get(bytes.below(slots.len())) else { return };
        const PLACES: [usize; 8] =
            [0, 4, 32, SLOT / 2 - (64 << 10) - 8192, SLOT / 2 - 8192, SLOT / 2, SLOT - 8192, SLOT - 4096];
        for _ in 0..=bytes.below(8) {
            let at = PLACES[bytes.below(8)] + 4 * bytes.below(16);
            slot.memory.at(at.min(SLOT - 4)).store(bytes.number(), Ordering::Release);
        }
        if bytes.byte() > 128 {
            slot.wake();
        }
        let kinds = [kind::CALL, kind::RAISE, 14];
        self.send(message(kinds[bytes.below(3)], slot.id, 0), &[]);
    }

    /// A record in the ring, or what looks like one.
    fn post(&mut self, bytes: &mut Bytes<'_>) {
        let mut request = self.request(bytes);
        if bytes.byte() > 200 {
            request.lies = Some((bytes.number(), bytes.number()));
        }
        if bytes.byte() > 220 {
            request.meta |= meta::OBJECTS;
        }
        let size = (bytes.byte() > 220).then(|| bytes.number());
        let (ring, written) = self.ring.get_or_insert_with(|| (self.connection.ring(), 0));
        *written = written.wrapping_add(ring.record(*written & !31, &request, size));
        ring.set_written(*written);
        self.send(message(kind::POST, 0, 0), &[]);
    }

    fn scribble_over_a_ring(&mut self, bytes: &mut Bytes<'_>) {
        let Some((ring, written)) = &mut self.ring else { return };
        match bytes.byte() % 4 {
            0 => {
                *written = written.wrapping_add(bytes.number());
                ring.set_written(*written);
            }
            1 => ring.bell().store(bytes.number(), Ordering::Release),
            _ => {
                let at = (bytes.below(3) * 2048 + 4 * bytes.below(64)).min(RING - 4);
                ring.memory.at(at).store(bytes.number(), Ordering::Release);
            }
        }
        self.send(message(kind::POST, 0, 0), &[]);
    }

    /// Takes what the engine has sent.
    fn listen(&mut self) {
        for _ in 0..8 {
            let Some((heard, mut fds)) = self.connection.receive(SOON) else { return };
            match heard.kind {
                kind::SLOT if self.theirs.len() < 8 => {
                    self.theirs.extend(fds.pop().map(|fd| slot_of_victim(heard.a, fd)));
                }
                kind::INTRODUCE.. => self.tokens.extend([heard.first, heard.second]),
                _ => {}
            }
            self.fds.append(&mut fds);
            self.fds.truncate(16);
        }
    }

    /// Answers a call of the engine, in one way or another.
    fn answer(&mut self, bytes: &mut Bytes<'_>) {
        self.listen();
        let Some(slot) = self.theirs.get(bytes.below(self.theirs.len())) else { return };
        match bytes.byte() % 4 {
            0 => slot.reply(&[0, 4, bytes.number()]),
            1 => slot.reply(&[bytes.number(), bytes.number(), bytes.number()]),
            2 => {
                // Calls from within.
                slot.memory.set(4, &[u32::from(bytes.byte() % 4)]);
                slot.word().store(word::NESTED, Ordering::Release);
                slot.wake();
            }
            _ => {
                slot.word().store(bytes.number(), Ordering::Release);
                slot.wake();
            }
        }
    }

    /// Frames' pages, flags and whatever else was given: any words at any place.
    fn write_into_what_was_received(&mut self, bytes: &mut Bytes<'_>) {
        let Some(node) = self.nodes.get(1) else { return };
        if bytes.byte() < 128 {
            // As a consumer of frames would ask for them, if it is the pool.
            let entry = Entry { kind: object::OF_SENDER, value: 9, ..Entry::default() };
            let request = Request::new(*node, 1).with(&[entry], |w| w.write_binder(Some(&own())));
            if self.slots.is_empty() {
                self.slots.push(self.connection.slot(0));
            }
            self.connection.request(&self.slots[0], &request);
            self.slots[0].is_free_within(SOON);
            self.listen();
        }
        for fd in &self.fds {
            let Ok(file) = fd.try_clone().map(File::from) else { return };
            // What is sealed, or no memory, does not take it.
            let _ = file.write_at(&bytes.number().to_le_bytes(), 4 * bytes.below(64) as u64);
        }
    }

    /// Asks for an introduction and takes it up, rightly or not.
    fn be_introduced(&mut self, bytes: &mut Bytes<'_>) {
        let node = self.node(bytes);
        self.send(message(kind::INTRODUCE, u32::from(bytes.byte()), node), &[]);
        let Some((heard, fds)) = self.connection.receive(SOON) else { return };
        self.tokens.push(heard.first);
        let Some(fd) = fds.first() else { return };
        let token = self.token(bytes);
        if bytes.byte() < 128 {
            return;
        }
        if let Some(connection) = introduced(fd, endpoint(), token) {
            self.nodes.push(connection.root);
            self.connection = connection;
            self.slots.clear();
            self.ring = None;
        }
    }
}

/// What is asked, by number; what was kept of fuzzing counts on it.
const CODES: [u32; 10] = [0, ECHO, KEEP, ASK, READ_FD, MAKE_FD, SELF, FRAMES, UNKNOWN, UNKNOWN + 1];

fn own() -> Binder {
    Binder::new(Everything::steady())
}
