//! Guests: a kernel in QEMU that runs programs for us.
//!
//! A guest has the kernel that is asked for (the distribution's, its real-time variant, or an image
//! of one's own), a root file system in memory with busybox and the programs that were named, the
//! Binder driver where the kernel has it, and nothing of the host's disks or network. Distribution
//! packages are fetched into a cache and never installed.
//!
//! ```no_run
//! use handoff_guest::{Guest, GuestCommand};
//!
//! # fn main() -> Result<(), handoff_guest::GuestError> {
//! let mut guest = Guest::builder().smp("2".parse()?).module("sch_tbf").boot()?;
//! let output = guest.run(&GuestCommand::shell("ls /dev/binder && uname -r"))?;
//! assert!(output.success());
//! println!("{}", output.stdout_text());
//! # Ok(())
//! # }
//! ```
//!
//! The guest ends when it is dropped, and with this process, however that ends.

mod accel;
mod apt;
mod arch;
mod boot;
mod builder;
mod cache;
mod command;
mod console;
mod cpio;
mod deb;
mod elf;
mod error;
mod fdt;
mod initramfs;
mod link;
mod machine;
mod modules;
mod package;
pub mod process;
mod protocol;
mod spec;
mod suite;
mod topology;
mod transfer;

pub use accel::Acceleration;
pub use arch::Arch;
pub use boot::{Facts, Stopper};
pub use builder::{Builder, Kernel, Prepared};
pub use cache::CACHE_DIR;
pub use command::{GuestCommand, GuestOutput, Stream};
pub use console::{ConsoleLog, Incident, IncidentKind};
pub use error::GuestError;
pub use spec::GuestSpec;
pub use topology::Smp;
pub use transfer::Fetched;

pub use apt::{last_lines, on_path};
pub use package::{fetch_package, kernel_package_names, unpack_packages};

use std::io::{Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use link::{Event, Link};
use process::Process;
use protocol::{GuestMessage, Lines, Marked, Port, quote};

/// How often a waiting call looks whether it was told to stop.
const GLANCE: Duration = Duration::from_millis(200);
/// How long a guest may take to answer when it has nothing to do but answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Console lines that are shown with an error.
const TAIL: usize = 12;

#[derive(Debug)]
pub struct Guest {
    process: Process,
    link: Link,
    lines: Lines,
    facts: Facts,
    stopper: Stopper,
    /// How long it may take to answer when it has nothing to do but answer.
    answer_limit: Duration,
    /// Commands so far; part of each command's nonce.
    commands: u64,
    /// Set when nothing more can be asked of the guest.
    over: bool,
}

/// A command's streams while it runs, and what has come of it.
struct Running<'a> {
    nonce: String,
    started: Instant,
    answer_limit: Duration,
    output: Marked,
    error: Marked,
    status: Option<i32>,
    sink: &'a mut dyn FnMut(Stream, &[u8]),
}

impl Guest {
    /// Begins to describe a guest.
    pub fn builder() -> Builder {
        GuestSpec::default().builder()
    }

    /// What the guest is and how it is run.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Runs a program and gives what it wrote.
    ///
    /// An exit status other than 0 is no error; see [`GuestOutput::success`].
    ///
    /// # Errors
    ///
    /// If the guest's kernel panics or hangs, if the guest was stopped, or if the command's time
    /// limit passes.
    pub fn run(&mut self, command: &GuestCommand) -> Result<GuestOutput, GuestError> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut output = self.run_streaming(command, &mut |stream, bytes| match stream {
            Stream::Stdout => stdout.extend_from_slice(bytes),
            Stream::Stderr => stderr.extend_from_slice(bytes),
        })?;
        output.stdout = stdout;
        output.stderr = stderr;
        Ok(output)
    }

    /// Runs a program and hands on what it writes as it comes; the result holds none of that.
    pub fn run_streaming(
        &mut self,
        command: &GuestCommand,
        sink: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<GuestOutput, GuestError> {
        let size = command.stdin.len() as u64;
        self.run_fed(command, &mut command.stdin.as_slice(), size, sink)
    }

    /// Copies a file or folder of the host into the guest, under the path that is given.
    pub fn put(&mut self, host: &Path, guest: &str) -> Result<(), GuestError> {
        let (folder, name) = split(guest)?;
        let (mut archive, size) = transfer::pack(host, name)?;
        let script = format!("mkdir -p {0} && tar -x -f - -C {0}", quote(folder.as_bytes()));
        let mut complaint = Vec::new();
        let output =
            self.run_fed(&GuestCommand::shell(script), &mut archive, size, &mut |stream, bytes| {
                if stream == Stream::Stderr {
                    complaint.extend_from_slice(bytes);
                }
            })?;
        done(&output, &complaint, "write in the guest", guest)
    }

    /// Brings a file or folder of the guest to the host, as `host` or, if that is a folder, into it.
    pub fn get(&mut self, guest: &str, host: &Path) -> Result<Fetched, GuestError> {
        let (folder, name) = split(guest)?;
        let script = format!("tar -c -f - -C {} {}", quote(folder.as_bytes()), quote(name.as_bytes()));
        let temporary = || GuestError::io("write a temporary file in", &std::env::temp_dir());
        let mut archive = tempfile::tempfile().map_err(temporary())?;
        let mut complaint = Vec::new();
        let mut written = Ok(());
        let output = self.run_streaming(&GuestCommand::shell(script), &mut |stream, bytes| match stream {
            Stream::Stdout if written.is_ok() => written = archive.write_all(bytes),
            Stream::Stdout => {}
            Stream::Stderr => complaint.extend_from_slice(bytes),
        })?;
        written.map_err(temporary())?;
        done(&output, &complaint, "read in the guest", guest)?;
        archive.seek(SeekFrom::Start(0)).map_err(temporary())?;
        transfer::unpack(archive, host)
    }

    /// Reads a file of the guest, those of `/proc` and `/sys` too.
    pub fn read(&mut self, guest: &str) -> Result<Vec<u8>, GuestError> {
        let output = self.run(&GuestCommand::new("cat").arg("--").arg(guest))?;
        done(&output, &output.stderr, "read in the guest", guest)?;
        Ok(output.stdout)
    }

    /// Writes a file of the guest, those of `/proc` and `/sys` too.
    pub fn write(&mut self, guest: &str, content: &[u8]) -> Result<(), GuestError> {
        let script = format!("cat >{}", quote(guest.as_bytes()));
        let output = self.run(&GuestCommand::shell(script).stdin(content))?;
        done(&output, &output.stderr, "write in the guest", guest)
    }

    /// The kernel's console so far.
    pub fn console(&self) -> impl std::ops::Deref<Target = ConsoleLog> + '_ {
        self.link.console()
    }

    /// Ends the guest at once: nothing in it is worth an orderly end.
    ///
    /// Dropping it does the same.
    pub fn shutdown(self) {
        drop(self);
    }

    fn run_fed(
        &mut self,
        command: &GuestCommand,
        stdin: &mut (dyn Read + Send),
        size: u64,
        sink: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<GuestOutput, GuestError> {
        if self.over {
            return Err(self.ended());
        }
        let started = Instant::now();
        let before = self.link.console().incidents().len();
        self.commands += 1;
        let nonce = format!("{:x}-{:x}", nonce(), self.commands);
        let request = format!("run {nonce} {size} {}\n", quote(command.script().as_bytes()));
        let mut running = Running {
            output: Marked::new(&nonce),
            error: Marked::new(&nonce),
            status: None,
            nonce,
            started,
            answer_limit: self.answer_limit,
            sink,
        };
        let result = std::thread::scope(|scope| {
            let mut port = self.link.command();
            if port.write_all(request.as_bytes()).is_err() {
                return Err(None);
            }
            if size > 0 {
                let mut port = self.link.input();
                // A thread of its own: the command may write before it has read all. It ends when
                // the guest has taken everything, or with the guest.
                scope.spawn(move || drop(std::io::copy(&mut stdin.take(size), &mut port)));
            }
            let result = follow(&self.link, &mut self.lines, &mut running, command, &self.stopper);
            if result.is_err()
                && !matches!(result, Err(Some(GuestError::CommandTimeout { killed: true, .. })))
            {
                // Else the feeding thread might wait for ever.
                self.process.kill();
            }
            result
        });
        match result {
            Ok(status) => Ok(GuestOutput {
                status,
                elapsed: started.elapsed(),
                incidents: self.link.console().incidents().get(before..).unwrap_or_default().to_vec(),
                ..GuestOutput::default()
            }),
            Err(Some(error @ GuestError::CommandTimeout { killed: true, .. })) => Err(error),
            Err(Some(error)) => {
                self.over = true;
                Err(error)
            }
            Err(None) => {
                self.over = true;
                Err(self.ended())
            }
        }
    }

    /// Why the guest is no longer there.
    fn ended(&self) -> GuestError {
        let status = self.process.wait(ANSWER_LIMIT);
        boot::why_it_ended(&self.link, &self.stopper, status)
    }
}

/// Follows a command to its end and gives its status; `Err(None)` if the guest ended.
fn follow(
    link: &Link,
    lines: &mut Lines,
    running: &mut Running<'_>,
    command: &GuestCommand,
    stopper: &Stopper,
) -> Result<i32, Option<GuestError>> {
    let mut known = link.console().lock_ups();
    loop {
        if let Some(status) = running.result() {
            return Ok(status);
        }
        if stopper.is_stopped() {
            return Err(None);
        }
        let left = command.timeout.map(|limit| limit.saturating_sub(running.started.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Some(overdue(link, lines, running, command)));
        }
        let reported = link.console().lock_ups();
        if reported > std::mem::replace(&mut known, reported) && is_stuck(link, lines, running) {
            let (command, limit) = (command.display(), running.started.elapsed());
            return Err(Some(GuestError::Hang { command, limit, console: link.console().tail(TAIL) }));
        }
        match link.next(left.map_or(GLANCE, |left| left.min(GLANCE))) {
            Some(Event::Closed) => return Err(None),
            Some(event) => {
                running.take(event, lines)?;
            }
            None => {}
        }
    }
}

/// Whether a guest whose console says that a CPU gets nowhere is lost. One on a busy host says so, too, and
/// goes on later: it has some time to answer.
fn is_stuck(link: &Link, lines: &mut Lines, running: &mut Running<'_>) -> bool {
    let timeout = 3 * running.answer_limit;
    ask(link, lines, running, "ping\n", "pong", timeout).is_none() && running.result().is_none()
}

/// Asks the guest's warden, and gives the lines of its answer before the last one; none if it did not come.
fn ask(
    link: &Link,
    lines: &mut Lines,
    running: &mut Running<'_>,
    question: &str,
    last: &str,
    limit: Duration,
) -> Option<Vec<String>> {
    let mut port = link.warden();
    port.write_all(question.as_bytes()).ok()?;
    let deadline = Instant::now() + limit;
    let (mut pending, mut answers) = (Lines::default(), Vec::new());
    loop {
        match link.next(deadline.saturating_duration_since(Instant::now()))? {
            Event::Data(Port::Warden, bytes) => {
                for line in pending.push(&bytes).ok()? {
                    if line == last {
                        return Some(answers);
                    }
                    answers.push(line);
                }
            }
            Event::Closed => return None,
            event => running.take(event, lines).ok()?,
        }
    }
}

/// Finds out whether the guest is alive when a command's time is up, and ends the command if so.
fn overdue(link: &Link, lines: &mut Lines, running: &mut Running<'_>, command: &GuestCommand) -> GuestError {
    let limit = command.timeout.unwrap_or_default();
    let answer_limit = running.answer_limit;
    let mut ask = |question, last| ask(link, lines, running, question, last, answer_limit);
    if ask("ping\n", "pong").is_none() {
        let console = link.console().tail(TAIL);
        return GuestError::Hang { command: command.display(), limit, console };
    }
    let state = ask("state\n", ".").unwrap_or_default().join("; ");
    let asked = ask("kill\n", "killed").is_some();
    let deadline = Instant::now() + answer_limit;
    while asked && running.result().is_none() {
        match link.next(deadline.saturating_duration_since(Instant::now())) {
            None | Some(Event::Closed) => break,
            Some(event) => {
                if running.take(event, lines).is_err() {
                    break;
                }
            }
        }
    }
    let killed = running.result().is_some();
    GuestError::CommandTimeout { command: command.display(), limit, killed, state }
}

impl Running<'_> {
    fn take(&mut self, event: Event, lines: &mut Lines) -> Result<(), GuestError> {
        let Event::Data(port, bytes) = event else { return Ok(()) };
        match port {
            Port::Output => {
                let content = self.output.push(&bytes);
                if !content.is_empty() {
                    (self.sink)(Stream::Stdout, &content);
                }
            }
            Port::Error => {
                let content = self.error.push(&bytes);
                if !content.is_empty() {
                    (self.sink)(Stream::Stderr, &content);
                }
            }
            Port::Command => {
                for line in lines.push(&bytes)? {
                    if let GuestMessage::Done { nonce, status } = GuestMessage::parse(&line)?
                        && nonce == self.nonce
                    {
                        self.status = Some(status);
                    }
                }
            }
            Port::Input | Port::Warden => {}
        }
        Ok(())
    }

    /// The status, once all output has come too.
    fn result(&self) -> Option<i32> {
        self.status.filter(|_| self.output.is_complete() && self.error.is_complete())
    }
}

/// A number that a program in the guest cannot foresee.
fn nonce() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(0)
}

/// The folder and the last name of a path in the guest.
fn split(guest: &str) -> Result<(&str, &str), GuestError> {
    let path = guest.trim_end_matches('/');
    let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
    if name.is_empty() || name == "." || name == ".." || guest.contains('\0') {
        return Err(GuestError::Options(format!("{guest:?} does not name a file or folder of the guest")));
    }
    let folder = if folder.is_empty() { "/" } else { folder };
    Ok((folder, name))
}

/// Turns a failed command into an error about the file that it was for.
fn done(output: &GuestOutput, stderr: &[u8], action: &'static str, path: &str) -> Result<(), GuestError> {
    if output.success() {
        return Ok(());
    }
    let reason = apt::last_lines(stderr);
    Err(GuestError::io(action, Path::new(path))(std::io::Error::other(reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_may_move_between_threads() {
        fn is_send<T: Send>() {}
        is_send::<Guest>();
        is_send::<Builder>();
    }

    #[test]
    fn paths_in_the_guest_are_split() {
        assert_eq!(split("/tmp/a").expect("good"), ("/tmp", "a"));
        assert_eq!(split("/a/").expect("good"), ("/", "a"));
        assert_eq!(split("a").expect("good"), (".", "a"));
        for bad in ["", "/", "..", "/tmp/..", "a\0b"] {
            assert!(split(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn no_two_nonces_are_alike() {
        assert_ne!(nonce(), nonce());
    }
}

/// The examples of the crate's README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
