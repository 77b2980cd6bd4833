//! A thread's stay at a ring: in which order it says what it does, looks for records, serves, sleeps and goes.
//!
//! `receive.rs` takes calls out of a ring in memory that is shared; the model in `bell.rs` counts in place of that. Both
//! run this loop.

use crate::bell;
use crate::futex::AtomicU32;

/// The ring as the thread that attends to it sees it.
pub trait Attendance {
    /// Takes the ring. False if another thread has it.
    fn enter(&mut self) -> bool;

    /// Lets other threads at the ring.
    fn let_go(&mut self);

    /// A thread is wanted: whoever was sent may have found this one still there.
    fn send_thread(&mut self);

    /// The object that calls have gone to for a while, without any other.
    fn expected(&self) -> Option<u64>;

    /// Takes out what is there. Gives the first object that needs a thread for it.
    fn take_out(&mut self) -> Option<u64>;

    /// What the ring says cannot be.
    fn is_broken(&self) -> bool;

    /// Ends the ring, and has others serve what was taken out.
    fn give_up(&mut self);

    /// Whether anything was taken out and not served.
    fn has_jobs(&self) -> bool;

    /// Serves what was taken out.
    fn serve(&mut self);

    /// Whether nothing more will come.
    fn has_ended(&mut self) -> bool;

    /// Looks for a record for a while, without sleeping. True if one is there.
    fn spin(&mut self) -> bool;

    /// A wake-up or a look ended.
    fn note_idle(&mut self);

    /// Says whether the thread waits, so that it can be recalled.
    fn set_waiting(&mut self, waits: bool);

    /// Whether a record is there.
    fn has_more(&mut self) -> bool;

    /// Whether something else than a record wants the thread.
    fn is_wanted(&mut self) -> bool;

    /// Sleeps while the word says [`bell::ASLEEP`].
    fn sleep(&mut self);
}

/// Takes out what there is, waits a while for more, serves.
pub fn attend(bell: &AtomicU32, ring: &mut impl Attendance) {
    bell::arrive();
    // Who rang while another thread is here was heard by that thread.
    if !ring.enter() {
        return;
    }
    loop {
        // While calls go to one object alone, the word stays as it is: each change costs the sender
        // a cache miss.
        if !ring.expected().is_some_and(|node| bell::serves(bell, node)) {
            bell::attend(bell);
        }
        let first = ring.take_out();
        if let Some(first) = first.filter(|first| !bell::serves(bell, *first)) {
            bell::serve(bell, first);
            // What came before the word said so was not rung for.
            ring.take_out();
        }
        if ring.is_broken() {
            return ring.give_up();
        }
        if ring.has_jobs() {
            // Handlers may take long: the ring must not wait for them.
            leave_to_others(bell, ring);
            ring.serve();
            if !ring.enter() {
                return;
            }
            continue;
        }
        if ring.has_ended() {
            return ring.let_go();
        }
        // The bell may say what this side never wrote, or a sender rang: look again.
        if ring.spin() || !bell::may_sleep(bell) {
            ring.note_idle();
            continue;
        }
        // Whoever hands work to the pool either sees this thread wait, or this thread sees the work.
        ring.set_waiting(true);
        let empty = !ring.has_more();
        if empty && !ring.is_wanted() {
            ring.sleep();
        }
        ring.set_waiting(false);
        ring.note_idle();
        if !bell::was_woken(bell) && empty {
            bell::leave(bell);
            if !ring.has_more() {
                return leave_to_others(bell, ring);
            }
        }
    }
}

fn leave_to_others(bell: &AtomicU32, ring: &mut impl Attendance) {
    ring.let_go();
    if bell::was_rung(bell) {
        ring.send_thread();
    }
}
