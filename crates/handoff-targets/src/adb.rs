//! An Android device behind the adb server, by the server's own protocol (`SERVICES.TXT`, `OVERVIEW.TXT`
//! and `shell_protocol.h` of adb): requests are four hexadecimal digits of length and a service's name; the
//! service `shell,v2,raw:` frames output, input and the exit status.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::error::{Result, TargetError};
use crate::target::{Sink, Stream, Target};

/// Where the server listens unless `ANDROID_ADB_SERVER_PORT` says another port.
const PORT: u16 = 5037;

/// Frames of the shell protocol.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const EXIT: u8 = 3;
const CLOSE_STDIN: u8 = 4;

/// How long the server may take to connect us to a device.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// No frame is longer: adb's own limit is 1 MiB.
const LONGEST: u32 = 4 << 20;

/// The serial numbers of the devices that the server has; none if there is no server.
pub(crate) fn devices() -> Vec<String> {
    let ask_server = || -> Option<String> {
        let port = std::env::var("ANDROID_ADB_SERVER_PORT").map_or(Some(PORT), |text| text.parse().ok())?;
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        ask(&mut stream, "host:devices").ok()?.ok()?;
        let mut text = String::new();
        Read::take(stream, 64 << 10).read_to_string(&mut text).ok()?;
        // Four digits of length come first.
        Some(text.get(4..)?.to_owned())
    };
    let list = ask_server().unwrap_or_default();
    let ready = list.lines().filter_map(|line| line.split_once('\t')).filter(|(_, state)| *state == "device");
    ready.map(|(serial, _)| serial.to_owned()).collect()
}

#[derive(Debug)]
pub(crate) struct Adb {
    serial: String,
    port: u16,
}

impl Adb {
    pub(crate) fn new(serial: &str) -> Result<Self> {
        let port = match std::env::var("ANDROID_ADB_SERVER_PORT") {
            Err(_) => PORT,
            Ok(text) => text.parse().map_err(|_| TargetError::Address {
                text: text.clone(),
                why: "ANDROID_ADB_SERVER_PORT is no port".to_owned(),
            })?,
        };
        Ok(Adb::at(serial, port))
    }

    pub(crate) fn at(serial: &str, port: u16) -> Self {
        Adb { serial: serial.to_owned(), port }
    }

    fn lost(&self, error: &io::Error) -> TargetError {
        TargetError::Lost { target: self.address().to_string(), why: error.to_string() }
    }

    /// A connection to a service of the device.
    fn service(&self, name: &str) -> Result<TcpStream> {
        let target = self.address().to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(|error| {
            let why = format!(
                "the adb server does not answer on port {}: {error}; `adb start-server` starts it",
                self.port
            );
            TargetError::Unreachable { target: target.clone(), why }
        })?;
        stream
            .set_read_timeout(Some(LONGEST_WAIT))
            .map_err(|error| TargetError::io("set a time-out", error))?;
        for request in [format!("host:transport:{}", self.serial), name.to_owned()] {
            ask(&mut stream, &request)
                .map_err(|error| match error.kind() {
                    io::ErrorKind::InvalidData => self.garbage(&error),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        let why = format!(
                            "the adb server says nothing for {LONGEST_WAIT:?}; `adb reconnect` may wake it"
                        );
                        TargetError::Unreachable { target: target.clone(), why }
                    }
                    _ => self.lost(&error),
                })?
                .map_err(|why| TargetError::Unreachable { target: target.clone(), why })?;
        }
        Ok(stream)
    }

    fn garbage(&self, error: &io::Error) -> TargetError {
        TargetError::Garbage { target: self.address().to_string(), what: error.to_string() }
    }
}

/// Sends a request; the inner error is what the server says against it.
fn ask(stream: &mut TcpStream, request: &str) -> io::Result<Result<(), String>> {
    if request.len() > 0xffff {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the request is longer than 65535 bytes"));
    }
    write!(stream, "{:04x}{request}", request.len())?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer)?;
    match &answer {
        b"OKAY" => Ok(Ok(())),
        b"FAIL" => {
            let mut length = [0; 4];
            stream.read_exact(&mut length)?;
            let length =
                std::str::from_utf8(&length).ok().and_then(|hex| usize::from_str_radix(hex, 16).ok());
            let mut text = vec![0; length.ok_or_else(|| garbage("a length that is no number"))?];
            stream.read_exact(&mut text)?;
            Ok(Err(String::from_utf8_lossy(&text).into_owned()))
        }
        _ => Err(garbage("neither OKAY nor FAIL")),
    }
}

fn garbage(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the adb server sends {what}"))
}

/// Sends standard input in frames, and its end.
fn feed(mut stream: &TcpStream, input: Option<&mut File>) -> io::Result<()> {
    let mut frame = |kind: u8, bytes: &[u8]| -> io::Result<()> {
        stream.write_all(&[kind])?;
        stream.write_all(&u32::try_from(bytes.len()).unwrap_or(0).to_le_bytes())?;
        stream.write_all(bytes)
    };
    if let Some(file) = input {
        let mut bytes = vec![0; 32 << 10];
        loop {
            match file.read(&mut bytes)? {
                0 => break,
                count => frame(STDIN, &bytes[..count])?,
            }
        }
    }
    frame(CLOSE_STDIN, &[])
}

/// Reads as much as there is room for until `end`, however slowly it comes.
fn fill(stream: &mut TcpStream, room: &mut [u8], end: Option<Instant>) -> io::Result<()> {
    let mut read = 0;
    while read < room.len() {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(left)?;
        match stream.read(&mut room[read..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads frames until the exit status, or until `end`.
fn drain(stream: &mut TcpStream, end: Option<Instant>, sink: &mut Sink<'_>) -> io::Result<i32> {
    loop {
        let mut head = [0; 5];
        fill(stream, &mut head, end)?;
        let [kind, length @ ..] = head;
        let length = u32::from_le_bytes(length);
        if length > LONGEST {
            return Err(garbage("a frame of more than 4 MiB"));
        }
        let mut bytes = vec![0; length as usize];
        fill(stream, &mut bytes, end)?;
        match (kind, bytes.as_slice()) {
            (STDOUT, bytes) => sink(Stream::Stdout, bytes),
            (STDERR, bytes) => sink(Stream::Stderr, bytes),
            (EXIT, [status, ..]) => return Ok((*status).into()),
            (EXIT, []) => return Err(garbage("an exit without a status")),
            _ => return Err(garbage("a frame of an unknown kind")),
        }
    }
}

impl Target for Adb {
    fn address(&self) -> Address {
        Address::Adb { serial: self.serial.clone() }
    }

    fn shell(
        &mut self,
        script: &str,
        input: Option<&mut File>,
        limit: Option<Duration>,
        sink: &mut Sink<'_>,
    ) -> Result<i32> {
        let mut stream = self.service(&format!("shell,v2,raw:{script}"))?;
        let writer = stream.try_clone().map_err(|error| TargetError::io("use a socket twice", error))?;
        let start = Instant::now();
        // The device kills the command itself; we do not wait for that.
        let end = limit.and_then(|limit| start.checked_add(limit));
        let result = thread::scope(|scope| {
            // A command may print before it has read all of its input.
            let feeding = scope.spawn(|| feed(&writer, input));
            let status = drain(&mut stream, end, sink);
            drop(writer.shutdown(Shutdown::Both));
            // A command that does not want its input closes it.
            drop(feeding.join());
            status
        });
        let late = limit.filter(|limit| start.elapsed() >= *limit);
        match result {
            Ok(status) => Ok(status),
            Err(error) => match (late, error.kind()) {
                (Some(limit), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    Err(TargetError::Deadline { target: self.address().to_string(), limit })
                }
                (_, io::ErrorKind::InvalidData) => Err(self.garbage(&error)),
                _ => Err(self.lost(&error)),
            },
        }
    }
}

#[cfg(test)]
#[path = "adb_tests.rs"]
mod tests;
