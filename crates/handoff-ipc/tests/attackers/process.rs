//! Processes of the tests: this program again, in a role and as another user.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Users of the parts of one test, none of whom has privileges. Each test has its own: the kernel counts
/// descriptors that are on their way by user.
#[derive(Debug, Clone, Copy)]
pub struct Users(u32);

/// The variable that tells a process of a test its users.
const USERS: &str = "HANDOFF_TEST_USERS";

thread_local! {
    // Of the test that runs on this thread.
    static OF_TEST: std::cell::Cell<Users> = const { std::cell::Cell::new(Users(100_000)) };
}

impl Users {
    /// Chooses those of the test that this thread runs.
    pub fn choose(test: &str) -> Self {
        let hash = test.bytes().fold(7u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let users = Users(100_000 + hash % 100_000 * 10);
        OF_TEST.set(users);
        users
    }

    /// Those of the test that started this process.
    pub fn here() -> Self {
        Users(std::env::var(USERS).unwrap().parse().unwrap())
    }

    pub fn victim(self) -> u32 {
        self.0
    }

    pub fn honest(self) -> u32 {
        self.0 + 1
    }

    pub fn teller(self) -> u32 {
        self.0 + 2
    }

    pub fn attacker(self) -> u32 {
        self.0 + 3
    }
}

/// Longest wait for something that happens at once on an idle machine.
pub const GENEROUS: Duration = Duration::from_secs(120);

/// A process in a role; killed on drop.
pub struct Helper {
    child: Child,
    lines: Receiver<String>,
}

impl Helper {
    pub fn start(role: &str, socket: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "role_main", "--nocapture", "--test-threads=1"])
            .env(USERS, OF_TEST.get().0.to_string())
            .env("HANDOFF_TEST_ROLE", format!("{role}@{}", socket.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, lines) = channel();
        let from = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in from.lines().map_while(Result::ok) {
                // The harness prints lines of its own.
                if let Some(line) = line.strip_prefix('@') {
                    drop(send.send(line.to_owned()));
                }
            }
        });
        Helper { child, lines }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line that begins so; gives what follows.
    pub fn hear(&self, begin: &str) -> Option<String> {
        let end = std::time::Instant::now() + GENEROUS;
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            let line = self.lines.recv_timeout(left).ok()?;
            match line.strip_prefix(begin) {
                Some(rest) => return Some(rest.trim().to_owned()),
                None => println!("  {line}"),
            }
        }
    }

    pub fn say(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
    }

    pub fn has_ended(&mut self) -> Option<String> {
        self.child.try_wait().unwrap().map(|status| status.to_string())
    }

    /// Closes its input and waits until it has put in order what it changed.
    pub fn end(&mut self) {
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }

    pub fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Says a line to the process that started this one.
pub fn tell(line: &str) {
    println!("\n@{line}");
}

/// Until the process that started this one ends it; tells what was done on each line that comes.
pub fn report_until_end(report: impl Fn() -> String) -> ! {
    for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
        tell(&format!("did {}", report()));
    }
    std::process::exit(0);
}

/// Until the process that started this one ends it.
pub fn wait_for_end() -> ! {
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
    std::process::exit(0);
}

/// Gives up root for good, in all threads.
pub fn become_user(uid: u32) {
    // SAFETY: system calls without pointers to anything that lives on.
    unsafe {
        if uid != 0 {
            assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
            assert_eq!(libc::setresgid(uid, uid, uid), 0);
            assert_eq!(libc::setresuid(uid, uid, uid), 0);
            libc::prctl(libc::PR_SET_DUMPABLE, 1);
        }
        OWN.store(std::process::id(), Ordering::Relaxed);
        die_with_parent();
    }
}

/// The process that became a user, until one that it forked does.
static OWN: AtomicU32 = AtomicU32::new(0);

/// Ends this process with the one that started it.
pub fn die_with_parent() {
    // SAFETY: it sets a number.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let own = OWN.load(Ordering::Relaxed);
    // An attacker may have been killed between its fork and this.
    if own != std::process::id() && own != std::os::unix::process::parent_id() {
        // SAFETY: it ends this process.
        unsafe { libc::_exit(0) };
    }
}

/// Limits this process's descriptors, so that each machine has the same case.
pub fn limit_descriptors(most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: it reads the structure.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}
