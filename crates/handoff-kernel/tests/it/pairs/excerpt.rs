//! Pairs as excerpts: a hunk, the part of the older file around its place, and what that part becomes.
//!
//! Each line of the text starts with a letter: `=` names a pair, `P` is a line of the patch, `T` one of the tree, and `R`
//! says how many lines of the tree stay and how many of those behind them the lines `W` replace.

use super::{Hunk, Pair, hunk_lines};

/// So many lines on both sides of a change are kept, and more up to the definition's ends.
const AROUND: usize = 25;
const DEFINITION: usize = 90;

/// The pair as text; `None` if the change is too large to be an excerpt.
pub(crate) fn write(pair: &Pair, hunk: &Hunk) -> Option<String> {
    let (before, after) = (lines(&pair.before)?, lines(&pair.after)?);
    let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    let rest = before.len().min(after.len()) - same;
    let tail = before.iter().rev().zip(after.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let starts = |line: &&str| line.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let (first, end) = (same.saturating_sub(AROUND), (before.len() - tail + AROUND).min(before.len()));
    let from =
        (first.saturating_sub(DEFINITION)..=first).rev().find(|&line| starts(&before[line])).unwrap_or(first);
    let to = (end..(end + DEFINITION).min(before.len()))
        .find(|&line| before[line].starts_with('}'))
        .map_or(end, |at| at + 1);
    if to - from > 240 {
        return None;
    }
    let mut out = format!("={}\n", pair.name);
    // The line that the patch names keeps its distance to the excerpt.
    let shifted = Hunk {
        old_start: hunk.old_start.saturating_sub(from).max(1),
        new_start: hunk.new_start.saturating_sub(from).max(1),
        ..hunk.clone()
    };
    let patch = hunk_lines(&pair.path, &shifted);
    patch.lines().for_each(|line| out.push_str(&format!("P{line}\n")));
    before[from..to].iter().for_each(|line| out.push_str(&format!("T{line}\n")));
    out.push_str(&format!("R{},{}\n", same - from, before.len() - tail - same));
    after[same..after.len() - tail].iter().for_each(|line| out.push_str(&format!("W{line}\n")));
    Some(out)
}

fn lines(bytes: &[u8]) -> Option<Vec<&str>> {
    Some(std::str::from_utf8(bytes).ok()?.lines().collect())
}

/// The pairs that a text holds.
pub(crate) fn read(text: &str) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    for part in text.split("\n=") {
        let part = part.strip_prefix('=').unwrap_or(part);
        let of = |kind: char| part.lines().skip(1).filter_map(move |line| line.strip_prefix(kind));
        let name = part.lines().next().unwrap_or_default();
        let replaced = of('R').next().and_then(|range| range.split_once(','));
        let (stay, gone) = replaced.expect("an excerpt says what is replaced");
        let (stay, gone): (usize, usize) = (stay.parse().expect("a number"), gone.parse().expect("a number"));
        let before: Vec<&str> = of('T').collect();
        let mut after = before.clone();
        after.splice(stay..stay + gone, of('W'));
        let bytes =
            |lines: &[&str]| lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect();
        pairs.push(Pair {
            name: name.to_owned(),
            path: name.rsplit_once(':').map_or(name, |(path, _)| path).to_owned(),
            patch: bytes(&of('P').collect::<Vec<_>>()),
            before: bytes(&before),
            after: bytes(&after),
        });
    }
    pairs
}
