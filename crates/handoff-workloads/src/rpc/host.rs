//! How a process offers the service of the workloads, and how another reaches it, on each engine.

use std::path::PathBuf;

use handoff_ipc::runtime::Builder;
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Proxy, Runtime};
use serde::{Deserialize, Serialize};

use super::role::Client;
use super::service::{Probe, ProbeProxy};
use super::{EngineKind, Parameters, ServerOptions};
use crate::error::{Error, Result};
use crate::latency::Lateness;

/// Where a server can be reached.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Address {
    /// The name under which it is registered.
    name: String,
    /// The socket of its service manager, on an engine that has one.
    pub(crate) socket: Option<PathBuf>,
}

fn failed(what: &str, error: handoff_ipc::Error) -> Error {
    match error {
        handoff_ipc::Error::Unsupported { .. } => {
            Error::NotSupported { workload: "calls between processes", reason: error.to_string() }
        }
        _ => Error::io(what, std::io::Error::other(error)),
    }
}

fn builder(of: &Parameters) -> Builder {
    Runtime::builder()
        .engine(of.engine)
        .context(of.context())
        .lend_priorities(of.inherit_user)
        .follow_callers(of.follow)
}

/// Offers a [`Probe`]: with a service manager of its own where the engine allows it, so that a
/// measurement neither needs nor disturbs the one of the machine.
pub(super) fn serve(calls: &Parameters, serving: ServerOptions) -> Result<(Runtime, Address)> {
    let lateness = serving.fault.map(Lateness::prepare).transpose()?.flatten();
    let probe = Binder::new(Probe::new(calls.inherit).with_lateness(lateness));
    let (runtime, address) = offer(calls, probe, "handoff.workloads.IProbe")?;
    if let Some(threads) = serving.threads {
        runtime.set_max_threads(threads);
    }
    Ok((runtime, address))
}

/// Offers any object, as [`serve`] does.
pub(super) fn offer(calls: &Parameters, binder: Binder, interface: &str) -> Result<(Runtime, Address)> {
    let runtime = match calls.engine {
        EngineKind::Shm => Runtime::private(),
        // A driver has one manager for all: the first server of a measurement is it, if there is none.
        EngineKind::Binder => builder(calls).connect_or_private(),
        // Binder RPC has no manager to start: that is the error.
        EngineKind::Local | EngineKind::Rpc => builder(calls).connect(),
    }
    .map_err(|error| failed("cannot start the engine", error))?;
    let name = format!("{interface}/{}", std::process::id());
    runtime
        .services()
        // A process may offer one interface several times, each to those who have found it.
        .add(&name, binder, ServiceOptions::of(calls.context()).replacing())
        .map_err(|error| failed("cannot register the service", error))?;
    let socket = runtime.socket().map(PathBuf::from);
    Ok((runtime, Address { name, socket }))
}

/// Connects to the [`Probe`] of `client`; one that has no address makes it in this process.
pub(super) fn connect(Client { calls, address, serving, .. }: &Client) -> Result<(Runtime, ProbeProxy)> {
    match address {
        None => {
            let (runtime, address) = serve(calls, *serving)?;
            let probe = find(&runtime, &address)?;
            Ok((runtime, probe))
        }
        Some(address) => reach(calls, address),
    }
}

/// Connects to any object that was offered.
pub(super) fn reach<P: Proxy>(calls: &Parameters, address: &Address) -> Result<(Runtime, P)> {
    let builder = match &address.socket {
        Some(socket) => builder(calls).socket(socket),
        None => builder(calls),
    };
    let runtime = builder.connect().map_err(|error| failed("cannot reach the service manager", error))?;
    let object = find(&runtime, address)?;
    Ok((runtime, object))
}

fn find<P: Proxy>(runtime: &Runtime, address: &Address) -> Result<P> {
    runtime.services().find::<P>(&address.name).map_err(|error| failed("cannot find the service", error))
}
