//! The measurement of a study: rounds of boots of both kernels by the lab's runner, and the verdict.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use handoff_guest::Stopper;
use handoff_lab::experiment::file::{Experiment, FileError};
use handoff_lab::experiment::result::{ExperimentResult, MetricResult};
use handoff_lab::experiment::runner::{self, Event, RunError};
use handoff_lab::experiment::with_causes;
use handoff_lab::stats::judge::{Estimate, Verdict};
use handoff_lab::store::Store;
use handoff_workloads::figures::human;
use handoff_workloads::measurement::Unit;

use super::boots::{ARMS, Booted, Boots, counter_name, read_record};
use super::{Boot, Measured, Study, StudyError};
use crate::document::{Block, code, counted, plain};
use crate::prove::{Expectation, Probe};

/// How the two are called in the verdict.
const PAIR: &str = "the kernel with the feature against the one without";
const REPORT: &str = "measurement.html";

/// Compares both kernels; goes on with rounds of an earlier run. `command` repeats it.
///
/// # Errors
///
/// If the experiment cannot be run or kept.
pub fn measure(
    study: &Study,
    kernels: [&Boot; 2],
    work: &Path,
    command: &str,
    stopper: &Stopper,
) -> Result<Measured, StudyError> {
    let cannot = |error: &dyn std::error::Error| StudyError::Measure(with_causes(error));
    let record = work.join("boots.jsonl");
    let text = experiment_text(study)?;
    let file = work.join("measurement.toml");
    fs::write(&file, &text).map_err(StudyError::io("write", &file))?;
    // It has no sweep: the first is all.
    let experiment = Experiment::parse(&file, &text).map_err(|error| cannot(&error))?.remove(0);
    let mut store = Store::open(&work.join("lab.sqlite")).map_err(|error| cannot(&error))?;
    let unfinished =
        store.unfinished(&experiment.text, experiment.rounds.seed).map_err(|error| cannot(&error))?;
    if unfinished.is_none() && record.exists() {
        fs::remove_file(&record).map_err(StudyError::io("remove", &record))?;
    }
    let (mut id, resume) = unfinished.map_or((None, Vec::new()), |(id, rounds)| (Some(id), rounds));
    let stop = AtomicBool::new(false);
    let mut target =
        Boots { kernels, quiet: study.quiet, record: record.clone(), stopper, stop: &stop, gave_up: None };
    let options = runner::Options { command: command.to_owned(), stop: Some(&stop), resume };
    let outcome = runner::run(&experiment, options, &mut target, &mut |event| {
        match event {
            Event::Started(header) if id.is_none() => id = Some(store.begin(header)?),
            Event::Round { record, most, .. } => {
                eprintln!("  round {} of at most {most}", record.number);
                if let Some(id) = id {
                    store.keep(id, record)?;
                }
            }
            _ => {}
        }
        Ok(())
    });
    let gave_up = target.gave_up;
    let interrupted = stopper.is_stopped();
    let result = match outcome {
        // No round is complete: a boot gave up, or the time was spent while the arms warmed up.
        Err(RunError::Nothing) if !interrupted => None,
        other => Some(other.map_err(|error| cannot(&error))?),
    };
    let rounds = result.as_ref().map_or(0, |result| result.rounds.len());
    if interrupted {
        let rounds = counted(rounds, "round");
        return Err(StudyError::Measure(format!(
            "interrupted after {rounds}, kept: the same command goes on"
        )));
    }
    let boots = read_record(&record);
    let Some(result) = result else {
        return Ok(nothing(gave_up.as_ref(), &boots));
    };
    // What others cut short goes on in the next run.
    if let (Some(id), None) = (id, &gave_up) {
        store.finish(id, &result).map_err(|error| cannot(&error))?;
    }
    let page = handoff_lab::report::experiment::html(&result).map_err(|error| cannot(&error))?;
    let report = work.join(REPORT);
    fs::write(&report, page).map_err(StudyError::io("write", &report))?;
    Ok(measured(&result, &boots, gave_up.as_ref()))
}

/// Why the rounds ended before their time, in a sentence.
fn cut_short(booted: &Booted, rounds: usize) -> String {
    let reason = plain(booted.rejected.as_deref().unwrap_or("a boot failed"));
    let which = plain(&booted.arm);
    format!(
        "The rounds ended after {rounds}, at a boot of the kernel {which}: {}. What was measured is kept; the same \
         command goes on.",
        reason.trim_end_matches('.')
    )
}

/// What is said without a single round.
fn nothing(gave_up: Option<&Booted>, boots: &[Booted]) -> Measured {
    let why = gave_up.map_or_else(
        || "The time of the measurement was spent before it: raise `budget_seconds`.".to_owned(),
        |booted| cut_short(booted, 0),
    );
    let word = Verdict::Inconclusive.word();
    let blocks = vec![
        Block::Heading(2, "Measurement".to_owned()),
        Block::Text(format!("**{word}**: no round is complete. {why}")),
        Block::List(kinds(boots)),
    ];
    let summary = format!("{word}: no round is complete. {why}");
    Measured { summary, good: false, finished: false, blocks }
}

/// Says what is wrong with what the study wants to measure, before an hour of building.
pub fn check(study: &Study, file: &Path) -> Result<(), StudyError> {
    if study.measure.is_none() {
        return Ok(());
    }
    let parse = |text: String| Experiment::parse(Path::new("[measure]"), &text).map(drop);
    experiment_text(study).and_then(|text| {
        parse(text).map_err(|error: FileError| {
            let reason = format!("it cannot be measured: {}", with_causes(&error));
            StudyError::File { file: file.to_owned(), reason }
        })
    })
}

/// The experiment: what the study says, with a kernel for each arm.
fn experiment_text(study: &Study) -> Result<String, StudyError> {
    let mut table = study.measure.clone().unwrap_or_default();
    table.insert("title".to_owned(), study.title.clone().into());
    table.insert("question".to_owned(), study.question.clone().into());
    let probes = [&study.proof.without, &study.proof.with];
    for ((key, arm), probes) in ["baseline", "change"].into_iter().zip(ARMS).zip(probes) {
        let proofs = probes.iter().map(|probe| toml::Value::Table(proof(probe)));
        let mut form = toml::Table::new();
        form.insert("name".to_owned(), arm.into());
        form.insert("proof".to_owned(), proofs.collect::<Vec<_>>().into());
        table.insert(key.to_owned(), form.into());
    }
    toml::to_string(&table).map_err(|error| StudyError::Measure(error.to_string()))
}

/// A probe as a proof of the lab.
fn proof(probe: &Probe) -> toml::Table {
    let expect = match probe.expect {
        Expectation::Rate(least) => format!(">= {least}"),
        other => other.to_string(),
    };
    let pairs = [("counter", counter_name(probe)), ("expect", expect)];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

fn measured(result: &ExperimentResult, boots: &[Booted], gave_up: Option<&Booted>) -> Measured {
    let answer = result.verdict();
    let primary = &result.primary;
    let sentence = primary.judgement.sentence_of(PAIR, &primary.name, &primary.question);
    let mut blocks = vec![
        Block::Heading(2, "Measurement".to_owned()),
        Block::Text(emphasised(&plain(&sentence), answer.word())),
    ];
    blocks.extend(gave_up.map(|booted| Block::Text(cut_short(booted, result.rounds.len()))));
    let metrics = std::iter::once(&result.primary).chain(&result.secondary);
    blocks.push(Block::table(
        &["metric", "without", "without, again", "with", "with / without", "again / without", "verdict"],
        metrics.map(row).collect(),
    ));
    let mut notes = vec![format!(
        "{}, each a boot of the kernel without, of the same again, and of the one with the feature, in a \
         shuffled order (seed {}); {}",
        counted(result.rounds.len(), "round"),
        result.header.seed,
        if gave_up.is_some() { "cut short" } else { result.ending.describe() }
    )];
    notes.extend(result.primary.judgement.caveats.iter().map(|caveat| plain(&caveat.text)));
    notes.extend(result.unusable.iter().map(|text| plain(text)));
    notes.extend(kinds(boots));
    blocks.push(Block::List(notes));
    let proofs = result.proofs.iter().map(|proof| {
        let range = proof.range.map_or_else(|| "-".to_owned(), |(low, high)| format!("{low} to {high}"));
        vec![
            proof.arm.clone(),
            code(&proof.what),
            range,
            format!("{} of {}", proof.runs.saturating_sub(proof.failures), proof.runs),
        ]
    });
    let proofs: Vec<_> = proofs.collect();
    if !proofs.is_empty() {
        blocks.push(Block::Text("What the probes counted in each boot, after the workload:".to_owned()));
        blocks.push(Block::table(&["kernel", "probe", "least and most", "boots that show it"], proofs));
    }
    blocks.push(Block::Text(format!("All rounds and the state of the host are in {}.", code(REPORT))));
    let good = !matches!(answer, Verdict::NotActive | Verdict::Withheld);
    Measured { summary: sentence, good: good && gave_up.is_none(), finished: gave_up.is_none(), blocks }
}

/// A sentence with its verdict in strong words.
fn emphasised(sentence: &str, verdict: &str) -> String {
    sentence.replacen(verdict, &format!("**{verdict}**"), 1)
}

fn row(metric: &MetricResult) -> Vec<String> {
    let unit = Unit::from(metric.unit.clone());
    let [without, again, with] = metric.medians.map(|median| human(median, &unit));
    let judgement = &metric.judgement;
    vec![
        code(&metric.name),
        without,
        again,
        with,
        ratio(&judgement.change),
        ratio(&judgement.noise),
        judgement.verdict.word().to_owned(),
    ]
}

fn ratio(estimate: &Estimate) -> String {
    let interval = estimate.interval;
    if interval.is_bounded() {
        format!("{:.3} [{:.3}, {:.3}]", estimate.ratio, interval.low, interval.high)
    } else {
        format!("{:.3}, no interval from {}", estimate.ratio, counted(estimate.rounds, "round"))
    }
}

/// What is to be said of the boots themselves.
fn kinds(boots: &[Booted]) -> Vec<String> {
    let mut notes = Vec::new();
    let counts = boots.iter().filter(|boot| boot.rejected.is_none());
    let others = counts.clone().map(|boot| boot.others).fold(0.0, f64::max);
    notes.push(format!(
        "boots that count, warm-up included: {}; others used {:.0}% of the host's CPUs at most meanwhile",
        counts.count(),
        others * 100.0
    ));
    notes.extend(refused(boots, false, "rejected because the host was busy"));
    for arm in ARMS {
        let of_arm: Vec<Booted> = boots.iter().filter(|boot| boot.arm == arm).cloned().collect();
        notes.extend(refused(&of_arm, true, &format!("of the kernel {arm} failed, and began anew")));
    }
    if boots.iter().any(|boot| boot.kvm == Some(false)) {
        notes.push(
            "the guests were translated (TCG), which has no caches and schedules virtual CPUs as threads: the \
             direction need not carry over to hardware"
                .to_owned(),
        );
    }
    notes
}

/// Boots that do not count for one kind of reason, with the first reasons.
fn refused(boots: &[Booted], failed: bool, what: &str) -> Option<String> {
    let of_kind = boots.iter().filter(|boot| boot.failed == failed);
    let reasons: Vec<String> = of_kind.filter_map(|boot| boot.rejected.as_deref()).map(plain).collect();
    let (shown, count) = (reasons.len().min(5), reasons.len());
    let more = if count > shown { format!("; and {} more", count - shown) } else { String::new() };
    let boots = counted(count, "boot");
    (count > 0).then(|| format!("{boots} {what}: {}{more}", reasons[..shown].join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_boots_are_told_with_the_reason() {
        let boot = |rejected: Option<&str>, others, failed| Booted {
            arm: ARMS[1].to_owned(),
            rejected: rejected.map(str::to_owned),
            failed,
            others,
            boot_seconds: Some(2.0),
            kvm: Some(false),
        };
        let busy = boot(Some("others used 60%"), 0.6, false);
        let notes = kinds(&[boot(None, 0.04, false), busy.clone(), boot(None, 0.02, false)]);
        assert!(notes[0].contains("included: 2;") && notes[0].contains("used 4%"), "{notes:?}");
        assert_eq!(notes[1], "1 boot rejected because the host was busy: others used 60%");
        assert!(notes[2].contains("TCG"), "{notes:?}");
        let lost = boot(Some("the guest did not boot"), 0.0, true);
        let notes = kinds(&[lost.clone(), lost]);
        assert!(
            notes[1].starts_with("2 boots of the kernel with the feature failed, and began anew: the guest"),
            "{notes:?}"
        );
    }

    #[test]
    fn a_busy_host_leaves_an_honest_document() {
        let busy = Booted {
            arm: ARMS[0].to_owned(),
            rejected: Some("not booted: others used 60% of the host's CPUs.".to_owned()),
            failed: false,
            others: 0.6,
            boot_seconds: None,
            kvm: None,
        };
        let measured = nothing(Some(&busy), std::slice::from_ref(&busy));
        assert!(!measured.good && !measured.finished);
        assert!(measured.summary.starts_with("not enough evidence: no round is complete."), "{measured:?}");
        assert!(measured.summary.contains("others used 60% of the host's CPUs. What"), "{measured:?}");
    }

    #[test]
    fn a_budget_that_warming_up_spent_is_told() {
        let measured = nothing(None, &[]);
        assert!(!measured.good && !measured.finished);
        assert!(measured.summary.ends_with("raise `budget_seconds`."), "{measured:?}");
    }

    #[test]
    fn what_cannot_be_measured_is_said_before_anything_is_built() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/wake-wide-study.toml");
        let text = fs::read_to_string(&file).expect("it is there");
        let study =
            |text: &str| Study::parse(&file, text, file.parent().expect("a folder")).expect("a study");
        check(&study(&text), &file).expect("it can be measured");
        let error =
            check(&study(&text.replace("looks = [10, 20]", "rounds = 2")), &file).expect_err("too few");
        let error = format!("{error:#}");
        assert!(error.contains("cannot be measured") && error.contains("6 to 10000"), "{error}");
    }

    #[test]
    fn a_verdict_is_said_once() {
        let said = emphasised("time: not enough evidence: 1 round is too few.", "not enough evidence");
        assert_eq!(said, "time: **not enough evidence**: 1 round is too few.");
    }

    #[test]
    fn a_ratio_without_an_interval_says_so() {
        let few = Estimate::of(&[0.1, 0.2, 0.15], 0.99);
        assert_eq!(ratio(&few), "1.162, no interval from 3 rounds");
        let many: Vec<f64> = (0..20).map(|n| 0.1 + f64::from(n) / 1000.0).collect();
        assert!(ratio(&Estimate::of(&many, 0.95)).contains(" ["));
    }

    #[test]
    fn probes_become_proofs() {
        let of = |text: &str| toml::to_string(&proof(&text.parse().expect("a probe"))).expect("toml");
        assert_eq!(of("function:f, zero"), "counter = \"function:f\"\nexpect = \"zero\"\n");
        assert_eq!(of("function:f, >= 5/s"), "counter = \"function:f per second\"\nexpect = \">= 5\"\n");
    }
}
