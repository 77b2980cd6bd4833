//! Numbers as C prints them, for output that follows a tool written in C or C++.

/// `printf("%.*g")`: so many significant digits, without trailing zeros; an exponent where it is
/// shorter.
pub(crate) fn general(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let limit = i32::try_from(digits).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= limit {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(limit - 1 - exponent).unwrap_or(0);
    without_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn as_printf_does() {
        // The right-hand sides are what printf("%.6g"), or with the digits given, prints.
        for (value, digits, expected) in [
            (0.000151486, 6, "0.000151486"),
            (0.00497661, 6, "0.00497661"),
            (0.001, 6, "0.001"),
            (0.0, 6, "0"),
            (1.0, 5, "1"),
            (0.99960001, 5, "0.9996"),
            (2.84, 2, "2.8"),
            (0.0534, 2, "0.053"),
            (28.4, 2, "28"),
            (123.4, 2, "1.2e+02"),
            (1.5e-7, 6, "1.5e-07"),
            (1_234_567.0, 6, "1.23457e+06"),
            (99.99, 2, "1e+02"),
            (-0.5, 3, "-0.5"),
        ] {
            assert_eq!(general(value, digits), expected, "{value} with {digits} digits");
        }
    }
}
