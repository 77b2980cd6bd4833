//! How often a history finds a change where there is none, on recorded noise: 667 consecutive runs of the same
//! program (`data/aa_noise.jsonl`).
//!
//! A history is 24 runs of 6 rounds each. Where a run begins in the recording is dealt at random, as nightly
//! runs fall into whatever the machine does then, so that waves and drift of the machine are part of it.

use handoff_lab::simulate::Recording;
use handoff_lab::stats::change::Search;
use handoff_lab::stats::describe::median;
use handoff_lab::stats::random::Random;
use handoff_testkit::repeats;

const RUNS: usize = 24;
const ROUNDS: usize = 6;

/// How many histories; fewer in a quick run.
fn trials() -> usize {
    repeats(300, 100)
}

/// Three standard deviations of a binomial above 5%.
fn most() -> f64 {
    0.05 + 3.0 * (0.05 * 0.95 / trials() as f64).sqrt()
}

fn recording() -> Recording {
    Recording::parse(include_str!("../data/aa_noise.jsonl")).expect("the recording is well-formed")
}

/// The share of histories in which a change was found.
fn alarms(mut history: impl FnMut(&mut Random) -> Vec<f64>) -> f64 {
    let mut random = Random::new(11);
    let found = (0..trials()).filter(|trial| {
        let search = Search { permutations: 199, seed: *trial as u64, ..Search::default() };
        !search.find(&history(&mut random)).is_empty()
    });
    found.count() as f64 / trials() as f64
}

/// The median of A, or of B / A, over the rounds of a run that begins at a place of the recording.
fn run(values: &[f64], start: usize, ratio: bool, random: &mut Random) -> f64 {
    let rounds = values[start..start + 3 * ROUNDS].chunks_exact(3).map(|block| {
        let mut order = [0, 1, 2];
        random.shuffle(&mut order);
        let [a, _, b] = order.map(|place| block[place]);
        if ratio { b / a } else { a }
    });
    median(&rounds.collect::<Vec<_>>())
}

#[test]
fn a_history_of_the_same_thing_rarely_has_a_change() {
    let recording = recording();
    let metrics: Vec<&str> = recording.metrics().collect();
    assert!(metrics.len() >= 9);
    for metric in metrics {
        let values = recording.values(metric).expect("it was recorded");
        let places = values.len() - 3 * ROUNDS;
        for ratio in [false, true] {
            let rate = alarms(|random| {
                (0..RUNS)
                    .map(|_| {
                        let start = random.below(places);
                        run(values, start, ratio, random)
                    })
                    .collect()
            });
            println!("{metric}, {}: {:.1}%", if ratio { "B / A" } else { "A" }, rate * 100.0);
            assert!(rate <= most(), "{metric}: {:.1}%", rate * 100.0);
        }
    }
}

/// Runs one after the other on one afternoon: the machine drifts, and values follow it; ratios do not.
#[test]
fn ratios_withstand_a_machine_that_drifts() {
    let recording = recording();
    for metric in recording.metrics() {
        let values = recording.values(metric).expect("it was recorded");
        let rate = |ratio| {
            alarms(|random| {
                let start = random.below(values.len() - RUNS * 3 * ROUNDS);
                (0..RUNS).map(|at| run(values, start + at * 3 * ROUNDS, ratio, random)).collect()
            })
        };
        let (of_values, of_ratios) = (rate(false), rate(true));
        println!("{metric}: A {:.1}%, B / A {:.1}%", of_values * 100.0, of_ratios * 100.0);
        assert!(of_ratios <= most(), "{metric}: {:.1}%", of_ratios * 100.0);
    }
}

#[test]
fn a_change_of_a_tenth_is_found_where_runs_are_quiet() {
    let recording = recording();
    for metric in ["cpuMB_cg", "pp_p50_cg"] {
        let values = recording.values(metric).expect("it was recorded");
        let places = values.len() - 3 * ROUNDS;
        let rate = alarms(|random| {
            (0..RUNS)
                .map(|at| {
                    let start = random.below(places);
                    run(values, start, false, random) * if at >= RUNS / 2 { 1.1 } else { 1.0 }
                })
                .collect()
        });
        println!("{metric}: {:.1}% found", rate * 100.0);
        assert!(rate >= 0.75, "{metric}: {:.1}%", rate * 100.0);
    }
}
