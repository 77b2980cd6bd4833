//! Which engine carries a call.

use std::fmt;
use std::str::FromStr;

use crate::Result;

/// Which engine carries a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum EngineKind {
    /// A direct virtual call in one process.
    Local,
    /// Shared memory and futexes in user space.
    #[default]
    Shm,
    /// The kernel's Binder driver.
    Binder,
    /// Stream sockets, in the wire format of libbinder's RPC.
    Rpc,
}

impl EngineKind {
    /// Those that a machine's services are reached on and commands can choose, the cheapest first. RPC has no service
    /// manager: who uses it names an address.
    pub const ALL: [EngineKind; 3] = [EngineKind::Local, EngineKind::Shm, EngineKind::Binder];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Local => "local",
            EngineKind::Shm => "shm",
            EngineKind::Binder => "binder",
            EngineKind::Rpc => "rpc",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no [`EngineKind`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no engine is called {0:?}: local, shm or binder")]
pub struct UnknownEngine(String);

impl FromStr for EngineKind {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Self, UnknownEngine> {
        EngineKind::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| UnknownEngine(text.to_owned()))
    }
}
