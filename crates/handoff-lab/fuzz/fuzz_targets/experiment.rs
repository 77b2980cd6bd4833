//! Experiment files: any text is a list of experiments or an error with a place inside of the text.
#![no_main]

use std::path::Path;

use handoff_lab::experiment::file::Experiment;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Experiment::parse(Path::new("x.toml"), text) {
        Ok(all) => assert!(!all.is_empty()),
        Err(error) => assert!(error.line >= 1 && error.line <= text.lines().count().max(1) + 1),
    }
});
