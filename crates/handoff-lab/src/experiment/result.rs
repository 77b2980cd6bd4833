//! What a run of an experiment found: the verdict, and everything that it rests on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ArmId;
use super::difference::Difference;
use super::task::MetricSemantics;
use crate::doctor::{Diagnosis, Finding, Level};
use crate::stats::holm;
use crate::stats::judge::{Caveat, Direction, Judgement, Question, Round, Severity, Verdict, judge};
use crate::stats::sequential::Stopping;

/// One run of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub values: BTreeMap<String, f64>,
    /// Growth of the counters of the arm's proofs, by their description; `None` if nobody counted.
    pub proofs: BTreeMap<String, Option<f64>>,
    /// What happened to the machine meanwhile, in words.
    pub flags: Vec<String>,
}

/// One round: a run of each arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// Counted from 1.
    pub number: usize,
    /// The order in which the arms ran.
    pub order: Vec<ArmId>,
    pub samples: BTreeMap<ArmId, Sample>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The stopping rule said so.
    Finished,
    Budget,
    /// Somebody stopped it, or it died.
    Interrupted,
}

impl Ending {
    pub fn describe(self) -> &'static str {
        match self {
            Self::Finished => "with all rounds that its rule asked for",
            Self::Budget => "until its time was spent",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A proof over all rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProofResult {
    pub arm: String,
    /// What was to be seen.
    pub what: String,
    /// The least and the greatest growth of a run.
    pub range: Option<(f64, f64)>,
    /// In how many runs it did not hold, or was not counted.
    pub failures: usize,
    pub runs: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricResult {
    pub name: String,
    pub unit: String,
    pub question: Question,
    pub judgement: Judgement,
    pub sentence: String,
    /// Holm's adjusted p-value, for a secondary metric.
    pub adjusted_p: Option<f64>,
    /// Medians of A, A' and B.
    pub medians: [f64; 3],
}

impl MetricResult {
    /// Such as `wall (s)`; the bare name where nobody said a unit.
    pub fn name_with_unit(&self) -> String {
        if self.unit.is_empty() { self.name.clone() } else { format!("{} ({})", self.name, self.unit) }
    }
}

/// What is known of a run before any of its figures are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of this form: [`ExperimentResult::SCHEMA`].
    pub schema: u32,
    pub version: String,
    pub title: String,
    pub question: String,
    /// Names of the baseline and the change.
    pub arms: [String; 2],
    /// What distinguishes them. Results of earlier versions do not say.
    #[serde(default)]
    pub changes: Vec<Difference>,
    /// What both have, in words.
    #[serde(default)]
    pub common: Vec<String>,
    /// Where the arms ran: this machine, or a guest.
    #[serde(default = "this_machine")]
    pub place: String,
    /// When it began, in UTC.
    pub started: String,
    /// The command that repeats it.
    pub command: String,
    /// The seed of the order of runs.
    pub seed: u64,
    pub file: String,
    /// The machine before the first run.
    pub before: Diagnosis,
}

/// Results of earlier versions are all of this machine.
fn this_machine() -> String {
    "this machine".to_owned()
}

/// Everything that a run found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentResult {
    #[serde(flatten)]
    pub header: Header,
    pub ending: Ending,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// CPU time of the lab by that of everything that it ran, in 0 .. 1; `None` if nothing ran.
    pub overhead: Option<f64>,
    /// The metric of the verdict.
    pub primary: MetricResult,
    pub secondary: Vec<MetricResult>,
    /// Secondary metrics that no ratio can be made of, and why.
    pub unusable: Vec<String>,
    /// Whether the arms were active.
    pub proofs: Vec<ProofResult>,
    /// The machine after the last run.
    pub after: Diagnosis,
    pub rounds: Vec<RoundRecord>,
}

impl ExperimentResult {
    /// The present version of the form.
    pub const SCHEMA: u32 = 1;

    /// The verdict on the primary metric.
    pub fn verdict(&self) -> Verdict {
        self.primary.judgement.verdict
    }

    /// What was judged: the primary metric first.
    pub fn metrics(&self) -> impl Iterator<Item = &MetricResult> {
        std::iter::once(&self.primary).chain(&self.secondary)
    }

    /// The unit of a metric; empty if it has none or nobody said.
    pub fn unit_of(&self, metric: &str) -> &str {
        let known =
            self.metrics().map(|one| (one.name.as_str(), one.unit.as_str())).chain(super::task::USAGE);
        known.into_iter().find(|(name, _)| *name == metric).map_or("", |(_, unit)| unit)
    }

    /// Runs in which something happened to the machine.
    pub fn disturbed(&self) -> usize {
        self.rounds
            .iter()
            .flat_map(|round| round.samples.values())
            .filter(|sample| !sample.flags.is_empty())
            .count()
    }

    /// The values of a metric: one triple a round.
    pub fn triples(&self, metric: &str) -> Vec<Round> {
        triples(&self.rounds, metric).unwrap_or_default()
    }
}

/// The values of a metric, or why there are none.
fn triples(rounds: &[RoundRecord], metric: &str) -> Result<Vec<Round>, String> {
    let value = |round: &RoundRecord, arm: ArmId| {
        let value = round.samples.get(&arm).and_then(|sample| sample.values.get(metric)).copied();
        let value = value.ok_or_else(|| format!("{metric} was not measured in round {}", round.number))?;
        if value > 0.0 && value.is_finite() {
            return Ok(value);
        }
        let (number, arm) = (round.number, arm.name());
        Err(format!("{metric} is {value} in round {number}, arm {arm}: no ratio can be made of it"))
    };
    rounds
        .iter()
        .map(|round| {
            Ok(Round {
                a: value(round, ArmId::A)?,
                again: value(round, ArmId::Control)?,
                b: value(round, ArmId::B)?,
            })
        })
        .collect()
}

/// A metric that was asked for.
#[derive(Debug, Clone)]
pub struct RequestedMetric {
    pub name: String,
    /// Which way is better, if the file says.
    pub better: Option<Direction>,
    /// The share below which a difference does not matter.
    pub margin: f64,
}

/// What [`conclude`] needs beside the rounds.
#[derive(Debug, Clone)]
pub struct Evidence<'a> {
    pub stopping: &'a Stopping,
    pub semantics: &'a BTreeMap<String, MetricSemantics>,
    pub arms: &'a [String; 2],
    /// Proofs of the baseline and the change.
    pub proofs: [&'a [super::proof::Proof]; 2],
    /// The machine before and after.
    pub machine: (&'a Diagnosis, &'a Diagnosis),
    /// What the machine that ran the arms does to every verdict.
    pub target: Vec<Caveat>,
}

/// The conclusion of all rounds.
#[derive(Debug, Clone)]
pub struct Conclusion {
    pub primary: MetricResult,
    /// See [`ExperimentResult::secondary`].
    pub secondary: Vec<MetricResult>,
    pub unusable: Vec<String>,
    pub proofs: Vec<ProofResult>,
}

pub fn conclude(
    rounds: &[RoundRecord],
    primary: &RequestedMetric,
    secondary: &[RequestedMetric],
    evidence: &Evidence<'_>,
) -> Result<Conclusion, String> {
    let proofs = proofs(rounds, evidence);
    let mut caveats: Vec<Caveat> = proofs.iter().filter_map(proof_caveat).collect();
    caveats.extend(machine_caveats(rounds, evidence.machine));
    caveats.extend(evidence.target.iter().cloned());
    let metric = |asked: &RequestedMetric| -> Result<MetricResult, String> {
        let values = triples(rounds, &asked.name)?;
        let meaning = evidence.semantics.get(&asked.name);
        let direction = asked.better.or_else(|| meaning.and_then(|meaning| meaning.better));
        let question = Question {
            direction: direction.unwrap_or(Direction::Lower),
            margin: asked.margin,
            stopping: evidence.stopping.clone(),
        };
        let judgement = judge(&question, &values, caveats.clone());
        let median = |pick: fn(&Round) -> f64| {
            crate::stats::describe::median(&values.iter().map(pick).collect::<Vec<_>>())
        };
        Ok(MetricResult {
            name: asked.name.clone(),
            unit: meaning.map_or_else(String::new, |meaning| meaning.unit.clone()),
            sentence: judgement.sentence(&asked.name, &question),
            question,
            judgement,
            adjusted_p: None,
            medians: [median(|r| r.a), median(|r| r.again), median(|r| r.b)],
        })
    };
    let primary = metric(primary)?;
    let (mut found, mut unusable) = (Vec::new(), Vec::new());
    for asked in secondary {
        match metric(asked) {
            Ok(result) => found.push(result),
            Err(reason) => unusable.push(reason),
        }
    }
    let adjusted = holm::adjust(&found.iter().map(|metric| metric.judgement.change.p).collect::<Vec<_>>());
    for (metric, p) in found.iter_mut().zip(adjusted) {
        metric.adjusted_p = Some(p);
        // One of several metrics that is significant alone only is not evidence.
        let claims = matches!(metric.judgement.verdict, Verdict::Improved | Verdict::Regressed);
        if claims && p > 0.05 {
            metric.judgement.verdict = Verdict::Inconclusive;
            let text = format!("one of several metrics: its p adjusted by Holm's method is {p:.3}");
            metric.judgement.caveats.push(Caveat::weakens("several-metrics", text));
            metric.sentence = metric.judgement.sentence(&metric.name, &metric.question);
        }
    }
    Ok(Conclusion { primary, secondary: found, unusable, proofs })
}

fn proofs(rounds: &[RoundRecord], evidence: &Evidence<'_>) -> Vec<ProofResult> {
    let mut results = Vec::new();
    for (arm, proofs) in evidence.proofs.iter().enumerate() {
        let ids: &[ArmId] = if arm == 0 { &[ArmId::A, ArmId::Control] } else { &[ArmId::B] };
        for proof in *proofs {
            let what = proof.describe();
            let growths: Vec<Option<f64>> = rounds
                .iter()
                .flat_map(|round| ids.iter().filter_map(|id| round.samples.get(id)))
                .map(|sample| sample.proofs.get(&what).copied().flatten())
                .collect();
            let counted = || growths.iter().flatten().copied();
            let range = counted().next().map(|_| {
                (counted().fold(f64::INFINITY, f64::min), counted().fold(f64::NEG_INFINITY, f64::max))
            });
            let holds = |growth: &&Option<f64>| growth.is_some_and(|growth| proof.expect.holds(growth));
            results.push(ProofResult {
                arm: evidence.arms[arm].clone(),
                range,
                failures: growths.len() - growths.iter().filter(holds).count(),
                runs: growths.len(),
                what,
            });
        }
    }
    results
}

fn proof_caveat(proof: &ProofResult) -> Option<Caveat> {
    if proof.failures == 0 {
        return None;
    }
    let seen = proof.range.map_or_else(
        || "nobody counted it".to_owned(),
        |(low, high)| {
            format!("it was {} to {}", crate::stats::judge::short(low), crate::stats::judge::short(high))
        },
    );
    Some(Caveat::withholds(
        "proof",
        format!(
            "{} was to show {}, but in {} of {} runs it did not ({seen})",
            proof.arm, proof.what, proof.failures, proof.runs
        ),
    ))
}

/// Whether the machine became another one between two findings of the same thing, in a way that may move a figure.
fn changed_meanwhile(before: &Finding, after: &Finding) -> bool {
    if before.level.max(after.level) < Level::Warning {
        return false;
    }
    match after.id.as_str() {
        // Each run is flagged with the steal time that it had; the share since boot tells of other times as well.
        "virtual.steal" => false,
        // The lab's own runs are load.
        load if load.starts_with("load.") => false,
        // An amount that is never the same twice: what counts is that it became too little, or enough.
        "memory.swap" => before.level != after.level,
        _ => before.observed != after.observed,
    }
}

fn machine_caveats(rounds: &[RoundRecord], (before, after): (&Diagnosis, &Diagnosis)) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let changed: Vec<&str> = after
        .findings
        .iter()
        .filter(|finding| before.finding(&finding.id).is_some_and(|old| changed_meanwhile(old, finding)))
        .map(|finding| finding.topic.as_str())
        .collect();
    if !changed.is_empty() {
        let text = format!("the machine changed during the run: {}", changed.join(", "));
        caveats.push(Caveat::withholds("environment", text));
    }
    let runs = rounds.iter().flat_map(|round| round.samples.values());
    let (all, disturbed) = runs.fold((0, 0), |(all, disturbed), sample| {
        (all + 1, disturbed + usize::from(!sample.flags.is_empty()))
    });
    if disturbed * 4 > all {
        let text = format!("something happened to the machine in {disturbed} of {all} runs: see the rounds");
        caveats.push(Caveat::weakens("disturbed", text));
    }
    let serious: Vec<&str> = before.at_least(Level::Serious).map(|finding| finding.topic.as_str()).collect();
    if !serious.is_empty() {
        let text = format!("the machine is not fit for figures that are published: {}", serious.join(", "));
        caveats.push(Caveat { severity: Severity::Weakens, kind: "machine".to_owned(), text });
    }
    caveats
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::experiment::proof::{Expect, Proof, Source};
    use crate::stats::random::Random;

    /// Rounds with metrics `time` and `other`, and the proof of B as given.
    pub(crate) fn rounds(n: usize, factor: f64, proof: f64) -> Vec<RoundRecord> {
        let mut random = Random::new(5);
        (1..=n)
            .map(|number| {
                let samples = ArmId::ALL.map(|arm| {
                    let of_b = if arm == ArmId::B { factor } else { 1.0 };
                    let mut noise = || (0.01 * random.normal()).exp();
                    let values = BTreeMap::from([
                        ("time".to_owned(), 2.0 * of_b * noise()),
                        ("other".to_owned(), noise()),
                        ("zero".to_owned(), 0.0),
                    ]);
                    let proofs = BTreeMap::from([("hits increases".to_owned(), Some(proof))]);
                    (arm, Sample { values, proofs, flags: Vec::new() })
                });
                RoundRecord { number, order: ArmId::ALL.to_vec(), samples: samples.into() }
            })
            .collect()
    }

    fn asked(name: &str) -> RequestedMetric {
        RequestedMetric { name: name.into(), better: None, margin: 0.02 }
    }

    fn concluded(proof: f64) -> Conclusion {
        let machine = Diagnosis { machine: Vec::new(), findings: Vec::new() };
        concluded_on(proof, (&machine, &machine))
    }

    fn concluded_on(proof: f64, machine: (&Diagnosis, &Diagnosis)) -> Conclusion {
        let semantics = MetricSemantics { unit: "s".into(), better: Some(Direction::Lower) };
        let proofs = [Proof {
            counter: "hits".into(),
            source: Source::Workload,
            expect: Expect::Increases,
            per_second: false,
        }];
        let evidence = Evidence {
            stopping: &Stopping::Fixed { rounds: 20 },
            semantics: &BTreeMap::from([("time".to_owned(), semantics)]),
            arms: &["off".to_owned(), "on".to_owned()],
            proofs: [&[], &proofs],
            machine,
            target: Vec::new(),
        };
        let secondary = [asked("other"), asked("zero"), asked("missing")];
        conclude(&rounds(20, 0.9, proof), &asked("time"), &secondary, &evidence).expect("a conclusion")
    }

    /// A whole result of ten rounds.
    pub(crate) fn result() -> ExperimentResult {
        let Conclusion { primary, secondary, unusable, proofs } = concluded(3.0);
        let machine = Diagnosis { machine: Vec::new(), findings: Vec::new() };
        ExperimentResult {
            header: Header {
                schema: ExperimentResult::SCHEMA,
                version: "0".into(),
                title: "t".into(),
                question: String::new(),
                arms: ["off".into(), "on".into()],
                changes: Vec::new(),
                common: Vec::new(),
                place: this_machine(),
                started: "2026-01-01T00:00:00Z".into(),
                command: "handoff lab run".into(),
                seed: 1,
                file: "x".into(),
                before: machine.clone(),
            },
            ending: Ending::Finished,
            seconds: 1.0,
            overhead: None,
            primary,
            secondary,
            unusable,
            proofs,
            after: machine,
            rounds: rounds(10, 0.9, 3.0),
        }
    }

    #[test]
    fn active_and_faster_is_improved() {
        let conclusion = concluded(3.0);
        assert_eq!(conclusion.primary.judgement.verdict, Verdict::Improved, "{conclusion:#?}");
        assert_eq!(conclusion.primary.unit, "s");
        assert_eq!(conclusion.secondary.len(), 1);
        assert_eq!(conclusion.unusable.len(), 2);
        assert!(conclusion.unusable[0].contains("zero is 0 in round 1"));
        assert!(conclusion.secondary[0].adjusted_p.is_some());
    }

    #[test]
    fn a_verdict_is_withheld_if_a_setting_changed_and_not_for_an_amount_that_always_does() {
        let found = |id: &str, level, observed: &str| Diagnosis {
            machine: Vec::new(),
            findings: vec![Finding {
                id: id.to_owned(),
                level,
                topic: id.to_owned(),
                observed: observed.to_owned(),
                effect: String::new(),
                remedy: String::new(),
            }],
        };
        let (fine, warning) = (Level::Fine, Level::Warning);
        for (id, before, after, verdict) in [
            ("cpu.governor", (warning, "powersave"), (warning, "powersave"), Verdict::Improved),
            ("cpu.governor", (warning, "powersave"), (warning, "schedutil"), Verdict::Withheld),
            ("cpu.governor", (warning, "powersave"), (fine, "performance"), Verdict::Withheld),
            ("virtual.steal", (warning, "1.37%"), (warning, "1.38%"), Verdict::Improved),
            ("load.average", (warning, "0.80 tasks"), (warning, "1.20 tasks"), Verdict::Improved),
            ("memory.swap", (warning, "90 MiB available"), (warning, "91 MiB available"), Verdict::Improved),
            ("memory.swap", (fine, "900 MiB available"), (warning, "90 MiB available"), Verdict::Withheld),
        ] {
            let (before, after) = (found(id, before.0, before.1), found(id, after.0, after.1));
            let conclusion = concluded_on(3.0, (&before, &after));
            assert_eq!(conclusion.primary.judgement.verdict, verdict, "{id}: {before:?} {after:?}");
        }
    }

    #[test]
    fn faster_without_the_proof_is_not_active() {
        let conclusion = concluded(0.0);
        assert_eq!(conclusion.primary.judgement.verdict, Verdict::NotActive);
        assert_eq!((conclusion.proofs[0].failures, conclusion.proofs[0].runs), (20, 20));
        assert!(
            conclusion.primary.sentence.contains("on was to show hits increases"),
            "{}",
            conclusion.primary.sentence
        );
    }
}
