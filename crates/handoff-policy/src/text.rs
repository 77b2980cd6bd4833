//! Small pieces of the policy language: patterns, durations, lines.

use std::time::Duration;

/// A shell pattern: `*` is any text, `?` any one character; everything else is itself.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where the last star was, and how much text it has taken so far.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, t) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// `500 ms`, `2 s`, `1.5 min`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time such as `500 ms`, `2 s` or `5 min`");
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let seconds = match unit.trim() {
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds)
        .ok()
        .filter(|time| time.as_secs() < 86_400 * 365)
        .ok_or_else(wrong)
}

/// The line (from 1) of a byte of a text.
pub(super) fn line_of(text: &str, byte: usize) -> usize {
    1 + text.as_bytes().iter().take(byte).filter(|&&b| b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, text, expected) in [
            ("map-*", "map-render", true),
            ("map-*", "map", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*b*d", "abcd", true),
            ("*b*d", "abcde", false),
            ("/app/*", "/app/x/y", true),
            ("ü*", "über", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500 ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5min"), Ok(Duration::from_secs(90)));
        for text in ["", "5", "s", "-1 s", "1 week", "1e9 s", "99999999999999 h", "1.2.3 s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn a_text_matches_itself_and_its_starred_forms(text in "[a-z-]{1,12}", at in 0usize..13) {
            let at = at.min(text.len());
            prop_assert!(matches(&text, &text));
            let starred = format!("{}*{}", &text[..at], &text[at..]);
            prop_assert!(matches(&starred, &text));
            prop_assert!(!matches(&starred, "A"));
        }

        #[test]
        fn any_time_is_read_or_refused(text in "\\PC{0,10}") {
            let _ = duration(&text);
        }
    }
}
