//! Whole calls, through proxy and stub, between two processes: what is compared with the floors.
//!
//! [`Session`] has the shape of [`crate::floor::Session`]: it keeps a server and a client process and runs one
//! batch at a time, so that a runner can interleave engines, payloads and floors. The client's thread makes
//! the calls; nothing but the answer for the whole batch leaves the two processes.
//!
//! A program that uses this module calls [`crate::play_if_peer`] first in its `main`.

pub(crate) mod hold;
pub(crate) mod host;
pub(crate) mod play;
pub(crate) mod role;
pub(crate) mod service;
mod session;

#[cfg(test)]
pub(crate) use session::tests::play_here;
pub use session::{MAX_SAMPLES, Session};
pub(crate) use session::{Processes, ServerOptions};

use std::collections::BTreeMap;

use handoff_ipc::binder::Implementation;
pub use handoff_ipc::{Context, EngineKind};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, in_range};
use crate::measurement::{Better, Clock, Parameter, Unit};
use crate::outcome::Outcome;
use crate::place::Placement;

/// Largest payload of a call, in bytes.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// The context whose calls an engine is measured in unless another is asked for: that of the driver which every
/// process has, and one that lends the whole priority where the engine can.
pub const fn usual_context(engine: EngineKind) -> Context {
    match engine {
        EngineKind::Binder => Context::Framework,
        EngineKind::Local | EngineKind::Shm | EngineKind::Rpc => Context::Hardware,
    }
}

/// Which Binder driver an engine calls through on this kernel, where it does: a part of every result.
pub(crate) fn driver_name(engine: EngineKind) -> Option<&'static str> {
    (engine == EngineKind::Binder).then(|| Implementation::running().name())
}

/// What calls are made with, as results have it.
pub(crate) fn engine_map(engine: EngineKind, context: Context) -> BTreeMap<String, Parameter> {
    let mut map = BTreeMap::from([
        ("engine".to_owned(), engine.name().into()),
        ("context".to_owned(), context.device().into()),
    ]);
    map.extend(driver_name(engine).map(|driver| ("driver".to_owned(), driver.into())));
    map
}

/// How a service is offered and called, and the calls of a run of the workload `call`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    pub engine: EngineKind,
    /// That of the service; [`usual_context`] if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// Bytes that travel each way, as one byte vector.
    pub payload: usize,
    /// Where client and server run.
    pub placement: Placement,
    /// Callers lend their priority to the thread that serves them.
    pub inherit: bool,
    /// On the `binder` engine, the runtime has priorities inherited, whatever the driver does.
    pub inherit_user: bool,
    /// The callee may be served beside its caller where that is cheaper.
    pub follow: bool,
    /// Of a run; a [`Session`] is told with each batch.
    pub samples: u32,
    pub trips: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            engine: EngineKind::default(),
            context: None,
            payload: 8,
            placement: Placement::Unpinned,
            inherit: true,
            inherit_user: false,
            follow: true,
            samples: 10_000,
            trips: 1,
        }
    }
}

impl Parameters {
    /// Checks everything that can be known before a process is started.
    pub fn check(&self) -> Result<()> {
        in_range("samples", self.samples, 1..=MAX_SAMPLES)?;
        if self.trips == 0 {
            return Err(Error::parameter("trips", "0; a sample has at least one trip"));
        }
        if self.payload > MAX_PAYLOAD {
            let problem = format!("{} bytes; a call carries up to {MAX_PAYLOAD}", self.payload);
            return Err(Error::parameter("payload", problem));
        }
        self.placement.check()
    }

    /// That of the service.
    pub fn context(&self) -> Context {
        self.context.unwrap_or(usual_context(self.engine))
    }

    /// For [`crate::measurement::Measurement::parameters`].
    pub fn to_map(&self) -> BTreeMap<String, Parameter> {
        let mut map = engine_map(self.engine, self.context());
        map.extend([
            ("payload".to_owned(), self.payload.into()),
            ("placement".to_owned(), self.placement.to_string().into()),
            ("inherit".to_owned(), self.inherit.into()),
            ("inherit_user".to_owned(), self.inherit_user.into()),
            ("follow".to_owned(), self.follow.into()),
        ]);
        map
    }

    /// Runs it once. Measures `call/round_trip`.
    pub fn run(&self) -> Result<Outcome> {
        self.check()?;
        let values = Session::start(self)?.batch(self.samples, self.trips)?;
        let mut map = self.to_map();
        map.insert("trips_per_sample".to_owned(), self.trips.into());
        let mut outcome = Outcome::of("call", map);
        outcome.add("round_trip", Unit::Nanoseconds, Clock::Monotonic, Better::Lower, values)?;
        Ok(outcome)
    }
}
