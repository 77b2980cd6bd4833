//! How a process offers the service of the workloads, and how another reaches it, on each engine.

use std::path::Path;

use handoff_ipc::engine::Engine as _;
use handoff_ipc::shm::{self, ShmEngine};
use handoff_ipc::{Binder, Proxy as _};

use super::Engine;
use super::service::{Probe, ProbeProxy};
use crate::error::{Error, Result};

/// Keeps the engine of a process running.
pub(super) struct Host {
    _engine: Option<ShmEngine>,
}

fn failed(what: &str, error: handoff_ipc::Error) -> Error {
    Error::io(what, std::io::Error::other(error))
}

/// Offers a [`Probe`] to whoever connects to `socket`.
pub(super) fn serve(engine: Engine, socket: &Path, inherit: bool, threads: Option<usize>) -> Result<Host> {
    let Engine::Shm = engine else { return Err(unsupported(engine)) };
    let shm = ShmEngine::new(socket).map_err(|error| failed("cannot start the shm engine", error))?;
    if let Some(threads) = threads {
        shm.set_max_threads(threads);
    }
    shm.become_context_manager(Binder::new(Probe::new(inherit)))
        .map_err(|error| failed("cannot offer the service", error))?;
    Ok(Host { _engine: Some(shm) })
}

/// Connects to the [`Probe`] behind `socket`, or makes one in this process for [`Engine::Local`].
pub(super) fn connect(
    engine: Engine,
    socket: &Path,
    inherit: bool,
    follow: bool,
) -> Result<(Host, ProbeProxy)> {
    let (host, binder) = match engine {
        Engine::Local => (Host { _engine: None }, Binder::new(Probe::new(inherit))),
        Engine::Shm => {
            shm::follow_callers(follow);
            let shm = ShmEngine::new(socket).map_err(|error| failed("cannot start the shm engine", error))?;
            let binder = shm.context_object().map_err(|error| failed("cannot reach the service", error))?;
            (Host { _engine: Some(shm) }, binder)
        }
        Engine::Binder => return Err(unsupported(engine)),
    };
    let proxy = ProbeProxy::from_binder(binder).map_err(|error| failed("cannot reach the service", error))?;
    Ok((host, proxy))
}

fn unsupported(engine: Engine) -> Error {
    let reason = match engine {
        Engine::Local => "the local engine has no second process",
        _ => "this build has no engine for the kernel's Binder driver; use --engine shm or local",
    };
    Error::NotSupported { workload: "calls between processes", reason: reason.to_owned() }
}
