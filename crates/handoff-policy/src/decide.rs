//! Which rule each process gets, and why: a function of the policy, the process and the system's state, and of
//! what was decided before.

use super::file::Policy;
use super::rule::Rule;
use super::state::{Process, SystemState};
use super::text::matches;
use handoff_placement::Tid;
use handoff_placement::process::ProcessKey;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The rule that a process gets.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The rule, by index; `None` if no rule claims it.
    pub rule: Option<usize>,
    /// Is it another than before?
    pub changed: bool,
    pub reason: String,
    /// When to ask again even if nothing happens: the end of a rule's hold, or of an idle time.
    pub again: Option<Instant>,
}

/// Whom a decision is for: a process, or one of its threads, by number and name. Rules that name a
/// thread decide for threads only, all others for processes only.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub process: &'a Process,
    pub thread: Option<(Tid, &'a str)>,
}

impl<'a> Subject<'a> {
    pub fn whole(process: &'a Process) -> Self {
        Self { process, thread: None }
    }

    fn concerns(&self, rule: &Rule) -> bool {
        match (&rule.matches.thread, self.thread) {
            (Some(pattern), Some((_, name))) => matches(pattern, name),
            (None, None) => true,
            _ => false,
        }
    }

    fn key(&self) -> (ProcessKey, Option<Tid>) {
        (self.process.key, self.thread.map(|(tid, _)| tid))
    }
}

/// Remembers what was decided, so that it does not flap.
#[derive(Debug, Default)]
pub struct Decider {
    current: BTreeMap<(ProcessKey, Option<Tid>), (Option<usize>, Instant)>,
}

impl Decider {
    /// Decides for a process or a thread.
    pub fn decide(
        &mut self,
        policy: &Policy,
        subject: Subject<'_>,
        state: &SystemState,
        now: Instant,
    ) -> Decision {
        let (former, since) = match self.current.get(&subject.key()) {
            Some(&(rule, since)) => (rule, Some(since)),
            None => (None, None),
        };
        let (rule, reason, mut again) = choose(policy, subject, state, former, now);
        if rule == former {
            self.current.entry(subject.key()).or_insert((rule, now));
            return Decision { rule, changed: false, reason, again };
        }
        // A rule that was chosen stays for its hold, unless what it is for ended with it.
        if let (Some(index), Some(since)) = (former, since) {
            let until = since + policy.rules[index].hold;
            if now < until {
                again = Some(again.map_or(until, |again| again.min(until)));
                let reason = format!("held by rule `{}`; then: {reason}", policy.rules[index].name);
                return Decision { rule: former, changed: false, reason, again };
            }
        }
        self.current.insert(subject.key(), (rule, now));
        Decision { rule, changed: true, reason, again }
    }

    pub fn forget_ended(&mut self) {
        self.current.retain(|(process, _), _| process.is_alive());
    }
}

fn choose(
    policy: &Policy,
    subject: Subject<'_>,
    state: &SystemState,
    former: Option<usize>,
    now: Instant,
) -> (Option<usize>, String, Option<Instant>) {
    let mut again: Option<Instant> = None;
    let process = subject.process;
    for (index, rule) in policy.rules.iter().enumerate() {
        if !subject.concerns(rule) || rule.matches.check(process).is_err() {
            continue;
        }
        match rule.when.check(process, state, former == Some(index)) {
            Ok(()) => {
                let reason = format!("rule `{}` (line {}) gives `{}`", rule.name, rule.line, rule.profile);
                // While it counts as idle, somebody must look whether it still is.
                let recheck = rule.when.idle.map(|_| now + IDLE_RECHECK);
                return (Some(index), reason, earliest(again, recheck));
            }
            Err(_) => {
                let idle_at =
                    rule.when.idle.map(|idle| now + idle.saturating_sub(process.idle).max(IDLE_RECHECK));
                again = earliest(again, idle_at);
            }
        }
    }
    (None, "no rule claims it".to_owned(), again)
}

/// How often a process that counts as idle is looked at: nothing tells when it wakes.
const IDLE_RECHECK: Duration = Duration::from_secs(1);

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Why a process gets what it gets: every rule with its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The rule that decides, by index.
    pub rule: Option<usize>,
    /// For each rule, why not; `None` for one that would do.
    pub verdicts: Vec<Option<String>>,
}

impl Explanation {
    /// Asks every rule about a process.
    pub fn of(policy: &Policy, process: &Process, state: &SystemState) -> Self {
        let verdict = |rule: &super::Rule| {
            rule.matches.check(process).and_then(|()| rule.when.check(process, state, false)).err()
        };
        let verdicts: Vec<Option<String>> = policy.rules.iter().map(verdict).collect();
        Self { rule: verdicts.iter().position(Option::is_none), verdicts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"
        [profile.fast]
        nice = 0
        [profile.slow]
        nice = 10
        [profile.cool]
        nice = 19
        [[rule]]
        name = "hot"
        match = { comm = "app*" }
        when = { temperature = { above = 80, until = 70 } }
        profile = "cool"
        hold = "5 s"
        [[rule]]
        name = "front"
        match = { comm = "app*" }
        when = { foreground = true }
        profile = "fast"
        [[rule]]
        name = "resting"
        match = { comm = "app*" }
        when = { idle = "30 s" }
        profile = "slow"
    "#;

    fn process(comm: &str) -> Process {
        Process {
            key: ProcessKey { pid: Tid::new(7).unwrap(), start: 1 },
            comm: comm.to_owned(),
            exe: None,
            cgroup: "/".to_owned(),
            uid: 0,
            services: Vec::new(),
            idle: Duration::ZERO,
        }
    }

    fn rule(decision: &Decision, policy: &Policy) -> Option<String> {
        decision.rule.map(|index| policy.rules[index].name.clone())
    }

    #[test]
    fn the_first_rule_that_holds_decides_and_holds_on() {
        let policy = Policy::parse(POLICY).unwrap();
        let (mut decider, mut state, app, start) =
            (Decider::default(), SystemState::default(), process("app-1"), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(rule(&decider.decide(&policy, Subject::whole(&app), &state, at(0)), &policy), None);
        state.foreground.insert(app.key);
        let front = decider.decide(&policy, Subject::whole(&app), &state, at(1));
        assert_eq!((rule(&front, &policy).as_deref(), front.changed), (Some("front"), true));
        assert!(front.reason.contains("rule `front`") && front.reason.contains("`fast`"), "{}", front.reason);
        state.temperature = Some(81.0);
        assert_eq!(
            rule(&decider.decide(&policy, Subject::whole(&app), &state, at(2)), &policy).as_deref(),
            Some("hot")
        );
        state.temperature = Some(75.0);
        assert!(
            !decider.decide(&policy, Subject::whole(&app), &state, at(3)).changed,
            "between the two thresholds nothing changes"
        );
        state.temperature = Some(60.0);
        let held = decider.decide(&policy, Subject::whole(&app), &state, at(4));
        assert_eq!((rule(&held, &policy).as_deref(), held.again), (Some("hot"), Some(at(7))), "held for 5 s");
        assert_eq!(
            rule(&decider.decide(&policy, Subject::whole(&app), &state, at(7)), &policy).as_deref(),
            Some("front")
        );
    }

    #[test]
    fn idle_rules_ask_to_be_asked_again() {
        let policy = Policy::parse(POLICY).unwrap();
        let (mut decider, state, mut app, now) =
            (Decider::default(), SystemState::default(), process("app-1"), Instant::now());
        app.idle = Duration::from_secs(10);
        let early = decider.decide(&policy, Subject::whole(&app), &state, now);
        assert_eq!((early.rule, early.again), (None, Some(now + Duration::from_secs(20))));
        app.idle = Duration::from_secs(30);
        let late = decider.decide(&policy, Subject::whole(&app), &state, now + Duration::from_secs(20));
        assert_eq!(rule(&late, &policy).as_deref(), Some("resting"));
        assert!(late.again.is_some());
    }

    #[test]
    fn others_are_left_alone_without_a_timer() {
        let policy = Policy::parse(POLICY).unwrap();
        let decision = Decider::default().decide(
            &policy,
            Subject::whole(&process("other")),
            &SystemState::default(),
            Instant::now(),
        );
        assert_eq!((decision.rule, decision.changed, decision.again), (None, false, None));
    }

    #[test]
    fn an_explanation_has_a_verdict_for_each_rule() {
        let policy = Policy::parse(POLICY).unwrap();
        let told = Explanation::of(&policy, &process("app-1"), &SystemState::default());
        assert_eq!(told.rule, None);
        let words: Vec<String> = told.verdicts.into_iter().flatten().collect();
        assert!(words[0].contains("tells no temperature"), "{words:?}");
        assert!(
            words[1].contains("not in the foreground") && words[2].contains("less than 30.0 s"),
            "{words:?}"
        );
        let other = Explanation::of(&policy, &process("other"), &SystemState::default());
        assert!(other.verdicts[0].as_ref().unwrap().contains("comm is `other`, not `app*`"));
    }
}
