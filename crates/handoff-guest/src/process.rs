//! A child process that ends with us, however we end, and can be killed from any thread.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{ChildStderr, ChildStdout, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use super::GuestError;

/// A running child; killed and waited for when dropped.
#[derive(Debug)]
pub struct Process {
    killer: Killer,
    ended: Arc<Ended>,
    output: Mutex<(Option<ChildStdout>, Option<ChildStderr>)>,
    keeper: Option<JoinHandle<()>>,
}

/// Kills a child and those it has started, from any thread; does nothing once it has ended.
#[derive(Debug, Clone)]
pub struct Killer {
    pidfd: Arc<OwnedFd>,
    pid: Pid,
}

#[derive(Debug, Default)]
struct Ended {
    status: Mutex<Option<ExitStatus>>,
    changed: Condvar,
}

struct Started {
    pid: Pid,
    pidfd: OwnedFd,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Process {
    /// Starts the child in a process group of its own: Ctrl-C at a terminal is for us to act on.
    pub fn spawn(mut command: Command) -> Result<Self, GuestError> {
        tracing::debug!("starting {command:?}");
        let program = command.get_program().to_owned();
        command.process_group(0);
        let parent = rustix::process::getpid();
        let die_with_parent = move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have ended before that was set: then no signal would ever come.
            if rustix::process::getppid() != Some(parent) {
                return Err(rustix::io::Errno::SRCH.into());
            }
            Ok(())
        };
        // SAFETY: the closure runs in the child between fork and exec, where only async-signal-safe
        // functions may be called: it makes two system calls, and neither allocates nor locks.
        unsafe { command.pre_exec(die_with_parent) };
        let ended = Arc::new(Ended::default());
        let (sender, receiver) = mpsc::sync_channel(1);
        let keeper_ended = Arc::clone(&ended);
        // The death signal follows the thread that forked, not the process: so that thread has to
        // live as long as the child does.
        let keeper = std::thread::Builder::new()
            .name("guest-keeper".to_owned())
            .spawn(move || keep(command, &sender, &keeper_ended))
            .map_err(GuestError::io("start a thread for", Path::new(&program)))?;
        let started = match receiver.recv() {
            Ok(Ok(started)) => started,
            Ok(Err(error)) => return Err(GuestError::io("run", Path::new(&program))(error)),
            Err(_) => {
                let error = std::io::Error::other("the thread that starts it ended");
                return Err(GuestError::io("run", Path::new(&program))(error));
            }
        };
        Ok(Self {
            killer: Killer { pidfd: Arc::new(started.pidfd), pid: started.pid },
            ended,
            output: Mutex::new((started.stdout, started.stderr)),
            keeper: Some(keeper),
        })
    }

    /// The child's standard output, if it is a pipe and was not taken before.
    pub fn stdout(&self) -> Option<ChildStdout> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).0.take()
    }

    /// The child's standard error, if it is a pipe and was not taken before.
    pub fn stderr(&self) -> Option<ChildStderr> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).1.take()
    }

    /// How the child ended, if it has.
    pub fn status(&self) -> Option<ExitStatus> {
        *self.ended.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the child's end, for a while.
    pub fn wait(&self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        let mut status = self.ended.status.lock().unwrap_or_else(PoisonError::into_inner);
        while status.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.ended.changed.wait_timeout(status, left);
            status = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *status
    }

    /// Kills the child and those it has started.
    pub fn kill(&self) {
        self.killer.kill();
    }

    /// A handle that kills the child.
    pub fn killer(&self) -> Killer {
        self.killer.clone()
    }
}

impl Killer {
    /// Kills the child and its process group; nothing happens once the child was waited for.
    pub fn kill(&self) {
        // The only failure is that it has ended, which is what is wanted. While it has not, its
        // id is that of its group and of no other.
        if pidfd_send_signal(&*self.pidfd, Signal::KILL).is_ok() {
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if let Some(keeper) = self.keeper.take() {
            drop(keeper.join());
        }
    }
}

/// Starts the child, tells how that went, and waits for its end.
fn keep(mut command: Command, sender: &mpsc::SyncSender<std::io::Result<Started>>, ended: &Ended) {
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            drop(sender.send(Err(error)));
            return;
        }
    };
    // Pipes that the command was given would otherwise stay open on our side.
    drop(command);
    let pid = Pid::from_child(&child);
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => {
            let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
            drop(sender.send(Ok(Started { pid, pidfd, stdout, stderr })));
        }
        Err(error) => {
            drop(child.kill());
            drop(sender.send(Err(error.into())));
        }
    }
    let status = child.wait().unwrap_or_else(|_| ExitStatus::from_raw(0xff00));
    *ended.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    ended.changed.notify_all();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::process::Stdio;

    #[test]
    fn the_end_of_a_child_is_known() {
        let process = Process::spawn(Command::new("/bin/true")).expect("started");
        let status = process.wait(Duration::from_secs(60)).expect("ended");
        assert!(status.success());
        assert_eq!(process.status(), Some(status));
    }

    #[test]
    fn a_child_that_cannot_start_is_an_error() {
        let error = Process::spawn(Command::new("/no/such/program")).expect_err("no program");
        assert!(error.to_string().contains("/no/such/program"), "{error}");
    }

    #[test]
    fn dropping_kills() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo $$; exec sleep 600"]).stdout(Stdio::piped());
        let process = Process::spawn(command).expect("started");
        let mut stdout = process.stdout().expect("a pipe");
        let mut pid = [0; 32];
        let count = stdout.read(&mut pid).expect("its id");
        let pid = String::from_utf8_lossy(&pid[..count]).trim().to_owned();
        assert!(Path::new("/proc").join(&pid).exists());
        drop(process);
        assert!(!Path::new("/proc").join(&pid).exists(), "killed and waited for");
    }

    const ROLE: &str = "HANDOFF_TEST_PARENT";

    /// Does nothing by itself: the test below runs it as a process of its own, which it then kills.
    #[test]
    #[ignore = "a process of another test"]
    fn parent_main() {
        if std::env::var_os(ROLE).is_none() {
            return;
        }
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo child $$; exec sleep 600"]);
        let process = Process::spawn(command).expect("started");
        process.wait(Duration::from_secs(600));
    }

    #[test]
    fn the_child_ends_with_a_parent_that_was_killed() {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command
            .args(["--ignored", "--exact", "process::tests::parent_main", "--nocapture"])
            .env(ROLE, "1")
            .stdout(Stdio::piped());
        let mut parent = command.spawn().expect("started");
        let stdout = std::io::BufReader::new(parent.stdout.take().expect("a pipe"));
        let child = std::io::BufRead::lines(stdout)
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once("child ")?.1.to_owned()))
            .expect("the child's id");
        let alive = || {
            // Whoever inherits the dead child may take its time to reap it.
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
        };
        assert!(alive());
        parent.kill().expect("killed");
        parent.wait().expect("ended");
        let deadline = Instant::now() + Duration::from_secs(60);
        while alive() {
            assert!(Instant::now() < deadline, "the child outlived its parent");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn those_that_it_has_started_are_killed_too() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]).stdout(Stdio::piped());
        let process = Process::spawn(command).expect("started");
        let mut stdout = process.stdout().expect("a pipe");
        let mut first = [0; 1];
        stdout.read_exact(&mut first).expect("its child's id");
        process.kill();
        // Ends only when nobody holds the pipe's other end any more.
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).expect("closed");
    }

    #[test]
    fn the_child_outlives_the_thread_that_asked_for_it() {
        let spawn = || {
            let mut command = Command::new("/bin/sleep");
            command.arg("600");
            Process::spawn(command).expect("started")
        };
        let process = std::thread::spawn(spawn).join().expect("a thread");
        assert_eq!(process.wait(Duration::from_millis(300)), None);
        process.killer().kill();
        let status = process.wait(Duration::from_secs(60)).expect("killed");
        assert_eq!(status.signal(), Some(9));
    }
}
