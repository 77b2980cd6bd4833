//! A count of wake-ups that brought nothing: how a thread notices that a peer keeps it awake.

#[cfg(not(loom))]
use std::time::{Duration, Instant};

/// Wake-ups that a thread may have for nothing at once.
#[cfg(not(loom))]
const MOST: u32 = 1000;
/// Few, so that loom sees their end.
#[cfg(loom)]
const MOST: u32 = 3;
/// After so long another one is allowed. A signal or a recall now and then is nobody's fault.
#[cfg(not(loom))]
const REGAIN: Duration = Duration::from_micros(100);

/// Counts wake-ups for nothing.
#[derive(Debug, Default)]
pub struct SpuriousWakes {
    count: u32,
    // When it was counted last.
    #[cfg(not(loom))]
    last: Option<Instant>,
}

impl SpuriousWakes {
    /// A thread woke up, or did not sleep, and found nothing. True if it did so too often.
    #[cold]
    pub fn too_many(&mut self) -> bool {
        #[cfg(not(loom))]
        {
            let now = now();
            if let Some(last) = self.last {
                let regained = now.duration_since(last).as_nanos() / REGAIN.as_nanos();
                self.count = self.count.saturating_sub(u32::try_from(regained).unwrap_or(u32::MAX));
            }
            // What is left of the time counts the next time, unless it is little: then little is lost.
            self.last = Some(now);
        }
        self.count += 1;
        self.count > MOST
    }

    /// A thread woke up and found something.
    #[inline]
    pub fn found(&mut self) {
        self.count = 0;
    }
}

#[cfg(not(loom))]
fn now() -> Instant {
    #[cfg(test)]
    if let Some(now) = STOPPED.get() {
        return now;
    }
    Instant::now()
}

#[cfg(all(test, not(loom)))]
thread_local! {
    /// The time at which this thread's clock stands, for tests: on a machine that is busy each turn takes long, and none
    /// is one too many.
    pub(crate) static STOPPED: std::cell::Cell<Option<Instant>> = const { std::cell::Cell::new(None) };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn wakes_in_a_row_are_too_many_and_those_now_and_then_are_not() {
        let mut wakes = SpuriousWakes { count: MOST - 1, last: None };
        for _ in 0..10 {
            wakes.last = Instant::now().checked_sub(2 * REGAIN);
            assert!(!wakes.too_many());
        }
        // In a row: regains nothing, however slow the machine is, if no time is said to have gone by.
        let mut wakes = SpuriousWakes::default();
        STOPPED.set(Some(Instant::now()));
        let taken = (0..).take_while(|_| !wakes.too_many()).count();
        assert_eq!(taken, MOST as usize);
        wakes.found();
        assert!(!wakes.too_many());
    }
}
