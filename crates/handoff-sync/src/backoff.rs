//! How an end keeps its distance from the other one.
//!
//! An end that looks again for each message takes the counter's cache line, and the ring's, from the
//! end that is about to write to them: both then wait for lines and not for each other. One that has
//! caught up in the middle of a stream therefore waits a moment, shorter than a system call, and finds
//! several messages with one look. The first message of a stream is never waited for, and an end for
//! which waiting brings nothing stops it.

/// Looks after which a spinning end offers its CPU: about as long as a thread of the engine looks before it sleeps.
const LOOKS: u64 = 2048;

/// Between two looks of a spinning end; `look` of them went by.
///
/// The scheduler may have put both ends on one CPU, and may leave them there. Each would then look until its
/// time slice ends, milliseconds in which the other cannot run.
#[inline]
pub fn spin(look: u64) {
    std::hint::spin_loop();
    if look % LOOKS == LOOKS - 1 {
        std::thread::yield_now();
    }
}

/// Whether an end waits before it looks again, and how long.
#[derive(Debug)]
pub struct Backoff {
    /// The last look was enough: this is a stream.
    streaming: bool,
    /// How often it says to the processor that it waits: 25 ns each, more or less.
    turns: u8,
    /// Looks to go without waiting.
    rests: u8,
    /// So many after the next wait in vain.
    next: u8,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { streaming: false, turns: Self::LEAST_TURNS, rests: 0, next: 0 }
    }
}

impl Backoff {
    /// Fewer bytes than this are worth waiting for more.
    const FEW: u64 = 4096;
    const LEAST_TURNS: u8 = 4;
    /// Less than a microsecond.
    const MOST_TURNS: u8 = 32;

    fn few(size: u64) -> u64 {
        // In a small ring the other end would soon wait for this one.
        Self::FEW.min(size / 4)
    }

    /// A look found `found` bytes of a ring of `size`: waits if that is for the better, and says so.
    #[inline]
    pub fn waits(&mut self, found: u64, size: u64) -> bool {
        if !self.streaming || found >= Self::few(size) {
            return false;
        }
        if self.rests > 0 {
            self.rests -= 1;
            return false;
        }
        (0..self.turns).for_each(|_| std::hint::spin_loop());
        true
    }

    /// The look after a wait found `after` bytes where there had been `before`.
    #[inline]
    pub fn waited(&mut self, before: u64, after: u64, size: u64) {
        if after <= before {
            self.turns = Self::LEAST_TURNS;
            self.next = 2 * self.next.min(31) + 1;
            self.rests = self.next;
            return;
        }
        self.next = 0;
        if after < Self::few(size) {
            // The CPUs are far apart, or the other end is slow.
            self.turns = (2 * self.turns).min(Self::MOST_TURNS);
        }
    }

    /// Whether a look was enough for what was asked.
    #[inline]
    pub fn looked(&mut self, enough: bool) {
        self.streaming = enough;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 16;

    fn streaming() -> Backoff {
        let mut backoff = Backoff::default();
        backoff.looked(true);
        backoff
    }

    #[test]
    fn the_first_message_of_a_stream_is_not_waited_for() {
        assert!(!Backoff::default().waits(64, SIZE));
        let mut backoff = streaming();
        assert!(backoff.waits(64, SIZE), "caught up with a stream");
        assert!(!backoff.waits(Backoff::FEW, SIZE), "enough is there");
        backoff.looked(false);
        assert!(!backoff.waits(0, SIZE), "found nothing: whatever comes next is the first again");
    }

    #[test]
    fn waiting_in_vain_becomes_rare_and_comes_back_when_it_helps() {
        let mut backoff = streaming();
        let mut waits = 0;
        for _ in 0..640 {
            if backoff.waits(64, SIZE) {
                backoff.waited(64, 64, SIZE);
                waits += 1;
            }
        }
        assert!(waits < 20, "{waits}");
        while !backoff.waits(64, SIZE) {}
        backoff.waited(64, 128, SIZE);
        assert!(backoff.waits(64, SIZE) && backoff.waits(64, SIZE), "it helped: always again");
    }

    #[test]
    fn it_waits_longer_until_enough_comes_and_never_very_long() {
        let mut backoff = streaming();
        (0..100).for_each(|_| backoff.waited(64, 128, SIZE));
        assert_eq!(backoff.turns, Backoff::MOST_TURNS);
        backoff.waited(64, 64, SIZE);
        assert_eq!(backoff.turns, Backoff::LEAST_TURNS);
        (0..100).for_each(|_| backoff.waited(64, Backoff::FEW, SIZE));
        assert_eq!(backoff.turns, Backoff::LEAST_TURNS, "that was enough");
    }

    #[test]
    fn a_ring_of_a_few_messages_is_not_waited_for_when_it_is_a_quarter_full() {
        assert!(!streaming().waits(64, 256));
    }
}
