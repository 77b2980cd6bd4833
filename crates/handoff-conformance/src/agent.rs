//! A process of its own that uses the driver when it is told to: this program, executed once more. It is told in lines
//! of JSON on its standard input, and answers on its standard output.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kernel::{Opened, identity_of};
use crate::seam::{Exchange, FileIdentity, Peer, Process};
use crate::{AgentCommand, Message};

/// What a peer that is gone answers to everything.
const GONE: i32 = libc::ESRCH;
/// How long a peer that does not block may take: long, for an emulated CPU that others use too.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
enum Request {
    Open {
        device: PathBuf,
        blocks: bool,
    },
    /// Takes standard error for an opening of the driver.
    Inherit,
    Exchange {
        of: usize,
        message: Message,
        room: usize,
    },
    Ioctl {
        of: usize,
        request: u32,
        argument: Vec<u8>,
    },
    IoctlAt {
        of: usize,
        request: u32,
        address: u64,
    },
    Map {
        of: usize,
        length: usize,
        is_writable: bool,
    },
    Unmap {
        of: usize,
    },
    MakeWritable {
        of: usize,
    },
    Mapping {
        of: usize,
    },
    Memory {
        of: usize,
        address: u64,
        length: usize,
    },
    IsReadable {
        of: usize,
    },
    File {
        fd: i32,
    },
    OpenFile {
        of: usize,
    },
    Close {
        of: usize,
    },
    SetNice(i32),
    Nice,
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Exchange(Exchange),
    Number(i64),
    Argument(i32, Vec<u8>),
    Memory(Option<Vec<u8>>),
    File(Option<FileIdentity>),
}

/// Does what standard input says, until it ends.
///
/// # Errors
/// If a request cannot be read.
pub fn serve_agent(agent: &AgentCommand) -> std::io::Result<()> {
    let mut opened: Vec<Option<Opened>> = Vec::new();
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let (number, request): (u64, Request) = serde_json::from_str(&line?)?;
        // Nobody waits for the answer.
        if let Request::Close { of } = request {
            opened[of] = None;
            continue;
        }
        let answer = answer(request, &mut opened, agent);
        serde_json::to_writer(&mut out, &(number, answer))?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(request: Request, opened: &mut Vec<Option<Opened>>, agent: &AgentCommand) -> Answer {
    let mut keep = |new: Result<Opened, i32>| match new {
        Ok(new) => {
            opened.push(Some(new));
            Answer::Number(opened.len() as i64 - 1)
        }
        Err(error) => Answer::Number(-i64::from(error)),
    };
    match request {
        Request::Open { device, blocks } => return keep(Opened::open(&device, blocks, agent)),
        Request::Inherit => {
            let file = std::io::stderr().as_fd().try_clone_to_owned();
            return keep(
                file.map(|file| Opened::of(file, agent))
                    .map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)),
            );
        }
        Request::SetNice(nice) => {
            let set = rustix::process::setpriority_process(None, nice);
            return Answer::Number(set.map_or_else(|error| error.raw_os_error().into(), |()| 0));
        }
        Request::Nice => {
            return Answer::Number(rustix::process::getpriority_process(None).map_or(100, i64::from));
        }
        Request::File { fd } => return Answer::File(identity_of(fd)),
        _ => {}
    }
    let process = |of: usize| opened[of].as_ref().expect("the suite uses what it has not closed");
    match request {
        Request::Exchange { of, message, room } => Answer::Exchange(process(of).exchange(&message, room)),
        Request::Ioctl { of, request, mut argument } => {
            let errno = process(of).ioctl(request, &mut argument);
            Answer::Argument(errno, argument)
        }
        Request::IoctlAt { of, request, address } => {
            Answer::Number(process(of).ioctl_at(request, address).into())
        }
        Request::Map { of, length, is_writable } => {
            Answer::Number(process(of).map(length, is_writable).into())
        }
        Request::Unmap { of } => {
            process(of).unmap();
            Answer::Number(0)
        }
        Request::MakeWritable { of } => Answer::Number(process(of).make_writable().into()),
        Request::Mapping { of } => Answer::Number(process(of).mapping() as i64),
        Request::Memory { of, address, length } => Answer::Memory(process(of).memory(address, length)),
        Request::IsReadable { of } => Answer::Number(process(of).is_readable().into()),
        Request::OpenFile { of } => Answer::Number(process(of).open_file().unwrap_or(-1).into()),
        _ => Answer::Number(0),
    }
}

#[derive(Debug)]
struct Channel {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    /// The number of the last request that is answered.
    asked: u64,
}

impl Channel {
    fn send(&mut self, request: &Request) -> std::io::Result<()> {
        if !matches!(request, Request::Close { .. }) {
            self.asked += 1;
        }
        serde_json::to_writer(&mut self.to, &(self.asked, request))?;
        self.to.write_all(b"\n")
    }

    /// The answer to the last request. One to an earlier request, which was not waited for any longer, is left out.
    fn receive(&mut self, timeout: Duration) -> Option<Answer> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        loop {
            if self.from.buffer().is_empty() {
                let mut fds = [PollFd::new(self.from.get_ref(), PollFlags::IN)];
                if poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready == 0) {
                    return None;
                }
            }
            let mut line = String::new();
            self.from.read_line(&mut line).ok()?;
            let (number, answer): (u64, Answer) = serde_json::from_str(&line).ok()?;
            if number == self.asked {
                return Some(answer);
            }
        }
    }

    fn kill(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The suite's end of such a process.
#[derive(Debug)]
pub(crate) struct Agent {
    channel: Arc<Mutex<Channel>>,
    devices: Vec<PathBuf>,
}

fn lock(channel: &Mutex<Channel>) -> MutexGuard<'_, Channel> {
    channel.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Agent {
    /// Starts one; `inherited` is an opening of the driver that it gets.
    pub(crate) fn start(command: &AgentCommand, inherited: Option<OwnedFd>) -> Result<Self, String> {
        let mut child = Command::new(&command.program)
            .args(&command.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(inherited.map_or_else(Stdio::inherit, Stdio::from))
            .spawn()
            .map_err(|error| format!("cannot execute {}: {error}", command.program.display()))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a process has no pipes".to_owned());
        };
        let channel = Arc::new(Mutex::new(Channel { child, to, from: BufReader::new(from), asked: 0 }));
        Ok(Agent { channel, devices: Vec::new() })
    }

    /// The same, for these devices.
    pub(crate) fn on(self, devices: &[PathBuf]) -> Self {
        Agent { devices: devices.to_vec(), ..self }
    }

    fn ask(&self, request: &Request) -> Option<Answer> {
        let mut channel = lock(&self.channel);
        channel.send(request).ok()?;
        channel.receive(LONGEST_WAIT)
    }

    fn number(&self, request: &Request) -> i64 {
        match self.ask(request) {
            Some(Answer::Number(number)) => number,
            _ => GONE.into(),
        }
    }

    fn opened(&self, request: &Request) -> Result<Box<dyn Process>, i32> {
        match self.ask(request) {
            Some(Answer::Number(of)) if of >= 0 => Ok(Box::new(Remote {
                agent: Agent { channel: Arc::clone(&self.channel), devices: Vec::new() },
                of: of as usize,
            })),
            Some(Answer::Number(error)) => Err(-error as i32),
            _ => Err(GONE),
        }
    }

    /// The opening that it has inherited.
    pub(crate) fn heir(&self) -> Result<Box<dyn Process>, String> {
        self.opened(&Request::Inherit).map_err(|error| format!("a process inherited nothing: error {error}"))
    }
}

impl Peer for Agent {
    fn pid(&self) -> u32 {
        lock(&self.channel).child.id()
    }

    fn open(&self, context: usize, blocks: bool) -> Result<Box<dyn Process>, i32> {
        let device = self.devices.get(context).ok_or(libc::ENODEV)?.clone();
        self.opened(&Request::Open { device, blocks })
    }

    fn set_nice(&self, nice: i32) -> i32 {
        self.number(&Request::SetNice(nice)) as i32
    }

    fn nice(&self) -> i32 {
        self.number(&Request::Nice) as i32
    }

    fn kill(&mut self) {
        lock(&self.channel).kill();
    }
}

/// An opening of another process.
#[derive(Debug)]
struct Remote {
    agent: Agent,
    of: usize,
}

impl Process for Remote {
    fn exchange(&self, message: &Message, room: usize) -> Exchange {
        match self.agent.ask(&Request::Exchange { of: self.of, message: message.clone(), room }) {
            Some(Answer::Exchange(exchange)) => exchange,
            _ => Exchange { errno: GONE, ..Exchange::default() },
        }
    }

    fn ioctl(&self, request: u32, argument: &mut [u8]) -> i32 {
        match self.agent.ask(&Request::Ioctl { of: self.of, request, argument: argument.to_vec() }) {
            Some(Answer::Argument(errno, changed)) if changed.len() == argument.len() => {
                argument.copy_from_slice(&changed);
                errno
            }
            _ => GONE,
        }
    }

    fn ioctl_at(&self, request: u32, address: u64) -> i32 {
        self.agent.number(&Request::IoctlAt { of: self.of, request, address }) as i32
    }

    fn map(&self, length: usize, is_writable: bool) -> i32 {
        self.agent.number(&Request::Map { of: self.of, length, is_writable }) as i32
    }

    fn unmap(&self) {
        self.agent.number(&Request::Unmap { of: self.of });
    }

    fn make_writable(&self) -> i32 {
        self.agent.number(&Request::MakeWritable { of: self.of }) as i32
    }

    fn mapping(&self) -> u64 {
        self.agent.number(&Request::Mapping { of: self.of }) as u64
    }

    fn memory(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        match self.agent.ask(&Request::Memory { of: self.of, address, length })? {
            Answer::Memory(memory) => memory,
            _ => None,
        }
    }

    fn is_readable(&self) -> bool {
        self.agent.number(&Request::IsReadable { of: self.of }) == 1
    }

    fn file(&self, fd: i32) -> Option<FileIdentity> {
        match self.agent.ask(&Request::File { fd })? {
            Answer::File(file) => file,
            _ => None,
        }
    }

    fn open_file(&self) -> Option<i32> {
        Some(self.agent.number(&Request::OpenFile { of: self.of }) as i32).filter(|fd| *fd >= 0)
    }

    fn inherited(&self) -> Result<Box<dyn Process>, String> {
        Err("an opening of another process cannot be inherited from here".to_owned())
    }

    fn start_exchange(&self, message: &Message, room: usize) {
        // One that is gone says so when it is asked for the outcome.
        let request = Request::Exchange { of: self.of, message: message.clone(), room };
        let _ = lock(&self.agent.channel).send(&request);
    }

    fn finish_exchange(&self, timeout: Duration) -> Option<Exchange> {
        match lock(&self.agent.channel).receive(timeout)? {
            Answer::Exchange(exchange) => Some(exchange),
            _ => None,
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // One that blocks or is dead does not hear it, and is killed with its agent.
        let _ = lock(&self.agent.channel).send(&Request::Close { of: self.of });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_is_not_taken_for_the_next_one() {
        // Nobody waits for the first answer any more when the second request is sent.
        let script = r#"read line; echo '[1,{"Number":1}]'; read line; echo '[2,{"Number":2}]'"#;
        let command =
            AgentCommand { program: "sh".into(), arguments: ["-c", script].map(Into::into).to_vec() };
        let agent = Agent::start(&command, None).expect("a shell");
        let mut channel = lock(&agent.channel);
        channel.send(&Request::Nice).expect("sent");
        channel.send(&Request::Nice).expect("sent");
        assert!(matches!(channel.receive(LONGEST_WAIT), Some(Answer::Number(2))));
    }
}
