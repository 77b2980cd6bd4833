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

use serde::{Deserialize, Serialize};

pub use client::{Agent, Question};
pub use server::{Reply, Teller, serve};

/// The version of the lines, and of what is in them: both sides must have the same.
pub const VERSION: u32 = 1;

/// What an agent is asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request<W = serde_json::Value> {
    /// [`VERSION`] of who asks.
    agent: u32,
    /// Which of the agent's services.
    pub ask: String,
    /// Whether it says every second that it is still there, and stops when nobody listens.
    alive: bool,
    /// What the service needs.
    pub with: W,
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
