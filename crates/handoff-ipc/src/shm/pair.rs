//! For tests of hostile peers: a service on one engine of this process and its proxy on another, whose memory
//! and messages a test writes as it likes.

use super::engine::ShmEngine;
use super::link::Link;
use super::remote::RemoteNode;
use crate::Service;
use crate::engine::Engine;
use crate::object::{Binder, Reference};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long something that must happen may take on a loaded machine.
const LONG: Duration = Duration::from_secs(60);

/// A service, and a client that need not keep to the protocol.
pub(super) struct Pair {
    pub(super) object: Binder,
    _client: ShmEngine,
    _server: ShmEngine,
    _folder: tempfile::TempDir,
}

impl Pair {
    pub(super) fn serve(service: impl Service) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let (server, client) = (ShmEngine::new(&socket).unwrap(), ShmEngine::new(&socket).unwrap());
        server.become_context_manager(Binder::new(service)).unwrap();
        let object = client.context_object().unwrap();
        Pair { object, _client: client, _server: server, _folder: folder }
    }

    pub(super) fn remote(&self) -> &RemoteNode {
        let Binder(Reference::Remote(remote)) = &self.object else { unreachable!("of another engine") };
        remote.as_any().downcast_ref().unwrap()
    }

    pub(super) fn link(&self) -> &Arc<Link> {
        &self.remote().link
    }

    /// The server hangs up on the client.
    pub(super) fn await_hang_up(&self) {
        await_that("the server hangs up", || self.link().is_dead());
    }
}

/// Waits until something holds.
pub(super) fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not in {LONG:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
