//! Tables of runs: any text is groups of positive numbers or an error.
#![no_main]

use handoff_lab::analyse::table::{Columns, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let columns = Columns { before: "a".into(), after: "b".into(), by: None, claimed: None };
    if let Ok(groups) = parse(text, &columns) {
        assert!(groups.iter().all(|group| group.before.iter().chain(&group.after).all(|value| *value > 0.0)));
    }
});
