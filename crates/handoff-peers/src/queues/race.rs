//! Both ends of a ring: one fills it, the other empties it, on two CPUs.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use handoff_workloads::Placement;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::{Message, SIZE};

/// The CPUs of the reader and of the writer; none where there is one CPU only.
pub(super) fn cpus() -> Option<[usize; 2]> {
    match Placement::two_cpus() {
        Ok(Placement::TwoCpus(reader, writer)) => Some([reader, writer]),
        _ => None,
    }
}

/// Lets the calling thread run on this CPU only.
pub(super) fn pin(cpu: Option<usize>) -> io::Result<()> {
    let Some(cpu) = cpu else { return Ok(()) };
    let mut mask = CpuSet::new();
    mask.set(cpu);
    sched_setaffinity(None, &mask)
        .map_err(|error| io::Error::other(format!("cannot run on CPU {cpu}: {error}")))
}

/// Runs both ends in this process and gives messages per second.
pub(super) fn race<const N: usize>(
    messages: u64,
    push: impl FnMut(&[Message; N]) -> bool + Send,
    pop: impl FnMut(&mut [Message; N]) -> bool + Send,
) -> io::Result<f64> {
    let cpus = cpus();
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(2));
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let pinned = pin(cpus.map(|[_, writer]| writer));
            ready.wait();
            pinned.map(|()| write(messages, push, &stop))
        });
        let reading = scope.spawn(|| {
            let pinned = pin(cpus.map(|[reader, _]| reader));
            ready.wait();
            let rate = pinned.and_then(|()| read(messages, pop));
            // Whatever it is: a writer does not wait for a reader that is gone.
            stop.store(true, Ordering::Relaxed);
            rate
        });
        let died = |_| io::Error::other("one of the ends of a ring died");
        writing.join().map_err(died)??;
        reading.join().map_err(died)?
    })
}

/// Writes so many numbered messages; less if it is to stop while it waits for room.
pub(super) fn write<const N: usize>(
    messages: u64,
    mut push: impl FnMut(&[Message; N]) -> bool,
    stop: &AtomicBool,
) {
    let mut batch = [[7; SIZE]; N];
    for first in (0..messages).step_by(N) {
        for (message, number) in batch.iter_mut().zip(first..) {
            message[..8].copy_from_slice(&number.to_ne_bytes());
        }
        let mut tries = 0_u32;
        while !push(&batch) {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            pause(&mut tries);
        }
    }
}

/// Reads and checks so many messages; gives how many came a second from the first on.
pub(super) fn read<const N: usize>(
    messages: u64,
    mut pop: impl FnMut(&mut [Message; N]) -> bool,
) -> io::Result<f64> {
    let mut batch = [[0; SIZE]; N];
    let mut began = Instant::now();
    for first in (0..messages).step_by(N) {
        let mut tries = 0_u32;
        while !pop(&mut batch) {
            pause(&mut tries);
        }
        // All of it is wanted: no ring may leave out bytes that are not looked at here.
        std::hint::black_box(&mut batch);
        for (message, number) in batch.iter().zip(first..) {
            if u64::from_ne_bytes(std::array::from_fn(|n| message[n])) != number {
                return Err(io::Error::other(format!("message {number} did not come in its turn")));
            }
        }
        if first == 0 {
            began = Instant::now();
        }
    }
    Ok(messages.saturating_sub(N as u64) as f64 / began.elapsed().as_secs_f64())
}

/// Spins a while and then lets others run: where there is one CPU, the other end is among them.
fn pause(tries: &mut u32) {
    *tries += 1;
    if tries.is_multiple_of(256) { thread::yield_now() } else { std::hint::spin_loop() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_message_is_an_error_and_holds_nobody_up() {
        let mut popped = 0_u64;
        let outcome = race::<1>(
            1000,
            |_| false,
            |[message]| {
                message[..8].copy_from_slice(&popped.to_ne_bytes());
                popped += 2;
                true
            },
        );
        assert!(outcome.unwrap_err().to_string().contains("message 1 "));
    }
}
