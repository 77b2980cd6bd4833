//! Readers of what peers send, made reachable for the fuzz targets. No part of the interface.

use crate::dispatch;
use crate::parcel::{Reader, SharedBytes};
use crate::shm::ring::Ring;
use crate::shm::wire::Message;
use crate::{Error, Result};

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
