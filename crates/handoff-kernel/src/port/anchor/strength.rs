//! How much an aligned line says about the place, together with its neighbours.

use super::super::align::{ALIKE, Label};
use super::super::source::Source;
use super::super::wanted::Wanted;

/// What each aligned line's run of neighbours says about the place.
///
/// A run is what the hunk and the file have in the same order without anything but blank lines in
/// between. A line that occurs several times where the hunk may belong says accordingly less.
pub(super) fn strengths(wanted: &Wanted, source: &Source, map: &[Option<(usize, f64)>]) -> Vec<f64> {
    let mut strength = vec![0.0; map.len()];
    let mut start = 0;
    while start < map.len() {
        if map[start].is_none() {
            start += 1;
            continue;
        }
        let mut end = start;
        let mut sum = own_strength(wanted, source, start, map[start]);
        while end + 1 < map.len() {
            let (Some((last, _)), Some((next, _))) = (map[end], map[end + 1]) else { break };
            if (last + 1..next).any(|line| !source.lines[line].is_blank()) {
                break;
            }
            end += 1;
            sum += own_strength(wanted, source, end, map[end]);
        }
        strength[start..=end].fill(sum);
        start = end + 1;
    }
    strength
}

fn own_strength(wanted: &Wanted, source: &Source, index: usize, pair: Option<(usize, f64)>) -> f64 {
    let Some((row, alike)) = pair else { return 0.0 };
    let expected = &wanted.expected[index];
    let mut weight = expected.line.weight();
    let mut count = f64::from(source.count(&expected.line).max(1));
    if let Label::Known(scopes) = &expected.label {
        // The first and last lines of a definition that is known by its name stand there once.
        let edge = scopes.iter().any(|&scope| source.scopes.all[scope].end == row);
        if edge && expected.text.starts_with('}') && source.text[row].starts_with('}') {
            weight = 0.5;
        }
        let within = |line: usize| {
            scopes.iter().any(|&s| {
                let scope = &source.scopes.all[s];
                (scope.start..=scope.end).contains(&line)
            })
        };
        let rows = scopes.iter().map(|&s| &source.scopes.all[s]).map(|s| (s.start, s.end));
        let (first, last) = rows.fold((usize::MAX, 0), |(a, b), (c, d)| (a.min(c), b.max(d)));
        let inside = (first..=last)
            .filter(|&line| within(line) && source.lines[line].key == expected.line.key)
            .filter(|&line| !edge || source.text[line] == expected.text)
            .count();
        count = (inside as f64).max(1.0);
    }
    let doubt = if alike >= 1.0 { 1.0 } else { ((alike - ALIKE) / (1.0 - ALIKE)).max(0.0) * 0.8 };
    weight * doubt / count
}
