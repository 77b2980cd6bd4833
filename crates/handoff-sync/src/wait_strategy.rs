//! How to wait: what a caller learns about hand-offs on this machine, at this moment.
//!
//! A reply can be caught in three ways. *Spin*: both sides look at the slot without sleeping, best
//! while two CPUs are free. *Block*: sleep, and let the scheduler place everything, best when CPUs
//! are contended. *Beside*: the server comes to the caller's CPU, and each side yields it to the other, best
//! where waking another CPU is dear. None is right everywhere, so each caller tries them on
//! a few calls, keeps the fastest, and looks again now and then, and at once when it got slower. What is best for a few
//! bytes is not for many, which are copied from one cache to another or stay in one: calls of each size learn by themselves.

use std::time::{Duration, Instant};

/// How a reply is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Both sides look without sleeping.
    Spin,
    /// Sleep at once.
    Block,
    /// The server comes to the caller's CPU, and both yield it to each other.
    Beside,
}

const MODES: [Mode; 3] = [Mode::Spin, Mode::Block, Mode::Beside];

/// Calls before the first trial: the server says where it may run with its first reply.
const FIRST: u32 = 2;
/// Calls of one trial. The first are not counted: the server follows with its reply.
const TRIAL: u32 = 12;
const SETTLE: u32 = 4;
/// A trial ends early once it took so many times what it would take in the best other mode, and so many nanoseconds: a CPU
/// that idles takes a tenth of that to wake up, once for each call until both sides are where they look.
const HOPELESS: u64 = 16;
const HOPELESS_NS: u64 = 1_000_000;
/// Calls between two trials, at first and at the most.
const FIRST_REST: u32 = 256;
const LONGEST_REST: u32 = 65_536;
/// In use, one call in so many is timed.
const SAMPLE: u32 = 16;

/// A caller that comes so long after the last reply finds its server asleep, unless its calls of other sizes keep the server
/// looking. Then nothing is tried, and the caller sleeps at once: to look for the reply has its server woken on another CPU,
/// which can take twenty times as long.
const APART: Duration = Duration::from_micros(100);
/// So many calls of a trial in a row that come apart end all trials. One alone is of a caller that had to wait for a CPU.
const ALL_APART: u32 = 3;

/// Longest time that a side looks before it sleeps. A wake-up of another CPU costs about this much
/// on a virtual machine, so that looking costs at most as much again as sleeping at once.
pub const SPIN_LIMIT: Duration = Duration::from_micros(50);

/// Looks until there is something, at most for about `limit`, without sleeping. With `yields` the
/// CPU is offered to others after each look.
#[inline]
pub fn spin<T>(limit: Duration, yields: bool, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let mut look_on = |looks: u32| {
        for _ in 0..looks {
            let found = look();
            if found.is_some() {
                return found;
            }
            if yields {
                rustix::thread::sched_yield();
            } else {
                std::hint::spin_loop();
            }
        }
        None
    };
    // Most of what is awaited is here before the first look at a clock. Who yields to others than the peer has the CPU again
    // after milliseconds.
    let (first, then) = if yields { (2, 1) } else { (200, 50) };
    if let found @ Some(_) = look_on(first) {
        return found;
    }
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if let found @ Some(_) = look_on(then) {
            return found;
        }
    }
    None
}

/// Payloads from so many bytes on are of the next size class. In the first, the hand-off is all that costs.
const SIZES: [u32; 3] = [4 << 10, 32 << 10, 256 << 10];
/// Codes whose calls are remembered apart; more share a place.
const CODES: usize = 16;

/// What one caller knows: for each size class of calls.
#[derive(Debug)]
pub struct WaitStrategies {
    by_size: [WaitStrategy; SIZES.len() + 1],
    codes: [Calls; CODES],
}

/// How large the calls of one code are.
#[derive(Debug, Clone, Copy, Default)]
struct Calls {
    // The size class of the last reply.
    reply: u8,
    // The size classes of late, a bit each, and after how many calls those that came no longer are forgotten.
    classes: u8,
    left: u8,
}

impl WaitStrategies {
    /// Those of a caller that knows nothing yet. One that does not follow sleeps at once, always.
    pub fn new(follows: bool) -> Self {
        WaitStrategies {
            by_size: std::array::from_fn(|_| WaitStrategy::new(follows)),
            codes: [Calls::default(); CODES],
        }
    }

    /// Whether the next call to this code is to be timed, from before its arguments are written: where both sides copy
    /// much, that is what a way of waiting makes dear or cheap. How long the call is, nobody knows yet: as those of late.
    #[inline]
    pub fn wants_time(&self, code: u32) -> bool {
        let classes = self.codes[code as usize % CODES].classes;
        if classes <= 1 { self.by_size[0].wants_time() } else { self.one_wants_time(classes) }
    }

    #[cold]
    fn one_wants_time(&self, classes: u8) -> bool {
        self.by_size.iter().enumerate().any(|(class, calls)| classes >> class & 1 == 1 && calls.wants_time())
    }

    /// The size class of a call whose request is so long: that of the request or of the last reply, whichever is larger.
    #[inline]
    pub fn size_class(&self, code: u32, request: u32) -> usize {
        class_of(request).max(self.codes[code as usize % CODES].reply.into())
    }

    /// What is known of calls of this size class.
    #[inline]
    pub fn of(&mut self, class: usize) -> &mut WaitStrategy {
        &mut self.by_size[class.min(SIZES.len())]
    }

    /// A call of this size class to the code went by, whose reply was so long; with its round trip if it was timed.
    #[inline]
    pub fn note(&mut self, code: u32, class: usize, reply: u32, took_ns: Option<u64>) {
        let calls = &mut self.codes[code as usize % CODES];
        let before = if calls.left == 0 { 0 } else { calls.classes };
        *calls = Calls {
            reply: class_of(reply) as u8,
            classes: before | 1 << class,
            left: calls.left.wrapping_sub(1),
        };
        self.of(class).note(took_ns);
    }
}

#[inline]
fn class_of(len: u32) -> usize {
    if len < SIZES[0] { 0 } else { class_of_large(len) }
}

#[cold]
fn class_of_large(len: u32) -> usize {
    SIZES.iter().filter(|size| len >= **size).count()
}

/// What one caller knows of calls of one size class.
#[derive(Debug)]
pub struct WaitStrategy {
    follows: bool,
    mode: Mode,
    // Which of the modes is on trial; MODES.len(): none.
    trial: usize,
    // Calls left in the trial, or until the next one.
    left: u32,
    rest: u32,
    // Median round trips of the last trials, nanoseconds.
    cost_ns: [u64; MODES.len()],
    samples: [u64; TRIAL as usize],
    taken: usize,
    // What the calls of this trial took, those included that are not counted.
    spent_ns: u64,
    // Moving average of the mode in use, nanoseconds.
    recent_ns: u64,
    allowed: [bool; MODES.len()],
    /// Both sides are bound to one CPU: looking means yielding.
    pub yields: bool,
    look_around: bool,
    // Set while the server is asked not to look for the next request, because calls come too far
    // apart: when the last reply came.
    apart_since: Option<Instant>,
    // What the last trials ended with.
    last: Option<Mode>,
    // Whether the last call found the server asleep.
    found_asleep: bool,
    // Since when, and for how many calls, there is no trial.
    since: Option<Instant>,
    due: u32,
    // When the last reply of a trial came, and how many of its calls in a row came apart.
    replied: Option<Instant>,
    apart: u32,
}

impl WaitStrategy {
    fn new(follows: bool) -> Self {
        WaitStrategy {
            follows,
            mode: Mode::Block,
            trial: MODES.len(),
            left: FIRST,
            rest: FIRST_REST,
            cost_ns: [u64::MAX; MODES.len()],
            samples: [0; TRIAL as usize],
            taken: 0,
            spent_ns: 0,
            recent_ns: 0,
            allowed: [true; MODES.len()],
            yields: false,
            last: None,
            look_around: false,
            apart_since: None,
            found_asleep: false,
            since: None,
            due: 0,
            replied: None,
            apart: 0,
        }
    }

    /// Whether a mode is worth a trial at all: a caller with one CPU that it shares with its server
    /// need not try to spin.
    pub fn allow(&mut self, spin: bool, beside: bool) {
        self.look_around = false;
        self.allowed = [spin, true, beside];
        (self.replied, self.apart) = (None, 0);
        self.begin(0);
    }

    /// True when the next call begins a round of trials: the caller looks at where both sides may
    /// run and says so with [`WaitStrategy::allow`].
    #[inline]
    pub fn at_trial(&self) -> bool {
        self.look_around
    }

    /// How to await the next reply.
    #[inline]
    pub fn mode(&self) -> Mode {
        if self.follows { self.mode } else { Mode::Block }
    }

    /// Whether the next call is the first of a trial to spin, of a caller whose server has been beside it: there it can run only
    /// if it is given the CPU, and goes to another one then.
    #[inline]
    pub fn parts(&self) -> bool {
        self.mode == Mode::Spin
            && self.last == Some(Mode::Beside)
            && self.left == TRIAL
            && self.trial < MODES.len()
    }

    /// How long to look for the reply at the most. To wake a CPU can take longer than [`SPIN_LIMIT`]: both sides would
    /// sleep and be woken in turns, and never look at one time.
    #[inline]
    pub fn look_limit(&self) -> Duration {
        if self.parts() { 4 * SPIN_LIMIT } else { SPIN_LIMIT }
    }

    /// In spin mode: whether the server, too, is to look for the next request before it sleeps.
    #[inline]
    pub fn server_looks(&mut self) -> bool {
        if self.apart_since.is_some_and(|reply| reply.elapsed() < SPIN_LIMIT) {
            self.apart_since = None;
        }
        self.apart_since.is_none()
    }

    /// Whether the server was found asleep.
    #[inline]
    pub fn found_asleep(&mut self, asleep: bool) {
        self.found_asleep = asleep;
        if self.mode() != Mode::Block && (asleep || self.apart_since.is_some()) {
            self.apart_since = Some(Instant::now());
        }
    }

    /// Whether the next call is to be timed.
    #[inline]
    fn wants_time(&self) -> bool {
        self.trial < MODES.len() || self.left % SAMPLE == 0
    }

    /// A call went by; with its round trip if it was timed.
    #[inline]
    fn note(&mut self, took_ns: Option<u64>) {
        match took_ns {
            Some(took_ns) => {
                self.left = self.left.wrapping_sub(1);
                self.note_time(took_ns);
            }
            // The first call of this size to its code: a trial goes by those that are timed.
            None if self.trial < MODES.len() => return,
            None => self.left = self.left.wrapping_sub(1),
        }
        if self.left == 0 {
            self.turn();
        }
    }

    fn note_time(&mut self, took_ns: u64) {
        if self.trial < MODES.len() {
            if self.left < TRIAL - SETTLE {
                self.samples[self.taken] = took_ns;
                self.taken += 1;
            }
            // The first call waits until the other side may run at all.
            if self.left < TRIAL - 1 {
                self.spent_ns = self.spent_ns.saturating_add(took_ns);
            }
            // Where others want the CPUs too, a call may take as long as all of them are let run.
            if self.spent_ns > self.best_other().saturating_mul(HOPELESS * u64::from(TRIAL)).max(HOPELESS_NS)
            {
                self.left = 0;
            }
            self.note_gap(took_ns);
            return;
        }
        let (expected, other) = (self.cost_ns[self.mode as usize], self.best_other());
        // One call that was preempted says little; many slow ones say that others want the CPUs
        // now, or that the handlers take longer.
        let took_ns = took_ns.min(expected.saturating_mul(8).max(other.saturating_mul(2)));
        self.recent_ns = self.recent_ns - self.recent_ns / 8 + took_ns / 8;
        // What was learned is void once another way promises more than this one gives.
        let void = self.recent_ns > expected.saturating_mul(2) && self.recent_ns > other;
        if void && self.left > SAMPLE {
            self.rest = FIRST_REST;
            self.due -= (self.left - SAMPLE).min(self.due);
            self.left = SAMPLE;
        }
    }

    /// A call of a trial went by: how long after the last reply it came.
    fn note_gap(&mut self, took_ns: u64) {
        let now = Instant::now();
        let before = self.replied.replace(now);
        let gap = before.map(|before| (now - before).saturating_sub(Duration::from_nanos(took_ns)));
        let is_apart = self.found_asleep && gap.is_some_and(|gap| gap > APART);
        self.apart = if is_apart { self.apart + 1 } else { 0 };
        if self.apart == ALL_APART {
            self.sleep_at_once();
        }
    }

    /// Whether the calls since the last trial came apart, on average.
    fn came_apart(&self) -> bool {
        let Some(since) = self.since else { return false };
        let each = since.elapsed() / self.due.max(1);
        self.found_asleep && each.saturating_sub(Duration::from_nanos(self.recent_ns)) > APART
    }

    /// Calls come apart.
    fn sleep_at_once(&mut self) {
        let cost = self.cost_ns[Mode::Block as usize];
        (self.trial, self.mode, self.last) = (MODES.len(), Mode::Block, None);
        self.recent_ns = if cost == u64::MAX { 0 } else { cost };
        self.rest = FIRST_REST;
        self.no_trial_for_a_while();
    }

    fn no_trial_for_a_while(&mut self) {
        (self.left, self.due, self.since) = (self.rest, self.rest, Some(Instant::now()));
    }

    /// What the cheapest of the other modes cost.
    fn best_other(&self) -> u64 {
        let others = (0..MODES.len()).filter(|mode| *mode != self.mode as usize);
        others.map(|mode| self.cost_ns[mode]).min().unwrap_or(u64::MAX)
    }

    /// What the trial that ends says of its mode.
    fn cost_of_trial(&mut self) -> u64 {
        let samples = &mut self.samples[..self.taken];
        samples.sort_unstable();
        // Without any, it was given up in its first calls.
        let cost = samples.get(samples.len() / 2).copied().unwrap_or(self.spent_ns);
        match self.cost_ns[self.trial] {
            u64::MAX => cost,
            // Blocking can be as quick as looking for a while: until one side comes too late once, and is woken from then on.
            // So a mode that got cheaper is believed little by little.
            before => cost.max((before / 2).min(cost.saturating_mul(4))),
        }
    }

    #[cold]
    fn turn(&mut self) {
        if self.trial < MODES.len() {
            self.cost_ns[self.trial] = self.cost_of_trial();
            self.begin(self.trial + 1);
        } else if self.came_apart() {
            self.sleep_at_once();
        } else {
            self.look_around = true;
            self.left = 1;
        }
    }

    fn begin(&mut self, from: usize) {
        (self.taken, self.spent_ns) = (0, 0);
        match (from..MODES.len()).find(|mode| self.allowed[*mode]) {
            Some(mode) => {
                self.trial = mode;
                self.mode = MODES[mode];
                self.left = TRIAL;
            }
            None => self.settle(),
        }
    }

    fn settle(&mut self) {
        for (mode, allowed) in self.allowed.iter().enumerate() {
            if !allowed {
                self.cost_ns[mode] = u64::MAX;
            }
        }
        self.trial = MODES.len();
        // Looking burns a CPU: it must be worth it. Who yields one only has to be switched to for nothing now and then.
        let worth = |mode: usize| match MODES[mode] {
            Mode::Block => self.cost_ns[mode],
            Mode::Spin if !self.yields => self.cost_ns[mode].saturating_mul(5) / 4,
            Mode::Spin | Mode::Beside => self.cost_ns[mode].saturating_mul(9) / 8,
        };
        let best = (0..MODES.len()).min_by_key(|mode| worth(*mode)).unwrap_or(Mode::Block as usize);
        self.mode = MODES[best];
        self.recent_ns = self.cost_ns[best];
        // The same answer twice: ask less often.
        self.rest = if self.last == Some(self.mode) { (self.rest * 2).min(LONGEST_REST) } else { FIRST_REST };
        self.last = Some(self.mode);
        self.no_trial_for_a_while();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn run(strategy: &mut WaitStrategy, calls: u32, cost: impl Fn(Mode) -> u64) -> [u32; 3] {
        run_where((true, true), strategy, calls, cost)
    }

    fn run_where(
        allowed: (bool, bool),
        strategy: &mut WaitStrategy,
        calls: u32,
        cost: impl Fn(Mode) -> u64,
    ) -> [u32; 3] {
        let mut used = [0; 3];
        for _ in 0..calls {
            if strategy.at_trial() {
                strategy.allow(allowed.0, allowed.1);
            }
            used[strategy.mode() as usize] += 1;
            let time = strategy.wants_time().then(|| cost(strategy.mode()));
            strategy.note(time);
        }
        used
    }

    #[test]
    fn the_fastest_way_is_used_most() {
        for best in MODES {
            let mut strategy = WaitStrategy::new(true);
            let used = run(&mut strategy, 20_000, |mode| if mode == best { 1_000 } else { 5_000 });
            assert!(used[best as usize] > 19_000, "{best:?}: {used:?}");
        }
    }

    #[test]
    fn a_caller_that_does_not_follow_always_sleeps_at_once() {
        let mut strategy = WaitStrategy::new(false);
        assert_eq!(
            run(&mut strategy, 10_000, |mode| if mode == Mode::Block { 9_000 } else { 1 }),
            [0, 10_000, 0]
        );
    }

    #[test]
    fn a_change_for_the_worse_is_noticed() {
        let mut strategy = WaitStrategy::new(true);
        run(&mut strategy, 100_000, |mode| if mode == Mode::Spin { 300 } else { 3_000 });
        assert_eq!(strategy.mode(), Mode::Spin);
        // Now the CPUs are contended: a spinning side waits for its time slice to end.
        run(&mut strategy, 5_000, |mode| if mode == Mode::Spin { 50_000 } else { 3_000 });
        assert_ne!(strategy.mode(), Mode::Spin);
    }

    #[test]
    fn a_trial_that_takes_far_longer_than_another_mode_is_given_up() {
        let mut strategy = WaitStrategy::new(true);
        // A call beside waits until all others on that CPU were let run.
        let cost = |mode| match mode {
            Mode::Spin => 350,
            Mode::Block => 2_900,
            Mode::Beside => 4_000_000,
        };
        let used = run(&mut strategy, 1_000, cost);
        assert!(used[0] > 900 && (1..=8).contains(&used[2]), "{used:?}");
        // It is tried again and again, and taken once it is cheap.
        let used = run(&mut strategy, 100_000, |mode| if mode == Mode::Beside { 100 } else { 2_900 });
        assert!(used[2] > 90_000, "{used:?}");
    }

    #[test]
    fn the_first_call_of_a_trial_may_wait_for_the_other_side() {
        let mut strategy = WaitStrategy::new(true);
        let (mut before, mut slow) = (Mode::Block, 0);
        for _ in 0..20_000 {
            if strategy.at_trial() {
                strategy.allow(true, false);
            }
            let mode = strategy.mode();
            let begins = mode == Mode::Spin && before != Mode::Spin;
            slow += u32::from(begins);
            let cost = match mode {
                Mode::Spin if begins => 4_000_000,
                Mode::Spin => 350,
                _ => 2_900,
            };
            before = mode;
            let time = strategy.wants_time().then_some(cost);
            strategy.note(time);
        }
        assert!(strategy.mode() == Mode::Spin && slow < 20, "{slow}");
    }

    #[test]
    fn a_server_that_was_beside_is_given_the_cpu_when_spinning_is_tried_again() {
        let mut strategy = WaitStrategy::new(true);
        let mut parted = 0;
        let cost = |mode| if mode == Mode::Beside { 1_200 } else { 150_000 };
        for _ in 0..5_000 {
            if strategy.at_trial() {
                strategy.allow(true, true);
            }
            if strategy.parts() {
                assert_eq!((strategy.mode(), strategy.last), (Mode::Spin, Some(Mode::Beside)));
                assert!(strategy.look_limit() > SPIN_LIMIT);
                parted += 1;
            }
            let time = strategy.wants_time().then(|| cost(strategy.mode()));
            strategy.note(time);
        }
        assert!((3..8).contains(&parted), "once in each round of trials but the first: {parted}");
    }

    /// Calls with a pause before each.
    fn run_apart(
        strategy: &mut WaitStrategy,
        calls: u32,
        finds_asleep: bool,
        cost: impl Fn(Mode) -> u64,
    ) -> [u32; 3] {
        let mut used = [0; 3];
        for _ in 0..calls {
            std::thread::sleep(2 * APART);
            strategy.found_asleep(finds_asleep);
            let now = run(strategy, 1, &cost);
            used.iter_mut().zip(now).for_each(|(used, now)| *used += now);
        }
        used
    }

    #[test]
    fn a_caller_that_comes_seldom_tries_nothing() {
        let mut strategy = WaitStrategy::new(true);
        let cost = |mode| if mode == Mode::Block { 6_000 } else { 60_000 };
        let used = run_apart(&mut strategy, 600, true, cost);
        // The first reply of a trial has none before it.
        assert_eq!(used[1..], [599 - ALL_APART, 0], "{used:?}");
        // Once it comes often, it finds out.
        let used = run(&mut strategy, 20_000, |mode| if mode == Mode::Spin { 300 } else { 3_000 });
        assert!(used[0] > 19_000, "{used:?}");
        // And once it comes seldom again, it looks for no reply any longer.
        run_apart(&mut strategy, 8 * SAMPLE, true, |_| 60_000);
        assert_eq!(strategy.mode(), Mode::Block);
    }

    #[test]
    fn a_server_that_other_calls_keep_awake_is_looked_for_also_by_those_that_come_seldom() {
        let mut strategy = WaitStrategy::new(true);
        let used =
            run_apart(&mut strategy, 300, false, |mode| if mode == Mode::Spin { 5_000 } else { 50_000 });
        assert!(used[0] > 200, "{used:?}");
    }

    #[test]
    fn a_mode_that_is_cheap_now_and_then_is_not_taken_for_cheap() {
        let mut strategy = WaitStrategy::new(true);
        let trials = std::cell::Cell::new(0);
        let cost = |mode| match mode {
            Mode::Spin => 350,
            // In every second trial of it.
            Mode::Block => {
                trials.set(trials.get() + 1);
                if trials.get() / TRIAL % 2 == 0 { 2_900 } else { 400 }
            }
            Mode::Beside => 5_000,
        };
        let used = run(&mut strategy, 200_000, cost);
        assert!(used[1] < 1_000, "{used:?}");
    }

    #[test]
    fn what_is_not_allowed_is_not_tried() {
        let mut strategy = WaitStrategy::new(true);
        let used = run_where((false, false), &mut strategy, 10_000, |_| 1_000);
        assert_eq!(used, [0, 10_000, 0]);
        // Both sides may run apart again: found out at the next trial.
        let used = run(&mut strategy, 100_000, |mode| if mode == Mode::Spin { 100 } else { 1_000 });
        assert!(used[0] > 50_000, "{used:?}");
    }

    #[test]
    fn calls_of_each_size_are_awaited_as_is_best_for_them() {
        let (small, large) = (8, 64 << 10);
        let cost = |len, mode| match (len == small, mode) {
            (true, Mode::Spin) => 300,
            (false, Mode::Beside) => 4_000,
            (true, _) => 3_000,
            (false, _) => 6_000,
        };
        let mut strategies = WaitStrategies::new(true);
        let mut best = [0_u32; 2];
        for call in 0..20_000 {
            let len = if call % 2 == 0 { small } else { large };
            let class = strategies.size_class(1, len);
            let strategy = strategies.of(class);
            let used = run(strategy, 1, |mode| cost(len, mode));
            best[call % 2] += used[if len == small { Mode::Spin } else { Mode::Beside } as usize];
        }
        assert!(best.iter().all(|calls| *calls > 9_500), "{best:?} of 10000 each");
    }

    #[test]
    fn the_time_of_a_call_is_taken_where_its_like_want_it() {
        let (small, large) = (8, 64 << 10);
        let mut strategies = WaitStrategies::new(true);
        let call = |strategies: &mut WaitStrategies, len| {
            let timed = strategies.wants_time(1);
            let class = strategies.size_class(1, len);
            if strategies.of(class).at_trial() {
                strategies.of(class).allow(true, true);
            }
            strategies.note(1, class, 8, timed.then_some(if len == small { 300 } else { 9_000 }));
            timed
        };
        let timed = |strategies: &mut WaitStrategies, len, calls| {
            (0..calls).filter(|_| call(strategies, len)).count()
        };
        // Trials, and one call in sixteen.
        assert!(timed(&mut strategies, small, 1_000) < 250);
        // The first ones of a size are of no known size, and go by without a time.
        let first = timed(&mut strategies, large, 3 * TRIAL + 8);
        assert!(first >= 3 * TRIAL as usize, "{first}: every call of the trials");
        assert!(strategies.of(2).cost_ns.iter().all(|cost| *cost == 9_000), "{:?}", strategies.of(2).cost_ns);
        // One large call among nine small ones is timed nearly as often as if all were large.
        let mut mixed = WaitStrategies::new(true);
        let large_ones = (0..1_000).map(|_| {
            timed(&mut mixed, small, 9);
            timed(&mut mixed, large, 1)
        });
        let of_thousand = large_ones.sum::<usize>();
        assert!(of_thousand > 150, "{of_thousand}");
        assert!(
            mixed.of(2).trial == MODES.len() && mixed.of(2).rest > FIRST_REST,
            "its trials came to an end"
        );
        // Sizes that come no longer are forgotten: a trial of theirs that never ends costs the others no clock.
        timed(&mut strategies, 300 << 10, FIRST + 4);
        assert!(strategies.of(3).wants_time(), "in its trial");
        assert!(timed(&mut strategies, small, 100_000) < 100_000 / SAMPLE as usize + 1_500);
    }

    #[test]
    fn a_call_with_a_large_reply_is_a_large_one_from_the_second_time_on() {
        let mut strategies = WaitStrategies::new(true);
        assert_eq!(strategies.size_class(7, 8), 0);
        strategies.note(7, 0, 1 << 20, None);
        assert_eq!(strategies.size_class(7, 8), SIZES.len());
        assert_eq!(strategies.size_class(8, 8), 0, "another call");
        strategies.note(7, SIZES.len(), 8, None);
        assert_eq!(strategies.size_class(7, 16 << 10), 1);
        strategies.of(strategies.size_class(u32::MAX, u32::MAX));
    }

    #[test]
    fn trials_get_rare_when_the_answer_stays() {
        let mut strategy = WaitStrategy::new(true);
        let used = run(&mut strategy, 1_000_000, |mode| if mode == Mode::Spin { 300 } else { 3_000 });
        assert!(used[1] + used[2] < 1_000, "{used:?}");
    }
}
