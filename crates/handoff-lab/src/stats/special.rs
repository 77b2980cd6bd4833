//! The normal and Student's t distribution, and what they are made of.

/// Probability that a standard normal variable is at most `z`.
pub fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// The `z` with `normal_cdf(z) == p`, for `p` in 0 .. 1: Newton's method on [`normal_cdf`].
pub fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    // The tail is solved in logarithms from its leading term, which is always on the convex side.
    let tail = p.min(1.0 - p);
    let mut z = -(-2.0 * tail.ln()).sqrt();
    for _ in 0..60 {
        let value = normal_cdf(z);
        let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
        if density <= 0.0 || value <= 0.0 {
            break;
        }
        let step = (value / tail).ln() * value / density;
        z -= step;
        if step.abs() < 1e-14 * z.abs().max(1.0) {
            break;
        }
    }
    if p < 0.5 { z } else { -z }
}

/// The regularised incomplete beta function, by its continued fraction (Lentz's method; Press et al.,
/// "Numerical Recipes", section 6.4).
pub fn beta_regularised(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * x.ln() + b * (-x).ln_1p();
    // The fraction converges quickly only on one side of the mean.
    if x < (a + 1.0) / (a + b + 2.0) {
        front.exp() * beta_fraction(a, b, x) / a
    } else {
        1.0 - front.exp() * beta_fraction(b, a, 1.0 - x) / b
    }
}

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for m in 1..500 {
        let m = f64::from(m);
        for factor in [
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        ] {
            d = 1.0 / guard(1.0 + factor * d);
            c = guard(1.0 + factor / c);
            result *= d * c;
        }
        if (d * c - 1.0).abs() < 1e-16 {
            break;
        }
    }
    result
}

/// Two-sided p-value of Student's t with `df` degrees of freedom, which need not be whole.
pub fn student_two_sided(t: f64, df: f64) -> f64 {
    beta_regularised(df / 2.0, 0.5, df / (df + t * t))
}

/// The `t` that a variable with `df` degrees of freedom exceeds in absolute value with probability
/// `p`, by bisection.
pub fn student_critical(p: f64, df: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while student_two_sided(high, df) > p && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if student_two_sided(middle, df) > p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values from SciPy 1.17.1.
    #[test]
    fn known_values() {
        for (got, expected) in [
            (normal_cdf(1.959_963_984_540_054), 0.975),
            (normal_cdf(-8.0), 6.220_960_574_271_785e-16),
            (normal_quantile(0.975), 1.959_963_984_540_054),
            (normal_quantile(0.2), -0.841_621_233_572_914_3),
            (normal_quantile(1e-10), -6.361_340_902_404_056),
            (beta_regularised(2.0, 3.0, 0.4), 0.5248),
            (student_two_sided(2.228_138_852, 10.0), 0.05),
            (student_critical(0.05, 10.0), 2.228_138_851_964_938_5),
            (student_two_sided(1.0, 1.0), 0.5),
        ] {
            assert!((got - expected).abs() <= 1e-8 * expected.abs(), "{got} is not {expected}");
        }
    }

    #[test]
    fn the_quantile_inverts_the_distribution() {
        for p in [1e-12, 0.001, 0.3, 0.5, 0.7, 0.999] {
            assert!((normal_cdf(normal_quantile(p)) - p).abs() < 1e-12, "{p}");
        }
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(normal_quantile(1.0), f64::INFINITY);
    }
}
