//! A process is killed at each instruction boundary of what it does with another one, and the other one is looked at.
//!
//! `tracer.rs` steps and kills, `paths.rs` says what both do, `sweep.rs` goes through the boundaries and judges the
//! survivor: its call comes back, the end is told once, nothing is left, the next call works. In the tests it is a
//! few boundaries of each path, spread over all of it; `cargo xtask soak kill-everywhere` goes through all.
// `ptrace` and `fork` are system calls; a module of a test cannot be reached from elsewhere.
#![allow(unsafe_code, unreachable_pub)]
// The steps of another architecture have other registers.
#![cfg(target_arch = "x86_64")]

#[path = "../it/common/mod.rs"]
mod common;
mod paths;
mod records;
mod sweep;
mod symbols;
mod tracer;
mod victim;

use std::path::PathBuf;

use handoff_testkit::repeats;

use crate::paths::Path;
use crate::records::{Fault, HEAD, Kill, Records};
use crate::sweep::{NEVER, Sweep, TRIES};

/// Also at boundaries of whose instruction nobody else sees anything.
const ALL: &str = "HANDOFF_KILL_ALL";
/// The folder in which records are kept.
const FOLDER: &str = "HANDOFF_KILL_RECORDS";

#[test]
#[ignore = "a process of another test"]
fn role_main() {
    let Some((role, socket)) = common::role() else { return };
    match role.as_str() {
        "victims" => victim::fork_on_demand(),
        "third" => {
            let engine = common::serve(&socket, common::Everything::default());
            // Each thread that calls has a slot at the survivor, which is held as long as the thread: one, whoever is killed.
            engine.set_max_threads(1);
            common::ready_and_wait();
        }
        other => panic!("no such role: {other}"),
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// The CPU that victims are stepped on.
fn cpu(number: Option<u64>) -> Option<usize> {
    let cpus = handoff_placement::affinity(handoff_placement::Tid::current()).unwrap();
    let chosen = number.map_or(0, |number| number as usize) % cpus.len();
    cpus.iter().nth(chosen).map(|cpu| cpu as usize)
}

/// What the process holds is counted: one test at a time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Tests that share the paths: each is killed after some minutes if it hangs.
macro_rules! parts {
    ($($name:ident $part:literal),*) => {
        const PARTS: usize = [$($part),*].len();
        $(
            #[test]
            fn $name() {
                kill_at_some_boundaries($part);
            }
        )*
    };
}

parts! {
    killed_at_any_instruction_1 0, killed_at_any_instruction_2 1, killed_at_any_instruction_3 2,
    killed_at_any_instruction_4 3, killed_at_any_instruction_5 4, killed_at_any_instruction_6 5,
    killed_at_any_instruction_7 6, killed_at_any_instruction_8 7, killed_at_any_instruction_9 8
}

fn kill_at_some_boundaries(part: usize) {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let kills: u64 = repeats(16, 8);
    let mut faults = Vec::new();
    println!("{HEAD}");
    // Stepped through without optimisation a greeting takes longer than whoever waits for it allows.
    let fits = |path: &&Path| !(cfg!(debug_assertions) && path.has_a_greeting());
    for path in Path::all().filter(fits).skip(part).step_by(PARTS) {
        let mut sweep = Sweep::new(path, 2, cpu(Some(part as u64)));
        // Spread over the path, at other places for each.
        let every = (sweep.showing() as u64 / kills).max(1);
        let mut seen = Vec::new();
        sweep.run(path.name.len() as u64 % every, every, false, |kill| seen.push(kill));
        println!("{}", records::row(path.name, (sweep.boundaries.len(), sweep.showing()), &seen));
        assert!(seen.iter().any(|kill| kill.reached), "{}: nobody was killed", path.name);
        faults
            .extend(seen.into_iter().filter(|kill| kill.fault != Fault::None).map(|kill| (path.name, kill)));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// A boundary is covered by a later victim if the first one did not come to it, and said to be not covered if none does.
#[test]
fn a_boundary_that_was_not_come_to_is_tried_again() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut sweep = Sweep::new(Path::named("client-call").unwrap(), 2, cpu(None));
    let real = sweep.boundaries.iter().position(|boundary| boundary.shows).unwrap() as u64;
    let never = sweep.boundaries.len() as u64;
    sweep.boundaries.push(NEVER);
    let mut kills = Vec::new();
    assert_eq!(sweep.try_again(vec![real, never], |kill| kills.push(kill)), [never]);
    assert!(kills.iter().all(|kill| kill.fault == Fault::None), "{kills:#?}");
    assert!(kills.iter().any(|kill| kill.number == real && kill.reached), "{kills:#?}");
    let in_vain = kills.iter().filter(|kill| !kill.reached).count();
    assert_eq!(in_vain, 2 * TRIES as usize, "{kills:#?}");
}

/// All paths, or those that were named.
fn wanted_paths() -> impl Iterator<Item = &'static Path> {
    let wanted = std::env::var("HANDOFF_KILL_PATHS").unwrap_or_default();
    let named = move |path: &&Path| wanted.is_empty() || wanted.split(',').any(|name| name == path.name);
    Path::all().filter(named)
}

/// `cargo xtask soak kill-everywhere`: one of the processes that share the paths.
#[test]
#[ignore = "takes hours; `cargo xtask soak kill-everywhere` runs it"]
fn all_boundaries() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("a folder for what is found"));
    let every = number("HANDOFF_KILL_EVERY").unwrap_or(1);
    let turns = number("HANDOFF_KILL_TURNS").unwrap_or(16) as u32;
    let all = std::env::var_os(ALL).is_some_and(|value| value == "1");
    for path in wanted_paths() {
        // Whoever makes this file has the path.
        let claim = folder.join(format!("{}.claimed", path.name));
        if folder.join(format!("{}.complete", path.name)).exists()
            || std::fs::File::create_new(claim).is_err()
        {
            continue;
        }
        // First: its descriptor is none that a victim leaves.
        let mut records = Records::create(&folder, path.name);
        let mut sweep = Sweep::new(path, turns, cpu(number("HANDOFF_KILL_SHARD")));
        let (boundaries, showing) = (sweep.boundaries.len(), sweep.showing());
        println!("{}: {boundaries} boundaries, {showing} of them show", path.name);
        let mut faults = 0;
        let mut told = std::time::Instant::now();
        let mut tell = |kill: Kill| {
            records.add(&kill);
            if kill.fault != Fault::None {
                faults += 1;
                println!("{}: boundary {}, in {}: {}", path.name, kill.number, kill.place, kill.what);
                assert!(faults < 5, "{}: enough", path.name);
            }
            if told.elapsed().as_secs() >= 20 {
                told = std::time::Instant::now();
                println!("{}: {}", path.name, kill.number);
            }
        };
        let missed = sweep.run(0, every, all, &mut tell);
        let by_another_way = missed.len();
        let never = sweep.try_again(missed, &mut tell);
        println!(
            "{}: {by_another_way} victims came by another way, {} boundaries were not come to again",
            path.name,
            never.len()
        );
        std::fs::write(folder.join(format!("{}.complete", path.name)), format!("{boundaries} {showing}"))
            .unwrap();
    }
}

/// The table of what is recorded; fails if there was a fault, or a path is not complete.
#[test]
#[ignore = "`cargo xtask soak kill-everywhere` runs it"]
fn table() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("a folder with what was found"));
    let (mut victims, mut all, mut showing, mut tried, mut hung, mut leaked, mut other) =
        (0, 0, 0, 0, 0, 0, 0);
    let (mut never, mut missing) = (Vec::new(), Vec::new());
    println!("{HEAD}");
    for path in wanted_paths() {
        let kills = records::read(&folder, path.name);
        let complete = std::fs::read_to_string(folder.join(format!("{}.complete", path.name)));
        let counts = complete.as_ref().ok().and_then(|text| text.split_once(' '));
        let boundaries = counts.map_or((0, 0), |(all, showing)| {
            let number = |text: &str| text.parse().expect("a number of boundaries");
            (number(all), number(showing))
        });
        if complete.is_err() {
            missing.push(path.name);
        }
        victims += kills.len();
        (all, showing) = (all + boundaries.0, showing + boundaries.1);
        let count = |fault| kills.iter().filter(|kill| kill.fault == fault).count();
        (hung, leaked) = (hung + count(Fault::Hung), leaked + count(Fault::Leaked));
        other += count(Fault::WrongNotices) + count(Fault::Unclear);
        let of_path = records::tried(&kills);
        tried += of_path.len();
        let not_reached = of_path.iter().filter(|(_, (_, reached))| !reached);
        never.extend(not_reached.map(|(number, (place, _))| format!("{} {number}, in {place}", path.name)));
        if !kills.is_empty() {
            println!("{}", records::row(path.name, boundaries, &kills));
        }
    }
    let covered = if never.is_empty() { "all".to_owned() } else { format!("{}", tried - never.len()) };
    println!(
        "\n{victims} victims; boundaries {all}, that show {showing}, tried {tried}, covered {covered}; \
         hung {hung}, leaked {leaked}, other faults {other}"
    );
    if !never.is_empty() {
        println!("{} boundaries were not come to again in {} further victims each:", never.len(), 2 * TRIES);
        println!("{}", never.join("\n"));
    }
    assert!(missing.is_empty(), "not complete: {}", missing.join(", "));
    assert_eq!(hung + leaked + other, 0);
}
