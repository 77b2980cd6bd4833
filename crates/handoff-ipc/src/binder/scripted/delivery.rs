//! A parcel as the driver delivers it: in the process's buffer, its objects translated.

use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};

use super::input::{DESCRIPTOR, Input};
use crate::binder::token;
use crate::binder::uapi::{TYPE_BINDER, TYPE_FD, TYPE_HANDLE};
use crate::context::Context;
use crate::parcel::{FLAT_OBJECT_SIZE, NATIVE_HANDLE, TYPE_FDA, TYPE_PTR, Writer};

/// Where parcels lie, as this process sees it.
pub(super) struct BufferSpace {
    /// Address of the first byte.
    pub(super) start: u64,
    /// Bytes that it may take.
    pub(super) room: usize,
}

/// What is delivered.
#[derive(Default)]
pub(super) struct Delivery {
    /// Everything, from the parcel's first byte on.
    pub(super) bytes: Vec<u8>,
    pub(super) data: u64,
    pub(super) data_size: u64,
    pub(super) offsets: u64,
    pub(super) offsets_size: u64,
    /// Descriptors that the driver closes when the parcel is given back.
    pub(super) closes: Vec<OwnedFd>,
}

/// A buffer that an object of the parcel points to.
struct Beside {
    // Where the object stands.
    at: usize,
    bytes: Vec<u8>,
    // Where descriptors stand in it.
    fds: Vec<usize>,
}

#[derive(Default)]
struct Parcel {
    data: Vec<u8>,
    offsets: Vec<u64>,
    beside: Vec<Beside>,
}

impl Parcel {
    fn flat(&mut self, kind: u32, number: u64, cookie: u64, stability: bool) {
        self.stand();
        self.data.extend(kind.to_ne_bytes());
        self.data.extend(0u32.to_ne_bytes());
        self.data.extend(number.to_ne_bytes());
        self.data.extend(cookie.to_ne_bytes());
        if stability {
            self.data.extend(12u32.to_ne_bytes());
        }
    }

    /// The next object stands here.
    fn stand(&mut self) {
        self.data.resize(self.data.len().next_multiple_of(4), 0);
        self.offsets.push(self.data.len() as u64);
    }

    fn pointer(&mut self, bytes: Vec<u8>, fds: Vec<usize>) {
        self.stand();
        self.data.extend(TYPE_PTR.to_ne_bytes());
        self.data.extend([0; 4]);
        self.beside.push(Beside { at: self.data.len() - 8, bytes, fds });
        // Its address, its length, and where in which other buffer it is pointed to.
        self.data.extend([0; 32]);
    }

    fn array(&mut self, count: u64, parent: u64, offset: u64) {
        self.stand();
        self.data.extend(TYPE_FDA.to_ne_bytes());
        self.data.extend([0; 4]);
        for number in [count, parent, offset] {
            self.data.extend(number.to_ne_bytes());
        }
    }

    fn handle(&mut self, input: &mut Input<'_>) {
        let (fds, ints, lie) = (usize::from(input.byte() % 4), input.byte() % 4, input.byte());
        let parent = self.offsets.len() as u64;
        let mut words = Vec::new();
        for word in [NATIVE_HANDLE as u32, fds as u32, ints.into()] {
            words.extend(word.to_ne_bytes());
        }
        let places = (0..fds).map(|index| NATIVE_HANDLE + index * 4).collect();
        words.extend(std::iter::repeat_n(1, (fds + usize::from(ints)) * 4));
        if lie & 1 != 0 {
            let at = usize::from(lie >> 1) % words.len();
            // Never where a descriptor's number is put.
            words[at] ^= input.byte();
        }
        let size = words.len() as u64;
        self.data.resize(self.data.len().next_multiple_of(4), 0);
        self.data.extend(if lie & 2 == 0 { size } else { input.word().into() }.to_ne_bytes());
        self.pointer(words, places);
        if fds > 0 || lie & 4 != 0 {
            let raw = |input: &mut Input<'_>, honest| if lie & 8 == 0 { honest } else { input.byte().into() };
            let (count, parent) = (raw(input, fds as u64), raw(input, parent));
            let offset = raw(input, NATIVE_HANDLE as u64);
            self.array(count, parent, offset);
        }
    }

    /// Everything that the input has for this parcel.
    fn fill(&mut self, input: &mut Input<'_>, known: &[u64]) {
        while let Some(kind) = input.next() {
            match kind % 13 {
                0 => return,
                1 => self.data.extend(input.some()),
                2 => {
                    let id = usize::from(input.byte());
                    let id = known.get(id).copied().unwrap_or(id as u64);
                    self.flat(TYPE_BINDER, id, id, kind & 128 == 0);
                }
                3 => self.flat(TYPE_HANDLE, (input.byte() % 8).into(), 0, kind & 128 == 0),
                4 => self.flat(TYPE_FD, u64::MAX, 0, kind & 128 == 0),
                5 => {
                    let bytes = input.some().to_vec();
                    self.pointer(bytes, Vec::new());
                }
                6 => self.handle(input),
                7 => self.offsets.push(u64::from(input.word()) >> (input.byte() % 32)),
                8 => self.flat(input.word(), u64::MAX, 0, true),
                9 => self.string(input),
                // A vector of bytes, as long as it says or not.
                10 => {
                    let bytes = input.some();
                    let len = bytes.len() as u32 + u32::from(kind >> 6);
                    self.data.extend(len.to_ne_bytes());
                    self.data.extend(bytes);
                    self.data.resize(self.data.len().next_multiple_of(4), 0);
                }
                11 => self.data.extend(input.word().to_ne_bytes()),
                _ => self.data.extend(u32::from(input.byte()).to_ne_bytes()),
            }
        }
    }

    fn string(&mut self, input: &mut Input<'_>) {
        let mut bytes = Vec::new();
        let mut writer = Writer::growing(&mut bytes);
        // A growing parcel takes every text that is this short.
        let _ = writer.write_string16(&String::from_utf8_lossy(input.some()));
        drop(writer.finish());
        self.data.extend(bytes);
    }

    fn bytes(&self, at: u64) -> Option<&[u8]> {
        self.data.get(usize::try_from(at).ok()?..)?.get(..FLAT_OBJECT_SIZE)
    }
}

/// Makes a parcel of the input; `None` where there is no room for it.
pub(super) fn deliver(
    input: &mut Input<'_>,
    place: &BufferSpace,
    known: &[u64],
    with_token: bool,
    file: BorrowedFd<'_>,
) -> Option<Delivery> {
    let mut parcel = Parcel::default();
    if with_token {
        parcel.data.extend(&*token::of(Context::Framework, DESCRIPTOR));
    }
    let wrong = input.byte();
    parcel.fill(input, known);
    let offsets_at = parcel.data.len().next_multiple_of(8);
    let mut beside_at = offsets_at + parcel.offsets.len() * 8;
    let mut delivery = Delivery {
        data: place.start,
        data_size: parcel.data.len() as u64,
        offsets: place.start + offsets_at as u64,
        offsets_size: (parcel.offsets.len() * 8) as u64,
        ..Delivery::default()
    };
    // Cut, or somewhere else altogether.
    match wrong & 0xf {
        1 => delivery.data_size = delivery.data_size.saturating_sub((wrong >> 2).into()),
        2 => delivery.offsets_size = delivery.offsets_size.saturating_sub((wrong >> 4).into()),
        3 => delivery.data = delivery.data.wrapping_add(u64::from(input.word()) << 22),
        4 => delivery.offsets = delivery.offsets.wrapping_sub(u64::from(input.word()) << 22),
        5 => delivery.data_size = u64::MAX - u64::from(wrong),
        6 => delivery.offsets_size = u64::from(input.word()) << 22 | 1 << 40,
        _ => {}
    }
    let is_whole = (delivery.data, delivery.offsets) == (place.start, place.start + offsets_at as u64)
        && delivery.data_size <= parcel.data.len() as u64
        && delivery.offsets_size <= (parcel.offsets.len() * 8) as u64;

    let mut bytes = Vec::new();
    for Beside { at, bytes: beside, fds } in std::mem::take(&mut parcel.beside) {
        let address = place.start + beside_at as u64;
        // One of them may point anywhere.
        let address =
            if wrong & 0xf == 7 { address.wrapping_add(u64::from(input.word()) << 20) } else { address };
        parcel.data[at + 8..at + 16].copy_from_slice(&address.to_ne_bytes());
        parcel.data[at + 16..at + 24].copy_from_slice(&(beside.len() as u64).to_ne_bytes());
        let start = bytes.len();
        bytes.extend(&beside);
        for fd in fds {
            let new = rustix::io::fcntl_dupfd_cloexec(file, 0).ok()?;
            bytes[start + fd..start + fd + 4].copy_from_slice(&(raw(&new) as u32).to_ne_bytes());
            delivery.closes.push(new);
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        beside_at = offsets_at + parcel.offsets.len() * 8 + bytes.len();
    }
    if beside_at > place.room {
        return None;
    }
    if is_whole {
        install(&mut parcel, &delivery, file)?;
    }
    delivery.bytes = parcel.data;
    delivery.bytes.resize(offsets_at, 0);
    delivery.bytes.extend(parcel.offsets.iter().flat_map(|at| at.to_ne_bytes()));
    delivery.bytes.extend(bytes);
    Some(delivery)
}

fn raw(fd: &OwnedFd) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(fd)
}

/// Opens descriptors for the receiver: one for each object that stands where the driver lets objects stand,
/// in ascending order and apart from each other.
fn install(parcel: &mut Parcel, delivery: &Delivery, file: BorrowedFd<'_>) -> Option<()> {
    let mut free_from = 0;
    for at in parcel.offsets.iter().take(delivery.offsets_size as usize / 8).copied() {
        let end = at.checked_add(FLAT_OBJECT_SIZE as u64);
        let Some(end) = end.filter(|end| at >= free_from && *end <= delivery.data_size) else { continue };
        free_from = end;
        if parcel.bytes(at)?[..4] == TYPE_FD.to_ne_bytes() {
            // From here on it is the receiver's.
            let fd = rustix::io::fcntl_dupfd_cloexec(file, 0).ok()?.into_raw_fd();
            parcel.data[at as usize + 8..at as usize + 12].copy_from_slice(&fd.to_ne_bytes());
        }
    }
    Some(())
}
