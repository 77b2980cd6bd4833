//! Decides for every process, places it, and puts everything back at the end.

use super::decide::{Decider, Subject};
use super::events::SystemEvent;
use super::file::{Policy, Problems};
use super::listen::Sources;
use super::log::{Event, Log, StopReport, printable};
use super::request::Request;
use super::rule::Rule;
use super::socket::Server;
use super::state::{Observer, Process, SystemState};
use super::text::matches;
use crate::error::{Error, Result};
use handoff_placement::AppliedPlacement;
use handoff_placement::Error as PlacementError;
use handoff_placement::Root;
use handoff_placement::Tid;
use handoff_placement::Topology;
use handoff_placement::notice;
use handoff_placement::process::{ProcessKey, Scope, Status, processes, threads_of};
use handoff_placement::{ControlGroup, Limits, enter_group};
use handoff_placement::{Journal, POLICY_GROUP};
use handoff_placement::{RestoreOutcome, Snapshot};
use rustix::fd::BorrowedFd;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How a policy is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the socket and the journal are: see [`notice::default_folder`].
    pub folder: PathBuf,
    /// How often to look around where the kernel does not tell of births.
    pub look_around: Duration,
    /// How often to read temperatures, and to see whether pins were lost.
    pub verify: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            folder: notice::default_folder(),
            look_around: Duration::from_secs(2),
            verify: Duration::from_secs(10),
        }
    }
}

struct PlacedProcess {
    /// The rule of the process and those of its threads, as they were applied.
    rules: Rules,
    applied: Vec<AppliedPlacement>,
    comm: String,
    /// Pins that were found lost so far.
    lost: usize,
    /// Those that could not be applied again at the last look.
    unrepaired: Vec<String>,
    /// The CPUs changed since: what `big` means may have, too.
    stale: bool,
}

/// The rule of a process and of each of its threads that has one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rules {
    process: Option<usize>,
    threads: BTreeMap<Tid, usize>,
}

impl Rules {
    fn is_empty(&self) -> bool {
        self.process.is_none() && self.threads.is_empty()
    }
}

/// A policy that is in force.
pub struct Daemon<'a> {
    policy: Policy,
    machine: Topology,
    options: Options,
    journal: Journal,
    decider: Decider,
    observer: Observer,
    state: SystemState,
    before: BTreeMap<ProcessKey, Snapshot>,
    placed: BTreeMap<ProcessKey, PlacedProcess>,
    refused: BTreeMap<ProcessKey, Rules>,
    timers: BTreeMap<ProcessKey, Instant>,
    groups: BTreeMap<String, ControlGroup>,
    log: Log<'a>,
}

impl<'a> Daemon<'a> {
    /// Checks the policy against this machine, puts back what a killed one left, and makes the groups
    /// that the profiles need. Nothing is placed yet.
    ///
    /// # Errors
    ///
    /// [`Error::Policy`] if the machine cannot give what the profiles ask; [`PlacementError::Journal`] if another
    /// policy is running; [`PlacementError::Cgroup`]. Nothing is left behind then.
    pub fn new(policy: Policy, options: Options, log: impl FnMut(Event) + 'a) -> Result<Self> {
        let machine = Topology::read()?;
        let problems = policy.check_on(&machine);
        if !problems.is_empty() {
            return Err(Error::Policy(Problems(problems)));
        }
        let mut journal = Journal::open(&options.folder)?;
        let mut log = Log::new(log);
        let recovered = journal.recover()?;
        if !recovered.is_empty() {
            log.tell(Event::Recovered(recovered));
        }
        let mut daemon = Self {
            policy,
            machine,
            options,
            journal,
            decider: Decider::default(),
            observer: Observer::default(),
            state: SystemState::default(),
            before: BTreeMap::new(),
            placed: BTreeMap::new(),
            refused: BTreeMap::new(),
            timers: BTreeMap::new(),
            groups: BTreeMap::new(),
            log,
        };
        daemon.make_groups()?;
        daemon.state.read_sensors(&Root::host());
        Ok(daemon)
    }

    /// The policy that is in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    fn make_groups(&mut self) -> handoff_placement::Result<()> {
        let used: BTreeSet<&String> = self.policy.rules.iter().map(|rule| &rule.profile).collect();
        for name in used {
            let profile = &self.policy.profiles[name];
            if !profile.has_group() {
                continue;
            }
            let cpus = profile.group_cpus.as_ref().map(|cpus| cpus.resolve(&self.machine)).transpose()?;
            let limits = Limits { cpus, ..profile.limits.clone() };
            let safe: String =
                name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            let name_of_group = format!("{POLICY_GROUP}{}-{safe}", std::process::id());
            let group = self.journal.make_group(&name_of_group, &limits)?;
            self.groups.insert(name.clone(), group);
        }
        Ok(())
    }

    /// Looks at every process once; says how many are placed.
    pub fn look_at_all(&mut self) -> usize {
        self.state.forget_ended();
        let now = Instant::now();
        for pid in processes() {
            self.look_at(pid, now);
        }
        self.tidy();
        self.placed.len()
    }

    fn tidy(&mut self) {
        self.placed.retain(|key, _| key.is_alive());
        self.before.retain(|key, _| key.is_alive());
        self.refused.retain(|key, _| key.is_alive());
        self.timers.retain(|key, _| key.is_alive());
        self.observer.forget_ended();
        self.decider.forget_ended();
        self.state.forget_ended();
    }

    fn look_at(&mut self, pid: Tid, now: Instant) {
        if pid.as_raw() as u32 == std::process::id() {
            return;
        }
        if !self.may_concern(pid) {
            return;
        }
        let Some(process) = self.observer.look(pid, &self.state, now) else { return };
        let (wanted, reason, again) = self.wanted(&process, now);
        match again {
            Some(again) => drop(self.timers.insert(process.key, again)),
            None => drop(self.timers.remove(&process.key)),
        }
        let placed = self.placed.get(&process.key);
        let is_stale = placed.is_some_and(|placed| placed.stale);
        let has = placed.map(|placed| placed.rules.clone()).unwrap_or_default();
        // What was refused is not tried again until something else is wanted.
        if (wanted == has && !is_stale) || self.refused.get(&process.key) == Some(&wanted) {
            return;
        }
        match self.place(&process, &wanted) {
            Ok(()) => {
                self.refused.remove(&process.key);
                let profiles = self.profiles(&wanted);
                self.log.tell(Event::Placed {
                    pid: pid.as_raw(),
                    comm: printable(&process.comm),
                    profiles,
                    reason,
                });
            }
            // It ended meanwhile.
            Err(PlacementError::NoSuchThread(_)) => {}
            Err(error) => {
                self.refused.insert(process.key, wanted);
                let reason = format!("{reason}, but {error}");
                self.log.tell(Event::Refused { pid: pid.as_raw(), comm: printable(&process.comm), reason });
            }
        }
    }

    /// A first look that costs one file: on a busy machine most births are nobody's that a rule names.
    fn may_concern(&self, pid: Tid) -> bool {
        let Ok(status) = Status::of(pid) else { return false };
        let named =
            |rule: &Rule| rule.matches.comm.as_ref().is_none_or(|pattern| matches(pattern, &status.comm));
        self.policy.rules.iter().any(named)
            || self.placed.contains_key(&ProcessKey { pid, start: status.start })
    }

    /// The rules that a process and its threads should have.
    fn wanted(&mut self, process: &Process, now: Instant) -> (Rules, String, Option<Instant>) {
        let whole = self.decider.decide(&self.policy, Subject::whole(process), &self.state, now);
        let mut rules = Rules { process: whole.rule, threads: BTreeMap::new() };
        let (mut reason, mut again) = (whole.reason, whole.again);
        let is_for_threads =
            |rule: &Rule| rule.matches.thread.is_some() && rule.matches.check(process).is_ok();
        if self.policy.rules.iter().any(is_for_threads) {
            for tid in threads_of(process.key.pid).unwrap_or_default() {
                let path = format!("/proc/{}/task/{tid}/comm", process.key.pid);
                let Ok(name) = std::fs::read_to_string(path) else { continue };
                let subject = Subject { process, thread: Some((tid, name.trim_end_matches('\n'))) };
                let decision = self.decider.decide(&self.policy, subject, &self.state, now);
                if let Some(rule) = decision.rule {
                    reason = format!("{reason}; thread {tid}: {}", decision.reason);
                    rules.threads.insert(tid, rule);
                }
                again = match (again, decision.again) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
        }
        (rules, reason, again)
    }

    fn profiles(&self, rules: &Rules) -> Vec<String> {
        let all = rules.process.iter().chain(rules.threads.values());
        all.map(|&index| self.policy.rules[index].profile.clone())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// From what it had at first to what it should have; back to that if it cannot be had.
    fn place(&mut self, process: &Process, wanted: &Rules) -> handoff_placement::Result<()> {
        let key = process.key;
        let lost = self.placed.remove(&key).map_or(0, |placed| placed.lost);
        if let Some(before) = self.before.get(&key) {
            before.restore();
        } else if !wanted.is_empty() {
            let before = Snapshot::take(key.pid)?;
            self.journal.before(&before)?;
            self.before.insert(key, before);
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let mut applied = Vec::new();
        match self.apply(key, wanted, &mut applied) {
            Ok(()) => {
                let comm = process.comm.clone();
                let rules = wanted.clone();
                let placed =
                    PlacedProcess { rules, applied, comm, lost, unrepaired: Vec::new(), stale: false };
                self.placed.insert(key, placed);
                Ok(())
            }
            Err(error) => {
                if let Some(before) = self.before.get(&key) {
                    before.restore();
                }
                Err(error)
            }
        }
    }

    fn apply(
        &self,
        key: ProcessKey,
        wanted: &Rules,
        applied: &mut Vec<AppliedPlacement>,
    ) -> handoff_placement::Result<()> {
        if let Some(index) = wanted.process {
            let name = &self.policy.rules[index].profile;
            let profile = &self.policy.profiles[name];
            if let Some(group) = self.groups.get(name) {
                group.take(key.pid)?;
            }
            profile.join.iter().try_for_each(|folder| enter_group(folder, key.pid))?;
            applied.push(profile.placement.apply(Scope::Process, key.pid, &self.machine)?);
        }
        for (&tid, &index) in &wanted.threads {
            let profile = &self.policy.profiles[&self.policy.rules[index].profile];
            match profile.placement.apply(Scope::Thread, tid, &self.machine) {
                Ok(done) => applied.push(done),
                // The thread ended; the next look leaves it out.
                Err(PlacementError::NoSuchThread(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn verify(&mut self) {
        for (key, placed) in &mut self.placed {
            let (mut lost, mut refusal) = (Vec::new(), None);
            for pin in placed.applied.iter_mut().filter_map(AppliedPlacement::pin_mut) {
                let found = pin.lost().unwrap_or_default();
                if !found.is_empty() {
                    lost.extend(found.iter().map(ToString::to_string));
                    refusal = pin.reapply().err().or(refusal);
                }
            }
            let pid = key.pid.as_raw();
            match refusal {
                // It ended meanwhile.
                Some(PlacementError::NoSuchThread(_)) => {}
                Some(error) if placed.unrepaired != lost => {
                    placed.lost += lost.len();
                    placed.unrepaired.clone_from(&lost);
                    self.log.tell(Event::Lost { pid, lost, reason: error.to_string() });
                }
                Some(_) => {}
                None => {
                    if !lost.is_empty() {
                        // Those that were counted when they could not be applied again count once.
                        placed.lost += if placed.unrepaired.is_empty() { lost.len() } else { 0 };
                        self.log.tell(Event::Repaired { pid, lost });
                    }
                    placed.unrepaired.clear();
                }
            }
        }
    }

    /// Runs until `stop` can be read: places processes as they come, change and go.
    ///
    /// # Errors
    ///
    /// If the socket cannot be made, or waiting fails. What was placed is put back in any case when the
    /// daemon is dropped or [`Daemon::finish`]ed.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> Result<()> {
        let path = notice::socket(&self.options.folder);
        let fail = |what: &str, source| PlacementError::Journal {
            path: path.clone(),
            what: what.to_owned(),
            source,
        };
        let server = Server::listen(path.clone()).map_err(|e| fail("cannot be listened on", e))?;
        let needs_pressure = self.policy.rules.iter().any(|rule| rule.when.cpu_pressure.is_some());
        let sources = Sources::open(needs_pressure, |event| self.log.tell(event));
        self.look_at_all();
        let mut next_verify = Instant::now() + self.options.verify;
        let mut next_look = (!sources.hear_of_births()).then(|| Instant::now() + self.options.look_around);
        loop {
            let wake = self.next_wake(next_verify, next_look);
            let ready = sources.wait(stop, &server, wake).map_err(|e| fail("cannot be waited on", e))?;
            if ready.stop {
                self.log.tell_what_was_left_out(None);
                return Ok(());
            }
            for asked in server.requests() {
                self.log.speaks_for(Some(asked.uid));
                let said = asked.check_process().and_then(|()| self.obey(&asked.request));
                asked.answer(said);
            }
            self.log.speaks_for(None);
            self.react(&sources.read(&ready));
            let now = Instant::now();
            self.log.tell_what_was_left_out(Some(now));
            let due: Vec<Tid> =
                self.timers.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.pid).collect();
            due.into_iter().for_each(|pid| self.look_at(pid, now));
            if next_look.is_some_and(|at| at <= now) {
                self.look_at_all();
                next_look = Some(Instant::now() + self.options.look_around);
            }
            if next_verify <= now {
                self.verify();
                if self.uses_sensors() {
                    self.sense();
                }
                self.tidy();
                next_verify = Instant::now() + self.options.verify;
            }
        }
    }

    fn uses_sensors(&self) -> bool {
        self.policy.rules.iter().any(|rule| rule.when.needs_sensors())
    }

    fn next_wake(&self, verify: Instant, look: Option<Instant>) -> Option<Instant> {
        // With nothing placed and no sensor to read there is nothing to verify.
        let verify = (!self.placed.is_empty() || self.uses_sensors()).then_some(verify);
        let timer = self.timers.values().min().copied();
        [verify, look, timer, self.log.due()].into_iter().flatten().min()
    }

    fn react(&mut self, happened: &[SystemEvent]) {
        let now = Instant::now();
        let minds_threads = self.policy.rules.iter().any(|rule| rule.matches.thread.is_some());
        let concerned = |what: &SystemEvent| match *what {
            SystemEvent::Changed { process, is_thread } => (minds_threads || !is_thread).then_some(process),
            _ => None,
        };
        let changed: BTreeSet<Tid> = happened.iter().filter_map(concerned).collect();
        for pid in changed {
            self.look_at(pid, now);
        }
        if happened.contains(&SystemEvent::Cpus) && self.machine.refresh(&Root::host()).unwrap_or(false) {
            self.replace_all();
        }
        if happened.contains(&SystemEvent::Power) {
            self.sense();
        }
        if happened.contains(&SystemEvent::Missed) {
            self.look_at_all();
        }
    }

    /// Reads the sensors, and decides again if one of them moved.
    fn sense(&mut self) {
        let before = self.state.clone();
        self.state.read_sensors(&Root::host());
        if self.state != before {
            self.look_at_all();
        }
    }

    /// The CPUs changed: what is placed is placed anew, and what was refused is tried again.
    fn replace_all(&mut self) {
        self.refused.clear();
        self.placed.values_mut().for_each(|placed| placed.stale = true);
        self.look_at_all();
    }

    /// Notes that a process offers a service under this name, for rules that match services. Nothing is
    /// placed before the next look.
    pub fn note_service(&mut self, pid: Tid, name: &str) -> std::result::Result<(), String> {
        let key = ProcessKey::of(pid).map_err(|error| error.to_string())?;
        let names = self.state.services.entry(key).or_default();
        if names.len() >= 64 {
            return Err("a process may have 64 service names".to_owned());
        }
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
        self.log.tell(Event::Announced { pid: pid.as_raw(), what: format!("offers `{}`", printable(name)) });
        Ok(())
    }

    fn obey(&mut self, request: &Request) -> std::result::Result<String, String> {
        let gone = |error: PlacementError| error.to_string();
        match request {
            &Request::Foreground { pid, on } => {
                let key = ProcessKey::of(pid).map_err(gone)?;
                if on {
                    self.state.foreground.insert(key)
                } else {
                    self.state.foreground.remove(&key)
                };
                let what = if on { "in the foreground" } else { "not in the foreground" }.to_owned();
                self.log.tell(Event::Announced { pid: pid.as_raw(), what });
                self.look_at(pid, Instant::now());
                let placed = self.placed.get(&key).map(|placed| self.profiles(&placed.rules).join(", "));
                Ok(placed.map_or_else(|| "no profile".to_owned(), |profiles| format!("profile {profiles}")))
            }
            Request::Service { pid, name } => {
                self.note_service(*pid, name)?;
                self.look_at(*pid, Instant::now());
                Ok("noted".to_owned())
            }
            &Request::Process { pid } => Ok(self.row(&ProcessKey::of(pid).map_err(gone)?).to_string()),
            Request::Status => {
                let rows = self.placed.keys().map(|key| self.row(key));
                Ok(serde_json::Value::from(rows.collect::<Vec<_>>()).to_string())
            }
        }
    }

    /// What is known of a process: what it was given, and what was said of it.
    fn row(&self, key: &ProcessKey) -> serde_json::Value {
        let placed = self.placed.get(key);
        serde_json::json!({
            "pid": key.pid.as_raw(),
            "comm": placed.map_or_else(String::new, |placed| printable(&placed.comm)),
            "profiles": placed.map(|placed| self.profiles(&placed.rules)).unwrap_or_default(),
            "lost_pins": placed.map_or(0, |placed| placed.lost),
            "foreground": self.state.foreground.contains(key),
            "services": self.state.services.get(key).map_or(&[][..], Vec::as_slice),
        })
    }

    /// Gives every process back what it had, and removes the groups.
    pub fn finish(mut self) -> Result<StopReport> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<StopReport> {
        let mut stopped = StopReport::default();
        for (_, snapshot) in std::mem::take(&mut self.before) {
            match snapshot.restore() {
                RestoreOutcome::Whole => stopped.restored += 1,
                RestoreOutcome::Partly { .. } => stopped.partly += 1,
                RestoreOutcome::Gone => {}
            }
        }
        self.placed.clear();
        self.groups.clear();
        self.journal.empty()?;
        Ok(stopped)
    }

    /// Leaves everything placed; the journal keeps what [`Journal::recover`] needs.
    pub fn leave(mut self) -> Result<usize> {
        if let Some((key, _)) = self.refused.iter().next() {
            let comm = Status::of(key.pid).map(|status| printable(&status.comm)).unwrap_or_default();
            let problem = super::Problem {
                line: self.refused[key].process.map_or(1, |index| self.policy.rules[index].line),
                message: format!("process {} ({comm}) could not be placed, so nothing was", key.pid),
                help: None,
            };
            return Err(Error::Policy(Problems(vec![problem])));
        }
        let count = self.placed.len();
        self.before.clear();
        std::mem::take(&mut self.groups).into_values().for_each(ControlGroup::keep);
        self.placed.clear();
        // With nothing left to put back, drop leaves the journal alone.
        Ok(count)
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        if !self.before.is_empty() || !self.groups.is_empty() {
            let _ = self.put_back();
        }
    }
}
