//! Readers of what peers send, made reachable for the fuzz targets. No part of the interface.

use crate::dispatch;
use crate::parcel::{Reader, SharedBytes};
use crate::shm::oneway::ring::Ring;
use crate::shm::wire::Message;
use crate::{Binder, Error, Result, Service, Transaction};

/// Reads bytes as a control message; one that is read is sent on as it came.
///
/// # Errors
/// Where the bytes are none.
pub fn control_message(bytes: &[u8]) -> Result<()> {
    let message = Message::decode(bytes)?;
    match Message::decode(&message.encode()) {
        Ok(again) if again == message => Ok(()),
        other => panic!("{message:?} became {other:?}"),
    }
}

/// Reads bytes as the header of a reply; gives how many are left behind it.
///
/// # Errors
/// Where the bytes are none, or they are an exception.
pub fn reply(bytes: &[u8]) -> Result<usize> {
    let mut reader = Reader::new(SharedBytes::from_slice(bytes));
    dispatch::read_status(&mut reader).inspect_err(|error| {
        // What an exception says is a message for people.
        assert!(!error.to_string().is_empty());
    })?;
    Ok(reader.remaining())
}

/// Attaches to the queue that bytes describe, with real memory behind each descriptor, and uses it.
///
/// # Errors
/// Where the bytes are no descriptor, or not of a queue that can be used.
pub fn queue_descriptor(bytes: &[u8]) -> Result<()> {
    use crate::queue::{Descriptor, Grantor, MessageQueue, QueueError, Synchronized, Unsynchronized};
    // As it stands in a parcel; there are no descriptors for it to name.
    drop(Reader::new(SharedBytes::from_slice(bytes)).read::<Descriptor<u32, Synchronized>>());

    // Its numbers in HIDL's form, over memory of one page whose first words the rest of the bytes fill.
    let Some((&count, rest)) = bytes.split_first() else { return Ok(()) };
    let whole = rest.len() / Grantor::HIDL_SIZE;
    let (grantors, words) = rest.split_at(usize::from(count % 8).min(whole) * Grantor::HIDL_SIZE);
    let grantors = grantors.chunks_exact(Grantor::HIDL_SIZE).filter_map(|bytes| bytes.try_into().ok());
    let grantors: Vec<Grantor> = grantors.map(Grantor::from_hidl).collect();
    let (region, file) = crate::shm::region::Region::create("handoff-fuzz", 4096)?;
    let memory = crate::SharedMemory::from_fd(file.try_clone().map_err(|e| Error::io("dup", e))?, 4096)?;
    drop(region);
    memory.write_at(0, &words[..words.len().min(4096)])?;
    if count & 8 == 0 {
        let queue =
            MessageQueue::attach(Descriptor::<u32, Synchronized>::from_parts(grantors, vec![file], 4, 1))?;
        let (mut writer, mut reader) = (queue.writer()?, queue.reader()?);
        let mut items = [0; 3];
        let outcomes = [writer.write(&items), reader.read(&mut items), writer.write(&items[..1])];
        let known = |outcome: &Result<(), QueueError>| !matches!(outcome, Err(QueueError::Overflow(_)));
        assert!(outcomes.iter().all(known), "a synchronized queue overflows never: {outcomes:?}");
    } else {
        let queue =
            MessageQueue::attach(Descriptor::<u32, Unsynchronized>::from_parts(grantors, vec![file], 4, 2))?;
        let (mut writer, mut reader) = (queue.writer()?, queue.reader()?);
        let mut items = [0; 3];
        let _ = (writer.write(&items), reader.read(&mut items), reader.read(&mut items[..1]));
    }
    Ok(())
}

/// The error that a peer means by a number.
pub fn status(raw: i32) -> Error {
    Error::from_status_t(raw, "fuzzed", 1)
}

/// Reads bytes as what a peer wrote into its ring of oneway calls, from a position on that the first
/// four bytes say; gives the number of calls.
///
/// # Errors
/// Where they are not records to their end.
pub fn oneway_ring(bytes: &[u8]) -> Result<usize> {
    thread_local! {
        static RING: Ring = Ring::create().expect("shared memory").0;
    }
    let (at, records) = bytes.split_first_chunk().unwrap_or((&[0; 4], bytes));
    RING.with(|ring| ring.read_scribbled(u32::from_ne_bytes(*at) & !31, records))
}

/// Reads bytes as what a peer of Binder RPC sends; gives how many frames were understood.
///
/// # Errors
/// Where the bytes are none.
pub fn rpc_frames(bytes: &[u8]) -> Result<usize> {
    // As values of a parcel, too, whose objects stand in RPC's form.
    let mut reader = Reader::new(SharedBytes::from_slice(bytes)).in_rpc_form();
    while let Ok(kind) = reader.read_i32() {
        if read_any(&mut reader, kind.unsigned_abs()).is_err() {
            break;
        }
    }
    crate::rpc::wire::read_any(bytes)
}

/// Serves bytes as what a peer of Binder RPC sends on a connection that is set up: the first says which version is
/// spoken. Calls, replies to the service's own calls, and references go to a living session.
pub fn rpc_session(bytes: &[u8]) {
    let Some((version, sent)) = bytes.split_first() else { return };
    crate::rpc::serve_bytes(u32::from(*version), sent, Binder::new(Reads));
}

/// Reads what a code says, gives objects, keeps none, and calls those that it gets.
struct Reads;

impl Service for Reads {
    fn descriptor(&self) -> &str {
        "f"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let Transaction { call, data, reply } = transaction;
        match call.code() {
            1 => {
                while let Ok(kind) = data.read_i32() {
                    read_any(data, kind.unsigned_abs())?;
                }
                Ok(())
            }
            2 => {
                let theirs: Binder = data.read()?;
                theirs.transaction(1).call(|to| to.write(&theirs), |from| read_any(from, 11))?;
                reply.write(&theirs)
            }
            3 => reply.write(&Binder::new(Reads)),
            _ => {
                let all: Vec<Option<Binder>> = data.read()?;
                reply.write(&all)
            }
        }
    }
}

/// Numbers that [`read_any`] knows.
pub const KINDS: u32 = 15;

/// Reads one value, of the type that a number stands for.
///
/// # Errors
/// Where no such value stands there.
pub fn read_any(reader: &mut Reader<'_>, kind: u32) -> Result<()> {
    let before = reader.remaining();
    match kind % KINDS {
        0 => reader.read_i32().map(drop),
        1 => reader.read_i64().map(drop),
        2 => reader.read::<bool>().map(drop),
        3 => reader.read::<f32>().map(drop),
        4 => reader.read::<f64>().map(drop),
        5 => reader.read_string16().map(drop),
        6 => reader.read_string8().map(drop),
        // What was gathered is longer than what refers to it.
        7 => reader.read_bytes().map(|bytes| drop(bytes.to_vec())),
        8 => reader.read::<Vec<i32>>().map(|items| assert!(items.len() <= before)),
        9 => reader.read::<Vec<String>>().map(|items| assert!(items.len() <= before)),
        10 => reader.read::<Option<String>>().map(drop),
        11 => reader.read_binder().map(drop),
        12 => reader.read_fd().map(drop),
        13 => reader.read_handle().map(drop),
        _ => reader.read_sized(|fields| fields.read_i32()).map(drop),
    }
}

/// Has bytes said to this process as the kernel's Binder driver would say them: the first two say how the
/// process is set up, the others what is said. Gives what is wrong in how the process behaved.
pub fn binder(bytes: &[u8]) -> Vec<String> {
    crate::binder::scripted::run(bytes)
}
