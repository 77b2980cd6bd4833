//! Where the recorded wake-ups would have been placed by other rules: a model, not a measurement.
//!
//! The model follows `select_task_rq_fair()`: a wake-up is *affine* (it may pull the wakee to its
//! waker's CPU) unless the rule says *wide*; then an idle CPU near the chosen one is preferred.
//!
//! 1. `target` = the wakee's former CPU. If affine and the waker's CPU is another: the former CPU if
//!    it is idle, else the waker's (as `wake_affine_idle` does for a waker about to sleep).
//! 2. If `target` is idle, there. Else the former CPU, if idle. Else the first idle CPU.
//! 3. Else `target`.
//!
//! What it leaves out: load weights, affinity masks, several cache domains, and that a wakee placed
//! elsewhere changes all that follows. Each wake-up is placed as if all others stayed as recorded.

use serde::Serialize;

use crate::event::{Cpu, Tid};
use crate::model::flips::{Flips, Rule};
use crate::model::timeline::{Timeline, Wake};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Never affine: the former CPU, or an idle one.
    #[serde(rename = "prev")]
    Previous,
    /// Always affine, as before 3.12.
    #[serde(rename = "none")]
    Affine,
    /// Affine unless the wake-wide rule says otherwise.
    #[serde(untagged)]
    Unless(Rule),
}

impl std::str::FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "prev" => Ok(Self::Previous),
            "none" => Ok(Self::Affine),
            "3.12" => Ok(Self::Unless(Rule::Linux312)),
            "4.3" => Ok(Self::Unless(Rule::Linux43)),
            other => Err(format!("`{other}` is no rule: use prev, none, 3.12 or 4.3")),
        }
    }
}

impl std::fmt::Display for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Previous => "prev",
            Self::Affine => "none",
            Self::Unless(Rule::Linux312) => "3.12",
            Self::Unless(Rule::Linux43) => "4.3",
        })
    }
}

/// What a rule would have done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PlacementCounts {
    pub rule: Placement,
    pub wakes: u64,
    pub waker_cpu: u64,
    /// On the CPU where the wakee was before.
    pub previous_cpu: u64,
    /// On a CPU that was idle.
    pub idle: u64,
    /// Elsewhere than recorded.
    pub changed: u64,
}

/// Places every recorded wake-up of the fair tasks that `keep` wants, by each of `rules`.
#[must_use]
pub fn simulate(
    timeline: &Timeline,
    factor: usize,
    rules: &[Placement],
    keep: impl Fn(Tid) -> bool,
) -> Vec<PlacementCounts> {
    rules.iter().map(|rule| place_all(timeline, factor, *rule, &keep)).collect()
}

fn place_all(
    timeline: &Timeline,
    factor: usize,
    rule: Placement,
    keep: &impl Fn(Tid) -> bool,
) -> PlacementCounts {
    let mut outcome = PlacementCounts { rule, wakes: 0, waker_cpu: 0, previous_cpu: 0, idle: 0, changed: 0 };
    let mut flips = match rule {
        Placement::Unless(wide) => Some(Flips::new(wide, factor)),
        Placement::Previous | Placement::Affine => None,
    };
    // Asked of each wake-up, whatever the rule: it says whether the kernel would place it at all.
    let mut asked = Flips::new(Rule::Linux43, factor);
    for wake in &timeline.wakes {
        let wide = flips.as_mut().map(|flips| flips.wake(wake));
        if asked.wake(wake).is_none() || !keep(wake.wakee) {
            continue;
        }
        let affine = match (rule, wide) {
            (Placement::Previous, _) | (_, Some(Some(true))) => false,
            (Placement::Affine | Placement::Unless(_), _) => true,
        };
        let (cpu, idle) = place(timeline, wake, affine);
        outcome.wakes += 1;
        outcome.waker_cpu += u64::from(cpu == wake.waker_cpu);
        outcome.previous_cpu += u64::from(cpu == wake.prev_cpu);
        outcome.idle += u64::from(idle);
        let recorded = wake.target_cpu.or(wake.ran.map(|(_, cpu)| cpu));
        outcome.changed += u64::from(recorded.is_some_and(|recorded| recorded != cpu));
    }
    outcome
}

/// The CPU, and whether it was idle.
fn place(timeline: &Timeline, wake: &Wake, affine: bool) -> (Cpu, bool) {
    let idle = |cpu: Cpu| is_idle(timeline, cpu, wake.time);
    let mut target = wake.prev_cpu;
    if affine && wake.waker_cpu != wake.prev_cpu && !idle(wake.prev_cpu) {
        target = wake.waker_cpu;
    }
    let all = 0..Cpu::try_from(timeline.cpus.len()).unwrap_or(Cpu::MAX);
    for cpu in [target, wake.prev_cpu].into_iter().chain(all) {
        if idle(cpu) {
            return (cpu, true);
        }
    }
    (target, false)
}

/// Whether the idle task was running there.
fn is_idle(timeline: &Timeline, cpu: Cpu, time: u64) -> bool {
    timeline.turns(cpu, time, time.saturating_add(1)).first().is_some_and(|turn| turn.tid == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{blocks, trace, wakeup, waking};

    /// Task 1 runs on CPU 0 and wakes task 2, last on CPU 1, where `there` runs.
    fn outcomes(there: i32) -> Vec<PlacementCounts> {
        let timeline = Timeline::of(&trace(vec![
            blocks(1, 1, 0, 2),
            blocks(2, 1, 2, there),
            blocks(3, 0, 0, 1),
            waking(10, 0, 1, 2, 1),
            wakeup(11, 0, 1, 2, 1),
            blocks(20, 1, there, 2),
            blocks(30, 1, 2, 0),
        ]));
        let rules = ["prev", "none", "3.12", "4.3"].map(|name| name.parse().expect("a rule"));
        simulate(&timeline, 2, &rules, |tid| tid == 2)
    }

    #[test]
    fn an_idle_former_cpu_is_kept_by_every_rule() {
        for outcome in outcomes(0) {
            assert_eq!((outcome.wakes, outcome.previous_cpu, outcome.idle, outcome.changed), (1, 1, 1, 0));
        }
    }

    #[test]
    fn a_busy_former_cpu_is_left_if_affine() {
        let outcomes = outcomes(3);
        assert_eq!((outcomes[0].previous_cpu, outcomes[0].changed), (1, 0), "prev");
        for affine in &outcomes[1..] {
            assert_eq!((affine.waker_cpu, affine.changed, affine.idle), (1, 1, 0), "{}", affine.rule);
        }
    }

    #[test]
    fn a_rule_is_read_as_it_is_written() {
        for name in ["prev", "none", "3.12", "4.3"] {
            let rule: Placement = name.parse().expect("a rule");
            assert_eq!(rule.to_string(), name);
            assert_eq!(serde_json::to_string(&rule).expect("JSON"), format!("\"{name}\""));
        }
        assert!("4.4".parse::<Placement>().is_err());
    }
}
