//! Reads any text as a policy: every problem has a line of the file, and whatever is read can be asked.
#![no_main]

use handoff_policy::{Explanation, Policy, Process, SystemState};
use handoff_placement::process::ProcessKey;
use handoff_placement::Tid;
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

fuzz_target!(|text: &str| {
    match Policy::parse(text) {
        Ok(policy) => {
            let process = Process {
                key: ProcessKey { pid: Tid::current(), start: 1 },
                comm: "app".to_owned(),
                exe: Some("/usr/bin/app".to_owned()),
                cgroup: "/".to_owned(),
                uid: 0,
                services: vec!["a.b".to_owned()],
                idle: Duration::from_secs(9),
            };
            let told = Explanation::of(&policy, &process, &SystemState::default());
            assert_eq!(told.verdicts.len(), policy.rules.len());
        }
        Err(problems) => {
            let lines = text.lines().count().max(1) + 1;
            assert!(!problems.0.is_empty());
            assert!(problems.0.iter().all(|problem| (1..=lines).contains(&problem.line)), "{problems}");
        }
    }
});
