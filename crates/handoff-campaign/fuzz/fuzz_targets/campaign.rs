//! Any text is a campaign with a plan, or an error with a place.

#![no_main]

use std::path::Path;

use handoff_campaign::file::Campaign;
use handoff_campaign::plan::CampaignPlan;
use libfuzzer_sys::fuzz_target;

const EXPERIMENT: &str = "title = \"t\"\n[workload]\nname = \"spin\"\n[baseline]\nname = \"a\"\n[change]\nname = \"b\"\n\
    [metric]\nname = \"spin/time\"\n";

fuzz_target!(|text: &str| {
    let path = Path::new("fuzz.toml");
    match Campaign::parse(path, text, &|_| Ok(EXPERIMENT.to_owned())) {
        // Each combination is parsed as an experiment: more of them only take longer.
        Ok(campaign) if campaign.parameters.iter().map(|(_, values)| values.len()).product::<usize>() < 64 => {
            let _ = CampaignPlan::of(&campaign, path);
        }
        Ok(_) => {}
        Err(error) => assert!(error.line > 0 && error.column > 0),
    }
});
