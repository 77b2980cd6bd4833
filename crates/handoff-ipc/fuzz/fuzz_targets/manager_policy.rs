//! Reads any text as a policy of the service manager: a policy, or an error with a place in it.
#![no_main]

use std::path::Path;

use handoff_ipc::CallingIdentity;
use handoff_ipc::servicemanager::{Action, Policy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Policy::parse(text, Path::new("fuzzed.toml")) {
        Ok(policy) => {
            let who = CallingIdentity { pid: 1, uid: 1000, gid: 1000 };
            for name in ["a", "camera/0", "manager"] {
                let replaces = policy.allows(who, Action::Replace, name);
                assert!(!replaces || policy.mentions(name), "nobody replaces what no rule mentions");
            }
        }
        Err(error) => {
            let (line, column, shown) = error.place.clone().expect("a text has places");
            assert!(line >= 1 && line <= text.lines().count() + 1, "{error}");
            assert!(column >= 1 && column <= shown.chars().count() + 2, "{error}");
        }
    }
});
