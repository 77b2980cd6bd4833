//! Names of the functions in which a victim was killed.

use std::process::Command;

/// The functions of this program, where a process has them.
pub struct Symbols {
    /// Where its text lies, and how far it is from where the file says.
    text: std::ops::Range<u64>,
    base: u64,
    by_address: Vec<(u64, String)>,
}

impl Symbols {
    /// As `nm` tells them; without it there are addresses. `maps` are those of the process.
    pub fn of_this_program(maps: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let shown = program.to_string_lossy();
        let ranges = maps.lines().filter(|line| line.ends_with(&*shown)).map(|line| {
            let (range, rest) = line.split_once(' ').unwrap();
            let (from, to) = range.split_once('-').unwrap();
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            (number(from)..number(to), rest.starts_with("r-x"))
        });
        let ranges: Vec<_> = ranges.collect();
        let base = ranges.first().map_or(0, |(range, _)| range.start);
        let text = ranges.iter().find(|(_, runs)| *runs).map_or(0..0, |(range, _)| range.clone());
        let listed = Command::new("nm").args(["-C", "--defined-only"]).arg(&program).output();
        let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let mut by_address: Vec<(u64, String)> = listed
            .unwrap_or_default()
            .lines()
            .filter_map(|line| {
                let mut words = line.splitn(3, ' ');
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                matches!(words.next()?, "t" | "T" | "W" | "w").then_some(())?;
                Some((address, words.next()?.to_owned()))
            })
            .collect();
        by_address.sort();
        Symbols { text, base, by_address }
    }

    /// The function around an address.
    pub fn name(&self, at: u64) -> String {
        if !self.text.contains(&at) {
            return "the C library".to_owned();
        }
        let at = at - self.base;
        match self.by_address.partition_point(|(address, _)| *address <= at).checked_sub(1) {
            Some(index) => shortened(&self.by_address[index].1),
            None => format!("{at:#x}"),
        }
    }
}

/// Without the hash that a compiler may have put behind it.
fn shortened(name: &str) -> String {
    match name.rsplit_once("::h") {
        Some((short, hash)) if hash.len() == 16 => short.to_owned(),
        _ => name.to_owned(),
    }
}
