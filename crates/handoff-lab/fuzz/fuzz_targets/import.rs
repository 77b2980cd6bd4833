//! Results of other programs: any text is an import or an error, and an import has finite values only.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(imported) = handoff_lab::import::parse(text) {
        let mut values = imported.series.iter().flat_map(|series| &series.values);
        assert!(values.all(|value| value.is_finite()));
    }
});
