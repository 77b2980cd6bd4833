//! `cargo xtask bench instructions`: how many instructions each side of a call executes in user space, and where.
//!
//! callgrind counts them, so that the figure depends on the code and the compiler, and not on what else the machine does:
//! it tells a change of some instructions, where a time tells one of some percent. What the kernel executes for a call
//! is not among them.
//!
//! A program of `handoff-ipc` makes many calls of one kind, and a few: the difference of the two counts has neither its
//! start nor its end. An instruction belongs to the innermost function of ours that it was inlined into.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::page::Table;
use crate::process::{cargo, find, output, run, target_dir};

/// What the bench is called.
pub(super) const NAME: &str = "instructions";
/// The crate that has the counted program, as an example.
pub(super) const PACKAGE: &str = "handoff-ipc";
const PROGRAM: &str = "counted_calls";
/// Calls whose count is taken off: by then the wait strategy looks around seldom.
const FEW: u64 = 2048;
/// Two counts of the same code differ by less, in percent: threads start and end a little differently.
const BOUND: f64 = 5.0;

/// What code is for, by where its source is in the crates.
const PARTS: [(&str, &[&str]); 10] = [
    ("proxy", &["calling.rs", "call.rs", "object.rs", "interface.rs", "known_interfaces.rs", "shm/proxy.rs"]),
    ("thread's slot", &["shm/call/client.rs", "shm/call/caller_slot.rs", "gate.rs", "shm/call/serving.rs"]),
    ("header", &["shm/call/slot.rs", "shm/call/request.rs", "shm/call/server_slot.rs"]),
    (
        "hand-off, waiting",
        &["word.rs", "wait.rs", "wait_strategy.rs", "futex.rs", "spurious.rs", "shm/place.rs", "fast.rs"],
    ),
    ("serving", &["shm/call/server.rs", "presence.rs", "pool", "claim.rs"]),
    ("dispatch", &["dispatch.rs", "local.rs"]),
    ("parcel", &["parcel/"]),
    ("statistics", &["stats.rs", "shm/phases.rs"]),
    ("oneway ring", &["shm/oneway/", "bell.rs", "stay.rs", "adaptive_spin.rs"]),
    ("objects, descriptors", &["shm/", "memory.rs", "ledger.rs", "disposal.rs"]),
];
/// Code of the counted program, of other libraries, and of the standard library where nothing of ours calls it inline.
const C_LIBRARY: &str = "C library";
const REST: &str = "rest";

/// Instructions by object file and address.
type Counts = BTreeMap<(String, u64), i64>;

/// Counts every kind of call.
pub(super) fn measure() -> Result<Table> {
    ensure!(find("valgrind").is_some(), "valgrind is not installed: it counts (Debian's `valgrind`)");
    let mut build = cargo();
    build.args(["build", "--profile", "bench", "--package", PACKAGE, "--example", PROGRAM]);
    // Built in many parts, other functions are inlined.
    run(build.env("CARGO_INCREMENTAL", "0"))?;
    let program = target_dir().join("release/examples").join(PROGRAM);
    let mut rows = Vec::new();
    for line in output(&mut Command::new(&program))?.lines() {
        let (calls, kind) = line.split_once(' ').context("a kind has a number of calls")?;
        let calls: u64 = calls.parse().context("a kind has a number of calls")?;
        let few = count(&program, kind, FEW)?;
        let many = count(&program, kind, FEW + calls)?;
        for (side, (few, many)) in ["caller", "callee"].into_iter().zip(few.iter().zip(&many)) {
            let of_calls = difference(many, few);
            let parts = by_part(&program, &of_calls)?;
            let each = |sum: i64| (sum as f64 / calls as f64).round() as i64;
            let total = each(of_calls.values().sum());
            if total != 0 {
                let parts = titles().map(|part| each(parts.get(part).copied().unwrap_or(0)).to_string());
                rows.push([format!("{kind}: {side}"), total.to_string()].into_iter().chain(parts).collect());
            }
        }
    }
    let columns = ["", "all"].into_iter().chain(titles()).map(str::to_owned).collect();
    Ok(Table { page: "reference/benchmarks.md".into(), mark: NAME.into(), columns, rows })
}

/// What is more than the bound away from what is kept, a line each.
pub(super) fn changes(kept: &Table, now: &Table) -> Vec<String> {
    let number = |cell: &String| cell.parse::<f64>().unwrap_or(0.0);
    let mut lines = Vec::new();
    for row in &now.rows {
        let Some(before) = kept.rows.iter().find(|before| before[0] == row[0]) else {
            lines.push(format!("{}: {} instructions, and none are kept", row[0], row[1]));
            continue;
        };
        let all = number(&before[1]);
        if (number(&row[1]) - all).abs() * 100.0 <= all * BOUND {
            continue;
        }
        let parts = now.columns.iter().zip(before.iter().zip(row)).skip(2);
        let parts: Vec<String> = parts
            .filter(|(_, (before, after))| before != after)
            .map(|(part, (before, after))| format!("{part} {before} -> {after}"))
            .collect();
        lines.push(format!("{}: {} -> {} instructions ({})", row[0], before[1], row[1], parts.join(", ")));
    }
    lines
}

fn titles() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|(title, _)| *title).chain([C_LIBRARY, REST])
}

/// What the main thread executes, and what all others do.
fn count(program: &Path, kind: &str, calls: u64) -> Result<[Counts; 2]> {
    let folder = tempfile::tempdir()?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "--tool=callgrind",
        "--quiet",
        "--separate-threads=yes",
        "--dump-instr=yes",
        "--dump-line=no",
    ]);
    valgrind.args(["--compress-strings=no", "--compress-pos=no"]);
    valgrind.arg(format!("--callgrind-out-file={}", folder.path().join("counts").display()));
    run(valgrind.arg(program).args([kind, &calls.to_string()]))?;
    let mut sides = [Counts::new(), Counts::new()];
    for entry in std::fs::read_dir(folder.path())? {
        let file = entry?.path();
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        if let Some(thread) = text.lines().find_map(|line| line.strip_prefix("thread: ")) {
            read(&text, &mut sides[usize::from(thread.trim() != "1")]);
        }
    }
    ensure!(!sides[0].is_empty(), "callgrind wrote no count of the main thread");
    Ok(sides)
}

/// Adds what a file of callgrind's says: what each instruction cost itself.
fn read(text: &str, counts: &mut Counts) {
    let (mut object, mut of_callee) = (String::new(), false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            name.clone_into(&mut object);
        } else if line.starts_with("calls=") {
            // The next line has what the called function cost, which is counted there.
            of_callee = true;
        } else if let Some((address, cost)) = line.strip_prefix("0x").and_then(|line| line.split_once(' ')) {
            let own = !std::mem::take(&mut of_callee);
            if let (true, Ok(address), Ok(cost)) =
                (own, u64::from_str_radix(address, 16), cost.trim().parse::<i64>())
            {
                *counts.entry((object.clone(), address)).or_default() += cost;
            }
        }
    }
}

fn difference(many: &Counts, few: &Counts) -> Counts {
    let mut difference = many.clone();
    for (place, count) in few {
        *difference.entry(place.clone()).or_default() -= count;
    }
    difference.retain(|_, count| *count != 0);
    difference
}

fn by_part(program: &Path, counts: &Counts) -> Result<BTreeMap<&'static str, i64>> {
    let of_program = |place: &&(String, u64)| Path::new(&place.0) == program;
    let addresses: Vec<u64> = counts.keys().filter(of_program).map(|(_, address)| *address).collect();
    let sources = sources(program, &addresses)?;
    let mut parts = BTreeMap::new();
    for (place, count) in counts {
        let part = match sources.get(&place.1).filter(|_| of_program(&place)) {
            Some(files) => part(files),
            None => C_LIBRARY,
        };
        *parts.entry(part).or_default() += count;
    }
    Ok(parts)
}

/// What an instruction is for that was inlined through these files, the innermost first.
fn part(files: &[PathBuf]) -> &'static str {
    let ours = files.iter().filter_map(|file| file.to_str()?.split_once("/crates/"));
    let source = ours.filter_map(|(_, file)| file.split_once("/src/")).map(|(_, file)| file).next();
    let belongs = |(_, begins): &&(&str, &[&str])| {
        source.is_some_and(|source| begins.iter().any(|begin| source.starts_with(begin)))
    };
    PARTS.iter().find(belongs).map_or(REST, |(title, _)| *title)
}

/// The files that each instruction was inlined through.
fn sources(program: &Path, addresses: &[u64]) -> Result<BTreeMap<u64, Vec<PathBuf>>> {
    let mut asked = tempfile::tempfile()?;
    addresses.iter().try_for_each(|address| writeln!(asked, "{address:#x}"))?;
    std::io::Seek::rewind(&mut asked)?;
    let mut addr2line = Command::new("addr2line");
    addr2line.args(["--inlines", "--addresses", "--exe"]).arg(program).stdin(Stdio::from(asked));
    Ok(parse_sources(&output(&mut addr2line).context("binutils tell where an instruction is from")?))
}

/// A line with an address, then one for each file.
fn parse_sources(text: &str) -> BTreeMap<u64, Vec<PathBuf>> {
    let (mut sources, mut current) = (BTreeMap::new(), 0);
    for line in text.lines() {
        if let Some(address) = line.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
            current = address;
        } else if let Some((file, _)) = line.rsplit_once(':') {
            sources.entry(current).or_insert_with(Vec::new).push(PathBuf::from(file));
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_is_counted_where_it_is_and_not_where_it_was_called_from() {
        let text = "thread: 1\npositions: instr\nevents: Ir\nsummary: 60\n\nob=/bin/p\nfl=a.rs\nfn=f\n0x10 2\n0x14 3\n\
                    cob=/lib/c\ncfn=g\ncalls=2 0x90\n0x18 50\n0x1c 1\n\nob=/lib/c\nfn=g\n0x90 4\n";
        let mut counts = Counts::new();
        read(text, &mut counts);
        read(text, &mut counts);
        let of = |object: &str, address| counts.get(&(object.to_owned(), address)).copied();
        assert_eq!([of("/bin/p", 0x10), of("/bin/p", 0x1c), of("/lib/c", 0x90)], [Some(4), Some(2), Some(8)]);
        assert_eq!(of("/bin/p", 0x18), None, "what a called function cost");
        let mut many = counts.clone();
        many.insert(("/bin/p".into(), 0x10), 7);
        assert_eq!(difference(&many, &counts), Counts::from([(("/bin/p".into(), 0x10), 3)]));
    }

    #[test]
    fn what_was_inlined_belongs_to_the_innermost_function_of_ours() {
        let text = "0x0000000000000010\n/rustc/x/library/core/src/cell.rs:513 (discriminator 2)\n\
                    /w/crates/handoff-ipc/src/shm/call/client.rs:75\n/w/crates/handoff-ipc/src/shm/proxy.rs:22\n\
                    0x0000000000000020\n/rustc/x/library/alloc/src/vec.rs:1\n??:0\n";
        let sources = parse_sources(text);
        assert_eq!(sources[&0x10].len(), 3);
        assert_eq!(part(&sources[&0x10]), "thread's slot");
        assert_eq!(part(&sources[&0x20]), REST);
        assert_eq!(part(&["/w/crates/handoff-sync/src/wait.rs".into()]), "hand-off, waiting");
        assert_eq!(part(&["/w/crates/handoff-ipc/src/shm/link/mod.rs".into()]), "objects, descriptors");
        assert_eq!(part(&["/w/crates/handoff-ipc/examples/counted_calls.rs".into()]), REST);
    }

    /// A path that is renamed would fall under "rest" unseen.
    #[test]
    fn every_part_has_sources() {
        let crates = crate::process::root().join("crates");
        for begin in PARTS.iter().flat_map(|(_, begins)| *begins) {
            let (folder, start) = begin.rsplit_once('/').unwrap_or(("", begin));
            let found = ["handoff-ipc", "handoff-placement", "handoff-sync"].iter().any(|name| {
                let entries = std::fs::read_dir(crates.join(name).join("src").join(folder));
                entries
                    .into_iter()
                    .flatten()
                    .flatten()
                    .any(|entry| entry.file_name().to_string_lossy().starts_with(start))
            });
            assert!(found, "there is no source {begin}");
        }
    }

    #[test]
    fn a_change_of_more_than_a_twentieth_is_told_with_what_it_is_from() {
        let table = |all: &str, slot: &str, parcel: &str| Table {
            page: String::new(),
            mark: String::new(),
            columns: ["", "all", "slot", "parcel"].map(str::to_owned).to_vec(),
            rows: vec![["8 B: caller", all, slot, parcel].map(str::to_owned).to_vec()],
        };
        let kept = table("1000", "600", "400");
        assert!(changes(&kept, &table("1050", "650", "400")).is_empty());
        let told = "8 B: caller: 1000 -> 1051 instructions (slot 600 -> 651)";
        assert_eq!(changes(&kept, &table("1051", "651", "400")), [told]);
        assert_eq!(changes(&kept, &table("940", "600", "340")).len(), 1, "fewer is news, too");
        let none = Table { rows: Vec::new(), ..kept };
        assert_eq!(changes(&none, &table("1", "1", "0")).len(), 1);
    }
}
