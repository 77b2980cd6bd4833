//! This end: puts the program there, starts its agent for each request, and reads what it answers.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::{Line, RequestLine, VERSION};
use crate::address::Address;
use crate::command::Command;
use crate::error::{Result, TargetError};
use crate::lock::Lock;
use crate::session::{Done, Session};
use crate::target::{Sink, Stream};

/// What is kept of what the agent says on standard error.
const KEPT: usize = 4096;

/// What may stand before the agent's first line: a login shell may greet.
const GREETING: usize = 64 << 10;

/// What the answer to a [`Question`] may have in a line, if it says nothing else.
const LONGEST: usize = 64 << 20;

/// A machine with this program on it.
pub struct Agent {
    session: Session,
    program: String,
    incidents: Vec<String>,
    _lock: Option<Lock>,
}

/// What is asked, and how long that may take.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Which of the agent's services.
    pub ask: &'a str,
    /// The agent is killed when it takes longer.
    pub limit: Duration,
    /// Whether it stops when nobody listens any more: for what takes long, and can be gone on with.
    pub alive: bool,
    /// The folder on that machine that it works in; its process list tells of it.
    pub folder: Option<&'a str>,
    /// The longest line that is taken from it, in bytes.
    pub longest_line: usize,
}

impl<'a> Question<'a> {
    #[must_use]
    pub fn new(ask: &'a str, limit: Duration) -> Self {
        Question { ask, limit, alive: false, folder: None, longest_line: LONGEST }
    }
}

impl Agent {
    /// Connects, takes the machine's lock, and puts the program there.
    pub fn reach(address: &Address, program: &Path) -> Result<Self> {
        let mut session = Session::open(address)?;
        let lock = session.lock()?;
        Ok(Agent { _lock: Some(lock), ..Self::on(session, program)? })
    }

    /// The same on a session of which the caller has the lock.
    pub fn on(mut session: Session, program: &Path) -> Result<Self> {
        // This machine can start it where it is.
        let here = program.to_str().filter(|_| session.address() == Address::Local && program.is_absolute());
        let program = match here {
            Some(path) => path.to_owned(),
            None => session.push(program)?,
        };
        Ok(Agent { session, program, incidents: Vec::new(), _lock: None })
    }

    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The machine, to be used without the agent.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// What the machine's kernel reported while it was last asked, as far as its console is heard.
    pub fn incidents(&mut self) -> Vec<String> {
        std::mem::take(&mut self.incidents)
    }

    pub fn program(&self) -> &Path {
        Path::new(&self.program)
    }

    /// Runs a command line of the program there, without the agent: its output is for people.
    pub fn run(&mut self, args: &[String], sink: &mut Sink<'_>) -> Result<Done> {
        let command = self.command().args(args.iter().cloned());
        self.session.run(&command, sink)
    }

    fn command(&self) -> Command {
        // The machine's configuration of `handoff` is for who sits there, and not for us.
        let command = Command::new(self.program.clone()).env("HANDOFF_CONFIG", "");
        match self.session.address() {
            // A device's shell has no home that can be written to.
            Address::Adb { .. } => command.env("XDG_STATE_HOME", format!("{}/state", self.session.folder())),
            _ => command,
        }
    }

    /// Asks, and gives the answer.
    ///
    /// # Errors
    ///
    /// As [`Session::run`]; [`TargetError::NotStarted`], [`TargetError::Killed`] and [`TargetError::NoAnswer`] if
    /// there is none, [`TargetError::Garbage`] and [`TargetError::Version`] if it cannot be used, and
    /// [`TargetError::Failed`] if the agent says so.
    pub fn ask<D: DeserializeOwned>(&mut self, question: &Question<'_>, with: &impl Serialize) -> Result<D> {
        self.ask_telling(question, with, &mut |_: IgnoredAny| {})
    }

    /// [`Agent::ask`] with what happens meanwhile.
    pub fn ask_telling<E: DeserializeOwned, D: DeserializeOwned>(
        &mut self,
        question: &Question<'_>,
        with: &impl Serialize,
        event: &mut dyn FnMut(E),
    ) -> Result<D> {
        let request =
            RequestLine { agent: VERSION, ask: question.ask.to_owned(), alive: question.alive, with };
        let mut text = serde_json::to_vec(&request)
            .map_err(|error| TargetError::io(format!("write the request {}", question.ask), error))?;
        text.push(b'\n');
        let command = self.command().args(["agent"]).args(question.folder).deadline(question.limit);
        let mut answer = AnswerReader::new(question.longest_line, event);
        let done = self.session.run_fed(&command, &text, &mut |stream, bytes| answer.take(stream, bytes));
        let (end, said) = (answer.end, printable(&String::from_utf8_lossy(&answer.said)));
        self.incidents = done.as_ref().map_or_else(|_| Vec::new(), |done| done.incidents.clone());
        let target = self.session.address().to_string();
        match end {
            // What is whole is taken, even if the link was lost behind it.
            Some(End::Done(done)) => return Ok(done),
            Some(End::Failed(why)) => return Err(TargetError::Failed { target, why: printable(&why) }),
            Some(End::Garbage(what)) => return Err(TargetError::Garbage { target, what: printable(&what) }),
            Some(End::Version(has)) => {
                return Err(TargetError::Version { target, has: printable(&has), wants: VERSION });
            }
            None => {}
        }
        match done?.status {
            126 | 127 => Err(TargetError::NotStarted { target, said }),
            status if status > 128 => Err(TargetError::Killed { target, status, said }),
            status => Err(TargetError::NoAnswer { target, status, said }),
        }
    }
}

/// What another machine says, without what would move a terminal's cursor or change its colours.
fn printable(text: &str) -> String {
    let plain = |c: char| if c.is_control() && c != '\n' { ' ' } else { c };
    text.trim().chars().map(plain).collect()
}

enum End<D> {
    Done(D),
    Failed(String),
    Garbage(String),
    Version(String),
}

/// Reads an answer as it comes.
struct AnswerReader<'a, E, D> {
    longest: usize,
    event: &'a mut dyn FnMut(E),
    /// The agent has said who it is; until then a shell may speak.
    greeted: bool,
    skipped: usize,
    /// The beginning of a line.
    rest: Vec<u8>,
    said: Vec<u8>,
    end: Option<End<D>>,
}

impl<'a, E: DeserializeOwned, D: DeserializeOwned> AnswerReader<'a, E, D> {
    fn new(longest: usize, event: &'a mut dyn FnMut(E)) -> Self {
        AnswerReader {
            longest,
            event,
            greeted: false,
            skipped: 0,
            rest: Vec::new(),
            said: Vec::new(),
            end: None,
        }
    }

    fn take(&mut self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Stderr {
            self.said.extend_from_slice(bytes);
            let extra = self.said.len().saturating_sub(KEPT);
            self.said.drain(..extra);
            return;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.end.is_some() {
                return;
            }
            let longest = if self.greeted { self.longest } else { GREETING };
            if self.rest.len() + piece.len() > longest {
                self.rest = Vec::new();
                self.end = Some(End::Garbage(format!("a line of more than {longest} bytes")));
                return;
            }
            self.rest.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.rest);
                self.end = self.line(&line);
            }
        }
    }

    fn line(&mut self, line: &[u8]) -> Option<End<D>> {
        match serde_json::from_slice(line) {
            Ok(Line::Agent { version: VERSION, .. }) => self.greeted = true,
            Ok(Line::Agent { version, program }) => {
                return Some(End::Version(format!("{version} (handoff {program})")));
            }
            Err(error) if self.greeted => return Some(End::Garbage(error.to_string())),
            Ok(_) | Err(_) if !self.greeted => {
                self.skipped += line.len();
                if self.skipped > GREETING {
                    return Some(End::Garbage("much text, and no agent's first line".to_owned()));
                }
            }
            Ok(Line::Event(event)) => (self.event)(event),
            Ok(Line::Done(done)) => return Some(End::Done(done)),
            Ok(Line::Failed(why)) => return Some(End::Failed(why)),
            Ok(Line::Alive(_)) | Err(_) => {}
        }
        None
    }
}
