//! Where lines stand in a file word for word.

use super::source::Source;
use super::wanted::Wanted;
use super::words::Line;

/// So many twins are named: a file may have thousands.
const NAMED: usize = 8;
/// So many lines are looked at where a hunk stands word for word at many places.
const LOOKED_AT: usize = 2_000_000;

/// Places of the same lines, the nearest first, and the numbers of some for a person.
pub(super) fn nearest_first(places: &[usize], near: usize) -> (Vec<usize>, String) {
    let mut by_distance = places.to_vec();
    by_distance.sort_by_key(|at| at.abs_diff(near));
    let named: Vec<_> = by_distance.iter().take(NAMED).map(|at| (at + 1).to_string()).collect();
    let named = match by_distance.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    };
    (by_distance, named)
}

/// Where the expected lines stand word for word.
///
/// Lines that repeat, such as those of a file of zeros, stand at thousands of places: of a long hunk only the nearest
/// to `near` are looked at.
pub(super) fn occurrences(wanted: &Wanted, source: &Source, near: usize) -> Vec<usize> {
    let expected: Vec<&str> = wanted.expected.iter().map(|line| line.text.as_str()).collect();
    let mut all = stands_at(&expected, source);
    let most = (LOOKED_AT / expected.len().max(1)).max(2);
    if all.len() > most {
        all.sort_by_key(|at| at.abs_diff(near));
        all.truncate(most);
        all.sort_unstable();
    }
    all
}

/// Where `lines` stand in a file, one below the other.
///
/// A file may have thousands of hunks: where one of the lines is rare, only its places are looked at.
pub(super) fn stands_at(lines: &[&str], source: &Source) -> Vec<usize> {
    let rows = lines.iter().enumerate().map(|(index, line)| (index, source.rows(&Line::new(line))));
    let Some((index, rows)) = rows.min_by_key(|(_, rows)| rows.len()) else { return Vec::new() };
    if rows.len() * lines.len() > source.text.len() {
        return search(lines, &source.text);
    }
    let begins = rows.iter().filter_map(|row| (*row as usize).checked_sub(index));
    let stands_there = |at: &usize| source.text.get(*at..*at + lines.len()).is_some_and(|text| text == lines);
    begins.filter(stands_there).collect()
}

/// Where `lines` stand in `text`, one below the other: Knuth, Morris and Pratt (1977), by lines.
fn search(lines: &[&str], text: &[String]) -> Vec<usize> {
    if lines.is_empty() || lines.len() > text.len() {
        return Vec::new();
    }
    // How many of the first lines the lines up to this one end with.
    let mut border = vec![0; lines.len()];
    for index in 1..lines.len() {
        let mut length = border[index - 1];
        while length > 0 && lines[index] != lines[length] {
            length = border[length - 1];
        }
        border[index] = length + usize::from(lines[index] == lines[length]);
    }
    let (mut found, mut length) = (Vec::new(), 0);
    for (row, line) in text.iter().enumerate() {
        while length > 0 && (length == lines.len() || line != lines[length]) {
            length = border[length - 1];
        }
        length += usize::from(line == lines[length]);
        if length == lines.len() {
            found.push(row + 1 - length);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::scope::Language;

    #[test]
    fn lines_that_overlap_themselves_are_found_at_each_place() {
        let at = |lines: &str, text: &str| {
            let lines: Vec<&str> = lines.split(' ').collect();
            let text: Vec<String> = text.split(' ').map(str::to_owned).collect();
            let found = search(&lines, &text);
            assert_eq!(stands_at(&lines, &Source::from_lines(text, false, Language::Indented)), found);
            found
        };
        assert_eq!(at("a a", "a a a b a a"), [0, 1, 4]);
        assert_eq!(at("b a a", "a a a b a a"), [3]);
        assert_eq!(at("a b a c", "a b a b a c a b a c"), [2, 6]);
        assert_eq!(at("a", "b"), [0; 0]);
        assert_eq!(at("a b", "a"), [0; 0]);
        assert_eq!(at("a b", "c b a"), [0; 0]);
    }
}
