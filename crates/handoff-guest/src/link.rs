//! The host's ends of a guest's console and ports.

use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::GuestError;
use super::console::ConsoleLog;
use super::process::Process;
use super::protocol::Port;

/// Pieces of output that may wait for whoever reads them; the guest's writers wait beyond that.
const QUEUE: usize = 64;
/// Pause between two looks for a connection.
const PAUSE: Duration = Duration::from_millis(10);

/// Is called with each line of the console.
pub(crate) type ConsoleWatcher = Box<dyn FnMut(&str) + Send>;

/// What came from the guest.
#[derive(Debug)]
pub(crate) enum Event {
    Data(Port, Vec<u8>),
    /// The console and all ports are closed and nothing more will come: QEMU has ended.
    Closed,
}

/// The connected ends of all ports.
#[derive(Debug)]
pub(crate) struct Link {
    events: Receiver<Event>,
    command: UnixStream,
    input: UnixStream,
    warden: UnixStream,
    console: Arc<Mutex<ConsoleLog>>,
}

/// The places where QEMU will connect to.
pub(crate) struct Listening {
    console: UnixListener,
    ports: Vec<(Port, UnixListener)>,
}

impl Listening {
    /// Listens on a socket for the console and each port in this folder.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self, GuestError> {
        let listen = |name: &str| {
            let path = folder.join(name);
            let listener = UnixListener::bind(&path).map_err(GuestError::io("listen on", &path))?;
            listener.set_nonblocking(true).map_err(GuestError::io("set up", &path))?;
            Ok(listener)
        };
        let ports = Port::ALL.map(|port| Ok((port, listen(port.name())?)));
        Ok(Self { console: listen("console")?, ports: ports.into_iter().collect::<Result<_, GuestError>>()? })
    }

    /// Waits until QEMU has connected to all of them; `None` if it ended or the time is up.
    pub(crate) fn accept(
        self,
        process: &Process,
        deadline: Instant,
        watcher: Option<ConsoleWatcher>,
    ) -> Result<Option<Link>, GuestError> {
        let Some(console_stream) = accept(&self.console, process, deadline)? else { return Ok(None) };
        let console = Arc::new(Mutex::new(ConsoleLog::new()));
        let log = Arc::clone(&console);
        let (sender, events) = sync_channel(QUEUE);
        // Once the ports' end is told, the console's last words are there too.
        let until_read = sender.clone();
        start("guest-console", move || {
            read_console(console_stream, &log, watcher);
            drop(until_read);
        })?;
        let mut streams = Vec::new();
        for (port, listener) in &self.ports {
            let Some(stream) = accept(listener, process, deadline)? else { return Ok(None) };
            let reading = stream.try_clone().map_err(GuestError::io("share", Path::new(port.name())))?;
            streams.push(stream);
            if *port != Port::Input {
                let (port, sender) = (*port, sender.clone());
                start("guest-port", move || read_port(port, reading, &sender))?;
            }
        }
        let [command, input, _, _, warden] = <[UnixStream; 5]>::try_from(streams)
            .map_err(|_| GuestError::Protocol("not all ports are there".to_owned()))?;
        Ok(Some(Link { events, command, input, warden, console }))
    }
}

impl Link {
    /// The next event; `None` when the time is up.
    pub(crate) fn next(&self, limit: Duration) -> Option<Event> {
        match self.events.recv_timeout(limit) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Event::Closed),
        }
    }

    pub(crate) fn command(&self) -> &UnixStream {
        &self.command
    }

    pub(crate) fn input(&self) -> &UnixStream {
        &self.input
    }

    pub(crate) fn warden(&self) -> &UnixStream {
        &self.warden
    }

    pub(crate) fn console(&self) -> MutexGuard<'_, ConsoleLog> {
        self.console.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), GuestError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map(drop)
        .map_err(GuestError::io("start a thread for", Path::new(name)))
}

fn accept(
    listener: &UnixListener,
    process: &Process,
    deadline: Instant,
) -> Result<Option<UnixStream>, GuestError> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(GuestError::io("set up", Path::new("a port")))?;
                return Ok(Some(stream));
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(GuestError::io("accept", Path::new("a port"))(error)),
        }
        if process.status().is_some() || Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Ends when QEMU closes the socket, which it does at its end at the latest.
fn read_console(mut stream: UnixStream, log: &Mutex<ConsoleLog>, mut watcher: Option<ConsoleWatcher>) {
    let mut buffer = [0; 16 * 1024];
    let mut tell = |lines: Vec<String>| {
        if let Some(watcher) = &mut watcher {
            lines.iter().for_each(|line| watcher(line));
        }
    };
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        let lines = log.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..count]);
        tell(lines);
    }
    let last = log.lock().unwrap_or_else(PoisonError::into_inner).finish();
    tell(last.into_iter().collect());
}

/// Ends when QEMU closes the socket or nobody receives any more. What the others have read may still be on its way
/// then, so only the last one's end is the end of all.
fn read_port(port: Port, mut stream: UnixStream, events: &SyncSender<Event>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        if events.send(Event::Data(port, buffer[..count].to_vec())).is_err() {
            return;
        }
    }
}
