//! Sets of CPUs of any size, and the list format that the kernel, `taskset` and cpusets share.

use std::fmt;
use std::str::FromStr;

/// The number of a CPU. Sixteen bits are eight times what the kernel can be built for.
pub type CpuId = u16;

/// A set of CPUs.
///
/// It has no fixed size, so a CPU numbered 5000 is as good as any. It reads and prints the list
/// format of the kernel: `0-3,5`, with `taskset`'s stride (`0-8:2`) and the kernel's groups
/// (`0-15:2/4`, the first two of every four) understood when reading.
///
/// ```
/// # use handoff_placement::CpuSet;
/// let mut set: CpuSet = "0-3,5".parse()?;
/// set.insert(5000);
/// assert_eq!(set.len(), 6);
/// assert_eq!(set.to_string(), "0-3,5,5000");
/// # Ok::<(), handoff_placement::CpuListError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    /// Bit `n % 64` of word `n / 64` is CPU `n`. The last word is never zero, so that equal sets
    /// are equal vectors.
    words: Vec<u64>,
}

impl CpuSet {
    /// The set without any CPU.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// The set of one CPU.
    #[must_use]
    pub fn of(cpu: CpuId) -> Self {
        Self::from_iter([cpu])
    }

    /// Adds a CPU; says whether it was new.
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = (usize::from(cpu / 64), 1u64 << (cpu % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Takes a CPU out; says whether it was there.
    pub fn remove(&mut self, cpu: CpuId) -> bool {
        let there = self.contains(cpu);
        if there {
            self.words[usize::from(cpu / 64)] &= !(1u64 << (cpu % 64));
            self.trim();
        }
        there
    }

    /// Is the CPU in the set?
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words.get(usize::from(cpu / 64)).is_some_and(|word| word & (1 << (cpu % 64)) != 0)
    }

    /// How many CPUs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Is there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The lowest CPU.
    #[must_use]
    pub fn first(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// The CPU, if there is exactly one.
    #[must_use]
    pub fn single(&self) -> Option<CpuId> {
        // The last word is never zero.
        let (last, rest) = self.words.split_last()?;
        let alone = last.is_power_of_two() && rest.iter().all(|word| *word == 0);
        alone.then(|| (rest.len() * 64) as CpuId + last.trailing_zeros() as CpuId)
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let base = (index * 64) as CpuId;
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| base + bit)
        })
    }

    /// The CPUs that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self::from_words(self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect())
    }

    /// The CPUs that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (long, short) = if self.words.len() >= other.words.len() { (self, other) } else { (other, self) };
        let mut words = long.words.clone();
        for (word, more) in words.iter_mut().zip(&short.words) {
            *word |= more;
        }
        Self { words }
    }

    /// The CPUs of this set that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let theirs = other.words.iter().copied().chain(std::iter::repeat(0));
        Self::from_words(self.words.iter().zip(theirs).map(|(a, b)| a & !b).collect())
    }

    /// Is each CPU of this set in the other?
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.difference(other).is_empty()
    }

    /// The mask as system calls take it.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// The mask as system calls give it; bits beyond 65536 CPUs are dropped.
    pub(crate) fn from_words(mut words: Vec<u64>) -> Self {
        words.truncate(WORDS);
        let mut set = Self { words };
        set.trim();
        set
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

/// Words that hold every [`CpuId`].
const WORDS: usize = (CpuId::MAX as usize + 1) / 64;

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut set = Self::new();
        set.extend(cpus);
        set
    }
}

impl Extend<CpuId> for CpuSet {
    fn extend<I: IntoIterator<Item = CpuId>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

/// `0-3,5`; the empty set prints as nothing, as the kernel prints it.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.next_if(|&next| next == last + 1).is_some() {
                last += 1;
            }
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl serde::Serialize for CpuSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for CpuSet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A list of CPUs could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a list of CPUs such as `0-3,5`: {why}")]
pub struct CpuListError {
    text: String,
    why: &'static str,
}

impl CpuListError {
    /// The reason without the text.
    pub(crate) fn why(&self) -> &'static str {
        self.why
    }

    fn new(text: &str, why: &'static str) -> Self {
        // A hostile file must not flood the terminal.
        let mut text: String = text.trim().chars().filter(|c| !c.is_control()).take(60).collect();
        if text.chars().count() == 60 {
            text.push('…');
        }
        Self { text, why }
    }
}

impl FromStr for CpuSet {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let mut set = Self::new();
        if text.trim().is_empty() {
            return Ok(set);
        }
        for item in text.trim().split(',') {
            add_range(&mut set, item.trim()).map_err(|why| CpuListError::new(text, why))?;
        }
        Ok(set)
    }
}

/// One item: `5`, `0-3`, `0-8:2` or `0-15:2/4`.
fn add_range(set: &mut CpuSet, item: &str) -> Result<(), &'static str> {
    let (range, pattern) = match item.split_once(':') {
        Some((range, pattern)) => (range, Some(pattern)),
        None => (item, None),
    };
    let (first, last) = match range.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(range)?, number(range)?),
    };
    if first > last {
        return Err("a range of it goes down: write the smaller number first");
    }
    let (used, group) = match pattern.map(|pattern| pattern.split_once('/').ok_or(pattern)) {
        None => (1, 1),
        Some(Err(stride)) => (1, number(stride)?),
        Some(Ok((used, group))) => (number(used)?, number(group)?),
    };
    if group == 0 || used == 0 || used > group {
        return Err("a stride is zero, or a group is smaller than what is used of it");
    }
    set.extend((first..=last).filter(|cpu| (cpu - first) % group < used));
    Ok(())
}

fn number(text: &str) -> Result<CpuId, &'static str> {
    if text.is_empty() {
        return Err("a number is missing");
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("it has something else than digits, `-`, `,` and `:`");
    }
    text.parse().map_err(|_| "it has a CPU above 65535")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(text: &str) -> CpuSet {
        text.parse().expect(text)
    }

    #[test]
    fn lists_are_read_and_printed() {
        for (text, printed) in [
            ("", ""),
            ("0", "0"),
            (" 0-3,5\n", "0-3,5"),
            ("5,3,4", "3-5"),
            ("0-8:2", "0,2,4,6,8"),
            ("0-7:2/4", "0-1,4-5"),
            ("63,64,5000", "63-64,5000"),
            ("65535", "65535"),
        ] {
            assert_eq!(list(text).to_string(), printed, "{text:?}");
        }
    }

    #[test]
    fn bad_lists_are_refused_with_a_reason() {
        for (text, why) in [
            ("3-1", "goes down"),
            ("1,,2", "missing"),
            ("-1", "missing"),
            ("+1", "something else"),
            ("65536", "above 65535"),
            ("99999999999999999999", "above 65535"),
            ("0-3:0", "stride is zero"),
            ("0-3:3/2", "group is smaller"),
            ("a", "something else"),
            ("0x3", "something else"),
        ] {
            let error = text.parse::<CpuSet>().expect_err(text).to_string();
            assert!(error.contains(why) && error.contains(text), "{text:?}: {error}");
        }
    }

    #[test]
    fn an_error_is_short_and_printable() {
        let error = format!("\u{1b}[31m{}", "x".repeat(10_000)).parse::<CpuSet>().unwrap_err().to_string();
        assert!(error.len() < 300 && !error.contains('\u{1b}'), "{error}");
    }

    #[test]
    fn removing_the_highest_leaves_an_equal_set() {
        let mut set = list("1,5000");
        assert!(set.remove(5000) && !set.remove(5000));
        assert_eq!(set, CpuSet::of(1));
    }

    fn any_set() -> impl Strategy<Value = CpuSet> {
        proptest::collection::vec(any::<u16>().prop_map(|cpu| cpu % 300), 0..40).prop_map(CpuSet::from_iter)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn printing_and_reading_is_the_identity(set in any_set()) {
            prop_assert_eq!(list(&set.to_string()), set);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-0-9:,/ a]{0,12}|\\PC{0,12}") {
            if let Ok(set) = text.parse::<CpuSet>() {
                prop_assert_eq!(list(&set.to_string()), set);
            }
        }

        #[test]
        fn set_operations_agree_with_membership(a in any_set(), b in any_set(), cpu in 0u16..300) {
            let (in_a, in_b) = (a.contains(cpu), b.contains(cpu));
            prop_assert_eq!(a.union(&b).contains(cpu), in_a || in_b);
            prop_assert_eq!(a.intersection(&b).contains(cpu), in_a && in_b);
            prop_assert_eq!(a.difference(&b).contains(cpu), in_a && !in_b);
            prop_assert_eq!(a.is_subset(&b), a.iter().all(|cpu| b.contains(cpu)));
            prop_assert_eq!(a.len(), a.iter().count());
        }
    }
}
