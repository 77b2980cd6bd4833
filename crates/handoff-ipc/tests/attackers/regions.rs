//! Slots and rings as memory: what stands where, without the library.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use handoff_ipc::parcel::Writer;

use crate::raw::{DONE, meta, word};

/// Bytes of a slot: two areas and two pages; see the module of slots for what lies where.
pub const SLOT: usize = 4 << 20;
const AREA: usize = SLOT / 2;
const TABLE: usize = AREA - (64 << 10) - 8192;
const CALLER_PAGE: usize = SLOT - 8192;
/// Bytes of a ring: a page of words, and the records.
pub const RING: usize = 4096 + RECORDS;
const RECORDS: usize = 2 << 20;

/// A memfd of a sealed size, mapped.
pub struct Memory {
    pub file: OwnedFd,
    start: *mut u8,
    len: usize,
}

// SAFETY: the memory is another process's as well: it is only accessed through atomics and raw copies.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// What the seals of a region are to be.
pub const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// A memfd of a size, with seals.
pub fn memfd(len: usize, flags: u32, seals: i32) -> OwnedFd {
    // SAFETY: a new descriptor, taken over at once.
    unsafe {
        let fd = libc::memfd_create(c"attack".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | flags);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        assert_eq!(libc::ftruncate(fd, len as i64), 0);
        assert_eq!(libc::fcntl(fd, libc::F_ADD_SEALS, seals), 0);
        OwnedFd::from_raw_fd(fd)
    }
}

impl Memory {
    pub fn new(len: usize, flags: u32) -> Self {
        Self::map(memfd(len, flags, SEALS), len)
    }

    /// The same memory once more.
    pub fn same(other: &Memory) -> Self {
        Self::map(other.file.try_clone().unwrap(), other.len)
    }

    /// All of a file.
    pub fn all_of(file: OwnedFd) -> Self {
        let len = std::fs::File::from(file.try_clone().unwrap()).metadata().unwrap().len();
        Self::map(file, len as usize)
    }

    fn map(file: OwnedFd, len: usize) -> Self {
        // SAFETY: a fresh mapping at a place of the kernel's choice.
        let start = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        Memory { file, start: start.cast(), len }
    }

    /// A word of it.
    pub fn at(&self, offset: usize) -> &AtomicU32 {
        assert!(offset % 4 == 0 && offset + 4 <= self.len);
        // SAFETY: inside of the mapping and aligned.
        unsafe { &*self.start.add(offset).cast::<AtomicU32>() }
    }

    pub fn put(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len);
        // SAFETY: inside of the mapping, which nobody has a reference to.
        unsafe { self.start.add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Words at an offset.
    pub fn set(&self, offset: usize, words: &[u32]) {
        for (at, word) in words.iter().enumerate() {
            self.at(offset + 4 * at).store(*word, Ordering::Relaxed);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing refers to any longer.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// An object beside a payload.
#[derive(Debug, Clone, Copy, Default)]
pub struct Entry {
    pub offset: u32,
    pub kind: u32,
    pub value: u64,
    pub endpoint: [u8; 16],
    pub token: [u8; 16],
}

impl Entry {
    fn bytes(&self) -> Vec<u8> {
        let words = [&self.offset.to_le_bytes()[..], &self.kind.to_le_bytes(), &self.value.to_le_bytes()];
        [&words.concat(), &self.endpoint[..], &self.token].concat()
    }
}

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub node: u64,
    pub code: u32,
    pub meta: u32,
    pub priority: u32,
    pub tid: u32,
    pub payload: Vec<u8>,
    pub entries: Vec<Entry>,
    /// Bytes and objects that are claimed, where they are not those above.
    pub lies: Option<(u32, u32)>,
}

impl Request {
    pub fn new(node: u64, code: u32) -> Self {
        Request { node, code, ..Request::default() }
    }

    /// With a payload as the library writes one. Objects are `entries`, one for each that `write` writes.
    pub fn with(
        mut self,
        entries: &[Entry],
        write: impl FnOnce(&mut Writer<'_>) -> handoff_ipc::Result<()>,
    ) -> Self {
        let mut writer = Writer::growing(&mut self.payload);
        write(&mut writer).unwrap();
        let objects = writer.finish();
        self.entries = entries.to_vec();
        for (entry, (offset, _)) in self.entries.iter_mut().zip(objects) {
            entry.offset = offset;
        }
        if !self.entries.is_empty() {
            self.meta |= meta::OBJECTS;
        }
        self
    }

    pub fn meta(mut self, meta: u32) -> Self {
        self.meta |= meta;
        self
    }
}

/// A slot of the attacker's own, or one that the victim opened.
pub struct Slot {
    pub id: u32,
    pub memory: Memory,
}

impl Slot {
    pub fn word(&self) -> &AtomicU32 {
        self.memory.at(0)
    }

    pub fn write(&self, request: &Request) {
        let (len, count) =
            request.lies.unwrap_or((request.payload.len() as u32, request.entries.len() as u32));
        let node = [request.node as u32, (request.node >> 32) as u32];
        let words = [request.code, len, request.meta, node[0], node[1], request.priority, request.tid];
        self.memory.set(4, &words);
        self.memory.put(32, &request.payload);
        self.put_entries(&request.entries, count);
    }

    /// Objects beside what stands in the first area.
    fn put_entries(&self, entries: &[Entry], count: u32) {
        let entries: Vec<u8> = entries.iter().flat_map(Entry::bytes).collect();
        self.memory.put(TABLE, &entries);
        self.memory.at(CALLER_PAGE + 16).store(count, Ordering::Relaxed);
    }

    /// Wakes whoever sleeps on the word.
    pub fn wake(&self) {
        // SAFETY: the word is mapped.
        unsafe { libc::syscall(libc::SYS_futex, self.word().as_ptr(), libc::FUTEX_WAKE, 1, 0) };
    }

    pub fn set_deadline(&self, ns: u64) {
        self.memory.set(CALLER_PAGE, &[ns as u32, (ns >> 32) as u32]);
    }

    /// Whether the victim has answered, or will have soon.
    pub fn is_free_within(&self, wait: Duration) -> bool {
        let end = Instant::now() + wait;
        while self.word().load(Ordering::Acquire) & 0xf != word::FREE {
            if Instant::now() > end {
                return false;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        DONE.answered();
        true
    }

    /// An object of a small reply.
    pub fn entry(&self, number: usize) -> Entry {
        let at = |offset| self.memory.at(TABLE + 48 * number + offset).load(Ordering::Relaxed);
        let bytes = |offset: usize| -> [u8; 16] {
            std::array::from_fn(|n| (at(offset + n / 4 * 4) >> (n % 4 * 8)) as u8)
        };
        let value = u64::from(at(8)) | u64::from(at(12)) << 32;
        Entry { offset: at(0), kind: at(4), value, endpoint: bytes(16), token: bytes(32) }
    }

    /// Answers a request of the victim with words.
    pub fn reply(&self, words: &[u32]) {
        self.reply_with(words, &[]);
    }

    /// Answers with words and objects beside them, whose descriptors are another matter.
    pub fn reply_with(&self, words: &[u32], entries: &[Entry]) {
        let flags = if entries.is_empty() { 0 } else { meta::OBJECTS };
        self.memory.set(4, &[0, 4 * words.len() as u32, flags]);
        self.memory.set(32, words);
        self.put_entries(entries, entries.len() as u32);
        self.word().store(word::FREE, Ordering::Release);
        self.wake();
    }

    /// The object that a small reply carries first.
    pub fn object(&self) -> u64 {
        self.entry(0).value
    }
}

/// The victim's slot that came with a message.
pub fn slot_of_victim(id: u32, file: OwnedFd) -> Slot {
    Slot { id, memory: Memory::map(file, SLOT) }
}

/// A ring of oneway calls.
pub struct Ring {
    pub memory: Memory,
}

impl Ring {
    pub fn set_written(&self, at: u32) {
        self.memory.at(64).store(at, Ordering::Release);
    }

    /// How far the victim has read.
    pub fn taken(&self) -> u32 {
        self.memory.at(0).load(Ordering::Acquire)
    }

    /// The word that says who looks.
    pub fn bell(&self) -> &AtomicU32 {
        self.memory.at(128)
    }

    /// A record at a position; gives its size. `size`: claimed, where it is not the real one.
    pub fn record(&self, at: u32, request: &Request, size: Option<u32>) -> u32 {
        let aligned = |len: usize| (len + 31) & !31;
        let (len, count) = (request.payload.len(), request.entries.len());
        let real = aligned(32 + aligned(len) + count * 48) as u32;
        let (len, count) = request.lies.unwrap_or((len as u32, count as u32));
        let node = [request.node as u32, (request.node >> 32) as u32];
        let words = [len, request.code, node[0], node[1], request.priority, count, size.unwrap_or(real), 0];
        let start = 4096 + at as usize % RECORDS;
        self.memory.set(start, &words);
        let payload = start + 32;
        if payload + real as usize <= RING {
            self.memory.put(payload, &request.payload);
            let entries: Vec<u8> = request.entries.iter().flat_map(Entry::bytes).collect();
            self.memory.put(payload + aligned(request.payload.len()), &entries);
        }
        real
    }
}
