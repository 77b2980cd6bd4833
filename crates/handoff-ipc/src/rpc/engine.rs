//! The engine as a runtime sees it: one address, whose server's root object is what everybody knows.

use std::sync::Mutex;

use super::address::RpcAddress;
use super::client::RpcSession;
use super::server::RpcServer;
use crate::engine::{Engine, EngineStats};
use crate::engine_kind::EngineKind;
use crate::locked::lock;
use crate::object::Binder;
use crate::{Error, Result, ledger, pool, stats};

/// Binder RPC at one address, as a server or as a client of it.
///
/// ```
/// use handoff_ipc::engine::Engine;
/// use handoff_ipc::rpc::{RpcAddress, RpcEngine};
/// use handoff_ipc::{Binder, ParcelService};
///
/// let engine = RpcEngine::new(RpcAddress::abstract_name(format!("handoff-engine-{}", std::process::id())));
/// engine.become_context_manager(Binder::new(ParcelService::new("sample.IEcho", |_, request| Ok(Some(request)))))?;
/// assert_eq!(engine.context_object()?.descriptor()?, "sample.IEcho");
/// # Ok::<(), handoff_ipc::Error>(())
/// ```
#[derive(Debug)]
pub struct RpcEngine {
    address: RpcAddress,
    server: Mutex<Option<RpcServer>>,
    session: Mutex<Option<RpcSession>>,
}

impl RpcEngine {
    /// Nothing is connected yet.
    pub fn new(address: impl Into<RpcAddress>) -> Self {
        RpcEngine { address: address.into(), server: Mutex::default(), session: Mutex::default() }
    }
}

impl Engine for RpcEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Rpc
    }

    fn context_object(&self) -> Result<Binder> {
        let mut session = lock(&self.session);
        match session.take().filter(RpcSession::is_alive) {
            Some(known) => session.insert(known).root(),
            None => session.insert(RpcSession::connect(self.address.clone())?).root(),
        }
    }

    fn become_context_manager(&self, manager: Binder) -> Result<()> {
        let mut server = lock(&self.server);
        if server.is_some() {
            return Err(Error::PermissionDenied(format!("this engine serves at {} already", self.address)));
        }
        *server = Some(RpcServer::builder(self.address.clone()).serve(manager)?);
        Ok(())
    }

    fn set_max_threads(&self, threads: usize) {
        // Oneway calls and death recipients run on the pool; a session's own threads are its connections'.
        pool::set_max(threads);
    }

    fn stats(&self) -> EngineStats {
        let links = lock(&self.server).as_ref().map_or(0, RpcServer::sessions)
            + usize::from(lock(&self.session).as_ref().is_some_and(RpcSession::is_alive));
        EngineStats {
            calls: stats::RPC_CALLS.get(),
            served: stats::RPC_SERVED.get(),
            served_oneway: stats::SERVED_ONEWAY.get(),
            threads: pool::threads() as u64,
            links: links as u64,
            refused: stats::REFUSED.get(),
            held: ledger::held(),
            ..EngineStats::default()
        }
    }
}
