//! `trace.dat` files, version 6: what `trace-cmd record` writes, and `trace-cmd report` and
//! KernelShark open.
//!
//! Reference: `trace-cmd.dat.v6(5)`. What Handoff knows beside (processes, stolen time, whether it
//! was a flight recorder) is kept as JSON behind the last page, where other readers do not look.

mod read;
mod write;

pub use read::from_bytes;
pub use write::{save, to_bytes};

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::event::Tid;
use crate::trace::{BufferStats, TraceContext};

pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";
const VERSION: &[u8] = b"6\0";

/// Option numbers of the file.
const OPTION_DONE: u16 = 0;
const OPTION_CLOCK: u16 = 4;

/// The end of a file that has our JSON: its length as a `u64`, then this.
const FOOTER: &[u8; 8] = b"handoff1";

/// What other tools do not keep.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Extra {
    flight: bool,
    stats: Vec<BufferStats>,
    processes: HashMap<Tid, Tid>,
    #[serde(rename = "surroundings")]
    context: TraceContext,
}
