//! What placing costs: pinning a thread beside the bare system calls, and a policy that follows the
//! foreground beside what it is allowed.
//!
//! `cargo xtask bench placement` runs it, as root for the policy's figures; without `--rows FILE` it measures
//! a few rounds and prints them.

use std::hint::black_box;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use handoff_benches::{ROUNDS, Series, exit, run_each};
use handoff_lab::interleave::{Subject, SubjectError};
use handoff_lab::stats::describe::median;
use handoff_placement::fast::{SavedMask, current_cpu, pin_current, restore_current, save_current};
use handoff_placement::notice;
use handoff_placement::process::run_time_ns;
use handoff_placement::{AffinityGuard, CpuId, CpuSet, Priority, Tid};
use handoff_policy::{Daemon, Options, Policy};

/// Pairs of pin and unpin in one batch.
const PAIRS: u32 = 2_000;
/// Foreground changes in one batch.
const CHANGES: usize = 20;
/// Programs that the policy places.
const PROGRAMS: usize = 8;
/// How long an idle policy is watched in one round, and in how many rounds: a minute together.
const WATCHED: Duration = Duration::from_secs(10);
const WATCHES: usize = 6;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match (arguments.next(), arguments.next()) {
        (Some(word), Some(folder)) if word == "--daemon" => exit(daemon(&PathBuf::from(folder))),
        _ => run_each(series),
    }
}

fn series() -> Result<Vec<Series>> {
    let mut series = vec![(ROUNDS, pins(current_cpu())?)];
    if rustix::process::geteuid().is_root() {
        let followed = Rc::new(Followed::start()?);
        series.push((ROUNDS, followed.changes()));
        series.push((WATCHES, followed.idleness()));
    } else {
        eprintln!("warning: no figures of the policy: it hears of births and raises priorities as root only");
    }
    Ok(series)
}

/// A pin to one CPU and back, in nanoseconds.
fn pins(cpu: CpuId) -> Result<Vec<Subject<'static>>> {
    let mut saved = SavedMask::new();
    save_current(&mut saved)?;
    let one = CpuSet::of(cpu);
    let (one_fixed, all_fixed) = (fixed(&one), fixed(&saved.to_set()));
    let bare = "sched_setaffinity there and back";
    Ok(vec![
        pair(bare, move || {
            for mask in [&one_fixed, &all_fixed] {
                rustix::thread::sched_setaffinity(None, black_box(mask))?;
            }
            Ok(())
        }),
        pair("fast::pin_current and restore_current", move || {
            pin_current(black_box(cpu))?;
            Ok(restore_current(black_box(&saved))?)
        })
        .against(bare)
        .called("pin and unpin a thread, mask saved before")
        .goal(1.1, None),
        pair("AffinityGuard", move || {
            drop(AffinityGuard::pin(black_box(&one))?);
            Ok(())
        })
        .against(bare)
        .called("pin and unpin a thread with a guard, which saves the mask")
        .goal(1.1, None),
    ])
}

fn pair(name: &str, mut work: impl FnMut() -> Result<(), SubjectError> + 'static) -> Subject<'static> {
    Subject::new(name, move || {
        let mut times = Vec::with_capacity(PAIRS as usize);
        for _ in 0..PAIRS {
            let start = Instant::now();
            work()?;
            times.push(start.elapsed().as_nanos() as f64);
        }
        Ok(median(&times))
    })
}

fn fixed(set: &CpuSet) -> rustix::thread::CpuSet {
    let mut mask = rustix::thread::CpuSet::new();
    set.iter().filter(|cpu| *cpu < 1024).for_each(|cpu| mask.set(cpu.into()));
    mask
}

/// Some programs, and a policy in a process of its own that places them.
struct Followed {
    // Ended in this order: the policy gives the programs back what they had, if they are still there.
    daemon: Running,
    programs: Vec<Running>,
    folder: tempfile::TempDir,
}

impl Followed {
    fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let program = folder.path().join(NAME);
        let sleep = ["/usr/bin/sleep", "/bin/sleep"].iter().find(|path| Path::new(path).exists());
        std::os::unix::fs::symlink(sleep.context("there is no sleep")?, &program)?;
        let asleep = || -> Result<Running> {
            Ok(Running(Command::new(&program).arg("3600").stdin(Stdio::null()).spawn()?))
        };
        let programs = (0..PROGRAMS).map(|_| asleep()).collect::<Result<Vec<_>>>()?;
        let me = std::env::current_exe()?;
        let daemon = Command::new(me).arg("--daemon").arg(folder.path()).stdin(Stdio::piped()).spawn()?;
        let followed = Self { folder, programs, daemon: Running(daemon) };
        let start = Instant::now();
        while notice::status(followed.folder.path())
            .is_ok_and(|status| status.matches(NAME).count() < PROGRAMS)
            || notice::status(followed.folder.path()).is_err()
        {
            ensure!(start.elapsed() < Duration::from_secs(30), "the policy did not start within 30 seconds");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(followed)
    }

    /// From the word that a program came to the foreground (or left it) until it is placed so.
    fn changes(self: &Rc<Self>) -> Vec<Subject<'static>> {
        let followed = Rc::clone(self);
        let allowed = "the 5 ms that it may take";
        vec![
            Subject::new(allowed, || Ok(5e6)),
            Subject::new("a foreground change, until it is placed", move || {
                let mut times = Vec::with_capacity(CHANGES);
                for index in 0..CHANGES {
                    let program = followed.programs[index / 2 % PROGRAMS].tid().ok_or("no such program")?;
                    let on = index % 2 == 0;
                    let start = Instant::now();
                    notice::foreground(followed.folder.path(), program, on)?;
                    times.push(start.elapsed().as_nanos() as f64);
                    let nice = Priority::of(program)?.nice;
                    if nice != if on { FRONT } else { BACK } {
                        return Err(format!("program {program} is at nice {nice}").into());
                    }
                }
                Ok(median(&times))
            })
            .against(allowed)
            .called("policy: reaction to a foreground change")
            .goal(1.0, None),
        ]
    }

    /// CPU time that the policy takes in a second in which nothing happens.
    fn idleness(self: &Rc<Self>) -> Vec<Subject<'static>> {
        let followed = Rc::clone(self);
        let allowed = "0.1% of one CPU, a second";
        vec![
            Subject::new(allowed, || Ok(1e6)),
            Subject::new("CPU time of an idle policy, a second", move || {
                let pid = followed.daemon.tid().ok_or("the policy has ended")?;
                let before = run_time_ns(pid).ok_or("the policy has ended")?;
                let start = Instant::now();
                std::thread::sleep(WATCHED);
                let used = run_time_ns(pid).ok_or("the policy has ended")? - before;
                Ok((used as f64 / start.elapsed().as_secs_f64()).max(1.0))
            })
            .against(allowed)
            .called("policy: CPU time while idle")
            .goal(1.0, None),
        ]
    }
}

const NAME: &str = "handoff-benched";
const FRONT: i8 = 1;
const BACK: i8 = 9;

/// The policy, until standard input ends.
fn daemon(folder: &Path) -> Result<()> {
    let policy = Policy::parse(&format!(
        r#"
        [profile.front]
        cpus = "big"
        nice = {FRONT}
        [profile.back]
        cpus = "all"
        nice = {BACK}
        io = "idle"
        [[rule]]
        match = {{ comm = "{NAME}" }}
        when = {{ foreground = true }}
        profile = "front"
        [[rule]]
        match = {{ comm = "{NAME}" }}
        when = {{ cpu_pressure = {{ above = 101 }} }}
        profile = "back"
        [[rule]]
        match = {{ comm = "{NAME}" }}
        profile = "back"
        "#
    ))?;
    let (stop, stopper) = UnixStream::pair()?;
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink()); // Until the bench ends.
        drop(stopper);
    });
    let mut daemon =
        Daemon::new(policy, Options { folder: folder.to_owned(), ..Options::default() }, |_| ())?;
    daemon.run(stop.as_fd())?;
    daemon.finish()?;
    Ok(())
}

/// Ends a program when it is dropped: the policy by the end of its input, so that it puts things back.
struct Running(Child);

impl Running {
    fn tid(&self) -> Option<Tid> {
        i32::try_from(self.0.id()).ok().and_then(Tid::new)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.stdin.take().is_none() {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}
