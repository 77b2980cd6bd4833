//! A camera and those who look at its frames, in processes that die.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use handoff_ipc::engine::Engine;
use handoff_ipc::frames::{FrameConsumer, FrameOptions, FramePool};
use handoff_ipc::shm::ShmEngine;
use handoff_ipc::{Binder, Error};

const SOON: Option<Duration> = Some(Duration::from_secs(60));
const SIZE: usize = 1 << 20;

#[test]
#[ignore = "a process of another test"]
fn role_main() {
    let Some((role, socket)) = role() else { return };
    let engine = ShmEngine::new(&socket).unwrap();
    match role.as_str() {
        // Takes frames and never gives one back.
        "keeper" => {
            let mut camera = FrameConsumer::subscribe(&engine.context_object().unwrap()).unwrap();
            let _held: Vec<_> = (0..3).map(|_| camera.next(SOON).unwrap()).collect();
            ready_and_wait();
        }
        "camera" => {
            let pool = FramePool::new(FrameOptions::new(4, SIZE)).unwrap();
            engine.become_context_manager(pool.binder()).unwrap();
            std::thread::spawn(move || {
                for number in 0u64.. {
                    let mut frame = pool.acquire(None).unwrap();
                    frame.write_at(0, &number.to_le_bytes()).unwrap();
                    frame.write_at(SIZE - 8, &number.to_le_bytes()).unwrap();
                    frame.publish(SIZE).unwrap();
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
            ready_and_wait();
        }
        other => panic!("no such role: {other}"),
    }
}

#[test]
fn whole_frames_come_from_another_process_and_its_end_is_an_error() {
    let place = Place::new();
    let mut camera = Peer::start("camera", &place.socket());
    let engine = ShmEngine::new(place.socket()).unwrap();
    let root: Binder = engine.context_object().unwrap();
    let mut consumers: Vec<_> = (0..2).map(|_| FrameConsumer::subscribe(&root).unwrap()).collect();
    let mut last = 0;
    for _ in 0..200 {
        for consumer in &mut consumers {
            let frame = consumer.next(SOON).unwrap();
            assert_eq!(frame.bytes().len(), SIZE);
            let word = |at| frame.bytes().slice(at, 8).unwrap().to_vec();
            assert_eq!(word(0), word(SIZE - 8), "a frame is whole as long as it is held");
            last = frame.sequence();
        }
    }
    assert!(last >= 200);
    let held = consumers[0].next(SOON).unwrap();
    camera.kill();
    let ended = loop {
        match consumers[0].next(SOON) {
            // What was ready before is still there.
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(ended, Error::Dead), "{ended:?}");
    assert_eq!(held.bytes().len(), SIZE, "what is held outlives its producer");
}

#[test]
fn a_consumer_that_dies_gives_back_what_it_held() {
    let place = Place::new();
    let engine = Arc::new(ShmEngine::new(place.socket()).unwrap());
    let pool = FramePool::new(FrameOptions { max_held: 3, ..FrameOptions::new(3, 4096) }).unwrap();
    engine.become_context_manager(pool.binder()).unwrap();
    for _ in 0..5 {
        let publishing = {
            let pool = pool.clone();
            std::thread::spawn(move || {
                while pool.consumers() == 0 {
                    std::thread::yield_now();
                }
                for _ in 0..3 {
                    assert_eq!(pool.acquire(SOON).unwrap().publish(1).unwrap(), 1);
                }
            })
        };
        let mut keeper = Peer::start("keeper", &place.socket());
        publishing.join().unwrap();
        assert!(matches!(
            pool.acquire(Some(Duration::from_millis(20))).map(drop),
            Err(Error::DeadlineExpired(_))
        ));
        keeper.kill();
        drop(pool.acquire(SOON).unwrap());
        assert_eq!(pool.consumers(), 0);
    }
}
