//! What each kill showed, kept in a file for each path.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a kill did to the survivor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// A call of it does not come back, or it is not told.
    Hung,
    /// It keeps something.
    Leaked,
    /// It is told more than once.
    WrongNotices,
    /// Its error does not say what happened.
    Unclear,
}

impl Fault {
    const ALL: [(Fault, &'static str); 5] = [
        (Fault::None, "-"),
        (Fault::Hung, "hung"),
        (Fault::Leaked, "leaked"),
        (Fault::WrongNotices, "told"),
        (Fault::Unclear, "unclear"),
    ];

    fn word(self) -> &'static str {
        Fault::ALL.iter().find(|(fault, _)| *fault == self).unwrap().1
    }
}

#[derive(Debug, Clone)]
pub struct Kill {
    /// The boundary.
    pub number: u64,
    /// False if the path was over before it, this time.
    pub reached: bool,
    /// Until the survivor was as before.
    pub recovery: Duration,
    /// The function that the victim was in.
    pub place: String,
    pub fault: Fault,
    /// The fault in words.
    pub what: String,
}

/// The file of one path.
pub struct Records {
    file: BufWriter<File>,
}

fn file_of(folder: &Path, path: &str) -> PathBuf {
    folder.join(format!("{path}.tsv"))
}

impl Records {
    /// A new one: the boundaries of a run that was stopped have other numbers.
    pub fn create(folder: &Path, path: &str) -> Self {
        Records { file: BufWriter::new(File::create(file_of(folder, path)).unwrap()) }
    }

    pub fn add(&mut self, kill: &Kill) {
        let (micros, what) = (kill.recovery.as_micros(), kill.what.replace(['\t', '\n'], " "));
        let (fault, place) = (kill.fault.word(), &kill.place);
        writeln!(self.file, "{}\t{}\t{micros}\t{fault}\t{place}\t{what}", kill.number, kill.reached).unwrap();
        self.file.flush().unwrap();
    }
}

/// The kills of a path that are recorded.
pub fn read(folder: &Path, path: &str) -> Vec<Kill> {
    let Ok(file) = File::open(file_of(folder, path)) else { return Vec::new() };
    let kills = BufReader::new(file).lines().map_while(Result::ok).filter_map(|line| {
        let words: Vec<&str> = line.split('\t').collect();
        let [number, reached, micros, fault, place, what] = words[..] else { return None };
        Some(Kill {
            number: number.parse().ok()?,
            reached: reached.parse().ok()?,
            recovery: Duration::from_micros(micros.parse().ok()?),
            place: place.to_owned(),
            fault: Fault::ALL.iter().find(|(_, word)| *word == fault)?.0,
            what: what.to_owned(),
        })
    });
    kills.collect()
}

/// The boundaries that victims were to be killed at: where each lies, and whether one was killed there.
pub fn tried(kills: &[Kill]) -> BTreeMap<u64, (&str, bool)> {
    let mut boundaries = BTreeMap::new();
    for kill in kills {
        boundaries.entry(kill.number).or_insert((&*kill.place, false)).1 |= kill.reached;
    }
    boundaries
}

/// A line of the table.
pub fn row(path: &str, (boundaries, showing): (usize, usize), kills: &[Kill]) -> String {
    let count = |fault| kills.iter().filter(|kill| kill.fault == fault).count();
    let tried = tried(kills);
    let covered = tried.values().filter(|(_, reached)| *reached).count();
    let mut times: Vec<Duration> = kills.iter().map(|kill| kill.recovery).collect();
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let worst = times.last().copied().unwrap_or_default();
    let other = count(Fault::WrongNotices) + count(Fault::Unclear);
    let mut row = format!("| `{path}` | {boundaries} | {showing} | {covered} | {} |", tried.len() - covered);
    write!(row, " {} | {} | {} | {other} |", kills.len(), count(Fault::Hung), count(Fault::Leaked)).unwrap();
    write!(row, " {} | {} | {} |", shown(median), shown(worst), costliest(kills)).unwrap();
    row
}

pub const HEAD: &str = "\
| path | boundaries | that show | covered | not come to again | victims | hung | leaked | other faults | median | worst | \
where death costs most |
|---|---|---|---|---|---|---|---|---|---|---|---|";

fn shown(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// The function with the largest median among those that a victim was killed in often enough to tell.
fn costliest(kills: &[Kill]) -> String {
    let mut by_place: HashMap<&str, Vec<Duration>> = HashMap::new();
    for kill in kills {
        by_place.entry(&kill.place).or_default().push(kill.recovery);
    }
    let enough = (kills.len() / 100).max(3);
    let medians =
        by_place.into_iter().filter(|(_, times)| times.len() >= enough).map(|(place, mut times)| {
            times.sort_unstable();
            (times[times.len() / 2], place)
        });
    medians.max().map_or(String::new(), |(median, place)| format!("`{place}`, {}", shown(median)))
}
