//! The ledger: what peers make this process hold, and how much of it each user and each process may.
//!
//! One user may hold half of what the others leave, one process three quarters of what the other
//! processes of its user leave of that. So whoever comes next finds something, whatever came before. The
//! limits are the kernel's for this process, less a reserve for the process itself.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use rustix::process::getrlimit;

use crate::identity::CallingIdentity;
use crate::locked::lock;
use crate::stats::Held;
use crate::{Error, Result, stats};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Resource {
    /// Connections, newcomers' among them, and descriptors that nobody has taken out of a parcel.
    Descriptors,
    /// Descriptors that came beyond the share above, until they are closed.
    Closing,
    /// Regions of shared memory that peers made.
    Mappings,
    /// Their bytes.
    Bytes,
    /// Objects of this process that a peer may call.
    Exports,
    /// Introductions that a receiver has not taken up.
    Introductions,
    /// Threads that wait for a peer while another one stands in.
    Threads,
}

impl Resource {
    const COUNT: usize = 7;

    /// As an error names it.
    fn name(self) -> &'static str {
        match self {
            Resource::Descriptors => "descriptors",
            Resource::Closing => "descriptors that are not closed yet",
            Resource::Mappings => "shared regions",
            Resource::Bytes => "bytes of shared memory",
            Resource::Exports => "objects",
            Resource::Introductions => "introductions that are not taken up",
            Resource::Threads => "threads that wait for it",
        }
    }
}

/// Most of each that all peers together may hold.
#[derive(Debug, Clone, Copy)]
struct Limits([u64; Resource::COUNT]);

/// Mappings that stay for this process itself: threads take two each.
const OWN_MAPPINGS: u64 = 8 << 10;
/// Bytes that may be mapped however small the machine is: most of them are never touched.
const LEAST_BYTES: u64 = 64 << 30;
/// Threads beyond the pool's limit for those that wait for a peer.
pub(crate) const MOST_AWAY: usize = 256;
const MOST_EXPORTS: u64 = 1 << 20;
const MOST_INTRODUCTIONS: u64 = 1024;

impl Limits {
    /// By what the kernel lets this process have now.
    fn current() -> Self {
        static MAPPINGS: LazyLock<u64> = LazyLock::new(|| {
            let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
            text.trim().parse().unwrap_or(65_530)
        });
        static BYTES: LazyLock<u64> = LazyLock::new(|| {
            let memory = rustix::system::sysinfo();
            (4 * memory.totalram as u64).saturating_mul(memory.mem_unit.into()).max(LEAST_BYTES)
        });
        let files = getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 20).min(1 << 20);
        Limits::of(files, *MAPPINGS, *BYTES)
    }

    fn of(files: u64, mappings: u64, bytes: u64) -> Self {
        let descriptors = files - (files / 8).max(64).min(files);
        let mut limits = [0; Resource::COUNT];
        limits[Resource::Descriptors as usize] = descriptors;
        limits[Resource::Closing as usize] = descriptors / 8;
        limits[Resource::Mappings as usize] = mappings.saturating_sub(OWN_MAPPINGS).max(mappings / 2);
        limits[Resource::Bytes as usize] = bytes;
        limits[Resource::Exports as usize] = MOST_EXPORTS;
        limits[Resource::Introductions as usize] = (descriptors / 4).min(MOST_INTRODUCTIONS);
        limits[Resource::Threads as usize] = MOST_AWAY as u64;
        Limits(limits)
    }
}

/// Held of one resource.
#[derive(Debug, Default)]
struct Column {
    all: u64,
    by_user: HashMap<u32, u64>,
    by_process: HashMap<(u32, u32), u64>,
}

impl Column {
    /// How much one process may hold, while the others hold what they do.
    fn share(&self, limit: u64, who: CallingIdentity) -> u64 {
        let user = self.by_user.get(&who.uid).copied().unwrap_or(0);
        let process = self.by_process.get(&(who.uid, who.pid)).copied().unwrap_or(0);
        let of_user = limit.saturating_sub(self.all - user) / 2;
        of_user.saturating_sub(user - process) / 4 * 3
    }

    fn charge(&mut self, limit: u64, who: CallingIdentity, amount: u64) -> Result<(), u64> {
        let share = self.share(limit, who);
        let process = self.by_process.get(&(who.uid, who.pid)).copied().unwrap_or(0);
        if process.saturating_add(amount) > share {
            return Err(process);
        }
        self.all += amount;
        *self.by_user.entry(who.uid).or_default() += amount;
        *self.by_process.entry((who.uid, who.pid)).or_default() += amount;
        Ok(())
    }

    fn release(&mut self, who: CallingIdentity, amount: u64) {
        self.all -= amount;
        take(&mut self.by_user, &who.uid, amount);
        take(&mut self.by_process, &(who.uid, who.pid), amount);
    }
}

/// Takes an amount off, and the entry out when nothing is left in it.
fn take<K: std::hash::Hash + Eq>(held: &mut HashMap<K, u64>, key: &K, amount: u64) {
    if let Some(count) = held.get_mut(key) {
        *count -= amount;
        if *count == 0 {
            held.remove(key);
        }
    }
}

/// One for the process, as the kernel's limits are.
static LEDGER: LazyLock<Mutex<[Column; Resource::COUNT]>> = LazyLock::new(Mutex::default);

/// An entry in the ledger; gone with the value.
#[derive(Debug)]
#[must_use = "the entry is taken back as soon as it is dropped"]
pub(crate) struct Charge {
    resource: Resource,
    who: CallingIdentity,
    amount: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        lock(&LEDGER)[self.resource as usize].release(self.who, self.amount);
    }
}

impl Charge {
    /// What it is an entry of.
    pub(crate) fn resource(&self) -> Resource {
        self.resource
    }
}

/// Enters what a peer makes this process hold.
///
/// # Errors
/// If the peer has its share of it; counted in [`stats::REFUSED`].
pub(crate) fn charge(who: CallingIdentity, resource: Resource, amount: u64) -> Result<Charge> {
    let limit = Limits::current().0[resource as usize];
    let outcome = lock(&LEDGER)[resource as usize].charge(limit, who, amount);
    match outcome {
        Ok(()) => Ok(Charge { resource, who, amount }),
        Err(held) => {
            stats::REFUSED.add();
            Err(Error::PermissionDenied(format!(
                "process {} of user {} holds {held} {} here, which is its share",
                who.pid,
                who.uid,
                resource.name()
            )))
        }
    }
}

/// What all peers together hold.
pub(crate) fn held() -> Held {
    let ledger = lock(&LEDGER);
    let of = |resource: Resource| ledger[resource as usize].all;
    Held {
        descriptors: of(Resource::Descriptors) + of(Resource::Closing),
        mappings: of(Resource::Mappings),
        bytes: of(Resource::Bytes),
        exports: of(Resource::Exports),
        introductions: of(Resource::Introductions),
        threads: of(Resource::Threads),
    }
}

/// All that a peer may still hold of something.
#[cfg(all(test, not(loom)))]
pub(crate) fn use_up(who: CallingIdentity, resource: Resource) -> Vec<Charge> {
    let mut charges = Vec::new();
    for amount in (0..40).rev().map(|bit| 1 << bit) {
        while let Ok(charge) = charge(who, resource, amount) {
            charges.push(charge);
        }
    }
    charges
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn who(uid: u32, pid: u32) -> CallingIdentity {
        CallingIdentity { pid, uid, gid: uid }
    }

    /// Takes one after the other until there is no more.
    fn fill(column: &mut Column, limit: u64, who: CallingIdentity) -> u64 {
        (0..=limit).take_while(|_| column.charge(limit, who, 1).is_ok()).count() as u64
    }

    #[test]
    fn a_newcomer_of_another_user_always_finds_a_share() {
        let mut column = Column::default();
        // Many processes of one user take what they can.
        let first: u64 = (0..64).map(|pid| fill(&mut column, 1000, who(1, pid))).sum();
        assert!((490..=500).contains(&first), "half, and not more: {first}");
        let second: u64 = (0..64).map(|pid| fill(&mut column, 1000, who(2, pid))).sum();
        assert!((240..=250).contains(&second), "half of what is left: {second}");
        assert!(fill(&mut column, 1000, who(3, 1)) > 80);
    }

    #[test]
    fn another_process_of_the_same_user_finds_a_share() {
        let mut column = Column::default();
        assert_eq!(fill(&mut column, 1000, who(1, 1)), 375);
        assert!(fill(&mut column, 1000, who(1, 2)) > 80);
    }

    #[test]
    fn what_was_given_back_leaves_no_trace() {
        let mut column = Column::default();
        column.charge(1000, who(1, 1), 300).unwrap();
        column.charge(1000, who(1, 2), 30).unwrap();
        assert_eq!(column.charge(1000, who(1, 1), 300), Err(300), "how much it has");
        column.release(who(1, 1), 300);
        column.release(who(1, 2), 30);
        assert!(column.all == 0 && column.by_user.is_empty() && column.by_process.is_empty());
    }

    #[test]
    fn limits_leave_a_reserve_whatever_the_kernel_allows() {
        for files in [0, 10, 64, 256, 1024, 1 << 20] {
            let limits = Limits::of(files, 65_530, LEAST_BYTES).0;
            assert!(limits[Resource::Descriptors as usize] <= files.saturating_sub(64.min(files)));
        }
        assert_eq!(Limits::of(1024, 65_530, 1).0[Resource::Descriptors as usize], 896);
        assert!(Limits::of(1024, 100, 1).0[Resource::Mappings as usize] == 50);
    }

    #[test]
    fn a_refusal_says_what_it_is_about_and_is_counted() {
        let before = stats::REFUSED.get();
        let error = charge(who(4711, 1), Resource::Threads, MOST_AWAY as u64).unwrap_err().to_string();
        assert!(error.contains("user 4711") && error.contains("threads"), "{error}");
        assert!(stats::REFUSED.get() > before);
        let held = charge(who(4711, 1), Resource::Exports, 100).unwrap();
        drop(held);
        assert!(!lock(&LEDGER)[Resource::Exports as usize].by_user.contains_key(&4711));
    }
}
