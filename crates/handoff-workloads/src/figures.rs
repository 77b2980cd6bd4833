//! Figures as people read them: four digits, and a unit that fits their size.

use crate::measurement::Unit;

/// A value with its unit, such as `2.104 us` or `1.25 GB/s`.
pub fn human(value: f64, unit: &Unit) -> String {
    match unit {
        Unit::Nanoseconds => time(value),
        Unit::Milliseconds => time(value * 1e6),
        Unit::Seconds => time(value * 1e9),
        Unit::Bytes => scaled(value, "B"),
        Unit::BytesPerSecond => scaled(value, "B/s"),
        Unit::PerSecond => format!("{} 1/s", grouped(value)),
        Unit::Count => grouped(value),
        Unit::Ratio => digits(value),
        Unit::NanosecondsPerMegabyte => format!("{}/MB", time(value)),
        Unit::Other(symbol) => format!("{} {symbol}", digits(value)),
    }
}

/// Nanoseconds, in the unit of time that leaves one to three digits before the point.
pub fn time(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds.abs() {
        size if size < 1e3 => (nanoseconds, "ns"),
        size if size < 1e6 => (nanoseconds / 1e3, "us"),
        size if size < 1e9 => (nanoseconds / 1e6, "ms"),
        _ => (nanoseconds / 1e9, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// With a decimal prefix: 1500 B is 1.500 kB.
fn scaled(value: f64, unit: &str) -> String {
    let (value, prefix) = match value.abs() {
        size if size < 1e3 => (value, ""),
        size if size < 1e6 => (value / 1e3, "k"),
        size if size < 1e9 => (value / 1e6, "M"),
        size if size < 1e12 => (value / 1e9, "G"),
        _ => (value / 1e12, "T"),
    };
    format!("{} {prefix}{unit}", digits(value))
}

/// Four digits in all; whole numbers below 10000 as they are.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        _ if value.fract() == 0.0 && value.abs() < 1e4 => 0,
        size if size < 10.0 => 3,
        size if size < 100.0 => 2,
        size if size < 1000.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Rounded, with a comma for each thousand.
pub fn grouped(value: f64) -> String {
    let text = format!("{:.0}", value.abs());
    let mut grouped = String::new();
    for (place, digit) in text.chars().enumerate() {
        if place > 0 && (text.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if value < 0.0 { format!("-{grouped}") } else { grouped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits_and_a_unit_that_fits() {
        assert_eq!(human(2104.4, &Unit::Nanoseconds), "2.104 us");
        assert_eq!(human(0.3456, &Unit::Seconds), "345.6 ms");
        assert_eq!(human(999.0, &Unit::Nanoseconds), "999 ns");
        assert_eq!(human(63.25, &Unit::Nanoseconds), "63.25 ns");
        assert_eq!(human(1.25e9, &Unit::BytesPerSecond), "1.250 GB/s");
        assert_eq!(human(1_234_567.0, &Unit::PerSecond), "1,234,567 1/s");
        assert_eq!(human(123.0, &Unit::Count), "123");
        assert_eq!(human(1.9876, &Unit::Ratio), "1.988");
        assert_eq!(human(12.5, &Unit::Other("frames".into())), "12.50 frames");
        assert_eq!(grouped(-1234.0), "-1,234");
        assert_eq!(grouped(0.0), "0");
    }
}
