//! The lab's part of a study: rounds of boots of both kernels, and the verdict.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use handoff_kernel::document::{Block, code, plain};
use handoff_kernel::prove::{Expectation, Probe};
use handoff_kernel::study::{Boot, Measured, Study, StudyError};
use handoff_lab::experiment::file::Experiment;
use handoff_lab::experiment::journal::state_folder;
use handoff_lab::experiment::result::{ExperimentResult, MetricResult};
use handoff_lab::experiment::runner::{self, Event};
use handoff_lab::experiment::target::Here;
use handoff_lab::stats::judge::Verdict;
use handoff_lab::store::Store;

use super::trial::{Booted, Plan, counter_name, read_record};
use crate::interrupt;

const ARMS: [&str; 2] = ["without the feature", "with the feature"];
const REPORT: &str = "measurement.html";

/// Compares both kernels; goes on with rounds of an earlier run.
pub(super) fn measure(study: &Study, boots: [&Boot; 2], work: &Path) -> Result<Measured, StudyError> {
    compare(study, boots, work).map_err(|error| StudyError::Measure(format!("{error:#}")))
}

fn compare(study: &Study, boots: [&Boot; 2], work: &Path) -> anyhow::Result<Measured> {
    let work = work.canonicalize().context("cannot find the work folder")?;
    let record = work.join("boots.jsonl");
    let text = experiment_text(study, boots, &work, &record)?;
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
    let options = runner::Options {
        command: format!("handoff lab run {}", file.display()),
        stop: Some(interrupt::flag()),
        resume,
    };
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let stop = Some(interrupt::flag());
    // The guests are booted by what stands in front of the workload: see `trial`.
    let mut target = Here::new(program, &state_folder(), stop)?;
    let result = runner::run(&experiment, options, &mut target, &mut |event| {
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
    })?;
    if result.ending == handoff_lab::experiment::result::Ending::Interrupted {
        anyhow::bail!(
            "interrupted after {} rounds, which are kept: the same command goes on",
            result.rounds.len()
        );
    }
    if let Some(id) = id {
        store.finish(id, &result)?;
    }
    fs::write(work.join(REPORT), handoff_lab::report::experiment::html(&result)?)
        .context("cannot write the lab's report")?;
    Ok(measured(&result, &read_record(&record)))
}

/// The experiment: what the study says, with a boot of each kernel in front of the workload.
fn experiment_text(study: &Study, boots: [&Boot; 2], work: &Path, record: &Path) -> anyhow::Result<String> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let mut table = study.measure.clone().unwrap_or_default();
    table.insert("title".to_owned(), study.title.clone().into());
    table.insert("question".to_owned(), study.question.clone().into());
    let names = [("baseline", "without"), ("change", "with")];
    for ((key, name), (boot, arm)) in names.into_iter().zip(boots.into_iter().zip(ARMS)) {
        let plan =
            Plan { arm: arm.to_owned(), boot: boot.clone(), quiet: study.quiet, record: record.to_owned() };
        let file = work.join(format!("trial-{name}.json"));
        fs::write(&file, serde_json::to_vec_pretty(&plan)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        let prefix = [&program.display().to_string(), "kernel", "trial", &file.display().to_string(), "--"];
        let proofs = boot.probes.iter().map(|probe| toml::Value::Table(proof(probe)));
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

fn measured(result: &ExperimentResult, boots: &[Booted]) -> Measured {
    let answer = result.verdict();
    let mut blocks = vec![
        Block::Heading(2, "Measurement".to_owned()),
        Block::Text(format!("**{}**: {}", answer.word(), plain(&result.primary.sentence))),
    ];
    let metrics = std::iter::once(&result.primary).chain(&result.secondary);
    blocks.push(Block::table(
        &[
            "metric",
            "without",
            "without, again",
            "with",
            "with / without, 95%",
            "again / without, 95%",
            "verdict",
        ],
        metrics.map(row).collect(),
    ));
    let mut notes = vec![format!(
        "{} rounds, each a boot of the kernel without, of the same again, and of the one with the feature, in an \
         order dealt anew (seed {}); {}",
        result.rounds.len(),
        result.header.seed,
        result.ending.describe()
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
    Measured { summary: format!("{}: {}", answer.word(), result.primary.sentence), good, blocks }
}

fn row(metric: &MetricResult) -> Vec<String> {
    let [without, again, with] = metric.medians.map(|median| format!("{median:.5} {}", metric.unit));
    let judgement = &metric.judgement;
    let ratio = |estimate: &handoff_lab::stats::judge::Estimate| {
        format!("{:.3} [{:.3}, {:.3}]", estimate.ratio, estimate.interval.low, estimate.interval.high)
    };
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

/// What is to be said of the boots themselves.
fn kinds(boots: &[Booted]) -> Vec<String> {
    let mut notes = Vec::new();
    let rejected: Vec<&str> = boots.iter().filter_map(|boot| boot.rejected.as_deref()).collect();
    let others =
        boots.iter().filter(|boot| boot.rejected.is_none()).map(|boot| boot.others).fold(0.0, f64::max);
    notes.push(format!(
        "{} boots count, during which others used {:.0}% of the host's CPUs at most; {} were rejected{}{}",
        boots.len() - rejected.len(),
        others * 100.0,
        rejected.len(),
        if rejected.is_empty() { "" } else { ": " },
        rejected.iter().take(5).copied().collect::<Vec<_>>().join("; ")
    ));
    if boots.iter().any(|boot| boot.kvm == Some(false)) {
        notes.push(
            "the guests were translated (TCG), which has no caches and schedules virtual CPUs as threads: the \
             direction need not carry over to hardware"
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_boots_are_told_with_the_reason() {
        let boot = |rejected: Option<&str>, others| Booted {
            arm: "a".to_owned(),
            rejected: rejected.map(str::to_owned),
            others,
            boot_seconds: Some(2.0),
            kvm: Some(false),
        };
        let notes = kinds(&[boot(None, 0.04), boot(Some("others used 60%"), 0.6), boot(None, 0.02)]);
        assert!(notes[0].contains("2 boots count") && notes[0].contains("used 4%"), "{notes:?}");
        assert!(
            notes[0].contains("1 were rejected: others used 60%") && notes[1].contains("TCG"),
            "{notes:?}"
        );
    }

    #[test]
    fn probes_become_proofs() {
        let of = |text: &str| toml::to_string(&proof(&text.parse().expect("a probe"))).expect("toml");
        assert_eq!(of("function:f, zero"), "counter = \"function:f\"\nexpect = \"zero\"\n");
        assert_eq!(of("function:f, >= 5/s"), "counter = \"function:f per second\"\nexpect = \">= 5\"\n");
    }
}
