//! Small readers of the kernel's text formats.

use std::collections::BTreeSet;

/// The ids of a CPU list such as `0-3,8`; nothing if it is malformed. See `cpuset(7)`.
pub(crate) fn cpu_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut ids = BTreeSet::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // No kernel has more than 8192 CPUs; a longer range is a damaged file.
        if first > last || last - first > 8192 {
            return None;
        }
        ids.extend(first..=last);
    }
    Some(ids)
}

/// The value of `key: value` lines such as those of `/proc/cpuinfo` and `/proc/self/status`.
pub(crate) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// The chosen word of a list such as `always [madvise] never`.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

/// Names in one line: `a, b and 3 more`.
pub(crate) fn some_of<S: AsRef<str>>(names: &[S], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(most) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(cpu_list("0-2,5\n"), Some(BTreeSet::from([0, 1, 2, 5])));
        assert_eq!(cpu_list(""), Some(BTreeSet::new()));
        for bad in ["3-1", "a", "1-", "0-4294967295", "-1"] {
            assert_eq!(cpu_list(bad), None, "{bad}");
        }
    }

    #[test]
    fn fields_and_choices() {
        assert_eq!(field("Uid:\t0\nCapEff: ff\n", "CapEff"), Some("ff"));
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("always"), None);
        assert_eq!(some_of(&["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(some_of(&["a", "b"], 2), "a, b");
    }
}
