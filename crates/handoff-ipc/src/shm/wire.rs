//! Control messages: what two processes say to each other beside the calls.
//!
//! All have one size and one form, so that a hostile one can be nothing worse than wrong numbers.
//!
//! Whatever two processes share besides (slots, rings, the table of a parcel's objects) belongs to [`VERSION`] as well:
//! who changes the meaning of a byte there raises it. What never changes is the form of a greeting: kind, then version,
//! in so many bytes. With that alone each side can name both versions to a peer of another one.

use crate::{Error, Result};

/// Bytes of a message.
pub(crate) const MESSAGE_SIZE: usize = 48;

/// Version of the protocol; peers of another one are turned away with [`Error::OtherVersion`].
pub(crate) const VERSION: u32 = 3;

/// Most file descriptors that travel with one message (the kernel's `SCM_MAX_FD` is 253).
pub(crate) const MAX_FDS: usize = 64;

/// 128 random bits: an endpoint's name, or the right to one object.
pub(crate) type Token = [u8; 16];

/// Hashes of an object's interfaces, as `interface.rs` has them; zeros where the owner states none, as processes do
/// that were built before there were any.
pub(crate) type Stated = [u8; 16];

/// Why something was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The peer was given no such object.
    Unknown,
    /// The process, or its user, has its share of what this process holds for others.
    TooMany,
    /// This process has no descriptor or memory left for it.
    NoRoom,
    /// It came by another process than the one that it was meant for.
    NotYours,
}

impl Refusal {
    const ALL: [Refusal; 4] = [Refusal::Unknown, Refusal::TooMany, Refusal::NoRoom, Refusal::NotYours];

    fn code(self) -> u64 {
        self as u64 + 1
    }

    fn from_code(code: u64) -> Result<Self> {
        let known = Refusal::ALL.into_iter().find(|refusal| refusal.code() == code);
        known.ok_or_else(|| Error::Protocol(format!("a refusal of unknown kind {code}")))
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Error::PermissionDenied(match refusal {
            Refusal::Unknown => "the peer was not given this object".into(),
            Refusal::TooMany => "the peer holds as much for this process, or its user, as it may".into(),
            Refusal::NoRoom => "the peer has no descriptors or memory left for it".into(),
            Refusal::NotYours => "the connection was handed on by another process".into(),
        })
    }
}

/// What one process tells the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// First on every connection: who I am, and which introduction brings me (zeros: none). One that
    /// takes up an introduction brings one end of the connection that is to be used.
    Hello { endpoint: Token, token: Token },
    /// A greeting of a peer that speaks this other version; the rest of it means nothing here.
    OtherVersion(u32),
    /// The answer: who I am, and the object that the connection was made for (0: none), of these interfaces.
    Welcome { endpoint: Token, node: u64, interfaces: Stated },
    /// The other answer: we have a link, ask for the object there, with `Claim`.
    Known { endpoint: Token, nonce: Token },
    /// No. `request` is 0 where it answers a `Hello`.
    Refused { request: u32, refusal: Refusal },
    /// A new slot; its region comes along.
    Slot { slot: u32 },
    /// A request stands in the slot, and no thread of yours looks at it.
    Call { slot: u32 },
    /// The thread that looks at the slot is less urgent than the request in it.
    Raise { slot: u32 },
    /// Descriptors of the parcel in the slot, more to follow or not.
    Fds { slot: u32, reply: bool },
    /// Make a connection that I can hand to a third process, for this object of yours.
    Introduce { request: u32, node: u64 },
    /// It comes along; the token is the right to the object.
    Introduced { request: u32, node: u64, token: Token },
    /// You sent me this nonce on another connection.
    Claim { request: u32, token: Token },
    /// The object that it stands for (0: none), of these interfaces.
    Claimed { request: u32, node: u64, interfaces: Stated },
    /// The introduction that you asked for is over: taken up, given up, or too old.
    IntroductionOver { token: Token },
    /// I have no room for the slot that you opened: nobody serves what you put there.
    SlotRefused { slot: u32, refusal: Refusal },
    /// I gave up so many references to your object.
    Release { node: u64, count: u32 },
    /// My queue of oneway calls; its region comes along.
    Ring,
    /// The queue holds something, and no thread of yours looks at it.
    Post,
    /// The reply to the request in your slot is there, and no thread of yours waits for it.
    Done { slot: u32 },
}

impl Message {
    pub(crate) fn encode(&self) -> [u8; MESSAGE_SIZE] {
        use Message::*;
        let none = [0; 16];
        let (kind, a, b, first, second) = match *self {
            Hello { endpoint, token } => (1, VERSION, 0, endpoint, token),
            Welcome { endpoint, node, interfaces } => (2, VERSION, node, endpoint, interfaces),
            OtherVersion(version) => (2, version, 0, none, none),
            Slot { slot } => (3, slot, 0, none, none),
            Call { slot } => (4, slot, 0, none, none),
            Raise { slot } => (5, slot, 0, none, none),
            Fds { slot, reply } => (6, slot, u64::from(reply), none, none),
            Introduce { request, node } => (7, request, node, none, none),
            Introduced { request, node, token } => (8, request, node, token, none),
            Claim { request, token } => (9, request, 0, token, none),
            Claimed { request, node, interfaces } => (10, request, node, interfaces, none),
            Release { node, count } => (11, count, node, none, none),
            Ring => (12, 0, 0, none, none),
            Post => (13, 0, 0, none, none),
            Done { slot } => (14, slot, 0, none, none),
            Known { endpoint, nonce } => (15, 0, 0, endpoint, nonce),
            Refused { request, refusal } => (16, request, refusal.code(), none, none),
            IntroductionOver { token } => (17, 0, 0, token, none),
            SlotRefused { slot, refusal } => (18, slot, refusal.code(), none, none),
        };
        let mut bytes = [0; MESSAGE_SIZE];
        bytes[..4].copy_from_slice(&u32::to_le_bytes(kind));
        bytes[4..8].copy_from_slice(&a.to_le_bytes());
        bytes[8..16].copy_from_slice(&b.to_le_bytes());
        bytes[16..32].copy_from_slice(&first);
        bytes[32..].copy_from_slice(&second);
        bytes
    }

    /// From what came; anything that no peer of this version sends is an error.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        use Message::*;
        let bytes: &[u8; MESSAGE_SIZE] = bytes
            .try_into()
            .map_err(|_| Error::Protocol(format!("a control message of {} bytes", bytes.len())))?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let token = |at: usize| -> Token { std::array::from_fn(|index| bytes[at + index]) };
        let (a, b) = (word(4), u64::from(word(8)) | u64::from(word(12)) << 32);
        let (first, second) = (token(16), token(32));
        let message = match word(0) {
            1 | 2 if a != VERSION => OtherVersion(a),
            1 => Hello { endpoint: first, token: second },
            2 => Welcome { endpoint: first, node: b, interfaces: second },
            3 => Slot { slot: a },
            4 => Call { slot: a },
            5 => Raise { slot: a },
            6 => Fds { slot: a, reply: b != 0 },
            7 => Introduce { request: a, node: b },
            8 => Introduced { request: a, node: b, token: first },
            9 => Claim { request: a, token: first },
            10 => Claimed { request: a, node: b, interfaces: first },
            11 => Release { node: b, count: a },
            12 => Ring,
            13 => Post,
            14 => Done { slot: a },
            15 => Known { endpoint: first, nonce: second },
            16 => Refused { request: a, refusal: Refusal::from_code(b)? },
            17 => IntroductionOver { token: first },
            18 => SlotRefused { slot: a, refusal: Refusal::from_code(b)? },
            other => return Err(Error::Protocol(format!("a control message of unknown kind {other}"))),
        };
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_message() -> impl Strategy<Value = Message> {
        (1u32..19, any::<u32>(), any::<u64>(), any::<Token>(), any::<Token>()).prop_map(
            |(kind, a, b, t, u)| match kind {
                1 => Message::Hello { endpoint: t, token: u },
                2 => Message::Welcome { endpoint: t, node: b, interfaces: u },
                3 => Message::Slot { slot: a },
                4 => Message::Call { slot: a },
                5 => Message::Raise { slot: a },
                6 => Message::Fds { slot: a, reply: b % 2 == 1 },
                7 => Message::Introduce { request: a, node: b },
                8 => Message::Introduced { request: a, node: b, token: t },
                9 => Message::Claim { request: a, token: t },
                10 => Message::Claimed { request: a, node: b, interfaces: t },
                11 => Message::Release { node: b, count: a },
                12 => Message::Ring,
                13 => Message::Post,
                14 => Message::Done { slot: a },
                15 => Message::Known { endpoint: t, nonce: u },
                16 => Message::Refused { request: a, refusal: Refusal::ALL[b as usize % 4] },
                17 => Message::IntroductionOver { token: t },
                _ => Message::SlotRefused { slot: a, refusal: Refusal::ALL[b as usize % 4] },
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_sent_is_what_arrives(message in any_message()) {
            prop_assert_eq!(Message::decode(&message.encode()).unwrap(), message);
        }

        #[test]
        fn garbage_is_an_error_or_a_message(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(bytes.len(), MESSAGE_SIZE);
                prop_assert_eq!(Message::decode(&message.encode()).unwrap(), message);
            }
        }
    }
}
