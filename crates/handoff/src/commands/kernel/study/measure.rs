//! The lab's part of a study: rounds of boots of both kernels, and the verdict.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use handoff_kernel::document::{Block, code, counted, plain};
use handoff_kernel::prove::{Expectation, Probe};
use handoff_kernel::study::{Boot, Measured, Study, StudyError};
use handoff_lab::experiment::ArmId;
use handoff_lab::experiment::executor::{ArmError, Executor, Local, Replicate, RunRequest};
use handoff_lab::experiment::file::Experiment;
use handoff_lab::experiment::journal::state_folder;
use handoff_lab::experiment::result::{ExperimentResult, MetricResult};
use handoff_lab::experiment::runner::{self, Event, RunError};
use handoff_lab::stats::judge::{Caveat, Estimate, Verdict};
use handoff_lab::store::Store;
use handoff_workloads::measurement::Unit;

use super::trial::{Booted, Plan, counter_name, read_record};
use crate::figures::human;
use crate::interrupt;

const ARMS: [&str; 2] = ["without the feature", "with the feature"];
/// How the two are called in the verdict.
const PAIR: &str = "the kernel with the feature against the one without";
const REPORT: &str = "measurement.html";

/// Compares both kernels; goes on with rounds of an earlier run.
pub(super) fn measure(study: &Study, boots: [&Boot; 2], work: &Path) -> Result<Measured, StudyError> {
    compare(study, boots, work).map_err(|error| StudyError::Measure(format!("{error:#}")))
}

fn compare(study: &Study, boots: [&Boot; 2], work: &Path) -> anyhow::Result<Measured> {
    let work = work.canonicalize().context("cannot find the work folder")?;
    let record = work.join("boots.jsonl");
    for (trial, (boot, arm)) in trials(&work).iter().zip(boots.into_iter().zip(ARMS)) {
        let plan =
            Plan { arm: arm.to_owned(), boot: boot.clone(), quiet: study.quiet, record: record.clone() };
        fs::write(trial, serde_json::to_vec_pretty(&plan)?)
            .with_context(|| format!("cannot write {}", trial.display()))?;
    }
    let text = experiment_text(study, &work)?;
    let file = work.join("measurement.toml");
    fs::write(&file, &text).with_context(|| format!("cannot write {}", file.display()))?;
    // It has no sweep: the first is all.
    let experiment = Experiment::parse(&file, &text)?.remove(0);
    let mut store = Store::open(&work.join("lab.sqlite"))?;
    let unfinished = store.unfinished(&experiment.text, experiment.rounds.seed)?;
    if unfinished.is_none() && record.exists() {
        fs::remove_file(&record).context("cannot begin a new record of boots")?;
    }
    let (mut id, resume) = unfinished.map_or((None, Vec::new()), |(id, rounds)| (Some(id), rounds));
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let stop = AtomicBool::new(false);
    // The guests are booted by what stands in front of the workload: see `trial`.
    let here = Local::new(program, &state_folder(), Some(interrupt::flag()))?;
    let mut target = Patient { here, record: &record, stop: &stop, gave_up: None };
    let options =
        runner::Options { command: format!("handoff lab run {}", file.display()), stop: Some(&stop), resume };
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
    let interrupted = interrupt::interrupted();
    let result = match outcome {
        // No round is complete: a boot gave up, or the time was spent while the arms warmed up.
        Err(RunError::Nothing) if !interrupted => None,
        other => Some(other?),
    };
    let rounds = result.as_ref().map_or(0, |result| result.rounds.len());
    if interrupted {
        anyhow::bail!("interrupted after {}, kept: the same command goes on", counted(rounds, "round"));
    }
    let boots = read_record(&record);
    let Some(result) = result else {
        return Ok(nothing(gave_up.as_ref(), &boots));
    };
    // What others cut short goes on in the next run.
    if let (Some(id), None) = (id, &gave_up) {
        store.finish(id, &result)?;
    }
    fs::write(work.join(REPORT), handoff_lab::report::experiment::html(&result)?)
        .context("cannot write the lab's report")?;
    Ok(measured(&result, &boots, gave_up.as_ref()))
}

/// This machine, where a boot that the host or the guest spoiled ends the rounds, and not the study.
struct Patient<'a> {
    here: Local<'static>,
    record: &'a Path,
    /// Ends the rounds.
    stop: &'a AtomicBool,
    /// The boot that ended them.
    gave_up: Option<Booted>,
}

impl Executor for Patient<'_> {
    fn prepare(&mut self) -> Result<String, ArmError> {
        self.here.prepare()
    }

    fn program(&self) -> &Path {
        self.here.program()
    }

    fn run(&mut self, arm: ArmId, order: &RunRequest) -> Result<Replicate, ArmError> {
        let before = read_record(self.record).len();
        let result = self.here.run(arm, order);
        if result.is_err() {
            // Without a boot that was written down it is no matter of the boots, and an error.
            self.gave_up = read_record(self.record).split_off(before).pop();
        }
        if interrupt::interrupted() || self.gave_up.is_some() {
            self.stop.store(true, Ordering::Relaxed);
        }
        result
    }

    fn caveats(&self) -> Vec<Caveat> {
        self.here.caveats()
    }
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
pub(super) fn check(study: &Study, file: &Path) -> anyhow::Result<()> {
    if study.measure.is_some() {
        Experiment::parse(Path::new("[measure]"), &experiment_text(study, Path::new(""))?)
            .with_context(|| format!("{} cannot be measured", file.display()))?;
    }
    Ok(())
}

/// The files that say how the kernels without and with the feature are booted.
fn trials(work: &Path) -> [PathBuf; 2] {
    ["without", "with"].map(|name| work.join(format!("trial-{name}.json")))
}

/// The experiment: what the study says, with a boot of each kernel in front of the workload.
fn experiment_text(study: &Study, work: &Path) -> anyhow::Result<String> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let mut table = study.measure.clone().unwrap_or_default();
    table.insert("title".to_owned(), study.title.clone().into());
    table.insert("question".to_owned(), study.question.clone().into());
    let probes = [&study.proof.without, &study.proof.with];
    let arms = ["baseline", "change"].into_iter().zip(ARMS).zip(trials(work).into_iter().zip(probes));
    for ((key, arm), (trial, probes)) in arms {
        let prefix = [&program.display().to_string(), "kernel", "trial", &trial.display().to_string(), "--"];
        let proofs = probes.iter().map(|probe| toml::Value::Table(proof(probe)));
        let mut form = toml::Table::new();
        form.insert("name".to_owned(), arm.into());
        form.insert("prefix".to_owned(), prefix.map(toml::Value::from).to_vec().into());
        form.insert("proof".to_owned(), proofs.collect::<Vec<_>>().into());
        table.insert(key.to_owned(), form.into());
    }
    Ok(toml::to_string(&table)?)
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
