//! Kills a victim at one boundary after the other, and looks at the survivor each time.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use handoff_ipc::engine::{Engine as _, HeldResources};
use handoff_ipc::shm::ShmEngine;
use handoff_ipc::{Binder, Error, Result};
use handoff_testkit::repeats;

use crate::common::{echo, mappings, open_fds};
use crate::paths::{Path, Survivor};
use crate::records::{Fault, Kill};
use crate::symbols::Symbols;
use crate::tracer::{self, Boundary, Ended};
use crate::victim::Nursery;

/// What is not back after this hangs, or leaks: a limit on behaviour, not on speed.
const LIMIT: Duration = Duration::from_secs(30);
/// Where no instruction is.
pub const NEVER: Boundary = Boundary { at: 8, turn: 1, shows: false };
/// So many further victims may fail to come to a boundary that the first one did not come to, of each kind: those that
/// are stepped through the whole path, and those that go at their own speed.
pub const TRIES: u32 = 8;

/// How a victim goes through its path.
enum Pace<'a> {
    /// At its own speed, up to this boundary.
    Runs(Boundary),
    /// Instruction by instruction, up to the boundary that this function chooses.
    Steps(&'a mut (dyn FnMut(Boundary) -> bool + Send)),
}

/// What a survivor holds that a dead peer could have left behind.
#[derive(Debug, Clone, Copy)]
struct Holdings {
    links: u64,
    held: HeldResources,
    descriptors: usize,
    mappings: usize,
    third_descriptors: i32,
}

impl Holdings {
    /// No more than before.
    fn is_within(&self, before: &Holdings) -> bool {
        self.links <= before.links
            && self.held.is_within(&before.held)
            && self.descriptors <= before.descriptors
            && self.mappings <= before.mappings
            && self.third_descriptors <= before.third_descriptors
    }
}

/// The test of one path.
pub struct Sweep<'a> {
    path: &'a Path,
    survivor: Survivor,
    nursery: Nursery,
    turns: u32,
    cpu: Option<usize>,
    symbols: Symbols,
    /// An honest client, which calls after each kill.
    honest: (ShmEngine, Binder),
    before: Holdings,
    threads: u64,
    /// The path's, in their order.
    pub boundaries: Vec<Boundary>,
}

impl<'a> Sweep<'a> {
    pub fn new(path: &'a Path, turns: u32, cpu: Option<usize>) -> Self {
        let survivor = Survivor::start();
        let nursery = Nursery::start(cpu);
        let symbols = Symbols::of_this_program(&nursery.maps());
        let engine = ShmEngine::new(survivor.engine.manager_socket()).unwrap();
        let root = engine.context_object().unwrap();
        echo(&root, b"warm").unwrap();
        let before = holdings(&survivor);
        let threads = survivor.engine.stats().threads;
        let mut sweep = Sweep {
            path,
            survivor,
            nursery,
            turns,
            cpu,
            symbols,
            honest: (engine, root),
            before,
            threads,
            boundaries: Vec::new(),
        };
        let mut walks: Vec<Vec<Boundary>> = Vec::new();
        // Victims that are stepped through the path and killed when it is over: one of them says which boundaries it has.
        // After them, and one that goes at its own speed, the survivor holds what it will always hold.
        let stepped = repeats(3, 2);
        for run in 0..=stepped {
            // What is made once and stays is no leak; a leak goes on.
            let free = Holdings { descriptors: usize::MAX, mappings: usize::MAX, ..sweep.before };
            sweep.before = free;
            let mut boundaries = Vec::new();
            let kill = if run < stepped {
                sweep.kill(Pace::Steps(&mut |boundary| {
                    boundaries.push(boundary);
                    false
                }))
            } else {
                sweep.kill(Pace::Runs(NEVER))
            };
            if run < stepped {
                walks.push(boundaries);
                sweep.boundaries = most_alike(&walks).to_vec();
            }
            assert_eq!(kill.fault, Fault::None, "{}: {}", path.name, kill.what);
            let now = holdings(&sweep.survivor);
            sweep.before.descriptors = now.descriptors;
            sweep.before.mappings = now.mappings;
        }
        sweep
    }

    /// At how many boundaries others may see something of the instruction. Between two of them no kill differs from the other.
    pub fn showing(&self) -> usize {
        self.boundaries.iter().filter(|boundary| boundary.shows).count()
    }

    /// Kills at each `every`th boundary from `first` on, and tells of each; without `all`, of those of which others may see
    /// something. Gives the numbers of those that their victim did not come to.
    pub fn run(&mut self, first: u64, every: u64, all: bool, mut tell: impl FnMut(Kill)) -> Vec<u64> {
        let numbered = (0u64..).zip(self.boundaries.clone());
        let chosen = numbered.filter(|(number, boundary)| *number >= first && (all || boundary.shows));
        let mut missed = Vec::new();
        for (number, _) in chosen.step_by(every as usize) {
            let kill = self.kill_at(number);
            missed.extend((!kill.reached).then_some(number));
            tell(kill);
        }
        let threads = self.survivor.engine.stats().threads;
        assert!(threads <= self.threads + 32, "{}: {threads} threads serve", self.path.name);
        missed
    }

    /// Kills further victims at boundaries that one did not come to, and tells of each. Gives the numbers of those to which
    /// none came in [`TRIES`] victims of each kind.
    pub fn try_again(&mut self, mut missed: Vec<u64>, mut tell: impl FnMut(Kill)) -> Vec<u64> {
        // A victim that is stepped takes the turns of the one whose boundaries these are, slow as that was. It is killed at
        // the first of them that it comes to.
        let mut in_vain = 0;
        while in_vain < TRIES && !missed.is_empty() {
            let numbers: HashMap<(u64, u32), u64> = missed
                .iter()
                .map(|number| (self.boundaries[*number as usize], *number))
                .map(|(boundary, number)| ((boundary.at, boundary.turn), number))
                .collect();
            let mut met = None;
            let kill = self.kill(Pace::Steps(&mut |boundary| {
                met = numbers.get(&(boundary.at, boundary.turn)).copied();
                met.is_some()
            }));
            in_vain += u32::from(met.is_none());
            tell(self.placed(met.unwrap_or(missed[0]), kill));
            missed.retain(|number| Some(*number) != met);
        }
        missed.retain(|number| {
            !(0..TRIES).any(|_| {
                let kill = self.kill_at(*number);
                let reached = kill.reached;
                tell(kill);
                reached
            })
        });
        missed
    }

    fn kill_at(&mut self, number: u64) -> Kill {
        let kill = self.kill(Pace::Runs(self.boundaries[number as usize]));
        self.placed(number, kill)
    }

    fn placed(&self, number: u64, kill: Kill) -> Kill {
        Kill { number, place: self.symbols.name(self.boundaries[number as usize].at), ..kill }
    }

    /// One run of a victim.
    fn kill(&mut self, pace: Pace<'_>) -> Kill {
        let desk = self.survivor.desk.clone();
        desk.notices.store(0, Ordering::SeqCst);
        let folder = self.survivor.folder.dir.path().to_owned();
        // The last victim's.
        drop(std::fs::remove_file(folder.join("victim.sock")));
        let pid = self.nursery.fork(self.path.name, &folder);
        let op = (self.path.survivor)(&self.survivor);
        let (start, started) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let operation = std::thread::spawn(move || {
            // Nobody starts it if the victim ended by itself.
            if started.recv().is_ok() {
                let outcome = op();
                drop(tell.send((outcome, Instant::now())));
            }
        });
        let done = self.nursery.done();
        let (nursery, turns, cpu) = (&mut self.nursery, self.turns, self.cpu);
        let stepped = matches!(pace, Pace::Steps(_));
        let traced = std::thread::scope(|scope| {
            let operation = &operation;
            let tracer = scope.spawn(move || {
                let begin = || {
                    start.send(()).unwrap();
                    nursery.go();
                };
                let is_over = || done.load(Ordering::SeqCst) && operation.is_finished();
                match pace {
                    Pace::Runs(boundary) => tracer::run(pid, boundary, begin, is_over),
                    Pace::Steps(stop) => {
                        pin(cpu);
                        tracer::step(pid, turns, begin, is_over, stop)
                    }
                }
            });
            tracer.join().unwrap()
        });
        let (reached, when) = match traced {
            Ok(Ended::Killed(when)) => (true, when),
            Ok(Ended::PathOver(when)) => (false, when),
            // Stepped through beside other work, a greeting may take longer than whoever waits for it allows.
            Err(Ended::Exited(_)) if stepped && !self.boundaries.is_empty() => (false, Instant::now()),
            Ok(other) | Err(other) => panic!("{}: {other}", self.path.name),
        };
        let (fault, what, recovery) = match self.judge(when, &told) {
            Ok(recovery) => (Fault::None, String::new(), recovery),
            Err((fault, what)) => (fault, what, when.elapsed()),
        };
        Kill { number: 0, reached, recovery, place: String::new(), fault, what }
    }

    /// The survivor after the end of its peer: how long it took to be as before, or what is wrong with it.
    fn judge(
        &self,
        when: Instant,
        told: &mpsc::Receiver<(Result<()>, Instant)>,
    ) -> Result<Duration, (Fault, String)> {
        let desk = &self.survivor.desk;
        let (outcome, op_ended) = told
            .recv_timeout(LIMIT)
            .map_err(|_| (Fault::Hung, "the survivor's call does not come back".to_owned()))?;
        if let Err(error) = &outcome
            && !is_clear(error)
        {
            return Err((Fault::Unclear, format!("the survivor's error is: {error}")));
        }
        let notices = || desk.notices.load(Ordering::SeqCst);
        if self.path.told {
            wait_for(|| notices() > 0).ok_or((Fault::Hung, "the end is not told".to_owned()))?;
        }
        let noticed = Instant::now();
        desk.clear();
        let mut now = holdings(&self.survivor);
        let back = wait_for(|| {
            now = holdings(&self.survivor);
            now.is_within(&self.before)
        });
        back.ok_or_else(|| (Fault::Leaked, format!("it holds {now:?}, and held {:?}", self.before)))?;
        wait_for(|| self.survivor.names_are_gone())
            .ok_or((Fault::Leaked, "the victim's name is still registered".to_owned()))?;
        if notices() != u32::from(self.path.told) {
            return Err((Fault::WrongNotices, format!("its end was told {} times", notices())));
        }
        match echo(&self.honest.1, b"still here") {
            Ok(answer) if answer == b"still here" => {}
            other => return Err((Fault::Hung, format!("the next call has {other:?}"))),
        }
        let recovered = if self.path.told { noticed.max(op_ended) } else { Instant::now() };
        Ok(recovered.saturating_duration_since(when))
    }
}

/// The walk that has most in common with the others. The first victim may go where none goes after it, and in each of them
/// a thread may sleep where one of the others looks.
fn most_alike(walks: &[Vec<Boundary>]) -> &[Boundary] {
    let sets: Vec<HashSet<(u64, u32)>> =
        walks.iter().map(|walk| walk.iter().map(|boundary| (boundary.at, boundary.turn)).collect()).collect();
    let common = |one: usize| -> usize {
        let shares = sets.iter().map(|other| {
            1000 * sets[one].intersection(other).count() / sets[one].union(other).count().max(1)
        });
        shares.sum()
    };
    let best = (0..walks.len()).max_by_key(|walk| common(*walk));
    best.map_or(&[], |walk| &walks[walk])
}

/// What a caller may be told of a peer's end. Texts come from a third process.
fn is_clear(error: &Error) -> bool {
    match error {
        Error::Dead | Error::Io { .. } => true,
        Error::Protocol(text) => *text == Error::Dead.to_string(),
        _ => false,
    }
}

fn holdings(survivor: &Survivor) -> Holdings {
    let stats = survivor.engine.stats();
    Holdings {
        links: stats.links,
        held: stats.held,
        third_descriptors: survivor.third_descriptors(),
        descriptors: open_fds(),
        mappings: mappings(),
    }
}

fn wait_for(mut holds: impl FnMut() -> bool) -> Option<()> {
    let end = Instant::now() + LIMIT;
    while !holds() {
        if Instant::now() > end {
            return None;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    Some(())
}

fn pin(cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        let cpus = handoff_placement::CpuSet::of(cpu as _);
        handoff_placement::set_affinity(handoff_placement::Tid::current(), &cpus).unwrap();
    }
}
