//! Translates any text as a task_profiles.json: the policy that comes out lacks nothing but rules.
#![no_main]

use handoff_policy::{Policy, import_task_profiles};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(import) = import_task_profiles(text)
        && let Err(problems) = Policy::parse(&import.toml)
    {
        let only_rules = problems.0.iter().all(|problem| problem.message.contains("rule"));
        assert!(only_rules, "{problems}\n{}", import.toml);
    }
});
