//! Sequences of hostile actions against a living engine, beside honest clients that must be served.
//!
//! The files are those of `tests/sequences`, which plays the sequences that were kept.
#![no_main]
#![allow(dead_code)]

#[path = "../../tests/sequences/actions.rs"]
mod actions;
#[path = "../../tests/attackers/raw.rs"]
mod raw;
#[path = "../../tests/attackers/regions.rs"]
mod regions;
#[path = "../../tests/it/common/service.rs"]
mod service;
#[path = "../../tests/sequences/world.rs"]
mod world;

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;

thread_local! {
    static WORLD: RefCell<world::World> = RefCell::new({
        let folder = std::env::temp_dir().join(format!("handoff-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for a socket");
        world::World::new(&folder)
    });
}

/// Asked by the leak sanitizer. Threads of the engine come and go: what one has that is about to end looks like a leak at
/// the end of whichever sequence that is. What is held for peers the sequences look at themselves.
#[unsafe(no_mangle)]
extern "C" fn __lsan_is_turned_off() -> std::ffi::c_int {
    1
}

fuzz_target!(|sequence: &[u8]| {
    WORLD.with_borrow_mut(|world| actions::run(world, sequence));
});
