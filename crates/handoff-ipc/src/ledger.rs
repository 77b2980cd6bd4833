//! The ledger: what peers make this process hold, and how much of it each user and each process may.
//!
//! One user may hold half of what the others leave, one process three quarters of what the other
//! processes of its user leave of that. So whoever comes next finds something, whatever came before. The
//! limits are the kernel's for this process, less a reserve for the process itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use rustix::process::getrlimit;

use crate::identity::CallingIdentity;
use crate::locked::lock;
use crate::stats::HeldResources;
use crate::{Error, Result, stats};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Resource {
    /// Connections, newcomers' among them, and descriptors that nobody has taken out of a parcel.
    Descriptors,
    /// Descriptors that came beyond the share above, until they are closed.
    Closing,
    /// Refused connections with something in their queue, until they are closed. Counted for all makers together.
    Refused,
    /// Descriptors that this process sent and the peer has not read. The kernel counts them against this process's user.
    Sent,
    /// Control messages that wait because the peer does not read its socket.
    Unsent,
    /// Regions of shared memory that peers made.
    Mappings,
    /// Their bytes.
    Bytes,
    /// Bytes of replies whose memory was not given back. The kernel counts it as this process's, who filled it first.
    Replies,
    /// Bytes of requests that were read. The kernel counts them as this process's where the peer had not filled them.
    Requests,
    /// Bytes of arguments of calls that were given up, until the peer has answered them.
    Arguments,
    /// Bytes that oneway calls take which were taken out of their ring and wait to be served.
    Oneway,
    /// Objects of this process that a peer may call; of an RPC session, the peer's that it has a number for, too.
    Exports,
    /// Introductions that a receiver has not taken up.
    Introductions,
    /// Threads that wait for a peer while another one stands in.
    Threads,
}

impl Resource {
    const COUNT: usize = 14;

    /// As an error names it.
    fn name(self) -> &'static str {
        match self {
            Resource::Descriptors => "descriptors",
            Resource::Closing => "descriptors that are not closed yet",
            Resource::Refused => "refused connections that are not closed yet",
            Resource::Sent => "descriptors that were sent to it and that it has not read",
            Resource::Unsent => "control messages that its socket does not take",
            Resource::Mappings => "shared regions",
            Resource::Bytes => "bytes of shared memory",
            Resource::Replies => "bytes of replies that it has not given up",
            Resource::Requests => "bytes of requests",
            Resource::Arguments => "bytes of arguments of calls that it has not answered",
            Resource::Oneway => "bytes of oneway calls that wait",
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
/// Bytes of replies, of requests, of arguments and of oneway calls that may be held however small the machine is, and however large.
const LEAST_FILLED: u64 = 256 << 20;
const MOST_FILLED: u64 = 1 << 30;
/// Descriptors that may wait to be closed however few there may be.
const LEAST_CLOSING: u64 = 16;
/// Of which three eighths may be held: they are counted as one process's.
const MOST_REFUSED: u64 = 64;
/// Threads beyond the pool's limit for those that wait for a peer.
pub(crate) const MOST_AWAY: usize = 256;
/// Control messages, of which each takes some hundred bytes.
const MOST_UNSENT: u64 = 1 << 18;
/// Objects that peers may call: with the object itself each takes some hundred bytes.
const MOST_EXPORTS: u64 = 1 << 18;
const MOST_INTRODUCTIONS: u64 = 1024;

impl Limits {
    /// By what the kernel lets this process have.
    fn current() -> Self {
        static MAPPINGS: LazyLock<u64> = LazyLock::new(|| {
            let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
            text.trim().parse().unwrap_or(65_530)
        });
        static MEMORY: LazyLock<u64> = LazyLock::new(|| {
            let memory = rustix::system::sysinfo();
            (memory.totalram as u64).saturating_mul(memory.mem_unit.into())
        });
        Limits::of(files(), *MAPPINGS, *MEMORY)
    }

    fn of(files: u64, mappings: u64, memory: u64) -> Self {
        let descriptors = files - (files / 8).max(64).min(files);
        let mut limits = [0; Resource::COUNT];
        limits[Resource::Descriptors as usize] = descriptors;
        limits[Resource::Closing as usize] = (descriptors / 8).max(LEAST_CLOSING);
        limits[Resource::Refused as usize] = MOST_REFUSED;
        // Half of what the kernel lets the user have in flight: another process of this user has peers, too.
        limits[Resource::Sent as usize] = files / 2;
        limits[Resource::Unsent as usize] = MOST_UNSENT;
        limits[Resource::Mappings as usize] = mappings.saturating_sub(OWN_MAPPINGS).max(mappings / 2);
        limits[Resource::Bytes as usize] = memory.saturating_mul(4).max(LEAST_BYTES);
        let filled = (memory / 16).clamp(LEAST_FILLED, MOST_FILLED);
        limits[Resource::Replies as usize] = filled;
        limits[Resource::Requests as usize] = filled;
        limits[Resource::Arguments as usize] = filled;
        limits[Resource::Oneway as usize] = filled;
        limits[Resource::Exports as usize] = MOST_EXPORTS;
        limits[Resource::Introductions as usize] = (descriptors / 4).min(MOST_INTRODUCTIONS);
        limits[Resource::Threads as usize] = MOST_AWAY as u64;
        Limits(limits)
    }
}

/// The limit of files, which the application may change: read again after some charges, and after a refusal.
static FILES: AtomicU64 = AtomicU64::new(0);
static CHARGES: AtomicU32 = AtomicU32::new(0);
const READ_AGAIN: u32 = 256;

fn files() -> u64 {
    let known = FILES.load(Ordering::Relaxed);
    let is_due = CHARGES.fetch_add(1, Ordering::Relaxed) % READ_AGAIN == 0;
    if known == 0 || is_due { read_files() } else { known }
}

fn read_files() -> u64 {
    let files = getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 20).min(1 << 20);
    FILES.store(files, Ordering::Relaxed);
    files
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
        let process = self.held_by(who);
        let of_user = limit.saturating_sub(self.all - user) / 2;
        of_user.saturating_sub(user - process) / 4 * 3
    }

    fn held_by(&self, who: CallingIdentity) -> u64 {
        self.by_process.get(&(who.uid, who.pid)).copied().unwrap_or(0)
    }

    fn charge(&mut self, limit: u64, who: CallingIdentity, amount: u64) -> Result<(), u64> {
        let held = self.held_by(who);
        if held.saturating_add(amount) > self.share(limit, who) {
            return Err(held);
        }
        self.add(who, amount);
        Ok(())
    }

    /// Whatever the share is.
    fn add(&mut self, who: CallingIdentity, amount: u64) {
        if amount > 0 {
            self.all += amount;
            *self.by_user.entry(who.uid).or_default() += amount;
            *self.by_process.entry((who.uid, who.pid)).or_default() += amount;
        }
    }

    /// Whether a process, or its user, has its share or more. Who holds nothing has not.
    fn is_full(&self, limit: u64, who: CallingIdentity) -> bool {
        let Some(user) = self.by_user.get(&who.uid) else { return false };
        let process = self.held_by(who);
        *user >= limit.saturating_sub(self.all - user) / 2 || process > 0 && process >= self.share(limit, who)
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
    pub(crate) fn who(&self) -> CallingIdentity {
        self.who
    }

    /// What it is an entry of.
    pub(crate) fn resource(&self) -> Resource {
        self.resource
    }

    /// Makes an entry of its own of a part.
    pub(crate) fn split(&mut self, amount: u64) -> Charge {
        let amount = amount.min(self.amount);
        self.amount -= amount;
        Charge { resource: self.resource, who: self.who, amount }
    }
}

/// Enters what a peer makes this process hold.
///
/// # Errors
/// If the peer has its share of it; counted in [`stats::REFUSED`].
pub(crate) fn charge(who: CallingIdentity, resource: Resource, amount: u64) -> Result<Charge> {
    charge_again(who, resource, amount, || ())
}

/// As [`charge`]; before it refuses it has `make_room` give back what is held no longer.
pub(crate) fn charge_again(
    who: CallingIdentity,
    resource: Resource,
    amount: u64,
    make_room: impl FnOnce(),
) -> Result<Charge> {
    let attempt = || {
        let limit = Limits::current().0[resource as usize];
        lock(&LEDGER)[resource as usize].charge(limit, who, amount)
    };
    let outcome = attempt().or_else(|_| {
        read_files();
        make_room();
        attempt()
    });
    match outcome {
        Ok(()) => Ok(Charge { resource, who, amount }),
        Err(held) => {
            stats::REFUSED.add();
            let who = who.told();
            Err(Error::PermissionDenied(format!(
                "process {} of user {} holds {held} {} here, which is its share",
                who.pid,
                who.uid,
                resource.name()
            )))
        }
    }
}

/// Entries of one each, as many of `count` as the peer's share leaves.
pub(crate) fn charge_each(who: CallingIdentity, resource: Resource, count: usize) -> Vec<Charge> {
    if count == 0 {
        return Vec::new();
    }
    let limit = Limits::current().0[resource as usize];
    let mut ledger = lock(&LEDGER);
    let column = &mut ledger[resource as usize];
    let left = column.share(limit, who).saturating_sub(column.held_by(who)).min(count as u64);
    let granted = column.charge(limit, who, left).map_or(0, |()| left);
    drop(ledger);
    if granted < count as u64 {
        stats::REFUSED.add();
    }
    (0..granted).map(|_| Charge { resource, who, amount: 1 }).collect()
}

/// Enters what came although nobody asked for it, one by one, also beyond the peer's share: what it sends then is
/// looked at no longer, as long as it [`is_full`].
pub(crate) fn charge_anyway(who: CallingIdentity, resource: Resource, count: usize) -> Vec<Charge> {
    let granted = charge_each(who, resource, count);
    let rest = count - granted.len();
    granted.into_iter().chain((0..rest).map(|_| enter(who, resource, 1))).collect()
}

/// Enters what is held already, whatever the share is.
pub(crate) fn enter(who: CallingIdentity, resource: Resource, amount: u64) -> Charge {
    lock(&LEDGER)[resource as usize].add(who, amount);
    Charge { resource, who, amount }
}

/// Memory that a peer has had filled, counted in steps as it grows.
#[derive(Debug)]
pub(crate) struct FilledMemory {
    resource: Resource,
    // What there is for nothing.
    free: u32,
    // Counted beyond that.
    bytes: AtomicU32,
    charges: Mutex<Vec<Charge>>,
}

impl FilledMemory {
    pub(crate) fn new(resource: Resource, free: u32) -> Self {
        FilledMemory { resource, free, bytes: AtomicU32::new(0), charges: Mutex::default() }
    }

    /// Whether so much needs no more than is counted.
    #[inline]
    pub(crate) fn covers(&self, len: u32) -> bool {
        len <= self.free + self.bytes.load(Ordering::Relaxed)
    }

    /// Counts as much as `len` needs; by one thread at a time. `make_room` runs if the peer's share is used up.
    #[cold]
    pub(crate) fn count(&self, peer: CallingIdentity, len: u32, make_room: impl FnOnce()) -> Result<()> {
        let step = (len.next_power_of_two() / 8).max(4096);
        let (needed, counted) = (len.next_multiple_of(step) - self.free, self.bytes.load(Ordering::Relaxed));
        let more = u64::from(needed.saturating_sub(counted));
        let charge = charge_again(peer, self.resource, more, make_room)?;
        lock(&self.charges).push(charge);
        self.bytes.store(needed, Ordering::Relaxed);
        Ok(())
    }

    /// The memory was given back.
    pub(crate) fn uncount(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        lock(&self.charges).clear();
    }

    /// Whether anything is counted.
    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > 0
    }
}

/// Who is counted for what all have together, and for what is of an unknown process.
pub(crate) const NOBODY: CallingIdentity = CallingIdentity { pid: 0, uid: u32::MAX, gid: u32::MAX };

/// After this there may be [`room_to_refuse`] again: refused connections are closed in a moment each.
pub(crate) const ROOM_AGAIN: Duration = Duration::from_millis(5);

/// For a connection that may have to be refused: before it is accepted, as it can only be closed where that may take
/// long, and counts until then.
pub(crate) fn room_to_refuse() -> Result<Charge> {
    charge(NOBODY, Resource::Refused, 1)
}

/// Whether a peer, or its user, holds its share of something, or more.
pub(crate) fn is_full(who: CallingIdentity, resource: Resource) -> bool {
    let limit = Limits::current().0[resource as usize];
    lock(&LEDGER)[resource as usize].is_full(limit, who)
}

/// What all peers together hold.
pub(crate) fn held() -> HeldResources {
    let ledger = lock(&LEDGER);
    let of = |resource: Resource| ledger[resource as usize].all;
    HeldResources {
        descriptors: of(Resource::Descriptors)
            + of(Resource::Closing)
            + of(Resource::Refused)
            + of(Resource::Sent),
        mappings: of(Resource::Mappings),
        bytes: of(Resource::Bytes)
            + of(Resource::Replies)
            + of(Resource::Requests)
            + of(Resource::Arguments)
            + of(Resource::Oneway),
        exports: of(Resource::Exports),
        introductions: of(Resource::Introductions),
        threads: of(Resource::Threads),
    }
}

/// What one peer holds of something.
#[cfg(test)]
pub(crate) fn held_by(who: CallingIdentity, resource: Resource) -> u64 {
    lock(&LEDGER)[resource as usize].held_by(who)
}

/// All that a peer may still hold of something.
#[cfg(test)]
pub(crate) fn use_up(who: CallingIdentity, resource: Resource) -> Vec<Charge> {
    let mut charges = Vec::new();
    for amount in (0..40).rev().map(|bit| 1 << bit) {
        while let Ok(charge) = charge(who, resource, amount) {
            charges.push(charge);
        }
    }
    charges
}

#[cfg(test)]
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
    fn what_comes_beyond_the_share_is_counted_and_makes_its_user_full_and_nobody_else() {
        let mut column = Column::default();
        assert!(!column.is_full(100, who(1, 1)), "who holds nothing");
        column.add(who(1, 1), 400);
        assert!(column.is_full(100, who(1, 1)) && column.is_full(100, who(1, 2)), "a fork is no way out");
        assert!(!column.is_full(100, who(2, 1)));
        column.release(who(1, 1), 390);
        assert!(!column.is_full(100, who(1, 1)) && !column.is_full(100, who(1, 2)));
        assert_eq!(fill(&mut column, 100, who(1, 1)), 26);
        assert!(column.is_full(100, who(1, 1)) && !column.is_full(100, who(1, 2)));
    }

    #[test]
    fn several_are_charged_as_far_as_the_share_goes() {
        let user = who(4712, 1);
        let all = charge_each(user, Resource::Threads, MOST_AWAY);
        let share = MOST_AWAY / 8 * 3;
        assert!(all.len() <= share && all.iter().all(|charge| charge.amount == 1), "{}", all.len());
        let made_room = charge_again(user, Resource::Threads, 2, || drop(all)).unwrap();
        let mut rest = made_room;
        let part = rest.split(1);
        drop(rest);
        assert_eq!(lock(&LEDGER)[Resource::Threads as usize].held_by(user), 1);
        drop(part);
        assert_eq!(lock(&LEDGER)[Resource::Threads as usize].held_by(user), 0);
    }

    #[test]
    fn a_refusal_says_what_it_is_about_and_is_counted() {
        let before = stats::REFUSED.get();
        let error = charge(who(4711, 1), Resource::Threads, MOST_AWAY as u64).unwrap_err().to_string();
        assert!(error.contains("user 4711") && error.contains("threads"), "{error}");
        assert!(stats::REFUSED.get() > before);
        let machine = CallingIdentity::of_machine(4711);
        let error = charge(machine, Resource::Threads, MOST_AWAY as u64).unwrap_err().to_string();
        assert!(error.contains("process 0 of user 65534"), "{error}");
        let held = charge(who(4711, 1), Resource::Exports, 100).unwrap();
        drop(held);
        assert!(!lock(&LEDGER)[Resource::Exports as usize].by_user.contains_key(&4711));
    }
}
