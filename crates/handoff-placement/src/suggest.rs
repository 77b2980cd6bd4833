//! "Did you mean": the nearest of some words.

/// The word nearest to what was typed, if it is near enough to be meant: at most a third of its
/// letters wrong, and at least one mistake allowed.
#[must_use]
pub fn nearest<'a>(typed: &str, words: &[&'a str]) -> Option<&'a str> {
    let distances = words.iter().map(|word| (distance(typed, word), *word));
    distances.min().filter(|(distance, word)| *distance <= (word.len() / 3).max(1)).map(|(_, word)| word)
}

/// Edits that lead from one word to the other, with a swap of neighbours as one (optimal string
/// alignment). Words longer than any of ours are as far as they are long.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let cost = usize::from(a[i - 1] != b[j - 1]);
                let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + cost);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_not() {
        let words = ["little", "big", "foreground", "background"];
        assert_eq!(nearest("litle", &words), Some("little"));
        assert_eq!(nearest("bgi", &words), Some("big"));
        assert_eq!(nearest("forground", &words), Some("foreground"));
        assert_eq!(nearest("turbo", &words), None);
        assert_eq!(nearest("", &words), None);
    }
}
