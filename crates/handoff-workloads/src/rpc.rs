//! Whole calls, through proxy and stub, between two processes: what is compared with the floors.
//!
//! [`Session`] has the shape of [`crate::floor::Session`]: it keeps a server and a client process and runs one
//! batch at a time, so that a runner can interleave engines, payloads and floors. The client's thread makes
//! the calls; nothing but the answer for the whole batch leaves the two processes.
//!
//! A program that uses this module calls [`crate::play_if_peer`] first in its `main`.

pub(crate) mod host;
pub(crate) mod play;
pub(crate) mod role;
pub(crate) mod service;
mod session;

#[cfg(test)]
pub(crate) use session::tests::play_here;
pub use session::{MAX_SAMPLES, Session};
pub(crate) use session::{Processes, Serving};

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::measurement::{Better, Clock, Measurement, Parameter, Unit};
use crate::outcome::Outcome;
use crate::place::Placement;

/// Largest payload of a call, in bytes.
pub const MAX_PAYLOAD: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// A virtual call within the client's process: the floor of the programming model.
    Local,
    /// Shared memory, in user space.
    #[default]
    Shm,
    /// The kernel's Binder driver.
    Binder,
}

impl Engine {
    pub const ALL: [Engine; 3] = [Engine::Local, Engine::Shm, Engine::Binder];

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Local => "local",
            Engine::Shm => "shm",
            Engine::Binder => "binder",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Engine {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Engine::ALL
            .into_iter()
            .find(|engine| engine.name() == text)
            .ok_or_else(|| Error::parameter("engine", format!("{text:?} is none of local, shm, binder")))
    }
}

/// The world that the service lives in: a driver of its own on the `binder` engine, a word in its
/// registration on the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Context {
    /// The framework's: parcels are copied, callers lend their nice value.
    Binder,
    /// That of hardware abstraction: large buffers are borrowed, callers lend their whole priority.
    Hwbinder,
    /// That between a vendor's own processes: as the framework's.
    Vndbinder,
}

impl Context {
    pub const ALL: [Context; 3] = [Context::Binder, Context::Hwbinder, Context::Vndbinder];

    /// The name on the command line and in results, which is that of its device.
    pub const fn name(self) -> &'static str {
        match self {
            Context::Binder => "binder",
            Context::Hwbinder => "hwbinder",
            Context::Vndbinder => "vndbinder",
        }
    }

    /// Where an engine's calls are measured unless something else is asked for: on the driver that every
    /// process has, and with the whole priority inherited where the engine can do that.
    pub const fn usual(engine: Engine) -> Self {
        match engine {
            Engine::Binder => Context::Binder,
            Engine::Local | Engine::Shm => Context::Hwbinder,
        }
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Context {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Context::ALL.into_iter().find(|context| context.name() == text).ok_or_else(|| {
            Error::parameter("context", format!("{text:?} is none of binder, hwbinder, vndbinder"))
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    pub engine: Engine,
    /// The world of the service; [`Context::usual`] if absent.
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
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            engine: Engine::default(),
            context: None,
            payload: 8,
            placement: Placement::Unpinned,
            inherit: true,
            inherit_user: false,
            follow: true,
        }
    }
}

impl Parameters {
    /// Checks everything that can be known before a process is started.
    pub fn check(&self) -> Result<()> {
        if self.payload > MAX_PAYLOAD {
            let problem = format!("{} bytes; a call carries up to {MAX_PAYLOAD}", self.payload);
            return Err(Error::parameter("payload", problem));
        }
        self.placement.check()
    }

    /// The world of the service.
    pub fn context(&self) -> Context {
        self.context.unwrap_or(Context::usual(self.engine))
    }

    /// For [`crate::measurement::Measurement::parameters`].
    pub fn to_map(&self) -> BTreeMap<String, Parameter> {
        BTreeMap::from([
            ("engine".to_owned(), self.engine.name().into()),
            ("context".to_owned(), self.context().name().into()),
            ("payload".to_owned(), self.payload.into()),
            ("placement".to_owned(), self.placement.to_string().into()),
            ("inherit".to_owned(), self.inherit.into()),
            ("inherit_user".to_owned(), self.inherit_user.into()),
            ("follow".to_owned(), self.follow.into()),
        ])
    }
}

/// Calls as a workload of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    pub engine: Engine,
    /// The world of the service; [`Context::usual`] if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// Bytes that travel each way.
    pub payload: usize,
    /// Where client and server run.
    pub placement: Placement,
    /// Callers lend their priority to the thread that serves them.
    pub inherit: bool,
    /// On the `binder` engine, the runtime has priorities inherited, whatever the driver does.
    pub inherit_user: bool,
    /// The callee may be served beside its caller where that is cheaper.
    pub follow: bool,
    pub samples: u32,
    pub trips: u32,
}

impl Default for Plan {
    fn default() -> Self {
        let Parameters { engine, context, payload, placement, inherit, inherit_user, follow } =
            Parameters::default();
        Plan { engine, context, payload, placement, inherit, inherit_user, follow, samples: 10_000, trips: 1 }
    }
}

impl Plan {
    fn parameters(&self) -> Parameters {
        let Plan { engine, context, payload, placement, inherit, inherit_user, follow, .. } = *self;
        Parameters { engine, context, payload, placement, inherit, inherit_user, follow }
    }

    /// Checks everything that can be known before a process is started.
    pub fn check(&self) -> Result<()> {
        if self.samples == 0 || self.samples > MAX_SAMPLES {
            return Err(Error::parameter(
                "samples",
                format!("{}; 1 to {MAX_SAMPLES} are taken", self.samples),
            ));
        }
        if self.trips == 0 {
            return Err(Error::parameter("trips", "0; a sample has at least one trip"));
        }
        self.parameters().check()
    }

    /// Runs it once. Measures `call/round_trip`.
    pub fn run(&self) -> Result<Outcome> {
        self.check()?;
        let values = Session::start(&self.parameters())?.batch(self.samples, self.trips)?;
        let mut map = self.parameters().to_map();
        map.insert("trips_per_sample".to_owned(), self.trips.into());
        let (unit, clock) = (Unit::Nanoseconds, Clock::Monotonic);
        let trips = Measurement::from_samples("call/round_trip", unit, clock, Better::Lower, values)?;
        Ok(Outcome {
            workload: "call".to_owned(),
            measurements: vec![trips.with_parameters(&map)],
            parameters: map,
            counters: Vec::new(),
            notes: Vec::new(),
        })
    }
}
