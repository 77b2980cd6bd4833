//! The agent: this program on a machine, asked in lines of JSON.
//!
//! Whatever the lab, a campaign or a study wants done on a machine is one request to the agent there: `handoff
//! agent` reads it from standard input, and answers on standard output. The same program starts in the same way on
//! this machine, over ssh, over adb and in a guest, because a [`crate::Session`] starts it.
//!
//! A request is a line, and so is each part of the answer:
//!
//! ```text
//! {"agent":1,"ask":"restore","alive":false,"with":null}
//!
//! {"agent":{"version":1,"program":"0.1.0"}}      first: who answers
//! {"alive":7}                                    every second, if the request asks for it
//! {"event":…}                                    what happens meanwhile
//! {"done":…}  or  {"failed":"why"}               last
//! ```
//!
//! The agent keeps nothing between requests; what must survive a lost link is in a folder on its machine, and the
//! same request, asked again, goes on from there. This side believes nothing of an answer: a line has a greatest
//! length, the version is compared, and no path comes from there.

mod client;
mod server;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

pub use client::{Agent, Question};
pub use server::{Reply, Teller, serve};

/// The version of the lines, and of what is in them: both sides must have the same.
pub const VERSION: u32 = 1;

/// What an agent is asked: the line that came, of which only the head was read.
#[derive(Debug)]
pub struct Request {
    /// Which of the agent's services.
    pub ask: String,
    alive: bool,
    line: Vec<u8>,
}

/// A request in its line.
#[derive(Serialize, Deserialize)]
struct RequestLine<W> {
    /// [`VERSION`] of who asks.
    agent: u32,
    ask: String,
    /// Whether the agent says every second that it is still there, and stops when nobody listens.
    alive: bool,
    with: W,
}

impl Request {
    /// Reads the head of a line.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for who asked.
    pub fn read(line: Vec<u8>) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            agent: Option<u64>,
        }
        let no_request = |error| format!("this is no request: {error}");
        let same = "use the same handoff on both sides";
        match serde_json::from_slice::<Version>(&line).map_err(no_request)?.agent {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => {
                return Err(format!(
                    "this agent speaks version {VERSION} and was asked in version {version}: {same}"
                ));
            }
            None => return Err(format!("this is no request, for it has no version: {same}")),
        }
        let RequestLine::<IgnoredAny> { ask, alive, .. } =
            serde_json::from_slice(&line).map_err(no_request)?;
        Ok(Request { ask, alive, line })
    }

    /// What the service needs. It is read as just that: as any JSON a line would take thirty times its length.
    ///
    /// # Errors
    ///
    /// If something else was sent.
    pub fn with<W: DeserializeOwned>(&self) -> serde_json::Result<W> {
        serde_json::from_slice::<RequestLine<W>>(&self.line).map(|asked| asked.with)
    }
}

/// One line of an answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<E, D> {
    Agent { version: u32, program: String },
    Alive(u64),
    Event(E),
    Done(D),
    Failed(String),
}

#[cfg(test)]
mod tests;
