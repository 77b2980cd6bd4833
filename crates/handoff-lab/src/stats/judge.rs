//! From rounds to a verdict: the estimate, what withholds or weakens it, and what to say.

use super::Interval;
use super::paired::hodges_lehmann;
use super::permute::sign_flip;
use super::power::{power_of_rounds, round_sd, rounds_needed, smallest_effect};
use super::sequential::Stopping;
use super::shape::{Autocorrelation, Bimodality, Drift, outliers};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Such as a time.
    Lower,
    /// Such as a throughput.
    Higher,
}

/// What an experiment says of one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// B is better than A, and more than the margin does not exclude that.
    Improved,
    /// B is worse than A.
    Regressed,
    /// The interval lies inside the margin: whatever the difference, nobody cares.
    Equivalent,
    /// The interval holds both no difference and one that matters.
    Inconclusive,
    /// The proof of activation failed: what was compared is not what was meant.
    NotActive,
    /// Something else forbids a verdict; the reasons say what.
    Withheld,
}

impl Verdict {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Improved => "improved",
            Self::Regressed => "regressed",
            Self::Equivalent => "equivalent",
            Self::Inconclusive => "not enough evidence",
            Self::NotActive => "not active",
            Self::Withheld => "withheld",
        }
    }
}

/// What a guard does to a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Said beside the verdict.
    Weakens,
    /// There is no verdict.
    Withholds,
}

/// A reason to trust a verdict less, or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caveat {
    #[serde(rename = "force")]
    pub severity: Severity,
    /// A stable name, such as `drift`.
    pub kind: String,
    /// A sentence for people.
    pub text: String,
}

impl Caveat {
    /// A caveat beside the verdict.
    #[must_use]
    pub fn weakens(kind: &str, text: impl Into<String>) -> Self {
        Self { severity: Severity::Weakens, kind: kind.to_owned(), text: text.into() }
    }

    /// A caveat instead of the verdict.
    #[must_use]
    pub fn withholds(kind: &str, text: impl Into<String>) -> Self {
        Self { severity: Severity::Withholds, kind: kind.to_owned(), text: text.into() }
    }
}

/// The values of one round, one run of each arm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The arm to compare with.
    pub a: f64,
    /// The same once more, to see what no difference looks like.
    pub again: f64,
    pub b: f64,
}

/// An estimate of a ratio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Hodges-Lehmann estimate of the ratio.
    pub ratio: f64,
    /// Its exact signed-rank interval.
    pub interval: Interval,
    /// Sign-flip p-value of the log-ratios.
    pub p: f64,
    /// Standard deviation of the log-ratios of single rounds: see [`round_sd`].
    pub round_sd: f64,
    pub rounds: usize,
}

impl Estimate {
    /// From the log-ratio of each round.
    #[must_use]
    pub fn of(log_ratios: &[f64], level: f64) -> Self {
        let (log, log_interval) = hodges_lehmann(log_ratios, level);
        Self {
            ratio: log.exp(),
            interval: log_interval.map(f64::exp),
            p: sign_flip(log_ratios).p,
            round_sd: round_sd(log_ratios, log_interval),
            rounds: log_ratios.len(),
        }
    }

    pub fn percent(&self) -> f64 {
        (self.ratio - 1.0) * 100.0
    }
}

/// The question, fixed before the first round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    pub direction: Direction,
    /// The share below which a difference does not matter, such as 0.02.
    pub margin: f64,
    pub stopping: Stopping,
}

/// All that is said of one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    pub verdict: Verdict,
    pub change: Estimate,
    /// A' against A: what no difference looks like here.
    pub noise: Estimate,
    /// What withholds or weakens the verdict.
    pub caveats: Vec<Caveat>,
    /// Rounds that are outliers: counted from 0, shown, never dropped.
    pub outliers: Vec<usize>,
    /// The smallest share that these rounds find in 4 of 5 runs.
    pub smallest_effect: f64,
    /// Rounds that would settle an inconclusive question, if any number would.
    pub rounds_to_settle: Option<u64>,
}

/// The log-ratios B/A and A'/A. B is compared with A alone, though the mean of both runs of A is less
/// noisy: only the difference of two single runs is symmetric where there is no effect, whatever the
/// shape of the noise, and that is what makes the interval and the p-value exact.
pub fn log_ratios(rounds: &[Round]) -> (Vec<f64>, Vec<f64>) {
    let change = rounds.iter().map(|r| r.b.ln() - r.a.ln()).collect();
    let noise = rounds.iter().map(|r| r.again.ln() - r.a.ln()).collect();
    (change, noise)
}

/// Judges. `outside` are the caveats that the numbers cannot know: a failed proof (kind `proof`), lost
/// trace events, a changed environment. All values must be above 0.
pub fn judge(question: &Question, rounds: &[Round], outside: Vec<Caveat>) -> Judgement {
    let (change_logs, noise_logs) = log_ratios(rounds);
    let alpha = question.stopping.alpha();
    let change = Estimate::of(&change_logs, 1.0 - alpha);
    // A'/A withholds a verdict, so it is asked at 1%: at 5% every twentieth good run would be lost.
    let noise = Estimate::of(&noise_logs, 0.99);
    let margin = question.margin.ln_1p();
    let mut caveats = outside;
    caveats.extend(noise_caveat(&noise));
    caveats.extend(shape_caveats(rounds, &change_logs));
    let verdict = verdict(question, &change, &caveats);
    let power = 0.8;
    // What would settle it: finding the effect that was seen, or else narrowing down to the margin.
    let seen = change.ratio.ln().abs();
    let target = if seen > margin { seen } else { margin };
    let open = verdict == Verdict::Inconclusive && margin > 0.0;
    Judgement {
        smallest_effect: smallest_effect(rounds.len(), change.round_sd, alpha, power).exp_m1(),
        rounds_to_settle: open
            .then(|| rounds_needed(target, change.round_sd, alpha, power))
            .flatten()
            .map(|rounds| rounds.max(change.rounds as u64 + 1)),
        outliers: outliers(&change_logs, 5.0),
        verdict,
        change,
        noise,
        caveats,
    }
}

fn verdict(question: &Question, change: &Estimate, caveats: &[Caveat]) -> Verdict {
    if caveats.iter().any(|caveat| caveat.kind == "proof" && caveat.severity == Severity::Withholds) {
        return Verdict::NotActive;
    }
    if caveats.iter().any(|caveat| caveat.severity == Severity::Withholds) {
        return Verdict::Withheld;
    }
    let interval = change.interval;
    if !interval.is_bounded() {
        return Verdict::Inconclusive;
    }
    let margin = 1.0 + question.margin;
    if 1.0 / margin < interval.low && interval.high < margin {
        return Verdict::Equivalent;
    }
    match (interval.high < 1.0, interval.low > 1.0, question.direction) {
        (true, _, Direction::Lower) | (_, true, Direction::Higher) => Verdict::Improved,
        (true, _, Direction::Higher) | (_, true, Direction::Lower) => Verdict::Regressed,
        _ => Verdict::Inconclusive,
    }
}

fn noise_caveat(noise: &Estimate) -> Option<Caveat> {
    (noise.interval.is_bounded() && !noise.interval.contains(1.0)).then(|| {
        Caveat::withholds(
            "noise",
            format!(
                "two runs of the same arm differ by {:+.1}% ({:+.1}% to {:+.1}%): whatever makes them differ \
                 is in the comparison as well",
                noise.percent(),
                (noise.interval.low - 1.0) * 100.0,
                (noise.interval.high - 1.0) * 100.0
            ),
        )
    })
}

fn shape_caveats(rounds: &[Round], change: &[f64]) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let drift = Drift::of(change);
    if drift.is_clear() {
        caveats.push(Caveat::weakens(
            "drift",
            format!(
                "the difference itself changed over the run (Spearman {:.2}, p {:.4}): it has no single size",
                drift.rho, drift.p
            ),
        ));
    }
    let autocorrelation = Autocorrelation::of(change);
    if autocorrelation.is_clear() {
        caveats.push(Caveat::weakens(
            "autocorrelation",
            format!(
                "neighbouring rounds resemble each other (lag 1: {:.2}): {} rounds are worth about {:.0}, and \
                 the interval is too narrow",
                autocorrelation.lag1,
                change.len(),
                autocorrelation.worth(change.len())
            ),
        ));
    }
    for (name, values) in [
        ("A", rounds.iter().flat_map(|r| [r.a, r.again]).collect::<Vec<_>>()),
        ("B", rounds.iter().map(|r| r.b).collect()),
    ] {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        if let Some(modes) = Bimodality::of(&logs) {
            caveats.push(Caveat::weakens(
                "bimodal",
                format!(
                    "the runs of {name} fall into two groups, around {} and {} ({:.0}% in the upper): the \
                     difference may be how often each is hit, so look at the distributions",
                    short(modes.low.exp()),
                    short(modes.high.exp()),
                    modes.upper_share * 100.0
                ),
            ));
        }
    }
    caveats
}

pub(crate) fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    format!("{value:.*}", usize::try_from(digits).unwrap_or(0).min(12))
}

impl Judgement {
    /// The verdict in one or two plain sentences, for a metric of this name.
    pub fn sentence(&self, metric: &str, question: &Question) -> String {
        self.sentence_of("B against A", metric, question)
    }

    /// The same, with the two arms called otherwise than `B against A`.
    pub fn sentence_of(&self, pair: &str, metric: &str, question: &Question) -> String {
        let change = &self.change;
        let interval = change.interval;
        let span = format!(
            "{:+.1}% [{:+.1}%, {:+.1}%], {} rounds",
            change.percent(),
            (interval.low - 1.0) * 100.0,
            (interval.high - 1.0) * 100.0,
            change.rounds
        );
        let margin = question.margin * 100.0;
        match self.verdict {
            Verdict::Improved | Verdict::Regressed => {
                format!("{metric} {}: {pair} is {span}.", self.verdict.word())
            }
            Verdict::Equivalent => {
                format!("{metric} is equivalent within {margin:.1}%: {pair} is {span}.")
            }
            Verdict::Inconclusive if !interval.is_bounded() => format!(
                "{metric}: not enough evidence: {} too few for an interval at this level.",
                if change.rounds == 1 {
                    "1 round is".to_owned()
                } else {
                    format!("{} rounds are", change.rounds)
                }
            ),
            Verdict::Inconclusive => {
                let settle = self.rounds_to_settle.map_or_else(
                    || "no practical number of rounds would settle it".to_owned(),
                    |rounds| format!("about {rounds} rounds would settle it"),
                );
                format!(
                    "{metric}: not enough evidence: {pair} is {span}. These rounds could have seen \
                     {:.1}% or more; {settle}.",
                    self.smallest_effect * 100.0
                )
            }
            Verdict::NotActive | Verdict::Withheld => {
                let why: Vec<&str> = self
                    .caveats
                    .iter()
                    .filter(|caveat| caveat.severity == Severity::Withholds)
                    .map(|caveat| caveat.text.as_str())
                    .collect();
                format!("{metric}: {}: {}.", self.verdict.word(), why.join("; "))
            }
        }
    }

    /// The chance that as many rounds would have found a difference of this share.
    pub fn power(&self, share: f64) -> f64 {
        let alpha = 1.0 - self.change.interval.level;
        power_of_rounds(share.ln_1p(), self.change.round_sd, self.change.rounds, alpha)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::Random;

    fn rounds(seed: u64, n: usize, factor: f64, sd: f64) -> Vec<Round> {
        let mut random = Random::new(seed);
        let mut value = |factor: f64| 10.0 * factor * (sd * random.normal()).exp();
        (0..n).map(|_| Round { a: value(1.0), again: value(1.0), b: value(factor) }).collect()
    }

    fn question(direction: Direction) -> Question {
        Question { direction, margin: 0.02, stopping: Stopping::Fixed { rounds: 20 } }
    }

    #[test]
    fn direction_decides_what_is_better() {
        let slower = rounds(1, 20, 1.2, 0.03);
        assert_eq!(judge(&question(Direction::Lower), &slower, vec![]).verdict, Verdict::Regressed);
        assert_eq!(judge(&question(Direction::Higher), &slower, vec![]).verdict, Verdict::Improved);
        let faster = rounds(1, 20, 0.8, 0.03);
        assert_eq!(judge(&question(Direction::Lower), &faster, vec![]).verdict, Verdict::Improved);
    }

    #[test]
    fn little_noise_is_equivalent_and_much_is_not_enough() {
        let quiet = judge(&question(Direction::Lower), &rounds(2, 20, 1.0, 0.005), vec![]);
        assert_eq!(quiet.verdict, Verdict::Equivalent, "{quiet:#?}");
        let loud = judge(&question(Direction::Lower), &rounds(2, 20, 1.0, 0.3), vec![]);
        assert_eq!(loud.verdict, Verdict::Inconclusive, "{loud:#?}");
        assert!(loud.rounds_to_settle.is_some_and(|rounds| rounds > 20), "{loud:#?}");
        assert!(loud.sentence("time", &question(Direction::Lower)).contains("could have seen"));
    }

    #[test]
    fn a_failed_proof_is_never_improved() {
        let proof = Caveat::withholds("proof", "the counter did not move");
        let judged = judge(&question(Direction::Lower), &rounds(3, 20, 0.5, 0.01), vec![proof]);
        assert_eq!(judged.verdict, Verdict::NotActive);
        assert!(judged.sentence("time", &question(Direction::Lower)).contains("the counter did not move"));
    }

    #[test]
    fn arms_that_are_the_same_and_differ_withhold() {
        let mut biased = rounds(4, 20, 0.8, 0.01);
        for round in &mut biased {
            round.again *= 1.1;
        }
        let judged = judge(&question(Direction::Lower), &biased, vec![]);
        assert_eq!(judged.verdict, Verdict::Withheld);
        assert_eq!(judged.caveats[0].kind, "noise");
    }

    #[test]
    fn modes_drift_and_outliers_are_said() {
        let mut two = rounds(5, 30, 1.0, 0.02);
        for round in two.iter_mut().step_by(3) {
            round.b *= 15.0;
        }
        let judged = judge(&question(Direction::Lower), &two, vec![]);
        assert!(judged.caveats.iter().any(|caveat| caveat.kind == "bimodal"), "{judged:#?}");
        let mut drifting = rounds(6, 20, 1.0, 0.01);
        for (index, round) in drifting.iter_mut().enumerate() {
            round.b *= 1.0 + 0.02 * index as f64;
        }
        let judged = judge(&question(Direction::Lower), &drifting, vec![]);
        let kinds: Vec<_> = judged.caveats.iter().map(|caveat| caveat.kind.as_str()).collect();
        assert!(kinds.contains(&"drift") && kinds.contains(&"autocorrelation"), "{kinds:?}");
        let mut wild = rounds(7, 20, 1.0, 0.01);
        wild[4].b *= 9.0;
        assert_eq!(judge(&question(Direction::Lower), &wild, vec![]).outliers, [4]);
    }

    #[test]
    fn too_few_rounds_are_no_evidence_and_survive_json() {
        let judged = judge(&question(Direction::Lower), &rounds(8, 3, 0.5, 0.01), vec![]);
        assert_eq!(judged.verdict, Verdict::Inconclusive);
        let text = serde_json::to_string(&judged).expect("it serialises");
        let back: Judgement = serde_json::from_str(&text).expect("it parses");
        assert_eq!(back.verdict, Verdict::Inconclusive);
        assert!(judged.sentence("time", &question(Direction::Lower)).contains("3 rounds are too few"));
    }

    #[test]
    fn three_digits() {
        assert_eq!(short(123.456), "123");
        assert_eq!(short(0.012_345), "0.0123");
        assert_eq!(short(1.0), "1.00");
        assert_eq!(short(98_765.4), "98765");
        assert_eq!(short(0.0), "0");
    }
}
