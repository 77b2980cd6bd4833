//! How foreground changes reach the daemon: one line a connection, over a Unix socket.
//!
//! `foreground PID on|off`, `service PID NAME` and `status` are answered with `ok ...` or `error ...`.
//! The kernel says who asks: root and the daemon's own user may speak for any process, others only for
//! their own.
//!
//! Each connection has a thread, which alone waits for the peer: for its line, for it to read the answer,
//! and for closes. What a peer sends may be a descriptor whose close blocks as long as the peer likes. A
//! thread holds a permit of the peer's user until all of that is over; a user has a share of the permits.
//! Connections beyond that are closed by the thread that accepts, which cuts short what waits.

use super::permits::{Permit, Permits, RateLimit, is_trusted};
use super::request::Request;
use handoff_placement::process::ProcessKey;
use handoff_placement::{Error, PromptClose};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of the longest request.
const LONGEST: usize = handoff_placement::notice::LONGEST_LINE;

/// Connections at once. A quarter of the descriptors that the daemon may have, where that is less.
const MOST: usize = 128;

/// How long a peer may take to say its line, and again to read its answer.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Requests of one user: so many at once, then 32 a second.
const RATE: RateLimit = RateLimit::new(64, Duration::from_millis(31));

/// Requests that the daemon takes before it looks at its other work.
const A_TURN: usize = 16;

/// How long nobody is accepted when there is no descriptor or thread left to do it with.
const PAUSE: Duration = Duration::from_millis(20);

/// What is asked, by whom, and where the answer is waited for.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) request: Request,
    /// The process that it speaks for, as it was found when the asker was looked at.
    about: Option<ProcessKey>,
    pub(super) uid: u32,
    answer: SyncSender<Result<String, String>>,
}

impl PendingRequest {
    /// An error if the process that it speaks for has ended: another one may have its number now.
    pub(super) fn check_process(&self) -> Result<(), String> {
        match self.about.filter(|about| !about.is_alive()) {
            Some(about) => Err(Error::NoSuchThread(about.pid).to_string()),
            None => Ok(()),
        }
    }

    pub(super) fn answer(self, said: Result<String, String>) {
        // The thread that asked may have ended; it has nobody to tell then.
        let _ = self.answer.try_send(said);
    }
}

/// The socket, and what was asked over it.
#[derive(Debug)]
pub(super) struct Server {
    path: PathBuf,
    listener: Arc<UnixListener>,
    asked: Receiver<PendingRequest>,
    /// Counts what was asked.
    bell: Arc<OwnedFd>,
}

impl Server {
    /// Listens in a folder. Whoever holds the journal's lock may take the place of a dead socket.
    pub(super) fn listen(path: PathBuf) -> io::Result<Self> {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = Arc::new(UnixListener::bind(&path)?);
        // Any user may speak for processes of his own.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
        let flags = EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let bell = Arc::new(eventfd(0, flags)?);
        let may_open = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok());
        let most = may_open.map_or(MOST, |most| MOST.min(most / 4));
        let (desk, asked) = sync_channel(most);
        let door = Door { permits: Permits::new(most, RATE), desk, bell: bell.clone() };
        let listens = listener.clone();
        thread::Builder::new().name("policy-accept".to_owned()).spawn(move || door.accept(&listens))?;
        Ok(Self { path, listener, asked, bell })
    }

    /// What was asked, a turn's worth of it.
    pub(super) fn requests(&self) -> impl Iterator<Item = PendingRequest> {
        let rung = || rustix::io::read(&self.bell, &mut [0; 8]).is_ok();
        (0..A_TURN).map_while(move |_| rung().then(|| self.asked.recv().ok()).flatten())
    }
}

impl AsFd for Server {
    /// Readable while something was asked.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // The thread that accepts is told that nobody will come. It is not waited for: it may wait for a peer.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
    }
}

/// What those who accept and those who talk with peers need.
#[derive(Debug, Clone)]
struct Door {
    permits: Arc<Permits>,
    desk: SyncSender<PendingRequest>,
    bell: Arc<OwnedFd>,
}

impl Door {
    /// Accepts until the socket is shut down.
    fn accept(&self, listener: &UnixListener) {
        // Without it, a refused connection keeps the next one waiting as long as what is in its queue likes.
        let mut prompt = PromptClose::new().ok();
        loop {
            match listener.accept() {
                Ok((stream, _)) => self.admit(stream, prompt.as_mut()),
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INVAL) => return,
                    Some(Errno::INTR | Errno::CONNABORTED) => {}
                    // No descriptor is left: the peer stays in the queue, and accepting at once would spin.
                    _ => thread::sleep(PAUSE),
                },
            }
        }
    }

    fn admit(&self, stream: UnixStream, prompt: Option<&mut PromptClose>) {
        let Ok(peer) = socket_peercred(&stream) else { return };
        let uid = peer.uid.as_raw();
        let Some(permit) = self.permits.take(uid) else { return refuse(stream, uid, prompt) };
        let door = self.clone();
        on_a_thread(stream, permit, move |stream, permit| door.converse(stream, permit));
    }

    /// Hears one line, has it obeyed, and answers.
    fn converse(&self, stream: &UnixStream, permit: &Permit) {
        let Some(said) = hear(stream) else { return };
        let request = said.and_then(|line| Request::parse(&line));
        match request.and_then(|request| may_ask(permit.uid, &request).map(|about| (request, about))) {
            Ok((request, about)) => {
                thread::sleep(permit.wait());
                let (back, said) = sync_channel(1);
                // There is room for each permit; without a receiver the daemon has ended.
                if self.desk.send(PendingRequest { request, about, uid: permit.uid, answer: back }).is_err() {
                    return;
                }
                let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
                if let Ok(said) = said.recv() {
                    answer(stream, said.as_deref().map_err(String::as_str));
                }
            }
            Err(reason) => answer(stream, Err(&reason)),
        }
    }
}

/// Says why, and hangs up.
fn refuse(stream: UnixStream, uid: u32, prompt: Option<&mut PromptClose>) {
    let why = format!("user {uid} has as many connections here as it may have: try again later");
    answer(&stream, Err(&why));
    match prompt {
        Some(prompt) => prompt.during(|| drop(stream)),
        None => drop(stream),
    }
}

/// Does something with a connection and closes it on a thread of its own, which holds the permit until then.
fn on_a_thread(stream: UnixStream, permit: Permit, what: impl FnOnce(&UnixStream, &Permit) + Send + 'static) {
    let thread = thread::Builder::new().name("policy-peer".to_owned()).stack_size(256 << 10);
    let spawned = thread.spawn(move || {
        what(&stream, &permit);
        drop(stream);
        drop(permit);
    });
    if spawned.is_err() {
        thread::sleep(PAUSE);
    }
}

/// The line that a peer says; `None` if it says none in time.
fn hear(mut stream: &UnixStream) -> Option<Result<String, String>> {
    let until = Instant::now() + LONGEST_WAIT;
    let mut line = Vec::new();
    // More than a line, so that one that is too long is read before it is answered.
    let mut buffer = [0; 4 * LONGEST];
    loop {
        stream.set_read_timeout(Some(left(until)?)).ok()?;
        match stream.read(&mut buffer) {
            Ok(0) => return Some(Err("the line ended early".to_owned())),
            Ok(length) => line.extend(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
        match line.iter().position(|&byte| byte == b'\n') {
            Some(end) if end <= LONGEST => {
                return Some(Ok(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            None if line.len() <= LONGEST => {}
            _ => return Some(Err("the line is too long".to_owned())),
        }
    }
}

/// Answers. A peer that does not read it in time is no worry of ours.
fn answer(mut stream: &UnixStream, result: Result<&str, &str>) {
    let (word, rest) = match result {
        Ok(text) => ("ok", text),
        Err(reason) => ("error", reason),
    };
    let text = format!("{word} {}\n", rest.replace('\n', " "));
    let (mut unsent, until) = (text.as_bytes(), Instant::now() + LONGEST_WAIT);
    while let (false, Some(left)) = (unsent.is_empty(), left(until)) {
        if stream.set_write_timeout(Some(left)).is_err() {
            return;
        }
        match stream.write(unsent) {
            Ok(length) => unsent = &unsent[length..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn left(until: Instant) -> Option<Duration> {
    until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
}

/// Gives the process that is spoken for. Who asks often waits for his turn: until then the process may have ended, and
/// another user's have its number.
fn may_ask(uid: u32, request: &Request) -> Result<Option<ProcessKey>, String> {
    let Some(pid) = request.pid() else { return Ok(None) };
    let about = ProcessKey::of(pid).map_err(|error| error.to_string())?;
    let owner = fs::metadata(Path::new("/proc").join(pid.to_string())).map(|process| process.uid());
    // Last: if it lives now, it was no other that was looked at.
    let is_its = owner.is_ok_and(|owner| owner == uid) && about.is_alive();
    if is_its || is_trusted(uid) {
        return Ok(Some(about));
    }
    Err(format!("user {uid} may not speak for process {pid}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_placement::Tid;
    use rustix::process::geteuid;

    #[test]
    fn a_request_is_about_the_process_that_its_asker_had_and_no_later_one() {
        let own = ProcessKey::of(Tid::new(std::process::id() as i32).unwrap()).unwrap();
        let request = Request::Foreground { pid: own.pid, on: true };
        let user = geteuid().as_raw();
        assert_eq!(may_ask(user, &request), Ok(Some(own)));
        assert!(may_ask(user.wrapping_add(1000), &request).is_err() || is_trusted(user.wrapping_add(1000)));
        let (answer, _said) = sync_channel(1);
        let mut asked = PendingRequest { request, about: Some(own), uid: user, answer };
        assert_eq!(asked.check_process(), Ok(()));
        // Its number is another process's now.
        asked.about = Some(ProcessKey { start: own.start.wrapping_sub(1), ..own });
        assert!(asked.check_process().is_err());
    }

    #[test]
    fn long_and_broken_lines_are_answered_and_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let server = Server::listen(path.clone()).unwrap();
        let say = |bytes: &[u8]| {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        };
        let heard = |mut stream: UnixStream| {
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            said
        };
        let silent = say(b"stat");
        assert_eq!(heard(say(&[b'x'; LONGEST + 10])), "error the line is too long\n");
        let good = say(b"status\n");
        let asked = std::iter::repeat_with(|| server.requests().next()).flatten().next().unwrap();
        assert_eq!(asked.request, Request::Status);
        // More than fits into the socket at once.
        let long = "x".repeat(1 << 20);
        asked.answer(Ok(long.clone()));
        assert_eq!(heard(good), format!("ok {long}\n"));
        (&silent).write_all(b"us\n").unwrap();
        let asked = std::iter::repeat_with(|| server.requests().next()).flatten().next().unwrap();
        drop(asked);
        assert_eq!(heard(silent), "", "the daemon ended before it answered");
        drop(server);
        assert!(!path.exists() && UnixStream::connect(&path).is_err());
    }
}
