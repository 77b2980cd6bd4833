//! The two processes of a floor, kept between batches.
//!
//! Data flow of a batch: the caller writes how many trips it wants into shared memory and moves
//! `generation` on; both processes, asleep on it, start; the client stores the time of each sample in
//! shared memory and writes one byte to the caller, who sleeps in `poll` meanwhile. Between batches
//! neither process runs, so that sessions can take turns without disturbing each other.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SocketType;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::{CpuSet, futex};

use super::fds::{Fds, receive, send};
use super::memory::{Futex, Memcpy, Slot, Spin, Yield};
use super::{Parameters, Primitive};
use crate::deadline::RecordedRun;
use crate::error::{Error, Result};
use crate::place;
use crate::sys::clock;
use crate::sys::shared::SharedRegion;
use crate::sys::team::{Exit, Team};

/// Most samples of one batch.
pub const MAX_SAMPLES: u32 = 1 << 16;

/// Untimed trips before the first sample of a batch, so that both sides have woken up.
const WARM_UP: u64 = 10;

/// A batch that takes longer than this is given up.
const LIMIT: Duration = Duration::from_secs(300);

// Layout of the shared region: words of the batch, then the slot, then the samples.
const GENERATION: usize = 0;
const SAMPLES: usize = 8;
const TRIPS: usize = 16;
const CLIENT_ERRNO: usize = 24;
const SERVER_ERRNO: usize = 28;
/// Where a hop over shared memory keeps its slot: a cache line of its own.
pub(super) const SLOT: usize = 128;

/// One round trip over one primitive, from each side. Runs in forked children: system calls, shared
/// memory and `scratch` (of the payload's size) only.
pub(super) trait Hop {
    /// Sends the payload and waits until it is back.
    fn client(&self, scratch: &mut [u8]) -> rustix::io::Result<()>;
    /// Waits for one payload and sends it back.
    fn server(&self, scratch: &mut [u8]) -> rustix::io::Result<()>;
    /// Descriptors that the client needs.
    fn client_fds(&self) -> Vec<RawFd> {
        Vec::new()
    }
    /// Descriptors that the server needs.
    fn server_fds(&self) -> Vec<RawFd> {
        Vec::new()
    }
}

/// The two processes of one floor.
///
/// They end when it is dropped, and are killed by the kernel if the thread that started them dies.
#[derive(Debug)]
pub struct Session {
    region: SharedRegion,
    samples_at: usize,
    done: OwnedFd,
    team: Team,
}

impl Session {
    /// Starts the processes; they sleep until the first batch.
    pub fn start(parameters: &Parameters) -> Result<Self> {
        Self::start_watched(parameters, None)
    }

    /// [`Session::start`] with a deadline for each sample.
    pub(crate) fn start_watched(parameters: &Parameters, watched: Option<&RecordedRun>) -> Result<Self> {
        parameters.check()?;
        let cannot =
            |error: io::Error| Error::io(format!("cannot start the {} floor", parameters.primitive), error);
        let payload: Vec<u8> = (0..parameters.payload).map(|i| (i % 251) as u8).collect();
        let samples_at = (SLOT + Slot::<Futex>::size(payload.len())).next_multiple_of(64);
        let region = SharedRegion::new(samples_at + 8 * MAX_SAMPLES as usize).map_err(cannot)?;
        let (done, done_by_client) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| cannot(e.into()))?;
        let start = Start { parameters, region: &region, samples_at, done: &done_by_client, watched };
        let team = match parameters.primitive {
            Primitive::Futex => start.both(&Slot::<Futex>::new(&region, &payload)),
            Primitive::CacheLine => start.both(&Slot::<Spin>::new(&region, &payload)),
            Primitive::SchedYield => start.both(&Slot::<Yield>::new(&region, &payload)),
            Primitive::Pipe => Fds::pipes(&payload).map_err(io::Error::from).and_then(|fds| start.both(&fds)),
            Primitive::UnixStream => {
                Fds::sockets(&payload, SocketType::STREAM).and_then(|fds| start.both(&fds))
            }
            Primitive::UnixSeqpacket => {
                Fds::sockets(&payload, SocketType::SEQPACKET).and_then(|fds| start.both(&fds))
            }
            Primitive::Memcpy => start.both(&Memcpy(&payload)),
        }
        .map_err(cannot)?;
        Ok(Session { region, samples_at, done, team })
    }

    /// Runs one batch and gives nanoseconds a round trip, one value for each sample of `trips`
    /// consecutive trips. Use 1 trip for what blocks; more for what takes well under a microsecond,
    /// because a sample holds one reading of the clock (20 to 40 ns).
    pub fn batch(&mut self, samples: u32, trips: u32) -> Result<Vec<f64>> {
        if samples == 0 || samples > MAX_SAMPLES {
            return Err(Error::parameter("samples", format!("{samples}; a batch has 1 to {MAX_SAMPLES}")));
        }
        if trips == 0 {
            return Err(Error::parameter("trips", "0; a sample has at least one trip"));
        }
        self.region.u64(SAMPLES).store(samples.into(), Ordering::Relaxed);
        self.region.u64(TRIPS).store(trips.into(), Ordering::Relaxed);
        let generation = self.region.u32(GENERATION);
        generation.fetch_add(1, Ordering::Release);
        futex::wake(generation, futex::Flags::empty(), 2)
            .map_err(|error| Error::io("cannot wake the floor's processes", error))?;
        self.wait_until_done()?;
        let value =
            |index: u32| self.region.u64(self.samples_at + 8 * index as usize).load(Ordering::Relaxed);
        Ok((0..samples).map(|index| value(index) as f64 / f64::from(trips)).collect())
    }

    fn wait_until_done(&mut self) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let mut polled: Vec<_> =
                self.team.pidfds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            polled.push(PollFd::new(&self.done, PollFlags::IN));
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::TimedOut { what: "a batch of a floor".into(), limit: LIMIT });
            }
            let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: 0 };
            match poll(&mut polled, Some(&left)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Error::io("cannot wait for the floor's processes", error)),
            }
            // A hang-up without data means that the client is on its way out; its pidfd says when.
            let done = polled.pop().is_some_and(|done| done.revents().contains(PollFlags::IN));
            let died = polled.iter().any(|member| !member.revents().is_empty());
            if died {
                return Err(self.why_died());
            }
            if done {
                return receive(self.done.as_fd(), &mut [0])
                    .map_err(|error| Error::io("cannot hear from the floor's client", error));
            }
        }
    }

    /// Reaps the process that died and says what its last word was.
    fn why_died(&mut self) -> Error {
        let mut exit = match self.team.try_wait() {
            Ok(Some(exit)) => exit,
            Ok(None) => return Error::io("cannot tell which process died", Errno::CHILD),
            Err(error) => return Error::io("cannot tell why a process died", error),
        };
        if self.errno_of(&exit) == Errno::PIPE.raw_os_error() {
            // This one only noticed that the other's ends were closed: the other is the cause, and
            // can be reaped as soon as the kernel has taken it apart.
            if let Ok(Some(cause)) = self.team.wait_first() {
                exit = cause;
            }
        }
        let errno = self.errno_of(&exit);
        if errno == 0 {
            return Error::PeerDied { role: exit.role.to_owned(), how: exit.how() };
        }
        Error::io(format!("the floor's {} process failed", exit.role), io::Error::from_raw_os_error(errno))
    }

    fn errno_of(&self, exit: &Exit) -> i32 {
        let at = if exit.role == "client" { CLIENT_ERRNO } else { SERVER_ERRNO };
        self.region.u32(at).load(Ordering::Relaxed).cast_signed()
    }
}

/// What both processes are made from.
struct Start<'a> {
    parameters: &'a Parameters,
    region: &'a SharedRegion,
    samples_at: usize,
    done: &'a OwnedFd,
    watched: Option<&'a RecordedRun>,
}

impl Start<'_> {
    fn both<H: Hop>(&self, hop: &H) -> io::Result<Team> {
        let mut team = Team::new();
        let mut scratch = vec![0; self.parameters.payload];
        if self.parameters.primitive != Primitive::Memcpy {
            let mask = self.parameters.placement.server();
            let body = || report(self.region.u32(SERVER_ERRNO), self.serve(hop, &mut scratch, mask));
            // In the child: `serve` and `report` only make system calls and touch shared memory and
            // `scratch`; nothing is allocated and no lock is taken.
            team.fork("server", &hop.server_fds(), body)?;
        }
        let mask = self.parameters.placement.client();
        let mut fds = hop.client_fds();
        fds.push(self.done.as_raw_fd());
        fds.extend(self.watched.map(RecordedRun::fd));
        let server = team.pids().first().copied().unwrap_or(0);
        let body = || report(self.region.u32(CLIENT_ERRNO), self.call(hop, &mut scratch, mask, server));
        // In the child: as for `serve`.
        team.fork("client", &fds, body)?;
        Ok(team)
    }

    fn serve<H: Hop>(&self, hop: &H, scratch: &mut [u8], mask: Option<CpuSet>) -> rustix::io::Result<()> {
        place::apply(mask.as_ref())?;
        let mut seen = 0;
        loop {
            let (samples, trips) = self.next_batch(&mut seen)?;
            for _ in 0..WARM_UP + samples * trips {
                hop.server(scratch)?;
            }
        }
    }

    fn call<H: Hop>(
        &self,
        hop: &H,
        scratch: &mut [u8],
        mask: Option<CpuSet>,
        server: i32,
    ) -> rustix::io::Result<()> {
        place::apply(mask.as_ref())?;
        let mut seen = 0;
        loop {
            let (samples, trips) = self.next_batch(&mut seen)?;
            for _ in 0..WARM_UP {
                hop.client(scratch)?;
            }
            let mut before = clock::now();
            for sample in 0..samples {
                for _ in 0..trips {
                    hop.client(scratch)?;
                }
                let after = clock::now();
                self.region
                    .u64(self.samples_at + 8 * sample as usize)
                    .store(after - before, Ordering::Relaxed);
                if let Some(watched) = self.watched {
                    let checked = watched.check(server, before, after);
                    checked.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
                }
                before = after;
            }
            send(self.done, &[1])?;
        }
    }

    /// Sleeps until the caller wants another batch; gives its samples and the trips of each.
    fn next_batch(&self, seen: &mut u32) -> rustix::io::Result<(u64, u64)> {
        let generation = self.region.u32(GENERATION);
        loop {
            let now = generation.load(Ordering::Acquire);
            if now != *seen {
                *seen = now;
                let word = |at| self.region.u64(at).load(Ordering::Relaxed);
                return Ok((word(SAMPLES), word(TRIPS)));
            }
            match futex::wait(generation, futex::Flags::empty(), now, None) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Leaves the error where the parent finds it, and gives the exit status.
fn report(word: &AtomicU32, result: rustix::io::Result<()>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            word.store(error.raw_os_error().cast_unsigned(), Ordering::Relaxed);
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Placement;
    use handoff_testkit::{require, require_cpus};

    fn session(primitive: Primitive, payload: usize, placement: Placement) -> Session {
        Session::start(&Parameters { primitive, payload, placement }).expect("the floor starts")
    }

    #[test]
    fn every_primitive_carries_small_and_large_payloads() {
        require!(require_cpus(2));
        for primitive in Primitive::ALL {
            for payload in [1, 8, 1000, 100_000] {
                let mut session = session(primitive, payload, Placement::Unpinned);
                for (samples, trips) in [(1, 1), (20, 3)] {
                    let values = session.batch(samples, trips).expect("the batch runs");
                    assert_eq!(values.len(), samples as usize);
                    assert!(values.iter().all(|&ns| ns >= 0.0 && ns.is_finite()));
                    assert!(primitive == Primitive::Memcpy || values.iter().any(|&ns| ns > 0.0));
                }
            }
        }
    }

    #[test]
    fn processes_run_where_they_were_put() {
        require!(require_cpus(2));
        let (same, two) = (Placement::same_cpu().expect("a CPU"), Placement::two_cpus().expect("two CPUs"));
        for placement in [same, two] {
            let mut session = session(Primitive::Pipe, 8, placement);
            session.batch(5, 1).expect("the batch runs");
            let allowed = |pid: i32| -> Vec<usize> {
                let mask =
                    rustix::thread::sched_getaffinity(rustix::process::Pid::from_raw(pid)).expect("alive");
                (0..CpuSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu)).collect()
            };
            let found: Vec<_> = session.team.pids().into_iter().map(allowed).collect();
            let expected = match placement {
                Placement::TwoCpus(client, server) => vec![vec![server], vec![client]],
                Placement::SameCpu(cpu) => vec![vec![cpu], vec![cpu]],
                Placement::Unpinned => unreachable!("not asked for"),
            };
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn sessions_take_turns_and_sleep_between() {
        require!(require_cpus(2));
        let mut futex = session(Primitive::Futex, 8, Placement::Unpinned);
        let mut spin = session(Primitive::CacheLine, 8, Placement::Unpinned);
        for _ in 0..3 {
            assert_eq!(futex.batch(10, 1).expect("runs").len(), 10);
            assert_eq!(spin.batch(10, 100).expect("runs").len(), 10);
        }
        let asleep = |pid: i32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("alive");
            stat.rsplit_once(") ").expect("a name in brackets").1.starts_with('S')
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !spin.team.pids().into_iter().all(asleep) {
            assert!(Instant::now() < deadline, "a process of an idle floor still runs");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_killed_process_is_an_error_and_not_a_hang() {
        for victim in [0, 1] {
            let mut session = session(Primitive::Pipe, 8, Placement::Unpinned);
            session.batch(5, 1).expect("the batch runs");
            let pid = session.team.pids()[victim];
            let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("ours");
            let error = session.batch(MAX_SAMPLES, 1000).expect_err("a process is dead").to_string();
            let role = ["server", "client"][victim];
            assert!(error.contains(&format!("the {role} process")), "{error}");
        }
    }

    #[test]
    fn impossible_parameters_are_refused_before_anything_runs() {
        let start = |primitive, payload, placement| {
            Session::start(&Parameters { primitive, payload, placement }).expect_err("refused").to_string()
        };
        assert!(start(Primitive::Futex, 0, Placement::Unpinned).contains("carries 1 to"));
        assert!(start(Primitive::Pipe, usize::MAX, Placement::Unpinned).contains("carries 1 to"));
        assert!(start(Primitive::UnixSeqpacket, 1 << 20, Placement::Unpinned).contains("131072"));
        assert!(start(Primitive::Pipe, 8, Placement::SameCpu(5000)).contains("may not run on CPU 5000"));
        let same = Placement::same_cpu().expect("a CPU");
        assert!(start(Primitive::CacheLine, 8, same).contains("scheduler's slice"));
        let mut session = session(Primitive::Pipe, 8, same);
        assert!(session.batch(0, 1).is_err() && session.batch(1, 0).is_err());
        assert!(session.batch(MAX_SAMPLES + 1, 1).is_err());
        assert!(session.batch(1, 1).is_ok(), "a refused batch does no harm");
    }
}
