//! Added `#include` lines whose neighbours are not here, but others of their folder, in order.

use super::align::Expected;
use super::source::Source;
use super::wanted::Group;

/// What the report says of it.
pub(super) const WHY: &str =
    "the headers next to it are not here; it was sorted in among those of its folder";

/// The row (from 0) at which added `#include` lines keep the file's block of headers of that folder in order.
///
/// `None` where a header of the folder that the hunk has next to them is here: that says more than the order.
pub(super) fn row(group: &Group, expected: &[Expected], source: &Source) -> Option<usize> {
    let (first, last) = (group.added.first()?, group.added.last()?);
    let folder = folder(first)?;
    let of_folder = |line: &str| self::folder(line) == Some(folder);
    let ascends = |pair: &[String]| pair[0].trim() < pair[1].trim();
    let next_to = |index: usize| expected.get(index).filter(|line| of_folder(&line.text));
    let around = [group.at.checked_sub(1).and_then(next_to), next_to(group.at)];
    if group.removed > 0
        || !group.added.iter().all(|line| of_folder(line))
        || !group.added.windows(2).all(ascends)
        || around.into_iter().flatten().any(|line| source.count(&line.line) > 0)
    {
        return None;
    }
    let mut blocks: Vec<(usize, usize)> = Vec::new();
    for row in (0..source.text.len()).filter(|&row| of_folder(&source.text[row])) {
        match blocks.last_mut() {
            Some((_, end)) if *end == row => *end = row + 1,
            _ => blocks.push((row, row + 1)),
        }
    }
    // One header that stands alone, as that of the configuration, is no block where there is a longer one.
    if blocks.len() > 1 {
        blocks.retain(|(from, to)| to - from > 1);
    }
    let &[(from, to)] = &blocks[..] else { return None };
    let block = &source.text[from..to];
    // Of a block that is in order at its beginning only, that beginning.
    let in_order = 1 + block.windows(2).take_while(|pair| ascends(pair)).count();
    let above = block[..in_order].iter().take_while(|line| line.trim() < first.trim()).count();
    let ends = above == in_order && in_order < block.len() || above == 0 && in_order < block.len();
    // Lines that belong on two sides of another one have no place together, and what is here is not added.
    let parted = block[above..].first().is_some_and(|next| above < in_order && next.trim() <= last.trim());
    (!ends && !parted).then_some(from + above)
}

/// `<linux/` of `#include <linux/mm.h>`, and `<` of `#include <stdio.h>`.
fn folder(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
    let end = name.rfind('/').map(|slash| slash + 1).or_else(|| name.starts_with('<').then_some(1))?;
    name.starts_with(['<', '"']).then(|| &name[..end])
}
