//! Attacks on a producer of frames.

use std::path::Path;
use std::time::Duration;

use handoff_ipc::engine::Engine as _;
use handoff_ipc::frames::FrameConsumer;
use handoff_ipc::shm::ShmEngine;

use crate::case::{BUSY, Bounds};

attacks! {
    all_subscriptions_of_a_camera: "camera", Bounds { fds: 200, ..BUSY };
    frames_that_are_not_given_back: "camera", Bounds { fds: 200, ..BUSY };
}

/// Takes every place that there is, and those that become free.
fn all_subscriptions_of_a_camera(at: &Path) {
    let engine = ShmEngine::new(at).unwrap();
    let root = engine.context_object().unwrap();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        loop {
            held.extend(FrameConsumer::subscribe(&root));
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    std::mem::forget(engine);
}

/// Several consumers, each with as many frames as it may hold.
fn frames_that_are_not_given_back(at: &Path) {
    let engine = ShmEngine::new(at).unwrap();
    let root = engine.context_object().unwrap();
    for _ in 0..4 {
        let root = root.clone();
        std::thread::spawn(move || {
            let Ok(mut frames) = FrameConsumer::subscribe(&root) else { return };
            while let Ok(frame) = frames.next(Some(Duration::from_secs(5))) {
                std::mem::forget(frame);
            }
        });
    }
    std::mem::forget(engine);
}
