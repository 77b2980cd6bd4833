//! The process that is killed: forked from one that waits, so that each kill has a fresh one at the cost of a `fork`.

use std::io::BufRead as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use handoff_placement::{CpuSet, Tid};

use crate::paths::Path as KilledPath;

/// Runs in the process that waits: forks a victim for each line that names a path and the folder of the sockets.
pub fn fork_on_demand() {
    if let Some(cpu) = std::env::var("HANDOFF_KILL_CPU").ok().and_then(|text| text.parse().ok()) {
        // Beside its tracer, so that a step is a switch and no wake-up on another CPU.
        handoff_placement::set_affinity(Tid::current(), &CpuSet::of(cpu)).unwrap();
    }
    say("waiting");
    loop {
        let line = read_line();
        let Some((name, folder)) = line.split_once(' ') else { continue };
        // SAFETY: this process has touched nothing of the library yet; the child ends by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "{}", std::io::Error::last_os_error());
        if child == 0 {
            let played = std::panic::catch_unwind(|| play(name, Path::new(folder)));
            // SAFETY: it ends this process, with all of its threads.
            unsafe { libc::_exit(if played.is_ok() { 0 } else { 101 }) };
        }
        // SAFETY: it writes no status.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }
}

fn play(name: &str, folder: &Path) {
    let path = KilledPath::named(name).expect("a path of that name");
    let act = (path.victim)(folder);
    say(&format!("ready {}", std::process::id()));
    read_byte();
    act();
    say("done");
    loop {
        read_byte();
    }
}

/// Without std's buffers, which a fork would double.
fn say(text: &str) {
    let line = format!("\n{text}\n");
    // SAFETY: so many bytes are there.
    unsafe { libc::write(1, line.as_ptr().cast(), line.len()) };
}

fn read_byte() -> u8 {
    let mut byte = 0u8;
    // SAFETY: it writes one byte.
    let count = unsafe { libc::read(0, (&raw mut byte).cast(), 1) };
    if count <= 0 {
        // The test has ended.
        // SAFETY: it ends this process.
        unsafe { libc::_exit(0) };
    }
    byte
}

fn read_line() -> String {
    let mut line = Vec::new();
    loop {
        match read_byte() {
            b'\n' => return String::from_utf8(line).unwrap(),
            // For a victim that was killed before it read it.
            GO => {}
            byte => line.push(byte),
        }
    }
}

/// No byte of a command.
const GO: u8 = 0;

/// The process that waits, as its test sees it.
pub struct Nursery {
    child: Child,
    commands: ChildStdin,
    said: mpsc::Receiver<String>,
    done: Arc<AtomicBool>,
}

impl Nursery {
    pub fn start(cpu: Option<usize>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(crate::common::role_arguments()).env("HANDOFF_TEST_ROLE", "victims@/");
        if let Some(cpu) = cpu {
            command.env("HANDOFF_KILL_CPU", cpu.to_string());
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let (tell, said) = mpsc::channel();
        let (lines, flag) =
            (std::io::BufReader::new(child.stdout.take().unwrap()).lines(), Arc::clone(&done));
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                match line.as_str() {
                    "done" => flag.store(true, Ordering::SeqCst),
                    line if line.starts_with("ready ") || line == "waiting" => drop(tell.send(line.into())),
                    _ => {}
                }
            }
        });
        let commands = child.stdin.take().unwrap();
        let nursery = Nursery { child, commands, said, done };
        nursery.hear();
        nursery
    }

    fn hear(&self) -> String {
        self.said.recv_timeout(Duration::from_secs(60)).expect("the victim starts")
    }

    /// A new victim; its process id.
    pub fn fork(&mut self, path: &str, folder: &Path) -> i32 {
        self.write(format!("{path} {}\n", folder.display()).as_bytes());
        let pid = self.hear()["ready ".len()..].parse().unwrap();
        // After what the one before may have said last.
        self.done.store(false, Ordering::SeqCst);
        pid
    }

    fn write(&mut self, bytes: &[u8]) {
        use std::io::Write as _;
        self.commands.write_all(bytes).unwrap();
        self.commands.flush().unwrap();
    }

    /// Has the victim begin with its part.
    pub fn go(&mut self) {
        self.write(&[GO]);
    }

    /// Whether the victim has said that it is done.
    pub fn done(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.done)
    }

    /// Its memory: victims have the same.
    pub fn maps(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/maps", self.child.id())).unwrap()
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
