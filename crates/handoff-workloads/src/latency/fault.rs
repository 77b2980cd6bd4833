//! Fault injection: causes of lateness, so that one sees what a diagnosis makes of each.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use handoff_placement::fast::cpu_time;
use handoff_placement::{Priority, Tid};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::place::{self, Placement};
use crate::sys::clock;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Threads called `hog`, one on each CPU, at `SCHED_FIFO` 1, which compute at the same time and
    /// then pause for four times as long: normal tasks have no CPU meanwhile.
    Hog,
    /// The callee of every fifth urgent call computes.
    Callee,
    /// The callee of every fifth urgent call asks for a lock that a thread of normal priority, called
    /// `lock-holder`, has taken to compute under it.
    Lock,
}

impl Cause {
    const ALL: [(Cause, &'static str); 3] =
        [(Cause::Hog, "hog"), (Cause::Callee, "callee"), (Cause::Lock, "lock")];
}

/// A cause of lateness to inject, written `hog`, `callee`, `lock` or `callee:30`, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fault {
    pub cause: Cause,
    /// For how long it keeps a call, in milliseconds of CPU time, 1 to 10,000.
    pub millis: u32,
}

/// Longer than any deadline that makes sense, and short enough not to disturb.
const MILLIS: u32 = 15;

impl FromStr for Fault {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, millis) = text.split_once(':').map_or((text, None), |(name, ms)| (name, Some(ms)));
        let Some(&(cause, _)) = Cause::ALL.iter().find(|(_, known)| *known == name) else {
            return Err(Error::parameter("fault", format!("{name:?} is none of hog, callee, lock")));
        };
        let millis = millis.map_or(Some(MILLIS), |text| text.parse().ok());
        match millis.filter(|millis| (1..=10_000).contains(millis)) {
            Some(millis) => Ok(Fault { cause, millis }),
            None => Err(Error::parameter("fault", format!("{text:?}; 1 to 10000 milliseconds are possible"))),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Cause::ALL.iter().find(|(cause, _)| *cause == self.cause).map_or("", |(_, name)| name);
        write!(f, "{name}:{}", self.millis)
    }
}

impl TryFrom<String> for Fault {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Fault> for String {
    fn from(fault: Fault) -> String {
        fault.to_string()
    }
}

impl Fault {
    fn time(self) -> Duration {
        Duration::from_millis(self.millis.into())
    }

    /// Whether the urgent call of this iteration is one that the callee makes late.
    pub(super) fn makes_late(self, iteration: u32) -> bool {
        self.cause != Cause::Hog && iteration % 5 == 4
    }
}

/// The server's part of a fault.
#[derive(Debug)]
pub(crate) enum Lateness {
    Compute(Duration),
    /// It asks for a lock.
    Lock(Holder),
}

impl Lateness {
    /// Gets it ready; none if the server has no part in it.
    pub(crate) fn prepare(fault: Fault) -> Result<Option<Self>> {
        Ok(match fault.cause {
            Cause::Hog => None,
            Cause::Callee => Some(Lateness::Compute(fault.time())),
            Cause::Lock => Some(Lateness::Lock(Holder::start(fault.time())?)),
        })
    }

    /// Makes the call that is being served late.
    pub(crate) fn happen(&self) {
        match self {
            Lateness::Compute(time) => compute(*time),
            Lateness::Lock(holder) => holder.stand_in_the_way(),
        }
    }
}

/// A thread that takes a lock when it is told to, and computes before it gives it back.
#[derive(Debug)]
pub(crate) struct Holder {
    lock: Arc<Mutex<()>>,
    take: SyncSender<()>,
    taken: Mutex<Receiver<()>>,
}

impl Holder {
    fn start(time: Duration) -> Result<Self> {
        let lock = Arc::new(Mutex::new(()));
        let (take, asked) = sync_channel(1);
        let (say, taken) = sync_channel(1);
        let its = Arc::clone(&lock);
        let hold = move || {
            // The callee, which ends the channels, ends the thread.
            for () in asked {
                let guard = its.lock();
                if say.send(()).is_err() {
                    return;
                }
                compute(time);
                drop(guard);
            }
        };
        thread::Builder::new()
            .name("lock-holder".into())
            .spawn(hold)
            .map_err(|error| Error::io("cannot start the holder of the lock", error))?;
        Ok(Holder { lock, take, taken: Mutex::new(taken) })
    }

    /// Has the lock taken, and then asks for it.
    fn stand_in_the_way(&self) {
        // Two callees at once would take each other's turn; a poisoned lock is as good as any.
        let taken = self.taken.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.take.send(()).is_ok() && taken.recv().is_ok() {
            drop(self.lock.lock());
        }
    }
}

/// Uses so much CPU time of this thread.
fn compute(time: Duration) {
    let end = cpu_time() + time;
    while cpu_time() < end {
        std::hint::spin_loop();
    }
}

/// The threads of [`Cause::Hog`]. They end when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Hogs {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    /// Starts them if they are the fault.
    pub(super) fn start(fault: Option<Fault>) -> Result<Self> {
        let mut hogs = Hogs::default();
        let Some(fault) = fault.filter(|fault| fault.cause == Cause::Hog) else { return Ok(hogs) };
        for cpu in place::allowed_cpus()? {
            let stop = Arc::clone(&hogs.stop);
            let (say, ready) = sync_channel(1);
            let hog = move || {
                let mask = Placement::SameCpu(cpu).client();
                let placed = place::apply(mask.as_ref()).map_err(|error| error.to_string()).and_then(|()| {
                    Priority::fifo(1).apply(Tid::current()).map_err(|error| error.to_string())
                });
                let failed = placed.is_err();
                if say.send(placed).is_err() || failed {
                    return;
                }
                burn_together(fault.time(), &stop);
            };
            let thread = thread::Builder::new()
                .name("hog".into())
                .spawn(hog)
                .map_err(|error| Error::io("cannot start a CPU hog", error))?;
            hogs.threads.push(thread);
            match ready.recv() {
                Ok(Ok(())) => {}
                Ok(Err(why)) => return Err(Error::NotSupported { workload: "a hog", reason: why }),
                Err(error) => return Err(Error::io("a CPU hog did not start", std::io::Error::other(error))),
            }
        }
        Ok(hogs)
    }
}

/// Computes in the first fifth of each period of the clock, which all hogs share.
fn burn_together(time: Duration, stop: &AtomicBool) {
    let burst = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
    let period = burst.saturating_mul(5);
    while !stop.load(Ordering::Relaxed) {
        let phase = clock::now() % period;
        if phase < burst {
            std::hint::spin_loop();
        } else {
            thread::sleep(Duration::from_nanos(period - phase));
        }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plant_is_read_as_it_is_written() {
        for text in ["hog:15", "callee:30", "lock:1"] {
            let fault: Fault = text.parse().expect("a fault");
            assert_eq!(fault.to_string(), text);
            assert_eq!(serde_json::to_string(&fault).expect("JSON"), format!("\"{text}\""));
        }
        assert_eq!("hog".parse::<Fault>().expect("a fault").millis, 15);
        for wrong in ["", "cow", "hog:", "hog:0", "hog:-1", "lock:10001", "callee:x"] {
            let error = wrong.parse::<Fault>().expect_err(wrong).to_string();
            assert!(error.starts_with("fault: "), "{error}");
        }
    }

    #[test]
    fn a_lock_is_waited_for() {
        let fault: Fault = "lock:5".parse().expect("a fault");
        let lateness = Lateness::prepare(fault).expect("started").expect("the server has a part");
        for _ in 0..3 {
            let start = clock::now();
            lateness.happen();
            assert!(clock::now() - start >= 5_000_000, "the holder computes for 5 ms first");
        }
        assert!(Lateness::prepare("hog".parse().expect("a fault")).expect("nothing to do").is_none());
    }
}
