//! Pins that did not last: what the placement policy that runs here has had to apply again.

use super::{Finding, Level, Root};
use handoff_placement::notice;
use serde::Deserialize;

/// One process in the answer of a running policy.
#[derive(Deserialize)]
struct PlacedProcess {
    pid: i32,
    comm: String,
    #[serde(default)]
    lost_pins: u64,
}

/// Only a live machine has somebody to ask.
pub(super) fn findings(root: &Root) -> Option<Finding> {
    if !root.is_host() {
        return None;
    }
    told(&notice::status(&notice::default_folder()).ok()?)
}

fn told(status: &str) -> Option<Finding> {
    let (id, topic) = ("affinity.lost_pins", "pins of the placement policy");
    let placed: Vec<PlacedProcess> = serde_json::from_str(status).ok()?;
    let lost: u64 = placed.iter().map(|process| process.lost_pins).sum();
    let Some(worst) = placed.iter().max_by_key(|process| process.lost_pins).filter(|_| lost > 0) else {
        return Some(Finding::fine(
            id,
            topic,
            format!("{} processes are placed, no pin was lost", placed.len()),
        ));
    };
    let observed = format!(
        "{lost} were lost and applied again, most of them ({}) those of process {} ({})",
        worst.lost_pins, worst.pid, worst.comm
    );
    Some(
        Finding::new(id, Level::Warning, topic, observed)
            .effect("until the policy looked again, up to 10 s, the threads ran wherever the kernel liked")
            .remedy("find who moves them: `handoff policy run` logs each loss with its cause (hot-plug, a move between cpusets, the program itself)"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_pins_are_told_with_the_process_that_lost_most() {
        let one = |lost: u64| {
            format!(r#"{{"pid": 7, "comm": "navi", "profiles": ["front"], "lost_pins": {lost}}}"#)
        };
        let fine = told(&format!("[{}]", one(0))).unwrap();
        assert_eq!((fine.level, fine.id.as_str()), (Level::Fine, "affinity.lost_pins"));
        let lost = told(&format!("[{}, {}]", one(3).replace('7', "8"), one(2))).unwrap();
        assert_eq!(lost.level, Level::Warning);
        assert!(
            lost.observed.starts_with("5 were lost") && lost.observed.contains("process 8 (navi)"),
            "{}",
            lost.observed
        );
        for nonsense in ["", "{}", "[1]", "null"] {
            assert!(told(nonsense).is_none(), "{nonsense}");
        }
    }
}
