//! C++ as it is written for Android, compiled against our headers, calls and serves through our library.

mod built;
mod calls;
mod everything;
mod forty;
mod holders;
#[path = "../../../../examples/tests/it/holds.rs"]
mod holds;
mod hostile;
mod installed;
mod linked;
mod logged;
mod peers;
mod process;
mod queues;
#[path = "../../../../examples/tests/it/everything/mod.rs"]
mod shared;
mod table;

use std::path::Path;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
