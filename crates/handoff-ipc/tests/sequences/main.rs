//! Sequences of hostile actions against a living engine: those that the fuzzer kept, and random ones.
//!
//! `actions.rs` turns bytes into actions, `world.rs` says what must hold after each sequence. The fuzz target
//! `engine` (`cargo xtask fuzz engine`) looks for sequences with the same two files; what it keeps is in
//! `fuzz/seeds/engine`.
// An attacker has raw memory and descriptors; a module of a test cannot be reached from elsewhere.
#![allow(unsafe_code, unreachable_pub, dead_code)]

mod actions;
#[path = "../attackers/raw.rs"]
mod raw;
#[path = "../attackers/regions.rs"]
mod regions;
#[path = "../it/common/service.rs"]
mod service;
mod world;

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use handoff_testkit::repeats;

static PANICS: AtomicU32 = AtomicU32::new(0);

/// A panic of any thread is a finding, also one that the engine lives through.
fn count_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        usual(panic);
    }));
}

/// xorshift64*: a run can be repeated by its seed.
fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

#[test]
fn honest_clients_are_served_after_any_sequence() {
    count_panics();
    let folder = tempfile::tempdir().unwrap();
    let mut world = world::World::new(folder.path());
    let mut play = |name: &str, sequence: &[u8]| {
        println!("{name}: {} bytes", sequence.len());
        actions::run(&mut world, sequence);
        assert_eq!(PANICS.load(Ordering::SeqCst), 0, "{name}: a thread panicked");
    };
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/engine");
    let mut seeds: Vec<_> = std::fs::read_dir(seeds).unwrap().map(|entry| entry.unwrap().path()).collect();
    seeds.sort();
    assert!(!seeds.is_empty());
    for seed in seeds {
        play(&seed.file_name().unwrap().to_string_lossy(), &std::fs::read(&seed).unwrap());
    }
    let time = Duration::from_secs(repeats(8, 2));
    let seconds = std::env::var("HANDOFF_SEQUENCE_SECONDS").ok();
    let time = seconds.map_or(time, |text| Duration::from_secs(text.parse().expect("seconds")));
    let mut state = std::env::var("HANDOFF_SEED").map_or(20_261_123, |text| text.parse().expect("a number"));
    let began = Instant::now();
    let mut number = 0;
    while began.elapsed() < time {
        let name = format!("random sequence {number}, seed {state}");
        let len = 20 + random(&mut state) as usize % 300;
        let sequence: Vec<u8> = (0..len).map(|_| (random(&mut state) >> 32) as u8).collect();
        play(&name, &sequence);
        number += 1;
    }
}
