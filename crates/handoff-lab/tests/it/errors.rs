//! Error rates of the whole procedure on recorded noise: 667 consecutive runs of the same program on
//! an otherwise idle virtual machine, nine metrics (`data/aa_noise.jsonl`).
//!
//! Each simulated experiment deals the recorded values, in the order in which they were taken, to arms
//! in randomised blocks, as the runner would have. On A/A data every verdict but `equivalent` and `not
//! enough evidence` is an error.

use handoff_lab::simulate::{Recording, Trials};
use handoff_lab::stats::sequential::Stopping;
use handoff_testkit::repeats;

/// Simulated experiments of each metric and rule: they know a rate of 5% to +-0.4%.
const COUNT: usize = 3000;

fn recording() -> Recording {
    Recording::parse(include_str!("../data/aa_noise.jsonl")).expect("the recording is well-formed")
}

fn rules() -> [Stopping; 3] {
    [
        Stopping::Fixed { rounds: 20 },
        Stopping::Looks { looks: vec![10, 20, 40] },
        Stopping::Width { half_width: 0.025, least: 10, most: 40 },
    ]
}

#[test]
fn no_more_than_six_percent_of_aa_experiments_find_a_winner() {
    let recording = recording();
    // Fewer of them know the rate to +-1%.
    let (count, bound) = repeats((COUNT, 0.06), (COUNT / 6, 0.08));
    for rule in rules() {
        let trials = Trials { stopping: rule.clone(), effect: 0.0, count, seed: 42 };
        let rates = trials.run_all(&recording).expect("the recording is long enough");
        assert!(rates.len() >= 9, "nine metrics were recorded, and some of them in a control group as well");
        for (metric, outcome) in rates {
            println!("{metric}, {}: {:.3}", rule.describe(), outcome.found);
            assert!(outcome.found <= bound, "{metric}, {}: {:.1}%", rule.describe(), outcome.found * 100.0);
        }
    }
}

#[test]
fn power_is_as_predicted() {
    let recording = recording();
    for metric in ["cpuMB_cg", "mbit_cg", "hb_cg"] {
        let trials = Trials { stopping: Stopping::Fixed { rounds: 20 }, effect: 0.10, count: COUNT, seed: 7 };
        let outcome = trials.run(&recording, metric).expect("the metric was recorded");
        println!("{metric}: {outcome:?}");
        // These trials know a share to +-0.01; the rest is that the noise is not normal. (Where it has two
        // modes, as pp_p99_cg has, no formula predicts well: the verdict then says `bimodal`.)
        assert!(
            (outcome.found - outcome.predicted).abs() < 0.1,
            "{metric}: found {:.2}, predicted {:.2}",
            outcome.found,
            outcome.predicted
        );
    }
}

#[test]
fn a_recording_must_be_well_formed() {
    for (text, says) in [
        ("", "empty"),
        ("{\"a\": 1}\nnonsense", "line 2"),
        ("{\"a\": 1}\n{\"b\": 1}", "line 2"),
        ("{\"a\": -1}", "above 0"),
        ("[1]", "line 1"),
    ] {
        let error = Recording::parse(text).expect_err(text).to_string();
        assert!(error.contains(says), "{text:?}: {error}");
    }
    let trials = Trials { stopping: Stopping::default(), effect: 0.0, count: 10, seed: 1 };
    assert!(trials.run(&recording(), "no such metric").is_err());
    let short = Recording::parse("{\"a\": 1}\n{\"a\": 2}").expect("well-formed");
    assert!(trials.run(&short, "a").is_err());
}
