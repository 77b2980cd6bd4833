//! Where a series of runs changed its level, and how sure that is.
//!
//! Hierarchical estimation of change points with a permutation test (the scheme of Matteson and James, JASA
//! 109, 2014), on ranks, so that neither the shape of the noise nor a single wild run matters (as Pettitt's
//! test does, Applied Statistics 28, 1979). A step looks at the best split of any segment into two, and at
//! the best stretch that differs from what is on both sides of it (Olshen et al., Biostatistics 5, 2004):
//! what got worse and was mended later has no good split. Each is asked at half the level. The values of each
//! segment are shuffled for the p-value, so that it is exact where runs of the same thing can be exchanged;
//! the search ends with the first step that finds nothing. The chance of any change point too many is the
//! level.

use serde::{Deserialize, Serialize};

use super::Interval;
use super::random::Random;
use super::rank::ranks;
use super::unpaired::hodges_lehmann_ratio;

/// How to look for change points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// The chance of finding a change point too many.
    pub alpha: f64,
    /// No segment is shorter: one or two odd runs are no change.
    pub least: usize,
    /// How often the values are shuffled for a p-value.
    pub permutations: usize,
    /// Decides how they are dealt.
    pub seed: u64,
}

impl Default for Search {
    fn default() -> Self {
        Self { alpha: 0.05, least: 3, permutations: 999, seed: 1 }
    }
}

/// A change of level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// The position of the first value of the new level.
    pub at: usize,
    /// The first and the last position that this may be instead, at 95%.
    pub between: [usize; 2],
    /// The p-value of the step that found it.
    pub p: f64,
    /// The new level by the old one: the median of all ratios.
    pub ratio: f64,
    pub interval: Interval,
}

impl ChangePoint {
    /// Whether the level changed by more than a share such as 0.02.
    pub fn exceeds(&self, share: f64) -> bool {
        self.ratio.ln().abs() > share.ln_1p()
    }
}

/// Resamples for the interval of a position.
const RESAMPLES: usize = 399;

/// The share of resamples that is cut off at either end of that interval.
const TAIL: f64 = 0.025;

impl Search {
    /// The change points of a series, in its order. All values must be above 0.
    pub fn find(&self, values: &[f64]) -> Vec<ChangePoint> {
        let mut bounds = vec![0, values.len()];
        let mut found: Vec<(usize, f64)> = Vec::new();
        let mut random = Random::new(self.seed);
        while let Some((places, p)) = self.step(values, &bounds, &mut random) {
            bounds.extend(&places);
            bounds.sort_unstable();
            found.extend(places.into_iter().map(|place| (place, p)));
        }
        found.sort_by_key(|(place, _)| *place);
        let around = bounds.windows(3);
        let describe = |((at, p), around): ((usize, f64), &[usize])| {
            let (before, after) = (&values[around[0]..at], &values[at..around[2]]);
            let (ratio, interval) = hodges_lehmann_ratio(before, after, 0.95);
            let between = self.place(before, after, &mut random).map(|offset| around[0] + offset);
            ChangePoint { at, between, p, ratio, interval }
        };
        found.into_iter().zip(around).map(describe).collect()
    }

    /// The best change of any segment, if it is more than chance: one place, or both ends of a stretch.
    fn step(&self, values: &[f64], bounds: &[usize], random: &mut Random) -> Option<(Vec<usize>, f64)> {
        let mut segments: Vec<CentredRanks> =
            bounds.windows(2).map(|ends| CentredRanks::of(&values[ends[0]..ends[1]])).collect();
        let best = |segments: &[CentredRanks], look: fn(&CentredRanks, usize) -> Best| {
            segments
                .iter()
                .zip(bounds)
                .map(|(segment, start)| (look(segment, self.least), *start))
                .max_by(|(a, _), (b, _)| a.score.total_cmp(&b.score))
                .unwrap_or_default()
        };
        let (split, split_start) = best(&segments, CentredRanks::split);
        let (stretch, stretch_start) = best(&segments, CentredRanks::stretch);
        if stretch.score <= 0.0 {
            return None;
        }
        // Sums of the same numbers in another order differ in their last digits.
        let reached = |score: f64, observed: f64| score >= observed * (1.0 - 1e-9);
        let (mut splits, mut stretches) = (0_usize, 0_usize);
        let most = self.alpha / 2.0 * (self.permutations + 1) as f64;
        for _ in 0..self.permutations {
            segments.iter_mut().for_each(|segment| random.shuffle(&mut segment.0));
            splits += usize::from(reached(best(&segments, CentredRanks::split).0.score, split.score));
            // The search for stretches is the dear one, and in vain once both are known to be chance.
            if ((stretches + 1) as f64) <= most {
                stretches +=
                    usize::from(reached(best(&segments, CentredRanks::stretch).0.score, stretch.score));
            }
            if (splits + 1) as f64 > most && (stretches + 1) as f64 > most {
                return None;
            }
        }
        // The observed order is one of all, so that p is never 0 (Phipson and Smyth, 2010).
        let p = |hits: usize| (2.0 * (hits + 1) as f64 / (self.permutations + 1) as f64).min(1.0);
        let both = [p(splits), p(stretches)];
        let (places, start, p) = if split.score > 0.0 && both[0] <= self.alpha && splits <= stretches {
            (split.places, split_start, both[0])
        } else if both[1] <= self.alpha {
            (stretch.places, stretch_start, both[1])
        } else {
            return None;
        };
        Some((places.into_iter().flatten().map(|place| start + place).collect(), p))
    }

    /// Where a change between two segments may be, counted from the start of the first: both are drawn anew
    /// with repetition and the place is looked for again (Huskova and Kirch, Journal of Time Series Analysis
    /// 29, 2008).
    fn place(&self, before: &[f64], after: &[f64], random: &mut Random) -> [usize; 2] {
        let mut places: Vec<usize> = (0..RESAMPLES)
            .map(|_| {
                let mut draw = |from: &[f64]| -> Vec<f64> {
                    from.iter().map(|_| from[random.below(from.len())]).collect()
                };
                let drawn = [draw(before), draw(after)].concat();
                CentredRanks::of(&drawn).split(1).places[0].unwrap_or(before.len())
            })
            .collect();
        places.sort_unstable();
        let tail = (TAIL * RESAMPLES as f64) as usize;
        // What was found is always among what it may be.
        [places[tail].min(before.len()), places[RESAMPLES - 1 - tail].max(before.len())]
    }
}

/// The best change of a segment.
#[derive(Debug, Clone, Copy, Default)]
struct Best {
    /// The square of the standardised difference of rank sums; 0 if there is no change to look for.
    score: f64,
    /// Where it begins, and for a stretch where it ends.
    places: [Option<usize>; 2],
}

/// The ranks of a segment, less their mean.
struct CentredRanks(Vec<f64>);

impl CentredRanks {
    fn of(values: &[f64]) -> Self {
        let middle = (values.len() as f64 + 1.0) / 2.0;
        Self(ranks(values).into_iter().map(|rank| rank - middle).collect())
    }

    /// Sums of the first 0, 1, ... n ranks, and the scale that standardises their squares.
    fn sums(&self) -> (Vec<f64>, f64) {
        let n = self.0.len() as f64;
        let size: f64 = self.0.iter().map(|rank| rank * rank).sum();
        let mut sums = Vec::with_capacity(self.0.len() + 1);
        let mut sum = 0.0;
        sums.push(sum);
        sums.extend(self.0.iter().map(|rank| {
            sum += rank;
            sum
        }));
        (sums, if size > 0.0 { n * (n - 1.0) / size } else { 0.0 })
    }

    /// The best split in two parts of at least `least` values.
    fn split(&self, least: usize) -> Best {
        let n = self.0.len();
        let (sums, scale) = self.sums();
        let mut best = Best::default();
        let places = sums.iter().enumerate().take((n + 1).saturating_sub(least)).skip(least);
        for (at, sum) in places {
            let score = sum * sum * scale / (at as f64 * (n - at) as f64);
            if score > best.score {
                best = Best { score, places: [Some(at), None] };
            }
        }
        best
    }

    /// The best stretch of at least `least` values with as many on both sides.
    fn stretch(&self, least: usize) -> Best {
        let n = self.0.len();
        let (sums, scale) = self.sums();
        let mut best = Best::default();
        for from in least..n {
            for to in from + least..(n + 1).saturating_sub(least) {
                let (length, sum) = (to - from, sums[to] - sums[from]);
                let score = sum * sum * scale / (length as f64 * (n - length) as f64);
                if score > best.score {
                    best = Best { score, places: [Some(from), Some(to)] };
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn series(seed: u64, levels: &[(usize, f64)]) -> Vec<f64> {
        let mut random = Random::new(seed);
        levels
            .iter()
            .flat_map(|(count, level)| (0..*count).map(|_| *level).collect::<Vec<_>>())
            .map(|level| level * (0.01 * random.normal()).exp())
            .collect()
    }

    fn places(values: &[f64]) -> Vec<usize> {
        Search::default().find(values).iter().map(|change| change.at).collect()
    }

    #[test]
    fn levels_are_told_apart_with_size_and_place() {
        let values = series(1, &[(12, 1.0), (15, 1.1), (10, 0.95)]);
        let found = Search::default().find(&values);
        assert_eq!(found.iter().map(|change| change.at).collect::<Vec<_>>(), [12, 27]);
        assert!((found[0].ratio - 1.1).abs() < 0.02 && found[0].interval.contains(1.1), "{found:?}");
        assert!(found[0].between[0] <= 12 && found[0].between[1] >= 12 && found[0].p <= 0.05);
        assert!(found[1].ratio < 0.9 && found[1].exceeds(0.02) && !found[1].exceeds(0.5));
    }

    #[test]
    fn what_got_worse_and_was_mended_is_seen() {
        assert_eq!(places(&series(2, &[(15, 1.0), (6, 1.2), (15, 1.0)])), [15, 21]);
    }

    #[test]
    fn one_wild_run_is_no_change_and_a_flat_series_has_none() {
        let mut values = series(3, &[(20, 1.0)]);
        values[9] = 50.0;
        assert!(places(&values).is_empty());
        assert!(places(&[1.0; 30]).is_empty());
        for few in 0..6 {
            assert!(places(&series(4, &[(few, 1.0)])).is_empty());
        }
    }

    #[test]
    fn errors_are_as_rare_as_they_are_said_to_be() {
        let trials = 400;
        let search = |seed| Search { permutations: 199, seed, ..Search::default() };
        let wrong =
            (0..trials).filter(|seed| !search(*seed).find(&series(*seed, &[(24, 1.0)])).is_empty()).count();
        // Three standard deviations of a binomial above 5%.
        assert!(wrong as f64 <= 0.083 * trials as f64, "{wrong} of {trials} series without a change");
        let (mut found, mut extra, mut covered) = (0, 0, 0);
        for seed in 0..trials {
            // Two standard deviations of a run.
            let changes = search(seed).find(&series(1000 + seed, &[(14, 1.0), (12, 1.02)]));
            let near = changes.iter().filter(|change| change.at.abs_diff(14) <= 3).count();
            found += usize::from(near > 0);
            extra += usize::from(changes.len() > 1);
            covered += usize::from(changes.iter().any(|c| c.between[0] <= 14 && 14 <= c.between[1]));
        }
        println!("{wrong} wrong; of {trials} changes {found} found, {extra} with another, {covered} covered");
        assert!(found as f64 >= 0.85 * trials as f64, "{found} of {trials} found");
        assert!(extra as f64 <= 0.083 * trials as f64, "{extra} of {trials} with a change too many");
        assert!(covered as f64 >= 0.9 * found as f64, "{covered} of {found} inside of their interval");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_series_gives_ordered_segments_of_the_least_length(
            values in proptest::collection::vec(prop_oneof![1e-9_f64..1e9, Just(1.0), Just(2.0)], 0..40),
            least in 1usize..5,
        ) {
            let search = Search { least, permutations: 99, ..Search::default() };
            let found = search.find(&values);
            let mut bounds = vec![0];
            bounds.extend(found.iter().map(|change| change.at));
            bounds.push(values.len());
            if !found.is_empty() {
                prop_assert!(bounds.windows(2).all(|ends| ends[0] + least <= ends[1]), "{bounds:?}");
            }
            for change in &found {
                prop_assert!(change.between[0] <= change.at && change.at <= change.between[1]);
                prop_assert!(change.between[1] <= values.len() && change.p <= search.alpha);
            }
            prop_assert_eq!(&found, &search.find(&values), "the same seed finds the same");
        }
    }
}
