//! Ctrl-C: what runs is told by the terminal too and ends by itself; the chore waits for it, cleans up and says so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// What a shell gives for a program that Ctrl-C has ended.
const EXIT: i32 = 130;

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on the first SIGINT is kept for [`asked`]; the second ends the program at once.
pub(crate) fn listen() {
    let asked = ASKED.get_or_init(Arc::default);
    // In this order: the first signal finds the flag down, and the second finds it up.
    let heard = flag::register_conditional_shutdown(SIGINT, EXIT, Arc::clone(asked))
        .and_then(|_| flag::register(SIGINT, Arc::clone(asked)));
    if let Err(error) = heard {
        println!("Ctrl-C ends this at once: {error}");
    }
}

/// Whether the user has asked for the end.
pub(crate) fn asked() -> bool {
    ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed))
}
