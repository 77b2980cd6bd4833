//! A three-way merge of words: the patch's change inside a line that the tree has otherwise.

use super::words::split;

/// Texts with more words than this are merged by a person.
const WORDS: usize = 2000;

/// Applies the change from `base` to `theirs` to `ours`; `None` if both changed the same words.
pub(super) fn three_way(base: &str, ours: &str, theirs: &str) -> Option<String> {
    if base == ours {
        return Some(theirs.to_owned());
    }
    let (base, ours, theirs) = (words(base)?, words(ours)?, words(theirs)?);
    let to_ours = common(&base, &ours);
    let to_theirs = common(&base, &theirs);
    let mut out = String::new();
    let (mut b, mut o, mut t) = (0, 0, 0);
    loop {
        // The next base word that both kept, and where each has it.
        let anchor = (b..base.len()).find(|&i| to_ours[i].is_some() && to_theirs[i].is_some());
        let (next_b, next_o, next_t) = match anchor {
            Some(i) => (i, to_ours[i]?, to_theirs[i]?),
            None => (base.len(), ours.len(), theirs.len()),
        };
        let (was, mine, other) = (&base[b..next_b], &ours[o..next_o], &theirs[t..next_t]);
        let changed_by_both = mine != was && other != was;
        if changed_by_both && mine != other {
            return None;
        }
        out.extend(if mine == was { other } else { mine }.iter().copied());
        if anchor.is_none() {
            return Some(out);
        }
        out.push_str(base[next_b]);
        (b, o, t) = (next_b + 1, next_o + 1, next_t + 1);
    }
}

fn words(text: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = split(text).collect();
    (words.len() <= WORDS).then_some(words)
}

/// For each word of `a`, the word of `b` that it is in a longest common subsequence.
fn common(a: &[&str], b: &[&str]) -> Vec<Option<usize>> {
    let width = b.len() + 1;
    let mut table = vec![0u16; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            table[i * width + j] = if a[i] == b[j] {
                table[(i + 1) * width + j + 1] + 1
            } else {
                table[(i + 1) * width + j].max(table[i * width + j + 1])
            };
        }
    }
    let mut map = vec![None; a.len()];
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            map[i] = Some(j);
            i += 1;
            j += 1;
        } else if table[(i + 1) * width + j] >= table[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn changes_of_different_words_are_both_kept() {
        let merged = three_way("f(a, b);", "f(x->a, b);", "f(a, b, c);");
        assert_eq!(merged.as_deref(), Some("f(x->a, b, c);"));
        assert_eq!(three_way("if (a)", "if (a)", "if (!a)").as_deref(), Some("if (!a)"));
    }

    #[test]
    fn changes_of_the_same_word_are_not() {
        assert_eq!(three_way("f(a);", "f(b);", "f(c);"), None);
        assert_eq!(three_way("f(a);", "f(b);", "f(b);").as_deref(), Some("f(b);"));
    }

    proptest! {
        #[test]
        fn one_side_unchanged_gives_the_other(base in "[ab ,(]{0,20}", other in "[ab ,(]{0,20}") {
            prop_assert_eq!(three_way(&base, &base, &other), Some(other.clone()));
            prop_assert_eq!(three_way(&base, &other, &base), Some(other.clone()));
            prop_assert_eq!(three_way(&base, &other, &other), Some(other));
        }
    }
}
