//! How a process offers the service of the workloads, and how another reaches it, on each engine.

use std::path::PathBuf;

use handoff_ipc::engine::EngineKind;
use handoff_ipc::runtime::Builder;
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Proxy, Runtime, shm};
use serde::{Deserialize, Serialize};

use super::service::{Probe, ProbeProxy};
use super::{Context, Engine};
use crate::error::{Error, Result};
use crate::latency::{Lateness, Plant};

/// Where a server can be reached.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Address {
    /// The name under which it is registered.
    name: String,
    /// The socket of its service manager, on an engine that has one.
    pub(crate) socket: Option<PathBuf>,
}

impl From<Engine> for EngineKind {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Local => EngineKind::Local,
            Engine::Shm => EngineKind::Shm,
            Engine::Binder => EngineKind::Binder,
        }
    }
}

fn failed(what: &str, error: handoff_ipc::Error) -> Error {
    match error {
        handoff_ipc::Error::Unsupported { .. } => {
            Error::NotSupported { workload: "calls between processes", reason: error.to_string() }
        }
        _ => Error::io(what, std::io::Error::other(error)),
    }
}

/// How a service is offered and reached: the same on both sides.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Way {
    pub(crate) engine: Engine,
    pub(crate) context: Context,
    pub(crate) inherit: bool,
    pub(crate) inherit_user: bool,
    /// What makes some calls late.
    pub(crate) plant: Option<Plant>,
}

impl Way {
    fn builder(self) -> Builder {
        let builder = Runtime::builder().engine(self.engine.into()).context(self.context.into());
        builder.lend_priorities(self.inherit_user)
    }
}

impl From<Context> for handoff_ipc::Context {
    fn from(context: Context) -> Self {
        match context {
            Context::Binder => handoff_ipc::Context::Framework,
            Context::Hwbinder => handoff_ipc::Context::Hardware,
            Context::Vndbinder => handoff_ipc::Context::Vendor,
        }
    }
}

/// Offers a [`Probe`]: with a service manager of its own where the engine allows it, so that a
/// measurement neither needs nor disturbs the one of the machine.
pub(super) fn serve(way: Way, threads: Option<usize>) -> Result<(Runtime, Address)> {
    let lateness = way.plant.map(Lateness::prepare).transpose()?.flatten();
    let probe = Binder::new(Probe::new(way.inherit).with_lateness(lateness));
    let (runtime, address) = offer(way, probe, "handoff.workloads.IProbe")?;
    if let Some(threads) = threads {
        runtime.set_max_threads(threads);
    }
    Ok((runtime, address))
}

/// Offers any object, as [`serve`] does.
pub(super) fn offer(way: Way, binder: Binder, interface: &str) -> Result<(Runtime, Address)> {
    let runtime = match way.engine {
        Engine::Shm => Runtime::private(),
        // A driver has one manager for all: the first server of a measurement is it, if there is none.
        Engine::Binder => way.builder().connect_or_private(),
        Engine::Local => way.builder().connect(),
    }
    .map_err(|error| failed("cannot start the engine", error))?;
    let name = format!("{interface}/{}", std::process::id());
    runtime
        .services()
        // A process may offer one interface several times, each to those who have found it.
        .add(&name, binder, ServiceOptions::of(way.context.into()).replacing())
        .map_err(|error| failed("cannot register the service", error))?;
    let socket = runtime.socket().map(PathBuf::from);
    Ok((runtime, Address { name, socket }))
}

/// Connects to the [`Probe`] at `address`; without one, makes it in this process.
pub(super) fn connect(way: Way, address: Option<&Address>, follow: bool) -> Result<(Runtime, ProbeProxy)> {
    shm::follow_callers(follow);
    match address {
        None => {
            let (runtime, address) = serve(way, None)?;
            let probe = find(&runtime, &address)?;
            Ok((runtime, probe))
        }
        Some(address) => reach(way, address),
    }
}

/// Connects to any object that was offered.
pub(super) fn reach<P: Proxy>(way: Way, address: &Address) -> Result<(Runtime, P)> {
    let builder = match &address.socket {
        Some(socket) => way.builder().socket(socket),
        None => way.builder(),
    };
    let runtime = builder.connect().map_err(|error| failed("cannot reach the service manager", error))?;
    let object = find(&runtime, address)?;
    Ok((runtime, object))
}

fn find<P: Proxy>(runtime: &Runtime, address: &Address) -> Result<P> {
    runtime.services().find::<P>(&address.name).map_err(|error| failed("cannot find the service", error))
}
