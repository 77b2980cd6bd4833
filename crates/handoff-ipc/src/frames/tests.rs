//! Producers and consumers of one process, honest and not; `tests/it/frames.rs` has two.

use super::*;
use crate::Binder;

const SOON: Option<Duration> = Some(Duration::from_secs(60));
const NOW: Option<Duration> = Some(Duration::from_millis(1));

fn pool(count: usize, max_held: usize) -> FramePool {
    FramePool::new(FrameOptions { max_held, ..FrameOptions::new(count, 4096) }).unwrap()
}

fn publish(pool: &FramePool, number: u8) -> usize {
    let mut frame = pool.acquire(SOON).unwrap();
    frame.write_at(0, &[number; 100]).unwrap();
    frame.publish(100).unwrap()
}

#[test]
fn frames_come_in_order_and_may_be_given_back_in_any() {
    let pool = pool(6, 4);
    assert_eq!(publish(&pool, 0), 0, "nobody looks");
    let mut consumer = FrameConsumer::subscribe(&pool.binder()).unwrap();
    for round in 0..50u8 {
        let numbers = [round, round + 50, round + 100];
        for number in numbers {
            assert_eq!(publish(&pool, number), 1);
        }
        let frames: Vec<_> = numbers.iter().map(|_| consumer.next(SOON).unwrap()).collect();
        for (frame, number) in frames.iter().zip(numbers) {
            assert_eq!(frame.bytes().to_vec(), [number; 100]);
            assert_eq!(frame.missed(), 0);
        }
        assert!(frames.is_sorted_by_key(Frame::sequence) && frames.is_sorted_by_key(Frame::time));
        // The middle one first.
        let [first, middle, last] = <[Frame; 3]>::try_from(frames).unwrap();
        drop(middle);
        drop(last);
        drop(first);
    }
    assert!(matches!(consumer.next(NOW), Err(Error::DeadlineExpired(_))));
    publish(&pool, 9);
    drop(pool);
    assert_eq!(consumer.next(None).unwrap().bytes().get(0), Some(9), "what was published before");
    assert!(matches!(consumer.next(None), Err(Error::Dead)));
}

#[test]
fn who_holds_too_many_misses_some_and_others_do_not() {
    let pool = pool(5, 2);
    let mut slow = FrameConsumer::subscribe(&pool.binder()).unwrap();
    let mut quick = FrameConsumer::subscribe(&pool.binder()).unwrap();
    let mut held = Vec::new();
    for number in 0..20 {
        publish(&pool, number);
        let frame = quick.next(SOON).unwrap();
        assert_eq!((frame.bytes().get(0), frame.missed()), (Some(number), 0));
        if held.len() < 2 {
            held.push(slow.next(SOON).unwrap());
        }
    }
    assert_eq!(pool.missed(), 18);
    assert!(matches!(slow.next(NOW), Err(Error::DeadlineExpired(_))));
    // What it holds has not changed meanwhile.
    assert_eq!(held[1].bytes().to_vec(), [1; 100]);
    held.clear();
    publish(&pool, 77);
    let frame = slow.next(SOON).unwrap();
    assert_eq!((frame.bytes().get(0), frame.missed()), (Some(77), 18));
}

#[test]
fn a_producer_waits_for_a_buffer_and_is_woken() {
    let pool = pool(2, 2);
    let mut consumer = FrameConsumer::subscribe(&pool.binder()).unwrap();
    publish(&pool, 1);
    publish(&pool, 2);
    assert!(matches!(pool.acquire(NOW).map(drop), Err(Error::DeadlineExpired(_))));
    let frame = consumer.next(SOON).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| publish(&pool, 3));
        std::thread::sleep(Duration::from_millis(20));
        drop(frame);
        assert_eq!(waiting.join().unwrap(), 1);
    });
    // A consumer that goes gives back what it was never given out, too.
    drop(consumer);
    drop(pool.acquire(SOON).unwrap());
    let both = (pool.acquire(SOON).unwrap(), pool.acquire(SOON).unwrap());
    assert!(matches!(pool.acquire(NOW).map(drop), Err(Error::DeadlineExpired(_))));
    drop(both);
}

#[test]
fn bits_of_frames_that_a_consumer_does_not_hold_are_not_looked_at() {
    let pool = pool(3, 2);
    let mut honest = FrameConsumer::subscribe(&pool.binder()).unwrap();
    // It says that it gives back everything, all the time.
    let liar = FrameConsumer::subscribe(&pool.binder()).unwrap();
    publish(&pool, 1);
    let frame = honest.next(SOON).unwrap();
    for number in 2..40 {
        liar.shared.bits.returned.wake(u32::MAX).unwrap();
        liar.shared.bell.wake(u32::MAX).unwrap();
        publish(&pool, number);
        drop(honest.next(SOON).unwrap());
    }
    assert_eq!(frame.bytes().to_vec(), [1; 100], "nobody else gave it back");
}

#[test]
fn a_frame_that_is_held_for_ever_can_be_taken_back() {
    let options = FrameOptions {
        max_held: 3,
        reclaim_after: Some(Duration::from_millis(30)),
        ..FrameOptions::new(3, 64)
    };
    let pool = FramePool::new(options).unwrap();
    let mut greedy = FrameConsumer::subscribe(&pool.binder()).unwrap();
    let held: Vec<_> = (0..3)
        .map(|_| {
            pool.acquire(SOON).unwrap().publish(1).unwrap();
            greedy.next(SOON).unwrap()
        })
        .collect();
    for _ in 0..5 {
        drop(pool.acquire(SOON).unwrap());
    }
    drop(held);
}

#[test]
fn a_buffer_that_is_dropped_is_free_and_nobody_sees_it() {
    let pool = pool(2, 1);
    let mut consumer = FrameConsumer::subscribe(&pool.binder()).unwrap();
    for _ in 0..10 {
        let mut frame = pool.acquire(SOON).unwrap();
        frame.write_at(0, b"half").unwrap();
        assert!(frame.write_at(4095, b"xx").is_err());
    }
    assert!(consumer.next(NOW).is_err());
    let frame = pool.acquire(SOON).unwrap();
    assert!(matches!(frame.publish(4097), Err(Error::TooLarge { .. })));
    // The one that could not be published is free again.
    let _both = (pool.acquire(SOON).unwrap(), pool.acquire(SOON).unwrap());
}

#[test]
fn pools_that_cannot_be_are_refused() {
    for count in [0, 1, 32] {
        assert!(matches!(FramePool::new(FrameOptions::new(count, 64)), Err(Error::BadQueue(_))), "{count}");
    }
    assert!(FramePool::new(FrameOptions::new(2, 0)).is_err());
    let one = FramePool::new(FrameOptions { max_consumers: 1, ..FrameOptions::new(2, 64) }).unwrap();
    let first = FrameConsumer::subscribe(&one.binder()).unwrap();
    assert!(FrameConsumer::subscribe(&one.binder()).is_err());
    drop(first);
    while one.consumers() != 0 {
        std::thread::yield_now();
    }
    drop(FrameConsumer::subscribe(&one.binder()).unwrap());
    let stranger = Binder::new(crate::ParcelService::new("test.INone", |_, _| Ok(None)));
    assert!(matches!(FrameConsumer::subscribe(&stranger), Err(Error::WrongInterface { .. })));
}
