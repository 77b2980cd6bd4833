//! What pinning a thread and unpinning it costs, against the bare system calls.
//!
//! `cargo bench -p handoff-placement --bench pin` prints nanoseconds for the pair, the median of turns that
//! alternate between the two, and their ratio.

use handoff_placement::fast::{SavedMask, current_cpu, pin_current, restore_current, save_current};
use handoff_placement::{AffinityGuard, CpuSet};
use std::hint::black_box;
use std::time::Instant;

const PAIRS: u32 = 2_000;
const TURNS: usize = 201;

fn main() {
    let mut saved = SavedMask::new();
    save_current(&mut saved).expect("the mask of this thread can be read");
    let cpu = current_cpu();
    pin_current(cpu).expect("the CPU that it runs on is allowed");
    restore_current(&saved).expect("the former mask is allowed");
    let one = CpuSet::of(cpu);
    let (one_fixed, all_fixed) = (fixed(&one), fixed(&saved.to_set()));
    let (mut raw, mut fast, mut guard) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        raw.push(time(|| bare(&one_fixed, &all_fixed)));
        fast.push(time(|| {
            pin_current(black_box(cpu)).expect("as before");
            restore_current(black_box(&saved)).expect("as before");
        }));
        guard.push(time(|| drop(AffinityGuard::pin(black_box(&one)).expect("as before"))));
    }
    let (raw, fast, guard) = (median(raw), median(fast), median(guard));
    println!("bare system calls   {raw:>6.0} ns a pin and unpin");
    println!("fast::pin_current   {fast:>6.0} ns, x {:.3}", fast / raw);
    println!(
        "AffinityGuard       {guard:>6.0} ns, x {:.3} (it saves the mask and reads back what was granted)",
        guard / raw
    );
}

/// The two system calls, with masks that are ready.
fn bare(one: &rustix::thread::CpuSet, all: &rustix::thread::CpuSet) {
    for mask in [one, all] {
        rustix::thread::sched_setaffinity(None, black_box(mask)).expect("as before");
    }
}

fn fixed(set: &CpuSet) -> rustix::thread::CpuSet {
    let mut mask = rustix::thread::CpuSet::new();
    set.iter().filter(|cpu| *cpu < 1024).for_each(|cpu| mask.set(cpu.into()));
    mask
}

/// Nanoseconds of one.
fn time(mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..PAIRS).for_each(|_| work());
    start.elapsed().as_nanos() as f64 / f64::from(PAIRS)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
