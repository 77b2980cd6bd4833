//! The names: who registered what, and who waits for it.
//!
//! Nothing that may wait for another process happens under the registry's lock: a process that
//! stands still delays those who ask for its own names only.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::code;
use super::policy::{Action, Policy};
use super::types::{DumpPriority, MAX_NAMES, ServiceInfo, ServiceOptions, check_interface, check_name};
use super::watching::in_turns;
use crate::death::DeathRegistration;
use crate::identity::CallingIdentity;
use crate::object::Binder;
use crate::{Error, ExceptionCode, Result, Status, pool};

/// Watches that all users together may have.
const MAX_WATCHES: usize = 1 << 16;

/// Names that are looked at while nobody else is served.
const AT_ONCE: usize = 256;

/// What one user may have of `all` while the others have so many: half of what they leave, so that the
/// next user finds some.
fn share(all: usize, of_others: usize) -> usize {
    all.saturating_sub(of_others) / 2
}
/// How long the holder of a name that somebody else wants has to answer that it lives.
const HOLDER_ANSWER: Duration = Duration::from_secs(1);

/// What becomes of a registration whose name a living process has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameConflict {
    Refuse,
    /// It takes the name until it ends; who had it gets it back then.
    Replace,
    /// It has the name when it is free: of a process that lost it before the manager was restarted.
    Wait,
}

impl NameConflict {
    pub(super) fn number(self) -> i32 {
        self as i32
    }

    /// From what came: [`NameConflict::Refuse`] for what this version does not know.
    pub(super) fn from_number(number: i32) -> Self {
        let known =
            [NameConflict::Replace, NameConflict::Wait].into_iter().find(|known| known.number() == number);
        known.unwrap_or(NameConflict::Refuse)
    }
}

/// A service as it is handed to the registry.
pub(super) struct Registration {
    pub(super) binder: Binder,
    pub(super) process: Option<Binder>,
    pub(super) interface: String,
    pub(super) options: ServiceOptions,
    pub(super) if_taken: NameConflict,
    /// Who is told that the name was lost, and that it came back.
    pub(super) listener: Option<Binder>,
}

struct Entry {
    service: Registration,
    owner: CallingIdentity,
    // Of all registrations ever: tells an old registration of a name from a new one.
    serial: u64,
    // Held so that the recipient stays in place; `None` for a moment, and for this process's own.
    death: Option<DeathRegistration>,
    // Services that have lost the name to this one; the last one is the next to have it.
    behind: Vec<Entry>,
}

/// Registrations that have ended. They are dropped without the registry's lock.
#[derive(Default)]
struct EndedRegistrations {
    _entries: Vec<Entry>,
    // The listener of who has the name again, if somebody has.
    heir: Option<Option<Binder>>,
}

struct Watcher {
    callback: Binder,
    who: CallingIdentity,
    id: u64,
    // Serial of the last registration that it was told of, or is about to be.
    told: u64,
    death: Option<DeathRegistration>,
}

#[derive(Default)]
struct NameWatchers {
    watchers: Vec<Watcher>,
    // The number of the one thread that tells them, or is on its way to: so the last thing they hear is the latest.
    teller: Option<u64>,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<String, Entry>,
    names_of: HashMap<u32, usize>,
    watched: HashMap<String, NameWatchers>,
    watches_of: HashMap<u32, usize>,
    serial: u64,
}

/// What was asked of the registry since it began.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) added: AtomicU64,
    pub(super) found: AtomicU64,
    pub(super) missed: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) died: AtomicU64,
    pub(super) told: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Tells who had a name that another process has it now, or that it has the name again.
fn tell_of_change(listener: &Binder, name: &str, holder: Option<CallingIdentity>) {
    // One that is dead, or does not keep up, finds out when it asks.
    drop(listener.transaction(code::NAME_CHANGED).oneway(|to| {
        to.write_string16(name)?;
        to.write(&holder.is_some())?;
        to.write(&holder.map_or(0, |who| who.pid))?;
        to.write(&holder.map_or(0, |who| who.uid))
    }));
}

/// All names of one manager.
#[derive(Default)]
pub(super) struct Registry {
    state: Mutex<State>,
    policy: Mutex<Arc<Policy>>,
    pub(super) counts: Counts,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn exception<T>(kind: ExceptionCode, text: String) -> Result<T> {
    Err(Error::Status(Status::new(kind, text)))
}

fn take_one(counts: &mut HashMap<u32, usize>, uid: u32) {
    if let Some(count) = counts.get_mut(&uid) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&uid);
        }
    }
}

impl State {
    /// Takes the present registration of a name out. The last living one that lost the name to it has it again.
    fn remove(&mut self, name: &str) -> Option<EndedRegistrations> {
        let mut entry = self.entries.remove(name)?;
        take_one(&mut self.names_of, entry.owner.uid);
        let mut behind = std::mem::take(&mut entry.behind);
        let mut ended = EndedRegistrations { _entries: vec![entry], heir: None };
        while let Some(next) = behind.pop() {
            if next.service.binder.is_alive() {
                ended.heir = Some(next.service.listener.clone());
                self.entries.insert(name.to_owned(), Entry { behind, ..next });
                break;
            }
            take_one(&mut self.names_of, next.owner.uid);
            ended._entries.push(next);
        }
        Some(ended)
    }

    /// [`State::remove`] of a present registration whose process is known to be dead.
    fn remove_dead(&mut self, name: &str) -> Option<EndedRegistrations> {
        let is_dead = self.entries.get(name).is_some_and(|entry| !entry.service.binder.is_alive());
        if is_dead { self.remove(name) } else { None }
    }

    /// Takes one of the registrations out that wait behind the present one of a name.
    fn remove_behind(&mut self, name: &str, which: impl Fn(&Entry) -> bool) -> Option<EndedRegistrations> {
        let behind = &mut self.entries.get_mut(name)?.behind;
        let at = behind.iter().position(which)?;
        let gone = behind.remove(at);
        take_one(&mut self.names_of, gone.owner.uid);
        Some(EndedRegistrations { _entries: vec![gone], heir: None })
    }

    /// Takes a registration out, wherever it stands.
    fn remove_serial(&mut self, name: &str, serial: u64) -> Option<EndedRegistrations> {
        match self.entries.get(name)?.serial == serial {
            true => self.remove(name),
            false => self.remove_behind(name, |entry| entry.serial == serial),
        }
    }

    fn entry_mut(&mut self, name: &str, serial: u64) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(name)?;
        if entry.serial == serial {
            return Some(entry);
        }
        entry.behind.iter_mut().find(|entry| entry.serial == serial)
    }

    fn remove_watcher(&mut self, name: &str, which: impl Fn(&Watcher) -> bool) -> Option<Watcher> {
        let watched = self.watched.get_mut(name)?;
        let at = watched.watchers.iter().position(which)?;
        let gone = watched.watchers.swap_remove(at);
        if watched.watchers.is_empty() {
            self.watched.remove(name);
        }
        take_one(&mut self.watches_of, gone.who.uid);
        Some(gone)
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}

impl Registry {
    pub(super) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&lock(&self.policy))
    }

    /// The new rules hold for what is asked and told from now on. Who waits for a name that the former ones hid from it, and
    /// these do not, is told.
    pub(super) fn set_policy(self: &Arc<Self>, policy: Policy) {
        *lock(&self.policy) = Arc::new(policy);
        let with_news: Vec<String> = {
            let State { entries, watched, .. } = &*self.state();
            let has_news = |(name, watched): &(&String, &NameWatchers)| {
                let present = entries.get(*name);
                present
                    .is_some_and(|entry| watched.watchers.iter().any(|watcher| watcher.told != entry.serial))
            };
            watched.iter().filter(has_news).map(|(name, _)| name.clone()).collect()
        };
        for name in with_news {
            self.tell(&name);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// An error unless `who` may do this.
    fn require(&self, who: CallingIdentity, action: Action, name: &str) -> Result<()> {
        if self.policy().allows(who, action, name) {
            return Ok(());
        }
        count(&self.counts.refused);
        exception(
            ExceptionCode::Security,
            format!("the policy does not let user {} (group {}) {action} {name:?}", who.uid, who.gid),
        )
    }

    /// Registers a name, until its process ends. Gives who has the name where it is refused.
    pub(super) fn add(
        self: &Arc<Self>,
        who: CallingIdentity,
        name: &str,
        new: Registration,
    ) -> Result<Option<CallingIdentity>> {
        check_name(name)?;
        check_interface(&new.interface)?;
        self.require(who, Action::Add, name)?;
        if new.binder.is_local() {
            // Its end is that of the manager: somebody else's name would stay.
            new.binder.check_owner(who)?;
        }
        if new.if_taken == NameConflict::Refuse {
            self.notice_death(name, &new.binder);
        }
        let may_replace = self.policy().allows(who, Action::Replace, name);
        let limit = self.policy().names_per_user;
        let (binder, if_taken) = (new.binder.clone(), new.if_taken);
        let mut state = self.state();
        let dead = state.remove_dead(name);
        let holder = state.entries.get(name).map(|old| (old.owner, old.service.binder == binder));
        match holder {
            Some((owner, _)) if owner.uid != who.uid && !may_replace => {
                drop(state);
                self.ended(name, dead);
                count(&self.counts.refused);
                let text = format!("{name:?} is registered by a process of user {}", owner.uid);
                return exception(ExceptionCode::Security, text);
            }
            Some((owner, false)) if if_taken == NameConflict::Refuse => {
                drop(state);
                self.ended(name, dead);
                count(&self.counts.refused);
                return Ok(Some(owner));
            }
            _ => {}
        }
        // One object has a name once.
        let before = state.remove_behind(name, |entry| entry.service.binder == binder);
        let held = state.names_of.get(&who.uid).copied().unwrap_or(0);
        let in_all: usize = state.names_of.values().sum();
        let limit = limit.min(share(MAX_NAMES, in_all - held));
        let replaces =
            holder.is_some_and(|(owner, _)| owner.uid == who.uid) && if_taken != NameConflict::Wait;
        if !replaces && (in_all >= MAX_NAMES || held >= limit) {
            drop((state, before));
            self.ended(name, dead);
            return exception(
                ExceptionCode::IllegalState,
                format!("no room for {name:?}: user {} has registered {held} names of {limit}", who.uid),
            );
        }
        let serial = state.next_serial();
        *state.names_of.entry(who.uid).or_default() += 1;
        let mut new = Entry { service: new, owner: who, serial, death: None, behind: Vec::new() };
        let (mut loser, mut gone) = (None, None);
        match state.entries.remove(name) {
            Some(mut old) if if_taken == NameConflict::Wait && old.service.binder != binder => {
                old.behind.insert(0, new);
                state.entries.insert(name.to_owned(), old);
            }
            old => {
                if let Some(mut old) = old {
                    new.behind = std::mem::take(&mut old.behind);
                    // What a process replaces itself is no loss, and does not come back.
                    let is_own = old.owner == who && old.service.listener == new.service.listener;
                    let is_loss = !is_own && old.service.binder != binder;
                    if is_loss {
                        loser = old.service.listener.clone();
                    }
                    // Nor does what its user has no room for.
                    if is_loss && (old.owner.uid != who.uid || held < limit) {
                        new.behind.push(old);
                    } else {
                        take_one(&mut state.names_of, old.owner.uid);
                        gone = Some(old);
                    }
                }
                state.entries.insert(name.to_owned(), new);
            }
        }
        drop(state);
        drop((before, gone));
        // Who had it before is told after whoever it came from.
        self.ended(name, dead);
        if let Some(loser) = loser {
            tell_of_change(&loser, name, Some(who));
        }
        count(&self.counts.added);
        self.hear_of_death(&binder, name, serial)?;
        self.tell(name);
        Ok(None)
    }

    /// Before a name is refused: the news that its holder is dead may come later than the next who wants it, from the
    /// driver, or from a process that ends its runtime and starts another. So the holder is asked. One that stands
    /// still delays those who want its name, and has it.
    fn notice_death(self: &Arc<Self>, name: &str, wanted_for: &Binder) {
        let holder = self.state().entries.get(name).map(|entry| (entry.serial, entry.service.binder.clone()));
        let Some((serial, holder)) = holder else { return };
        if holder.is_local() || holder == *wanted_for {
            return;
        }
        if matches!(holder.ping_within(HOLDER_ANSWER), Err(Error::Dead)) {
            self.died(name, serial);
        }
    }

    /// Registrations of a name have ended: who has it again is told, and those who wait for it are.
    fn ended(self: &Arc<Self>, name: &str, ended: Option<EndedRegistrations>) {
        let Some(EndedRegistrations { _entries, heir: Some(listener) }) = ended else { return };
        drop(_entries);
        if let Some(listener) = listener {
            tell_of_change(&listener, name, None);
        }
        self.tell(name);
    }

    /// After the entry is in its place, so that a process which is dead already finds it.
    fn hear_of_death(self: &Arc<Self>, binder: &Binder, name: &str, serial: u64) -> Result<()> {
        if binder.is_local() {
            return Ok(());
        }
        let (registry, dead) = (Arc::downgrade(self), name.to_owned());
        let linked = binder.link_to_death(move || {
            if let Some(registry) = registry.upgrade() {
                registry.died(&dead, serial);
            }
        });
        let mut state = self.state();
        let entry = state.entry_mut(name, serial);
        match (linked, entry) {
            (Ok(death), Some(entry)) => entry.death = Some(death),
            (Ok(death), None) => {
                drop(state);
                drop(death);
            }
            (Err(error), _) => {
                // A service whose end would go unnoticed is not kept.
                let gone = state.remove_serial(name, serial);
                drop(state);
                self.ended(name, gone);
                return Err(error);
            }
        }
        Ok(())
    }

    fn died(self: &Arc<Self>, name: &str, serial: u64) {
        let gone = self.state().remove_serial(name, serial);
        if gone.is_some() {
            count(&self.counts.died);
            self.ended(name, gone);
        }
    }

    /// Takes a registration back.
    pub(super) fn remove(self: &Arc<Self>, who: CallingIdentity, name: &str, binder: &Binder) -> Result<()> {
        check_name(name)?;
        self.require(who, Action::Add, name)?;
        let mut state = self.state();
        let is_its = |entry: &Entry| entry.service.binder == *binder && entry.owner.uid == who.uid;
        let (gone, owner) = match state.entries.get(name) {
            Some(entry) if is_its(entry) => (state.remove(name), None),
            Some(entry) => {
                let owner = entry.owner.uid;
                (state.remove_behind(name, is_its), Some(owner))
            }
            None => (None, None),
        };
        drop(state);
        match (gone, owner) {
            (gone @ Some(_), _) => {
                self.ended(name, gone);
                Ok(())
            }
            (None, Some(owner)) if owner != who.uid => exception(
                ExceptionCode::Security,
                format!("{name:?} is registered by a process of user {owner}"),
            ),
            _ => {
                exception(ExceptionCode::IllegalState, format!("{name:?} is not registered with this object"))
            }
        }
    }

    /// The object of a name, if there is one whose process lives.
    pub(super) fn find(&self, who: CallingIdentity, name: &str) -> Result<Option<Binder>> {
        self.look_up(who, name, |entry| Some(entry.service.binder.clone()))
    }

    /// The object of the process that registered a name, if it gave one.
    pub(super) fn process_of(&self, who: CallingIdentity, name: &str) -> Result<Option<Binder>> {
        self.look_up(who, name, |entry| entry.service.process.clone())
    }

    fn look_up(
        &self,
        who: CallingIdentity,
        name: &str,
        pick: impl FnOnce(&Entry) -> Option<Binder>,
    ) -> Result<Option<Binder>> {
        self.require(who, Action::Find, name)?;
        let found = self
            .state()
            .entries
            .get(name)
            // The recipient of its death may not have run yet.
            .filter(|entry| entry.service.binder.is_alive())
            .and_then(pick);
        count(if found.is_some() { &self.counts.found } else { &self.counts.missed });
        Ok(found)
    }

    /// Up to `limit` services behind the name `after` that `who` may find, in the order of names.
    /// The second result is the last of them, if there may be more.
    pub(super) fn list(
        &self,
        who: CallingIdentity,
        after: &str,
        limit: usize,
        priority: DumpPriority,
    ) -> (Vec<ServiceInfo>, Option<String>) {
        let policy = self.policy();
        let (mut page, mut after) = (Vec::new(), Some(after.to_owned()));
        while let Some(last) = after {
            let some;
            (some, after) = self.some_behind(&last, priority);
            for info in some {
                if policy.allows(who, Action::Find, &info.name) {
                    if page.len() == limit {
                        let last = page.last().map(|info: &ServiceInfo| info.name.clone());
                        return (page, last);
                    }
                    page.push(info);
                }
            }
        }
        (page, None)
    }

    /// Services behind the name `after`, and how far it looked; `None` at the end. It looks at some names only: meanwhile
    /// nobody else is served.
    fn some_behind(&self, after: &str, priority: DumpPriority) -> (Vec<ServiceInfo>, Option<String>) {
        let state = self.state();
        let (mut some, mut last) = (Vec::new(), None);
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        for (name, Entry { service, owner, .. }) in state.entries.range::<str, _>(behind).take(AT_ONCE) {
            last = Some(name);
            if service.options.dump_priority.intersects(priority) && service.binder.is_alive() {
                some.push(ServiceInfo {
                    name: name.clone(),
                    interface: service.interface.clone(),
                    pid: owner.pid,
                    uid: Some(owner.uid),
                    context: service.options.context,
                    dump_priority: service.options.dump_priority,
                });
            }
        }
        (some, last.cloned())
    }

    // ---- hearing of registrations --------------------------------------------------------

    /// Has `callback` told of every registration of a name, the present one included.
    pub(super) fn watch(self: &Arc<Self>, who: CallingIdentity, name: &str, callback: Binder) -> Result<()> {
        check_name(name)?;
        self.require(who, Action::Find, name)?;
        callback.check_owner(who)?;
        let limit = self.policy().watches_per_user;
        let mut state = self.state();
        let already =
            state.watched.get(name).is_some_and(|w| w.watchers.iter().any(|w| w.callback == callback));
        if already {
            return Ok(());
        }
        let held = state.watches_of.get(&who.uid).copied().unwrap_or(0);
        let limit = limit.min(share(MAX_WATCHES, state.watches_of.values().sum::<usize>() - held));
        if held >= limit {
            drop(state);
            return exception(
                ExceptionCode::IllegalState,
                format!("processes of user {} wait for {held} names, which is the limit", who.uid),
            );
        }
        let id = state.next_serial();
        *state.watches_of.entry(who.uid).or_default() += 1;
        let watcher = Watcher { callback: callback.clone(), who, id, told: 0, death: None };
        state.watched.entry(name.to_owned()).or_default().watchers.push(watcher);
        drop(state);
        if !callback.is_local() {
            let (registry, watched) = (Arc::downgrade(self), name.to_owned());
            let forget = move || {
                if let Some(registry) = registry.upgrade() {
                    let gone = registry.state().remove_watcher(&watched, |watcher| watcher.id == id);
                    drop(gone);
                }
            };
            // A watcher whose end would go unnoticed is not kept.
            let death = callback.link_to_death(forget.clone()).inspect_err(|_| forget())?;
            let mut state = self.state();
            let watchers = state.watched.get_mut(name).map(|watched| watched.watchers.iter_mut());
            match watchers.and_then(|mut watchers| watchers.find(|watcher| watcher.id == id)) {
                Some(watcher) => watcher.death = Some(death),
                None => {
                    drop(state);
                    drop(death);
                }
            }
        }
        self.tell(name);
        Ok(())
    }

    /// Takes a watch back.
    pub(super) fn unwatch(&self, name: &str, callback: &Binder) -> Result<()> {
        let gone = self.state().remove_watcher(name, |watcher| watcher.callback == *callback);
        if gone.is_none() {
            return exception(ExceptionCode::IllegalState, format!("this object does not wait for {name:?}"));
        }
        Ok(())
    }

    /// Tells those who wait for a name, may find it and have not heard of its present registration, on a thread of the
    /// pool. To each of them its owner has to be introduced, who may not answer: whoever registers the name, or waits for
    /// it, waits for that neither.
    fn tell(self: &Arc<Self>, name: &str) {
        let mut state = self.state();
        let number = state.next_serial();
        let Some(watched) = state.watched.get_mut(name) else { return };
        // Else that thread looks again before it goes.
        if watched.teller.is_none() {
            watched.teller = Some(number);
            drop(state);
            let (registry, name) = (Arc::clone(self), name.to_owned());
            pool::run(Box::new(move || while registry.tell_some(&name, number) {}));
        }
    }

    /// Tells them, until another registration has the name. False if there was nobody to be told.
    fn tell_some(&self, name: &str, number: u64) -> bool {
        let may_find = |who| self.policy().allows(who, Action::Find, name);
        let (binder, serial, to_tell) = {
            let mut state = self.state();
            let State { entries, watched, .. } = &mut *state;
            let is_its = |watched: &&mut NameWatchers| watched.teller == Some(number);
            let Some(watched) = watched.get_mut(name).filter(is_its) else { return false };
            let present = entries.get(name).map(|entry| (entry.service.binder.clone(), entry.serial));
            let Some((binder, serial)) = present else {
                watched.teller = None;
                return false;
            };
            let news =
                watched.watchers.iter_mut().filter(|watcher| watcher.told != serial && may_find(watcher.who));
            let to_tell = in_turns(news.map(|watcher| {
                watcher.told = serial;
                (watcher.who.uid, (watcher.who, watcher.id, watcher.callback.clone()))
            }));
            if to_tell.is_empty() {
                watched.teller = None;
                return false;
            }
            (binder, serial, to_tell)
        };
        let is_present = || self.state().entries.get(name).is_some_and(|entry| entry.serial == serial);
        for (who, id, callback) in to_tell.iter().take_while(|_| is_present()) {
            // Those before it may have taken long.
            if !may_find(*who) {
                self.is_untold(name, *id);
                continue;
            }
            count(&self.counts.told);
            // One that is dead hears no more, and one that does not keep up asks by itself.
            drop(callback.transaction(code::ON_REGISTRATION).oneway(|to| {
                to.write_string16(name)?;
                to.write_binder(Some(&binder))
            }));
        }
        true
    }

    /// A watcher is told when a policy lets it find the name.
    fn is_untold(&self, name: &str, id: u64) {
        let mut state = self.state();
        let watchers = state.watched.get_mut(name).into_iter().flat_map(|watched| &mut watched.watchers);
        watchers.filter(|watcher| watcher.id == id).for_each(|watcher| watcher.told = 0);
    }

    /// Names, watches, and users with either.
    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        let state = self.state();
        let users: std::collections::HashSet<_> =
            state.names_of.keys().chain(state.watches_of.keys()).collect();
        (state.entries.len(), state.watches_of.values().sum(), users.len())
    }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
