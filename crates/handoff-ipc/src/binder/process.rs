//! What a process keeps beside the driver: objects that others hold, proxies, recipients of deaths.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::command::Command;
use super::driver::Driver;
use super::numbers::NumberMap;
use super::remote::BinderRemote;
use crate::context::Context;
use crate::locked::lock;
use crate::object::LocalNode;

/// `struct binder_node` as this process sees it: an object of its own that it sent over the driver.
struct Node {
    node: Arc<LocalNode>,
    // What the driver counts: it may say "released" to one thread before another one hears
    // "acquired", so these go below zero for a moment.
    strong: i64,
    weak: i64,
    // Parcels on their way out that hold it; the driver takes its own reference meanwhile.
    pins: u64,
}

impl Node {
    fn is_held(&self) -> bool {
        self.strong > 0 || self.weak > 0 || self.pins > 0
    }
}

/// What the driver was asked to tell of a proxy.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RequestedNotifications {
    pub(super) death: bool,
    pub(super) freezing: bool,
}

/// One opened driver and everything that this process has on it.
pub(super) struct Process {
    pub(super) driver: Driver,
    /// By whose rules the driver is used.
    pub(super) context: Context,
    nodes: Mutex<NumberMap<Node>>,
    proxies: Mutex<HashMap<u32, Weak<BinderRemote>>>,
    // Those that the driver is to tell something of, by their cookies.
    told: Mutex<HashMap<u64, Weak<BinderRemote>>>,
    /// Bytes of large parcels that were read and are not given back yet.
    pub(super) unfreed: AtomicU64,
    next_cookie: AtomicU64,
    looping: AtomicBool,
    lends: AtomicBool,
}

impl Process {
    pub(super) fn new(driver: Driver, context: Context) -> Arc<Self> {
        Arc::new(Process {
            driver,
            context,
            nodes: Mutex::default(),
            proxies: Mutex::default(),
            told: Mutex::default(),
            unfreed: AtomicU64::new(0),
            next_cookie: AtomicU64::new(1),
            looping: AtomicBool::new(false),
            lends: AtomicBool::new(false),
        })
    }

    /// Callers' priorities travel with their calls from now on, and threads that serve take them over.
    pub(super) fn lend_priorities(&self) {
        self.lends.store(true, Ordering::Relaxed);
    }

    pub(super) fn lends(&self) -> bool {
        self.lends.load(Ordering::Relaxed)
    }

    // ---- objects of this process -----------------------------------------------------------

    /// Keeps an object while a parcel with it is on its way out; [`Process::unpin`] ends that.
    pub(super) fn pin(&self, node: &Arc<LocalNode>) -> u64 {
        let mut nodes = lock(&self.nodes);
        let entry = nodes.entry(node.id()).or_insert_with(|| Node {
            node: Arc::clone(node),
            strong: 0,
            weak: 0,
            pins: 0,
        });
        entry.pins += 1;
        node.id()
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut Node)) {
        let mut nodes = lock(&self.nodes);
        let Some(entry) = nodes.get_mut(&id) else { return };
        change(entry);
        if !entry.is_held() {
            let gone = nodes.remove(&id);
            drop(nodes);
            // The service's own `drop` may do anything: never under the lock.
            drop(gone);
        }
    }

    pub(super) fn unpin(&self, id: u64) {
        self.change(id, |node| node.pins -= 1);
    }

    pub(super) fn count(&self, id: u64, strong: i64, weak: i64) {
        self.change(id, |node| {
            node.strong += strong;
            node.weak += weak;
        });
    }

    /// The object that the driver calls `id`.
    #[inline(always)]
    pub(super) fn node(&self, id: u64) -> Option<Arc<LocalNode>> {
        lock(&self.nodes).get(&id).map(|known| Arc::clone(&known.node))
    }

    // ---- objects of others -----------------------------------------------------------------

    /// The proxy for a handle. Of a new one `acquire` has the references taken.
    pub(super) fn proxy(
        self: &Arc<Self>,
        handle: u32,
        acquire: impl FnOnce(&Arc<BinderRemote>),
    ) -> Arc<BinderRemote> {
        let mut proxies = lock(&self.proxies);
        if let Some(known) = proxies.get(&handle).and_then(Weak::upgrade) {
            return known;
        }
        let cookie = self.next_cookie.fetch_add(1, Ordering::Relaxed);
        let new = BinderRemote::new(Arc::clone(self), handle, cookie);
        proxies.insert(handle, Arc::downgrade(&new));
        // Under the lock, so that nobody else uses a handle whose references nobody has asked for.
        acquire(&new);
        new
    }

    /// The last holder of a proxy is gone.
    pub(super) fn forget(&self, handle: u32, cookie: u64, asked: RequestedNotifications) {
        let mut proxies = lock(&self.proxies);
        if proxies.get(&handle).is_some_and(|known| known.strong_count() == 0) {
            proxies.remove(&handle);
        }
        drop(proxies);
        let mut out = Vec::new();
        if asked.death || asked.freezing {
            lock(&self.told).remove(&cookie);
        }
        if asked.death {
            Command::ClearDeath { handle, cookie }.put(&mut out);
        }
        if asked.freezing {
            Command::ClearFreezeNews { handle, cookie }.put(&mut out);
        }
        Command::Release(handle).put(&mut out);
        Command::DecRefs(handle).put(&mut out);
        // A driver that refuses has given the process up: nothing is left to give back.
        drop(self.driver.write_read(&mut out, &mut []));
    }

    /// The driver will be asked to tell something of this proxy.
    pub(super) fn expect_news(&self, remote: &Arc<BinderRemote>) {
        lock(&self.told).insert(remote.cookie(), Arc::downgrade(remote));
    }

    fn asked_by(&self, cookie: u64) -> Option<Arc<BinderRemote>> {
        lock(&self.told).get(&cookie).and_then(Weak::upgrade)
    }

    /// A death was told.
    pub(super) fn died(&self, cookie: u64) {
        if let Some(remote) = self.asked_by(cookie) {
            remote.die();
        }
    }

    /// A freeze, or its end, was told.
    pub(super) fn froze(&self, cookie: u64, frozen: bool) {
        if let Some(remote) = self.asked_by(cookie) {
            remote.freeze(frozen);
        }
    }

    // ---- threads ---------------------------------------------------------------------------

    /// True for the first who asks: that one sees to it that a thread waits for calls from others.
    pub(super) fn begins_looping(&self) -> bool {
        !self.looping.swap(true, Ordering::AcqRel)
    }

    /// A thread of the application waits for calls: no other has to.
    pub(super) fn is_polled(&self) {
        self.looping.store(true, Ordering::Release);
    }
}
