//! A living engine with honest clients, and what must hold after each sequence of hostile actions.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use handoff_ipc::engine::{Engine as _, EngineStats};
use handoff_ipc::frames::{FrameConsumer, FrameOptions, FramePool};
use handoff_ipc::shm::ShmEngine;
use handoff_ipc::{Binder, Error, Result};

use crate::service::{ECHO, Everything, FRAMES, SELF};

/// A limit on behaviour, not on speed.
const LIMIT: Duration = Duration::from_secs(20);
/// The engine, its frames, and those who use both honestly.
pub struct World {
    pub socket: PathBuf,
    engine: ShmEngine,
    pool: FramePool,
    honest: (ShmEngine, Binder),
    viewer: (ShmEngine, Binder),
    camera: FrameConsumer,
    before: EngineStats,
    calls: u64,
}

impl World {
    pub fn new(folder: &Path) -> Self {
        let socket = folder.join("target.sock");
        let engine = ShmEngine::new(&socket).unwrap();
        let options =
            FrameOptions { reclaim_after: Some(Duration::from_millis(1)), ..FrameOptions::new(4, 4096) };
        let pool = FramePool::new(options).unwrap();
        let target = Everything::steady();
        target.kept.lock().unwrap().frames = Some(pool.clone());
        engine.become_context_manager(Binder::new(target)).unwrap();
        let honest = connected(&socket);
        let viewer = connected(&socket);
        let frames: Binder = viewer.1.transaction(FRAMES).call(|_| Ok(()), |r| r.read()).unwrap();
        let camera = FrameConsumer::subscribe(&frames).unwrap();
        let before = engine.stats();
        let mut world = World { socket, engine, pool, honest, viewer, camera, before, calls: 0 };
        world.check();
        world.before = world.engine.stats();
        world
    }

    /// An honest call in the midst of it. It may have to wait for a thread, and gets its own answer or none.
    pub fn call(&mut self) {
        match self.echo(Duration::from_millis(200)) {
            Ok(()) => {}
            // Its slot is left to the late reply, and the next call would open another one: a new connection has one.
            Err(Error::DeadlineExpired(_)) => self.honest = connected(&self.socket),
            Err(other) => panic!("an honest call has {other:?}"),
        }
    }

    fn echo(&mut self, within: Duration) -> Result<()> {
        self.calls += 1;
        let sent = self.calls.to_le_bytes().repeat(1 + self.calls as usize % 300);
        let root = &self.honest.1;
        let answer = root
            .transaction(ECHO)
            .deadline(within)
            .call(|w| w.write_bytes(&sent), |r| Ok(r.read_bytes()?.to_vec()))?;
        assert!(answer == sent, "an honest client got an answer that is not its own");
        Ok(())
    }

    /// After the attackers are gone.
    pub fn check(&mut self) {
        self.echo(LIMIT).expect("an honest call, after the attack");
        let newcomer = ShmEngine::new(&self.socket).unwrap();
        let object: Result<Binder> =
            newcomer.context_object().and_then(|root| root.transaction(SELF).call(|_| Ok(()), |r| r.read()));
        drop(object.expect("an honest newcomer"));
        drop(newcomer);
        let mut frame = self.pool.acquire(Some(LIMIT)).expect("a buffer for a frame");
        frame.write_at(0, &self.calls.to_le_bytes()).unwrap();
        frame.publish(8).unwrap();
        let frame = self.camera.next(Some(LIMIT)).expect("an honest consumer's frame");
        assert_eq!(frame.bytes().to_vec(), self.calls.to_le_bytes(), "the frame that was published");
        drop(frame);
        let before = self.before;
        eventually("connections and what is held for peers are as before", || {
            let now = self.engine.stats();
            (now.links <= before.links && now.held.is_within(&before.held)).then_some(()).ok_or((
                now.links,
                now.held,
                before.links,
                before.held,
            ))
        });
        eventually("all threads rest", || match busy() {
            threads if threads.is_empty() => Ok(()),
            threads => Err(threads),
        });
        let threads = self.engine.stats().threads;
        assert!(threads <= 64, "{threads} threads");
    }
}

fn connected(socket: &Path) -> (ShmEngine, Binder) {
    let engine = ShmEngine::new(socket).unwrap();
    let root = engine.context_object().unwrap();
    // Its slot stays, and giving the object back looks whether the other side has read the slot's descriptor: which is
    // held for a peer until then.
    drop(root.transaction(SELF).call(|_| Ok(()), |r| r.read::<Binder>()).unwrap());
    (engine, root)
}

/// Other threads of this process that do not sleep.
fn busy() -> Vec<String> {
    // SAFETY: it asks for a number.
    let own = unsafe { libc::gettid() }.to_string();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(|task| task.ok());
    let stats = tasks.filter(|task| task.file_name() != *own);
    let texts = stats.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    texts.filter(|text| text.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" R"))).collect()
}

fn eventually<T: std::fmt::Debug>(what: &str, mut holds: impl FnMut() -> std::result::Result<(), T>) {
    let end = Instant::now() + LIMIT;
    while let Err(instead) = holds() {
        if Instant::now() > end {
            let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fd.ok());
            let open: Vec<_> =
                open.filter_map(|fd| Some((fd.file_name(), fd.path().read_link().ok()?))).collect();
            panic!("never: {what}; {instead:?}; open: {open:?}");
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}
