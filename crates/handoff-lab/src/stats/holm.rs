//! Several metrics at once.

/// Holm's adjusted p-values, in the order given (Holm, Scandinavian Journal of Statistics 6, 1979):
/// rejecting those at or below alpha keeps the chance of any false rejection at alpha.
pub fn adjust(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut least = 0.0_f64;
    for (position, index) in order.into_iter().enumerate() {
        let factor = (p_values.len() - position) as f64;
        least = least.max(factor * p_values[index]).min(1.0);
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R: `p.adjust(c(.01, .04, .03, .005), "holm")`.
    #[test]
    fn adjusted_values_are_those_of_r() {
        let adjusted = adjust(&[0.01, 0.04, 0.03, 0.005]);
        for (got, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((got - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(adjust(&[]).is_empty());
        assert_eq!(adjust(&[0.9, 0.8]), [1.0, 1.0]);
    }
}
