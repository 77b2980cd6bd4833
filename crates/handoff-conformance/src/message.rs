//! What is written to a driver at once: commands, and the parcels that they point to.

use handoff_ipc::binder::uapi::{
    BC_REPLY, BC_REPLY_SG, BC_TRANSACTION, BC_TRANSACTION_SG, BUFFER_FLAG_HAS_PARENT, TYPE_BINDER, TYPE_FD,
    TYPE_FDA, TYPE_HANDLE, TYPE_PTR, TYPE_WEAK_BINDER, TYPE_WEAK_HANDLE, Transaction,
};
use serde::{Deserialize, Serialize};

/// Where an address stands that is known only where the message is written from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pointer {
    /// In the commands, or in one of the blocks.
    in_block: Option<usize>,
    at: usize,
    to: usize,
}

/// Commands, the blocks of memory that they point to, and where they do so. It can be sent to another process,
/// which has its own addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    commands: Vec<u8>,
    blocks: Vec<Vec<u8>>,
    pointers: Vec<Pointer>,
}

impl Message {
    /// A message that says nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of its commands.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Appends a command with its arguments as they stand in memory.
    pub fn raw(mut self, command: u32, arguments: &[u8]) -> Self {
        self.commands.extend(command.to_ne_bytes());
        self.commands.extend(arguments);
        self
    }

    /// Appends a command without arguments.
    pub fn bare(self, command: u32) -> Self {
        self.raw(command, &[])
    }

    /// Appends a command with a handle.
    pub fn word(self, command: u32, value: u32) -> Self {
        self.raw(command, &value.to_ne_bytes())
    }

    /// Appends a command with an address or a cookie.
    pub fn long(self, command: u32, value: u64) -> Self {
        self.raw(command, &value.to_ne_bytes())
    }

    /// Appends a command with an object's address and its cookie.
    pub fn pair(self, command: u32, first: u64, second: u64) -> Self {
        self.raw(command, [first.to_ne_bytes(), second.to_ne_bytes()].as_flattened())
    }

    /// Appends a command with a handle and a cookie.
    pub fn handle_cookie(mut self, command: u32, handle: u32, cookie: u64) -> Self {
        self = self.word(command, handle);
        self.commands.extend(cookie.to_ne_bytes());
        self
    }

    /// Appends `BC_TRANSACTION`, or `BC_TRANSACTION_SG` where the parcel has buffers beside it.
    pub fn call(self, call: &Call) -> Self {
        self.transaction([BC_TRANSACTION, BC_TRANSACTION_SG], call)
    }

    /// Appends `BC_REPLY` or `BC_REPLY_SG`.
    pub fn reply(self, call: &Call) -> Self {
        self.transaction([BC_REPLY, BC_REPLY_SG], call)
    }

    fn transaction(mut self, [plain, gathered]: [u32; 2], call: &Call) -> Self {
        let parcel = &call.parcel;
        let offsets: Vec<u8> = parcel.offsets.iter().flat_map(|at| at.to_ne_bytes()).collect();
        let data = Transaction {
            target: call.target.into(),
            code: call.code,
            flags: call.flags,
            data_size: call.data_size.unwrap_or(parcel.data.len() as u64),
            offsets_size: call.offsets_size.unwrap_or(offsets.len() as u64),
            buffer: call.buffer.unwrap_or(0),
            offsets: call.offsets.unwrap_or(0),
            ..Transaction::default()
        };
        let extra = parcel.beside.iter().map(|bytes| bytes.len().next_multiple_of(8) as u64).sum();
        let is_gathered = call.extra_size.is_some() || !parcel.beside.is_empty();
        self = self.raw(if is_gathered { gathered } else { plain }, &data.to_bytes());
        let start = self.commands.len() - 64;
        if is_gathered {
            self.commands.extend(call.extra_size.unwrap_or(extra).to_ne_bytes());
        }
        let first = self.blocks.len();
        self.blocks.push(parcel.data.clone());
        self.blocks.push(offsets);
        self.blocks.extend(parcel.beside.iter().cloned());
        if call.buffer.is_none() {
            self.pointers.push(Pointer { in_block: None, at: start + 48, to: first });
        }
        if call.offsets.is_none() {
            self.pointers.push(Pointer { in_block: None, at: start + 56, to: first + 1 });
        }
        let beside = parcel.pointers.iter();
        self.pointers.extend(beside.map(|(at, to)| Pointer {
            in_block: Some(first),
            at: *at,
            to: first + 2 + to,
        }));
        self
    }

    /// Where a command's body begins and ends, for each that has this number.
    fn bodies(&self, wanted: u32) -> Vec<(usize, usize)> {
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(number) = self.commands.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
            let number = u32::from_ne_bytes(*number);
            let end = at + 4 + (number >> 16 & 0x3fff) as usize;
            if number == wanted && end <= self.commands.len() {
                found.push((at + 4, end));
            }
            at = end;
        }
        found
    }

    /// The same without a command; `None` if it has none of these.
    pub(crate) fn without(&self, command: u32) -> Option<Self> {
        let found = self.bodies(command);
        let mut less = self.clone();
        for (start, end) in found.iter().rev().map(|(start, end)| (start - 4, *end)) {
            less.commands.drain(start..end);
            less.pointers.retain(|pointer| pointer.in_block.is_some() || !(start..end).contains(&pointer.at));
            let behind =
                less.pointers.iter_mut().filter(|pointer| pointer.in_block.is_none() && pointer.at >= end);
            behind.for_each(|pointer| pointer.at -= end - start);
        }
        (!found.is_empty()).then_some(less)
    }

    /// The same with other bodies of a command; `None` if it has none of these.
    pub(crate) fn with_edited(&self, command: u32, edit: fn(&mut [u8])) -> Option<Self> {
        let found = self.bodies(command);
        let mut edited = self.clone();
        found.iter().for_each(|(start, end)| edit(&mut edited.commands[*start..*end]));
        (!found.is_empty()).then_some(edited)
    }

    /// The commands and blocks with addresses of this process. The addresses are right as long as the blocks live.
    pub fn placed(&self) -> (Vec<u8>, Vec<Vec<u8>>) {
        let (mut commands, mut blocks) = (self.commands.clone(), self.blocks.clone());
        for pointer in &self.pointers {
            let address = (blocks[pointer.to].as_ptr().addr() as u64).to_ne_bytes();
            let place = match pointer.in_block {
                None => &mut commands,
                Some(block) => &mut blocks[block],
            };
            place[pointer.at..pointer.at + 8].copy_from_slice(&address);
        }
        (commands, blocks)
    }
}

/// A transaction as a sender writes it. What is `None` is told truly.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// The handle that is called.
    pub target: u32,
    /// What the callee is asked for.
    pub code: u32,
    /// `TF_*`.
    pub flags: u32,
    /// What is sent.
    pub parcel: Parcel,
    /// In place of the parcel's size.
    pub data_size: Option<u64>,
    /// In place of the size of its table of objects.
    pub offsets_size: Option<u64>,
    /// In place of the parcel's address.
    pub buffer: Option<u64>,
    /// In place of the table's address.
    pub offsets: Option<u64>,
    /// In place of the size of the buffers beside it.
    pub extra_size: Option<u64>,
}

impl Call {
    /// A synchronous call with nothing in it.
    pub fn to(target: u32, code: u32) -> Self {
        Self { target, code, ..Self::default() }
    }

    /// The same with these flags.
    pub fn flags(self, flags: u32) -> Self {
        Self { flags, ..self }
    }

    /// The same with this parcel.
    pub fn with(self, parcel: Parcel) -> Self {
        Self { parcel, ..self }
    }

    /// The same with so many zeros.
    pub fn sized(self, size: usize) -> Self {
        self.with(Parcel::bytes(&vec![0; size]))
    }
}

/// A parcel: bytes, the objects that stand in them, and buffers that objects point to.
#[derive(Debug, Clone, Default)]
pub struct Parcel {
    data: Vec<u8>,
    /// Where objects stand.
    pub offsets: Vec<u64>,
    beside: Vec<Vec<u8>>,
    pointers: Vec<(usize, usize)>,
}

impl Parcel {
    /// A parcel without objects.
    pub fn bytes(bytes: &[u8]) -> Self {
        Self { data: bytes.to_vec(), ..Self::default() }
    }

    fn flat(mut self, kind: u32, flags: u32, value: u64, cookie: u64) -> Self {
        self.offsets.push(self.data.len() as u64);
        self.data.extend([kind, flags].map(u32::to_ne_bytes).as_flattened());
        self.data.extend([value, cookie].map(u64::to_ne_bytes).as_flattened());
        self
    }

    /// Appends an object of any type.
    pub fn object(self, kind: u32, value: u64) -> Self {
        self.flat(kind, 0, value, 0)
    }

    /// Appends an object of the sender's.
    pub fn binder(self, address: u64, cookie: u64) -> Self {
        self.flat(TYPE_BINDER, 0x17f, address, cookie)
    }

    /// Appends an object of the sender's, with flags of its node.
    pub fn binder_flags(self, address: u64, cookie: u64, flags: u32) -> Self {
        self.flat(TYPE_BINDER, flags, address, cookie)
    }

    /// Appends a weak reference to an object of the sender's.
    pub fn weak_binder(self, address: u64, cookie: u64) -> Self {
        self.flat(TYPE_WEAK_BINDER, 0x17f, address, cookie)
    }

    /// Appends a reference that the sender holds.
    pub fn handle(self, handle: u32) -> Self {
        self.flat(TYPE_HANDLE, 0, handle.into(), 0)
    }

    /// Appends a weak reference that the sender holds.
    pub fn weak_handle(self, handle: u32) -> Self {
        self.flat(TYPE_WEAK_HANDLE, 0, handle.into(), 0)
    }

    /// Appends a descriptor.
    pub fn fd(self, fd: i32) -> Self {
        self.flat(TYPE_FD, 0, u64::from(fd as u32), 0xc0)
    }

    /// Appends a buffer beside the parcel; with a parent, the address of where it is delivered is also
    /// written into the buffer of the `parent.0`th object, at `parent.1`.
    pub fn buffer(mut self, bytes: &[u8], parent: Option<(u64, u64)>) -> Self {
        let at = self.data.len();
        self.offsets.push(at as u64);
        let flags = if parent.is_some() { BUFFER_FLAG_HAS_PARENT } else { 0 };
        let (parent, offset) = parent.unwrap_or_default();
        self.data.extend([TYPE_PTR, flags].map(u32::to_ne_bytes).as_flattened());
        self.data.extend([0, bytes.len() as u64, parent, offset].map(u64::to_ne_bytes).as_flattened());
        self.pointers.push((at + 8, self.beside.len()));
        self.beside.push(bytes.to_vec());
        self
    }

    /// Appends an array of descriptors that stands in the buffer of the `parent`th object.
    pub fn fd_array(mut self, count: u64, parent: u64, offset: u64) -> Self {
        self.offsets.push(self.data.len() as u64);
        self.data.extend([TYPE_FDA, 0].map(u32::to_ne_bytes).as_flattened());
        self.data.extend([count, parent, offset].map(u64::to_ne_bytes).as_flattened());
        self
    }

    /// The bytes as they are, with no address filled in.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.data
    }

    /// Appends bytes between objects.
    pub fn and_bytes(mut self, bytes: &[u8]) -> Self {
        self.data.extend(bytes);
        self
    }
}
