//! From values to positions on an axis, and to the round numbers beside it.

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Equal differences take equal space.
    Linear,
    /// Equal ratios take equal space; values must be above 0.
    Log,
    /// As [`Kind::Log`], with powers of two beside it: for bytes.
    Binary,
    /// As [`Kind::Linear`], with whole numbers beside it: for counts.
    Whole,
}

impl Kind {
    fn is_log(self) -> bool {
        matches!(self, Kind::Log | Kind::Binary)
    }
}

/// An axis from a value to a value, over pixels.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    kind: Kind,
    domain: (f64, f64),
    range: (f64, f64),
}

impl Scale {
    /// An axis that holds all of `values` with a little room, over the pixels of `range`. Values that are
    /// not finite (or not above 0 on a logarithmic axis) are left out.
    #[must_use]
    pub fn over(kind: Kind, values: impl IntoIterator<Item = f64>, range: (f64, f64)) -> Self {
        let usable = |value: &f64| value.is_finite() && (!kind.is_log() || *value > 0.0);
        let (mut low, mut high) = values
            .into_iter()
            .filter(usable)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            (low, high) = if kind.is_log() { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        match kind {
            Kind::Linear | Kind::Whole => {
                let room = if high > low { (high - low) * 0.06 } else { high.abs().max(1.0) * 0.1 };
                (low, high) = (low - room, high + room);
            }
            Kind::Log | Kind::Binary => {
                let room = if high > low { (high / low).powf(0.06) } else { 1.5 };
                (low, high) = (low / room, high * room);
            }
        }
        Self { kind, domain: (low, high), range }
    }

    /// The pixel of a value; beyond the ends for values beyond the ends.
    pub fn at(&self, value: f64) -> f64 {
        let place = |value: f64| match self.kind {
            Kind::Linear | Kind::Whole => value,
            Kind::Log | Kind::Binary => value.max(f64::MIN_POSITIVE).ln(),
        };
        let (low, high) = (place(self.domain.0), place(self.domain.1));
        self.range.0 + (place(value) - low) / (high - low) * (self.range.1 - self.range.0)
    }

    /// The pixel of a value, moved to the nearer end if it lies beyond.
    pub fn clamped(&self, value: f64) -> f64 {
        let (low, high) = (self.range.0.min(self.range.1), self.range.0.max(self.range.1));
        let at = self.at(value);
        if at.is_nan() { low } else { at.clamp(low, high) }
    }

    /// Round values inside of the axis, at most about `most` of them.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        let inside = |value: &f64| self.domain.0 <= *value && *value <= self.domain.1;
        match self.kind {
            Kind::Binary => {
                let exponents = self.domain.0.log2().ceil() as i32..=self.domain.1.log2().floor() as i32;
                let with = |step: i32| -> Vec<f64> {
                    let exponents = exponents.clone().filter(|exponent| exponent.rem_euclid(step) == 0);
                    exponents.map(|exponent| 2_f64.powi(exponent)).collect()
                };
                let few = [1, 2, 4, 10, 20].into_iter().map(with).find(|ticks| ticks.len() <= most);
                few.filter(|ticks| ticks.len() > 1)
                    .unwrap_or_else(|| Self { kind: Kind::Log, ..*self }.ticks(most))
            }
            Kind::Linear | Kind::Whole => {
                let rough = (self.domain.1 - self.domain.0) / most.max(1) as f64;
                let rough = if self.kind == Kind::Whole { rough.max(1.0) } else { rough };
                let power = 10_f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0]
                    .map(|factor| factor * power)
                    .into_iter()
                    .find(|step| *step >= rough)
                    .unwrap_or(10.0 * power);
                let first = (self.domain.0 / step).ceil();
                (0..=most + 1).map(|index| (first + index as f64) * step).filter(inside).collect()
            }
            Kind::Log => {
                let decades = self.domain.0.log10().floor() as i32..=self.domain.1.log10().ceil() as i32;
                let with = |factors: &[f64]| -> Vec<f64> {
                    decades
                        .clone()
                        .flat_map(|decade| factors.iter().map(move |factor| factor * 10_f64.powi(decade)))
                        .filter(inside)
                        .collect()
                };
                let fine: &[&[f64]] = &[
                    &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
                    &[1.0, 2.0, 3.0, 5.0],
                    &[1.0, 2.0, 5.0],
                    &[1.0, 3.0],
                ];
                for factors in fine {
                    let ticks = with(factors);
                    if ticks.len() <= most {
                        // A narrow axis, with two of them or fewer, takes evenly spread values instead.
                        return if ticks.len() < 3 { self.as_linear().ticks(most) } else { ticks };
                    }
                }
                let whole = with(&[1.0]);
                let every = whole.len().div_ceil(most.max(1));
                whole.into_iter().step_by(every.max(1)).collect()
            }
        }
    }

    fn as_linear(self) -> Self {
        Self { kind: Kind::Linear, ..self }
    }
}

/// A number for people: three digits, without zeros at the end.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 12);
    let text = format!("{value:.*}", digits as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A number for people that stays short: beyond 100,000 with a suffix of the SI.
pub fn compact(value: f64) -> String {
    for (limit, divisor, suffix) in [(1e15, 1e15, "P"), (1e12, 1e12, "T"), (1e9, 1e9, "G"), (1e6, 1e6, "M")] {
        if value.abs() >= limit {
            return format!("{}{suffix}", number(value / divisor));
        }
    }
    if value.abs() >= 1e5 { format!("{}k", number(value / 1e3)) } else { number(value) }
}

/// A time in the unit that suits it.
pub fn nanoseconds(value: f64) -> String {
    for (limit, divisor, unit) in [(1e3, 1.0, "ns"), (1e6, 1e3, "us"), (1e9, 1e6, "ms")] {
        if value.abs() < limit {
            return format!("{} {unit}", number(value / divisor));
        }
    }
    format!("{} s", number(value / 1e9))
}

/// A number of bytes in the unit that suits it.
pub fn bytes(value: f64) -> String {
    for (limit, divisor, unit) in
        [(1024.0, 1.0, "B"), (1048576.0, 1024.0, "KiB"), (1073741824.0, 1048576.0, "MiB")]
    {
        if value.abs() < limit {
            return format!("{} {unit}", number(value / divisor));
        }
    }
    format!("{} GiB", number(value / 1_073_741_824.0))
}

/// A p-value with as many digits as anybody needs.
pub fn chance(p: f64) -> String {
    if p < 0.000_1 { "< 0.0001".to_owned() } else { number(p) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn ticks_are_few_rising_and_inside(low in -1e6_f64..1e6, width in 1e-6_f64..1e6, most in 2_usize..9) {
            for (kind, low) in [
                (Kind::Linear, low),
                (Kind::Log, low.abs() + 1e-3),
                (Kind::Binary, low.abs() + 1e-3),
                (Kind::Whole, low),
            ] {
                let scale = Scale::over(kind, [low, low + width], (0.0, 100.0));
                let ticks = scale.ticks(most);
                prop_assert!(ticks.len() <= most + 2, "{ticks:?}");
                prop_assert!(ticks.is_sorted_by(|a, b| a < b), "{ticks:?}");
                for tick in ticks {
                    prop_assert!((-1e-6..=100.000001).contains(&scale.at(tick)), "{tick}");
                }
            }
        }

        #[test]
        fn any_value_has_a_place(values in proptest::collection::vec(proptest::num::f64::ANY, 0..6)) {
            for kind in [Kind::Linear, Kind::Log, Kind::Binary, Kind::Whole] {
                let scale = Scale::over(kind, values.iter().copied().map(|v| v.clamp(-1e200, 1e200)), (0.0, 50.0));
                for value in &values {
                    prop_assert!((0.0..=50.0).contains(&scale.clamped(*value)));
                }
            }
        }
    }

    #[test]
    fn bytes_have_powers_of_two_and_counts_whole_numbers() {
        let payloads = Scale::over(Kind::Binary, [4.0, 1_048_576.0], (0.0, 100.0));
        assert_eq!(payloads.ticks(8), [16.0, 256.0, 4096.0, 65_536.0, 1_048_576.0]);
        assert_eq!(payloads.ticks(3), [1024.0, 1_048_576.0]);
        let near = Scale::over(Kind::Binary, [1000.0, 1500.0], (0.0, 100.0));
        assert!(near.ticks(4).len() > 1, "{:?}", near.ticks(4));
        let narrow = Scale::over(Kind::Log, [0.0079, 0.0136], (0.0, 100.0)).ticks(6);
        assert!(narrow.len() > 3, "an axis of less than a decade has more than two: {narrow:?}");
        let runs = Scale::over(Kind::Whole, [1.0, 3.0], (0.0, 100.0));
        assert_eq!(runs.ticks(8), [1.0, 2.0, 3.0]);
        assert_eq!(Scale::over(Kind::Whole, [1.0], (0.0, 100.0)).ticks(8), [1.0]);
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(nanoseconds(250.0), "250 ns");
        assert_eq!(nanoseconds(2104.2), "2.1 us");
        assert_eq!(nanoseconds(2.5e6), "2.5 ms");
        assert_eq!(nanoseconds(3.2e9), "3.2 s");
        assert_eq!(bytes(8.0), "8 B");
        assert_eq!(bytes(65536.0), "64 KiB");
        assert_eq!(bytes(1_048_576.0), "1 MiB");
        assert_eq!(number(1234.0), "1234");
        assert_eq!(number(0.05), "0.05");
        assert_eq!(compact(99_999.0), "99999");
        assert_eq!(compact(123_456.0), "123k");
        assert_eq!(compact(21_680_965.0), "21.7M");
        assert_eq!(compact(-2e9), "-2G");
    }

    #[test]
    fn chances() {
        assert_eq!([0.0, 0.000_01, 0.001_77, 0.5].map(chance), ["< 0.0001", "< 0.0001", "0.00177", "0.5"]);
    }
}
