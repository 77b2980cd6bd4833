//! What stands on the wire of Binder RPC: the handshake of a connection, and the head of each frame.
//!
//! The layout is that of libbinder's `RpcWireFormat.h` in its versions 0 (Android 13), 1 (14 and 15) and 2 (16), all
//! little-endian. Whatever is read here was written by a peer: nothing is believed before it was checked.

use crate::{Error, Result};

/// The newest version that is spoken here.
pub(super) const NEWEST: u32 = 2;
/// From this version on, a parcel's size and a table of where its descriptors stand travel with it.
pub(super) const TABLES: u32 = 1;
/// From this version on, the table has references too.
pub(super) const BINDERS_IN_TABLE: u32 = 2;

/// Bytes of a connection's header, and of a frame's.
pub(super) const HEADER: usize = 16;
/// Bytes of a session's id.
pub(super) const ID: usize = 32;
/// What whoever calls on a connection begins with: that it is set up (`RpcOutgoingConnectionInit`).
pub(super) const INIT: [u8; 8] = *b"cci\0\0\0\0\0";
/// Bytes of the answer to a new session (`RpcNewSessionResponse`).
pub(super) const RESPONSE: usize = 8;
/// Most bytes of a frame behind its header.
pub(super) const MOST_BODY: usize = (1 << 20) + (64 << 10);

/// Objects of the session itself are called at no address, with these codes (`RPC_SPECIAL_TRANSACT_*`).
pub(super) mod special {
    pub(crate) const ROOT: u32 = 0;
    pub(crate) const MAX_THREADS: u32 = 1;
    pub(crate) const SESSION_ID: u32 = 2;
}

/// The flag of a call that nobody waits for (`IBinder::FLAG_ONEWAY`).
pub(super) const ONEWAY: u32 = 1;

const INCOMING: u8 = 1;

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|raw| raw.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|raw| raw.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn broken(what: impl Into<String>) -> Error {
    Error::Protocol(what.into())
}

/// Whether descriptors travel (`RpcSession::FileDescriptorTransportMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Descriptors {
    No = 0,
    /// Beside the bytes, in a Unix socket's control messages.
    Unix = 1,
}

/// What a connection begins with (`RpcConnectionHeader`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionHeader {
    /// The newest version that the client speaks.
    pub(super) version: u32,
    /// Whether the server is to call the client on it.
    pub(super) incoming: bool,
    pub(super) descriptors: Descriptors,
    /// Whether an id of a session follows; a connection without one opens a session.
    pub(super) joins: bool,
}

impl ConnectionHeader {
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&self.version.to_le_bytes());
        bytes[4] = if self.incoming { INCOMING } else { 0 };
        bytes[5] = self.descriptors as u8;
        bytes[14..].copy_from_slice(&(if self.joins { ID as u16 } else { 0 }).to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; HEADER]) -> Result<Self> {
        let descriptors = match bytes[5] {
            0 => Descriptors::No,
            1 => Descriptors::Unix,
            other => return Err(broken(format!("descriptors are to travel in mode {other}"))),
        };
        let joins = match usize::from(u16::from_le_bytes([bytes[14], bytes[15]])) {
            0 => false,
            ID => true,
            other => return Err(broken(format!("an id of a session of {other} bytes"))),
        };
        let incoming = bytes[4] & INCOMING != 0;
        if incoming && !joins {
            return Err(broken("a session cannot begin with a connection for the server's own calls"));
        }
        Ok(ConnectionHeader { version: word(bytes, 0), incoming, descriptors, joins })
    }
}

/// The server's answer to a connection that opens a session: the version that both speak.
pub(super) fn encode_response(version: u32) -> [u8; RESPONSE] {
    let mut bytes = [0; RESPONSE];
    bytes[..4].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// Reads that answer, of a server that was offered versions up to `offered`.
pub(super) fn decode_response(bytes: &[u8; RESPONSE], offered: u32) -> Result<u32> {
    let version = word(bytes, 0);
    if version > offered {
        return Err(broken(format!("version {version} was chosen of 0 to {offered}")));
    }
    Ok(version)
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Transact = 0,
    Reply = 1,
    DecStrong = 2,
}

/// The head of a frame (`RpcWireHeader`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) command: Command,
    pub(super) body: usize,
}

impl FrameHeader {
    pub(super) fn encode(command: Command, body: usize) -> Result<[u8; HEADER]> {
        if body > MOST_BODY {
            return Err(Error::TooLarge { size: body, limit: MOST_BODY });
        }
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&(command as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&(body as u32).to_le_bytes());
        Ok(bytes)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let command = match word(bytes, 0) {
            0 => Command::Transact,
            1 => Command::Reply,
            2 => Command::DecStrong,
            other => return Err(broken(format!("a frame of kind {other}"))),
        };
        let body = word(bytes, 4) as usize;
        if body > MOST_BODY {
            return Err(broken(format!("a frame of {body} bytes, of which {MOST_BODY} are allowed")));
        }
        Ok(FrameHeader { command, body })
    }
}

/// An object's number in a session (`RpcWireAddress`); 0 is the session itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Address(pub(super) u64);

impl Address {
    pub(super) const SESSION: Address = Address(0);
    const CREATED: u32 = 1;
    const OF_SERVER: u32 = 2;

    /// Number `number` of those that the server, or the client, gives away.
    pub(super) fn new(number: u32, of_server: bool) -> Self {
        let options = Self::CREATED | if of_server { Self::OF_SERVER } else { 0 };
        Address(u64::from(number) << 32 | u64::from(options))
    }

    fn options(self) -> u32 {
        self.0 as u32
    }

    /// Whether it may be one that the server, or the client, gave away.
    pub(super) fn is_of(self, server: bool) -> bool {
        self.options() == Address::new(0, server).options()
    }
}

/// The parcel of a call or of its reply, as it came.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Body<'a> {
    pub(super) data: &'a [u8],
    // Where objects stand in it, in order, four bytes each.
    table: &'a [u8],
}

impl<'a> Body<'a> {
    /// From what stands behind a fixed part: the data, and from version 1 on the table behind it.
    fn decode(version: u32, size: u32, rest: &'a [u8]) -> Result<Self> {
        if version < TABLES {
            return Ok(Body { data: rest, table: &[] });
        }
        let Some((data, table)) = rest.split_at_checked(size as usize) else {
            return Err(broken(format!("a parcel of {size} bytes in a frame that has {}", rest.len())));
        };
        if table.len() % 4 != 0 {
            return Err(broken(format!("a table of objects of {} bytes", table.len())));
        }
        let body = Body { data, table };
        // No two in one place, and each with room for the least.
        let mut free = 0;
        for at in body.places() {
            let end = at.saturating_add(8);
            if at < free || end > data.len() {
                return Err(broken(format!("an object at {at} of {} bytes", data.len())));
            }
            free = end;
        }
        Ok(body)
    }

    /// Where objects stand in the data, in order.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        self.table.chunks_exact(4).map(|raw| word(raw, 0) as usize)
    }
}

const CALL: usize = 40;
const REPLY: usize = 20;

/// A call (`RpcWireTransaction`).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Transaction<'a> {
    pub(super) address: Address,
    pub(super) code: u32,
    pub(super) flags: u32,
    /// Which oneway call to its object it is.
    pub(super) number: u64,
    pub(super) body: Body<'a>,
}

impl<'a> Transaction<'a> {
    /// Bytes in front of the parcel.
    pub(super) const FIXED: usize = CALL;

    /// Bytes in front of the parcel, with the frame's header.
    pub(super) const HEAD: usize = HEADER + CALL;

    /// Writes what stands in front of the parcel. `frame` has room for it there, and the parcel behind it: so many bytes of
    /// data, and the table.
    pub(super) fn write_head(
        frame: &mut [u8],
        address: Address,
        code: u32,
        flags: u32,
        number: u64,
        data: usize,
    ) -> Result<()> {
        let header = FrameHeader::encode(Command::Transact, frame.len() - HEADER)?;
        frame[..HEADER].copy_from_slice(&header);
        frame[HEADER..Self::HEAD].copy_from_slice(&Self::encode(address, code, flags, number, data));
        Ok(())
    }

    fn encode(address: Address, code: u32, flags: u32, number: u64, size: usize) -> [u8; CALL] {
        let mut bytes = [0; CALL];
        bytes[..8].copy_from_slice(&address.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&code.to_le_bytes());
        bytes[12..16].copy_from_slice(&flags.to_le_bytes());
        bytes[16..24].copy_from_slice(&number.to_le_bytes());
        bytes[24..28].copy_from_slice(&(size as u32).to_le_bytes());
        bytes
    }

    pub(super) fn decode(version: u32, bytes: &'a [u8]) -> Result<Self> {
        let Some((fixed, rest)) = bytes.split_at_checked(Self::FIXED) else {
            return Err(broken(format!("a call of {} bytes", bytes.len())));
        };
        Ok(Transaction {
            address: Address(long(fixed, 0)),
            code: word(fixed, 8),
            flags: word(fixed, 12),
            number: long(fixed, 16),
            body: Body::decode(version, word(fixed, 24), rest)?,
        })
    }
}

/// A reply (`RpcWireReply`).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply<'a> {
    pub(super) status: i32,
    pub(super) body: Body<'a>,
}

impl<'a> Reply<'a> {
    /// Bytes in front of the parcel.
    pub(super) fn fixed(version: u32) -> usize {
        if version < TABLES { 4 } else { REPLY }
    }

    /// Most bytes in front of the parcel: the frame of the references that are given back, the header of the reply's frame, and
    /// the fixed part.
    pub(super) const HEAD: usize = DecStrong::FRAME + HEADER + REPLY;

    /// Writes what stands in front of the parcel, and gives where it begins. `frames` has [`Reply::HEAD`] bytes of room for
    /// it, and the parcel behind them: so many bytes of data, and the table.
    pub(super) fn write_head(
        frames: &mut [u8],
        version: u32,
        back: Option<DecStrong>,
        status: i32,
        data: usize,
    ) -> Result<usize> {
        let fixed = Self::fixed(version);
        let header = FrameHeader::encode(Command::Reply, fixed + frames.len() - Self::HEAD)?;
        let at = Self::HEAD - fixed - HEADER;
        frames[at..][..HEADER].copy_from_slice(&header);
        frames[at + HEADER..Self::HEAD].copy_from_slice(&Self::encode(status, data)[..fixed]);
        let Some(back) = back else { return Ok(at) };
        frames[at - DecStrong::FRAME..at].copy_from_slice(&back.frame());
        Ok(at - DecStrong::FRAME)
    }

    // In a version without tables, the beginning of this.
    fn encode(status: i32, size: usize) -> [u8; REPLY] {
        let mut bytes = [0; REPLY];
        bytes[..4].copy_from_slice(&status.to_le_bytes());
        bytes[4..8].copy_from_slice(&(size as u32).to_le_bytes());
        bytes
    }

    pub(super) fn decode(version: u32, bytes: &'a [u8]) -> Result<Self> {
        let Some((fixed, rest)) = bytes.split_at_checked(Self::fixed(version)) else {
            return Err(broken(format!("a reply of {} bytes", bytes.len())));
        };
        let status = word(fixed, 0) as i32;
        // A parcel of a call that failed means nothing.
        let body = if status == 0 { Body::decode(version, word(fixed, 4), rest)? } else { Body::EMPTY };
        Ok(Reply { status, body })
    }
}

impl Body<'_> {
    const EMPTY: Self = Body { data: &[], table: &[] };
}

/// References that are given back (`RpcDecStrong`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DecStrong {
    pub(super) address: Address,
    pub(super) amount: u32,
}

impl DecStrong {
    /// Bytes behind the frame's header.
    pub(super) const SIZE: usize = 16;
    /// Bytes of the whole frame.
    pub(super) const FRAME: usize = HEADER + Self::SIZE;

    /// The whole frame.
    pub(super) fn frame(self) -> [u8; Self::FRAME] {
        let mut bytes = [0; Self::FRAME];
        bytes[..4].copy_from_slice(&(Command::DecStrong as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&(Self::SIZE as u32).to_le_bytes());
        bytes[HEADER..HEADER + 8].copy_from_slice(&self.address.0.to_le_bytes());
        bytes[HEADER + 8..HEADER + 12].copy_from_slice(&self.amount.to_le_bytes());
        bytes
    }

    /// The frames of some.
    pub(super) fn frames(all: &[Self]) -> Vec<u8> {
        all.iter().flat_map(|dec| dec.frame()).collect()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes.len() != Self::SIZE {
            return Err(broken(format!("{} bytes of references that are given back", bytes.len())));
        }
        Ok(DecStrong { address: Address(long(bytes, 0)), amount: word(bytes, 8) })
    }
}

/// Reads bytes as a peer may send them: a connection's header, then frames. Gives how many frames were understood.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_any(bytes: &[u8]) -> Result<usize> {
    let Some((header, mut rest)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(broken("no header"));
    };
    let version = match ConnectionHeader::decode(header) {
        Ok(header) => {
            let again = ConnectionHeader::decode(&header.encode());
            assert_eq!(again.ok(), Some(header), "what was read is sent on as it came");
            header.version.min(NEWEST)
        }
        Err(_) => u32::from(header[0]) % (NEWEST + 1),
    };
    let mut frames = 0;
    while !rest.is_empty() {
        let header = FrameHeader::decode(rest.get(..HEADER).ok_or_else(|| broken("half a header"))?)?;
        let Some((body, next)) = rest[HEADER..].split_at_checked(header.body) else { break };
        rest = next;
        let read = match header.command {
            Command::Transact => Transaction::decode(version, body).map(|call| call.body),
            Command::Reply => Reply::decode(version, body).map(|reply| reply.body),
            Command::DecStrong => {
                let dec = DecStrong::decode(body)?;
                assert_eq!(DecStrong::decode(&dec.frame()[HEADER..]).ok(), Some(dec));
                frames += 1;
                continue;
            }
        };
        let read = read?;
        assert!(read.places().all(|at| at + 8 <= read.data.len()));
        frames += 1;
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_begins_as_libbinder_s_does() {
        let first =
            ConnectionHeader { version: 2, incoming: false, descriptors: Descriptors::Unix, joins: false };
        assert_eq!(first.encode(), [2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let back = ConnectionHeader { version: 1, incoming: true, descriptors: Descriptors::No, joins: true };
        assert_eq!(back.encode(), [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0]);
        for header in [first, back] {
            assert_eq!(ConnectionHeader::decode(&header.encode()).unwrap(), header);
        }
        assert_eq!(encode_response(1), [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode_response(&encode_response(1), 2).unwrap(), 1);
        assert!(decode_response(&encode_response(3), 2).is_err());
        assert_eq!(&INIT[..4], b"cci\0");
    }

    #[test]
    fn connections_that_make_no_sense_are_refused() {
        let good =
            ConnectionHeader { version: 2, incoming: false, descriptors: Descriptors::No, joins: true };
        for (at, byte) in [(5, 2), (14, 31), (15, 1), (14, 0)] {
            let mut bytes = ConnectionHeader { incoming: true, ..good }.encode();
            bytes[at] = byte;
            assert!(ConnectionHeader::decode(&bytes).is_err(), "byte {at} = {byte}");
        }
    }

    #[test]
    fn frames_stand_as_libbinder_s_do() {
        assert_eq!(
            FrameHeader::encode(Command::Reply, 0x0102).unwrap(),
            [1, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        );
        let address = Address::new(7, true);
        assert_eq!(address.0.to_le_bytes(), [3, 0, 0, 0, 7, 0, 0, 0]);
        assert!(address.is_of(true) && !address.is_of(false) && !Address::SESSION.is_of(false));
        let call = Transaction::encode(address, 0x0102_0304, ONEWAY, 9, 4);
        let expected: Vec<u8> = [
            &[3, 0, 0, 0, 7, 0, 0, 0, 4, 3, 2, 1, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0][..],
            &[0; 12],
        ]
        .concat();
        assert_eq!(call[..], expected);
        assert_eq!(Reply::encode(-32, 4)[..Reply::fixed(0)], [0xe0, 0xff, 0xff, 0xff]);
        let reply = [&[0, 0, 0, 0, 4, 0, 0, 0][..], &[0; 12]].concat();
        assert_eq!((&Reply::encode(0, 4)[..], Reply::fixed(1)), (&reply[..], reply.len()));
        let dec = DecStrong { address, amount: 5 };
        let frame = dec.frame();
        assert_eq!(frame[..8], [2, 0, 0, 0, 16, 0, 0, 0]);
        assert_eq!(frame[HEADER..], [3, 0, 0, 0, 7, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(DecStrong::decode(&frame[HEADER..]).unwrap(), dec);
    }

    #[test]
    fn what_comes_behind_the_data_depends_on_the_version() {
        let mut bytes = Transaction::encode(Address::new(1, false), 1, 0, 0, 12).to_vec();
        bytes.extend([0; 12]);
        bytes.extend(4u32.to_le_bytes());
        for version in [1, 2] {
            let call = Transaction::decode(version, &bytes).unwrap();
            assert_eq!((call.body.data.len(), call.body.places().collect()), (12, vec![4]));
        }
        assert_eq!(Transaction::decode(0, &bytes).unwrap().body, Body { data: &bytes[40..], table: &[] });
        let mut reply = Reply::encode(0, 8).to_vec();
        reply.extend([0; 8]);
        reply.extend(0u32.to_le_bytes());
        assert!(Reply::decode(2, &reply).unwrap().body.places().eq([0]));
    }

    #[test]
    fn hostile_frames_are_refused() {
        assert!(FrameHeader::decode(&[3, 0, 0, 0, 0, 0, 0, 0]).is_err());
        let huge = (MOST_BODY as u32 + 1).to_le_bytes();
        assert!(FrameHeader::decode(&[&[0, 0, 0, 0], &huge[..]].concat()).is_err());
        let call = |size: u32, data: usize, places: &[u32]| {
            let mut bytes = Transaction::encode(Address(1), 1, 0, 0, size as usize).to_vec();
            bytes.extend(vec![0; data]);
            places.iter().for_each(|place| bytes.extend(place.to_le_bytes()));
            Transaction::decode(2, &bytes).is_ok()
        };
        assert!(call(16, 16, &[0, 8]));
        // A parcel that is longer than the frame; tables out of order, of half an entry, outside of the data.
        for (size, data, places) in [
            (17, 16, &[][..]),
            (16, 18, &[]),
            (16, 16, &[8, 0]),
            (16, 16, &[0, 4]),
            (16, 16, &[12]),
            (4, 4, &[u32::MAX]),
        ] {
            assert!(!call(size, data, places), "{size} {data} {places:?}");
        }
        for len in 0..40 {
            assert!(Transaction::decode(2, &[0; 39][..len.min(39)]).is_err());
            assert!(len == 16 || DecStrong::decode(&[0; 40][..len]).is_err());
            assert!(len >= 20 || Reply::decode(1, &[0; 20][..len]).is_err());
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(bytes: Vec<u8>) {
            let _ = read_any(&bytes);
        }
    }
}
