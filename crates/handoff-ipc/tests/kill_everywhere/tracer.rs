//! `ptrace(2)`: records each instruction that a process runs, and kills it before one of them.
//!
//! The path is stepped through once, all threads of it. A boundary is an instruction's address and the how-manieth
//! time it is run. To kill a process there it runs at its own speed up to a hardware breakpoint on that address.
//!
//! Another process sees nothing of an instruction that neither calls the kernel nor writes to memory that is shared: to be
//! killed before it or after it is the same. So those are marked that may do either.

use std::collections::HashMap;
use std::mem::offset_of;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// The instruction at `at`, which is run for the `turn`th time.
#[derive(Debug, Clone, Copy)]
pub struct Boundary {
    pub at: u64,
    pub turn: u32,
    /// Whether others may see something of the instruction: it is a system call, or a register leads to shared memory.
    pub shows: bool,
}

/// How a run ended.
#[derive(Debug)]
pub enum Ended {
    /// The victim was killed at its boundary.
    Killed(Instant),
    /// The path was over before, and the victim was killed then.
    PathOver(Instant),
    /// The path is not over and nothing happens.
    Stuck,
    /// The victim ended by itself, as it says.
    Exited(String),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Killed(_) => f.write_str("killed"),
            Ended::PathOver(_) => f.write_str("the path was over"),
            Ended::Stuck => f.write_str("the path is not over, and all threads sleep"),
            Ended::Exited(status) => write!(f, "it ended by itself: {status}"),
        }
    }
}

/// Nothing may take longer: a limit on behaviour, not on speed.
const LIMIT: Duration = Duration::from_secs(60);
/// How long threads may go on after the path is over: those that spin stop doing so.
const SPIN: Duration = Duration::from_secs(3);
/// So many instructions without a new boundary after the end of the path: there are no more.
const TAIL: u32 = 1500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thread {
    /// It was told to stop.
    Seized,
    /// It runs, and stops after one instruction.
    Steps,
    /// It runs, and may sleep.
    Runs,
}

#[derive(Debug, Clone, Copy)]
enum Mode {
    Step,
    /// Up to this address.
    Breakpoint(u64),
}

struct Tracee {
    pid: i32,
    mode: Mode,
    threads: HashMap<i32, Thread>,
    /// Whether a system call stands at an address, or before it.
    syscalls: HashMap<u64, bool>,
    /// Where memory lies that others have, and that can be written.
    shared: Vec<std::ops::Range<u64>>,
}

fn request(what: libc::c_uint, tid: i32, at: usize, data: usize) -> i64 {
    // SAFETY: none of the requests that are made here writes to this process's memory.
    unsafe { libc::ptrace(what, tid, at, data) }
}

fn wait(flags: i32) -> (i32, i32) {
    let mut status = 0;
    // SAFETY: it writes one status.
    let tid = unsafe { libc::waitpid(-1, &raw mut status, flags | libc::__WALL | libc::__WNOTHREAD) };
    (tid, status)
}

fn tasks(pid: i32) -> Vec<i32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

impl Tracee {
    /// Traces each thread of the process, and waits until all sleep again.
    fn seize(pid: i32, mode: Mode) -> Result<Self, Ended> {
        let mut tracee =
            Tracee { pid, mode, threads: HashMap::new(), syscalls: HashMap::new(), shared: Vec::new() };
        let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
        loop {
            let known = tracee.threads.len();
            for tid in tasks(pid) {
                if !tracee.threads.contains_key(&tid)
                    && request(libc::PTRACE_SEIZE, tid, 0, options as usize) == 0
                {
                    request(libc::PTRACE_INTERRUPT, tid, 0, 0);
                    tracee.threads.insert(tid, Thread::Seized);
                }
            }
            if tracee.threads.len() == known {
                break;
            }
        }
        while let Some(tid) = tracee.next()? {
            tracee.resume(tid, 0);
        }
        Ok(tracee)
    }

    fn instruction(tid: i32) -> u64 {
        request(libc::PTRACE_PEEKUSER, tid, offset_of!(libc::user, regs.rip), 0) as u64
    }

    fn registers(tid: i32) -> libc::user_regs_struct {
        // SAFETY: numbers, of which any are valid.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        request(libc::PTRACE_GETREGS, tid, 0, (&raw mut registers) as usize);
        registers
    }

    /// Whether a system call stands at an address, or before it: a thread that is stopped inside of one goes back into it.
    fn is_syscall(&mut self, tid: i32, at: u64) -> bool {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        *self.syscalls.entry(at).or_insert_with(|| {
            [at, at - 2]
                .iter()
                .any(|at| request(libc::PTRACE_PEEKTEXT, tid, *at as usize, 0).to_le_bytes()[..2] == SYSCALL)
        })
    }

    /// Whether others may see something of the instruction that a thread stands at. One that writes has the address in a
    /// register, or what a number is added to.
    fn shows(&mut self, tid: i32, registers: &libc::user_regs_struct) -> bool {
        let r = registers;
        let all = [
            r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14,
            r.r15,
        ];
        all.iter().any(|value| self.shared.iter().any(|range| range.contains(value)))
            || self.is_syscall(tid, r.rip)
    }

    /// After a system call, which may have been one that maps.
    fn look_for_shared_memory(&mut self) {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        let shared = maps.lines().filter_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let number = |text| u64::from_str_radix(text, 16).ok();
            rest.starts_with("rw-s").then_some(number(from)?..number(to)?)
        });
        self.shared = shared.collect();
    }

    /// Has a thread run on that is stopped.
    fn resume(&mut self, tid: i32, signal: i32) {
        match self.mode {
            Mode::Step => self.step(tid, Self::instruction(tid), signal),
            Mode::Breakpoint(_) => {
                self.threads.insert(tid, Thread::Runs);
                request(libc::PTRACE_CONT, tid, 0, signal as usize);
            }
        }
    }

    /// Has a thread run the instruction at `at`, where it is stopped.
    fn step(&mut self, tid: i32, at: u64, signal: i32) {
        let calls = self.is_syscall(tid, at);
        self.threads.insert(tid, if calls { Thread::Runs } else { Thread::Steps });
        request(libc::PTRACE_SINGLESTEP, tid, 0, signal as usize);
    }

    /// The first stop of a thread: from now on it stops at the breakpoint.
    fn arm(&self, tid: i32) {
        if let Mode::Breakpoint(at) = self.mode {
            // Debug register 7 enables the first one, for the execution of an instruction.
            for (register, value) in [(0, at as usize), (7, 1)] {
                let place = offset_of!(libc::user, u_debugreg) + register * size_of::<u64>();
                let set = request(libc::PTRACE_POKEUSER, tid, place, value);
                assert_eq!(set, 0, "a breakpoint: {}", std::io::Error::last_os_error());
            }
        }
    }

    /// True if each thread sleeps in the kernel.
    fn sleeps(&self) -> bool {
        self.threads.iter().all(|(tid, state)| {
            let stat = || std::fs::read_to_string(format!("/proc/{}/task/{tid}/stat", self.pid)).ok();
            *state == Thread::Runs
                && stat()
                    .is_some_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" S")))
        })
    }

    /// Waits until a thread stops at an instruction (its id), or until all sleep (`None`).
    fn next(&mut self) -> Result<Option<i32>, Ended> {
        self.next_unless(|| false)
    }

    /// As `next`; `None` as well when `give_up` says so.
    fn next_unless(&mut self, give_up: impl Fn() -> bool) -> Result<Option<i32>, Ended> {
        let mut asleep = 0;
        loop {
            let comes = self.threads.values().any(|state| *state == Thread::Steps);
            let (tid, status) = wait(if comes { 0 } else { libc::WNOHANG });
            if tid == 0 {
                asleep = if self.sleeps() { asleep + 1 } else { 0 };
                // Twice: a stop may have come between the two looks.
                if asleep > 1 || give_up() {
                    return Ok(None);
                }
                std::thread::yield_now();
            } else if tid < 0 || libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                self.threads.remove(&tid);
                if tid < 0 || tid == self.pid {
                    return Err(Ended::Exited(ExitStatus::from_raw(status).to_string()));
                }
            } else {
                let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
                if event == 0 && signal == libc::SIGTRAP {
                    return Ok(Some(tid));
                }
                if event == libc::PTRACE_EVENT_STOP {
                    // A thread that began, or the stop that was asked for.
                    self.arm(tid);
                }
                self.resume(tid, if event == 0 { signal } else { 0 });
            }
        }
    }

    /// Kills the process and takes note of the end of each of its threads.
    fn kill(mut self) -> Instant {
        let when = Instant::now();
        // SAFETY: it sends a signal to a process that this one traces.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        while self.threads.contains_key(&self.pid) {
            let (tid, status) = wait(0);
            if tid < 0 {
                break;
            }
            if !libc::WIFSTOPPED(status) {
                self.threads.remove(&tid);
            }
        }
        when
    }
}

/// Steps the victim through the path from the moment that `begin` is called, and shows `stop` each boundary in front of it,
/// of loops those of the first `turns` turns. Kills the victim where `stop` says so, or else when the path is over.
pub fn step(
    pid: i32,
    turns: u32,
    begin: impl FnOnce(),
    is_over: impl Fn() -> bool,
    mut stop: impl FnMut(Boundary) -> bool,
) -> Result<Ended, Ended> {
    let mut tracee = Tracee::seize(pid, Mode::Step)?;
    tracee.look_for_shared_memory();
    begin();
    let start = Instant::now();
    let (mut seen, mut old) = (HashMap::<u64, u32>::new(), 0);
    loop {
        match tracee.next()? {
            Some(tid) => {
                if tracee.threads.get(&tid) == Some(&Thread::Runs) {
                    tracee.look_for_shared_memory();
                }
                let registers = Tracee::registers(tid);
                let at = registers.rip;
                let turn = seen.entry(at).or_default();
                *turn += 1;
                old += 1;
                if *turn <= turns {
                    old = 0;
                    let shows = tracee.shows(tid, &registers);
                    if stop(Boundary { at, turn: *turn, shows }) {
                        return Ok(Ended::Killed(tracee.kill()));
                    }
                }
                if old > TAIL && is_over() {
                    return Ok(Ended::PathOver(tracee.kill()));
                }
                tracee.step(tid, at, 0);
            }
            None if is_over() => return Ok(Ended::PathOver(tracee.kill())),
            None if start.elapsed() > LIMIT => {
                tracee.kill();
                return Ok(Ended::Stuck);
            }
            None => {}
        }
    }
}

/// Lets the victim go through the path from the moment that `begin` is called, and kills it at a boundary.
pub fn run(
    pid: i32,
    boundary: Boundary,
    begin: impl FnOnce(),
    is_over: impl Fn() -> bool,
) -> Result<Ended, Ended> {
    let mut tracee = Tracee::seize(pid, Mode::Breakpoint(boundary.at))?;
    begin();
    let start = Instant::now();
    let (mut turn, mut over) = (0, None);
    loop {
        match tracee.next_unless(&is_over)? {
            Some(tid) => {
                turn += 1;
                if turn == boundary.turn {
                    return Ok(Ended::Killed(tracee.kill()));
                }
                tracee.resume(tid, 0);
            }
            None if is_over() => {
                let since: &mut Instant = over.get_or_insert_with(Instant::now);
                if since.elapsed() > SPIN || tracee.sleeps() {
                    return Ok(Ended::PathOver(tracee.kill()));
                }
            }
            None if start.elapsed() > LIMIT => {
                tracee.kill();
                return Ok(Ended::Stuck);
            }
            None => {}
        }
    }
}
