//! The points of a transaction on each engine, and where each comes from.

use serde::{Deserialize, Serialize};

use crate::rpc::EngineKind;

/// A point that every transaction passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Its name, as the tool that first told them printed it.
    pub name: &'static str,
    /// Where the transaction is then.
    pub side: Side,
    pub source: &'static str,
    pub quality: Quality,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Client,
    /// In the kernel's driver.
    Kernel,
    Server,
}

/// How well a point is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// A clock read by the program or the engine itself.
    User,
    /// A tracepoint at that very place.
    Exact,
    /// A tracepoint right after it.
    Near,
    /// No tracepoint is there: the next thing that is seen.
    Approximate,
    /// A tracepoint at a place that means something else today.
    Shifted,
}

impl Quality {
    pub const fn word(self) -> &'static str {
        match self {
            Quality::User => "user",
            Quality::Exact => "exact",
            Quality::Near => "near",
            Quality::Approximate => "approximate",
            Quality::Shifted => "shifted",
        }
    }
}

const fn point(name: &'static str, side: Side, quality: Quality, source: &'static str) -> Point {
    Point { name, side, source, quality }
}

// What the program itself stamps, on every engine that lets it.
const C_SEND: Point = point("C_SEND", Side::Client, Quality::User, "the client's clock before the call");
const S_RECV: Point =
    point("S_RECV", Side::Server, Quality::User, "the server's clock when its method begins");
const S_REPLY: Point =
    point("S_REPLY", Side::Server, Quality::User, "the server's clock at the end of its method");
const C_RECV: Point =
    point("C_RECV", Side::Client, Quality::User, "the client's clock when the reply is read");
const C_EXIT: Point = point("C_EXIT", Side::Client, Quality::User, "the client's clock after the call");

/// The fifteen points on the kernel's driver.
pub const KERNEL: [Point; 15] = [
    C_SEND,
    point("K_IOC", Side::Kernel, Quality::Exact, "binder_ioctl of the client"),
    point("K_WR_IN", Side::Kernel, Quality::Exact, "binder_command BC_TRANSACTION"),
    point(
        "K_ENQ",
        Side::Kernel,
        Quality::Near,
        "sched_waking of the server's thread after binder_transaction, or binder_write_done where it was awake",
    ),
    point("K_DEQ", Side::Kernel, Quality::Approximate, "sched_switch to the server's thread"),
    point(
        "K_COPY",
        Side::Kernel,
        Quality::Shifted,
        "binder_transaction_received (the payload itself is copied at K_WR_IN today)",
    ),
    point("S_RECV", Side::Server, Quality::Exact, "binder_ioctl_done of the server's thread"),
    S_REPLY,
    point("K_IOC", Side::Kernel, Quality::Exact, "binder_ioctl of the server's thread"),
    point("K_WR_IN", Side::Kernel, Quality::Exact, "binder_command BC_REPLY"),
    point(
        "K_ENQ",
        Side::Kernel,
        Quality::Near,
        "sched_waking of the client's thread after binder_transaction, or binder_write_done where it was awake",
    ),
    point("K_DEQ", Side::Kernel, Quality::Approximate, "sched_switch to the client's thread"),
    point("K_COPY", Side::Kernel, Quality::Shifted, "binder_transaction_received of the reply"),
    point("C_RECV", Side::Client, Quality::Exact, "binder_ioctl_done of the client"),
    C_EXIT,
];

/// The eleven points of the `shm` engine: no system call but the wake-ups.
pub const SHM: [Point; 11] = [
    C_SEND,
    point("C_POST", Side::Client, Quality::User, "the engine, when the request stands in the slot"),
    point("C_WAKE", Side::Client, Quality::User, "the engine, after FUTEX_WAKE, or where none was needed"),
    point("S_SEEN", Side::Server, Quality::User, "the engine, when the server's thread sees the request"),
    S_RECV,
    S_REPLY,
    point("S_POST", Side::Server, Quality::User, "the engine, when the reply stands in the slot"),
    point("S_WAKE", Side::Server, Quality::User, "the engine, after FUTEX_WAKE, or where none was needed"),
    point("C_SEEN", Side::Client, Quality::User, "the engine, when the client's thread sees the reply"),
    C_RECV,
    C_EXIT,
];

/// The points of a call within one process.
pub const LOCAL: [Point; 5] = [C_SEND, S_RECV, S_REPLY, C_RECV, C_EXIT];

pub fn of(engine: EngineKind) -> &'static [Point] {
    match engine {
        EngineKind::Local | EngineKind::Rpc => &LOCAL,
        EngineKind::Shm => &SHM,
        EngineKind::Binder => &KERNEL,
    }
}
